"""The evidence of each check as small figures: a strip that shows the number against its threshold, and the layers.

Everything drawn is in the records, or a check's own pure function of them; nothing is judged again.
"""

import math
import statistics
from collections.abc import Callable, Mapping, Sequence
from itertools import pairwise
from typing import NamedTuple

from walkback.checks import Finding, Thresholds
from walkback.checks.coverage import clears, cover, covered
from walkback.checks.depth import Margin, margin
from walkback.checks.finding import known
from walkback.checks.reference import chord
from walkback.checks.scale import growth
from walkback.records import Baseline, BaselineName, Evidence, Moment, NullRecord
from walkback.report.page.markup import Html, clip, num, plain, tag
from walkback.report.page.material import Style, Subject
from walkback.report.page.svg import (
    BOTTOM,
    LEFT,
    RIGHT,
    TOP,
    WIDTH,
    Axis,
    Chart,
    Row,
    drawable,
    line,
    mark,
    polyline,
    strip,
)
from walkback.report.page.words import BASELINES, CHECKS

HEIGHT = 176
BESIDE: Mapping[BaselineName, str] = {"frozen_bp": "over bp's frozen net", "shallow": "over the shallow net"}
ENDS = (8.0, WIDTH - 10.0)  # of a strip's axis


class Figure(NamedTuple):
    """A figure and its caption. Without a drawing the caption says why there is none."""

    svg: Html | None
    caption: str


def figures(finding: Finding, subject: Subject, style: Style, thresholds: Thresholds) -> list[Figure]:
    """The figures of one finding."""
    if finding.check == "scale":
        drawn = _scale(finding, subject, style)
    else:
        draw = {"reference": _reference, "depth": _depth, "coverage": _coverage}[finding.check]
        drawn = draw(finding, subject, style, thresholds)
    return drawn if any(figure.svg is not None for figure in drawn) else drawn[:1]  # one reason is enough


# --- scale ----------------------------------------------------------------------------------------------------------


def _scale(finding: Finding, subject: Subject, style: Style) -> list[Figure]:
    words, evidence = CHECKS["scale"], subject.evidence
    seeds = [(name, growth(moment).low) for name, moment in finals(evidence)]
    told = ranged(finding, times, "at least " if finding.basis == "bound" else "")
    if finding.value is None and all(value is None for _, value in seeds):
        why = _why(evidence, "the norms of the hidden states are not known")
        return [Figure(None, f"No growth can be drawn: {why}.")]
    row = Row("largest growth", told, finding.value, finding.low, finding.high, seeds, *_drawn(style))
    limit = finding.threshold
    axis = Axis.over([limit, 1.0, finding.value, finding.low, finding.high, *(v for _, v in seeds)], *ENDS, log=True)
    said = f"Largest growth of the stream over one block: {told}. The limit is {limit:g}."
    figure = strip([row], axis, "growth, log scale", said, limit=(limit, f"limit {limit:g}"), words=times)
    return [Figure(figure, _dots(words.judged, evidence)), _growth(evidence, style, limit)]


def _growth(evidence: Evidence, style: Style, limit: float) -> Figure:
    """Growth by block. Between states that are not neighbours only an average is known: a hollow mark."""
    steps: dict[str, list[tuple[int, int, float]]] = {}  # from which state, to which, by how much a block
    for name, moment in finals(evidence):
        norms = [(layer, h) for layer, h in sorted(states(moment, "hidden").items()) if known(h) and h > 0]
        grown = [(i, j, (math.log(b) - math.log(a)) / (j - i)) for (i, a), (j, b) in pairwise(norms)]
        steps[name] = [(i, j, math.exp(log)) for i, j, log in grown if abs(log) < 500]  # beyond, floats end
    every = sorted({(i, j) for those in steps.values() for i, j, _ in those})
    if not every:
        return Figure(
            None, f"Growth by block cannot be drawn: {_why(evidence, 'the norms of the hidden states are not known')}."
        )
    blocks = evidence.blocks or max(j for _, j in every)
    y = Axis.over([limit, 1.0, *(v for those in steps.values() for _, _, v in those)], HEIGHT - BOTTOM, TOP, log=True)
    chart = _by_block(blocks, y, "block", "‖h_{l+1}‖ / ‖h_l‖, log scale")
    for shift, (name, those) in zip(_shifts(len(steps)), steps.items(), strict=True):
        points = [(chart.x.at((i + j - 1) / 2 + shift), y.at(value)) for i, j, value in those]
        marks = [
            mark(style.shape, *point, f"seed {name}, {_between(i, j)}: {times(value)}", "m" if j == i + 1 else "m open")
            for point, (i, j, value) in zip(points, those, strict=True)
        ]
        chart.add(tag("g", polyline(points, "seed-line"), *marks, class_=style.class_))
    chart.limit(limit, f"limit {limit:g}")
    partly = any(j > i + 1 for i, j in every)
    note = " Hollow: only the average over several blocks is known; one of them grew by at least so much."
    by_place = {
        _between(*place): [v for those in steps.values() for i, j, v in those if (i, j) == place] for place in every
    }
    said = f"Growth of the stream by block, on a logarithmic axis. {_listing(by_place, times)} The limit is {limit:g}."
    return Figure(chart.svg(said), CHECKS["scale"].layers + (note if partly else ""))


