"""Backpropagation, end to end: the reference of every other rule."""

from collections.abc import Sequence

import torch
from torch import Tensor
from torch.nn import functional as F

from walkback.nets import Net
from walkback.rules.base import RULES, Credits, Rule
from walkback.rules.signal import Batch, Signal


class BP(Rule):
    """Backpropagation: the gradient of the loss itself, through the whole net by one backward pass.

    credit      a_l = g_{l+1} = ∂ℓ/∂h_{l+1}, what block l's output receives; compared at the block's input,
                as published, it is g_l. Either way its cosine with the gradient is 1
    needs       every weight above a block, transposed; the output error, one backward pass
    normalize   none; backprop has no credit to normalise
    embedding   g_0
    readout     (head and terminal norm) the gradient of the loss
    differs     in nothing: it is torch's autograd
    source      Rumelhart, Hinton & Williams 1986, Nature 323:533

    Autograd trains; the credits are only for probes.
    """

    def __init__(self, net: Net, generator: torch.Generator):
        super().__init__(net, generator)

    def credits(self, signal: Signal) -> Credits:
        """The true gradients, when a probe provides them."""
        assert signal.gradients is not None, "bp trains end to end; its credits exist only where gradients are probed"
        g = signal.gradients
        return Credits(blocks=g[1:], embed=g[0] if signal.embedding is None else signal.embedding, at_input=g[:-1])

    def backward(self, net: Net, batch: Batch) -> Tensor:
        """One backward pass of the mean loss, with λ Σ_l ‖f_l‖² over the blocks that train."""
        stream, branches = net.unroll(net.embed(batch.inputs))
        loss = F.cross_entropy(net.readout(stream[-1]), batch.labels)
        total = loss + batch.penalty * branch_energy(net, branches) if batch.penalty else loss
        total.backward()  # type: ignore[no-untyped-call]
        return loss.detach()


def branch_energy(net: Net, branches: Sequence[Tensor]) -> Tensor:
    """Σ_l of the batch mean of ‖f_l‖², over the blocks that train."""
    energy = branches[0].new_zeros(())
    for block, branch in zip(net.blocks, branches, strict=True):
        if any(p.requires_grad for p in block.parameters()):
            energy = energy + net.rows(branch).square().sum(1).mean()
    return energy


RULES.add("bp", BP)
