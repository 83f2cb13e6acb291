"""Predsim (Nøkland & Eidnes 2019): every block learns by its own readout and by the similarity of samples."""

import torch
from torch import Tensor
from torch.nn import functional as F

from walkback.errors import BadValue
from walkback.nets import Net
from walkback.rules.base import RULES
from walkback.rules.local import LocalHeads, LocalLosses


class PredSim(LocalLosses):
    """Predsim: each block minimises its own cross-entropy and makes samples of one class similar.

    credit      a_l = N ∂ℒ_l/∂h_{l+1}, the exact gradient of the block's own loss at its output, its only signal.
                ℒ_l = (1−β)·cross-entropy(M_l LN(h_{l+1}), y) + β·mean over pairs of (S(h_{l+1}) − S(y*))². S is the N×N
                matrix of correlations between the samples' rows, y* the one-hot labels. LN in residual nets only
    needs       labels, a C×d projection per block that is learned, and the other samples of the batch: a sample's
                credit depends on the batch it is in
    normalize   none: the gradient of the block's own loss, unchanged
    embedding   learns through block 0's loss
    readout     (head and terminal norm) the gradient of the loss, h_L fixed
    defaults    beta 0.99, the paper's
    differs     the paper compares S of a learned linear or convolutional map of h, and of each channel's standard
                deviation in convolutional layers; ours compares S of the rows themselves. Its unit is a layer, ours
                a block
    source      Nøkland & Eidnes 2019, Training neural networks with local error signals, arXiv:1901.06656
    """

    fresh_is_null = False  # the similarity term, nearly all of the loss, has nothing to draw again

    def __init__(self, net: Net, generator: torch.Generator, *, beta: float = 0.99):
        super().__init__(net, generator)
        if not 0 <= beta <= 1:
            raise BadValue(f"predsim mixes two losses by beta, from 0 to 1, not {beta!r}", "give beta=0.99")
        self.beta = beta
        self.heads = LocalHeads(net, generator)

    def local_loss(self, layer: int, rows: Tensor, labels: Tensor) -> Tensor:
        """How alike the samples are, and the cross-entropy of the block's head."""
        logits = self.heads(layer, rows)
        wanted = similarity(F.one_hot(labels, logits.shape[1]).to(rows))
        alike = F.mse_loss(similarity(rows), wanted)
        return (1 - self.beta) * F.cross_entropy(logits, labels) + self.beta * alike


def similarity(rows: Tensor) -> Tensor:
    """The correlation of every two rows, (N, N): the cosine after subtracting each row's mean. 0 for a flat row.

    >>> similarity(torch.tensor([[1.0, 0.0], [0.0, 1.0], [2.0, 2.0]])).round()
    tensor([[ 1., -1.,  0.],
            [-1.,  1.,  0.],
            [ 0.,  0.,  0.]])
    """
    directions = F.normalize(rows - rows.mean(1, keepdim=True), dim=1, eps=1e-8)
    return directions @ directions.T


RULES.add("predsim", PredSim)
