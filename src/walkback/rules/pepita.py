"""PEPITA (Dellaferrera & Kreiman 2022): a second forward pass on an input changed by the error."""

import math

import torch
from torch import Tensor, nn

from walkback.errors import BadValue
from walkback.nets import Net
from walkback.rules.base import RULES, Credits, Rule
from walkback.rules.local import backward, branch_penalty, read_loss
from walkback.rules.signal import Batch, Signal, output_error


class PEPITA(Rule):
    """PEPITA: the output error is added to the input, and each block learns from the change of its output.

    credit      a_l = h_{l+1} − h_{l+1}^mod,  h^mod the states of a second forward pass on x + F e,
                e = softmax(logits) − onehot(y). F is fixed, one row per number of the input, one column per class,
                uniform in ±scale·√(6/n_in). As published, block l learns at the *second* pass: it minimises
                ⟨f_l(h_l^mod), a_l⟩
    needs       the output error and a second pass; no weights backwards
    normalize   none: the difference of the two passes, unchanged
    embedding   h_0 − h_0^mod, on the changed input
    readout     (head and terminal norm) the gradient of the loss in the first pass
    defaults    scale 0.05, the paper's
    differs     the paper's layers have no derivative of the activation in their update; inside a block ours have it, by
                autograd. Its last layer pairs e with h_L^mod, ours with h_L. In a residual net h_{l+1} − h_{l+1}^mod
                contains the changed input itself, which skip connections pass on: all blocks get nearly the same credit
    source      Dellaferrera & Kreiman 2022, Error-driven input modulation, arXiv:2201.11665
    """

    def __init__(self, net: Net, generator: torch.Generator, *, scale: float = 0.05):
        super().__init__(net, generator)
        if not scale > 0:
            raise BadValue(f"pepita needs a scale of F above 0, not {scale!r}", "give scale=0.05")
        inside = math.prod(net.shape)
        uniform = 2 * torch.rand(inside, net.classes, generator=generator) - 1
        self.F = nn.Buffer(uniform * scale * math.sqrt(6 / inside))

    def modulated(self, inputs: Tensor, error: Tensor) -> Tensor:
        """x + F e, in the shape of x."""
        return inputs + (error @ self.F.T).to(inputs).reshape(inputs.shape)

    def credits(self, signal: Signal) -> Credits:
        """What the second pass changes at each block's output."""
        net = signal.net
        with torch.no_grad():
            second, _ = net.unroll(net.embed(self.modulated(signal.inputs, signal.error)))
        moved = [net.rows(h) - net.rows(m) for h, m in zip(signal.states, second, strict=True)]
        return Credits(moved[1:], moved[0])

    def backward(self, net: Net, batch: Batch) -> Tensor:
        """First pass: error and readout. Second pass: blocks and embedding."""
        with torch.no_grad():
            start = net.embed(batch.inputs)
            first, _ = net.unroll(start)
        own, logits = read_loss(net, first[-1], batch.labels)
        h = net.embed(self.modulated(batch.inputs, output_error(logits, batch.labels)))
        change = net.embed_rows(start) - net.embed_rows(h.detach())
        roots = [own, (net.embed_rows(h) * change).sum(1).mean()]
        h = h.detach()
        for layer, block in enumerate(net.blocks):
            branch = block(h)
            h = net.join(layer, h, branch.detach())
            change = net.rows(first[layer + 1]) - net.rows(h)
            roots.append((net.rows(branch) * change).sum(1).mean())
            roots += branch_penalty(net, block, branch, batch.penalty)
        backward(roots)
        return own.detach()


RULES.add("pepita", PEPITA)
