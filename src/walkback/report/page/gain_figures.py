"""Figures of accuracies: the gains that a check judges, and on the first screen what is reported and what is gained."""

import statistics
from collections.abc import Iterator, Mapping, Sequence

from markupsafe import Markup

from walkback.checks import Check, Finding, Interval, Thresholds, check_named
from walkback.checks.base import Gain
from walkback.checks.depth import CONFIDENCE, TASK
from walkback.checks.finding import known
from walkback.checks.paired_gain import gain_over
from walkback.records import BaselineName, Evidence
from walkback.report.answers import asked
from walkback.report.case import Case, gammas_of
from walkback.report.inks import INKS, Ink
from walkback.report.page import chart
from walkback.report.page.markup import gain, num, plain, ranged, share_words, shown, tag

MANY = 12  # more subjects than that are folded
BASELINES: Mapping[BaselineName, str] = {
    "frozen": "its own frozen net", "frozen_bp": "the frozen net that bp trained", "bp": "bp with every block trained",
    "shallow": "the shallow net", "half": "its own net with the lower half frozen",
    "half_bp": "bp with the lower half frozen",
}  # fmt: skip
CELL = 92, 12  # how large a cell's strip is
Seeds = list[tuple[str, float | None]]

# --- accuracies paired by seed: the gain over each baseline, and what bp gains ----------------------------------------


def seeds_over(evidence: Evidence, name: BaselineName, of_bp: bool = False) -> Seeds:
    """The gain of each seed of the subject, or of bp, in points; nothing where one of the two is not known."""
    found = gain_over(evidence, name, of="bp" if of_bp else None)
    return [(seed, 100 * value) for seed, value in sorted(found.gains.items())]


def seed_values(check: Check, finding: Finding, case: Case) -> list[float]:
    """The value of each seed that has one: by the check's own function, or over that baseline which gave the value."""
    if not isinstance(check.figure, Gain):
        return [value for value in check.by_seed(case.evidence).values() if known(value)]
    over: list[BaselineName] = [check.figure.over, *check.figure.beside]
    judged = [name for name in over if name in finding.parts and finding.parts[name].value == finding.value]
    seeds = seeds_over(case.evidence, judged[0] if judged else over[0])
    return [value / 100 for _, value in seeds if known(value)]


def gains(check: Check, kind: Gain, finding: Finding, case: Case, thresholds: Thresholds) -> list[chart.Figure]:
    """The gains over the baselines that judge, beside the others, as they were judged; and the accuracies behind it."""
    evidence = case.evidence
    published = case.judgement.protocol == "published"
    rows = [*_gain_rows(kind, finding, case, published)]
    accuracies = _accuracies(kind, case)
    if not any(known(end) for row in rows for end in row.drawn()):
        return [chart.absent("No gain can", evidence, f"{kind.absent}, and none of bp's"), accuracies]
    limit = (100 * finding.threshold, f"required {100 * finding.threshold:+g}")
    svg = chart.strip(rows, "percentage points", limit=limit, also=[0.0], words=gain)
    caption = check.judged.format(confidence=plain(f"{100 * thresholds[CONFIDENCE]:g}%"))
    if published:
        caption = "The difference of two mean accuracies. The published protocol has no interval. The first row judges."
    return [chart.Figure(svg, caption), accuracies]


def _gain_rows(kind: Gain, finding: Finding, case: Case, published: bool) -> Iterator[chart.Track]:
    """The subject over each baseline, then bp over the same. The intervals are those that were judged by."""
    evidence, baselines, parts = case.evidence, case.evidence.baselines, finding.parts
    beside = {} if published else kind.beside
    pairs = {kind.over: (kind.task[1], kind.over_words, kind.task_words)}
    pairs |= {name: (name, words, f"bp {words}") for name, words in beside.items()}
    own = {name: seeds_over(evidence, name) for name in pairs}

    every: list[tuple[str, Interval, Seeds, Ink, str]] = []
    for name, (_, words, _) in pairs.items():
        found = parts.get(name, Interval(value=finding.value) if published else Interval())
        if name in (kind.over, *TASK) or (found.value is not None and baselines.get(name) != baselines.get(kind.over)):
            lacking = "not known on every seed" if name in baselines else f"no {name} net is known"
            lacking = lacking if evidence.seeds else "not known"
            absent = name == kind.over and name not in baselines
            every.append((words, found, own[name], chart.ink_of(case), kind.absent if absent else lacking))
    for name, (against, _, words) in pairs.items():
        seeds = seeds_over(evidence, against, of_bp=True)
        found = parts.get(f"bp over {name}", Interval())
        if published and "bp" in baselines and against in baselines:
            values = [value for _, value in seeds if value is not None]
            found = Interval(value=statistics.fmean(values) / 100 if values else None)
        same = seeds == own[name] if evidence.seeds else found == parts.get(name, Interval())
        if found.value is not None and not same:  # bp's own figure has its rows once
            every.append((words, found, seeds, INKS["bp"], ""))
    for words, found, seeds, ink, lacking in every:
        value, low, high = (v and 100 * v for v in (found.value, found.low, found.high))
        numbers = lacking if value is None else plain(ranged(value, low, high, gain))
        yield chart.Track(words, numbers, value, low, high, seeds, ink)


