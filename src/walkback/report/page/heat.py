"""The table of subjects and checks: in each cell a sign, a value, and a strip of the seeds against the limit."""

from collections.abc import Mapping, Sequence

from walkback.checks import Check, Finding, Thresholds, check_named
from walkback.checks.base import Gain
from walkback.checks.finding import known
from walkback.report.page.drawing import finals
from walkback.report.page.gains import gained
from walkback.report.page.markup import Child, Html, clip, join, num, plain, shown, tag
from walkback.report.page.material import Material, Style, Subject
from walkback.report.page.pieces import anchor, key, name_of, verdict
from walkback.report.page.svg import Axis, drawable
from walkback.report.verdicts import asked, finding_cell

WIDTH, HEIGHT = 92, 12
LEGEND = (
    "✓ passes, ✗ fires, ? inconclusive, – not applicable. In each strip one dot is one seed, the bar is the interval "
    "of the mean where the check takes one, the upright line is the limit. The strips of a column share one axis."
)


def heat_map(material: Material, styles: Sequence[Style], order: Sequence[int], whole: bool) -> Html:
    """One row per subject; `whole`: with verdict and accuracy, where no list above tells them."""
    checks = [check_named(name) for name in asked([subject.judgement for subject in material.subjects])]
    axes = {check.name: _axis(check, material) for check in checks}
    heads: list[Child] = [_head("Subject")]
    if whole:
        heads += [_head("Verdict"), _head("Accuracy")]
    heads += [_head(clip(check.name), check.raised, check.heading) for check in checks]
    rows = [_row(material, styles, place, checks, axes, whole) for place in order]
    caption = tag("caption", "Subjects and checks")
    table = tag(
        "table", caption, tag("thead", tag("tr", *heads)), tag("tbody", *rows), class_="heat", data_sort="yes"
    )  # fmt: skip
    scroll = tag("div", table, class_="scroll", role="group", aria_label="Subjects and checks", tabindex="0")
    return join([scroll, tag("p", LEGEND, class_="quiet")])


def _head(word: str, title: str | None = None, unit: str = "") -> Html:
    return tag("th", word, tag("small", f" {unit}") if unit else None, scope="col", title=title)


def _row(
    material: Material,
    styles: Sequence[Style],
    place: int,
    checks: Sequence[Check],
    axes: Mapping[str, Axis | None],
    whole: bool,
) -> Html:
    subject = material.subjects[place]
    accuracy = subject.judgement.accuracy
    link = tag("a", key(styles[place]), " ", name_of(subject), href=f"#{anchor(place)}")
    cells = [tag("th", link, scope="row", data_value=subject.name)]
    if whole:
        told = "–" if accuracy.mean is None else num(accuracy.mean)
        cells.append(tag("td", verdict(subject), data_value=subject.judgement.verdict))
        cells.append(tag("td", told, data_value=_sortable(accuracy.mean)))
    found = {finding.check: finding for finding in subject.judgement.findings}
    for check in checks:
        finding = found.get(check.name)
        if finding is None:
            cells.append(tag("td", "not asked", class_="not-asked"))
            continue
        sign, _, value = finding_cell(finding).partition(" ")
        title = f"{check.name} {finding.outcome}"
        state = tag("span", tag("span", sign, aria_hidden="true"), tag("span", title, class_="unseen"), class_="sign")
        drawn = _strip(check, finding, subject, axes[check.name], material.audit.thresholds)
        kind = f"h-{finding.outcome.replace(' ', '-')}" if subject.counts else "h-void"
        cells.append(
            tag("td", state, " ", tag("span", plain(value), class_="value"), drawn, class_=kind,
                data_value=_sortable(finding.value))
        )  # fmt: skip
    return tag("tr", *cells, data_place=str(place), data_verdict=subject.judgement.verdict)


def _sortable(value: float | None) -> str | None:
    return f"{value:.6g}" if known(value) else None


def seed_values(check: Check, subject: Subject, thresholds: Thresholds) -> list[tuple[str, float]]:
    """The value of each seed that has one, by the check's own function or paired with its baseline."""
    evidence = subject.evidence
    values: Mapping[str, float | None] = check.by_seed(evidence, thresholds)
    if isinstance(check.figure, Gain):
        other = evidence.baselines.get(check.figure.over)
        accuracy = {name: moment.accuracy for name, moment in finals(evidence)}
        values = {} if other is None else {s: None if v is None else v / 100 for s, v in gained(accuracy, other)}
    return [(seed, value) for seed, value in values.items() if known(value)]


def _is_log(check: Check) -> bool:
    return check.form in ("times", "size")


def _axis(check: Check, material: Material) -> Axis | None:
    """One axis for the column: every value, interval and limit in it."""
    if check.form == "share":
        return Axis(-0.04, 1.04, 2, WIDTH - 2)
    values: list[float] = []
    for subject in material.subjects:
        for finding in subject.judgement.findings:
            if finding.check == check.name:
                ends = [finding.threshold, finding.value, finding.low, finding.high]
                values += [end for end in ends if end is not None]
                values += [value for _, value in seed_values(check, subject, material.audit.thresholds)]
    fit = [value for value in values if drawable(value, _is_log(check))]
    return Axis.over(fit, 2, WIDTH - 2, log=_is_log(check)) if fit else None


def _strip(check: Check, finding: Finding, subject: Subject, axis: Axis | None, thresholds: Thresholds) -> Html | None:
    """The seeds against the limit; nothing where no value can be drawn."""
    if axis is None:
        return None
    middle = HEIGHT / 2
    spread: list[float] = [v for v in (finding.low, finding.high) if v is not None and axis.holds(v)]
    dots = [axis.at(value) for _, value in seed_values(check, subject, thresholds) if axis.holds(value)]
    if not dots and axis.holds(finding.value) and finding.value is not None:
        dots = [axis.at(finding.value)]
    if not dots and not spread:
        return None
    parts = []
    if axis.holds(finding.threshold):
        parts.append(tag("path", class_="limit", d=f"M{shown(axis.at(finding.threshold))} 0v{HEIGHT}"))
    if len(spread) == 2 and check.spread == "mean":
        parts.append(_path("interval", [f"M{shown(axis.at(spread[0]))} {shown(middle)}H{shown(axis.at(spread[1]))}"]))
    parts.append(_path("dots", [f"M{shown(at)} {shown(middle)}h0" for at in sorted(set(map(_tenth, dots)))]))
    return tag("svg", *parts, class_="strip", viewBox=f"0 0 {WIDTH} {HEIGHT}", aria_hidden="true")


def _tenth(value: float) -> float:
    return round(value, 1)


def _path(class_: str, pieces: Sequence[str]) -> Html:
    return tag("path", class_=class_, d="".join(pieces))
