"""A record: typed, frozen, written as plain JSON and read again. A field that we do not know is refused.

A field's type may name an invariant, as `Annotated[float, invariants.share]` does. It is asked of every value, inside
lists, tables and options too, whenever a record is made or read. NaN and infinity are written as text, so that the JSON
is valid.
"""

import contextlib
import math
import re
from collections.abc import Callable, Iterator
from functools import cache, partial
from pathlib import Path
from types import FunctionType, UnionType
from typing import (
    Annotated,
    Any,
    ClassVar,
    Self,
    TypeVar,
    Union,
    dataclass_transform,
    get_args,
    get_origin,
    get_type_hints,
)

import msgspec
from msgspec import DecodeError, Struct, ValidationError, json
from msgspec.json import Decoder

from walkback.errors import RecordError
from walkback.files import Torn, make_folder, parse_json, read_bytes, write_whole
from walkback.records.invariants import Broken

FRESH = "restore it, or start this run again with --fresh (the old folder is renamed, not deleted)"
Asked = Callable[[Any], Any]  # gives the value, or raises what is wrong with it
_encode = json.Encoder().encode


@dataclass_transform(frozen_default=True, field_specifiers=(msgspec.field,))
class Record(Struct, frozen=True, forbid_unknown_fields=True):
    """The base of all records. One whose optional fields come before others is `kw_only`.

    brief   fields that are not written while they are empty
    """

    brief: ClassVar[frozenset[str]] = frozenset()

    def __post_init__(self) -> None:
        """Ask the invariants of the fields, then those between the fields."""
        name = ""
        try:
            for name, ask in invariants_of(type(self)):
                value = getattr(self, name)
                if value and (kept := ask(value)) is not value:  # what is 0 or empty keeps all of them
                    msgspec.structs.force_setattr(self, name, kept)
        except ValueError as error:
            raise _inside(name, error) from None
        self.possible()

    def possible(self) -> None:
        """Raise if the fields do not fit each other."""

    def block_counts(self) -> dict[str, int]:
        """The number of blocks L, by each list that is there."""
        return {n: len(got) - more for n, more in lists_of(type(self)) if (got := getattr(self, n)) is not None}

    def changed(self, **fields: Any) -> Self:
        """A copy with other values in some fields."""
        return msgspec.structs.replace(self, **fields)

    def as_dict(self) -> dict[str, Any]:
        """The fields as plain values, as JSON has them."""
        found: dict[str, Any] = _plain(self)
        return found

    def text(self) -> str:
        """One line of JSON."""
        return _encode(_plain(self)).decode()

    def indented(self) -> bytes:
        """JSON over several lines."""
        return json.format(_encode(_plain(self)), indent=1)

    @classmethod
    def from_plain(cls, raw: object) -> Self:
        """The record that plain values, as JSON has them, amount to."""
        return msgspec.convert(raw, cls, strict=False)


R = TypeVar("R", bound=Record)
T = TypeVar("T")


class Fault(ValueError):
    """What is wrong with a record, and where in it."""

    def __init__(self, place: str, words: str):
        super().__init__(f"{place}: {words}" if place else words)
        self.place, self.words = place, words


def _plain(value: Any, floats: bool = False) -> Any:
    """A value as JSON has it. `floats`: a whole number in it is written as the float that it is read as."""
    if isinstance(value, Record):
        kinds = floats_of(type(value))
        fields = {name: _plain(getattr(value, name), name in kinds) for name in value.__struct_fields__}
        return {name: each for name, each in fields.items() if each or name not in value.brief}
    if isinstance(value, float):
        return float(value) if math.isfinite(value) else "NaN" if math.isnan(value) else f"{'-' * (value < 0)}Infinity"
    if isinstance(value, list | tuple):
        return [_plain(each, floats) for each in value]
    if isinstance(value, dict):
        return {key: _plain(each, floats) for key, each in value.items()}
    return float(value) if floats and type(value) is int else value


@cache
def floats_of(model: type[Record]) -> set[str]:
    """The fields of a record that hold floats."""
    return {name for name, hint in get_type_hints(model).items() if _holds_floats(hint)}


def _holds_floats(hint: Any) -> bool:
    parts = get_args(hint)[1:] if get_origin(hint) is dict else get_args(hint)
    return hint is float or any(map(_holds_floats, parts))


# --- invariants of the fields -----------------------------------------------------------------------------------------


@cache
def invariants_of(model: type[Record]) -> list[tuple[str, "Asked"]]:
    """The fields of a record whose types name invariants, with what asks them."""
    hints = get_type_hints(model, include_extras=True)
    return [(name, ask) for name in model.__struct_fields__ if (ask := _asked(hints[name])) is not None]


def _asked(hint: Any) -> Asked | None:
    """What asks the invariant that a type names, of a value and everything inside it; None if it names none."""
    origin, parts = get_origin(hint), get_args(hint)
    if origin is Annotated:
        return next((each for each in parts[1:] if isinstance(each, FunctionType)), None) or _asked(parts[0])
    if origin in (Union, UnionType):
        return next((ask for part in parts if (ask := _asked(part)) is not None), None)
    inner = _asked(parts[-1]) if origin in (list, dict) and parts else None
    return None if inner is None else partial(_of_entries, inner)


