"""The two small figures of the first screen: what is usually reported, and what the audit adds."""

import statistics
from collections.abc import Sequence
from typing import NamedTuple

from markupsafe import Markup

from walkback.checks import Finding
from walkback.checks.depth import TASK
from walkback.checks.finding import known
from walkback.checks.paired_gain import gain_over
from walkback.records import BaselineName
from walkback.report.case import Case, gammas_of
from walkback.report.page.drawing import ACROSS, ENDS, HEIGHT, MANY, UP, Figure, gain
from walkback.report.page.markup import num, plain, tag
from walkback.report.page.svg import Axis, Chart, Style, Track, line, mark, strip


class Gained(NamedTuple):
    """One gain of one subject."""

    case: Case
    style: Style
    over: BaselineName
    finding: Finding  # with this gain as its value

    @property
    def value(self) -> float:
        """The mean gain."""
        return self.finding.value or 0.0

    @property
    def name(self) -> str:
        """Whose gain, and over what."""
        return f"{self.case.name} over {self.over}"


def reported(cases: Sequence[Case], styles: Sequence[Style]) -> Figure:
    """Accuracy against Γ: the two numbers that papers give."""
    points = []
    for case, style in zip(cases, styles, strict=True):
        gammas, accuracy = gammas_of(case), case.judgement.accuracy.mean
        if gammas and known(accuracy):
            points.append((case, style, statistics.fmean(gammas), accuracy))
    if not points:
        return Figure(None, "Usually reported, accuracy against Γ: not known together for any subject.")
    x = Axis.over([0.0, *(gamma for _, _, gamma, _ in points)], *ACROSS)
    y = Axis.over([accuracy for *_, accuracy in points], *UP, least=0.05)
    chart = Chart(x, y, HEIGHT, "Γ, the mean cosine of credit and true gradient", "test accuracy")
    chart.x_ticks([(tick, x.written(tick, 6)) for tick in x.ticks(6)])
    for case, style, gamma, accuracy in points:
        words = f"{case.name}: accuracy {num(accuracy)}, Γ {gamma:.3f}"
        chart.add(tag("g", mark(style.shape, x.at(gamma), y.at(accuracy), words, r=4.4), class_=style.class_))
    first = [f"{case.name}: Γ {g:.2f}, accuracy {a:.2f}" for case, _, g, a in points[:MANY]]
    more = f"; and {len(points) - MANY} more" if len(points) > MANY else ""
    svg = chart.svg(f"Accuracy against Γ. {'; '.join(first)}{more}.")
    return Figure(svg, "Usually reported: accuracy against Γ, means over the seeds.")


def added(cases: Sequence[Case], styles: Sequence[Style], order: Sequence[int]) -> Figure:
    """The gains over the frozen and over the shallow net, subject by subject, most serious first."""
    ours = any(case.judgement.protocol == "ours" for case in cases)
    over: Sequence[BaselineName] = [*TASK] if ours else ["frozen"]
    every = [(cases[place], styles[place], name, cases[place].gain_over(name)) for place in order for name in over]
    found = [Gained(case, style, name, f) for case, style, name, f in every if f is not None and known(f.value)]
    what = "the gains over the frozen and the shallow net" if ours else "the gain over the frozen net"
    if not found:
        return Figure(None, f"What the audit adds, {what}: neither net is known." if ours else
                      f"What the audit adds, {what}: no frozen net is known.")  # fmt: skip
    required = 100 * found[0].finding.threshold
    values = [100 * v for each in found for v in (each.value, each.finding.low, each.finding.high) if v is not None]
    axis = Axis.over([required, 0.0, *values], *ENDS)
    limit = (required, plain(f"{required:+g} required"))
    spoken = f"Accuracy gained, in points. {'; '.join(f'{each.name}: {gain(each.value)}' for each in found[:MANY])}"
    caption = "What the audit adds: accuracy gained over the same net with its blocks left at random init"
    caption += ", and over the net without blocks." if ours else "."
    if len(found) > MANY:
        return Figure(_ranked(found, axis, limit, spoken), f"{caption} One mark for each gain, sorted.")
    tracks = []
    for case, style, name, f in found:
        seeds = [(seed, 100 * value) for seed, value in sorted(gain_over(case.evidence, name).gains.items())]
        value, low, high = (None if v is None else 100 * v for v in (f.value, f.low, f.high))
        words = f"{case.name}, over {name}" if ours else case.name
        tracks.append(Track(words, plain(gain(f.value or 0.0)), value, low, high, seeds, style))
    svg = strip(tracks, axis, "percentage points", f"{spoken}.", limit=limit, zero=True, words=lambda v: gain(v / 100))
    return Figure(svg, caption)


def _ranked(gains: Sequence[Gained], axis: Axis, limit: tuple[float, str], spoken: str) -> Markup:
    """Many gains as one cloud, sorted: the smallest at the bottom."""
    ordered = sorted(gains, key=lambda one: one.value)
    y = Axis(-1, len(ordered), *UP)
    x = Axis(axis.low, axis.high, *ACROSS)
    chart = Chart(x, y, HEIGHT, "percentage points", "", ticks=False)
    chart.x_ticks([(tick, x.written(tick)) for tick in x.ticks()])
    for at, class_ in ((0.0, "zero"), (limit[0], "limit")):
        chart.add(line(x.at(at), y.start, x.at(at), y.end, class_))
    chart.above(f"┆ {limit[1]}")
    for place, each in enumerate(ordered):
        words = f"{each.name}: {gain(each.value)}"
        drawn = mark(each.style.shape, x.at(100 * each.value), y.at(place), words, r=3.2)
        chart.add(tag("g", drawn, class_=each.style.class_))
    return chart.svg(f"{spoken}; and {len(gains) - MANY} more.")
