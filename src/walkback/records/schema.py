"""The shapes of a run's files: typed, versioned, frozen. Plain JSON, readable without us.

Everything here is a function of the config alone, bit for bit; what depends on the machine or the clock (versions,
times) is in `Environment` and nowhere else.
"""

import hashlib
import json
import math
from typing import Annotated, Any, Literal, TypeVar

from msgspec import NODEFAULT, Meta, field
from msgspec.structs import fields, force_setattr

from walkback.files import DEEPEST, check_depth
from walkback.records import invariants
from walkback.records.invariants import ROUNDING, Broken
from walkback.records.record import BY_BLOCK, BY_STATE, Fault, Record

BLOCKS = 100_000  # ten times the deepest net that was ever trained


def finite(value: float) -> float:
    """A number that is not NaN or infinite."""
    if not math.isfinite(value):
        raise ValueError(f"it is {value}, not a finite number")
    return value


def shallow(options: dict[str, Any]) -> dict[str, Any]:
    """Options that are not nested deeper than a file may be."""
    try:
        check_depth(options)
    except RecursionError:
        raise ValueError(f"it is nested more than {DEEPEST} deep") from None
    return options


MOST = 2**63 - 1  # of a whole number
Whole = Annotated[int, Meta(ge=1, le=MOST)]
Options = Annotated[dict[str, Any], shallow]
# What each of these promises is in invariants.py, once.
Size = Annotated[float, invariants.size]
SizesByState = Annotated[list[float], invariants.sizes, BY_STATE]
SizesByBlock = Annotated[list[float], invariants.sizes, BY_BLOCK]
Distance = Annotated[float, invariants.distance]
Share = Annotated[float, invariants.share]
CrossEntropy = Annotated[float, invariants.cross_entropy]
CosineValue = Annotated[float, invariants.cosine]
Count = Annotated[int, Meta(le=MOST), invariants.count]
T = TypeVar("T")
ByBlock = Annotated[list[T], BY_BLOCK]


class RunConfig(Record, kw_only=True):
    """All that determines a run. Options are resolved: every default is written out, so none can change unseen."""

    schema: Literal["walkback.run/1"] = "walkback.run/1"
    data: str
    augment: bool
    net: str
    net_options: Options
    rule: str
    rule_options: Options
    rule_source: str | None = None  # a hash of the code, for a rule that is not ours
    seed: Annotated[int, Meta(ge=0, le=MOST)]
    epochs: Whole
    batch_size: Whole
    lr: Annotated[float, Meta(gt=0), finite]
    weight_decay: Annotated[float, Meta(ge=0), finite]
    penalty: Annotated[float, Meta(ge=0), finite]
    train_last: Annotated[int, Meta(ge=0)]  # blocks that train, counted from the top; all of them: the full net
    probe_images: Whole
    stop_when_fired: bool = False  # end at the first epoch at which a check fires
    schedule: Literal["cosine", "constant"] = "cosine"  # of the learning rate
    labels: Literal["given", "random"] = "given"  # random: drawn anew for every minibatch, a control
    # The share of the training samples that accuracy and probes are taken on; 0: they are taken on the test split.
    validation: Annotated[float, Meta(ge=0, lt=1), finite] = 0.0
    net_source: str | None = None  # a hash of the code, for a net that is not ours
    data_source: str | None = None  # a hash of the code, for data that are not ours
    # Runs of the first two nets may lack these two: their options state them.
    blocks: Annotated[int, Meta(ge=0, le=BLOCKS)] = -1  # L
    residual: bool | None = None  # whether the blocks add to a stream

    def possible(self) -> None:
        """Fill in what the first nets' options state; no other run may lack it."""
        if self.net in FIRST_NETS:
            for name, option, kind in (("blocks", "depth", int), ("residual", "skip", bool)):
                value = self.net_options.get(option)
                if value is not None and (type(value) is not kind or not 0 <= value <= BLOCKS):
                    raise Fault(f"net_options.{option}", f"it cannot be {value!r:.40}")
                if value is not None:
                    force_setattr(self, name, value)
        if self.blocks < 0 or self.residual is None:
            raise Fault("blocks" if self.blocks < 0 else "residual", "it is missing")

    def hash(self) -> str:
        """Ten hex digits that name this config: of its JSON with sorted keys."""
        # A field that came later is left out while it has its default, so that it renames no earlier run.
        left = {"blocks", "residual"} if self.net in FIRST_NETS else set()
        values = {name: value for name, value in self.as_dict().items() if name not in left}
        written = {name: value for name, value in values.items() if name not in LATER or value != LATER[name]}
        return hashlib.sha256(json.dumps(written, sort_keys=True).encode()).hexdigest()[:10]

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


