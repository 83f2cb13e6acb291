"""The shapes of a run's files: typed, versioned, frozen. Plain JSON, readable without us.

Everything here is a function of the config alone, bit for bit; what depends on the machine or the clock (versions,
times) is in `Environment` and nowhere else.
"""

import hashlib
import json
import math
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from inspect import signature
from operator import attrgetter
from typing import TYPE_CHECKING, Annotated, Any, Literal, Self

from pydantic import AfterValidator, BaseModel, ConfigDict, Field, SerializerFunctionWrapHandler, ValidationError
from pydantic import model_serializer as model_serializer
from pydantic import model_validator as model_validator

from walkback.errors import RecordError
from walkback.records import invariants

if TYPE_CHECKING:  # records are read without torch
    from walkback.probes import Precision, Reading

BLOCKS = 100_000  # ten times the deepest net that was ever trained
Whole = Annotated[int, Field(ge=1)]

# What each of them promises is in invariants.py, once.
Size = Annotated[float, AfterValidator(invariants.size)]
Sizes = Annotated[list[float], AfterValidator(invariants.sizes)]
Share = Annotated[float, AfterValidator(invariants.share)]
CrossEntropy = Annotated[float, AfterValidator(invariants.cross_entropy)]
CosineValue = Annotated[float, AfterValidator(invariants.cosine)]
Count = Annotated[int, AfterValidator(invariants.count)]
PYDANTICS = "Value error, "  # what pydantic puts before the words of a validator


def first_fault(error: ValidationError) -> str:
    """What is wrong with a record, and where: the first of its faults."""
    first = error.errors(include_url=False, include_input=False)[0]
    place = ".".join(str(part) for part in first["loc"])
    return f"{place}{': ' if place else ''}{first['msg'].removeprefix(PYDANTICS)}"


@contextmanager
def refused(where: object, remedy: str) -> Iterator[None]:
    """What pydantic finds wrong inside, as our own error."""
    try:
        yield
    except ValidationError as error:
        raise RecordError(f"{where}: {first_fault(error)}", remedy) from error


class Record(BaseModel):
    """Frozen, and no field that we do not know. NaN and infinity are written as strings, so the JSON is valid."""

    model_config = ConfigDict(frozen=True, extra="forbid", ser_json_inf_nan="strings", validate_default=True)

    def text(self) -> str:
        """One line of JSON."""
        return self.model_dump_json(by_alias=True)


def holds(invariant: Callable[..., None]) -> Any:
    """A validator: the invariant holds of the record's fields, which it takes by their names."""
    fields = attrgetter(*signature(invariant).parameters)

    def checked(record: Any) -> Any:
        invariant(*fields(record))
        return record

    return model_validator(mode="after")(checked)


