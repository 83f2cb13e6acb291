"""The evidence of each check as small figures: a strip that shows the number against its threshold, and the layers.

What is drawn goes by the kind of figure that a check declares. Everything drawn is in the records, or a check's own
pure function of them; nothing is judged again.
"""

import math
import statistics
from collections.abc import Callable, Iterator, Sequence
from itertools import pairwise

from markupsafe import Markup

from walkback.checks import Check, Finding, Thresholds, check_named
from walkback.checks.base import Gain
from walkback.checks.chance import BAND
from walkback.checks.finding import known
from walkback.checks.gamma import UPDATE, blocks_of
from walkback.checks.reference import BATCH, CHORD, FLOOR
from walkback.checks.scale import norms_of, over_init
from walkback.checks.spread import others_needed
from walkback.records import Evidence, Moment, NullRecord
from walkback.report.case import Case
from walkback.report.page.chart import (
    ACROSS,
    UP,
    Axis,
    Chart,
    Figure,
    Track,
    absent,
    block_ticks,
    by_block,
    drawable,
    ink_of,
    inked,
    line,
    listing,
    mark,
    shifts,
    strip,
)
from walkback.report.page.gain_figures import gains
from walkback.report.page.markup import gain, num, plain, ranged, spread, tag, times
from walkback.report.verdicts import blocks_of as blocks_by


def figures(finding: Finding, case: Case, thresholds: Thresholds) -> list[Figure]:
    """The figures of one finding, by the kind that its check declares."""
    check = check_named(finding.check)
    kind = "gains" if isinstance(check.figure, Gain) else check.figure
    draw = {"gains": gains, "hidden norms": _hidden, "gradient norms": _gradient, "cosines": _cosines, None: _against}
    found = [*draw[kind](check, finding, case, thresholds)]
    return found if any(figure.svg is not None for figure in found) else found[:1]  # one reason is enough


def _dots(caption: str, evidence: Evidence) -> str:
    """A caption that speaks of dots only where there are seeds to draw."""
    return caption if evidence.seeds else caption.partition(" One dot")[0]


# --- any check: its value against its threshold ---------------------------------------------------------------------


def _against(check: Check, finding: Finding, case: Case, thresholds: Thresholds) -> Iterator[Figure]:
    """The value with its range, and the value of each seed where it has one; and the parts of a share."""
    factor = 100 if check.form in ("points", "share") else 1
    words: Callable[[float], str] = {"points": gain, "share": "{:.0f} %".format, "times": times}.get(check.form, num)
    seeds = [(name, v and factor * v) for name, v in check.by_seed(case.evidence, thresholds).items()]
    value, low, high = (v and factor * v for v in (finding.value, finding.low, finding.high))
    row = Track(check.name, plain(ranged(value, low, high, words)), value, low, high, seeds, ink_of(case))
    limit, unit = factor * finding.threshold, {"points": "percentage points", "share": "per cent"}.get(check.form, "")
    numbers = [v for v in row.drawn() if v is not None]
    log = check.form in ("times", "size") and all(v > 0 for v in [limit, *numbers])
    if not any(drawable(v, log) for v in numbers):
        yield absent("Nothing", case.evidence, "there is no number")
    else:
        title = " ".join(filter(None, (unit or check.heading, "(log scale)" if log else "")))
        against = f"threshold {words(limit)}"
        spoken = f"{check.name}: {ranged(value, low, high, words)}. {against}."
        bar = "the interval of the mean" if check.spread == "mean" else "the range over the seeds"
        quantity = check.quantity.get("ours", check.name)
        caption = check.judged or f"{quantity[:1].upper()}{quantity[1:]}. The bar is {bar}."
        svg = strip([row], title, spoken, limit=(limit, against), log=log, words=words)
        yield Figure(svg, _dots(caption, case.evidence))
    if any(part.value is not None and drawable(part.value) for part in finding.parts.values()):
        yield _parts(finding, case)


