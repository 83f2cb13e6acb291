"""What Γ is judged by, of somebody's own model: the same numbers as of a net of ours, and the formats that spoil it."""

import math

import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional as F

import walkback as wb
from strangers import Net, data
from test_probes_at_output import fitted
from walkback.probes import look
from walkback.probes.at_output import turned_at_output
from walkback.probes.cosine import frobenius
from walkback.records import Moment


def names_of(model: nn.Module) -> str:
    return "*.layers.*" if "Logits" in type(model).__name__ else "layers.*" if hasattr(model, "layers") else "blocks.*"


def moment(model: nn.Module, x: Tensor, y: Tensor, **asked) -> Moment:
    (seed,) = wb.audit(model, [(x, y)], names_of(model), describe=False, **asked).evidence.seeds
    return seed.final


def true_credits(model: nn.Module, inputs: Tensor, labels: Tensor) -> list[Tensor]:
    return [g for g in look(model, [(inputs, labels)], names_of(model)).gradients[1:] if g is not None]


def test_second_implementation_the_null_and_the_sizes_are_those_of_the_rows() -> None:
    torch.manual_seed(0)
    model, (x, y) = Net(), data(200)

    def climbing(model: nn.Module, inputs: Tensor, labels: Tensor) -> list[Tensor]:
        size = torch.where(torch.arange(len(labels)) < 0.65 * len(labels), 1.0, -10.0)[:, None]
        return [g * size for g in true_credits(model, inputs, labels)]

    found = moment(model, x, y, credits=climbing)
    gradients = true_credits(model, x, y)
    nulls, gamma = turned_at_output(climbing(model, x, y), gradients, [None] * len(gradients))
    assert found.rotated is not None and found.rotated_gamma is not None and found.frobenius is not None  # noqa: PT018
    assert [null.std for null in found.rotated if null] == pytest.approx([null.std for null in nulls])
    assert found.rotated_gamma.std == pytest.approx(gamma.std)
    sizes = [frobenius(a, g).value for a, g in zip(climbing(model, x, y), gradients, strict=True)]
    assert [size.value for size in found.frobenius if size] == pytest.approx(sizes)
    assert all(size < 0 for size in sizes)
    assert found.cosine_out is not None
    assert all(c is not None and c.value > 0 for c in found.cosine_out)


@pytest.mark.parametrize("credits", ["backward", true_credits, None])
def test_planted_a_well_fitted_model_is_measured_without_cancellation(credits) -> None:
    net, x, y = fitted()
    (loss,) = [F.cross_entropy(net(x).detach(), y)]
    found = moment(net, x, y, credits=credits, residual=False)
    assert found.loss == pytest.approx(float(loss), rel=0.5)
    assert found.precision is not None and found.reference is not None  # noqa: PT018
    assert found.precision.chord > 0.01  # as before: the softmax cancels
    assert found.reference.chord < 1e-4
    if credits == "backward":
        assert found.cosine_out is not None
        assert [round(c.value, 4) for c in found.cosine_out if c] == [1.0] * 3
        assert found.gamma == pytest.approx(1, abs=1e-4)


def test_planted_a_format_that_is_too_short_is_found() -> None:
    net, x, y = fitted(dtype=torch.bfloat16)
    found = moment(net, x, y)
    assert found.reference is not None
    assert found.reference.chord > 0.01


class Common(nn.Module):
    """A block that adds one large number to every unit; the LayerNorm of the head takes it away again."""

    def __init__(self, value: float):
        super().__init__()
        torch.manual_seed(1)
        self.first, self.value = nn.Linear(20, 32), value
        self.blocks = nn.ModuleList([nn.Sequential(nn.Linear(32, 32), nn.Tanh()) for _ in range(2)])
        self.head = nn.Sequential(nn.LayerNorm(32), nn.Linear(32, 5))

    def forward(self, x: Tensor) -> Tensor:
        h = self.first(x)
        for block in self.blocks:
            h = block(h)
        return self.head(h + self.value)


@pytest.mark.parametrize(("value", "precise"), [(0.0, True), (1e7, False)])
def test_planted_a_common_value_before_a_layer_norm_is_found(value: float, precise: bool) -> None:
    torch.manual_seed(2)
    found = moment(Common(value), torch.randn(64, 20), torch.randint(5, (64,)))
    assert found.reference is not None
    if precise:
        assert found.reference.chord < 1e-4
    else:
        assert found.reference.status != "ok" or found.reference.chord > 0.01 or math.isnan(found.reference.chord)


def test_without_credits_nothing_is_stated_of_them() -> None:
    torch.manual_seed(0)
    found = moment(Net(), *data(60))
    assert (found.rotated, found.rotated_gamma, found.frobenius) == (None, None, None)
    assert found.reference is not None
    assert found.reference.chord < 1e-4
