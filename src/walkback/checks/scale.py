"""scale, a symptom: does a block, or the training, blow the stream up? It explains and never decides.

The largest ‖h_{l+1}‖ / ‖h_l‖ of the final net, and the growth of ‖h_L‖ since init.

A plain net has no stream: how large a block's output is against its input depends on its widths and its init. There
the same ratio is taken over what it was at init, block by block.
"""

import statistics
from collections.abc import Mapping, Sequence

from walkback.checks.base import Check, Date, register
from walkback.checks.finding import (
    Finding,
    Interval,
    Limits,
    Outcome,
    Protocol,
    agreed,
    make_finding,
    on_every_seed,
    seeds_words,
    times_words,
    where,
)
from walkback.checks.published_protocol import published_scale
from walkback.checks.stream import growth, growth_over_init, norms_of, odd_norms, since_init
from walkback.checks.thresholds import OURS, PAPER, Limit, Thresholds
from walkback.records.evidence import Evidence
from walkback.records.moment import Moment

NAME, OVER_INIT, SINCE = "scale.growth", "scale.growth_over_init", "scale.since_init"
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


def grown_by_seed(evidence: Evidence, name: str) -> list[Interval]:
    """What is compared with the threshold of that name: the growth of a stream, or of a plain net over its init."""
    if name == OVER_INIT:
        return [growth_over_init(seed.final, seed.init) for seed in evidence.seeds]
    return [growth(seed.final) for seed in evidence.seeds]


def _find(evidence: Evidence, thresholds: Thresholds) -> Finding:
    """Fires if the growth is above the limit on every seed, passes if it is not on any; see docs/checks.md."""
    # Where it is not known whether there is a stream, both ways must agree.
    names = [name for name, plain in ((NAME, False), (OVER_INIT, True)) if evidence.residual in (None, not plain)]
    ways, since = {name: grown_by_seed(evidence, name) for name in names}, since_init(evidence)

    def outcome(at: Limits) -> Outcome:
        if since and min(since) > at[SINCE]:
            return "fires"
        return agreed([on_every_seed(grown, at[name]) for name, grown in ways.items()])

    judging = ways[names[0]]
    lows = [g.low for g in judging if g.low is not None]
    highs = [g.high for g in judging if g.high is not None]
    every, exact = bool(lows) and len(lows) == len(judging), bool(highs) and len(highs) == len(judging)
    cuts: dict[str, Sequence[float | None]] = {
        name: [end for g in grown for end in (g.low, g.high)] for name, grown in ways.items()
    }
    says = _says(evidence, ways, thresholds)
    if since:
        cuts[SINCE], limit = since, thresholds[SINCE]
        above = f", above the limit of {limit:g}×" if min(since) > limit else ""
        says += f" ‖h_L‖ has grown {times_words(since)} since init{above}."
    return make_finding(
        "scale", thresholds, outcome, cuts, basis="missing" if not lows else "exact" if exact else "bound",
        value=statistics.median(lows) if every else None, low=min(lows) if every else None,
        high=max(highs) if exact else None, says=says, warnings=odd_norms(evidence),
    )  # fmt: skip


def _says(evidence: Evidence, ways: Mapping[str, Sequence[Interval]], thresholds: Thresholds) -> str:
    """What the growth over one block says, whatever the whole training did."""
    name, grown = next(iter(ways.items()))
    outcomes = [on_every_seed(each, thresholds[way]) for way, each in ways.items()]
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
    caption = "The growth over each block, ‖h_{l+1}‖ / ‖h_l‖, on every seed."
    plain_caption = "The growth over each block, ‖h_{l+1}‖ / ‖h_l‖, over what it was at init, on every seed."
    means: Mapping[Outcome, str] = {
        "fires": "Nothing limits the size of that block's output. Behind a terminal LayerNorm the true gradient "
        "shrinks as the stream grows, so cosines are soon taken against something very small.",
        "passes": "No block makes the stream much larger.",
        "open": "The seeds differ, or not every norm is known.",
        "not applicable": "The published protocol checks only nets with a residual stream.",
    }
    do: Mapping[Outcome, str] = {
        "fires": "Look at the epoch at which it first fired. Penalise ‖f_l‖², normalise the credit, or stop the "
        "training there.",
        "open": "Record the norm of every hidden state, in a plain net also at init.",
    }

    find = staticmethod(_find)
    find_published = staticmethod(published_scale)

    def phrase(self, finding: Finding) -> str:
        """By how much one block grows the stream: by the published protocol alone it decides."""
        if finding.value is None:
            return "how much one block grows the stream is not known"
        return f"one block grows the stream {times_words([finding.value])}"

    def fires_at(
        self, moment: Moment, thresholds: Thresholds, residual: bool | None, start: Moment | None
    ) -> Mapping[str, bool | None]:
        """Above the limit, or not; a bound can only tell that it is."""
        if residual is None:
            return {self.name: None}
        grown, name = (growth(moment), NAME) if residual else (growth_over_init(moment, start), OVER_INIT)
        above = grown.above(thresholds[name])
        return {self.name: above if above or grown.high is not None else None}

    def caption_of(self, finding: Finding) -> str:
        """A plain net is held against itself at init."""
        return self.caption if NAME in finding.ranges else self.plain_caption

    def by_seed(self, evidence: Evidence) -> Mapping[str, float | None]:
        """The largest growth, or the bound that is known of it."""
        grown = grown_by_seed(evidence, OVER_INIT if evidence.residual is False else NAME)
        return {label: each.low for label, each in zip(evidence.labels(), grown, strict=True)}


scale = register(Scale())
