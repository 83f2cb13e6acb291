"""The checks: questions put to the evidence, one file each, and the verdict. Pure functions; nothing is measured.

Every file of this folder is imported, and a check in it registers itself.
"""

from walkback.checks.audit import Audit, Control, SettingValidity
from walkback.checks.base import CHECKS, Check, FirstFired, check_named, fires_at, first_fired, in_order
from walkback.checks.chance import chance
from walkback.checks.depth import depth
from walkback.checks.finding import Basis, Finding, Interval, Outcome, Protocol, known, listed
from walkback.checks.paired_gain import DIGITS
from walkback.checks.reach import reach
from walkback.checks.reference import reference
from walkback.checks.scale import scale
from walkback.checks.size import size
from walkback.checks.spread import spread
from walkback.checks.stream import growth
from walkback.checks.thresholds import (
    LIMITS,
    PAPER,
    Limit,
    Threshold,
    Thresholds,
    completed,
    default_thresholds,
    load_thresholds,
)
from walkback.checks.verdict import Accuracy, Judgement, VerdictName, Verdicts, judge
from walkback.registry import walk

walk(__name__)
DEFAULT = default_thresholds()

__all__ = [
    "CHECKS", "DEFAULT", "DIGITS", "LIMITS", "PAPER", "Accuracy", "Audit", "Basis", "Check", "Control", "Finding",
    "FirstFired", "Interval", "Judgement", "Limit", "Outcome", "Protocol", "SettingValidity", "Threshold",
    "Thresholds", "VerdictName", "Verdicts", "chance", "check_named", "completed", "default_thresholds", "depth",
    "fires_at", "first_fired", "growth", "in_order", "judge", "known", "listed", "load_thresholds", "reach",
    "reference", "scale", "size", "spread",
]  # fmt: skip
