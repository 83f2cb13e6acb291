"""The data room's readers: each turns the bytes of one usual layout into a `Split`, or says what is wrong with them.

Pure functions of bytes. They promise the same tensors for the same data whatever the layout, and never execute
anything in a file: pickled batches are read by an unpickler that knows five harmless names, all of them ours.
"""

from __future__ import annotations

import gzip
import io
import math
import pickle
import zlib
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from walkback.data.base import LARGEST, Split
from walkback.errors import DataError, RecordError
from walkback.files import parse_json

Bytes = NDArray[np.uint8]

CIFAR = (3, 32, 32)
RECORD = 1 + math.prod(CIFAR)


def _split(images: Bytes, labels: Bytes) -> Split:
    if len(images) != len(labels):
        raise DataError(f"there are {len(images)} images and {len(labels)} labels; expected as many of each")
    # A copy, because arrays made from `bytes` are read-only and torch needs writable memory.
    inputs = torch.from_numpy(np.array(images, dtype=np.uint8, order="C"))
    return Split(inputs, torch.from_numpy(labels.astype(np.int64)))


def gunzip(blob: bytes) -> bytes:
    """The content of a gzip file; other bytes are returned unchanged."""
    if blob[:2] != b"\x1f\x8b":
        return blob
    try:
        with gzip.GzipFile(fileobj=io.BytesIO(blob)) as file:
            content = file.read(LARGEST + 1)
    except (OSError, EOFError, zlib.error) as error:
        raise DataError(f"the gzip file is damaged: {error}") from error
    if len(content) > LARGEST:
        raise DataError(f"the gzip file holds more than the {LARGEST} bytes that any file of these data sets has")
    return content


