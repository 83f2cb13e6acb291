"""Random credit: the control that must fail."""

import torch

from walkback.rules.base import RULES, Credits, Rule
from walkback.rules.signal import Signal


class Random(Rule):
    """The control that must fail: a fresh random direction for every sample, block and step.

    credit      a_l ~ N(0, I), drawn again at every step from the run's own stream
    needs       nothing: no label, no error, no weights
    normalize   none (its RMS is 1 already)
    embedding   its own draw
    readout     (head and terminal norm) the gradient of the loss
    differs     in nothing: it is a control, not a published rule
    source      ours
    """

    def credits(self, signal: Signal) -> Credits:
        """Fresh noise."""
        like = signal.hidden[0]
        widths = signal.net.widths
        if len(set(widths)) == 1:
            draws = torch.randn((len(widths), *like.shape), generator=signal.generator).to(like)
            return Credits(list(draws[1:]), embed=draws[0])
        embed, *blocks = (torch.randn(len(like), d, generator=signal.generator).to(like) for d in widths)
        return Credits(blocks, embed=embed)


RULES.add("random", Random)
