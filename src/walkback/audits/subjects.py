"""Runs grouped into subjects, each with the runs that can be its baselines. Linear in the number of runs.

Whether one run is a baseline of another is asked of those alone that agree in all that the question holds fixed: they
are looked up by it, instead of holding every run against every other.
"""

from collections.abc import Mapping, Sequence
from typing import Any, Generic, NamedTuple, TypeVar

from walkback.audits.titles import titles
from walkback.records import BaselineName, Evidence, Run, RunConfig, evidence_of_runs
from walkback.records.baselines import half, is_half_of
from walkback.records.rates import NOTHING_TRIED, ChosenRates
from walkback.records.run import Known
from walkback.records.sharing import subject_of

K = TypeVar("K", bound=Known)
ANY_RUN: dict[str, Any] = {"seed": 0, "train_last": 0}
ANY_PENALTY = {**ANY_RUN, "penalty": 0.0}
BY_BP = {**ANY_PENALTY, "rule": "bp", "rule_options": {}, "rule_source": None}
NO_BLOCKS = {**BY_BP, "rule": "", "net_options": {}, "blocks": 0}


class Group(NamedTuple, Generic[K]):
    """One subject: its name, its runs by seed, and the runs among which its baselines are, in the order of all."""

    title: str
    runs: list[K]
    others: list[K]
    shallow: list[K]


def evidence_by_subject(runs: Sequence[Run], rates: ChosenRates = NOTHING_TRIED) -> list[Evidence]:
    """Runs grouped into subjects (one config but for the seed), each with the baselines found among all of them.

    Frozen and shallow nets are baselines, not subjects, unless there is nothing else; so are nets of which only the
    upper half trains, where the same with all blocks trained is there. `rates`: those that trials chose.
    """
    return [evidence for evidence, _ in runs_by_subject(runs, rates)]


def runs_by_subject(runs: Sequence[Run], rates: ChosenRates = NOTHING_TRIED) -> list[tuple[Evidence, list[Run]]]:
    """The same with the runs of each subject beside its evidence."""
    found = []
    for group in grouped(runs, rates):
        baselines: dict[BaselineName, Sequence[Run]] = {"shallow": group.shallow} if group.shallow else {}
        evidence = evidence_of_runs(group.title, group.runs, group.others, baselines=baselines, rates=rates)
        found.append((evidence, group.runs))
    return found


def grouped(runs: Sequence[K], rates: ChosenRates = NOTHING_TRIED) -> list[Group[K]]:
    """The subjects among these runs, as `evidence_by_subject` tells them."""
    any_run = _of_any_rate(ANY_RUN, rates)
    groups: dict[str, list[K]] = {}
    for run in sorted(runs, key=lambda run: run.config.seed):  # stable: rules stay in the order they came
        groups.setdefault(subject_of(run.config), []).append(run)
    full = [group for group in groups.values() if group[0].config.train_last > 0]
    whole: dict[object, list[RunConfig]] = {}  # those all of whose blocks train, by what their upper halves share
    for group in full:
        config = group[0].config
        if config.train_last == config.blocks:
            whole.setdefault(same_but(config, any_run), []).append(config)

    def is_half(config: RunConfig) -> bool:
        if config.train_last == config.blocks:
            return False
        fellows = whole.get(same_but(config, any_run), ())
        tried = rates.of(config) is not None  # then its rate is its own
        return any((tried or other.lr == config.lr) and is_half_of(config, other, other.blocks) for other in fellows)

    full = [group for group in full if not is_half(group[0].config)]
    subjects = full or [group for group in groups.values() if group[0].config.blocks]
    shelf = Shelf(runs, rates)
    named = titles([group[0].config for group in subjects])
    return [
        Group(title, group, shelf.others(group[0].config), shelf.shallow(group[0].config))
        for group, title in zip(subjects, named, strict=True)
    ]


