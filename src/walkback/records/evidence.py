"""Evidence: everything known of a subject, from our runs, a live model or somebody's incomplete log.

`None` always means *not known*; nothing is filled in. A number that is not finite is kept as it is, and the checks
treat it as not known. What cannot be meant (an accuracy of 61.5, a negative norm, lists that disagree about the number
of blocks) is refused here, once, so that no check has to wonder.
"""

from collections import Counter
from collections.abc import Mapping, Sequence
from operator import attrgetter
from typing import Annotated, Any, Literal

from pydantic import BeforeValidator, Field, field_validator, model_validator

from walkback.records.baselines import BaselineName as BaselineName
from walkback.records.baselines import Ended as Ended
from walkback.records.baselines import half as half
from walkback.records.quick import QuickSnapshots, trusted
from walkback.records.run import FRESH, Run
from walkback.records.schema import (
    BLOCKS,
    CosineRecord,
    CosineValue,
    DeepProbes,
    NullRecord,
    PrecisionRecord,
    ReadingRecord,
    Readings,
    Record,
    Share,
    Size,
    Snapshot,
    Valued,
    refused,
)

UNSEEDED = "?"


def _nothing(value: Any) -> Any:
    """An empty list or table tells nothing, which is written None."""
    return None if value in ([], {}) else value


Sizes = Annotated[list[Size | None] | None, BeforeValidator(_nothing)]
SizeAt = Annotated[dict[Annotated[int, Field(ge=0)], Size] | None, BeforeValidator(_nothing)]
Numbers = Annotated[list[float | None] | None, BeforeValidator(_nothing)]


Cosines = Annotated[list[CosineRecord | None] | None, BeforeValidator(_nothing)]
Nulls = Annotated[list[NullRecord | None] | None, BeforeValidator(_nothing)]
PerBlock = Annotated[list[ReadingRecord | None] | None, BeforeValidator(_nothing)]


BY_STATE = ("hidden_norms", "gradient_norms")
BY_BLOCK = ("growth", "cosine", "cosine_out", "null", "null_out", "rotated", "frobenius", "rho", "nudging")
CREDIT = ("cosine", "cosine_out", "gamma", "null", "null_out", "null_gamma", "rotated", "rotated_gamma", "frobenius",
          "rho", "nudging")  # fmt: skip
Standing = Literal["seen", "in part", "declared", "not seen"]


class Moment(Record):
    """What is known of one net at one moment. Lists run over h_0 … h_L, or over the blocks 0 … L−1."""

    epoch: Annotated[int, Field(ge=0)] | None = None
    accuracy: Share | None = None
    loss: float | None = None
    dtype: str | None = None  # what the model computes in; None: float32
    hidden_norms: Sizes = None  # ‖h_0‖ … ‖h_L‖
    growth: Sizes = None  # by block, over what the block itself takes; None: it takes the state before it
    hidden_at: SizeAt = None  # by layer, of a log that does not tell L
    deepest_hidden: Size | None = None  # ‖h_L‖, of such a log
    gradient_norms: Sizes = None  # ‖g_0‖ … ‖g_L‖
    gradient_at: SizeAt = None  # by layer, of a log that does not tell L
    deepest_gradient: Size | None = None  # ‖g_L‖, of such a log
    reference_batch: Annotated[int, Field(ge=1)] | None = None  # the N that the gradient norms are stated at
    cosine: Cosines = None  # cos(a_l, g_l): at the block's input, as published
    cosine_out: Cosines = None  # cos(a_l, g_{l+1}): at the block's output
    gamma: CosineValue | None = None
    precision: PrecisionRecord | None = None  # at the deepest state
    null: Nulls = None  # of `cosine`
    null_out: Nulls = None  # of `cosine_out`
    null_gamma: NullRecord | None = None
    rotated: Nulls = None  # of `cosine_out`: the credits turned by one random rotation per draw
    rotated_gamma: NullRecord | None = None  # of the mean of `cosine_out`
    frobenius: PerBlock = None  # ⟨A, G⟩ / (‖A‖ ‖G‖) at the block's output
    reference: PrecisionRecord | None = None  # at the deepest state, free of the softmax's cancellation
    measured: Readings = Field(default_factory=dict)  # by the probes that are one file each, by their name
    drift: float | None = None  # described, not judged, as are the two below
    rho: Numbers = None
    nudging: Numbers = None

    @model_validator(mode="after")
    def _agrees(self) -> "Moment":
        for kind in ("hidden", "gradient"):
            for loose in (f"{kind}_at", f"deepest_{kind}"):
                if getattr(self, f"{kind}_norms") is not None and getattr(self, loose) is not None:
                    raise ValueError(f"{loose} is for logs that do not tell L; here it is an entry of {kind}_norms")
        counts = self.block_counts()
        if len(set(counts.values())) > 1:
            raise ValueError("its lists disagree about the number of blocks: " + _listing(counts))
        if 0 in counts.values():
            raise ValueError(f"by {min(counts)} the net has no blocks, so nothing can be audited")
        return self

    def block_counts(self) -> dict[str, int]:
        """The number of blocks L, as each list that is there tells it."""
        known = self.__dict__
        told = {name: len(known[name]) - 1 for name in BY_STATE if known[name] is not None}
        return told | {name: len(known[name]) for name in BY_BLOCK if known[name] is not None}


