"""The curves through training: accuracy, the stream, the gradient and Γ, by epoch, with the epochs of first firing."""

import math
import statistics
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import NamedTuple

from markupsafe import Markup

from walkback.checks import Thresholds, in_order
from walkback.checks.base import Curve as OnCurve
from walkback.checks.base import Date
from walkback.checks.gamma import blocks_of, gamma_of
from walkback.checks.reference import BATCH, FLOOR
from walkback.records import Moment
from walkback.report.case import Case
from walkback.report.page.drawing import HEIGHT, UP, Figure, deepest
from walkback.report.page.markup import num, tag
from walkback.report.page.svg import LEFT, RIGHT, Axis, Chart, Style, drawable, mark, polyline

TOGETHER = 5  # so many subjects share their axes; more would look alike
MARKS = 9  # along a mean
POINTS, FEW = 160, 32  # of a line, and of a small one; a longer one is thinned
WIDE, SPARK = 290, (150, 40)  # how wide a figure is, four beside each other; and how large one without axes

Points = dict[int, float | None]  # by epoch; None: no number that could be drawn, so the line has a gap there


class CurveQuantity(NamedTuple):
    """One thing that is followed through training."""

    name: str
    title: str
    log: bool
    curve: OnCurve | None  # as checks call it that can be dated on it
    of: Callable[[Moment, float], float | None]

    def dates(self) -> list[Date]:
        """What of `first_fired` is marked on it."""
        return [date for check in in_order() for date in check.dates if self.curve and date.curve == self.curve]


def _gradient(moment: Moment, batch: float) -> float | None:
    """‖g_L‖ as in a batch of `batch`; unknown where the log does not say its own."""
    value, stated = deepest(moment, "gradient"), moment.reference_batch
    return None if value is None or stated is None else value * stated / batch


def _gamma_at_output(moment: Moment, _: float) -> float | None:
    """Where our protocol judges it; unknown where a block has no value."""
    found = blocks_of(moment).known
    return None if found is None else statistics.fmean(found)


QUANTITIES = (
    CurveQuantity("accuracy", "test accuracy", False, None, lambda m, _: m.accuracy),
    CurveQuantity("‖h_L‖", "‖h_L‖, log scale", True, "hidden", lambda m, _: deepest(m, "hidden")),
    CurveQuantity("‖g_L‖", "‖g_L‖, log scale", True, "gradient", _gradient),
    CurveQuantity("Γ", "Γ", False, "gamma", lambda m, _: m.gamma),
)  # fmt: skip


class SubjectCurve(NamedTuple):
    """One quantity of one subject: by seed, and the mean over seeds where every seed has a number."""

    seeds: dict[str, Points]
    mean: Points
    numbers: int  # moments with a number
    moments: int  # of so many
    undrawn: int  # … with a number that is not finite, or not above zero on a log scale
    unplaced: int  # … with a number but no epoch
    unstated: int  # … with a norm of the gradient whose batch is not known

    def known(self) -> dict[int, float]:
        """The mean where there is one."""
        return {epoch: value for epoch, value in self.mean.items() if value is not None}

    def values(self) -> list[tuple[int, float]]:
        """All that is drawn of the seeds."""
        return [(e, v) for points in self.seeds.values() for e, v in points.items() if v is not None]


def curve(case: Case, quantity: CurveQuantity, thresholds: Thresholds) -> SubjectCurve:
    """What can be drawn, and how much cannot."""
    batch, of = thresholds[BATCH], quantity.of
    if quantity.curve == "gamma" and case.judgement.protocol == "ours" and gamma_of(case.evidence).reported:
        of = _gamma_at_output
    seeds: dict[str, Points] = {}
    numbers = moments = undrawn = unplaced = unstated = 0
    evidence = case.evidence
    for name, seed in evidence.labelled():
        points = seeds[name] = {}
        for moment in seed.moments:
            value = of(moment, batch)
            fit = value is not None and drawable(value, quantity.log)
            moments += 1
            numbers += value is not None
            undrawn += value is not None and not fit
            unplaced += fit and moment.epoch is None
            normed = moment.gradient_norms or moment.deepest_gradient is not None
            unstated += bool(normed) and moment.reference_batch is None
            if moment.epoch is not None:
                points[moment.epoch] = value if fit else None
    return SubjectCurve(seeds, _mean(seeds, quantity.log), numbers, moments, undrawn, unplaced, unstated)


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


class Spark(NamedTuple):
    """A small curve, and its last value; None: nothing to draw."""

    svg: Markup | None
    last: float | None


