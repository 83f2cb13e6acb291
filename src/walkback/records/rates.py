"""The learning rate of each arm, chosen by trials on held-out training samples: a pure function of their records.

An arm is what is trained but for its seed and its rate: a rule, its frozen net, the shallow net. Its trials are runs
that lie in the folder `trials` beside those of the audit. The test split cannot enter: a trial that was measured on it
is refused, and nothing but trials is looked at.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import Any

from walkback.errors import RecordError
from walkback.records.config_names import hash_with
from walkback.records.evidence import BaselineName, Effort
from walkback.records.folder import Run, find_runs
from walkback.records.schema import RunConfig

TRIALS = "trials"  # the folder of the trials, beside the runs
TRIAL_SEED = 31337  # of every trial: no audit may have it
FEWEST = 5  # rates of a grid that counts
APART = 3.4  # between two rates that are neighbours; 3e-4 and 1e-3 are 3.33 apart
ANY_RATE: Mapping[str, Any] = {"seed": 0, "lr": 1.0, "validation": 0.0, "probe_images": 1}
# What is tried, in words: the shallow net where a net has one.
ASKED = {
    "subject": "the subject", "bp": "bp", "frozen": "the frozen net", "frozen_bp": "bp's frozen net",
    "shallow": "the shallow net",
}  # fmt: skip


@dataclass(frozen=True)
class Choice:
    """What the trials of one arm say.

    accuracy  of the trials that finished, on the held-out samples after the last epoch, by rate
    diverged  rates at which training diverged: tried, and never chosen
    missing   rates without a finished trial: while there are any, nothing is chosen
    how       what else these trials had: the seed and the share that was held out
    """

    accuracy: Mapping[float, float]
    diverged: Sequence[float]
    missing: Sequence[float]
    how: frozenset[tuple[int, float]] = frozenset()

    @property
    def rates(self) -> list[float]:
        """All rates that are, or should be, tried, in order."""
        return sorted([*self.accuracy, *self.diverged, *self.missing])

    @property
    def lr(self) -> float | None:
        """The rate of the highest accuracy, the smaller one of two that tie; None while it is not settled."""
        if self.missing or not self.accuracy:
            return None
        return max(self.accuracy, key=lambda rate: (self.accuracy[rate], -rate))

    @property
    def edge(self) -> bool:
        """Whether it is the smallest or the largest that was tried: the best may lie outside."""
        return self.lr is not None and self.lr in (self.rates[0], self.rates[-1])

    def words(self) -> str:
        """The rate, or why there is none.

        >>> Choice({1e-4: 0.2, 1e-3: 0.3, 3e-3: 0.1}, [], []).words()
        '0.001'
        >>> Choice({1e-4: 0.2, 1e-3: 0.3}, [3e-3], []).words(), Choice({1e-4: 0.2, 1e-3: 0.3}, [], []).words()
        ('0.001', '0.001 (edge)')
        """
        if self.lr is not None:
            return f"{self.lr:g} (edge)" if self.edge else f"{self.lr:g}"
        return "not settled" if self.missing else "all diverged"

    def trials(self) -> str:
        """How many trials there were.

        >>> Choice({1e-4: 0.2}, [3e-3], [1e-3]).trials()
        '2 of 3, 1 diverged'
        """
        tried = len(self.accuracy) + len(self.diverged)
        counted = f"{tried} of {tried + len(self.missing)}" if self.missing else str(tried)
        return f"{counted}, {len(self.diverged)} diverged" if self.diverged else counted


Arm = tuple[float | None, Choice | None]  # the rate that something was trained at, and what its trials say


def choose(trials: Iterable[Run], rates: Iterable[float] = ()) -> Choice:
    """The choice that the trials of one arm amount to. `rates`: those that should have been tried."""
    by_rate: dict[float, list[Run]] = {rate: [] for rate in rates}
    for run in trials:
        if not run.config.validation:
            raise RecordError(
                f"{run.path} was measured on the test split, by which no learning rate may be chosen",
                "train the trials on a part of the training data: validation=0.1",
            )
        by_rate.setdefault(run.config.lr, []).append(run)
    accuracy: dict[float, float] = {}
    diverged, missing = [], []
    for rate, runs in by_rate.items():
        # Of two trials at one rate, with other seeds, one counts, whichever was read first; `effort` says so.
        one = min(runs, key=_rank, default=None)
        result = None if one is None else one.result
        if result is None or result.status == "fired":
            missing.append(rate)
        elif result.status == "diverged":
            diverged.append(rate)
        else:
            accuracy[rate] = result.accuracy
    how = frozenset((run.config.seed, run.config.validation) for runs in by_rate.values() for run in runs)
    return Choice(accuracy, diverged, missing, how)


def arm_of(config: RunConfig) -> str:
    """A name for what a run shares with its trials. The λ of a frozen net asks for nothing: see `BaselineIndex.of`."""
    return hash_with(config, ANY_RATE if config.train_last else {**ANY_RATE, "penalty": 0.0})


def find_trials(*places: Path | str) -> list[Path]:
    """The trials that belong to the runs in some folders, or to runs that are named one by one."""
    around = {path.parent if (path / "config.json").exists() else path for path in map(Path, places)}
    return [run for path in sorted(around) if (path / TRIALS).is_dir() for run in find_runs(path / TRIALS)]


class ChosenRates:
    """The rates that some trials choose, by arm. Small: other processes are sent it."""

    def __init__(self, trials: Iterable[Run] = ()):
        arms: dict[str, list[Run]] = {}
        for run in sorted((run for run in trials if run.config.validation), key=lambda run: run.path.name):
            arms.setdefault(arm_of(run.config), []).append(run)
        self._choices = {arm: choose(runs) for arm, runs in arms.items()}

    def of(self, config: RunConfig) -> Choice | None:
        """What the trials of a run's arm say; None: it has none."""
        return self._choices.get(arm_of(config)) if self._choices else None

    def tuned(self, config: RunConfig) -> bool:
        """Whether a run has the rate that its trials chose."""
        choice = self.of(config)
        return choice is not None and choice.lr == config.lr

    def pair(self, other: RunConfig, subject: RunConfig) -> bool:
        """Whether the rate of `other` is one that a baseline of `subject` may have.

        The rate that its own trials chose, if the subject has the one that the subject's trials chose; else the
        subject's.
        """
        choice = self.of(other) if self.tuned(subject) else None
        return other.lr == (subject.lr if choice is None or choice.lr is None else choice.lr)

    def best(self, configs: Iterable[RunConfig]) -> RunConfig | None:
        """Which of these did best in its trials, at the rate that they chose."""
        known = [(choice.accuracy[choice.lr], c) for c in configs if (choice := self.of(c)) and choice.lr is not None]
        return None if not known else max(known, key=lambda pair: pair[0])[1]

    def rises(self, config: RunConfig) -> float | None:
        """By how much an arm gains at its rate with twice the epochs; None: not tried."""
        choice, longer = self.of(config), self.of(doubled(config))
        if choice is None or longer is None or choice.lr is None or choice.how != longer.how:
            return None
        return longer.accuracy[choice.lr] - choice.accuracy[choice.lr] if choice.lr in longer.accuracy else None

    def effort(
        self, subject: RunConfig, seeds: Sequence[int], baselines: Mapping[BaselineName, RunConfig]
    ) -> Effort | None:
        """How the rates of a subject and of its baselines were chosen; None: nothing was tried for the subject."""
        if self.of(subject) is None:
            return None
        configs: dict[str, RunConfig] = {"subject": subject, **{str(name): c for name, c in baselines.items()}}
        arms = {name: (config.lr, self.of(config)) for name, config in configs.items()}
        best = self.best(baselines[name] for name in ("frozen", "shallow") if name in baselines)
        shallow = "depth" in subject.net_options  # else there may be no such net
        return effort_of(arms, seeds, shallow=shallow, rises=None if best is None else self.rises(best))


