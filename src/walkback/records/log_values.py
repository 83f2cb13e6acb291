"""What somebody's JSON says, value by value: numbers, names, settings. What cannot be is refused with its place."""

import math
import re
from collections.abc import Mapping, Sequence
from typing import Any

from walkback.errors import RecordError
from walkback.records.stated import MOST, Config, kind_of

SHAPES = (
    'a log is {"<method>_log": [...]}, {"config": {...}, "log": [...]} or {"results": {method: {k: {seed: {...}}}}}; '
    "see docs/checks.md"
)
NAME = 200  # characters of a method's name
NOT_FINITE = {"nan", "inf", "+inf", "-inf", "infinity", "+infinity", "-infinity"}


def config_of(raw: Mapping[str, Any], where: str) -> Config:
    """The log's config, empty if it has none."""
    config = raw.get("config")
    return Config({} if config is None else as_object(config, f"{where}: config"), where)


def first_of(table: Mapping[str, Any], names: Sequence[str]) -> str | None:
    """The first of some names that the table has with a value."""
    return next((name for name in names if table.get(name) is not None), None)


def epoch_of(entry: Mapping[str, Any], where: str) -> int | None:
    """The epoch of an entry."""
    value = number_of(entry, "epoch", where)
    if value is None:
        return None
    if not (math.isfinite(value) and 0 <= value <= MOST and value == int(value)):
        raise RecordError(f"{where}: epoch is {value:g}, not a whole number up to {MOST:g}", "correct the log")
    return int(value)


def number_of(table: Mapping[str, Any], key: str, where: str) -> float | None:
    """The number of that key; None if it is not there, or null."""
    return as_number(table.get(key), f"{where}: {key}")


def numbers_of(table: Mapping[str, Any], key: str, where: str) -> list[float | None]:
    """The list of numbers of that key."""
    values = as_list(table[key], f"{where}: {key}")
    return [as_number(value, f"{where}: {key}[{place}]") for place, value in enumerate(values)]


def as_number(value: Any, where: str) -> float | None:
    """A number as somebody wrote it, refused if it is none."""
    if value is None:
        return None
    if isinstance(value, (int, float)) and not isinstance(value, bool):
        try:
            return float(value)
        except OverflowError:
            raise RecordError(f"{where} is too large a number", "correct the log") from None
    if isinstance(value, str) and value.strip().lower() in NOT_FINITE:
        return float(value)  # the way strict JSON writes NaN
    raise RecordError(f"{where} is {kind_of(value)}, not a number", "correct the log")


def counted(key: str, where: str, what: str) -> int:
    """A key that is a whole number."""
    if not re.fullmatch(r"0|[1-9][0-9]{0,17}", key):  # 01 would be a second 1
        raise RecordError(f"{where} has the key {key[:40]!r}, not a number of {what}", SHAPES)
    return int(key)


def as_object(value: Any, where: str) -> Mapping[str, Any]:
    """A JSON object, refused if it is something else."""
    if not isinstance(value, dict):
        raise RecordError(f"{where} is {kind_of(value)}, not an object", SHAPES)
    return value


def as_list(value: Any, where: str) -> list[Any]:
    """A JSON list, refused if it is something else."""
    if not isinstance(value, list):
        raise RecordError(f"{where} is {kind_of(value)}, not a list", SHAPES)
    return value


def method_name(method: str, where: str) -> str:
    """A method's name, refused if it is too long to be one."""
    if len(method) > NAME:
        raise RecordError(
            f"{where[:200]}: a method has a name of {len(method)} characters, {method[:20]!r}…",
            f"give it a name of at most {NAME} characters",
        )
    return method
