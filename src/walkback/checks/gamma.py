"""What Γ is judged by: every block's cosine at its output, seed by seed, and whether it is what trained the net.

Γ never holds. These checks say whether it is above chance, how it is spread over the blocks, and whether sizes agree.
A rule without credits is judged by its updates.
"""

import statistics
from collections.abc import Mapping, Sequence
from typing import NamedTuple

from walkback.checks.finding import Interval, known
from walkback.checks.paired_gain import mean_interval
from walkback.records.evidence import Evidence
from walkback.records.moment import Moment
from walkback.records.schema import Cosine, Reading

NO_CREDIT = "no credit"
UPDATE = "update"  # a quantity of one file
TO_BE_EVEN = 5  # seeds
HALF = 0.5  # credits and updates whose cosines differ by more than this factor do not agree


def full_table(rows: Sequence[Sequence[float | None]]) -> list[list[float]] | None:
    """Rows as a table; None if one lacks a value or is of another length, or if there is nothing in them."""
    table = [[value for value in row if value is not None] for row in rows]
    lengths = {len(row) for row in (*rows, *table)}
    return table if len(lengths) == 1 and lengths != {0} else None


def column_means(table: Sequence[Sequence[float]]) -> list[float]:
    """The mean of each column."""
    return [statistics.fmean(column) for column in zip(*table, strict=True)]


def value_of(cosine: Cosine | Reading | None) -> float | None:
    """A block without credit has the cosine 0; one that was not measured has none."""
    if cosine is not None and cosine.status == "ok":
        return cosine.value if known(cosine.value) else None
    return 0.0 if cosine is not None and cosine.status in ("zero credit", NO_CREDIT) else None


def blocks_of(moment: Moment, sizes: bool = False) -> tuple[list[float | None], str]:
    """The cosines at the blocks' output, where the credit acts; of the updates where the rule has no credits at all.

    By block, None where one is not known; and which of the two they are. `sizes`: the Frobenius cosines, which see
    sizes, as those of updates do.
    """
    cosines = moment.cosine_out or []
    if cosines and all(c is not None and c.status == NO_CREDIT for c in cosines):
        updates = [value_of(u) for u in moment.measured.get(UPDATE, [])]
        # Blocks that are left out must not make the others look even.
        return updates if len(updates) in (0, len(cosines)) else [*updates, None], UPDATE
    return [*map(value_of, (moment.frobenius if sizes else cosines) or [])], "output"


class Gamma(NamedTuple):
    """The cosines of all seeds; `table` is None where a seed lacks one, so that the others alone say nothing."""

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
        return column_means(self.table or [])


def gamma_of(evidence: Evidence) -> Gamma:
    """The cosines of the final moments."""
    every = [blocks_of(seed.final) for seed in evidence.seeds]
    reported = any(value is not None for values, _ in every for value in values)
    places = {place for values, place in every if full_table([values])}
    table = full_table([values for values, _ in every]) if len(places) == 1 else None
    return Gamma(table, min(places) if len(places) == 1 else "output", reported)


def mean_with(values: Sequence[float], confidence: float) -> Interval:
    """A mean over seeds with Student's interval."""
    ends = mean_interval(values, confidence) or (None, None)
    return Interval(value=statistics.fmean(values) if values else None, low=ends[0], high=ends[1])


RANK = ("not seen", "in part", "declared", "seen")


def standing_of(evidence: Evidence) -> tuple[str, str]:
    """Whether the credits that were compared are what trained: the weakest of the seeds' words, and why.

    Where nothing is known of it, the credits are those that somebody declares.
    """
    words = [(seed.standing or "declared", seed.standing_why) for seed in evidence.seeds]
    return min(words, key=lambda each: RANK.index(each[0]), default=("declared", ""))


def disagreement(evidence: Evidence, credits: Sequence[float]) -> str:
    """Why declared credits do not stand for what trained; empty where they do, or where nothing is known against it."""
    if standing_of(evidence)[0] != "declared":
        return ""
    every = [[value_of(u) for u in seed.final.measured.get(UPDATE, [])] for seed in evidence.seeds]
    updates = column_means(full_table(every) or [])
    if len(updates) != len(credits):
        asked = evidence.rule is not None or any(every)  # of some seeds or blocks alone they may be those that agree
        return "the updates of this rule were not measured in every block" if asked else ""
    pairs = [sorted(pair) for pair in zip(credits, updates, strict=True)]
    apart = sum(high > 0.1 and low < HALF * high for low, high in pairs)
    if 2 * apart <= len(credits):
        return ""
    shown = ", ".join(f"{u:.2f}" for u in updates)
    return f"in {apart} of {len(credits)} blocks the updates do not agree with the declared credits (cosines {shown})"


def by_label(evidence: Evidence, values: Sequence[float]) -> Mapping[str, float | None]:
    """Values by seed; nothing if there is not one for each."""
    labels = evidence.labels()
    return dict(zip(labels, values, strict=True)) if len(values) == len(labels) else dict.fromkeys(labels)
