"""What a study is: runs that are declared, records that are gathered, tables and figures made from them alone.

A study says which arms it compares; an arm is a set of runs that differ in their seed alone. Runs are shared between
studies, and with every other command, by the hash of their config, so nothing is trained twice.
"""

import math
from collections.abc import Callable, Container, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from walkback.checks import Finding, Judgement
from walkback.errors import RecordError
from walkback.nets import defaults, find_net
from walkback.records import BaselineName, Evidence, Run, RunConfig, evidence_of_runs, read_run
from walkback.registry import Registry
from walkback.report import GLYPHS, Cell, Stat, Table, depth_cell, gain, gamma_cells, lower_cell, variant_words
from walkback.train import SEEDS, plan
from walkback_paper.quantities import Quantity

if TYPE_CHECKING:
    from matplotlib.figure import Figure

STUDIES: "Registry[Study]" = Registry("study")
CLASSES = 10  # of every data set that a study trains on
CHANCE = 1 / CLASSES
DATA_NAMES = {"cifar10": "CIFAR-10", "mnist1d": "MNIST-1D", "digits": "8×8 digits"}
WAITS = "depends on runs that are not finished"


@dataclass(frozen=True)
class Arm:
    """Runs that differ in their seed alone. `rank`: arms of a lower one are trained first, whatever study asks.

    waiting  of an arm that follows from records that are not there yet: runs as many and as long as its own will be,
             which is all that is known of them; it has no configs then
    """

    name: str
    configs: tuple[RunConfig, ...]
    rank: int = 0
    waiting: tuple[RunConfig, ...] = ()

    @property
    def count(self) -> int:
        """How many runs it has, or will have."""
        return len(self.configs or self.waiting)


def distinct(arms: Iterable[Arm]) -> list[RunConfig]:
    """The runs of some arms, each once."""
    return list({config.hash(): config for arm in arms for config in arm.configs}.values())


@dataclass(frozen=True)
class Extent:
    """How much of a study is run: on CIFAR-10 as published, or `quick`, on embedded data, within minutes.

    Quick halves every width, trains 16 epochs of MNIST-1D (transformers: the 8×8 digits, which are images), and keeps
    everything else. `seeds` and `epochs` replace those that a study declares; `rules` the rules of the panel.
    """

    quick: bool = False
    seeds: tuple[int, ...] = SEEDS
    epochs: int | None = None
    rules: tuple[str, ...] = ()

    def arm(
        self, name: str, rule: str, *, net: str = "resmlp", epochs: int = 100, data: str = "cifar10",
        net_options: Mapping[str, Any] | None = None, rank: int = 0, seeds: int | None = None, quick_epochs: int = 16,
        **settings: Any,
    ) -> Arm:  # fmt: skip
        """The runs of one rule, one per seed (the first `seeds` of them); other `settings` as for `plan`."""
        options = dict(net_options or {})
        if self.quick:
            family = find_net(net)
            options = family.quick({**defaults(family), **options})
            data = data if data != "cifar10" else "digits" if family.images else "mnist1d"
            settings.setdefault("probe_images", 512)
            epochs = quick_epochs
        configs = plan(
            data=data, net=net, rules=[rule], seeds=self.seeds[:seeds], net_options=options,
            epochs=epochs if self.epochs is None else self.epochs, **settings,
        )  # fmt: skip
        return Arm(name, tuple(configs), rank)

    def words(self) -> str:
        """The option that names this extent on the command line."""
        parts = ["--quick"] if self.quick else []
        parts += [f"--seeds {','.join(map(str, self.seeds))}"] if self.seeds != SEEDS else []
        parts += [f"--epochs {self.epochs}"] if self.epochs is not None else []
        parts += [f"--rules {','.join(self.rules)}"] if self.rules else []
        return "".join(f" {part}" for part in parts)


class Gap(NamedTuple):
    """A run that a study declares and that cannot be used, and why."""

    arm: str
    seed: int
    why: str


