"""What depth and reach share: both ask whether a gain in accuracy is as large as is required."""

from abc import abstractmethod
from typing import NamedTuple

from walkback.checks import margin
from walkback.checks.base import Check, Gain
from walkback.checks.finding import Finding, Outcome, Protocol, gain_said, stable_range
from walkback.checks.margin import Margin, least_said, margin_said
from walkback.checks.thresholds import Thresholds
from walkback.records.evidence import Evidence


class Gains(NamedTuple):
    """What is known of a gain: the subject's own, that of bp, and what is required of both."""

    own: Margin | None
    task: Margin | None
    required: float
    confidence: float
    stopped: list[str]  # the seeds whose training was stopped
    nothing: str  # why there is nothing to ask about; empty if there is

    def said(self, gained: Margin) -> str:
        """One of the two gains, as a verb."""
        return margin_said(gained, self.required, self.confidence)

    def settled_said(self, own: Margin, gain: str, outcome: Outcome, bp: str) -> str:
        """What is said where the gain alone settles it, or leaves it open; empty where something else decides."""
        gain = f"{gain} {least_said(self.required)}"
        if outcome == "inconclusive" and own.against(self.required) != "inconclusive":
            return ""
        open_ = ": the interval contains it, so this is not settled."
        return gain + {"passes": ".", "fires": f"; {bp} clears it."}.get(outcome, open_)


class GainCheck(Check):
    """A check of a gain: how it is found, its phrase and its advice, by what was trained and what it is compared with.

    needed     the names of its thresholds: the least gain, and the confidence of its interval
    figure     says over which baseline the gain is, and what bp's is
    """

    heading = "points"
    form = "points"
    spread = "mean"
    layers = "The accuracies behind it: the mean, and one dot per seed."
    figure: Gain
    needed: tuple[str, str]
    trained: str
    against: str
    unasked: str
    unknown: str
    bp_missing: str

    @abstractmethod
    def outcome(self, gains: Gains, at: float) -> Outcome:
        """The answer if so much were required."""

    @abstractmethod
    def says(self, evidence: Evidence, gains: Gains, outcome: Outcome) -> str:
        """The answer in a sentence or two."""

    def nothing(self, evidence: Evidence) -> str:
        """Why there is nothing to ask about; empty if there is."""
        del evidence
        return ""

    def beside(self, evidence: Evidence, gains: Gains) -> list[str]:
        """What is said besides, a sentence each."""
        del evidence, gains
        return []

    def find(self, evidence: Evidence, thresholds: Thresholds, protocol: Protocol) -> Finding:
        """Passes if the gain is shown to be as large as required, fires if it is shown not to be and bp's is."""
        del protocol
        required, confidence = (thresholds[name] for name in self.needed)
        own = margin.margin_over(margin.accuracies(evidence), evidence.baselines.get(self.figure.over), confidence)
        task = margin.margin_of(*self.figure.task, evidence, confidence)
        stopped = [label for label, seed in evidence.labelled() if seed.ended == "stopped"]
        gains = Gains(own, task, required, confidence, stopped, self.nothing(evidence))
        cuts = [end for m in (own, task) if m is not None for end in (m.low, m.high)]
        outcome = self.outcome(gains, required)
        stable = stable_range(lambda at: self.outcome(gains, at), cuts, required)
        mean, low, high = (None, None, None) if own is None else own[:3]
        says = [gains.nothing or self.says(evidence, gains, outcome), *margin.typed_said(evidence, self.figure.shown)]
        return Finding(
            check=self.name, outcome=outcome, value=mean, low=low, high=high, threshold=required,
            basis="missing" if mean is None and outcome != "not applicable" else "exact",
            stable_range=stable, ranges={self.needed[0]: stable},
            says=" ".join([*says, *(self.beside(evidence, gains) if outcome != "not applicable" else [])]),
            warnings=margin.same_margins(own),
        )  # fmt: skip

    def phrase(self, finding: Finding) -> str:
        """What training them gains or costs."""
        if finding.outcome == "not applicable":
            return self.unasked
        if finding.value is None:
            return f"{self.unknown} is not known"
        only = "only " if finding.outcome == "fires" else ""
        said = gain_said(self.trained, finding.value, self.against, only)
        if finding.outcome == "inconclusive" and finding.low is not None and finding.high is not None:
            said += f" ({100 * finding.low:+.1f} to {100 * finding.high:+.1f})"
        elif finding.outcome == "inconclusive":
            said += ", on one seed"
        return said

    def advice(self, finding: Finding) -> str:
        """What is missing, if something is; more seeds, if the interval straddles the margin."""
        if finding.outcome != "inconclusive":
            return super().advice(finding)
        if finding.value is None:
            return f"Supply {self.unknown} on every seed."
        if finding.low is None or finding.high is None:
            return "Train at least two seeds: one gives no interval."
        if finding.low <= finding.threshold <= finding.high:
            return "More seeds: the interval straddles the margin."
        return self.bp_missing


def caption(blocks: str) -> str:
    """Below the figure of a gain, by what was left untrained."""
    return (
        f"The accuracy gained over the same net with {blocks} left at random init, seed by seed; the bar is the "
        "{confidence} interval of the mean. The first row judges."
    )
