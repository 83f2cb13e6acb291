"""The data room's readers: each turns the bytes of one published layout into a `Split`, or says what is wrong.

Pure functions of bytes. They promise the same tensors for the same data whatever the layout. Pickles are not read.
"""

from __future__ import annotations

import gzip
import io
import math
import zlib
from collections.abc import Sequence

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


def read_idx(blob: bytes) -> Bytes:
    """An IDX file of bytes (gzipped or not): 0, 0, 8, the number of axes, each length as big-endian 32 bits, the data.

    >>> read_idx(bytes([0, 0, 8, 1, 0, 0, 0, 3]) + b"abc")
    array([97, 98, 99], dtype=uint8)
    """
    if blob[:2] == b"\x1f\x8b":
        try:
            with gzip.GzipFile(fileobj=io.BytesIO(blob)) as file:
                blob = file.read(LARGEST + 1)
        except (OSError, EOFError, zlib.error) as error:
            raise DataError(f"the gzip file is damaged: {error}") from error
        if len(blob) > LARGEST:
            raise DataError(f"the gzip file holds more than the {LARGEST} bytes that any file of these data sets has")
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


READERS = {"IDX files": idx, "binary batches": cifar_binary, "PNG batches": cifar_strips}
