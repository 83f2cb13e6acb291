"""The promise of every probe: it leaves what it measures unchanged.

A forward pass may write into weights (an embedding with max_norm), count its calls in a plain attribute or fill a list.
A credit function may do anything. Remembered are the tensors, numpy arrays, random generators, lists and tables that
can be reached from a module by its attributes; other objects are remembered by identity only.
"""

import operator
import random
from collections import deque
from collections.abc import Callable, Iterator, MutableMapping
from contextlib import contextmanager, nullcontext
from functools import partial
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn.parameter import is_lazy

from walkback.probes.outputs import Around

Undo = Callable[[], bool]
"""Puts something back, and says whether it had changed."""


class Changes:
    """What had to be put back, known when the look is over: the parameters by name, and what could not be."""

    def __init__(self) -> None:
        self.parameters: list[str] = []
        self.stuck: list[str] = []

    def notes(self, who: str) -> list[str]:
        """These changes in words; `who` made them.

        >>> changes = Changes()
        >>> changes.parameters += ["embed.weight"]
        >>> changes.notes("the forward pass")
        ['the forward pass changes the weights of embed.weight; they were put back']
        """
        put_back = f"{who} changes the weights of {_few(self.parameters)}; they were put back"
        stuck = f"{who} changes {_few(self.stuck)}, and this could not be put back: check your model"
        return [*([put_back] if self.parameters else []), *([stuck] if self.stuck else [])]


def _few(names: list[str]) -> str:
    return ", ".join(names[:3]) + (f" and {len(names) - 3} more" if len(names) > 3 else "")


def random_state() -> Callable[[], None]:
    """Remember torch's, numpy's and Python's random state; what is returned puts it back, as often as it is called."""
    plain, python, numpy = torch.get_rng_state(), random.getstate(), np.random.get_state()
    cuda = torch.cuda.get_rng_state_all() if torch.cuda.is_initialized() else []  # type: ignore[no-untyped-call]

    def put_back() -> None:
        torch.set_rng_state(plain)
        if cuda:
            torch.cuda.set_rng_state_all(cuda)
        random.setstate(python)
        np.random.set_state(numpy)

    return put_back


@contextmanager
def undisturbed(*modules: nn.Module, whole: bool = False) -> Iterator[Changes]:
    """Evaluation mode inside; modes, gradients, flags, buffers and random state are put back, also after an error.

    Flags are requires_grad. Inside, parameters have no .grad: whatever a watched model or a credit function accumulates
    there falls into fresh tensors, and the old ones come back.
    `whole`, for models that are not ours: weights, attributes, hooks and torch's switches are put back too, and what is
    yielded says afterwards what had changed. It takes a copy of the weights.
    """
    changes = Changes()
    parts = [part for module in modules for part in module.modules()]
    modes = [part.training for part in parts]
    parameters = [p for module in modules for p in module.parameters()]
    gradients = [p.grad for p in parameters]
    # A forward may write into a buffer or put another tensor in its place: both are undone.
    slots = [(part, name, b, None if b is None else b.clone()) for part in parts for name, b in part._buffers.items()]
    tensors = [*parameters, *(b for _, _, b, _ in slots if b is not None)]
    flags = [t.requires_grad for t in tensors]
    put_random_state_back = random_state()
    with remembered(*modules) if whole else nullcontext() as memory:
        try:
            for module in modules:
                module.eval()
            for parameter in parameters:
                parameter.grad = None
            yield changes
        finally:
            if memory is not None:  # first, because a gradient fits only the weights that it was made for
                changes.parameters, changes.stuck = memory.restore()
            for part, mode in zip(parts, modes, strict=True):
                part.training = mode
            for parameter, gradient in zip(parameters, gradients, strict=True):
                parameter.grad = gradient
            with torch.no_grad():
                for part, name, buffer, value in slots:
                    part._buffers[name] = buffer
                    if buffer is not None and value is not None and not torch.equal(buffer, value):
                        buffer.copy_(value)
            for tensor, flag in zip(tensors, flags, strict=True):
                if tensor.requires_grad != flag:
                    tensor.requires_grad_(flag)
            put_random_state_back()


HIDDEN = ("_parameters", "_buffers", "_modules")  # parts of an attribute's path that nobody types
_held: dict[tuple[int, ...], "Memory"] = {}


@contextmanager
def remembered(*modules: nn.Module) -> Iterator["Memory"]:
    """The modules' memory, made here; or, inside another such block of the same modules, that of the outer one.

    Every block puts everything back, so the modules are at the start of an inner block as at that of the outer one.
    """
    key = tuple(id(_inside(module)) for module in modules)
    if key in _held:
        yield _held[key]
        return
    _held[key] = Memory(*modules)
    try:
        yield _held[key]
    finally:
        del _held[key]


def _inside(module: nn.Module) -> nn.Module:
    while isinstance(module, Around):
        module = module.model
    return module