# Fields that came later, with their defaults. (The first runs state `rule_source`, and what their blocks do.)
LATER: dict[str, Any] = {
    f.name: f.default for f in fields(RunConfig)
    if f.default is not NODEFAULT and f.name not in ("schema", "rule_source", "blocks", "residual")
}  # fmt: skip
FIRST_NETS = ("resmlp", "vit-mini")  # recorded before configs said how many blocks there are and whether they add


class Null(Record, gc=False):  # there are hundreds of measurements in a run, and nothing in them leads back
    """What chance would give: mean and std (ddof = 1) over `n` draws of the cosine of a credit that learned nothing.

    NaN where too few draws have a direction. `kind` says what it is of, such as "fresh feedback"; for Γ over blocks of
    several kinds "mixed".
    """

    mean: float
    std: Size
    n: Count
    kind: str

    def possible(self) -> None:
        """n numbers between −1 and 1 with that mean have a variance (ddof = 1) of at most (1 − mean²) n / (n − 1)."""
        if self.n < 2 or not (math.isfinite(self.mean) and self.known):  # no check takes it for a null
            return
        if abs(self.mean) > 1 + ROUNDING:
            raise Broken("null", f"the mean of cosines lies between −1 and 1, and {self.mean:g} does not")
        most = math.sqrt(max(0.0, 1 - self.mean * self.mean) * self.n / (self.n - 1))
        if self.std > most + 1e-3:
            words = f"the spread of {self.n} cosines with mean {self.mean:.3g} is at most {most:.3g}, not {self.std:g}"
            raise Broken("null", words)

    @property
    def known(self) -> bool:
        """Whether there is one."""
        return math.isfinite(self.std)


class Valued(Record, gc=False):
    """A number of one block, layer or net. It counts only with status "ok", and is NaN otherwise."""

    value: float
    status: str

    def __post_init__(self) -> None:
        """What bounds it depends on where it is."""


class Reading(Valued):
    """What a probe gives: a number, and what chance would give in its place, where that is measured beside it."""

    null: Null | None = None


class Cosine(Record, gc=False):
    """A mean cosine of directions over the living samples (of batches, if those are compared), and its status."""

    value: CosineValue
    alive: Count
    total: Count
    status: str

    def __post_init__(self) -> None:
        """Most are surely fine, and there are hundreds in a run."""
        if not (-1 <= self.value <= 1 and 0 < self.alive <= self.total):
            super().__post_init__()

    def possible(self) -> None:
        """Some sample is behind a value with status "ok", and no more of them than there were."""
        if self.alive < 0 or (self.status == "ok" and self.alive < 1):
            raise Broken("alive", f'the status is "{self.status}", and it speaks for {self.alive} samples')
        if self.alive > self.total:
            raise Broken("alive", f"it speaks for {self.alive} of {self.total} samples")


class Precision(Record, gc=False):
    """The direction of the gradient in float32 against float64, at one layer. Values count only with status "ok"."""

    brief = frozenset({"differences"})
    chord: Distance  # median ‖ĝ32 − ĝ64‖: no cosine is off by more
    clamped: Distance  # by how much `F.cosine_similarity` would be off
    samples: Count  # that have a gradient
    status: str
    differences: bool = False  # the gradient is by finite differences in float64, and the chord by two step sizes


UPDATE = "update on the probe"  # a watched training's reading of that name


def bounded(readings: dict[str, list[Reading]]) -> dict[str, list[Reading]]:
    """The readings of our own probes lie where their formulas can; what another probe's may be is not known."""
    for name, bound in (("update", invariants.cosine), (UPDATE, invariants.cosine), ("zero credits", invariants.share)):
        for place, reading in enumerate(readings.get(name, [])):
            if reading.status == "ok":
                try:
                    bound(reading.value)
                except ValueError as error:
                    raise Fault(f"{name}.{place}", str(error)) from None
    return readings


