"""The null of given credits. Oracles: rotations drawn one by one, and fresh feedback of many kinds."""

import math
from collections.abc import Callable

import pytest
import torch
from torch import Tensor
from torch.nn import functional as F

from walkback.probes import credit_cosine
from walkback.probes.at_output import bounded, mean_of, null_of, turned_std, turns

BAND = 3


def error(samples: int, classes: int = 10) -> Tensor:
    draw = torch.Generator().manual_seed(1)
    answers = torch.randint(classes, (samples,), generator=draw)
    return torch.softmax(torch.randn(samples, classes, generator=draw), 1) - F.one_hot(answers, classes)


def haar(width: int, generator: torch.Generator) -> Tensor:
    q, r = torch.linalg.qr(torch.randn(width, width, generator=generator, dtype=torch.float64))
    return q * r.diagonal().sign()


@pytest.mark.parametrize(("samples", "width"), [(40, 100), (200, 80)])
def test_second_implementation_rotations_drawn_one_by_one(samples: int, width: int) -> None:
    e, draw = error(samples).double(), torch.Generator().manual_seed(2)
    g = e @ torch.randn(10, width, generator=draw, dtype=torch.float64)
    a = e @ torch.randn(10, width, generator=draw, dtype=torch.float64)
    drawn = torch.tensor([credit_cosine(a @ haar(width, draw), g).value for _ in range(400)])
    std, count = turned_std([(a, g)])
    assert count == samples
    assert std == pytest.approx(float(drawn.std()), rel=0.1)
    assert abs(float(drawn.mean())) < 4 * std / math.sqrt(400)
    frames = torch.tensor([credit_cosine(turned, g).value for turned in turns(a, 300, draw)])
    assert float(frames.std()) == pytest.approx(std, rel=0.12)


def test_property_a_turn_keeps_what_is_between_the_credits() -> None:
    a = torch.randn(6, 50, dtype=torch.float64)
    for turned in turns(a, 3, torch.Generator().manual_seed(0)):
        assert torch.allclose(turned @ turned.T, a @ a.T)
        assert not torch.allclose(turned, a, atol=0.1)


Maker = Callable[[torch.Generator], Tensor]


def kinds(width: int) -> dict[str, tuple[Maker, Tensor, tuple[int, ...] | None]]:
    """name: (fresh credits, the gradient that knows nothing of them, the shape of a feature map)."""
    e, draw = error(256), torch.Generator().manual_seed(3)
    g = e @ torch.randn(10, width, generator=draw)
    above = g @ torch.randn(width, width, generator=draw)
    on = (torch.randn(256, 5, generator=draw) @ torch.randn(5, width, generator=draw) > 0).float()
    two = error(256, 2)
    g_two = two @ torch.randn(2, width, generator=draw)
    side = torch.randn(64, 6, 6, 6, generator=draw)
    image = F.conv2d(side, torch.randn(8, 6, 3, 3, generator=draw), padding=1).flatten(1)
    return {
        "dfa": (lambda r: e @ torch.randn(10, width, generator=r), g, None),
        "fa": (lambda r: above @ torch.randn(width, width, generator=r), g, None),
        "dfa of signs": (lambda r: e @ torch.randn(10, width, generator=r).sign(), g, None),
        "dfa behind a ReLU": (lambda r: (e @ torch.randn(10, width, generator=r)) * on, g * on, None),
        "fa behind a ReLU": (lambda r: (above @ torch.randn(width, width, generator=r)) * on, g * on, None),
        "dfa of two classes": (lambda r: two @ torch.randn(2, width, generator=r), g_two, None),
        "fa by a kernel": (
            lambda r: F.conv2d(side, torch.randn(8, 6, 3, 3, generator=r), padding=1).flatten(1), image, (8, 6, 6)
        ),
    }  # fmt: skip


def cover_rate(make: Maker, gradient: Tensor, shape: tuple[int, ...] | None, draws: int) -> float:
    hits = 0
    for draw in range(draws):
        credit = make(torch.Generator().manual_seed(1000 + draw))
        hits += credit_cosine(credit, gradient).value > BAND * turned_std([(credit, gradient)], shape)[0]
    return hits / draws


@pytest.mark.parametrize("name", kinds(32))
def test_fresh_feedback_hardly_covers(name: str) -> None:
    """The cheap version of the slow test below: 100 draws, of which the 1 % that is allowed is 1."""
    assert cover_rate(*kinds(32)[name], draws=100) <= 0.01


@pytest.mark.slow
@pytest.mark.parametrize("width", [8, 32, 128])
@pytest.mark.parametrize("name", kinds(32))
def test_fresh_feedback_covers_less_than_one_percent_of_1000_draws(name: str, width: int) -> None:
    assert cover_rate(*kinds(width)[name], draws=1000) < 0.01


def test_per_sample_directions_would_cover_a_quarter() -> None:
    """What the null was before: a direction of its own for each sample has a spread of 1/√(Nd), far too narrow."""
    make, gradient, _ = kinds(128)["dfa"]
    narrow = (len(gradient) * gradient.shape[1]) ** -0.5
    hits = [credit_cosine(make(torch.Generator().manual_seed(n)), gradient).value > BAND * narrow for n in range(100)]
    assert sum(hits) > 20


@pytest.mark.parametrize(
    ("name", "width"),
    [("dfa", 8), ("dfa", 128), ("dfa behind a ReLU", 16), ("dfa behind a ReLU", 8), ("dfa of two classes", 32),
     ("dfa of two classes", 8)],
)  # fmt: skip
def test_the_gradient_itself_covers(name: str, width: int) -> None:
    _, gradient, _ = kinds(width)[name]
    assert turned_std([(gradient, gradient)])[0] * BAND < 1


def test_closed_form_of_the_quantile() -> None:
    """Two dimensions: a random angle, P(cos > t) = arccos(t)/π."""
    assert bounded(2) * 3 / math.sqrt(2) == pytest.approx(math.cos(math.pi * 0.00135), abs=1e-3)
    values = [bounded(d) for d in (2, 3, 4, 8, 16, 64, 1000, 1e5)]
    assert values == sorted(values)
    assert values[-1] == 1.0


def test_what_is_dead_or_missing_has_no_null() -> None:
    a = torch.randn(5, 4)
    assert turned_std([(a * math.nan, a)])[1] == 0
    assert turned_std([(torch.cat([a, 0 * a]), torch.cat([a, a]))])[1] == 5
    assert not null_of(None, a, None).known
    assert not null_of(a, torch.randn(5, 3), None).known
    assert not null_of(0 * a, a, None).known
    known, unknown = null_of(a, a, None), null_of(None, a, None)
    assert mean_of([known, unknown]).std == known.std  # of one block
    assert mean_of([known] * 4).std == pytest.approx(known.std / 2)
    assert not mean_of([unknown]).known
