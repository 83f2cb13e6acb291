"""A finding: what one check answers, how sure it is, and how far its threshold could move without another answer."""

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial
from typing import Any, Literal, TypeGuard

from msgspec import field

from walkback.checks.thresholds import Range, Thresholds
from walkback.records.record import Record

# Ours: fires, passes, open, not asked. The published protocol's: fires, passes, inconclusive, not applicable.
Outcome = Literal["fires", "passes", "open", "not asked", "inconclusive", "not applicable"]
Basis = Literal["exact", "bound", "proxy", "missing"]
Protocol = Literal["ours", "published"]
Limits = Thresholds | Mapping[str, float]  # thresholds, or others that are tried in their place


class Interval(Record):
    """A mean with the ends of its interval, or between what a number of one seed lies; None: not known."""

    value: float | None = None
    low: float | None = None
    high: float | None = None

    def above(self, at: float) -> bool:
        """Whether it is shown to lie above."""
        return self.low is not None and self.low > at

    def below(self, at: float) -> bool:
        """Whether it is shown to lie below."""
        return self.high is not None and self.high < at

    def within(self, at: float) -> bool:
        """Whether it is shown not to lie above."""
        return self.high is not None and self.high <= at


class Finding(Record, kw_only=True):
    """The answer of one check.

    basis         exact: everything the check asks for is known; bound: what is known leaves no other answer, or would
                  narrow it; proxy: something else was measured instead; missing: nothing is known
    value         with low and high: over the seeds, or the interval of a mean where the check speaks of one
    stable_range  of the threshold: strictly inside it the outcome is the same, outside another (None: open end)
    ranges        the stable range of every threshold that the check uses, by name
    parts         the intervals that the answer rests on, by name ("frozen": the gain over the frozen net)
    wants_seeds   it is open, and more seeds could settle it
    """

    brief = frozenset({"parts", "wants_seeds"})
    check: str
    outcome: Outcome
    basis: Basis
    value: float | None = None
    low: float | None = None
    high: float | None = None
    threshold: float
    stable_range: Range
    ranges: dict[str, Range]
    says: str
    warnings: list[str] = field(default_factory=list)
    parts: dict[str, Interval] = field(default_factory=dict)
    wants_seeds: bool = False


def known(value: float | None) -> TypeGuard[float]:
    """Whether there is a number to judge by: one that is not finite is none."""
    return value is not None and math.isfinite(value)


def agreed(outcomes: Sequence[Outcome]) -> Outcome:
    """The outcome on which every seed agrees; open if they do not, or if there is no seed."""
    return outcomes[0] if outcomes and len(set(outcomes)) == 1 else "open"


def on_every_seed(seeds: Sequence[Interval], limit: float) -> Outcome:
    """Fires if every seed is above the limit, passes if none is."""
    return agreed(["fires" if seed.above(limit) else "passes" if seed.within(limit) else "open" for seed in seeds])


def stable_range(outcome_at: Callable[[float], Outcome], cuts: Iterable[float | None], threshold: float) -> Range:
    """How far the threshold can move before the outcome is another one.

    An outcome can only change where the threshold crosses one of the `cuts`. Between two neighbouring cuts one point
    stands for all, and each cut is tried itself.

    >>> stable_range(lambda t: "fires" if 7 > t else "passes", [7.0], 5.0)
    (None, 7.0)
    """
    places = sorted({cut for cut in cuts if known(cut)})
    here = outcome_at(threshold)
    down, up = [p for p in reversed(places) if p <= threshold], [p for p in places if p >= threshold]
    return _walk(outcome_at, down, here, -1), _walk(outcome_at, up, here, 1)


def _walk(outcome_at: Callable[[float], Outcome], cuts: list[float], here: Outcome, step: int) -> float | None:
    """The first cut on the way at which, or beyond which, the outcome differs."""
    for place, cut in enumerate(cuts):
        last = place == len(cuts) - 1
        beyond = cut + step * (1 + abs(cut)) if last else cut / 2 + cuts[place + 1] / 2
        if outcome_at(cut) != here or outcome_at(beyond) != here:
            return cut
    return None


def make_finding(
    check: str, thresholds: Thresholds, outcome: Callable[[Limits], Outcome],
    cuts: Mapping[str, Iterable[float | None]], **fields: Any,
) -> Finding:  # fmt: skip
    """A finding, with the stable range of every threshold that it uses.

    outcome  what it is at given thresholds
    cuts     by threshold, where it may change; the first is the one that is shown
    """
    at = {name: thresholds[name] for name in cuts}

    def with_another(name: str, value: float) -> Outcome:
        return outcome({**at, name: value})

    ranges = {name: stable_range(partial(with_another, name), places, at[name]) for name, places in cuts.items()}
    shown = next(iter(cuts))
    return Finding(
        check=check, outcome=outcome(at), threshold=at[shown], stable_range=ranges[shown], ranges=ranges, **fields
    )  # fmt: skip
