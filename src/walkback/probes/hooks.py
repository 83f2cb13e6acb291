"""Hooks on a user's blocks: record or move what passes them in one forward pass. They are always removed."""

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any, NamedTuple
from weakref import WeakKeyDictionary

import torch
import torch.utils.checkpoint
from torch import Tensor, nn
from torch.autograd.graph import GradientEdge, get_gradient_edge

from walkback.probes.forward_switches import checkpoints_off, fastpath_off
from walkback.probes.outputs import first_tensor, with_first

Move = Callable[[Tensor], Tensor]


class State(NamedTuple):
    """A feature at one moment: its value then, and where its gradient will arrive."""

    value: Tensor
    edge: GradientEdge | None
    note: str


class Seen:
    """What the hooks saw in one forward pass, by the identity of the module."""

    def __init__(self) -> None:
        self.calls: Counter[int] = Counter()
        self.order: list[int] = []
        self.inputs: dict[int, State] = {}
        self.outputs: dict[int, State] = {}


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


def _keep(into: dict[int, State], key: int, something: Any) -> None:
    value, note = first_tensor(something)
    if value is not None:
        # The clone and the edge are of this moment: what changes the tensor in place later gets a new edge.
        edge = get_gradient_edge(value) if value.requires_grad else None
        with torch._C.DisableTorchFunction():  # a pass without cuts makes detach() do nothing
            into[key] = State(value.detach().clone(), edge, note)


@contextmanager
def watching(blocks: Iterable[nn.Module]) -> Iterator[Seen]:
    """What the blocks take and give in the forward passes inside."""
    seen, handles = Seen(), []
    pending: dict[int, dict[Place, tuple[Tensor, State]]] = {}
    last: list[Tensor] = []  # what the block before gave

    def before(block: nn.Module, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
        seen.calls[id(block)] += 1
        if seen.calls[id(block)] == 1:
            seen.order.append(id(block))
            kept: dict[int, State] = {}
            for number, (place, tensor) in enumerate(_tensors(args, kwargs).items()):
                _keep(kept, number, tensor)
                pending.setdefault(id(block), {})[place] = (tensor, kept[number])

    def after(block: nn.Module, args: tuple[Any, ...], output: Any) -> None:
        del args
        found = first_tensor(output)[0]
        given = pending.pop(id(block), {})
        shape = None if found is None else found.shape
        place = _state({at: t for at, (t, _) in given.items()}, shape, last[-1] if last else None)
        if place is not None:
            _taken[block], seen.inputs[id(block)] = place, given[place][1]
        last[:] = [] if found is None else [found]
        _keep(seen.outputs, id(block), output)

    try:
        for block in {id(block): block for block in blocks}.values():
            handles.append(block.register_forward_pre_hook(before, with_kwargs=True))
            handles.append(block.register_forward_hook(after))
        with fastpath_off(), checkpoints_off():
            yield seen
    finally:
        for handle in handles:
            handle.remove()


@contextmanager
def moving(blocks: Sequence[nn.Module], moves: Mapping[int, Move]) -> Iterator[None]:
    """The states named by `moves` (0: what the first block takes; l: what block l−1 gives) are moved on their way."""
    handles = []

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

    try:
        for layer, move in moves.items():
            if layer:
                handles.append(blocks[layer - 1].register_forward_hook(output_hook(move)))
            else:
                handles.append(blocks[0].register_forward_pre_hook(input_hook(move), with_kwargs=True))
        with fastpath_off(), checkpoints_off():
            yield
    finally:
        for handle in handles:
            handle.remove()
