"""Trials of learning rates: every arm of an audit at every rate of one grid, on held-out training samples.

All arms get the same trials: while the best rate of any lies at an edge, the grid grows there for all. What an arm then
takes is read from the records (records/rates.py), as `judge` reads it later.
"""

import math
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path

from walkback.checks.finding import listed
from walkback.errors import BadValue
from walkback.records import RunConfig, read_run
from walkback.records.checkpoint import CHECKPOINTS
from walkback.records.rates import TRIAL_SEED, TRIALS, Choice, ChosenRates, doubled, find_trials
from walkback.train.configs import GRID, search

HELD_OUT = 0.1
PROBED = 128  # images: of a trial its accuracy counts and nothing else
ONE_RATE = "give --lr X, or --rates one, to train all at one rate"


def trial(arm: RunConfig, rate: float) -> RunConfig:
    """The config of an arm's trial at a rate."""
    changes = {"seed": TRIAL_SEED, "lr": rate, "validation": HELD_OUT, "probe_images": min(PROBED, arm.probe_images)}
    return arm.changed(**changes)


def longer(arm: RunConfig, rates: ChosenRates) -> RunConfig:
    """The config of its trial at its rate with twice the epochs: does it still rise?"""
    return trial(doubled(arm), at_its_rate(arm, rates).lr)


def at_its_rate(config: RunConfig, rates: ChosenRates) -> RunConfig:
    """With the rate that the trials of its arm chose, if it has any. The smallest, where training always diverged."""
    choice = rates.of(config)
    if choice is None or choice.missing:
        return config
    return config.changed(lr=choice.rates[0] if choice.lr is None else choice.lr)


def grid_of(arms: Iterable[RunConfig], rates: ChosenRates) -> list[float]:
    """The grid, with whatever was tried for any of these arms before: what is chosen rests on all of it."""
    return sorted({*GRID, *(rate for arm in arms if (choice := rates.of(arm)) for rate in choice.rates)})


def rates_in(out: Path) -> ChosenRates:
    """What the trials that lie in a folder of runs choose."""
    return ChosenRates(read_run(path) for path in find_trials(out))


def tune(
    arms: Sequence[RunConfig], out: Path, trained: Callable[[Sequence[RunConfig], Path], object],
    say: Callable[[str], object],
) -> ChosenRates:  # fmt: skip
    """Train the trials that these arms need, in `out`/trials, and give the rates that they choose."""
    done: set[str] = set()

    def train(trials: Iterable[RunConfig]) -> ChosenRates:
        new = {config.hash(): config for config in trials if config.hash() not in done}
        trained(list(new.values()), out / TRIALS)
        done.update(new)
        for folder in (out / TRIALS / config.folder() for config in new.values()):
            for name in CHECKPOINTS if (folder / "result.json").exists() else ():
                (folder / name).unlink(missing_ok=True)  # weights are as large as everything else together
        return rates_in(out)

    def tried(grid: Sequence[float]) -> list[Choice | None]:
        return [*map(train(trial(arm, rate) for arm in arms for rate in grid).of, arms)]

    grid = search(grid_of(arms, rates_in(out)), tried)
    rates = rates_in(out)
    train(longer(best, rates) for nets in opponents(arms) if (best := rates.best(nets)) is not None)
    for line in tuned_words(arms, grid, rates):
        say(line)
    return rates_in(out)


def opponents(arms: Sequence[RunConfig]) -> list[list[RunConfig]]:
    """What each rule must beat: its own frozen net, and the shallow net."""
    shallow = [arm for arm in arms if not arm.blocks]
    return [[arm, *shallow] for arm in arms if arm.train_last == 0 < arm.blocks and arm.rule != "random"]


def tuned_words(arms: Sequence[RunConfig], grid: Sequence[float], rates: ChosenRates) -> list[str]:
    """What the trials chose, in lines."""
    choices = {arm.label(): choice for arm in arms if (choice := rates.of(arm)) is not None}
    by_rate: dict[tuple[float, str], list[str]] = {}
    for name, choice in choices.items():
        by_rate.setdefault((choice.lr or math.inf, choice.words()), []).append(name)
    found = sorted(by_rate.items(), key=lambda pair: pair[0][0])
    words = "; ".join(f"{rate}: {', '.join(names)}" for (_, rate), names in found)
    lines = [f"Learning rates, each the best of {len(grid)} from {grid[0]:g} to {grid[-1]:g}. {words}."]
    edge = [name for name, choice in choices.items() if choice.edge]
    if edge:
        lines.append(f"At the edge of {len(grid)} rates, which is as many as are tried: {listed(edge)}.")
    return lines


def check_free(settings: dict[str, object], seeds: object) -> None:
    """Refuse what cannot go together with trials."""
    if "lr" in settings:
        raise BadValue(
            f"--rates auto tries learning rates, and --lr {settings['lr']:g} fixes one",
            "give one of them: --lr for one rate, --rates auto for the best of each",
        )
    if settings.get("validation"):
        raise BadValue(
            f"--rates auto holds out training samples itself, and --validation {settings['validation']:g} does as well",
            ONE_RATE,
        )
    if not isinstance(seeds, int | str) and TRIAL_SEED in list(seeds):  # type: ignore[call-overload]
        raise BadValue(f"{TRIAL_SEED} is the seed of the trials", f"take another seed; or {ONE_RATE}")
