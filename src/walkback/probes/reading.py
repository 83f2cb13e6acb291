"""What every measurement gives: a number with its status, and what chance would give in its place."""

import math
from typing import NamedTuple


class Null(NamedTuple):
    """What chance would give: mean and std (ddof = 1) over `n` draws; NaN where too few draws have a direction.

    kind   what it is of, such as "fresh feedback"; for Γ over blocks of several kinds "mixed"
    """

    mean: float
    std: float
    n: int
    kind: str

    @property
    def known(self) -> bool:
        """Whether there is one."""
        return math.isfinite(self.std)


class Reading(NamedTuple):
    """One number, of one block, layer or net. `value` counts only with status "ok", and is NaN otherwise.

    null           what chance would give, where that is measured beside it
    alive, total   so many samples (pairs, batches) are behind it, of so many that were asked
    """

    value: float
    status: str = "ok"
    null: Null | None = None
    alive: int = 0
    total: int = 0


def missing(status: str, total: int = 0) -> Reading:
    """A reading that could not be taken, and why."""
    return Reading(math.nan, status, None, 0, total)
