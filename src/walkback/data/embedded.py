"""The data room's own sets: made here, from a formula or from what an installed library carries. No download.

It promises the same tensors every time for the same versions of the libraries, and to leave everybody's random
numbers as they were.
"""

from __future__ import annotations

import hashlib
import inspect
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar

from walkback.data.base import Dataset, Say, Split
from walkback.data.catalogue import Source
from walkback.errors import DataError

Maker = Callable[[], tuple[Split, Split]]


@dataclass(frozen=True, kw_only=True)
class Embedded(Source):
    """A data set that `make` makes on the spot, from `libraries` (as PyPI names them); kept in the cache afterwards."""

    make: Maker
    libraries: tuple[str, ...]
    builds_on: tuple[Maker, ...] = ()  # what `make` calls in the files of other data sets
    embedded: ClassVar[bool] = True

    def made(self) -> Dataset:
        """Made anew and checked, whatever the cache holds."""
        from walkback.data.build import make_dataset, random_kept

        with random_kept():
            train, test = self.make()
        return make_dataset(self.name, train, test, augment=self.augment)

    def load(self, folder: Path | None, say: Say) -> Dataset:  # noqa: ARG002 - there are no files to look for
        """From the cache if it is there and whole; made and kept if not.

        MNIST-1D takes 1.5 s to make and its library 1 s to import; from the cache it takes milliseconds. A cache that
        cannot be written to is no hindrance: the set is then made each time.
        """
        from walkback.data import cache

        kept = self._cached(say)
        if kept is not None:
            return kept
        dataset = None
        try:
            with cache.alone(self.name, say):
                kept = self._cached(lambda _: None)  # asked again: another process may have made it while we waited
                if kept is not None:
                    return kept
                dataset = self.made()
                about = {"recipe": self.recipe(), "fingerprint": dataset.fingerprint}
                cache.write(cache.place(self.name), dataset.train, dataset.test, about)
        except DataError as error:
            say(f"{self.name} is not kept for the next time: {error.what}")
        return self.made() if dataset is None else dataset

    def fetch(self, folder: Path | None, say: Say) -> Path:
        """Make sure that it is in the cache; its file."""
        from walkback.data import cache

        self.load(folder, say)
        if self._cached(say) is None:
            raise DataError(
                f"{self.name} could not be kept in {cache.shelf()}", "set WALKBACK_CACHE to a folder of yours"
            )
        return cache.place(self.name)

    def is_here(self) -> bool:
        """Always: it needs no download."""
        return True

    def recipe(self) -> str:
        """What the tensors depend on, the code and the libraries' versions: a cached copy of another is made anew."""
        from importlib import metadata

        versions = [f"{library} {metadata.version(library)}" for library in self.libraries]
        code = b"".join(Path(inspect.getfile(maker)).read_bytes() for maker in (self.make, *self.builds_on))
        return ", ".join([*versions, f"recipe {hashlib.sha256(code).hexdigest()[:12]}"])

    def _cached(self, say: Say) -> Dataset | None:
        """The cached copy if it is whole and of this recipe. Otherwise it costs little to make it anew."""
        from walkback.data import cache
        from walkback.data.build import assemble

        path = cache.place(self.name)
        if not path.exists():
            return None
        try:
            train, test, about = cache.read(path)
        except DataError as error:
            say(f"{error.what}; making {self.name} anew")
            return None
        if about.get("recipe") != self.recipe():
            return None
        dataset = assemble(self.name, train, test, augment=self.augment)
        if dataset.fingerprint != about.get("fingerprint"):
            say(f"the cached file {path} is not what was written; making {self.name} anew")
            return None
        return dataset
