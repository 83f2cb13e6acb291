"""One pass of somebody's loop, run again on a copy of a block or of the model, with what arrived in its backward pass.

    product  v, the block's vector–Jacobian product with the credit c that arrived at its own output, in float64
    slope    ⟨c, (f(θ + εu) − f(θ − εu)) / 2ε⟩ is ⟨v, u⟩, unless another backward is used inside the block
    chain    what the model's own backward pass sends from its logits to its blocks

A pass is run again with its inputs, buffers, modes and random state. Where that gives other outputs, nothing is known.
"""

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn
from torch.autograd.graph import GradientEdge, get_gradient_edge

from walkback.errors import BadValue
from walkback.probes.backward_listener import floating
from walkback.probes.forward_switches import every_module_called
from walkback.probes.hooks import BlockHooks
from walkback.probes.inputs import on_tensors
from walkback.probes.perturb import shifted
from walkback.probes.preserve import random_state, undisturbed
from walkback.probes.unwrap import bound_elsewhere, copy_of_model, find_blocks
from walkback.probes.user_errors import own_line

NEAR = 0.01  # of the slope
STEPS = (1e-6, 1e-5)  # of the parameters' own size
TELLING = 1e-3  # a tensor with less of the block's gradient may be rounding
HALF = (torch.float16, torch.bfloat16)
Grad = dict[int, Tensor]  # by the id of a parameter


class Call:
    """One forward pass of a module: what it took, and as it was; what it gave, and what arrived there."""

    def __init__(self, module: nn.Module, args: tuple[Any, ...], kwargs: Mapping[str, Any]):
        self.module = module
        self.args, self.kwargs = on_tensors((args, kwargs), lambda t: t.detach().clone())
        self.put_random_state_back = random_state()
        self.modes = [part.training for part in module.modules()]
        self.buffers = [b.detach().clone() for b in module.buffers()]
        kinds = {t.device.type for t in (*module.parameters(), *floating([*args, *kwargs.values()]))} | {"cpu"}
        self.autocast = {k: (torch.is_autocast_enabled(k), torch.get_autocast_dtype(k)) for k in sorted(kinds)}
        self.outputs: list[Tensor] = []
        self.credits: list[Tensor | None] = []

    def gave(self, outputs: Sequence[Tensor]) -> None:
        """Keep the outputs as they are now."""
        self.outputs, self.credits = [t.detach().clone() for t in outputs], [None] * len(outputs)

    def arrives(self, place: int, gradient: Tensor) -> None:
        """A backward pass delivers this at an output."""
        before = self.credits[place]
        self.credits[place] = gradient.detach().clone() if before is None else before + gradient.detach()

    @property
    def alive(self) -> bool:
        """Whether anything arrived."""
        return any(c is not None for c in self.credits)

    @property
    def half(self) -> bool:
        """Whether it computes in a half format."""
        tensors = [*self.module.parameters(), *self.outputs, *(c for c in self.credits if c is not None)]
        return any(t.dtype in HALF for t in tensors)


class Twin:
    """A copy of a call's module that runs the call again."""

    def __init__(self, call: Call, double: bool):
        self.call, self.double = call, double
        if bound := bound_elsewhere(call.module):
            raise BadValue(f"the forward of {bound} was replaced in the object", "subclass it")
        self.module = copy_of_model(call.module)
        if double:
            self.module.double()
        self.taken: list[Tensor] = []

    @contextmanager
    def running(self) -> Iterator[None]:
        """Around every pass: random state and torch's switches are afterwards as before."""
        with (
            undisturbed(self.module), torch.inference_mode(False), torch.enable_grad(), every_module_called(),
            ExitStack() as stack,
        ):  # fmt: skip
            for kind, (on, dtype) in self.call.autocast.items():
                stack.enter_context(torch.autocast(kind, dtype=dtype, enabled=on and not self.double))
            for part, mode in zip(self.module.modules(), self.call.modes, strict=True):
                part.training = mode
            yield

    def run(self) -> Any:
        """The output of one pass, inside `running`."""
        with torch.no_grad():
            for buffer, value in zip(self.module.buffers(), self.call.buffers, strict=True):
                buffer.copy_(value)
        self.call.put_random_state_back()
        self.taken = []

        def fresh(t: Tensor) -> Tensor:
            if not t.is_floating_point():
                return t.clone()
            leaf = t.to(torch.float64 if self.double else t.dtype, copy=True).requires_grad_()
            self.taken.append(leaf)
            return leaf.clone()

        args, kwargs = on_tensors((self.call.args, self.call.kwargs), fresh)
        return self.module(*args, **kwargs)

    def same(self, outputs: Sequence[Tensor]) -> bool:
        """Whether the pass gives what it gave."""
        near = 0.05 if self.call.half else 1e-3
        return len(outputs) == len(self.call.outputs) and all(
            a.shape == b.shape and float((a - b).norm()) <= near * (float(b.norm()) + 1e-12)
            for a, b in ((o.detach().double(), r.double()) for o, r in zip(outputs, self.call.outputs, strict=True))
        )


class Product(NamedTuple):
    """A block's vector–Jacobian product, what it sends to each tensor that it took, and why nothing is known."""

    parameters: Grad
    sent: list[Tensor | None]
    trouble: str = ""
    hidden: bool = False  # another backward is used inside the block


