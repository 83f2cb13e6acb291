"""One training counted as several never holds. Oracle: the same accuracies with nets that differ hold."""

import copy
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional as F

import walkback as wb
from strangers import Net, data
from walkback.audits.seeds import same_moment, same_weights
from walkback.records import Moment

GOOD: dict[str, Any] = {
    "accuracy": [0.60, 0.61, 0.60], "frozen": [0.35, 0.352, 0.348], "bp": [0.615, 0.61, 0.62],
    "frozen_bp": [0.38, 0.385, 0.382], "half": [0.5, 0.502, 0.498], "half_bp": [0.5, 0.51, 0.49],
}  # fmt: skip


@pytest.fixture(autouse=True)
def only_judged(monkeypatch: pytest.MonkeyPatch) -> None:
    """Without the probes that are described and not judged: they are most of what an audit here costs."""
    monkeypatch.setattr("walkback.audits.measured._described", lambda *_: {})


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
    return [Net(seed=seed) for seed in range(3)]


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


def test_planted_three_trainings_hold() -> None:
    found = judged(*nets())
    assert found.verdict == "holds", [f.says for f in found.findings]


@pytest.mark.parametrize("protocol", ["ours", "published"])
@pytest.mark.parametrize(
    ("copied", "words", "counted"),
    [
        (lambda m: m, "the same model", 2),
        (copy.deepcopy, "the same model", 2),
        (nudged, "the same model", 2),
        (nn.DataParallel, "the same model", 2),
        (other_head, "have the same weights in every block", 3),
        (permuted, "measured the same, but for changes below 1 in 10,000", 3),
    ],
    ids=["object", "copy", "rounded", "wrapped", "other head", "permuted"],
)
def test_planted_one_training_given_twice_never_holds(copied: Any, words: str, counted: int, protocol: str) -> None:
    first, _, third = nets()
    found = judged(first, copied(first), third, protocol=protocol)
    assert (found.verdict, found.decided_by) == ("inconclusive", ["evidence"])
    assert f"seeds 0 and 1 {'are the same model' if counted == 2 else words}" in found.says
    assert len(found.described.drift) == counted
    assert any("the same model as seed 0, counted once" in note for note in found.notes) == (counted == 2)


def test_the_same_model_thrice_gives_no_interval() -> None:
    """A margin of one training has no spread, so it does not walk anything back either."""
    model = Net()
    low = {"accuracy": 0.3, "frozen": [0.35] * 3, "bp": [0.6, 0.61, 0.62], "frozen_bp": [0.3, 0.31, 0.3]}
    found = judged(model, model, model, **low)
    (depth,) = (f for f in found.findings if f.check == "depth")
    assert depth.outcome == "inconclusive"
    assert "Too few seeds" in depth.says


def test_seeds_keep_their_partners_when_one_is_left_out() -> None:
    first, _, third = nets()
    found = judged(first, first, third, accuracy=[0.6, 0.9, 0.7], frozen=[0.5, 0.1, 0.6])
    (depth,) = (f for f in found.findings if f.check == "depth")
    assert depth.low == depth.high == 0.1


def test_property_same_weights_and_moments() -> None:
    a = [torch.ones(3), torch.zeros(2)]
    assert same_weights(a, [t.clone() for t in a])
    assert not same_weights(a, [torch.ones(3), torch.full((2,), 1e-12)])
    assert not same_weights(a, a[:1])
    assert not same_weights(a, [torch.ones(4), torch.zeros(2)])
    assert not same_weights([], [])
    moment = Moment(loss=1.0, hidden_norms=[1.0, 2.0], gradient_norms=[0.1, 0.2])
    assert same_moment(moment, moment)
    assert not same_moment(moment, moment.model_copy(update={"loss": 1.001}))
    assert not same_moment(moment, moment.model_copy(update={"hidden_norms": [1.0, None]}))
    assert not same_moment(Moment(), Moment())
    assert not same_moment(Moment(loss=1.0), Moment(loss=1.0))
