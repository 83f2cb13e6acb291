"""The evidence of each check as small figures: a strip that shows the number against its threshold, and the layers.

What is drawn goes by the kind of figure that a check declares. Everything drawn is in the records, or a check's own
pure function of them; nothing is judged again.
"""

import math
from collections.abc import Callable
from itertools import pairwise

from walkback.checks import Check, Finding, Interval, Thresholds, check_named
from walkback.checks.base import Gain
from walkback.checks.finding import known
from walkback.checks.reference import BATCH, CHORD, FLOOR
from walkback.checks.scale import norms_of, over_init
from walkback.report.case import Case
from walkback.report.page.cosines import cosines
from walkback.report.page.drawing import (
    ENDS,
    UP,
    Figure,
    by_block,
    dots,
    gain,
    listing,
    ranged,
    shifts,
    spread,
    states,
    times,
    why,
)
from walkback.report.page.gains import gains
from walkback.report.page.markup import num, plain, tag
from walkback.report.page.svg import Axis, Style, Track, drawable, line, mark, polyline, strip


def figures(finding: Finding, case: Case, style: Style, thresholds: Thresholds) -> list[Figure]:
    """The figures of one finding, by the kind that its check declares."""
    check = check_named(finding.check)
    if isinstance(check.figure, Gain):
        found = gains(check, check.figure, finding, case, style, thresholds)
    elif check.figure is None:
        found = [_against(check, finding, case, style, thresholds), *_parts(finding, style)]
    else:
        draw = {"hidden norms": _hidden, "gradient norms": _gradient, "cosines": cosines}[check.figure]
        found = draw(check, finding, case, style, thresholds)
    return found if any(figure.svg is not None for figure in found) else found[:1]  # one reason is enough


# --- any check: its value against its threshold ---------------------------------------------------------------------


def _against(check: Check, finding: Finding, case: Case, style: Style, thresholds: Thresholds) -> Figure:
    """The value with its range, and the value of each seed where it has one."""
    factor, words = _written(check)
    seeds = [(name, None if v is None else factor * v) for name, v in check.by_seed(case.evidence, thresholds).items()]
    value, low, high = (None if v is None else factor * v for v in (finding.value, finding.low, finding.high))
    limit, unit = factor * finding.threshold, {"points": "percentage points", "share": "per cent"}.get(check.form, "")
    numbers = [v for v in (value, low, high, *(v for _, v in seeds)) if v is not None]
    log = check.form in ("times", "size") and all(v > 0 for v in [limit, *numbers])
    if not any(drawable(v, log) for v in numbers):
        return Figure(None, f"Nothing can be drawn: {why(case.evidence, 'there is no number')}.")
    label = "not known on every seed" if value is None else words(value)
    if low is not None and high is not None and words(low) != words(high):
        label += f" ({words(low)} to {words(high)})"
    axis = Axis.over([limit, *numbers], *ENDS, log=log)
    title = " ".join(filter(None, (unit or check.heading, "(log scale)" if log else "")))
    row = Track(check.name, plain(label), value, low, high, seeds, style)
    limit_words = f"threshold {words(limit)}"
    svg = strip([row], axis, title, f"{check.name}: {label}. {limit_words}.", limit=(limit, limit_words),
                zero=not log, words=words)  # fmt: skip
    bar = "the interval of the mean" if check.spread == "mean" else "the range over the seeds"
    caption = check.judged or f"{_sentence(check.quantity.get('ours', check.name))} The bar is {bar}."
    return Figure(svg, dots(caption, case.evidence))


def _parts(finding: Finding, style: Style) -> list[Figure]:
    """The intervals that a share of the blocks rests on, block by block."""
    parts = [part for part in finding.parts.values() if part.value is not None and drawable(part.value)]
    if not parts:
        return []
    y = Axis.over([0.0, *(end for part in parts for end in (part.value, part.low, part.high))], *UP)
    chart = by_block(len(parts), y, "block", "with its interval")
    if y.low < 0 < y.high:
        chart.add(line(chart.x.start, y.at(0), chart.x.end, y.at(0), "zero"))
    for place, (name, part) in enumerate(finding.parts.items()):
        at, drawn = chart.x.at(place), []
        if part.low is not None and part.high is not None and y.holds(part.low) and y.holds(part.high):
            drawn.append(line(at, y.at(part.low), at, y.at(part.high), "interval"))
        if part.value is not None:
            drawn.append(mark(style.shape, at, y.at(part.value), f"{name}: {_interval_words(part)}"))
        chart.add(tag("g", *drawn, class_=style.class_))
    spoken = "; ".join(f"{name}: {_interval_words(part)}" for name, part in list(finding.parts.items())[:16])
    return [Figure(chart.svg(f"{spoken}."), "What the share counts: a block counts if its interval is above 0.")]


