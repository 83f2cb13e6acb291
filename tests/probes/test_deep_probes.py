"""The probes at the end of a run look at what its last snapshot looked at, and come out the same bits without it."""

import pytest
import torch

from conftest import small_plan
from walkback.data import load
from walkback.train import Trainer, deep_probes, plan, train

FILES = ("snapshots.jsonl", "checkpoint.safetensors", "probes.json", "predictions.npy", "result.json")
NETS = [
    ("resmlp", {"width": 12, "depth": 2}, "dfa"),
    ("resmlp", {"width": 12, "depth": 2}, "random"),  # draws its credits
    ("vit-mini", {"width": 12, "depth": 1}, "fa"),
    ("small-resnet", {"channels": 2, "depth": 2}, "dfa"),  # BatchNorm
    ("small-cnn", {"channels": 2, "hidden": 4}, "bp"),
]


@pytest.mark.parametrize(("net", "options", "rule"), NETS)
def test_second_implementation_the_kept_look_is_a_fresh_one_bit_for_bit(net, options, rule, monkeypatch):
    """300 images are two chunks, of which the second is not whole."""
    (config,) = plan(data="digits", net=net, net_options=options, rules=[rule], epochs=1, probe_images=300)
    trainer = Trainer(config, load("digits"))
    trainer.one_epoch(lambda: None)
    alone = deep_probes(trainer)
    assert trainer.latest is None
    last = trainer.snapshot()
    monkeypatch.setattr(Trainer, "observe", None)  # a rule that gives every block credit is looked at once
    found = deep_probes(trainer)
    assert found.text() == alone.text()
    output = found.output
    assert output.cosine is None  # the snapshot's stand
    assert output.reference.chord < 1e-4
    assert {n.kind for n in [*output.null, output.null_gamma]} == {"turned credits"}
    assert all(0 < n.std < 1 for n in [*output.null, output.null_gamma])
    for cosine, size in zip(last.cosine_out, output.frobenius, strict=True):
        assert size.status == "ok"
        assert abs(size.value - cosine.value) < 0.5


def test_property_a_look_is_not_kept_beyond_its_step():
    (config,) = small_plan(data="digits", rules=["dfa"])
    trainer = Trainer(config, load("digits"))
    trainer.snapshot()
    before = trainer.observation()
    assert trainer.observation() is before
    trainer.one_epoch(lambda: None)
    assert trainer.latest is None  # it would hold its memory through an epoch
    after = trainer.observation()
    assert not torch.equal(after.hidden[-1], before.hidden[-1])
    trainer.snapshot()
    trainer.restore({name: t.clone() for name, t in trainer.tensors().items()}, trainer.state())
    assert trainer.latest is None


def test_property_killed_between_the_last_snapshot_and_the_deep_probes_is_the_same_bits(tmp_path, monkeypatch):
    (config,) = small_plan(data="digits", rules=["dfa"], epochs=2)
    whole = train(config, tmp_path / "whole")

    def killed(_):
        raise KeyboardInterrupt

    with monkeypatch.context() as patched:
        patched.setattr("walkback.train.loop.deep_probes", killed)
        with pytest.raises(KeyboardInterrupt):
            train(config, tmp_path / "killed")
    assert not (tmp_path / "killed" / config.folder() / "probes.json").exists()
    resumed = train(config, tmp_path / "killed")
    for name in FILES:
        assert (resumed.path / name).read_bytes() == (whole.path / name).read_bytes(), name
