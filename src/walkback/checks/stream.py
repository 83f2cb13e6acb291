"""How a stream grows from block to block, as far as the norms that are known tell: the mathematics of `scale`."""

import math
from collections.abc import Mapping, Sequence
from itertools import pairwise

from walkback.checks.finding import Interval, by_text, known
from walkback.records.evidence import Evidence
from walkback.records.moment import Moment

SHAVE = 1 - 1e-9  # a root is rounded; a bound must not come out above what it bounds


def growth(moment: Moment) -> Interval:
    """The largest ‖h_{l+1}‖ / ‖h_l‖, between the bounds that the known norms leave.

    From ‖h_i‖ to ‖h_j‖ some block grows by at least (‖h_j‖/‖h_i‖)^(1/(j−i)), whatever lies between. There is no upper
    bound while any norm is unknown: a block may have blown the stream up and the next one shrunk it. A norm that is
    zero or not finite counts as unknown, because growth from or to it is no number.

    >>> growth(Moment(hidden_norms=[2.0, 6.0, 3.0]))
    Interval(value=None, low=3.0, high=3.0)
    >>> found = growth(Moment(hidden_norms=[9.0, None, 3600.0]))
    >>> round(found.low, 6), found.high
    (20.0, None)

    Where growth is recorded block by block, each over what the block itself takes, that is it: what happens between two
    blocks is nobody's growth, so nothing follows from the norms.

    >>> growth(Moment(hidden_norms=[2.0, 6.0, 900.0], growth=[3.0, 1.5]))
    Interval(value=None, low=3.0, high=3.0)
    """
    if moment.growth is not None:
        return _largest(moment.growth)
    return _bounds(norms_of(moment), moment)


def growth_over_init(moment: Moment, start: Moment | None) -> Interval:
    """The growth of a plain net, over what it was at init: r_l(now) / r_l(init) with r_l = ‖h_{l+1}‖ / ‖h_l‖.

    That is how q_l = ‖h_l‖ / ‖h_l at init‖ grows from block to block, so it is bounded by what is known of q, as
    growth is by what is known of the norms.

    >>> growth_over_init(Moment(hidden_norms=[2.0, 6.0, 3.0]), Moment(hidden_norms=[1.0, 6.0, 1.5]))
    Interval(value=None, low=2.0, high=2.0)
    """
    if moment.growth is not None:
        begun = dict(enumerate((start.growth if start else None) or []))
        over = [r / b if known(r) and known(b := begun.get(n)) and b > 0 else None
                for n, r in enumerate(moment.growth)]  # fmt: skip
        found = _largest(over)
    else:
        found = _bounds(over_init(moment, start), moment)
    # Four divisions leave a rounding error that must not decide at the limit itself.
    low, high = (None if bound is None else float(f"{bound:.12g}") for bound in (found.low, found.high))
    return Interval(low=low, high=high)


def over_init(moment: Moment, start: Moment | None) -> dict[int, float]:
    """q_l = ‖h_l‖ / ‖h_l at init‖ by layer, where both are known."""
    before = {} if start is None else norms_of(start)
    over = {layer: norm / before[layer] for layer, norm in norms_of(moment).items() if layer in before}
    return {layer: q for layer, q in over.items() if known(q) and q > 0}


def norms_of(moment: Moment) -> dict[int, float]:
    """The norms that are known and above zero, by layer."""
    at, norms = moment.hidden_at or {}, moment.hidden_norms
    by_layer = sorted(at.items()) if norms is None else enumerate(norms)
    return {layer: norm for layer, norm in by_layer if norm is not None and 0 < norm < math.inf}


def _bounds(sizes: Mapping[int, float], moment: Moment) -> Interval:
    """The largest growth of sizes from layer to layer; exact if the size of every layer of the net is known."""
    low = max((_step(before, after) for before, after in pairwise(sizes.items())), default=None)
    whole = moment.hidden_norms is not None and len(sizes) == len(moment.hidden_norms)
    return Interval(low=low, high=low if whole else None)


def _step(before: tuple[int, float], after: tuple[int, float]) -> float:
    blocks = after[0] - before[0]
    if blocks == 1:
        return after[1] / before[1]
    return math.exp(min(700.0, (math.log(after[1]) - math.log(before[1])) / blocks)) * SHAVE


def _largest(ratios: Sequence[float | None]) -> Interval:
    """The largest known growth; exact if all are known."""
    numbers = [r for r in ratios if known(r) and r > 0]
    low = max(numbers, default=None)
    return Interval(low=low, high=low if len(numbers) == len(ratios) else None)


def since_init(evidence: Evidence) -> list[float]:
    """‖h_L‖ over what it was at init, seed by seed; nothing unless it is known on every seed."""
    found = []
    for seed in evidence.seeds:
        now, start = (None if m is None or not m.hidden_norms else m.hidden_norms[-1] for m in (seed.final, seed.init))
        if not (known(now) and known(start)) or not start > 0:
            return []
        found.append(now / start)
    return found


def odd_norms(evidence: Evidence) -> list[str]:
    """Which final norms are no numbers to divide by, a sentence each."""
    return by_text(
        (label, f"the norm of h_{layer} is {norm:g}, and is treated as not known")
        for label, seed in evidence.labelled()
        for layer, norm in enumerate(seed.final.hidden_norms or [])
        if norm is not None and not (known(norm) and norm > 0)
    )
