"""Is what was measured what trained? What the optimizer was given, against what a block's backward pass delivers.

    G = α v + β p, α > 0   G lies in .grad just before the step; v is the sum of the block's products (see rerun.py)
                           over the passes since zero_grad; β is coupled decay, one for each parameter

R² of the fit is .998 or more (.99 in half formats): seen; .9 or more: in part; less: not seen.
"""

import math
import random
from collections.abc import Sequence
from typing import Any, Literal, NamedTuple

import torch
from torch import Tensor, nn

from walkback.probes.backward_listener import in_backward
from walkback.probes.hooks import BlockHooks
from walkback.probes.preserve import same_bits
from walkback.probes.rerun import Product

Standing = Literal["seen", "in part", "declared", "not seen"]
SEEN, SEEN_IN_HALF, IN_PART = 0.998, 0.99, 0.9
TELLING = 1e-3  # a tensor with less of the block's gradient may be rounding
DEFINE = "give credits= a function that returns what trains its blocks"
BY_HAND = "its parameters were changed by something else than an optimizer of torch: the loop updates by hand"
REPLACED = "after its last step other weights were put there than any step left, so they are not what it trained"
BESIDE = "the loop changes a tensor of it that is no parameter, such as a buffer, beside the optimizer's steps"
OTHER_CREDIT = ("what arrives there is not what the model's backward pass sends from its logits ({}): local losses, a "
                "hook on its output, or credits of the loop's own")  # fmt: skip
FOREIGN = "what {} makes of .grad is not known: its step, or a hook on it, is not torch's own"


class Stance(NamedTuple):
    """Whether what is measured is what trains, and one sentence that says why."""

    standing: Standing
    why: str


class Fit(NamedTuple):
    """How much of G is α v + β p; `least`: of the tensor of which least is."""

    share: float
    alpha: float
    least: float = 1.0

    @property
    def down(self) -> float:
        """The share; none of a G that points the other way, or of what is no number."""
        return self.share if self.share > 0 and self.alpha > 0 else 0.0


def fit(gradients: Sequence[Tensor], products: Sequence[Tensor], parameters: Sequence[Tensor] = ()) -> Fit | None:
    """R² of the fit, without decay or with it, whichever fits better; None where both are zero.

    With decay, what β p explains counts for nothing: a large decay would hide anything.

    >>> v = torch.tensor([1.0, 2.0, 0.0]); fit([3 * v], [v]).share, fit([v.flip(0)], [v]).share < 0.7
    (1.0, True)
    """
    whole = [(g.double().flatten(), v.double().flatten()) for g, v in zip(gradients, products, strict=True)]
    found = _fit(whole)
    if parameters and found is not None and found.share < 1 - 1e-9:
        rest = [(_without(g, p), _without(v, p)) for (g, v), p in zip(whole, parameters, strict=True)]
        decayed = _fit(rest) if sum(len(g) > 1 for g, _ in rest) else None
        found = decayed if decayed is not None and decayed.share > found.share else found
    return found


def _without(vector: Tensor, p: Tensor) -> Tensor:
    q = p.detach().double().flatten().to(vector)
    size = float(q @ q)
    return vector - q * (float(vector @ q) / size) if size > 0 else vector


def _fit(pairs: Sequence[tuple[Tensor, Tensor]]) -> Fit | None:
    gg, gv, vv = (sum(float(p[a] @ p[b]) for p in pairs) for a, b in ((0, 0), (0, 1), (1, 1)))
    if gg == 0 and vv == 0:
        return None
    if gg == 0 or vv == 0 or not math.isfinite(gg + gv + vv):
        return Fit(0.0, 0.0)
    alpha = gv / vv
    rests = [(float((g - alpha * v).square().sum()), float(g @ g)) for g, v in pairs]
    least = min((1 - rest / of for rest, of in rests if of > TELLING**2 * gg), default=1.0)
    return Fit(1 - sum(rest for rest, _ in rests) / gg, alpha, least)


def beside(blocks: Sequence[nn.Module]) -> list[tuple[nn.Module, str]]:
    """The matrices that these blocks hold before they ever ran, and that are no parameters: buffers and attributes,
    which may act as weights. Not those that torch makes of parameters, such as `weight` of `weight_orig`."""
    parts = {id(part): part for block in blocks for part in block.modules()}.values()
    every = [(part, name, held) for part in parts for name, held in (*part._buffers.items(), *vars(part).items())]
    return [
        (part, name) for part, name, held in every
        if isinstance(held, Tensor) and held.dim() > 1 and held.is_floating_point()
        and not any(of.startswith(f"{name}_") for of in part._parameters)
    ]  # fmt: skip


def foreign(optimizer: torch.optim.Optimizer) -> str:
    """The name of an optimizer whose step may do anything; empty where torch's own code alone makes it."""
    own = type(optimizer).step.__module__.startswith("torch.optim")
    return "" if own and not optimizer._optimizer_step_post_hooks else type(optimizer).__name__


