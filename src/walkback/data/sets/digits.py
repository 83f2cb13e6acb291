"""Handwritten digits of 8×8 (Alpaydin & Kaynak 1998): the smallest images, with no download.

digits.npz holds the test set of "Optical Recognition of Handwritten Digits" (E. Alpaydin and C. Kaynak, UCI Machine
Learning Repository, https://doi.org/10.24432/C50P49), licensed under CC BY 4.0: the values and the order of
scikit-learn's `load_digits`, as bytes.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

from walkback.data.base import DATASETS, Split
from walkback.data.cache import Embedded

if TYPE_CHECKING:
    from numpy.typing import NDArray

SEED = 1797
TEST = 36  # of each class, 20 % of the smallest


def make() -> tuple[Split, Split]:
    """1797 handwritten digits of 8×8: 1437 to train on, 360 (36 of each class) to test on.

    The pixels are counts v in 0 … 16; they become round(255 v / 16), which loses nothing. Of each class, 36 are
    drawn for the test by numpy's frozen generator `RandomState(1797)`; both parts keep the order of the file.
    """
    import numpy as np
    import torch

    with np.load(Path(__file__).with_name("digits.npz")) as digits:
        images = np.rint(digits["images"] * (255 / 16)).astype(np.uint8)[:, None]
        labels = digits["labels"].astype(np.int64)
    draw = np.random.RandomState(SEED)
    is_test = np.zeros(len(labels), dtype=bool)
    for label in range(10):
        is_test[draw.permutation(np.flatnonzero(labels == label))[:TEST]] = True

    def split(chosen: NDArray[Any]) -> Split:
        return Split(torch.from_numpy(images[chosen]), torch.from_numpy(labels[chosen]))

    return split(~is_test), split(is_test)


DIGITS = Embedded(
    name="digits",
    summary="handwritten digits, 1437 + 360 grey images 8×8, 10 classes; in the package",
    counts=(1437, 360),
    classes=10,
    make=make,
    libraries=("numpy",),
)
DATASETS.add(DIGITS.name, DIGITS)
