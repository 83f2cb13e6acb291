"""A kind of figure: accuracies paired by seed, the gain over each baseline and what bp gains."""

import statistics
from collections.abc import Iterator, Mapping

from walkback.checks import Check, Finding, Interval, Thresholds
from walkback.checks.base import Gain
from walkback.checks.depth import CONFIDENCE, TASK
from walkback.checks.finding import known
from walkback.checks.paired_gain import gain_over
from walkback.records import Baseline, BaselineName, Evidence
from walkback.report.case import Case
from walkback.report.page.drawing import BASELINES, ENDS, Figure, gain, share_said, why
from walkback.report.page.markup import num, plain
from walkback.report.page.svg import BP, Axis, Style, Track, strip

Seeds = list[tuple[str, float | None]]


def gains(check: Check, kind: Gain, finding: Finding, case: Case, style: Style, thresholds: Thresholds) -> list[Figure]:
    """The gains over the baselines that judge, beside the others, as they were judged; and the accuracies behind it."""
    evidence, required = case.evidence, finding.threshold
    confidence = thresholds[CONFIDENCE]
    published = case.judgement.protocol == "published"
    rows = [*_rows(kind, finding, evidence, style, published)]
    accuracies = _accuracies(check, kind, case, style)
    ends = [v for row in rows for v in (row.mean, row.low, row.high, *(g for _, g in row.seeds))]
    if not any(known(end) for end in ends):
        reason = why(evidence, f"{kind.absent}, and none of bp's")
        return [Figure(None, f"No gain can be drawn: {reason}."), accuracies]
    axis = Axis.over([100 * required, 0.0, *ends], *ENDS)
    spoken = "Accuracy gained, in percentage points. " + " ".join(f"{row.name}: {row.numbers}." for row in rows)
    spoken += f" {100 * required:+g} points are required."
    limit = (100 * required, f"required {100 * required:+g}")
    svg = strip(rows, axis, "percentage points", spoken, limit=limit, zero=True, words=lambda v: gain(v / 100))
    caption = check.judged.format(confidence=plain(f"{100 * confidence:g}%"))
    if published:
        caption = "The difference of two mean accuracies. The published protocol has no interval. The first row judges."
    return [Figure(svg, caption), accuracies]


def _rows(kind: Gain, finding: Finding, evidence: Evidence, style: Style, published: bool) -> Iterator[Track]:
    """The subject over each baseline, then bp over the same. The intervals are those that were judged by."""
    baselines, bp = evidence.baselines, evidence.baselines.get("bp")
    judging: list[tuple[BaselineName, BaselineName, str, str]] = [
        (kind.over, kind.task[1], kind.over_words, kind.task_words)
    ]
    if not published:
        judging += [(name, name, words, f"bp {words}") for name, words in kind.beside.items()]
    own = {name: _seeds_over(evidence, name) for name, *_ in judging}
    for name, _, words, _ in judging:
        found = finding.parts.get(name, Interval(value=finding.value) if published else Interval())
        if name in (kind.over, *TASK) or (found.value is not None and baselines.get(name) != baselines.get(kind.over)):
            lacking = "not known on every seed" if name in baselines else f"no {name} net is known"
            row = _row(words, found, own[name], style, lacking if evidence.seeds else "not known")
            yield row._replace(numbers=kind.absent) if row.mean is None and name == kind.over not in baselines else row
    for name, against, _, words in judging:
        seeds = _seeds_over(evidence, against, of_bp=True)
        found = finding.parts.get(f"bp over {name}", Interval())
        if published and bp is not None and against in baselines:
            values = [value for _, value in seeds if value is not None]
            found = Interval(value=statistics.fmean(values) / 100 if values else None)
        same = found == finding.parts.get(name, Interval()) if not evidence.seeds else seeds == own[name]
        if found.value is not None and not same:  # bp's own figure has its rows once
            yield _row(words, found, seeds, BP)


def _seeds_over(evidence: Evidence, name: BaselineName, of_bp: bool = False) -> Seeds:
    """The gain of each seed of the subject, or of bp, in points; nothing where one of the two is not known."""
    found = gain_over(evidence, name, of="bp" if of_bp else None)
    return [(seed, 100 * value) for seed, value in sorted(found.gains.items())]


def _row(name: str, found: Interval, seeds: Seeds, style: Style, lacking: str = "") -> Track:
    if found.value is None:
        return Track(name, lacking or "not known on every seed", None, None, None, seeds, style)
    numbers = gain(found.value)
    low, high = (None if v is None else 100 * v for v in (found.low, found.high))
    if found.low is not None and found.high is not None and found.low != found.high:
        numbers += f" ({gain(found.low)} to {gain(found.high)})"
    return Track(name, plain(numbers), 100 * found.value, low, high, seeds, style)


def seeds_of_value(kind: Gain, finding: Finding, evidence: Evidence) -> Mapping[str, float | None]:
    """The gains by seed behind the finding's value: over that baseline which gave it."""
    names: list[BaselineName] = [kind.over, *kind.beside]
    values = [name for name in names if name in finding.parts and finding.parts[name].value == finding.value]
    seeds = _seeds_over(evidence, values[0] if values else kind.over)
    return {seed: None if value is None else value / 100 for seed, value in seeds}


def _accuracies(check: Check, kind: Gain, case: Case, style: Style) -> Figure:
    evidence, accuracy = case.evidence, case.accuracies
    if not evidence.seeds and not evidence.baselines:
        return Figure(None, f"No accuracies can be drawn: {why(evidence, 'none is known')}.")
    found = case.judgement.accuracy
    numbers = share_said(found.mean, found.std, found.n)
    mean = found.mean if known(found.mean) else None
    rows = [Track(case.name, numbers, mean, None, None, list(accuracy.items()), style)]
    for key in kind.shown:
        words, baseline = BASELINES[key], evidence.baselines.get(key)
        same = baseline is not None and dict(baseline.accuracy) == dict(accuracy)
        twin = key != kind.over and baseline is not None and baseline == evidence.baselines.get(kind.over)
        if same or twin:
            continue
        own = style if key == kind.over else BP
        rows.append(_baseline_row(words, baseline, own._replace(shape="diamond" if key != "bp" else "circle")))
    values = [v for row in rows for v in (row.mean, *(a for _, a in row.seeds))]
    if not any(known(v) for v in values):
        return Figure(None, f"No accuracy can be drawn: {why(evidence, 'none is known')}.")
    axis = Axis.over(values, *ENDS, least=0.05)
    spoken = "Accuracies. " + " ".join(f"{row.name}: {row.numbers}." for row in rows)
    return Figure(strip(rows, axis, "test accuracy", spoken), check.layers)


def _baseline_row(words: str, baseline: Baseline | None, style: Style) -> Track:
    if baseline is None:
        return Track(words, "not among the records")
    seeds = sorted(baseline.accuracy.items())
    values = [v for _, v in seeds if known(v)]
    if not values:
        return Track(words, "its accuracy is not known")
    mean = statistics.fmean(values)
    numbers = share_said(mean, statistics.stdev(values) if len(values) > 1 else None, len(values))
    if baseline.alone:
        numbers = f"{num(mean)}, typed in"
    return Track(words, numbers, mean, None, None, seeds, style)
