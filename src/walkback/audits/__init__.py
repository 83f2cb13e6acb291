"""The doors: train what an audit needs, probe a model of yours, or take records as they are; all end in the checks.

The room is not named `audit` because `walkback.audit` is the function.
"""

from walkback.audits.card import make_card
from walkback.audits.carded import cards_of_folder, measure_cards
from walkback.audits.compared import compare_paths
from walkback.audits.model import audit
from walkback.audits.records import fired_by, judge_crowd, judge_paths, report_paths, stopping
from walkback.audits.told import told_by
from walkback.audits.trained import audit_plan, audit_rules, evidence_by_subject, usual
from walkback.audits.training.door import audit_training
from walkback.audits.watching import Watch, watch

__all__ = [
    "Watch",
    "audit",
    "audit_plan",
    "audit_rules",
    "audit_training",
    "cards_of_folder",
    "compare_paths",
    "evidence_by_subject",
    "fired_by",
    "judge_crowd",
    "judge_paths",
    "make_card",
    "measure_cards",
    "report_paths",
    "stopping",
    "told_by",
    "usual",
    "watch",
]
