"""Norms, cosines, drift, precision. Oracles: closed forms, laws, finite differences, a dumber second implementation."""

import copy
import math
import sys

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor, nn
from torch.nn import functional as F

from strangers import Residual
from walkback.nets import Net, make_net
from walkback.probes import (
    credit_cosine,
    drift,
    gamma,
    gradient_norm,
    look,
    median_norm,
    net_precision,
    observe,
    precision,
    quantities,
)
from walkback.probes.observe import one_pass
from walkback.probes.precision import against_double
from walkback.probes.unwrap import copy_of_model
from walkback.records import Cosine, Precision
from walkback.rules import Rule, make_rule

SHAPE, CLASSES = (3, 8, 8), 4
GRID = [("resmlp", {"width": 12, "depth": 3}), ("resmlp", {"width": 8, "depth": 2, "terminal_norm": False}),
        ("vit-mini", {"width": 8, "depth": 2})]  # fmt: skip


def subject(net: str, options: dict[str, object], rule: str, count: int) -> tuple[Net, Rule, Tensor, Tensor]:
    torch.manual_seed(0)
    made = make_net(net, SHAPE, CLASSES, options)
    with torch.no_grad():
        for block in made.blocks:
            block.down.weight.normal_(std=0.3)  # as if trained: branches that matter
    heard = make_rule(rule, made, torch.Generator().manual_seed(1), {})
    return made, heard, torch.randn(count, *SHAPE), torch.randint(CLASSES, (count,))


def dumb_norm(row: Tensor) -> float:
    return math.sqrt(sum(float(v) ** 2 for v in row))


def dumb_cosine(a: Tensor, b: Tensor) -> float:
    return sum(float(x) * float(y) for x, y in zip(a, b, strict=True)) / dumb_norm(a) / dumb_norm(b)


def dumb_median(values: list[float]) -> float:
    ordered = sorted(values)
    middle = len(ordered) // 2
    return ordered[middle] if len(ordered) % 2 else (ordered[middle - 1] + ordered[middle]) / 2


@pytest.mark.parametrize(
    ("net", "options", "rule", "count"),
    [(*GRID[0], "fa", 6), (*GRID[0], "bp", 1), (*GRID[1], "dfa", 6), (*GRID[1], "fa", 1), (*GRID[2], "dfa", 1),
     (*GRID[2], "bp", 6)],
)  # fmt: skip
def test_second_implementation_of_a_measurement(net: str, options: dict[str, object], rule: str, count: int) -> None:
    made, heard, x, y = subject(net, options, rule, count)
    seen = observe(made, heard, x, y, torch.Generator())
    got = quantities(seen)
    hidden: list[list[Tensor]] = []
    gradients: list[list[Tensor]] = []
    for i in range(count):  # one sample at a time, and .grad instead of autograd.grad
        states = [made.embed(x[i : i + 1]).detach().requires_grad_()]
        for block in made.blocks:
            states.append(states[-1] + block(states[-1]))
            states[-1].retain_grad()
        F.cross_entropy(made.readout(states[-1]), y[i : i + 1]).backward()
        hidden.append([made.rows(h)[0].detach() for h in states])
        gradients.append([made.gradient_rows(h.grad)[0] for h in states])
    norms = [dumb_median([dumb_norm(row[layer]) for row in hidden]) for layer in range(made.depth + 1)]
    assert got["hidden_norms"] == pytest.approx(norms, rel=1e-5)
    sizes = [dumb_median([dumb_norm(row[layer]) / 128 for row in gradients]) for layer in range(made.depth + 1)]
    assert min(sizes) > 0
    assert got["gradient_norms"] == pytest.approx(sizes, rel=1e-4)
    credits = seen.credits
    at_input = credits.blocks if credits.at_input is None else credits.at_input
    for block in range(made.depth):
        before = [dumb_cosine(at_input[block][i], gradients[i][block]) for i in range(count)]
        after = [dumb_cosine(credits.blocks[block][i], gradients[i][block + 1]) for i in range(count)]
        assert got["cosine"][block].value == pytest.approx(sum(before) / count, abs=1e-5)
        assert got["cosine_out"][block].value == pytest.approx(sum(after) / count, abs=1e-5)
    assert got["gamma"] == pytest.approx(sum(c.value for c in got["cosine"]) / made.depth)


