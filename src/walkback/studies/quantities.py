"""Numbers of one snapshot that several studies and the reproduction page show: one definition each."""

import math

from walkback.checks.scale import growth
from walkback.records import Snapshot, moment_of_snapshot


def accuracy(snapshot: Snapshot) -> float:
    """On the test split."""
    return snapshot.accuracy


def largest_growth(snapshot: Snapshot) -> float:
    """The largest ‖h_{l+1}‖ / ‖h_l‖; NaN unless every norm is finite and above zero."""
    found = growth(moment_of_snapshot(snapshot))
    return math.nan if found.high is None else found.high


def deep_cosine(snapshot: Snapshot) -> float:
    """The mean of cos(a_l, g_l) over the blocks l ≥ 1; NaN unless it was measured in all of them."""
    deep = snapshot.cosine[1:]
    if not deep or any(c.status != "ok" for c in deep):
        return math.nan
    return math.fsum(c.value for c in deep) / len(deep)
