"""The data room's workshop: arrays in, a checked `Dataset` out.

It promises that a data set which passes here can be trained on and judged. Every refusal names the part, what was found
and what to do.
"""

from __future__ import annotations

import random
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

import numpy as np
import torch
from torch import Tensor

from walkback.data.base import Dataset, Split, fingerprint, seal
from walkback.errors import DataError

KEYS = ("train_inputs", "train_labels", "test_inputs", "test_labels")
ORDER = "the order is train inputs, train labels, test inputs, test labels"


def make_dataset(
    name: str,
    train: Split | Sequence[Any],
    test: Split | Sequence[Any],
    *,
    augment: bool = False,
    mean: float | Sequence[float] | None = None,
    std: float | Sequence[float] | None = None,
) -> Dataset:
    """A checked data set from two pairs (inputs, labels) of numpy arrays or torch tensors; they are copied.

    inputs     uint8 images, (N, C, H, W) or (N, H, W); or floats of any shape (N, ...), kept as float32
    labels     whole numbers 0 … C−1, (N,) or (N, 1); every class must be in the training part
    augment    random crops (pad 4) and flips in training, for uint8 images only
    mean, std  for normalisation, one number or one per channel (per feature of vectors). For uint8 images they are in
               [0, 1] and are computed from the training part if not given; floats are not changed
    """
    splits = [_split(name, part, pair) for part, pair in (("training", train), ("test", test))]
    training, testing = splits
    if training.inputs.shape[1:] != testing.inputs.shape[1:] or training.inputs.dtype != testing.inputs.dtype:
        raise DataError(
            f"{name}: training inputs are {_words(training.inputs)}, test inputs {_words(testing.inputs)}",
            f"give both parts the same type and shape; {ORDER}",
        )
    _check_classes(name, training.labels, testing.labels)
    _check_overlap(name, training.inputs, testing.inputs)
    if augment and training.inputs.dtype != torch.uint8:
        raise DataError(
            f"{name}: augment=True crops and flips uint8 images, and the inputs are {_words(training.inputs)}",
            "leave augment=True out, or give uint8 images (N, C, H, W)",
        )
    given = _statistics(name, training.inputs, mean, std)
    return assemble(name, training, testing, augment=augment, statistics=given)


def as_dataset(name: str, returned: Any) -> Dataset:
    """The data set that a user's function returned: a `Dataset`, or arrays as a tuple or dict."""
    if isinstance(returned, Dataset):
        given = returned
        made = make_dataset(
            name, given.train, given.test, augment=given.augment, mean=given.mean, std=given.std
        )  # checked again: a user can build a Dataset by hand
        if made.classes != given.classes:
            raise DataError(
                f"{name}: the data set says {given.classes} classes, and its labels are 0 … {made.classes - 1}",
                "let walkback.make_dataset count the classes",
            )
        return made
    if isinstance(returned, Mapping):
        if set(returned) != set(KEYS):
            raise DataError(f"{name}: returned a dict with {sorted(map(str, returned))}", f"its keys are {_list(KEYS)}")
        returned = tuple(returned[key] for key in KEYS)
    if isinstance(returned, tuple | list) and len(returned) == 4:
        return make_dataset(name, returned[:2], returned[2:])
    if isinstance(returned, tuple | list) and len(returned) == 2:
        return make_dataset(name, *returned)
    found = f"{type(returned).__name__} of {len(returned)}" if isinstance(returned, tuple | list) else _kind(returned)
    raise DataError(
        f"{name}: returned {found}",
        "return (train_inputs, train_labels, test_inputs, test_labels) as numpy arrays or torch tensors, a dict with "
        "these keys, or what walkback.make_dataset gives",
    )


def assemble(
    name: str,
    train: Split,
    test: Split,
    *,
    augment: bool,
    statistics: tuple[tuple[float, ...], tuple[float, ...]] | None = None,
) -> Dataset:
    """A `Dataset` of two checked splits. Default statistics: of the train part for uint8, none for floats."""
    if statistics is None:
        is_image = train.inputs.dtype == torch.uint8
        statistics = channel_statistics(train.inputs) if is_image else ((0.0,), (1.0,))
    return Dataset(
        name=name,
        train=train,
        test=test,
        classes=int(train.labels.max()) + 1,
        shape=tuple(train.inputs.shape[1:]),
        mean=statistics[0],
        std=statistics[1],
        augment=augment,
        fingerprint=fingerprint(seal(train)[1], seal(test)[1]),
    )


