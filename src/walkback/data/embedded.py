"""The data room's own sets: generated here, by a formula or from an installed library. No download.

They promise the same tensors every time for the same versions of the libraries, and leave the global random state.
"""

from __future__ import annotations

import hashlib
import inspect
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar

from walkback.data.base import Dataset, Say, Split
from walkback.data.cache import Cached
from walkback.errors import DataError


@dataclass(frozen=True, kw_only=True)
class Embedded(Cached):
    """A data set that `make` generates, from `libraries` (as PyPI names them); then kept in the cache."""

    make: Callable[[], tuple[Split, Split]]
    libraries: tuple[str, ...]
    embedded: ClassVar[bool] = True
    again: ClassVar[str] = "making it again"

    def load(self, folder: Path | None, say: Say) -> Dataset:
        """From the cache, in milliseconds; if it cannot be written, made each time.

        MNIST-1D takes 1.5 s to make and its library 1 s to import.
        """
        try:
            return super().load(folder, say)
        except DataError as error:
            say(f"{self.name} could not be cached, so it is made again next time: {error.what}")
            return self.anew()

    def anew(self) -> Dataset:
        """Generated again and checked, whatever the cache holds."""
        from walkback.data.build import make_dataset, random_kept

        with random_kept():
            train, test = self.make()
        return make_dataset(self.name, train, test, augment=self.augment)

    def made(self, folder: Path | None, say: Say) -> tuple[Split, Split, dict[str, str]]:
        """Both parts, with their fingerprint and what they depend on."""
        del folder, say
        dataset = self.anew()
        return dataset.train, dataset.test, {"recipe": self.recipe(), "fingerprint": dataset.fingerprint}

    def verified(self, train: Split, test: Split, about: dict[str, str]) -> Dataset | None:
        """The data set if it has its fingerprint; None if it is of another recipe."""
        from walkback.data.build import assemble

        if about.get("recipe") != self.recipe():
            return None
        dataset = assemble(self.name, train, test, augment=self.augment)
        if dataset.fingerprint != about.get("fingerprint"):
            raise DataError("it has another fingerprint")
        return dataset

    def recipe(self) -> str:
        """What the tensors depend on: the code and the libraries' versions."""
        from importlib import metadata

        versions = [f"{library} {metadata.version(library)}" for library in self.libraries]
        code = hashlib.sha256(Path(inspect.getfile(self.make)).read_bytes()).hexdigest()
        return ", ".join([*versions, f"recipe {code[:12]}"])
