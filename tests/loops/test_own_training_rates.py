"""Loops of somebody's own that take a learning rate: every net at the best of several, by samples that are for it."""

import shutil

import numpy as np
import pytest
import torch
from torch.nn import functional as F

import own_audits
import own_loops as loops
import walkback as wb
from own_audits import records
from walkback.errors import BadValue, RecordError
from walkback.records.loop_training import find_loop_trainings, read_loops
from walkback.records.rates import TRIAL_SEED
from walkback.train.configs import GRID

VALIDATION = [loops.samples(200, 3)]


def train(model, seed, lr=2e-2):
    optimizer = torch.optim.Adam([p for p in model.parameters() if p.requires_grad], lr=lr)
    for x, y in loops.batches(seed):
        optimizer.zero_grad()
        F.cross_entropy(model(x), y).backward()
        optimizer.step()


def audited(out, loop=train, **more):
    said: list[str] = []
    options = {"seeds": 1, "train_bp": train, "reach": True, "say": said} | more
    return own_audits.audited(out, loop, **options), said


@pytest.fixture(scope="module")
def tuned(tmp_path_factory):
    folder = tmp_path_factory.mktemp("tuned") / "runs"
    return folder, *audited(folder, validation=VALIDATION)


def test_every_net_takes_the_rate_that_is_best_on_the_samples_for_it(tuned):
    folder, audit, said = tuned
    trials = records(folder / "trials")
    assert {r.seed for r in trials} == {TRIAL_SEED}
    assert {r.held_out for r in trials} == {200}
    assert {r.lr for r in trials} >= {*GRID}
    assert not list((folder / "trials").glob("*/model.safetensors"))
    best = {}
    for record in sorted(trials, key=lambda r: (r.accuracy, -r.lr)):
        best[record.who, record.part] = record.lr
    assert len(best) == 8
    assert {(r.who, r.part): r.lr for r in records(folder) if r.who != "init"} == best
    assert len({r.accuracy for r in trials}) > 5
    (loop,) = read_loops(find_loop_trainings(folder))
    effort = loop.subjects()[0].evidence.effort
    assert set(effort.trials.values()) == {len(trials) / 8}
    assert effort.rises is None
    assert wb.judge_paths(folder).text() == audit.text()
    assert any(line.startswith("Learning rates: bp ") for line in said)
    assert "To train: 40 trials of learning rates and 9 trainings." in said


def test_called_again_it_trains_nothing_and_another_way_is_another_folder(tuned, tmp_path):
    shutil.copytree(tuned[0], tmp_path / "runs")
    again, said = audited(tmp_path / "runs", validation=VALIDATION)
    assert again.text() == tuned[1].text()
    assert not any("[" in line for line in said)
    assert "To train: 0 trainings." in said
    with pytest.raises(RecordError, match="validation differ"):
        audited(tmp_path / "runs")
    with pytest.raises(RecordError, match="lr, validation differ"):
        audited(tmp_path / "runs", lr=0.02)


def test_law_without_a_trial_of_a_baseline_it_is_not_tuned(tuned, tmp_path):
    shutil.copytree(tuned[0], tmp_path / "runs")
    for path in (tmp_path / "runs/trials").glob("bp-all-*"):
        shutil.rmtree(path)
    (loop,) = read_loops(find_loop_trainings(tmp_path / "runs"))
    effort = loop.subjects()[0].evidence.effort
    assert (effort.tuned, effort.trials["bp"], effort.why) == (False, 0, "no rate was tried for bp")


def test_a_bp_that_takes_no_rate_is_noted(tmp_path):
    audit, _ = audited(tmp_path / "runs", train_bp=loops.train, validation=VALIDATION, reach=False)
    (loop,) = read_loops(find_loop_trainings(tmp_path / "runs"))
    assert loop.subjects()[0].evidence.effort.why == "no rate was tried for bp"
    assert {r.lr for r in records(tmp_path / "runs") if r.who == "bp"} == {None}
    assert wb.judge_paths(tmp_path / "runs").text() == audit.text()


def test_the_plain_loop_takes_a_rate_and_one_rate_is_for_all(tmp_path):
    options = {"train_bp": None, "train_batches": [(loops.X, loops.Y)], "epochs": 1, "reach": False}
    audited(tmp_path / "one", lr=np.float64(0.5), **options)
    assert {r.lr for r in records(tmp_path / "one") if r.who != "init"} == {0.5}
    assert not (tmp_path / "one/trials").exists()
    _, said = audited(tmp_path / "own", **options)
    assert {r.lr for r in records(tmp_path / "own")} == {None}
    assert any("no samples are given to choose it by" in line for line in said)


def needs(model, seed, lr):
    train(model, seed, lr)


@pytest.mark.parametrize(("options", "why"), [
    ({"lr": 0.1, "loop": loops.train}, "train takes none"), ({"lr": -1.0}, "no learning rate"),
    ({"validation": loops.test}, "200 samples of validation are also in test"),
    ({"validation": []}, "validation has no samples"), ({"loop": needs}, "train needs a learning rate"),
])  # fmt: skip
def test_error_what_cannot_be_meant_is_refused_before_anything_trains(tmp_path, options, why):
    with pytest.raises(BadValue, match=why):
        audited(tmp_path / "runs", **options)
    assert not find_loop_trainings(tmp_path)