# --- reference ------------------------------------------------------------------------------------------------------


def _reference(finding: Finding, subject: Subject, style: Style, thresholds: Thresholds) -> list[Figure]:
    evidence, words = subject.evidence, CHECKS["reference"]
    published = "reference.floor" in finding.ranges
    limit = thresholds["reference.chord"]
    seeds = [(name, chord(moment)) for name, moment in finals(evidence)]
    there = [v for _, v in seeds if v is not None]
    value, low, high = (None, None, None) if published else (finding.value, finding.low, finding.high)
    drawn = []
    if there or value is not None:
        told = spread(there, num) if published or value is None else ranged(finding, num)
        axis = Axis.over([limit, value, low, high, *there], *ENDS, log=True)
        row = Row("chord", told, value, low, high, seeds, *_drawn(style))
        said = f"Chord between the deepest gradient's direction in float32 and float64: {told}. The limit is {limit:g}."
        aside = " It does not judge here: the published protocol goes by the floor below." if published else ""
        svg = strip([row], axis, "chord, log scale", said, limit=(limit, f"limit {limit:g}"))
        drawn.append(Figure(svg, _dots(words.judged, evidence) + aside))
    elif not published:
        drawn.append(
            Figure(None, f"No chord can be drawn: {_why(evidence, 'the precision of the gradient was not measured')}.")
        )
    return [*drawn, _gradients(evidence, style, thresholds, published)]


def _gradients(evidence: Evidence, style: Style, thresholds: Thresholds, judges: bool) -> Figure:
    batch, floor = thresholds["reference.batch"], thresholds["reference.floor"]
    by_seed = {name: (states(moment, "gradient", evidence.blocks), moment.reference_batch)
               for name, moment in finals(evidence)}  # fmt: skip
    stated = all(n is not None for norms, n in by_seed.values() if norms)
    sizes: dict[str, dict[int, float]] = {}
    for name, (norms, n) in by_seed.items():
        scaled = {layer: g * (n / batch if n is not None and stated else 1) for layer, g in norms.items() if known(g)}
        sizes[name] = {layer: g for layer, g in sorted(scaled.items()) if drawable(g, log=True)}
    values = [g for those in sizes.values() for g in those.values()]
    if not values:
        return Figure(
            None, f"‖g_l‖ by layer cannot be drawn: {_why(evidence, 'the norms of the gradient are not known')}."
        )
    last = max(evidence.blocks or 0, *(layer for those in sizes.values() for layer in those))
    y = Axis.over([*values, *([floor] if stated else [])], HEIGHT - BOTTOM, TOP, log=True)
    chart = _by_block(last + 1, y, "state", "‖g_l‖, log scale")
    for shift, (name, those) in zip(_shifts(len(sizes)), sizes.items(), strict=True):
        points = {layer: (chart.x.at(layer + shift), y.at(g)) for layer, g in those.items()}
        path = polyline([points.get(layer) for layer in range(last + 1)], "seed-line")
        marks = [mark(style.shape, *at, f"seed {name}, ‖g_{layer}‖: {num(those[layer])}")
                 for layer, at in points.items()]  # fmt: skip
        chart.add(tag("g", path, *marks, class_=style.class_))
    if stated:
        chart.limit(floor, f"published floor {floor:g}" + (", judges" if judges else ""))
    by_layer = {f"state {layer}": [those[layer] for those in sizes.values() if layer in those]
                for layer in range(last + 1)}  # fmt: skip
    floor_said = f"The published floor is {floor:g}." if stated else "The batch of these norms is not known."
    said = f"Norm of the true gradient at each state, on a logarithmic axis. {_listing(by_layer, num)} {floor_said}"
    caption = CHECKS["reference"].layers.format(batch=f"{batch:g}")
    if not stated:
        caption = "The size of the true gradient, ‖g_l‖, at a batch that is not known: it cannot be held against the "
        caption += "published floor."
    elif judges:
        caption = caption.partition(" Below")[0] + " By the published protocol the floor judges the mean of ‖g_L‖."
    return Figure(chart.svg(said), caption)


