"""Agreement: how figures of ours stand to a published one, in words that claim no more than the numbers carry.

Two kinds of words. Of a *figure*: not told apart, differ (by intervals), inside, outside (one seed of ours), near,
apart (sizes without a spread), beside (two numbers, no judgement). Of a *statement*: confirmed, leaning (in its
direction, not shown), open, against (not shown either), not confirmed.
"""

import math
import statistics
from collections.abc import Sequence
from typing import Literal, NamedTuple

from walkback.checks import mean_interval, two_sided
from walkback.report import Stat, geometric_mean, number
from walkback_paper.published import SEEDS, Bound, Figure, GainRange, MeanStd, Number, SizeRange

CONFIDENCE = 0.95
NEAR = 2.0  # sizes within this factor of each other are called near

Kind = Literal[
    "not told apart", "differ", "inside", "outside", "near", "apart", "beside",
    "confirmed", "leaning", "open", "against", "not confirmed", "missing",
]  # fmt: skip


class Agreement(NamedTuple):
    """A word to count by, the words to print, and what must stand beside the word where it is counted."""

    kind: Kind
    words: str
    note: str = ""


MISSING = Agreement("missing", "missing")


def of_spread(claim: MeanStd, ours: Sequence[float], shape: str = ".3f") -> Agreement:
    """A mean ± std over three published seeds against our seeds.

    Two or more of ours: whether the 95 % intervals of the means, mean ± t·std/√n, overlap. One of ours: whether it lies
    where one more published seed should, mean ± t·std·√(1 + 1/3). A claim without a spread: the difference alone.

    >>> of_spread(MeanStd(0.615, 0.004), [0.614, 0.616])
    Agreement(kind='not told apart', words='not told apart: 0.605 to 0.625, ours 0.602 to 0.628', note='')
    >>> of_spread(MeanStd(0.401, 0.009), [0.447]).words
    'one seed: outside 0.356 to 0.446'
    """
    if not ours:
        return MISSING
    if not all(math.isfinite(value) for value in ours):
        return Agreement("differ" if len(ours) > 1 else "outside", "ours is not finite")
    if claim.std is None:
        return of_number(claim.mean, ours)
    t = two_sided(CONFIDENCE, SEEDS - 1)
    own = mean_interval(ours, CONFIDENCE)
    if own is None:
        half = t * claim.std * math.sqrt(1 + 1 / SEEDS)
        low, high = claim.mean - half, claim.mean + half
        kind: Kind = "inside" if low <= ours[0] <= high else "outside"
        return Agreement(kind, f"one seed: {kind} {low:{shape}} to {high:{shape}}")
    half = t * claim.std / math.sqrt(SEEDS)
    low, high = claim.mean - half, claim.mean + half
    kind = "not told apart" if low <= own[1] and own[0] <= high else "differ"
    # Few seeds have a wide interval, which overlaps with much: say so where nothing else makes them meet.
    apart = kind == "not told apart" and not low <= statistics.fmean(ours) <= high
    note = "our mean lies outside the published interval" if apart else ""
    words = f"{kind}: {low:{shape}} to {high:{shape}}, ours {own[0]:{shape}} to {own[1]:{shape}}"
    return Agreement(kind, f"{words}; {note}" if note else words, note)


def of_number(claim: float, ours: Sequence[float], form: Literal["points", "cosine"] = "points") -> Agreement:
    """A published number without a spread: how far the mean of ours is from it, and no judgement.

    >>> of_number(0.585, [0.590, 0.592]).words
    'ours is +0.6 points from it'
    """
    if not ours:
        return MISSING
    off = statistics.fmean(ours) - claim
    return Agreement("beside", f"ours is {100 * off:+.1f} points from it" if form == "points" else f"{off:+.3f}")


def of_size(claim: SizeRange | float, ours: Sequence[float]) -> Agreement:
    """A published size without a spread against the geometric mean of ours; of a range the nearer end counts.

    >>> of_size(1e5, [1e4, 2e4]).words
    'a factor 7.1 apart, ours smaller'
    >>> of_size(SizeRange(4e8, 5e8, "4–5e8"), [4.2e8]).words
    'within a factor 2'
    """
    if not ours:
        return MISSING
    ratio = ratio_to(claim, ours)
    if not (math.isfinite(ratio) and ratio > 0):
        return Agreement("apart", "ours is zero or not finite")
    factor = max(ratio, 1 / ratio)
    if factor <= NEAR:
        return Agreement("near", f"within a factor {NEAR:g}")
    return Agreement("apart", f"a factor {_factor(factor)} apart, ours {'larger' if ratio > 1 else 'smaller'}")


def _factor(factor: float) -> str:
    return number(factor, 3 if factor < NEAR + 0.1 else 2)  # 2.04 must not be shown as 2.0