class Shelf(Generic[K]):
    """Runs, laid out by what a baseline shares with its subject."""

    def __init__(self, runs: Sequence[K], rates: ChosenRates = NOTHING_TRIED):
        self._rates = rates
        self._any_run, self._any_penalty, self._by_bp, self._no_blocks = (
            _of_any_rate(those, rates) for those in (ANY_RUN, ANY_PENALTY, BY_BP, NO_BLOCKS)
        )
        self._places: dict[tuple[object, ...], list[int]] = {}
        self._runs = runs
        for place, run in enumerate(runs):
            config, parts = run.config, parts_of(run.config)
            if config.train_last == 0:
                self._put(("frozen", same_parts(parts, self._any_penalty)), place)
            self._put(("half", same_parts(parts, self._any_run), config.train_last), place)
            if config.rule == "bp":
                penalty = config.penalty if config.train_last else None  # a frozen net is the same whatever its λ
                self._put(("bp", same_parts(parts, self._by_bp), config.train_last, penalty), place)
            if config.rule == "bp" and not config.blocks:
                self._put(("shallow", same_parts(parts, self._no_blocks)), place)

    def _put(self, key: tuple[object, ...], place: int) -> None:
        self._places.setdefault(key, []).append(place)

    def others(self, subject: RunConfig) -> list[K]:
        """Every run that has a role among the baselines of `subject`, but for the shallow net; some that have none."""
        upper, parts = half(subject.blocks), parts_of(subject)
        by_bp = same_parts(parts, self._by_bp)
        keys: list[tuple[object, ...]] = [
            ("frozen", same_parts(parts, self._any_penalty)), ("half", same_parts(parts, self._any_run), upper),
            ("bp", by_bp, 0, None),
        ]  # fmt: skip
        for penalty in (0.0, subject.penalty):
            keys += [("bp", by_bp, subject.blocks, penalty), ("bp", by_bp, upper, penalty)]
        places = {place for key in keys for place in self._places.get(key, ())}
        return [self._runs[place] for place in sorted(places)]

    def shallow(self, subject: RunConfig) -> list[K]:
        """The nets of `subject` without their blocks."""
        places = self._places.get(("shallow", same_but(subject, self._no_blocks)), ())
        found = [self._runs[place] for place in places if is_shallow(self._runs[place].config, subject)]
        return [run for run in found if self._rates.pair(run.config, subject)]


def _of_any_rate(changes: Mapping[str, Any], rates: ChosenRates) -> Mapping[str, Any]:
    """Where trials chose rates, baselines may have others than their subject: `at_its_rate` asks."""
    return {**changes, "lr": 0.0} if rates else changes


def same_but(config: RunConfig, changes: Mapping[str, Any]) -> object:
    """What two configs that are equal but for some fields have in common: equal exactly where they would be."""
    return same_parts(parts_of(config), changes)


def parts_of(config: RunConfig) -> dict[str, object]:
    """The fields of a config, each as something that can be looked up by."""
    return {name: _frozen(value) if type(value) in (dict, list) else value for name, value in config.__dict__.items()}


def same_parts(parts: dict[str, object], changes: Mapping[str, Any]) -> tuple[object, ...]:
    """`same_but` of the parts of a config, of which one is asked several times. What is changed is equal in both."""
    return (*(value for name, value in parts.items() if name not in changes),)


def _frozen(value: Any) -> object:
    if isinstance(value, dict):
        try:
            return frozenset(value.items())
        except TypeError:  # there are lists or tables inside
            return frozenset((key, _frozen(inside)) for key, inside in value.items())
    return (type(value), *map(_frozen, value)) if isinstance(value, list | tuple) else value


def is_shallow(other: RunConfig, subject: RunConfig) -> bool:
    """Whether a net of no blocks, trained by bp with the same budget, is that of `subject` without them: its options
    are the net's own but for the one that takes the blocks away."""
    own, theirs = subject.net_options, other.net_options
    return own.keys() == theirs.keys() and sum(theirs[name] != value for name, value in own.items()) == 1
