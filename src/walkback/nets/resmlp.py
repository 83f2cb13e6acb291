"""ResMLP: a pre-LayerNorm residual stack of d×d blocks on the flattened input. The main net of the protocol."""

import math
from collections.abc import Mapping
from typing import Any, ClassVar

from torch import Tensor, nn
from torch.nn import functional as F

from walkback.nets.base import NETS, Net


class ResMLPBlock(nn.Module):
    """f(h) = W2·GELU(W1·LN(h)), both d×d; W2 ~ N(0, 0.01²) unless asked otherwise, b2 = 0, W1 as PyTorch draws it."""

    def __init__(self, width: int, gains: bool, down_std: float):
        super().__init__()
        self.norm = nn.LayerNorm(width, elementwise_affine=gains)
        self.up = nn.Linear(width, width)
        self.down = nn.Linear(width, width)
        nn.init.normal_(self.down.weight, std=down_std)
        nn.init.zeros_(self.down.bias)

    def forward(self, h: Tensor) -> Tensor:
        """The branch f(h)."""
        branch: Tensor = self.down(F.gelu(self.up(self.norm(h))))
        return branch


class ResMLP(Net):
    """A residual MLP with LayerNorm before each block, on the flattened input: the protocol's main net.

    embed = Linear(in, d), nothing after it; L blocks; readout = LayerNorm (a switch), Linear(d, C).

    terminal_norm  the LayerNorm before the head; its gains are always trained
    gains          whether the LayerNorms inside the blocks have trained gains and biases (default: none). The
                   published curves fit the net without them; with them DFA's stream grows several times faster
    skip           the residual connection; without it h_{l+1} = f_l(h_l), a plain net
    down_std       the std of W2 at init; the published control without a residual connection has 0.5
    """

    added: ClassVar[Mapping[str, Any]] = {"down_std": 0.01}

    def __init__(
        self, shape: tuple[int, ...], classes: int, *, width: int = 256, depth: int = 4,
        terminal_norm: bool = True, gains: bool = False, skip: bool = True, down_std: float = 0.01,
    ):  # fmt: skip
        super().__init__(shape, classes)
        self.residual = skip
        self.embed = nn.Sequential(nn.Flatten(), nn.Linear(math.prod(shape), width))
        self.blocks = nn.ModuleList(ResMLPBlock(width, gains, down_std) for _ in range(depth))
        head = nn.Linear(width, classes)
        self.readout = nn.Sequential(nn.LayerNorm(width), head) if terminal_norm else head


NETS.add("resmlp", ResMLP)
