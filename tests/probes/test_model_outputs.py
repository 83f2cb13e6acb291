"""The right output. Oracle: the audit of the same net that returns its logits alone, or a plain computation."""

from dataclasses import dataclass
from typing import Any, NamedTuple

import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional as F

import walkback as wb
from strangers import CLASSES, WIDTH, ModelOutput, Net, Tokens, data
from walkback.errors import BadValue
from walkback.probes import look
from walkback.probes.detect_task import dense_losses
from walkback.probes.outputs import entries, first_tensor, taken, with_first


@dataclass
class Result:
    features: Tensor
    logits: Tensor


class Named(NamedTuple):
    loss: Tensor
    logits: Tensor


class Bag:
    def __init__(self, **parts: Any) -> None:
        self.__dict__.update(parts)


@pytest.fixture(scope="module")
def plain() -> Any:
    return numbers(Net())


def numbers(model: nn.Module, **options: Any) -> tuple[Any, list[str]]:
    """What was measured, and the notes."""
    audit = wb.audit(model, [data()], "layers.*", residual=True, **options)
    (moment,) = audit.evidence.seeds[0].moments
    return moment.as_dict(), audit.subjects[0].notes


SHAPES: dict[str, tuple[Any, dict[str, Any], str]] = {
    "hf": (lambda h, z: ModelOutput(loss=None, logits=z, hidden_states=(h,)), {}, "its logits"),
    "hf, loss first": (lambda h, z: ModelOutput(loss=h.sum(), logits=z), {}, "its logits"),
    "dict": (lambda h, z: {"features": h, "logits": z}, {}, "its logits"),
    "dataclass": (lambda h, z: Result(h, z), {}, "its logits"),
    "namedtuple": (lambda h, z: Named(h.sum(), z), {}, "its logits"),
    "object": (lambda h, z: Bag(features=h, logits=z), {}, "its logits"),
    "(features, logits)": (lambda h, z: (h, z), {}, "part 1 was taken, (24, 3), because it alone fits the labels"),
    "[logits, features]": (lambda h, z: [z, h], {}, "part 0 was taken"),
    "(loss, logits)": (lambda h, z: (h.sum(), z), {}, "part 1 was taken"),
    "(logits,)": (lambda h, z: (z,), {}, "only tensor, part 0"),
    "(logits, None)": (lambda h, z: (z, None), {}, "only tensor, part 0"),
    "dict by another name": (lambda h, z: {"out": z}, {}, "only tensor, `out`"),
    "by index": (lambda h, z: (z * 0, z), {"output": 1}, "part 1 was taken, as asked"),
    "by last index": (lambda h, z: (z * 0, z), {"output": -1}, "part 1 was taken, as asked"),
    "by key": (lambda h, z: {"a": z * 0, "b": z}, {"output": "b"}, "`b` was taken, as asked"),
    "by attribute": (lambda h, z: Bag(logits=z * 0, main=z), {"output": "main"}, "`main` was taken, as asked"),
    "by place of a table": (lambda h, z: ModelOutput(a=z * 0, b=z), {"output": 1}, "`b` was taken, as asked"),
    "by function": (lambda h, z: {"deep": [h, {"z": z}]}, {"output": lambda o: o["deep"][1]["z"]}, "your function"),
}  # fmt: skip


@pytest.mark.parametrize("name", SHAPES)
def test_second_implementation_any_output_is_read_as_its_logits(name: str, plain: Any) -> None:
    shape, options, note = SHAPES[name]
    measured, notes = numbers(Net(shape), **options)
    assert measured == plain[0]
    assert measured["accuracy"] is not None
    assert any(note in each for each in notes), notes
    assert notes[1:] == plain[1]


