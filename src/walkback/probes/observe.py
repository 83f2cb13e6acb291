"""One look at a net and its rule: every hidden state, true gradient and credit on the same samples, in one pass."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

import torch
from torch import Tensor
from torch.nn import functional as F

from walkback.nets import Net
from walkback.probes.undisturbed import undisturbed
from walkback.rules import Credits, Rule, output_error, probe_signal


@dataclass(frozen=True)
class Observation:
    """Tensors of one row a sample at the net's site; gradients and credits are of each sample's own loss."""

    hidden: Sequence[Tensor]  # h_0 … h_L
    branches: Sequence[Tensor]  # f_0 … f_{L−1}
    gradients: Sequence[Tensor]  # g_0 … g_L
    credits: Credits

    @property
    def embed_credit(self) -> Tensor:
        """The embedding's credit."""
        return self.credits.blocks[0] if self.credits.embed is None else self.credits.embed

    @property
    def at_input(self) -> Sequence[Tensor] | Tensor:
        """The credits to compare with the gradient at the blocks' inputs."""
        return self.credits.blocks if self.credits.at_input is None else self.credits.at_input


CHUNK = 256  # samples at once: bounds the memory; rows do not depend on it, since no sample sees another


def observe(net: Net, rule: Rule, inputs: Tensor, labels: Tensor, generator: torch.Generator) -> Observation:
    """Forward and backward through the hidden states alone; nothing of `net` or `rule` is changed."""
    parts = []
    with undisturbed(net, rule), torch.enable_grad():
        for some, answers in zip(torch.split(inputs, CHUNK), torch.split(labels, CHUNK), strict=True):
            parts.append(_observe(net, rule, some, answers, generator))
    credits = [part.credits for part in parts]
    return Observation(
        hidden=_join([p.hidden for p in parts]),
        branches=_join([p.branches for p in parts]),
        gradients=_join([p.gradients for p in parts]),
        credits=Credits(
            blocks=_join([c.blocks for c in credits]),
            embed=torch.cat([c.blocks[0] if c.embed is None else c.embed for c in credits]),
            at_input=None if credits[0].at_input is None else _join([c.at_input for c in credits if c.at_input]),
        ),
    )


def _join(parts: Sequence[Sequence[Tensor] | Tensor]) -> list[Tensor]:
    """[chunk][layer] → [layer], the rows of all chunks."""
    return [torch.cat(layer) for layer in zip(*parts, strict=True)]


class Pass(NamedTuple):
    """One forward and one backward through the hidden states of a net; rows of samples at its site, without a graph."""

    logits: Tensor
    hidden: list[Tensor]
    branches: list[Tensor]
    gradients: list[Tensor]


def one_pass(net: Net, inputs: Tensor, labels: Tensor) -> Pass:
    """h_0 … h_L, f_0 … f_{L−1} and g_0 … g_L of each sample's own loss. To be called where gradients are enabled."""
    stream, branches = net.unroll(net.embed(inputs).detach().requires_grad_())
    logits = net.readout(stream[-1])
    # The sum, not the mean: row i is then the gradient of sample i's own loss, whatever the batch.
    loss = F.cross_entropy(logits, labels, reduction="sum")
    gradients = [net.site(g) for g in torch.autograd.grad(loss, stream)]
    hidden = [net.site(h.detach()) for h in stream]
    return Pass(logits.detach(), hidden, [net.site(f.detach()) for f in branches], gradients)


def _observe(net: Net, rule: Rule, inputs: Tensor, labels: Tensor, generator: torch.Generator) -> Observation:
    seen = one_pass(net, inputs, labels)
    error = output_error(seen.logits, labels)
    credits = rule(probe_signal(net, error, seen.hidden, generator, seen.gradients))
    return Observation(seen.hidden, seen.branches, seen.gradients, credits)
