"""The rules: one file each, its formula in the docstring. A rule turns the output error into credits."""

from walkback.rules import bp as bp
from walkback.rules import dfa as dfa
from walkback.rules import fa as fa
from walkback.rules import random as random
from walkback.rules.base import (
    NORMALIZATIONS,
    Credits,
    Rule,
    Shape,
    Signal,
    check_normalization,
    normalize_credit,
    output_error,
    probe_signal,
)
from walkback.rules.library import RULES, find_rule, fingerprint, make_rule, register_rule
from walkback.rules.words import RuleWords, rule_words

__all__ = [
    "NORMALIZATIONS",
    "RULES",
    "Credits",
    "Rule",
    "RuleWords",
    "Shape",
    "Signal",
    "check_normalization",
    "find_rule",
    "fingerprint",
    "make_rule",
    "normalize_credit",
    "output_error",
    "probe_signal",
    "register_rule",
    "rule_words",
]
