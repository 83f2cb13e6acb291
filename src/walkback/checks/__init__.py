"""The checks: questions put to the evidence, one file each, and the verdict. Pure functions; nothing is measured."""

from walkback.checks.audit import Audit, Control
from walkback.checks.coverage import coverage
from walkback.checks.depth import depth
from walkback.checks.finding import Basis, Finding, Outcome, Protocol
from walkback.checks.judge import Accuracy, Described, FirstFired, Judgement, fires_at, first_fired, judge
from walkback.checks.reference import reference
from walkback.checks.scale import scale
from walkback.checks.thresholds import DEFAULT, Threshold, Thresholds, load_thresholds
from walkback.checks.verdict import Verdict, VerdictName, verdict

__all__ = [
    "DEFAULT",
    "Accuracy",
    "Audit",
    "Basis",
    "Control",
    "Described",
    "Finding",
    "FirstFired",
    "Judgement",
    "Outcome",
    "Protocol",
    "Threshold",
    "Thresholds",
    "Verdict",
    "VerdictName",
    "coverage",
    "depth",
    "fires_at",
    "first_fired",
    "judge",
    "load_thresholds",
    "reference",
    "scale",
    "verdict",
]