class RunConfig(Record):
    """All that determines a run. Options are resolved: every default is written out, so none can change unseen."""

    schema_: Literal["walkback.run/1"] = Field(default="walkback.run/1", alias="schema")
    data: str
    augment: bool
    net: str
    net_options: dict[str, Any]
    rule: str
    rule_options: dict[str, Any]
    rule_source: str | None = None  # a hash of the code, for a rule that is not ours
    seed: Annotated[int, Field(ge=0, lt=2**63)]
    epochs: Whole
    batch_size: Whole
    lr: Annotated[float, Field(gt=0, allow_inf_nan=False)]
    weight_decay: Annotated[float, Field(ge=0, allow_inf_nan=False)]
    penalty: Annotated[float, Field(ge=0, allow_inf_nan=False)]
    train_last: Annotated[int, Field(ge=0)]  # blocks that train, counted from the top; all of them: the full net
    probe_images: Whole
    stop_when_fired: bool = False  # end at the first epoch at which a check fires
    schedule: Literal["cosine", "constant"] = "cosine"  # of the learning rate
    labels: Literal["given", "random"] = "given"  # random: drawn anew for every minibatch, a control
    # The share of the training samples that accuracy and probes are taken on; 0: they are taken on the test split.
    validation: Annotated[float, Field(ge=0, lt=1, allow_inf_nan=False)] = 0.0
    net_source: str | None = None  # a hash of the code, for a net that is not ours
    data_source: str | None = None  # likewise
    blocks: Annotated[int, Field(ge=0, le=BLOCKS)]  # L
    residual: bool  # whether the blocks add to a stream

    @model_validator(mode="before")
    @classmethod
    def _first_nets(cls, raw: Any) -> Any:
        """The first two nets' options tell the last two fields, which came later."""
        if isinstance(raw, dict) and raw.get("net") in FIRST_NETS and isinstance(raw.get("net_options"), dict):
            options = raw["net_options"]
            told = {"blocks": options.get("depth"), "residual": options.get("skip")}
            raw = raw | {name: value for name, value in told.items() if value is not None}
        return raw

    def hash(self) -> str:
        """Ten hex digits that name this config: of its JSON with sorted keys."""
        # A field that came later is left out while it has its default, so that it renames no earlier run.
        values = self.__dict__
        left = {name for name, default in LATER.items() if values[name] == default}
        left |= {"blocks", "residual"} if self.net in FIRST_NETS else set()
        if _is_plain(self.net_options) and _is_plain(self.rule_options):  # then pydantic writes what is there
            written = {name.rstrip("_"): value for name, value in values.items() if name not in left}
        else:
            written = self.model_dump(mode="json", by_alias=True, exclude=left)
        return hashlib.sha256(_canonical(written).encode()).hexdigest()[:10]

    def label(self) -> str:
        """A short name for tables: the rule and what sets it apart."""
        rule = self.rule.rpartition("/")[2]
        if self.blocks == 0:
            return f"{rule} shallow"
        parts = [
            f"k={self.train_last}" if self.train_last < self.blocks else "",
            f"λ={self.penalty:g}" if self.penalty else "",
            "constant rate" if self.schedule == "constant" else "",
            "random labels" if self.labels == "random" else "",
            f"validation {self.validation:g}" if self.validation else "",
            "until fired" if self.stop_when_fired else "",
        ]
        return " ".join([rule, *filter(None, parts)])

    def folder(self) -> str:
        """The folder's name: readable in front, the hash behind."""
        words = f"{_short(self.data)}-{_short(self.net)}-{self.label()}-s{self.seed}"
        return "".join(c if c.isalnum() or c in "-." else "_" for c in words.replace("λ=", "pen")) + f"-{self.hash()}"


def _short(name: str) -> str:
    """A name without the folders in front of a file."""
    return name.rpartition("/")[2]


def _is_plain(options: dict[str, Any]) -> bool:
    """Whether every option is a word, a truth value or a finite number."""
    return all(type(v) in PLAIN and (type(v) is not float or math.isfinite(v)) for v in options.values())


PLAIN = {str, bool, int, float, type(None)}
_canonical = json.JSONEncoder(sort_keys=True).encode
LATER = {name: RunConfig.model_fields[name].default for name in (
    "stop_when_fired", "schedule", "labels", "validation", "net_source", "data_source")}  # fmt: skip
FIRST_NETS = ("resmlp", "vit-mini")  # recorded before configs said how many blocks there are and whether they add


class FromProbe(Record):
    """What a probe answered: a record of some of its fields, by the same names."""

    @classmethod
    def of(cls, found: Any) -> Self:
        """A probe's answer."""
        values = {name: getattr(found, name) for name in cls.model_fields}
        return cls(**values | ({"status": _status(found.value, found.status)} if "status" in values else {}))


def _status(value: float, status: str) -> str:
    """A probe's status; "not finite" where it says "ok" of what is not, such as 0 / 0 at the end of float64."""
    return "not finite" if status == "ok" and not math.isfinite(value) else status


class CosineRecord(FromProbe):
    """The mean cosine of a credit with the gradient over the living samples, and its status."""

    value: CosineValue
    alive: Count
    total: Count
    status: str

    _possible = holds(invariants.speaks_for)


class NullRecord(FromProbe):
    """Mean and std (ddof = 1) over `n` draws of the cosine of a credit that learned nothing."""

    mean: float
    std: Size
    n: Count
    kind: str

    _possible = holds(invariants.can_be_null)


