"""The data room's own sets: generated here, by a formula or from an installed library. No download.

It promises the same tensors every time for the same versions of the libraries, and restores the global random state.
"""

from __future__ import annotations

import hashlib
import inspect
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar

from walkback.data.base import Dataset, Say, Split
from walkback.data.catalogue import DATASETS, Source
from walkback.errors import DataError

Maker = Callable[[], tuple[Split, Split]]


@dataclass(frozen=True, kw_only=True)
class Embedded(Source):
    """A data set that `make` generates, from `libraries` (as PyPI names them); then kept in the cache."""

    make: Maker
    libraries: tuple[str, ...]
    builds_on: tuple[Maker, ...] = ()  # what `make` calls in the files of other data sets
    embedded: ClassVar[bool] = True

    def made(self) -> Dataset:
        """Generated again and checked, whatever the cache holds."""
        from walkback.data.build import make_dataset, random_kept

        with random_kept():
            train, test = self.make()
        return make_dataset(self.name, train, test, augment=self.augment)

    def load(self, folder: Path | None, say: Say) -> Dataset:  # noqa: ARG002 - there are no files to look for
        """From the cache if it is there and whole; made and kept if not.

        MNIST-1D takes 1.5 s to make and its library 1 s to import; from the cache it takes milliseconds. If the
        cache cannot be written, the data set is made each time.
        """
        from walkback.data import cache

        kept = self._cached(say)
        if kept is not None:
            return kept
        dataset = None
        try:
            with cache.alone(self.name, say):
                kept = self._cached(lambda _: None)  # checked again: another process may have made it meanwhile
                if kept is not None:
                    return kept
                dataset = self.made()
                about = {"recipe": self.recipe(), "fingerprint": dataset.fingerprint}
                cache.write(cache.place(self.name), dataset.train, dataset.test, about)
        except DataError as error:
            say(f"{self.name} could not be cached, so it is made again next time: {error.what}")
        return self.made() if dataset is None else dataset

    def fetch(self, folder: Path | None, say: Say) -> Path:
        """Put it into the cache. Returns the cached file."""
        from walkback.data import cache

        self.load(folder, say)
        if self._cached(say) is None:
            raise DataError(
                f"{self.name} could not be cached in {cache.shelf()}",
                "set WALKBACK_CACHE to a folder that you may write to",
            )
        return cache.place(self.name)

    def is_here(self) -> bool:
        """Always: it needs no download."""
        return True

    def recipe(self) -> str:
        """What the tensors depend on: the code and the libraries' versions."""
        from importlib import metadata

        versions = [f"{library} {metadata.version(library)}" for library in self.libraries]
        code = b"".join(Path(inspect.getfile(maker)).read_bytes() for maker in (self.make, *self.builds_on))
        return ", ".join([*versions, f"recipe {hashlib.sha256(code).hexdigest()[:12]}"])

    def _cached(self, say: Say) -> Dataset | None:
        """The cached copy if it is complete and of this recipe."""
        from walkback.data import cache
        from walkback.data.build import assemble

        path = cache.place(self.name)
        if not path.exists():
            return None
        try:
            train, test, about = cache.read(path)
        except DataError as error:
            say(f"{error.what}; making {self.name} again")
            return None
        if about.get("recipe") != self.recipe():
            return None
        dataset = assemble(self.name, train, test, augment=self.augment)
        if dataset.fingerprint != about.get("fingerprint"):
            say(f"the cached file {path} was changed; making {self.name} again")
            return None
        return dataset


def embedded(
    name: str,
    *,
    summary: str,
    counts: tuple[int, int],
    classes: int,
    libraries: tuple[str, ...],
    builds_on: tuple[Maker, ...] = (),
) -> Callable[[Maker], Maker]:
    """Register the function below as the maker of the data set `name`; see `Embedded` for the rest."""

    def register(make: Maker) -> Maker:
        source = Embedded(
            name=name,
            summary=summary,
            counts=counts,
            classes=classes,
            make=make,
            libraries=libraries,
            builds_on=builds_on,
        )
        DATASETS.add(name, source)
        return make

    return register
