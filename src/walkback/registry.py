"""Tables of named objects: looked up with suggestions, listed with wildcards."""

import difflib
import fnmatch
import importlib
import pkgutil
from collections.abc import Iterable
from typing import Generic, TypeVar

from walkback.errors import BadValue, UnknownName

T = TypeVar("T")


def nearest(name: str, known: Iterable[str]) -> str:
    """A sentence that suggests the known names closest to `name`, or all of them.

    >>> nearest("dfaa", ["bp", "fa", "dfa"])
    'did you mean dfa or fa? Known: bp, dfa, fa'
    >>> nearest("zzz", ["bp", "fa"])
    'known: bp, fa'
    """
    names = sorted(known)
    close = difflib.get_close_matches(name.lower(), names, n=3, cutoff=0.5)
    everything = ", ".join(names)
    return f"did you mean {' or '.join(close)}? Known: {everything}" if close else f"known: {everything}"


def walk(package: str) -> None:
    """Import every module in the folder of a package, in the order of their names: each registers its content."""
    folder = importlib.import_module(package)
    for module in pkgutil.iter_modules(folder.__path__):
        importlib.import_module(f"{package}.{module.name}")


class Registry(Generic[T]):
    """A table of named things of one kind (`rule`, `net`, `data set`)."""

    def __init__(self, kind: str):
        self.kind = kind
        self._things: dict[str, T] = {}

    def add(self, name: str, thing: T) -> T:
        """Register `thing` under a free name; registering the same thing twice is harmless."""
        if name in self._things and self._things[name] != thing:
            raise BadValue(f"a {self.kind} named {name!r} exists already", "choose another name")
        self._things[name] = thing
        return thing

    def get(self, name: str) -> T:
        """The thing of that name."""
        if name not in self._things:
            raise UnknownName(f"no {self.kind} is named {name!r}", nearest(name, self._things))
        return self._things[name]

    def names(self, pattern: str = "*") -> list[str]:
        """The known names that match a wildcard, in the order they were added."""
        return [name for name in self._things if fnmatch.fnmatchcase(name, pattern)]

    def __contains__(self, name: str) -> bool:
        return name in self._things