class Unit:
    """Blocks that share parameters, and what is known of them at the step that is looked at.

    last      the parameters as the last step left them, so before the next one;  left: what it left in .grad
    fixed     what else the blocks hold, until they are run forward, which may change it
    strange   an optimizer that stepped and is not torch's own
    product   v, by parameter;  given: G;  before: the parameters that G was given for
    chained   by pass, the credits that arrived as a multiple of what the model's own backward pass sends
    """

    def __init__(
        self, places: list[int], parameters: list[nn.Parameter], beside: Sequence[tuple[nn.Module, str]] = ()
    ):  # fmt: skip
        self.places, self.parameters, self.beside = places, parameters, beside
        self.last: dict[int, Tensor] = {}
        self.fixed: list[Tensor] | None = None
        self.left: dict[int, Tensor] = {}
        self.clear()

    def clear(self) -> None:
        """Nothing is known of this step."""
        self.product: dict[int, Tensor] = {}
        self.given: dict[int, Tensor] = {}
        self.before: dict[int, Tensor] = {}
        self.chained: list[tuple[Fit | None, bool]] = []
        self.asked: set[int] = set()  # the blocks whose slope was taken
        self.trouble, self.strange, self.task = "", "", -1
        self.hidden = self.half = self.passed = self.moved = self.still = False

    def begin(self) -> None:
        """A step begins: its parameters are as the last one left them."""
        self.last = {id(p): p.detach().clone() for p in self.parameters}
        self.left = {id(p): p.grad.detach().clone() for p in self.parameters if p.grad is not None}
        self.fixed = [t.detach().clone() for t in self._fixed()]

    def touched(self) -> bool:
        """At the first pass after a step: whether anything but parameters was changed since."""
        before, self.fixed = self.fixed, None
        now = self._fixed()
        return before is not None and not (len(before) == len(now) and all(map(same_bits, before, now)))

    def _fixed(self) -> list[Tensor]:
        held = [getattr(part, name, None) for part, name in self.beside]
        return [t for t in held if isinstance(t, Tensor)]

    def kept(self) -> bool:
        """Whether nobody changed the parameters since."""
        return all(same_bits(p, self.last[id(p)]) for p in self.parameters)

    def zeroed(self) -> bool:
        """At the beginning of a backward pass: whether .grad was set to zero. What the last step left is set apart."""
        full = {id(p): p.grad for p in self.parameters if p.grad is not None and bool(p.grad.any())}
        if not self.passed and not all(key in self.left and same_bits(g, self.left[key]) for key, g in full.items()):
            self.left = {}
        return not full

    def forget(self) -> None:
        """What was accumulated is gone."""
        self.product, self.left, self.chained, self.passed = {}, {}, [], False

    def takes(self, found: Product, half: bool) -> None:
        """The product of one more pass."""
        self.trouble, self.hidden = self.trouble or found.trouble, self.hidden or found.hidden
        self.half, self.passed = self.half or half, True
        for key, part in found.parameters.items():
            self.product[key] = self.product[key] + part if key in self.product else part

    def answer(self) -> Stance | None:
        """What one step shows; None: nothing, and the next may."""
        if self.trouble:
            return Stance("declared", self.trouble)
        if not self.kept():
            return Stance("not seen", BY_HAND)
        given = list(self.given.values())
        if not all(bool(g.isfinite().all()) for g in given):
            return Stance("declared", "its gradients are not finite")
        if not self.passed:
            words = "its .grad is filled by hand: no backward pass arrived at the block"
            return Stance("not seen", words) if any(bool(g.any()) for g in given) else None
        if not self.moved:  # a rate of 0 is no fault: it may warm up
            return None if self.still else Stance("not seen", "the optimizer's step does not move its parameters")
        return self._compared()

    def _compared(self) -> Stance | None:
        own = [p for p in self.parameters if id(p) in self.given]
        given = [self.given[id(p)] - self.left.get(id(p), 0) for p in own]
        products = [self.product.get(id(p), torch.zeros_like(p)).to(g.device) for p, g in zip(own, given, strict=True)]
        found = fit(given, products, [self.before[id(p)] for p in own])
        if found is None:
            return None
        if self.hidden:
            return Stance("not seen", "finite differences do not confirm its gradient: another backward is used inside")
        compared = [(found, self.half, "what lies in its .grad is not what the backward pass delivers there ({})")]
        compared += [(each, half, OTHER_CREDIT) for each, half in self.chained if each is not None]
        for each, half, words in compared:
            if each.down < (SEEN_IN_HALF if half else SEEN):
                return Stance("in part" if each.down >= IN_PART else "not seen", words.format(f"R² {each.down:.2f}"))
        if found.least < IN_PART and not self.half:
            return Stance("in part", "one of its tensors gets something else than the backward pass delivers")
        return Stance("declared", FOREIGN.format(self.strange)) if self.strange else Stance("seen", "")


class Stretches:
    """Moments drawn one from each of ever longer stretches of time, every one half as long as all before it."""

    def __init__(self) -> None:
        self.at, self._ends, self._draw = 0, 1, random.SystemRandom().randrange

    def next(self, now: int) -> None:
        """Draw the next, which comes after now."""
        begins = max(self._ends, now)
        self._ends = begins + max(3, begins // 2)
        self.at = begins + self._draw(self._ends - begins)


# One step: all parameters of the model before it, and what it took from those of each block.
Movement = tuple[list[Tensor], list[list[Tensor]]]


class Movements:
    """The first step and the last two that were drawn; use it as a context around the loop."""

    def __init__(self, model: nn.Module, blocks: Sequence[nn.Module]):
        self.model, self.blocks, self.kept = model, list(blocks), list[Movement]()
        self._drawn, self._count = Stretches(), 0
        self._before: tuple[list[Tensor], list[list[Tensor]]] | None = None

    def __enter__(self) -> "Movements":
        self._hooks = BlockHooks(self.blocks[:1], self._called)
        return self

    def __exit__(self, *_: Any) -> None:
        self._hooks.remove()
        self._moved()

    def _called(self, number: int | None, *_: Any) -> None:
        if number is None or not self.blocks[0].training or in_backward():
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
        if all(same_bits(a, b) for block in pairs for a, b in block):
            return
        self.kept = [*self.kept[:1], *self.kept[1:][-1:], (before, [[a - b for a, b in p] for p in pairs])]
        self._before = None
        self._drawn.next(self._count)
