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
from functools import cache, lru_cache
from typing import Annotated, Any, Literal, TypeVar, overload

from msgspec import UNSET, Meta, MsgspecError, Struct, UnsetType
from msgspec.json import Decoder
from msgspec.structs import asdict
from pydantic import BaseModel

from walkback.records import invariants
from walkback.records.expected import Expected, is_scheduled, is_whole, rate_at
from walkback.records.invariants import ROUNDING, Broken
from walkback.records.schema import PLAIN, CosineRecord, NullRecord, ReadingRecord, Record, RunConfig, Snapshot

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


class QuickReading(Struct, forbid_unknown_fields=True, gc=False):
    """A reading as it is parsed; NaN is the text "NaN"."""

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
    measured: dict[str, list[QuickReading]] | UnsetType = UNSET

    def has_nulls(self) -> bool:
        """Whether a reading comes with what chance would give."""
        return self.measured is not UNSET and any(each.null for those in self.measured.values() for each in those)


NO_DEFAULT = {name for name, field in Snapshot.model_fields.items() if field.is_required()}
COSINE, NULL = set(CosineRecord.model_fields), set(NullRecord.model_fields)
WITH_NULL, WITHOUT_NULL = {"value", "status", "null"}, {"value", "status"}
LN2 = math.log(2)
OURS = {"update": -1, "zero credits": 0}  # the readings of our own probes, and what they are at least
R = TypeVar("R", bound=Record)
_decode = Decoder(_Snapshot).decode
_put = object.__setattr__  # records are frozen
_put_given, _put_extra, _put_private = (
    vars(BaseModel)[f"__pydantic_{name}__"].__set__ for name in ("fields_set", "extra", "private")
)


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
    if not read:
        return QuickSnapshots(read)
    expected = Expected.of(config, [found.step for found in read[:2]])
    unknown, nulls = b'"NaN"' in content, b'"null"' in content
    if not _fit(read, expected) or not _are_measured(read, expected, unknown):
        return None
    if content.count(b":") != sum([_keys(found, nulls) for found in read]):
        return None  # more colons than keys: one is there twice, or a text has a colon of its own
    return QuickSnapshots(read)


def _fit(read: list[_Snapshot], expected: Expected) -> bool:
    """Whether every snapshot has the epoch, the step, the rate and the samples that the config says."""
    config, per_epoch, test = expected.config, expected.per_epoch, expected.test
    if len(read) - 1 > config.epochs:
        return False
    rates = _rates(config.lr, config.schedule, config.epochs, len(read))
    for place, found in enumerate(read):
        if found.epoch != place or (found.train_loss is None) != (not place):
            return False
        if found.lr != rates[place] and not is_scheduled(found.lr, rates[place]):
            return False
        if found.step != (place * per_epoch if per_epoch is not None else found.step if place else 0):
            return False
        if found.loss < (1 - found.accuracy) * LN2:  # which some rounding may explain
            return False
        samples = 0.0 if test is None else found.accuracy * test
        if not samples.is_integer() and not is_whole(samples):
            return False
    return True


@lru_cache(maxsize=64)
def _rates(lr: float, schedule: Literal["cosine", "constant"], epochs: int, count: int) -> list[float | None]:
    """The learning rates that a schedule gives: thousands of runs have the same."""
    return [rate_at(lr, schedule, epochs, epoch) for epoch in range(count)]


def _are_measured(read: list[_Snapshot], expected: Expected, unknown: bool) -> bool:
    """Whether every invariant of the snapshots' measurements holds that their types and bounds do not state.

    unknown   whether any of their values may be NaN
    """
    blocks, images = expected.blocks, read[0].probe_images
    cosines = [cosine for found in read for those in (found.cosine, found.cosine_out) for cosine in those]
    cosines += [found.cosine_embed for found in read]
    if not expected.sees(images) or {found.probe_images for found in read} != {images}:
        return False
    alive = [cosine.alive for cosine in cosines]
    if {cosine.total for cosine in cosines} != {images} or max(alive) > images:
        return False
    if (unknown or not min(alive)) and [c for c in cosines if c.status == "ok" and (not c.alive or c.value == "NaN")]:
        return False
    for found in read:
        if not (
            len(found.hidden_norms) == len(found.gradient_norms) == blocks + 1
            and len(found.branch_norms) == len(found.credit_norms) == len(found.cosine) == blocks
            and len(found.cosine_out) == blocks
            and (_is_mean(found, found.cosine) or _is_mean(found, found.cosine_out))
        ):
            return False
    try:
        return all(
            bounded(name, readings)
            and (name not in OURS or len(readings) == blocks)
            and not (unknown and _without_value(readings))
            for found in read
            if found.measured is not UNSET
            for name, readings in found.measured.items()
        )
    except Broken:
        return False


