"""The evidence of each check as one small figure: what its number comes from, and the threshold.

What is drawn goes by the kind of figure that a check declares. Everything drawn is in the records, or a check's own
pure function of them; nothing is judged again.
"""

import math
import statistics
from collections.abc import Iterator, Sequence
from itertools import pairwise

from walkback.checks import Check, Finding, Interval, Thresholds, check_named
from walkback.checks.base import Gain
from walkback.checks.chance import BAND
from walkback.checks.depth import CONFIDENCE, TASK
from walkback.checks.finding import known
from walkback.checks.gamma import UPDATE, blocks_of
from walkback.checks.paired_gain import gain_over
from walkback.checks.reference import BATCH, FLOOR
from walkback.checks.spread import others_needed
from walkback.checks.stream import norms_of, over_init
from walkback.records import BaselineName, Evidence, Moment, Null
from walkback.report.answers import blocks_of as blocks_by
from walkback.report.case import Case
from walkback.report.inks import INKS, Ink
from walkback.report.page import chart
from walkback.report.page.markup import gain, num, plain, ranged, tag

Seeds = list[tuple[str, float | None]]


def figure(finding: Finding, case: Case, thresholds: Thresholds) -> chart.Figure:
    """The figure of one finding, by the kind that its check declares."""
    check = check_named(finding.check)
    if isinstance(check.figure, Gain):
        return _gains(check, check.figure, finding, case, thresholds)
    if check.figure == "gradient norms":
        return _gradients(check, finding, case, thresholds)
    if check.figure == "cosines":
        return _cosines(check, finding, case, thresholds)
    return _growth(check, finding, case) if check.figure == "hidden norms" else _value(check, finding, case)


def times(value: float) -> str:
    """A growth."""
    return f"{num(value)}×"


# --- accuracies paired by seed: the gain over each baseline, and what bp gains ----------------------------------------


def seeds_over(evidence: Evidence, name: BaselineName, of_bp: bool = False) -> Seeds:
    """The gain of each seed of the subject, or of bp, in points; nothing where one of the two is not known."""
    found = gain_over(evidence, name, of="bp" if of_bp else None)
    return [(seed, 100 * value) for seed, value in sorted(found.gains.items())]


def gain_track(name: str, part: Interval | Finding, seeds: Seeds, ink: Ink, lacking: str = "") -> chart.Track:
    """A gain as a row of a strip, in points; `lacking`: why it is not known."""
    value, low, high = (None if end is None else 100 * end for end in (part.value, part.low, part.high))
    numbers = lacking if value is None else plain(ranged(value, low, high, gain))
    return chart.Track(name, numbers, value, low, high, seeds, ink)


def _gains(check: Check, kind: Gain, finding: Finding, case: Case, thresholds: Thresholds) -> chart.Figure:
    """The gains over the baselines, as they were judged, and what bp gains over the same."""
    evidence, baselines, rows = case.evidence, case.evidence.baselines, list[chart.Track]()
    published = case.judgement.protocol == "published"
    over = {kind.over: kind.over_words} | ({} if published else dict(kind.beside))
    for name, words in over.items():
        part = Interval(value=finding.value) if published else finding.parts.get(name, Interval())
        another = part.value is not None and baselines.get(name) != baselines.get(kind.over)
        if name == kind.over or name in TASK or another:
            lacking = "not known on every seed" if name in baselines else f"no {name} net is known"
            lacking = lacking if evidence.seeds else "not known"
            rows.append(gain_track(words, part, seeds_over(evidence, name), chart.ink_of(case), lacking))
    for name, words in over.items():
        part = finding.parts.get(f"bp over {name}", Interval())
        if part.value is not None and (evidence.rule or "").lower() != "bp":  # bp's own figure has its rows once
            against, words = (kind.task[1], kind.task_words) if name == kind.over else (name, f"bp {words}")
            rows.append(gain_track(words, part, seeds_over(evidence, against, of_bp=True), INKS["bp"]))
    if not any(known(end) for row in rows for end in row.drawn()):
        return chart.absent("No gain can", evidence, f"{kind.absent}, and none of bp's")
    limit = (100 * finding.threshold, f"required {100 * finding.threshold:+g}")
    svg = chart.strip(rows, "percentage points", limit=limit, also=[0.0], words=gain)
    caption = check.caption.format(confidence=plain(f"{100 * thresholds[CONFIDENCE]:g}%"))
    if published:
        caption = "The difference of two mean accuracies. The published protocol has no interval."
    return chart.Figure(svg, caption)


