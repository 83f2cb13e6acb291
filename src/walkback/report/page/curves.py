"""Through training: accuracy, the stream, the gradient and Γ by epoch, with a ring where a check first fires."""

import math
import statistics
from collections.abc import Callable, Mapping, Sequence
from typing import NamedTuple

from markupsafe import Markup

from walkback.checks import Thresholds, in_order
from walkback.checks.base import Curve as OnCurve
from walkback.checks.gamma import blocks_of, gamma_of
from walkback.checks.reference import BATCH, FLOOR
from walkback.records import Moment
from walkback.report.case import Case
from walkback.report.page import chart
from walkback.report.page.markup import num
from walkback.report.tables import Table

MARKS = 9  # along a mean
POINTS = 160  # of a line; a longer one is thinned
WIDE = 290  # how wide a figure is, four beside each other

Remark = tuple[str, str, str]  # what, its status, and why
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
    values = blocks_of(moment)[0]
    numbers = [value for value in values if value is not None]
    return statistics.fmean(numbers) if numbers and len(numbers) == len(values) else None


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
    gaps: list[Remark]

    def known(self) -> dict[int, float]:
        """The mean where there is one."""
        return {epoch: value for epoch, value in self.mean.items() if value is not None}

    def values(self) -> list[tuple[int, float]]:
        """All that is drawn of the seeds."""
        return [(e, v) for points in self.seeds.values() for e, v in points.items() if v is not None]


def subject_curves(case: Case, thresholds: Thresholds) -> list[SubjectCurve]:
    """What can be drawn of a subject, quantity by quantity, and what cannot."""
    evidence, found = case.evidence, []
    every = [(name, moment) for name, seed in evidence.labelled() for moment in seed.moments]
    at_output = case.judgement.protocol == "ours" and gamma_of(evidence).reported
    for quantity in QUANTITIES:
        of = _gamma_at_output if quantity.curve == "gamma" and at_output else quantity.of
        seeds: dict[str, Points] = {name: {} for name in evidence.labels()}
        known = drawn = 0
        for name, moment in every:
            value = of(moment, thresholds[BATCH])
            known += value is not None
            fit = value is not None and chart.drawable(value, quantity.log)
            if moment.epoch is not None:
                seeds[name][moment.epoch] = value if fit else None
                drawn += fit
        found.append(SubjectCurve(seeds, _mean(seeds, quantity.log), _gap(quantity, every, known, drawn)))
    return found


def _gap(quantity: CurveQuantity, every: Sequence[tuple[str, Moment]], known: int, drawn: int) -> list[Remark]:
    """What is missing of a curve; nothing if it is drawn whole."""
    if drawn == len(every):
        return []
    what = f"curve of {quantity.name}"
    if not known:
        stated = [m.reference_batch for _, m in every if m.gradient_norms or m.deepest_gradient is not None]
        unstated = quantity.of is _gradient and None in stated
        return [(what, "missing", "The batch of its norms is not known." if unstated else "No moment has it.")]
    why = f"Known at {known} of {len(every)} moments."
    if drawn < known:
        positive = ", not above zero" if quantity.log else ""
        why += f" {known - drawn} of these values are not drawn: not finite{positive}, or without an epoch."
    return [(what, "in part", why)]


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
    """The curves of each subject, bp's dashed behind them, on axes that all subjects share."""

    def __init__(self, cases: Sequence[Case], found: Sequence[Sequence[SubjectCurve]], thresholds: Thresholds):
        self.cases, self.found, self.floor = cases, found, thresholds[FLOOR]
        self._axes = [self._axes_of(number) for number in range(len(QUANTITIES))]
        self._bp = next((i for i, s in enumerate(cases) if (s.evidence.rule or "").lower() == "bp"), None)

    def _axes_of(self, number: int) -> tuple[chart.Axis, chart.Axis] | None:
        """x and y; None if no subject has anything to draw."""
        drawn = [point for found in self.found for point in found[number].values()]
        if not drawn:
            return None
        more = {"Γ": [0.0], "‖g_L‖": [self.floor]}.get(QUANTITIES[number].name, [])
        y = chart.Axis.over([*(v for _, v in drawn), *more], *chart.UP, log=QUANTITIES[number].log)
        first, last = min(e for e, _ in drawn), max(e for e, _ in drawn)
        return chart.Axis(first - (first == last), last + (first == last), chart.LEFT + 4, WIDE - chart.RIGHT - 4), y

    def figures(self, place: int) -> list[chart.Figure]:
        """What was recorded of one subject through training."""
        every = enumerate(zip(QUANTITIES, self._axes, self.found[place], strict=True))
        return [self._figure(place, q, axes, n) for n, (q, axes, found) in every if axes and found.values()]

    def _figure(self, place: int, q: CurveQuantity, axes: tuple[chart.Axis, chart.Axis], number: int) -> chart.Figure:
        x, y = axes
        epochs = [(tick, f"{tick:g}") for tick, _ in x.ticks() if tick == int(tick)]
        plot = chart.Chart(x, y, "epoch", q.title, epochs, width=WIDE)
        plot.zero()
        if q.name == "‖g_L‖":
            plot.limit(self.floor, f"floor {self.floor:g}")
        if self._bp is not None and self._bp != place:
            behind = _line(self.found[self._bp][number].mean, x, y, "beside")
            plot.parts.append(chart.inked(chart.ink_of(self.cases[self._bp]), behind))
        plot.parts.append(_curve(self.cases[place], q, self.found[place][number], x, y))
        spoken = f"{q.name} by epoch through the training of {self.cases[place].name}"
        return chart.Figure(plot.svg(f"{spoken}{', on a logarithmic axis' * q.log}."), "")


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


def _line(points: Points, x: chart.Axis, y: chart.Axis, class_: str) -> Markup:
    places = [(x.at(e), y.at(v)) if (v := points[e]) is not None else None for e in some(sorted(points), POINTS)]
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


def history_table(found: Sequence[SubjectCurve]) -> Table:
    """The mean over seeds of each quantity, at some epochs."""
    means = [each.known() for each in found]
    epochs = some(sorted({epoch for mean in means for epoch in mean}))
    rows = [[e, *(num(mean[e]) if e in mean else None for mean in means)] for e in epochs]
    title = "Through training: mean over seeds at some epochs (–: not known on every seed)"
    return Table("history", title, ["epoch", *(quantity.name for quantity in QUANTITIES)], rows)
