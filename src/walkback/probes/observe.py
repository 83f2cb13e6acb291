"""Measure a net and its rule: every hidden state, true gradient and credit on the same samples, in one pass."""

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from walkback.nets import Net
from walkback.probes.cosine import compared, gamma, gamma_at_output
from walkback.probes.norms import gradient_norm, median_norm
from walkback.probes.preserve import undisturbed
from walkback.rules import START, Batch, Clock, Credits, Rule, probe_signal


def stable_losses(logits: Tensor, labels: Tensor) -> Tensor:
    """One cross-entropy per sample, (N,) in float64, as log(1 + Σ_{k≠y} exp(z_k − z_y)).

    >>> z = torch.tensor([[40.0, 0.0]], requires_grad=True)
    >>> stable_losses(z, torch.tensor([0])).sum().backward()
    >>> z.grad
    tensor([[-4.2484e-18,  4.2484e-18]])
    """
    if logits.shape[1] < 2:
        return F.cross_entropy(logits.double(), labels, reduction="none")
    z, right = logits.double(), labels[:, None]
    others = (z - z.gather(1, right)).scatter(1, right, -math.inf)
    return F.softplus(torch.logsumexp(others, 1))


def accuracy_and_loss(net: nn.Module, batches: Iterable[tuple[Tensor, Tensor]]) -> tuple[float, float]:
    """The share of samples whose largest logit is the label's, and the mean cross-entropy.

    A sample with a logit that is not a number is not right.
    """
    right, total, loss = 0, 0, 0.0
    with undisturbed(net), torch.inference_mode():
        for inputs, labels in batches:
            logits = net(inputs)
            hit = (logits.argmax(1) == labels) & logits.isfinite().all(1)
            right += int(hit.sum())
            total += len(labels)
            loss += float(F.cross_entropy(logits, labels, reduction="sum"))
    return right / total, loss / total


@dataclass(frozen=True)
class Observation:
    """Rows of samples; gradients and credits are of each sample's own loss. None: a block without credit.

    at_output   whether credits are compared at the blocks' outputs: in plain nets, and where widths differ
    """

    hidden: Sequence[Tensor]  # h_0 … h_L
    branches: Sequence[Tensor]  # f_0 … f_{L−1}
    gradients: Sequence[Tensor]  # g_0 … g_L
    credits: Credits
    embed_credit: Tensor | None
    embed_gradient: Tensor  # where the embedding's credit acts: g_0, or in a ViT that of the mean token
    at_output: bool

    @property
    def at_input(self) -> Sequence[Tensor | None] | Tensor:
        """The credits to compare with the gradient at the blocks' inputs."""
        return self.credits.blocks if self.credits.at_input is None else self.credits.at_input


# Samples at once: bounds the memory. Rows do not depend on it, since no sample sees another, and credits that are
# normalised over the batch are normalised over all samples; but for a rule that compares samples (predsim), whose
# credits are those of batches of this size.
CHUNK = 256


def observe(
    net: Net, rule: Rule, inputs: Tensor, labels: Tensor, generator: torch.Generator, clock: Clock = START,
    *, stable: bool = False,
) -> Observation:  # fmt: skip
    """Forward and backward through the hidden states only; `net` and `rule` do not change.

    stable   the true gradients are those of `stable_losses`
    """
    passes, credits = [], []
    with undisturbed(net, rule), torch.enable_grad():
        for some, answers in zip(torch.split(inputs, CHUNK), torch.split(labels, CHUNK), strict=True):
            batch = Batch(some, answers, generator, clock)
            seen = one_pass(net, some, answers, stable=stable)
            credits.append(credits_of(rule, net, batch, seen, raw=rule.normalize == "batch"))
            passes.append(seen._replace(states=[]))  # whole feature maps, of which the rows may be a small part
    widths, join = net.widths, Joiner()
    whole = Credits(
        blocks=[join.known(layer) for layer in zip(*(c.blocks for c in credits), strict=True)],
        embed=join.known([c.for_embedding(widths[0]) for c in credits]),
        at_input=None if credits[0].at_input is None else join.layers([c.at_input for c in credits if c.at_input]),
        kind=credits[0].kind,
    )
    if rule.normalize == "batch":
        whole = rule.normalized(whole)
    return Observation(
        hidden=join.layers([p.hidden for p in passes]),
        branches=join.layers([p.branches for p in passes]),
        gradients=join.layers([p.gradients for p in passes]),
        credits=replace(whole, embed=None),
        embed_credit=whole.embed if any(True for _ in net.embed.parameters()) else None,
        at_output=not net.credited_at_input,
        embed_gradient=join.rows([p.embedding for p in passes]),
    )


