"""What depth and reach share: both ask whether a gain in accuracy is as large as is required."""

from walkback.checks.base import Check
from walkback.checks.finding import Finding, gain_said


class GainCheck(Check):
    """A check of a gain: its phrase and its advice, by what was trained and what it is compared with."""

    heading = "points"
    form = "points"
    spread = "mean"
    layers = "The accuracies behind it: the mean, and one dot per seed."
    trained: str
    against: str
    unasked: str
    unknown: str
    bp_missing: str

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
