"""size: do the credits agree with the gradient once their sizes count? The third of three checks on Γ.

A mean of per-sample cosines does not see sizes: +g on two thirds of the samples and −10 g on the rest has a positive Γ,
and climbs the loss. The Frobenius cosine ⟨A, G⟩ / (‖A‖ ‖G‖) of a block sees it. It never accuses: it lets Γ be even.
"""

from collections.abc import Mapping

from walkback.checks.base import Check, register
from walkback.checks.finding import Finding, Interval, Outcome, Protocol, stable_range
from walkback.checks.gamma import FEWEST, NO_CREDIT, confidence_of, mean_with, value_of
from walkback.checks.thresholds import OURS, Limit, Thresholds
from walkback.records.evidence import Evidence
from walkback.records.moment import Moment

SHARE = "size.share"


def _sizes(moment: Moment) -> list[float | None]:
    """The Frobenius cosine by block; of a rule without credits that of its updates, which is of this kind."""
    cosines = moment.cosine_out or []
    if cosines and all(c is not None and c.status == NO_CREDIT for c in cosines):
        return [value_of(u) for u in moment.measured.get("update", [])]
    return [value_of(f) for f in moment.frobenius or []]


def _intervals(evidence: Evidence, confidence: float) -> list[Interval]:
    rows = [_sizes(seed.final) for seed in evidence.seeds]
    if not rows or not rows[0] or any(len(row) != len(rows[0]) for row in rows):
        return []
    columns = [[value for value in column if value is not None] for column in zip(*rows, strict=True)]
    return [mean_with(column, confidence) if len(column) == len(rows) else Interval() for column in columns]


def _find(evidence: Evidence, thresholds: Thresholds, protocol: Protocol) -> Finding:
    """Passes if the Frobenius cosine is shown to be positive in more than half of the blocks; else it is open."""
    del protocol
    each, share, seeds = _intervals(evidence, confidence_of(thresholds)), thresholds[SHARE], len(evidence.seeds)
    clear = sum(i.low is not None and i.low > 0 for i in each)

    def outcome(at: float) -> Outcome:
        return "passes" if each and seeds >= FEWEST and clear > at * len(each) else "open"

    stable = stable_range(outcome, [clear / len(each)] if each else [], share)
    values = [i.value for i in each if i.value is not None]
    says = "The sizes of the credits were not measured, so Γ cannot be shown to be even."
    if len(values) == len(each) > 0:
        shown = ", ".join(f"{value:.2f}" for value in values)
        says = f"With sizes counted the cosines are {shown}: shown to be positive in {clear} of {len(each)} blocks."
    return Finding(
        check="size", outcome=outcome(share), value=clear / len(each) if len(values) == len(each) > 0 else None,
        threshold=share, basis="exact" if len(values) == len(each) > 0 else "missing", stable_range=stable,
        ranges={SHARE: stable}, says=says, wants_seeds=outcome(share) == "open" and len(values) == len(each) > 0,
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
    share_of = "of blocks"
    quantity: Mapping[Protocol, str] = {"ours": "the share of blocks whose Frobenius cosine is shown to be positive"}
    not_asked = "The published protocol does not ask about the sizes of credits."
    spread = "mean"
    undated = "it is measured at the end only"
    limits: Mapping[str, Limit] = {
        SHARE: Limit(0.5, OURS, "not calibrated: most of the blocks", allowed=(0, 1), form="percent"),
    }
    layers = "⟨A, G⟩ / (‖A‖ ‖G‖) of each block, with the interval over seeds."
    judged = "The share of blocks in which ⟨A, G⟩ / (‖A‖ ‖G‖) is shown to be positive."
    means: Mapping[Outcome, str] = {
        "passes": "With sizes counted, credit points along the gradient in most blocks.",
        "open": "It is not shown that credit descends the loss: a mean of cosines does not see sizes.",
    }
    do: Mapping[Outcome, str] = {"open": "Measure the Frobenius cosine of every block on every seed."}

    find = staticmethod(_find)

    def phrase(self, finding: Finding) -> str:
        """In how many blocks sizes agree."""
        return "" if finding.value is None else f"sizes agree in {100 * finding.value:.0f} % of its blocks"


size = register(Size())
