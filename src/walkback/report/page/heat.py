"""The table of subjects and checks: in each cell a sign, a value, and a strip of the seeds against the limit."""

from collections.abc import Mapping, Sequence
from typing import NamedTuple

from markupsafe import Markup

from walkback.checks import Check, Finding, Thresholds, check_named
from walkback.checks.base import Gain
from walkback.checks.finding import known
from walkback.report.case import Case
from walkback.report.page.gains import seeds_of_value
from walkback.report.page.markup import plain, shown, tag
from walkback.report.page.svg import Axis, drawable
from walkback.report.summary import finding_of
from walkback.report.verdicts import asked, finding_cell

WIDTH, HEIGHT = 92, 12


class HeatCell(NamedTuple):
    """One check of one subject."""

    sign: str
    title: str
    value: str
    kind: str
    sortable: str | None
    strip: Markup | None


class Heat(NamedTuple):
    """The checks, and for each subject a cell for each of them; None: it was not asked."""

    checks: Sequence[Check]
    rows: Sequence[Sequence[HeatCell | None]]


def heat_map(cases: Sequence[Case], thresholds: Thresholds) -> Heat:
    """A row for each case, in their order."""
    checks = [check_named(name) for name in asked([case.judgement for case in cases])]
    axes = {check.name: _axis(check, cases, thresholds) for check in checks}
    rows = []
    for case in cases:
        found = {finding.check: finding for finding in case.judgement.findings}
        cells = [_cell(check, found.get(check.name), case, axes[check.name], thresholds) for check in checks]
        rows.append(cells)
    return Heat(checks, rows)


def sortable(value: float | None) -> str | None:
    """A value as the script sorts by it."""
    return f"{value:.6g}" if known(value) else None


def _cell(
    check: Check, finding: Finding | None, case: Case, axis: Axis | None, thresholds: Thresholds
) -> HeatCell | None:
    if finding is None:
        return None
    sign, _, value = finding_cell(finding).partition(" ")
    kind = finding.outcome.replace(" ", "-") if case.counts else "void"
    strip = _strip(check, finding, case, axis, thresholds)
    return HeatCell(sign, f"{check.name} {finding.outcome}", plain(value), kind, sortable(finding.value), strip)


def seed_values(check: Check, case: Case, thresholds: Thresholds) -> list[tuple[str, float]]:
    """The value of each seed that has one, by the check's own function or paired with its baseline."""
    values: Mapping[str, float | None] = check.by_seed(case.evidence, thresholds)
    finding = finding_of(case.judgement, check.name)
    if isinstance(check.figure, Gain) and finding is not None:
        values = seeds_of_value(check.figure, finding, case.evidence)
    return [(seed, value) for seed, value in values.items() if known(value)]


def _axis(check: Check, cases: Sequence[Case], thresholds: Thresholds) -> Axis | None:
    """One axis for the column: every value, interval and limit in it."""
    if check.form == "share":
        return Axis(-0.04, 1.04, 2, WIDTH - 2)
    log = check.form in ("times", "size")
    values: list[float | None] = []
    for case in cases:
        for finding in case.judgement.findings:
            if finding.check == check.name:
                values += [finding.threshold, finding.value, finding.low, finding.high]
                values += [value for _, value in seed_values(check, case, thresholds)]
    fit = [value for value in values if value is not None and drawable(value, log)]
    return Axis.over(fit, 2, WIDTH - 2, log=log) if fit else None


def _strip(check: Check, finding: Finding, case: Case, axis: Axis | None, thresholds: Thresholds) -> Markup | None:
    """The seeds against the limit; nothing where no value can be drawn."""
    if axis is None:
        return None
    spread = [axis.at(v) for v in (finding.low, finding.high) if v is not None and axis.holds(v)]
    dots = [axis.at(value) for _, value in seed_values(check, case, thresholds) if axis.holds(value)]
    if not dots and axis.holds(finding.value) and finding.value is not None:
        dots = [axis.at(finding.value)]
    if not dots and not spread:
        return None
    parts = []
    if axis.holds(finding.threshold):
        parts.append(tag("path", class_="limit", d=f"M{shown(axis.at(finding.threshold))} 0v{HEIGHT}"))
    middle = shown(HEIGHT / 2)
    if len(spread) == 2 and check.spread == "mean":
        parts.append(tag("path", class_="interval", d=f"M{shown(spread[0])} {middle}H{shown(spread[1])}"))
    places = "".join(f"M{shown(at)} {middle}h0" for at in sorted({round(at, 1) for at in dots}))
    parts.append(tag("path", class_="dots", d=places))
    return tag("svg", *parts, class_="strip", viewBox=f"0 0 {WIDTH} {HEIGHT}", aria_hidden="true")
