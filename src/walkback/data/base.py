"""The data room's two shapes: a `Dataset` is a train and a test `Split`, held in plain CPU tensors.

A fingerprint identifies a data set. Once made, a data set does not change.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:  # torch takes seconds to import, and listing the data sets must not cost that
    from torch import Tensor

Say = Callable[[str], None]  # how a room sends messages to the user

LARGEST = 64 << 20  # no file of a published data set is larger (MNIST's train images are 47 MB): a guard against bombs


@dataclass(frozen=True)
class Split:
    """Inputs, uint8 images (N, C, H, W) or float32 of any shape (N, ...), and their int64 labels (N,)."""

    inputs: Tensor
    labels: Tensor


@dataclass(frozen=True)
class Dataset:
    """The data that a run trains and is tested on, with the statistics that a net needs."""

    name: str
    train: Split
    test: Split
    classes: int
    shape: tuple[int, ...]  # of one input
    mean: tuple[float, ...]  # per channel, of uint8 inputs scaled to [0, 1]; (0.0,) for unchanged floats
    std: tuple[float, ...]  # the same; (1.0,) for unchanged floats
    augment: bool  # a random crop (pad 4) and flip belong to the usual recipe
    fingerprint: str  # see `fingerprint`


@dataclass(frozen=True)
class Seal:
    """The checksums of one split, taken in one pass over its bytes because CIFAR-10 has 184 MB of them.

    `canonical` is the sha256 of the input bytes followed by the labels as one byte each: what published data are
    verified against. `line` names dtype, shape and sha256 of inputs and of labels: what a fingerprint is made of.
    """

    canonical: str
    line: str


def seal(split: Split) -> Seal:
    """The checksums of a split."""
    inputs, labels = split.inputs.contiguous().numpy(), split.labels.contiguous().numpy()
    hashed = hashlib.sha256(inputs.data)
    canonical = hashed.copy()
    canonical.update(labels.astype("uint8").tobytes())
    line = (
        f"inputs {inputs.dtype} {inputs.shape} {hashed.hexdigest()}; "
        f"labels {labels.dtype} {labels.shape} {hashlib.sha256(labels.data).hexdigest()}"
    )
    return Seal(canonical.hexdigest(), line)


def fingerprint(train: Seal, test: Seal) -> str:
    """The sha256 over dtype, shape and bytes (by their sha256) of train inputs and labels, then of the test ones."""
    return hashlib.sha256(f"train {train.line}\ntest {test.line}\n".encode()).hexdigest()
