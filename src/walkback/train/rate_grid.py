"""The learning rates that an audit tries for everybody: one grid, which grows while anybody's best lies at its edge."""

from collections.abc import Callable, Iterable, Sequence

from walkback.records.rates import Choice

GRID = (3e-4, 1e-3, 3e-3, 1e-2, 3e-2)
LADDER = (1e-6, 3e-6, 1e-5, 3e-5, 1e-4, *GRID, 1e-1, 3e-1, 1.0, 3.0, 10.0)  # the rates by which a grid grows
MOST = 9  # rates: then a best one at an edge stays there, and is reported


def beyond(grid: Sequence[float], choices: Iterable[Choice | None]) -> list[float]:
    """The rates by which the grid must grow: where somebody's best lies at its edge."""
    known = [choice for choice in choices if choice is not None and not choice.missing]
    low, high = any(c.lr in (grid[0], None) for c in known), any(c.lr == grid[-1] for c in known)
    found = [rate for rate in LADDER if rate < grid[0]][-1:] if low else []
    return found + ([rate for rate in LADDER if rate > grid[-1]][:1] if high else [])


def search(grid: Sequence[float], tried: Callable[[Sequence[float]], Iterable[Choice | None]]) -> list[float]:
    """Try the rates of a grid until it need not grow; the grid that it came to.

    tried   trains what is missing of the trials at these rates, and gives what all trials choose
    """
    rates = sorted(grid)
    while (more := beyond(rates, tried(rates))) and len(rates) < MOST:
        rates = sorted([*rates, *more])
    return rates
