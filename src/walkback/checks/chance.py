"""chance: is Γ above what credits that know nothing would give? The first of three checks on Γ.

The null is one for every rule: the credits, turned by one random rotation per draw. Its spread is at most 1/√d, that of
one random direction in d dimensions. Where it was not measured, Γ must be above whatever it could have been.
"""

import math
import statistics
from collections.abc import Mapping, Sequence

from walkback.checks.base import Check, register
from walkback.checks.depth import CONFIDENCE
from walkback.checks.finding import Finding, Interval, Limits, Outcome, Protocol, known, make_finding
from walkback.checks.gamma import UPDATE, Gamma, by_label, gamma_of, mean_with
from walkback.checks.paired_gain import FEWEST, two_sided
from walkback.checks.thresholds import OURS, Limit, Thresholds
from walkback.records.evidence import Evidence
from walkback.records.moment import Moment

BAND, SMALL = "chance.band", "chance.small"
SAYS = {
    "no Γ": "The cosines at the blocks' outputs are not known on every seed.",
    "no null": "The null of Γ was not measured, and the width of the blocks is not known.",
    "passes": "above chance.",
    "small": "above chance. It is small: below {small:g}.",
    "fires": "not above chance.",
    "away": "not above chance. It points away from the gradient.",
    "open": "it is open whether that is above chance.",
    "few seeds": "it is open whether that is above chance. It takes {least} seeds to settle it.",
}


Null = tuple[float, float]  # its mean and its standard deviation


def nulls_of(evidence: Evidence, gammas: Gamma) -> tuple[list[Null], float | None]:
    """The null of Γ by seed; empty where nothing is known of it, or of Γ.

    Where it was not measured, a second number says how large both can be at most.
    """
    if gammas.table is None:
        return [], None
    bound = None if evidence.width is None or gammas.place == UPDATE else 1 / math.sqrt(evidence.width)
    nulls = [_null_of(seed.final, gammas.place) for seed in evidence.seeds]
    if None in nulls:
        return ([], None) if bound is None else ([(0.0, bound)] * len(nulls), bound)
    # No rotation gives more than the bound; a null that does was not drawn so, or from too few draws.
    most = math.inf if bound is None else bound
    return [(max(-most, min(most, mean)), min(most, std)) for mean, std in filter(None, nulls)], None


def _null_of(moment: Moment, place: str) -> Null | None:
    """The null of Γ at one moment, if it was measured."""
    each = [u.null for u in moment.measured.get(UPDATE, [])] if place == UPDATE else [moment.rotated_gamma]
    measured = [n for n in each if n is not None and n.n >= 2 and known(n.mean) and known(n.std)]
    if not each or len(measured) < len(each):
        return None
    # The spread of a mean is at most the mean of the spreads, however the blocks hang together.
    return statistics.fmean(n.mean for n in measured), statistics.fmean(n.std for n in measured)


def over_null(over: Sequence[float], worst: float | None, confidence: float) -> Interval:
    """The interval of Γ − null. `worst`: of a null that was not measured, the most that it can be."""
    found, n = mean_with(over, confidence), len(over)
    if worst is None or found.low is None or found.value is None:
        return found
    # A null within ± worst lowers the mean by that at most, and widens its spread by that of two points.
    wider = two_sided(confidence, n - 1) * worst / math.sqrt(n - 1)
    return Interval(value=found.value - worst, low=found.low - worst - wider, high=found.high)


def _find(evidence: Evidence, thresholds: Thresholds) -> Finding:
    """Passes if Γ is above its null; fires if it is not, and is shown to be below .05."""
    gammas, confidence = gamma_of(evidence), thresholds[CONFIDENCE]
    nulls, worst = nulls_of(evidence, gammas)
    gamma = mean_with(gammas.by_seed, confidence)
    over = over_null([g - mean for g, (mean, _) in zip(gammas.by_seed, nulls, strict=False)], worst, confidence)
    squares = math.fsum(std * std for _, std in nulls)
    error = math.sqrt(squares) / max(1, len(nulls))  # of the mean of the nulls

    def outcome(at: Limits) -> Outcome:
        if len(nulls) < FEWEST or over.value is None or gamma.high is None:
            return "open"
        if over.above(0) and over.value > at[BAND] * error:
            return "passes"
        return "fires" if worst is None and gamma.high <= at[SMALL] else "open"

    now, low, high = outcome(thresholds), gamma.low if nulls else None, gamma.high if nulls else None
    if nulls:
        ends = "" if low is None or high is None else f" ({low:.3f} to {high:.3f})"
        spread = f"{'' if worst is None else 'at most '}{math.sqrt(squares / len(nulls)):.3f}"
        words = SAYS[_case(gamma, over, now, len(nulls), thresholds[SMALL])].format(
            small=thresholds[SMALL], least=FEWEST
        )
        says = f"Γ at the blocks' outputs is {gamma.value:.3f}{ends} against a null of spread {spread}: {words}"
    else:
        says = SAYS["no Γ" if gamma.value is None else "no null"]
    bands = [over.value / error] if over.value is not None and error > 0 else []
    return make_finding(
        "chance", thresholds, outcome, {SMALL: [high], BAND: bands}, value=gamma.value, low=low, high=high, says=says,
        basis="missing" if not nulls else "exact" if worst is None else "bound",
        wants_seeds=now == "open" and bool(nulls) and (worst is None or not over.above(0)),
    )  # fmt: skip


def _case(gamma: Interval, over: Interval, found: Outcome, seeds: int, small: float) -> str:
    """What decided, or keeps it open."""
    if found == "passes" and gamma.value is not None and gamma.value < small:
        return "small"
    if found == "fires" and over.below(0):
        return "away"
    return "few seeds" if found == "open" and seeds < FEWEST else found


class Chance(Check):
    """Γ against the rotation of its own credits."""

    name = "chance"
    place = 3
    answer = "gamma"
    asks = "Is Γ above what credits that know nothing would give?"
    raised = "Γ is not above its null, and is shown to be below .05"
    heading = "Γ"
    quantity: Mapping[Protocol, str] = {"ours": "Γ, the mean over the blocks of the cosine at their output"}
    spread = "mean"
    undated = "its null is measured at the end only"
    limits: Mapping[str, Limit] = {
        BAND: Limit(3, OURS, "not calibrated: standard errors of the null, conventional for 'not by chance'"),
        SMALL: Limit(
            0.05, OURS, "a forward gradient trains with a Γ of .03: less than .05 is small, and need not be chance",
            allowed=(0, 1),
        ),
    }  # fmt: skip
    caption = "Γ, the mean cosine at the blocks' outputs. One dot is one seed; the bar is the interval of the mean."
    means: Mapping[Outcome, str] = {
        "fires": "Γ says nothing: credits turned at random would give as much.",
        "passes": "Γ is above chance.",
        "open": "It is not settled whether Γ is above chance.",
    }
    do: Mapping[Outcome, str] = {
        "fires": "Report Γ with its null. Check the order, the sign and the feedback weights of the credits.",
        "open": "Measure the cosines and their null on every seed, or train more seeds.",
    }

    find = staticmethod(_find)

    def by_seed(self, evidence: Evidence) -> Mapping[str, float | None]:
        """Γ."""
        return by_label(evidence, gamma_of(evidence).by_seed)


chance = register(Chance())
