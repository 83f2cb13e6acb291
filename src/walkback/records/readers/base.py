"""The registry of log formats, and what a log states, value by value. What cannot be is refused with its place.

A value that is there and cannot be read is never passed over in silence: a note says that it counts as not stated. Logs
of one method are put together: one subject, several seeds, no copy twice.
"""

import json
import math
import re
from collections.abc import Callable, Sequence
from functools import cached_property
from pathlib import Path
from typing import Any

from walkback.errors import RecordError
from walkback.files import parse_json, read_bytes
from walkback.records import invariants
from walkback.records.evidence import Evidence
from walkback.records.record import refused
from walkback.records.schema import BLOCKS
from walkback.registry import Registry

SHAPES = (
    'a log is {"<method>_log": [...]}, {"config": {...}, "log": [...]} or {"results": {method: {k: {seed: {...}}}}}; '
    "see docs/judge-a-log.md"
)
CORRECT = "correct the log"
NAME = 200  # characters of a method's name
NOT_FINITE = {"nan", "inf", "+inf", "-inf", "infinity", "+infinity", "-infinity"}
DEPTH = ("L", "depth", "n_layers", "num_layers", "n_blocks", "num_blocks")
BATCH = ("eval_batch", "eval_batch_size", "n_eval", "probe_batch", "audit_batch")  # not batch_size: that one trains
CLASSES = ("classes", "n_classes", "num_classes")
RESIDUAL = ("residual", "skip")
EPOCHS = ("epochs", "n_epochs", "num_epochs", "max_epochs")
MOST = 10**12  # of epochs, images, classes: more cannot be meant
DIGITS = 20  # of a whole number that is written as text
YES, NO = ("true", "yes", "on", "1"), ("false", "no", "off", "none", "0")


class LogFile:
    """A log: where it is, the name of a method that states none, its bytes, and what they hold as JSON."""

    def __init__(self, where: str, name: str, content: bytes):
        self.where, self.name, self.content = where, name, content

    @cached_property
    def raw(self) -> Any:
        """Its content as one JSON value, refused if it is none."""
        return parse_json(self.content, self.where, "get the file again; it may be cut off")

    @property
    def table(self) -> "Item | None":
        """Its content, if it is a JSON object."""
        try:
            return Item(self.raw, self.where) if isinstance(self.raw, dict) else None
        except RecordError:
            return None


Reader = Callable[[LogFile], list[Evidence] | None]  # the subjects in a file; None: it is of another format
READERS: Registry[Reader] = Registry("log format")


def read_log(path: Path | str) -> list[Evidence]:
    """The subjects of a log, one for each method in it."""
    path = Path(path)
    try:
        content = read_bytes(path)
    except FileNotFoundError as error:
        raise RecordError(f"cannot read {path}: {error.strerror}", "name a file that exists") from error
    return _read(LogFile(str(path), path.stem, content))


def evidence_of_log(raw: Any, where: str = "the log", name: str = "log") -> list[Evidence]:
    """The subjects of a log that is JSON values already; `name` is used where the log names no method."""
    return _read(LogFile(where, name, json.dumps(raw).encode()))


def _read(file: LogFile) -> list[Evidence]:
    for name in READERS.names():
        with refused(file.where, CORRECT):
            if (found := READERS.get(name)(file)) is not None:
                return found
    if not isinstance(file.raw, dict):
        raise RecordError(f"{file.where} is {kind_of(file.raw)}, not an object", SHAPES)
    keys = ", ".join(sorted(key[:40] for key in file.raw)[:20]) or "nothing"
    raise RecordError(f"{file.where} is not a log format that walkback knows: at its top level it has {keys}", SHAPES)


def join_seeds(evidences: Sequence[Evidence]) -> list[Evidence]:
    """Evidence of the same name from several logs put together, where each states its seed and they agree otherwise.

    A log that does not state its seed stays apart: it may be a copy, and a copy would feign certainty.
    """
    joined: list[Evidence] = []
    places: dict[str, list[int]] = {}  # in `joined`, by name
    shared = ("rule", "trained", "residual", "classes", "baselines", "blocks")
    for one in evidences:
        for place in places.setdefault(one.name, []):
            other = joined[place]
            seeds = [seed.seed for seed in (*other.seeds, *one.seeds)]
            same = all(getattr(one, field) == getattr(other, field) for field in shared)
            if same and None not in seeds and len(set(seeds)) == len(seeds):
                with refused("the logs named", "name fewer logs"):
                    joined[place] = other.changed(
                        depth=one.blocks, seeds=[*other.seeds, *one.seeds], doubts=[*other.doubts, *one.doubts],
                        notes=list(dict.fromkeys([*other.notes, *one.notes])),
                    )  # fmt: skip
                break
        else:
            places[one.name].append(len(joined))
            joined.append(one)
    return joined


# --- values -----------------------------------------------------------------------------------------------------------


