"""What Γ is judged by: every block's cosine at its output, seed by seed, and whether it is what trained the net.

Γ never holds. These checks say whether it is above chance, how it is spread over the blocks, and whether sizes agree.
A rule without credits is judged by its updates.
"""

import math
import statistics
from collections.abc import Mapping, Sequence
from typing import NamedTuple

from walkback.checks.finding import Interval, known
from walkback.checks.paired_gain import mean_interval, two_sided
from walkback.checks.thresholds import Thresholds
from walkback.records.evidence import Evidence
from walkback.records.moment import Moment
from walkback.records.schema import CosineRecord, ReadingRecord
from walkback.records.training import Training

NO_CREDIT, NOTHING = "no credit", ("zero credit", "no credit")
UPDATE = "update"  # a quantity of one file
FEWEST, TO_BE_EVEN = 3, 5  # seeds: to fire, and to be even
HALF = 0.5  # credits and updates whose cosines differ by more than this factor do not agree


class Blocks(NamedTuple):
    """The cosines of one seed, block by block; None: not known. `place`: at the output, or of the update."""

    values: list[float | None]
    place: str

    @property
    def known(self) -> list[float] | None:
        """All of them; None if one is missing, or if there is none."""
        found = [value for value in self.values if value is not None]
        return found if found and len(found) == len(self.values) else None


def value_of(cosine: CosineRecord | ReadingRecord | None) -> float | None:
    """A block without credit has the cosine 0; one that was not measured has none."""
    if cosine is None or (cosine.status == "ok" and not known(cosine.value)):
        return None
    return cosine.value if cosine.status == "ok" else 0.0 if cosine.status in NOTHING else None


def blocks_of(moment: Moment) -> Blocks:
    """The cosines at the blocks' output, where the credit acts; of the updates where the rule has no credits at all."""
    cosines = moment.cosine_out or []
    if cosines and all(c is not None and c.status == NO_CREDIT for c in cosines):
        return Blocks([value_of(u) for u in moment.measured.get(UPDATE, [])], "update")
    return Blocks([value_of(c) for c in cosines], "output")


class Gamma(NamedTuple):
    """The cosines of all seeds; `table` is None where a seed lacks one, so that nothing is said of the others alone."""

    table: list[list[float]] | None
    place: str
    reported: bool  # whether any seed has any cosine

    @property
    def by_seed(self) -> list[float]:
        """Γ of each seed: the mean over its blocks."""
        return [statistics.fmean(row) for row in self.table or []]

    @property
    def by_block(self) -> list[float]:
        """The mean over seeds of each block's cosine."""
        return [statistics.fmean(column) for column in zip(*self.table or [], strict=True)]


def gamma_of(evidence: Evidence) -> Gamma:
    """The cosines of the final moments."""
    every = [blocks_of(seed.final) for seed in evidence.seeds]
    rows = [each.known for each in every]
    reported = any(value is not None for each in every for value in each.values)
    places = {each.place for each, row in zip(every, rows, strict=True) if row}
    whole = [row for row in rows if row is not None]
    one_shape = len(whole) == len(rows) > 0 and len({len(row) for row in whole}) == 1 and len(places) == 1
    return Gamma(whole if one_shape else None, next(iter(places)) if len(places) == 1 else "output", reported)


def effective(cosines: Sequence[float]) -> float:
    """N = (Σc)² / Σc²: of how many blocks a mean of cosines speaks. 0 if the sum is not positive.

    >>> effective([1.0, 1.0, 1.0, 1.0]), effective([1.0, 0.0, 0.0, 0.0]), effective([1.0, -1.0])
    (4.0, 1.0, 0.0)
    """
    total, squares = math.fsum(cosines), math.fsum(c * c for c in cosines)
    return total * total / squares if total > 0 and squares > 0 else 0.0


def spread_interval(table: Sequence[Sequence[float]], confidence: float) -> Interval:
    """N of the mean cosines with its interval: a jackknife over seeds, with t(n − 1)."""
    n = len(table)

    def without(left: int | None) -> float:
        kept = [row for place, row in enumerate(table) if place != left]
        return effective([statistics.fmean(column) for column in zip(*kept, strict=True)])

    whole = without(None)
    if n < 2:
        return Interval(value=whole)
    parts = [without(place) for place in range(n)]
    middle = statistics.fmean(parts)
    error = math.sqrt((n - 1) / n * math.fsum((part - middle) ** 2 for part in parts))
    half = two_sided(confidence, n - 1) * error
    return Interval(value=whole, low=whole - half, high=whole + half)


def mean_with(values: Sequence[float], confidence: float) -> Interval:
    """A mean over seeds with Student's interval."""
    ends = mean_interval(values, confidence) or (None, None)
    return Interval(value=statistics.fmean(values) if values else None, low=ends[0], high=ends[1])


class WeakestStanding(NamedTuple):
    """Whether the credits that were compared are what trained: the weakest of the seeds', and why."""

    word: str
    why: str


RANK = ("not seen", "in part", "declared", "seen")


def standing_of(evidence: Evidence) -> WeakestStanding:
    """Of all seeds together. Where nothing is known of it, the credits are those that somebody declares."""
    seeds: Sequence[Training] = evidence.seeds
    worst = min(seeds, key=lambda seed: RANK.index(seed.standing or "declared"), default=None)
    return (
        WeakestStanding("declared", "")
        if worst is None
        else WeakestStanding(worst.standing or "declared", worst.standing_why)
    )


def updates_of(evidence: Evidence) -> list[float] | None:
    """The mean over seeds of each block's update's cosine; None unless every seed has all of them."""
    rows = [[value_of(u) for u in seed.final.measured.get(UPDATE, [])] for seed in evidence.seeds]
    if not rows or not rows[0] or any(len(row) != len(rows[0]) or None in row for row in rows):
        return None
    return [statistics.fmean(v for v in column if v is not None) for column in zip(*rows, strict=True)]


def disagreement(evidence: Evidence, credits: Sequence[float]) -> str:
    """Why declared credits do not stand for what trained; empty where they do, or where nothing is known against it."""
    if standing_of(evidence).word != "declared":
        return ""
    updates = updates_of(evidence)
    if updates is None or len(updates) != len(credits):
        return "the updates of this rule were not measured in every block" if evidence.rule is not None else ""
    apart = sum(_differ(c, u) for c, u in zip(credits, updates, strict=True))
    if 2 * apart <= len(credits):
        return ""
    shown = ", ".join(f"{u:.2f}" for u in updates)
    return f"in {apart} of {len(credits)} blocks the updates do not agree with the declared credits (cosines {shown})"


def _differ(credit: float, update: float) -> bool:
    low, high = sorted((credit, update))
    return high > 0.1 and low < HALF * high


def confidence_of(thresholds: Thresholds) -> float:
    """Γ's intervals have the confidence of depth's: both are looked at with as many seeds."""
    return thresholds["depth.confidence"]


def by_label(evidence: Evidence, values: Sequence[float]) -> Mapping[str, float | None]:
    """Values by seed; nothing if there is not one for each."""
    labels = evidence.labels()
    return dict(zip(labels, values, strict=True)) if len(values) == len(labels) else dict.fromkeys(labels)
