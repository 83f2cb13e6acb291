"""The task of a model: its output, labels, loss and score, found with one trial batch.

Class labels (N,) for logits (N, C); or one class per token or pixel, logits (N, T, C) or (N, C, …) for labels (N, T)
or (N, …), where −100 is no label. Everything else takes a loss and, to be scored, a metric of yours.
"""

from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from walkback.errors import BadValue, WalkbackError
from walkback.probes.inputs import Pair, on_tensors, tensors_of
from walkback.probes.outputs import Asked, Logits, PerSampleLoss, Taken, call, taken
from walkback.probes.preserve import undisturbed
from walkback.probes.user_errors import blamed, own_line

IGNORED = -100  # as in F.cross_entropy
Metric = Callable[[Tensor, Tensor], Any]


class Task(NamedTuple):
    """How a model is read and scored. `loss` None: cross-entropy of (N, C); `dense`: of one class per place."""

    take: Taken
    batches: list[Pair]
    loss: PerSampleLoss | None
    dense: bool
    notes: list[str]
    classes: int | None = None  # how many the logits tell apart, where labels are class numbers

    def reading(self, model: nn.Module) -> Logits:
        """The model as one that gives its logits."""
        return Logits(model, self.take)


def settle(model: nn.Module, batches: list[Pair], output: Asked = None, loss: PerSampleLoss | None = None) -> Task:
    """Run the first batch and decide which tensor is the output and what the labels are. The model stays as it was."""
    given = _trial(model, batches[0][0])
    if loss is not None:
        take = taken(given, output)
        return Task(take, batches, loss, False, [take.note] if take.note else [])
    take = taken(given, output, _fit([labels for _, labels in batches]))
    logits = take(given)
    notes = [take.note] if take.note else []
    if logits.dim() == 2 and are_probabilities(logits):
        take = _as_logits(take)
        notes.append("the output is probabilities (positive, with sum 1), so the loss is −log p of the label's class; "
                     "give loss= if it was trained by another one")  # fmt: skip
    elif logits.dim() == 2 and len(logits) > 1 and bool(((logits >= 0) & (logits <= 1)).all()):
        notes.append("every output lies between 0 and 1, and was taken as a logit for cross-entropy; give loss= if it "
                     "was trained by another loss")  # fmt: skip
    fitted = [(x, _as_classes(y, logits, number, notes)) for number, (x, y) in enumerate(batches)]
    notes, place = list(dict.fromkeys(notes)), _class_place(logits, fitted[0][1])
    for number, (_, labels) in enumerate(fitted):
        _in_range(labels, logits.shape[place], f"the labels of batch {number}")
    if fitted[0][1].dim() == 1:
        return Task(take, fitted, None, False, notes, logits.shape[place])
    return _dense(take, fitted, place == logits.dim() - 1, notes)


def _fit(labels: list[Tensor]) -> Callable[[Tensor], int]:
    """How well a part of the output fits the labels: 2 if it has just as many classes as they name, 1 if more."""
    first = _one_column(labels[0])
    whole = [y.long() for y in labels if _whole(y)]  # −100 is 156 in uint8
    highest = max((int(y[y != IGNORED].max()) for y in whole if (y != IGNORED).any()), default=0)

    def fits(part: Tensor) -> int:
        if part.dim() == 2 and part.shape == labels[0].shape and part.shape[1] > 1 and _one_hot(labels[0]):
            return 2
        classes = [part.shape[place] for place in class_places(part.shape, first.shape)]
        return max((2 if n == highest + 1 else 1 for n in classes if n > max(highest, 1)), default=0)

    return fits


def are_probabilities(output: Tensor) -> bool:
    """Whether every row is positive and sums to 1, to the last digits of its precision.

    >>> are_probabilities(torch.tensor([[0.2, 0.8], [0.5, 0.5]])), are_probabilities(torch.tensor([[0.2, 0.9]] * 2))
    (True, False)
    """
    off = (output.double().sum(1) - 1).abs()
    near = max(4, output.shape[1]) * torch.finfo(output.dtype).eps if output.is_floating_point() else 0.0
    return len(output) > 1 and output.shape[1] > 1 and bool((output >= 0).all()) and bool((off <= near).all())


def _as_logits(take: Taken) -> Taken:
    """Log p is taken in place of p: its cross-entropy is −log p."""

    def log(output: Any) -> Tensor:
        found = take(output)
        return found.clamp_min(torch.finfo(found.dtype).tiny).log()

    return take._replace(place=None, function=log)


def _one_hot(labels: Tensor) -> bool:
    return bool(((labels == 0) | (labels == 1)).all() and (labels.sum(1) == 1).all())