def _is_mean(found: _Snapshot, cosines: list[_Cosine]) -> bool:
    """Whether Γ is the mean of these cosines."""
    values: list[Any] = [cosine.value for cosine in cosines if cosine.status == "ok"]
    if len(values) != found.gamma_blocks:
        return False
    return not values or (found.gamma != "NaN" and abs(sum(values) / len(values) - found.gamma) <= ROUNDING)


def _without_value(readings: list[QuickReading]) -> bool:
    return any(each.status == "ok" and each.value == "NaN" for each in readings)


def bounded(name: str, readings: list[QuickReading]) -> bool:
    """Whether readings lie where their formulas can, and their nulls are possible; raises `Broken` if one is not."""
    least = OURS.get(name)
    for each in readings:
        if least is not None and each.status == "ok" and (each.value == "NaN" or not least <= each.value <= 1):
            return False
        if each.null:
            invariants.can_be_null(each.null.mean, each.null.std, each.null.n)
    return True


def _keys(found: _Snapshot, nulls: bool) -> int:
    """How many keys the line of a snapshot has, if none is there twice."""
    keys = len(NO_DEFAULT) + len(COSINE) * (len(found.cosine) + len(found.cosine_out) + 1) + (found.credit is not UNSET)
    return keys if found.measured is UNSET else keys + keys_of(found.measured, nulls)


def keys_of(measured: dict[str, list[QuickReading]], nulls: bool = True) -> int:
    """How many keys readings have, with the one that they are the value of. `nulls`: whether any may have a null."""
    keys = 1 + len(measured) + len(WITHOUT_NULL) * sum(map(len, measured.values()))
    for each in [each for readings in measured.values() for each in readings] if nulls else ():
        keys += (each.null is not UNSET) + len(NULL) * isinstance(each.null, _Null)
    return keys


def _snapshot(found: _Snapshot) -> Snapshot:
    """What the full reader would have made of it."""
    given, values = set(NO_DEFAULT), asdict(found)
    values["cosine"] = list(map(_cosine, found.cosine))
    values["cosine_out"] = list(map(_cosine, found.cosine_out))
    values["cosine_embed"] = _cosine(found.cosine_embed)
    values["gamma"] = as_number(found.gamma)
    values["credit_norms"] = list(map(as_number, found.credit_norms))
    for name, default in (("credit", None), ("measured", {})):
        if values[name] is UNSET:
            values[name] = default
        else:
            given.add(name)
    if found.measured is not UNSET:
        values["measured"] = {name: list(map(as_reading, readings)) for name, readings in found.measured.items()}
    return trusted(Snapshot, values, given)


def _cosine(found: _Cosine) -> CosineRecord:
    return trusted(CosineRecord, asdict(found) | {"value": as_number(found.value)}, COSINE)


def as_reading(found: QuickReading) -> ReadingRecord:
    """What the full reader would have made of it."""
    null = trusted(NullRecord, asdict(found.null), NULL) if isinstance(found.null, _Null) else None
    values = {"value": as_number(found.value), "status": found.status, "null": null}
    return trusted(ReadingRecord, values, WITHOUT_NULL if found.null is UNSET else WITH_NULL)


def as_number(value: float | NotKnown) -> float:
    """A number, also one that is not known."""
    return math.nan if value == "NaN" else value


@cache
def one_set(names: frozenset[str]) -> set[str]:
    """One for all records that were given the same fields: of thousands it would be half of their memory."""
    return set(names)


def lightened(record: R) -> R:
    """The same record, whose parts share with others which fields they were given. Records are never changed."""
    inside: list[object] = [record]
    while inside:
        found = inside.pop()
        if isinstance(found, Record):
            _put_given(found, one_set(frozenset(found.model_fields_set)))
            found = found.__dict__
        values = found.values() if isinstance(found, dict) else found if isinstance(found, list | tuple) else ()
        inside += [value for value in values if type(value) not in PLAIN]
    return record


def trusted(model: type[R], values: dict[str, Any], given: set[str]) -> R:
    """A record of values that are known to be what its validators let through: all fields, in their order."""
    made = model.__new__(model)
    _put(made, "__dict__", values)
    _put_given(made, given)
    _put_extra(made, None)
    _put_private(made, None)
    return made
