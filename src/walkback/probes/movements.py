"""Steps of somebody's loop, drawn at random: the weights before, and by how much each block moved.

They need no gradient and no optimizer, so they are there for every loop. A step is what the blocks' parameters change
by between two calls of the first block in training mode.
"""

import random
from collections.abc import Sequence
from typing import Any, NamedTuple

from torch import Tensor, nn

from walkback.probes.standing import equal
from walkback.probes.theirs import in_backward


class Stretches:
    """Moments drawn one from each of ever longer stretches of time, every one half as long as all before it."""

    def __init__(self) -> None:
        self.at, self._ends, self._draw = 0, 1, random.SystemRandom().randrange

    def next(self, now: int) -> None:
        """Draw the next, which comes after now."""
        begins = max(self._ends, now)
        self._ends = begins + max(3, begins // 2)
        self.at = begins + self._draw(self._ends - begins)


class Movement(NamedTuple):
    """One step: all parameters of the model before it, and what it took from those of each block."""

    before: list[Tensor]
    taken: list[list[Tensor]]


class Movements:
    """The first step and the last two that were drawn; use it as a context around the loop."""

    def __init__(self, model: nn.Module, blocks: Sequence[nn.Module]):
        self.model, self.blocks, self.kept = model, list(blocks), list[Movement]()
        self._drawn, self._count = Stretches(), 0
        self._before: tuple[list[Tensor], list[list[Tensor]]] | None = None

    def __enter__(self) -> "Movements":
        self._handle = self.blocks[0].register_forward_pre_hook(self._called)
        return self

    def __exit__(self, *_: Any) -> None:
        self._handle.remove()
        self._moved()

    def __reduce__(self) -> tuple[Any, ...]:
        """Somebody's copy of the model has a hook that does nothing."""
        return Movements, (nn.Identity(), ())

    def _called(self, block: nn.Module, _: Any) -> None:
        if not self.blocks or block is not self.blocks[0] or not block.training or in_backward():
            return
        self._moved()
        if self._before is None and self._count >= self._drawn.at:
            own = [[p.detach().clone() for p in each.parameters()] for each in self.blocks]
            self._before = [p.detach().clone() for p in self.model.parameters()], own
        self._count += 1

    def _moved(self) -> None:
        if self._before is None:
            return
        before, own = self._before
        now = [[p.detach() for p in each.parameters()] for each in self.blocks]
        pairs = [list(zip(*both, strict=True)) for both in zip(own, now, strict=True)]
        if all(equal(a, b) for block in pairs for a, b in block):
            return
        self.kept = [*self.kept[:1], *self.kept[1:][-1:], Movement(before, [[a - b for a, b in p] for p in pairs])]
        self._before = None
        self._drawn.next(self._count)