def channel_statistics(images: Tensor) -> tuple[tuple[float, ...], tuple[float, ...]]:
    """Mean and standard deviation of each channel of uint8 images, scaled to [0, 1], to four digits.

    From counts of the 256 values, so the images need not be copied as floats. A constant channel gets standard
    deviation 1: it is only shifted.

    >>> channel_statistics(torch.tensor([[[[0, 255]], [[51, 51]]]], dtype=torch.uint8))
    ((0.5, 0.2), (0.5, 1.0))
    """
    values = torch.arange(256, dtype=torch.float64) / 255
    means, stds = [], []
    for channel in images.unbind(1):
        share = torch.bincount(channel.flatten(), minlength=256).double() / channel.numel()
        mean = float(share @ values)
        deviation = float(share @ (values - mean) ** 2) ** 0.5
        means.append(float(f"{mean:.4g}"))
        stds.append(float(f"{deviation:.4g}") if deviation > 1e-9 else 1.0)
    return tuple(means), tuple(stds)


@contextmanager
def random_kept() -> Iterator[None]:
    """Restore the global random state of Python, numpy and torch."""
    pythons, numpys, torchs = random.getstate(), np.random.get_state(), torch.get_rng_state()
    try:
        yield
    finally:
        random.setstate(pythons)
        np.random.set_state(numpys)
        torch.set_rng_state(torchs)


# --- one part --------------------------------------------------------------------------------------------------------


def _split(name: str, part: str, pair: Split | Sequence[Any]) -> Split:
    if isinstance(pair, Split):
        pair = (pair.inputs, pair.labels)
    if not isinstance(pair, tuple | list) or len(pair) != 2:
        raise DataError(f"{name}: the {part} part is {_kind(pair)}", "give a pair (inputs, labels)")
    inputs, labels = _inputs(name, part, pair[0]), _labels(name, part, pair[1])
    if len(inputs) != len(labels):
        raise DataError(f"{name}: {len(inputs)} {part} inputs and {len(labels)} {part} labels", f"{ORDER}, row by row")
    if not len(labels):
        raise DataError(f"{name}: the {part} part is empty", "give at least one sample of each class")
    return Split(inputs, labels)


def _inputs(name: str, part: str, given: Any) -> Tensor:
    what = f"{name}: {part} inputs are"
    array = _array(what, given)
    if array.ndim < 2 or 0 in array.shape[1:]:
        raise DataError(
            f"{what} {_words(array)}", "give one row per sample: vectors (N, D), images (N, C, H, W) or (N, H, W)"
        )
    if array.ndim == 4 and array.shape[3] in (1, 3) and array.shape[1] > 4 and array.shape[2] > 4:
        raise DataError(f"{what} {_words(array)}: the channel seems to come last", "give inputs.transpose(0, 3, 1, 2)")
    if array.dtype == np.uint8:
        if array.ndim not in (3, 4):
            raise DataError(
                f"{what} {_words(array)}, and uint8 means images",
                "reshape to (N, C, H, W) or (N, H, W), or convert vectors to float32",
            )
        array = array[:, None] if array.ndim == 3 else array
        return torch.from_numpy(np.array(array, dtype=np.uint8, order="C"))
    if array.dtype.kind != "f":
        raise DataError(
            f"{what} {_words(array)}",
            "convert images of 0 … 255 to uint8, which are normalised here, or anything else to float32",
        )
    with np.errstate(over="ignore"):  # too large for float32: infinite, and refused as that
        inputs = torch.from_numpy(np.array(array, dtype=np.float32, order="C"))
    if not inputs.isfinite().all():
        bad = int((~inputs.flatten(1).isfinite().all(1)).sum())
        raise DataError(
            f"{name}: {bad} of {len(inputs)} {part} inputs hold NaN or values beyond float32",
            "drop these rows or fill the missing values",
        )
    return inputs


def _labels(name: str, part: str, given: Any) -> Tensor:
    what = f"{name}: {part} labels are"
    array = _array(what, given)
    if array.ndim == 2 and array.shape[1] == 1:
        array = array[:, 0]
    if array.ndim != 1:
        is_one_hot = array.ndim == 2 and bool(((array == 0) | (array == 1)).all() and (array.sum(1) == 1).all())
        remedy = "they are one-hot: give labels.argmax(1)" if is_one_hot else f"give shape (N,) or (N, 1); {ORDER}"
        raise DataError(f"{what} {_words(array)}", remedy)
    if array.dtype.kind not in "iub":
        words = array.dtype.kind in "OSU"
        remedy = "number them: numpy.unique(labels, return_inverse=True)[1]" if words else "give labels.astype(int)"
        raise DataError(f"{what} {_words(array)}", f"{remedy}; {ORDER}")
    labels = torch.from_numpy(np.array(array, dtype=np.int64, order="C"))
    if len(labels) and labels.min() < 0:
        raise DataError(f"{what} as low as {int(labels.min())}", "number the classes 0 … C−1")
    return labels


