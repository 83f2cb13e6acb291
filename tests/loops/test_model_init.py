"""A plain net of somebody's own is judged by scale once its init is given; what cannot be an init is refused."""

import pytest
import torch
from torch import Tensor, nn

import walkback as wb
from walkback.errors import BadValue

SEEDS = (0, 1, 2)


def made(seed: int) -> nn.Sequential:
    torch.manual_seed(seed)
    blocks = [nn.Sequential(nn.Linear(16, 16), nn.Tanh()) for _ in range(3)]
    return nn.Sequential(nn.Linear(8, 16), *blocks, nn.Linear(16, 4))


def trained(seed: int, factor: float = 1.0) -> nn.Sequential:
    """One step of training; block 1 then gives `factor` times what it gave."""
    model = made(seed)
    x, y = batch(seed)
    nn.functional.cross_entropy(model(x), y).backward()
    with torch.no_grad():
        for parameter in model.parameters():
            parameter -= 0.1 * parameter.grad
    if factor != 1.0:
        model[2] = nn.Sequential(*model[2], Times(factor))
    return model


class Times(nn.Module):
    def __init__(self, factor: float):
        super().__init__()
        self.factor = factor

    def forward(self, h: Tensor) -> Tensor:
        return self.factor * h


def batch(seed: int = 9) -> tuple[Tensor, Tensor]:
    generator = torch.Generator().manual_seed(seed)
    return torch.randn(64, 8, generator=generator), torch.randint(4, (64,), generator=generator)


def scale(factor: float = 1.0, residual: bool | None = False, **options: object):
    models = [trained(seed, factor) for seed in SEEDS]
    found = wb.audit(models, [batch()], ["1", "2", "3"], residual=residual, describe=False, **options)
    return next(f for f in found.subjects[0].findings if f.check == "scale")


def test_planted_a_layer_that_was_scaled_fires_and_passes_after_the_repair():
    assert scale().outcome == scale(residual=None).outcome == "open"
    assert scale(init=made).outcome == scale(residual=None, init=made).outcome == "passes"
    sick = scale(factor=80.0, init=made)
    assert sick.outcome == "fires"
    assert sick.value == pytest.approx(80, rel=0.1)
    assert "init" in sick.says


@pytest.mark.parametrize("form", ["list", "table", "one model"])
def test_the_models_at_init_come_as_the_trained_ones_do(form):
    given = {"list": [made(s) for s in SEEDS], "table": {s: made(s) for s in SEEDS}, "one model": made(7)}[form]
    assert scale(init=given).outcome == "passes"


SAME = [trained(seed) for seed in SEEDS]
DEEPER = nn.Sequential(nn.Linear(8, 16), *(nn.Linear(16, 16) for _ in range(4)), nn.Linear(16, 4))


@pytest.mark.parametrize(
    ("init", "words"),
    [
        (SAME, "has the weights of the trained one"), (SAME[0], "has the weights of the trained one"),
        (DEEPER, "other parameters than the trained one"), ({0: made(0), 1: made(1)}, "no model for seed 2"),
    ],
)  # fmt: skip
def test_error_what_cannot_be_an_init_is_refused(init, words):
    with pytest.raises(BadValue, match=words):
        scale(init=init)