def _trial(model: nn.Module, inputs: Any) -> Any:
    """The output of one batch; if that fails for a reason that can be named, it is."""

    own = on_tensors(inputs, Tensor.clone)
    with undisturbed(model, whole=True), torch.inference_mode(False), torch.enable_grad():  # it may take gradients
        try:
            return model(own) if isinstance(own, Tensor) else model(**own) if isinstance(own, Mapping) else model(*own)
        except Exception as error:
            if isinstance(error, WalkbackError):
                raise
            parameter = next((p for p in model.parameters() if p.is_floating_point()), None)
            for name, value in tensors_of(inputs).items():
                if parameter is None:
                    break
                if value.device != parameter.device:
                    raise BadValue(f"the {name} are on {value.device} and the model on {parameter.device}",
                                   f"move them: .to({str(parameter.device)!r})") from error  # fmt: skip
                if value.is_floating_point() and value.dtype != parameter.dtype:
                    raise BadValue(f"the {name} are {_dtype(value)} and the model is {_dtype(parameter)}",
                                   f"convert them: .to(torch.{_dtype(parameter)})") from error  # fmt: skip
                if value.dtype == torch.uint8:
                    raise BadValue(f"the {name} are uint8, and the model does not take them: "
                                   f"{str(error).splitlines()[0]}",
                                   "scale them to floating point as in training") from error  # fmt: skip
            raise BadValue(f"the model fails on the first batch: {own_line(error)}",
                           "give what its forward takes; if it takes the labels as well, "
                           '({"x": inputs, "labels": labels}, labels)') from error  # fmt: skip


def _dtype(t: Tensor) -> str:
    return str(t.dtype).removeprefix("torch.")


def _whole(labels: Tensor) -> bool:
    return not labels.is_floating_point() and not labels.is_complex()


def _one_column(labels: Tensor) -> Tensor:
    return labels.squeeze(1) if labels.dim() == 2 and labels.shape[1] == 1 else labels


def class_places(logits: torch.Size, labels: torch.Size) -> list[int]:
    """Where the classes can be in logits of this shape, for labels of that shape.

    >>> class_places(torch.Size([4, 7, 3]), torch.Size([4, 7])), class_places(torch.Size([4, 3, 7]), torch.Size([4, 7]))
    ([2], [1])
    """
    last = [len(logits) - 1] if logits[:-1] == labels else []
    second = [1] if len(logits) > 2 and (logits[0], *logits[2:]) == tuple(labels) else []
    return last + second


def _as_classes(labels: Tensor, logits: Tensor, number: int, notes: list[str]) -> Tensor:
    """Labels as class numbers, checked against the logits."""
    where = f"the labels of batch {number}"
    labels = labels.to(logits.device)
    remedy = "give loss=, a function (output, labels) → one loss per sample, and metric= to score it"
    if labels.dim() == 2 and logits.dim() == 2 and labels.shape[1] == logits.shape[1] > 1:
        if not _one_hot(labels):
            raise BadValue(f"{where} are {tuple(labels.shape)} and not one-hot: several classes per sample, or "
                           "probabilities", remedy)  # fmt: skip
        notes.append("the labels are one-hot; their class was taken")
        labels = labels.argmax(1)
    labels = _one_column(labels)
    if labels.is_floating_point():
        if not labels.isfinite().all() or (labels != labels.round()).any():
            raise BadValue(f"{where} are {_dtype(labels)} and not whole numbers, so they are no classes", remedy)
        notes.append(f"the labels are {_dtype(labels)}; they are whole numbers and were taken as classes")
    elif labels.is_complex():
        raise BadValue(f"{where} are complex", remedy)
    return labels.long()


def _class_place(logits: Tensor, labels: Tensor) -> int:
    """The dimension of the logits that runs over the classes."""
    places = class_places(logits.shape, labels.shape)
    sizes = f"{tuple(logits.shape)} and {tuple(labels.shape)}"
    if not places:
        raise BadValue(
            f"cross-entropy needs logits (N, classes) for labels (N,), or one class per token; got {sizes}",
            "give loss=, a function (output, labels) → one loss per sample; is the batch dimension first?",
        )
    if len(places) > 1:
        raise BadValue(f"the classes may be the last or the second dimension: logits and labels are {sizes}",
                       "give loss=, a function (output, labels) → one loss per sample")  # fmt: skip
    if logits.shape[places[0]] < 2:
        raise BadValue(f"the logits are {tuple(logits.shape)}: cross-entropy over one class is always 0",
                       "for one logit per sample give loss=, such as binary_cross_entropy_with_logits with "
                       'reduction="none", and metric=')  # fmt: skip
    return places[0]


