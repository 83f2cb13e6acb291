"""chance: is Γ above what credits that know nothing would give? The first of three checks on Γ.

The null is one for every rule: the credits, turned by one random rotation per draw. Its spread is at most 1/√d, that of
one random direction in d dimensions. Where it was not measured, Γ must be above whatever it could have been.
"""

import math
import statistics
from collections.abc import Mapping
from typing import NamedTuple

from walkback.checks.base import Check, register
from walkback.checks.finding import Finding, Interval, Outcome, Protocol, known, stable_range
from walkback.checks.gamma import FEWEST, by_label, confidence_of, gamma_of, mean_with
from walkback.checks.paired_gain import two_sided
from walkback.checks.thresholds import OURS, Limit, Thresholds
from walkback.records.evidence import Evidence
from walkback.records.moment import Moment

BAND, SMALL = "chance.band", "chance.small"


class Above(NamedTuple):
    """Γ less its null, by seed, and the null's standard deviation by seed.

    worst   where the null was not measured: the most that its mean and its spread can be; None: it was measured
    """

    gamma: list[float]
    over: list[float]
    spread: list[float]
    worst: float | None = None

    @property
    def measured(self) -> bool:
        """Whether the null was."""
        return self.worst is None

    def noise(self, band: float) -> float:
        """How far the mean of Γ strays from its null by chance, at so many standard errors."""
        return band * math.sqrt(math.fsum(s * s for s in self.spread)) / len(self.spread)

    def interval(self, confidence: float) -> Interval:
        """Γ − null with its interval. Where the null was not measured, the worst that any null leaves."""
        found = mean_with(self.over, confidence)
        n = len(self.over)
        if self.worst is None or found.low is None or found.value is None or n < 2:
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
        most = math.inf if bound is None or gammas.place == "update" else bound
        pairs = [(max(-most, min(most, mean)), min(most, std)) for mean, std in filter(None, nulls)]
        return Above(found, [g - mean for g, (mean, _) in zip(found, pairs, strict=True)], [std for _, std in pairs])
    if bound is None or gammas.place == "update":
        return None
    return Above(found, found, [bound] * len(found), bound)


def _null_of(moment: Moment, place: str) -> tuple[float, float] | None:
    """The mean and the standard deviation of the null of Γ, if it was measured."""
    updates = [u.null for u in moment.measured.get("update", [])]
    each = updates if place == "update" else [moment.rotated_gamma]
    known_ones = [n for n in each if n is not None and n.n >= 2 and known(n.mean) and known(n.std)]
    if not each or len(known_ones) < len(each):
        return None
    # The spread of a mean is at most the mean of the spreads, however the blocks hang together.
    return statistics.fmean(n.mean for n in known_ones), statistics.fmean(n.std for n in known_ones)


def _outcome(above: Above | None, over: Interval, gamma: Interval, band: float, small: float) -> Outcome:
    if above is None or len(above.over) < FEWEST or over.low is None or gamma.high is None or over.value is None:
        return "open"
    if over.low > 0 and over.value > above.noise(band):
        return "passes"
    return "fires" if above.measured and gamma.high <= small else "open"


def _find(evidence: Evidence, thresholds: Thresholds, protocol: Protocol) -> Finding:
    """Passes if Γ is above its null; fires if it is not, and is shown to be below .05."""
    del protocol
    above, confidence = above_null(evidence), confidence_of(thresholds)
    band, small = thresholds[BAND], thresholds[SMALL]
    over = Interval() if above is None else above.interval(confidence)
    gamma = Interval() if above is None else mean_with(above.gamma, confidence)
    now = _outcome(above, over, gamma, band, small)
    ranges = {
        SMALL: stable_range(lambda at: _outcome(above, over, gamma, band, at), [gamma.high], small),
        BAND: stable_range(lambda at: _outcome(above, over, gamma, at, small), _bands(above, over), band),
    }
    value = gamma if above is not None else Interval(value=_known_gamma(evidence))
    wants = now == "open" and above is not None and (above.measured or over.low is None or over.low <= 0)
    return Finding(
        check="chance", outcome=now, value=value.value, low=value.low, high=value.high, threshold=small,
        basis="missing" if above is None else "exact" if above.measured else "bound", stable_range=ranges[SMALL],
        ranges=ranges, says=_says(evidence, above, over, gamma, now, small), wants_seeds=wants,
    )  # fmt: skip


def _known_gamma(evidence: Evidence) -> float | None:
    found = gamma_of(evidence).by_seed
    return statistics.fmean(found) if found else None


def _bands(above: Above | None, over: Interval) -> list[float]:
    spread = 0.0 if above is None else above.noise(1.0)
    return [over.value / spread] if over.value is not None and spread > 0 else []


def _says(
    evidence: Evidence, above: Above | None, over: Interval, gamma: Interval, found: Outcome, small: float
) -> str:  # fmt: skip
    if above is None:
        if gamma_of(evidence).table is None:
            return "The cosines at the blocks' outputs are not known on every seed."
        return "The null of Γ was not measured, and the width of the blocks is not known."
    spread = math.sqrt(math.fsum(s * s for s in above.spread) / len(above.spread))
    null = f"a null of spread {spread:.3f}" if above.measured else f"a null of spread at most {spread:.3f}"
    words = f"Γ at the blocks' outputs is {gamma.value:.3f} against {null}"
    if gamma.low is not None and gamma.high is not None:
        words = f"Γ at the blocks' outputs is {gamma.value:.3f} ({gamma.low:.3f} to {gamma.high:.3f}) against {null}"
    if found == "passes":
        size = f". It is small: below {small:g}" if gamma.value is not None and gamma.value < small else ""
        return f"{words}: above chance{size}."
    if found == "fires":
        away = " It points away from the gradient." if over.high is not None and over.high < 0 else ""
        return f"{words}: not above chance.{away}"
    few = f" It takes {FEWEST} seeds to settle it." if len(above.over) < FEWEST else ""
    return f"{words}: it is open whether that is above chance.{few}"


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
