"""Random credit: the control that must fail."""

import torch

from walkback.rules.base import Credits, Rule, Signal
from walkback.rules.library import RULES


class Random(Rule):
    """The control that must fail: a fresh random direction for every sample, block and step.

    credit      a_l ~ N(0, I), drawn anew at every step from the run's own stream
    normalize   none (its RMS is 1 already)
    embedding   a draw of its own
    readout     (head and terminal norm) the gradient of the loss
    """

    def credits(self, signal: Signal) -> Credits:
        """Fresh noise."""
        like = signal.hidden[0]
        size = (self.shape.depth + 1, *like.shape)
        draws = torch.randn(size, generator=signal.generator).to(like)
        return Credits(list(draws[1:]), embed=draws[0])


RULES.add("random", Random)