# --- depth ----------------------------------------------------------------------------------------------------------


def _depth(finding: Finding, subject: Subject, style: Style, thresholds: Thresholds) -> list[Figure]:
    evidence, required = subject.evidence, finding.threshold
    confidence = thresholds["depth.confidence"]
    published = subject.judgement.protocol == "published"
    accuracy = {name: moment.accuracy for name, moment in finals(evidence)}
    rows = [_own_row(finding, evidence, accuracy, style)]
    for key, words in BESIDE.items():
        other = evidence.baselines.get(key)
        if other is not None and not (key == "frozen_bp" and other == evidence.baselines.get("frozen")) and accuracy:
            rows.append(_margin_row(words, margin(accuracy, other, confidence), _gains(accuracy, other), style))
    bp, frozen_bp = evidence.baselines.get("bp"), evidence.baselines.get("frozen_bp")
    if bp is not None and frozen_bp is not None and bp.accuracy != accuracy:
        side = next(iter(bp.accuracy.values())) if bp.alone else bp.accuracy
        task = margin(side, frozen_bp, confidence) if isinstance(side, dict) or known(side) else None
        by_seed = _gains(bp.accuracy, frozen_bp) if not bp.alone else []
        rows.append(_margin_row("bp over its own frozen net", task, by_seed, Style("c-bp", "circle")))
    if published:
        rows = [row._replace(low=None, high=None) for row in rows]
    ends = [v for row in rows for v in (row.mean, row.low, row.high, *(g for _, g in row.seeds))]
    if not any(known(end) for end in ends):
        why = "no frozen net, and none of bp's, is known" if evidence.seeds else _why(evidence, "")
        return [Figure(None, f"No margin can be drawn: {why}."), _accuracies(subject, accuracy, style)]
    axis = Axis.over([100 * required, 0.0, *ends], *ENDS)
    said = "Accuracy gained, in percentage points. " + " ".join(f"{row.name}: {row.told}." for row in rows)
    said += f" {100 * required:+g} points are required."
    limit = (100 * required, f"required {100 * required:+g}")
    svg = strip(rows, axis, "percentage points", said, limit=limit, zero=True, words=lambda v: gain(v / 100))
    caption = CHECKS["depth"].judged.format(confidence=plain(f"{100 * confidence:g}%"))
    if published:
        caption = "The difference of two mean accuracies. The published protocol has no interval. The first row judges."
    return [Figure(svg, caption), _accuracies(subject, accuracy, style)]


def _own_row(finding: Finding, evidence: Evidence, accuracy: Mapping[str, float | None], style: Style) -> Row:
    """The margin that judges: as the finding has it, because that is what was judged."""
    frozen = evidence.baselines.get("frozen")
    by_seed = _gains(accuracy, frozen) if frozen is not None else []
    found = Margin(finding.value, finding.low, finding.high, 0, [])
    row = _margin_row("over its own frozen net", found, by_seed, style)
    if finding.value is None:
        why = "no frozen net is known" if frozen is None else "not known on every seed"
        return row._replace(told=why if evidence.seeds else "not known")
    return row


