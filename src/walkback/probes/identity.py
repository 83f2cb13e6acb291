"""identity: how near a stack of blocks is to doing nothing. ‖f_l‖/‖h_l‖ by block, ‖h_L − h_0‖/‖h_0‖, cos(h_L, h_0)."""

from collections.abc import Sequence
from typing import NamedTuple

from torch import Tensor


class Identity(NamedTuple):
    """Medians over the samples."""

    branch: list[float]  # ‖f_l‖ / ‖h_l‖, block by block
    moved: float  # ‖h_L − h_0‖ / ‖h_0‖
    cosine: float  # cos(h_L, h_0)


def identity(hidden: Sequence[Tensor], branches: Sequence[Tensor]) -> Identity:
    """From h_0 … h_L and f_0 … f_{L−1}, one row per sample. In float64, because a cosine near 1 needs many digits.

    >>> h = torch.tensor([[3.0, 4.0]])
    >>> identity([h, 2 * h], [h])
    Identity(branch=[1.0], moved=1.0, cosine=1.0)
    """
    states = [h.double().flatten(1) for h in hidden]
    adds = [f.double().flatten(1) for f in branches]
    first, last = states[0], states[-1]

    def ratio(a: Tensor, b: Tensor) -> float:
        return float((a.norm(dim=1) / b.norm(dim=1)).median())

    cosine = (first * last).sum(1) / (first.norm(dim=1) * last.norm(dim=1))
    branch = [ratio(f, h) for f, h in zip(adds, states[:-1], strict=True)]
    return Identity(branch, ratio(last - first, first), float(cosine.median()))
