"""Student: a plain MLP between linear and tanh, for data that a random teacher net labelled."""

import math
from collections.abc import Mapping
from itertools import pairwise
from typing import Any

import torch
from torch import Tensor, nn

from walkback.errors import BadValue
from walkback.nets.base import NETS, Net


def linear(inside: int, outside: int) -> nn.Linear:
    """W ~ N(0, 1/inside), b = 0: a linear layer that keeps the size of its input, on average."""
    layer = nn.Linear(inside, outside)
    nn.init.normal_(layer.weight, std=inside**-0.5)
    nn.init.zeros_(layer.bias)
    return layer


class StudentBlock(nn.Module):
    """f(h) = (1 − α) z + α tanh z, z = W h + b."""

    def __init__(self, inside: int, outside: int, alpha: float):
        super().__init__()
        self.linear = linear(inside, outside)
        self.alpha = alpha

    def forward(self, h: Tensor) -> Tensor:
        """The next state."""
        z: Tensor = self.linear(h)
        return torch.lerp(z, z.tanh(), self.alpha)


class Student(Net):
    """A plain MLP without LayerNorm, between linear and tanh, for the teacher task (or any vectors).

    embed = Flatten, which learns nothing: h_0 is the input. Block l is a linear map and (1 − α) z + α tanh z;
    readout = Linear(d, C).

    alpha       0: a linear net, 1: tanh; published with 0, .25, .5 and 1
    width       d, 128;  depth: L, published with 2, 4, 8 and 12

    The init is not published. Ours is W ~ N(0, 1/fan-in), b = 0, in every layer, the head included: in a linear
    net it keeps ‖h_l‖ and ‖g_l‖ on average, so twelve layers still learn (PyTorch's default has a third of that
    variance, and twelve layers of it leave 3⁻⁶ of the input). With tanh the state shrinks, less with each layer.
    """

    residual = False

    def __init__(self, shape: tuple[int, ...], classes: int, *, width: int = 128, depth: int = 4, alpha: float = 1.0):
        super().__init__(shape, classes)
        sizes = [math.prod(shape), *[width] * depth]
        self.embed = nn.Flatten()
        self.blocks = nn.ModuleList(StudentBlock(a, b, alpha) for a, b in pairwise(sizes))
        self.readout = linear(sizes[-1], classes)

    @classmethod
    def check(cls, options: Mapping[str, Any]) -> None:
        """Whole numbers for the sizes; α from 0 to 1."""
        super().check(options)
        alpha = options["alpha"]
        if not isinstance(alpha, int | float) or isinstance(alpha, bool) or not 0 <= alpha <= 1:
            raise BadValue(
                f"alpha must be a number from 0 (linear) to 1 (tanh), not {alpha!r}", "write --net-option alpha=0.5"
            )

    @classmethod
    def sizes(cls, options: Mapping[str, Any]) -> str:
        """The sizes and α."""
        return f"{super().sizes(options)}, α = {options['alpha']:g}"


NETS.add("student", Student)