@pytest.mark.parametrize(
    ("shape", "options", "words"),
    [
        (lambda h, z: (z, z * 2), {}, "several parts that fit the labels"),
        (lambda h, z: (h, h * 2), {}, "several parts that fit the labels"),
        (lambda h, z: {"a": z, "aux": z}, {}, "it has a (24, 3) and aux (24, 3)"),
        (lambda h, z: (h[:3], z[:3]), {}, "several tensors, none of which is named logits"),
        (lambda h, z: (h, z), {"loss": lambda out, y: out.sum(1)}, "none of which is named logits"),
        (lambda h, z: "no", {}, "a str without a floating-point tensor"),
        (lambda h, z: (z.argmax(1),), {}, "without a floating-point tensor"),
        (lambda h, z: (h, z), {"output": 2}, "has no part 2: it has 0 (24, 8) and 1 (24, 3)"),
        (lambda h, z: {"a": z}, {"output": "b"}, "has no 'b': it has a (24, 3)"),
        (None, {"output": 1}, "gives one tensor, (24, 3)"),
        (None, {"output": 1.5}, "output=1.5 is a float"),
        (lambda h, z: (h, [z]), {"output": 1}, "list, not a tensor"),
        (None, {"output": lambda out: None}, "output= gives NoneType"),
        (lambda h, z: z[:, :1], {}, "over one class is always 0"),
        (lambda h, z: z.unsqueeze(1), {}, "got (24, 1, 3) and (24,)"),
    ],
)
def test_error_an_output_that_is_not_clear_is_refused(shape: Any, options: Any, words: str) -> None:
    with pytest.raises(BadValue) as caught:
        numbers(Net(shape), **options)
    assert words in str(caught.value)
    assert "Remedy" in str(caught.value)


def test_features_with_as_many_columns_as_classes_are_not_mistaken() -> None:
    """Of two parts with enough columns that with just as many as there are classes is taken; if both have, neither."""
    z, h = torch.zeros(4, 3), torch.zeros(4, 5)

    def fits(t: Tensor) -> int:
        return 2 if t.shape[1] == 3 else 1

    assert taken((h, z), None, fits).place == 1
    assert taken((h, z[:, :2], z), None, lambda t: 0 if t.shape[1] < 3 else fits(t)).place == 2
    with pytest.raises(BadValue, match="several parts that fit"):
        taken((z, z), None, fits)


def test_a_user_function_gets_the_model_itself() -> None:
    """credits sees the owner's class and its whole output, not ours."""
    seen: list[Any] = []

    def credits(model: nn.Module, x: Tensor, y: Tensor) -> list[Tensor]:
        seen.append((type(model), type(model(x)), y.dtype))
        return [torch.ones(len(x), WIDTH)] * 2

    numbers(Net(lambda h, z: (h, z)), credits=credits)
    assert seen == [(Net, tuple, torch.int64)]


def test_blocks_that_return_more_keep_their_first_tensor_and_say_so() -> None:
    class Attention(nn.Module):
        def __init__(self, kind: Any) -> None:
            super().__init__()
            self.linear, self.kind = nn.Linear(WIDTH, WIDTH), kind

        def forward(self, h: Tensor) -> Any:
            return self.kind(h + self.linear(h), torch.zeros(1))

    class Model(Net):
        def __init__(self, kind: Any) -> None:
            super().__init__()
            self.layers = nn.ModuleList([Attention(kind)])

        def forward(self, x: Tensor) -> Tensor:
            h, _ = first_tensor(self.layers[0](self.embed(x)))
            return self.head(h)

    for kind in (lambda *o: o, lambda *o: list(o), lambda h, a: Result(h, a), lambda h, a: {"h": h, "a": a},
                 lambda h, a: Named(h, a), lambda h, a: ModelOutput(h=h, a=a)):  # fmt: skip
        torch.manual_seed(1)
        measured, notes = numbers(Model(kind), credits=lambda m, x, y: [torch.ones(len(x), WIDTH)])
        assert None not in measured["gradient_norms"]
        assert measured["nudging"] is not None or isinstance(kind(1, 2), ModelOutput)
        assert any("layers.0: first tensor of a" in note for note in notes)


OUTPUTS = [
    (1, torch.zeros(2)), [torch.zeros(2), 1], {"a": torch.zeros(2)}, Result(torch.zeros(2), torch.ones(2)),
    Named(torch.ones(1), torch.ones(2)),
]  # fmt: skip


@pytest.mark.parametrize("output", OUTPUTS, ids=lambda output: type(output).__name__)
def test_property_another_first_tensor_in_the_same_output(output: Any) -> None:
    new = torch.full((2,), 7.0)
    changed = with_first(output, new)
    assert type(changed) is type(output)
    assert first_tensor(changed)[0] is new
    assert list(entries(changed)) == list(entries(output))