@dataclass(frozen=True)
class Collected:
    """What is there of a study: by arm the runs that finished or diverged, in the order of the seeds; and the gaps.

    Diverged runs are judged; `g[arm]`, which is drawn and averaged, leaves them out.
    """

    study: str
    extent: Extent
    arms: Mapping[str, Arm]
    runs: Mapping[str, Sequence[Run]]
    gaps: Sequence[Gap]

    def __getitem__(self, arm: str) -> Sequence[Run]:
        return [run for run in self.runs[arm] if run.ended == "finished"]

    def last(self, arm: str, what: Quantity) -> Stat:
        """A quantity at the end, over the finished seeds."""
        return what.over(self[arm])

    def cells(self, arm: str, *quantities: Quantity) -> list[Cell]:
        """Several quantities as cells of a table; one that was measured in no seed is None."""
        found = {quantity: self.last(arm, quantity) for quantity in quantities}
        return [stat if stat.n or not quantity.partly else None for quantity, stat in found.items()]

    def accuracy(self, arm: str) -> dict[int, float]:
        """Final accuracy by seed."""
        return {run.config.seed: run.snapshots[-1].accuracy for run in self[arm]}

    def gain(self, own: str, other: str) -> Stat:
        """How far the accuracy of one arm lies above that of another, for the seeds that both have."""
        a, b = self.accuracy(own), self.accuracy(other)
        both = [seed for seed in a if seed in b]
        return gain([a[seed] for seed in both], [b[seed] for seed in both])

    def seeds(self, *arms: str) -> str:
        """How many seeds are there of those declared: "3", or "1 of 3"."""
        fewest = min(len(self[arm]) for arm in arms)
        wanted = max(self.arms[arm].count for arm in arms)
        return str(fewest) if fewest == wanted else f"{fewest} of {wanted}"

    def every(self) -> list[Run]:
        """All finished runs, each once."""
        return list({run.path.name: run for arm in self.arms for run in self[arm]}.values())

    def evidence(
        self, arm: str, baselines: Mapping[BaselineName, str] | None = None, name: str = ""
    ) -> Evidence | None:
        """The evidence of an arm; None if no run of it ended.

        Its baselines are the arms that are given by role, else those found among the study's runs.
        """
        runs = self.runs[arm]
        if not runs:
            return None
        if baselines is None:
            others = [run for each in self.runs.values() for run in each]
            return evidence_of_runs(name or arm, runs, others)
        given = {role: self.runs[other] for role, other in baselines.items() if self.runs.get(other)}
        return evidence_of_runs(name or arm, runs, baselines=given)

    def missing(self, arms: Iterable[str], most: int) -> str:
        """The gaps in words, with what would train them: each reason once, with its arms (`most` of them) and seeds."""
        by_arm: dict[tuple[str, str], list[int]] = {}
        for gap in self.gaps:
            if gap.arm in arms:
                by_arm.setdefault((gap.why, gap.arm), []).append(gap.seed)
        by_reason: dict[str, list[str]] = {}
        for (why, arm), seeds in by_arm.items():
            whole = len(seeds) == self.arms[arm].count
            by_reason.setdefault(why, []).append(arm if whole else f"{arm} (seed {', '.join(map(str, seeds))})")
        reasons = "; ".join(f"{why}: {_first(arms, most)}" for why, arms in by_reason.items())
        return f"{reasons}. `walkback study run {self.study}{self.extent.words()}` continues." if reasons else ""

    def note(self, words: str, arms: Iterable[str] | None = None) -> str:
        """What stands below a figure: what it was drawn from, how, and in short what is not there."""
        arms = list(self.arms if arms is None else arms)
        alone, missing = [arm for arm in arms if len(self[arm]) == 1], self.missing(arms, most=3)
        if alone and all(len(self[arm]) <= 1 for arm in arms):
            spread = "One seed each: no spread can be shown."
        else:
            spread = f"One seed, hollow: {_first(alone, 4, '; ')}." if alone else ""
        variants = variant_words(run.config for arm in arms for run in self[arm])
        parts = [self._setting(arms), words, variants, spread, f"Not drawn, {missing}" if missing else ""]
        return " ".join(filter(None, parts))

    def notes(self, *words: str) -> list[str]:
        """What stands below a table: how to read it, and every run that is not there, with what would train it."""
        missing = self.missing(self.arms, most=1000)
        variants = variant_words(run.config for run in self.every())
        return list(filter(None, [*words, variants, f"Missing, {missing}" if missing else ""]))

    def _setting(self, arms: Sequence[str]) -> str:
        """The data, net, budget and seeds of some arms."""
        configs = [config for name in arms for config in self.arms[name].configs or self.arms[name].waiting]

        def listing(values: Iterable[Any]) -> str:
            return " and ".join(map(str, dict.fromkeys(values)))

        nets = listing(net_words(c) for c in configs if c.blocks)
        data = listing(DATA_NAMES.get(c.data, c.data) for c in configs)
        counts = {len(self[name]) for name in arms if self[name]}
        most = max(counts, default=0)
        seeds = {0: "no run", 1: "1 seed"}.get(most, f"{most} seeds")
        if len(counts) > 1:
            seeds = f"up to {most} seeds"
        return f"{data}; {nets}; {listing(c.epochs for c in configs)} epochs; {seeds}."


def _first(names: Sequence[str], most: int, mark: str = ", ") -> str:
    more = [f"{len(names) - most} more"] if len(names) > most else []
    return mark.join([*names[:most], *more])


