"""How long many runs take on a number of cores: for sizing a cluster."""

import heapq
from collections.abc import Sequence


def makespan(seconds: Sequence[float], cores: int) -> float:
    """When the last of these runs ends, if every free core takes the next in order.

    >>> makespan([3, 3, 3, 3], 2)
    6.0
    >>> makespan([1, 1, 5], 2), makespan([5, 1, 1], 2)
    (6.0, 5.0)
    """
    free = [0.0] * max(1, min(cores, len(seconds)))
    for each in seconds:
        heapq.heapreplace(free, free[0] + each)
    return max(free)