class Joiner:
    """Puts the chunks of a layer together. The same chunks give the same tensor, not a second one: in a plain net a
    branch is the next state, and bp's credits are the gradients; of feature maps a copy is a quarter of a gigabyte."""

    def __init__(self) -> None:
        # By what the chunks are in memory, and with them: while they are kept, no other tensor has their addresses.
        self.joined: dict[tuple[tuple[int, torch.Size], ...], tuple[Sequence[Tensor], Tensor]] = {}

    def rows(self, chunks: Sequence[Tensor]) -> Tensor:
        """The rows of all chunks."""
        if not all(chunk.is_contiguous() for chunk in chunks):
            return torch.cat(list(chunks))
        key = tuple((chunk.data_ptr(), chunk.shape) for chunk in chunks)
        if key not in self.joined:
            self.joined[key] = chunks, torch.cat(list(chunks))
        return self.joined[key][1]

    def layers(self, chunks: Sequence[Sequence[Tensor] | Tensor]) -> list[Tensor]:
        """[chunk][layer] → [layer], the rows of all chunks."""
        return [self.rows(layer) for layer in zip(*chunks, strict=True)]

    def known(self, chunks: Sequence[Tensor | None]) -> Tensor | None:
        """The rows of all chunks, if every chunk has some."""
        present = [chunk for chunk in chunks if chunk is not None]
        return self.rows(present) if len(present) == len(chunks) else None


class NetPass(NamedTuple):
    """One forward and one backward through the hidden states of a net; rows of samples, without a graph."""

    logits: Tensor
    states: list[Tensor]  # h_0 … h_L as whole features
    hidden: list[Tensor]  # the same as rows
    branches: list[Tensor]
    gradients: list[Tensor]
    embedding: Tensor  # the gradient where the embedding's credit acts


def one_pass(net: Net, inputs: Tensor, labels: Tensor, *, stable: bool = False) -> NetPass:
    """h_0 … h_L, f_0 … f_{L−1} and g_0 … g_L of each sample's own loss. Call it with gradients enabled."""
    stream, branches = net.unroll(net.embed(inputs).detach().requires_grad_())
    logits = net.readout(stream[-1])
    # The sum, not the mean: row i is then the gradient of sample i's own loss, whatever the batch.
    loss = stable_losses(logits, labels).sum() if stable else F.cross_entropy(logits, labels, reduction="sum")
    whole = torch.autograd.grad(loss, stream)
    gradients = [net.gradient_rows(g) for g in whole]
    states = [h.detach() for h in stream]
    rows, branch_rows = [net.rows(h) for h in states], [net.rows(f.detach()) for f in branches]
    return NetPass(logits.detach(), states, rows, branch_rows, gradients, net.embed_gradient(whole[0]))


def credits_of(rule: Rule, net: Net, batch: Batch, seen: NetPass, *, raw: bool = False) -> Credits:
    """The credits of a rule, from a pass whose true gradients are known; without a graph.

    raw   before normalisation, for a caller that has more samples to normalise over
    """
    signal = probe_signal(net, batch, seen.logits, seen.states, seen.gradients, seen.embedding)
    credits: Credits = rule.raw(signal) if raw else rule(signal)
    blocks = [None if a is None else a.detach() for a in credits.blocks]
    embed = None if credits.embed is None else credits.embed.detach()
    return Credits(blocks, embed, at_input=credits.at_input, kind=credits.kind)


def quantities(seen: Observation) -> dict[str, Any]:
    """What one observation says layer by layer, by the names of a snapshot's fields: norms, cosines and Γ.

    Gradient norms are those at the reference batch of 128, whatever the observation was made on. Γ is the mean of the
    cosines at the blocks' inputs; of those at the outputs, where credits are compared there.
    """
    before = [compared(a, g) for a, g in zip(seen.at_input, seen.gradients[:-1], strict=True)]
    after = [compared(a, g) for a, g in zip(seen.credits.blocks, seen.gradients[1:], strict=True)]
    mean, blocks = gamma(after if gamma_at_output(before, residual=not seen.at_output) else before)
    return {
        "hidden_norms": [median_norm(h) for h in seen.hidden],
        "branch_norms": [median_norm(f) for f in seen.branches],
        "gradient_norms": [gradient_norm(g) for g in seen.gradients],
        "credit_norms": [math.nan if a is None else median_norm(a) for a in seen.credits.blocks],
        "cosine": before,
        "cosine_out": after,
        "cosine_embed": compared(seen.embed_credit, seen.embed_gradient),
        "gamma": mean,
        "gamma_blocks": blocks,
        "credit": seen.credits.kind,
    }