def _value(check: Check, finding: Finding, case: Case) -> chart.Figure:
    """The value with its range, and that of each seed where it has one, against the threshold."""
    form = check.form
    factor = 100 if form in ("points", "share") else 1
    words = {"points": gain, "share": "{:.0f} %".format, "times": times}.get(form, num)
    seeds = [(seed, v and factor * v) for seed, v in check.by_seed(case.evidence).items()]
    value, low, high = (v and factor * v for v in (finding.value, finding.low, finding.high))
    limit = factor * finding.threshold
    row = chart.Track(check.name, plain(ranged(value, low, high, words)), value, low, high, seeds, chart.ink_of(case))
    drawn = [v for v in row.drawn() if v is not None]
    log = form in ("times", "size") and all(v > 0 for v in [limit, *drawn])
    if not any(chart.drawable(v, log) for v in drawn):
        return chart.absent("Nothing can", case.evidence, "there is no number")
    caption = check.caption
    if not caption:
        quantity = check.quantity.get("ours", check.name)
        bar = "the interval of the mean" if check.spread == "mean" else "the range over the seeds"
        caption = f"{quantity[:1].upper()}{quantity[1:]}. The bar is {bar}."
    unit, sign = {"points": ("percentage points", ""), "share": ("per cent", " %")}.get(form, (check.heading, ""))
    against, title = (limit, f"limit {limit:g}{sign}"), unit + (" (log scale)" if log else "")
    return chart.Figure(chart.strip([row], title, limit=against, log=log, words=words), caption)


# --- by block or layer ------------------------------------------------------------------------------------------------


def _growth(check: Check, finding: Finding, case: Case) -> chart.Figure:
    """Growth by block. Between states that are not neighbours only an average is known: a hollow mark."""
    evidence, limit, caption = case.evidence, finding.threshold, check.caption_of(finding)
    plain_net = evidence.residual is False
    points: dict[str, list[chart.Point]] = {}
    for name, seed in evidence.labelled():
        norms = over_init(seed.final, seed.init) if plain_net else norms_of(seed.final)
        points[name] = []
        for (i, a), (j, b) in pairwise(norms.items()):
            log = (math.log(b) - math.log(a)) / (j - i)
            if abs(log) < 500:  # beyond, floats end
                what, note = (f"block {i}", "") if j == i + 1 else (f"blocks {i} to {j - 1}", "on average")
                points[name].append(((i + j - 1) / 2, math.exp(log), what, note))
    drawn = [point for found in points.values() for point in found]
    if not drawn:
        return chart.absent("Growth by block cannot", evidence, "the norms of the hidden states are not known")
    y = chart.Axis.over([limit, 1.0, *(value for _, value, *_ in drawn)], *chart.UP, log=True)
    over = " over that at init" if plain_net else ""
    blocks = evidence.blocks or max(math.ceil(place) for place, *_ in drawn) + 1
    plot = chart.by_block(blocks, y, "block", f"‖h_{{l+1}}‖ / ‖h_l‖{over}, log scale")
    plot.by_seed(chart.ink_of(case), points, times)
    plot.limit(limit, f"limit {limit:g}")
    if any(note for *_, note in drawn):
        caption += " Hollow: only the average over several blocks is known; one of them grew by at least so much."
    spoken = f"Growth{over or ' of the stream'} by block, on a logarithmic axis. The limit is {limit:g}."
    return chart.Figure(plot.svg(spoken), caption)


def _gradient_norms(moment: Moment, depth: int | None) -> dict[int, float]:
    """The norms of the true gradient by layer that can be drawn; the deepest after all others."""
    if moment.gradient_norms is not None:
        at: dict[int, float | None] = dict(enumerate(moment.gradient_norms))
    else:
        at = dict(moment.gradient_at or {})
        if moment.deepest_gradient is not None:
            at[depth if depth is not None else max(at, default=-1) + 1] = moment.deepest_gradient
    return {layer: norm for layer, norm in at.items() if norm is not None}


def _gradients(check: Check, finding: Finding, case: Case, thresholds: Thresholds) -> chart.Figure:
    """The norms of the true gradient by layer, as in a batch of the protocol where their own is known."""
    evidence, batch, floor, published = case.evidence, thresholds[BATCH], thresholds[FLOOR], FLOOR in finding.ranges
    norms = {name: _gradient_norms(moment, evidence.blocks) for name, moment in case.by_seed}
    stated = all(moment.reference_batch is not None for name, moment in case.by_seed if norms[name])
    sizes: dict[str, dict[int, float]] = {}
    for name, moment in case.by_seed:
        factor = (moment.reference_batch or batch) / batch if stated else 1
        sizes[name] = {at: factor * g for at, g in norms[name].items() if chart.drawable(factor * g, log=True)}
    drawn = [g for found in sizes.values() for g in found.values()]
    if not drawn:
        return chart.absent("‖g_l‖ by layer cannot", evidence, "the norms of the gradient are not known")
    layers = range(max(evidence.blocks or 0, *(layer for found in sizes.values() for layer in found)) + 1)
    y = chart.Axis.over([*drawn, *([floor] if stated else [])], *chart.UP, log=True)
    plot = chart.by_block(len(layers), y, "state", "‖g_l‖, log scale")
    points = {
        name: [(at, found[at], f"‖g_{at}‖", "") if at in found else None for at in layers]
        for name, found in sizes.items()
    }
    plot.by_seed(chart.ink_of(case), points, num)
    caption = (
        "The size of the true gradient, ‖g_l‖, at a batch that is not known: it cannot be held against the published "
    )
    caption += "floor."
    if stated:
        plot.limit(floor, f"published floor {floor:g}" + (", judges" if published else ""))
        caption = check.caption.format(batch=f"{batch:g}")
        if published:
            caption = f"{caption.partition(' Below')[0]} By the published protocol the floor judges the mean of ‖g_L‖."
    return chart.Figure(plot.svg("Norm of the true gradient at each state, on a logarithmic axis."), caption)


