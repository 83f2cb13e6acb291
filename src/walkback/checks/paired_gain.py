"""Paired gains: how much more accurate one side is than the other, seed by seed, with an interval of the mean.

    half width = √( t²·s²/n + 2.5²·v )

s is the standard deviation over the n seeds. v is the variance that the choice of test images adds to the mean. It
comes from the final predictions: with d_si = hit of one side − hit of the other on image i, seed s, the two-way table
has v = max(0, MS_image − MS_error) / (n·N). Without predictions only the first term is known.
"""

import math
import statistics
from collections.abc import Callable, Collection, Mapping, Sequence
from functools import cache
from typing import Literal, NamedTuple

from walkback.checks.finding import Basis, Finding, Interval, Limits, Outcome, known, make_finding
from walkback.checks.thresholds import Thresholds
from walkback.records.evidence import BaselineName, Evidence

DIGITS = 12  # accuracies are counts over counts; rounding there keeps .30 − .28 from being less than .02
IMAGE_T = 2.5  # standard errors of the choice of test images that an interval allows for
FEWEST = 3  # seeds for any answer
ALIKE = "every seed has the same gain; are they different trainings?"


class PairedSide(NamedTuple):
    """One side of a comparison, by seed. `alone`: one typed-in number, which stands for every seed of the other."""

    accuracy: Mapping[str, float | None]
    hits: Mapping[str, bytes | None]  # of the seeds whose predictions were recorded; None: recorded, and not here
    alone: bool = False
    diverged: Collection[str] = ()  # seeds whose accuracy is that of guessing, and which have no predictions


def gain_over(evidence: Evidence, name: BaselineName, of: Literal["bp"] | None = None) -> "PairedGain":
    """The gain of the subject, or of bp, over a baseline."""
    own = _subject(evidence) if of is None else _baseline(evidence, of)
    return paired(own, _baseline(evidence, name))


def _subject(evidence: Evidence) -> PairedSide:
    """The final accuracies and hits of the subject. A net that diverged answers no better than by guessing."""
    seeds = evidence.labelled()
    diverged = [label for label, seed in seeds if seed.ended == "diverged"]
    accuracy = {label: guessing(evidence) if label in diverged else seed.final.accuracy for label, seed in seeds}
    hits = {label: seed.hits for label, seed in seeds if seed.predicted or seed.hits is not None}
    return PairedSide(accuracy, hits, diverged=diverged)


def _baseline(evidence: Evidence, name: BaselineName) -> PairedSide:
    """The accuracies and hits of a baseline; nothing where it is missing."""
    found = evidence.baselines.get(name)
    return PairedSide({}, {}) if found is None else PairedSide(found.accuracy, found.hits, found.alone)


def stopped(evidence: Evidence) -> list[str]:
    """The seeds whose training did not come to its end."""
    return [label for label, seed in evidence.labelled() if seed.ended == "stopped"]


def guessing(evidence: Evidence) -> float | None:
    """The accuracy of one who always names the most frequent class; None where neither it nor the classes are known."""
    if evidence.chance is not None:
        return evidence.chance
    return None if evidence.classes is None else 1 / evidence.classes


class PairedGain(NamedTuple):
    """The gains of one side over the other; empty where one of them is missing.

    lacking   seeds of which one accuracy is not known: then no interval is given, because it would be of other seeds
    image     v, the variance by the choice of test images; None: no predictions were recorded
    hidden    some predictions were recorded and are lost: then no interval is given either
    alone     one side is a single typed-in number: it has no spread, so nothing can be shown to hold by it
    """

    gains: Mapping[str, float]
    lacking: Sequence[str] = ()
    image: float | None = None
    hidden: bool = False
    alone: bool = False

    @property
    def n(self) -> int:
        """The number of pairs."""
        return len(self.gains)

    @property
    def mean(self) -> float | None:
        """The mean gain; None while a seed is missing."""
        return None if self.lacking or not self.gains else round(statistics.fmean(self.gains.values()), DIGITS)

    def interval(self, confidence: float) -> Interval:
        """The mean with its interval; without ends where nothing can be shown by it."""
        mean = self.mean
        if mean is None or self.n < 2 or self.hidden:
            return Interval(value=mean, low=None, high=None)
        error = two_sided(confidence, self.n - 1) * statistics.stdev(self.gains.values()) / math.sqrt(self.n)
        half = math.sqrt(error**2 + IMAGE_T**2 * (self.image or 0.0))
        return Interval(value=mean, low=round(mean - half, DIGITS), high=round(mean + half, DIGITS))

    @property
    def alike(self) -> bool:
        """Whether every seed has the same gain."""
        return not self.lacking and self.n > 1 and len(set(self.gains.values())) == 1

    def above(self, required: float) -> int:
        """On how many seeds the gain is above what is required."""
        return sum(gain > required for gain in self.gains.values())


