"""Find the blocks of a user's model by the names of its modules."""

import difflib
from collections.abc import Sequence
from fnmatch import fnmatchcase

from torch import nn

from walkback.errors import BadValue, UnknownName
from walkback.probes.wrapped import plain_name, plain_pattern
from walkback.registry import nearest


def find_blocks(model: nn.Module, pattern: str | Sequence[str]) -> dict[str, nn.Module]:
    """The modules whose name matches: in the model's order for one pattern, in yours for a list of names or patterns.

    `*` stands for one component of the name: "layers.*" is layers.0, layers.1, … and not layers.0.linear.

    >>> stack = nn.ModuleDict({"layers": nn.Sequential(nn.Linear(2, 2), nn.Sequential(nn.ReLU()))})
    >>> list(find_blocks(stack, "layers.*"))
    ['layers.0', 'layers.1']
    """
    # With duplicates: a module registered under two names is two blocks, and both rows will say "called 2 times".
    names: dict[str, nn.Module] = {}
    for name, part in model.named_modules(remove_duplicate=False):
        if plain_name(name):
            names.setdefault(plain_name(name), part)  # of a wrapped part the wrapper, which comes first
    found: dict[str, nn.Module] = {}
    for one in [pattern] if isinstance(pattern, str) else pattern:
        wanted = plain_pattern(one, set(names))
        matched = {name: part for name, part in names.items() if _matches(name, wanted)}
        if not matched and "module" in names:  # in a wrapper that is not known
            matched = {name: part for name, part in names.items() if _matches(name, f"module.{wanted}")}
        if not matched:
            near = difflib.get_close_matches(one, names, n=8, cutoff=0)  # a large model has too many to list
            raise UnknownName(f"none of the {len(names)} modules in {type(model).__name__} matches {one!r}",
                              nearest(one, near) if near else "it has no modules inside")  # fmt: skip
        found |= matched
    if not found:
        raise BadValue("no blocks were named", 'name them, as in blocks="layers.*"')
    for name in found:
        outer = next((other for other in found if name.startswith(f"{other}.")), None)
        if outer is not None:
            raise BadValue(f"block {name} is inside block {outer}, so it would be counted twice", "name one of them")
    return found


def _matches(name: str, pattern: str) -> bool:
    parts, wanted = name.split("."), pattern.split(".")
    return len(parts) == len(wanted) and all(fnmatchcase(p, w) for p, w in zip(parts, wanted, strict=True))