def _cosines(check: Check, finding: Finding, case: Case, thresholds: Thresholds) -> chart.Figure:
    """Cosines by block with the band of their null behind them; Γ and the median block beside the last one."""
    evidence, band = case.evidence, thresholds[BAND]
    every = [blocks_of(moment) for _, moment in case.by_seed]
    count = max((len(values) for values, _ in every), default=0) or evidence.blocks or 1
    cells = {name: [*_cells(moment, count, band)] for name, moment in case.by_seed}
    points = {
        name: [(place, value, what, "not above its null" if ends and value <= ends[1] else "")
               for place, what, value, ends in found if value is not None and chart.drawable(value)]
        for name, found in cells.items()
    }  # fmt: skip
    if not any(points.values()):
        return chart.absent("Cosines by block cannot", evidence, "they are not known")
    bands = [end for found in cells.values() for *_, ends in found for end in ends]
    y = chart.Axis.over([0.0, *(point[1] for found in points.values() for point in found), *bands], *chart.UP)
    at_output = any(place == "output" for _, place in every)
    of, title = ("credit", "cos(a_l, g_{l+1})") if at_output else ("update", "cos(update, gradient)")
    middle = [(count + 0.3, "Γ"), (count + 1.3, "med.")]
    x = chart.Axis(-0.6, count + 1.9, *chart.ACROSS)
    plot = chart.Chart(x, y, "block; Γ; median", title, [*chart.block_ticks(count), *middle])
    plot.parts.append(chart.line(x.at(count - 0.35), y.start, x.at(count - 0.35), y.end, "grid"))
    plot.zero()
    half = max(1.2, min(4.0, 0.3 * (x.at(1) - x.at(0)) / len(every)))
    for shift, found in zip(chart.shifts(len(cells)), cells.values(), strict=True):
        for place, ends in [(place, ends) for place, *_, ends in found if ends]:
            low, high, left = y.at(ends[0]), y.at(ends[1]), x.at(place + shift) - half
            plot.parts.append(tag("rect", class_="null", x=left, y=high, width=2 * half, height=max(0.5, low - high)))
    plot.by_seed(chart.ink_of(case), points, "{:+.3f}".format, joined=False)
    caption = check.caption.format(of=of, title=title)
    caption = caption if at_output else caption.replace(", at the block's output", "")
    null = "No null was measured."
    if bands:
        null = f"Grey: the null, ± {band:g} standard deviations; hollow: not above it."
    if (blocks := blocks_by(finding.threshold)) > 1:
        null += f" With one block at 1, the bar asks of the others a cosine of {others_needed(blocks):.2f} each."
    spoken = f"Cosine of {of} and true gradient by block."
    return chart.Figure(plot.svg(spoken), f"{caption} Beside it the median block. {null}")


def _cells(moment: Moment, last: int, band: float) -> Iterator[tuple[float, str, float | None, tuple[float, ...]]]:
    """The blocks of one net, each with its null's band; then Γ and the median, where every block has a value."""
    values, at = blocks_of(moment)
    nulls: Sequence[Null | None] = moment.rotated or []
    if at == UPDATE:
        nulls = [reading.null for reading in moment.measured.get(UPDATE, [])]
    for block, value in enumerate(values):
        yield float(block), f"block {block}", value, _band(nulls[block] if block < len(nulls) else None, band)
    numbers = [value for value in values if value is not None]
    if numbers and len(numbers) == len(values):
        ends = _band(None if at == UPDATE else moment.rotated_gamma, band)
        yield last + 0.3, "Γ", statistics.fmean(numbers), ends
        yield last + 1.3, "median block", statistics.median(numbers), ()


def _band(null: Null | None, band: float) -> tuple[float, ...]:
    """Where credits that know nothing lie; empty where that is not known."""
    if null is None or not known(null.mean) or not known(null.std):
        return ()
    return null.mean - band * null.std, null.mean + band * null.std
