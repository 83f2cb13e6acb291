"""What the rules of the field promise beside their formulas: same bits after a stop, quiet probes, live blocks."""

import json

import pytest
import torch

from conftest import in_sittings, small_plan
from walkback.data import load
from walkback.errors import BadValue
from walkback.nets import make_net
from walkback.probes import feedback_null, observe
from walkback.probes.null import nulls_of, turned
from walkback.records import read_run
from walkback.rules import make_rule
from walkback.train import Trainer, train

NEW = ["drtp", "sdfa", "dkp", "mono-forward", "predsim", "pepita", "ff", "dtp", "pc", "dfa-plain", "fg"]
BRIDGES = ["ep", "sb", "cb"]
WITHOUT_CREDITS = ["ff"]


@pytest.mark.parametrize("name", ["dkp", "mono-forward", "ff", "dtp", "fg", "sb", "cb"])  # what learns, or draws
def test_property_stopped_and_resumed_gives_the_same_bits(name, tmp_path):
    (config,) = small_plan(data="digits", rules=[name], epochs=2, probe_images=64)
    whole = train(config, tmp_path / "whole")
    parts, sittings = in_sittings(config, tmp_path / "parts")
    assert sittings > 2
    for file in ("snapshots.jsonl", "checkpoint.safetensors", "probes.json", "result.json"):
        assert (whole.path / file).read_bytes() == (parts.path / file).read_bytes(), file
    assert read_run(parts.path).result.status == "finished"
    kinds = [json.loads(line).get("credit") for line in (whole.path / "snapshots.jsonl").read_text().splitlines()]
    assert kinds == (["dfa warm-up", "value", "value"] if name == "cb" else [None] * 3)


@pytest.mark.parametrize("name", NEW + BRIDGES)
def test_property_a_probe_moves_nothing(name):
    (config,) = small_plan(data="digits", rules=[name], probe_images=64)
    trainer = Trainer(config, load("digits"))
    trainer.one_epoch(lambda: None)
    before = {k: v.clone() for k, v in trainer.tensors().items()}
    modes = [p.requires_grad for p in trainer.rule.parameters()]
    readings = trainer.readings(trainer.observe(), final=True)
    snapshot = trainer.snapshot()
    assert all(torch.equal(v, before[k]) for k, v in trainer.tensors().items())
    assert modes == [p.requires_grad for p in trainer.rule.parameters()]
    assert all(p.grad is None or p.grad.isfinite().all() for p in trainer.rule.parameters())
    states = {cosine.status for cosine in snapshot.cosine}
    assert states == ({"no credit"} if name in WITHOUT_CREDITS else {"ok"})
    assert all(reading.status == "ok" for reading in readings["update"])
    drawn = name not in ("pc", "fg", "predsim", "dtp", "ep")  # some have nothing to draw; for others that is no null
    assert {reading.null.kind for reading in readings["update"]} == {"fresh feedback" if drawn else "random signs"}


@pytest.mark.parametrize("name", NEW)
def test_property_a_frozen_net_keeps_its_blocks_and_trains_the_rest(name):
    (config,) = small_plan(data="digits", rules=[name], epochs=1, train_last=0)
    trainer = Trainer(config, load("digits"))
    before = {k: p.detach().clone() for k, p in trainer.net.named_parameters()}
    trainer.one_epoch(lambda: None)
    for key, parameter in trainer.net.named_parameters():
        assert torch.equal(parameter, before[key]) == key.startswith("blocks."), key


@pytest.mark.parametrize("name", [n for n in [*NEW, "sb", "cb"] if n not in ("pc", "fg")])
def test_property_what_a_rule_draws_comes_from_its_generator_alone(name):
    (config,) = small_plan(data="digits")
    net = Trainer(config, load("digits")).net

    def drawn(seed):
        return make_rule(name, net, torch.Generator().manual_seed(seed), {}).state_dict()

    torch.manual_seed(1)
    one, state = drawn(1), torch.random.get_rng_state()
    torch.manual_seed(2)
    same, other = drawn(1), drawn(2)
    assert one
    assert all(torch.equal(v, same[k]) for k, v in one.items())
    assert any(not torch.equal(v, other[k]) for k, v in one.items())
    torch.manual_seed(1)
    assert torch.equal(state, torch.random.get_rng_state())  # nothing was drawn from torch's own


