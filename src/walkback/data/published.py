"""The data room's published sets: how they are fetched and kept. Its file in sets/ defines each of them.

It promises that the tensors have the checksum pinned there, every time, whatever the source.
"""

from __future__ import annotations

import os
import shutil
import tempfile
from pathlib import Path

from walkback.data import cache
from walkback.data.base import Dataset, Say, Split, fingerprint
from walkback.data.sources import Published, gather, standing, verify
from walkback.errors import DataError


def load(wanted: Published, folder: Path | None, say: Say) -> Dataset:
    """The data set from the cache, verified; fetched first if it is missing or damaged."""
    kept = _sound(wanted, say)
    if kept is None:
        fetch(wanted, folder, say)
        kept = _kept(wanted)
    return kept


def fetch(wanted: Published, folder: Path | None, say: Say) -> Path:
    """Put the data set into the cache, complete and verified. Returns its file."""
    path = cache.place(wanted.name)
    if _sound(wanted, say) is not None:  # checked before locking: a shared cache may be read-only
        return path
    folder = None if folder is None else Path(folder).expanduser()
    if folder is not None and not folder.is_dir():
        raise DataError(f"the folder {folder} for {wanted.name} does not exist", wanted.remedy)
    with cache.alone(wanted.name, say):
        if _sound(wanted, lambda _: None) is None:  # checked again: another process may have made it meanwhile
            train, test = _gathered(wanted, folder, say)
            cache.write(path, train, test, {"name": wanted.name, "train": wanted.sums[0], "test": wanted.sums[1]})
            say(f"{wanted.name}: verified and kept as {path}")
    return path


def _gathered(wanted: Published, folder: Path | None, say: Say) -> tuple[Split, Split]:
    users = os.environ.get("WALKBACK_DATA")
    ways = [standing(folder, f"the folder {folder}")] if folder is not None else []
    if users:
        ways.append(standing(Path(users).expanduser(), f"the folder WALKBACK_DATA={users}"))
    # Scratch in the cache, not in /tmp, which is often small; leftovers of killed processes are removed first.
    prefix = f".fetching-{wanted.name}-"
    with cache.troubles(f"preparing the cache folder {cache.shelf()}"):
        for old in cache.shelf().glob(f"{prefix}*"):
            shutil.rmtree(old, ignore_errors=True)
        scratch = tempfile.TemporaryDirectory(prefix=prefix, dir=cache.shelf(), ignore_cleanup_errors=True)
    with scratch as room:
        return gather(wanted, (*ways, *wanted.ways), Path(room), say)


def _sound(wanted: Published, say: Say) -> Dataset | None:
    """The cached data set; None, with a message to the user, if it is damaged."""
    if not cache.place(wanted.name).exists():
        return None
    try:
        return _kept(wanted)
    except DataError as error:
        say(f"{error.what}; fetching it again")
        return None


def _kept(wanted: Published) -> Dataset:
    path = cache.place(wanted.name)
    train, test, _ = cache.read(path)
    try:
        seals = verify(train, wanted, "train"), verify(test, wanted, "test")
    except DataError as error:
        raise DataError(f"the cached file {path} was changed: {error.what}", "delete it and fetch again") from error
    return Dataset(
        name=wanted.name,
        train=train,
        test=test,
        classes=wanted.classes,
        shape=wanted.shape,
        mean=wanted.mean,
        std=wanted.std,
        augment=wanted.augment,
        fingerprint=fingerprint(*seals),
    )
