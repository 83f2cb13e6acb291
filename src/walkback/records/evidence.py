"""Evidence: everything known of a subject, from our runs, a live model or somebody's incomplete log.

`None` always means *not known*; nothing is filled in. A number that is not finite is kept as it is, and the checks
treat it as not known. What cannot be meant (an accuracy of 61.5, a negative norm, lists that disagree about the number
of blocks) is refused here, once, so that no check has to wonder.
"""

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from operator import attrgetter
from typing import Annotated, Any, get_args

from pydantic import BeforeValidator, Field, field_validator, model_validator

from walkback.errors import RecordError
from walkback.records.baselines import BaselineName as BaselineName
from walkback.records.baselines import Ended as Ended
from walkback.records.baselines import alike, depth_of, ended, fittest, roles
from walkback.records.baselines import half as half
from walkback.records.doubts import Print, doubts_of_runs, prints_of
from walkback.records.quick import QuickSnapshots, trusted
from walkback.records.run import FRESH, Known, Run, read_snapshots
from walkback.records.schema import (
    BLOCKS,
    CosineRecord,
    CosineValue,
    DeepProbes,
    NullRecord,
    PrecisionRecord,
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


BY_STATE = ("hidden_norms", "gradient_norms")
BY_BLOCK = ("growth", "cosine", "cosine_out", "null", "null_out", "rho", "nudging")


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


class SeedEvidence(Record):
    """One training: its moments in time order, of which the last is judged, and how it ended."""

    seed: int | None = None
    moments: list[Moment] = Field(default_factory=list)
    ended: Ended | None = None

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


class Evidence(Record):
    """Everything known of one subject."""

    name: str
    rule: str | None = None
    depth: Annotated[int, Field(ge=1, le=BLOCKS)] | None = None  # the number of blocks, L
    trained: Annotated[int, Field(ge=0)] | None = None  # how many of them train, from the top; None: all
    residual: bool | None = None  # False: the net has no residual stream
    classes: Annotated[int, Field(ge=1)] | None = None
    seeds: list[SeedEvidence] = Field(default_factory=list)
    # frozen: the rule's own frozen net; frozen_bp: trained by bp; bp: its full net; shallow: embed and readout alone;
    # half: the rule's own net of which only the last ⌈L/2⌉ blocks train; half_bp: the same trained by bp
    baselines: dict[BaselineName, Baseline] = Field(default_factory=dict)
    notes: list[str] = Field(default_factory=list)
    doubts: list[str] = Field(default_factory=list)  # what its reader found that keeps it from holding

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
WITHOUT_HALVES: tuple[BaselineName, ...] = ("frozen", "frozen_bp", "bp", "shallow")
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

    added = {
        "precision": next(reversed(probes.precision), None), "null": probes.null, "null_out": probes.null_out,
        "null_gamma": probes.null_gamma, "drift": told(probes.drift), "rho": [told(v) for v in probes.rho],
        "nudging": [told(v) for v in probes.nudging], "measured": {**moment.measured, **probes.measured},
    }  # fmt: skip
    if surely:
        return trusted(Moment, {**moment.__dict__, **added}, ALL)
    return Moment(**(dict(moment) | added))  # which makes sure that both are of one net


def evidence_of_runs(
    name: str,
    runs: Sequence[Run],
    others: Sequence[Known] = (),
    *,
    baselines: Mapping[BaselineName, Sequence[Known] | Baseline] | None = None,
    classes: int | None = None,
    prints: Callable[[Known], Sequence[Print]] | None = None,
    whole: bool = True,
) -> Evidence:
    """What the folders of one subject's runs tell: one config, one run a seed.

    Baselines are found among `runs` and `others`: runs of the same config but for the seed, with no block trained
    (frozen), by rule bp with none (frozen_bp) and by bp with all (bp), and with only the upper half of the blocks
    trained (half, half_bp); for the penalty see `roles` and `fittest`.
    `baselines` gives any of them outright, among them the shallow net, which no other config can be recognised as. A
    baseline that did not finish is there without its accuracy, so that what rests on it is inconclusive.
    `prints`, which tells copies, is for baselines that are not read in full: see `prints_of`.
    `whole` is as in `moments_of_run`.
    """
    if not runs:
        raise RecordError(f"no run is given for {name}", "name at least one run folder")
    config = runs[0].config
    for run in runs:
        if run.config is not config and not alike(run.config, config, ("seed",)):
            raise RecordError(
                f"{run.path} and {runs[0].path} differ in more than the seed: they are not one subject",
                "judge them separately",
            )
    seeds = [run.config.seed for run in runs]
    if len(set(seeds)) < len(seeds):
        raise RecordError(f"two of the runs of {name} have the same seed", "give one run for each seed")
    depth = depth_of(runs)
    found: dict[BaselineName, list[Known]] = {}
    for other in [*others, *runs]:
        for key in roles(other.config, config, depth):
            found.setdefault(key, []).append(other)
    chosen: dict[BaselineName, Sequence[Known] | Baseline] = {key: fittest(there) for key, there in found.items()}
    if "half_bp" in found:
        # What bp's lower half brings is told by two nets of one λ.
        full = {run.config.penalty for run in _runs(chosen.get("bp"))}
        same = [run for run in found["half_bp"] if run.config.penalty in full]
        chosen.pop("half_bp")
        chosen |= {"half_bp": fittest(same)} if same else {}
    used = [run for given in (chosen | dict(baselines or {})).values() for run in _runs(given)]
    notes = [f"seed {run.config.seed}: {note}" for run in runs for note in run.notes]
    notes += [
        f"seed {r.config.seed} is not finished; it is judged at its last snapshot" for r in runs if r.result is None
    ]
    settled: dict[BaselineName, Baseline] = {}
    for key, given in (chosen | dict(baselines or {})).items():
        settled[key] = given if isinstance(given, Baseline) else _baseline(key, given, notes)
    about: dict[str, Any] = {
        "name": name, "rule": config.rule, "depth": depth,
        "trained": None if config.train_last == depth else config.train_last,
        "residual": config.residual, "classes": classes, "seeds": [_seed_told(run, whole) for run in runs],
        "baselines": settled, "notes": notes, "doubts": doubts_of_runs([*runs, *used], prints or _read_prints),
    }  # fmt: skip
    known = {*get_args(BaselineName)} if depth != 1 and config.train_last == depth else {*WITHOUT_HALVES}
    if classes is None and {*settled} <= known and all(map(is_sure, runs)):
        return trusted(Evidence, about, {*about})  # one config, each seed once, and halves only where there are any
    with refused(f"the runs of {name} cannot be judged", FRESH):
        return Evidence(**about)


def _seed_told(run: Run, whole: bool) -> SeedEvidence:
    told: dict[str, Any] = {"seed": run.config.seed, "moments": moments_of_run(run, whole), "ended": ended(run)}
    return trusted(SeedEvidence, told, {*told}) if is_sure(run) else SeedEvidence(**told)


def _runs(given: Sequence[Known] | Baseline | None) -> Sequence[Known]:
    return () if given is None or isinstance(given, Baseline) else given


def _read_prints(run: Known) -> Sequence[Print]:
    return prints_of(run.snapshots) if isinstance(run, Run) else prints_of(read_snapshots(run.path)[0])


def _baseline(key: str, runs: Sequence[Known], notes: list[str]) -> Baseline:
    accuracy: dict[int, float | None] = {}
    for run in runs:
        seed = run.config.seed
        if seed in accuracy:
            raise RecordError(f"two runs of the baseline {key} have seed {seed}", "give one run for each seed")
        finished = run.result is not None and run.result.status == "finished"
        accuracy[seed] = run.result.accuracy if run.result is not None and finished else None
        if not finished:
            ends = {"diverged": "diverged", "fired": "was ended because a check fired"}
            how = "is not finished" if run.result is None else ends[run.result.status]
            notes.append(f"the baseline {key} of seed {seed} {how}: its accuracy is left out")
    with refused(f"the baseline {key}, {runs[0].path}", FRESH):
        return Baseline.by_seed(accuracy)