def ratio_to(claim: SizeRange | float, ours: Sequence[float]) -> float:
    """The geometric mean of ours over the published size; 1 inside a published range, else to its nearer end."""
    if not all(math.isfinite(value) for value in ours):
        return math.nan
    middle = geometric_mean(ours)
    low, high = (claim, claim) if isinstance(claim, float) else claim[:2]
    return middle / min(max(middle, low), high)


def of_range(low: float, high: float, differences: Sequence[float]) -> Agreement:
    """A gain that is published as a range of points, without a spread, against the interval of our mean gain.

    >>> of_range(0.22, 0.23, [0.20, 0.21, 0.205]).words
    'differ: +22.0 to +23.0, ours +20.5 (+19.3 to +21.7)'
    """
    if not differences:
        return MISSING
    interval = mean_interval(differences, CONFIDENCE)
    figures = f"{100 * low:+.1f} to {100 * high:+.1f}, ours {_points(differences)}"
    if interval is None:
        kind: Kind = "inside" if low <= differences[0] <= high else "outside"
        return Agreement(kind, f"one seed, {kind}: {figures}")
    kind = "not told apart" if low <= interval[1] and interval[0] <= high else "differ"
    return Agreement(kind, f"{kind}: {figures}")


def of_direction(differences: Sequence[float], sign: int, than: float = 0.0) -> Agreement:
    """A statement that differences lie above (+1) or below (−1) `than`: shown only if the whole interval does.

    >>> of_direction([0.10, 0.12], 1).words
    'not shown, but in its direction: +11.0 points (-1.7 to +23.7)'
    >>> of_direction([0.10], -1).kind
    'against'
    """
    if not differences:
        return MISSING
    interval = mean_interval(differences, CONFIDENCE)
    along = sign * (statistics.fmean(differences) - than) > 0
    figures = _points(differences, " points")
    if interval is None:
        way = "in its direction" if along else "against it"
        return Agreement("leaning" if along else "against", f"one seed, {way}: {figures}")
    ends = sorted(sign * (end - than) for end in interval)
    if ends[0] > 0:
        return Agreement("confirmed", f"shown: {figures}")
    if ends[1] < 0:
        return Agreement("not confirmed", f"the opposite is shown: {figures}")
    words = "not shown, but in its direction" if along else "not shown, and against its direction"
    return Agreement("leaning" if along else "against", f"{words}: {figures}")


def of_fact(holds: bool | None, words: str, n: int = 0) -> Agreement:
    """A statement that the records settle by themselves, on `n` seeds; None: they do not."""
    note = "one seed" if n == 1 else ""
    if holds is None:
        return Agreement("open", f"open: {words}", note)
    if holds:
        return Agreement("confirmed", f"yes: {words}", note)
    return Agreement("not confirmed", f"no: {words}", note)


def of_bound(bound: Bound, ours: Sequence[float]) -> Agreement:
    """A bound against the smallest and the largest of ours.

    >>> of_bound(Bound(11.0, False, "healthy nets"), [0.9, 0.8]).words
    'yes: 0.80 to 0.90, 2 seeds'
    """
    if not ours:
        return MISSING
    within = all(value >= bound.value if bound.above else value <= bound.value for value in ours)
    low, high = (str(Stat((end,), "size")) for end in (min(ours), max(ours)))
    spanned = low if low == high else f"{low} to {high}"
    return of_fact(within, f"{spanned}, {seeds_counted(len(ours))}", len(ours))


def seeds_counted(n: int) -> str:
    """A number of seeds in words."""
    return "1 seed" if n == 1 else f"{n} seeds"


def compare(figure: Figure, ours: Sequence[float]) -> Agreement:
    """Ours held against a published figure, in the way that its kind asks for; of a gain ours are differences."""
    if isinstance(figure, MeanStd):
        return of_spread(figure, ours)
    if isinstance(figure, SizeRange):
        return of_size(figure, ours)
    if isinstance(figure, Number):
        return of_number(figure.value, ours, figure.form)
    if isinstance(figure, Bound):
        return of_bound(figure, ours)
    if isinstance(figure, GainRange):
        return of_range(figure.low, figure.high, ours)
    return of_direction(ours, figure.sign, figure.than)


def together(parts: Sequence[Agreement]) -> Kind:
    """The word for a statement of several parts: the worst of them.

    >>> together([Agreement("confirmed", ""), Agreement("leaning", "")])
    'leaning'
    """
    order: tuple[Kind, ...] = ("not confirmed", "against", "open", "leaning", "confirmed")
    kinds = {part.kind for part in parts}
    return next((kind for kind in order if kind in kinds), "missing")


def _points(differences: Sequence[float], unit: str = "") -> str:
    """The mean with its interval, in points."""
    mean, interval = statistics.fmean(differences), mean_interval(differences, CONFIDENCE)
    ends = "" if interval is None else f" ({100 * interval[0]:+.1f} to {100 * interval[1]:+.1f})"
    return f"{100 * mean:+.1f}{unit}{ends}"