def _margin_row(name: str, m: Margin | None, seeds: list[tuple[str, float | None]], style: Style) -> Row:
    if m is None or m.mean is None:
        return Row(name, "not known on every seed", None, None, None, seeds, *_drawn(style))
    told = gain(m.mean)
    low, high = (None if v is None else 100 * v for v in (m.low, m.high))
    if m.low is not None and m.high is not None and m.low != m.high:
        told += f" ({gain(m.low)} to {gain(m.high)})"
    return Row(name, plain(told), 100 * m.mean, low, high, seeds, *_drawn(style))


def _gains(accuracy: Mapping[str, float | None], other: Baseline) -> list[tuple[str, float | None]]:
    """The margin of each seed, in points."""
    number = next(iter(other.accuracy.values())) if other.alone else None
    gained: list[tuple[str, float | None]] = []
    for name, mine in sorted(accuracy.items()):
        theirs = number if other.alone else other.accuracy.get(name)
        gained.append((name, 100 * (mine - theirs) if known(mine) and known(theirs) else None))
    return gained


def _accuracies(subject: Subject, accuracy: Mapping[str, float | None], style: Style) -> Figure:
    evidence = subject.evidence
    if not evidence.seeds and not evidence.baselines:
        return Figure(None, f"No accuracies can be drawn: {_why(evidence, 'none is known')}.")
    found = subject.judgement.accuracy
    told = share_said(found.mean, found.std, found.n)
    mean = found.mean if known(found.mean) else None
    name = clip(subject.judgement.name, 24)
    rows = [Row(name, told, mean, None, None, list(accuracy.items()), *_drawn(style))]
    for key, words in BASELINES.items():
        baseline = evidence.baselines.get(key)
        same = baseline is not None and dict(baseline.accuracy) == dict(accuracy)
        twin = key == "frozen_bp" and baseline is not None and baseline == evidence.baselines.get("frozen")
        if same or twin:
            continue
        bp_style = Style("c-bp", "circle")
        drawn = style if key == "frozen" else bp_style
        rows.append(_baseline_row(words, baseline, drawn._replace(shape="diamond" if key != "bp" else "circle")))
    values = [v for row in rows for v in (row.mean, *(a for _, a in row.seeds))]
    if not any(known(v) for v in values):
        return Figure(None, f"No accuracy can be drawn: {_why(evidence, 'none is known')}.")
    axis = Axis.over(values, *ENDS, least=0.05)
    said = "Accuracies. " + " ".join(f"{row.name}: {row.told}." for row in rows)
    return Figure(strip(rows, axis, "test accuracy", said), CHECKS["depth"].layers)


def _baseline_row(words: str, baseline: Baseline | None, style: Style) -> Row:
    if baseline is None:
        return Row(words, "not among the records")
    seeds = sorted(baseline.accuracy.items())
    values = [v for _, v in seeds if known(v)]
    if not values:
        return Row(words, "its accuracy is not known")
    mean = statistics.fmean(values)
    told = share_said(mean, statistics.stdev(values) if len(values) > 1 else None, len(values))
    if baseline.alone:
        told = f"{num(mean)}, typed in"
    return Row(words, told, mean, None, None, seeds, *_drawn(style))


# --- coverage -------------------------------------------------------------------------------------------------------


def _coverage(finding: Finding, subject: Subject, style: Style, thresholds: Thresholds) -> list[Figure]:
    words, evidence, band = CHECKS["coverage"], subject.evidence, thresholds["coverage.band"]
    layers = _cosines(evidence, style, band)
    if finding.low is None or finding.high is None:
        why = f"No share can be drawn: {_why(evidence, 'the cosine of every block, or its null, is not known')}."
        return [Figure(None, why), layers]
    covers = [(name, cover(moment, band)) for name, moment in finals(evidence)]
    seeds = [(name, 100 * c.sure if c.blocks else None) for name, c in covers]
    low, high = 100 * finding.low, 100 * finding.high
    told = plain(f"{low:.0f} %" if low == high else f"{low:.0f} to {high:.0f} %")
    value = None if finding.value is None else 100 * finding.value
    limit = 100 * finding.threshold
    row = Row("blocks that clear their null", told, value, low, high, seeds, *_drawn(style))
    axis = Axis(-4, 104, *ENDS)
    said = f"Share of blocks whose cosine clears its null: {told}. More than {limit:g} % is required."
    svg = strip([row], axis, "per cent of the blocks", said, limit=(limit, f"more than {limit:g} % required"),
                words=lambda v: f"{v:.0f} %")  # fmt: skip
    return [Figure(svg, _dots(words.judged, evidence)), layers]


