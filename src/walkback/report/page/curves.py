"""Through training: accuracy, the stream, the gradient and Γ by epoch, and when each check first fired."""

import math
import statistics
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import NamedTuple

from markupsafe import Markup

from walkback.checks import Thresholds, in_order
from walkback.checks.base import Curve as OnCurve
from walkback.checks.gamma import blocks_of, gamma_of
from walkback.checks.reference import BATCH, FLOOR
from walkback.records import Moment
from walkback.report.case import Case
from walkback.report.page import chart
from walkback.report.page.markup import free, num, tag

TOGETHER = 5  # so many subjects share their axes; more would look alike
MARKS = 9  # along a mean
POINTS, FEW = 160, 32  # of a line, and of a small one; a longer one is thinned
WIDE, SPARK = 290, (150, 40)  # how wide a figure is, four beside each other; and how large one without axes

Points = dict[int, float | None]  # by epoch; None: no number that could be drawn, so the line has a gap there


def deepest(moment: Moment, kind: str) -> float | None:
    """‖h_L‖ or ‖g_L‖."""
    norms: list[float | None] | None = getattr(moment, f"{kind}_norms")
    last: float | None = norms[-1] if norms else getattr(moment, f"deepest_{kind}")
    return last


def _gradient(moment: Moment, batch: float) -> float | None:
    """‖g_L‖ as in a batch of `batch`; unknown where the log does not say its own."""
    value, stated = deepest(moment, "gradient"), moment.reference_batch
    return None if value is None or stated is None else value * stated / batch


def _gamma_at_output(moment: Moment, _: float) -> float | None:
    """Where our protocol judges it; unknown where a block has no value."""
    found = blocks_of(moment).known
    return None if found is None else statistics.fmean(found)


class CurveQuantity(NamedTuple):
    """One thing that is followed through training."""

    name: str
    title: str
    log: bool
    curve: OnCurve | None  # as checks call it that can be dated on it
    of: Callable[[Moment, float], float | None]


QUANTITIES = (
    CurveQuantity("accuracy", "test accuracy", False, None, lambda m, _: m.accuracy),
    CurveQuantity("‖h_L‖", "‖h_L‖, log scale", True, "hidden", lambda m, _: deepest(m, "hidden")),
    CurveQuantity("‖g_L‖", "‖g_L‖, log scale", True, "gradient", _gradient),
    CurveQuantity("Γ", "Γ", False, "gamma", lambda m, _: m.gamma),
)  # fmt: skip


class SubjectCurve(NamedTuple):
    """One quantity of one subject: by seed, the mean over seeds where every seed has a number, and what is missing."""

    seeds: dict[str, Points]
    mean: Points
    gaps: list[tuple[str, str, str]]  # what, its status, and why

    def known(self) -> dict[int, float]:
        """The mean where there is one."""
        return {epoch: value for epoch, value in self.mean.items() if value is not None}

    def values(self) -> list[tuple[int, float]]:
        """All that is drawn of the seeds."""
        return [(e, v) for points in self.seeds.values() for e, v in points.items() if v is not None]


def subject_curves(case: Case, thresholds: Thresholds) -> list[SubjectCurve]:
    """What can be drawn of a subject, quantity by quantity, and what cannot."""
    evidence, found = case.evidence, []
    every = [(name, seed.moments) for name, seed in evidence.labelled()]
    at_output = case.judgement.protocol == "ours" and gamma_of(evidence).reported
    for quantity in QUANTITIES:
        of = _gamma_at_output if quantity.curve == "gamma" and at_output else quantity.of
        moments = [(name, m, of(m, thresholds[BATCH])) for name, of_seed in every for m in of_seed]
        fit = [value is not None and chart.drawable(value, quantity.log) for *_, value in moments]
        seeds: dict[str, Points] = {name: {} for name, _ in every}
        for (name, moment, value), good in zip(moments, fit, strict=True):
            if moment.epoch is not None:
                seeds[name][moment.epoch] = value if good else None
        gaps, what = [], f"curve of {quantity.name}"
        numbers = sum(value is not None for *_, value in moments)
        unplaced = sum(good and moment.epoch is None for (_, moment, _), good in zip(moments, fit, strict=True))
        if moments and not numbers:
            stated = [m.reference_batch for _, m, _ in moments if m.gradient_norms or m.deepest_gradient is not None]
            unstated = quantity.of is _gradient and None in stated
            gaps.append((what, "missing", "The batch of its norms is not known." if unstated else "No moment has it."))
        elif numbers < len(moments):
            gaps.append((what, "in part", f"Known at {numbers} of {len(moments)} moments."))
        if sum(fit) < numbers:
            reason = f"not finite{', or not above zero,' if quantity.log else ''} and leave a gap."
            gaps.append((what, "not drawn", f"{numbers - sum(fit)} of {numbers} values are {reason}"))
        if unplaced:
            gaps.append((what, "not drawn", f"{unplaced} of {numbers} values have no epoch."))
        found.append(SubjectCurve(seeds, _mean(seeds, quantity.log), gaps))
    return found


