"""The two small figures of the first screen: what is usually reported, and what the audit adds."""

import statistics
from collections.abc import Sequence

from markupsafe import Markup

from walkback.checks import Finding, Thresholds, check_named
from walkback.checks.finding import known
from walkback.report.case import Case
from walkback.report.page.drawing import ACROSS, ENDS, HEIGHT, MANY, UP, Figure, gain
from walkback.report.page.heat import seed_values
from walkback.report.page.markup import num, plain, tag
from walkback.report.page.svg import Axis, Chart, Style, Track, drawable, line, mark, strip

Margins = Sequence[tuple[Case, Style, Finding]]


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
    chart.x_ticks([(tick, x.said(tick, 6)) for tick in x.ticks(6)])
    for case, style, gamma, accuracy in points:
        words = f"{case.name}: accuracy {num(accuracy)}, Γ {gamma:.3f}"
        chart.add(tag("g", mark(style.shape, x.at(gamma), y.at(accuracy), words, r=4.4), class_=style.class_))
    first = [f"{case.name}: Γ {g:.2f}, accuracy {a:.2f}" for case, _, g, a in points[:MANY]]
    more = f"; and {len(points) - MANY} more" if len(points) > MANY else ""
    svg = chart.svg(f"Accuracy against Γ. {'; '.join(first)}{more}.")
    return Figure(svg, "Usually reported: accuracy against Γ, means over the seeds.")


def gammas_of(case: Case) -> list[float]:
    """Γ of every seed that has one."""
    return [moment.gamma for moment in case.finals if moment.gamma is not None and drawable(moment.gamma)]


def added(cases: Sequence[Case], styles: Sequence[Style], order: Sequence[int], thresholds: Thresholds) -> Figure:
    """The margin over the frozen net, subject by subject, most serious first."""
    found = [(cases[place], styles[place], cases[place].gain_over("frozen")) for place in order]
    margins = [(case, style, f) for case, style, f in found if f is not None and known(f.value)]
    if not margins:
        return Figure(None, "What the audit adds, the margin over the frozen net: no frozen net is known.")
    required = 100 * margins[0][2].threshold
    values = [100 * v for _, _, f in margins for v in (f.value, f.low, f.high) if v is not None]
    axis = Axis.over([required, 0.0, *values], *ENDS)
    limit = (required, plain(f"{required:+g} required"))
    said = "Accuracy gained over the own frozen net, in points. " + "; ".join(
        f"{case.name}: {gain(f.value or 0.0)}" for case, _, f in margins[:MANY]
    )
    caption = "What the audit adds: accuracy gained over the same net with its blocks left at random init."
    if len(margins) > MANY:
        return Figure(_ranked(margins, axis, limit, said), f"{caption} One mark per subject, sorted.")
    tracks = []
    for case, style, f in margins:
        seeds = [(seed, 100 * value) for seed, value in seed_values(check_named(f.check), case, thresholds)]
        value, low, high = (None if v is None else 100 * v for v in (f.value, f.low, f.high))
        tracks.append(Track(case.name, plain(gain(f.value or 0.0)), value, low, high, seeds, style))
    svg = strip(tracks, axis, "percentage points", f"{said}.", limit=limit, zero=True, words=lambda v: gain(v / 100))
    return Figure(svg, caption)


def _ranked(margins: Margins, axis: Axis, limit: tuple[float, str], said: str) -> Markup:
    """Many margins as one cloud, sorted: the smallest at the bottom."""
    ordered = sorted(margins, key=lambda one: one[2].value or 0.0)
    y = Axis(-1, len(ordered), *UP)
    x = Axis(axis.low, axis.high, *ACROSS)
    chart = Chart(x, y, HEIGHT, "percentage points", "", ticks=False)
    chart.x_ticks([(tick, x.said(tick)) for tick in x.ticks()])
    for at, class_ in ((0.0, "zero"), (limit[0], "limit")):
        chart.add(line(x.at(at), y.start, x.at(at), y.end, class_))
    chart.above(f"┆ {limit[1]}")
    for place, (case, style, finding) in enumerate(ordered):
        value = 100 * (finding.value or 0.0)
        drawn = mark(style.shape, x.at(value), y.at(place), f"{case.name}: {gain(value / 100)}", r=3.2)
        chart.add(tag("g", drawn, class_=style.class_))
    return chart.svg(f"{said}; and {len(margins) - MANY} more.")