# --- one class per token --------------------------------------------------------------------------------------------


def sentences(count: int = 12, length: int = 5) -> tuple[Tensor, Tensor]:
    generator = torch.Generator().manual_seed(3)
    ids = torch.randint(7, (count, length), generator=generator)
    labels = torch.randint(7, (count, length), generator=generator)
    labels[0] = -100
    labels[:, -1] = -100
    return ids, labels


def test_second_implementation_tokens_are_scored_where_they_have_a_label() -> None:
    ids, labels = sentences()
    model = Tokens()
    audit = wb.audit(model, [(ids, labels)], "layers.*", residual=True)
    with torch.no_grad():
        logits = model(ids).logits
    kept = labels != -100
    losses = [
        F.cross_entropy(z[k], y[k]).item() if k.any() else 0.0 for z, y, k in zip(logits, labels, kept, strict=True)
    ]
    (moment,) = audit.evidence.seeds[0].moments
    assert moment.loss == pytest.approx(sum(losses) / len(losses), rel=1e-5)
    assert moment.accuracy == (logits.argmax(-1) == labels)[kept].double().mean().item()
    notes = " ".join(audit.subjects[0].notes)
    assert "one class per place" in notes
    assert "1 samples have no labelled place" in notes
    assert None not in moment.gradient_norms


def test_closed_form_dense_losses_of_tokens_and_pixels_agree() -> None:
    torch.manual_seed(0)
    logits, labels = torch.randn(4, 6, CLASSES), torch.randint(CLASSES, (4, 6))
    labels[1, 2:] = -100
    tokens = dense_losses(logits, labels, last=True)
    assert torch.allclose(tokens, dense_losses(logits.movedim(-1, 1), labels, last=False))
    assert tokens[1] == pytest.approx(F.cross_entropy(logits[1, :2], labels[1, :2]).item())


def pixels() -> nn.Module:
    torch.manual_seed(0)
    return nn.Sequential(nn.Conv2d(2, 4, 3, padding=1), nn.Conv2d(4, CLASSES, 1))


def test_second_implementation_pixels_and_a_causal_language_model() -> None:
    """Pixels are scored as tokens are; labels that repeat the tokens are scored against the next one."""
    ids, _ = sentences()
    images, classes = torch.randn(6, 2, 4, 4), torch.randint(CLASSES, (6, 4, 4))
    causal = Tokens()(ids).logits.detach().movedim(-1, 1)[:, :, :-1]
    for audit, logits, labels in (
        (wb.audit(pixels(), [(images, classes)], ["0"]), pixels()(images).detach(), classes),
        (wb.audit(Tokens(), [{"input_ids": ids, "labels": ids}], "layers.*"), causal, ids[:, 1:]),
    ):
        (moment,) = audit.evidence.seeds[0].moments
        assert moment.accuracy == pytest.approx((logits.argmax(1) == labels).double().mean().item())
        assert moment.loss == pytest.approx(F.cross_entropy(logits, labels).item(), rel=1e-5)
    assert any("causal language model" in note for note in audit.subjects[0].notes)


@pytest.mark.parametrize(
    ("ids", "labels", "words"),
    [
        (sentences()[0], torch.full((12, 5), -100), "no place of any sample has a label"),
        (sentences()[0], torch.full((12, 5), 7), "hold 7 in 60 places, and the model has 7 outputs"),
        (sentences()[0], torch.zeros(12, 4).long(), "got (12, 5, 7) and (12, 4)"),
        (torch.arange(28).view(4, 7) % 7, torch.zeros(4, 7).long(), "the classes may be the last or the second"),
    ],
)
def test_error_labels_of_tokens(ids: Tensor, labels: Tensor, words: str) -> None:
    with pytest.raises(BadValue) as caught:
        wb.audit(Tokens(), [(ids, labels)], "layers.*")
    assert words in str(caught.value)


def test_look_takes_logits_by_name_before_the_first_tensor() -> None:
    named = look(Net(lambda h, z: {"features": h, "logits": z}), [data()], "layers.*")
    alone = look(Net(), [data()], "layers.*")
    assert named.loss == alone.loss
