"""chance: is Γ above what credits that know nothing would give? The first of three checks on Γ.

The null is one for every rule: the credits, turned by one random rotation per draw. Its spread is at most 1/√d, that of
one random direction in d dimensions. Where it was not measured, Γ must be above whatever it could have been.
"""

import math
import statistics
from collections.abc import Mapping
from typing import NamedTuple

from walkback.checks.base import Check, register
from walkback.checks.depth import CONFIDENCE
from walkback.checks.finding import Finding, Interval, Outcome, Protocol, known, stable_range
from walkback.checks.gamma import FEWEST, UPDATE, by_label, gamma_of, mean_with
from walkback.checks.paired_gain import two_sided
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


class Above(NamedTuple):
    """Γ less its null, by seed, and the null's standard deviation by seed.

    worst   where the null was not measured: the most that its mean and its spread can be; None: it was measured
    """

    gamma: list[float]
    over: list[float]
    spread: list[float]
    worst: float | None = None

    def noise(self, band: float = 1.0) -> float:
        """How far the mean of Γ strays from its null by chance, at so many standard errors."""
        return band * math.sqrt(math.fsum(s * s for s in self.spread)) / len(self.spread)

    def interval(self, confidence: float) -> Interval:
        """Γ − null with its interval. Where the null was not measured, the worst that any null leaves."""
        found, n = mean_with(self.over, confidence), len(self.over)
        if self.worst is None or found.low is None or found.value is None:
            return found
        # A null within ± worst lowers the mean by that at most, and widens its spread by that of two points.
        wider = two_sided(confidence, n - 1) * self.worst / math.sqrt(n - 1)
        return Interval(value=found.value - self.worst, low=found.low - self.worst - wider, high=found.high)


def above_null(evidence: Evidence) -> Above | None:
    """What Γ is compared with; None where it is not known."""
    gammas = gamma_of(evidence)
    if gammas.table is None:
        return None
    nulls = [_null_of(seed.final, gammas.place) for seed in evidence.seeds]
    bound = None if evidence.width is None else 1 / math.sqrt(evidence.width)
    found = gammas.by_seed
    if None not in nulls:
        # No rotation gives more than the bound; a null that does was not drawn so, or from too few draws.
        most = math.inf if bound is None or gammas.place == UPDATE else bound
        pairs = [(max(-most, min(most, mean)), min(most, std)) for mean, std in filter(None, nulls)]
        return Above(found, [g - mean for g, (mean, _) in zip(found, pairs, strict=True)], [std for _, std in pairs])
    if bound is None or gammas.place == UPDATE:
        return None
    return Above(found, found, [bound] * len(found), bound)


def _null_of(moment: Moment, place: str) -> tuple[float, float] | None:
    """The mean and the standard deviation of the null of Γ, if it was measured."""
    each = [u.null for u in moment.measured.get(UPDATE, [])] if place == UPDATE else [moment.rotated_gamma]
    known_ones = [n for n in each if n is not None and n.n >= 2 and known(n.mean) and known(n.std)]
    if not each or len(known_ones) < len(each):
        return None
    # The spread of a mean is at most the mean of the spreads, however the blocks hang together.
    return statistics.fmean(n.mean for n in known_ones), statistics.fmean(n.std for n in known_ones)


def _find(evidence: Evidence, thresholds: Thresholds, protocol: Protocol) -> Finding:
    """Passes if Γ is above its null; fires if it is not, and is shown to be below .05."""
    del protocol
    above, confidence = above_null(evidence), thresholds[CONFIDENCE]
    if above is None:
        return _unknown(evidence, thresholds)
    over, gamma = above.interval(confidence), mean_with(above.gamma, confidence)

    def outcome_at(band: float = thresholds[BAND], small: float = thresholds[SMALL]) -> Outcome:
        if len(above.over) < FEWEST or over.value is None or gamma.high is None:
            return "open"
        if over.above(0) and over.value > above.noise(band):
            return "passes"
        return "fires" if above.worst is None and gamma.high <= small else "open"

    now, noise = outcome_at(), above.noise()
    bands = [over.value / noise] if over.value is not None and noise > 0 else []
    stable = stable_range(lambda at: outcome_at(small=at), [gamma.high], thresholds[SMALL])
    return Finding(
        check="chance", outcome=now, value=gamma.value, low=gamma.low, high=gamma.high, threshold=thresholds[SMALL],
        basis="exact" if above.worst is None else "bound", stable_range=stable,
        ranges={SMALL: stable, BAND: stable_range(outcome_at, bands, thresholds[BAND])},
        says=_says(above, over, gamma, now, thresholds[SMALL]),
        wants_seeds=now == "open" and (above.worst is None or not over.above(0)),
    )  # fmt: skip


def _unknown(evidence: Evidence, thresholds: Thresholds) -> Finding:
    """Γ alone, where it is not known what to compare it with."""
    gammas = gamma_of(evidence)
    return Finding(
        check="chance", outcome="open", basis="missing", threshold=thresholds[SMALL], stable_range=(None, None),
        value=statistics.fmean(gammas.by_seed) if gammas.table else None,
        ranges=dict.fromkeys((SMALL, BAND), (None, None)), says=SAYS["no null" if gammas.table else "no Γ"],
    )  # fmt: skip


def _says(above: Above, over: Interval, gamma: Interval, found: Outcome, small: float) -> str:
    ends = "" if gamma.low is None or gamma.high is None else f" ({gamma.low:.3f} to {gamma.high:.3f})"
    spread = math.sqrt(math.fsum(s * s for s in above.spread) / len(above.spread))
    words = f"Γ at the blocks' outputs is {gamma.value:.3f}{ends} against a null of spread "
    words += f"{'' if above.worst is None else 'at most '}{spread:.3f}"
    case: str = found
    if found == "passes" and gamma.value is not None and gamma.value < small:
        case = "small"
    elif found == "fires" and over.below(0):
        case = "away"
    elif found == "open" and len(above.over) < FEWEST:
        case = "few seeds"
    return f"{words}: {SAYS[case].format(small=small, least=FEWEST)}"


class Chance(Check):
    """Γ against the rotation of its own credits."""

    name = "chance"
    place = 3
    answer = "gamma"
    asks = "Is Γ above what credits that know nothing would give?"
    raised = "Γ is not above its null, and is shown to be below .05"
    heading = "Γ"
    quantity: Mapping[Protocol, str] = {"ours": "Γ, the mean over the blocks of the cosine at their output"}
    not_asked = "The published protocol does not ask whether Γ is above chance."
    spread = "mean"
    undated = "its null is measured at the end only"
    limits: Mapping[str, Limit] = {
        BAND: Limit(3, OURS, "not calibrated: standard errors of the null, conventional for 'not by chance'"),
        SMALL: Limit(
            0.05, OURS, "a forward gradient trains with a Γ of .03: less than .05 is small, and need not be chance",
            allowed=(0, 1),
        ),
    }  # fmt: skip
    judged = "Γ, the mean cosine at the blocks' outputs. One dot is one seed; the bar is the interval of the mean."
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

    def phrase(self, finding: Finding) -> str:
        """Γ, and whether it is above chance."""
        if finding.value is None:
            return "Γ is not known"
        return f"Γ is {finding.value:.2f}" + (", not above chance" if finding.outcome == "fires" else "")

    def by_seed(self, evidence: Evidence, thresholds: Thresholds) -> Mapping[str, float | None]:
        """Γ."""
        del thresholds
        return by_label(evidence, gamma_of(evidence).by_seed)


chance = register(Chance())
