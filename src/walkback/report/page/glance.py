"""The two small figures of the first screen: what is usually reported, and what the audit adds."""

import statistics
from collections.abc import Sequence

from walkback.checks import Finding, check_named
from walkback.checks.base import Gain
from walkback.checks.finding import known
from walkback.report.page.drawing import ENDS, HEIGHT, Figure, drawn, finals, gain
from walkback.report.page.heat import seed_values
from walkback.report.page.markup import Html, num, plain, tag
from walkback.report.page.material import MANY, Material, Style, Subject
from walkback.report.page.svg import BOTTOM, LEFT, RIGHT, TOP, WIDTH, Axis, Chart, Row, drawable, line, mark, strip


def reported(material: Material, styles: Sequence[Style]) -> Figure:
    """Accuracy against Γ: the two numbers that papers give."""
    points = []
    for subject, style in zip(material.subjects, styles, strict=True):
        gamma, accuracy = _gamma(subject), subject.judgement.accuracy.mean
        if gamma is not None and known(accuracy):
            points.append((subject, style, gamma, accuracy))
    if not points:
        return Figure(None, "Usually reported, accuracy against Γ: not known together for any subject.")
    x = Axis.over([0.0, *(gamma for _, _, gamma, _ in points)], LEFT, WIDTH - RIGHT)
    y = Axis.over([accuracy for *_, accuracy in points], HEIGHT - BOTTOM, TOP, least=0.05)
    chart = Chart(x, y, HEIGHT, "Γ, the mean cosine of credit and true gradient", "test accuracy")
    chart.x_ticks([(tick, x.said(tick, 6)) for tick in x.ticks(6)])
    for subject, style, gamma, accuracy in points:
        words = f"{subject.name}: accuracy {num(accuracy)}, Γ {gamma:.3f}"
        chart.add(tag("g", mark(style.shape, x.at(gamma), y.at(accuracy), words, r=4.4), class_=style.class_))
    told = [f"{s.name}: Γ {g:.2f}, accuracy {a:.2f}" for s, _, g, a in points[:MANY]]
    more = f"; and {len(points) - MANY} more" if len(points) > MANY else ""
    svg = chart.svg(f"Accuracy against Γ. {'; '.join(told)}{more}.")
    return Figure(svg, "Usually reported: accuracy against Γ, means over the seeds.")


def _gamma(subject: Subject) -> float | None:
    values = [m.gamma for _, m in finals(subject.evidence) if m.gamma is not None and drawable(m.gamma)]
    return statistics.fmean(values) if values else None


def added(material: Material, styles: Sequence[Style], order: Sequence[int]) -> Figure:
    """The margin over the frozen net, subject by subject, most serious first."""
    margins = [(material.subjects[p], styles[p], f) for p in order if (f := _margin(material.subjects[p])) is not None]
    if not margins:
        return Figure(None, "What the audit adds, the margin over the frozen net: no frozen net is known.")
    required = 100 * margins[0][2].threshold
    values = [100 * v for _, _, f in margins for v in (f.value, f.low, f.high) if v is not None]
    axis = Axis.over([required, 0.0, *values], *ENDS)
    limit = (required, plain(f"{required:+g} required"))
    said = "Accuracy gained over the own frozen net, in points. " + "; ".join(
        f"{s.name}: {gain(f.value or 0.0)}" for s, _, f in margins[:MANY]
    )
    caption = "What the audit adds: accuracy gained over the same net with its blocks left at random init."
    if len(margins) > MANY:
        return Figure(_ranked(margins, axis, limit, said), f"{caption} One mark per subject, sorted.")
    rows = [_row(material, subject, style, finding) for subject, style, finding in margins]
    svg = strip(rows, axis, "percentage points", f"{said}.", limit=limit, zero=True, words=lambda v: gain(v / 100))
    return Figure(svg, caption)


def _margin(subject: Subject) -> Finding | None:
    """The finding that is a gain over the frozen net, if it has a number."""
    for finding in subject.judgement.findings:
        figure = check_named(finding.check).figure
        if isinstance(figure, Gain) and figure.over == "frozen" and known(finding.value):
            return finding
    return None


def _row(material: Material, subject: Subject, style: Style, finding: Finding) -> Row:
    check = check_named(finding.check)
    seeds: list[tuple[str, float | None]] = [
        (seed, 100 * value) for seed, value in seed_values(check, subject, material.audit.thresholds)
    ]
    value, low, high = (None if v is None else 100 * v for v in (finding.value, finding.low, finding.high))
    return Row(subject.name, plain(gain(finding.value or 0.0)), value, low, high, seeds, *drawn(style))


def _ranked(margins: Sequence[tuple[Subject, Style, Finding]], axis: Axis, limit: tuple[float, str], said: str) -> Html:
    """Many margins as one cloud, sorted: the smallest at the bottom."""
    ordered = sorted(margins, key=lambda one: one[2].value or 0.0)
    y = Axis(-1, len(ordered), HEIGHT - BOTTOM, TOP)
    x = Axis(axis.low, axis.high, LEFT, WIDTH - RIGHT)
    chart = Chart(x, y, HEIGHT, "percentage points", "", ticks=False)
    chart.x_ticks([(tick, x.said(tick)) for tick in x.ticks()])
    for at, class_ in ((0.0, "zero"), (limit[0], "limit")):
        chart.add(line(x.at(at), y.start, x.at(at), y.end, class_))
    chart.above(f"┆ {limit[1]}")
    for place, (subject, style, finding) in enumerate(ordered):
        value = 100 * (finding.value or 0.0)
        words = f"{subject.name}: {gain(value / 100)}"
        chart.add(tag("g", mark(style.shape, x.at(value), y.at(place), words, r=3.2), class_=style.class_))
    return chart.svg(f"{said}; and {len(margins) - MANY} more.")
