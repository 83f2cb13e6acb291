"""Forward-forward (Hinton 2022): two forward passes, one with the right label in the input and one with a wrong one."""

import math

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from walkback.errors import BadValue
from walkback.nets import Net
from walkback.rules.base import RULES, Rule
from walkback.rules.local import backward, learn_alone, read_loss
from walkback.rules.signal import Batch

GOODNESS = ("stream", "branch")


class ForwardForward(Rule):
    """Forward-forward: a block's activity should be high for inputs with the right label and low with a wrong one.

    update      block l minimises the mean of softplus(θ − g⁺) + softplus(g⁻ − θ), with h_l fixed. g is its
                goodness: the mean of the squares of the stream h_{l+1} (goodness=stream) or of its own output f_l
                (goodness=branch); in a plain net the two are the same. Positive inputs are x + U y, negative ones
                x + U y′. y′ is a wrong label, drawn from the readout's probabilities of the wrong labels. U is fixed:
                one Gaussian pattern of the input's shape per class, std `label`. It has no credit: the passes that
                train are not the net's own
    needs       labels, and two passes more than a prediction; no weights backwards, no error
    normalize   none. A plain net's states are divided by their RMS before the next block sees them, in these two
                passes; the blocks of our residual nets begin with a norm anyway
    embedding   learns through block 0's loss
    readout     (head and terminal norm) the gradient of the loss on the plain input x, h_L fixed. Only the readout
                gives the accuracy
    defaults    theta 1, goodness stream, label 1: chosen here. In a residual net the goodness of the stream is passed
                from block to block by the skip connections: a block that adds nothing already has it. The goodness of
                the branch is the block's own, as in the paper's plain nets
    differs     the paper overwrites ten pixels with the label, and its readout sees every layer of a net with a neutral
                label. A pattern over the whole input reaches convolutions and patches as well, and x without any
                pattern is what the net is tested on
    source      Hinton 2022, The forward-forward algorithm, arXiv:2212.13345
    """

    def __init__(
        self,
        net: Net,
        generator: torch.Generator,
        *,
        theta: float = 1.0,
        goodness: str = "stream",
        label: float = 1.0,
    ):
        super().__init__(net, generator)
        if goodness not in GOODNESS:
            raise BadValue(f"ff has no goodness named {goodness!r}", "give goodness=stream or goodness=branch")
        if not theta > 0 or not label > 0:
            raise BadValue(f"ff needs theta and label above 0, not {theta!r} and {label!r}", "give theta=1 label=1")
        self.theta, self.goodness = theta, goodness
        self.U = nn.Buffer(torch.randn(net.classes, math.prod(net.shape), generator=generator) * label)

    def labelled(self, inputs: Tensor, labels: Tensor) -> Tensor:
        """x + U y."""
        return inputs + self.U[labels].to(inputs).reshape(inputs.shape)

    def backward(self, net: Net, batch: Batch) -> Tensor:
        """One pass on the plain input for the readout and the wrong labels; one on both kinds of input for the rest."""
        with torch.no_grad():
            states, _ = net.unroll(net.embed(batch.inputs))
        own, logits = read_loss(net, states[-1], batch.labels)
        wrong = wrong_labels(logits, batch.labels, batch.generator)
        both = torch.cat([self.labelled(batch.inputs, batch.labels), self.labelled(batch.inputs, wrong)])
        count = len(batch.labels)

        def loss(layer: int, h: Tensor, branch: Tensor) -> Tensor:
            del layer
            g = net.rows(branch if self.goodness == "branch" else h).square().mean(1)
            return (F.softplus(self.theta - g[:count]) + F.softplus(g[count:] - self.theta)).mean()

        between = (lambda h: h) if net.residual else unit_length
        roots, _ = learn_alone(net, both, loss, penalty=batch.penalty, between=between)
        backward([*roots, own])
        return own.detach()


def wrong_labels(logits: Tensor, labels: Tensor, generator: torch.Generator) -> Tensor:
    """One wrong label per sample, drawn from the softmax over the wrong ones."""
    others = logits.double().scatter(1, labels[:, None], -math.inf).softmax(1).cpu()
    return torch.multinomial(others, 1, generator=generator)[:, 0].to(labels.device)


def unit_length(h: Tensor) -> Tensor:
    """Each sample's state divided by the RMS of its numbers (+1e-6)."""
    rms = h.flatten(1).square().mean(1).sqrt() + 1e-6
    return h / rms.reshape(-1, *(1 for _ in h.shape[1:]))


RULES.add("ff", ForwardForward)
