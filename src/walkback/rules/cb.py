"""Credit Bridge: a learned value of every hidden state, whose slope is the credit (arXiv:2606.21126)."""

import copy
import math
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from walkback.errors import BadValue
from walkback.nets import Net
from walkback.rules.auxiliary import Bridge, as_credits, credited_states, times_of
from walkback.rules.base import RULES, Credits
from walkback.rules.dfa import DFA
from walkback.rules.signal import Signal

WARM_UP, VALUE = "dfa warm-up", "value"


class CreditBridge(Bridge):
    """Credit Bridge: a small net learns the loss that every hidden state leads to; credit is the slope of that value.

    credit      a_l = ∇_{h_l} V(h_l, l/L, s),  s = e, the output error. Until `warmup` of the steps are done: dfa's,
                B_l e, while V learns; each snapshot says which (`credit`: "dfa warm-up" or "value").
                V learns by the sum of three. Consistency: (V(h_l) − softmin over `draws` noises ε of
                V̄(h_{l+1} + σε))², V̄ a moving average of V, fixed; softmin(v) = −τ log mean exp(−v/τ).
                Gradient matching: ‖∇V(h_L) − ∂ℓ/∂h_L‖² / ‖∂ℓ/∂h_L‖², sums over the batch. Anchor: (V(h_L) − ℓ)²
    needs       ∂ℓ/∂h_L, and its own net; not the blocks' weights
    normalize   sample: each sample's a_l divided by its RMS (+1e-6), as dfa's
    embedding   a_0, the same credit as block 0. In plain nets and if widths differ, credits are taken at the
                blocks' outputs h_{l+1}, t = (l+1)/L, and the embedding has the gradient at h_0
    readout     (head and terminal norm) the gradient of the loss
    defaults    condition error, hidden 256, ema 0.995, warmup 0.2; tau 0.1, sigma 0.1, draws 2. The first four are
                published, ema and hidden for a toy setting. Chosen here: the last three, the anchor (without it the
                offset of V drifts), matching relative to the gradient's size, the form of V as sb's G, and the run's
                own AdamW and schedule for V; tried in docs/tried/bridges.md
    differs     as far as the paper says, in what is chosen here (defaults)
    source      Hao, Wan & Zhai, arXiv:2606.21126
    """

    def __init__(
        self, net: Net, generator: torch.Generator, *, warmup: float = 0.2, ema: float = 0.995,
        tau: float = 0.1, sigma: float = 0.1, draws: int = 2, **common: Any,
    ):  # fmt: skip
        super().__init__(net, generator, **common)
        if not (0 <= warmup <= 1 and 0 <= ema < 1):
            raise BadValue(
                f"cb needs warmup from 0 to 1 and ema from 0 to below 1, not {warmup!r} and {ema!r}",
                "give warmup=0.2 ema=0.995",
            )
        if not (tau > 0 and sigma >= 0 and isinstance(draws, int) and draws >= 1):
            raise BadValue(
                f"cb needs tau above 0, sigma of at least 0 and a whole number of draws, not {tau!r}, {sigma!r} and "
                f"{draws!r}",
                "give tau=0.1 sigma=0.1 draws=2",
            )
        self.warmup, self.ema = warmup, ema
        self.tau, self.sigma, self.draws = tau, sigma, draws
        self.dfa = DFA(net, generator)  # drawn first: the feedback that a dfa run of the same seed has
        self.V = self.auxiliary(net, net.widths, 1)
        self.average = as_buffers(copy.deepcopy(self.V))

    def credits(self, signal: Signal) -> Credits:
        """dfa's during the warm-up, then the slopes of V; either way with V's own loss."""
        net, times, s = signal.net, times_of(signal.net), self.given(signal)
        warming = signal.clock.progress < self.warmup
        with torch.enable_grad():
            rows = [h.detach().requires_grad_(not warming) for h in signal.hidden[:-1]]
            top = signal.hidden[-1].detach().requires_grad_()
            below, last = self.V(rows, times[:-1], s)[..., 0], self.V([top], times[-1:], s)[0, :, 0]
            (slope,) = torch.autograd.grad(last.sum(), top, create_graph=True)
            consistency = (below - self._targets(signal, s)).square().mean()
            loss = consistency + mismatch(slope, signal.top) + (last - _losses(signal)).square().mean()
            if warming:
                warm = self.dfa.credits(signal)
                return Credits(warm.blocks, warm.embed, loss=loss, kind=WARM_UP)
            slopes = [*torch.autograd.grad(below.sum(), rows, retain_graph=True), slope.detach()]
        return as_credits(net, {layer: slopes[layer] for layer in credited_states(net)}, loss, VALUE)

    @torch.no_grad()
    def _targets(self, signal: Signal, s: Tensor) -> Tensor:
        """softmin over noise of V̄(h_{l+1} + σε): (L, N)."""
        noisy = []
        for h in signal.hidden[1:]:
            noise = torch.randn((self.draws, *h.shape), generator=signal.generator).to(h)
            noisy.append(h + self.sigma * noise)
        values: Tensor = self.average(noisy, times_of(signal.net)[1:], s)
        return softmin(values[..., 0], self.tau, 1)

    @torch.no_grad()
    def after_step(self, net: Net) -> None:
        """The moving average of V."""
        del net
        for slow, fast in zip(self.average.buffers(), self.V.parameters(), strict=True):
            slow.lerp_(fast, 1 - self.ema)


def softmin(values: Tensor, tau: float, dim: int) -> Tensor:
    """−τ log mean exp(−v/τ): the mean for large τ, the least for small τ.

    >>> softmin(torch.tensor([1.0, 2.0]), 1e-3, 0).round(decimals=2), softmin(torch.tensor([1.0, 2.0]), 1e3, 0)
    (tensor(1.), tensor(1.4999))
    """
    least: Tensor = -tau * (torch.logsumexp(-values / tau, dim) - math.log(values.shape[dim]))
    return least


def mismatch(slope: Tensor, gradient: Tensor) -> Tensor:
    """‖∇V − g‖² / ‖g‖² over the batch, with a floor of 1e-9 under ‖g‖: a memorised batch has no gradient.

    >>> float(mismatch(torch.full((2, 2), 3e-7), torch.full((2, 2), 1e-7)))  # twice the gradient away
    4.0
    """
    size = torch.linalg.vector_norm(gradient).clamp_min(1e-9)
    apart: Tensor = ((slope - gradient) / size).square().sum()  # divided before it is squared: nothing underflows
    return apart


def as_buffers(module: nn.Module) -> nn.Module:
    """The module with its parameters made buffers: saved with the run, and never trained."""
    for part in module.modules():
        for name, parameter in list(part._parameters.items()):
            del part._parameters[name]
            part.register_buffer(name, None if parameter is None else parameter.detach())
    return module


@torch.no_grad()
def _losses(signal: Signal) -> Tensor:
    """Each sample's own loss."""
    return F.cross_entropy(signal.net.readout(signal.states[-1]), signal.labels, reduction="none")


RULES.add("cb", CreditBridge)
