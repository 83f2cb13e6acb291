"""The final predictions of a run: what the net says, kept with it, and none where they would not be true."""

import numpy as np
import pytest
import torch

from conftest import image_data, in_sittings, small_plan
from walkback.data import load
from walkback.records import Environment, Run, RunFolder, evidence_of_runs, find_runs, read_run
from walkback.records.predictions import digest
from walkback.train import Trainer, train
from walkback_paper.sizing import seconds_of


def test_second_implementation_they_are_what_the_trained_net_says(tmp_path):
    (config,) = small_plan(data="digits", rules=["bp"])
    run = train(config, tmp_path)
    content = (run.path / "predictions.npy").read_bytes()
    assert run.result.predictions == digest(content)
    said, labels = np.load(run.path / "predictions.npy")
    test = load("digits").test
    assert labels.tolist() == test.labels.tolist()
    trainer = Trainer(config, load("digits"))
    with RunFolder(tmp_path, config) as folder:
        trainer.restore(*folder.load_checkpoint()[:2])
    with torch.no_grad():
        logits = torch.cat([trainer.net.eval()(x) for x, _ in trainer.test])
    assert said.tolist() == logits.argmax(1).tolist()
    assert (said == labels).mean() == run.result.accuracy
    (seed,) = evidence_of_runs("bp", [run]).seeds
    assert list(seed.hits) == (said == labels).tolist()


def test_property_stopped_and_resumed_they_are_the_same(tmp_path):
    (config,) = small_plan(data="digits", epochs=2)
    whole = train(config, tmp_path / "whole")
    parts, sittings = in_sittings(config, tmp_path / "parts")
    assert sittings > 2
    for name in ("predictions.npy", "result.json"):
        assert (parts.path / name).read_bytes() == (whole.path / name).read_bytes()


def test_planted_killed_before_its_result_a_run_is_read_and_goes_on(tmp_path, monkeypatch):
    """The predictions are there, and no result names them yet."""
    (config,) = small_plan(data="digits", epochs=1)
    write = RunFolder.write

    def killed(self, name, record):
        if name == "result.json":
            raise KeyboardInterrupt
        write(self, name, record)

    with monkeypatch.context() as patched:
        patched.setattr(RunFolder, "write", killed)
        with pytest.raises(KeyboardInterrupt):
            train(config, tmp_path)
    (path,) = find_runs(tmp_path)
    assert (path / "predictions.npy").exists()
    assert read_run(path).result is None
    assert train(config, tmp_path).result.predictions is not None


def test_none_are_kept_that_would_not_be_true(monkeypatch):
    (config,) = small_plan(data="digits", epochs=1)
    trainer = Trainer(config, load("digits"))
    accuracy = trainer.snapshot().accuracy
    assert trainer.predictions(accuracy) is not None
    assert trainer.predictions(accuracy + 1 / 360) is None  # a device that sums otherwise each time
    with torch.no_grad():
        trainer.net.readout[-1].bias.fill_(torch.inf)
    assert trainer.predictions(accuracy) is None  # no class is the largest
    few, many = (Trainer(small_plan(data="digits", net="mlp")[0], image_data(classes=n)) for n in (256, 257))
    assert few.predictions(few.snapshot().accuracy) is not None
    assert many.predictions(many.snapshot().accuracy) is None


def test_a_diverged_run_has_none(tmp_path):
    (config,) = small_plan(data="digits", rules=["bp"], lr=1e30, epochs=2)
    run = train(config, tmp_path)
    assert run.result.status == "diverged"
    assert run.result.predictions is None
    assert not (run.path / "predictions.npy").exists()


def test_a_sitting_counts_the_seconds_of_the_processor(tmp_path):
    (config,) = small_plan(data="digits", epochs=1)
    run = train(config, tmp_path)
    (sitting,) = run.environment.sittings
    assert 0 < sitting.cpu_seconds < 1.2 * sitting.seconds + 0.1  # one thread
    slept = sitting.changed(seconds=1000.0)
    old = slept.changed(cpu_seconds=None)
    for sittings, seconds in (
        ([slept], sitting.cpu_seconds),
        ([slept, old], sitting.cpu_seconds + 1000),
        ([old], 1000),
    ):
        where = Environment(data_fingerprint="f", sittings=sittings)
        assert seconds_of(Run(run.path, run.config, where, run.result)) == pytest.approx(seconds)
