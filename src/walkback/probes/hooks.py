"""Hooks on a user's blocks: record or move what passes them in one forward pass, or hear the passes of their loop."""

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any, NamedTuple
from weakref import WeakKeyDictionary

import torch
import torch.utils.checkpoint
from torch import Tensor, nn
from torch.autograd.graph import GradientEdge, get_gradient_edge

from walkback.probes.forward_switches import every_module_called
from walkback.probes.outputs import first_tensor, with_first

Move = Callable[[Tensor], Tensor]


class State(NamedTuple):
    """A feature at one moment: its value then, and where its gradient will arrive."""

    value: Tensor
    edge: GradientEdge | None
    note: str


class Seen:
    """What the hooks saw in one forward pass, by the module."""

    def __init__(self, blocks: Sequence[nn.Module]) -> None:
        self.blocks = blocks
        self.calls: Counter[nn.Module] = Counter()  # in the order of the first calls
        self.inputs: dict[nn.Module, State] = {}
        self.outputs: dict[nn.Module, State] = {}

    @property
    def states(self) -> list[State | None]:
        """What the first block took, and what every block gave."""
        return [self.inputs.get(self.blocks[0]), *map(self.outputs.get, self.blocks)]


class BlockHooks:
    """Hooks that hear every call of some modules: before(number, args, kwargs) and after(number, output).

    number   which of them is called; None for a copy that shares its hooks, as where a net is split over devices

    They only read. The hooks of a deep copy or a pickle of the model do nothing.
    """

    def __init__(
        self,
        modules: Iterable[nn.Module] = (),
        before: Callable[[int | None, tuple[Any, ...], dict[str, Any]], None] = lambda *_: None,
        after: Callable[[int | None, Any], None] = lambda *_: None,
    ) -> None:
        self._modules, self._tell_before, self._tell_after, self._handles = list(modules), before, after, list[Any]()
        for module in {id(module): module for module in self._modules}.values():
            self._handles.append(module.register_forward_pre_hook(self._before, with_kwargs=True))
            self._handles.append(module.register_forward_hook(self._after))

    def __reduce__(self) -> tuple[Any, ...]:
        return BlockHooks, ()

    def remove(self) -> None:
        """Take them away."""
        for handle in self._handles:
            handle.remove()

    def _number(self, module: nn.Module) -> int | None:
        return next((number for number, each in enumerate(self._modules) if each is module), None)

    def _before(self, module: nn.Module, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
        if self._modules:
            self._tell_before(self._number(module), args, kwargs)

    def _after(self, module: nn.Module, _: Any, output: Any) -> None:
        if self._modules:
            self._tell_after(self._number(module), output)


Place = int | str  # of an argument
_taken: WeakKeyDictionary[nn.Module, Place] = WeakKeyDictionary()  # which argument was a block's state when last seen


def _tensors(args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> dict[Place, Tensor]:
    """The arguments that can be a state: tensors, or the first tensor of a tuple or table; floating point if any is."""
    pairs: list[tuple[Place, Any]] = [*enumerate(args), *kwargs.items()]
    tensors = {place: found for place, value in pairs if (found := first_tensor(value)[0]) is not None}
    return {place: t for place, t in tensors.items() if t.is_floating_point()} or tensors


def _state(given: Mapping[Place, Tensor], shape: torch.Size | None, before: Tensor | None) -> Place | None:
    """The argument that is the state: what the block before gave, else one of the output's shape, else the first."""
    passed = [place for place, t in given.items() if t is before]
    alike = [place for place, t in given.items() if t.shape == shape]
    return next(iter([*passed, *alike, *given]), None)


def _kept(value: Tensor, note: str = "") -> State:
    # The clone and the edge are of this moment: what changes the tensor in place later gets a new edge.
    edge = get_gradient_edge(value) if value.requires_grad else None
    with torch._C.DisableTorchFunction():  # a pass without cuts makes detach() do nothing
        return State(value.detach().clone(), edge, note)


@contextmanager
def _hooked(handles: Iterable[Any]) -> Iterator[None]:
    """Hooks that are on inside; every module is called meanwhile."""
    on: list[Any] = []
    try:
        on.extend(handles)
        with every_module_called():
            yield
    finally:
        for handle in on:
            handle.remove()


@contextmanager
def watching(blocks: Iterable[nn.Module]) -> Iterator[Seen]:
    """What the blocks take and give in the forward passes inside."""
    seen = Seen(list(blocks))
    pending: dict[nn.Module, dict[Place, tuple[Tensor, State]]] = {}
    last: Tensor | None = None  # what the block before gave

    def before(block: nn.Module, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
        seen.calls[block] += 1
        if seen.calls[block] == 1:
            pending[block] = {place: (tensor, _kept(tensor)) for place, tensor in _tensors(args, kwargs).items()}

    def after(block: nn.Module, args: tuple[Any, ...], output: Any) -> None:
        del args
        nonlocal last
        found, note = first_tensor(output)
        given = pending.pop(block, {})
        place = _state({at: t for at, (t, _) in given.items()}, None if found is None else found.shape, last)
        if place is not None:
            _taken[block], seen.inputs[block] = place, given[place][1]
        last = found
        if found is not None:
            seen.outputs[block] = _kept(found, note)

    each = {id(block): block for block in seen.blocks}.values()
    with _hooked(
        handle for block in each
        for handle in (block.register_forward_pre_hook(before, with_kwargs=True), block.register_forward_hook(after))
    ):  # fmt: skip
        yield seen


@contextmanager
def moving(blocks: Sequence[nn.Module], moves: Mapping[int, Move]) -> Iterator[None]:
    """The states named by `moves` (0: what the first block takes; l: what block l−1 gives) are moved on their way."""

    def input_hook(move: Move) -> Callable[..., Any]:
        def before(block: nn.Module, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
            given = _tensors(args, kwargs)
            place = _taken[block] if _taken.get(block) in given else next(iter(given))
            new: list[Any] = list(args)
            put = dict(kwargs)
            where: Any = put if isinstance(place, str) else new
            where[place] = with_first(where[place], move(given[place]))
            return tuple(new), put

        return before

    def output_hook(move: Move) -> Callable[..., Any]:
        def after(block: nn.Module, args: tuple[Any, ...], output: Any) -> Any:
            del block, args
            first, _ = first_tensor(output)
            assert first is not None
            return with_first(output, move(first))

        return after

    with _hooked(
        blocks[layer - 1].register_forward_hook(output_hook(move)) if layer
        else blocks[0].register_forward_pre_hook(input_hook(move), with_kwargs=True)
        for layer, move in moves.items()
    ):  # fmt: skip
        yield
