"""Sign symmetry with uniform size (Liao, Leibo & Poggio 2016): feedback knows only the signs of the weights."""

from collections.abc import Mapping

import torch
from torch import Tensor

from walkback.nets import Net
from walkback.rules.base import RULES
from walkback.rules.layerwise import LayerFeedback, fan_in


class USF(LayerFeedback):
    """Uniform sign feedback: sign(W), all of one size, replaces every transposed weight.

    update      δ_x = Bᵀ δ_y for every product y = W x, and ∂W = δ_y xᵀ;  B = sign(W)/√fan-in of the current W
    needs       the signs of all weights above, at every step; the output error, one backward pass
    credit      what arrives at a block's output, for probes
    normalize   none
    embedding   what arrives at h_0
    readout     learns from the error itself; below it the error goes through the signs of the head. `readout=exact`:
                through the head's own weights
    differs     the paper also normalises or takes the sign of the update; here AdamW does that. The size 1/√fan-in is
                ours: it keeps ‖δ‖ over a layer of constant width. Norms keep their exact backward pass
    source      Liao, Leibo & Poggio 2016, AAAI (arXiv:1510.05067)
    """

    def stand_ins(self, net: Net, generator: torch.Generator) -> Mapping[str, Tensor]:
        """sign(W)/√fan-in."""
        del generator
        return {name: torch.sign(w) * fan_in(w) ** -0.5 for name, w in self.weights(net).items()}


RULES.add("usf", USF)