def _cosines(evidence: Evidence, style: Style, band: float) -> Figure:
    """Cosines by block with the band of their null behind them, and Γ beside the last block."""
    columns: list[tuple[str, list[tuple[float, float | None, NullRecord | None, bool | None, str]]]] = []
    for name, moment in finals(evidence):
        nulls = moment.null or [None] * len(moment.cosine or [])
        cells = [
            (float(block), c.value if c is not None and c.status == "ok" else None, null, covered(c, null, band),
             f"block {block}")
            for block, (c, null) in enumerate(zip(moment.cosine or [], nulls, strict=False))
        ]  # fmt: skip
        blocks = len(cells) or evidence.blocks or 1
        cells.append(
            (blocks + 0.3, moment.gamma, moment.null_gamma, clears(moment.gamma, moment.null_gamma, band), "Γ")
        )
        columns.append((name, cells))
    values = [v for _, cells in columns for _, v, _, _, what in cells if what != "Γ" and v is not None and drawable(v)]
    if not values:
        return Figure(None, f"Cosines by block cannot be drawn: {_why(evidence, 'they are not known')}.")
    ends = [
        end for _, cells in columns for _, _, null, _, _ in cells
        if null is not None and known(null.mean) and known(null.std)
        for end in (null.mean - band * null.std, null.mean + band * null.std)
    ]  # fmt: skip
    gammas = [cells[-1][1] for _, cells in columns]
    y = Axis.over([0.0, *values, *gammas, *ends], HEIGHT - BOTTOM, TOP)
    count = max(len(cells) - 1 for _, cells in columns)
    x = Axis(-0.6, count + 0.9, LEFT, WIDTH - RIGHT)
    chart = Chart(x, y, HEIGHT, "block, and Γ", "cos(a_l, g_l)")
    chart.x_ticks([*_ticks(count), (count + 0.3, "Γ")])
    chart.add(line(x.at(count - 0.35), y.start, x.at(count - 0.35), y.end, "grid"))
    if y.low < 0 < y.high:
        chart.add(line(x.start, y.at(0), x.end, y.at(0), "zero"))
    shifts = _shifts(len(columns))
    half = max(1.2, min(4.0, 0.3 * (x.at(1) - x.at(0)) / len(columns)))
    drawn: list[Html] = []
    for shift, (name, cells) in zip(shifts, columns, strict=True):
        for place, value, null, clear, what in cells:
            at = x.at(place + shift)
            if null is not None and known(null.mean) and known(null.std):
                low, high = y.at(null.mean - band * null.std), y.at(null.mean + band * null.std)
                chart.add(tag("rect", class_="null", x=at - half, y=high, width=2 * half, height=max(0.5, low - high)))
            if value is None or not y.holds(value):
                continue
            side = {True: "above its null", False: "not above its null", None: "its null is not known"}[clear]
            drawn.append(mark(style.shape, at, y.at(value), f"seed {name}, {what}: {value:+.3f}, {side}",
                              "m" if clear else "m open"))  # fmt: skip
    chart.add(tag("g", *drawn, class_=style.class_))
    by_place = {what: [c[1] for _, cells in columns for c in cells if c[4] == what and known(c[1])]
                for what in [f"block {b}" for b in range(count)] + ["Γ"]}  # fmt: skip
    said = f"Cosine of credit and true gradient by block. {_listing(by_place, lambda v: f'{v:+.2f}')}"
    caption = CHECKS["coverage"].layers.format(band=f"{band:g}")
    if not ends:
        caption = "The cosine of credit and true gradient, cos(a_l, g_l), with Γ, their average, on the right. Hollow: "
        caption += "there is no null to hold them against."
    return Figure(chart.svg(said), caption)


# --- what they share ------------------------------------------------------------------------------------------------