def _parts(finding: Finding, case: Case) -> Figure:
    """The intervals that a share of the blocks rests on, block by block."""
    ends = [end for part in finding.parts.values() for end in (part.value, part.low, part.high)]
    chart = by_block(len(finding.parts), Axis.over([0.0, *ends], *UP), "block", "with its interval")
    chart.zero()
    words = []
    for place, (name, part) in enumerate(finding.parts.items()):
        x, drawn = chart.x.at(place), []
        words.append(f"{name}: {ranged(part.value or 0.0, part.low, part.high, '{:+.2f}'.format)}")
        if part.low is not None and part.high is not None and chart.y.holds(part.low) and chart.y.holds(part.high):
            drawn.append(line(x, chart.y.at(part.low), x, chart.y.at(part.high), "interval"))
        if part.value is not None and chart.y.holds(part.value):
            drawn.append(mark(ink_of(case).marker, x, chart.y.at(part.value), words[-1]))
        chart.parts.append(inked(ink_of(case), *drawn))
    return Figure(
        chart.svg(f"{'; '.join(words[:16])}."), "What the share counts: a block counts if its interval is above 0."
    )


# --- the norms of the hidden states ----------------------------------------------------------------------------------


def _hidden(check: Check, finding: Finding, case: Case, thresholds: Thresholds) -> Iterator[Figure]:
    evidence, limit = case.evidence, finding.threshold
    seeds = [*check.by_seed(evidence, thresholds).items()]
    unknown = "the norms of the hidden states are not known"
    if finding.value is None and all(value is None for _, value in seeds):
        yield absent("No growth", evidence, unknown)
        return
    before = "at least " if finding.basis == "bound" and finding.value is not None else ""
    numbers = before + ranged(finding.value, finding.low, finding.high, times)
    row = Track("largest growth", numbers, finding.value, finding.low, finding.high, seeds, ink_of(case))
    plain_net = evidence.residual is False
    what = "over one block, over that at init" if plain_net else "of the stream over one block"
    spoken = f"Largest growth {what}: {numbers}. The limit is {limit:g}."
    judged, layers = check.captions(finding)
    against = (limit, f"limit {limit:g}")
    svg = strip([row], "growth, log scale", spoken, limit=against, also=[1.0], log=True, words=times)
    yield Figure(svg, _dots(judged, evidence))

    # By block. Between states that are not neighbours only an average is known: a hollow mark.
    steps: dict[str, dict[tuple[int, int], float]] = {}  # from which state to which, by how much a block
    starts = {name: seed.init for name, seed in evidence.labelled()}
    for name, moment in case.by_seed:
        norms = over_init(moment, starts[name]) if plain_net else norms_of(moment)
        grown = {(i, j): (math.log(b) - math.log(a)) / (j - i) for (i, a), (j, b) in pairwise(norms.items())}
        steps[name] = {place: math.exp(log) for place, log in grown.items() if abs(log) < 500}  # beyond, floats end
    every = sorted({place for found in steps.values() for place in found})
    if not every:
        yield absent("Growth by block", evidence, unknown, "cannot")
        return
    blocks = evidence.blocks or max(j for _, j in every)
    y = Axis.over([limit, 1.0, *(v for found in steps.values() for v in found.values())], *UP, log=True)
    over = " over that at init" if plain_net else ""
    chart = by_block(blocks, y, "block", f"‖h_{{l+1}}‖ / ‖h_l‖{over}, log scale")
    between = {(i, j): f"block {i}" if j == i + 1 else f"on average over blocks {i} to {j - 1}" for i, j in every}
    chart.by_seed(ink_of(case), {
        name: [((i + j - 1) / 2, v, f"{between[i, j]}: {times(v)}") for (i, j), v in found.items()]
        for name, found in steps.items()
    })  # fmt: skip
    chart.limit(*against)
    if any(j > i + 1 for i, j in every):
        layers += " Hollow: only the average over several blocks is known; one of them grew by at least so much."
    by_place = {between[place]: [found[place] for found in steps.values() if place in found] for place in every}
    spoken = f"Growth{over or ' of the stream'} by block, on a logarithmic axis. {listing(by_place, times)} "
    yield Figure(chart.svg(f"{spoken}The limit is {limit:g}."), layers)


# --- the norms of the gradient, and how precise it is ----------------------------------------------------------------


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


