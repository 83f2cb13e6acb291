"""Rules, nets and data sets in users' own files, named as path/to/my_rule.py:MyRule.

A file is imported once per content. Its hash is part of every run that uses it, so an edited file is another run.
"""

import hashlib
import importlib.util
import inspect
import re
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar

from walkback.errors import BadValue, UnknownName
from walkback.files import read_bytes
from walkback.registry import Registry, nearest

T = TypeVar("T")


def in_file(name: str) -> bool:
    """Whether a name refers to something in a file.

    >>> in_file("my_rule.py:MyRule"), in_file("rules/mine.py"), in_file("dfa")
    (True, True, False)
    """
    return re.search(r"\.py(:|$)", name) is not None


def as_written(name: str) -> str:
    """The name as a run keeps it: a path in one spelling, anything else unchanged."""
    return str(Path(name)) if in_file(name) else name


def from_file(name: str, kind: str, fits: Callable[[Any], bool], example: str, remedy: str) -> Any:
    """The object in a file that `fits`, by its name; without a name, the only one that the file itself defines.

    kind      what it is, for messages: "rule", "net", "data set"
    example   how such a name is written
    remedy    what to do if the file has nothing of that kind
    """
    place, _, wanted = name.partition(":")
    path = Path(place).expanduser()
    if not path.is_file():
        raise UnknownName(f"the {kind} file {place} does not exist", f"give it as {example}")
    module = load_file(path.resolve())
    found = {key: value for key, value in vars(module).items() if fits(value)}
    own = {key: value for key, value in found.items() if getattr(value, "__module__", None) == module.__name__}
    if not wanted and len(own) == 1:
        return next(iter(own.values()))
    if wanted not in found:
        raise UnknownName(f"{place} has no {kind} {wanted!r}", nearest(wanted, own) if own else remedy)
    return found[wanted]


def is_kind_of(thing: Any, base: type) -> bool:
    """Whether a thing is a class derived from `base`.

    >>> is_kind_of(bool, int), is_kind_of(int, int), is_kind_of(True, int)
    (True, False, False)
    """
    return isinstance(thing, type) and issubclass(thing, base) and thing is not base


class Classes(Registry[type[T]]):
    """The classes derived from `base`: registered ones by name, and those in users' own files.

    shown   the page of the documentation that shows one
    """

    def __init__(self, kind: str, base: type[Any], shown: str):
        super().__init__(kind)
        self.base, self.shown = base, shown

    def find(self, name: str) -> type[T]:
        """A registered name (`dfa`), or a class in a file (`my_rule.py:MyRule`)."""
        if not in_file(name):
            return self.get(name)
        example = f"path/to/my_{self.kind}.py:My{self.base.__name__}"
        remedy = f"derive a class from walkback.{self.base.__name__} there; {self.shown} shows one"
        found: type[T] = from_file(name, self.kind, lambda thing: is_kind_of(thing, self.base), example, remedy)
        return found

    def add(self, name: str, thing: type[T]) -> type[T]:
        """Register a class under a free name; refused if it is not derived from `base`."""
        if not is_kind_of(thing, self.base):
            remedy = f"derive it from walkback.{self.base.__name__}; {self.shown} shows one"
            raise BadValue(f"{thing!r} is not a {self.kind}", remedy)
        return super().add(name, thing)

    def source(self, name: str) -> str | None:
        """A hash of the source of a user's class: an edited class is another run. None for ours."""
        return source_hash(name, self.find(name))


def load_file(path: Path) -> Any:
    """Import a file as a separate module, once per content."""
    name = f"walkback_own_{path.stem}_{hashlib.sha256(read_bytes(path)).hexdigest()[:12]}"
    if name in sys.modules:
        return sys.modules[name]
    spec = importlib.util.spec_from_file_location(name, path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    try:
        spec.loader.exec_module(module)
    except SystemExit as error:  # it would end this program, with a status that means something else
        del sys.modules[name]
        raise BadValue(
            f"{path.name} ends the program when it is imported (exit {error})",
            'leave exit() out of its top level, or put it under if __name__ == "__main__":',
        ) from error
    except Exception as error:
        del sys.modules[name]
        raise BadValue(f"{path.name} could not be imported: {type(error).__name__}: {error}", "fix the file") from error
    return module


def is_ours(thing: Any) -> bool:
    """Whether a registered object came with walkback, not from a user's own code."""
    module = getattr(thing, "__module__", None) or type(thing).__module__
    return module.partition(".")[0] == "walkback"


def source_hash(name: str, thing: Any) -> str | None:
    """A hash of the source of a user's object: an edited one is another run. None for ours.

    For a file, the hash is of the whole file; for a registered object, of its own source.
    """
    if is_ours(thing):
        return None
    try:
        source = inspect.getsource(sys.modules[thing.__module__] if in_file(name) else thing)
    except (OSError, TypeError):
        source = getattr(thing, "__qualname__", name)  # typed into a prompt: nothing better is to be had
    return hashlib.sha256(source.encode()).hexdigest()[:16]


def foreign(registry: Registry[Any]) -> dict[str, Any]:
    """What the user's own code registered, which a new process does not know yet."""
    return {name: registry.get(name) for name in registry.names() if not is_ours(registry.get(name))}
