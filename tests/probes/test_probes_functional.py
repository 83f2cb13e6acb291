"""Perturbation, nudging and the nulls. Oracles: backprop itself, closed forms, loops from the images."""

import itertools
import math

import numpy as np
import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional as F

from walkback.nets import Net, make_net
from walkback.probes import (
    credit_cosine,
    feedback_null,
    look,
    nudging,
    observe,
    pearson,
    perturbation,
    replay_module,
    replay_net,
)
from walkback.probes.null import RANDOM, Nulls, nulls_of, random_pair
from walkback.rules import Rule, make_rule

SHAPE, CLASSES = (3, 8, 8), 4


def subject(net: str = "resmlp", count: int = 24, **options: object) -> tuple[Net, Tensor, Tensor]:
    torch.manual_seed(0)
    made = make_net(net, SHAPE, CLASSES, {"width": 16, "depth": 3, **options})
    return made, torch.randn(count, *SHAPE), torch.randint(CLASSES, (count,))


def rule_for(net: Net, name: str, seed: int = 1) -> Rule:
    return make_rule(name, net, torch.Generator().manual_seed(seed), {})


def at_input(net: Net, name: str, x: Tensor, y: Tensor) -> list[Tensor]:
    credits = observe(net, rule_for(net, name), x, y, torch.Generator().manual_seed(2)).credits
    return list(credits.blocks if credits.at_input is None else credits.at_input)


# --- replay, perturbation, nudging


@pytest.mark.parametrize("net", ["resmlp", "vit-mini"])
def test_second_implementation_replaying_an_unmoved_state_gives_the_loss(net: str) -> None:
    made, x, y = subject(net)
    replay = replay_net(made, x, y)
    want = F.cross_entropy(made.double()(x.double()), y, reduction="none")
    for layer, h in enumerate(replay.hidden):
        assert torch.allclose(replay.loss_from(layer, h), want, atol=1e-12)
        assert not torch.allclose(replay.loss_from(layer, h + torch.randn(h.shape)), want, atol=1e-3)


def test_backprop_foretells_every_small_move_also_where_float32_could_not() -> None:
    made, x, y = subject()
    with torch.no_grad():
        made.embed[1].weight *= 1e7
    credits = at_input(made.double(), "bp", x.double(), y)
    assert min(torch.linalg.vector_norm(c, dim=1).min() for c in credits) > 0
    for rho in perturbation(credits, *replay_net(made, x.double(), y), torch.Generator(), directions=8):
        assert rho.value > 0.99


def test_noise_foretells_nothing() -> None:
    made, x, y = subject(count=64)
    for rho in perturbation(at_input(made, "random", x, y), *replay_net(made, x, y), torch.Generator()):
        assert abs(rho.value) < 0.1


def test_second_implementation_of_perturbation() -> None:
    """From the images, one sample and one direction at a time, with numpy's correlation."""
    made, x, y = subject(count=4)
    credits = at_input(made, "fa", x, y)
    got = perturbation(credits, *replay_net(made, x, y), torch.Generator().manual_seed(7), directions=3)
    made, draw = made.double(), torch.Generator().manual_seed(7)
    for layer, credit in enumerate(credits):
        foretold, true = [], []
        for _ in range(3):
            directions = torch.randn(4, 16, generator=draw, dtype=torch.float64)
            for i in range(4):
                h = made.embed(x[i : i + 1].double())
                for block in made.blocks[:layer]:
                    h = h + block(h)
                step = 1e-3 * directions[i] / directions[i].norm()
                ends = []
                for state in (h, h + step):
                    for block in made.blocks[layer:]:
                        state = state + block(state)
                    ends.append(F.cross_entropy(made.readout(state), y[i : i + 1]).item())
                foretold.append(float(credit[i].double() @ step))
                true.append(ends[1] - ends[0])
        assert got[layer].value == pytest.approx(np.corrcoef(foretold, true)[0, 1], abs=1e-6)