def net_words(config: RunConfig) -> str:
    """A run's net in words."""
    family = find_net(config.net)
    return family.words({**defaults(family), **config.net_options})


def gather(study: "Study", extent: Extent, *places: Path | str) -> Collected:
    """The records of a study's runs, wherever among `places` they lie. Nothing fails for want of a run.

    Arms that follow from records are made of those of the first arms alone.
    """
    known: dict[str, Run | str] = {}

    def collected(declared: Sequence[Arm]) -> Collected:
        runs: dict[str, list[Run]] = {arm.name: [] for arm in declared}
        gaps: list[Gap] = []
        for arm in declared:
            gaps += [Gap(arm.name, config.seed, WAITS) for config in arm.waiting]
            for config in arm.configs:
                name = config.folder()
                found = known[name] = known[name] if name in known else _find(name, config, places)
                if isinstance(found, str):
                    gaps.append(Gap(arm.name, config.seed, found))
                    continue
                runs[arm.name].append(found)
                if found.ended == "diverged" and found.result is not None:
                    gaps.append(Gap(arm.name, config.seed, found.result.says))
        return Collected(study.name, extent, {arm.name: arm for arm in declared}, runs, gaps)

    first = collected(study.arms(extent))
    return first if study.then is None else collected([*first.arms.values(), *study.then(first)])


def _find(name: str, config: RunConfig, places: Sequence[Path | str]) -> Run | str:
    """The run of that name that finished or diverged, or why there is none."""
    why = "not trained"
    for place in places:
        path = Path(place) / name
        if not path.exists():
            continue
        try:
            run = read_run(path)
        except RecordError as error:
            why = f"cannot be read ({error.what})"
            continue
        if run.ended != "stopped" and run.snapshots:
            return run
        epochs = f"{max(0, len(run.snapshots) - 1)} of {config.epochs} epochs"
        why = f"unfinished ({epochs})" if run.result is None else run.result.says
    return why


@dataclass(frozen=True)
class Study:
    """A declaration: what is run, what is compared, what is drawn.

    measure  what is measured without training, at the end of `run`, and kept in the run folders
    place    where it stands in the list
    then     arms that follow from the records of the first arms, and from nothing else: settings chosen by trials
    """

    name: str
    asks: str
    arms: Callable[[Extent], Sequence[Arm]]
    tables: Callable[[Collected], Sequence[Table]]
    figures: Mapping[str, Callable[[Collected], "Figure | None"]] = field(default_factory=dict)
    measure: Callable[[Collected, Path | None], None] | None = None
    place: int = 100
    then: Callable[[Collected], Sequence[Arm]] | None = None

    def declared(self, extent: Extent, *places: Path | str) -> Sequence[Arm]:
        """Its arms, with those that follow from the records in some folders."""
        return list(gather(self, extent, *places).arms.values()) if self.then is not None else self.arms(extent)

    def configs(self, extent: Extent, *places: Path | str) -> list[RunConfig]:
        """Every run that it needs, each once, in the order of its arms, as far as the records in `places` show."""
        return distinct(self.declared(extent, *places))


def register(study: Study) -> Study:
    """Let a study be found by its name."""
    return STUDIES.add(study.name, study)


def studies(*names: str) -> list[Study]:
    """The studies of those names in the order of their places; all of them without any."""
    return sorted((STUDIES.get(name) for name in names or STUDIES.names()), key=lambda study: (study.place, study.name))


def in_order(wanted: Sequence[Study], extent: Extent, *places: Path | str) -> list[Arm]:
    """The arms of the studies by their rank, then as the studies declare them."""
    return sorted((arm for study in wanted for arm in study.declared(extent, *places)), key=lambda arm: arm.rank)


def next_up(arms: Sequence[Arm], tried: Container[str]) -> list[RunConfig]:
    """The runs to be trained now, each once, but for those tried already, which are named by their hash.

    While an arm waits for records, nothing of a higher rank is trained before what it may wait for.
    """
    waits = min((arm.rank for arm in arms if arm.waiting), default=math.inf)
    before = [config for config in distinct(arm for arm in arms if arm.rank <= waits) if config.hash() not in tried]
    return before or [config for config in distinct(arms) if config.hash() not in tried]


def finding(judgement: Judgement | None, check: str) -> Finding | None:
    """What one check found."""
    return next((f for f in judgement.findings if f.check == check), None) if judgement else None


def answer_cells(judgement: Judgement | None) -> list[str]:
    """Our answers as cells: on accuracy, the gains by depth, the lower half, Γ and for how many blocks it stands."""
    if judgement is None:
        return ["–"] * 5
    answer = f"{GLYPHS[judgement.verdict]} {judgement.answer}"
    return [answer, depth_cell(judgement), lower_cell(judgement), *gamma_cells(judgement)]