def credited(moments: Sequence[Moment], standing: Standing | None) -> list[Moment]:
    """The moments, without what was measured of a credit if that is not seen to train: they have no Γ."""
    if standing != "not seen":
        return list(moments)
    return [moment.model_copy(update=dict.fromkeys(CREDIT)) for moment in moments]


class SeedEvidence(Record):
    """One training: its moments in time order, of which the last is judged, and how it ended."""

    seed: int | None = None
    moments: list[Moment] = Field(default_factory=list)
    ended: Ended | None = None
    hits: bytes | None = None  # by test image, in order: 1 where the final prediction is right, else 0
    predicted: bool = False  # final predictions were recorded, so that `hits` may be asked for
    standing: Standing | None = None  # whether the credits that were compared are what trained; None: not known
    standing_why: str = ""

    @property
    def init(self) -> Moment | None:
        """The net at its random init, if that was recorded."""
        return next((moment for moment in self.moments if moment.epoch == 0), None)

    @property
    def final(self) -> Moment:
        """The moment that is judged; if there is none, one of which nothing is known."""
        return self.moments[-1] if self.moments else Moment()


class Baseline(Record):
    """Final accuracies by seed ("?": a number without a seed); None: that run is there, its accuracy is not known."""

    accuracy: Annotated[dict[str, Share | None], Field(min_length=1)]
    typed: bool = False  # somebody typed it in
    hits: dict[str, bytes | None] = Field(default_factory=dict)  # by seed as in SeedEvidence; None: recorded, not here

    @field_validator("accuracy")
    @classmethod
    def _keys(cls, accuracy: dict[str, float | None]) -> dict[str, float | None]:
        if UNSEEDED in accuracy and len(accuracy) > 1:
            raise ValueError("a number without a seed cannot be combined with others")
        for key in accuracy:
            if key != UNSEEDED and not key.removeprefix("-").isdecimal():
                raise ValueError(f"seeds are whole numbers, and {key!r} is not")
        return accuracy

    @classmethod
    def number(cls, accuracy: float) -> "Baseline":
        """A number that somebody typed in, without seeds or spread."""
        return cls(accuracy={UNSEEDED: accuracy}, typed=True)

    @classmethod
    def by_seed(cls, accuracy: Mapping[int, float | None], typed: bool = False) -> "Baseline":
        """One accuracy a seed."""
        return cls(accuracy={str(seed): value for seed, value in accuracy.items()}, typed=typed)

    @property
    def alone(self) -> bool:
        """Whether it is one typed-in number, to be subtracted from every seed."""
        return self.typed and UNSEEDED in self.accuracy


