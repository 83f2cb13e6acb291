"""The data room's published sets: how they are fetched and kept. What each must be is said by its file in sets/.

It promises that whatever the source, and each time anew, the tensors have the one checksum pinned there.
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
    """The data set from the cache, verified; fetched first if it is not there or not sound."""
    kept = _sound(wanted, say)
    if kept is None:
        fetch(wanted, folder, say)
        kept = _kept(wanted)
    return kept


def fetch(wanted: Published, folder: Path | None, say: Say) -> Path:
    """Make sure that the data set is in the cache, whole and verified; its file."""
    path = cache.place(wanted.name)
    if _sound(wanted, say) is not None:  # asked before locking: a shared cache may well be read-only
        return path
    folder = None if folder is None else Path(folder).expanduser()
    if folder is not None and not folder.is_dir():
        raise DataError(f"there is no folder {folder} to take {wanted.name} from", wanted.remedy)
    with cache.alone(wanted.name, say):
        if _sound(wanted, lambda _: None) is None:  # asked again: another process may have made it while we waited
            train, test = _gathered(wanted, folder, say)
            cache.write(path, train, test, {"name": wanted.name, "train": wanted.sums[0], "test": wanted.sums[1]})
            say(f"{wanted.name}: verified and kept as {path}")
    return path


def _gathered(wanted: Published, folder: Path | None, say: Say) -> tuple[Split, Split]:
    users = os.environ.get("WALKBACK_DATA")
    ways = [standing(folder, f"the folder {folder}")] if folder is not None else []
    if users:
        ways.append(standing(Path(users).expanduser(), f"the folder WALKBACK_DATA={users}"))
    # Scratch on the shelf, not in /tmp, which is often small; what a killed process left there is swept first.
    prefix = f".fetching-{wanted.name}-"
    with cache.troubles(f"preparing the cache folder {cache.shelf()}"):
        for old in cache.shelf().glob(f"{prefix}*"):
            shutil.rmtree(old, ignore_errors=True)
        scratch = tempfile.TemporaryDirectory(prefix=prefix, dir=cache.shelf(), ignore_cleanup_errors=True)
    with scratch as room:
        return gather(wanted, (*ways, *wanted.ways), Path(room), say)


def _sound(wanted: Published, say: Say) -> Dataset | None:
    """The cached data set; None, with a word to the user, if it is damaged."""
    if not cache.place(wanted.name).exists():
        return None
    try:
        return _kept(wanted)
    except DataError as error:
        say(f"{error.what}; it is fetched anew")
        return None


def _kept(wanted: Published) -> Dataset:
    path = cache.place(wanted.name)
    train, test, _ = cache.read(path)
    try:
        seals = verify(train, wanted, "train"), verify(test, wanted, "test")
    except DataError as error:
        raise DataError(
            f"the cached file {path} is not what was written: {error.what}", "delete it and fetch again"
        ) from error
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