def _gradient(check: Check, finding: Finding, case: Case, thresholds: Thresholds) -> Iterator[Figure]:
    evidence, limit, ink = case.evidence, thresholds[CHORD], ink_of(case)
    batch, floor, published = thresholds[BATCH], thresholds[FLOOR], FLOOR in finding.ranges
    seeds = [*check.by_seed(evidence, thresholds).items()]
    chords = [v for _, v in seeds if v is not None]
    value, low, high = (None, None, None) if published else (finding.value, finding.low, finding.high)
    if chords or value is not None:
        numbers = spread(chords, num) if value is None else ranged(value, low, high, num)
        spoken = "Chord between the deepest gradient's direction as computed and in float64: "
        aside = " It does not judge here: the published protocol goes by the floor below." if published else ""
        svg = strip([Track("chord", numbers, value, low, high, seeds, ink)], "chord, log scale",
                    f"{spoken}{numbers}. Limit {limit:g}.", limit=(limit, f"limit {limit:g}"), log=True)  # fmt: skip
        yield Figure(svg, _dots(check.judged, evidence) + aside)
    elif not published:
        yield absent("No chord", evidence, "the precision of the gradient was not measured")

    norms = {name: states(moment, "gradient", evidence.blocks) for name, moment in case.by_seed}
    batches = {name: moment.reference_batch for name, moment in case.by_seed}
    stated = all(batches[name] is not None for name, found in norms.items() if found)
    factors = {name: (n or batch) / batch if stated else 1 for name, n in batches.items()}
    sizes = {name: {layer: factors[name] * g for layer, g in sorted(found.items()) if known(g)}
             for name, found in norms.items()}  # fmt: skip
    sizes = {name: {layer: g for layer, g in found.items() if drawable(g, log=True)} for name, found in sizes.items()}
    drawn = [g for found in sizes.values() for g in found.values()]
    if not drawn:
        yield absent("‖g_l‖ by layer", evidence, "the norms of the gradient are not known", "cannot")
        return
    layers = range(max(evidence.blocks or 0, *(layer for found in sizes.values() for layer in found)) + 1)
    y = Axis.over([*drawn, *([floor] if stated else [])], *UP, log=True)
    chart = by_block(len(layers), y, "state", "‖g_l‖, log scale")
    chart.by_seed(ink, {
        name: [(at, found[at], f"‖g_{at}‖: {num(found[at])}") if at in found else None for at in layers]
        for name, found in sizes.items()
    })  # fmt: skip
    caption = check.layers.format(batch=f"{batch:g}")
    floor_words = f"The published floor is {floor:g}."
    if stated:
        chart.limit(floor, f"published floor {floor:g}" + (", judges" if published else ""))
    else:
        caption = "The size of the true gradient, ‖g_l‖, at a batch that is not known: it cannot be held against the "
        caption, floor_words = caption + "published floor.", "The batch of these norms is not known."
    if published and stated:
        caption = caption.partition(" Below")[0] + " By the published protocol the floor judges the mean of ‖g_L‖."
    by_layer = {f"state {at}": [found[at] for found in sizes.values() if at in found] for at in layers}
    spoken = "Norm of the true gradient at each state, on a logarithmic axis. "
    yield Figure(chart.svg(f"{spoken}{listing(by_layer, num)} {floor_words}"), caption)


# --- cosines: of how many blocks Γ speaks, and the cosine at each block's output --------------------------------------


def _cosines(check: Check, finding: Finding, case: Case, thresholds: Thresholds) -> Iterator[Figure]:
    evidence, bar = case.evidence, finding.threshold
    value, low, high = finding.value, finding.low, finding.high
    if value is None:
        unknown = "the cosine of every block is not known on every seed"
        yield absent("Of how many blocks Γ speaks", evidence, unknown, "cannot")
    else:
        seeds, blocks = [*check.by_seed(evidence, thresholds).items()], blocks_by(bar)
        ends = f" ({low:.1f} to {high:.1f})" if known(low) and known(high) else ""
        numbers = plain(f"{value:.1f} of {blocks}{ends}")
        row = Track("blocks that Γ speaks for", numbers, value, low, high, seeds, ink_of(case))
        spoken = f"Γ speaks for {numbers} blocks. More than {bar:g} is even."
        svg = strip([row], "blocks", spoken, limit=(bar, f"bar {bar:g}"), also=[0, blocks], words="{:.1f}".format)
        caption = _dots(check.judged, evidence)
        if blocks > 1:
            caption += f" With one block at 1, the bar asks of the others a cosine of {others_needed(blocks):.2f} each."
        yield Figure(svg, caption)
    yield _by_block(check, case, thresholds[BAND])


