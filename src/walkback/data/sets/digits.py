"""scikit-learn's handwritten digits (Alpaydin & Kaynak 1998): the smallest images, with no download."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from walkback.data.base import Split
from walkback.data.embedded import embedded

if TYPE_CHECKING:
    from numpy.typing import NDArray

SEED = 1797
TEST = 36  # of each class, 20 % of the smallest


@embedded(
    "digits",
    summary="handwritten digits, 1437 + 360 grey images 8×8, 10 classes; from scikit-learn",
    counts=(1437, 360),
    classes=10,
    libraries=("scikit-learn", "numpy"),
)
def make() -> tuple[Split, Split]:
    """scikit-learn's 1797 handwritten digits of 8×8: 1437 to train on, 360 (36 of each class) to test on.

    The pixels are counts v in 0 … 16; they become round(255 v / 16), which loses nothing. Of each class, 36 are
    drawn for the test by numpy's frozen generator `RandomState(1797)`; both parts keep scikit-learn's order.
    """
    import numpy as np
    import torch
    from sklearn.datasets import load_digits

    digits = load_digits()
    images = np.rint(digits.images * (255 / 16)).astype(np.uint8)[:, None]
    labels = digits.target.astype(np.int64)
    draw = np.random.RandomState(SEED)
    is_test = np.zeros(len(labels), dtype=bool)
    for label in range(10):
        is_test[draw.permutation(np.flatnonzero(labels == label))[:TEST]] = True

    def split(chosen: NDArray[Any]) -> Split:
        return Split(torch.from_numpy(images[chosen]), torch.from_numpy(labels[chosen]))

    return split(~is_test), split(is_test)