def _mean(seeds: Mapping[str, Points], log: bool) -> Points:
    """Over the seeds, at epochs where all have a number; on a log scale the geometric one, the middle that is seen."""
    mean: Points = {}
    for epoch in sorted({epoch for points in seeds.values() for epoch in points}):
        values = [value for points in seeds.values() if (value := points.get(epoch)) is not None]
        if len(values) < len(seeds):
            mean[epoch] = None
        else:
            mean[epoch] = math.exp(statistics.fmean(map(math.log, values))) if log else statistics.fmean(values)
    return mean


class Curves:
    """The curves of all subjects on axes that every figure shares."""

    def __init__(self, cases: Sequence[Case], found: Sequence[Sequence[SubjectCurve]], thresholds: Thresholds):
        self.cases, self.found, self.floor = cases, found, thresholds[FLOOR]
        self._axes = [self._axes_of(number) for number in range(len(QUANTITIES))]
        self.bp = next((i for i, s in enumerate(cases) if (s.evidence.rule or "").lower() == "bp"), None)

    def together(self) -> bool:
        """Whether all are drawn on the same axes: they are few, and no two look alike."""
        looks = {(ink.colour, ink.marker) for ink in map(chart.ink_of, self.cases)}
        return len(self.cases) <= TOGETHER and len(looks) == len(self.cases)

    def _axes_of(self, number: int) -> tuple[chart.Axis, chart.Axis] | None:
        """x and y, shared by all subjects; None if no subject has anything to draw."""
        drawn = [point for found in self.found for point in found[number].values()]
        if not drawn:
            return None
        more = {"Γ": [0.0], "‖g_L‖": [self.floor]}.get(QUANTITIES[number].name, [])
        y = chart.Axis.over([*(v for _, v in drawn), *more], *chart.UP, log=QUANTITIES[number].log)
        first, last = min(e for e, _ in drawn), max(e for e, _ in drawn)
        return chart.Axis(first - (first == last), last + (first == last), chart.LEFT + 4, WIDE - chart.RIGHT - 4), y

    def sparks(self, place: int) -> list[tuple[Markup | None, float | None]]:
        """One subject's curves without their axes, small, each with its last mean; bp's dashed behind them."""
        return [self._spark(place, number) for number in range(len(QUANTITIES))]

    def _spark(self, place: int, number: int) -> tuple[Markup | None, float | None]:
        axes, found = self._axes[number], self.found[place][number]
        if axes is None or not found.values():
            return None, None
        x, y = replace(axes[0], start=3, end=SPARK[0] - 3), replace(axes[1], start=SPARK[1] - 3, end=3)
        parts, mean = [], found.known()
        if self.bp is not None and self.bp != place:
            behind = self.found[self.bp][number].mean
            parts.append(chart.inked(chart.ink_of(self.cases[self.bp]), _line(behind, x, y, "beside", FEW)))
        drawn = [_line(points, x, y, "mean", FEW) for points in ([found.mean] if mean else found.seeds.values())]
        parts.append(chart.inked(chart.ink_of(self.cases[place]), *drawn))
        svg = tag("svg", *parts, class_="spark", viewBox=f"0 0 {SPARK[0]} {SPARK[1]}", aria_hidden="true")
        return svg, mean[max(mean)] if mean else None

    def figures(self) -> list[chart.Figure]:
        """The four figures, with every subject in each."""
        return [self._figure(number) for number in range(len(QUANTITIES))]

    def _figure(self, number: int) -> chart.Figure:
        q, axes = QUANTITIES[number], self._axes[number]
        if axes is None:
            return chart.Figure(None, f"{q.name}: nothing to draw. The last section says what was not measured.")
        x, y = axes
        epochs = [(tick, f"{tick:g}") for tick, _ in x.ticks() if tick == int(tick)]
        plot = chart.Chart(x, y, "epoch", q.title, epochs, width=WIDE)
        plot.zero()
        if q.name == "‖g_L‖":
            plot.limit(self.floor, f"floor {self.floor:g}")
        spoken = []
        for case, found in zip(self.cases, self.found, strict=True):
            mean = found[number].known()
            plot.parts.append(_curve(case, q, found[number], x, y))
            ends = [f"{num(mean[e])} at epoch {e}" for e in (min(mean), max(mean))] if mean else ["no mean over seeds"]
            spoken.append(f"{case.name}: {', '.join(ends)}")
        scale = ", on a logarithmic axis" if q.log else ""
        return chart.Figure(plot.svg(f"{q.name} by epoch{scale}. {'; '.join(spoken)}."), "")


