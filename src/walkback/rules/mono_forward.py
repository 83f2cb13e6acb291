"""Mono-Forward (Gong, Li & Abdulla 2025): every block learns by its own linear readout."""

import torch
from torch import Tensor
from torch.nn import functional as F

from walkback.nets import Net
from walkback.rules.base import RULES
from walkback.rules.local import LocalHeads, LocalLosses


class MonoForward(LocalLosses):
    """Mono-Forward: block l and a projection M_l minimise the cross-entropy of M_l h_{l+1}, with h_l fixed.

    credit      a_l = ∂ℓ(M_l LN(h_{l+1}), y)/∂h_{l+1}, of each sample: the exact gradient of the block's own loss at its
                output, the only signal that the block gets. LN (without gains) in residual nets only
    needs       the label, and a C×d projection per block that is learned; no weights of other blocks
    normalize   none: the gradient of the block's own loss, unchanged
    embedding   learns through block 0's loss
    readout     (head and terminal norm) the gradient of the loss, h_L fixed; only the readout gives the accuracy
    differs     the paper has no norm and predicts by the projections (the last, or their sum); its unit is a layer,
                ours a block. M_l ~ N(0, 1/d) and the run's own AdamW for M_l are chosen here
    source      Gong, Li & Abdulla 2025, arXiv:2501.09238; also known as greedy layer-wise cross-entropy
    """

    def __init__(self, net: Net, generator: torch.Generator):
        super().__init__(net, generator)
        self.heads = LocalHeads(net, generator)

    def local_loss(self, layer: int, rows: Tensor, labels: Tensor) -> Tensor:
        """Cross-entropy of the block's projection."""
        return F.cross_entropy(self.heads(layer, rows), labels)


RULES.add("mono-forward", MonoForward)
