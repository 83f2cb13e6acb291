"""The data room's catalogue: what every data set promises, and the table of their names."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar

from walkback.data.base import Dataset, Say
from walkback.registry import Registry


@dataclass(frozen=True, kw_only=True)
class Source(ABC):
    """A data set's entry in the catalogue: what it is, and how to get it."""

    name: str
    summary: str  # one line; its first clause, up to a semicolon, is quoted by reports
    augment: bool = False  # crops and flips belong to its usual recipe
    counts: tuple[int, int] | None = None  # numbers of train and test samples, if known without loading
    classes: int | None = None  # likewise
    embedded: ClassVar[bool] = False  # generated here, without a download

    @abstractmethod
    def load(self, folder: Path | None, say: Say) -> Dataset:
        """The verified data. `folder` is searched first for published files."""

    @abstractmethod
    def fetch(self, folder: Path | None, say: Say) -> Path | None:
        """Make sure that `load` needs no network from now on. Returns the cached file, if any."""

    @abstractmethod
    def is_here(self) -> bool:
        """Whether `load` needs no fetching."""


DATASETS: Registry[Source] = Registry("data set")
