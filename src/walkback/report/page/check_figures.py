"""The evidence of each check as small figures: a strip that shows the number against its threshold, and the layers.

What is drawn goes by the kind of figure that a check declares. Everything drawn is in the records, or a check's own
pure function of them; nothing is judged again.
"""

import math
import statistics
from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import pairwise

from walkback.checks import Check, Finding, Thresholds, check_named
from walkback.checks.base import Gain
from walkback.checks.chance import BAND
from walkback.checks.finding import known
from walkback.checks.gamma import UPDATE, blocks_of
from walkback.checks.reference import BATCH, CHORD, FLOOR
from walkback.checks.spread import others_needed
from walkback.checks.stream import norms_of, over_init
from walkback.records import Moment, Null
from walkback.report.answers import blocks_of as blocks_by
from walkback.report.case import Case
from walkback.report.page import chart
from walkback.report.page.gain_figures import gains
from walkback.report.page.markup import gain, num, plain, ranged, spread, tag, times

VALUES: Mapping[str, tuple[str, str, str]] = {  # by the kind of figure: the row's name, and what is said without one
    "hidden norms": ("largest growth", "No growth can", "the norms of the hidden states are not known"),
    "gradient norms": ("chord", "No chord can", "the precision of the gradient was not measured"),
    "cosines": ("blocks that Γ speaks for", "Of how many blocks Γ speaks cannot",
                "the cosine of every block is not known on every seed"),
}  # fmt: skip


def figures(finding: Finding, case: Case, thresholds: Thresholds) -> list[chart.Figure]:
    """The figures of one finding, by the kind that its check declares."""
    check = check_named(finding.check)
    if isinstance(check.figure, Gain):
        found = gains(check, check.figure, finding, case, thresholds)
    else:
        draw = {"hidden norms": _growth, "gradient norms": _gradients, "cosines": _cosines, None: _parts}[check.figure]
        both = (_value(check, finding, case, thresholds), draw(check, finding, case, thresholds))
        found = [figure for figure in both if figure is not None]
    return found if any(figure.svg is not None for figure in found) else found[:1]  # one reason is enough


def _value(check: Check, finding: Finding, case: Case, thresholds: Thresholds) -> chart.Figure | None:
    """The value with its range, and that of each seed where it has one, against the threshold."""
    evidence, form, kind = case.evidence, check.form, str(check.figure)
    name, absence, unknown = VALUES.get(kind, (check.name, "Nothing can", "there is no number"))
    aside = FLOOR in finding.ranges  # the published protocol judges by the floor, which stands in the figure by layer
    factor = 100 if form in ("points", "share") else 1
    formats = {"points": gain, "share": "{:.0f} %".format, "times": times, "cosines": "{:.1f}".format}
    words: Callable[[float], str] = formats.get(kind) or formats.get(form, num)
    seeds = [(seed, v and factor * v) for seed, v in check.by_seed(evidence).items()]
    value, low, high = (v and factor * v for v in (finding.value, finding.low, finding.high))
    limit, numbers = factor * finding.threshold, ranged(value, low, high, words)
    if aside:
        limit, value, low, high = thresholds[CHORD], None, None, None
        numbers = spread([v for _, v in seeds if v is not None], words)
    elif kind == "hidden norms" and finding.basis == "bound" and value is not None:
        numbers = f"at least {numbers}"
    row = chart.Track(name, plain(numbers), value, low, high, seeds, chart.ink_of(case))
    drawn = [v for v in row.drawn() if v is not None]
    log = form in ("times", "size") and (kind in VALUES or all(v > 0 for v in [limit, *drawn]))
    if not any(chart.drawable(v, log) for v in drawn):
        return None if aside else chart.absent(absence, evidence, unknown)
    caption, also = check.captions(finding)[0], [1.0] if kind == "hidden norms" else []
    if not caption:
        quantity = check.quantity.get("ours", check.name)
        bar = "the interval of the mean" if check.spread == "mean" else "the range over the seeds"
        caption = f"{quantity[:1].upper()}{quantity[1:]}. The bar is {bar}."
    if not evidence.seeds:
        caption = caption.partition(" One dot")[0]
    if aside:
        caption += " It does not judge here: the published protocol goes by the floor below."
    if kind == "cosines":
        blocks = blocks_by(limit)
        also, row = [0.0, float(blocks)], row._replace(numbers=f"{row.numbers} of {blocks}")
        if blocks > 1:
            caption += f" With one block at 1, the bar asks of the others a cosine of {others_needed(blocks):.2f} each."
    unit, sign = {"points": ("percentage points", ""), "share": ("per cent", " %")}.get(form, (check.heading, ""))
    against, title = (limit, f"limit {limit:g}{sign}"), unit + (" (log scale)" if log else "")
    return chart.Figure(chart.strip([row], title, limit=against, also=also, log=log, words=words), caption)


