"""Student's t: the interval of a mean from few seeds. With three of them a bootstrap's "95 %" covers 77 %."""

import math
import statistics
from collections.abc import Sequence
from functools import cache


def central(t: float, df: int) -> float:
    """P(|T| ≤ t) of Student's t with `df` degrees of freedom.

    >>> round(central(1.0, 1), 12), round(central(4.302652729911, 2), 9)
    (0.5, 0.95)
    """
    from scipy.special import stdtr  # here: whoever judges nothing does not wait for it

    return 1 - 2 * float(stdtr(df, -t))


@cache
def two_sided(confidence: float, df: int) -> float:
    """The t for which P(|T| ≤ t) = confidence; infinite where the confidence is 1.

    >>> round(two_sided(0.95, 2), 4)
    4.3027
    """
    from scipy.special import stdtrit

    return abs(float(stdtrit(df, (1 - confidence) / 2)))


def mean_interval(values: Sequence[float], confidence: float) -> tuple[float, float] | None:
    """The interval of the mean: mean ± t · std/√n with std of ddof = 1. None for fewer than two values.

    >>> [round(end, 4) for end in mean_interval([0.1, 0.2, 0.3], 0.95)]
    [-0.0484, 0.4484]
    """
    n = len(values)
    if n < 2:
        return None
    half = two_sided(confidence, n - 1) * statistics.stdev(values) / math.sqrt(n)
    middle = statistics.fmean(values)
    return middle - half, middle + half
