"""The first screen: what is usually reported, what the audit adds, and every check at a glance."""

import statistics
from collections.abc import Sequence

from markupsafe import Markup

from walkback.checks import Check, Finding, check_named
from walkback.checks.base import Gain
from walkback.checks.depth import TASK
from walkback.checks.finding import known
from walkback.records import BaselineName
from walkback.report.answers import asked, finding_of
from walkback.report.case import Case, gammas_of
from walkback.report.page import chart
from walkback.report.page.check_figures import gain_track, seeds_over
from walkback.report.page.markup import gain, num, plain, shown, tag

MANY = 12  # more subjects than that are folded
CELL = 92, 12  # how large a cell's strip is


def reported(cases: Sequence[Case]) -> chart.Figure:
    """Accuracy against Γ: the two numbers that papers give."""
    every = [(case, gammas_of(case), case.judgement.accuracy.mean) for case in cases]
    points = [(case, statistics.fmean(gammas), mean) for case, gammas, mean in every if gammas and known(mean)]
    if not points:
        return chart.Figure(None, "Usually reported, accuracy against Γ: not known together for any subject.")
    x = chart.Axis.over([0.0, *(gamma for _, gamma, _ in points)], *chart.ACROSS)
    y = chart.Axis.over([accuracy for *_, accuracy in points], *chart.UP, least=0.05)
    plot = chart.Chart(x, y, "Γ, the mean cosine of credit and true gradient", "test accuracy", x.ticks(6))
    for case, gamma, accuracy in points:
        words, ink = f"{case.name}: accuracy {num(accuracy)}, Γ {gamma:.3f}", chart.ink_of(case)
        plot.parts.append(chart.inked(ink, chart.mark(ink.marker, x.at(gamma), y.at(accuracy), words, r=4.4)))
    caption = "Usually reported: accuracy against Γ, means over the seeds."
    return chart.Figure(plot.svg("Accuracy against Γ of each subject."), caption)


def added(cases: Sequence[Case]) -> chart.Figure:
    """The gains over the frozen and over the shallow net, subject by subject; of many the first."""
    ours = any(case.judgement.protocol == "ours" for case in cases)
    over: Sequence[BaselineName] = [*TASK] if ours else ["frozen"]
    every = [(case, name, case.gain_over(name)) for case in cases for name in over]
    found = [(case, name, finding) for case, name, finding in every if finding is not None and known(finding.value)]
    if not found:
        both, one = "gains over the frozen and the shallow net: neither", "gain over the frozen net: no frozen"
        return chart.Figure(None, f"What the audit adds, the {both if ours else one} net is known.")
    required = 100 * found[0][2].threshold
    tracks = [
        gain_track(f"{case.name} over {name}" if ours else case.name, finding, seeds_over(case.evidence, name),
                   chart.ink_of(case)) for case, name, finding in found[:MANY]
    ]  # fmt: skip
    caption = "What the audit adds: accuracy gained over the same net with its blocks left at random init"
    caption += ", and over the net without blocks." if ours else "."
    caption += f" The first {MANY} of {len(found)} gains." if len(found) > MANY else ""
    limit = (required, plain(f"{required:+g} required"))
    return chart.Figure(chart.strip(tracks, "percentage points", limit=limit, also=[0.0], words=gain), caption)


Cells = Sequence[tuple[Finding, Markup | None] | None]  # of one subject; None: that check was not put to it


def heat_map(cases: Sequence[Case]) -> tuple[list[Check], list[Cells]]:
    """The checks, and for each case a cell for each of them: the finding, and its seeds against the limit."""
    checks = [check_named(name) for name in asked([case.judgement for case in cases])]
    columns: list[Cells] = []
    for check in checks:
        found = [finding_of(case.judgement, check.name) for case in cases]
        dots = [_seed_values(check, f, case) if f else [] for f, case in zip(found, cases, strict=True)]
        ends = [v for f in found if f is not None for v in (f.threshold, f.value, f.low, f.high)]
        axis = chart.Axis.over([*ends, *(v for each in dots for v in each)], 2, CELL[0] - 2,
                               log=check.form in ("times", "size"))  # fmt: skip
        if check.form == "share":
            axis = chart.Axis(-0.04, 1.04, 2, CELL[0] - 2)
        cells = zip(found, dots, strict=True)
        columns.append([None if f is None else (f, _cell(check, f, values, axis)) for f, values in cells])
    return checks, [list(row) for row in zip(*columns, strict=True)] or [[] for _ in cases]


def _seed_values(check: Check, finding: Finding, case: Case) -> list[float]:
    """The value of each seed that has one: by the check's own function, or over the baseline that gave the value."""
    if not isinstance(check.figure, Gain):
        return [value for value in check.by_seed(case.evidence).values() if known(value)]
    over: list[BaselineName] = [check.figure.over, *check.figure.beside]
    judged = [name for name in over if name in finding.parts and finding.parts[name].value == finding.value]
    seeds = seeds_over(case.evidence, judged[0] if judged else over[0])
    return [value / 100 for _, value in seeds if known(value)]


def _cell(check: Check, finding: Finding, seeds: Sequence[float], axis: chart.Axis) -> Markup | None:
    """The seeds against the limit; nothing where no value can be drawn."""
    spread = [axis.at(v) for v in (finding.low, finding.high) if v is not None and axis.holds(v)]
    dots = [axis.at(value) for value in seeds if axis.holds(value)]
    if not dots and finding.value is not None and axis.holds(finding.value):
        dots = [axis.at(finding.value)]
    if not dots and not spread:
        return None
    parts, middle = [], shown(CELL[1] / 2)
    if axis.holds(finding.threshold):
        parts.append(tag("path", class_="limit", d=f"M{shown(axis.at(finding.threshold))} 0v{CELL[1]}"))
    if len(spread) == 2 and check.spread == "mean":
        parts.append(tag("path", class_="interval", d=f"M{shown(spread[0])} {middle}H{shown(spread[1])}"))
    places = "".join(f"M{shown(at)} {middle}h0" for at in sorted({round(at, 1) for at in dots}))
    parts.append(tag("path", class_="dots", d=places))
    return tag("svg", *parts, class_="strip", viewBox=f"0 0 {CELL[0]} {CELL[1]}", aria_hidden="true")