def _in_range(labels: Tensor, classes: int, where: str) -> None:
    wrong = (labels < 0) | (labels >= classes)
    if labels.dim() > 1:
        wrong &= labels != IGNORED
    if wrong.any():
        low, high = int(labels[wrong].min()), int(labels[wrong].max())
        values = str(low) if low == high else f"{low} to {high}"
        raise BadValue(
            f"{where} hold {values} in {int(wrong.sum())} places, and the model has {classes} outputs, so classes are "
            f"0 to {classes - 1}",
            "leave samples without a class out"
            if high < 0
            else "are the labels counted from 1, or is this another output? Name it with output=",
        )


# --- one class per token or pixel -----------------------------------------------------------------------------------
def _dense(take: Taken, batches: list[Pair], last: bool, notes: list[str]) -> Task:
    notes = [*notes, f"one class per place: a sample's loss is the mean over its labelled places (not {IGNORED}), and "
             "accuracy counts places"]  # fmt: skip
    if _repeats_its_inputs(batches):
        batches = [(x, F.pad(y[:, 1:], (0, 1), value=IGNORED)) for x, y in batches]  # the last place has none
        notes.append("the labels repeat input_ids, as for a causal language model: place t is scored against the token "
                     "at t + 1; give loss= if that is not meant")  # fmt: skip
    bare = sum(int((y == IGNORED).flatten(1).all(1).sum()) for _, y in batches)
    if bare == sum(len(y) for _, y in batches):
        raise BadValue("no place of any sample has a label", f"give labels other than {IGNORED}")
    if bare:
        notes.append(f"{bare} samples have no labelled place; their loss is 0")

    def loss(output: Tensor, labels: Tensor) -> Tensor:
        return dense_losses(output, labels, last)

    return Task(take, batches, loss, True, notes)


def _repeats_its_inputs(batches: list[Pair]) -> bool:
    for inputs, labels in batches:
        ids = inputs.get("input_ids") if isinstance(inputs, Mapping) else inputs
        if not isinstance(ids, Tensor) or ids.shape != labels.shape or not _whole(ids):
            return False
        if ((ids != labels) & (labels != IGNORED)).any():
            return False
    return True


def dense_losses(logits: Tensor, labels: Tensor, last: bool) -> Tensor:
    """The mean cross-entropy over the labelled places of each sample, (N,); `last`: the classes are the last dimension.

    >>> dense_losses(torch.zeros(1, 3, 2), torch.tensor([[0, 1, -100]]), last=True)
    tensor([0.6931])
    """
    moved = logits.movedim(-1, 1) if last else logits
    each = F.cross_entropy(moved, labels, reduction="none", ignore_index=IGNORED).flatten(1)
    return each.sum(1) / (labels != IGNORED).flatten(1).sum(1).clamp(min=1)


def dense_hits(logits: Tensor, labels: Tensor) -> tuple[int, int]:
    """How many labelled places are classified right, and how many there are."""
    place = class_places(logits.shape, labels.shape)[0]
    counted = labels != IGNORED
    right = (logits.argmax(place) == labels) & logits.isfinite().all(place)
    return int((right & counted).sum()), int(counted.sum())


def score(model: nn.Module, task: Task, metric: Metric | None) -> float | None:
    """The metric's mean over samples, or the accuracy over labelled places; None if neither is asked for.

    metric   (output, labels) → one score per sample, or one number for the batch, which counts for its samples
    """

    if metric is None and not task.dense:
        return None
    total, weight = 0.0, 0
    with undisturbed(model, whole=True), torch.inference_mode(False), torch.enable_grad():
        for inputs, labels in task.batches:
            output = call(model, on_tensors(inputs, Tensor.clone)).detach()
            if metric is None:
                right, count = dense_hits(output, labels)
                total, weight = total + right, weight + count
            else:
                with blamed("metric"):
                    scores = metric(output, labels.clone())
                total, weight = total + _measured(scores, len(labels)), weight + len(labels)
    return total / weight if weight else None


def _measured(scores: Any, count: int) -> float:
    """The sum of the scores of a batch."""
    try:
        values = torch.as_tensor(scores).double()
    except (TypeError, ValueError, RuntimeError) as error:
        raise BadValue(f"metric gives a {type(scores).__name__}",
                       "give one score per sample, (N,), or one number for the batch") from error  # fmt: skip
    if values.dim() == 0:
        return float(values) * count
    if values.shape not in ((count,), (count, 1)):
        raise BadValue(f"metric gives {tuple(values.shape)} for {count} samples",
                       "give one score per sample, (N,), or one number for the batch")  # fmt: skip
    return float(values.sum())
