"""What a rule sees: a batch, the clock, and the results of one forward pass."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property

import torch
from torch import Tensor

from walkback.nets import Net


@dataclass(frozen=True)
class Clock:
    """Where the training is: `step` of `steps`, counted from 0; and the current epoch of `epochs`."""

    step: int = 0
    steps: int = 1
    epoch: int = 0
    epochs: int = 1

    @property
    def progress(self) -> float:
        """The share of the training that is done, from 0 to 1."""
        return self.step / self.steps


START = Clock()


@dataclass(frozen=True)
class Batch:
    """One step's material: inputs and labels, the clock, the rule's own random stream, and λ of the penalty."""

    inputs: Tensor
    labels: Tensor
    generator: torch.Generator
    clock: Clock = START
    penalty: float = 0.0


def output_error(logits: Tensor, labels: Tensor) -> Tensor:
    """e = softmax(logits) − onehot(y), one row per sample.

    >>> output_error(torch.zeros(1, 4), torch.tensor([2]))
    tensor([[ 0.2500,  0.2500, -0.7500,  0.2500]])
    """
    logits = logits.detach()
    return logits.softmax(1).scatter_add_(1, labels[:, None], logits.new_full((1, 1), -1.0).expand(len(labels), 1))


class Signal:
    """What a rule sees at one step. Every tensor has one row per sample and no graph.

    inputs      as the net received them;  labels: (N,);  clock: where the training is
    error       e = softmax(logits) − onehot(y), (N, C)
    hidden      h_0 … h_L as rows, each (N, d_l);  states: the same as whole features (token and image features)
    top         ∂ℓ_i/∂h_L, the exact gradient of each sample's own loss at the last hidden state, (N, d_L)
    generator   the rule's own random stream at this step
    net         the net itself, for rules that read its weights or run it again
    gradients   g_0 … g_L of each sample's own loss; given when probing, None in training
    embedding   the gradient where the embedding's credit acts (g_0, unless the net says otherwise); only when probing
    """

    def __init__(
        self,
        net: Net,
        states: Sequence[Tensor],
        batch: Batch,
        *,
        error: Callable[[], Tensor],
        top: Callable[[], Tensor],
        gradients: Sequence[Tensor] | None = None,
        embedding: Tensor | None = None,
    ):
        self.net = net
        self.states = states
        self.inputs = batch.inputs
        self.labels = batch.labels
        self.clock = batch.clock
        self.generator = batch.generator
        self.gradients = gradients
        self.embedding = embedding
        self._error = error
        self._top = top

    @cached_property
    def hidden(self) -> list[Tensor]:
        """The hidden states as rows."""
        return [self.net.rows(h) for h in self.states]

    @cached_property
    def error(self) -> Tensor:
        """The output error, computed only for rules that ask."""
        return self._error()

    @cached_property
    def top(self) -> Tensor:
        """The gradient at the last hidden state, computed only for rules that ask."""
        return self._top()


def probe_signal(
    net: Net,
    batch: Batch,
    logits: Tensor,
    states: Sequence[Tensor],
    gradients: Sequence[Tensor],
    embedding: Tensor | None = None,
) -> Signal:
    """What a rule sees if the true gradients are already known."""
    error = output_error(logits, batch.labels)
    return Signal(
        net, states, batch, error=lambda: error, top=lambda: gradients[-1], gradients=gradients, embedding=embedding
    )
