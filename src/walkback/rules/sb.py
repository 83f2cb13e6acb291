"""State Bridge: a learned predictor of the last hidden state replaces the blocks above (arXiv:2606.21126)."""

from typing import Any

import torch
from torch import Tensor
from torch.nn import functional as F

from walkback.nets import Net
from walkback.nets.base import looking
from walkback.rules.auxiliary import Bridge, as_credits, credited_states, times_of
from walkback.rules.base import RULES, Credits
from walkback.rules.signal import Signal


class StateBridge(Bridge):
    """State Bridge: a small net learns to predict h_L from every hidden state; credit comes through it.

    credit      a_l = ∇_{h_l} ℓ(readout(G(h_l, l/L, s))), of each sample's own loss;  s = e, the output error.
                G learns by mean (G − h_L)² / (mean h_L² + 1e-6) over the states that it gets, h_L fixed
    needs       the readout's weights (its gradient is exact), the label, and its own net; not the blocks' weights
    normalize   sample: each sample's a_l divided by its RMS (+1e-6), as dfa's
    embedding   a_0, the same credit as block 0. In plain nets and if widths differ, credits are taken at the
                blocks' outputs h_{l+1}, t = (l+1)/L, and the embedding has the gradient at h_0
    readout     (head and terminal norm) the gradient of the loss at the real h_L; nothing through G
    defaults    condition error, hidden 256. Published for a toy setting: three layers, 256 hidden, [LN(h), time, s].
                Chosen here: LN without gains, GELU, time as sin and cos of (π/2)·2^k·t, k = 0..7, no skip inside G, and
                the run's own AdamW and schedule for G; tried in docs/tried/bridges.md
    differs     as far as the paper says, in what is chosen here (defaults)
    source      Hao, Wan & Zhai, arXiv:2606.21126
    """

    def __init__(self, net: Net, generator: torch.Generator, **common: Any):
        super().__init__(net, generator, **common)
        with looking(net) as black:
            net.read(black.new_zeros(2, net.widths[-1]))  # refused here if the readout needs more than these rows
        self.G = self.auxiliary(net, [net.widths[layer] for layer in credited_states(net)], net.widths[-1])

    def credits(self, signal: Signal) -> Credits:
        """One pass of G over the states: its own loss, and the gradient of the net's loss through it."""
        net, asked = signal.net, credited_states(signal.net)
        times, last = times_of(net), signal.hidden[-1]
        with torch.enable_grad():
            rows = [signal.hidden[layer].detach().requires_grad_() for layer in asked]
            predicted = self.G(rows, [times[layer] for layer in asked], self.given(signal))
            loss = (predicted - last).square().mean() / (last.square().mean() + 1e-6)
            logits = [net.read(guess) for guess in predicted]
            each: Tensor = sum(F.cross_entropy(z, signal.labels, reduction="sum") for z in logits)  # type: ignore[assignment]
            gradients = torch.autograd.grad(each, rows, retain_graph=True)
        return as_credits(net, dict(zip(asked, gradients, strict=True)), loss)


RULES.add("sb", StateBridge)