class Effort(Record):
    """How the learning rates of a subject and of what it is compared with were chosen.

    tuned    every arm has the rate that its own trials chose, on held-out training data and with another seed
    trials   by arm ("subject" or a baseline's name) the number of rates that were tried
    why      why the rates do not count as tuned; empty where they do
    alike    False: some arms were tried otherwise than others, or trained at a rate that no trial chose, so that the
             rates are neither tuned nor one
    rises    by how much the best baseline gains when its epochs are doubled, in one trial; None: not tried
    """

    tuned: bool
    trials: dict[str, Annotated[int, Field(ge=0)]] = Field(default_factory=dict)
    why: str = ""
    alike: bool = True
    rises: float | None = None


class Evidence(Record):
    """Everything known of one subject."""

    name: str
    rule: str | None = None
    depth: Annotated[int, Field(ge=1, le=BLOCKS)] | None = None  # the number of blocks, L
    trained: Annotated[int, Field(ge=0)] | None = None  # how many of them train, from the top; None: all
    residual: bool | None = None  # False: the net has no residual stream
    classes: Annotated[int, Field(ge=1)] | None = None
    width: Annotated[int, Field(ge=1)] | None = None  # of the narrowest block's output
    chance: Share | None = None  # the share of the most frequent class among the test labels
    effort: Effort | None = None  # None: one rate for all, or nothing is known of it
    budget: str = ""  # epochs, samples and net, in a few words
    seeds: list[SeedEvidence] = Field(default_factory=list)
    # frozen: the rule's own frozen net; frozen_bp: trained by bp; bp: its full net; shallow: embed and readout alone;
    # half: the rule's own net of which only the last ⌈L/2⌉ blocks train; half_bp: the same trained by bp
    baselines: dict[BaselineName, Baseline] = Field(default_factory=dict)
    notes: list[str] = Field(default_factory=list)
    doubts: list[str] = Field(default_factory=list)  # what its reader found that keeps it from holding
    symptoms: list[str] = Field(default_factory=list)  # what its reader found that explains, and never decides

    @model_validator(mode="after")
    def _agrees(self) -> "Evidence":
        known = [s.seed for s in self.seeds if s.seed is not None]
        twice = sorted(seed for seed, count in Counter(known).items() if count > 1)
        if twice:
            raise ValueError(f"seed {twice[0]} is there twice; one run must not count twice")
        told = {n for seed in self.seeds for moment in seed.moments for n in moment.block_counts().values()}
        if len(told | ({self.depth} - {None})) > 1:
            raise ValueError("it disagrees about the number of blocks: " + _listing(self._counts()))
        halves = [name for name in ("half", "half_bp") if name in self.baselines]
        if halves and self.blocks == 1:
            raise ValueError(f"{halves[0]} is given, and a net of one block has no lower half")
        if halves and self.trained is not None and self.trained != self.blocks:
            raise ValueError(f"{halves[0]} is for a subject all of whose blocks train")
        return self

    def _counts(self) -> dict[str, int]:
        """Every number of blocks that it tells, by where."""
        counts = {} if self.depth is None else {"depth": self.depth}
        for label, seed in self.labelled():
            for number, moment in enumerate(seed.moments):
                counts |= {f"{name} of seed {label}, moment {number}": n for name, n in moment.block_counts().items()}
        return counts

    @property
    def blocks(self) -> int | None:
        """The number of blocks L, stated or told by the length of a list."""
        if self.depth is not None:
            return self.depth
        told = [n for seed in self.seeds for moment in seed.moments for n in moment.block_counts().values()]
        return told[0] if told else None

    def labels(self) -> list[str]:
        """A name for each seed: its number, or "?1", "?2" where it is not known."""
        return [f"?{place}" if s.seed is None else str(s.seed) for place, s in enumerate(self.seeds, 1)]

    def labelled(self) -> list[tuple[str, SeedEvidence]]:
        """Every seed with its name."""
        return list(zip(self.labels(), self.seeds, strict=True))


def _listing(counts: Mapping[str, int]) -> str:
    """The first two that differ, in words."""
    (name, count), *rest = counts.items()
    other = next((n, c) for n, c in rest if c != count)
    return f"{name} means {count}, {other[0]} means {other[1]}"


def moment_of_snapshot(snapshot: Snapshot) -> Moment:
    """A line of a run's folder as evidence."""
    return Moment(**_told(snapshot))


