"""What every measurement gives: a number with its status, and what chance would give in its place."""

from typing import NamedTuple


class Null(NamedTuple):
    """Mean and std (ddof = 1) over `n` draws of the mean cosine; NaN unless `status` is "ok".

    spread  the root mean square of a single sample's cosine over all draws; for random directions 1/√d
    kind    what it is of, such as "fresh feedback"; for Γ over blocks of several kinds "mixed"
    """

    mean: float
    std: float
    n: int
    kind: str
    spread: float
    status: str


class Reading(NamedTuple):
    """One number, of one block, layer or net. `value` counts only with status "ok". `null`: what chance would give."""

    value: float
    status: str = "ok"
    null: Null | None = None
