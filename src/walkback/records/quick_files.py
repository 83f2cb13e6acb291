"""Config, environment, result and probes, read quickly where they are surely fine: the same records, in a fraction of
the time.

As in quick.py: each function answers with the record, or with None, which means nothing but "not surely". Then run.py
reads the same bytes in full. The schema's invariants are asked here; whether the files of a run fit each other is asked
of the records by whole.py, however they were read.
"""

from collections.abc import Callable, Mapping
from typing import Annotated, Any, Literal, TypeVar

from msgspec import UNSET, Meta, MsgspecError, Struct, UnsetType
from msgspec.json import Decoder
from msgspec.structs import asdict
from pydantic import ValidationError

from walkback.records import invariants
from walkback.records.invariants import ROUNDING, Broken
from walkback.records.quick import (
    COSINE,
    MOST,
    NULL,
    Count,
    NotKnown,
    Number,
    QuickReading,
    Size,
    Whole,
    as_number,
    as_reading,
    bounded,
    keys_of,
    trusted,
)
from walkback.records.schema import (
    BLOCKS,
    FIRST_NETS,
    CosineRecord,
    DeepProbes,
    Environment,
    NullRecord,
    OutputProbes,
    PrecisionRecord,
    Record,
    Result,
    RunConfig,
    Sitting,
    Valued,
)

S = TypeVar("S")
Positive = Annotated[float, Meta(gt=0, le=MOST)]
Integer = Annotated[int, Meta(ge=-(10**18), le=10**18)]
Option = str | Integer | Number | bool | None
Distance = Annotated[float, Meta(ge=0, le=2)] | NotKnown


class _Config(Struct, forbid_unknown_fields=True, gc=False):
    schema: Literal["walkback.run/1"]
    data: str
    augment: bool
    net: str
    net_options: dict[str, Option]
    rule: str
    rule_options: dict[str, Option]
    seed: Count
    epochs: Whole
    batch_size: Whole
    lr: Positive
    weight_decay: Size
    penalty: Size
    train_last: Count
    probe_images: Whole
    rule_source: str | UnsetType | None = UNSET
    stop_when_fired: bool | UnsetType = UNSET
    schedule: Literal["cosine", "constant"] | UnsetType = UNSET
    labels: Literal["given", "random"] | UnsetType = UNSET
    validation: Annotated[float, Meta(ge=0, lt=1)] | UnsetType = UNSET
    net_source: str | UnsetType | None = UNSET
    data_source: str | UnsetType | None = UNSET
    blocks: Annotated[int, Meta(ge=0, le=BLOCKS)] | UnsetType = UNSET
    residual: bool | UnsetType = UNSET


class _ProbedNull(Struct, forbid_unknown_fields=True, gc=False):
    mean: Number | NotKnown
    std: Size | NotKnown
    n: Count
    kind: str


class _Precision(Struct, forbid_unknown_fields=True, gc=False):
    chord: Distance
    clamped: Distance
    samples: Count
    status: str


class _OutCosine(Struct, forbid_unknown_fields=True, gc=False):
    value: Number | NotKnown
    alive: Count
    total: Count
    status: str


class _Valued(Struct, forbid_unknown_fields=True, gc=False):
    value: Number | NotKnown
    status: str


class _Output(Struct, forbid_unknown_fields=True, gc=False):
    null: list[_ProbedNull]
    null_gamma: _ProbedNull
    frobenius: list[_Valued]
    reference: _Precision
    cosine: list[_OutCosine] | None


class _Probes(Struct, forbid_unknown_fields=True, gc=False):
    schema: Literal["walkback.probes/1"]
    step: Count
    images: Count
    precision: list[_Precision]
    null: list[_ProbedNull]
    null_out: list[_ProbedNull]
    null_gamma: _ProbedNull
    drift: _Valued
    drift_batches: Count
    rho: list[_Valued]
    nudging: list[_Valued]
    functional_images: Count
    measured: dict[str, list[QuickReading]] | UnsetType = UNSET
    output: _Output | UnsetType | None = UNSET


LATER = {"predictions", "cpu_seconds", "output"}  # fields that older records do not have
RESULT, ENVIRONMENT, SITTING, PROBES, VALUED = (
    set(model.model_fields) - LATER for model in (Result, Environment, Sitting, DeepProbes, Valued)
)
OUTPUT = set(OutputProbes.model_fields)
PRECISION = set(PrecisionRecord.model_fields) - {"differences"}
DEFAULTS = {name: field.default for name, field in RunConfig.model_fields.items() if not field.is_required()}
_config, _probes = Decoder(_Config).decode, Decoder(_Probes).decode


def _parsed(decode: Callable[[bytes], S], content: bytes) -> S | None:
    """What a file holds; None if it does not parse, or if a text in it is written otherwise than it reads."""
    if not content.isascii() or b"\\" in content:
        return None
    try:
        return decode(content)
    except (MsgspecError, ValidationError):
        return None


def _each_once(content: bytes, keys: int, *texts: str) -> bool:
    """Whether no key is there twice: every colon stands behind a key, or in one of the texts."""
    return content.count(b":") == keys + "".join(texts).count(":")


def quick_config(content: bytes) -> RunConfig | None:
    """What config.json holds."""
    found = _parsed(_config, content)
    if found is None:
        return None
    values = asdict(found)
    options = (found.net_options, found.rule_options)
    given = {name for name, value in values.items() if value is not UNSET} - {"schema"} | {"schema_"}
    texts = [value for table in (values, *options) for value in table.values() if type(value) is str]
    if not _each_once(content, len(given) + sum(map(len, options)), *texts, *options[0], *options[1]):
        return None
    if found.net in FIRST_NETS:  # whose options tell two fields
        for name, option, kind in (("blocks", "depth", int), ("residual", "skip", bool)):
            value = found.net_options.get(option)
            if value is not None:
                if type(value) is not kind or not 0 <= value <= BLOCKS:
                    return None
                values[name] = value
                given.add(name)
    if values["blocks"] is UNSET or values["residual"] is UNSET:
        return None
    values["schema_"] = found.schema
    fields = {name: DEFAULTS[name] if values[name] is UNSET else values[name] for name in RunConfig.model_fields}
    return trusted(RunConfig, fields, given)


