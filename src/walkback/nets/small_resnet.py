"""SmallResNet: a residual CNN with BatchNorm and strided blocks; its credits act on channel means."""

from collections.abc import Mapping
from typing import Any

from torch import Tensor, nn
from torch.nn import functional as F

from walkback.errors import BadValue
from walkback.nets.base import NETS, Net

SMALLEST = 8


class ResNetBlock(nn.Module):
    """f(h) = conv(relu(bn(conv(relu(bn(h)))))): pre-activation (He et al. 2016b); the first conv has the stride."""

    def __init__(self, inside: int, outside: int, stride: int):
        super().__init__()
        self.norm1 = nn.BatchNorm2d(inside)
        self.conv1 = conv(inside, outside, stride)
        self.norm2 = nn.BatchNorm2d(outside)
        self.conv2 = conv(outside, outside, 1)

    def forward(self, h: Tensor) -> Tensor:
        """The branch f(h)."""
        branch: Tensor = self.conv2(F.relu(self.norm2(self.conv1(F.relu(self.norm1(h))))))
        return branch


def conv(inside: int, outside: int, stride: int) -> nn.Conv2d:
    """3 × 3 without a bias, because BatchNorm has one; W ~ N(0, 2/fan-in) (He et al. 2015)."""
    layer = nn.Conv2d(inside, outside, 3, stride, padding=1, bias=False)
    nn.init.kaiming_normal_(layer.weight)
    return layer


class SmallResNet(Net):
    """A small residual CNN with BatchNorm and strided blocks, for images; its credits act on channel means.

    embed = conv 3 × 3 to c channels; blocks of c, 2c (stride 2), 4c (stride 2), 4c, 4c … channels; readout = BN, ReLU,
    global average pool, Linear. Where a block changes the shape, the stream is subsampled and its new channels are
    zero (option A of He et al. 2015): the shortcut has no parameters, so no rule needs a credit for it.

    channels    c, 16 (as in He et al. 2015 for CIFAR-10);  depth: the number of blocks, 4

    **Rows are channel means**, because the readout averages every channel over its positions. So a credit acts in
    the same way at every position of a channel: it says which channels should rise, not where. A dense feedback matrix
    between whole maps, such as fa's from h_1 to h_0, would have 16,384² or 3 · 10⁸ entries on CIFAR-10.

    **BatchNorm.** Training uses the batch's own statistics; the running ones are updated once per step, in the first
    pass, whatever a rule does. Those of frozen blocks are updated too: their weights stay at init, but the embedding
    below them learns, and fixed statistics would soon be wrong. Accuracy and probes use the running statistics, so no
    sample affects another; at init these are 0 and 1, so the first snapshot is of the net without normalisation.
    """

    reduction = "mean"
    images = True
    wholes = Net.wholes | {"channels": 1}

    def __init__(self, shape: tuple[int, ...], classes: int, *, channels: int = 16, depth: int = 4):
        if len(shape) != 3 or min(shape[1:]) < SMALLEST:
            raise BadValue(
                f"small-resnet is for images of {SMALLEST}×{SMALLEST} or more, and these inputs have shape "
                f"{tuple(shape)}",
                "use image data (cifar10, mnist, digits), or --net resmlp",
            )
        super().__init__(shape, classes)
        plan = [(channels, 1), (2 * channels, 2), (4 * channels, 2)]
        plan = [*plan[:depth], *[(4 * channels, 1)] * (depth - 3)]
        self.embed = conv(shape[0], channels, 1)
        blocks, width = [], channels
        for outside, stride in plan:
            blocks.append(ResNetBlock(width, outside, stride))
            width = outside
        self.blocks = nn.ModuleList(blocks)
        self.readout = nn.Sequential(
            nn.BatchNorm2d(width), nn.ReLU(), nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(width, classes)
        )

    def join(self, layer: int, h: Tensor, f: Tensor) -> Tensor:
        """h + f; where the branch is smaller and has more channels, every second row and column of h, and zeros."""
        del layer
        if h.shape == f.shape:
            return h + f
        stride = 2 if h.shape[2:] != f.shape[2:] else 1
        return f + F.pad(h[:, :, ::stride, ::stride], (0, 0, 0, 0, 0, f.shape[1] - h.shape[1]))

    @classmethod
    def sizes(cls, options: Mapping[str, Any]) -> str:
        """The channels and the blocks."""
        return f"{options['channels']} channels, L = {options['depth']}"

    @classmethod
    def quick(cls, options: Mapping[str, Any]) -> dict[str, Any]:
        """Half the channels."""
        return {**options, "channels": max(1, options["channels"] // 2)}


NETS.add("small-resnet", SmallResNet)