def finals(evidence: Evidence) -> list[tuple[str, Moment]]:
    """The moment that is judged of every seed, by the seed's label."""
    return [(name, seed.final) for name, seed in zip(evidence.labels(), evidence.seeds, strict=True)]


def states(moment: Moment, kind: str, depth: int | None = None) -> dict[int, float | None]:
    """The norms of "hidden" or "gradient" by layer, as far as they are known; the deepest after all others."""
    norms: list[float | None] | None = getattr(moment, f"{kind}_norms")
    if norms is not None:
        return dict(enumerate(norms))
    at: dict[int, float | None] = dict(getattr(moment, f"{kind}_at") or {})
    deepest: float | None = getattr(moment, f"deepest_{kind}")
    if deepest is not None and (depth is not None or kind == "gradient"):
        at[depth if depth is not None else max(at, default=-1) + 1] = deepest
    return at


def deepest(moment: Moment, kind: str) -> float | None:
    """‖h_L‖ or ‖g_L‖."""
    norms: list[float | None] | None = getattr(moment, f"{kind}_norms")
    last: float | None = norms[-1] if norms else getattr(moment, f"deepest_{kind}")
    return last


def times(value: float) -> str:
    """A growth.

    >>> times(168.2), times(1.34)
    ('168×', '1.34×')
    """
    return f"{num(value)}×"


def gain(share: float) -> str:
    """A margin in points, with its sign.

    >>> gain(-0.024)
    '-2.4'
    """
    return f"{100 * share:+.1f}"


def share_said(mean: float | None, std: float | None, n: int) -> str:
    """An accuracy over seeds.

    >>> share_said(0.27, 0.007, 4), share_said(0.5, None, 1), share_said(None, None, 0)
    ('0.270 ± 0.007 (n = 4)', '0.500 (n = 1)', 'not known')
    """
    if not known(mean):
        return "not known"
    return f"{mean:.3f}" + (f" ± {std:.3f}" if known(std) else "") + f" (n = {n})"


def ranged(finding: Finding, words: Callable[[float], str], before: str = "") -> str:
    """A finding's value with the range it comes from."""
    if finding.value is None:
        return "not known on every seed"
    told = before + words(finding.value)
    if finding.low is not None and finding.high is not None and words(finding.low) != words(finding.high):
        told += f" ({words(finding.low)} to {words(finding.high)})"
    return told


def spread(values: Sequence[float], words: Callable[[float], str]) -> str:
    """One number, or from the least to the largest."""
    if not values:
        return "not known"
    low, high = words(min(values)), words(max(values))
    return low if low == high else f"{low} to {high}"


def _drawn(style: Style) -> tuple[str, str]:
    return style.shape, style.class_


def _listing(by_place: Mapping[str, Sequence[float | None]], words: Callable[[float], str], most: int = 16) -> str:
    """What a figure shows, place by place, for those who hear it."""
    told = [f"{place}: {spread([v for v in values if v is not None], words)}" for place, values in by_place.items()]
    return "; ".join(told[:most]) + (f"; and {len(told) - most} more" if len(told) > most else "") + "."


def _dots(caption: str, evidence: Evidence) -> str:
    """A caption that speaks of dots only where there are seeds to draw."""
    return caption if evidence.seeds else caption.partition(" One dot")[0]


def _why(evidence: Evidence, what: str) -> str:
    return what if evidence.seeds else "the records are not here, only what was judged of them"


def _between(i: int, j: int) -> str:
    """The blocks from one state to another."""
    return f"block {i}" if j == i + 1 else f"on average over blocks {i} to {j - 1}"


def _shifts(count: int) -> list[float]:
    """Where the marks of several seeds stand beside each other, in blocks."""
    gap = min(0.16, 0.5 / max(1, count))
    return [(place - (count - 1) / 2) * gap for place in range(count)]


def _ticks(count: int) -> list[tuple[float, str]]:
    every = math.ceil(count / 12)
    return [(float(block), str(block)) for block in range(0, count, every)]


def _by_block(count: int, y: Axis, x_label: str, y_label: str) -> Chart:
    chart = Chart(Axis(-0.6, count - 0.4, LEFT, WIDTH - RIGHT), y, HEIGHT, x_label, y_label)
    chart.x_ticks(_ticks(count))
    return chart