def quick_result(content: bytes) -> Result | None:
    """What result.json holds, read by pydantic from its text: sooner than by msgspec, and then in Python."""
    found = _parsed(Result.model_validate_json, content)
    if found is None or len(found.model_fields_set) < len(RESULT) or found.epochs > MOST or found.steps > MOST:
        return None  # the full reader takes no file without its schema, and no whole number of 20 digits
    return found if found.loss <= MOST and _each_once(content, len(found.model_fields_set), found.says) else None


def quick_environment(content: bytes) -> Environment | None:
    """What environment.json holds, likewise."""
    found = _parsed(Environment.model_validate_json, content)
    if found is None or len(found.model_fields_set) < len(ENVIRONMENT):
        return None
    texts = [found.data_fingerprint]
    for sitting in found.sittings:
        for value in sitting.__dict__.values():
            if type(value) is str:
                texts.append(value)
            elif value is not None and not -MOST <= value <= MOST:
                return None
    if any(len(sitting.model_fields_set) < len(SITTING) for sitting in found.sittings):
        return None
    keys = len(ENVIRONMENT) + sum(len(sitting.model_fields_set) for sitting in found.sittings)
    return found if _each_once(content, keys, *texts) else None


def quick_probes(content: bytes) -> DeepProbes | None:
    """What probes.json holds."""
    found = _parsed(_probes, content)
    if found is None:
        return None
    output = found.output if isinstance(found.output, _Output) else None
    cosines = [] if output is None else output.cosine or []
    precise = [*found.precision, *([] if output is None else [output.reference])]
    try:
        nulls = [*found.null, *found.null_out, found.null_gamma]
        nulls += [] if output is None else [*output.null, output.null_gamma]
        for cosine in cosines:
            invariants.speaks_for(cosine.alive, cosine.total, cosine.status)
        for null in nulls:
            if null.mean != "NaN" and null.std != "NaN":
                invariants.can_be_null(null.mean, null.std, null.n)
        if found.measured is not UNSET:
            for name, readings in found.measured.items():
                if not bounded(name, readings):
                    return None
    except Broken:
        return None
    sizes = [] if output is None else output.frobenius
    correlations: list[_Valued | _OutCosine] = [found.drift, *found.rho, *sizes]
    if any(c.value != "NaN" and abs(c.value) > 1 + ROUNDING for c in cosines):
        return None
    if any(c.status == "ok" and (c.value == "NaN" or abs(c.value) > 1 + ROUNDING) for c in correlations):
        return None
    valued = 1 + len(found.rho) + len(found.nudging) + len(sizes)
    keys = len(PROBES) - 1 + len(PRECISION) * len(precise) + len(NULL) * len(nulls) + len(VALUED) * valued
    keys += 0 if found.measured is UNSET else keys_of(found.measured)
    keys += (found.output is not UNSET) + (0 if output is None else len(OUTPUT)) + len(COSINE) * len(cosines)
    if content.count(b":") != keys:
        return None
    values = _with_schema(found) | {
        "precision": [trusted(PrecisionRecord, _precision(p), PRECISION) for p in found.precision],
        "null": list(map(_null, found.null)), "null_out": list(map(_null, found.null_out)),
        "null_gamma": _null(found.null_gamma), "drift": _valued(found.drift),
        "rho": list(map(_valued, found.rho)), "nudging": list(map(_valued, found.nudging)), "measured": {},
        "output": None if output is None else _output(output),
    }  # fmt: skip
    if found.measured is not UNSET:
        values["measured"] = {name: list(map(as_reading, readings)) for name, readings in found.measured.items()}
    given = PROBES - ({"measured"} if found.measured is UNSET else set())
    return trusted(DeepProbes, values, given | ({"output"} if found.output is not UNSET else set()))


def _output(found: _Output) -> OutputProbes:
    cosines = None if found.cosine is None else [
        trusted(CosineRecord, asdict(c) | {"value": as_number(c.value)}, COSINE) for c in found.cosine
    ]  # fmt: skip
    return trusted(OutputProbes, {
        "null": list(map(_null, found.null)), "null_gamma": _null(found.null_gamma),
        "frobenius": list(map(_valued, found.frobenius)),
        "reference": trusted(PrecisionRecord, _precision(found.reference), PRECISION), "cosine": cosines,
    }, OUTPUT)  # fmt: skip


def _with_schema(found: Struct) -> dict[str, Any]:
    """Its fields as a record names them."""
    values = asdict(found)
    return {"schema_": values.pop("schema"), **values}


def _precision(found: _Precision) -> dict[str, Any]:
    return {
        "chord": as_number(found.chord), "clamped": as_number(found.clamped), "samples": found.samples,
        "status": found.status, "differences": False,
    }  # fmt: skip


def _null(found: _ProbedNull) -> NullRecord:
    mean, std = as_number(found.mean), as_number(found.std)
    return trusted(NullRecord, {"mean": mean, "std": std, "n": found.n, "kind": found.kind}, NULL)


def _valued(found: _Valued) -> Valued:
    return trusted(Valued, {"value": as_number(found.value), "status": found.status}, VALUED)


QUICK: Mapping[type[Record], Callable[[bytes], Record | None]] = {
    Environment: quick_environment, Result: quick_result, DeepProbes: quick_probes,
}  # fmt: skip