@pytest.mark.parametrize(
    ("name", "options", "word"),
    [
        ("predsim", {"beta": 1.5}, "beta=0.99"), ("pepita", {"scale": 0.0}, "scale=0.05"),
        ("ff", {"goodness": "sum"}, "goodness=stream"), ("ff", {"theta": -1.0}, "theta=1"),
        ("ff", {"label": 0.0}, "label=1"), ("mono-forward", {"normalize": "sample"}, "normalize"),
        ("pc", {"form": "free"}, "form=state"), ("pc", {"eta": 0.0}, "eta=0.1"), ("pc", {"steps": 0}, "steps=8"),
        ("pc", {"steps": 1.5}, "steps=8"), ("pc", {"precision": "float16"}, "float64"),
        ("dtp", {"step": 0.0}, "step=0.1"), ("dtp", {"sigma": -1.0}, "sigma=0.1"),
        ("ep", {"precision": "float16"}, "float64"), ("ep", {"beta": 0}, "above 0"), ("ep", {"eta": -1.0}, "above 0"),
        ("ep", {"steps": 0}, "1"), ("sb", {"hidden": 0}, "hidden=256"),
        ("sb", {"condition": "label"}, "condition=error"), ("cb", {"condition": "label"}, "condition=error"),
        ("cb", {"warmup": 1.5}, "warmup=0.2"), ("cb", {"ema": 1.0}, "ema=0.995"), ("cb", {"tau": 0.0}, "tau=0.1"),
        ("cb", {"draws": 0}, "draws=2"),
        ("usf", {"readout": "random"}, "readout"), ("mirror", {"rate": 0}, "mirror"),
    ],
)  # fmt: skip
def test_error_options_that_cannot_be_meant(name, options, word):
    net = make_net("resmlp", (6,), 3, {"width": 8, "depth": 3})
    with pytest.raises(BadValue, match=word):
        make_rule(name, net, torch.Generator(), options)


@pytest.mark.parametrize("name", [n for n in NEW if n not in WITHOUT_CREDITS])
def test_property_the_null_of_every_rule_centres_on_zero(name):
    """Else an audit calls itself invalid, or takes what a rule knows for chance. Blocks that matter, as if trained."""
    torch.manual_seed(2)
    net = make_net("resmlp", (6,), 4, {"width": 24, "depth": 3, "down_std": 0.15})
    inputs, labels = torch.randn(64, 6), torch.arange(64) % 4

    def fresh(n):
        return make_rule(name, net, torch.Generator().manual_seed(100 + n), {})

    (at_input, gamma), (at_output, _) = feedback_null(
        net, fresh(0), lambda n: fresh(n + 1), inputs, labels, torch.Generator().manual_seed(0)
    )
    kinds = {"pc": "random directions", **dict.fromkeys(("fg", "predsim", "dtp"), "turned credits")}
    kind = kinds.get(name, "fresh feedback")
    assert {null.kind for null in (*at_input, *at_output)} == {kind}
    for null in (*at_input, *at_output, gamma):
        assert null.n == 20
        assert abs(null.mean) <= 1.5 * null.std  # what an audit's control asks


@pytest.mark.parametrize(("name", "alike"), [("predsim", True), ("dtp", True), ("dkp", False)])
def test_planted_two_fresh_draws_of_these_rules_say_the_same(name, alike):
    """Why they are not their own null: redrawn, they give nearly the credit that they gave."""
    torch.manual_seed(2)
    net = make_net("resmlp", (6,), 4, {"width": 24, "depth": 3})
    inputs, labels = torch.randn(64, 6), torch.arange(64) % 4
    one, other = (
        observe(net, make_rule(name, net, torch.Generator().manual_seed(seed), {}), inputs, labels, torch.Generator())
        for seed in (1, 2)
    )
    for a, b in zip(one.credits.blocks, other.credits.blocks, strict=True):
        cosine = torch.cosine_similarity(a, b).mean()
        assert cosine > 0.8 if alike else abs(cosine) < 0.5


def test_second_implementation_turned_credits_spread_as_rotated_ones():
    """One signed permutation for all samples has the spread of one random rotation, and not that of a draw a sample."""
    generator = torch.Generator().manual_seed(0)
    common = torch.randn(1, 60, generator=generator)
    credits = common + 0.3 * torch.randn(200, 60, generator=generator)  # samples that have much in common
    gradients = common.flip(1) + 0.3 * torch.randn(200, 60, generator=generator)

    def rotated():
        Q, R = torch.linalg.qr(torch.randn(60, 60, generator=generator))
        return credits @ (Q * R.diagonal().sign())

    spreads = []
    for turn in (lambda: turned(credits, generator), rotated, lambda: torch.randn(200, 60, generator=generator)):
        ((null,), _), _ = nulls_of([gradients, None], ([(turn(), None)] for _ in range(300)), ["x"])
        assert abs(null.mean) < 4 * null.std / 300**0.5
        spreads.append(null.std)
    ours, haar, narrow = spreads
    assert ours == pytest.approx(haar, rel=0.15)
    assert narrow < haar / 5
