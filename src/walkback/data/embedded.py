"""The data room's own sets: made here, from a formula or from what an installed library carries. No download.

It promises the same tensors every time for the same versions of the libraries, and to leave everybody's random
numbers as they were.
"""

from __future__ import annotations

import hashlib
import random
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from importlib import metadata
from pathlib import Path

import numpy as np
import torch

from walkback.data import cache
from walkback.data.base import Dataset, Split, fingerprint, seal
from walkback.errors import DataError

TEACHER_SEED = 1128
DIGITS_SEED = 1797
DIGITS_TEST = 36  # of each class, 20 % of the smallest


@contextmanager
def _random_kept() -> Iterator[None]:
    """Give Python's, numpy's and torch's global random numbers back as they were."""
    ours, numpys, torchs = random.getstate(), np.random.get_state(), torch.get_rng_state()
    try:
        yield
    finally:
        random.setstate(ours)
        np.random.set_state(numpys)
        torch.set_rng_state(torchs)


def make_mnist1d() -> tuple[Split, Split]:
    """MNIST-1D by its authors' generator and its defaults (seed 42): 4000 + 1000 sequences of 40, as float32.

    The generator standardises the 5000 together, so no further normalisation is due. It seeds the global random
    numbers of Python and numpy, which is undone here; its download of a pickle is never called.
    """
    from mnist1d.data import make_dataset

    with _random_kept():
        made = make_dataset()

    def split(end: str) -> Split:
        inputs = np.ascontiguousarray(made[f"x{end}"], dtype=np.float32)
        return Split(torch.from_numpy(inputs), torch.from_numpy(made[f"y{end}"].astype(np.int64)))

    return split(""), split("_test")


def make_digits() -> tuple[Split, Split]:
    """scikit-learn's 1797 handwritten digits of 8×8: 1437 to train on, 360 (36 of each class) to test on.

    The pixels are counts v in 0 … 16; they become round(255 v / 16), which loses nothing. Of each class, 36 are
    drawn for the test by numpy's frozen generator `RandomState(1797)`; both parts keep scikit-learn's order.
    """
    from sklearn.datasets import load_digits

    digits = load_digits()
    images = np.rint(digits.images * (255 / 16)).astype(np.uint8)[:, None]
    labels = digits.target.astype(np.int64)
    draw = np.random.RandomState(DIGITS_SEED)
    is_test = np.zeros(len(labels), dtype=bool)
    for label in range(10):
        is_test[draw.permutation(np.flatnonzero(labels == label))[:DIGITS_TEST]] = True

    def split(chosen: np.ndarray[tuple[int], np.dtype[np.bool_]]) -> Split:
        return Split(torch.from_numpy(images[chosen]), torch.from_numpy(labels[chosen]))

    return split(~is_test), split(is_test)


def make_teacher() -> tuple[Split, Split]:
    """A synthetic teacher–student task: 8192 + 2048 vectors of 128, ten classes.

    x ~ N(0, I_128);  label = argmax_c (U tanh(W x))_c  with a fixed random teacher: W (128×128) a rotation, so that the
    hidden units see independent unit variances, and U (10×128) with orthonormal rows, so that all classes are equally
    likely. Drawn by numpy's frozen generator `RandomState(1128)`, in the order W, U, x, in double precision; x is
    rounded to float32 before it is labelled. A linear classifier reaches .775, and a plain tanh net no more: the
    task shows how a rule behaves, and is too easy to judge depth.
    """
    draw = np.random.RandomState(TEACHER_SEED)

    def orthonormal(rows: int) -> np.ndarray[tuple[int, int], np.dtype[np.float64]]:
        columns, triangle = np.linalg.qr(draw.standard_normal((128, rows)))
        return (columns * np.sign(np.diag(triangle))).T  # the signs make it unique, whoever computes it

    rotation, readout = orthonormal(128), orthonormal(10)
    inputs = draw.standard_normal((8192 + 2048, 128)).astype(np.float32)
    labels = (np.tanh(inputs.astype(np.float64) @ rotation.T) @ readout.T).argmax(1)

    def split(part: slice) -> Split:
        return Split(torch.from_numpy(inputs[part].copy()), torch.from_numpy(labels[part].astype(np.int64)))

    return split(slice(8192)), split(slice(8192, None))


MAKERS: dict[str, tuple[Callable[[], tuple[Split, Split]], tuple[str, ...]]] = {
    "mnist1d": (make_mnist1d, ("mnist1d", "numpy", "scipy")),
    "digits": (make_digits, ("scikit-learn", "numpy")),
    "teacher": (make_teacher, ("numpy",)),
}


def recipe(name: str) -> str:
    """What the tensors depend on, this file and the libraries' versions: a cached copy of another is made anew."""
    versions = [f"{library} {metadata.version(library)}" for library in MAKERS[name][1]]
    return ", ".join([*versions, f"recipe {hashlib.sha256(Path(__file__).read_bytes()).hexdigest()[:12]}"])


def load(name: str, say: cache.Say) -> Dataset:
    """An embedded data set, from the cache if it is there and whole.

    MNIST-1D takes 1.5 s to make and its library 1 s to import; from the cache it takes milliseconds. A cache that
    cannot be written to is no hindrance: the set is then made each time.
    """
    kept = _cached(name, say)
    if kept is not None:
        return kept
    train, test = MAKERS[name][0]()
    dataset = _dataset(name, train, test)
    try:
        with cache.alone(name, say):
            about = {"recipe": recipe(name), "fingerprint": dataset.fingerprint}
            cache.write(cache.place(name), train, test, about)
    except DataError as error:
        say(f"{name} is not kept for the next time: {error.what}")
    return dataset


def fetch(name: str, say: cache.Say) -> Path:
    """Make sure that the data set is in the cache; its file."""
    load(name, say)
    if _cached(name, say) is None:
        raise DataError(f"{name} could not be kept in {cache.shelf()}", "set WALKBACK_CACHE to a folder of yours")
    return cache.place(name)


def _cached(name: str, say: cache.Say) -> Dataset | None:
    """The cached copy if it is whole and of this recipe. Otherwise it costs little to make it anew."""
    path = cache.place(name)
    if not path.exists():
        return None
    try:
        train, test, about = cache.read(path)
    except DataError as error:
        say(f"{error.what}; making {name} anew")
        return None
    if about.get("recipe") != recipe(name):
        return None
    dataset = _dataset(name, train, test)
    if dataset.fingerprint != about.get("fingerprint"):
        say(f"the cached file {path} is not what was written; making {name} anew")
        return None
    return dataset


def _dataset(name: str, train: Split, test: Split) -> Dataset:
    mean, std = (0.0,), (1.0,)
    if train.inputs.dtype == torch.uint8:  # digits: no figure is customary, so it is computed from the train part
        scaled = train.inputs.double() / 255
        mean, std = (round(float(scaled.mean()), 4),), (round(float(scaled.std(correction=0)), 4),)
    return Dataset(
        name=name,
        train=train,
        test=test,
        classes=10,
        shape=tuple(train.inputs.shape[1:]),
        mean=mean,
        std=std,
        augment=False,
        fingerprint=fingerprint(seal(train), seal(test)),
    )
