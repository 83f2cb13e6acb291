"""The passes of one step of somebody's loop: what its blocks took and gave, and what arrived there in its backward.

Two questions are put to every pass in which something arrived: what the block's product with it is, and whether it is
what the model's own backward pass sends there. Where the model was called as a whole, that is asked from its logits
down; where the loop called its parts, from block to block.
"""

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import torch
from torch import Tensor, nn
from torch.autograd.graph import Node, get_gradient_edge

from walkback.probes.backward_listener import floating
from walkback.probes.outputs import first_tensor
from walkback.probes.rerun import Call, chain, product
from walkback.probes.standing import Fit, Unit, fit

Key = tuple[Node, int]


class BlockCall(Call):
    """A call of a block.

    edges    of what it took;  around: the model's own call, if it was called as a whole;  number: within that
    credit   what arrived, once the pass was looked at;  sent: what it sends to what it took
    """

    def __init__(self, place: int, block: nn.Module, args: tuple[Any, ...], kwargs: dict[str, Any]):
        super().__init__(block, args, kwargs)
        taken = [*floating([*args, *kwargs.values()])]
        self.place, self.number = place, 0
        self.edges = [_key(t) if t.requires_grad and not t.is_leaf else None for t in taken]
        self.cut = not any(t.requires_grad for t in taken)
        self.around: Call | None = None
        self.credit: list[Tensor | None] = []
        self.sent: list[Tensor | None] = []


class Passes:
    """Those of one step.

    arrives   called where a backward pass reaches a block;  deaf: whether nobody listens now
    kept      the last whole call that was compared, its passes, and the parameters that the model had
    """

    def __init__(
        self, names: Sequence[str], take: Callable[[Any], Tensor | None], arrives: Callable[[BlockCall], None],
        deaf: Callable[[], bool],
    ):  # fmt: skip
        self.names, self.count, self.take, self.arrives, self.deaf = names, len(names), take, arrives, deaf
        self.kept: tuple[Call, list[BlockCall], list[Tensor]] | None = None
        self._handles: list[Any] = []
        self.drop()

    def drop(self) -> None:
        """Take the hooks away, and forget the passes of this step."""
        for handle in self._handles:
            handle.remove()
        self._handles = []
        self.calls: list[BlockCall] = []
        self.around: Call | None = None
        self._whole: list[Call] = []
        self._made: dict[Key, BlockCall] = {}
        self._open: dict[int, BlockCall] = {}
        self._numbers: Counter[int] = Counter()  # calls of each block within the model's own

    def enters(self, call: Call) -> None:
        """The model is called as a whole."""
        self.around, self._numbers = call, Counter()

    def leaves(self, output: Any) -> None:
        """The model, which was called as a whole, gives this."""
        call, self.around = self.around, None
        try:
            logits = self.take(output)
        except Exception:  # in training a model may give something else
            logits, _ = first_tensor(output)
        if call is not None and logits is not None and logits.requires_grad and not logits.is_leaf:
            call.gave([logits])
            self._hear(call, [logits])
            self._whole.append(call)

    def takes(self, place: int, block: nn.Module, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
        """A block is called."""
        call = BlockCall(place, block, args, kwargs)
        call.around, call.number = self.around, self._numbers[place]
        self._numbers[place] += 1
        self._open[place] = call

    def gives(self, place: int, output: Any) -> None:
        """It gives this."""
        call = self._open.pop(place, None)
        if call is not None:
            outputs = list(floating([output]))
            call.gave(outputs)
            self.calls.append(call)
            self._hear(call, outputs)
            self._made |= {_key(t): call for t in outputs if t.requires_grad and not t.is_leaf}

    def forget(self, places: Sequence[int]) -> None:
        """What arrived at these blocks was set to zero."""
        for call in self.calls:
            if call.place in places:
                call.credits = [None] * len(call.credits)

    def _hear(self, call: Call, outputs: Sequence[Tensor]) -> None:
        for place, tensor in enumerate(outputs):
            if not tensor.requires_grad or tensor.is_leaf:
                continue
            node, number = _key(tensor)

            def arrives(gradients: Sequence[Tensor | None], place: int = place, number: int = number) -> None:
                if self.deaf():
                    return
                if isinstance(call, BlockCall):
                    self.arrives(call)
                if (gradient := gradients[number]) is not None:
                    call.arrives(place, gradient)

            self._handles.append(node.register_prehook(arrives))

    def look(self, units: Sequence[Unit]) -> None:
        """Take the products of all passes in which something arrived, and compare it with what was sent there."""
        alive = [call for call in self.calls if call.alive]
        by = {place: unit for unit in units for place in unit.places}
        for call in alive:
            unit = by.get(call.place)
            if unit is not None and not unit.given:
                found = product(call, slope=call.place not in unit.asked)
                unit.asked.add(call.place)
                unit.takes(found, call.half)
                call.sent = found.sent
            call.credit, call.credits = call.credits, [None] * len(call.credits)
        for call in [call for call in alive if not self._by_chain(call, alive, by)]:
            if call.place in by and call.place < self.count - 1:
                self._by_parts(call, alive, by[call.place])
        if alive:
            self.calls = [call for call in self.calls if not call.credit]
            self._whole, self._made = [call for call in self._whole if not call.alive], {}

    def _by_chain(self, call: BlockCall, alive: Sequence[BlockCall], by: Mapping[int, Unit]) -> bool:
        """Whether the model was called as a whole; then what it sends from its logits is compared, all at once."""
        whole = call.around
        if whole is None or not whole.alive:
            return False
        inside = [each for each in alive if each.around is whole]
        if call is inside[0] and any(not unit.chained for unit in by.values()):
            self.kept = whole, inside, [p.detach().clone() for p in whole.module.parameters()]
            sent, why = chain(whole, self.names, self.take)
            for each in [each for each in inside if each.place in by]:
                outputs, unit = sent.get(each.place, []), by[each.place]
                if why or each.number >= len(outputs):
                    unit.trouble = unit.trouble or why or "the model, run again, calls it another number of times"
                else:
                    unit.chained.append((chained(each, outputs[each.number]), each.half))
        return True

    def _by_parts(self, call: BlockCall, alive: Sequence[BlockCall], unit: Unit) -> None:
        """Where the model was not called as a whole: what the next blocks send is compared with what arrived."""
        later = [each for each in self.calls if each.place > call.place]
        takers = [(each, n) for each in later for n, key in enumerate(each.edges)
                  if key is not None and self._made.get(key) is call]  # fmt: skip
        if not takers and any(not each.cut for each in later if each.place == call.place + 1):
            why = "something lies between the blocks, and the model was not called as a whole"
            unit.trouble = unit.trouble or why
        elif any(each not in alive or n >= len(each.sent) for each, n in takers):
            unit.trouble = unit.trouble or "the block after it was not looked at"
        else:
            parts = [part for each, n in takers if (part := each.sent[n]) is not None]
            sent = [sum(parts[1:], parts[0]) if parts else None] + [None] * (len(call.credit) - 1)
            unit.chained.append((chained(call, sent), call.half))


def chained(call: BlockCall, sent: Sequence[Tensor | None]) -> Fit | None:
    """How much of what arrived at a block is what is sent there."""
    pairs = [
        (c, torch.zeros_like(c) if s is None else s.to(c.device))
        for c, s in zip(call.credit, sent, strict=True)
        if c is not None
    ]
    return fit([c for c, _ in pairs], [s for _, s in pairs])


def _key(tensor: Tensor) -> Key:
    edge = get_gradient_edge(tensor)
    return edge.node, edge.output_nr