@pytest.mark.parametrize(("net", "options"), GRID)
def test_closed_form_backprop_agrees_with_itself(net: str, options: dict[str, object]) -> None:
    got = quantities(observe(*subject(net, options, "bp", 40), torch.Generator()))
    assert min(got["gradient_norms"]) > 0
    for cosine in (*got["cosine"], *got["cosine_out"], got["cosine_embed"]):
        assert cosine.value == pytest.approx(1, abs=1e-12)
        assert cosine.alive == 40


def moved_losses(net: Net, inputs: Tensor, labels: Tensor, move: Tensor) -> Tensor:
    """Each sample's loss when the rows at which the embedding's credit acts move by `move`."""
    start = net.embed(inputs)
    moved = start + (move[:, None, :] if start.dim() == 3 else move)  # every token, so that their mean moves so
    torch.testing.assert_close(net.embed_rows(moved) - net.embed_rows(start), move)
    return F.cross_entropy(net.readout(net.unroll(moved)[0][-1]), labels, reduction="none")


@pytest.mark.parametrize(("net", "options"), GRID[1:])
def test_finite_difference_the_embeddings_gradient_is_taken_where_its_credit_acts(
    net: str, options: dict[str, object]
) -> None:
    made, rule, inputs, labels = subject(net, options, "dfa", 6)
    seen = observe(made, rule, inputs, labels, torch.Generator())
    assert seen.embed_gradient.abs().max() > 1e-6
    assert quantities(seen)["cosine_embed"].value < 0.9  # a live comparison; bp's is 1
    twin = copy.deepcopy(made).double()
    direction = torch.randn(6, 8, generator=torch.Generator().manual_seed(2), dtype=torch.float64)
    with torch.no_grad():
        ends = [moved_losses(twin, inputs.double(), labels, sign * 1e-5 * direction) for sign in (1, -1)]
    slope = (ends[0] - ends[1]) / 2e-5
    torch.testing.assert_close((seen.embed_gradient.double() * direction).sum(1), slope, rtol=1e-3, atol=1e-5)


