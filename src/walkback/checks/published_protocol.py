"""The published protocol (Hao, Wan, Zhai, arXiv:2606.21126): three means, each against one threshold, and one verdict.

There are no intervals. What was not reported is not held against a method, as long as something was judged.
"""

import operator
import statistics
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

from walkback.checks.finding import (
    Basis,
    Finding,
    Limits,
    Outcome,
    known,
    least_words,
    listed,
    make_finding,
    points,
    times_words,
    typed_words,
)
from walkback.checks.paired_gain import DIGITS
from walkback.checks.stream import growth, odd_norms
from walkback.checks.thresholds import Thresholds
from walkback.records.evidence import Evidence, doubts_of
from walkback.records.moment import Moment
from walkback.records.schema import Null

GEOMETRIC = "a geometric mean within the limit does not rule out a block above it; our protocol would not pass this"


def _by_mean(
    check: str, name: str, thresholds: Thresholds, mean: float | None, fires: Callable[[float, float], bool],
    says: str, *, unless: Outcome | None = None, basis: Basis = "exact", warnings: Sequence[str] = (),
) -> Finding:  # fmt: skip
    """One mean against the threshold. `unless`: the outcome whatever it is."""

    def outcome(at: Limits) -> Outcome:
        return unless or ("inconclusive" if mean is None else "fires" if fires(mean, at[name]) else "passes")

    by: Basis = "missing" if mean is None else basis
    return make_finding(
        check, thresholds, outcome, {name: [mean]}, value=mean, basis=by, says=says, warnings=[*warnings]
    )  # fmt: skip


def published_scale(evidence: Evidence, thresholds: Thresholds) -> Finding:
    """The mean growth over seeds; where only some norms are known, the geometric mean stands for the largest."""
    limit, warnings = thresholds["scale.growth"], odd_norms(evidence)
    grown = [g for g in (growth(seed.final) for seed in evidence.seeds) if g.low is not None]
    mean = statistics.fmean(g.low or 0.0 for g in grown) if grown else None
    proxy = any(g.high is None for g in grown)
    unless: Outcome | None = None
    if evidence.residual is False:
        unless, says = "not applicable", "The net has no residual stream whose growth could be judged."
    elif mean is None or warnings:
        unless, says = "inconclusive", "The norms of the hidden states are not known, or not all finite."
    else:
        by = ", by the geometric mean of what is known" if proxy else ""
        says = f"Mean growth: {times_words([mean], limit)}{by} (published limit {limit:g}×)."
    return _by_mean(
        "scale", "scale.growth", thresholds, mean, operator.gt, says, unless=unless,
        basis="proxy" if proxy else "exact", warnings=[*warnings, *([GEOMETRIC] if proxy else [])],
    )  # fmt: skip


class Norm(NamedTuple):
    """The gradient's norm at the deepest state known."""

    value: float  # at the reference batch if `stated`, else as the log has it
    stated: bool  # whether the log says what batch it was measured at
    layer: int | None  # None: the deepest state itself; else the layer that stands in for it


def norm(moment: Moment, batch: float) -> Norm | None:
    """‖g_L‖ as in a batch of `batch`, or the deepest gradient there is; ‖g‖ of a mean over N goes with 1/N."""
    deepest = moment.gradient_norms[-1] if moment.gradient_norms else moment.deepest_gradient
    layer, value = None, deepest
    if deepest is None:
        by_layer = dict(enumerate(moment.gradient_norms or [])) | dict(moment.gradient_at or {})
        layer, value = max(((at, g) for at, g in by_layer.items() if known(g)), default=(None, None))
    if not known(value):
        return None
    stated = moment.reference_batch
    return Norm(value if stated is None else value * stated / batch, stated is not None, layer)


