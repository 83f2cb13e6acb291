"""How long many runs take on a number of cores, and in which order none is left over at the end."""

import heapq
import statistics
from collections.abc import Sequence

MARGIN = 0.95  # lengths are estimates: a run counts as late a little before it is


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


def in_time(seconds: Sequence[float | None], cores: int) -> list[int]:
    """The order in which to begin runs: as they are given, but for those that would still run when all others are done.

    Runs that matter most come first, and stay first. Only where what is left would be done, on all cores together,
    before the longest run that waits could end, that run is begun next. A run of unknown length (None) counts as one of
    the middle; where nothing is known, or there is one core, the order stays.

    >>> in_time([1, 1, 1, 1, 5], 2)  # 9 s of work for two cores: a run of 5 s must begin at once
    [4, 0, 1, 2, 3]
    >>> in_time([1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 4], 2)  # here there is time for the first six
    [0, 1, 2, 3, 4, 5, 10, 6, 7, 8, 9]
    """
    known = [each for each in seconds if each is not None]
    if not known or cores < 2:
        return list(range(len(seconds)))
    middle = statistics.median(known)
    length = [middle if each is None else each for each in seconds]
    by_length = sorted(range(len(length)), key=lambda run: (-length[run], run))
    begun: list[int] = []
    is_begun = [False] * len(length)
    first = longest = 0  # the first that waits, as given and by length
    left, free = sum(length), [0.0] * min(cores, len(length))
    while len(begun) < len(length):
        while is_begun[first]:
            first += 1
        while is_begun[by_length[longest]]:
            longest += 1
        now = free[0]
        rest = (left + sum(end - now for end in free)) / len(free)
        run = by_length[longest] if length[by_length[longest]] >= MARGIN * rest else first
        begun.append(run)
        is_begun[run] = True
        left -= length[run]
        heapq.heapreplace(free, now + length[run])
    return begun