class ReadingRecord(Record):
    """A number of one block, layer or net, by a probe of one file. It counts only with status "ok"."""

    value: float
    status: str
    null: NullRecord | None = None  # what chance would give, where the probe tells

    @classmethod
    def of(cls, found: "Reading") -> "ReadingRecord":
        """A probe's answer."""
        null = None if found.null is None else NullRecord.of(found.null)
        return cls(value=found.value, status=_status(found.value, found.status), null=null)


def _bounded(readings: dict[str, list[ReadingRecord]]) -> dict[str, list[ReadingRecord]]:
    """The readings of our own probes lie where their formulas can; what another probe's may be is not known."""
    for name, bound in (("update", invariants.cosine), ("zero credits", invariants.share)):
        for reading in readings.get(name, []):
            if reading.status == "ok":
                bound(reading.value)
    return readings


Readings = Annotated[dict[str, list[ReadingRecord]], AfterValidator(_bounded)]


class Snapshot(Record):
    """What the probes measured at one moment. Lists run over h_0 … h_L or over the blocks 0 … L−1."""

    epoch: Count
    step: Count
    lr: Size | None  # that the epoch was trained with; None at init
    train_loss: float | None  # mean over the epoch's batches, while the weights moved; None at init
    accuracy: Share  # on the whole test split
    loss: CrossEntropy  # on the whole test split
    probe_images: Whole  # the first so many of the test split; all that follows is measured on them
    reference_batch: Whole  # gradient norms are stated as in a batch-mean loss over so many
    hidden_norms: Sizes  # ‖h_0‖ … ‖h_L‖, medians
    branch_norms: Sizes  # ‖f_0‖ … ‖f_{L−1}‖
    gradient_norms: Sizes  # ‖g_0‖ … ‖g_L‖ at the reference batch
    credit_norms: Sizes  # ‖a_0‖ … ‖a_{L−1}‖, in the scale of a sample's own loss
    cosine: list[CosineRecord]  # cos(a_l, g_l): at the block's input, as published
    cosine_out: list[CosineRecord]  # cos(a_l, g_{l+1}): at the block's output, where the credit acts
    # The embedding's credit with the gradient where it acts: g_0; in vit-mini that of the mean over the tokens (runs
    # recorded by walkback 0.1 have it at the cls token).
    cosine_embed: CosineRecord
    gamma: CosineValue  # Γ: the mean of `cosine`; of `cosine_out` in plain nets and where widths differ
    gamma_blocks: Count  # over so many blocks: those with status "ok"
    credit: str | None = None  # which credit was compared, of a rule that has several
    measured: Readings = Field(default_factory=dict)  # by the probes that are one file each, by their name

    @model_validator(mode="after")
    def _possible(self) -> "Snapshot":
        """Every list is of the same number of blocks, and the numbers fit each other."""
        states = {name: len(getattr(self, name)) - 1 for name in ("hidden_norms", "gradient_norms")}
        blocks = {name: len(getattr(self, name)) for name in ("branch_norms", "credit_norms", "cosine", "cosine_out")}
        counts = states | blocks
        if len(set(counts.values())) > 1 or min(counts.values()) < 0:
            stated = ", ".join(f"{name} {count}" for name, count in counts.items())
            raise invariants.Broken("blocks", f"its lists are not of one net; they mean so many blocks: {stated}")
        invariants.enough_loss(self.accuracy, self.loss)
        cosines = [[(c.value, c.status) for c in those] for those in (self.cosine, self.cosine_out)]
        invariants.mean_cosine(self.gamma, self.gamma_blocks, *cosines)
        return self


class PrecisionRecord(Record):
    """The direction of the gradient in float32 against float64, at one layer. Values count only with status "ok"."""

    chord: Size  # median ‖ĝ32 − ĝ64‖: no cosine measured against this gradient is off by more
    clamped: Size  # how far `F.cosine_similarity` would be off here
    samples: Count
    status: str
    differences: bool = False  # the gradient is by finite differences in float64, and the chord by two step sizes

    @model_serializer(mode="wrap")
    def _as_before(self, write: SerializerFunctionWrapHandler) -> dict[str, Any]:
        """Records without the flag stay as they were."""
        written: dict[str, Any] = write(self)
        if not self.differences:
            del written["differences"]
        return written

    @model_validator(mode="after")
    def _possible(self) -> "PrecisionRecord":
        invariants.distance(self.chord)
        invariants.distance(self.clamped)
        return self

    @classmethod
    def of(cls, found: "Precision") -> "PrecisionRecord":
        """A probe's answer."""
        status = _status(found.chord, found.status)
        return cls(chord=found.chord, clamped=found.clamped, samples=found.alive, status=status)


