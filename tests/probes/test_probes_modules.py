"""A look inside any module. Oracles: finite differences, a run by hand one sample at a time, and planted oddities."""

import copy
from collections.abc import Callable

import numpy as np
import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional as F

from walkback.errors import BadValue, UnknownName
from walkback.nets import make_net
from walkback.nets.reduction import has_cls_token, lift, reduce_gradient, reduce_hidden
from walkback.probes import Look, find_blocks, look

CLASSES = 3


def summed(output: Tensor, labels: Tensor) -> Tensor:
    return output.flatten(1).sum(1)


def batch(count: int, *shape: int, seed: int = 0) -> tuple[Tensor, Tensor]:
    draw = torch.Generator().manual_seed(seed)
    inputs = torch.randn(count, *shape, generator=draw, dtype=torch.float64)
    return inputs, torch.randint(CLASSES, (count,), generator=draw)


def mlp(width: int = 6, depth: int = 3) -> nn.Sequential:
    torch.manual_seed(1)
    hidden = [nn.Sequential(nn.Linear(width, width), nn.Tanh()) for _ in range(depth)]
    return nn.Sequential(nn.Linear(5, width), *hidden, nn.Linear(width, CLASSES)).double()


class Tokens(nn.Module):
    """A transformer on sequences, batch first; the readout is the mean or the first token."""

    def __init__(self, cls: bool = False, batch_first: bool = True, read: Callable[[Tensor], Tensor] | None = None):
        super().__init__()
        torch.manual_seed(2)
        self.embed = nn.Linear(5, 8)
        if cls:
            self.cls_token = nn.Parameter(torch.randn(1, 1, 8))
        layer = nn.TransformerEncoderLayer(8, 2, 12, batch_first=batch_first, norm_first=True)
        self.encoder = nn.TransformerEncoder(layer, 2, enable_nested_tensor=False)
        self.head = nn.Linear(8, CLASSES)
        self.read = read or (lambda h: h[:, 0] if cls else h.mean(1 if batch_first else 0))
        self.double()

    def start(self, x: Tensor) -> Tensor:
        h: Tensor = self.embed(x)
        return torch.cat([self.cls_token.expand(len(x), -1, -1), h], 1) if hasattr(self, "cls_token") else h

    def forward(self, x: Tensor) -> Tensor:
        logits: Tensor = self.head(self.read(self.encoder(self.start(x))))
        return logits


def alive(*gradients: Tensor | None) -> None:
    for g in gradients:
        assert g is not None
        assert g.isfinite().all()
        assert torch.linalg.vector_norm(g, dim=1).min() > 0


def differences_agree(g: Tensor | None, h: Tensor, how: str, losses: Callable[[Tensor], Tensor]) -> None:
    """⟨g_i, δ_i⟩ against the central difference of sample i's loss when its feature moves by δ_i, lifted by hand."""
    alive(g)
    draw = torch.Generator().manual_seed(9)
    for _ in range(3):
        delta = torch.randn(g.shape, generator=draw, dtype=torch.float64)
        if how == "mean":
            move = torch.stack([delta] * h.shape[1], 1)
        elif how == "cls":
            move = torch.cat([delta[:, None], torch.zeros_like(h[:, 1:])], 1)
        else:
            move = delta.reshape(h.shape)
        slope = (losses(h + 1e-5 * move) - losses(h - 1e-5 * move)) / 2e-5
        assert torch.allclose((g * delta).sum(1), slope, rtol=1e-6, atol=1e-9)


