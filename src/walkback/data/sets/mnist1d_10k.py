"""MNIST-1D with ten times the test sequences: the same training, and accuracies three times as precise."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from walkback.data.base import Split
from walkback.data.embedded import embedded
from walkback.data.sets import mnist1d

if TYPE_CHECKING:
    from numpy.typing import NDArray

TEST_SEED = 1042
TEST = 10_000


@embedded(
    "mnist1d-10k",
    summary="MNIST-1D, 4000 + 10000 sequences of 40, 10 classes; mnist1d's training part, a larger test part",
    counts=(4000, 10_000),
    classes=10,
    libraries=("mnist1d", "numpy", "scipy"),
    builds_on=(mnist1d.make,),
)
def make() -> tuple[Split, Split]:
    """The 4000 training sequences of `mnist1d`, bit for bit, and 10,000 new test sequences, 1000 of each class.

    The authors' generator draws N sequences from a seed, shuffles them, and standardises all N together by one mean
    and one standard deviation: x = (raw − μ)/σ. Its defaults (seed 42, N = 5000) give the canonical set, whose last
    1000 are the canonical test part. The new test sequences are drawn with the same settings from seed 1042, and
    standardised with the canonical μ and σ, those of the 5000 sequences of seed 42, not with their own: a sequence is
    then the same input whichever of the two test parts it is in. (Their own μ differs by 0.003 σ, their own σ by
    0.04 %.) The generator returns neither μ nor σ, so `raw` repeats its drawing, by its own functions.
    """
    canonical, labels = raw(seed=42, count=5000)
    mean, std = canonical.mean(), canonical.std()
    fresh, fresh_labels = raw(seed=TEST_SEED, count=TEST)
    train = mnist1d.as_split(((canonical - mean) / std)[:4000], labels[:4000])
    return train, mnist1d.as_split((fresh - mean) / std, fresh_labels)


def raw(seed: int, count: int) -> tuple[NDArray[Any], NDArray[Any]]:
    """Sequences and labels as mnist1d's `make_dataset` has them before it standardises: drawn by class, shuffled."""
    import numpy as np
    from mnist1d.data import get_dataset_args, get_templates
    from mnist1d.transform import transform
    from mnist1d.utils import set_seed

    templates, settings = get_templates(), get_dataset_args()
    set_seed(seed)
    labels = np.repeat(templates["y"], count // len(templates["y"]))
    sequences = np.stack([transform(templates["x"][label], templates["t"], settings)[0] for label in labels])
    order = np.random.permutation(len(labels))
    return sequences[order], labels[order]
