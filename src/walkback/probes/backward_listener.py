"""Observe a user's own backward pass: what arrives at each block, and whether the gradient crosses to the next.

The hooks read and return nothing, so the graph, its numbers and its order stay as they are. A block's outputs are known
by their gradient edges. From the outputs of block m the graph is walked back to the outputs of earlier blocks; the
nodes that lead there report what they deliver in the backward pass. So a loss of block l's own, read from the same
tensor, is not taken for a gradient that came through block m.
"""

import copy
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from typing import Any, Literal, NamedTuple

import torch
from torch import Tensor, nn
from torch.autograd.graph import Node, get_gradient_edge

from walkback.probes.hooks import BlockHooks, watching
from walkback.probes.inputs import own_inputs
from walkback.probes.outputs import call, entries
from walkback.probes.perturb import Worker

Crossing = Literal["crosses", "carried by hand", "direct feedback", "does not cross", "not seen"]
NODES = 200_000  # of a graph that is walked in one step
COMPILED = "the model is compiled, and hooks inside compiled code are not called"
REENTRANT = "a block is recomputed by checkpoint(use_reentrant=True), which hides its place in the graph"
NO_BACKWARD = "no gradient arrived at any block: call step() after backward()"


class Heard(NamedTuple):
    """What one step of a loop showed.

    arrived   by block, the norm of ∂loss/∂output over all samples and backward passes of the step, in the scale of the
              loop's own loss; 0: nothing arrived; None: not seen
    crosses   by boundary, between block l and the blocks after it
    why       why something was not seen
    """

    arrived: list[float | None]
    crosses: list[Crossing]
    why: str = ""

    @classmethod
    def nothing(cls, blocks: int, why: str) -> "Heard":
        """Nothing was seen."""
        return cls([None] * blocks, ["not seen"] * max(blocks - 1, 0), why)


