"""Direct feedback alignment (Nøkland 2016): the output error, projected straight to every block."""

import torch

from walkback.rules.base import Credits, Rule, Shape, Signal
from walkback.rules.library import RULES


class DFA(Rule):
    """Direct feedback alignment: every block hears the output error through its own fixed random matrix.

    credit      a_l = B_l e,  e = softmax(logits) − onehot(y),  B_l a fixed d×C Gaussian with std 1/√C
    normalize   sample: each sample's a_l divided by its RMS (+1e-6), as in the published audit
    embedding   a_0, the same credit as block 0
    readout     (head and terminal norm) the gradient of the loss
    """

    default_normalize = "sample"

    def __init__(self, shape: Shape, generator: torch.Generator, *, normalize: str | None = None):
        super().__init__(shape, generator, normalize=normalize)
        self.B = self.feedback(shape.depth, shape.width, shape.classes, std=shape.classes**-0.5)

    def credits(self, signal: Signal) -> Credits:
        """a_l = B_l e."""
        return Credits(signal.error @ self.B.mT)  # (N, C) @ (L, C, d): all blocks at once


RULES.add("dfa", DFA)