@pytest.mark.parametrize(("cls", "how"), [(False, "mean"), (True, "cls"), (False, "flatten"), (True, "mean")])
def test_finite_difference_in_a_transformer(cls: bool, how: str) -> None:
    model, (x, y) = Tokens(cls).eval(), batch(4, 6, 5)
    asked = "auto" if (cls, how) in [(False, "mean"), (True, "cls")] else how
    seen = look(model, [(x, y)], "encoder.layers.*", reduction=asked)
    assert [row.reduction for row in seen.layers] == [how, how]
    assert [row.name for row in seen.layers] == ["encoder.layers.0", "encoder.layers.1"]
    assert seen.seen == ("encoder.layers.0", "encoder.layers.1")
    assert all(row.same_shape for row in seen.layers)
    states = [model.start(x)]
    for layer in model.encoder.layers:
        states.append(layer(states[-1]))
    for i, h in enumerate(states):

        def losses(moved: Tensor, i: int = i) -> Tensor:
            for layer in model.encoder.layers[i:]:
                moved = layer(moved)
            return F.cross_entropy(model.head(model.read(moved)), y, reduction="none")

        assert torch.allclose(seen.hidden[i], reduce_hidden(h, how))
        differences_agree(seen.gradients[i], h.detach(), how, losses)


def test_finite_difference_in_a_sequential() -> None:
    model, (x, y) = mlp(), batch(7, 5)
    seen = look(model, [(x[:4], y[:4]), (x[4:], y[4:])], ["1", "2", "3"])
    h = model[0](x)
    for i in range(4):
        rest = model[i + 1 :]
        differences_agree(
            seen.gradients[i], h.detach(), "as is", lambda m, rest=rest: F.cross_entropy(rest(m), y, reduction="none")
        )
        assert torch.allclose(seen.hidden[i], h)
        h = model[i + 1](h)
    loss = F.cross_entropy(model(x), y)
    assert seen.loss == pytest.approx(loss.item())
    assert seen.accuracy == float((model(x).argmax(1) == y).double().mean())
    assert seen.status == "ok"


@pytest.mark.parametrize(
    ("how", "shape"),
    [
        ("cls", (3, 4, 5)),
        ("last", (3, 4, 5)),
        *((how, shape) for how in ("mean", "flatten") for shape in [(3, 4, 5), (3, 4, 2, 2)]),
    ],
)
def test_property_lift_is_the_transpose_of_the_reduction(how: str, shape: tuple[int, ...]) -> None:
    g = torch.randn(shape, dtype=torch.float64)
    delta = torch.randn_like(reduce_gradient(g, how))
    raised = lift(delta, g, how)
    assert torch.allclose((reduce_gradient(g, how) * delta).flatten(1).sum(1), (g * raised).flatten(1).sum(1))
    assert torch.allclose(reduce_hidden(raised, how), delta)  # moves the reduced feature by delta


@pytest.mark.parametrize("sizes", [(1,), (16,), (5, 11), (1, 2, 13)])
def test_second_implementation_one_sample_at_a_time(sizes: tuple[int, ...]) -> None:
    model, (x, y) = mlp(depth=2), batch(16, 5)
    x, y = x[: sum(sizes)], y[: sum(sizes)]
    seen = look(model, zip(x.split(sizes), y.split(sizes), strict=True), ["1", "2"])
    for i in range(len(x)):
        h = model[0](x[i : i + 1]).detach().requires_grad_()
        F.cross_entropy(model[1:](h), y[i : i + 1]).backward()
        alive(h.grad)
        assert torch.allclose(seen.gradients[0][i], h.grad[0])


