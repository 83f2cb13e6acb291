"""A finding: what one check answers, how sure it is, how far its threshold could move, and the words it is said in.

The second half makes the sentences: numbers, seeds and gains in words.
"""

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial
from typing import Any, Literal, TypeGuard

from msgspec import field

from walkback.checks.thresholds import Range, Thresholds
from walkback.records.evidence import Evidence
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


# --- in words ---------------------------------------------------------------------------------------------------------


def listed(words: Sequence[str]) -> str:
    """Words in a row.

    >>> listed(["1", "2", "3"])
    '1, 2 and 3'
    """
    return words[0] if len(words) == 1 else f"{', '.join(words[:-1])} and {words[-1]}"


def range_words(values: Sequence[float]) -> str:
    """One number, or the range of several.

    >>> range_words([3.0]), range_words([3e-9, 4.25e-9])
    ('3', '3e-09 to 4.25e-09')
    """
    low, high = f"{min(values):.3g}", f"{max(values):.3g}"
    return low if low == high else f"{low} to {high}"


def times_words(values: Sequence[float], limit: float | None = None) -> str:
    """One growth, or the range of several; with more digits where three would not tell it from the limit.

    >>> times_words([41.12, 43.8]), times_words([694.0]), times_words([0.5, 25800.0]), times_words([50.01], 50.0)
    ('41.1–43.8×', '694×', '0.5–25,800×', '50.01×')
    """
    low, high = (_plainly(value, limit) for value in (min(values), max(values)))
    return f"{low}×" if low == high else f"{low}–{high}×"


def _plainly(value: float, limit: float | None) -> str:
    """Three digits or more, and no exponent while the number is one that people read."""
    for digits in range(3, 9):
        rounded = float(f"{value:.{digits}g}")
        if limit is None or value == limit or rounded != limit:
            break
    return f"{rounded:,.0f}" if 1000 <= rounded < 1e6 else f"{rounded:.{digits}g}"


def points(share: float) -> str:
    """A difference of accuracies in percentage points.

    >>> points(0.0345), points(-0.02)
    ('+3.45', '-2')
    """
    return f"{round(share * 100, 2):+g}"


def seeds_words(labels: Sequence[str]) -> str:
    """Seeds in words.

    >>> seeds_words(["42"]), seeds_words(["42", "?2"])
    ('seed 42', 'seeds 42 and ?2')
    """
    return ("seed " if len(labels) == 1 else "seeds ") + listed(labels)


def by_text(texts: Iterable[tuple[str, str]]) -> list[str]:
    """Texts about seeds, each once with all the seeds that it is about.

    >>> by_text([("42", "odd"), ("123", "odd"), ("456", "even")])
    ['seeds 42 and 123: odd', 'seed 456: even']
    """
    seeds: dict[str, list[str]] = {}
    for label, text in texts:
        seeds.setdefault(text, []).append(label)
    return [f"{seeds_words(labels)}: {text}" for text, labels in seeds.items()]


def where(evidence: Evidence, holds: Callable[[int], bool]) -> list[str]:
    """The labels of the seeds, by their place, for which something is so."""
    return [label for place, label in enumerate(evidence.labels()) if holds(place)]


def gain_words(gain: Interval, required: float, confidence: float) -> str:
    """A gain as a verb with its interval.

    >>> gain_words(Interval(value=-0.0443, low=-0.065, high=-0.0236), 0.02, 0.9875)
    'costs 4.4 points (98.75 % interval -6.5 to -2.4)'
    """
    assert gain.value is not None
    verb = "costs" if gain.value < 0 else "gains"
    size = digits(gain.value, required).lstrip("+-")
    if gain.low is None or gain.high is None:
        return f"{verb} {size} points"
    ends = f"{digits(gain.low, required)} to {digits(gain.high, required)}"
    return f"{verb} {size} points ({100 * confidence:.4g} % interval {ends})"


def digits(share: float, required: float) -> str:
    """In points with one digit, or with as many as it takes to see on which side of the required ones it lies."""
    for count in range(1, 6):
        text = f"{100 * share:+.{count}f}"
        if share == required or float(text) != float(f"{100 * required:.{count}f}"):
            break
    return text


def least_words(required: float) -> str:
    """What is required, as the beginning of a sentence."""
    return f"At least {points(required)} is required"


def typed_words(evidence: Evidence, names: Sequence[str]) -> list[str]:
    """Which of these baselines were typed in, a sentence each."""
    typed = sorted(name for name, baseline in evidence.baselines.items() if name in names and baseline.typed)
    alone = [name for name in typed if evidence.baselines[name].alone]
    by_seed = [name for name in typed if name not in alone]
    found = [f"Typed in, not measured here, and so without a spread: {listed(alone)}."] if alone else []
    return found + ([f"Given by seed, not measured here: {listed(by_seed)}."] if by_seed else [])
