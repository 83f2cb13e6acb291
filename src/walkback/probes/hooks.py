"""Hooks on a user's blocks: record or move what passes them in one forward pass. They are always removed."""

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn
from torch.autograd.graph import GradientEdge, get_gradient_edge

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


def _keep(into: dict[int, State], key: int, something: Any) -> None:
    value, note = first_tensor(something)
    if value is not None:
        # The clone and the edge are of this moment: what changes the tensor in place later gets a new edge.
        edge = get_gradient_edge(value) if value.requires_grad else None
        with torch._C.DisableTorchFunction():  # a pass without cuts makes detach() do nothing
            into[key] = State(value.detach().clone(), edge, note)


@contextmanager
def fastpath_off() -> Iterator[None]:
    """PyTorch's fused transformer path calls no inner modules, so hooks would miss them."""
    before = torch.backends.mha.get_fastpath_enabled()
    torch.backends.mha.set_fastpath_enabled(False)
    try:
        yield
    finally:
        torch.backends.mha.set_fastpath_enabled(before)


@contextmanager
def watching(blocks: Iterable[nn.Module]) -> Iterator[Seen]:
    """What the blocks take and give in the forward passes inside."""
    seen, handles = Seen(), []

    def before(block: nn.Module, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
        seen.calls[id(block)] += 1
        if seen.calls[id(block)] == 1:
            seen.order.append(id(block))
            given = [*args, *kwargs.values()]
            _keep(seen.inputs, id(block), next((a for a in given if isinstance(a, Tensor)), given))

    def after(block: nn.Module, args: tuple[Any, ...], output: Any) -> None:
        del args
        _keep(seen.outputs, id(block), output)

    try:
        for block in {id(block): block for block in blocks}.values():
            handles.append(block.register_forward_pre_hook(before, with_kwargs=True))
            handles.append(block.register_forward_hook(after))
        with fastpath_off():
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
            del block
            first = next(v for v in (*args, *kwargs.values()) if isinstance(v, Tensor))
            new = move(first)
            put = {key: new if v is first else v for key, v in kwargs.items()}
            return tuple(new if v is first else v for v in args), put

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
        with fastpath_off():
            yield
    finally:
        for handle in handles:
            handle.remove()