def product(call: Call, slope: bool) -> Product:
    """The block's product with what arrived; `slope`: asked by finite differences too."""
    trouble = ""
    for double in (True, False):  # random numbers may be others in float64, as on a GPU
        try:
            with undisturbed():  # copying may draw random numbers in odd modules
                twin = Twin(call, double)
                with twin.running():
                    found = _product(call, twin, slope)
        except Exception as error:  # a stranger's forward pass
            trouble = trouble or f"it cannot be run again by itself ({own_line(error)})"
            continue
        if found is not None:
            return found
        trouble = trouble or "run again by itself, it gives other outputs"
    return Product({}, [], trouble)


def _product(call: Call, twin: Twin, slope: bool) -> Product | None:
    outputs = list(floating([twin.run()]))
    if not twin.same(outputs):
        return None
    own = [p for p in call.module.parameters() if p.requires_grad]
    moved = [p for p in twin.module.parameters() if p.requires_grad]
    pairs = [(o, c.to(o)) for o, c in zip(outputs, call.credits, strict=True) if c is not None and o.requires_grad]
    got = torch.autograd.grad(
        [o for o, _ in pairs], [*moved, *twin.taken], [c for _, c in pairs], allow_unused=True
    ) if pairs else [None] * (len(moved) + len(twin.taken))  # fmt: skip
    v = [torch.zeros_like(p) if g is None else g.detach() for p, g in zip(moved, got, strict=False)]
    sent = [None if g is None else g.detach() for g in got[len(moved) :]]
    result = Product({id(p): g.double() for p, g in zip(own, v, strict=True)}, sent)
    if not slope or not twin.double:
        return result
    confirmed = _slope(call, twin, moved, v)
    trouble = "finite differences of it do not agree with each other" if confirmed is None else ""
    return result._replace(hidden=confirmed is False, trouble=trouble)


def _slope(call: Call, twin: Twin, parameters: Sequence[Tensor], v: Sequence[Tensor]) -> bool | None:
    """Whether finite differences confirm v: along v, and along a direction in which every tensor counts alike."""
    sizes = [float(g.norm()) for g in v]
    whole = math.sqrt(sum(s * s for s in sizes))
    if not 0 < whole < math.inf:
        return True  # nothing arrived, so that there is nothing to confirm
    alike = [g / s**2 if s > TELLING * whole else torch.zeros_like(g) for g, s in zip(v, sizes, strict=True)]
    answers = [_along(call, twin, parameters, v, u) for u in ([g / whole for g in v], alike)]
    return False if False in answers else None if None in answers else True


def _along(
    call: Call, twin: Twin, parameters: Sequence[Tensor], v: Sequence[Tensor], u: Sequence[Tensor]
) -> bool | None:
    expected = sum(float((a * b).sum()) for a, b in zip(v, u, strict=True))
    length = math.sqrt(sum(float(part.square().sum()) for part in u))
    size = math.sqrt(sum(float(p.detach().square().sum()) for p in parameters)) or 1.0

    def paired(eps: float) -> float:
        """⟨c, f(θ + εu)⟩, less what it is where nothing is moved."""
        with shifted(list(zip(parameters, u, strict=True)), eps):
            outputs = [o.detach() for o in floating([twin.run()])]
        three = zip(outputs, call.outputs, call.credits, strict=True)
        return sum(float(((o - still.to(o)) * c.to(o)).sum()) for o, still, c in three if c is not None)

    found = []
    for step in STEPS:
        eps = step * size / length
        found.append((paired(eps) - paired(-eps)) / (2 * eps))
        if abs(found[-1] - expected) <= NEAR * abs(expected):
            return True
    return False if abs(found[0] - found[1]) <= NEAR * max(map(abs, (*found, expected))) else None


# --- the chain --------------------------------------------------------------------------------------------------------


def chain(
    call: Call, names: Sequence[str], take: Callable[[Any], Tensor | None], weights: Sequence[Tensor] | None = None
) -> tuple[dict[int, list[list[Tensor | None]]], str]:
    """What the model's own backward pass sends from its logits to its blocks: by block, by call, by output.

    weights   the parameters that the model had then, if it has others now
    """
    given: dict[int, list[list[GradientEdge | None]]] = {}
    try:
        twin = Twin(call, False)
        with twin.running():
            for p, value in zip(twin.module.parameters(), weights or (), strict=weights is not None):
                p.data.copy_(value)

            def keep(place: int | None, output: Any) -> None:
                edges = [get_gradient_edge(t) if t.requires_grad else None for t in floating([output])]
                if place is not None:
                    given.setdefault(place, []).append(edges)

            BlockHooks(find_blocks(twin.module, names).values(), after=keep)
            logits = take(twin.run())
            if logits is None or not twin.same([logits]):
                return {}, "the model, run again, gives other outputs"
            flat = [edge for calls in given.values() for edges in calls for edge in edges if edge is not None]
            credit = call.credits[0]
            assert credit is not None
            sent = iter(
                torch.autograd.grad(logits, flat, credit.to(logits), allow_unused=True)
                if flat and logits.requires_grad else [None] * len(flat)
            )  # fmt: skip
            return {
                place: [[None if edge is None else next(sent) for edge in edges] for edges in calls]
                for place, calls in given.items()
            }, ""
    except Exception as error:  # a stranger's forward pass
        return {}, f"the model cannot be run again ({own_line(error)})"
