"""The data room's shapes: a `Dataset` is a train and a test `Split` in plain CPU tensors; a `Source` is where one comes
from.

A fingerprint identifies a data set. Once made, a data set does not change.
"""

from __future__ import annotations

import hashlib
from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, ClassVar

from walkback.registry import Registry

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


@dataclass(frozen=True, kw_only=True)
class Source(ABC):
    """A data set's entry in the catalogue: what it is, and how to get it."""

    name: str
    summary: str  # one line; its first clause, up to a semicolon, is quoted by reports
    augment: bool = False  # crops and flips belong to its usual recipe
    counts: tuple[int, int] | None = None  # numbers of train and test samples, if known without loading
    classes: int | None = None  # their number, if known without loading
    embedded: ClassVar[bool] = False  # generated here, without a download

    @abstractmethod
    def load(self, folder: Path | None, say: Say) -> Dataset:
        """The verified data. `folder` is searched first for published files."""

    @abstractmethod
    def fetch(self, folder: Path | None, say: Say) -> Path | None:
        """Make sure that `load` needs no network from now on. Returns the cached file, if any."""

    def is_here(self) -> bool:
        """Whether `load` needs no fetching."""
        return True


DATASETS: Registry[Source] = Registry("data set")


def seal(split: Split) -> tuple[str, str]:
    """The checksums of a split, taken in one pass over its bytes because CIFAR-10 has 184 MB of them.

    The first is the sha256 of the input bytes followed by the labels as one byte each: what published data are
    verified against. The second names dtype, shape and sha256 of inputs and of labels: what a fingerprint is made of.
    """
    inputs, labels = split.inputs.contiguous().numpy(), split.labels.contiguous().numpy()
    hashed = hashlib.sha256(inputs.data)
    canonical = hashed.copy()
    canonical.update(labels.astype("uint8").tobytes())
    line = (
        f"inputs {inputs.dtype} {inputs.shape} {hashed.hexdigest()}; "
        f"labels {labels.dtype} {labels.shape} {hashlib.sha256(labels.data).hexdigest()}"
    )
    return canonical.hexdigest(), line


def fingerprint(train: str, test: str) -> str:
    """The sha256 over dtype, shape and bytes (by their sha256) of train inputs and labels, then of the test ones."""
    return hashlib.sha256(f"train {train}\ntest {test}\n".encode()).hexdigest()