class Valued(FromProbe):
    """A number that counts only with status "ok"."""

    value: float
    status: str


def _correlation(valued: Valued) -> Valued:
    if valued.status == "ok":
        invariants.cosine(valued.value)
    return valued


Correlation = Annotated[Valued, AfterValidator(_correlation)]


class OutputProbes(Record):
    """What Γ is judged by: the credits at the output of their blocks, where they act."""

    null: list[NullRecord]  # of `cosine_out`, by block: the credits turned by one random rotation per draw
    null_gamma: NullRecord  # of their mean; blocks of equal width are turned by one matrix
    frobenius: list[Correlation]  # by block ⟨A, G⟩ / (‖A‖ ‖G‖), which sees the sizes of the samples' credits
    reference: PrecisionRecord  # of the gradient at h_L, with the label's term of the softmax free of cancellation
    cosine: list[CosineRecord] | None = None  # in place of `cosine_out`, where blocks rest or the softmax cancels


class DeepProbes(Record):
    """What is measured once, at the end of a run, because it costs more than a snapshot may."""

    schema_: Literal["walkback.probes/1"] = Field(default="walkback.probes/1", alias="schema")
    step: Count
    images: Count  # for precision; the null and the functional probes take fewer
    precision: list[PrecisionRecord]  # at h_0 … h_L
    null: list[NullRecord]  # of `cosine`, by block
    null_out: list[NullRecord]  # of `cosine_out`
    null_gamma: NullRecord
    drift: Correlation  # at layer L/2
    drift_batches: Count
    rho: list[Correlation]  # by block, as is nudging
    nudging: list[Valued]
    functional_images: Count  # for rho and nudging
    measured: Readings = Field(default_factory=dict)  # as in a snapshot, with nulls, and what is measured once
    output: OutputProbes | None = None  # None: recorded before walkback 0.3


class IdentityRecord(Record):
    """How near the blocks are to the identity at init: a function of the config, measured when a study asks for it."""

    schema_: Literal["walkback.identity/1"] = Field(default="walkback.identity/1", alias="schema")
    images: Whole  # the first so many of the test split
    branch: Sizes  # ‖f_l‖ / ‖h_l‖ by block, medians as the two below
    moved: Size  # ‖h_L − h_0‖ / ‖h_0‖
    cosine: CosineValue  # cos(h_L, h_0)


class CostRecord(Record):
    """What a step of a run's rule costs on its net and batch size, as a multiple of a step of bp there; measured when a
    study asks for it. Flops and memory are counted; the time depends on the machine."""

    schema_: Literal["walkback.cost/1"] = Field(default="walkback.cost/1", alias="schema")
    flops: Size
    time: Size
    memory: Size


class Result(Record):
    """How a run ended."""

    schema_: Literal["walkback.result/1"] = Field(default="walkback.result/1", alias="schema")
    status: Literal["finished", "diverged", "fired"]
    epochs: Count  # completed
    steps: Count
    accuracy: Share  # at the last snapshot
    loss: CrossEntropy
    says: str
    predictions: str | None = None  # the sha256 of predictions.npy; None: not kept, as before walkback 0.3


class Sitting(Record):
    """One process's work on a run."""

    started: str
    ended: str | None
    from_step: Count
    to_step: Count | None
    seconds: Size | None
    walkback: str
    commit: str | None
    python: str
    torch: str
    platform: str
    cpu: str
    threads: int
    device: str
    cpu_seconds: Size | None = None  # None: recorded before walkback 0.3, or not ended


class Environment(Record):
    """Where and when: the only file of a run that depends on the machine and the clock."""

    schema_: Literal["walkback.environment/1"] = Field(default="walkback.environment/1", alias="schema")
    data_fingerprint: str
    sittings: list[Sitting]