class Item:
    """A value of somebody's log, and where it is. It is what is asked for, or refused by its place."""

    def __init__(self, value: Any, where: str):
        self.value, self.where = value, where

    def refused(self, words: str, remedy: str = CORRECT) -> RecordError:
        """What it cannot be."""
        return RecordError(f"{self.where} {words}", remedy)

    def table(self) -> dict[str, Any]:
        """A JSON object."""
        if not isinstance(self.value, dict):
            raise self.refused(f"is {kind_of(self.value)}, not an object", SHAPES)
        return self.value

    def entries(self) -> list["Item"]:
        """The entries of a JSON list."""
        if not isinstance(self.value, list):
            raise self.refused(f"is {kind_of(self.value)}, not a list", SHAPES)
        return [Item(value, f"{self.where}[{place}]") for place, value in enumerate(self.value)]

    def of(self, key: str) -> "Item":
        """What a JSON object has under a key; null if it has nothing."""
        return Item(self.table().get(key), f"{self.where}: {key}")

    def first(self, names: Sequence[str]) -> str | None:
        """The first of some keys under which a JSON object has a value."""
        return next((name for name in names if self.table().get(name) is not None), None)

    def by_number(self, what: str) -> dict[int, "Item"]:
        """The entries of a JSON object whose keys are whole numbers."""
        for key in self.table():
            if not re.fullmatch(r"0|[1-9][0-9]{0,17}", key):  # 01 would be a second 1
                raise self.refused(f"has the key {key[:40]!r}, not a number of {what}", SHAPES)
        return {int(key): Item(value, f"{self.where}.{key}") for key, value in self.table().items()}

    def number(self) -> float | None:
        """A number as somebody wrote it, or null."""
        if self.value is None:
            return None
        if isinstance(self.value, (int, float)) and not isinstance(self.value, bool):
            try:
                return float(self.value)
            except OverflowError:
                raise self.refused("is too large a number") from None
        if isinstance(self.value, str) and self.value.strip().lower() in NOT_FINITE:
            return float(self.value)  # the way strict JSON writes NaN
        raise self.refused(f"is {kind_of(self.value)}, not a number")

    def share(self) -> float | None:
        """An accuracy, or null."""
        value = self.number()
        if value is None:
            return None
        with refused(self.where, CORRECT):
            return invariants.share(value)

    def numbers(self) -> list[float | None]:
        """A list of numbers."""
        return [each.number() for each in self.entries()]

    def epoch(self) -> int | None:
        """An epoch, or null."""
        value = self.number()
        if value is None:
            return None
        if not (math.isfinite(value) and 0 <= value <= MOST and value == int(value)):
            raise self.refused(f"is {value:g}, not a whole number up to {MOST:g}")
        return int(value)

    def seed(self) -> int | None:
        """A seed, or null."""
        value = whole_of(self.value)
        if value is None and self.value is not None:
            raise self.refused(f"is {short(self.value)}, not a whole number")
        if value is not None and not -(2**63) <= value < 2**63:
            raise self.refused(f"is {short(value)}, which has more than 64 bits")
        return value


class Config:
    """A log's config, empty if it has none; `notes` tell what in it could not be read."""

    def __init__(self, log: Item):
        self.log, item = log, log.of("config")
        self.item = Item({}, item.where) if item.value is None else item
        self.table = self.item.table()
        self.notes: list[str] = []

    def number(self, names: Sequence[str]) -> tuple[str, int] | None:
        """The first of these names that states a whole number, and that number."""
        for name in names:
            value = whole_of(self.table.get(name))
            if value is not None:
                return name, value
            if self.table.get(name) is not None:
                self._unread(name, "no whole number")
        return None

    def whole(self, names: Sequence[str]) -> int | None:
        """A whole number of at least 1."""
        found = self.number(names)
        if found is not None and not 1 <= found[1] <= (BLOCKS if names is DEPTH else MOST):
            raise self.item.refused(f"has {found[0]} = {short(found[1])}, which is impossible")
        return None if found is None else found[1]

    def residual(self) -> tuple[bool | None, bool]:
        """Whether the net has a residual stream, and whether the config says anything about it."""
        stated = [name for name in RESIDUAL if self.table.get(name) is not None]
        for name in stated:
            found = yes_or_no(self.table[name])
            if found is not None:
                return found, True
            self._unread(name, "neither true nor false")
        return None, bool(stated)

    def _unread(self, name: str, what: str) -> None:
        note = f"config has {name} = {short(self.table[name])}, which is {what}: it counts as not stated"
        if note not in self.notes:
            self.notes.append(note)


def whole_of(value: Any) -> int | None:
    """A whole number, also as 4.0 or "4"; None if it is none.

    >>> [whole_of(value) for value in (4, 4.0, "4", "-1", True, 4.5, "four", None)]
    [4, 4, 4, -1, None, None, None, None]
    """
    if isinstance(value, str):
        text = value.strip()
        return int(text) if text.removeprefix("-").isdecimal() and text.isascii() and len(text) <= DIGITS else None
    if isinstance(value, bool) or not isinstance(value, int | float):
        return None
    return int(value) if isinstance(value, int) or value.is_integer() else None


def yes_or_no(value: Any) -> bool | None:
    """Whether something is so, also as 0 and 1 or in words; None if that cannot be read.

    >>> [yes_or_no(value) for value in (True, 0, 1.0, "false", "Yes", "maybe", 2)]
    [True, False, True, False, True, None, None]
    """
    word = str(int(value) if isinstance(value, float) and value.is_integer() else value).strip().lower()
    return True if word in YES else False if word in NO else None


def short(value: object) -> str:
    """A value in a message, however long it is."""
    return f"{value!r:.40}"


def kind_of(value: Any) -> str:
    """What somebody's JSON holds, in words."""
    if value is None or isinstance(value, bool):
        return json.dumps(value)
    if isinstance(value, str):
        return f"the text {value[:40]!r}"
    if isinstance(value, dict):
        return "an object"
    return "a list" if isinstance(value, list) else f"the number {short(value)}"


def method_name(method: str, where: str) -> str:
    """A method's name, refused if it is too long to be one."""
    if len(method) > NAME:
        raise RecordError(
            f"{where[:200]}: a method has a name of {len(method)} characters, {method[:20]!r}…",
            f"give it a name of at most {NAME} characters",
        )
    return method