class Curves:
    """The curves of all subjects, computed once, on axes that every figure shares."""

    def __init__(self, cases: Sequence[Case], styles: Sequence[Style], thresholds: Thresholds):
        self.cases, self.styles, self.thresholds = cases, styles, thresholds
        self.found = [[curve(case, q, thresholds) for q in QUANTITIES] for case in cases]
        self._axes = [self._axes_of(quantity) for quantity in range(len(QUANTITIES))]
        self.bp = next((i for i, s in enumerate(cases) if (s.evidence.rule or "").lower() == "bp"), None)

    def together(self) -> bool:
        """Whether all are drawn on the same axes: they are few, and no two look alike."""
        return len(self.cases) <= TOGETHER and len(set(self.styles)) == len(self.styles)

    def _axes_of(self, quantity: int) -> tuple[Axis, Axis] | None:
        """x and y, the same for every subject; None if no subject has anything to draw."""
        drawn = [point for found in self.found for point in found[quantity].values()]
        if not drawn:
            return None
        epochs, values = [e for e, _ in drawn], [v for _, v in drawn]
        q = QUANTITIES[quantity]
        more = [0.0] if q.name == "Γ" else [self.thresholds[FLOOR]] if q.name == "‖g_L‖" else []
        y = Axis.over([*values, *more], *UP, log=q.log)
        first, last = min(epochs), max(epochs)
        if first == last:
            first, last = first - 1, last + 1
        return Axis(first, last, LEFT + 4, WIDE - RIGHT - 4), y

    def figures(self) -> list[Figure]:
        """The four figures, with every subject in each."""
        return [self._figure(range(len(self.cases)), quantity) for quantity in range(len(QUANTITIES))]

    def sparks(self, place: int) -> list[Spark]:
        """One subject's curves without their axes, small; bp's dashed behind them."""
        return [self._spark(place, quantity) for quantity in range(len(QUANTITIES))]

    def _spark(self, place: int, quantity: int) -> Spark:
        axes, found = self._axes[quantity], self.found[place][quantity]
        if axes is None or not found.values():
            return Spark(None, None)
        x, y = replace(axes[0], start=3, end=SPARK[0] - 3), replace(axes[1], start=SPARK[1] - 3, end=3)
        parts, mean = [], found.known()
        if self.bp is not None and self.bp != place:
            behind = self.found[self.bp][quantity].mean
            parts.append(tag("g", _line(behind, x, y, "beside", FEW), class_="c-bp"))
        drawn = [_line(points, x, y, "mean", FEW) for points in ([found.mean] if mean else found.seeds.values())]
        parts.append(tag("g", *drawn, class_=self.styles[place].class_))
        svg = tag("svg", *parts, class_="spark", viewBox=f"0 0 {SPARK[0]} {SPARK[1]}", aria_hidden="true")
        return Spark(svg, mean[max(mean)] if mean else None)

    def _figure(self, group: Sequence[int], quantity: int) -> Figure:
        q, axes = QUANTITIES[quantity], self._axes[quantity]
        if axes is None or not any(self.found[i][quantity].values() for i in group):
            return Figure(None, f"{q.name}: nothing to draw. The last section says what was not measured.")
        x, y = axes
        chart = Chart(x, y, HEIGHT, "epoch", q.title, width=WIDE)
        chart.x_ticks([(tick, f"{tick:g}") for tick in x.ticks(5) if tick == int(tick)])
        if y.low < 0 < y.high and not q.log:
            chart.add(polyline([(x.start, y.at(0)), (x.end, y.at(0))], "zero"))
        if q.name == "‖g_L‖":
            floor = self.thresholds[FLOOR]
            chart.limit(floor, f"floor {floor:g}")
        for place in group:
            chart.add(self._one(place, quantity, x, y))
        return Figure(chart.svg(self._spoken(group, quantity)), "")

    def _one(self, place: int, quantity: int, x: Axis, y: Axis) -> Markup:
        q, found, style = QUANTITIES[quantity], self.found[place][quantity], self.styles[place]
        name = self.cases[place].name
        one, mean = len(found.seeds) == 1, found.known()
        lines = [] if one else [_line(points, x, y, "seed-line") for points in found.seeds.values()]
        lines.append(_line(found.mean, x, y, "mean"))
        lines += [
            mark(style.shape, x.at(e), y.at(mean[e]),
                 f"{name}, epoch {e}: {num(mean[e])}" + ("" if one else f", mean of {len(found.seeds)} seeds"))
            for e in _some(list(mean), MARKS)
        ]  # fmt: skip
        for date in q.dates():
            fired = self.cases[place].judgement.first_fired.get(date.key)
            for seed, epoch in fired.epochs.items() if fired and fired.followed else ():
                value = None if epoch is None else found.seeds.get(seed, {}).get(epoch)
                if epoch is not None and value is not None:
                    spoken = f"{name}, seed {seed}: {date.marked or date.name} first fires at epoch {epoch}"
                    lines.append(mark("circle", x.at(epoch), y.at(value), spoken, "first", 5.6))
        return tag("g", *lines, class_=style.class_)

    def _spoken(self, group: Sequence[int], quantity: int) -> str:
        q = QUANTITIES[quantity]
        parts = []
        for place in group:
            mean, name = self.found[place][quantity].known(), self.cases[place].name
            if mean:
                first, last = min(mean), max(mean)
                parts.append(f"{name}: {num(mean[first])} at epoch {first}, {num(mean[last])} at epoch {last}")
            else:
                parts.append(f"{name}: no mean over seeds")
        return f"{q.name} by epoch{', on a logarithmic axis' if q.log else ''}. {'; '.join(parts)}."


def _line(points: Points, x: Axis, y: Axis, class_: str, most: int = POINTS) -> Markup:
    places = [(x.at(e), y.at(v)) if (v := points[e]) is not None else None for e in _some(sorted(points), most)]
    return polyline(places, class_)


def _some(epochs: Sequence[int], most: int) -> list[int]:
    """At most so many, evenly, with the first and the last.

    >>> _some(range(11), 3)
    [0, 5, 10]
    """
    count = len(epochs)
    if count <= most:
        return list(epochs)
    return [epochs[i] for i in sorted({math.floor(n * (count - 1) / (most - 1) + 0.5) for n in range(most)})]


def chosen_epochs(found: Sequence[SubjectCurve], most: int = 11) -> list[int]:
    """The epochs that a table shows."""
    return _some(sorted({epoch for c in found for epoch in c.known()}), most)