class Memory:
    """The state of some modules, and torch's switches, at the moment this was made."""

    def __init__(self, *modules: nn.Module) -> None:
        self._undo: list[tuple[str, Undo]] = []
        self._parameters: set[str] = set()
        seen: set[int] = set()
        todo: deque[tuple[str, Any]] = deque(("", _inside(module)) for module in modules)
        while todo:
            path, value = todo.popleft()
            if id(value) not in seen:
                seen.add(id(value))
                todo.extend((_joined(path, str(key)), inner) for key, inner in self._remember(path, value))
        self._switches = [_undo(read, put) for read, put in SWITCHES]
        self._switches += [_table(getattr(nn.modules.module, name), ordered=True) for name in GLOBAL_HOOKS]

    def _remember(self, path: str, value: Any) -> list[tuple[Any, Any]]:
        """Remember one object; what is inside it is returned by key."""
        undo: Undo | None = None
        inside: list[tuple[Any, Any]] = []
        if isinstance(value, Tensor):
            if is_lazy(value) or value.is_meta:
                return []
            if isinstance(value, nn.Parameter):
                self._parameters.add(path)
            self._undo += [(path, _values(value)), (path, _tensor_hooks(value))]
        elif isinstance(value, nn.Module | torch.optim.Optimizer):
            undo, inside = _table(value.__dict__, ordered=False), [*value.__dict__.items()]
        elif isinstance(value, dict):
            undo, inside = _table(value, ordered=True), [*value.items()]
        elif isinstance(value, list | deque | tuple):
            undo, inside = None if isinstance(value, tuple) else _members(value), [*enumerate(value)]
        elif isinstance(value, set):
            undo = _members(value)
        elif isinstance(value, np.ndarray):
            put = partial(operator.setitem, value, ...)
            undo = _undo(value.copy, put, lambda a, b: a.tobytes() == b.tobytes())
        elif isinstance(value, torch.Generator):
            undo = _undo(value.get_state, value.set_state, torch.equal)
        if undo is not None:
            self._undo.append((path, undo))
        return inside

    def restore(self) -> tuple[list[str], list[str]]:
        """Restore everything. Returns the parameters that had changed, and what could not be restored."""
        changed, stuck = [], []
        for path, undo in self._undo:
            try:
                if undo() and path in self._parameters:
                    changed.append(path)
            except (RuntimeError, ValueError, TypeError, NotImplementedError):
                stuck.append(path)
        for undo in self._switches:
            undo()
        return list(dict.fromkeys(changed)), list(dict.fromkeys(stuck))


def _joined(path: str, key: str) -> str:
    return path if key in HIDDEN else f"{path}.{key}" if path else key


def _undo(read: Callable[[], Any], put: Callable[[Any], Any], same: Callable[[Any, Any], bool] = operator.eq) -> Undo:
    """Remember what `read` gives now."""
    before = read()

    def undo() -> bool:
        if same(before, read()):
            return False
        put(before)
        return True

    return undo


def _same_objects(one: dict[Any, Any], other: dict[Any, Any]) -> bool:
    return len(one) == len(other) and all(key in other and other[key] is one[key] for key in one)


def _table(table: MutableMapping[Any, Any], ordered: bool) -> Undo:
    def put(before: dict[Any, Any]) -> None:
        if ordered:  # a Sequential calls its modules in the order of this table
            table.clear()
        for key in [key for key in table if key not in before]:
            del table[key]
        table.update(before)

    return _undo(lambda: dict(table), put, _same_objects)


def _members(held: Any) -> Undo:
    """Of a list, a deque or a set."""

    def put(before: dict[int, Any]) -> None:
        held.clear()
        held.update(before.values()) if isinstance(held, set) else held.extend(before.values())

    return _undo(lambda: dict(enumerate(held)), put, _same_objects)


def _tensor_hooks(tensor: Tensor) -> Undo:
    def tables() -> list[Any]:
        return [tensor._backward_hooks, getattr(tensor, "_post_accumulate_grad_hooks", None)]

    def put(before: list[dict[Any, Any]]) -> None:
        for table, was in zip(tables(), before, strict=True):
            if table is not None:
                table.clear()
                table.update(was)

    return _undo(
        lambda: [dict(table or {}) for table in tables()], put, lambda a, b: all(map(_same_objects, a, b))
    )  # fmt: skip


def _values(tensor: Tensor) -> Undo:
    home, before = tensor.detach(), tensor.detach().clone()  # the same storage; a copy of what is in it
    flag = tensor.requires_grad

    def undo() -> bool:
        moved = tensor.shape != home.shape or tensor.dtype != home.dtype or tensor.data_ptr() != home.data_ptr()
        if moved:  # somebody assigned to .data
            tensor.data = home
        differs = not same_bits(home, before)
        if differs:
            with torch.inference_mode(home.is_inference()), torch.no_grad():
                home.copy_(before)
        if tensor.is_leaf and tensor.requires_grad != flag:
            tensor.requires_grad_(flag)
        return moved or differs

    return undo


def same_bits(a: Tensor, b: Tensor) -> bool:
    """Whether two tensors hold the same numbers; NaN is the same as NaN."""
    if a.shape != b.shape or a.dtype != b.dtype:
        return False
    if torch.equal(a, b):
        return True
    return bool((a.is_floating_point() or a.is_complex()) and ((a == b) | (a.isnan() & b.isnan())).all())


def _put_device(device: torch.device) -> None:
    torch.set_default_device(None)
    if torch.get_default_device() != device:
        torch.set_default_device(device)


# torch's own settings that a careless function may turn: what reads each, and what sets it.
SWITCHES: list[tuple[Callable[[], Any], Callable[[Any], Any]]] = [
    (torch.get_default_dtype, torch.set_default_dtype),
    (torch.get_default_device, _put_device),
    (torch.get_num_threads, torch.set_num_threads),
    (
        lambda: (torch.are_deterministic_algorithms_enabled(), torch.is_deterministic_algorithms_warn_only_enabled()),
        lambda was: torch.use_deterministic_algorithms(was[0], warn_only=was[1]),
    ),
    (
        lambda: (torch.is_anomaly_enabled(), torch.is_anomaly_check_nan_enabled()),
        lambda was: torch.autograd.set_detect_anomaly(*was),
    ),
    (torch.get_float32_matmul_precision, torch.set_float32_matmul_precision),
    (torch.is_grad_enabled, torch.set_grad_enabled),
]
GLOBAL_HOOKS = ("_global_forward_hooks", "_global_forward_pre_hooks", "_global_backward_hooks",
                "_global_backward_pre_hooks")  # fmt: skip
