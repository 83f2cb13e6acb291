"""Watch whether a loop trains its blocks by the backward pass that is measured: hooks on steps drawn at random.

How many steps there will be is not known. So the first is looked at, and one drawn from each of ever longer stretches,
every one half as long as all before it. A block is asked at the first of its own steps from there on. Between drawn
steps no hook is on the model; torch's optimizers tell when they step.
"""

import hashlib
import sys
from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from random import Random
from typing import Any
from weakref import WeakMethod

import torch
from torch import Tensor, nn
from torch.optim.optimizer import register_optimizer_step_post_hook, register_optimizer_step_pre_hook

from walkback.probes.backward_listener import COMPILED, REENTRANT, in_backward
from walkback.probes.hooks import BlockHooks
from walkback.probes.passes import BlockCall, Passes, chained
from walkback.probes.preserve import same_bits
from walkback.probes.rerun import Call, chain
from walkback.probes.standing import (
    BESIDE,
    BY_HAND,
    DEFINE,
    IN_PART,
    REPLACED,
    Stance,
    Stretches,
    Unit,
    beside,
    foreign,
)  # fmt: skip
from walkback.probes.unwrap import find_blocks

PARALLEL = "several processes or copies of the model share the step"
CLOSURE = "the optimizer's step runs the forward pass itself, more than once"
INSIDE = "the optimizer steps inside the backward pass"
SHORT = "no step could be looked at, so this cannot be tested"
OTHERWISE = ("in the training the model's own backward pass sent something else than it does now (R² {:.2f}): what is "
             "measured is not what trained")  # fmt: skip
WAIT = 200  # passes through each block without a step of it, after which nobody waits for one


