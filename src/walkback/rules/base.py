"""What every rule promises: from what one step shows it, a credit for each block and one for the embedding."""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import ClassVar

import torch
from torch import Tensor, nn

from walkback.errors import BadValue
from walkback.nets import Net
from walkback.registry import nearest


@dataclass(frozen=True)
class Shape:
    """The sizes that feedback weights need."""

    width: int
    depth: int
    classes: int


def output_error(logits: Tensor, labels: Tensor) -> Tensor:
    """e = softmax(logits) − onehot(y), one row a sample.

    >>> output_error(torch.zeros(1, 4), torch.tensor([2]))
    tensor([[ 0.2500,  0.2500, -0.7500,  0.2500]])
    """
    logits = logits.detach()
    return logits.softmax(1).scatter_add_(1, labels[:, None], logits.new_full((1, 1), -1.0).expand(len(labels), 1))


class Signal:
    """What a rule sees at one step. Every tensor has one row a sample and carries no graph.

    error       e = softmax(logits) − onehot(y), (N, C)
    hidden      h_0 … h_L where the net takes its credits, each (N, d)
    top         ∂ℓ_i/∂h_L, the exact gradient of each sample's own loss at the last hidden state, (N, d)
    generator   the rule's own random stream at this step
    net         the net itself, for rules that read its weights or run it again
    gradients   g_0 … g_L of each sample's own loss; given when probing, None in training
    """

    def __init__(
        self,
        net: Net,
        hidden: Sequence[Tensor],
        generator: torch.Generator,
        *,
        error: Callable[[], Tensor],
        top: Callable[[], Tensor],
        gradients: Sequence[Tensor] | None = None,
    ):
        self.net = net
        self.hidden = hidden
        self.generator = generator
        self.gradients = gradients
        self._error = error
        self._top = top

    @cached_property
    def error(self) -> Tensor:
        """The output error, computed only for rules that ask."""
        return self._error()

    @cached_property
    def top(self) -> Tensor:
        """The gradient at the last hidden state, computed only for rules that ask."""
        return self._top()


def probe_signal(
    net: Net, error: Tensor, hidden: Sequence[Tensor], generator: torch.Generator, gradients: Sequence[Tensor]
) -> Signal:
    """What a rule sees where the true gradients are known already."""
    return Signal(net, hidden, generator, error=lambda: error, top=lambda: gradients[-1], gradients=gradients)


@dataclass(frozen=True)
class Credits:
    """A rule's answer, in the scale of each sample's own loss: (N, d) for each block and for the embedding.

    blocks    a_0 … a_{L−1}: a sequence of L, or one tensor (L, N, d)
    embed     the embedding's; None: the same as block 0's
    loss      a rule that learns (its nn.Parameters) puts its own objective here; it joins the one backward call
    at_input  the credits to compare with g_l at the block's *input*, where they are not the ones that train it (bp)

    Block l then minimises the batch mean of ⟨f_l(h_l), a_l⟩, the embedding that of ⟨h_0, a⟩.
    """

    blocks: Sequence[Tensor] | Tensor
    embed: Tensor | None = None
    loss: Tensor | None = None
    at_input: Sequence[Tensor] | None = None


NORMALIZATIONS = ("none", "sample", "batch")


def check_normalization(how: str) -> str:
    """`how`, if it is one that we know."""
    if how not in NORMALIZATIONS:
        raise BadValue(f"no normalization is named {how!r}", nearest(str(how), NORMALIZATIONS))
    return how


def normalize_credit(credit: Tensor, how: str) -> Tensor:
    """`sample`: each row divided by its own RMS (+1e-6); `batch`: all by the RMS of the whole; `none`: as it is.

    >>> normalize_credit(torch.tensor([[3.0, 4.0], [0.0, 0.0]]), "sample").round(decimals=4)
    tensor([[0.8485, 1.1314],
            [0.0000, 0.0000]])
    """
    if how == "none":
        return credit
    over = (-1,) if how == "sample" else (-2, -1)
    count = math.prod(credit.shape[axis] for axis in over)
    rms: Tensor = torch.linalg.vector_norm(credit, dim=over, keepdim=True) / count**0.5
    return credit / (rms + 1e-6)


class Rule(nn.Module):
    """Base of all rules. A rule's tensors (buffers: fixed feedback; parameters: learned) are saved with the run.

    Write `credits`; take feedback weights from `self.feedback(...)`, and further options as keyword arguments with
    defaults, handed on to nothing but yourself. `normalize` is every rule's option; its default is the class's own.
    """

    default_normalize: ClassVar[str] = "none"
    local: ClassVar[bool] = True
    """True: blocks are detached from each other and learn from credits. False: end to end (bp)."""

    def __init__(self, shape: Shape, generator: torch.Generator, *, normalize: str | None = None):
        super().__init__()
        self.shape = shape
        self.generator = generator
        self.normalize = check_normalization(self.default_normalize if normalize is None else normalize)

    def feedback(self, *size: int, std: float) -> nn.Buffer:
        """Fixed Gaussian feedback weights, to be kept as an attribute; so they are saved with the run."""
        return nn.Buffer(torch.randn(size, generator=self.generator) * std)

    def credits(self, signal: Signal) -> Credits:
        """The credits before normalisation."""
        raise NotImplementedError

    def forward(self, signal: Signal) -> Credits:
        """The credits as they train the net."""
        raw = self.credits(signal)
        if self.normalize == "none":
            return raw
        stacked = raw.blocks if isinstance(raw.blocks, Tensor) else torch.stack(list(raw.blocks))
        embed = None if raw.embed is None else normalize_credit(raw.embed, self.normalize)
        return replace(raw, blocks=normalize_credit(stacked, self.normalize), embed=embed)
