"""Fashion-MNIST (Xiao, Rasul & Vollgraf 2017), from its official archive or from Debian's package.

How the checksums were established: the Debian package's four IDX files, unpacked, have the MD5 published beside the
MD5 of the official .gz files (train images: f4a8712d… beside 8d4fb7e6…, which is also torchvision's). The readers in
formats.py decoded them and `seal` was noted. Mean and std of the train part, computed from these tensors, agree with
the customary figures below in all digits.
"""

from pathlib import Path

from walkback.data.catalogue import DATASETS
from walkback.data.sources import debian, download_idx, like_mnist, standing

FASHION_MNIST = like_mnist(
    "Fashion-MNIST",
    megabytes=31,
    mean=0.2860,
    std=0.3530,
    sums=(
        "16d82e2b505296aa2b78bd5ea0992634f30419a4c97def7c907d154a35ac6157",
        "9f1ec356a747bfe4ebab3cfb722d3694c9ca737e2570f6f90cf31d7b6fd689d4",
    ),
    ways=(
        download_idx(
            "http://fashion-mnist.s3-website.eu-central-1.amazonaws.com/",
            "8d4fb7e6c68d591d4c3dfef9ec88bf0d",
            "25c81989df183df01b3e8a0aad5dffbe",
            "bef4ecab320f06d8554ea6380940ec79",
            "bb300cfdad3c16e7a12a480ee83cd310",
        ),
        standing(Path("/usr/share/datasets/fashion-mnist"), "Debian's package, if it is installed"),
        debian("dataset-fashion-mnist"),
    ),
    home="https://github.com/zalandoresearch/fashion-mnist",
    hint="on Debian, `apt-get update` may help",
)

DATASETS.add(FASHION_MNIST.name, FASHION_MNIST)