class Witness:
    """Hooks on a model that a loop trains; `answer` is what they showed so far.

    take   the logits in the model's output
    deaf   why nothing can be seen at all
    done   steps that were trained before
    """

    def __init__(
        self, model: nn.Module | None, names: Sequence[str], take: Callable[[Any], Tensor | None], deaf: str = "",
        done: int = 0,
    ):  # fmt: skip
        found = {} if model is None else find_blocks(model, names)
        self.model, self.names, self.blocks, self.take = model, list(found), list(found.values()), take
        self.deaf = deaf or (PARALLEL if _parallel() else "")
        self.found: dict[int, list[tuple[int, Stance]]] = defaultdict(list)
        self.steps, self.drawn, self.done = 0, Stretches(), done
        self._sums: dict[int, Tensor] = {}
        self._stepped: set[int] = set()
        self._entries: list[tuple[nn.Parameter, int]] = []
        self._ends: set[bytes] = set()  # what every step left, in one entry of each tensor
        self._hooks, self._always = list[BlockHooks](), list[Any]()
        self._paused, self._stepping = False, list[Any]()
        self._passes = Passes(self.names, take, self._arrives, lambda: self._paused)
        self._forget()

    def _forget(self) -> None:
        self._units: list[Unit] = []
        self._passes.drop()
        self._waited = 0
        self._armed_by: torch.optim.Optimizer | None = None

    def start(self) -> None:
        """Watch from now on."""
        if not self.deaf:
            self._sums = {id(p): _sum(p) for p in self._trained()}
            self._beside = [beside([block]) for block in self.blocks]
            self._entries = [(p, Random().randrange(p.numel())) for p in self._trained() if p.numel()]
            self._always = [register_optimizer_step_pre_hook(_weakly(self._steps)),
                            register_optimizer_step_post_hook(_weakly(self._has_stepped))]  # fmt: skip
            self._frames = _compiled_frames()
            self._arm()

    def _trained(self) -> list[nn.Parameter]:
        return list({id(p): p for block in self.blocks for p in block.parameters() if p.requires_grad}.values())

    def _arm(self) -> None:
        assert self.model is not None
        self._forget()
        inside = {id(part) for block in self.blocks for part in block.modules()}
        outside = {id(p) for part in self.model.modules() if id(part) not in inside for p in part._parameters.values()}
        for place, block in enumerate(self.blocks):
            own = {id(p): p for p in block.parameters() if p.requires_grad and id(p) not in outside}
            same = [unit for unit in self._units if any(id(p) in own for p in unit.parameters)]
            if own:
                places = sorted({place, *(n for unit in same for n in unit.places)})
                every = {id(p): p for unit in same for p in unit.parameters} | own
                self._units = [unit for unit in self._units if unit not in same]
                self._units.append(Unit(places, list(every.values()), [b for n in places for b in self._beside[n]]))
            elif any(p.requires_grad for p in block.parameters()):
                self._note([place], Stance("declared", "its parameters are shared with parts outside the blocks"))
        self._hooks = [BlockHooks(self.blocks, self._before, self._after)]
        if not any(self.model is block for block in self.blocks):
            self._hooks.append(BlockHooks([self.model], self._enters, self._leaves))

    def _disarm(self) -> None:
        for hooks in self._hooks:
            hooks.remove()
        self._hooks = []
        self._forget()
        self.drawn.next(self.steps)

    @contextmanager
    def paused(self) -> Iterator[None]:
        """Inside, what runs is not the loop's."""
        before, self._paused = self._paused, True
        try:
            yield
        finally:
            self._paused = before

    def close(self) -> Stance:
        """The training is over: take all hooks away."""
        if self._always:
            self._finish(over=True)
            self._stop_hearing_steps()
            self._disarm()
            for place, block in enumerate(self.blocks):
                own = [p for p in block.parameters() if p.requires_grad and id(p) in self._sums]
                if own and not any(id(p) in self._stepped for p in own):
                    moved = any(not same_bits(_sum(p), self._sums[id(p)]) for p in own)
                    self._note([place], Stance("not seen", BY_HAND if moved else "its parameters did not move"))
            self._asked_again()
            if self._ends and self._end() not in self._ends and self.answer().standing == "seen":
                self._note(range(len(self.blocks)), Stance("in part", REPLACED))
        return self.answer()

    def _end(self) -> bytes:
        entries = [p.detach().reshape(-1)[place].double() for p, place in self._entries]
        return hashlib.blake2b(torch.stack(entries).cpu().numpy().tobytes(), digest_size=8).digest()

    def stop(self, why: str) -> None:
        """Nothing can be seen, as is found now."""
        self.deaf = why
        self._stop_hearing_steps()
        self._disarm()

    def _stop_hearing_steps(self) -> None:
        for handle in self._always:
            handle.remove()
        self._always = []

    def answer(self) -> Stance:
        """The worst of what was seen."""
        if self.deaf:
            return Stance("declared", f"{self.deaf}: whether what is measured trains the blocks cannot be tested")
        every = [(self.names[place], step, each) for place in sorted(self.found) for step, each in self.found[place]]
        for name, step, each in sorted(every, key=lambda found: found[2].standing != "not seen"):
            if each.standing in ("not seen", "in part"):
                return Stance(each.standing, f"step {step}, {name}: {each.why}; {DEFINE}")
        trained = [n for n, block in enumerate(self.blocks) if any(p.requires_grad for p in block.parameters())]
        seen = {n: [step for step, each in self.found[n] if each.standing == "seen"] for n in trained}
        if any(seen.values()) and all(steps or not self.found[n] for n, steps in seen.items()):
            count = len({step for steps in seen.values() for step in steps})
            return Stance("seen", f"at {count} step{'s' * (count > 1)}, the model's own backward pass trained "
                          f"{sum(map(bool, seen.values()))} of {len(trained)} blocks")  # fmt: skip
        for name, step, each in every:
            if each.standing == "declared":
                return Stance("declared", f"step {step}, {name}: {each.why}, so this cannot be tested")
        return Stance("declared", SHORT)

    def _note(self, places: Sequence[int], found: Stance) -> None:
        for place in places:
            self.found[place].append((self.done + max(self.steps - 1, 0), found))

    def _listens(self) -> bool:
        forward = not in_backward() and not torch.compiler.is_compiling()
        return forward and torch.is_grad_enabled() and not self._paused

    def _begins(self) -> None:
        """Something is run forward: what came before it is over."""
        self._finish()
        self._unchanged()
        self._look()

    def _look(self) -> None:
        with self.paused():
            self._passes.look(self._units)

    def _enters(self, number: int | None, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
        if number is not None and self.model is not None and self._listens() and not self._stepping:
            self._begins()
            self._passes.enters(Call(self.model, args, kwargs))

    def _leaves(self, number: int | None, output: Any) -> None:
        if number is not None and self._listens():
            self._passes.leaves(output)

    def _before(self, place: int | None, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
        if torch.compiler.is_compiling() or self._paused:
            return
        if place is None:
            self._trouble(PARALLEL)
        elif self._stepping:
            self._trouble(CLOSURE)
        elif in_backward():
            if not any(call.place == place for call in self._passes.calls):
                self._trouble(REENTRANT)
        elif torch.is_grad_enabled():
            if self._passes.around is None:
                self._begins()
            self._waited += 1
            if self._waited > WAIT * len(self.blocks):
                self._disarm()
            if self._units:
                self._passes.takes(place, self.blocks[place], args, kwargs)

    def _after(self, place: int | None, output: Any) -> None:
        if place is not None and self._listens():
            self._passes.gives(place, output)

    def _arrives(self, call: BlockCall) -> None:
        """A backward pass begins at a block: what was accumulated before .grad was set to zero is forgotten."""
        unit, task = self._unit(call.place), torch._C._current_graph_task_id()
        if unit is not None and unit.task != task:
            unit.task = task
            if unit.zeroed():
                unit.forget()
                self._passes.forget(unit.places)

    def _unit(self, place: int) -> Unit | None:
        return next((unit for unit in self._units if place in unit.places), None)

    def _trouble(self, why: str) -> None:
        for unit in self._units:
            unit.trouble = unit.trouble or why

    def _unchanged(self) -> None:
        """Nobody changes the parameters between two steps."""
        for unit in list(self._units):
            if not unit.last:
                unit.begin()
            elif not unit.given and not unit.kept():
                known = Stance("declared", unit.trouble) if unit.trouble else Stance("not seen", BY_HAND)
                self._settle(unit, known)
            elif unit.touched():
                self._settle(unit, Stance("in part", BESIDE))

    def _asked_again(self) -> None:
        """A model that answers otherwise, once it was trained, is not measured by what trained it."""
        if self._passes.kept is None or self.answer().standing != "seen":
            return
        whole, inside, weights = self._passes.kept
        sent, why = chain(whole, self.names, self.take, weights)
        for call in inside if not why else ():
            outputs = sent.get(call.place, [])
            found = chained(call, outputs[call.number]) if call.number < len(outputs) else None
            if found is not None and found.down < IN_PART:
                self._note([call.place], Stance("not seen", OTHERWISE.format(max(found.share, 0))))

    def _steps(self, optimizer: torch.optim.Optimizer, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        if self._paused:
            return None
        if optimizer in self._stepping:  # its last step raised
            self._stepping.clear()
        self._stepping.append(optimizer)
        if len(self._stepping) > 1 or not self._hooks:
            return None
        if not self._waited and self._armed_by not in (None, optimizer):
            return None  # another optimizer ends the step after which hooks were put on
        closure = args[1] if len(args) > 1 else kwargs.get("closure")
        if closure is None:
            return self._given(optimizer)
        inside = partial(self._evaluated, optimizer, closure, [])
        return ((args[0], inside, *args[2:]), kwargs) if len(args) > 1 else (args, kwargs | {"closure": inside})

    def _evaluated(self, optimizer: torch.optim.Optimizer, closure: Callable[[], Any], before: list[Any]) -> Any:
        """The closure of a step, in which the loop's passes run: .grad is what it leaves."""
        if before:
            self._trouble(CLOSURE)
        self._stepping.clear()
        found = closure()
        self._stepping.append(optimizer)
        if self._hooks and not before:
            self._given(optimizer)
        before.append(True)
        return found

    def _given(self, optimizer: torch.optim.Optimizer) -> None:
        if in_backward():
            self._trouble(INSIDE)
        else:
            self._unchanged()
            self._look()
        if _compiled_frames() != self._frames:
            self._trouble(COMPILED)
        stepped = {id(p) for p in _with_gradients(optimizer)}
        strange = foreign(optimizer)
        for unit in self._units:
            own = [p for p in unit.parameters if id(p) in stepped]
            unit.still = unit.still or (bool(own) and not any(group.get("lr", 1) for group in optimizer.param_groups))
            unit.strange = unit.strange or (strange if own else "")
            for p in own:
                assert p.grad is not None
                unit.given[id(p)] = p.grad.detach().to_dense() if p.grad.is_sparse else p.grad.detach().clone()
                unit.before[id(p)] = p.detach().clone()

    def _has_stepped(self, optimizer: torch.optim.Optimizer, *_: Any) -> None:
        if self._paused or not self._stepping:
            return
        self._stepping.pop()
        if self._stepping:
            return
        stepped = {id(p) for p in _with_gradients(optimizer)} & {id(p) for p in self._trained()}
        self._stepped |= stepped
        self.steps += bool(stepped)
        self._ends |= {self._end()} if stepped else set()
        for unit in self._units:
            for p in unit.parameters:
                if id(p) in stepped:
                    if id(p) in unit.given and p.grad is not None and not p.grad.is_sparse:
                        unit.given[id(p)] = p.grad.detach().clone()  # as the step took it, after the optimizer's hooks
                    unit.moved = unit.moved or not same_bits(p, unit.before.get(id(p), p))
                    unit.last[id(p)] = p.detach().clone()
        if stepped and not self._hooks and self.steps >= self.drawn.at and self.answer().standing != "not seen":
            self._arm()
            self._armed_by = optimizer
            for unit in self._units:
                unit.begin()

    def _finish(self, over: bool = False) -> None:
        """What was stepped is answered, before the next pass begins. `over`: `_end` tells what was put there since."""
        for unit in [unit for unit in self._units if unit.given]:
            unit.last = {id(p): p.detach() for p in unit.parameters} if over else unit.last
            self._settle(unit, unit.answer())

    def _settle(self, unit: Unit, found: Stance | None) -> None:
        if found is None:
            unit.clear()
            unit.begin()
            return
        self._note(unit.places, found)
        self._units.remove(unit)
        if not self._units:
            self._disarm()


def _weakly(method: Callable[..., Any]) -> Callable[..., Any]:
    """A hook that keeps nothing alive: optimizers call it as long as the process runs, if nobody takes it away."""
    weak = WeakMethod(method)

    def hook(*args: Any) -> Any:
        alive = weak()
        return None if alive is None else alive(*args)

    return hook


def _with_gradients(optimizer: torch.optim.Optimizer) -> list[nn.Parameter]:
    return [p for group in optimizer.param_groups for p in group["params"] if p.grad is not None]


def _sum(p: Tensor) -> Tensor:
    flat = p.detach().double()
    return torch.stack([flat.sum(), flat.square().sum()])


def _parallel() -> bool:
    distributed = torch.distributed
    return distributed.is_available() and distributed.is_initialized() and distributed.get_world_size() > 1


def _compiled_frames() -> int:
    """How many pieces of code torch.compile made so far."""
    dynamo = sys.modules.get("torch._dynamo.utils")
    return 0 if dynamo is None else int(dynamo.counters["stats"]["unique_graphs"])
