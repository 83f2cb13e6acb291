"""Equilibrium propagation (Scellier & Bengio 2017) in the form of the published audit: credits are displacements."""

from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import Tensor, nn
from torch.func import functional_call
from torch.nn import functional as F

from walkback.errors import BadValue
from walkback.nets import Net
from walkback.rules.base import RULES, Credits, Rule
from walkback.rules.signal import Signal

PRECISIONS = {"float32": torch.float32, "float64": torch.float64}


class Relaxing(Rule):
    """A rule whose states relax: `steps` steps of size `eta` in a precision of their own."""

    def __init__(
        self, net: Net, generator: torch.Generator, *,
        eta: float = 0.1, steps: int = 8, precision: str = "float64", **common: Any,
    ):  # fmt: skip
        super().__init__(net, generator, **common)
        name = type(self).__name__.lower()
        if precision not in PRECISIONS:
            raise BadValue(f"{name} cannot relax in {precision!r}", "give precision=float64 or precision=float32")
        if not eta > 0:
            raise BadValue(f"{name} needs an eta above 0, not {eta!r}", "give eta=0.1")
        if not isinstance(steps, int) or steps < 1:
            raise BadValue(
                f"{name} needs a whole number of relaxation steps, at least 1, not {steps!r}", "give steps=8"
            )
        self.eta, self.steps, self.precision = eta, steps, precision

    def dtype(self, like: Tensor) -> torch.dtype:
        """The type of the relaxing states; refused if the device of `like` does not have it."""
        dtype = PRECISIONS[self.precision]
        if like.device.type == "mps" and dtype == torch.float64:
            raise BadValue("this device has no float64", "give --device cpu, or --rule-option precision=float32")
        return dtype


class EP(Relaxing):
    """Equilibrium propagation: nudge the output towards the label, let the hidden states relax, and see how they move.

    credit      a_l = −(h_{l+1}^nudged − h_{l+1}^free)/β.  E = ½ Σ_l ‖h_{l+1} − join(h_l, f_l(h_l))‖² per sample, h_0
                clamped. Free states are the forward pass, where E = 0. Nudged ones are found by `steps` steps of
                gradient descent of size `eta` on E + β ℓ, with ℓ each sample's own loss
    needs       the blocks' transposed Jacobians (the descent reads the weights both ways), and `steps` passes
    normalize   none
    embedding   h_0 does not move: a_0, the same credit as block 0, in a residual net of one width. Otherwise
                ∂E/∂h_0 /β at the nudged states, which is ∂ℓ/∂h_0 for small β and full relaxation
    readout     (head and terminal norm) the gradient of the loss
    defaults    beta 0.1, eta 0.1, steps 8, precision float64. Not published: chosen here, and tried in
                docs/tried/bridges.md
    differs     the original has symmetric weights, one energy for all layers and two phases that settle; here, as in
                the audit's paper, the energy is the squared error of each block's prediction and the free phase is the
                forward pass. The blocks learn from displacements, not from the contrast of two energies
    source      Scellier & Bengio 2017, Frontiers in Computational Neuroscience 11:24 (arXiv:1602.05179); in this form
                Hao, Wan & Zhai, arXiv:2606.21126

    Fully relaxed and with β → 0 the *errors* h_{l+1} − join(h_l, f_l(h_l)) are backprop's gradients, but the
    displacements are not: they are sums over k ≤ l of g_{k+1} carried *forward* to h_{l+1}, near (l+1)·g_{l+1} while
    the blocks are near the identity. A nudge climbs one block per step: with fewer steps than blocks, the lowest get
    exactly nothing. In float32 the difference of two states is rounded to the last digit of the states, and is lost
    if the stream is large; `precision=float32` shows that, and the probe `zero credits` counts it.
    """

    def __init__(self, net: Net, generator: torch.Generator, *, beta: float = 0.1, **common: Any):
        super().__init__(net, generator, **common)
        if not beta > 0:
            raise BadValue(f"ep needs a beta above 0, not {beta!r}", "give beta=0.1")
        self.beta = beta

    def credits(self, signal: Signal) -> Credits:
        """Relax, and take the displacements."""
        net, like = signal.net, signal.states[0]
        dtype = self.dtype(like)
        blocks = [fixed(block, dtype) for block in net.blocks]
        read = fixed(net.readout, dtype)

        def predict(layer: int, h: Tensor) -> Tensor:
            return net.join(layer, h, blocks[layer](h))

        def loss(top: Tensor) -> Tensor:
            return F.cross_entropy(read(top), signal.labels, reduction="sum")  # each sample's own loss

        free = [h.to(dtype) for h in signal.states]
        if dtype != like.dtype:  # the forward pass again, in the precision of the relaxation
            with torch.no_grad():
                for layer in range(net.depth):
                    free[layer + 1] = predict(layer, free[layer])
        nudged = relax(predict, loss, free, beta=self.beta, eta=self.eta, steps=self.steps)
        moved = [net.gradient_rows((a - b) / self.beta).to(like.dtype) for a, b in zip(free, nudged, strict=True)]
        embed = None
        if not net.credited_at_input and signal.net.depth:
            embed = net.gradient_rows(pull(predict, nudged, 0) / self.beta).to(like.dtype)
        return Credits(moved[1:], embed)


def fixed(module: nn.Module, dtype: torch.dtype) -> Callable[[Tensor], Tensor]:
    """The module as a function of only its input: parameters and buffers are fixed, in `dtype`."""
    cast = {name: p.detach().to(dtype) for name, p in module.named_parameters()}
    for name, buffer in module.named_buffers():  # copied: a module may write into its own
        cast[name] = buffer.detach().to(dtype if buffer.is_floating_point() else buffer.dtype, copy=True)

    def call(x: Tensor) -> Tensor:
        out: Tensor = functional_call(module, cast, (x,))
        return out

    return call


Predict = Callable[[int, Tensor], Tensor]


def relax(
    predict: Predict, loss: Callable[[Tensor], Tensor], free: Sequence[Tensor], *, beta: float, eta: float, steps: int
) -> list[Tensor]:
    """`steps` steps of gradient descent on ½ Σ_l ‖h_{l+1} − predict(l, h_l)‖² + β·loss(h_L), all h_1 … h_L at once.

    It starts at the free states, where every error is 0. So at step t nothing below h_{L−t+1} has moved, and only the
    states from there on are computed.
    """
    states, depth = list(free), len(free) - 1
    for step in range(1, steps + 1):
        lowest = max(1, depth - step + 1)
        with torch.enable_grad():
            moving = [h.detach().requires_grad_() for h in states[lowest:]]
            total = beta * loss(moving[-1])
            predicted = free[lowest]  # what lies below has not moved, so its prediction is the same
            for layer, h in enumerate(moving, start=lowest):
                total = total + (h - predicted).square().sum() / 2
                if layer < depth:
                    predicted = predict(layer, h)
            pulls = torch.autograd.grad(total, moving)
        states[lowest:] = [h.detach() - eta * pull for h, pull in zip(moving, pulls, strict=True)]
    return states


def pull(predict: Predict, states: Sequence[Tensor], layer: int) -> Tensor:
    """∂E/∂h at the input of one layer, through that layer's own error alone: all of it for the clamped h_0."""
    with torch.enable_grad():
        h = states[layer].detach().requires_grad_()
        (found,) = torch.autograd.grad((states[layer + 1] - predict(layer, h)).square().sum() / 2, h)
    return found


RULES.add("ep", EP)
