"""The data room's shelf: every data set is kept as `NAME.safetensors` and read back; our own are made for it here.

It promises that a file in the cache is complete or absent: written under another name, flushed, then renamed, by one
process at a time. Its content is verified each time it is read. Our own sets are generated: the same tensors every time
for the same versions of the libraries, and the global random state stays.
"""

from __future__ import annotations

import contextlib
import errno
import hashlib
import inspect
import os
from abc import abstractmethod
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar

from walkback.data.base import Dataset, Say, Source, Split
from walkback.errors import DataError, RecordError
from walkback.files import check_regular, replace_whole

PATIENCE = 1800.0  # seconds to wait for another process: a slow download of 170 MB fits


class Cached(Source):
    """A data set that is made once, kept in the cache, and verified whenever it is read."""

    again: ClassVar[str]  # what is done about a damaged copy

    @abstractmethod
    def made(self, folder: Path | None, say: Say) -> tuple[Split, Split, dict[str, str]]:
        """Both parts, and what is kept with them to verify them by."""

    @abstractmethod
    def verified(self, train: Split, test: Split, about: dict[str, str]) -> Dataset | None:
        """What was kept, if it is sound; None if it is outdated. Otherwise a `DataError` that says why."""

    def load(self, folder: Path | None, say: Say) -> Dataset:
        """From the cache; made and kept first if it is missing or damaged."""
        sound = self._sound(say)  # checked before locking: a shared cache may be read-only
        if sound is None:
            with alone(self.name, say):
                sound = self._sound(lambda _: None)  # checked again: another process may have made it meanwhile
                if sound is None:
                    path = place(self.name)
                    write(path, *self.made(folder, say))
                    sound = self._sound(say)
                    if sound is None:
                        raise DataError(f"{path} is not what was written to it", "check the disk")
                    if not self.embedded:
                        say(f"{self.name}: verified and kept as {path}")
        return sound

    def fetch(self, folder: Path | None, say: Say) -> Path:
        """Put it into the cache, complete and verified. Returns its file."""
        Cached.load(self, folder, say)
        return place(self.name)

    def _sound(self, say: Say) -> Dataset | None:
        """The cached data set; None, with a message to the user, if it is damaged."""
        path = place(self.name)
        if not path.exists():
            return None
        try:
            parts = read(path)
            try:
                return self.verified(*parts)
            except DataError as error:
                raise DataError(f"the cached file {path} was changed: {error.what}") from error
        except DataError as error:
            say(f"{error.what}; {self.again}")
            return None


def shelf() -> Path:
    """The folder of the cached data sets: WALKBACK_CACHE, or the user's cache folder."""
    import platformdirs

    chosen = os.environ.get("WALKBACK_CACHE")
    # Absolute, because package managers run from another folder.
    return Path(chosen or platformdirs.user_cache_dir("walkback")).expanduser().absolute()


def place(name: str) -> Path:
    """Where the data set of that name is kept."""
    return shelf() / f"{name}.safetensors"


@contextlib.contextmanager
def troubles(doing: str) -> Iterator[None]:
    """Turn errors of the file system (full, forbidden, gone) into a `DataError` with its remedy."""
    try:
        yield
    except OSError as error:
        full = error.errno in (errno.ENOSPC, errno.EDQUOT)
        raise DataError(
            f"{doing} failed: {error.strerror or error}" + (f" ({error.filename})" if error.filename else ""),
            f"{'make room there' if full else 'make that folder writable'}, "
            "or set WALKBACK_CACHE to a folder with about 1 GB free that you may write to",
        ) from error


@contextlib.contextmanager
def alone(name: str, say: Say) -> Iterator[None]:
    """Let only one process make a file at a time; wait if another one does."""
    import filelock

    path = place(name)
    with troubles(f"preparing the cache folder {path.parent}"):
        path.parent.mkdir(parents=True, exist_ok=True)
        lock = filelock.FileLock(path.with_suffix(".lock"))
        try:
            lock.acquire(timeout=0)
        except filelock.Timeout:
            say(f"another process is making {path.name}; waiting for it")
            try:
                lock.acquire(timeout=PATIENCE)
            except filelock.Timeout as error:
                raise DataError(
                    f"another process has held {lock.lock_file} for {PATIENCE:.0f} s",
                    "let it finish or end it, then try again",
                ) from error
    try:
        yield
    finally:
        lock.release()


def write(path: Path, train: Split, test: Split, about: dict[str, str]) -> None:
    """Write both splits to the cache, with a description; call it inside `alone`."""
    from safetensors.torch import save

    parts = {"train": train, "test": test}
    tensors = {f"{part}.{what}": getattr(split, what) for part, split in parts.items() for what in ("inputs", "labels")}
    with troubles(f"writing {path}"):
        for left in path.parent.glob(f".{path.name}.*.part"):  # left by a killed process
            left.unlink(missing_ok=True)
        replace_whole(path, save(tensors, about))


def read(path: Path) -> tuple[Split, Split, dict[str, str]]:
    """Both splits of a cached file and their description; a `DataError` if it cannot be read."""
    from safetensors import SafetensorError, safe_open

    try:
        check_regular(path)
        with safe_open(path, framework="pt") as file:
            train, test = (
                Split(file.get_tensor(f"{part}.inputs"), file.get_tensor(f"{part}.labels"))
                for part in ("train", "test")
            )
            return train, test, dict(file.metadata() or {})
    except (OSError, SafetensorError, KeyError, ValueError, RecordError) as error:
        raise DataError(f"the cached file {path} cannot be read: {error}", "delete it and fetch again") from error


# --- our own sets: generated here, by a formula or from an installed library ------------------------------------------


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
