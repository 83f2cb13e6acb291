"""The doors: train what an audit needs, probe a model of yours, or take records as they are; all end in the checks.

The room is not named `audit` because `walkback.audit` is the function. Each name is imported when it is first used:
who judges records needs no torch.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from walkback.audits.coming import coming as coming
    from walkback.audits.controls import control_bp as control_bp
    from walkback.audits.controls import control_random as control_random
    from walkback.audits.model import audit as audit
    from walkback.audits.records import audits_of as audits_of
    from walkback.audits.records import compare_paths as compare_paths
    from walkback.audits.records import fired_by as fired_by
    from walkback.audits.records import judge_paths as judge_paths
    from walkback.audits.records import report_paths as report_paths
    from walkback.audits.records import stopping as stopping
    from walkback.audits.rule_cards import cards_of_folder as cards_of_folder
    from walkback.audits.rule_cards import make_card as make_card
    from walkback.audits.rule_cards import measure_cards as measure_cards
    from walkback.audits.rule_cards import step_cost as step_cost
    from walkback.audits.rules_audit import audit_plan as audit_plan
    from walkback.audits.rules_audit import audit_rules as audit_rules
    from walkback.audits.rules_audit import usual as usual
    from walkback.audits.spine import audit_subjects as audit_subjects
    from walkback.audits.user_training import audit_training as audit_training
    from walkback.audits.watching import watch as watch

_HOME = {
    "audit": "model", "audit_plan": "rules_audit", "audit_rules": "rules_audit",
    "audit_subjects": "spine", "audit_training": "user_training", "audits_of": "records",
    "cards_of_folder": "rule_cards", "coming": "coming", "compare_paths": "records", "control_bp": "controls",
    "control_random": "controls", "fired_by": "records", "judge_paths": "records", "make_card": "rule_cards",
    "measure_cards": "rule_cards", "report_paths": "records", "step_cost": "rule_cards", "stopping": "records",
    "usual": "rules_audit", "watch": "watching",
}  # fmt: skip

__all__ = [*_HOME]


def __getattr__(name: str) -> Any:
    if name not in _HOME:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    thing = globals()[name] = getattr(import_module(f"{__name__}.{_HOME[name]}"), name)
    return thing