def paired(side: PairedSide, other: PairedSide) -> PairedGain:
    """The gain of one side over the other.

    >>> paired(PairedSide({"1": 0.5, "2": 0.6}, {}), PairedSide({"1": 0.4, "2": 0.3}, {})).mean
    0.2
    >>> paired(PairedSide({"1": 0.5, "2": 0.6}, {}), PairedSide({"1": 0.4}, {})).lacking
    ['2']
    """
    if not side.accuracy or not other.accuracy:
        return PairedGain({})
    seeds = list(other.accuracy if side.alone else side.accuracy)
    gains = {
        seed: round(a - b, DIGITS) for seed in seeds if known(a := _at(side, seed)) and known(b := _at(other, seed))
    }
    lacking = [seed for seed in seeds if seed not in gains]
    # Seeds that diverged have no predictions.
    whole_seeds = [seed for seed in seeds if seed not in side.diverged and seed not in other.diverged]
    sides = [one for one in (side, other) if not one.alone]
    recorded = len(sides) == 2 and all(seed in one.hits for one in sides for seed in whole_seeds)
    lost = any(one.hits.get(seed, b"") is None for one in sides for seed in whole_seeds)
    tables = [(x, y) for seed in whole_seeds if (x := side.hits.get(seed)) and (y := other.hits.get(seed))]
    whole = recorded and len(tables) == len(whole_seeds) and len({len(hits) for pair in tables for hits in pair}) == 1
    image = image_variance(tables) if whole else None
    hidden = lost or (recorded and len(whole_seeds) > 1 and image is None)
    return PairedGain(gains, lacking, image, hidden, side.alone or other.alone)


def _at(side: PairedSide, seed: str) -> float | None:
    return next(iter(side.accuracy.values())) if side.alone else side.accuracy.get(seed)


def image_variance(tables: Sequence[tuple[bytes, bytes]]) -> float | None:
    """v: what the choice of test images adds to the variance of the mean gain; None with fewer than two seeds."""
    if len(tables) < 2:
        return None
    import numpy as np  # here: judging a log needs none of it

    hits = [[np.frombuffer(side, np.int8) for side in pair] for pair in tables]
    gain = np.stack([a - b for a, b in hits]).astype(float)
    seeds, images = gain.shape
    if images < 2:
        return None
    by_image, by_seed, middle = gain.mean(0), gain.mean(1), gain.mean()
    of_images = seeds * float(((by_image - middle) ** 2).sum()) / (images - 1)
    rest = gain - by_image - by_seed[:, None] + middle
    error = float((rest**2).sum()) / ((seeds - 1) * (images - 1))
    return float(max(0.0, of_images - error) / (seeds * images))


