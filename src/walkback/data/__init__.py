"""The data room: images and labels in, tensors out.

It promises that a data set is exactly what its name says, verified on each load, whatever its source; and that listing
the data sets costs nothing. They are the files in sets/. Embedded ones are generated here; published ones are
taken from your folder (WALKBACK_DATA) or fetched, and kept in the cache (WALKBACK_CACHE, or your usual cache folder).
Your own data are a function in a file, `my_data.py:load`, or registered by name.
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

from walkback.data.base import DATASETS, Dataset, Say, Source, Split
from walkback.data.own_data import find_data, is_own, register_data, source_of, usual_augment
from walkback.plain import lines
from walkback.registry import walk

if TYPE_CHECKING:
    from walkback.data.build import make_dataset as make_dataset

__all__ = [
    "DATASETS", "Dataset", "Source", "Split", "fetch", "find_data", "is_cached", "is_own", "load", "make_dataset",
    "register_data", "source_of", "usual_augment",
]  # fmt: skip

walk("walkback.data.sets")


def tell(message: str) -> None:
    """Print a message for the user on standard error, so that standard output stays clean."""
    print(lines(message), file=sys.stderr, flush=True)


def load(name: str, folder: Path | None = None, say: Say = tell) -> Dataset:
    """The data set of that name, or of a function in a file, verified; fetched first if the cache does not have it.

    `folder` is searched first for a published data set.
    """
    return find_data(name).load(folder, say)


def fetch(name: str, folder: Path | None = None, say: Say = tell) -> Path | None:
    """Put the data set into the cache, complete and verified. Returns the cached file; None for your own data."""
    return find_data(name).fetch(folder, say)


def is_cached(name: str) -> bool:
    """Whether `load` needs no fetching: the data set is embedded or cached (it is verified when loaded)."""
    return find_data(name).is_here()


def __getattr__(name: str) -> Any:
    if name != "make_dataset":
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from walkback.data.build import make_dataset  # here, because it imports torch

    return make_dataset
