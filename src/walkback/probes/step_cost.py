"""The cost of one step of a rule, counted and not timed: multiplications, and peak memory in bytes."""

import weakref
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves
from torch.utils.flop_counter import flop_registry


class _Counting(TorchDispatchMode):  # type: ignore[no-untyped-call]
    """Counts every operation, backward ones too, and the memory that each allocates."""

    def __init__(self) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.flops = self.held = self.peak = 0
        self.known: set[int] = set()

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        del types
        for tensor in _tensors((args, kwargs)):
            self.known.add(tensor.untyped_storage()._cdata)
        out = func(*args, **(kwargs or {}))
        name = func._overloadpacket.__name__.rstrip("_")  # addmm_ costs what addmm does
        count = flop_registry.get(getattr(torch.ops.aten, name, func._overloadpacket))
        if count is not None:
            self.flops += count(*args, **(kwargs or {}), out_val=out)
        for tensor in _tensors(out):
            storage = tensor.untyped_storage()
            if storage._cdata not in self.known:
                self.known.add(storage._cdata)
                self.held += storage.nbytes()
                weakref.finalize(storage, self._freed, storage._cdata, storage.nbytes())
        self.peak = max(self.peak, self.held)
        return out

    def _freed(self, place: int, size: int) -> None:
        self.known.discard(place)
        self.held -= size


def _tensors(things: Any) -> list[Tensor]:
    return [leaf for leaf in tree_leaves(things) if isinstance(leaf, Tensor)]


def products_and_memory(step: Callable[[], object]) -> tuple[int, int]:
    """The flops of all matrix products and convolutions of a call, and the peak of bytes allocated and not yet freed.

    >>> a = torch.ones(10, 20)
    >>> products_and_memory(lambda: (a @ a.T).sum())  # 2·10·20·10 flops; 100 numbers of four bytes, and their sum
    (4000, 404)
    """
    with _Counting() as counting:
        step()
    return counting.flops, counting.peak
