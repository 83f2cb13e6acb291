"""What goes into wb.audit: batches, labels and models as strangers have them. Oracle: the audit of plain pairs."""

import itertools
from collections import UserDict
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional as F
from torch.utils.data import DataLoader, Dataset, TensorDataset

import walkback as wb
from strangers import CLASSES, INPUTS, Net, Tokens, data
from walkback.errors import BadValue
from walkback.probes.inputs import EMPTY, gather

X, Y = data()


def measured(
    batches: Any, model: nn.Module | None = None, blocks: Any = "layers.*", **options: Any
) -> tuple[Any, list[str]]:
    audit = wb.audit(Net() if model is None else model, batches, blocks, residual=True, **options)
    (moment,) = audit.evidence.seeds[0].moments
    return moment.as_dict(), audit.subjects[0].notes


@pytest.fixture(scope="module")
def plain() -> Any:
    return measured([(X, Y)])


class ByKeyword(Net):
    """Takes its input by a name of its own, and a switch."""

    def forward(self, x: Tensor, scale: float = 1.0) -> Tensor:
        return super().forward(x * scale)


class Pairs(Dataset):  # type: ignore[type-arg]
    def __len__(self) -> int:
        return len(X)

    def __getitem__(self, place: int) -> tuple[Tensor, int]:
        return X[place], int(Y[place])


GIVEN: dict[str, tuple[Any, str]] = {
    "a generator": (lambda: (pair for pair in [(X, Y)]), ""),
    "lists": (lambda: [[X, Y]], ""),
    "one pair": (lambda: (X, Y), ""),
    "one pair of arrays": (lambda: (X.numpy(), Y.numpy()), ""),
    "one pair in float64 arrays": (lambda: (X.numpy().astype("float64"), Y.numpy()), ""),
    "arrays": (lambda: [(X.numpy(), Y.numpy())], ""),
    "labels in a list": (lambda: [(X, Y.tolist())], ""),
    "int32 labels": (lambda: [(X, Y.int())], ""),
    "int16 arrays": (lambda: [(X, Y.numpy().astype("int16"))], ""),
    "uint8 labels": (lambda: [(X, Y.to(torch.uint8))], ""),
    "labels (N, 1)": (lambda: [(X, Y[:, None])], ""),
    "float labels": (lambda: [(X, Y.float())], "the labels are float32; they are whole numbers"),
    "float labels (N, 1)": (lambda: [(X, Y[:, None].double())], "the labels are float64; they are whole numbers"),
    "one-hot": (lambda: [(X, F.one_hot(Y, CLASSES))], "one-hot"),
    "one-hot floats": (lambda: [(X, F.one_hot(Y, CLASSES).float())], "one-hot"),
    "(x, y, index)": (lambda: [(X, Y, torch.arange(len(Y)))], "3 entries: the first is the inputs, the second"),
    "(x, y, weight)": (lambda: [(X, Y, torch.rand(len(Y)))], "3 entries"),
    "((x,), y)": (lambda: [((X,), Y)], ""),
    "a table": (lambda: [{"x": X, "y": Y}], ""),
    "one table": (lambda: {"image": X, "label": Y}, ""),
    "a table with more": (lambda: [{"x": X, "y": Y, "idx": 3}], "no argument idx: left out"),
    "a user's table": (lambda: [UserDict({"x": X, "labels": Y})], ""),
    "a table of inputs": (lambda: [({"x": X}, Y)], ""),
    "a tuple of inputs": (lambda: [((X, 1.0), Y)], ""),
    "one ((x,), y)": (lambda: ((X,), Y), ""),
    "one ({x}, y)": (lambda: ({"x": X}, Y.numpy()), ""),
    "a loader": (lambda: DataLoader(TensorDataset(X, Y), batch_size=24), ""),
    "a data set": (lambda: TensorDataset(X, Y), "a data set was given"),
    "a data set of their own": (lambda: Pairs(), "a data set was given"),
    "an empty batch": (lambda: [(X[:0], Y[:0]), (X, Y), (X[:0].numpy(), [])], ""),
    "without end": (lambda: itertools.chain([(X, Y)], itertools.repeat((X, Y))), "stopped there: max_samples=24"),
}  # fmt: skip


