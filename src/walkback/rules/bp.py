"""Backpropagation, end to end: the reference of every other rule."""

import torch

from walkback.rules.base import Credits, Rule, Shape, Signal
from walkback.rules.library import RULES


class BP(Rule):
    """Backpropagation: the gradient of the loss itself, through the whole net by one backward pass.

    credit      a_l = g_{l+1} = ∂ℓ/∂h_{l+1}, what block l's output really receives; compared at the block's input,
                as published, it is g_l. Either way its cosine with the gradient is 1
    embedding   g_0
    normalize   none; backprop has no credit to normalise

    The credits are not used in training (autograd does it); they are what a probe compares.
    """

    local = False

    def __init__(self, shape: Shape, generator: torch.Generator):
        super().__init__(shape, generator)

    def credits(self, signal: Signal) -> Credits:
        """The true gradients, when a probe provides them."""
        assert signal.gradients is not None, "bp trains end to end; its credits exist only where gradients are probed"
        g = signal.gradients
        return Credits(blocks=g[1:], embed=g[0], at_input=g[:-1])


RULES.add("bp", BP)
