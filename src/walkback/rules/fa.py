"""Feedback alignment (Lillicrap et al. 2016), block by block: the chain rule with random matrices for Jacobians."""

from collections.abc import Mapping
from itertools import pairwise
from typing import Any, ClassVar

import torch

from walkback.errors import BadValue
from walkback.nets import Net
from walkback.rules.base import RULES, Credits, Rule
from walkback.rules.signal import Signal

LARGEST = 2**27  # entries of one matrix: half a gigabyte


class FA(Rule):
    """Feedback alignment, a chain by blocks with the exact top: ∂ℓ/∂h_L, carried down through fixed random matrices.

    credit      a_{L−1} = ∂ℓ/∂h_L exactly;  a_l = B_{l+1} a_{l+1},  B a fixed d×d Gaussian with std 1/√d
    needs       the readout's weights (∂ℓ/∂h_L is exact), no others; the output error
    normalize   none. Per sample, the stream explodes and accuracy falls; over the batch it does not
    embedding   one more step down the chain, with its own matrix: B_0 a_0. `embed=block`: a_0 itself, as in dfa
    readout     (head and terminal norm) the gradient of the loss
    differs     the original replaces every transposed weight, the head's too (`fa-layer` here); this has one
                matrix per block, as in the audit's paper: inside a block autograd carries the credit down, and
                the skip connection's identity is not in the chain
    source      Lillicrap, Cownden, Tweed & Akerman 2016, Nature Communications 7:13276; in this form Hao, Wan & Zhai,
                arXiv:2606.21126
    """

    added: ClassVar[Mapping[str, Any]] = {"embed": "chain"}

    def __init__(self, net: Net, generator: torch.Generator, *, embed: str = "chain", **common: Any):
        super().__init__(net, generator, **common)
        if embed not in ("chain", "block"):
            raise BadValue(f"fa has no embedding credit named {embed!r}", "give embed=chain or embed=block")
        self.embed = embed
        # One matrix per block: B[0] carries a_0 down to the embedding, B[l+1] carries a_{l+1} down to block l.
        self.embeds = any(True for _ in net.embed.parameters())  # without parameters, nothing is below
        sizes = list(pairwise(net.widths))[0 if self.embeds else 1 :]
        large = max((rows * columns for rows, columns in sizes), default=0)
        if large > LARGEST:
            raise BadValue(
                f"fa carries credit down by dense matrices, and one of them would have {large:,} entries here",
                "use dfa, or a net with smaller features",
            )
        self.B = self.feedbacks(sizes, [columns**-0.5 for _, columns in sizes])

    def credits(self, signal: Signal) -> Credits:
        """a_{L−1} = ∂ℓ/∂h_L, then down the chain."""
        chain = [signal.top]
        for block in reversed(range(len(self.B))):
            chain.append(chain[-1] @ self.B[block].T)
        embed = chain.pop() if self.embeds else None
        return Credits(chain[::-1], embed if self.embed == "chain" else None)


RULES.add("fa", FA)
