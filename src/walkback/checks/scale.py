"""scale: does one block blow the stream up? The largest ‖h_{l+1}‖ / ‖h_l‖ of the final net."""

import math
import statistics
from collections.abc import Mapping, Sequence
from itertools import pairwise
from typing import NamedTuple

from walkback.checks.base import Check, Date, register
from walkback.checks.finding import (
    Basis,
    Finding,
    Outcome,
    Protocol,
    by_text,
    known,
    seeds_said,
    spread_said,
    stable_range,
    where,
)
from walkback.checks.thresholds import PAPER, Limit, Thresholds
from walkback.records.evidence import Evidence, Moment

NAME = "scale.growth"
SHAVE = 1 - 1e-9  # a root is rounded; a bound must not come out above what it bounds


class Growth(NamedTuple):
    """Between what the largest growth over one block lies; `high` is None unless every norm is known."""

    low: float | None
    high: float | None


def growth(moment: Moment) -> Growth:
    """The bounds that the known norms leave.

    From ‖h_i‖ to ‖h_j‖ some block grows by at least (‖h_j‖/‖h_i‖)^(1/(j−i)), whatever lies between. There is no upper
    bound while any norm is unknown: a block may have blown the stream up and the next one shrunk it. A norm that is
    zero or not finite counts as unknown, because growth from or to it is no number.

    >>> growth(Moment(hidden_norms=[2.0, 6.0, 3.0]))
    Growth(low=3.0, high=3.0)
    >>> low, high = growth(Moment(hidden_norms=[9.0, None, 3600.0]))
    >>> round(low, 6), high
    (20.0, None)
    """
    norms = dict(enumerate(moment.hidden_norms)) if moment.hidden_norms is not None else dict(moment.hidden_at or {})
    states = [(layer, norm) for layer, norm in sorted(norms.items()) if known(norm) and norm > 0]
    steps = [_step(before, after) for before, after in pairwise(states)]
    whole = moment.hidden_norms is not None and len(states) == len(moment.hidden_norms)
    low = max(steps, default=None)
    return Growth(low, low if whole else None)


def _step(before: tuple[int, float], after: tuple[int, float]) -> float:
    blocks = after[0] - before[0]
    if blocks == 1:
        return after[1] / before[1]
    return math.exp(min(700.0, (math.log(after[1]) - math.log(before[1])) / blocks)) * SHAVE


def _find(evidence: Evidence, thresholds: Thresholds, protocol: Protocol) -> Finding:
    """Fires if the growth is above the limit on every seed, passes if it is not on any; see docs/checks.md."""
    limit = thresholds[NAME]
    grown = [growth(seed.final) for seed in evidence.seeds]
    warnings = by_text(
        (label, f"the norm of h_{layer} is {norm:g}, which counts as not known")
        for label, seed in zip(evidence.labels(), evidence.seeds, strict=True)
        for layer, norm in enumerate(seed.final.hidden_norms or [])
        if norm is not None and not (known(norm) and norm > 0)
    )
    if protocol == "published":
        return _published(evidence, grown, limit, warnings)

    def outcome_at(at: float) -> Outcome:
        if evidence.residual is False:
            return "not applicable"
        if grown and all(g.low is not None and g.low > at for g in grown):
            return "fires" if evidence.residual else "inconclusive"
        return "passes" if grown and all(g.high is not None and g.high <= at for g in grown) else "inconclusive"

    lows, highs = [g.low for g in grown if g.low is not None], [g.high for g in grown if g.high is not None]
    basis: Basis = "missing" if not lows else "exact" if len(highs) == len(grown) else "bound"
    stable = stable_range(outcome_at, [*lows, *highs], limit)
    outcome = outcome_at(limit)
    return Finding(
        check="scale", outcome=outcome, basis=basis,
        value=statistics.median(lows) if lows and len(lows) == len(grown) else None,
        low=min(lows) if lows and len(lows) == len(grown) else None,
        high=max(highs) if highs and len(highs) == len(grown) else None,
        threshold=limit, stable_range=stable, ranges={NAME: stable},
        says=_says(evidence, grown, limit, outcome), warnings=warnings,
    )  # fmt: skip


def _says(evidence: Evidence, grown: Sequence[Growth], limit: float, outcome: Outcome) -> str:
    lows = [g.low for g in grown if g.low is not None]
    if outcome == "not applicable":
        return "The net has no residual stream, so there is no growth of one to judge."
    if not lows:
        return "The norms of the hidden states are not known."
    at_least = "at least " if any(g.high is None for g in grown) else ""
    many = f"{at_least}{spread_said(lows)} times"
    if outcome == "fires":
        return f"One block makes the stream {many} larger, on every seed; the limit is {limit:g}."
    if outcome == "passes":
        return f"No block makes the stream more than {spread_said(lows)} times larger; the limit is {limit:g}."
    above = where(evidence, lambda i: _is_above(grown[i], limit))
    if len(above) == len(grown):
        return (
            f"One block makes the stream {many} larger, above the limit of {limit:g}, which fires for a residual "
            "stream; whether the net has one is not known."
        )
    below = where(evidence, lambda i: _is_below(grown[i], limit))
    open_ = where(evidence, lambda i: not _is_above(grown[i], limit) and not _is_below(grown[i], limit))
    parts = [f"above the limit of {limit:g} in {seeds_said(above)}"] if above else []
    parts += [f"within it in {seeds_said(below)}"] if below else []
    parts += [f"not settled in {seeds_said(open_)}, where not every norm is known"] if open_ else []
    return f"The largest growth over one block is {', '.join(parts)}: {many} where it is known."


