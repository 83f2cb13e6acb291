"""Trials of learning rates before an audit: every arm at every rate of one grid, on held-out training samples.

All arms get the same trials: while the best rate of any of them lies at an edge, the grid grows there for all. What an
arm then takes is read from the records (records/rates.py), as `judge` reads it later.
"""

from collections.abc import Callable, Iterable, Sequence
from pathlib import Path

from walkback.checks.finding import listed
from walkback.errors import BadValue
from walkback.records import RunConfig
from walkback.records.checkpoint import CHECKPOINTS
from walkback.records.rates import TRIAL_SEED, Choice, ChosenRates, doubled

GRID = (3e-4, 1e-3, 3e-3, 1e-2, 3e-2)
LADDER = (1e-6, 3e-6, 1e-5, 3e-5, 1e-4, *GRID, 1e-1, 3e-1, 1.0, 3.0, 10.0)  # the rates by which a grid grows
MOST = 9  # rates: then a best one at an edge stays there, and is reported
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


def beyond(grid: Sequence[float], choices: Iterable[Choice | None]) -> list[float]:
    """The rates by which the grid must grow: where somebody's best lies at its edge."""
    low = high = False
    for choice in choices:
        if choice is not None and not choice.missing:
            low |= choice.lr in (grid[0], None)
            high |= choice.lr == grid[-1]
    found = [rate for rate in LADDER if rate < grid[0]][-1:] if low else []
    return found + ([rate for rate in LADDER if rate > grid[-1]][:1] if high else [])


def tune(
    arms: Sequence[RunConfig],
    train: Callable[[Sequence[RunConfig]], object],
    known: Callable[[], ChosenRates],
    say: Callable[[str], object],
) -> ChosenRates:
    """Train the trials that these arms need, and give the rates that they choose.

    train   trains trials, or finds them done
    known   reads what all trials that are there choose
    """
    grid = grid_of(arms, known())
    while True:
        train([trial(arm, rate) for arm in arms for rate in grid])
        rates = known()
        more = beyond(grid, map(rates.of, arms))
        if not more or len(grid) >= MOST:
            break
        grid = sorted([*grid, *more])
    bests = [best for best in map(rates.best, opponents(arms)) if best is not None]
    train(list({each.hash(): each for each in (longer(best, rates) for best in bests)}.values()))
    for line in found(arms, grid, rates):
        say(line)
    return known()


def opponents(arms: Sequence[RunConfig]) -> list[list[RunConfig]]:
    """What each rule must beat: its own frozen net, and the shallow net."""
    shallow = [arm for arm in arms if not arm.blocks]
    return [[arm, *shallow] for arm in arms if arm.train_last == 0 < arm.blocks and arm.rule != "random"]


def found(arms: Sequence[RunConfig], grid: Sequence[float], rates: ChosenRates) -> list[str]:
    """What the trials chose, in lines."""
    choices = {arm.label(): choice for arm in arms if (choice := rates.of(arm)) is not None}
    by_rate: dict[str, list[str]] = {}
    for name, choice in choices.items():
        by_rate.setdefault(choice.words(), []).append(name)
    words = "; ".join(f"{rate}: {', '.join(names)}" for rate, names in sorted(by_rate.items(), key=_number))
    lines = [f"Learning rates, each the best of {len(grid)} from {grid[0]:g} to {grid[-1]:g}. {words}."]
    edge = [name for name, choice in choices.items() if choice.edge]
    if edge:
        lines.append(f"At the edge of {len(grid)} rates, which is as many as are tried: {listed(edge)}.")
    return lines


def _number(pair: tuple[str, list[str]]) -> tuple[bool, float]:
    first = pair[0].split()[0]
    try:
        return False, float(first)
    except ValueError:
        return True, 0.0


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


def without_weights(out: Path, trials: Iterable[RunConfig]) -> None:
    """Drop what nobody needs of trials that ended: their weights are as large as everything else together."""
    for config in trials:
        for name in CHECKPOINTS:
            if (out / config.folder() / "result.json").exists():
                (out / config.folder() / name).unlink(missing_ok=True)
