"""scale, a symptom: does a block, or the training, blow the stream up? It explains and never decides.

The largest ‖h_{l+1}‖ / ‖h_l‖ of the final net, and the growth of ‖h_L‖ since init.

A plain net has no stream: how large a block's output is against its input depends on its widths and its init. There
the same ratio is taken over what it was at init, block by block.
"""

import math
import operator
import statistics
from collections.abc import Mapping, Sequence
from itertools import pairwise
from typing import NamedTuple

from walkback.checks.base import Check, Date, register
from walkback.checks.finding import (
    Finding,
    Outcome,
    Protocol,
    agreed,
    by_text,
    finding_by_mean,
    known,
    number_words,
    seeds_words,
    stable_range,
    times_words,
    where,
)
from walkback.checks.thresholds import OURS, PAPER, Limit, Thresholds
from walkback.records.evidence import Evidence
from walkback.records.moment import Moment

NAME, OVER_INIT, SINCE = "scale.growth", "scale.growth_over_init", "scale.since_init"
SHAVE = 1 - 1e-9  # a root is rounded; a bound must not come out above what it bounds
# {many}: the growth, or its range over seeds
SAYS = {
    "unknown": "The norms of the hidden states{at_init} are not known, so growth cannot be judged.",
    "fires": "One block grows the stream {many}, on every seed (limit {limit:g}×).",
    "fires over init": "One block grows its input {many} as much as at init, on every seed (limit {limit:g}×).",
    "passes": "Largest growth over one block{over}: {many}{across} (limit {limit:g}×).",
    "open": "Largest growth over one block{over}: {many} where it is known; {parts}.",
    "fires with a stream": "One block grows its input {many} (limit {limit:g}×). That fires in a residual net, but it "
    "is not known whether the net is one. Say so with residual=.",
    "passes with a stream": "Largest growth over one block: {many} (limit {limit:g}×). That passes in a residual net, "
    "but it is not known whether the net is one, and compared with init {why}. Say so with residual=.",
}
PUBLISHED: Mapping[Outcome | None, str] = {
    "not applicable": "The net has no residual stream whose growth could be judged.",
    "inconclusive": "The norms of the hidden states are not known, or not all finite.",
}


