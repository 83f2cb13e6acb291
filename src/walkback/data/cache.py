"""The data room's shelf: every data set is kept as `NAME.safetensors` and read back from there.

It promises that a file in the cache is complete or absent: written under another name, flushed, then renamed, by one
process at a time. The reader verifies its content each time.
"""

from __future__ import annotations

import contextlib
import errno
import os
from collections.abc import Iterator
from pathlib import Path

import filelock
import platformdirs

from walkback.data.base import Say, Split
from walkback.errors import DataError, RecordError
from walkback.files import check_regular, replace_whole

PATIENCE = 1800.0  # seconds to wait for another process: a slow download of 170 MB fits


def shelf() -> Path:
    """The folder of the cached data sets: WALKBACK_CACHE, or the user's cache folder."""
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

    tensors = {
        "train.inputs": train.inputs,
        "train.labels": train.labels,
        "test.inputs": test.inputs,
        "test.labels": test.labels,
    }
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
            about = dict(file.metadata() or {})
            tensors = {key: file.get_tensor(key) for key in file.keys()}  # noqa: SIM118 - the file is no dict
        return (
            Split(tensors["train.inputs"], tensors["train.labels"]),
            Split(tensors["test.inputs"], tensors["test.labels"]),
            about,
        )
    except (OSError, SafetensorError, KeyError, ValueError, RecordError) as error:
        raise DataError(f"the cached file {path} cannot be read: {error}", "delete it and fetch again") from error
