"""Student's t: the interval of a mean from few seeds. With three of them a bootstrap's "95 %" covers 77 %."""

import math
import statistics
from collections.abc import Sequence


def central(t: float, df: int) -> float:
    """P(|T| ≤ t) of Student's t with a whole number of degrees of freedom, in closed form.

    With θ = atan(t/√df) it is sin θ · Σ for even df and (2/π)(θ + sin θ cos θ · Σ) for odd, where Σ is a finite sum in
    cos²θ whose j-th term is the one before times (2j − 1)/(2j), or 2j/(2j + 1).

    >>> round(central(1.0, 1), 12), round(central(4.302652729911, 2), 9)
    (0.5, 0.95)
    """
    theta = math.atan2(t, math.sqrt(df))
    sine, cosine = math.sin(theta), math.cos(theta)
    odd = df % 2
    term = total = 1.0 if df > 1 else 0.0
    for j in range(1, df // 2):
        term *= cosine * cosine * ((2 * j) / (2 * j + 1) if odd else (2 * j - 1) / (2 * j))
        total += term
    return 2 / math.pi * (theta + sine * cosine * total) if odd else sine * total


def two_sided(confidence: float, df: int) -> float:
    """The t for which P(|T| ≤ t) = confidence.

    >>> round(two_sided(0.95, 2), 4)
    4.3027
    """
    low, high = 0.0, 2.0**60  # no t is larger while confidence is below 1 by at least a float
    for _ in range(130):  # halving reaches neighbouring floats long before
        middle = (low + high) / 2
        low, high = (middle, high) if central(middle, df) < confidence else (low, middle)
    return high


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