def _by_block(check: Check, case: Case, band: float) -> Figure:
    """Cosines by block with the band of their null behind them; Γ and the median block beside the last one."""
    evidence, ink = case.evidence, ink_of(case)
    every = {name: blocks_of(moment) for name, moment in case.by_seed}
    count = max((len(found.values) for found in every.values()), default=0) or evidence.blocks or 1
    cells = [  # the seed, its shift to the side, a place on the axis of blocks, what, the value, its null's ends
        (name, shift, *cell)
        for shift, (name, moment) in zip(shifts(len(every)), case.by_seed, strict=True)
        for cell in _cells(moment, count, band)
    ]
    values = [value for *_, value, _ in cells if value is not None and drawable(value)]
    if not values:
        return absent("Cosines by block", evidence, "they are not known", "cannot")
    bands = [end for *_, ends in cells for end in ends]
    y = Axis.over([0.0, *values, *bands], *UP)
    at_output = any(found.place == "output" for found in every.values())
    of, title = ("credit", "cos(a_l, g_{l+1})") if at_output else ("update", "cos(update, gradient)")
    middle = [(count + 0.3, "Γ"), (count + 1.3, "med.")]
    x = Axis(-0.6, count + 1.9, *ACROSS)
    chart = Chart(x, y, "block; Γ; median", title, [*block_ticks(count), *middle])
    chart.parts.append(line(x.at(count - 0.35), y.start, x.at(count - 0.35), y.end, "grid"))
    chart.zero()
    half = max(1.2, min(4.0, 0.3 * (x.at(1) - x.at(0)) / len(every)))
    marks: list[Markup] = []
    for name, shift, place, what, value, ends in cells:
        at = x.at(place + shift)
        if ends:
            low, high = y.at(ends[0]), y.at(ends[1])
            rect = tag("rect", class_="null", x=at - half, y=high, width=2 * half, height=max(0.5, low - high))
            chart.parts.append(rect)
        if value is not None and y.holds(value):
            inside = bool(ends) and value <= ends[1]
            side = (", not above its null" if inside else ", above its null") if ends else ""
            words = f"seed {name}, {what}: {value:+.3f}{side}"
            marks.append(mark(ink.marker, at, y.at(value), words, "m open" if inside else "m"))
    chart.parts.append(inked(ink, *marks))
    by_place: dict[str, list[float | None]] = {what: [] for what in [*(f"block {b}" for b in range(count)), *LAST]}
    for _, _, _, what, value, _ in cells:
        by_place[what] += [value] if known(value) else []
    caption = check.layers.format(of=of, title=title)
    caption = caption if at_output else caption.replace(", at the block's output", "")
    null = f"Grey: the null, ± {band:g} standard deviations; hollow: not above it." if bands else NO_NULL
    spoken = f"Cosine of {of} and true gradient by block. {listing(by_place, '{:+.2f}'.format)}"
    return Figure(chart.svg(spoken), f"{caption} Beside it the median block. {null}")


LAST, NO_NULL = ("Γ", "median block"), "No null was measured."


def _cells(moment: Moment, last: int, band: float) -> Iterator[tuple[float, str, float | None, tuple[float, ...]]]:
    """The blocks of one net, then Γ and the median; these two only where every block has a value."""
    found = blocks_of(moment)
    nulls: Sequence[NullRecord | None] = moment.rotated or []
    middle = moment.rotated_gamma
    if found.place == UPDATE:
        nulls, middle = [reading.null for reading in moment.measured.get(UPDATE, [])], None
    values: list[float | None] = [*found.values, *([None] * 2)]
    if found.known is not None:
        values[-2:] = statistics.fmean(found.known), statistics.median(found.known)
    count = len(found.values)
    every = [*[*nulls, *[None] * count][:count], middle, None]
    places = [*((float(b), f"block {b}") for b in range(count)), (last + 0.3, LAST[0]), (last + 1.3, LAST[1])]
    for (place, what), value, null in zip(places, values, every, strict=True):
        judged = null is not None and known(null.mean) and known(null.std)
        yield place, what, value, (null.mean - band * null.std, null.mean + band * null.std) if null and judged else ()