class Listener:
    """Hooks on the blocks of a model that a loop trains, from `start` to `stop`."""

    def __init__(self, blocks: Sequence[nn.Module]):
        self.blocks = list(blocks)
        self._hooks = BlockHooks()
        self._clear()

    def _clear(self) -> None:
        self.calls: Counter[int] = Counter()  # forward passes with a graph
        self.silent: Counter[int] = Counter()  # without one
        self.again: Counter[int] = Counter()  # in the middle of a backward pass
        self.outputs: dict[tuple[Node, int], int] = {}
        self.arrived: dict[int, list[Tensor]] = defaultdict(list)
        self.delivered: dict[tuple[int, int], list[Tensor]] = defaultdict(list)
        self.whole: dict[int, list[Tensor]] = defaultdict(list)  # what arrived, where somebody may carry it on by hand
        self.carried: dict[int, list[Tensor]] = defaultdict(list)  # what arrived at an input that is cut off
        self.cut = False
        self.walked = 0

    def start(self) -> None:
        """Listen from now on."""
        self._clear()
        self._hooks = BlockHooks(self.blocks, self._before, self._after)

    def stop(self) -> Heard:
        """Remove the hooks and return what they saw."""
        self.drop()
        heard = self._heard()
        self._clear()
        return heard

    def drop(self) -> None:
        """Remove the hooks."""
        self._hooks.remove()

    def _before(self, place: int | None, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
        if place is None or in_backward():
            return
        for tensor in floating([*args, *kwargs.values()]):
            if tensor.is_leaf and tensor.requires_grad and not isinstance(tensor, nn.Parameter):
                self.cut = True
                _on(tensor, partial(_keep, self.carried[place]))

    def _after(self, place: int | None, output: Any) -> None:
        if place is None:
            return
        if in_backward():
            self.again[place] += 1
            return
        if not torch.is_grad_enabled():
            self.silent[place] += 1
            return
        self.calls[place] += 1
        fresh: dict[tuple[Node, int], int] = {}
        for tensor in floating([output]):
            if not tensor.requires_grad or tensor.is_leaf:
                continue
            edge = get_gradient_edge(tensor)
            key = (edge.node, edge.output_nr)
            into = [self.arrived[place]]
            earlier = self.outputs.get(key)
            if earlier is not None and earlier < place:  # the block gives back what it took
                into.append(self.delivered[place, earlier])
            else:
                self._walk(place, edge.node)
            fresh[key] = place

            def arrives(
                gradient: Tensor, into: list[list[Tensor]] = into, whole: list[Tensor] = self.whole[place]
            ) -> None:
                for sizes in into:
                    sizes.append(_size(gradient))
                if self.cut:
                    whole.append(gradient.detach().clone())

            _on(tensor, arrives)
        self.outputs |= fresh

    def _walk(self, place: int, start: Node) -> None:
        """Find the nodes through which this block's gradient leaves for an earlier block."""
        todo, seen = [start], {start}
        while todo and self.walked < NODES:
            node = todo.pop()
            self.walked += 1
            for slot, (before, number) in enumerate(node.next_functions):
                if before is None:
                    continue
                earlier = self.outputs.get((before, number))
                if earlier is None:
                    if before not in seen:
                        seen.add(before)
                        todo.append(before)
                elif earlier < place:

                    def delivers(
                        given: Sequence[Tensor | None], _: Any, slot: int = slot,
                        into: list[Tensor] = self.delivered[place, earlier],
                    ) -> None:  # fmt: skip
                        gradient = given[slot] if slot < len(given) else None
                        if gradient is not None:
                            into.append(_size(gradient))

                    node.register_hook(delivers)

    def _heard(self) -> Heard:
        count = len(self.blocks)
        sizes = {place: _norm(self.arrived[place]) for place in range(count)}
        arrived = [sizes[place] if self.calls[place] else None for place in range(count)]
        if self.walked >= NODES:
            return Heard(arrived, ["not seen"] * (count - 1), f"the graph of a step has more than {NODES:,} nodes")
        why = ""
        hidden = [p for p in range(count) if not self.calls[p]]
        if hidden:
            checkpointed = any(self.silent[p] and self.again[p] for p in hidden)
            why = REENTRANT if checkpointed else f"block {hidden[0]} was not called in a forward pass with gradients"
        elif not any(sizes.values()):  # NaN and infinity arrived too
            return Heard.nothing(count, NO_BACKWARD)
        crosses: list[Crossing] = []
        for low in range(count - 1):
            above = range(low + 1, count)
            if any(_norm(self.delivered[m, low]) and sizes[m] for m in above):
                crosses.append("crosses")
            elif any(_proportional(a, g) for m in above for g in self.carried[m] for a in self.whole[low]):
                crosses.append("carried by hand")
            elif not self.calls[low] or not self.calls[low + 1]:
                crosses.append("not seen")
            else:
                crosses.append("does not cross")
        return Heard(arrived, crosses, why)


def in_backward() -> bool:
    """Whether a backward pass is running: what is called then is a recomputation."""
    return bool(torch._C._current_graph_task_id() != -1)


def floating(values: Any, depth: int = 3) -> Iterator[Tensor]:
    """The floating-point tensors among values, and in their parts."""
    for value in values:
        if isinstance(value, Tensor):
            if value.is_floating_point():
                yield value
        elif depth and not isinstance(value, nn.Module):
            yield from floating(entries(value).values(), depth - 1)


def _keep(into: list[Tensor], gradient: Tensor) -> None:
    into.append(gradient.detach().clone())


def _on(tensor: Tensor, hook: Callable[[Tensor], None]) -> None:
    tensor.register_hook(hook)  # type: ignore[no-untyped-call]


def _size(gradient: Tensor) -> Tensor:
    # A number on its device: reading it now would wait for the device.
    norm: Tensor = torch.linalg.vector_norm(gradient.detach(), dtype=torch.float64)
    return norm


def _norm(sizes: Sequence[Tensor]) -> float:
    """The norm of several parts: √Σ‖part‖²."""
    return float(torch.stack([size.cpu() for size in sizes]).square().sum().sqrt()) if sizes else 0.0


def _proportional(a: Tensor, b: Tensor) -> bool:
    """Whether a = k · b, as where a gradient is handed on by code and not by the graph."""
    if a.numel() != b.numel():
        return False
    u, v = a.double().flatten(), b.double().flatten()
    energy, size = float(v @ v), float(u @ u)
    if not (0 < energy < float("inf") and 0 < size < float("inf")) or u.numel() < 2:
        return False
    rest = u - v * (float(u @ v) / energy)
    return float(rest @ rest) <= 1e-8 * size


SAMPLES = 8


def direct(worker: Worker) -> list[bool | None]:
    """By boundary, between block l and those after it: whether what crosses there is independent of what arrives.

    None where that is not known, because the model's passes fail.

    `worker` runs a copy of the model that nobody else uses. Its own parts are in training mode, because a forward pass
    may prepare the signal only then.
    """
    few = copy.copy(worker.first(SAMPLES))
    few.training = True
    count = len(few.modules)
    generator = torch.Generator().manual_seed(11)
    found: list[bool | None] = []
    try:
        with few.running():
            with watching(few.modules) as seen:
                call(few.model, own_inputs(few.model, few.inputs))
            states = seen.states[1:]
            edges = [None if state is None else state.edge for state in states]
            for low in range(count - 1):
                below = edges[low]
                above = [(e, s.value) for e, s in zip(edges[low + 1 :], states[low + 1 :], strict=True) if e and s]
                if below is None or not above:
                    found.append(False)
                    continue
                got: list[torch.Tensor | None] = []
                for _ in range(2):
                    arrives = [torch.randn(value.shape, generator=generator).to(value) for _, value in above]
                    got += torch.autograd.grad([edge for edge, _ in above], [below], arrives, allow_unused=True,
                                               retain_graph=True)  # fmt: skip
                one, other = got
                found.append(one is not None and other is not None and bool(one.any()) and torch.equal(one, other))
    except Exception:  # whatever a stranger's model raises
        return [None] * max(count - 1, 0)
    return found