def _of_entries(ask: Asked, values: Any) -> Any:
    """Ask an invariant of every entry of a list or a table."""
    kept, place = values, None
    try:
        for place, value in values.items() if isinstance(values, dict) else enumerate(values):
            if value is not None and (asked := ask(value)) is not value:
                kept = kept.copy() if kept is values else kept
                kept[place] = asked
    except ValueError as error:
        raise _inside(place, error) from None
    return kept


def _inside(place: object, error: ValueError) -> Fault:
    """A fault, with the place that it is in put in front."""
    if isinstance(error, Fault):
        return Fault(f"{place}.{error.place}" if error.place else f"{place}", error.words)
    return Fault(f"{place}", str(error))


# --- lists by block ---------------------------------------------------------------------------------------------------

BY_STATE, BY_BLOCK = "by state", "by block"  # named by the type of a list: one of L + 1 entries, and one of L


@cache
def lists_of(model: type[Record]) -> list[tuple[str, int]]:
    """The lists of a record that a net's number of blocks gives their length, and by how much they are longer."""
    hints = get_type_hints(model, include_extras=True)
    fields = {name: (hints[name], *get_args(hints[name])) for name in model.__struct_fields__}  # and those of a union
    marks = {name: [m for part in parts for m in getattr(part, "__metadata__", ())] for name, parts in fields.items()}
    return [(name, more) for mark, more in ((BY_STATE, 1), (BY_BLOCK, 0)) for name in marks if mark in marks[name]]


# --- reading ----------------------------------------------------------------------------------------------------------


def parse(model: type[R], content: bytes, where: str, remedy: str = FRESH) -> R:
    """Read a record, saying what is wrong with it if anything is; a newer schema is not taken for damage."""
    with contextlib.suppress(DecodeError, RecursionError, UnicodeError):
        record: R = _decoder(model).decode(content)
        if _as_written(content, model):
            return record
    return from_json(model, parse_json(content, where, remedy), where, remedy)


def read_record(model: type[R], path: Path, remedy: str = FRESH) -> R | None:
    """The record in a file of its own; None if there is no such file."""
    try:
        return parse(model, read_bytes(path), str(path), remedy)
    except FileNotFoundError:
        return None


def write_record(path: Path, record: Record, end: bytes = b"") -> Path:
    """Write a record into a file of its own, in a folder that is made if it is not there."""
    make_folder(path.parent)
    write_whole(path, record.indented() + end)
    return path


def each_line(content: bytes, read: Callable[[int, bytes], T]) -> tuple[list[T], bool]:
    """What `read` makes of the lines of a file that grows, and whether a last one was left out because it was cut off.

    A whole line that cannot be true is refused like any other.
    """
    *lines, rest = content.split(b"\n")  # what follows the last newline: nothing, if the file is whole
    found = []
    for number, line in enumerate(lines, 1):
        try:
            found.append(read(number, line))
        except Torn:
            if number < len(lines) or rest:
                raise
            return found, True
    return found, bool(rest)


def _as_written(content: bytes, model: type[Record]) -> bool:
    """Whether JSON is as we write it: its schema first, and no key twice."""
    if "schema" in model.__struct_fields__ and not content.startswith((b'{"schema":', b'{\n "schema":')):
        return False
    compact = json.format(content, indent=-1) if content.startswith(b"{\n") else content
    return _encode(json.decode(content)) == compact


def from_json(model: type[R], raw: Any, where: str, remedy: str = FRESH) -> R:
    """The record that plain values, as JSON has them, amount to; refused with the place of the first fault."""
    expected = _schema(model)
    found = raw.get("schema") if isinstance(raw, dict) else None
    if expected and found != expected:
        if isinstance(found, str) and found.partition("/")[0] == expected.partition("/")[0]:
            raise RecordError(f"{where} has schema {found}; this walkback reads {expected}", "upgrade walkback")
        raise RecordError(f"{where} is not a {expected} file: its schema is {found!r}", remedy)
    with refused(where, remedy):
        return model.from_plain(raw)


@contextlib.contextmanager
def refused(where: object, remedy: str) -> Iterator[None]:
    """Turn what is wrong with a record that is made inside into our own error."""
    try:
        yield
    except (ValidationError, Fault, Broken, UnicodeError) as error:
        raise RecordError(f"{where}: {fault_of(error)}", remedy) from error


def fault_of(error: Exception) -> str:
    """What is wrong with a record, and where; * stands for an entry of a table."""
    if isinstance(error, UnicodeError):
        return "a text in it has half a character"
    if not isinstance(error, ValidationError):
        return str(error)
    words, _, path = str(error).partition(" - at `$")
    place = [part for part in re.split(r"[.\[\]]+", path.rstrip("`").replace("[...]", ".*")) if part]
    if isinstance(cause := error.__cause__, Fault):
        words, place = cause.words, [*place, cause.place] if cause.place else place
    elif field := re.fullmatch(r"Object (missing required|contains unknown) field `(.*)`", words, re.DOTALL):
        words = "it is missing" if field[1] == "missing required" else "no such field is known"
        place.append(field[2])
    return f"{'.'.join(place)}{': ' if place else ''}{words}"


@cache
def _decoder(model: type[R]) -> Decoder[R]:
    return Decoder(model, strict=False)  # NaN is written as text


@cache
def _schema(model: type[Record]) -> Any:
    """The schema that files of this record state, if they state one."""
    return next((f.default for f in msgspec.structs.fields(model) if f.name == "schema"), None)
