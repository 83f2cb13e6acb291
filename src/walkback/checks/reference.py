"""reference: is the true gradient at the deepest state fit to compare with? Its precision, and its size.

By our protocol this is a control of the instrument: where rounding turns the gradient, Γ is *not measurable*, and
nobody is accused. A gradient of 1e-8 whose float32 direction agrees with float64 is tiny, not noise. By the published
protocol the floor judges. A finding states both.
"""

import math
import statistics
from collections.abc import Mapping, Sequence

from walkback.checks.base import Check, Date, register
from walkback.checks.finding import (
    Finding,
    Interval,
    Limits,
    Outcome,
    Protocol,
    by_text,
    known,
    listed,
    make_finding,
    on_every_seed,
    range_words,
    seeds_words,
    times_words,
    where,
)
from walkback.checks.published_protocol import Norm, norm, published_reference
from walkback.checks.thresholds import OURS, PAPER, Limit, Thresholds
from walkback.records.evidence import Evidence
from walkback.records.moment import Moment

CHORD, FLOOR, BATCH, SMALL_LOSS = "reference.chord", "reference.floor", "reference.batch", "reference.small_loss"
# {off}: by how much the direction is off, and by what that is known
SAYS = {
    "zero": "The deepest gradient is exactly zero, so there is nothing to compare with.",
    "unknown": "The precision of the deepest gradient was not measured.",
    "fires": "The deepest gradient is not measurable: {off}, on every seed (limit {limit:g}).",
    "passes": "The deepest gradient is precise: {off} (limit {limit:g}).",
    "older": "Whether the deepest gradient is measurable is open: {off}, recorded without the label's own term.",
    "open": "The deepest gradient is not equally precise on every seed: {off}; {parts}.",
}
BELOW = "below the published floor."
SIZES = {
    "unknown": "Its norm is not known.",
    "unstated": "{what} is {size} at an unknown batch size, so it cannot be compared with the floor of {floor:g}.",
    "stated": "{what} at N = {batch:g} is {size}, {side} the published floor of {floor:g}.",
    "proxy": "{what} at N = {batch:g} is {size}, which suggests that it is {side} the published floor of {floor:g}.",
}


def chord(moment: Moment) -> float | None:
    """How far the direction of the deepest gradient is off in the net's own precision, if that was measured."""
    measured = moment.reference or moment.precision
    if measured is None or measured.status != "ok" or measured.samples < 1 or not known(measured.chord):
        return None
    return measured.chord


def is_zero(moment: Moment) -> bool:
    """Whether the deepest gradient is exactly zero, so that there is nothing to compare with."""
    return moment.reference is not None and moment.reference.status == "zero gradient"


def off_by(moment: Moment) -> Interval:
    """By how much the direction may be off. Precision recorded in an older way may be lost to cancellation: it is no
    lower bound, and accuses nobody."""
    value = chord(moment)
    if is_zero(moment):
        return Interval(low=math.inf, high=math.inf)
    return Interval(low=None if moment.reference is None else value, high=value)


def _find(evidence: Evidence, thresholds: Thresholds) -> Finding:
    """Fires if the direction is off by more than the limit on every seed, passes if on none; see docs/checks.md."""
    norms = [norm(seed.final, thresholds[BATCH]) for seed in evidence.seeds]
    off = [off_by(seed.final) for seed in evidence.seeds]
    chords = [chord(seed.final) for seed in evidence.seeds]
    numbers = [c for c in chords if c is not None]

    def outcome(at: Limits) -> Outcome:
        return on_every_seed(off, at[CHORD])

    proxies = any(n is not None and n.layer is not None for n in norms)
    exact = bool(numbers) and len(numbers) == len(chords)
    return make_finding(
        "reference", thresholds, outcome, {CHORD: numbers},
        basis="exact" if exact else "bound" if numbers else "proxy" if proxies else "missing",
        value=statistics.median(numbers) if exact else None,
        low=min(numbers) if exact else None, high=max(numbers) if exact else None,
        says=f"{_says(evidence, chords, thresholds[CHORD], outcome(thresholds))} {_size_words(norms, thresholds)}",
        warnings=by_text(
            (label, f"no precision, {found.status}") for label, seed in evidence.labelled()
            if (found := seed.final.reference or seed.final.precision) and found.status != "ok"
        ) + by_text(
            (label, f"{BELOW}{_clamped(seed.final)} {_cause(seed.final, thresholds, seed.moments[0])}")
            for (label, seed), n in zip(evidence.labelled(), norms, strict=True)
            if n is not None and n.stated and n.layer is None and n.value < thresholds[FLOOR]
        ),
    )  # fmt: skip


