"""Weight mirrors (Akrout et al. 2019): feedback learns the weights from noise that passes through them."""

from typing import Any

import torch
from torch import Tensor, nn

from walkback.errors import BadValue
from walkback.nets import Net
from walkback.rules.base import RULES
from walkback.rules.layerwise import DrawnFeedback, numbered


class Mirror(DrawnFeedback):
    """Weight mirror: noise goes into every layer, and feedback learns the correlation of what comes out with it.

    update      δ_x = Bᵀ δ_y for every product y = W x, and ∂W = δ_y xᵀ
    learns      after every step: x ~ N(0, I), `samples` of them, y = W x for each weight, B ← (1 − r) B + r mean(y xᵀ).
                E[y xᵀ] = W, so B is a moving mean of noisy copies of W, and cannot grow larger than W.
                r = max(rate, 1/(t+1)) at step t: at first the mean of all noise so far. B starts Gaussian, with the
                std that W had at init, until the first step
    needs       the activity of every layer under noise, W x, and so W; the output error, one backward pass
    credit      what arrives at a block's output, for probes
    normalize   none
    embedding   what arrives at h_0
    readout     learns from the error itself; below it as in every layer. `readout=exact`: the head's own weights
    defaults    rate .01, samples 32. With B a mean over about 2·samples/rate draws, its cosine with W is near
                1/√(1 + fan-in·rate/(2·samples)): .98 for 256 inputs, less for wider layers
    differs     the paper sends noise through the neurons, y = φ(W x + b), in separate phases between phases of
                learning, with a learning rate and a separate decay. Here φ and b are left out, because our weights may
                be followed by a norm, a skip connection or a softmax; rate and decay are one number, which fixes
                B's size. For a convolution, x is one patch
    source      Akrout, Wilson, Humphreys, Lillicrap & Tweed 2019, NeurIPS (arXiv:1904.05391)
    """

    def __init__(self, net: Net, generator: torch.Generator, *, rate: float = 0.01, samples: int = 32, **common: Any):
        super().__init__(net, generator, **common)
        if not 0 < rate <= 1 or not isinstance(samples, int) or samples < 1:
            raise BadValue(
                f"mirror needs a rate above 0 and up to 1, and a whole number of samples, not {rate!r} and {samples!r}",
                "give rate=0.01 samples=32",
            )
        self.rate, self.samples = rate, samples
        self.key = nn.Buffer(torch.randint(2**62, (), generator=generator))
        self.steps = nn.Buffer(torch.zeros((), dtype=torch.int64))

    @torch.no_grad()
    def after_step(self, net: Net) -> None:
        """Noise through every layer; B learns from it."""
        step = int(self.steps)
        draws, rate = numbered(self.key, step), max(self.rate, 1 / (step + 1))
        noise: dict[int, Tensor] = {}  # drawing it costs more than sending it through
        for name, w in self.weights(net).items():
            matrix = w.view(len(w), -1) if w.dim() > 1 else w[None]
            inputs = matrix.shape[1]
            if inputs not in noise:
                noise[inputs] = torch.randn(self.samples, inputs, generator=draws).to(w)
            x = noise[inputs]
            y = x @ matrix.T
            self.B[name].view_as(matrix).addmm_(y.T, x, beta=1 - rate, alpha=rate / self.samples)
        self.steps.add_(1)


RULES.add("mirror", Mirror)