# --- by block or layer ------------------------------------------------------------------------------------------------


def _parts(check: Check, finding: Finding, case: Case, thresholds: Thresholds) -> chart.Figure | None:
    """The intervals that a share of the blocks rests on, block by block."""
    del check, thresholds
    if not any(part.value is not None and chart.drawable(part.value) for part in finding.parts.values()):
        return None
    ends = [end for part in finding.parts.values() for end in (part.value, part.low, part.high)]
    plot = chart.by_block(len(finding.parts), chart.Axis.over([0.0, *ends], *chart.UP), "block", "with its interval")
    plot.zero()
    words = []
    for place, (name, part) in enumerate(finding.parts.items()):
        x, drawn = plot.x.at(place), []
        words.append(f"{name}: {ranged(part.value or 0.0, part.low, part.high, '{:+.2f}'.format)}")
        if part.low is not None and part.high is not None and plot.y.holds(part.low) and plot.y.holds(part.high):
            drawn.append(chart.line(x, plot.y.at(part.low), x, plot.y.at(part.high), "interval"))
        if part.value is not None and plot.y.holds(part.value):
            drawn.append(chart.mark(chart.ink_of(case).marker, x, plot.y.at(part.value), words[-1]))
        plot.parts.append(chart.inked(chart.ink_of(case), *drawn))
    return chart.Figure(
        plot.svg(f"{'; '.join(words[:16])}."), "What the share counts: a block counts if its interval is above 0."
    )


def _growth(check: Check, finding: Finding, case: Case, thresholds: Thresholds) -> chart.Figure:
    """Growth by block. Between states that are not neighbours only an average is known: a hollow mark."""
    del thresholds
    evidence, limit, (_, layers) = case.evidence, finding.threshold, check.captions(finding)
    plain_net = evidence.residual is False
    points: dict[str, list[chart.Point]] = {name: [] for name, _ in case.by_seed}
    starts, last = {name: seed.init for name, seed in evidence.labelled()}, 1
    for name, moment in case.by_seed:
        norms = over_init(moment, starts[name]) if plain_net else norms_of(moment)
        for (i, a), (j, b) in pairwise(norms.items()):
            log = (math.log(b) - math.log(a)) / (j - i)
            if abs(log) < 500:  # beyond, floats end
                what, note = (f"block {i}", "") if j == i + 1 else (f"blocks {i} to {j - 1}", "on average")
                points[name].append(((i + j - 1) / 2, math.exp(log), what, note))
                last = max(last, j)
    drawn = [point for found in points.values() for point in found]
    if not drawn:
        return chart.absent("Growth by block cannot", evidence, VALUES["hidden norms"][2])
    y = chart.Axis.over([limit, 1.0, *(value for _, value, *_ in drawn)], *chart.UP, log=True)
    over = " over that at init" if plain_net else ""
    plot = chart.by_block(evidence.blocks or last, y, "block", f"‖h_{{l+1}}‖ / ‖h_l‖{over}, log scale")
    listed = plot.by_seed(chart.ink_of(case), points, times)
    plot.limit(limit, f"limit {limit:g}")
    if any(note for *_, note in drawn):
        layers += " Hollow: only the average over several blocks is known; one of them grew by at least so much."
    spoken = f"Growth{over or ' of the stream'} by block, on a logarithmic axis. {listed} The limit is {limit:g}."
    return chart.Figure(plot.svg(spoken), layers)


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