def _accuracies(kind: Gain, case: Case) -> chart.Figure:
    evidence, mine, found = case.evidence, case.accuracies, case.judgement.accuracy
    if not evidence.seeds and not evidence.baselines:
        return chart.absent("No accuracies can", evidence, "none is known")
    mean = found.mean if known(found.mean) else None
    numbers = share_words(found.mean, found.std, found.n)
    rows = [chart.Track(case.name, numbers, mean, seeds=list(mine.items()), ink=chart.ink_of(case))]
    for name in kind.shown:
        baseline, shown = evidence.baselines.get(name), chart.Track(BASELINES[name], "not among the records")
        if baseline is not None:
            twin = name != kind.over and baseline == evidence.baselines.get(kind.over)
            if twin or dict(baseline.accuracy) == dict(mine):
                continue
            seeds = sorted(baseline.accuracy.items())
            values = [v for _, v in seeds if known(v)]
            if not values:
                shown = shown._replace(numbers="its accuracy is not known")
            else:
                mean, std = statistics.fmean(values), statistics.stdev(values) if len(values) > 1 else None
                numbers = f"{num(mean)}, typed in" if baseline.alone else share_words(mean, std, len(values))
                ink = chart.ink_of(case) if name == kind.over else INKS["bp"]
                shown = chart.Track(shown.name, numbers, mean, seeds=seeds, ink=ink, marker="" if name == "bp" else "D")
        rows.append(shown)
    if not any(known(v) for row in rows for v in row.drawn()):
        return chart.absent("No accuracy can", evidence, "none is known")
    caption = "The accuracies behind it: the mean, and one dot per seed."
    return chart.Figure(chart.strip(rows, "test accuracy", least=0.05), caption)


# --- the first screen: what is usually reported, what the audit adds, every check at a glance -------------------------


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
    spoken = _first([f"{case.name}: Γ {g:.2f}, accuracy {a:.2f}" for case, g, a in points])
    return chart.Figure(
        plot.svg(f"Accuracy against Γ. {spoken}."), "Usually reported: accuracy against Γ, means over the seeds."
    )


def _first(words: Sequence[str]) -> str:
    """Some of them, and how many more there are."""
    return "; ".join([*words[:MANY], *([f"and {len(words) - MANY} more"] if len(words) > MANY else [])])


def added(cases: Sequence[Case]) -> chart.Figure:
    """The gains over the frozen and over the shallow net, subject by subject, in their order."""
    ours = any(case.judgement.protocol == "ours" for case in cases)
    over: Sequence[BaselineName] = [*TASK] if ours else ["frozen"]
    every = [(case, name, case.gain_over(name)) for case in cases for name in over]
    found = [(case, name, f, 100 * f.value) for case, name, f in every if f is not None and known(f.value)]
    if not found:
        both, one = "gains over the frozen and the shallow net: neither", "gain over the frozen net: no frozen"
        return chart.Figure(None, f"What the audit adds, the {both if ours else one} net is known.")
    required = 100 * found[0][2].threshold
    limit = (required, plain(f"{required:+g} required"))
    caption = "What the audit adds: accuracy gained over the same net with its blocks left at random init"
    caption += ", and over the net without blocks." if ours else "."
    if len(found) <= MANY:
        tracks = [
            chart.Track(f"{case.name} over {name}" if ours else case.name, plain(gain(value)), value,
                  f.low and 100 * f.low, f.high and 100 * f.high, seeds_over(case.evidence, name), chart.ink_of(case))
            for case, name, f, value in found
        ]  # fmt: skip
        return chart.Figure(chart.strip(tracks, "percentage points", limit=limit, also=[0.0], words=gain), caption)
    # Many gains are one cloud, the smallest at the bottom.
    y = chart.Axis(-1, len(found), *chart.UP)
    x = chart.Axis.over([required, 0.0, *(value for *_, value in found)], *chart.ACROSS)
    plot = chart.Chart(x, y, "percentage points", "", x.ticks(), y_ticks=False)
    for at, class_ in ((0.0, "zero"), (required, "limit")):
        plot.parts.append(chart.line(x.at(at), y.start, x.at(at), y.end, class_))
    plot.above(f"┆ {limit[1]}")
    for place, (case, name, _, value) in enumerate(sorted(found, key=lambda one: one[3])):
        drawn = chart.mark(
            chart.ink_of(case).marker, x.at(value), y.at(place), f"{case.name} over {name}: {gain(value)}", r=3.2
        )
        plot.parts.append(chart.inked(chart.ink_of(case), drawn))
    spoken = _first([f"{case.name} over {name}: {gain(value)}" for case, name, _, value in found])
    return chart.Figure(
        plot.svg(f"Accuracy gained, in points. {spoken}."), f"{caption} One mark for each gain, sorted."
    )


Cells = Sequence[tuple[Finding, Markup | None] | None]  # of one subject; None: that check was not put to it


def heat_map(cases: Sequence[Case]) -> tuple[list[Check], list[Cells]]:
    """The checks, and for each case a cell for each of them: the finding, and its seeds against the limit."""
    checks = [check_named(name) for name in asked([case.judgement for case in cases])]
    columns: list[Cells] = []
    for check in checks:
        found = [next((f for f in case.judgement.findings if f.check == check.name), None) for case in cases]
        dots = [seed_values(check, f, case) if f else [] for f, case in zip(found, cases, strict=True)]
        log = check.form in ("times", "size")
        values = [v for f in found if f is not None for v in (f.threshold, f.value, f.low, f.high)]
        fit = [v for v in [*values, *(v for each in dots for v in each)] if v is not None and chart.drawable(v, log)]
        axis = chart.Axis.over(fit, 2, CELL[0] - 2, log=log)
        if check.form == "share":
            axis = chart.Axis(-0.04, 1.04, 2, CELL[0] - 2)
        columns.append(
            [None if f is None else (f, _cell(check, f, of, axis)) for f, of in zip(found, dots, strict=True)]
        )
    return checks, [list(row) for row in zip(*columns, strict=True)] or [[] for _ in cases]


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
