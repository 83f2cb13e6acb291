"""Feedback alignment (Lillicrap et al. 2016), block by block: the chain rule with random matrices for Jacobians."""

import torch

from walkback.rules.base import Credits, Rule, Shape, Signal
from walkback.rules.library import RULES


class FA(Rule):
    """Feedback alignment: the exact gradient at the top, carried down through fixed random matrices.

    credit      a_{L−1} = ∂ℓ/∂h_L exactly;  a_l = B_{l+1} a_{l+1},  B a fixed d×d Gaussian with std 1/√d
    normalize   none. Per sample, the stream explodes and accuracy falls; over the batch it does not
    embedding   one more step down the chain, with a matrix of its own: B_0 a_0
    readout     (head and terminal norm) the gradient of the loss
    """

    def __init__(self, shape: Shape, generator: torch.Generator, *, normalize: str | None = None):
        super().__init__(shape, generator, normalize=normalize)
        # One matrix a block: B[0] carries a_0 down to the embedding, B[l+1] carries a_{l+1} down to block l.
        self.B = self.feedback(shape.depth, shape.width, shape.width, std=shape.width**-0.5)

    def credits(self, signal: Signal) -> Credits:
        """a_{L−1} = ∂ℓ/∂h_L, then down the chain."""
        chain = [signal.top]
        for B in reversed(self.B.unbind()):
            chain.append(chain[-1] @ B.T)
        *blocks, embed = chain
        return Credits(blocks[::-1], embed)


RULES.add("fa", FA)
