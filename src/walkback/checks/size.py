"""size: do the credits agree with the gradient once their sizes count? The third of three checks on Γ.

A mean of per-sample cosines does not see sizes: +g on two thirds of the samples and −10 g on the rest has a positive Γ,
and climbs the loss. The Frobenius cosine ⟨A, G⟩ / (‖A‖ ‖G‖) of a block sees it. It never accuses: it lets Γ be even.
"""

from collections.abc import Mapping

from walkback.checks.base import Check, register
from walkback.checks.depth import CONFIDENCE
from walkback.checks.finding import Finding, Limits, Outcome, Protocol, make_finding
from walkback.checks.gamma import blocks_of, mean_with
from walkback.checks.paired_gain import FEWEST
from walkback.checks.thresholds import OURS, Limit, Thresholds
from walkback.records.evidence import Evidence

SHARE = "size.share"


def _find(evidence: Evidence, thresholds: Thresholds) -> Finding:
    """Passes if the Frobenius cosine is shown to be positive in more than half of the blocks; else it is open."""
    rows = [blocks_of(seed.final, sizes=True)[0] for seed in evidence.seeds]
    alike = len({len(row) for row in rows}) == 1
    columns = [[v for v in column if v is not None] for column in zip(*rows, strict=True)] if alike else []
    each = [mean_with(values if len(values) == len(rows) else [], thresholds[CONFIDENCE]) for values in columns]
    clear, values = sum(i.above(0) for i in each), [i.value for i in each if i.value is not None]
    everywhere = len(values) == len(each) > 0

    def outcome(at: Limits) -> Outcome:
        return "passes" if each and len(rows) >= FEWEST and clear > at[SHARE] * len(each) else "open"

    says = "The sizes of the credits were not measured, so Γ cannot be shown to be even."
    if everywhere:
        shown = ", ".join(f"{value:.2f}" for value in values)
        says = f"With sizes counted the cosines are {shown}: shown to be positive in {clear} of {len(each)} blocks."
    return make_finding(
        "size", thresholds, outcome, {SHARE: [clear / len(each)] if each else []},
        value=clear / len(each) if everywhere else None, basis="exact" if everywhere else "missing", says=says,
        wants_seeds=everywhere and outcome(thresholds) == "open",
        parts={f"block {block}": interval for block, interval in enumerate(each) if interval.value is not None},
    )  # fmt: skip


class Size(Check):
    """The share of blocks whose credits agree with the gradient, sizes counted."""

    name = "size"
    place = 5
    answer = "gamma"
    asks = "Do the credits agree with the gradient once their sizes count?"
    raised = "never: where it does not pass, Γ is open"
    heading = "blocks"
    form = "share"
    quantity: Mapping[Protocol, str] = {"ours": "the share of blocks whose Frobenius cosine is shown to be positive"}
    spread = "mean"
    undated = "it is measured at the end only"
    limits: Mapping[str, Limit] = {
        SHARE: Limit(0.5, OURS, "not calibrated: most of the blocks", allowed=(0, 1), form="percent"),
    }
    caption = "The share of blocks in which ⟨A, G⟩ / (‖A‖ ‖G‖) is shown to be positive."
    means: Mapping[Outcome, str] = {
        "passes": "With sizes counted, credit points along the gradient in most blocks.",
        "open": "It is not shown that credit descends the loss: a mean of cosines does not see sizes.",
    }
    do: Mapping[Outcome, str] = {"open": "Measure the Frobenius cosine of every block on every seed."}

    find = staticmethod(_find)


size = register(Size())
