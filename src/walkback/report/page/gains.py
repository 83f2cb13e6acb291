"""A kind of figure: accuracies paired by seed, the gain over a baseline and what bp gains."""

import statistics
from collections.abc import Mapping

from walkback.checks import Check, Finding, Thresholds
from walkback.checks.base import Gain
from walkback.checks.depth import CONFIDENCE
from walkback.checks.finding import known
from walkback.checks.margin import Margin, margin
from walkback.records import Baseline, Evidence
from walkback.report.case import Case
from walkback.report.page.drawing import BASELINES, ENDS, Figure, gain, share_said, why
from walkback.report.page.markup import num, plain
from walkback.report.page.svg import BP, Axis, Style, Track, strip


def gains(check: Check, kind: Gain, finding: Finding, case: Case, style: Style, thresholds: Thresholds) -> list[Figure]:
    """The gain over the baseline that judges, beside others; and the accuracies behind it."""
    evidence, required = case.evidence, finding.threshold
    confidence = thresholds[CONFIDENCE]
    published = case.judgement.protocol == "published"
    accuracy = case.accuracies
    rows = [_own_row(kind, finding, evidence, accuracy, style)]
    for key, words in kind.beside.items():
        other = evidence.baselines.get(key)
        if other is not None and other != evidence.baselines.get(kind.over) and accuracy:
            rows.append(_margin_row(words, margin(accuracy, other, confidence), gained(accuracy, other), style))
    bp, held_against = (evidence.baselines.get(key) for key in kind.task)
    if bp is not None and held_against is not None and bp.accuracy != accuracy:
        side = next(iter(bp.accuracy.values())) if bp.alone else bp.accuracy
        task = margin(side, held_against, confidence) if isinstance(side, dict) or known(side) else None
        by_seed = gained(bp.accuracy, held_against) if not bp.alone else []
        rows.append(_margin_row(kind.task_words, task, by_seed, BP))
    if published:
        rows = [row._replace(low=None, high=None) for row in rows]
    ends = [v for row in rows for v in (row.mean, row.low, row.high, *(g for _, g in row.seeds))]
    if not any(known(end) for end in ends):
        reason = why(evidence, f"{kind.absent}, and none of bp's")
        return [Figure(None, f"No margin can be drawn: {reason}."), _accuracies(check, kind, case, accuracy, style)]
    axis = Axis.over([100 * required, 0.0, *ends], *ENDS)
    said = "Accuracy gained, in percentage points. " + " ".join(f"{row.name}: {row.told}." for row in rows)
    said += f" {100 * required:+g} points are required."
    limit = (100 * required, f"required {100 * required:+g}")
    svg = strip(rows, axis, "percentage points", said, limit=limit, zero=True, words=lambda v: gain(v / 100))
    caption = check.judged.format(confidence=plain(f"{100 * confidence:g}%"))
    if published:
        caption = "The difference of two mean accuracies. The published protocol has no interval. The first row judges."
    return [Figure(svg, caption), _accuracies(check, kind, case, accuracy, style)]


def _own_row(
    kind: Gain, finding: Finding, evidence: Evidence, accuracy: Mapping[str, float | None], style: Style
) -> Track:
    """The margin that judges: as the finding has it, because that is what was judged."""
    other = evidence.baselines.get(kind.over)
    by_seed = gained(accuracy, other) if other is not None else []
    found = Margin(finding.value, finding.low, finding.high, 0, [])
    row = _margin_row(kind.over_words, found, by_seed, style)
    if finding.value is None:
        reason = kind.absent if other is None else "not known on every seed"
        return row._replace(told=reason if evidence.seeds else "not known")
    return row


def _margin_row(name: str, m: Margin | None, seeds: list[tuple[str, float | None]], style: Style) -> Track:
    if m is None or m.mean is None:
        return Track(name, "not known on every seed", None, None, None, seeds, style)
    told = gain(m.mean)
    low, high = (None if v is None else 100 * v for v in (m.low, m.high))
    if m.low is not None and m.high is not None and m.low != m.high:
        told += f" ({gain(m.low)} to {gain(m.high)})"
    return Track(name, plain(told), 100 * m.mean, low, high, seeds, style)


def gained(accuracy: Mapping[str, float | None], other: Baseline) -> list[tuple[str, float | None]]:
    """The margin of each seed, in points."""
    number = next(iter(other.accuracy.values())) if other.alone else None
    found: list[tuple[str, float | None]] = []
    for name, mine in sorted(accuracy.items()):
        theirs = number if other.alone else other.accuracy.get(name)
        found.append((name, 100 * (mine - theirs) if known(mine) and known(theirs) else None))
    return found


def _accuracies(check: Check, kind: Gain, case: Case, accuracy: Mapping[str, float | None], style: Style) -> Figure:
    evidence = case.evidence
    if not evidence.seeds and not evidence.baselines:
        return Figure(None, f"No accuracies can be drawn: {why(evidence, 'none is known')}.")
    found = case.judgement.accuracy
    told = share_said(found.mean, found.std, found.n)
    mean = found.mean if known(found.mean) else None
    name = case.name
    rows = [Track(name, told, mean, None, None, list(accuracy.items()), style)]
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
    said = "Accuracies. " + " ".join(f"{row.name}: {row.told}." for row in rows)
    return Figure(strip(rows, axis, "test accuracy", said), check.layers)


def _baseline_row(words: str, baseline: Baseline | None, style: Style) -> Track:
    if baseline is None:
        return Track(words, "not among the records")
    seeds = sorted(baseline.accuracy.items())
    values = [v for _, v in seeds if known(v)]
    if not values:
        return Track(words, "its accuracy is not known")
    mean = statistics.fmean(values)
    told = share_said(mean, statistics.stdev(values) if len(values) > 1 else None, len(values))
    if baseline.alone:
        told = f"{num(mean)}, typed in"
    return Track(words, told, mean, None, None, seeds, style)
