"""The reference of a stranger's model is proved: overridden backward passes are found, healthy nets are not accused.

Every override is planted in a net whose true gradient is known by a twin without it.
"""

import copy
import math
from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional as F

import walkback as wb
from strangers import Feedback, Residual, with_backward
from walkback.errors import BadValue
from walkback.loops.model_measured import measured
from walkback.loops.true_gradient import Asked
from walkback.probes import credit_cosine, gradient_norm, look
from walkback.probes.at_output import null_of
from walkback.probes.perturb import Worker, double_worker, spread
from walkback.probes.proof import Proof, agreement, prove
from walkback.probes.update import against_probe, left_in
from walkback.records import Moment

WIDTH, DEPTH, CLASSES, INPUTS = 24, 4, 3, 6
NAMES = [str(n) for n in range(1, DEPTH + 1)]


class Overridden(nn.Linear):
    """A linear layer with random backward weights, as libraries of feedback alignment build it."""

    def __init__(self, width: int, when: Callable[["Overridden", Tensor], bool] = lambda *_: True):
        super().__init__(width, width)
        self.feedback, self.when = torch.randn(width, width) / width**0.5, when

    def forward(self, x: Tensor) -> Tensor:
        if self.when(self, x):
            return Feedback.apply(x, self.weight, self.feedback) + self.bias
        return F.linear(x, self.weight, self.bias)


def net(overridden: tuple[int, ...] = (), act: Callable[[], nn.Module] = nn.Tanh, when: Any = lambda *_: True) -> Any:
    torch.manual_seed(0)
    blocks = [
        nn.Sequential(Overridden(WIDTH, when) if n in overridden else nn.Linear(WIDTH, WIDTH), act())
        for n in range(DEPTH)
    ]
    return nn.Sequential(nn.Linear(INPUTS, WIDTH), *blocks, nn.Linear(WIDTH, CLASSES))


def truth(model: nn.Sequential) -> nn.Sequential:
    """The same function by autograd alone."""
    plain = copy.deepcopy(model)
    for block in plain[1:-1]:
        linear = nn.Linear(WIDTH, WIDTH)
        linear.load_state_dict(block[0].state_dict())
        block[0] = linear
    return plain


def batches(count: int = 64, several: int = 1, *shape: int) -> list[tuple[Tensor, Tensor]]:
    draw = torch.Generator().manual_seed(5)
    x = torch.randn(count * several, *(shape or (INPUTS,)), generator=draw)
    return list(
        zip(x.split(count), torch.randint(CLASSES, (count * several,), generator=draw).split(count), strict=True)
    )


def proofs(model: nn.Module, blocks: Any = NAMES, data: Any = None, double: bool = True) -> list[Proof]:
    own = Worker(model, *(data or batches())[0], blocks, None)
    twin = double_worker(own, blocks, own.still.losses)[0] if double else None
    return prove(own, twin, torch.Generator().manual_seed(0))


def standings(model: nn.Module, *args: Any, **options: Any) -> list[str]:
    return [proof.standing for proof in proofs(model, *args, **options)]


def moment(
    model: nn.Module, credits: Any = "backward", blocks: Any = NAMES, data: Any = None, **options: Any
) -> Moment:
    given: dict[str, Any] = {"redraw": None, "reduction": "auto", "loss": None, "describe": False, "residual": False}
    return measured(model, Asked(data or batches(), blocks, credits, **given | options)).moment


PROVED = ["proved"] * (DEPTH + 1)


# --- healthy nets are proved ----------------------------------------------------------------------------------------


def test_planted_one_output_per_sample_is_proved() -> None:
    """Outputs (N,), as of a regression: a pass took them for (N, classes), so nothing could be proved."""
    ((x, y),) = batches()
    model = nn.Sequential(*net(()), nn.Linear(CLASSES, 1), nn.Flatten(0))
    own = Worker(model, x, y, NAMES, lambda output, labels: (output - labels) ** 2)
    twin = double_worker(own, NAMES, own.still.losses)[0]
    assert [proof.standing for proof in prove(own, twin, torch.Generator().manual_seed(0))] == PROVED


