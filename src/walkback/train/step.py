"""One training step, the same for every rule: forward once, all credits, one backward pass over every part.

A local rule's block l minimises the batch mean of ⟨f_l(h_l), a_l⟩ + λ‖f_l(h_l)‖², with h_l and a_l held fixed. The
gradient of that at f_l is (a_l + 2λ f_l)/N, so no objective needs to be formed: the credits themselves are handed to
autograd as the gradients of the branches, beside the loss, which trains the readout alone. Blocks are cut from each
other, so ONE backward call does what one optimizer and one backward per block would do. (A rule that asks for the
gradient at h_L has the readout's share of that call done before it answers.)
"""

from collections.abc import Sequence
from functools import partial

import torch
from torch import Tensor
from torch.nn import functional as F

from walkback.nets import Net
from walkback.rules import Rule, Signal, output_error


def backward(
    net: Net, rule: Rule, inputs: Tensor, labels: Tensor, *, penalty: float, generator: torch.Generator
) -> Tensor:
    """Put the rule's gradients into the parameters of `net` and `rule`; returns the batch's mean loss, detached."""
    step = _local if rule.local else _end_to_end
    return step(net, rule, inputs, labels, penalty, generator)


def _local(net: Net, rule: Rule, inputs: Tensor, labels: Tensor, penalty: float, generator: torch.Generator) -> Tensor:
    start = net.embed(inputs)
    stream, branches = [start.detach()], []
    for block in net.blocks:
        branches.append(block(stream[-1]))
        stream.append(net.join(stream[-1], branches[-1].detach()))
    top = stream[-1].detach().requires_grad_()
    logits = net.readout(top)
    loss = F.cross_entropy(logits, labels)

    def top_gradient() -> Tensor:
        """For rules that ask for ∂ℓ/∂h_L: the readout's part of the backward pass is then done first, not twice."""
        loss.backward()  # type: ignore[no-untyped-call]
        assert top.grad is not None
        return net.site(top.grad) * len(labels)  # the batch mean's gradient is 1/N of each sample's own

    hidden = [net.site(h) for h in stream]
    error = partial(output_error, logits, labels)
    credits = rule(Signal(net, hidden, generator, error=error, top=top_gradient))

    share = 1 / len(labels)
    stacked = credits.blocks * share if isinstance(credits.blocks, Tensor) else [a * share for a in credits.blocks]
    roots: list[Tensor] = [net.embed_site(start)]
    gradients: list[Tensor | None] = [stacked[0] if credits.embed is None else credits.embed * share]
    if top.grad is None:
        roots.append(loss)
        gradients.append(None)
    for branch, credit in zip(branches, stacked, strict=True):
        if branch.requires_grad:  # a frozen block has nothing to learn
            at = net.site(branch)
            roots.append(at)
            gradients.append(credit + at.detach() * (2 * penalty * share) if penalty else credit)
    if credits.loss is not None:
        roots.append(credits.loss)
        gradients.append(None)
    torch.autograd.backward(roots, gradients)
    return loss.detach()


def _end_to_end(
    net: Net, rule: Rule, inputs: Tensor, labels: Tensor, penalty: float, generator: torch.Generator
) -> Tensor:
    del rule, generator  # autograd is the rule
    stream, branches = net.unroll(net.embed(inputs))
    loss = F.cross_entropy(net.readout(stream[-1]), labels)
    total = loss + penalty * _branch_energy(net, branches) if penalty else loss
    total.backward()  # type: ignore[no-untyped-call]
    return loss.detach()


def _branch_energy(net: Net, branches: Sequence[Tensor]) -> Tensor:
    """Σ_l of the batch mean of ‖f_l‖², over the blocks that train."""
    energy = branches[0].new_zeros(())
    for block, branch in zip(net.blocks, branches, strict=True):
        if any(p.requires_grad for p in block.parameters()):
            energy = energy + net.site(branch).square().sum(1).mean()
    return energy
