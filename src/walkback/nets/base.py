"""What every net promises: embed → blocks → readout, and a defined place where norms and credits are taken."""

import inspect
from collections.abc import Callable
from typing import Any

from torch import Tensor, nn

from walkback.errors import BadValue
from walkback.registry import Registry, nearest


class Net(nn.Module):
    """h_0 = embed(x);  h_{l+1} = h_l + f_l(h_l), l = 0..L−1;  logits = readout(h_L).

    `blocks[l]` computes the branch f_l alone: the stream is added here, so that a rule can watch and train each
    branch apart. A family is one file: build `embed`, `blocks`, `readout`, and say where its `site` is.
    """

    embed: nn.Module
    blocks: nn.ModuleList
    readout: nn.Module

    def __init__(self, width: int, classes: int, skip: bool = True):
        super().__init__()
        self.width = width
        self.classes = classes
        self.skip = skip

    @property
    def depth(self) -> int:
        """The number of blocks, L."""
        return len(self.blocks)

    def join(self, h: Tensor, branch: Tensor) -> Tensor:
        """The next hidden state: h + f with a skip connection, f without."""
        return h + branch if self.skip else branch

    def site(self, h: Tensor) -> Tensor:
        """Where norms and credits are taken: one row a sample, (N, width)."""
        return h

    def embed_site(self, h: Tensor) -> Tensor:
        """Where the embedding receives its credit: one row a sample, (N, width)."""
        return self.site(h)

    def unroll(self, h: Tensor) -> tuple[list[Tensor], list[Tensor]]:
        """From h_0 on, in one graph: the hidden states h_0 … h_L and the branches f_0 … f_{L−1}."""
        stream, branches = [h], []
        for block in self.blocks:
            branches.append(block(stream[-1]))
            stream.append(self.join(stream[-1], branches[-1]))
        return stream, branches

    def forward(self, x: Tensor) -> Tensor:
        """The logits of a batch."""
        logits: Tensor = self.readout(self.unroll(self.embed(x))[0][-1])
        return logits


NETS: Registry[Callable[..., Net]] = Registry("net")


def make_net(name: str, shape: tuple[int, ...], classes: int, options: dict[str, Any]) -> Net:
    """Build a registered net for inputs of `shape`; its weights come from torch's global random state."""
    family = NETS.get(name)
    check_options(f"net {name}", family, options)
    return family(shape=shape, classes=classes, **options)


def defaults(maker: Callable[..., Any]) -> dict[str, Any]:
    """The keyword options of a net or rule with their defaults."""
    parameters = inspect.signature(maker).parameters.values()
    return {p.name: p.default for p in parameters if p.kind is p.KEYWORD_ONLY}


def check_options(what: str, maker: Callable[..., Any], options: dict[str, Any]) -> None:
    """Refuse an option that `maker` does not have."""
    known = defaults(maker)
    for option in options:
        if option not in known:
            raise BadValue(f"{what} has no option {option!r}", nearest(option, known) if known else "it has none")
