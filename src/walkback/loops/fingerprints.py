"""What a user's functions and samples are, as hashes: another hash is another audit.

Of a function it is of its source, and of what that refers to in the same module. An edited helper, or another constant,
is another training. A change elsewhere in the file is none: the call of `wb.audit_training` often stands in the same
file.
"""

import functools
import hashlib
import inspect
import sys
from collections.abc import Iterator
from types import CodeType, FunctionType, MethodType, ModuleType
from typing import Any

import torch
from torch import Tensor

from walkback.probes.inputs import tensors_of

Batches = list[tuple[Any, Tensor]]
CONSTANTS = (bool, int, float, complex, str, bytes, type(None))
DEEPEST = 6


def fingerprint(thing: Any) -> str:
    """Sixteen hex digits of a function, a class, or an object with a `__call__`.

    >>> fingerprint(len) == fingerprint(len), fingerprint(lambda: 1) == fingerprint(lambda: 2)
    (True, False)
    """
    words = sorted(set(_parts(thing, set(), 0)))
    return hashlib.sha256("\n".join(words).encode(errors="replace")).hexdigest()[:16]


def _parts(thing: Any, seen: set[int], depth: int) -> Iterator[str]:
    """The sources that decide what a thing does, each with its name."""
    if id(thing) in seen or depth > DEEPEST:
        return
    seen.add(id(thing))
    if isinstance(thing, functools.partial):
        yield f"partial {thing.args!r} {sorted(thing.keywords.items())!r}"
        yield from _parts(thing.func, seen, depth)
    elif isinstance(thing, MethodType):
        yield from _parts(thing.__func__, seen, depth)
        yield from _parts(type(thing.__self__), seen, depth)
    elif isinstance(thing, FunctionType):
        yield _source(thing)
        names = set(_names(thing.__code__))
        for name in sorted(names & thing.__globals__.keys()):
            yield from _value(name, thing.__globals__[name], thing.__module__, seen, depth + 1)
        for name, cell in zip(thing.__code__.co_freevars, thing.__closure__ or (), strict=False):
            try:
                yield from _value(name, cell.cell_contents, thing.__module__, seen, depth + 1)
            except ValueError:  # not filled yet
                continue
        for default in (*(thing.__defaults__ or ()), *(thing.__kwdefaults__ or {}).values()):
            yield from _value("default", default, thing.__module__, seen, depth + 1)
    elif isinstance(thing, type):
        yield _source(thing)
        for value in vars(thing).values():
            function = getattr(value, "__func__", value)
            if isinstance(function, FunctionType):
                yield from _parts(function, seen, depth + 1)
    elif callable(thing):
        yield from _parts(type(thing), seen, depth + 1)


def _value(name: str, value: Any, module: str, seen: set[int], depth: int) -> Iterator[str]:
    """What a name stands for: a constant, or code of the same module; a library is taken as it is."""
    if isinstance(value, CONSTANTS) or (
        isinstance(value, tuple | list) and all(isinstance(each, CONSTANTS) for each in value)
    ):
        yield f"{name} = {value!r}"
    elif not isinstance(value, ModuleType) and getattr(value, "__module__", None) == module:
        yield from _parts(value, seen, depth)


def _names(code: CodeType) -> Iterator[str]:
    """All names that a piece of code, and the code inside it, looks up."""
    yield from code.co_names
    for constant in code.co_consts:
        if isinstance(constant, CodeType):
            yield from _names(constant)


def _source(thing: Any) -> str:
    try:
        if thing.__module__ not in sys.modules:
            raise OSError
        return inspect.getsource(thing)
    except (OSError, TypeError):  # typed into a prompt: what was compiled is all there is
        code = getattr(thing, "__code__", None)
        if code is None:
            return str(getattr(thing, "__qualname__", type(thing).__name__))
        return f"{code.co_code!r} {[c for c in code.co_consts if not isinstance(c, CodeType)]!r} {code.co_names}"


def fingerprint_of(batches: Batches) -> str:
    """A hash of samples and labels."""
    digest = hashlib.sha256()
    for inputs, labels in batches:
        for name, value in (*tensors_of(inputs).items(), ("labels", labels)):
            digest.update(f"{name} {tuple(value.shape)} {value.dtype};".encode())
            digest.update(rows(value.unsqueeze(0))[0])
    return digest.hexdigest()[:16]


def overlap(test: Batches, train: Batches) -> int:
    """How many test samples are, bit for bit, among the training samples."""
    seen = {sample for inputs, _ in train for sample in _samples(inputs)}
    return sum(sample in seen for inputs, _ in test for sample in _samples(inputs))


def _samples(inputs: Any) -> Iterator[bytes]:
    return map(b"|".join, zip(*map(rows, tensors_of(inputs).values()), strict=False))


def rows(values: Tensor) -> list[bytes]:
    """The bytes of every sample."""
    flat = values.detach().cpu().contiguous().reshape(len(values), -1)
    return [row.contiguous().view(torch.uint8).numpy().tobytes() for row in flat] if flat.numel() else []
