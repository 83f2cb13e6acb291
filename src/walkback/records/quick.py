"""Snapshots, read quickly where they are surely fine: the same `Snapshot`s, at a twentieth of the time.

`quick_snapshots` answers with all of a run's snapshots, or with None. None means nothing but "not surely": then
run.py and whole.py read the same bytes in full, and whatever is refused is refused there, in their words. So this file
may doubt what is fine, and must never take what they would refuse. It holds each snapshot against every invariant that
they do: types and bounds while it is parsed (msgspec, in C), the rest below.

What a quick parser sees differently, and is therefore left to the full reader: bytes that are no ASCII (a byte order
mark, torn UTF-8), escapes, a key that is there twice or is not known, whole numbers of 19 digits and more, Infinity.
"""

import math
from collections.abc import Sequence
from typing import Annotated, Any, Literal, TypeVar, overload

from msgspec import UNSET, Meta, MsgspecError, Struct, UnsetType
from msgspec.json import Decoder
from msgspec.structs import asdict

from walkback.records import invariants
from walkback.records.expected import Expected
from walkback.records.invariants import ROUNDING, Broken
from walkback.records.schema import CosineRecord, NullRecord, ReadingRecord, Record, RunConfig, Snapshot

MOST = 1e18  # a whole number of 18 digits, which every reader takes, and a float that may have been written as one
NotKnown = Literal["NaN"]  # as records write it
Number = Annotated[float, Meta(ge=-MOST, le=MOST)]
Size = Annotated[float, Meta(ge=0, le=MOST)]
Bounded = Annotated[float, Meta(ge=-1 - ROUNDING, le=1 + ROUNDING)] | NotKnown
Count = Annotated[int, Meta(ge=0, le=10**18)]
Whole = Annotated[int, Meta(ge=1, le=10**18)]


class _Cosine(Struct, forbid_unknown_fields=True, gc=False):
    value: Bounded
    alive: Count
    total: Count
    status: str


class _Null(Struct, forbid_unknown_fields=True, gc=False):
    mean: Number
    std: Size
    n: Count
    kind: str


class _Reading(Struct, forbid_unknown_fields=True, gc=False):
    value: Number | NotKnown
    status: str
    null: _Null | UnsetType | None = UNSET


class _Snapshot(Struct, forbid_unknown_fields=True, gc=False):
    epoch: Count
    step: Count
    lr: Size | None
    train_loss: Number | None
    accuracy: Annotated[float, Meta(ge=0, le=1)]
    loss: Size
    probe_images: Whole
    reference_batch: Whole
    hidden_norms: list[Size]
    branch_norms: list[Size]
    gradient_norms: list[Size]
    credit_norms: list[Size | NotKnown]  # of a rule without credits
    cosine: list[_Cosine]
    cosine_out: list[_Cosine]
    cosine_embed: _Cosine
    gamma: Bounded
    gamma_blocks: Count
    credit: str | UnsetType | None = UNSET
    measured: dict[str, list[_Reading]] | UnsetType = UNSET

    def has_nulls(self) -> bool:
        """Whether a reading comes with what chance would give."""
        return self.measured is not UNSET and any(each.null for those in self.measured.values() for each in those)


NO_DEFAULT = {name for name, field in Snapshot.model_fields.items() if field.is_required()}
COSINE, NULL = set(CosineRecord.model_fields), set(NullRecord.model_fields)
WITH_NULL, WITHOUT_NULL = {"value", "status", "null"}, {"value", "status"}
OURS = {"update": -1, "zero credits": 0}  # the readings of our own probes, and what they are at least
R = TypeVar("R", bound=Record)
_decode = Decoder(_Snapshot).decode
_put = object.__setattr__  # records are frozen


class QuickSnapshots(Sequence[Snapshot]):
    """Snapshots that are surely fine. Each is built when it is asked for: most are never looked at in full.

    read   what their lines hold, by the names of a snapshot's fields; NaN is the text "NaN" there
    """

    __slots__ = ("_built", "read")

    def __init__(self, read: list[_Snapshot]):
        self.read = read
        self._built: dict[int, Snapshot] = {}

    def __len__(self) -> int:
        return len(self.read)

    @overload
    def __getitem__(self, place: int) -> Snapshot: ...

    @overload
    def __getitem__(self, place: slice) -> list[Snapshot]: ...

    def __getitem__(self, place: int | slice) -> Snapshot | list[Snapshot]:
        if isinstance(place, slice):
            return [self[at] for at in range(*place.indices(len(self.read)))]
        at = range(len(self.read))[place]
        if at not in self._built:
            self._built[at] = _snapshot(self.read[at])
        return self._built[at]

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Sequence) and list(self) == list(other)

    __hash__ = None  # type: ignore[assignment]  # as a list has none

    def __repr__(self) -> str:
        return repr(list(self))


