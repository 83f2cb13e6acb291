"""SmallCNN: three convolutions and a fully connected layer, a plain net; its credits act on whole feature maps."""

import math
from collections.abc import Mapping
from typing import Any

from torch import Tensor, nn

from walkback.errors import BadValue
from walkback.nets.base import NETS, Net

UNITS = 4


class SmallCNN(Net):
    """A small plain CNN, for images: three convolutions and a fully connected layer, four local units.

        block 0   conv 3 → c,   ReLU                    32 × 32 × 32 for CIFAR-10
        block 1   conv c → 2c,  ReLU, max pool 2        64 × 16 × 16
        block 2   conv 2c → 4c, ReLU, max pool 2        128 × 8 × 8
        block 3   flatten, linear 8192 → hidden, ReLU   256

    All convolutions are 3 × 3 with padding 1. embed = identity: h_0 is the image. readout = Linear(hidden, C).
    PyTorch's default init.

    channels    c, 32;  hidden: 256
    depth       how many of the four units, from the first, 4; 0 leaves softmax regression on the pixels

    A feature map as a row is all of its numbers ("flatten"): a credit differs at every position, as the
    gradient does. So feedback is large. dfa's first matrix has 32,768 × 10 entries on CIFAR-10; fa's would have
    32,768 × 16,384, and fa refuses it there (on digits, 8 × 8, it trains).
    """

    residual = False
    reduction = "flatten"
    images = True
    wholes = Net.wholes | {"channels": 1, "hidden": 1}

    def __init__(
        self, shape: tuple[int, ...], classes: int, *, channels: int = 32, hidden: int = 256, depth: int = UNITS
    ):
        if len(shape) != 3 or shape[1] % 4 or shape[2] % 4:
            raise BadValue(
                f"small-cnn pools images twice by 2, and these inputs have shape {tuple(shape)}",
                "use image data whose sides 4 divides (cifar10, mnist, digits), or --net mlp",
            )
        super().__init__(shape, classes)
        inside, height, breadth = shape
        last = 4 * channels * (height // 4) * (breadth // 4)
        units = [
            nn.Sequential(_conv(inside, channels), nn.ReLU()),
            nn.Sequential(_conv(channels, 2 * channels), nn.ReLU(), nn.MaxPool2d(2)),
            nn.Sequential(_conv(2 * channels, 4 * channels), nn.ReLU(), nn.MaxPool2d(2)),
            nn.Sequential(nn.Flatten(), nn.Linear(last, hidden), nn.ReLU()),
        ]
        sizes = [math.prod(shape), channels * height * breadth, channels * height * breadth // 2, last, hidden]
        self.embed = nn.Identity()
        self.blocks = nn.ModuleList(units[:depth])
        self.readout = nn.Sequential(nn.Flatten(), nn.Linear(sizes[depth], classes))

    def read(self, rows: Tensor) -> Tensor:
        """The logits from rows of h_L: the readout flattens anyway."""
        logits: Tensor = self.readout(rows)
        return logits

    @classmethod
    def check(cls, options: Mapping[str, Any]) -> None:
        """No more than four units."""
        super().check(options)
        if options["depth"] > UNITS:
            raise BadValue(f"small-cnn has {UNITS} units, not {options['depth']}", f"give --depth {UNITS} or less")

    @classmethod
    def sizes(cls, options: Mapping[str, Any]) -> str:
        """The sizes of the units."""
        c, depth = options["channels"], options["depth"]
        sizes = [f"{c}", f"{2 * c}", f"{4 * c} channels", f"FC {options['hidden']}"][:depth]
        return ", ".join([*sizes, f"L = {depth}"])

    @classmethod
    def quick(cls, options: Mapping[str, Any]) -> dict[str, Any]:
        """A quarter of the channels and of the hidden units."""
        return {**options, **{name: max(1, options[name] // 4) for name in ("channels", "hidden")}}


def _conv(inside: int, outside: int) -> nn.Conv2d:
    return nn.Conv2d(inside, outside, 3, padding=1)


NETS.add("small-cnn", SmallCNN)
