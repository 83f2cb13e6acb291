"""Kolen–Pollack (1994; Akrout et al. 2019): feedback that gets the updates and the decay of the weights."""

from torch import Tensor

from walkback.nets import Net
from walkback.rules.base import RULES
from walkback.rules.layerwise import DrawnFeedback
from walkback.rules.signal import Batch


class KP(DrawnFeedback):
    """Kolen–Pollack: feedback gets the updates and the weight decay of the weights, and comes to resemble them.

    update      δ_x = Bᵀ δ_y for every product y = W x, and ∂W = δ_y xᵀ;  ∂B = ∂W: both are local to the layer.
                B begins Gaussian, with the std that W had at init
    learns      B, by the run's own AdamW. B's gradients are W's, so its moments are too, and W − B changes only
                by the decay: W − B ← (1 − lr·weight decay)(W − B) at every step
    needs       of W only the std of each matrix at init; the output error, one backward pass
    credit      what arrives at a block's output, for probes
    normalize   none
    embedding   what arrives at h_0
    readout     learns from the error itself; below it as in every layer. `readout=exact`: the head's own weights
    differs     the paper has SGD. AdamW's decay of .01 at a rate of .001 takes 1e-5 of W − B per step, which is little;
                B resembles W because both have the same sum of updates. `--weight-decay 1` makes it the paper's
                mechanism; without decay ‖W − B‖ never changes
    source      Kolen & Pollack 1994; Akrout, Wilson, Humphreys, Lillicrap & Tweed 2019, NeurIPS (arXiv:1904.05391)
    """

    learned = True

    def backward(self, net: Net, batch: Batch) -> Tensor:
        """The gradients of W are also B's; frozen weights have none."""
        loss = super().backward(net, batch)
        found = dict(net.named_parameters())
        for name in self.fed:
            self.B[name].grad = found[name].grad
        return loss


RULES.add("kp", KP)