def quick_snapshots(content: bytes, config: RunConfig) -> QuickSnapshots | None:
    """The snapshots of a run, if each is surely one that the full reader takes, and that fits the config."""
    if not content.isascii() or b"\\" in content or not content.endswith(b"\n"):
        return None
    lines = content.split(b"\n")
    lines.pop()
    try:
        read = list(map(_decode, lines))
    except MsgspecError:
        return None
    expected = Expected.of(config, [found.step for found in read[:2]])
    for place, found in enumerate(read):
        if not expected.fits(place, found.epoch, found.step, found.lr, found.train_loss, found.accuracy):
            return None
        if not _is_possible(found, expected) or lines[place].count(b":") != _keys(found):
            return None  # more colons than keys: one is there twice, or a text has a colon of its own
    return QuickSnapshots(read)


def _is_possible(found: _Snapshot, expected: Expected) -> bool:
    """Whether every invariant of a snapshot holds that its types and bounds do not state."""
    blocks, images = expected.blocks, found.probe_images
    cosines = [*found.cosine, *found.cosine_out, found.cosine_embed]
    if not (
        len(found.hidden_norms) == len(found.gradient_norms) == blocks + 1
        and len(found.branch_norms) == len(found.credit_norms) == len(found.cosine) == len(found.cosine_out) == blocks
        and expected.sees(images)
        and {cosine.total for cosine in cosines} == {images}
        and max([cosine.alive for cosine in cosines]) <= images
        and not [c for c in cosines if c.status == "ok" and (not c.alive or c.value == "NaN")]
        and (_is_mean(found, found.cosine) or _is_mean(found, found.cosine_out))
    ):
        return False
    try:
        invariants.enough_loss(found.accuracy, found.loss)
        return found.measured is UNSET or all(
            _are_possible(name, readings, blocks) for name, readings in found.measured.items()
        )
    except Broken:
        return False


def _is_mean(found: _Snapshot, cosines: list[_Cosine]) -> bool:
    """Whether Γ is the mean of these cosines."""
    values: list[Any] = [cosine.value for cosine in cosines if cosine.status == "ok"]
    if len(values) != found.gamma_blocks:
        return False
    return not values or (found.gamma != "NaN" and abs(sum(values) / len(values) - found.gamma) <= ROUNDING)


def _are_possible(name: str, readings: list[_Reading], blocks: int) -> bool:
    least = OURS.get(name)
    if least is not None and len(readings) != blocks:
        return False
    for each in readings:
        if each.status == "ok" and (each.value == "NaN" or (least is not None and not least <= each.value <= 1)):
            return False
        if each.null:
            invariants.can_be_null(each.null.mean, each.null.std, each.null.n)
    return True


def _keys(found: _Snapshot) -> int:
    """How many keys the line of a snapshot has, if none is there twice."""
    keys = len(NO_DEFAULT) + len(COSINE) * (len(found.cosine) + len(found.cosine_out) + 1) + (found.credit is not UNSET)
    if found.measured is not UNSET:
        keys += 1 + len(found.measured)
        for readings in found.measured.values():
            nulls = [each.null for each in readings]
            keys += len(WITH_NULL) * len(nulls) - nulls.count(UNSET)
            keys += len(NULL) * sum(isinstance(null, _Null) for null in nulls)
    return keys


def _snapshot(found: _Snapshot) -> Snapshot:
    """What the full reader would have made of it."""
    given, values = set(NO_DEFAULT), asdict(found)
    values["cosine"] = list(map(_cosine, found.cosine))
    values["cosine_out"] = list(map(_cosine, found.cosine_out))
    values["cosine_embed"] = _cosine(found.cosine_embed)
    values["gamma"] = _number(found.gamma)
    values["credit_norms"] = list(map(_number, found.credit_norms))
    for name, default in (("credit", None), ("measured", {})):
        if values[name] is UNSET:
            values[name] = default
        else:
            given.add(name)
    if found.measured is not UNSET:
        values["measured"] = {name: list(map(_reading, readings)) for name, readings in found.measured.items()}
    return trusted(Snapshot, values, given)


def _cosine(found: _Cosine) -> CosineRecord:
    return trusted(CosineRecord, asdict(found) | {"value": _number(found.value)}, COSINE)


def _reading(found: _Reading) -> ReadingRecord:
    null = trusted(NullRecord, asdict(found.null), NULL) if isinstance(found.null, _Null) else None
    values = {"value": _number(found.value), "status": found.status, "null": null}
    return trusted(ReadingRecord, values, WITHOUT_NULL if found.null is UNSET else WITH_NULL)


def _number(value: float | NotKnown) -> float:
    return math.nan if value == "NaN" else value


def trusted(model: type[R], values: dict[str, Any], given: set[str]) -> R:
    """A record of values that are known to be what its validators let through: all fields, in their order."""
    made = model.__new__(model)
    _put(made, "__dict__", values)
    _put(made, "__pydantic_fields_set__", given)
    _put(made, "__pydantic_extra__", None)
    _put(made, "__pydantic_private__", None)
    return made
