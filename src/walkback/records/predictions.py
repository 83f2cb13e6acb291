"""The final predictions of a run: predictions.npy, uint8 (2, N), the predicted class and the label in test order.

Small enough to keep with every run, and what tells the noise of a test split: two nets' hits are compared image by
image. The labels are kept with them, so that a folder can be judged without its data set.
"""

import hashlib
from collections.abc import Iterator, Sequence
from operator import eq
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from walkback.errors import RecordError
from walkback.files import read_bytes
from walkback.records.invariants import broken

if TYPE_CHECKING:
    from walkback.records.loop_training import LoopTraining
    from walkback.records.schema import Result

PREDICTIONS = "predictions.npy"
MOST_CLASSES = 256
HEADER = 128  # bytes, as numpy writes it for so short a shape
AGAIN = "restore the file, or train the run again with --fresh (the old folder is kept)"


class Predictions(NamedTuple):
    """What was predicted of every test image, and its label: one byte each, in test order."""

    classes: bytes
    labels: bytes

    @property
    def hits(self) -> bytes:
        """1 where the prediction is right, else 0."""
        return bytes(map(eq, self.classes, self.labels))

    @property
    def known_classes(self) -> int:
        """How many classes there are at least."""
        return 1 + max(self.classes + self.labels)


def most_frequent(labels: bytes) -> float:
    """The share of the most frequent class, which is what a net that learned nothing can reach.

    >>> most_frequent(bytes([0, 1, 1, 2]))
    0.5
    """
    return max(map(labels.count, {*labels})) / len(labels)


def header(samples: int) -> bytes:
    """How the file begins: numpy's format 1.0, of this dtype and shape."""
    shape = f"{{'descr': '|u1', 'fortran_order': False, 'shape': (2, {samples}), }}"
    return b"\x93NUMPY\x01\x00" + (HEADER - 10).to_bytes(2, "little") + shape.ljust(HEADER - 11).encode() + b"\n"


def packed(classes: Sequence[int], labels: Sequence[int]) -> bytes:
    """The content of the file.

    >>> unpacked(packed([1, 0], [1, 1])).hits
    b'\\x01\\x00'
    """
    return header(len(labels)) + bytes(classes) + bytes(labels)


def unpacked(content: bytes) -> Predictions | None:
    """What the file holds; None unless it is uint8 (2, N) of one sample or more, with that header and no byte else."""
    samples, odd = divmod(len(content) - HEADER, 2)
    if samples < 1 or odd or not content.startswith(header(samples)):
        return None
    return Predictions(content[HEADER : HEADER + samples], content[HEADER + samples :])


def digest(content: bytes) -> str:
    """What result.json names the file by."""
    return hashlib.sha256(content).hexdigest()


def flaws(
    content: bytes | None, result: "Result | LoopTraining | None", test: int | None, classes: int | None
) -> Iterator[str]:
    """What of the file cannot be true, in words. One that is not there is no flaw: hits are then not known.

    test      test samples, if that is known
    classes   of the data set, if they are known
    """
    if content is None or result is None:  # a run that goes on may have been killed just before its result
        return
    if result.predictions is None:
        yield "it is there, and the result does not name it"
        return
    found = unpacked(content)
    if found is None:
        yield "it is not an array of uint8 with shape (2, N)"
        return
    if test is not None and len(found.labels) != test:
        yield f"it is of {len(found.labels)} samples, and the test split has {test}"
    if classes is not None and found.known_classes > classes:
        yield f"it has class {found.known_classes - 1}, and the classes are 0 to {classes - 1}"
    right = found.hits.count(1) / len(found.labels)
    if result.accuracy is None or abs(right - result.accuracy) * len(found.labels) > 1e-6:
        yield f"{right!r} of its predictions are right, and the result's accuracy is {result.accuracy!r}"
    if digest(content) != result.predictions:
        yield "the result names another sha256"


def read_predictions(
    path: Path, result: "Result | LoopTraining | None", samples: int | None = None, remedy: str = AGAIN
) -> Predictions | None:
    """The final predictions in a folder, held against the hash that its result names; None without them."""
    file = path / PREDICTIONS
    content = read_bytes(file) if file.exists() else None
    for words in flaws(content, result, samples, None):
        raise RecordError(f"{file}: {broken('predictions', words)}", remedy)
    return None if content is None else unpacked(content)