def test_perturbation_and_nudging_say_what_is_missing() -> None:
    made, x, y = subject(count=4)
    replay, zero = replay_net(made, x, y), torch.zeros(4, 16)
    statuses = [r.status for r in perturbation([None, zero, zero + math.nan], *replay, torch.Generator(), directions=2)]
    assert statuses == ["not measured", "zero credit", "not finite"]
    assert [n.status for n in nudging([None, zero, zero + math.nan], *replay)] == statuses
    assert all(math.isnan(n.value) for n in nudging([None, zero, zero + math.nan], *replay))
    flat = perturbation([zero + 1], [zero], lambda _, h: torch.ones(len(h)), torch.Generator(), directions=2)
    assert flat[0].status == "the loss does not change"


def test_closed_form_pearson() -> None:
    x = torch.randn(50, dtype=torch.float64)
    y = x + torch.randn(50, dtype=torch.float64)
    assert pearson(x, y).value == pytest.approx(np.corrcoef(x, y)[0, 1])
    assert pearson(x * 1e-200, y * 1e-200).value == pytest.approx(pearson(x, y).value)


@pytest.mark.parametrize("net", ["resmlp", "vit-mini"])
def test_closed_form_a_nudge_along_the_gradient_is_minus_eta_its_square(net: str) -> None:
    made, x, y = subject(net)
    true, replay = at_input(made, "bp", x, y), replay_net(made, x, y)
    for g, nudge in zip(true, nudging(true, *replay, eta=1e-5), strict=True):
        slope = float(g.double().square().sum(1).mean())
        assert slope > 0
        assert nudge.value == pytest.approx(-1e-5 * slope, rel=0.01)
    assert all(nudge.value < 0 for nudge in nudging(true, *replay))  # the published step
    assert all(nudge.value > 0 for nudge in nudging([-g for g in true], *replay))


class Layer(nn.Module):
    """Takes its state by keyword and gives a tuple: what replay has to put back together."""

    def __init__(self, pair: bool):
        super().__init__()
        self.inner, self.pair = nn.Sequential(nn.Linear(8, 8), nn.Tanh()), pair

    def forward(self, *, state: Tensor) -> Tensor | tuple[Tensor, None]:
        h = state + self.inner(state)
        return (h, None) if self.pair else h


class Model(nn.Module):
    def __init__(self, pair: bool):
        super().__init__()
        torch.manual_seed(0)
        self.embed, self.head = nn.Linear(5, 8), nn.Linear(8, CLASSES)
        self.layers = nn.ModuleList(Layer(pair) for _ in range(2))

    def forward(self, x: Tensor) -> Tensor:
        h = self.embed(x)
        for layer in self.layers:
            h = layer(state=h)
            h = h[0] if isinstance(h, tuple) else h
        logits: Tensor = self.head(h.mean(1) if h.dim() == 3 else h)
        return logits


@pytest.mark.parametrize(
    ("tokens", "pair", "reduction"), [(False, True, "auto"), (True, False, "auto"), (True, True, "flatten")]
)
def test_backprop_foretells_in_any_module(tokens: bool, pair: bool, reduction: str) -> None:
    model, x, y = Model(pair), torch.randn(12, *((6,) if tokens else ()), 5), torch.randint(CLASSES, (12,))
    seen = look(model, [(x, y)], "layers.*", reduction=reduction)
    replay = replay_module(model, x, y, "layers.*", reduction=reduction)
    assert len(replay.hidden) == 3
    for rho in perturbation(seen.gradients, *replay, torch.Generator(), directions=8):  # at h_0, h_1 and h_2
        assert rho.value > 0.99
    for g, nudge in zip(seen.gradients, nudging(seen.gradients, *replay), strict=True):
        assert nudge.value == pytest.approx(-0.01 * float(g.double().square().sum(1).mean()), rel=0.05)


# --- nulls


def random_null(gradients: list[Tensor | None], draws: int = 20) -> tuple[Nulls, Nulls]:
    """As for a rule that hears no feedback."""
    generator, places = torch.Generator().manual_seed(0), list(itertools.pairwise(gradients))
    each = ([random_pair(*pair, generator) for pair in places] for _ in range(draws))
    return nulls_of(gradients, each, [RANDOM] * len(places))