def effort_of(
    arms: Mapping[str, Arm], seeds: Sequence[int], shallow: bool = False, rises: float | None = None
) -> Effort:
    """How the rates of a subject and of its baselines, by their names, were chosen.

    shallow   a shallow net must be among them
    """
    asked = {name: arms.get(name) for name in ASKED if name != "shallow" or shallow or name in arms}
    why = why_not(asked, seeds)
    trials = {name: 0 if choice is None else len(choice.rates) for name, (_, choice) in arms.items()}
    return Effort(tuned=not why, trials=trials, why=why, alike=alike(asked), rises=rises)


def alike(asked: Mapping[str, Arm | None]) -> bool:
    """Whether all that are there were tried at the same rates in the same way, and trained at what that chose."""
    arms = [arm for arm in asked.values() if arm is not None]
    if any(choice is None or choice.lr != lr for lr, choice in arms):
        return len({lr for lr, _ in arms}) == 1 and all(choice is None for _, choice in arms)
    return len({(*choice.rates, choice.how) for _, choice in arms if choice is not None}) == 1


def why_not(asked: Mapping[str, Arm | None], seeds: Sequence[int]) -> str:
    """Why the rates of these, by their names in `Effort`, do not count as tuned; empty where they do."""
    grids = {}
    for name, arm in asked.items():
        words = ASKED[name]
        if arm is None:
            return f"{words} is not there"
        lr, choice = arm
        if choice is None:
            return f"no rate was tried for {words}"
        if choice.lr is None:
            return f"the trials of {words} settle nothing: {choice.words()}"
        if choice.lr != lr:
            at = "its own rate" if lr is None else f"{lr:g}"
            return f"{words} was trained at {at}, and its trials chose {choice.lr:g}"
        if any(seed in seeds for seed, _ in choice.how):
            return f"the trials of {words} have a seed of the audit"
        if len(choice.how) > 1:
            return f"the trials of {words} differ in more than their rate"
        grids[words] = (choice.rates, choice.how)
        if choice.edge:
            return f"the best rate of {words}, {choice.lr:g}, is at the edge of those tried"
    (first, grid), *others = grids.items()
    for words, other in others:
        if other != grid:
            return f"{first} and {words} were not tried alike ({len(grid[0])} and {len(other[0])} rates)"
    if len(grid[0]) < FEWEST or any(b / a > APART for a, b in pairwise(grid[0])):
        return f"{len(grid[0])} rates were tried; {FEWEST} are asked, no two neighbours more than {APART:g}× apart"
    return ""


def _rank(run: Run) -> tuple[bool, float]:
    """A trial that did not finish comes before any that did."""
    return run.ended == "finished", 0.0 if run.result is None else run.result.accuracy


def doubled(config: RunConfig) -> RunConfig:
    """With twice the epochs."""
    return config.changed(epochs=2 * config.epochs)


NOTHING_TRIED = ChosenRates()