class Growth(NamedTuple):
    """Between what the largest growth over one block lies; `high` is None unless every norm is known."""

    low: float | None
    high: float | None

    def above(self, limit: float) -> bool:
        """Whether it is surely above the limit."""
        return self.low is not None and self.low > limit

    def within(self, limit: float) -> bool:
        """Whether it is surely not."""
        return self.high is not None and self.high <= limit


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

    Where growth is recorded block by block, each over what the block itself takes, that is it: what happens between two
    blocks is nobody's growth, so nothing follows from the norms.

    >>> growth(Moment(hidden_norms=[2.0, 6.0, 900.0], growth=[3.0, 1.5]))
    Growth(low=3.0, high=3.0)
    """
    if moment.growth is not None:
        return _largest(moment.growth)
    return _bounds(norms_of(moment), moment)


def growth_over_init(moment: Moment, start: Moment | None) -> Growth:
    """The growth of a plain net, over what it was at init: r_l(now) / r_l(init) with r_l = ‖h_{l+1}‖ / ‖h_l‖.

    That is how q_l = ‖h_l‖ / ‖h_l at init‖ grows from block to block, so it is bounded by what is known of q, as
    growth is by what is known of the norms.

    >>> growth_over_init(Moment(hidden_norms=[2.0, 6.0, 3.0]), Moment(hidden_norms=[1.0, 6.0, 1.5]))
    Growth(low=2.0, high=2.0)
    """
    if moment.growth is not None:
        begun = dict(enumerate((start.growth if start else None) or []))
        over = [r / b if known(r) and known(b := begun.get(n)) and b > 0 else None
                for n, r in enumerate(moment.growth)]  # fmt: skip
        found = _largest(over)
    else:
        found = _bounds(over_init(moment, start), moment)
    # Four divisions leave a rounding error that must not decide at the limit itself.
    return Growth(*(None if bound is None else float(f"{bound:.12g}") for bound in found))


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


def _bounds(sizes: Mapping[int, float], moment: Moment) -> Growth:
    """The largest growth of sizes from layer to layer; exact if the size of every layer of the net is known."""
    low = max((_step(before, after) for before, after in pairwise(sizes.items())), default=None)
    return Growth(low, low if moment.hidden_norms is not None and len(sizes) == len(moment.hidden_norms) else None)


def _step(before: tuple[int, float], after: tuple[int, float]) -> float:
    blocks = after[0] - before[0]
    if blocks == 1:
        return after[1] / before[1]
    return math.exp(min(700.0, (math.log(after[1]) - math.log(before[1])) / blocks)) * SHAVE


def _largest(ratios: Sequence[float | None]) -> Growth:
    """The largest known growth; exact if all are known."""
    numbers = [r for r in ratios if known(r) and r > 0]
    low = max(numbers, default=None)
    return Growth(low, low if len(numbers) == len(ratios) else None)


def grown_by_seed(evidence: Evidence, name: str) -> list[Growth]:
    """What is compared with the threshold of that name: the growth of a stream, or of a plain net over its init."""
    if name == OVER_INIT:
        return [growth_over_init(seed.final, seed.init) for seed in evidence.seeds]
    return [growth(seed.final) for seed in evidence.seeds]


def outcome_of(grown: Sequence[Growth], limit: float) -> Outcome:
    """Fires if it is above the limit on every seed, passes if it is not on any."""
    if grown and all(each.above(limit) for each in grown):
        return "fires"
    return "passes" if grown and all(each.within(limit) for each in grown) else "open"


def since_init(evidence: Evidence) -> list[float]:
    """‖h_L‖ over what it was at init, seed by seed; nothing unless it is known on every seed."""
    found = []
    for seed in evidence.seeds:
        now, start = (None if m is None or not m.hidden_norms else m.hidden_norms[-1] for m in (seed.final, seed.init))
        if not (known(now) and known(start)) or not start > 0:
            return []
        found.append(now / start)
    return found


def _find(evidence: Evidence, thresholds: Thresholds, protocol: Protocol) -> Finding:
    """Fires if the growth is above the limit on every seed, passes if it is not on any; see docs/checks.md."""
    warnings = by_text(
        (label, f"the norm of h_{layer} is {norm:g}, and is treated as not known")
        for label, seed in evidence.labelled()
        for layer, norm in enumerate(seed.final.hidden_norms or [])
        if norm is not None and not (known(norm) and norm > 0)
    )
    if protocol == "published":
        return _published(evidence, thresholds[NAME], warnings)
    # Where it is not known whether there is a stream, both ways must agree.
    names = [name for name, plain in ((NAME, False), (OVER_INIT, True)) if evidence.residual in (None, not plain)]
    ways, since = {name: grown_by_seed(evidence, name) for name in names}, since_init(evidence)

    def outcome(changed: str = "", at: float = 0.0) -> Outcome:
        def limit(name: str) -> float:
            return at if name == changed else thresholds[name]

        if since and min(since) > limit(SINCE):
            return "fires"
        return agreed([outcome_of(grown, limit(name)) for name, grown in ways.items()])

    cuts: dict[str, list[float | None]] = {name: [end for g in grown for end in g] for name, grown in ways.items()}
    cuts |= {SINCE: [*since]} if since else {}
    ranges = {
        name: stable_range(lambda at, name=name: outcome(name, at), ends, thresholds[name])  # type: ignore[misc]
        for name, ends in cuts.items()
    }
    judging = ways[names[0]]
    lows = [g.low for g in judging if g.low is not None]
    highs = [g.high for g in judging if g.high is not None]
    every, exact = bool(lows) and len(lows) == len(judging), bool(highs) and len(highs) == len(judging)
    says = _says(evidence, ways, thresholds)
    if since:
        limit = thresholds[SINCE]
        above = f", above the limit of {limit:g}×" if min(since) > limit else ""
        says += f" ‖h_L‖ has grown {times_words(since)} since init{above}."
    return Finding(
        check="scale", outcome=outcome(), basis="missing" if not lows else "exact" if exact else "bound",
        value=statistics.median(lows) if every else None, low=min(lows) if every else None,
        high=max(highs) if exact else None, threshold=thresholds[names[0]], stable_range=ranges[names[0]],
        ranges=ranges, says=says, warnings=warnings,
    )  # fmt: skip


def _says(evidence: Evidence, ways: Mapping[str, Sequence[Growth]], thresholds: Thresholds) -> str:
    """What the growth over one block says, whatever the whole training did."""
    name, grown = next(iter(ways.items()))
    outcomes = [outcome_of(each, thresholds[way]) for way, each in ways.items()]
    limit, lows = thresholds[name], [g.low for g in grown if g.low is not None]
    plain, matters = name == OVER_INIT, agreed(outcomes) != outcomes[0]  # whether it matters if there is a stream
    if not lows:
        norms = any(norms_of(seed.final) for seed in evidence.seeds)
        return SAYS["unknown"].format(at_init=" at init" if plain and norms else "")
    many = f"{'at least ' if any(g.high is None for g in grown) else ''}{times_words(lows, limit)}"
    above = where(evidence, lambda i: grown[i].above(limit))
    within = where(evidence, lambda i: grown[i].within(limit))
    unsettled = [label for label in evidence.labels() if label not in (*above, *within)]
    parts = [f"above the limit of {limit:g}× in {seeds_words(above)}"] if above else []
    parts += [f"within the limit{'' if above else f' of {limit:g}×'} in {seeds_words(within)}"] if within else []
    parts += [f"not settled in {seeds_words(unsettled)}, where not every norm is known"] if unsettled else []
    how = " with a stream" if matters else " over init" if plain and outcomes[0] == "fires" else ""
    return SAYS[f"{outcomes[0]}{how}"].format(
        many=many, limit=limit, over=", compared with init" if plain else "", parts=", ".join(parts),
        across=" across seeds" if "–" in many else "",
        why="one block grows too much" if outcomes[-1] == "fires" else "it is not known how much a block grows",
    )  # fmt: skip


def _published(evidence: Evidence, limit: float, warnings: list[str]) -> Finding:
    """The paper's way: the mean over seeds; where only some norms are known, the geometric mean stands for the max."""
    grown = [g for g in grown_by_seed(evidence, NAME) if g.low is not None]
    mean = statistics.fmean(g.low or 0.0 for g in grown) if grown else None
    unless: Outcome | None = "not applicable" if evidence.residual is False else None
    if unless is None and (mean is None or warnings):
        unless = "inconclusive"
    proxy = any(g.high is None for g in grown)
    by = ", by the geometric mean of what is known" if proxy else ""
    rules = "a geometric mean within the limit does not rule out a block above it; our protocol would not pass this"
    return finding_by_mean(
        "scale", NAME, limit, mean, operator.gt, unless=unless, basis="proxy" if proxy else "exact",
        says=PUBLISHED.get(unless, f"Mean growth: {times_words([mean or 0], limit)}{by} (published limit {limit:g}×)."),
        warnings=[*warnings, *([rules] if proxy else [])],
    )  # fmt: skip


