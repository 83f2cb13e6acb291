"""What stands in the place of a measurement that could not be taken: NaN, and a status that says why."""

import math

from walkback.records import Cosine, Precision, Reading


def missing(status: str) -> Reading:
    """No number, and why."""
    return Reading(math.nan, status)


def no_cosine(status: str, total: int) -> Cosine:
    """No cosine over so many samples, and why."""
    return Cosine(math.nan, 0, total, status)


def no_precision(status: str) -> Precision:
    """It is not known how precise a gradient is, and why."""
    return Precision(math.nan, math.nan, 0, status)