def _array(what: str, given: Any) -> np.ndarray[Any, Any]:
    if isinstance(given, Tensor):
        tensor = given.detach().cpu()
        array: np.ndarray[Any, Any] = (tensor.float() if tensor.dtype == torch.bfloat16 else tensor).numpy()
        return array
    if isinstance(given, np.ma.MaskedArray):
        raise DataError(f"{what} a masked array", "fill or drop what is masked, and give a plain array")
    if not isinstance(given, np.ndarray):
        raise DataError(f"{what} {_kind(given)}", "give a numpy array or a torch tensor: numpy.asarray(…)")
    return given


# --- both parts ------------------------------------------------------------------------------------------------------


def _check_classes(name: str, train: Tensor, test: Tensor) -> None:
    present = np.unique(train.numpy()).tolist()
    if len(present) < 2:
        raise DataError(f"{name}: all training labels are {present[0]}", "give at least two classes")
    missing = next((number for number, label in enumerate(present) if number != label), None)
    if missing is not None:
        raise DataError(
            f"{name}: the training labels are {_list(present)}; class {missing} has no sample",
            "number the classes 0 … C−1: numpy.unique(labels, return_inverse=True)[1], over both parts together",
        )
    unknown = [label for label in np.unique(test.numpy()).tolist() if label > present[-1]]
    if unknown:
        raise DataError(
            f"{name}: the test labels {_list(unknown)} are not among the training labels 0 … {present[-1]}",
            "give training samples of every class",
        )


def _check_overlap(name: str, train: Tensor, test: Tensor) -> None:
    """Refuse a test part that is mostly training data: accuracy on it would mean nothing."""
    seen = {hash(row.tobytes()) for row in train.numpy()}
    again = sum(hash(row.tobytes()) in seen for row in test.numpy())
    if again > len(test) / 2:
        raise DataError(
            f"{name}: {again} of {len(test)} test inputs are training inputs too", "test on samples of their own"
        )


def _statistics(
    name: str, inputs: Tensor, mean: float | Sequence[float] | None, std: float | Sequence[float] | None
) -> tuple[tuple[float, ...], tuple[float, ...]] | None:
    if mean is None and std is None:
        return None
    if mean is None or std is None:
        raise DataError(f"{name}: only {'std' if mean is None else 'mean'} is given", "give both mean and std, or none")
    means, stds = (tuple(np.asarray(values, dtype=np.float64).reshape(-1).tolist()) for values in (mean, std))
    count = inputs.shape[1]
    for label, values in (("mean", means), ("std", stds)):
        if len(values) not in (1, count):
            axis = "channel" if inputs.ndim > 2 else "feature"
            raise DataError(f"{name}: {label} has {len(values)} values", f"give 1, or {count}: one per {axis}")
        if not np.isfinite(values).all() or (label == "std" and min(values) <= 0):
            remedy = "give finite numbers" + (" above 0" if label == "std" else "")
            raise DataError(f"{name}: {label} is {_list(values)}", remedy)
    if inputs.dtype == torch.uint8 and (min(means) < 0 or max(means) > 1 or max(stds) > 1):
        raise DataError(
            f"{name}: mean {_list(means)} and std {_list(stds)} are not those of pixels in [0, 1]",
            "divide both by 255: pixels are scaled to [0, 1] before they are normalised",
        )
    return means, stds


# --- words -----------------------------------------------------------------------------------------------------------


def _words(array: Any) -> str:
    """Type and shape: float32 of shape (10, 3)."""
    return f"{str(array.dtype).removeprefix('torch.')} of shape {tuple(array.shape)}"


def _kind(thing: Any) -> str:
    return "None" if thing is None else f"of type {type(thing).__name__}"


def _list(values: Sequence[Any]) -> str:
    shown = [f"{value:g}" if isinstance(value, float) else str(value) for value in values[:12]]
    return ", ".join(shown) + (f", … ({len(values)} in all)" if len(values) > 12 else "")