@pytest.mark.parametrize("rule", ["fa", "dfa", "bp", "random"])
def test_second_implementation_of_the_null(rule: str) -> None:
    """Twenty whole observations with a fresh rule each, in float64; and which block has which kind."""
    made, x, y = subject(count=40)
    (at_input, gamma), (at_output, gamma_out) = feedback_null(
        made, rule_for(made, rule), lambda k: rule_for(made, rule, 100 + k), x, y, torch.Generator()
    )
    kinds = {"fa": [True, True, False], "dfa": [True] * 3, "bp": [False] * 3, "random": [False] * 3}[rule]
    assert [null.kind == "fresh feedback" for null in at_input] == kinds
    gammas = []
    draws: list[list[tuple[float, float]]] = [[], [], []]
    for k in range(20):
        seen = observe(made, rule_for(made, rule, 100 + k), x, y, torch.Generator())
        for block in range(3):
            a = seen.credits.blocks[block]
            pair = [credit_cosine(a, seen.gradients[block + place]) for place in (0, 1)]
            assert all(c.status == "ok" for c in pair)
            draws[block].append((pair[0].value, pair[1].value))
        gammas.append([np.mean([draws[block][-1][place] for block in range(3)]) for place in (0, 1)])
    for block, fresh in enumerate(kinds):
        for place, null in enumerate((at_input[block], at_output[block])):
            assert (null.n, null.known) == (20, True)
            if fresh:
                values = [pair[place] for pair in draws[block]]
                assert null.mean == pytest.approx(np.mean(values), abs=1e-6)
                assert null.std == pytest.approx(np.std(values, ddof=1), abs=1e-6)
            else:
                assert abs(null.mean) < 4 / math.sqrt(20 * 40 * 16)
                assert null.std == pytest.approx((40 * 16) ** -0.5, rel=0.6)
    if rule == "dfa":
        for place, null in enumerate((gamma, gamma_out)):
            assert null.mean == pytest.approx(np.mean([g[place] for g in gammas]), abs=1e-6)
            assert null.std == pytest.approx(np.std([g[place] for g in gammas], ddof=1), abs=1e-6)
    assert gamma.kind == {"fa": "mixed", "dfa": "fresh feedback"}.get(rule, "random directions")


@pytest.mark.parametrize("width", [16, 64, 400])
def test_closed_form_random_directions_spread_as_one_over_root_d(width: int) -> None:
    gradients = [torch.randn(256, width) * 10.0 ** -(9 * k) for k in range(3)]  # norms do not matter
    (at_input, gamma), (at_output, _) = random_null(gradients, draws=400)
    for null in at_input + at_output:
        assert null.kind == "random directions"
        assert null.std == pytest.approx((256 * width) ** -0.5, rel=0.15)  # of a mean over 256 samples
        assert abs(null.mean) < 4 * (400 * 256 * width) ** -0.5
    assert gamma.n == 400


def test_a_null_without_a_gradient_says_so() -> None:
    alive = torch.randn(8, 4)
    (at_input, gamma), (at_output, _) = random_null([alive * 0, None, alive, torch.randn(8, 6)])
    assert [null.known for null in at_input] == [False, False, True]
    assert [null.known for null in at_output] == [False, True, True]
    assert math.isnan(at_input[0].mean)
    assert gamma.known
    assert not random_null([alive * math.nan] * 2)[0][1].known


def test_property_a_null_is_repeatable_and_dead_samples_are_left_out() -> None:
    made, x, y = subject("vit-mini", count=30)

    def once(samples: int) -> object:
        draw, few = torch.Generator().manual_seed(3), slice(samples)
        return feedback_null(made, rule_for(made, "fa"), lambda k: rule_for(made, "fa", k), x[few], y[few], draw)

    assert once(30) == once(30)
    assert once(30) != once(10)
    g = torch.randn(20, 8)
    half = torch.cat([g, torch.zeros(20, 8)])
    ((null,), _), _ = random_null([half, half], draws=400)
    assert null.std == pytest.approx((20 * 8) ** -0.5, rel=0.15)