def published_reference(evidence: Evidence, thresholds: Thresholds) -> Finding:
    """The mean norm of the deepest gradient against the floor, at whatever batch the log used."""
    norms = [n for seed in evidence.seeds if (n := norm(seed.final, thresholds["reference.batch"])) is not None]
    mean = statistics.fmean(n.value for n in norms) if norms else None
    broken = any(g is not None and not known(g) for seed in evidence.seeds for g in seed.final.gradient_norms or [])
    proxy, unstated = any(n.layer is not None for n in norms), any(not n.stated for n in norms)
    says = "The norm of the deepest gradient is not known, or not finite."
    if mean is not None and not broken:
        floor = thresholds["reference.floor"]
        says = f"The mean norm of the deepest gradient is {mean:.3g}; the published floor is {floor:g}."
    warnings = ["the batch size of the norms is not known; they are used unchanged"] if unstated else []
    warnings += ["a gradient at another layer is used in place of the deepest one"] if proxy else []
    return _by_mean(
        "reference", "reference.floor", thresholds, mean, operator.lt, says,
        unless="inconclusive" if broken else None, basis="proxy" if proxy else "exact", warnings=warnings,
    )  # fmt: skip


def published_depth(evidence: Evidence, thresholds: Thresholds) -> Finding:
    """The difference of two mean accuracies; nobody asks whether the task is too easy."""
    frozen = evidence.baselines.get("frozen")
    own = [a for seed in evidence.seeds if (a := seed.final.accuracy) is not None]
    others = [] if frozen is None else [a for a in frozen.accuracy.values() if a is not None]
    gain = None
    says = "The accuracy, or that of a frozen net to compare with, is not known."
    if own and others and all(map(known, [*own, *others])):
        gain = round(statistics.fmean(own) - statistics.fmean(others), DIGITS)
        says = f"The means differ by {points(gain)} points. {least_words(thresholds['depth.margin'])}."
    says = " ".join([says, *typed_words(evidence, ("frozen", "frozen_bp", "bp", "shallow"))])
    return _by_mean("depth", "depth.margin", thresholds, gain, operator.lt, says)


def published_verdict(evidence: Evidence, findings: Sequence[Finding]) -> dict[str, Any]:
    """The one word, the checks that decided it, and why; "evidence" decides where no check does."""
    fired, passed, unsettled = (
        [finding.check for finding in findings if finding.outcome == outcome]
        for outcome in ("fires", "passes", "inconclusive")
    )
    broken = not_finite(evidence)
    shown = broken if len(broken) < 4 else [*broken[:3], f"{len(broken) - 3} more"]
    if fired:
        verdict, by = "walked back", fired
        says = f"Walked back: {listed(fired)} {'fires' if len(fired) == 1 else 'fire'}."
    elif reasons := [f"not finite: {listed(shown)}"] if broken else doubts_of(evidence):
        verdict, by, says = "inconclusive", ["evidence"], f"Inconclusive: {'; '.join(reasons)}."
    elif passed:
        verdict, by = "holds", passed
        says = f"Holds by the published protocol: nothing fires, and {listed(passed)} could be judged."
    else:
        verdict, by = "inconclusive", unsettled
        says = f"Inconclusive: {listed(unsettled)} could not be settled."
    return {"verdict": verdict, "decided_by": by, "says": says}


def not_finite(evidence: Evidence) -> list[str]:
    """Every number of the final moments and baselines that is given and is not finite, by name.

    A cosine or a precision whose status is not "ok" has no value by its own word, and is not among them.
    """
    found = []
    for label, seed in evidence.labelled():
        moment = seed.final
        numbers: dict[str, float | None] = {"loss": moment.loss, "gamma": moment.gamma, "accuracy": moment.accuracy}
        for name in ("hidden_norms", "gradient_norms"):
            numbers |= {f"{name}[{place}]": value for place, value in enumerate(getattr(moment, name) or [])}
        for name, null in (("cosine", "null"), ("cosine_out", "null_out")):
            chances = dict(enumerate(getattr(moment, null) or []))
            for n, record in enumerate(getattr(moment, name) or []):
                if record is not None and record.status == "ok":
                    numbers[f"{name}[{n}]"] = record.value
                    numbers[f"{null}[{n}]"] = _band(chances.get(n))
        numbers["null_gamma"] = _band(moment.null_gamma)
        if moment.precision is not None and moment.precision.status == "ok":
            numbers["precision"] = moment.precision.chord
        found += [
            f"{name} of seed {label}" for name, value in numbers.items() if value is not None and not known(value)
        ]
    for name, baseline in evidence.baselines.items():
        if any(value is not None and not known(value) for value in baseline.accuracy.values()):
            found.append(f"the baseline {name}")
    return found


def _band(null: Null | None) -> float | None:
    """A number that is finite if both of a null's are."""
    return None if null is None else null.mean + null.std
