"""The teacher–student task: vectors labelled by a fixed random net."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from walkback.data.base import DATASETS, Split
from walkback.data.cache import Embedded

if TYPE_CHECKING:
    from numpy.typing import NDArray

SEED = 1128


def make() -> tuple[Split, Split]:
    """A synthetic teacher–student task: 8192 + 2048 vectors of 128, ten classes.

    x ~ N(0, I_128);  label = argmax_c (U tanh(W x))_c  with a fixed random teacher: W (128×128) a rotation, so that the
    hidden units see independent unit variances, and U (10×128) with orthonormal rows, so that all classes are equally
    likely. Drawn by numpy's frozen generator `RandomState(1128)`, in the order W, U, x, in double precision; x is
    rounded to float32 before it is labelled. A linear classifier reaches .775, and a plain tanh net no more: the
    task shows how a rule behaves, and is too easy to judge depth.
    """
    import numpy as np
    import torch

    draw = np.random.RandomState(SEED)

    def orthonormal(rows: int) -> NDArray[Any]:
        columns, triangle = np.linalg.qr(draw.standard_normal((128, rows)))
        return (columns * np.sign(np.diag(triangle))).T  # the signs make it unique

    rotation, readout = orthonormal(128), orthonormal(10)
    inputs = draw.standard_normal((8192 + 2048, 128)).astype(np.float32)
    labels = (np.tanh(inputs.astype(np.float64) @ rotation.T) @ readout.T).argmax(1)

    def split(part: slice) -> Split:
        return Split(torch.from_numpy(inputs[part].copy()), torch.from_numpy(labels[part].astype(np.int64)))

    return split(slice(8192)), split(slice(8192, None))


TEACHER = Embedded(
    name="teacher",
    summary="labels of a random tanh net, 8192 + 2048 vectors of 128, 10 classes; generated",
    counts=(8192, 2048),
    classes=10,
    make=make,
    libraries=("numpy",),
)
DATASETS.add(TEACHER.name, TEACHER)