def _is_above(grown: Growth, limit: float) -> bool:
    return grown.low is not None and grown.low > limit


def _is_below(grown: Growth, limit: float) -> bool:
    return grown.high is not None and grown.high <= limit


def _published(evidence: Evidence, grown: Sequence[Growth], limit: float, warnings: list[str]) -> Finding:
    """The paper's way: the mean over seeds; where only some norms are known, the geometric mean stands for the max."""
    lows = [g.low for g in grown if g.low is not None]
    whole = all(g.high is not None for g in grown if g.low is not None)
    mean = statistics.fmean(lows) if lows else None

    def outcome_at(at: float) -> Outcome:
        if evidence.residual is False:
            return "not applicable"
        if mean is None or warnings:
            return "inconclusive"
        return "fires" if mean > at else "passes"

    outcome, stable = outcome_at(limit), stable_range(outcome_at, [mean], limit)
    proxy = "" if whole else " by the geometric mean of what is known"
    says = {
        "not applicable": "The net has no residual stream, so there is no growth of one to judge.",
        "inconclusive": "The norms of the hidden states are not known, or not all finite.",
    }.get(outcome, f"The mean growth is {mean or 0:.3g}{proxy}; the published limit is {limit:g}.")
    if not whole:
        warnings = [
            *warnings,
            "a geometric mean within the limit does not rule out a block above it; ours would not pass",
        ]
    return Finding(
        check="scale", outcome=outcome, basis="missing" if mean is None else "exact" if whole else "proxy", value=mean,
        threshold=limit, stable_range=stable, ranges={NAME: stable}, says=says, warnings=warnings,
    )  # fmt: skip


class Scale(Check):
    """The largest growth of the stream over one block."""

    name = "scale"
    place = 1
    protocols = ("ours", "published")
    asks = "Does one block blow the stream up?"
    raised = "‖h_{l+1}‖ / ‖h_l‖ > 50 on every seed"
    heading = "growth"
    quantity: Mapping[Protocol, str] = dict.fromkeys(
        ("ours", "published"), "the largest growth of the stream over one block"
    )
    form = "times"
    at_init = True
    figure = "hidden norms"
    limits: Mapping[str, Limit] = {
        NAME: Limit(
            50, PAPER, "growth over one block: healthy nets at most 25 (a ViT, early), failed ones at least 694",
            same_answer=(25, 694),
        ),
    }  # fmt: skip
    dates = (Date("scale", "scale", "hidden", "scale", stops="one block's growth is above 50"),)
    judged = (
        "The largest growth of the stream over one block of the final net. One dot is one seed; the bar spans them."
    )
    layers = "The growth over each block, ‖h_{l+1}‖ / ‖h_l‖, on every seed."
    means: Mapping[Outcome, str] = {
        "fires": "Nothing holds the size of that block's output. Behind a terminal LayerNorm the true gradient "
        "shrinks as the stream grows, so that cosines are soon taken against something very small.",
        "passes": "No block makes the stream much larger than it found it.",
        "inconclusive": "The seeds differ, or not every norm is known: nobody is accused, and nobody is cleared.",
        "not applicable": "In a net without a residual stream the same numbers mean nothing.",
    }
    do: Mapping[Outcome, str] = {
        "fires": "Look at the epoch at which it first fired. Penalise ‖f_l‖² or normalise the credit; or stop the "
        "training there.",
        "inconclusive": "Record the norm of every hidden state, and say whether the net has a residual stream; "
        "train more seeds where they differ.",
    }

    def find(self, evidence: Evidence, thresholds: Thresholds, protocol: Protocol) -> Finding:
        """Fires if the growth is above the limit on every seed, passes if it is not on any; see docs/checks.md."""
        return _find(evidence, thresholds, protocol)

    def fires_at(
        self, moment: Moment, thresholds: Thresholds, residual: bool | None, start: Moment | None
    ) -> Mapping[str, bool | None]:
        """Above the limit, or not; a bound can only tell that it is."""
        del start
        grown = growth(moment)
        above = _is_above(grown, thresholds[NAME])
        return {self.name: above if residual and (above or grown.high is not None) else None}

    def by_seed(self, evidence: Evidence, thresholds: Thresholds) -> Mapping[str, float | None]:
        """The largest growth, or the bound that is known of it."""
        del thresholds
        return {label: growth(seed.final).low for label, seed in zip(evidence.labels(), evidence.seeds, strict=True)}


scale = register(Scale())
