"""Feedback alignment with its sizes changed, to see whether they explain why our FA differs from the published one.

AdamW divides every gradient by its own size, so a factor should hardly matter, until the gradients come near the 1e-8
that AdamW adds to that size.
"""

import walkback as wb


class ScaledFA(wb.Rule):
    """FA as `fa`, with two sizes free.

    credit      a_{L−1} = top · ∂ℓ/∂h_L;  a_l = B_{l+1} a_{l+1},  B a fixed d×d Gaussian with std `gain`/√d
    top         1: the gradient of the batch-mean loss trains the blocks; 1/128: it is averaged over the batch twice
    gain        1: the matrices keep a credit's size; √(d/C): their std is 1/√C, as DFA's
    normalize   none
    embedding   one more step down the chain, with a matrix of its own: B_0 a_0
    readout     the gradient of the loss
    """

    def __init__(self, shape, generator, *, normalize=None, gain: float = 1.0, top: float = 1.0):
        super().__init__(shape, generator, normalize=normalize)
        self.top = top
        self.B = self.feedback(shape.depth, shape.width, shape.width, std=gain * shape.width**-0.5)

    def credits(self, signal):
        """The scaled top, then down the chain."""
        chain = [self.top * signal.top]
        for B in reversed(self.B.unbind()):
            chain.append(chain[-1] @ B.T)
        *blocks, embed = chain
        return wb.Credits(blocks[::-1], embed)