@pytest.mark.parametrize("name", GIVEN)
def test_second_implementation_batches_in_any_shape_measure_the_same(name: str, plain: Any) -> None:
    make, note = GIVEN[name]
    numbers, notes = measured(make(), ByKeyword(), max_samples=24)
    assert numbers == plain[0]
    assert [n for n in notes if note and note in n] or not note
    assert len(notes) == len(plain[1]) + bool(note), notes


def test_a_loader_without_end_is_left_after_4096_samples() -> None:
    drawn: list[int] = []

    def forever() -> Any:
        while True:
            drawn.append(1)
            yield torch.zeros(100, INPUTS), torch.zeros(100).long()

    found = gather(forever(), Net())
    assert sum(len(y) for _, y in found.batches) == 4096
    assert len(found.batches[-1][0]) == len(found.batches[-1][1]) == 96
    assert len(drawn) == 41
    assert found.notes == ["looked at the first 4,096 samples and stopped there: max_samples=4096"]
    with pytest.raises(BadValue, match=f"{EMPTY} batches in a row hold no sample"):
        gather(itertools.repeat((X[:0], Y[:0])), Net())


def test_a_limit_that_is_just_met_is_not_told_of() -> None:
    assert gather([(X, Y)] * 2, Net(), 48).notes == []
    assert sum(len(y) for _, y in gather([(X, Y)] * 2, Net(), None).batches) == 48
    assert gather([(X, Y)] * 2, Net(), 47).notes == ["looked at the first 47 samples and stopped there: max_samples=47"]
    for wrong in (0, -1, 1.5, 30.0, True, "all"):
        with pytest.raises(BadValue, match="max_samples is"):
            gather([(X, Y)], Net(), wrong)  # type: ignore[arg-type]


def test_tables_and_triples_of_tokens() -> None:
    """ids, mask and labels: as a table by their names, as a triple by their place."""
    ids, mask = torch.randint(7, (10, 4)), torch.ones(10, 4).long()
    mask[:, -1] = 0
    labels = torch.arange(10) % 7

    class Classifier(Tokens):
        def forward(self, input_ids: Tensor, attention_mask: Tensor | None = None, labels: Tensor | None = None) -> Any:
            assert labels is None
            assert attention_mask is not None
            output = super().forward(input_ids, attention_mask)
            return {"hidden": output.hidden_states[0], "logits": output.logits.mean(1)}

    table, _ = measured([{"input_ids": ids, "attention_mask": mask, "labels": labels}], Classifier())
    triple, notes = measured([(ids, mask, labels)], Classifier())
    assert table == triple
    assert any("entry 2 is the labels, because it alone can be" in note for note in notes)


def other(x: Tensor | None = None, y: Tensor | None = None) -> list[tuple[Tensor, Tensor]]:
    return [(X, Y), (X if x is None else x, Y if y is None else y)]


def hurt(value: float) -> Tensor:
    x = X.clone()
    x[3, 2] = value
    return x


