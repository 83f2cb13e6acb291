"""Turn usual batches into (inputs, labels) pairs of tensors: loaders, arrays, dictionaries, triples.

Nothing is guessed silently: what is taken, left out or converted is noted, and what is unclear is refused.
"""

import inspect
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from numbers import Integral
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor, nn
from torch.utils.data import DataLoader, Dataset, IterableDataset

from walkback.errors import BadValue

MAX_SAMPLES = 4096
CHUNK = 256  # samples per batch where a whole data set is given
EMPTY = 1000  # empty batches in a row, after which reading stops
LABELS = ("labels", "label", "y", "targets", "target")
Pair = tuple[Any, Tensor]


class Gathered(NamedTuple):
    """The pairs, and what was done to get them."""

    batches: list[Pair]
    notes: list[str]
    stopped: bool = False  # at max_samples: there are more


def gather(batches: Any, model: nn.Module, max_samples: int | None = MAX_SAMPLES, own_loss: bool = False) -> Gathered:
    """At most `max_samples` samples (None: all there are) of whatever gives batches, as (inputs, labels).

    batches   an iterable of batches, a DataLoader, a Dataset, or one batch. A batch is (inputs, labels), with more
              entries after them or with labels last, or a table with a key such as "labels"
    model     says what a table's keys may be: the arguments of its forward
    own_loss  labels are whatever your loss takes; else they are class labels
    """
    whole = isinstance(max_samples, Integral) and not isinstance(max_samples, bool)
    if max_samples is not None and not (whole and max_samples > 0):
        raise BadValue(f"max_samples is {max_samples}", "give a whole number above 0, or None for all samples")
    notes: dict[str, None] = {}
    kept: list[Pair] = []
    total, empty, more = 0, 0, False
    for number, batch in enumerate(_each(batches, own_loss, notes)):
        inputs, labels = _pair(batch, number, own_loss, notes)
        count = len(labels)
        empty = 0 if count else empty + 1
        if empty > EMPTY:
            raise BadValue(f"{EMPTY} batches in a row hold no sample", "give batches with samples in them")
        if not count:
            continue
        inputs = _fitting(inputs, model, notes)
        left = count if max_samples is None else max_samples - total
        if left < count:
            inputs, labels, more = rows_of(inputs, slice(left), count), labels[:left], True
        if not len(labels):
            break
        _finite(inputs, number)
        kept.append((inputs, labels))
        total += len(labels)
        if more:
            break
    if not kept:
        raise BadValue("there are no samples to look at", "give at least one batch (inputs, labels)")
    if more:
        notes[f"looked at the first {total:,} samples and stopped there: max_samples={max_samples}"] = None
    return Gathered(kept, list(notes), more)


def _each(batches: Any, own_loss: bool, notes: dict[str, None]) -> Iterator[Any]:
    """The batches one by one; a data set or one batch is turned into batches."""
    if isinstance(batches, Dataset) and not isinstance(batches, IterableDataset):
        notes[f"a data set was given; it was read in its order, {CHUNK} samples at a time"] = None
        yield from DataLoader(batches, batch_size=CHUNK)
    elif isinstance(batches, Mapping):
        yield batches
    elif _is_one_batch(batches, own_loss):
        inputs, labels = (_array(each) for each in batches)
        for start in range(0, max(len(labels), 1), CHUNK):
            yield inputs[start : start + CHUNK], labels[start : start + CHUNK]
    elif _is_one_batch_of_several(batches):
        yield batches
    elif isinstance(batches, Iterable) and not isinstance(batches, str | bytes | Tensor | np.ndarray):
        yield from batches
    else:
        raise BadValue(f"batches is a {type(batches).__name__}", "give an iterable of (inputs, labels) pairs")


def _is_one_batch(given: Any, own_loss: bool) -> bool:
    """Whether it is (inputs, labels) itself, not an iterable of such: two arrays of one length, the second labels."""
    if not isinstance(given, tuple | list) or len(given) != 2 or not all(_is_array(each) for each in given):
        return False
    inputs, labels = given
    if not inputs.ndim or not labels.ndim or len(inputs) != len(labels):
        return False
    floating = isinstance(labels, Tensor) and labels.is_floating_point()
    floating = floating or (isinstance(labels, np.ndarray) and np.issubdtype(labels.dtype, np.floating))
    return own_loss or labels.ndim == 1 or not floating or inputs.shape != labels.shape


def _is_one_batch_of_several(given: Any) -> bool:
    """Whether it is ((a, b), labels) or ({…}, labels) itself: a bare array cannot be a batch."""
    if not isinstance(given, tuple | list) or len(given) != 2 or not _is_array(given[1]) or not given[1].ndim:
        return False
    parts = given[0].values() if isinstance(given[0], Mapping) else given[0]
    return isinstance(given[0], Mapping | tuple | list) and any(_is_array(part) for part in parts)


