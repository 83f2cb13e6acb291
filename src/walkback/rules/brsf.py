"""Sign symmetry with sizes drawn again for every batch (Liao, Leibo & Poggio 2016)."""

from collections.abc import Mapping

import torch
from torch import Tensor, nn

from walkback.nets import Net
from walkback.rules.base import RULES
from walkback.rules.layerwise import LayerFeedback, fan_in, numbered


class BRSF(LayerFeedback):
    """Batchwise-random sign feedback: the signs of the weights, with sizes drawn again for every batch.

    update      δ_x = Bᵀ δ_y for every product y = W x, and ∂W = δ_y xᵀ;  B = M ∘ sign(W) with the current
                signs of W, and M ~ U(0, √(3/fan-in)) drawn for each batch from the rule's own stream
    needs       the signs of all weights above, at every step; the output error, one backward pass
    credit      what arrives at a block's output, for probes
    normalize   none
    embedding   what arrives at h_0
    readout     learns from the error itself; below it as in every layer. `readout=exact`: the head's own weights
    differs     as frsf
    source      Liao, Leibo & Poggio 2016, AAAI (arXiv:1510.05067); the name from BioTorch (arXiv:2108.13446)
    """

    def __init__(self, net: Net, generator: torch.Generator, *, readout: str = "feedback"):
        super().__init__(net, generator, readout=readout)
        self.key = nn.Buffer(torch.randint(2**62, (), generator=generator))

    def stand_ins(self, net: Net, generator: torch.Generator) -> Mapping[str, Tensor]:
        """M ∘ sign(W) with a fresh M. Its stream depends on the step and the rule's key."""
        draws = numbered(self.key, int(torch.randint(2**62, (), generator=generator)))
        found = {}
        for name, w in self.weights(net).items():
            found[name] = torch.sign(w).mul_(coarse_uniform(w, draws)).mul_((3 / fan_in(w)) ** 0.5)
        return found


def coarse_uniform(like: Tensor, generator: torch.Generator) -> Tensor:
    """Uniform numbers between 0 and 1 in 256 steps: one draw of 64 bits makes eight of them.

    >>> u = coarse_uniform(torch.empty(100, 100), torch.Generator().manual_seed(0))
    >>> round(float(u.mean()), 2), round(float(u.square().mean()), 2), len(u.unique())
    (0.5, 0.33, 256)
    """
    count = like.numel()
    bits = torch.empty((count + 7) // 8, dtype=torch.int64).random_(-(2**63), None, generator=generator)
    return bits.view(torch.uint8)[:count].view(like.shape).to(like).add_(0.5).div_(256)


RULES.add("brsf", BRSF)