class Scale(Check):
    """The largest growth of the stream over one block."""

    name = "scale"
    place = 7
    answer = "symptom"
    asks = "Does one block, or the training, blow up the stream?"
    raised = "‖h_{l+1}‖ / ‖h_l‖ > 50, or ‖h_L‖ over that at init > 1000, on every seed"
    heading = "growth"
    quantity: Mapping[Protocol, str] = {
        "ours": "the largest growth of the stream over one block; in a plain net, over that at init",
        "published": "the largest growth of the stream over one block",
    }
    form = "times"
    at_init = True
    figure = "hidden norms"
    limits: Mapping[str, Limit] = {
        NAME: Limit(
            50, PAPER, "growth over one block: healthy nets at most 25 (a ViT, early), failed ones at least 694",
            same_answer=(25, 694),
        ),
        OVER_INIT: Limit(
            50, OURS,
            "nets without a stream, 16 epochs, two seeds each (mlp and resmlp without skip on MNIST-1D, student on the "
            "teacher task, small-cnn on digits): bp at most 4.9, FA at most 18, DFA at most 27 where it learns; DFA on "
            "resmlp without skip, which collapses, at least 3390",
            same_answer=(27, 3390),
        ),
        SINCE: Limit(
            1000, OURS, "‖h_L‖ over that at init in our records on CIFAR-10: bp at most 44, FA 87 to 4,800, DFA at "
            "least 1,460 and up to 2.6e8", same_answer=(44, 1460),
        ),
    }  # fmt: skip
    dates = (Date("scale", "scale", "hidden", "scale", stops="one block's growth is above 50"),)
    judged = (
        "The largest growth of the stream over one block of the final net. One dot is one seed; the bar spans them."
    )
    layers = "The growth over each block, ‖h_{l+1}‖ / ‖h_l‖, on every seed."
    plain_captions = (
        "The largest growth over one block of the final net, over what it was at init. One dot is one seed; the bar "
        "spans them.",
        "The growth over each block, ‖h_{l+1}‖ / ‖h_l‖, over what it was at init, on every seed.",
    )
    means: Mapping[Outcome, str] = {
        "fires": "Nothing limits the size of that block's output. Behind a terminal LayerNorm the true gradient "
        "shrinks as the stream grows, so cosines are soon taken against something very small.",
        "passes": "No block makes the stream much larger.",
        "open": "The seeds differ, or not every norm is known.",
        "inconclusive": "The seeds differ, or not every norm is known. This is evidence neither for nor against.",
        "not applicable": "The published protocol checks only nets with a residual stream.",
    }
    do: Mapping[Outcome, str] = {
        "fires": "Look at the epoch at which it first fired. Penalise ‖f_l‖², normalise the credit, or stop the "
        "training there.",
        "open": "Record the norm of every hidden state, in a plain net also at init.",
        "inconclusive": "If the seeds differ, train more of them. If a norm is missing, record that of every hidden "
        "state, in a plain net also at init, and say whether the net has a residual stream.",
    }

    find = staticmethod(_find)

    def phrase(self, finding: Finding) -> str:
        """By how much one block grows the stream."""
        over = "the stream" if NAME in finding.ranges else "its input over that at init"
        value = finding.low if finding.value is None else finding.value
        if value is None:
            return "how much one block grows the stream is not known"
        least = "at least " if finding.basis == "bound" or finding.value is None else ""
        if finding.outcome in ("open", "inconclusive") and known(finding.low) and known(finding.high):
            return f"one block grows {over} {number_words(finding.low)} to {number_words(finding.high)}×, by seed"
        return f"one block grows {over} {least}{number_words(value)}×"

    def fires_at(
        self, moment: Moment, thresholds: Thresholds, residual: bool | None, start: Moment | None
    ) -> Mapping[str, bool | None]:
        """Above the limit, or not; a bound can only tell that it is."""
        if residual is None:
            return {self.name: None}
        grown, name = (growth(moment), NAME) if residual else (growth_over_init(moment, start), OVER_INIT)
        above = grown.above(thresholds[name])
        return {self.name: above if above or grown.high is not None else None}

    def captions(self, finding: Finding) -> tuple[str, str]:
        """A plain net is held against itself at init."""
        return super().captions(finding) if NAME in finding.ranges else self.plain_captions

    def by_seed(self, evidence: Evidence, thresholds: Thresholds) -> Mapping[str, float | None]:
        """The largest growth, or the bound that is known of it."""
        del thresholds
        grown = grown_by_seed(evidence, OVER_INIT if evidence.residual is False else NAME)
        return {label: each.low for label, each in zip(evidence.labels(), grown, strict=True)}


scale = register(Scale())
