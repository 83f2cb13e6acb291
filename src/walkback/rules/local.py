"""What rules with a loss per block share: blocks that learn alone, local heads, and the credit of a local loss."""

from collections.abc import Callable

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from walkback.nets import Net
from walkback.rules.base import Credits, Rule
from walkback.rules.signal import Batch, Signal


def has_parameters(module: nn.Module) -> bool:
    """Whether there is anything in it to train."""
    return any(True for _ in module.parameters())


def branch_penalty(net: Net, block: nn.Module, branch: Tensor, penalty: float) -> list[Tensor]:
    """λ times the batch mean of ‖f_l‖², to minimise as well; nothing for a frozen block."""
    trains = penalty and any(p.requires_grad for p in block.parameters())
    return [penalty * net.rows(branch).square().sum(1).mean()] if trains else []


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
        roots += branch_penalty(net, block, branch, penalty)
        h = between(after.detach())
    return roots, h


def backward(roots: list[Tensor]) -> None:
    """One backward call for several losses; some may have nothing to train (a frozen block 0, no embedding)."""
    live = [root for root in roots if root.requires_grad]
    torch.autograd.backward(live)


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
        """N times the gradient of the batch mean of each block's own loss at its output, its only signal.

        The embedding's is the gradient of block 0's loss at h_0, through block 0.
        """
        net, labels = signal.net, signal.labels
        with torch.enable_grad():
            start = signal.states[0].detach().requires_grad_()
            after = net.join(0, start, net.blocks[0](start))
            states = [after, *(h.detach().requires_grad_() for h in signal.states[2:])]
            total = torch.stack([self.local_loss(i, net.rows(h), labels) for i, h in enumerate(states)]).sum()
            gradients = torch.autograd.grad(total, [start, *states])
            embed, *blocks = (net.gradient_rows(g) * len(labels) for g in gradients)
        return Credits(blocks, embed)

    def backward(self, net: Net, batch: Batch) -> Tensor:
        """Each block by its own loss, the embedding through block 0's, the readout by the net's, which is returned."""

        def loss(layer: int, after: Tensor, _: Tensor) -> Tensor:
            return self.local_loss(layer, net.rows(after), batch.labels)

        roots, top = learn_alone(net, batch.inputs, loss, penalty=batch.penalty)
        own, _ = read_loss(net, top, batch.labels)
        backward([*roots, own])
        return own.detach()