def _says(evidence: Evidence, chords: Sequence[float | None], limit: float, outcome: Outcome) -> str:
    """Whether the direction is precise, by what, and where not."""
    numbers = [c for c in chords if c is not None]
    if outcome == "fires" and any(is_zero(seed.final) for seed in evidence.seeds):
        return SAYS["zero"]
    if not numbers:
        return SAYS["unknown"]
    measured = [seed.final.precision for seed in evidence.seeds if seed.final.precision is not None]
    kinds = sorted({seed.final.dtype or "float32" for seed in evidence.seeds})
    rounding = "" if any(" " in kind for kind in kinds) else "rounding to "  # a name, or a phrase of its own
    off = f"{rounding}{listed(kinds)} turns its direction by {range_words(numbers)}"
    if measured and all(each.differences for each in measured):
        off = f"finite differences of two step sizes disagree on its direction by {range_words(numbers)}"
    above = where(evidence, lambda i: (chords[i] or 0.0) > limit)
    unknown = where(evidence, lambda i: chords[i] is None)
    parts = [f"above the limit of {limit:g} in {seeds_words(above)}"] if above else []
    parts += [f"not measured in {seeds_words(unknown)}"] if unknown else []
    case = "older" if outcome == "open" and 0 < len(above) == len(chords) else outcome
    return SAYS[case].format(off=off, limit=limit, parts=", ".join(parts))


def _size_words(norms: Sequence[Norm | None], thresholds: Thresholds) -> str:
    """How large the gradient is, and on which side of the published floor."""
    numbers, floor = [n for n in norms if n is not None], thresholds[FLOOR]
    if not numbers:
        return SIZES["unknown"]
    layers = [str(layer) for layer in sorted({n.layer for n in numbers if n.layer is not None})]
    what = f"Only the gradient at layer {listed(layers)} is known, a proxy: its norm" if layers else "Its norm"
    below = [n.value < floor for n in numbers]
    case = "unstated" if not all(n.stated for n in numbers) else "proxy" if layers else "stated"
    return SIZES[case].format(
        what=what, size=range_words([n.value for n in numbers]), floor=floor, batch=thresholds[BATCH],
        side="below" if all(below) else "on some seeds below" if any(below) else "not below",
    )  # fmt: skip


def _clamped(moment: Moment) -> str:
    """What a meter that clamps makes of so small a gradient."""
    measured = moment.precision
    if measured is None or measured.status != "ok" or not known(measured.clamped):
        return ""
    return f" F.cosine_similarity clamps small norms, and would be off by {measured.clamped:.2g} here."


def _cause(moment: Moment, thresholds: Thresholds, start: Moment) -> str:
    """Why a gradient is small, in a sentence: the stream is large, or the net fits its data, or neither is known.

    The stream is held against ‖h_0‖ now or at the `start` of the training, whichever is smaller: an embedding that grew
    makes the whole stream large though no block does.
    """
    first = [m.hidden_norms[0] if m.hidden_norms else (m.hidden_at or {}).get(0) for m in (moment, start)]
    entries = [h for h in first if known(h) and h > 0]
    last = moment.hidden_norms[-1] if moment.hidden_norms else moment.deepest_hidden
    reasons = []
    if entries and known(last) and last / min(entries) > thresholds["scale.growth"]:
        reasons.append(f"the stream is large (at its end {times_words([last / min(entries)])} its size at the start)")
    if known(moment.loss) and moment.loss < thresholds[SMALL_LOSS]:
        reasons.append(f"the loss is small ({moment.loss:.2g}: the net fits its data)")
    if reasons:
        return f"It is small because {' and '.join(reasons)}."
    if known(moment.loss) and entries and known(last):
        return "Neither a large stream nor a small loss explains it."
    return "It is not known whether the stream is large or the loss small."