@pytest.mark.parametrize(
    ("batches", "options", "words"),
    [
        (other(hurt(float("nan"))), {}, "the inputs of batch 1 hold NaN, in 1 of 24 samples"),
        (other(hurt(float("inf"))), {}, "the inputs of batch 1 hold infinity, in 1 of 24 samples"),
        ([((hurt(float("nan")), 1.0), Y)], {}, "the inputs[0] of batch 0 hold NaN"),
        (other(y=Y + 1), {}, "batch 1 hold 3 in 8 places, and the model has 3 outputs, so classes are 0 to 2"),
        (other(y=Y - 1), {}, "hold -1 in 8 places"),
        (other(y=Y - 100), {}, "hold -100 to -98 in 24 places"),
        (other(y=Y + 0.5), {}, "the labels of batch 1 are float32 and not whole numbers"),
        (other(y=Y.float() / 0), {}, "not whole numbers"),
        (other(y=Y.to(torch.complex64)), {}, "are complex"),
        ([(X, torch.rand(24, CLASSES))], {}, "not one-hot"),
        ([(X, torch.ones(24, CLASSES).long())], {}, "not one-hot"),
        ([(X.double(), Y)], {}, "the inputs are float64 and the model is float32"),
        ([(X.half(), Y)], {}, "convert them: .to(torch.float32)"),
        ([(X, Y.to("meta"))], {}, "the device meta"),
        ([X], {}, "batch 0 is a Tensor, not (inputs, labels)"),
        ([X, X], {}, "batch 0 is a Tensor, not (inputs, labels)"),
        (X, {}, "batches is a Tensor"),
        ("abc", {}, "batches is a str"),
        ([(X,)], {}, "not (inputs, labels)"),
        ([(X, None)], {}, "the labels of batch 0 are a NoneType"),
        ([(None, Y)], {}, "the inputs of a batch are a NoneType"),
        ([(X, X, X)], {}, "3 entries, and it is not clear which are the labels"),
        ([{"x": X}], {}, "a table without labels; its keys are x"),
        ([{"a": X, "b": X, "y": Y}], {}, "the batches have a, b, and the model's forward takes scale, x"),
        ([(X[0], 1)], {}, "one label without a batch dimension"),
        ([(np.array(["a"] * 24), Y)], {}, "cannot become a tensor"),
        ([], {}, "no samples"),
        ([(X, Y[:5])], {}, "got (24, 3) and (5,)"),
        ([(X, Y)], {"accuracy": 0.5, "metric": lambda out, y: 1.0}, "both given"),
    ],
)  # fmt: skip
def test_error_data_that_cannot_be_meant_are_named(batches: Any, options: Any, words: str) -> None:
    with pytest.raises(BadValue) as caught:
        measured(batches, ByKeyword(), **options)
    assert words in str(caught.value)
    assert "Remedy" in str(caught.value)


def test_labels_beyond_127_and_labels_that_are_all_the_same() -> None:
    """uint8 has no −100: as 156 it is a class like any other."""
    y = torch.arange(24).to(torch.uint8) + 150
    for labels in (y, y.numpy().astype("uint16")):
        numbers, notes = measured([(X, labels)], Net(lambda h, z: (h, z), classes=174))
        assert numbers == measured([(X, y.long())], Net(classes=174))[0]
        assert "part 1 was taken" in notes[0]
    assert "every label is class 2" in measured([(X, Y * 0 + 2)])[1][0]
    two = X[:, 0] > 0
    assert measured([(X, two)])[0] == measured([(X, two.long())])[0]


def test_second_implementation_tensors_inside_of_the_inputs_are_taken_by_sample_too(plain: Any) -> None:
    class Nested(Net):
        def forward(self, x: Tensor, more: Any) -> Tensor:
            return super().forward(x * more["scale"][0])

    def batch(rows: slice) -> Any:
        return (X[rows], {"scale": (torch.ones(len(X[rows]), 1), None)}), Y[rows]

    numbers, notes = measured([batch(slice(0, 20)), batch(slice(20, 24))], Nested())
    assert notes == plain[1]
    assert numbers["gradient_norms"] == pytest.approx(plain[0]["gradient_norms"])
    assert numbers["rho"] == pytest.approx(plain[0]["rho"])
    with pytest.raises(BadValue, match=r"the inputs\[1\]\['scale'\]\[0\] of batch 0 hold NaN"):
        measured([((X, {"scale": (X / 0 * 0,)}), Y)], Nested())


def test_an_infinite_mask_beside_the_inputs_is_no_defect() -> None:
    class Masked(Net):
        def forward(self, x: Tensor, mask: Tensor) -> Tensor:
            return super().forward(x * mask.softmax(1))

    mask = torch.zeros(24, INPUTS)
    mask[:, 0] = -torch.inf
    assert measured([((X, mask), Y)], Masked())[0]["loss"] > 0


def test_error_inputs_of_another_kind_or_on_another_device() -> None:
    class Strict(Net):
        def forward(self, x: Tensor) -> Tensor:
            if x.is_meta:  # as torch does; on meta it takes seconds to say so
                raise RuntimeError("Expected all tensors to be on the same device")
            return super().forward(x)

    for x, words in (((X * 9).to(torch.uint8), "the inputs are uint8, and the model does not take them"),
                     (X.to("meta"), "the inputs are on meta and the model on cpu")):  # fmt: skip
        with pytest.raises(BadValue) as caught:
            measured([(x, Y)], Strict())
        assert words in str(caught.value)