def _interval_words(part: Interval) -> str:
    ends = "" if part.low is None or part.high is None else f" ({part.low:+.2f} to {part.high:+.2f})"
    return f"{part.value or 0.0:+.2f}{ends}"


def _written(check: Check) -> tuple[float, Callable[[float], str]]:
    """By what its numbers are multiplied before they are drawn, and how they are then written."""
    if check.form == "points":
        return 100, lambda value: gain(value / 100)
    if check.form == "share":
        return 100, lambda value: f"{value:.0f} %"
    return 1, times if check.form == "times" else num


def _sentence(words: str) -> str:
    return f"{words[:1].upper()}{words[1:]}."


LARGEST = "Largest growth of the stream over one block"

# --- the norms of the hidden states ----------------------------------------------------------------------------------


def _hidden(check: Check, finding: Finding, case: Case, style: Style, thresholds: Thresholds) -> list[Figure]:
    evidence = case.evidence
    seeds = [*check.by_seed(evidence, thresholds).items()]
    numbers = ranged(finding, times, "at least " if finding.basis == "bound" else "")
    if finding.value is None and all(value is None for _, value in seeds):
        reason = why(evidence, "the norms of the hidden states are not known")
        return [Figure(None, f"No growth can be drawn: {reason}.")]
    row = Track("largest growth", numbers, finding.value, finding.low, finding.high, seeds, style)
    limit = finding.threshold
    axis = Axis.over([limit, 1.0, finding.value, finding.low, finding.high, *(v for _, v in seeds)], *ENDS, log=True)
    what = "Largest growth over one block, over that at init" if evidence.residual is False else LARGEST
    spoken = f"{what}: {numbers}. The limit is {limit:g}."
    judged, layers = check.captions(finding)
    figure = strip([row], axis, "growth, log scale", spoken, limit=(limit, f"limit {limit:g}"), words=times)
    return [Figure(figure, dots(judged, evidence)), _growth(layers, case, style, limit)]


def _growth(caption: str, case: Case, style: Style, limit: float) -> Figure:
    """Growth by block. Between states that are not neighbours only an average is known: a hollow mark."""
    evidence = case.evidence
    steps: dict[str, list[tuple[int, int, float]]] = {}  # from which state, to which, by how much a block
    starts = {name: seed.init for name, seed in evidence.labelled()}
    for name, moment in case.by_seed:
        norms = list((norms_of(moment) if evidence.residual is not False else over_init(moment, starts[name])).items())
        grown = [(i, j, (math.log(b) - math.log(a)) / (j - i)) for (i, a), (j, b) in pairwise(norms)]
        steps[name] = [(i, j, math.exp(log)) for i, j, log in grown if abs(log) < 500]  # beyond, floats end
    every = sorted({(i, j) for found in steps.values() for i, j, _ in found})
    if not every:
        return Figure(
            None, f"Growth by block cannot be drawn: {why(evidence, 'the norms of the hidden states are not known')}."
        )
    blocks = evidence.blocks or max(j for _, j in every)
    y = Axis.over([limit, 1.0, *(v for found in steps.values() for _, _, v in found)], *UP, log=True)
    over = " over that at init" if evidence.residual is False else ""
    chart = by_block(blocks, y, "block", f"‖h_{{l+1}}‖ / ‖h_l‖{over}, log scale")
    for shift, (name, found) in zip(shifts(len(steps)), steps.items(), strict=True):
        points = [(chart.x.at((i + j - 1) / 2 + shift), y.at(value)) for i, j, value in found]
        marks = [
            mark(style.shape, *point, f"seed {name}, {_between(i, j)}: {times(value)}", "m" if j == i + 1 else "m open")
            for point, (i, j, value) in zip(points, found, strict=True)
        ]
        chart.add(tag("g", polyline(points, "seed-line"), *marks, class_=style.class_))
    chart.limit(limit, f"limit {limit:g}")
    partly = any(j > i + 1 for i, j in every)
    note = " Hollow: only the average over several blocks is known; one of them grew by at least so much."
    by_place = {
        _between(*place): [v for found in steps.values() for i, j, v in found if (i, j) == place] for place in every
    }
    spoken = f"Growth{over or ' of the stream'} by block, on a logarithmic axis. {listing(by_place, times)} "
    spoken += f"The limit is {limit:g}."
    return Figure(chart.svg(spoken), caption + (note if partly else ""))


