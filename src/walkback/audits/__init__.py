"""The doors: train what an audit needs, probe a model of yours, or take records as they are; all end in the checks.

The room is not named `audit` because `walkback.audit` is the function. Each name is imported when it is first used:
who judges records needs no torch.
"""

from importlib import import_module
from typing import Any

from walkback.audits.controls import control_bp, control_random

_HOME = {
    "audit": "model", "audit_plan": "rules_audit", "audit_rules": "rules_audit",
    "audit_subjects": "spine", "audit_training": "user_training", "audits_of": "records",
    "cards_of_folder": "rule_cards", "compare_paths": "records", "fired_by": "records",
    "judge_paths": "records", "make_card": "rule_cards", "measure_cards": "rule_cards", "report_paths": "records",
    "step_cost": "rule_cards", "stopping": "records", "usual": "rules_audit", "watch": "watching",
}  # fmt: skip

__all__ = ["control_bp", "control_random", *_HOME]


def __getattr__(name: str) -> Any:
    if name not in _HOME:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    thing = globals()[name] = getattr(import_module(f"{__name__}.{_HOME[name]}"), name)
    return thing
