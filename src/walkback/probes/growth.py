"""Growth: how many times larger each block makes the stream."""

import math
from collections.abc import Sequence
from itertools import pairwise
from typing import NamedTuple


class Ratio(NamedTuple):
    """One block's ‖h_{l+1}‖ / ‖h_l‖; NaN unless `status` is "ok"."""

    value: float
    status: str


class StreamGrowth(NamedTuple):
    """Every block's ratio, and the largest of those that exist with its block.

    `status` is "ok" only if every ratio is: a stream that died or overflowed never counts as a quiet one.
    """

    ratios: list[Ratio]
    largest: float
    block: int | None
    status: str


def growth(hidden_norms: Sequence[float | None]) -> StreamGrowth:
    """r_l = ‖h_{l+1}‖ / ‖h_l‖ for l = 0..L−1, from the norms of h_0 … h_L (None: not measured).

    >>> growth([9.0, 18.0, 18.0])  # doctest: +NORMALIZE_WHITESPACE
    StreamGrowth(ratios=[Ratio(value=2.0, status='ok'), Ratio(value=1.0, status='ok')],
                 largest=2.0, block=0, status='ok')
    >>> growth([9.0, 0.0, 18.0]).status
    'block 0: zero norm at h_1'
    >>> growth([1.0, 3.0, float("inf")])[1:]
    (3.0, 0, 'block 1: norm not finite at h_2')
    """
    trouble = [_trouble(norm, layer) for layer, norm in enumerate(hidden_norms)]
    ratios = []
    for block, (before, after) in enumerate(pairwise(hidden_norms)):
        status = trouble[block] or trouble[block + 1]
        if status or before is None or after is None:
            ratios.append(Ratio(math.nan, status))
        elif math.isinf(after / before):  # both finite, their ratio not
            ratios.append(Ratio(math.nan, "ratio not finite"))
        else:
            ratios.append(Ratio(after / before, "ok"))
    if not ratios:
        return StreamGrowth([], math.nan, None, "fewer than 2 hidden states")
    first = next((f"block {block}: {r.status}" for block, r in enumerate(ratios) if r.status != "ok"), "ok")
    known = [(r.value, -block) for block, r in enumerate(ratios) if r.status == "ok"]
    if not known:
        return StreamGrowth(ratios, math.nan, None, first)
    largest, minus_block = max(known)  # of equal ones the lowest block
    return StreamGrowth(ratios, largest, -minus_block, first)


def _trouble(norm: float | None, layer: int) -> str:
    if norm is None:
        return f"h_{layer} not measured"
    if not math.isfinite(norm):
        return f"norm not finite at h_{layer}"
    return f"zero norm at h_{layer}" if norm == 0 else ""