# --- the norms of the gradient, and how precise it is ----------------------------------------------------------------


def _gradient(check: Check, finding: Finding, case: Case, style: Style, thresholds: Thresholds) -> list[Figure]:
    evidence, limit = case.evidence, thresholds[CHORD]
    published = FLOOR in finding.ranges
    seeds = [*check.by_seed(evidence, thresholds).items()]
    values = [v for _, v in seeds if v is not None]
    value, low, high = (None, None, None) if published else (finding.value, finding.low, finding.high)
    parts = []
    if values or value is not None:
        numbers = spread(values, num) if published or value is None else ranged(finding, num)
        axis = Axis.over([limit, value, low, high, *values], *ENDS, log=True)
        row = Track("chord", numbers, value, low, high, seeds, style)
        spoken = (
            f"Chord between the deepest gradient's direction as computed and in float64: {numbers}. Limit {limit:g}."
        )
        aside = " It does not judge here: the published protocol goes by the floor below." if published else ""
        svg = strip([row], axis, "chord, log scale", spoken, limit=(limit, f"limit {limit:g}"))
        parts.append(Figure(svg, dots(check.judged, evidence) + aside))
    elif not published:
        parts.append(
            Figure(None, f"No chord can be drawn: {why(evidence, 'the precision of the gradient was not measured')}.")
        )
    return [*parts, _gradients(check, case, style, thresholds, published)]


def _gradients(check: Check, case: Case, style: Style, thresholds: Thresholds, judges: bool) -> Figure:
    evidence, batch, floor = case.evidence, thresholds[BATCH], thresholds[FLOOR]
    by_seed = {name: (states(moment, "gradient", evidence.blocks), moment.reference_batch)
               for name, moment in case.by_seed}  # fmt: skip
    stated = all(n is not None for norms, n in by_seed.values() if norms)
    sizes: dict[str, dict[int, float]] = {}
    for name, (norms, n) in by_seed.items():
        scaled = {layer: g * (n / batch if n is not None and stated else 1) for layer, g in norms.items() if known(g)}
        sizes[name] = {layer: g for layer, g in sorted(scaled.items()) if drawable(g, log=True)}
    values = [g for found in sizes.values() for g in found.values()]
    if not values:
        return Figure(
            None, f"‖g_l‖ by layer cannot be drawn: {why(evidence, 'the norms of the gradient are not known')}."
        )
    last = max(evidence.blocks or 0, *(layer for found in sizes.values() for layer in found))
    y = Axis.over([*values, *([floor] if stated else [])], *UP, log=True)
    chart = by_block(last + 1, y, "state", "‖g_l‖, log scale")
    for shift, (name, found) in zip(shifts(len(sizes)), sizes.items(), strict=True):
        points = {layer: (chart.x.at(layer + shift), y.at(g)) for layer, g in found.items()}
        path = polyline([points.get(layer) for layer in range(last + 1)], "seed-line")
        marks = [mark(style.shape, *at, f"seed {name}, ‖g_{layer}‖: {num(found[layer])}")
                 for layer, at in points.items()]  # fmt: skip
        chart.add(tag("g", path, *marks, class_=style.class_))
    if stated:
        chart.limit(floor, f"published floor {floor:g}" + (", judges" if judges else ""))
    by_layer = {f"state {layer}": [found[layer] for found in sizes.values() if layer in found]
                for layer in range(last + 1)}  # fmt: skip
    floor_words = f"The published floor is {floor:g}." if stated else "The batch of these norms is not known."
    spoken = f"Norm of the true gradient at each state, on a logarithmic axis. {listing(by_layer, num)} {floor_words}"
    caption = check.layers.format(batch=f"{batch:g}")
    if not stated:
        caption = "The size of the true gradient, ‖g_l‖, at a batch that is not known: it cannot be held against the "
        caption += "published floor."
    elif judges:
        caption = caption.partition(" Below")[0] + " By the published protocol the floor judges the mean of ‖g_L‖."
    return Figure(chart.svg(spoken), caption)


def _between(i: int, j: int) -> str:
    """The blocks from one state to another."""
    return f"block {i}" if j == i + 1 else f"on average over blocks {i} to {j - 1}"
