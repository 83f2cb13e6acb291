"""The rules by name, and the way in for a rule that lives in somebody's own file."""

import hashlib
import importlib.util
import inspect
import sys
from pathlib import Path
from typing import Any

import torch

from walkback.errors import BadValue, UnknownName
from walkback.nets import check_options
from walkback.registry import Registry, nearest
from walkback.rules.base import Rule, Shape

RULES: Registry[type[Rule]] = Registry("rule")
OURS = frozenset({"bp", "fa", "dfa", "random"})


def register_rule(name: str, rule: type[Rule]) -> type[Rule]:
    """Make a rule of yours known by `name` to everything in this process."""
    if not (isinstance(rule, type) and issubclass(rule, Rule)):
        raise BadValue(f"{rule!r} is not a rule", "derive it from walkback.Rule; docs/write-a-rule.md shows one")
    return RULES.add(name, rule)


def find_rule(name: str) -> type[Rule]:
    """A registered name (`dfa`), or a class in a file (`my_rule.py:MyRule`)."""
    if ".py" not in name:
        return RULES.get(name)
    path_text, _, class_name = name.partition(":")
    path = Path(path_text).expanduser()
    if not path.is_file():
        raise UnknownName(f"there is no rule file {path_text}", "give it as path/to/my_rule.py:MyRule")
    module = _load(path.resolve())
    rules = {k: v for k, v in vars(module).items() if isinstance(v, type) and issubclass(v, Rule) and v is not Rule}
    own = {k: v for k, v in rules.items() if v.__module__ == module.__name__}
    if not class_name and len(own) == 1:
        return next(iter(own.values()))
    if class_name not in rules:
        remedy = nearest(class_name, own) if own else "derive a class from walkback.Rule there"
        raise UnknownName(f"{path_text} has no rule {class_name!r}", remedy)
    return rules[class_name]


def _load(path: Path) -> Any:
    """Import a file as a module of its own, once for each content."""
    name = f"walkback_rule_{path.stem}_{hashlib.sha256(path.read_bytes()).hexdigest()[:12]}"
    if name in sys.modules:
        return sys.modules[name]
    spec = importlib.util.spec_from_file_location(name, path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    try:
        spec.loader.exec_module(module)
    except Exception as error:
        del sys.modules[name]
        raise BadValue(
            f"{path.name} could not be imported: {type(error).__name__}: {error}", "mend the file"
        ) from error
    return module


def fingerprint(name: str) -> str | None:
    """A hash of the source of a rule that is not ours, so that an edited rule is a different run; None for ours."""
    rule = find_rule(name)
    if name in OURS:
        return None
    try:
        source = inspect.getsource(sys.modules[rule.__module__] if ".py" in name else rule)
    except (OSError, TypeError):
        source = rule.__qualname__  # typed into a prompt: nothing better is to be had
    return hashlib.sha256(source.encode()).hexdigest()[:16]


def make_rule(name: str, shape: Shape, generator: torch.Generator, options: dict[str, Any]) -> Rule:
    """Build a rule and draw its feedback weights from `generator`."""
    rule = find_rule(name)
    check_options(f"rule {name}", rule, options)
    return rule(shape, generator, **options)