class Reference(Check):
    """The precision of the deepest gradient, and its size."""

    name = "reference"
    place = 6
    answer = "gamma"
    asks = "Is the true gradient precise enough to compare with?"
    raised = "the net's precision and float64 disagree on its direction by more than 0.01 on every seed"
    heading = "error"
    quantity: Mapping[Protocol, str] = {"ours": "how far rounding turns the direction of g_L", "published": "‖g_L‖"}
    form = "size"
    at_init = True
    figure = "gradient norms"
    limits: Mapping[str, Limit] = {
        CHORD: Limit(
            0.01, OURS,
            "by what it means, not on runs: no cosine against this gradient is off by more than the chord",
            allowed=(0, 2),
        ),
        FLOOR: Limit(
            1e-7, PAPER, "the norm of g_L at N = 128: DFA (4.2e-9) should fire, FA (8.9e-7) should not",
            same_answer=(4.2e-9, 8.9e-7),
        ),
        BATCH: Limit(128, PAPER, "the batch of the main audit; norms of other batches are converted to it"),
        SMALL_LOSS: Limit(0.1, OURS, "not calibrated: it only chooses the words that say why a gradient is small"),
    }  # fmt: skip
    dates = (
        Date("reference", "reference, by precision", "gradient", "reference, by precision,"),
        Date("reference floor", "reference, by the floor", "gradient", "the published floor",
             before="below the published floor from ", stops="‖g_L‖ is below 1e-7"),
    )  # fmt: skip
    caption = (
        "The size of the true gradient at every state, ‖g_l‖, as in a batch-mean loss over {batch} samples. Below the "
        "floor is a warning, not a finding: small is not noise."
    )
    means: Mapping[Outcome, str] = {
        "fires": "Γ is not measurable: a cosine with this gradient may be wrong by as much as the chord.",
        "passes": "The direction of the true gradient can be trusted, however small the gradient is.",
        "open": "The seeds differ, or the precision of the gradient was not measured on all of them.",
    }
    published: Mapping[Outcome, str] = {
        "fires": "The published protocol treats a gradient below its floor as noise.",
        "passes": "The mean norm of the deepest gradient is not below the published floor.",
        "inconclusive": "The norm of the deepest gradient is not known.",
    }
    do: Mapping[Outcome, str] = {
        "fires": "Measure in float64, and with a meter that does not clamp small norms. Report no Γ for this net.",
        "open": "Measure the gradient in the net's own precision and in float64 on every seed.",
    }

    find = staticmethod(_find)
    find_published = staticmethod(published_reference)

    def phrase(self, finding: Finding) -> str:
        """On which side of the floor the gradient lies: by the published protocol alone it decides."""
        if finding.value is None:
            return "the norm of the deepest gradient is not known"
        side = "below" if finding.outcome == "fires" else "above"
        return f"the deepest gradient ({finding.value:.1e}) is {side} the published floor"

    def fires_at(
        self, moment: Moment, thresholds: Thresholds, residual: bool | None, start: Moment | None
    ) -> Mapping[str, bool | None]:
        """By precision, and by the published floor."""
        del residual, start
        off, size = chord(moment), norm(moment, thresholds[BATCH])
        low = size.value < thresholds[FLOOR] if size and size.stated and size.layer is None else None
        return {"reference": None if off is None else off > thresholds[CHORD], "reference floor": low}

    def by_seed(self, evidence: Evidence) -> Mapping[str, float | None]:
        """The chord."""
        return {label: chord(seed.final) for label, seed in evidence.labelled()}

    def noun(self, finding: Finding) -> str:
        """What its number is: the published protocol goes by the norm."""
        return "norm" if FLOOR in finding.ranges else "chord"

    def meaning(self, finding: Finding) -> str:
        """What the outcome means, by the protocol that found it."""
        words = self.published.get(finding.outcome) if FLOOR in finding.ranges else None
        return words or super().meaning(finding)


reference = register(Reference())
