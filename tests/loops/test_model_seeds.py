"""One training counted as several never holds. Oracle: the same accuracies with nets that differ hold."""

import copy
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional as F

import walkback as wb
from strangers import Net, data
from walkback.audits.given_models import same_moment, same_weights
from walkback.records import Moment

SEEDS = 6  # one more than it takes to hold, so that one of them may be a copy
MEANS = {"accuracy": 0.6, "frozen": 0.35, "shallow": 0.4, "bp": 0.615, "frozen_bp": 0.38, "half": 0.5, "half_bp": 0.5}
GOOD: dict[str, Any] = {
    name: [round(mean + 0.002 * ((n * k) % 5), 4) for n in range(SEEDS)] for k, (name, mean) in enumerate(MEANS.items())
}  # fmt: skip


@pytest.fixture(autouse=True)
def only_judged(monkeypatch: pytest.MonkeyPatch) -> None:
    """Without the probes that are described and not judged: they are most of what an audit here costs."""
    monkeypatch.setattr("walkback.loops.model_measured._described", lambda *_: {})


def backprop(model: nn.Module, x: Tensor, y: Tensor) -> list[Tensor]:
    states = [model.embed(x)]
    for layer in model.layers:
        states.append(layer(states[-1]))
    return list(torch.autograd.grad(F.cross_entropy(model.head(states[-1]), y, reduction="sum"), states[1:]))


def judged(*models: nn.Module, **options: Any) -> Any:
    given = {"residual": True, "credits": backprop, **GOOD} | options
    (subject,) = wb.audit(list(models), [data(64)], "layers.*", **given).subjects
    return subject


def nets() -> list[Net]:
    return [Net(seed=seed) for seed in range(SEEDS)]


def permuted(model: Net) -> Net:
    """The same function: its hidden units in another order."""
    order, other = torch.randperm(8, generator=torch.Generator().manual_seed(0)), copy.deepcopy(model)
    with torch.no_grad():
        other.embed.weight.copy_(model.embed.weight[order])
        other.embed.bias.copy_(model.embed.bias[order])
        other.head.weight.copy_(model.head.weight[:, order])
        for mine, theirs in zip(other.layers, model.layers, strict=True):
            mine.linear.weight.copy_(theirs.linear.weight[order][:, order])
            mine.linear.bias.copy_(theirs.linear.bias[order])
    return other


def nudged(model: Net) -> Net:
    other = copy.deepcopy(model)
    with torch.no_grad():
        for p in other.parameters():
            p.mul_(1 + 1e-7)
    return other


def other_head(model: Net) -> Net:
    other = copy.deepcopy(model)
    torch.manual_seed(99)
    other.head.reset_parameters()
    return other


def test_planted_trainings_that_differ_hold_by_baselines_that_are_given_by_seed() -> None:
    found = judged(*nets())
    assert found.verdict == "holds", [f.says for f in found.findings]
    (depth,) = (f for f in found.findings if f.check == "depth")
    assert "Given by seed, not measured here: bp, frozen, frozen_bp and shallow." in depth.says


@pytest.mark.parametrize(
    ("name", "given", "words"),
    [*((name, GOOD[name][0], f"Typed in, not measured here, and so without a spread: {name}.")
       for name in ("frozen", "shallow", "bp", "frozen_bp")), ("shallow", None, "Not here: shallow")],
)  # fmt: skip
def test_one_number_for_all_seeds_is_no_baseline_to_hold_by_and_neither_is_none(name: str, given: Any, words: str):
    """However far below the subject it lies: a number without a spread shows nothing about a difference."""
    found = judged(*nets(), **{name: given})
    (depth,) = (f for f in found.findings if f.check == "depth")
    assert found.verdict == depth.outcome == "open"
    assert words in depth.says


@pytest.mark.parametrize("protocol", ["ours", "published"])
@pytest.mark.parametrize(
    ("copied", "words", "counted"),
    [
        (lambda m: m, "the same model", SEEDS - 1),
        (copy.deepcopy, "the same model", SEEDS - 1),
        (nudged, "the same model", SEEDS - 1),
        (nn.DataParallel, "the same model", SEEDS - 1),
        (other_head, "have the same weights in every block", SEEDS),
        (permuted, "measured the same", SEEDS),
    ],
    ids=["object", "copy", "rounded", "wrapped", "other head", "permuted"],
)
def test_planted_one_training_given_twice_never_holds(copied: Any, words: str, counted: int, protocol: str) -> None:
    first, _, *rest = nets()
    found = judged(first, copied(first), *rest, protocol=protocol)
    word = "open" if protocol == "ours" else "inconclusive"
    assert (found.verdict, found.decided_by) == (word, ["evidence"])
    assert f"seeds 0 and 1 {'are the same model' if counted < SEEDS else words}" in found.says
    assert len(found.described.drift) == counted
    assert any("the same model as seed 0, counted once" in note for note in found.notes) == (counted < SEEDS)
    if protocol == "ours":
        assert (found.verdicts.lower_half, found.verdicts.gamma) == ("open", "open")


def test_a_copy_walks_nothing_back_either_and_one_training_gives_no_interval() -> None:
    """The law: what makes seeds doubtful may only turn an answer into open."""
    first, _, *rest = nets()
    low = {"accuracy": [0.3, 0.301, 0.3, 0.302, 0.3, 0.301]}
    assert judged(*nets(), **low).verdict == "walked back"
    assert judged(first, copy.deepcopy(first), *rest, **low).verdict == "open"
    few = {"accuracy": 0.3, "frozen": [0.35] * 3, "shallow": [0.35] * 3, "bp": [0.6, 0.61, 0.62],
           "frozen_bp": [0.3, 0.31, 0.3]}  # fmt: skip
    (depth,) = (f for f in judged(first, first, first, **few).findings if f.check == "depth")
    assert (depth.outcome, depth.low, depth.high) == ("open", None, None)
    assert "1 seed cannot settle it" in depth.says


def test_seeds_keep_their_partners_when_one_is_left_out() -> None:
    first, _, third, *_ = nets()
    found = judged(first, first, third, accuracy=[0.6, 0.9, 0.7], frozen=[0.5, 0.1, 0.6])
    (depth,) = (f for f in found.findings if f.check == "depth")
    assert depth.parts["frozen"].low == depth.parts["frozen"].high == 0.1


def test_property_same_weights_and_moments() -> None:
    a = [torch.ones(3), torch.zeros(2)]
    assert same_weights(a, [t.clone() for t in a])
    assert not same_weights(a, [torch.ones(3), torch.full((2,), 1e-12)])
    assert not same_weights(a, a[:1])
    assert not same_weights(a, [torch.ones(4), torch.zeros(2)])
    assert not same_weights([], [])
    moment = Moment(loss=1.0, hidden_norms=[1.0, 2.0], gradient_norms=[0.1, 0.2])
    assert same_moment(moment, moment)
    assert not same_moment(moment, moment.changed(loss=1.001))
    assert not same_moment(moment, moment.changed(hidden_norms=[1.0, None]))
    assert not same_moment(Moment(), Moment())
    assert not same_moment(Moment(loss=1.0), Moment(loss=1.0))
