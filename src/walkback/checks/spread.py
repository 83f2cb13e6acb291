"""spread: of how many blocks does Γ speak? The second of three checks on Γ.

N = (Σc)² / Σc² over the blocks' mean cosines: 4 of 4 where all are alike, 1 where one block carries the average.
"""

import math
import statistics
from collections.abc import Mapping, Sequence

from walkback.checks.base import Check, register
from walkback.checks.chance import chance
from walkback.checks.depth import CONFIDENCE
from walkback.checks.finding import Finding, Interval, Limits, Outcome, Protocol, make_finding
from walkback.checks.gamma import TO_BE_EVEN, by_label, column_means, gamma_of
from walkback.checks.paired_gain import FEWEST, two_sided
from walkback.checks.thresholds import OURS, Limit, Thresholds
from walkback.records.evidence import Evidence

SHARE = "spread.share"
SAYS = {
    "unknown": "The cosines at the blocks' outputs are not known on every seed.",
    "one block": "The net has one block, so Γ is no average ({each}).",
    "not asked": "Γ is not above chance, so it is not asked.",
    "few seeds": "{seeds} seeds can show that few carry it; {least} are needed to show that it is even.",
    "chance": "It is open whether Γ is above chance.",
}


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
        return effective(column_means([row for place, row in enumerate(table) if place != left]))

    middle = without(None)
    if n < 2:
        return Interval(value=middle)
    parts = [without(place) for place in range(n)]
    mean = statistics.fmean(parts)
    error = math.sqrt((n - 1) / n * math.fsum((part - mean) ** 2 for part in parts))
    half = two_sided(confidence, n - 1) * error
    return Interval(value=middle, low=middle - half, high=middle + half)


def bar(blocks: int, share: float) -> float:
    """How many blocks Γ must speak for: (L + 1) / 2 at a share of one half.

    >>> bar(4, 0.5), bar(1, 0.5)
    (2.5, 1.0)
    """
    return 1 + share * (blocks - 1)


def others_needed(blocks: int) -> float:
    """With one block at cosine 1, what the bar of one half asks of the r others: where (1 + rx)² / (1 + rx²) is it.

    >>> [round(others_needed(blocks), 2) for blocks in (2, 4, 12)]
    [0.27, 0.24, 0.18]
    """
    others, above_one = blocks - 1, bar(blocks, 0.5) - 1
    return above_one / (others + math.sqrt(others**2 + others * (others - 1 - above_one) * above_one))


def _find(evidence: Evidence, thresholds: Thresholds) -> Finding:
    """Passes if Γ speaks for more than half of the blocks; fires if it is shown to speak for fewer."""
    gammas, seeds = gamma_of(evidence), len(evidence.seeds)
    blocks = evidence.blocks or len(gammas.by_block)
    above = chance(evidence, thresholds).outcome
    n = Interval() if gammas.table is None else spread_interval(gammas.table, thresholds[CONFIDENCE])
    n = n.changed(high=min(n.high, float(blocks))) if n.high is not None else n

    def outcome(at: Limits) -> Outcome:
        required = bar(blocks, min(1.0, max(0.0, at[SHARE])))
        if above == "fires":
            return "not asked"
        if above == "open" or gammas.table is None:
            return "open"
        if blocks == 1 or (n.above(required) and seeds >= TO_BE_EVEN):
            return "passes"
        return "fires" if n.below(required) and seeds >= FEWEST else "open"

    cuts = [(end - 1) / (blocks - 1) for end in (n.low, n.high) if end is not None and blocks > 1]
    now, required = outcome(thresholds), bar(max(blocks, 1), thresholds[SHARE])
    found = make_finding(
        "spread", thresholds, outcome, {SHARE: [cut for cut in cuts if 0 < cut < 1 - 1e-9]},
        value=n.value, low=n.low, high=n.high, basis="missing" if gammas.table is None else "exact",
        says=_says(gammas.by_block, n, now, required, above, seeds),
        wants_seeds=now == "open" and above != "open" and gammas.table is not None,
    )  # fmt: skip
    return found.changed(threshold=required)


def _says(cosines: list[float], n: Interval, found: Outcome, required: float, above: Outcome, seeds: int) -> str:
    each = f"cosines {', '.join(f'{c:.2f}' for c in cosines)}"
    if len(cosines) < 2:
        return SAYS["one block" if cosines else "unknown"].format(each=each)
    ends = "" if n.low is None or n.high is None else f" ({n.low:.1f} to {n.high:.1f})"
    words = f"Γ speaks for {n.value:.1f} of {len(cosines)} blocks{ends}; more than {required:g} is even ({each})."
    case: str = found
    if found == "open":
        case = "chance" if above == "open" else "few seeds" if n.above(required) else found
    return f"{words} {SAYS.get(case, '').format(seeds=seeds, least=TO_BE_EVEN)}".rstrip()


class Spread(Check):
    """The effective number of blocks that Γ speaks for."""

    name = "spread"
    place = 4
    answer = "gamma"
    asks = "Of how many blocks does Γ speak?"
    raised = "Γ is above chance, and shown to speak for fewer than (L + 1) / 2 blocks"
    heading = "blocks"
    quantity: Mapping[Protocol, str] = {"ours": "how many blocks Γ speaks for"}
    spread = "mean"
    figure = "cosines"
    undated = "it is a mean over seeds"
    limits: Mapping[str, Limit] = {
        SHARE: Limit(
            0.5, OURS, "not calibrated: the bar lies half way between one block and all of them; bp, EP and uSF have "
            "all of four, the published FA 1.2", allowed=(0, 1), form="percent",
        ),
    }  # fmt: skip
    caption = (
        "The cosine of {of} and true gradient in each block, {title}, at the block's output, on every seed. Γ, on the "
        "right, is the average."
    )
    means: Mapping[Outcome, str] = {
        "fires": "Aggregation collapse: the average hides that a few blocks carry it.",
        "passes": "Γ speaks for most of the blocks.",
        "open": "It is not settled for how many blocks Γ speaks.",
        "not asked": "Γ is not above chance, so its spread means nothing.",
    }
    do: Mapping[Outcome, str] = {
        "fires": "Report the cosine of every block, or their median, instead of Γ.",
        "open": "Measure the cosine of every block on every seed, or train more seeds.",
    }

    find = staticmethod(_find)

    def by_seed(self, evidence: Evidence) -> Mapping[str, float | None]:
        """N of each seed's own cosines."""
        return by_label(evidence, [effective(row) for row in gamma_of(evidence).table or []])


spread = register(Spread())