def _curve(case: Case, q: CurveQuantity, found: SubjectCurve, x: chart.Axis, y: chart.Axis) -> Markup:
    """The seeds, their mean with some marks, and a ring where a check first fired."""
    ink, mean, count = chart.ink_of(case), found.known(), len(found.seeds)
    parts = [_line(points, x, y, "seed-line") for points in found.seeds.values()] if count != 1 else []
    parts.append(_line(found.mean, x, y, "mean"))
    for epoch in some(list(mean), MARKS):
        words = f"{case.name}, epoch {epoch}: {num(mean[epoch])}" + (f", mean of {count} seeds" if count != 1 else "")
        parts.append(chart.mark(ink.marker, x.at(epoch), y.at(mean[epoch]), words))
    for date in [date for check in in_order() for date in check.dates if q.curve and date.curve == q.curve]:
        fired = case.judgement.first_fired.get(date.key)
        for seed, at in fired.epochs.items() if fired and fired.followed else ():
            value = None if at is None else found.seeds.get(seed, {}).get(at)
            if at is not None and value is not None:
                words = f"{case.name}, seed {seed}: {date.marked or date.name} first fires at epoch {at}"
                parts.append(chart.mark("o", x.at(at), y.at(value), words, "first", 5.6))
    return chart.inked(ink, *parts)


def _line(points: Points, x: chart.Axis, y: chart.Axis, class_: str, most: int = POINTS) -> Markup:
    places = [(x.at(e), y.at(v)) if (v := points[e]) is not None else None for e in some(sorted(points), most)]
    return chart.polyline(places, class_)


def some(epochs: Sequence[int], most: int = 11) -> list[int]:
    """At most so many, evenly, with the first and the last.

    >>> some(range(11), 3)
    [0, 5, 10]
    """
    count = len(epochs)
    if count <= most:
        return list(epochs)
    return [epochs[i] for i in sorted({math.floor(n * (count - 1) / (most - 1) + 0.5) for n in range(most)})]


def history(found: Sequence[SubjectCurve]) -> list[list[str]]:
    """The mean over seeds of each quantity, at some epochs."""
    means = [each.known() for each in found]
    epochs = some(sorted({epoch for mean in means for epoch in mean}))
    return [[str(e), *(num(mean[e]) if e in mean else "–" for mean in means)] for e in epochs]


def first_firings(cases: Sequence[Case]) -> tuple[list[str], list[tuple[Case, list[str]]], str]:
    """Headings and rows: seed by seed the first epoch of each check that was followed and fired. And a note."""
    names = {date.key: date.name for check in in_order() for date in check.dates}
    found = [case for case in cases if any(_epochs(case, key) for key in case.judgement.first_fired)]
    kept = [key for key in names if any(_epochs(case, key) for case in found)]
    note = "No check that was followed through training fired. "
    if found:
        note = "Never, in the others. " if len(found) < len(cases) else ""
    note += " ".join(f"{c.name.capitalize()} cannot be dated: {c.undated}." for c in in_order() if not c.dates)
    note += " What was measured at the end alone has no first epoch."
    return [names[key] for key in kept], [(case, [first_epochs(case, key) for key in kept]) for case in found], note


def _epochs(case: Case, key: str) -> Mapping[str, int | None]:
    """By seed the first epoch; nothing where it never fired, or was not followed."""
    fired = case.judgement.first_fired.get(key)
    if fired is None or not fired.followed or all(epoch is None for epoch in fired.epochs.values()):
        return {}
    return fired.epochs


def first_epochs(case: Case, key: str) -> str:
    """When something first fired, in words, or why that is not known."""
    fired = case.judgement.first_fired.get(key)
    if fired is None:
        return "not known"
    if not fired.followed:
        return "measured at the end only" if fired.known_at else free(fired.says)
    partly = f" (known at {fired.known_at} of {fired.moments} moments)" if fired.in_part else ""
    epochs = _epochs(case, key)
    if not epochs:
        return f"never{partly}" if fired.fired is False else free(fired.says)
    if len(set(epochs.values())) == 1:
        return f"{next(iter(epochs.values()))}{'' if len(epochs) == 1 else ' (every seed)'}{partly}"
    return ", ".join(f"{'never' if e is None else e} (seed {s})" for s, e in epochs.items()) + partly
