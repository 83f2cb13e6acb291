"""MLP: a plain multilayer perceptron on the flattened input. The net of most papers on training without backprop."""

import math
from collections.abc import Mapping, Sequence
from itertools import pairwise
from typing import Any

from torch import nn

from walkback.errors import BadValue
from walkback.nets.base import NETS, Net
from walkback.registry import nearest

ACTIVATIONS: dict[str, type[nn.Module]] = {"relu": nn.ReLU, "tanh": nn.Tanh}


class MLP(Net):
    """A plain MLP, ReLU or tanh, of any widths: the net of most papers.

    embed = Flatten, which learns nothing: h_0 is the input. Block l is Linear(d_l, d_{l+1}) and the activation;
    readout = Linear(d_L, C). PyTorch's default init. Without blocks it is softmax regression on the input.

    activation  relu or tanh
    width       d, of every hidden layer;  depth: how many hidden layers
    widths      instead of both, one width per hidden layer: --net-option widths=[500,300]
    """

    residual = False

    def __init__(
        self, shape: tuple[int, ...], classes: int, *,
        width: int = 256, depth: int = 4, widths: Sequence[int] | None = None, activation: str = "relu",
    ):  # fmt: skip
        super().__init__(shape, classes)
        sizes = [math.prod(shape), *([width] * depth if widths is None else widths)]
        act = ACTIVATIONS[activation]
        self.embed = nn.Flatten()
        self.blocks = nn.ModuleList(nn.Sequential(nn.Linear(a, b), act()) for a, b in pairwise(sizes))
        self.readout = nn.Linear(sizes[-1], classes)

    @classmethod
    def check(cls, options: Mapping[str, Any]) -> None:
        """Check that sizes are whole numbers and that the activation exists."""
        super().check(options)
        if options["activation"] not in ACTIVATIONS:
            raise BadValue(
                f"mlp has no activation {options['activation']!r}", nearest(str(options["activation"]), ACTIVATIONS)
            )
        widths = options["widths"]
        if widths is None:
            return
        whole = isinstance(widths, list) and all(type(width) is int and width > 0 for width in widths)
        if not whole:
            raise BadValue(
                f"widths must be a list of whole numbers of at least 1, not {widths!r}",
                "write it as --net-option widths=[500,300], without spaces",
            )

    @classmethod
    def blocks_in(cls, options: Mapping[str, Any]) -> int:
        """The number of hidden layers."""
        return int(options["depth"]) if options["widths"] is None else len(options["widths"])

    @classmethod
    def shallow(cls, options: Mapping[str, Any]) -> dict[str, Any]:
        """No hidden layer: softmax regression on the input."""
        return {**options, **({"depth": 0} if options["widths"] is None else {"widths": []})}

    @classmethod
    def sizes(cls, options: Mapping[str, Any]) -> str:
        """One width and a depth, or every width."""
        if options["widths"] is None:
            return super().sizes(options)
        return f"d = {', '.join(map(str, options['widths'])) or 'none'}; L = {len(options['widths'])}"

    @classmethod
    def quick(cls, options: Mapping[str, Any]) -> dict[str, Any]:
        """Half of every width."""
        widths = options["widths"]
        return {**super().quick(options), "widths": widths if widths is None else [max(1, w // 2) for w in widths]}


NETS.add("mlp", MLP)
