"""The rules: one file each, found by walking this folder; its docstring has the formula."""

from walkback.registry import walk
from walkback.rules.base import (
    NORMALIZATIONS,
    RULES,
    Credits,
    Feedbacks,
    Rule,
    check_normalization,
    find_rule,
    make_rule,
    normalize_credit,
    register_rule,
    rule_source,
)
from walkback.rules.docstrings import rule_words
from walkback.rules.signal import START, Batch, Clock, Signal, output_error, probe_signal

walk("walkback.rules")

__all__ = [
    "NORMALIZATIONS", "RULES", "START", "Batch", "Clock", "Credits", "Feedbacks", "Rule", "Signal",
    "check_normalization", "find_rule", "make_rule", "normalize_credit", "output_error", "probe_signal",
    "register_rule", "rule_source", "rule_words",
]  # fmt: skip