Readings = Annotated[dict[str, list[Reading]], bounded]


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
    hidden_norms: SizesByState  # ‖h_0‖ … ‖h_L‖, medians
    branch_norms: SizesByBlock  # ‖f_0‖ … ‖f_{L−1}‖
    gradient_norms: SizesByState  # ‖g_0‖ … ‖g_L‖ at the reference batch
    credit_norms: SizesByBlock  # ‖a_0‖ … ‖a_{L−1}‖, in the scale of a sample's own loss
    cosine: ByBlock[Cosine]  # cos(a_l, g_l): at the block's input, as published
    cosine_out: ByBlock[Cosine]  # cos(a_l, g_{l+1}): at the block's output, where the credit acts
    # The embedding's credit with the gradient where it acts: g_0; in vit-mini that of the mean over the tokens (runs
    # recorded by walkback 0.1 have it at the cls token).
    cosine_embed: Cosine
    gamma: CosineValue  # Γ: the mean of `cosine`; of `cosine_out` in plain nets and where widths differ
    gamma_blocks: Count  # over so many blocks: those with status "ok"
    credit: str | None = None  # which credit was compared, of a rule that has several
    measured: Readings = field(default_factory=dict)  # by the probes that are one file each, by their name

    def possible(self) -> None:
        """Every list is of the same number of blocks, and the numbers fit each other."""
        counts = self.block_counts()
        if len(set(counts.values())) > 1 or min(counts.values()) < 0:
            stated = ", ".join(f"{name} {count}" for name, count in counts.items())
            raise Broken("blocks", f"its lists are not of one net; they mean so many blocks: {stated}")
        invariants.enough_loss(self.accuracy, self.loss)
        cosines = (((c.value, c.status) for c in each) for each in (self.cosine, self.cosine_out))
        invariants.mean_cosine(self.gamma, {self.gamma_blocks}, *cosines)


def correlation(valued: Valued) -> Valued:
    """A correlation that counts lies between −1 and 1."""
    if valued.status == "ok":
        invariants.cosine(valued.value)
    return valued


Correlation = Annotated[Valued, correlation]


class OutputProbes(Record):
    """What Γ is judged by: the credits at the output of their blocks, where they act."""

    null: ByBlock[Null]  # of `cosine_out`: the credits turned by one random rotation per draw
    null_gamma: Null  # of their mean; blocks of equal width are turned by one matrix
    frobenius: ByBlock[Correlation]  # ⟨A, G⟩ / (‖A‖ ‖G‖), which sees the sizes of the samples' credits
    reference: Precision  # of the gradient at h_L, with the label's term of the softmax free of cancellation
    cosine: ByBlock[Cosine] | None = None  # in place of `cosine_out`, where blocks rest or the softmax cancels


class DeepProbes(Record, kw_only=True):
    """What is measured once, at the end of a run, because it costs more than a snapshot may."""

    schema: Literal["walkback.probes/1"] = "walkback.probes/1"
    step: Count
    images: Count  # for precision; the null and the functional probes take fewer
    precision: Annotated[list[Precision], BY_STATE]  # at h_0 … h_L
    null: ByBlock[Null]  # of `cosine`
    null_out: ByBlock[Null]  # of `cosine_out`
    null_gamma: Null
    drift: Correlation  # at layer L/2
    drift_batches: Count
    rho: ByBlock[Correlation]
    nudging: ByBlock[Valued]
    functional_images: Count  # for rho and nudging
    measured: Readings = field(default_factory=dict)  # as in a snapshot, with nulls, and what is measured once
    output: OutputProbes | None = None  # None: recorded before walkback 0.3


class IdentityRecord(Record, kw_only=True):
    """How near the blocks are to the identity at init: a function of the config, measured when a study asks for it."""

    schema: Literal["walkback.identity/1"] = "walkback.identity/1"
    images: Whole  # the first so many of the test split
    branch: SizesByBlock  # ‖f_l‖ / ‖h_l‖ by block, medians as the two below
    moved: Size  # ‖h_L − h_0‖ / ‖h_0‖
    cosine: CosineValue  # cos(h_L, h_0)


class CostRecord(Record, kw_only=True):
    """What a step of a run's rule costs on its net and batch size, as a multiple of a step of bp there; measured when a
    study asks for it. Flops and memory are counted; the time depends on the machine."""

    schema: Literal["walkback.cost/1"] = "walkback.cost/1"
    flops: Size
    time: Size
    memory: Size


class Result(Record, kw_only=True):
    """How a run ended."""

    schema: Literal["walkback.result/1"] = "walkback.result/1"
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


class Environment(Record, kw_only=True):
    """Where and when: the only file of a run that depends on the machine and the clock."""

    schema: Literal["walkback.environment/1"] = "walkback.environment/1"
    data_fingerprint: str
    sittings: list[Sitting]
