"""Sign symmetry with fixed random sizes (Liao, Leibo & Poggio 2016)."""

from collections.abc import Mapping

import torch
from torch import Tensor

from walkback.nets import Net
from walkback.rules.base import RULES
from walkback.rules.layerwise import LayerFeedback, Named, fan_in


class FRSF(LayerFeedback):
    """Fixed-random sign feedback: the signs of the weights, with sizes drawn once, replace transposed weights.

    update      δ_x = Bᵀ δ_y for every product y = W x, and ∂W = δ_y xᵀ;  B = M ∘ sign(W) with the current
                signs of W, and M ~ U(0, √(3/fan-in)) drawn once
    needs       the signs of all weights above, at every step; the output error, one backward pass
    credit      what arrives at a block's output, for probes
    normalize   none
    embedding   what arrives at h_0
    readout     learns from the error itself; below it as in every layer. `readout=exact`: the head's own weights
    differs     as usf. The RMS of M is usf's size in every layer; others draw M as they draw the weights at init
    source      Liao, Leibo & Poggio 2016, AAAI (arXiv:1510.05067); the name from BioTorch (arXiv:2108.13446)
    """

    def __init__(self, net: Net, generator: torch.Generator, *, readout: str = "feedback"):
        super().__init__(net, generator, readout=readout)
        draw = {name: torch.rand(w.shape, generator=generator).to(w) for name, w in self.weights(net).items()}
        self.M = Named({name: m * (3 / fan_in(m)) ** 0.5 for name, m in draw.items()})

    def stand_ins(self, net: Net, generator: torch.Generator) -> Mapping[str, Tensor]:
        """M ∘ sign(W)."""
        del generator
        return {name: torch.sign(w) * self.M[name] for name, w in self.weights(net).items()}


RULES.add("frsf", FRSF)