class Compared(NamedTuple):
    """The subject over one baseline, beside bp over that one or its counterpart.

    own       the interval of the subject's gain
    wide      that for firing: by Bonferroni over as many baselines as could fire, also where only one is known
    bp        the interval of bp's gain
    bp_seeds  bp has as many seeds as the subject, at least three
    """

    name: BaselineName
    gain: PairedGain
    task: PairedGain
    own: Interval
    wide: Interval
    bp: Interval
    bp_seeds: bool

    def fires(self, at: float) -> bool:
        """Shown to gain less where bp is shown to gain more; or shown to do harm, unless bp does too."""
        if self.gain.n < FEWEST or not self.bp_seeds or self.bp.high is None:
            return False
        return (self.wide.below(at) and self.bp.above(at)) or (self.wide.below(0) and self.bp.high >= 0)

    def needs_no_depth(self, at: float) -> bool:
        """bp is shown to gain less than the margin."""
        return self.bp_seeds and self.bp.below(at)

    def wants_seeds(self, at: float) -> bool:
        """Whether more seeds could settle it: an interval of the subject or of bp contains the margin."""
        if self.gain.alone or self.own.low is None or self.wide.high is None:
            return False
        bp_is_open = self.bp.low is not None and self.bp.high is not None and self.bp.low <= at <= self.bp.high
        return self.own.low <= at <= self.wide.high or bp_is_open


def bonferroni(confidence: float, tests: int = 2) -> float:
    """The confidence of one interval such that several of them together have at least that."""
    return round(1 - (1 - confidence) / tests, 12)


def compare(evidence: Evidence, pairs: Mapping[BaselineName, BaselineName], confidence: float) -> list[Compared]:
    """The subject over each baseline, and bp over the counterpart that is named beside it."""
    found = []
    for name, counterpart in pairs.items():
        gain, task = gain_over(evidence, name), gain_over(evidence, counterpart, of="bp")
        wide = gain.interval(bonferroni(confidence, len(pairs)))
        enough = not (task.alone or task.lacking) and task.n >= max(FEWEST, len(evidence.seeds))
        own, bp = gain.interval(confidence), task.interval(confidence)
        found.append(Compared(name, gain, task, own, wide, bp, enough))
    return found


def gain_finding(
    check: str, margin: str, thresholds: Thresholds, compared: Sequence[Compared],
    outcome: Callable[[Limits], Outcome], *, says: str, wants_seeds: bool, basis: Basis | None = None,
    parts: Mapping[str, Interval] | None = None,
) -> Finding:  # fmt: skip
    """The finding of a check that judges by gains: its value is the least of them.

    basis  None: by how many of the gains are known
    parts  further intervals
    """
    shown = [each for each in compared if each.own.value is not None]
    least = min((each.own for each in shown), key=lambda own: own.value or 0.0, default=Interval())
    cuts = [end for each in compared for i in (each.own, each.wide, each.bp) for end in (i.low, i.high)]
    cuts += [gain for each in compared for gain in each.gain.gains.values()]
    every: dict[str, Interval] = {each.name: each.own for each in compared}
    every |= {f"bp over {each.name}": each.bp for each in compared}
    every |= parts or {}
    by: Basis = "exact" if len(shown) == len(compared) else "bound" if shown else "missing"
    return make_finding(
        check, thresholds, outcome, {margin: cuts}, value=least.value, low=least.low, high=least.high, says=says,
        basis=basis or by, parts={name: part for name, part in every.items() if part.value is not None},
        warnings=[ALIKE for each in compared if each.gain.alike], wants_seeds=wants_seeds,
    )  # fmt: skip


# --- Student's t: with three seeds a bootstrap's "95 %" covers 77 % ---------------------------------------------------


@cache
def two_sided(confidence: float, df: int) -> float:
    """The t for which P(|T| ≤ t) = confidence; infinite where the confidence is 1.

    >>> round(two_sided(0.95, 2), 4)
    4.3027
    """
    from scipy.special import stdtrit

    return abs(float(stdtrit(df, (1 - confidence) / 2)))


def mean_interval(values: Sequence[float], confidence: float) -> tuple[float, float] | None:
    """The interval of the mean: mean ± t · std/√n with std of ddof = 1. None for fewer than two values.

    >>> [round(end, 4) for end in mean_interval([0.1, 0.2, 0.3], 0.95)]
    [-0.0484, 0.4484]
    """
    n = len(values)
    if n < 2:
        return None
    half = two_sided(confidence, n - 1) * statistics.stdev(values) / math.sqrt(n)
    middle = statistics.fmean(values)
    return middle - half, middle + half
