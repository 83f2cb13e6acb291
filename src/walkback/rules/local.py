"""What rules with a loss per block share: blocks that learn alone, local heads, and the credit of a local loss."""

from collections.abc import Callable

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from walkback.nets import Net
from walkback.rules.base import Credits, Rule
from walkback.rules.signal import Batch, Signal

LocalLoss = Callable[[int, Tensor], Tensor]
"""(block l, the rows of its output) → the batch mean of its own loss."""


def has_parameters(module: nn.Module) -> bool:
    """Whether there is anything in it to train."""
    return any(True for _ in module.parameters())


def trains(block: nn.Module) -> bool:
    """Whether a block is not frozen."""
    return any(p.requires_grad for p in block.parameters())


def branch_penalty(net: Net, branch: Tensor, penalty: float) -> Tensor:
    """λ times the batch mean of ‖f_l‖²."""
    return penalty * net.rows(branch).square().sum(1).mean()


def read_loss(net: Net, top: Tensor, labels: Tensor) -> tuple[Tensor, Tensor]:
    """The batch mean of the net's own loss with h_L fixed, which trains the readout; and the logits."""
    logits: Tensor = net.readout(top.detach())
    return F.cross_entropy(logits, labels), logits.detach()


def learn_alone(
    net: Net,
    inputs: Tensor,
    loss: Callable[[int, Tensor, Tensor], Tensor],
    *,
    penalty: float = 0.0,
    between: Callable[[Tensor], Tensor] = lambda h: h,
) -> tuple[list[Tensor], Tensor]:
    """The losses loss(l, h_{l+1}, f_l) of every block with its input fixed, to minimise together; and h_L.

    Block 0's input is not fixed: the embedding learns through block 0's loss. `between` is applied to each state
    before the next block.
    """
    h = net.embed(inputs)
    roots = []
    for layer, block in enumerate(net.blocks):
        branch = block(h)
        after = net.join(layer, h, branch)
        roots.append(loss(layer, after, branch))
        if penalty and trains(block):
            roots.append(branch_penalty(net, branch, penalty))
        h = between(after.detach())
    return roots, h


def backward(roots: list[Tensor]) -> None:
    """One backward call for several losses; some may have nothing to train (a frozen block 0, no embedding)."""
    live = [root for root in roots if root.requires_grad]
    torch.autograd.backward(live)


def train_by_local_losses(net: Net, batch: Batch, loss: LocalLoss) -> Tensor:
    """Each block by its own loss, the embedding through block 0's, the readout by the net's, which is returned."""
    roots, top = learn_alone(net, batch.inputs, lambda layer, h, _: loss(layer, net.rows(h)), penalty=batch.penalty)
    own, _ = read_loss(net, top, batch.labels)
    backward([*roots, own])
    return own.detach()


def local_credits(signal: Signal, loss: LocalLoss) -> Credits:
    """A local loss as a credit: N times the gradient of the batch mean at block l's output, its only signal.

    The embedding's is the gradient of block 0's loss at h_0, through block 0.
    """
    net, count = signal.net, len(signal.labels)
    with torch.enable_grad():
        start = signal.states[0].detach().requires_grad_()
        states = [net.join(0, start, net.blocks[0](start)), *(h.detach().requires_grad_() for h in signal.states[2:])]
        total = torch.stack([loss(layer, net.rows(h)) for layer, h in enumerate(states)]).sum()
        embed, *blocks = (net.gradient_rows(g) * count for g in torch.autograd.grad(total, [start, *states]))
    return Credits(blocks, embed)


class LocalHeads(nn.Module):
    """One projection M_l (C × d_{l+1}) per block, ~ N(0, 1/d): the logits that a block's output alone gives.

    In a residual net M_l reads LN(h_{l+1}) without gains, as the net's own head reads the stream's end: otherwise a
    block could lower its loss by making the stream longer. In a plain net it reads h_{l+1} itself.
    """

    def __init__(self, net: Net, generator: torch.Generator):
        super().__init__()
        draw = (torch.randn(net.classes, d, generator=generator) * d**-0.5 for d in net.widths[1:])
        self.M = nn.ParameterList(draw)
        self.norm = net.residual

    def forward(self, layer: int, rows: Tensor) -> Tensor:
        """The logits of block `layer`."""
        seen = F.layer_norm(rows, rows.shape[1:]) if self.norm else rows
        logits: Tensor = seen @ self.M[layer].T
        return logits


class LocalLosses(Rule):
    """A rule whose blocks learn by a loss of their own, read from the rows of their output by `self.heads`."""

    heads: LocalHeads

    def local_loss(self, layer: int, rows: Tensor, labels: Tensor) -> Tensor:
        """The batch mean of block l's own loss."""
        raise NotImplementedError

    def credits(self, signal: Signal) -> Credits:
        """The gradient of each block's own loss at its output."""
        return local_credits(signal, lambda layer, rows: self.local_loss(layer, rows, signal.labels))

    def backward(self, net: Net, batch: Batch) -> Tensor:
        """Every block by its own loss."""
        return train_by_local_losses(net, batch, lambda layer, rows: self.local_loss(layer, rows, batch.labels))