def _told(snapshot: Snapshot) -> dict[str, Any]:
    return {name: getattr(snapshot, name) for name in TOLD_BY} | {
        "gamma": snapshot.gamma if snapshot.gamma_blocks else None,  # a mean over no block is not known
        "cosine": list(snapshot.cosine), "cosine_out": list(snapshot.cosine_out),
    }  # fmt: skip


TOLD_BY = ("epoch", "accuracy", "loss", "hidden_norms", "gradient_norms", "reference_batch", "measured")
DATED_BY = ("epoch", "accuracy", "loss", "hidden_norms", "gradient_norms", "reference_batch")
BARE = {**dict(Moment()), "measured": {}}
ALL, WHOLE, DATED = {*BARE}, {*TOLD_BY, "gamma", "cosine", "cosine_out"}, {*DATED_BY}  # the fields that are given
dated_by = attrgetter(*DATED_BY)


def moments_of_run(run: Run, whole: bool = True) -> list[Moment]:
    """A run's snapshots as moments; the last one with what was measured at the end, if it was.

    whole   False: those between the first and the last may lack their cosines. Our checks judge the last moment, and
            date by the others what norms, precision and nulls tell; snapshots have no nulls but those of readings.
    """
    snapshots = run.snapshots
    if isinstance(snapshots, QuickSnapshots) and run.config.blocks:
        last = len(snapshots) - 1
        some = range(last + 1)
        moments = [_sure(snapshots, at) if whole or at in (0, last) else _bare(snapshots, at) for at in some]
    else:
        with refused(run.path / "snapshots.jsonl", FRESH):
            moments = [moment_of_snapshot(s) for s in snapshots]
    if moments and run.probes is not None and run.probes.step == run.snapshots[-1].step:
        with refused(run.path / "probes.json", FRESH):
            moments[-1] = with_probes(moments[-1], run.probes, surely=is_sure(run))
    return moments


def is_sure(run: Run) -> bool:
    """Whether all that a moment asks for was asked when the run was read: its snapshots are surely fine, its probes
    are of as many blocks, and it has blocks."""
    return isinstance(run.snapshots, QuickSnapshots) and run.config.blocks > 0


def _sure(snapshots: QuickSnapshots, place: int) -> Moment:
    """`moment_of_snapshot`, without asking again what was asked of the snapshot."""
    return trusted(Moment, BARE | _told(snapshots[place]), WHOLE)


def _bare(snapshots: QuickSnapshots, place: int) -> Moment:
    """The moment of a snapshot without its cosines; with them, if a reading of it has a null."""
    read = snapshots.read[place]
    if read.has_nulls():
        return _sure(snapshots, place)
    # What a snapshot was allowed to have, a moment of at least one block is.
    return trusted(Moment, {**BARE, **dict(zip(DATED_BY, dated_by(read), strict=True))}, DATED)


def with_probes(moment: Moment, probes: DeepProbes, *, surely: bool = False) -> Moment:
    """A moment with the probes of the same net added; `surely`: that they are of one net is known (`is_sure`)."""

    def told(valued: Valued) -> float | None:
        return valued.value if valued.status == "ok" else None

    added: dict[str, Any] = {
        "precision": next(reversed(probes.precision), None), "null": probes.null, "null_out": probes.null_out,
        "null_gamma": probes.null_gamma, "drift": told(probes.drift), "rho": [told(v) for v in probes.rho],
        "nudging": [told(v) for v in probes.nudging], "measured": {**moment.measured, **probes.measured},
    }  # fmt: skip
    if (output := probes.output) is not None:
        sizes = [ReadingRecord(value=found.value, status=found.status) for found in output.frobenius]
        added |= {
            "rotated": output.null, "rotated_gamma": output.null_gamma, "frobenius": sizes,
            "reference": output.reference, "cosine_out": output.cosine or moment.cosine_out,
        }  # fmt: skip
    if surely:
        return trusted(Moment, {**moment.__dict__, **added}, ALL)
    return Moment(**(dict(moment) | added))  # which makes sure that both are of one net
