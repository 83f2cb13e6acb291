"""Nudging: does a small step along the credit lower the loss?"""

import math
from collections.abc import Sequence
from typing import NamedTuple

from torch import Tensor

from walkback.probes.replay import LossFrom


class Nudge(NamedTuple):
    """The mean change of the loss; negative is useful. `value` is NaN unless `status` is "ok"."""

    value: float
    samples: int
    status: str


def nudging(
    credits: Sequence[Tensor | None], hidden: Sequence[Tensor], loss_from: LossFrom, *, eta: float = 0.01
) -> list[Nudge]:
    """mean_i [ ℓ_i(h_l − η a_l) − ℓ_i(h_l) ] for every block, in float64.

    Credits keep their own size, so large credits move further: compare signs between rules, sizes within one.

    >>> import torch
    >>> h = torch.tensor([[3.0, 4.0]])
    >>> (nudge,) = nudging([2 * h], [h], lambda _, moved: moved.square().sum(1))
    >>> round(nudge.value, 6)  # 25 · (0.98² − 1)
    -0.99
    >>> nudging([0 * h], [h], lambda _, moved: moved.square().sum(1))[0].status
    'zero credit'
    """

    def of_block(layer: int, credit: Tensor | None) -> Nudge:
        if credit is None:
            return Nudge(math.nan, 0, "not measured")
        h, a = hidden[layer].double(), credit.double()
        if not a.isfinite().all() or not a.any():
            return Nudge(math.nan, len(a), "zero credit" if not a.any() else "not finite")
        change = float((loss_from(layer, h - eta * a) - loss_from(layer, h)).mean())
        finite = math.isfinite(change)
        return Nudge(change if finite else math.nan, len(a), "ok" if finite else "not finite")

    return [of_block(layer, credit) for layer, credit in enumerate(credits)]
