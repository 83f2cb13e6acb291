"""The data room's catalogue: what every data set promises, and the table of those known by name."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar

from walkback.data.base import Dataset, Say
from walkback.registry import Registry


@dataclass(frozen=True, kw_only=True)
class Source(ABC):
    """A data set's entry in the catalogue: what it is, and how it is had."""

    name: str
    summary: str  # one line; its first clause, up to a semicolon, is quoted by reports
    augment: bool = False  # crops and flips belong to its usual recipe
    counts: tuple[int, int] | None = None  # of train and test samples, where they are known without loading
    embedded: ClassVar[bool] = False  # made on the spot, without any download

    @abstractmethod
    def load(self, folder: Path | None, say: Say) -> Dataset:
        """The data, verified. `folder` is where to look for published files before anywhere else."""

    @abstractmethod
    def fetch(self, folder: Path | None, say: Say) -> Path | None:
        """Make sure that `load` needs no network from now on; the file that is kept, if there is one."""

    @abstractmethod
    def is_here(self) -> bool:
        """Whether `load` has no need to fetch anything."""


DATASETS: Registry[Source] = Registry("data set")