@pytest.mark.parametrize(("rule", "how"), [("fa", "batch"), ("dfa", "batch"), ("fa", "sample"), ("dfa", "none")])
def test_property_credits_do_not_depend_on_how_many_samples_are_looked_at_at_once(
    rule: str, how: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Normalised over each portion, the credit of a sample would depend on who stands beside it."""
    net, _, inputs, labels = subject(*GRID[0], "bp", 64)
    inputs[::2] *= 30  # large and small errors
    made = make_rule(rule, net, torch.Generator().manual_seed(3), {"normalize": how})
    found = []
    for chunk in (7, 64, 256):
        monkeypatch.setattr(sys.modules["walkback.probes.observe"], "CHUNK", chunk)
        seen = observe(net, made, inputs, labels, torch.Generator().manual_seed(4))
        found.append([a for a in (*seen.credits.blocks, seen.embed_credit) if a is not None])
    assert len(found[0]) == net.depth + 1
    for credits in zip(*found, strict=True):
        for other in credits[1:]:
            torch.testing.assert_close(credits[0], other, rtol=1e-4, atol=1e-7)
        assert credits[0].norm() > 0
        if how == "batch":  # over all samples its RMS is one
            assert float(credits[0].square().mean().sqrt()) == pytest.approx(1.0, rel=1e-4)


def test_property_gradient_norm_does_not_depend_on_the_batch() -> None:
    """… and it is what a batch of 128 really has: the gradient of its mean loss."""
    net, rule, x, y = subject(*GRID[0], "bp", 256)
    norms = []
    for size in (16, 128, 256):
        seen = [observe(net, rule, *part, torch.Generator()) for part in zip(x.split(size), y.split(size), strict=True)]
        norms.append(gradient_norm(torch.cat([each.gradients[1] for each in seen])))
    assert norms == pytest.approx([norms[0]] * 3, rel=1e-5)
    h = net.embed(x[:128]).detach().requires_grad_()
    F.cross_entropy(net.readout(net.unroll(h)[0][-1]), y[:128]).backward()
    assert h.grad is not None
    mine = observe(net, rule, x[:128], y[:128], torch.Generator())
    assert gradient_norm(mine.gradients[0]) == pytest.approx(median_norm(h.grad), rel=1e-5)
    assert median_norm(h.grad) > 0


# --- cosine


def test_a_clamped_meter_is_wrong_about_a_tiny_vector_and_ours_is_not() -> None:
    tiny = torch.zeros(5, 7)
    tiny[:, 2] = 3e-11
    assert F.cosine_similarity(tiny, tiny, dim=1).max() < 1e-4  # the planted defect
    assert credit_cosine(tiny, tiny) == Cosine(1.0, 5, 5, "ok")
    found = precision(tiny * 128, tiny.double() * 128)
    assert found.clamped > 0.999
    assert found.chord == 0
    large = torch.randn(5, 7) * 128
    assert precision(large, large.double()).clamped < 1e-6


@pytest.mark.parametrize(
    ("a", "g", "status"),
    [
        ([[0.0, 0.0]], [[1.0, 0.0]], "zero credit"),
        ([[1.0, 0.0]], [[0.0, 0.0]], "zero gradient"),
        ([[math.nan, 0.0]], [[1.0, 0.0]], "not finite"),
        ([[1.0, 0.0]], [[math.inf, 0.0]], "not finite"),
    ],
)
def test_a_dead_layer_is_never_a_cosine(a: list[list[float]], g: list[list[float]], status: str) -> None:
    found = credit_cosine(torch.tensor(a), torch.tensor(g))
    assert found.status == status
    assert math.isnan(found.value)
    assert gamma([found]) == pytest.approx((math.nan, 0), nan_ok=True)


def test_a_cosine_beyond_the_end_of_float64_is_not_counted() -> None:
    """Its norm is infinite there, which is no sample that lives."""
    huge = torch.full((3, 2), 1e200, dtype=torch.float64)
    found = credit_cosine(huge, huge)
    assert (found.status, found.alive) == ("not finite", 0)
    assert gamma([found, Cosine(0.5, 3, 3, "ok")]) == (0.5, 1)


# --- drift


@pytest.mark.parametrize(("count", "batch"), [(1024, 128), (1100, 128), (30, 4), (2, 1)])
def test_second_implementation_of_drift(count: int, batch: int) -> None:
    rows = torch.randn(count, 6) + torch.tensor([0.1, 0, 0, 0, 0, 0])
    means = [rows[i * batch : (i + 1) * batch].mean(0) for i in range(count // batch)]
    pairs = [dumb_cosine(a, b) for i, a in enumerate(means) for b in means[:i]]
    found = drift(rows, batch)
    assert found.value == pytest.approx(sum(pairs) / len(pairs), abs=1e-5)
    assert found.total == count // batch


def test_drift_says_what_is_missing() -> None:
    assert drift(torch.randn(255, 3)).status == "fewer than 2 whole batches of 128"
    assert drift(torch.zeros(256, 3)).status == "zero gradient"
    assert drift(torch.full((256, 3), math.nan)).status == "not finite"
    assert drift(torch.full((256, 3), 1e-30)).value == pytest.approx(1)  # small is not zero


# --- precision


def test_closed_form_precision() -> None:
    truth = torch.tensor([[1.0, 0.0], [1.0, 0.0], [1.0, 0.0], [0.0, 0.0]], dtype=torch.float64)
    angle = 0.3
    turned = torch.tensor([[math.cos(angle), math.sin(angle)]] * 3 + [[0.0, 1.0]])
    found = precision(turned, truth)
    assert found.chord == pytest.approx(2 * math.sin(angle / 2), rel=1e-6)
    assert (found.samples, found.status) == (3, "ok")
    lost = precision(torch.zeros(4, 2), truth)  # float32 underflowed
    assert (lost.chord, lost.clamped, lost.status) == (1, 1, "ok")
    assert precision(turned, truth * 0).status == "zero gradient"
    assert precision(turned, truth * math.nan).status == "not finite"
    assert precision(turned * math.nan, truth).status == "not finite"


@given(st.integers(0, 10_000), st.floats(1e-8, 1.0))
@settings(deadline=None, max_examples=50)
def test_property_no_cosine_is_off_by_more_than_the_chord(seed: int, noise: float) -> None:
    draw = torch.Generator().manual_seed(seed)
    truth, off, credit = (torch.randn(1, 5, generator=draw, dtype=torch.float64) for _ in range(3))
    single = truth + noise * off
    gap = abs(credit_cosine(credit, single).value - credit_cosine(credit, truth).value)
    assert gap <= precision(single, truth).chord + 1e-12


def test_precision_tells_noise_from_small() -> None:
    """A net whose stream is planted at 1e8: float32 loses the gradient's direction below, float64 does not."""
    net, _, x, y = subject("resmlp", {"width": 12, "depth": 2}, "bp", 32)
    healthy = net_precision(net, x, y, one_pass(net, x, y).gradients)
    assert all(p.status == "ok" and p.chord < 1e-4 for p in healthy)
    with torch.no_grad():
        net.embed[1].weight *= 1e8
        net.embed[1].bias += 1e13  # a common offset that the terminal norm has to cancel
    ill = net_precision(net, x, y, one_pass(net, x, y).gradients)
    assert all(p.status == "ok" for p in ill)
    assert ill[-1].chord > 100 * healthy[-1].chord
    assert ill[-1].clamped > 0.9 > 1e-5 > healthy[-1].clamped


def by_copy(model: nn.Module, batches: list[tuple[Tensor, Tensor]], blocks: str | list[str]) -> list[Precision]:
    seen = look(model, batches, blocks)
    twin = copy_of_model(model).double()
    return against_double(seen, twin, batches, blocks, samples=seen.samples, reduction="auto", loss=None)[0]


def test_second_implementation_the_precision_of_a_module_is_that_of_a_net() -> None:
    net, _, x, y = subject("resmlp", {"width": 12, "depth": 2}, "bp", 16)
    model = nn.Sequential(net.embed, *map(Residual, net.blocks), net.readout)
    found = by_copy(model, [(x, y)], ["1", "2"])
    for mine, theirs in zip(net_precision(net, x, y, one_pass(net, x, y).gradients), found, strict=True):
        assert theirs.status == "ok"
        assert 0 < theirs.chord < 1e-5
        assert mine.chord == pytest.approx(theirs.chord, rel=0.5)


def test_precision_that_cannot_be_had_says_why() -> None:
    class Uncopyable(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.block = nn.Linear(4, 4)

        def forward(self, x: Tensor) -> Tensor:
            return self.block(x)

        def __deepcopy__(self, memo: object) -> "Uncopyable":
            raise TypeError("cannot copy a lock")

    class Stubborn(Uncopyable):
        def forward(self, x: Tensor) -> Tensor:
            return self.block(x.float())

        __deepcopy__ = None

    batches = [(torch.randn(6, 4), torch.randint(4, (6,)))]
    with pytest.raises(TypeError, match="cannot copy a lock"):
        copy_of_model(Uncopyable())
    assert by_copy(Stubborn(), batches, "block")[0].status.startswith("not available: RuntimeError")