def _gradients(check: Check, finding: Finding, case: Case, thresholds: Thresholds) -> chart.Figure:
    """The norms of the true gradient by layer, as in a batch of the protocol where their own is known."""
    evidence, batch, floor, published = case.evidence, thresholds[BATCH], thresholds[FLOOR], FLOOR in finding.ranges
    norms = {name: states(moment, "gradient", evidence.blocks) for name, moment in case.by_seed}
    batches = {name: moment.reference_batch for name, moment in case.by_seed}
    stated = all(batches[name] is not None for name, found in norms.items() if found)
    factors = {name: (n or batch) / batch if stated else 1 for name, n in batches.items()}
    scaled = {name: {at: factors[name] * (g or 0) for at, g in found.items()} for name, found in norms.items()}
    sizes = {name: {at: g for at, g in found.items() if chart.drawable(g, log=True)} for name, found in scaled.items()}
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
    listed = plot.by_seed(chart.ink_of(case), points, num)
    caption = check.layers.format(batch=f"{batch:g}")
    floor_words = f"The published floor is {floor:g}."
    if stated:
        plot.limit(floor, f"published floor {floor:g}" + (", judges" if published else ""))
    else:
        caption = "The size of the true gradient, ‖g_l‖, at a batch that is not known: it cannot be held against the "
        caption, floor_words = caption + "published floor.", "The batch of these norms is not known."
    if published and stated:
        caption = caption.partition(" Below")[0] + " By the published protocol the floor judges the mean of ‖g_L‖."
    spoken = f"Norm of the true gradient at each state, on a logarithmic axis. {listed} {floor_words}"
    return chart.Figure(plot.svg(spoken), caption)


def _cosines(check: Check, finding: Finding, case: Case, thresholds: Thresholds) -> chart.Figure:
    """Cosines by block with the band of their null behind them; Γ and the median block beside the last one."""
    del finding
    evidence, band = case.evidence, thresholds[BAND]
    every = [blocks_of(moment) for _, moment in case.by_seed]
    count = max((len(found.values) for found in every), default=0) or evidence.blocks or 1
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
    at_output = any(found.place == "output" for found in every)
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
    listed = plot.by_seed(chart.ink_of(case), points, "{:+.3f}".format, joined=False)
    caption = check.layers.format(of=of, title=title)
    caption = caption if at_output else caption.replace(", at the block's output", "")
    null = "No null was measured."
    if bands:
        null = f"Grey: the null, ± {band:g} standard deviations; hollow: not above it."
    spoken = f"Cosine of {of} and true gradient by block. {listed}"
    return chart.Figure(plot.svg(spoken), f"{caption} Beside it the median block. {null}")


def _cells(moment: Moment, last: int, band: float) -> Iterator[tuple[float, str, float | None, tuple[float, ...]]]:
    """The blocks of one net, then Γ and the median; these two only where every block has a value."""
    found = blocks_of(moment)
    nulls: Sequence[Null | None] = moment.rotated or []
    middle = moment.rotated_gamma
    if found.place == UPDATE:
        nulls, middle = [reading.null for reading in moment.measured.get(UPDATE, [])], None
    values: list[float | None] = [*found.values, *([None] * 2)]
    if found.known is not None:
        values[-2:] = statistics.fmean(found.known), statistics.median(found.known)
    count = len(found.values)
    every = [*[*nulls, *[None] * count][:count], middle, None]
    places = [*((float(b), f"block {b}") for b in range(count)), (last + 0.3, "Γ"), (last + 1.3, "median block")]
    for (place, what), value, null in zip(places, values, every, strict=True):
        judged = null is not None and known(null.mean) and known(null.std)
        yield place, what, value, (null.mean - band * null.std, null.mean + band * null.std) if null and judged else ()