def read_idx(blob: bytes) -> Bytes:
    """An IDX file of bytes (gzipped or not): 0, 0, 8, the number of axes, each length as big-endian 32 bits, the data.

    >>> read_idx(bytes([0, 0, 8, 1, 0, 0, 0, 3]) + b"abc")
    array([97, 98, 99], dtype=uint8)
    """
    blob = gunzip(blob)
    if len(blob) < 4 or blob[:3] != b"\0\0\x08":
        raise DataError(f"not an IDX file of bytes: it begins with {blob[:4].hex(' ') or 'nothing'}, expected 00 00 08")
    start = 4 + 4 * blob[3]
    shape = tuple(int(n) for n in np.frombuffer(blob[4 : min(start, len(blob) // 4 * 4)], dtype=">u4"))
    expected = start + math.prod(shape)
    if len(shape) != blob[3] or len(blob) != expected:
        raise DataError(f"the IDX file has {len(blob)} bytes; its header {shape} asks for {expected}")
    try:
        return np.frombuffer(blob, dtype=np.uint8, offset=start).reshape(shape)
    except ValueError as error:  # more axes than numpy has, or an empty array of an absurd shape
        raise DataError(f"the IDX file's header {shape} is impossible: {error}") from error


def idx(blobs: Sequence[bytes]) -> Split:
    """An IDX file of grey images (N, H, W) and one of labels (N,), as MNIST and Fashion-MNIST come."""
    images, labels = (read_idx(blob) for blob in blobs)
    if images.ndim != 3 or labels.ndim != 1:
        raise DataError(f"the IDX files have shapes {images.shape} and {labels.shape}; expected (N, H, W) and (N,)")
    return _split(images[:, None], labels)


def cifar_binary(blobs: Sequence[bytes]) -> Split:
    """CIFAR-10's `.bin` batches: records of a label byte and the R, G, B planes, 3073 bytes each."""
    for blob in blobs:
        if not blob or len(blob) % RECORD:
            raise DataError(f"a .bin batch has {len(blob)} bytes; expected a multiple of {RECORD}")
    records = np.frombuffer(b"".join(blobs), dtype=np.uint8).reshape(-1, RECORD)
    return _split(records[:, 1:].reshape(-1, *CIFAR), records[:, 0])


def cifar_python(blobs: Sequence[bytes]) -> Split:
    """CIFAR-10's pickled batches: a dict with `data`, an array (N, 3072), and `labels`, a list of N."""
    images, labels = [], []
    for blob in blobs:
        batch = _unpickle(blob)
        if not isinstance(batch, dict):
            raise DataError(f"the pickled batch is a {type(batch).__name__}; expected a dict with data and labels")
        batch = {key.decode("latin1") if isinstance(key, bytes) else key: value for key, value in batch.items()}
        data, these = batch.get("data"), batch.get("labels")
        if not isinstance(data, _Array) or not isinstance(these, list):
            raise DataError(f"the pickled batch has {sorted(map(str, batch))}; expected an array data, a list labels")
        if not all(type(label) is int and 0 <= label < 256 for label in these):
            raise DataError("the pickled batch has labels that are not small whole numbers")
        images.append(data.bytes().reshape(-1, *CIFAR))
        labels += these
    return _split(np.concatenate(images), np.array(labels, dtype=np.uint8))


def cifar_strips(blobs: Sequence[bytes]) -> Split:
    """CIFAR-10 as tall PNG files, one image of 32×32 = 1024 RGB pixels per row, and a JSON list of all labels."""
    from PIL import Image

    *pngs, text = blobs
    try:
        labels = parse_json(text, "the list of labels", "get the file again")
    except RecordError as error:
        raise DataError(error.what, error.remedy) from error
    if not isinstance(labels, list) or not all(type(label) is int and 0 <= label < 256 for label in labels):
        raise DataError("the labels are not a JSON list of small whole numbers")
    images = []
    for png in pngs:
        try:
            with Image.open(io.BytesIO(png), formats=["PNG"]) as image:
                if image.mode != "RGB" or image.width != 32 * 32:
                    raise DataError(f"the PNG is {image.mode}, {image.width} wide; expected RGB, 1024 wide")
                pixels = np.asarray(image)
        except (OSError, SyntaxError, ValueError, Image.DecompressionBombError) as error:  # what Pillow raises
            raise DataError(f"the PNG cannot be read: {error}") from error
        images.append(pixels.reshape(-1, 32, 32, 3).transpose(0, 3, 1, 2))
    return _split(np.concatenate(images), np.array(labels, dtype=np.uint8))


# --- pickles, without running them ------------------------------------------------------------------------------------
# A pickle names callables and calls them. Here it may name only what a pickled byte array needs, and gets stand-ins
# that record their arguments: not even numpy's own constructors run on a stranger's arguments.


class _Array:
    """Replaces numpy.ndarray; records shape, dtype, order and raw bytes."""

    def __init__(self, shape: Any = None, dtype: Any = None, fortran: Any = False, raw: Any = None):
        self.state = (shape, dtype, fortran, raw)

    def __setstate__(self, state: Any) -> None:
        _version, *rest = state
        shape, dtype, fortran, raw = rest
        self.state = (shape, dtype, fortran, raw)

    def bytes(self) -> Bytes:
        shape, dtype, fortran, raw = self.state
        good_shape = isinstance(shape, tuple) and len(shape) == 2 and all(type(n) is int and n >= 0 for n in shape)
        if not good_shape or not isinstance(dtype, _Dtype) or dtype.code not in ("u1", b"u1", "B", "|u1"):
            raise DataError("the pickled batch's data are not a table of bytes")
        if not isinstance(raw, bytes | bytearray) or len(raw) != math.prod(shape) or shape[1] != RECORD - 1:
            raise DataError(f"the pickled batch's data do not fill their shape {shape}; expected rows of {RECORD - 1}")
        return np.frombuffer(raw, dtype=np.uint8).reshape(shape, order="F" if fortran else "C")


class _Dtype:
    """Replaces numpy.dtype; records its code."""

    def __init__(self, code: Any = None, *_: Any):
        self.code = code

    def __setstate__(self, state: Any) -> None:
        pass  # byte order and the like: a byte has none


def _reconstruct(*_: Any) -> _Array:
    return _Array()


def _frombuffer(raw: Any, dtype: Any, shape: Any, order: Any) -> _Array:
    return _Array(shape, dtype, order == "F", raw)


def _encode(text: Any, encoding: Any = "latin1") -> bytes:
    if not isinstance(text, str) or encoding != "latin1":
        raise pickle.UnpicklingError("only latin1 text is allowed here")
    return text.encode("latin1")


_KNOWN: dict[tuple[str, str], Callable[..., Any]] = {("_codecs", "encode"): _encode}
_KNOWN |= {("numpy", "ndarray"): _Array, ("numpy", "dtype"): _Dtype}
for _core in ("numpy.core", "numpy._core"):  # the spelling changed with numpy 2
    _KNOWN[f"{_core}.multiarray", "_reconstruct"] = _reconstruct
    _KNOWN[f"{_core}.numeric", "_frombuffer"] = _frombuffer


class _Unpickler(pickle.Unpickler):
    def find_class(self, module: str, name: str) -> Any:
        if (module, name) not in _KNOWN:
            raise pickle.UnpicklingError(f"it asks for {module}.{name}, which no image batch needs")
        return _KNOWN[module, name]


def _unpickle(blob: bytes) -> Any:
    try:
        return _Unpickler(io.BytesIO(blob), encoding="bytes").load()
    except Exception as error:  # a damaged pickle can raise nearly anything
        raise DataError(f"the pickled batch is refused: {error or type(error).__name__}") from error
