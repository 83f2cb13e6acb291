"""A kind of figure: of how many blocks Γ speaks, and the cosines at the blocks' outputs beside Γ and their median."""

import statistics
from collections.abc import Sequence
from typing import NamedTuple

from markupsafe import Markup

from walkback.checks import Check, Finding, Thresholds
from walkback.checks.chance import BAND
from walkback.checks.finding import known
from walkback.checks.gamma import UPDATE, blocks_of
from walkback.checks.spread import others_needed
from walkback.records import Moment, NullRecord
from walkback.report.case import Case
from walkback.report.page.drawing import ACROSS, ENDS, HEIGHT, UP, Figure, dots, listing, shifts, ticks, why
from walkback.report.page.markup import plain, tag
from walkback.report.page.svg import Axis, Chart, Style, Track, drawable, line, mark, strip
from walkback.report.verdicts import blocks_of as blocks_by

WHAT = {"output": ("credit", "cos(a_l, g_{l+1})"), UPDATE: ("update", "cos(update, gradient)")}
GAMMA, MEDIAN = "Γ", "median block"


class Cell(NamedTuple):
    """One mark: at which place on the axis of blocks, its value and its null."""

    place: float
    value: float | None
    null: NullRecord | None
    what: str

    def ends(self, band: float) -> tuple[float, float] | None:
        """The band of the null; None where it is not known."""
        null = self.null
        if null is None or not (known(null.mean) and known(null.std)):
            return None
        return null.mean - band * null.std, null.mean + band * null.std


def cosines(check: Check, finding: Finding, case: Case, style: Style, thresholds: Thresholds) -> list[Figure]:
    """Of how many blocks Γ speaks, against the bar, and the cosines of all."""
    evidence = case.evidence
    layers = _by_block(check, case, style, thresholds[BAND])
    if finding.value is None:
        reason = why(evidence, "the cosine of every block is not known on every seed")
        return [Figure(None, f"Of how many blocks Γ speaks cannot be drawn: {reason}."), layers]
    seeds, blocks = [*check.by_seed(evidence, thresholds).items()], blocks_by(finding.threshold)
    low, high, bar = finding.low, finding.high, finding.threshold
    numbers = plain(
        f"{finding.value:.1f} of {blocks}" + (f" ({low:.1f} to {high:.1f})" if known(low) and known(high) else "")
    )
    axis = Axis.over([0.0, float(blocks), low, high, *(n for _, n in seeds)], *ENDS)
    spoken = f"Γ speaks for {numbers} blocks. More than {bar:g} is even."
    row = Track("blocks that Γ speaks for", numbers, finding.value, low, high, seeds, style)
    svg = strip([row], axis, "blocks", spoken, limit=(bar, f"bar {bar:g}"), words=lambda v: f"{v:.1f}")
    caption = dots(check.judged, evidence)
    if blocks > 1:
        caption += f" With one block at 1, the bar asks of the others a cosine of {others_needed(blocks):.2f} each."
    return [Figure(svg, caption), layers]


def _cells(moment: Moment, last: int) -> list[Cell]:
    """The blocks of one net, then Γ and the median; these two only where every block has a value."""
    found = blocks_of(moment)
    if found.place == UPDATE:
        nulls: Sequence[NullRecord | None] = [reading.null for reading in moment.measured.get(UPDATE, [])]
        middle = None
    else:
        nulls, middle = moment.rotated or [], moment.rotated_gamma
    every = [*nulls, *[None] * (len(found.values) - len(nulls))]
    cells = [
        Cell(float(block), value, null, f"block {block}")
        for block, (value, null) in enumerate(zip(found.values, every, strict=False))
    ]
    whole = found.known
    gamma, median = (None, None) if whole is None else (statistics.fmean(whole), statistics.median(whole))
    return [*cells, Cell(last + 0.3, gamma, middle, GAMMA), Cell(last + 1.3, median, None, MEDIAN)]


def _by_block(check: Check, case: Case, style: Style, band: float) -> Figure:
    """Cosines by block with the band of their null behind them; Γ and the median block beside the last one."""
    evidence = case.evidence
    count = max((len(blocks_of(moment).values) for moment in case.finals), default=0) or evidence.blocks or 1
    columns = [(name, _cells(moment, count)) for name, moment in case.by_seed]
    every = [cell for _, cells in columns for cell in cells]
    values = [cell.value for cell in every if cell.value is not None and drawable(cell.value)]
    if not values:
        return Figure(None, f"Cosines by block cannot be drawn: {why(evidence, 'they are not known')}.")
    bands = [ends for cell in every if (ends := cell.ends(band)) is not None]
    y = Axis.over([0.0, *values, *(end for ends in bands for end in ends)], *UP)
    x = Axis(-0.6, count + 1.9, *ACROSS)
    places = {blocks_of(moment).place for moment in case.finals}
    of, title = WHAT["output" if "output" in places else UPDATE]
    chart = Chart(x, y, HEIGHT, "block; Γ; median", title)
    chart.x_ticks([*ticks(count), (count + 0.3, "Γ"), (count + 1.3, "med.")])
    chart.add(line(x.at(count - 0.35), y.start, x.at(count - 0.35), y.end, "grid"))
    if y.low < 0 < y.high:
        chart.add(line(x.start, y.at(0), x.end, y.at(0), "zero"))
    half = max(1.2, min(4.0, 0.3 * (x.at(1) - x.at(0)) / len(columns)))
    marks: list[Markup] = []
    for shift, (name, cells) in zip(shifts(len(columns)), columns, strict=True):
        for cell in cells:
            at, ends = x.at(cell.place + shift), cell.ends(band)
            if ends is not None:
                low, high = y.at(ends[0]), y.at(ends[1])
                chart.add(tag("rect", class_="null", x=at - half, y=high, width=2 * half, height=max(0.5, low - high)))
            if cell.value is None or not y.holds(cell.value):
                continue
            inside = ends is not None and cell.value <= ends[1]
            side = "" if ends is None else ", not above its null" if inside else ", above its null"
            words = f"seed {name}, {cell.what}: {cell.value:+.3f}{side}"
            marks.append(mark(style.shape, at, y.at(cell.value), words, "m open" if inside else "m"))
    chart.add(tag("g", *marks, class_=style.class_))
    by_place = {what: [cell.value for cell in every if cell.what == what and known(cell.value)]
                for what in [*(f"block {b}" for b in range(count)), GAMMA, MEDIAN]}  # fmt: skip
    spoken = f"Cosine of {of} and true gradient by block. {listing(by_place, lambda v: f'{v:+.2f}')}"
    caption = check.layers.format(of=of, title=title)
    if of == UPDATE:
        caption = caption.replace(", at the block's output", "")
    caption += " Beside it the median block."
    caption += f" Grey: the null, ± {band:g} standard deviations; hollow: not above it." if bands else ""
    return Figure(chart.svg(spoken), caption if bands else f"{caption} No null was measured.")