def test_the_gradient_goes_through_a_skip_outside_the_block() -> None:
    """Closed form: logits = h + tanh(h), so ∂/∂h has an identity that a cut at the block would lose."""

    class Outside(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.block = nn.Tanh()

        def forward(self, x: Tensor) -> Tensor:
            h = x * 2
            h += self.block(h)
            return h

    model, (x, y) = Outside(), batch(6, CLASSES)
    seen = look(model, [(x, y)], "block")
    e = model(x).softmax(1) - F.one_hot(y, CLASSES)
    assert torch.allclose(seen.hidden[0], 2 * x)  # not what `+=` made of it
    assert torch.allclose(seen.gradients[0], e * (2 - (2 * x).tanh() ** 2))
    assert torch.allclose(seen.gradients[1], e)


def test_find_blocks() -> None:
    model = nn.ModuleDict({"layers": nn.ModuleList(nn.Sequential(nn.Linear(2, 2)) for _ in range(12))})
    assert list(find_blocks(model, "layers.*")) == [f"layers.{i}" for i in range(12)]
    assert list(find_blocks(model, "layers.*.0"))[-1] == "layers.11.0"
    assert list(find_blocks(model, ["layers.3", "layers.1?"])) == ["layers.3", "layers.10", "layers.11"]
    with pytest.raises(UnknownName, match=r"did you mean layers"):
        find_blocks(model, "layer.*")
    with pytest.raises(UnknownName, match="none of the 25 modules"):
        find_blocks(model, ["layers.0", "zzz"])
    with pytest.raises(BadValue, match="no blocks"):
        find_blocks(model, [])


class Odd(nn.Module):
    """Blocks a, b, c in a row, called as `how` wishes."""

    def __init__(self, how: Callable[["Odd", Tensor], Tensor], width: int = CLASSES):
        super().__init__()
        torch.manual_seed(3)
        self.a, self.b, self.c = (nn.Linear(width, width).double() for _ in range(3))
        self.how = how

    def forward(self, x: Tensor) -> Tensor:
        return self.how(self, x)


BLOCKS = ["a", "b", "c"]


def seen_of(how: Callable[[Odd, Tensor], Tensor]) -> Look:
    return look(Odd(how), [batch(5, CLASSES)], BLOCKS)


def silent(m: Odd, x: Tensor) -> Tensor:
    with torch.no_grad():
        h = m.b(m.a(x))
    return m.c(h)


def broken(m: Odd, x: Tensor) -> Tensor:
    h = m.a(x).exp()
    out = m.c(m.b(h))
    h.mul_(2)  # exp's backward needed it
    return out


@pytest.mark.parametrize(
    ("how", "expected", "known"),
    [
        (lambda m, x: m.c(m.b(m.b(m.a(x)))), ["ok", "called 2 times", "ok"], [True, False, True]),
        (lambda m, x: m.c(m.a(x)), ["ok", "not reached", "ok"], [True, False, True]),
        (lambda m, x: m.c(m.b(m.a(x)).detach()), ["no gradient", "no gradient", "ok"], [True] * 3),
        (silent, ["no gradient", "no gradient", "ok"], [True] * 3),
        (lambda m, x: m.c(m.b(m.a(x) / 0)), ["not finite"] * 3, [True] * 3),
        (broken, ["no gradient"] * 3, [True] * 3),
    ],
)
def test_odd_passes_are_a_status(how: Callable[[Odd, Tensor], Tensor], expected: list[str], known: list[bool]) -> None:
    seen = seen_of(how)
    assert [row.status for row in seen.layers] == expected
    assert [h is not None for h in seen.hidden[1:]] == known
    assert [g is not None for g in seen.gradients[1:]] == [status in ("ok", "not finite") for status in expected]
    assert seen.not_seen == tuple(f"{n}: {s}" for n, s in zip(BLOCKS, expected, strict=True) if s != "ok")
    if "not finite" in expected:
        assert (seen.status, seen.accuracy) == ("not finite", 0)  # a NaN is not right
    if how is broken:
        assert "inplace" in seen.layers[0].note


def test_odd_one_module_under_two_names() -> None:
    torch.manual_seed(0)
    tied = nn.Linear(CLASSES, CLASSES).double()
    seen = look(nn.Sequential(tied, tied, nn.Linear(CLASSES, CLASSES).double()), [batch(4, CLASSES)], "*")
    assert seen.not_seen == ("0: called 2 times", "1: called 2 times")
    assert seen.hidden[0] is None


def test_odd_reached_only_sometimes_or_never() -> None:
    model = Odd(lambda m, x: m.c(m.b(m.a(x))) if len(x) > 2 else m.c(m.a(x)))
    seen = look(model, [batch(4, CLASSES), batch(2, CLASSES)], BLOCKS)
    assert seen.not_seen == ("b: not reached",)
    assert seen.hidden[2] is None
    seen = look(Tokens(), [batch(2, 6, 5)], "encoder.layers")
    assert "did you mean encoder.layers.*" in seen.layers[0].note


def test_odd_other_order() -> None:
    with pytest.raises(BadValue, match=r"\['b', 'a', 'c'\]"):
        seen_of(lambda m, x: m.c(m.a(m.b(x))))


def test_odd_in_place_modification_after_the_capture() -> None:
    torch.manual_seed(0)
    layers = [
        nn.Linear(CLASSES, 6),
        nn.ReLU(inplace=True),
        nn.Linear(6, 6),
        nn.ReLU(inplace=True),
        nn.Linear(6, CLASSES),
    ]
    inplace = nn.Sequential(*layers).double()
    plain = copy.deepcopy(inplace)
    plain[1], plain[3] = nn.ReLU(), nn.ReLU()
    x, y = batch(8, CLASSES)
    before = x.clone()
    for names in (["0", "2"], ["0", "1", "2", "3", "4"], ["1", "2"]):
        ours, right = look(inplace, [(x, y)], names), look(plain, [(x, y)], names)
        assert ours.seen == tuple(names)
        alive(*(g for g in ours.gradients[1:]))
        assert all(torch.equal(a, b) for a, b in zip(ours.hidden, right.hidden, strict=True))
        assert all(torch.equal(a, b) for a, b in zip(ours.gradients, right.gradients, strict=True))
    # A model that works in place on its very input does not spoil the caller's data.
    first = nn.Sequential(nn.ReLU(inplace=True), nn.Linear(CLASSES, CLASSES)).double()
    seen = look(first, [(x, y)], "*")
    assert torch.equal(x, before)
    assert torch.equal(seen.hidden[0], x)
    assert torch.equal(seen.hidden[1], x.relu())


class Pair(nn.Linear):
    def forward(self, h: Tensor) -> tuple[Tensor, Tensor]:
        out = super().forward(h)
        return out, out * 0


def test_odd_tuples_take_the_first_tensor_and_say_so() -> None:
    torch.manual_seed(0)
    (x, y), model = batch(5, CLASSES), nn.Sequential(Pair(CLASSES, CLASSES).double())
    seen = look(model, [(x, y)], "0")
    assert (seen.layers[0].status, seen.layers[0].note) == ("ok", "first tensor of a tuple")
    assert torch.allclose(seen.gradients[1], model(x)[0].softmax(1) - F.one_hot(y, CLASSES))


def test_odd_widths_that_change_are_said() -> None:
    torch.manual_seed(0)
    seen = look(nn.Sequential(nn.Linear(5, 8), nn.Linear(8, 4), nn.Linear(4, 3)).double(), [batch(4, 5)], "*")
    assert [row.same_shape for row in seen.layers] == [False, False, False]
    assert [row.shape for row in seen.layers] == [(8,), (4,), (3,)]


def test_odd_batch_not_first() -> None:
    model = Tokens(batch_first=False)
    x, y = batch(4, 6, 5)
    with pytest.raises(BadValue, match="batch dimension is not the first") as caught:
        look(model, [(x.transpose(0, 1), y)], "encoder.layers.*")
    assert "batch_first=True" in str(caught.value)
    x, y = batch(6, 6, 5)  # as many tokens as samples: the shape alone cannot tell
    with pytest.raises(BadValue, match="batch dimension is not the first"):
        look(model, [(x.transpose(0, 1), y)], "encoder.layers.*")
    windows = nn.Sequential(nn.Flatten(0, 1), nn.Linear(5, 4), nn.Unflatten(0, (4, 6)), nn.Flatten(), nn.Linear(24, 3))
    seen = look(windows.double(), [batch(4, 6, 5)], ["1"])
    assert seen.layers[0].status == "shape (24, 4) does not begin with the 4 samples"


def test_images_and_asked_reductions() -> None:
    torch.manual_seed(0)
    model = nn.Sequential(nn.Conv2d(2, 4, 3, padding=1), nn.BatchNorm2d(4), nn.ReLU(inplace=True), nn.Flatten(),
                          nn.Linear(64, CLASSES)).double()  # fmt: skip
    x, y = batch(6, 2, 4, 4)
    seen = look(model, [(x, y)], ["0", "1"])
    assert [row.reduction for row in seen.layers] == ["flatten", "flatten"]
    assert seen.hidden[1].shape == (6, 64)
    mean = look(model, [(x, y)], ["0", "1"], reduction="mean")
    assert torch.allclose(mean.hidden[1], model[0](x).mean((2, 3)))
    alive(mean.gradients[1])
    assert torch.allclose(mean.gradients[1], seen.gradients[1].view(6, 4, 16).sum(2))
    with pytest.raises(BadValue, match="first token"):
        look(model, [(x, y)], ["0"], reduction="cls")
    with pytest.raises(BadValue, match="did you mean mean"):
        look(model, [(x, y)], ["0"], reduction="meen")


def test_cls_is_seen_by_name() -> None:
    assert has_cls_token(Tokens(cls=True))
    assert has_cls_token(make_net("vit-mini", (3, 8, 8), 4, {"depth": 1}))
    absent = nn.Module()
    absent.cls_token, absent.use_cls, absent.num_cls = None, False, 10
    absent.register_parameter("cls", None)
    absent.cls_head = nn.Linear(2, 2)
    assert not has_cls_token(absent)
    absent.use_cls = True
    assert has_cls_token(absent)


def test_names_that_merely_contain_cls_change_nothing() -> None:
    model, (x, y) = Tokens(), batch(4, 6, 5)
    for name in ("cls_weights", "cls_scale", "num_cls_seen", "dcls", "cls_token_mask"):
        model.register_buffer(name, torch.ones(8))
        model.head.register_parameter(name, nn.Parameter(torch.ones(8)))
        setattr(model.embed, name + "_loss", True)
    model.register_buffer("cls_token", torch.ones(3, 8))  # a buffer is no token to learn
    model.encoder.register_parameter("cls", nn.Parameter(torch.ones(2, 8)))  # of this name, but of two tokens
    assert not has_cls_token(model)
    assert {row.reduction for row in look(model, [(x, y)], "encoder.layers.*").layers} == {"mean"}


def test_the_last_token_of_a_causal_model() -> None:
    model, (x, y) = Tokens(read=lambda h: h[:, -1]).eval(), batch(4, 6, 5)
    seen = look(model, [(x, y)], "encoder.layers.*", reduction="last")
    last = model.encoder(model.start(x))[:, -1]
    assert torch.allclose(seen.hidden[-1], last)
    h = last.detach().requires_grad_()
    F.cross_entropy(model.head(h), y, reduction="sum").backward()
    assert torch.allclose(seen.gradients[-1], h.grad)
    with pytest.raises(BadValue, match="last takes the last token"):
        look(nn.Sequential(nn.Conv2d(1, 3, 8)).double(), [batch(4, 1, 8, 8)], ["0"], reduction="last", loss=summed)


def test_credits_are_reduced_as_gradients_are() -> None:
    model, (x, y) = Tokens(), batch(4, 6, 5)
    true: list[Tensor] = []

    def whole(m: nn.Module, inputs: Tensor, labels: Tensor) -> list[Tensor]:
        """Full-shape gradients by another road: a backward to leaves, which also fills .grad."""
        h, leaves = m.start(inputs).detach(), []
        for layer in m.encoder.layers:
            h = layer(h)
            h.retain_grad()
            leaves.append(h)
        F.cross_entropy(m.head(m.read(h)), labels, reduction="sum").backward()
        true[:] = [leaf.grad for leaf in leaves]
        return true

    seen = look(model, [(x, y)], "encoder.layers.*", credits=whole)
    for a, g in zip(seen.credits, seen.gradients[1:], strict=True):
        alive(a, g)
        assert torch.allclose(a, g)
    assert all(p.grad is None for p in model.parameters())
    again = look(model, [(x, y)], "encoder.layers.*", credits=lambda *_: [t.sum(1) for t in true])
    assert torch.equal(again.credits[0], seen.credits[0])
    some = look(model, [(x, y)], "encoder.layers.*", credits=lambda *_: [None, true[1]])
    assert some.credits[0] is None
    with pytest.raises(BadValue, match="1 credits for 2 blocks"):
        look(model, [(x, y)], "encoder.layers.*", credits=lambda *_: true[:1])
    with pytest.raises(BadValue, match=r"as it is reduced \(mean\)"):
        look(model, [(x, y)], "encoder.layers.*", credits=lambda *_: [t[:, :2] for t in true])


def test_token_numbers_and_frozen_models() -> None:
    class Text(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            torch.manual_seed(0)
            self.embed, self.block, self.head = nn.Embedding(9, 4), nn.Linear(4, 4), nn.Linear(4, CLASSES)

        def forward(self, ids: Tensor, scale: float = 1.0) -> dict[str, Tensor]:
            return {"logits": self.head(self.block(self.embed(ids).mean(1) * scale))}

    model = Text().requires_grad_(False)
    ids, labels = torch.randint(9, (5, 7)), torch.randint(CLASSES, (5,))
    seen = look(model, [(ids, labels)], "block")
    alive(*seen.gradients)
    assert not any(p.requires_grad for p in model.parameters())
    mapped = look(model, [({"ids": ids, "scale": 1.0}, labels)], "block")
    listed = look(model, [([ids, 1.0], labels)], "block")
    assert torch.equal(mapped.gradients[1], seen.gradients[1])
    assert torch.equal(listed.gradients[1], seen.gradients[1])


def test_own_losses_and_refused_batches() -> None:
    model, (x, _) = mlp(), batch(4, 5)
    target = torch.randn(4, CLASSES, dtype=torch.float64)
    seen = look(model, [(x, target)], ["1"], loss=lambda out, t: (out - t).square().sum(1))
    alive(*seen.gradients)
    assert seen.status == "no accuracy: it needs logits (N, classes)"
    assert np.isnan(seen.accuracy)
    assert seen.loss == pytest.approx((model(x) - target).square().sum(1).mean().item())
    with pytest.raises(BadValue, match="one loss per sample"):
        look(model, [(x, target)], ["1"], loss=lambda out, t: (out - t).square().mean())
    with pytest.raises(BadValue, match="cross-entropy needs"):
        look(model, [(x, torch.zeros(3, dtype=torch.long))], ["1"])
    with pytest.raises(BadValue, match="one batch alone"):
        look(model, (x, torch.zeros(4, dtype=torch.long)), ["1"])
    with pytest.raises(BadValue, match="no samples"):
        look(model, [], ["1"])


def test_batchnorm_without_statistics_is_noted() -> None:
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(5, 4), nn.BatchNorm1d(4, track_running_stats=False), nn.Linear(4, 3)).double()
    assert "mixes the samples" in look(model, [batch(4, 5)], ["0"]).notes[0]
    assert look(mlp(), [batch(4, 5)], ["1"]).notes == ()


def test_a_look_from_inside_inference_mode() -> None:
    """Second implementation: the same look from outside."""
    model, (x, y) = mlp(), batch(4, 5)
    outside = look(model, [(x, y)], ["1"])
    with torch.inference_mode():
        inside = look(model, [(x.clone(), y.clone())], ["1"])
        assert torch.is_inference_mode_enabled()
    alive(*outside.gradients)
    assert all(torch.equal(a, b) for a, b in zip(inside.gradients, outside.gradients, strict=True))
