"""ViT-Mini: a small pre-LayerNorm vision transformer; its norms and credits are taken at the cls token."""

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from walkback.errors import BadValue
from walkback.nets.base import NETS, Net


class Patches(nn.Module):
    """Image → tokens: a linear map of each patch, a cls token in front, a learned position added."""

    def __init__(self, shape: tuple[int, ...], width: int, patch: int):
        super().__init__()
        channels, height, breadth = shape
        count = (height // patch) * (breadth // patch)
        self.project = nn.Conv2d(channels, width, patch, patch)
        self.cls = nn.Parameter(torch.empty(1, 1, width))
        self.position = nn.Parameter(torch.empty(1, count + 1, width))
        nn.init.trunc_normal_(self.cls, std=0.02)
        nn.init.trunc_normal_(self.position, std=0.02)

    def forward(self, x: Tensor) -> Tensor:
        """(N, C, H, W) → (N, 1 + patches, width)."""
        tokens = self.project(x).flatten(2).transpose(1, 2)
        return torch.cat([self.cls.expand(len(x), -1, -1), tokens], 1) + self.position


class ViTBlock(nn.Module):
    """f(h) = u + MLP(LN(h + u)) with u = attention(LN(h)): both residual branches of a transformer block as one."""

    def __init__(self, width: int, heads: int, ratio: int, gains: bool):
        super().__init__()
        self.heads = heads
        self.norm1 = nn.LayerNorm(width, elementwise_affine=gains)
        self.qkv = nn.Linear(width, 3 * width)
        self.mix = nn.Linear(width, width)
        self.norm2 = nn.LayerNorm(width, elementwise_affine=gains)
        self.up = nn.Linear(width, ratio * width)
        self.down = nn.Linear(ratio * width, width)
        for linear in (self.qkv, self.mix, self.up, self.down):
            nn.init.trunc_normal_(linear.weight, std=0.02)
            nn.init.zeros_(linear.bias)

    def forward(self, h: Tensor) -> Tensor:
        """The branch f(h), for all tokens."""
        n, tokens, width = h.shape
        q, k, v = self.qkv(self.norm1(h)).view(n, tokens, 3, self.heads, -1).permute(2, 0, 3, 1, 4)
        heads = F.scaled_dot_product_attention(q, k, v)
        u: Tensor = self.mix(heads.transpose(1, 2).reshape(n, tokens, width))
        branch: Tensor = u + self.down(F.gelu(self.up(self.norm2(h + u))))
        return branch


class Readout(nn.Module):
    """From the cls token, optionally normalised, to the logits."""

    def __init__(self, width: int, classes: int, terminal_norm: bool):
        super().__init__()
        self.norm = nn.LayerNorm(width) if terminal_norm else nn.Identity()
        self.head = nn.Linear(width, classes)

    def forward(self, h: Tensor) -> Tensor:
        """(N, tokens, width) → (N, classes)."""
        logits: Tensor = self.head(self.norm(h[:, 0]))
        return logits


class ViTMini(Net):
    """A small vision transformer, for images; its credits act at the cls token.

    4 blocks, d = 128, 4 heads, patch 4, MLP ratio 4, learned positions, init N(0, .02²): the field's usual choices.

    A block's credit acts at the cls token of its output, the only token that the readout reads. The cls token of h_0
    does not depend on the image, so the embedding's credit acts on the mean over its tokens instead: otherwise no
    local rule could train the patch projection.
    """

    reduction = "cls"
    title = "ViT-Mini"
    images = True

    def __init__(
        self, shape: tuple[int, ...], classes: int, *, width: int = 128, depth: int = 4,
        terminal_norm: bool = True, gains: bool = True, skip: bool = True,
        patch: int = 4, heads: int = 4, ratio: int = 4,
    ):  # fmt: skip
        if len(shape) != 3 or shape[1] % patch or shape[2] % patch:
            raise BadValue(
                f"vit-mini cuts images into {patch}×{patch} patches, and these inputs have shape {tuple(shape)}",
                "use image data whose sides the patch divides (cifar10), or --net resmlp",
            )
        if width % heads:
            raise BadValue(f"width {width} cannot be split into {heads} heads", f"use a multiple of {heads}")
        super().__init__(shape, classes)
        self.residual = skip
        self.embed = Patches(shape, width, patch)
        self.blocks = nn.ModuleList(ViTBlock(width, heads, ratio, gains) for _ in range(depth))
        self.readout = Readout(width, classes, terminal_norm)

    def embed_rows(self, h: Tensor) -> Tensor:
        """The mean over the tokens."""
        return h.mean(1)

    def embed_gradient(self, g: Tensor) -> Tensor:
        """The sum over the tokens: the change of the loss when every token, and so their mean, moves."""
        return g.sum(1)

    def read(self, rows: Tensor) -> Tensor:
        """The logits from the cls token, which is all that the readout reads."""
        logits: Tensor = self.readout(rows[:, None])
        return logits


NETS.add("vit-mini", ViTMini)
