"""Difference target propagation (Lee et al. 2015): learned inverses pass targets down, one per block."""

from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from walkback.errors import BadValue
from walkback.nets import Net
from walkback.rules.base import RULES, Credits, Rule
from walkback.rules.ep import fixed
from walkback.rules.fa import LARGEST
from walkback.rules.local import has_parameters
from walkback.rules.signal import Signal


class Inverse(nn.Module):
    """g(h), from a block's output to its input. Over a skip connection h + V2·GELU(V1·LN(h)), V2 ~ N(0, .01²), the form
    of such a block; otherwise V h + c."""

    def __init__(self, outside: int, inside: int, skip: bool):
        super().__init__()
        self.skip = skip
        self.up = nn.Linear(outside, outside if skip else inside)
        self.down = nn.Linear(outside, inside) if skip else None
        if self.down is not None:
            nn.init.normal_(self.down.weight, std=0.01)
            nn.init.zeros_(self.down.bias)

    def forward(self, h: Tensor) -> Tensor:
        """A guess of the block's input."""
        if self.down is None:
            straight: Tensor = self.up(h)
            return straight
        back: Tensor = h + self.down(F.gelu(self.up(F.layer_norm(h, h.shape[1:]))))
        return back


class DTP(Rule):
    """Difference target propagation: each block is given a target for its output and moves towards it.

    credit      a_l = h_{l+1} − ĥ_{l+1}. At the top ĥ_L = h_L − step·∂ℓ/∂h_L; below that
                ĥ_l = h_l + g_l(ĥ_{l+1}) − g_l(h_{l+1}).
                g_l learns to undo block l: it minimises ‖g_l(join(x, f_l(x))) − x‖²/‖x‖² (sums over the batch) at
                x = h_l + noise of std `sigma` times the RMS of h_l, drawn again at every step
    needs       the readout's weights (∂ℓ/∂h_L is exact), the blocks' weights only through their response to noise,
                and one learned inverse per block
    normalize   none
    embedding   h_0 − ĥ_0, by an inverse of block 0; neither exists if the embedding has no parameters
    readout     (head and terminal norm) the gradient of the loss
    defaults    step 0.1, sigma 0.1: chosen here. The run's own AdamW trains the inverses with the net
    differs     the paper inverts layers by one layer of the same kind; ours inverts blocks, by h + V2·GELU(V1·LN(h))
                over a skip connection and by a linear map otherwise. The last block gets the exact gradient. With
                exact inverses of linear blocks a_l is Gauss–Newton's step for h_{l+1}, not the gradient's direction
    refuses     nets whose rows are not the whole state (vit-mini, small-resnet): a block cannot be inverted from them
    source      Lee, Zhang, Fischer & Bengio 2015, Difference target propagation, arXiv:1412.7525
    """

    fresh_is_null = False  # over a skip connection a fresh inverse carries the exact gradient of the top down

    def __init__(self, net: Net, generator: torch.Generator, *, step: float = 0.1, sigma: float = 0.1, **common: Any):
        super().__init__(net, generator, **common)
        if not step > 0 or not sigma >= 0:
            raise BadValue(f"dtp needs a step above 0 and a sigma of at least 0, not {step!r} and {sigma!r}",
                           "give step=0.1 sigma=0.1")  # fmt: skip
        if net.reduction not in ("as is", "flatten"):
            raise BadValue(
                f"dtp learns to invert every block, and the rows of {type(net).__name__} ({net.reduction}) are only a "
                "part of a block's output",
                "use dfa, pc or mono-forward, or a net whose rows are whole states (resmlp, mlp, student)",
            )
        self.step, self.sigma = step, sigma
        self.first = 0 if has_parameters(net.embed) else 1  # the lowest block that needs an inverse
        sizes = list(zip(net.widths[self.first + 1 :], net.widths[self.first : -1], strict=True))
        large = max((outside * inside for outside, inside in sizes), default=0)
        if large > LARGEST:
            raise BadValue(
                f"dtp inverts blocks by dense matrices, and one of them would have {large:,} entries here",
                "use dfa, pc or mono-forward, or a net with smaller features",
            )
        seed = int(torch.randint(2**62, (), generator=generator))
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(seed)
            self.inverses = nn.ModuleList(Inverse(*size, net.residual and size[0] == size[1]) for size in sizes)

    def credits(self, signal: Signal) -> Credits:
        """Targets from the top down, and the loss of the inverses."""
        hidden, change = signal.hidden, [self.step * signal.top]
        with torch.no_grad():
            for place in reversed(range(len(self.inverses))):
                above, g = hidden[self.first + place + 1], self.inverses[place]
                change.append(g(above) - g(above - change[-1]))
        blocks = change[::-1]
        embed = blocks.pop(0) if self.first == 0 else None
        return Credits(blocks, embed, loss=self._inversion(signal) if len(self.inverses) else None)

    def _inversion(self, signal: Signal) -> Tensor:
        """The error of the inverses on noisy inputs."""
        net, losses = signal.net, []
        for place, g in enumerate(self.inverses):
            layer = self.first + place
            h = signal.states[layer]
            noise = torch.randn(h.shape, generator=signal.generator).to(h)
            x = h + self.sigma * h.square().mean().sqrt() * noise
            with torch.no_grad():
                after = net.join(layer, x, fixed(net.blocks[layer], x.dtype)(x))
            with torch.enable_grad():
                wanted = net.rows(x)
                losses.append((g(net.rows(after)) - wanted).square().mean() / (wanted.square().mean() + 1e-6))
        return torch.stack(losses).sum()


RULES.add("dtp", DTP)