def _is_array(value: Any) -> bool:
    return isinstance(value, Tensor | np.ndarray)


def _tensor(value: Any) -> Any:
    """An array as a tensor; anything else unchanged."""
    if not isinstance(value, np.ndarray):
        return value
    try:
        return torch.from_numpy(np.ascontiguousarray(value))
    except TypeError as error:
        raise BadValue(f"an array of dtype {value.dtype} cannot become a tensor", "give numbers") from error


def _pair(batch: Any, number: int, own_loss: bool, notes: dict[str, None]) -> Pair:
    """One batch as (inputs, labels)."""
    if isinstance(batch, Mapping):
        found = [key for key in LABELS if key in batch]
        if not found:
            raise BadValue(f"batch {number} is a table without labels; its keys are {', '.join(map(str, batch))}",
                           f"name the labels {', '.join(LABELS[:-1])} or {LABELS[-1]}, "
                           "or give (inputs, labels)")  # fmt: skip
        if len(found) > 1:
            notes[f"the labels are {found[0]!r}; {', '.join(map(repr, found[1:]))} was left out"] = None
        return {k: _array(v) for k, v in batch.items() if k not in found}, _labels(batch[found[0]], number)
    if not isinstance(batch, tuple | list) or len(batch) < 2:
        raise BadValue(f"batch {number} is a {type(batch).__name__}, not (inputs, labels)",
                       "give an iterable of pairs, or one pair (inputs, labels) of tensors")  # fmt: skip
    if len(batch) == 2:
        return _given_inputs(batch[0]), _labels(batch[1], number)
    return _longer(batch, number, own_loss, notes)


def _longer(batch: Sequence[Any], number: int, own_loss: bool, notes: dict[str, None]) -> Pair:
    """Three entries or more: labels are the second if they can be, else the only entry that can be."""
    count = len(batch)
    able = [place for place in range(1, count) if _label_like(batch[place])]
    if own_loss or 1 in able:
        notes[f"a batch has {count} entries: the first is the inputs, the second the labels, the rest was left out"] = (
            None
        )
        return _given_inputs(batch[0]), _labels(batch[1], number)
    if len(able) == 1:
        place = able[0]
        words = f"the inputs are the {place} before it" if place == count - 1 else "what comes after was left out"
        notes[f"a batch has {count} entries: entry {place} is the labels, because it alone can be; {words}"] = None
        return [_array(value) for value in batch[:place]], _labels(batch[place], number)
    raise BadValue(f"batch {number} has {count} entries, and it is not clear which are the labels",
                   "give pairs (inputs, labels), where inputs may be a tuple for model(*inputs)")  # fmt: skip


def _label_like(value: Any) -> bool:
    """Whether it can be one class per sample: whole numbers, (N,) or (N, 1)."""
    value = _tensor(np.asarray(value) if isinstance(value, list) else value)
    if not isinstance(value, Tensor) or value.is_complex() or value.dim() not in (1, 2):
        return False
    return not value.is_floating_point() and (value.dim() == 1 or value.shape[1] == 1)


def _array(value: Any) -> Any:
    """An array as a tensor in torch's default precision, because numpy's default is float64."""
    if not isinstance(value, np.ndarray):
        return value
    found = _tensor(value)
    return found.to(torch.get_default_dtype()) if found.dtype == torch.float64 else found


def _given_inputs(inputs: Any) -> Any:
    if isinstance(inputs, Mapping):
        return {key: _array(value) for key, value in inputs.items()}
    if isinstance(inputs, tuple | list):
        return [_array(value) for value in inputs]
    if not _is_array(inputs):
        raise BadValue(f"the inputs of a batch are a {type(inputs).__name__}",
                       "give a tensor, a tuple for model(*inputs), or a table for model(**inputs)")  # fmt: skip
    return _array(inputs)


def _labels(labels: Any, number: int) -> Tensor:
    if isinstance(labels, list | tuple) and labels and not any(_is_array(each) for each in labels):
        labels = np.asarray(labels)
    elif isinstance(labels, list | tuple) and not labels:
        labels = np.zeros(0, dtype=np.int64)
    found = _array(labels)
    if isinstance(found, int | float) or (isinstance(found, Tensor | np.generic) and not getattr(found, "ndim", 1)):
        raise BadValue(f"batch {number} has one label without a batch dimension",
                       "give labels (N,), one per sample; a Dataset may be given as it is")  # fmt: skip
    if not isinstance(found, Tensor):
        raise BadValue(f"the labels of batch {number} are a {type(labels).__name__}, so it is not (inputs, labels)",
                       "give pairs of inputs and a tensor of labels")  # fmt: skip
    if found.is_meta:
        raise BadValue(f"the labels of batch {number} are on the device meta, which holds no numbers",
                       "give real labels")  # fmt: skip
    return found