def test_errors_of_the_model_itself_are_not_explained_away() -> None:
    def mine(h: Tensor, z: Tensor) -> Tensor:
        raise RuntimeError("mine")

    with pytest.raises(BadValue, match="the model fails on the first batch: RuntimeError: mine") as caught:
        measured([(X, Y)], Net(mine))
    assert isinstance(caught.value.__cause__, RuntimeError)


# --- models in wrappers ---------------------------------------------------------------------------------------------


class Sharded(nn.Module):
    """A wrapper that nobody knows, with the model under the usual name."""

    def __init__(self, module: nn.Module) -> None:
        super().__init__()
        self.module = module

    def forward(self, *args: Any) -> Any:
        return self.module(*args)


@pytest.mark.parametrize(
    ("wrap", "pattern"),
    [
        (nn.DataParallel, "layers.*"), (nn.DataParallel, "module.layers.*"), (torch.compile, "_orig_mod.layers.*"),
        (torch.compile, "module._orig_mod.layers.*"), (torch.optim.swa_utils.AveragedModel, "module.layers.*"),
        (Sharded, "layers.*"), (Sharded, "module.layers.*"),
        (lambda m: nn.DataParallel(torch.compile(m)), "module._orig_mod.layers.*"),
        (lambda m: nn.DataParallel(torch.compile(m)), "layers.*"),
    ],
)  # fmt: skip
def test_second_implementation_wrapped_models_are_looked_at_inside(wrap: Any, pattern: str, plain: Any) -> None:
    numbers, notes = measured([(X, Y)], wrap(Net()), pattern)
    assert numbers == plain[0]
    assert any("looked at inside" in note for note in notes) == (wrap is not Sharded)


def test_second_implementation_models_compiled_in_part_or_in_place(plain: Any) -> None:
    part, place = Net(), Net()
    part.layers[1] = torch.compile(part.layers[1])
    place.compile()
    assert measured([(X, Y)], part)[0] == plain[0]
    assert measured([(X, Y)], part, ["layers.0", "layers.1"])[0] == plain[0]
    assert measured([(X, Y)], place)[0] == plain[0]
    inner, _ = measured([(X, Y)], part, "layers.*.linear")
    assert None not in inner["gradient_norms"]


def test_a_wrapper_that_does_more_stays() -> None:
    class Doubled(Sharded):
        def forward(self, x: Tensor) -> Any:
            return self.module(2 * x)

    assert measured([(X, Y)], Doubled(Net()))[0] == measured([(2 * X, Y)])[0]


def test_parametrized_models_are_no_wrappers() -> None:
    model = Net()
    nn.utils.parametrizations.weight_norm(model.layers[0].linear)
    nn.utils.parametrizations.spectral_norm(model.layers[1].linear)
    assert None not in measured([(X, Y)], model)[0]["gradient_norms"]


def test_error_models_that_cannot_be_looked_into() -> None:
    lazy = nn.Sequential(nn.LazyLinear(4), nn.Linear(4, CLASSES))
    for model, words in ((torch.jit.trace(Net(), X), "scripted or traced"), (lazy, "has no shape yet"),
                         (Net().to("meta"), "on the device meta")):  # fmt: skip
        with pytest.raises(BadValue) as caught:
            wb.audit(model, [(X, Y)], ["0"])
        assert words in str(caught.value)
        assert "Remedy" in str(caught.value)


# --- precision and spread are named as they are ---------------------------------------------------------------------


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.bfloat16, torch.float16])
def test_sentences_name_the_dtype_of_the_model(dtype: torch.dtype) -> None:
    audit = wb.audit(Net().to(dtype), [(X.to(dtype), Y)], "layers.*", residual=True)
    (reference,) = (f for f in audit.subjects[0].findings if f.check == "reference")
    name = str(dtype).removeprefix("torch.")
    half = dtype in (torch.bfloat16, torch.float16)
    assert f"{f'a float32 copy of the {name} weights' if half else name} turns its direction by" in reference.says
    assert ("float32" in reference.says) == (dtype is not torch.float64)
