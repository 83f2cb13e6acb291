"""The rules by name, and the way in for a rule that lives in somebody's own file."""

from typing import Any

import torch

from walkback.errors import BadValue
from walkback.nets import check_options
from walkback.own import from_file, in_file, source_hash
from walkback.registry import Registry
from walkback.rules.base import Rule, Shape

RULES: Registry[type[Rule]] = Registry("rule")


def register_rule(name: str, rule: type[Rule]) -> type[Rule]:
    """Make a rule of yours known by `name` to everything in this process."""
    if not (isinstance(rule, type) and issubclass(rule, Rule)):
        raise BadValue(f"{rule!r} is not a rule", "derive it from walkback.Rule; docs/write-a-rule.md shows one")
    return RULES.add(name, rule)


def find_rule(name: str) -> type[Rule]:
    """A registered name (`dfa`), or a class in a file (`my_rule.py:MyRule`)."""
    if not in_file(name):
        return RULES.get(name)
    remedy = "derive a class from walkback.Rule there"
    found: type[Rule] = from_file(name, "rule", _is_rule, "path/to/my_rule.py:MyRule", remedy)
    return found


def _is_rule(thing: Any) -> bool:
    return isinstance(thing, type) and issubclass(thing, Rule) and thing is not Rule


def fingerprint(name: str) -> str | None:
    """A hash of the source of a rule that is not ours, so that an edited rule is a different run; None for ours."""
    return source_hash(name, find_rule(name))


def make_rule(name: str, shape: Shape, generator: torch.Generator, options: dict[str, Any]) -> Rule:
    """Build a rule and draw its feedback weights from `generator`."""
    rule = find_rule(name)
    check_options(f"rule {name}", rule, options)
    return rule(shape, generator, **options)
