"""The rules by name, and rules in a user's own file."""

from collections.abc import Mapping
from typing import Any

import torch

from walkback.errors import BadValue
from walkback.nets import Net, check_options
from walkback.own import Classes
from walkback.registry import Registry
from walkback.rules.base import Rule

RULES: Registry[type[Rule]] = Registry("rule")
CLASSES = Classes(RULES, Rule, "docs/write-a-rule.md")
find_rule, rule_source = CLASSES.find, CLASSES.source


def register_rule(name: str, rule: type[Rule]) -> type[Rule]:
    """Register your own rule under `name` in this process."""
    return CLASSES.add(name, rule)


def make_rule(name: str, net: Net, generator: torch.Generator, options: Mapping[str, Any]) -> Rule:
    """Build a rule for a net and draw its feedback weights from `generator`."""
    kind = find_rule(name)
    check_options(f"rule {name}", kind, options)
    rule = kind(net, generator, **options)
    _check_saved(name, rule, net)
    return rule


def _check_saved(name: str, rule: Rule, net: Net) -> None:
    """Refuse a rule that keeps the net, or tensors that no checkpoint would save."""
    if any(part is net for part in rule.modules()):
        raise BadValue(
            f"rule {name} keeps the net", "read its sizes in __init__; `backward` and `credits` are given it"
        )
    for key in vars(rule).keys() - vars(torch.nn.Module()).keys():
        value = vars(rule)[key]
        if _holds_tensors(value):
            raise BadValue(
                f"rule {name} keeps tensors in {key}, a plain {type(value).__name__}: they would not be saved with the "
                "run, and a resumed run would go on with others",
                "keep them as self.B = self.feedback(...), self.feedbacks(...), nn.Buffer, nn.ParameterList or "
                "nn.ModuleList",
            )


def _holds_tensors(value: Any) -> bool:
    if isinstance(value, torch.Tensor | torch.nn.Module):
        return True
    items = value.values() if isinstance(value, dict) else value if isinstance(value, list | tuple | set) else ()
    return any(_holds_tensors(item) for item in items)