def _fitting(inputs: Any, model: nn.Module, notes: dict[str, None]) -> Any:
    """A table's inputs as the model's forward takes them: keys that it knows, or the only tensor by its place."""
    if not isinstance(inputs, Mapping):
        return inputs
    try:
        parameters = inspect.signature(model.forward).parameters.values()
    except (TypeError, ValueError):
        return dict(inputs)
    names = {p.name for p in parameters if p.kind in (p.POSITIONAL_OR_KEYWORD, p.KEYWORD_ONLY)}
    known = {key: value for key, value in inputs.items() if key in names}
    others = [str(key) for key in inputs if key not in names]
    if not others or any(p.kind == p.VAR_KEYWORD for p in parameters):
        return dict(inputs)
    if known:
        notes[f"the model's forward has no argument {', '.join(others)}: left out"] = None
        return known
    tensors = [value for value in inputs.values() if isinstance(value, Tensor)]
    if len(tensors) == 1:
        return tensors[0]
    raise BadValue(f"the batches have {', '.join(others)}, and the model's forward takes {', '.join(sorted(names))}",
                   "name the inputs as the forward's arguments, or give them as a tuple")  # fmt: skip


def tensors_of(inputs: Any, name: str = "inputs") -> dict[str, Tensor]:
    """The tensors of a batch's inputs by name, in the order of `on_tensors`."""
    if isinstance(inputs, Tensor):
        return {name: inputs}
    found: dict[str, Tensor] = {}
    if isinstance(inputs, Mapping | list | tuple):
        for key, value in inputs.items() if isinstance(inputs, Mapping) else enumerate(inputs):
            found |= tensors_of(value, f"{name}[{key!r}]")
    return found


def rows_of(inputs: Any, which: Tensor | slice, count: int) -> Any:
    """Some samples of a batch's inputs: of every tensor that has one row for each of `count` samples."""
    return on_tensors(inputs, lambda t: t[which] if t.dim() and len(t) == count else t)


def _finite(inputs: Any, number: int) -> None:
    """NaN is refused. So is infinity, unless it comes beside other inputs, where it may be a mask."""
    tensors = tensors_of(inputs)
    for name, value in tensors.items():
        if value.is_meta or not (value.is_floating_point() or value.is_complex()):
            continue
        bad = value.isnan() if len(tensors) > 1 else ~value.isfinite()
        if bad.any():
            rows = int(bad.flatten(1).any(1).sum()) if value.dim() > 1 else int(bad.sum())
            kind = "NaN" if value.isnan().any() else "infinity"
            raise BadValue(f"the {name} of batch {number} hold {kind}, in {rows} of {len(value)} samples: "
                           "every number of the model would be of that",
                           "clean the data, or leave these samples out")  # fmt: skip


def on_tensors(inputs: Any, do: Callable[[Tensor], Tensor]) -> Any:
    """`do` applied to every tensor of a module's inputs, in tables, lists and tuples too; anything else stays.

    >>> on_tensors({"a": torch.ones(1), "b": (torch.ones(1), "c")}, lambda t: t + 1)
    {'a': tensor([2.]), 'b': (tensor([2.]), 'c')}
    """
    if isinstance(inputs, Tensor):
        return do(inputs)
    if isinstance(inputs, Mapping):
        return {key: on_tensors(value, do) for key, value in inputs.items()}
    if isinstance(inputs, list | tuple):
        parts = [on_tensors(value, do) for value in inputs]
        if hasattr(inputs, "_fields"):
            return type(inputs)(*parts)
        return parts if isinstance(inputs, list) else tuple(parts)
    return inputs


def own_inputs(model: nn.Module, inputs: Any) -> Any:
    """The inputs as tensors of our own at which a graph begins; where none can, it begins at the model's weights."""
    rooted: list[bool] = []

    def own(t: Tensor) -> Tensor:
        # A clone, so that a model that works in place spoils nobody's data; not a leaf, so that it may.
        if not t.is_floating_point():
            return t.clone()
        rooted.append(True)
        return (t.clone() if t.is_inference() else t).detach().requires_grad_().clone()

    prepared = on_tensors(inputs, own)
    if not rooted:  # token numbers carry no gradient; the graph has to begin at the embedding's weights
        for parameter in model.parameters():
            if parameter.is_floating_point():
                parameter.requires_grad_()
    return prepared