class Tokens(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        torch.manual_seed(1)
        self.embed, self.head = nn.Linear(5, 8), nn.Linear(8, CLASSES)
        layer = nn.TransformerEncoderLayer(8, 2, 12, batch_first=True, norm_first=True)
        self.blocks = nn.TransformerEncoder(layer, 2, enable_nested_tensor=False).layers

    def forward(self, x: Tensor) -> Tensor:
        h = self.embed(x)
        for block in self.blocks:
            h = block(h)
        return self.head(h.mean(1))


class Images(nn.Module):
    """Max-pooling behind a ReLU: windows of zeros tie, and have no derivative."""

    def __init__(self) -> None:
        super().__init__()
        torch.manual_seed(2)
        self.a = nn.Sequential(nn.Conv2d(2, 4, 3, padding=1), nn.ReLU())
        self.b = nn.Sequential(nn.Conv2d(4, 4, 3, padding=1), nn.BatchNorm2d(4), nn.ReLU(inplace=True))
        self.head = nn.Linear(16, CLASSES)

    def forward(self, x: Tensor) -> Tensor:
        return self.head(F.max_pool2d(self.b(F.max_pool2d(self.a(x), 2)), 2).flatten(1))


class Branches(nn.Module):
    """Blocks are branches, and the skip is outside them; or they add themselves."""

    def __init__(self, scale: float = 1.0, adds: bool = False) -> None:
        super().__init__()
        torch.manual_seed(3)
        self.embed, self.scale, self.adds = nn.Linear(INPUTS, WIDTH), scale, adds
        self.blocks = nn.ModuleList(nn.Sequential(nn.LayerNorm(WIDTH), nn.Linear(WIDTH, WIDTH)) for _ in range(3))
        self.norm, self.head = nn.LayerNorm(WIDTH), nn.Linear(WIDTH, CLASSES)
        if adds:
            self.blocks = nn.ModuleList(map(Residual, self.blocks))

    def forward(self, x: Tensor) -> Tensor:
        h = self.embed(x) * self.scale
        for block in self.blocks:
            h = block(h) if self.adds else h + block(h)
        return self.head(self.norm(h))


class Wrapped(nn.Linear):
    """A block that gives a tuple or a mapping."""

    def __init__(self, kind: Any) -> None:
        super().__init__(INPUTS, INPUTS)
        self.kind = kind

    def forward(self, x: Tensor) -> Any:
        h = super().forward(x).tanh()
        return (h, None) if self.kind is tuple else {"h": h}


class Pairs(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        torch.manual_seed(4)
        self.first, self.second = Wrapped(tuple), Wrapped(dict)

    def forward(self, x: Tensor) -> Tensor:
        return self.second(self.first(x)[0])["h"][:, :CLASSES]


@pytest.mark.parametrize(
    ("model", "blocks", "shape"),
    [
        (net(), NAMES, ()),
        (net(act=nn.ReLU), NAMES, ()),
        (net(act=nn.Hardtanh), NAMES, ()),
        (Tokens(), "blocks.*", (7, 5)),
        (Images(), ["a", "b"], (2, 8, 8)),
        (Branches(), "blocks.*", ()),
        (Pairs(), ["first", "second"], ()),
    ],
    ids=["tanh", "relu", "hardtanh", "transformer", "cnn", "branches", "outputs"],
)
def test_a_healthy_net_is_proved_and_its_own_backward_covers_it(model: Any, blocks: Any, shape: Any) -> None:
    data = batches(64, 1, *shape)
    assert set(standings(model, blocks, data)) == {"proved"}
    found = moment(model, blocks=blocks, data=data)
    assert [c.value for c in found.cosine] == pytest.approx([1.0] * len(found.cosine))
    assert [c.value for c in found.cosine_out] == pytest.approx([1.0] * len(found.cosine))


@pytest.mark.parametrize("scale", [1e4, 1e8, 1e12])
def test_a_stream_dead_behind_a_layer_norm_is_not_accused(scale: float) -> None:
    """‖g‖ goes with 1/‖h‖; in float64 it can still be told, unless what is moved is below the last digit of the sum."""
    stream, branches = Branches(scale, adds=True), Branches(scale)
    assert {p.standing for p in proofs(stream, "blocks.*")} <= {"proved", "float64"}
    assert "wrong" not in {p.standing for p in proofs(branches, "blocks.*")}
    norms, others = (moment(model, blocks="blocks.*").gradient_norms for model in (stream, Branches(1e6, adds=True)))
    assert norms[-1] * scale == pytest.approx(others[-1] * 1e6, rel=0.01)


def test_a_net_that_fits_its_data_is_not_accused() -> None:
    model, ((x, y),) = net(), batches()
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-2)
    for _ in range(100):
        optimizer.zero_grad()
        F.cross_entropy(model(x), y).backward()
        optimizer.step()
    assert F.cross_entropy(model(x), y) < 0.01
    assert standings(model) == PROVED


@pytest.mark.parametrize("dtype", [torch.float64, torch.bfloat16, torch.float16])
def test_other_precisions_are_proved_in_float64(dtype: torch.dtype) -> None:
    ((x, y),) = batches()
    found = standings(net().to(dtype), data=[(x.to(dtype), y)])
    assert found == PROVED if dtype is torch.float64 else set(found) <= {"proved", "float64"}
    wrong = standings(net((2,)).to(dtype), data=[(x.to(dtype), y)])
    assert wrong[:3] == ["wrong"] * 3
    assert "wrong" not in wrong[3:]


class Single(nn.Module):
    """Refuses to run in float64."""

    def __init__(self, inner: nn.Module) -> None:
        super().__init__()
        self.inner = inner

    def forward(self, x: Tensor) -> Tensor:
        assert x.dtype == torch.float32
        return self.inner(x)


def test_a_model_that_cannot_be_cast_is_tested_in_its_own_precision() -> None:
    blocks = [f"inner.{name}" for name in NAMES]
    healthy, sick = (standings(Single(net(which)), blocks) for which in ((), (2,)))
    assert "wrong" not in healthy
    assert sick[:3] == ["wrong"] * 3
    assert "wrong" not in sick[3:]
    judged = wb.audit(Single(net((2,))), batches(), blocks, credits="backward").subjects[0]
    assert any("there it is not known" in note for note in judged.notes)


# --- overridden backward passes -------------------------------------------------------------------------------------


def hooked(change: Callable[[Tensor], Tensor]) -> nn.Sequential:
    model = net()
    model[3].register_full_backward_hook(lambda _, given, __: tuple(None if g is None else change(g) for g in given))
    return model


class Does(nn.Module):
    """What is put behind a block: a function of what the block gives, and of whether the model trains."""

    def __init__(self, do: Callable[[Tensor, bool], Tensor]) -> None:
        super().__init__()
        self.do = do

    def forward(self, x: Tensor) -> Tensor:
        return self.do(x, self.training)


def every_second(x: Tensor, _: bool) -> Tensor:
    """A hook on the tensor, which forgets every second column."""
    y = x * 1
    if y.requires_grad:
        y.register_hook(lambda g: g * (torch.arange(g.shape[1]) % 2))
    return y


def straight(x: Tensor, _: bool) -> Tensor:
    """sign(x), with the gradient of the identity."""
    return x + (x.sign() - x).detach()


def scaled(factor: float) -> nn.Module:
    """The identity, with a gradient of another size."""
    return Does(lambda x, _: x.detach() + factor * (x - x.detach()))


def added(do: Callable[[Tensor, bool], Tensor]) -> nn.Sequential:
    model = net()
    model[3].append(Does(do))
    return model


def cut(x: Tensor, _: bool) -> Tensor:
    return x.detach()


@pytest.mark.parametrize(
    ("model", "factor"),
    [
        (net((2,)), math.nan),
        (net((2,), nn.ReLU), math.nan),
        (hooked(lambda g: 2 * g), 2.0),
        (hooked(lambda g: -g), -1.0),
        (hooked(lambda g: 0 * g), 0.0),
        (hooked(lambda g: g.clamp(-1e-3, 1e-3)), math.nan),
        (hooked(lambda g: g.sign()), math.nan),
        (added(every_second), math.nan),
        (added(straight), math.nan),
    ],
    ids=["feedback", "feedback relu", "twice", "sign", "zero", "clamp", "signs", "tensor hook", "straight"],
)  # fmt: skip
def test_one_overridden_backward_is_found_out_below_it_and_nowhere_else(model: Any, factor: float) -> None:
    """Planted in the third of four blocks: h_0, h_1 and h_2 are wrong, h_3 and h_4 are not."""
    found = proofs(model)
    assert [p.standing for p in found] == ["wrong"] * 3 + ["proved"] * 2
    assert [p.factor for p in found[:3]] == pytest.approx([factor] * 3, rel=1e-3, nan_ok=True)
    says = wb.audit(model, batches(), NAMES).subjects[0].notes[-1]
    assert "does not deliver the derivative of the loss at the input of 1, the output of 1 and the output of 2" in says
    assert ("times that" in says) == (not math.isnan(factor))
    assert 'credits="backward"' in says


def test_a_detached_state_receives_nothing_from_there_down() -> None:
    found = proofs(added(cut))
    assert [p.standing for p in found] == ["wrong"] * 4 + ["proved"]
    assert [p.factor for p in found[:4]] == [0.0] * 4


class InPlace(nn.Module):
    """The skip is outside the block and works in place: moving the block's input alone would miss it."""

    def __init__(self) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.embed, self.block = nn.Linear(INPUTS, CLASSES), nn.Tanh()

    def forward(self, x: Tensor) -> Tensor:
        h = self.embed(x) * 2
        h += self.block(h)
        return h


def test_a_skip_outside_the_block_that_works_in_place_is_proved() -> None:
    assert standings(InPlace(), ["block"]) == ["proved", "proved"]


@pytest.mark.parametrize("few", [64, 0], ids=["every dimension", "random directions"])
def test_second_implementation_without_autograd_gives_the_true_cosines_and_norms(
    few: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An untrained net with random backward weights: autograd called itself the truth, at cosine 1."""
    monkeypatch.setattr("walkback.probes.finite_differences.FEW", few)
    model = net(tuple(range(DEPTH)))
    data = batches()
    close = 1e-3 if few else 0.25  # two standard deviations of a norm from 32 directions that all samples share
    seen, true = look(model, data, NAMES), look(truth(model), data, NAMES)
    cosines = [credit_cosine(a, g).value for a, g in zip(seen.gradients, true.gradients, strict=True)]
    assert max(map(abs, cosines[:-1])) < 0.5
    found = moment(model, data=data)
    assert [c.value for c in found.cosine] == pytest.approx(cosines[:-1], rel=close, abs=close / 10)
    assert [c.value for c in found.cosine_out] == pytest.approx(cosines[1:], rel=close, abs=close / 10)
    norms = [gradient_norm(g) for g in true.gradients]
    assert found.gradient_norms == pytest.approx(norms, rel=close)
    assert found.gamma == pytest.approx(sum(cosines[1:]) / DEPTH, rel=close)
    closed = [null_of(a, g, None).std for a, g in zip(seen.gradients[1:], true.gradients[1:], strict=True)]
    assert [n.std for n in found.null_out] == pytest.approx(closed, rel=0.01 if few else 0.6)


def test_given_credits_are_held_against_the_truth_where_backward_is_wrong() -> None:
    model, data = net(tuple(range(DEPTH))), batches()
    true = look(truth(model), data, NAMES).gradients
    found = moment(model, credits=lambda *_: list(true[1:]), data=data)
    assert [c.value for c in found.cosine_out] == pytest.approx([1.0] * DEPTH, abs=1e-3)
    nothing = moment(model, credits=lambda *_: [torch.zeros(64, WIDTH)] * DEPTH, data=data)
    assert [c.status for c in nothing.cosine_out] == ["zero credit"] * DEPTH


def test_what_is_right_up_to_a_scale_covers_and_what_is_cut_does_not() -> None:
    twice = moment(hooked(lambda g: 2 * g))
    assert [c.value for c in twice.cosine_out] == pytest.approx([1.0] * 4, abs=1e-3)
    away = moment(hooked(lambda g: -g))
    assert [c.value for c in away.cosine_out] == pytest.approx([-1.0, -1.0, 1.0, 1.0], abs=1e-3)
    below = moment(added(cut))
    assert [c.status for c in below.cosine_out] == ["zero credit", "zero credit", "zero credit", "ok"]
    assert all(norm is not None and norm > 0 for norm in below.gradient_norms)


def test_what_has_no_derivative_has_a_gradient_of_zero() -> None:
    """sign(x) is flat almost everywhere, whatever the straight-through estimator delivers."""
    found = moment(added(straight))
    assert found.gradient_norms[:3] == [0.0] * 3
    assert [c.status for c in found.cosine_out] == ["zero gradient", "zero gradient", "ok", "ok"]


@pytest.mark.parametrize(
    ("when", "expected"),
    [
        (lambda layer, x: layer.training, PROVED),  # in evaluation mode autograd is right, and the reference is good
        (lambda layer, x: torch.is_grad_enabled() and x.requires_grad, ["wrong"] * 3 + ["proved"] * 2),
        (lambda layer, x: x.dtype == torch.float32, ["float64"] * 3 + ["proved"] * 2),
    ],
    ids=["in training", "with gradients", "in float32"],
)
def test_a_backward_overridden_at_times_is_the_credit_that_trains(when: Any, expected: list[str]) -> None:
    model = net((2,), when=when)
    assert standings(model) == expected
    found = [c.value for c in moment(model).cosine_out]
    assert max(map(abs, found[:2])) < 0.5
    assert found[2:] == pytest.approx([1.0, 1.0])


def test_torchs_own_dropout_draws_nothing_and_the_models_own_leaves_nothing_to_compare() -> None:
    def own(x: Tensor, training: bool) -> Tensor:
        return 2 * x * torch.bernoulli(torch.full_like(x, 0.5)) if training else x

    ordinary = net()
    ordinary[3].append(nn.Dropout(0.5))
    for model in (ordinary, added(lambda x, training: F.dropout(x, 0.5, training))):
        assert [c.value for c in moment(model).cosine_out] == pytest.approx([1.0] * 4)
    assert {c.status for c in moment(added(own)).cosine_out} == {"not available"}
    (judged,) = wb.audit(added(own), batches(), NAMES, credits="backward").subjects
    assert any("in training mode the model computes another loss" in note for note in judged.notes)


# --- what cannot be verified never holds ----------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("part", "why"),
    [(lambda x, _: F.dropout(x, 0.5), "the forward pass is random"),
     (lambda x, _: x - x.mean(0), "mixes the samples of a batch")],
    ids=["random", "mixing"],
)  # fmt: skip
def test_where_differences_mean_nothing_it_says_so_and_nobody_holds(part: Any, why: str) -> None:
    models = {seed: added(part) for seed in (1, 2)}
    for seed, model in models.items():
        torch.manual_seed(seed)
        model.append(nn.Identity())
        nn.init.normal_(model[0].weight)
    (judged,) = wb.audit(
        models, batches(), NAMES, residual=True, credits="backward", accuracy=[0.6, 0.61], frozen=[0.3, 0.31],
        half=[0.5, 0.51], bp=[0.6, 0.61], frozen_bp=[0.3, 0.31], half_bp=[0.5, 0.51],
    ).subjects  # fmt: skip
    assert any(why in note for note in judged.notes)
    assert {f.check: f.outcome for f in judged.findings}["reference"] == "open"
    assert judged.verdict == "open"


def test_a_state_that_something_else_reads_is_not_accused() -> None:
    class Early(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            torch.manual_seed(0)
            self.skip, self.block, self.head = (nn.Linear(INPUTS, INPUTS) for _ in range(3))

        def forward(self, x: Tensor) -> Tensor:
            h = x * 1
            aside = self.skip(h)
            return self.head(self.block(h).tanh() + aside)[:, :CLASSES]

    first, second = proofs(Early(), ["block"])
    assert (first.standing, second.standing) == ("not verified", "proved")
    assert "something other than the next block reads this state" in first.why


def test_closed_form_of_the_agreement() -> None:
    slope = torch.linspace(1, 3, 20).double()
    none = torch.zeros(20).double()
    assert agreement(slope, none, none, slope * (1 + 5e-3), 1e-2).standing == "proved"
    assert agreement(slope, none, none, slope * (1 + 5e-2), 1e-2).standing == "wrong"
    few = slope.clone()
    few[:2] = -few[:2]
    assert agreement(slope, none, none, few, 1e-2).standing == "proved"  # two of twenty may sit at a kink
    few[:3] = -slope[:3]
    assert agreement(slope, none, none, few, 1e-2).standing == "wrong"
    one = slope[:4].clone()
    one[0] = -one[0]
    assert agreement(slope[:4], none[:4], none[:4], one, 1e-2).standing == "proved"  # one alone never accuses
    assert agreement(slope, none, none + 10, 2 * slope, 1e-2).standing == "not verified"  # all of it rounding
    assert agreement(none, none, none + 1e-9, none, 1e-2)[:2] == ("proved", "zero")
    assert agreement(slope * math.nan, none, none, slope, 1e-2).standing == "not verified"


# --- the door -------------------------------------------------------------------------------------------------------


def test_the_samples_of_the_proof_are_spread_over_all_batches() -> None:
    data = batches(4, 20)
    x, y, rows = spread(data, 40)
    assert rows.tolist() == list(range(0, 80, 2))
    assert torch.equal(x, torch.cat([inputs for inputs, _ in data])[rows])
    assert torch.equal(y, torch.cat([labels for _, labels in data])[rows])
    assert spread(data, 100).rows.tolist() == list(range(80))
    uneven = [(torch.zeros(4, 7, 2), y[:4]), (torch.zeros(4, 9, 2), y[:4]), (torch.ones(4, 7, 2), y[:4])]
    assert spread(uneven, 64).rows.tolist() == [0, 1, 2, 3, 8, 9, 10, 11]
    mapped, labels, _ = spread([({"a": x[:4], "n": 3}, y[:4]), ({"a": x[4:8], "n": 3}, y[4:8])], 8)
    assert torch.equal(mapped["a"], x[:8])
    assert len(labels) == 8
    swapped, _, _ = spread([({"a": x[:4], "b": -x[:4]}, y[:4]), ({"b": -x[4:8], "a": x[4:8]}, y[4:8])], 8)
    assert torch.equal(swapped["a"], x[:8])  # by name, not by place
    assert standings(net((2,)), data=[spread(batches(1, 5), 64)[:2]])[:3] == ["wrong"] * 3


def late(g: Tensor) -> Tensor:
    """Right for the first 64 samples of a batch, and noise for the others."""
    draw = torch.Generator().manual_seed(0)
    noise = torch.randn(g[64:].shape, generator=draw, dtype=g.dtype) * g.norm() / g.numel() ** 0.5
    return torch.cat([g[:64], noise])


def halved(g: Tensor) -> Tensor:
    """Every second sample is forgotten."""
    return g * (torch.arange(len(g)) % 2 == 0).to(g).view(-1, 1)


@pytest.mark.parametrize("backward", [late, halved])
def test_second_way_a_backward_that_is_right_for_some_samples_is_found(backward: Callable[[Tensor], Tensor]) -> None:
    model = net()
    through = with_backward(backward)
    model[2].append(Does(lambda x, _: through(x)))
    data = batches(500)
    plain = look(net(), data, NAMES)
    found = measured(model, Asked(data, NAMES, "backward", None, "auto", None, False, False))
    assert [p.standing for p in found.reference.proofs] == ["wrong", "wrong", "proved", "proved", "proved"]
    rows = found.reference.picked.rows
    assert len(rows) == 64
    assert rows[-1] > 480
    for state in (0, 1):  # what finite differences measured is the plain net's gradient of the same samples
        true, mine = plain.gradients[state], found.reference.rows[state]
        assert true is not None
        assert mine is not None
        assert credit_cosine(mine, true[rows]).value > 0.9999
    delivered, true = look(model, data, NAMES).gradients[1], plain.gradients[1]
    assert delivered is not None
    assert true is not None
    told = (found.moment.cosine_out or [])[0]
    assert told is not None
    assert told.value == pytest.approx(credit_cosine(delivered[rows], true[rows]).value, abs=1e-3)
    assert any("not in these batches" in note for note in found.notes) == (backward is late)


def test_error_an_unknown_word_for_credits() -> None:
    with pytest.raises(BadValue, match="credits='forward' is not known"):
        wb.audit(net(), batches(), NAMES, credits="forward")


def test_redrawn_feedback_is_the_null() -> None:
    def credits(feedback: Tensor) -> Any:
        return lambda model, x, y: [
            (model(x).softmax(1) - F.one_hot(y, CLASSES)).detach() @ feedback for _ in range(DEPTH)
        ]

    def redraw(model: nn.Module, x: Tensor, y: Tensor, draw: int) -> Any:
        return credits(torch.randn(CLASSES, WIDTH, generator=torch.Generator().manual_seed(draw)))(model, x, y)

    trained = torch.randn(CLASSES, WIDTH, generator=torch.Generator().manual_seed(99))
    turned, redrawn = moment(net(), credits(trained)), moment(net(), credits(trained), redraw=redraw)
    assert [n.kind for n in turned.null_out] == ["turned credits"] * DEPTH
    assert [n.kind for n in redrawn.null_out] == ["fresh feedback"] * DEPTH
    assert [n.n for n in redrawn.null_out] == [20] * DEPTH
    assert turned.cosine_out == redrawn.cosine_out
    for ours, theirs in zip(turned.null_out, redrawn.null_out, strict=True):
        assert 0.5 < ours.std / theirs.std < 2
        assert abs(theirs.mean) < 3 * theirs.std


# --- one step size alone accuses nobody -----------------------------------------------------------------------------


class Ripple(nn.Module):
    """A ripple of 1 % before the head: exact autograd, whose slope a step longer than a wave does not see."""

    def __init__(self, inner: nn.Sequential, waves: float) -> None:
        super().__init__()
        self.inner, self.waves = inner, waves

    def forward(self, x: Tensor) -> Tensor:
        h = self.inner[:-1](x)
        return self.inner[-1](h + 0.01 * torch.sin(self.waves * h))


INNER = [f"inner.{name}" for name in NAMES]


@pytest.mark.parametrize("waves", [1e2, 3e4, 3e5, 1e6, 1e7, 1e8])
def test_planted_a_ripple_before_the_head_does_not_accuse_exact_autograd(waves: float) -> None:
    assert "wrong" not in standings(Ripple(net(), waves), INNER)


@pytest.mark.parametrize("waves", [1e1, 1e2, 1e4])
def test_planted_a_wrong_backward_behind_a_ripple_is_still_found(waves: float) -> None:
    assert standings(Ripple(net((2,)), waves), INNER) == ["wrong"] * 3 + ["proved"] * 2


@pytest.mark.parametrize("factor", [0.9, 1.1, -1.0, 30.0])
def test_planted_a_backward_scaled_within_one_block_is_found_by_two_steps(factor: float) -> None:
    model = net()
    model[3] = nn.Sequential(model[3], scaled(factor))
    found = proofs(model)
    assert [p.standing for p in found] == ["wrong"] * 3 + ["proved"] * 2
    assert [p.factor for p in found[:3]] == pytest.approx([factor] * 3, rel=1e-3)


@pytest.mark.parametrize("waves", [1e2, 1e5, 1e6])
@pytest.mark.parametrize("overridden", [(), (2,)])
def test_planted_a_ripple_does_not_accuse_the_parameters_gradients_either(
    waves: float, overridden: tuple[int, ...]
) -> None:
    """Nor hides a wrong backward: below it the gradients are not proved."""
    model = Ripple(net(overridden), waves).double()
    ((x, y),) = batches()
    worker = Worker(model, x.double(), y, INNER, None)
    F.cross_entropy(model(x.double()), y).backward()
    found, _, _ = against_probe(left_in(worker.modules), worker, differences=False)
    proved = [reading.status == "ok" for reading in found]
    assert proved == [n >= max(overridden, default=0) for n in range(DEPTH)]
