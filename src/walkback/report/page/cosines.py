"""A kind of figure: cosines by block against their null, and the share of blocks that clear it."""

from collections.abc import Mapping

from markupsafe import Markup

from walkback.checks import Check, Finding, Thresholds
from walkback.checks.coverage import BAND
from walkback.checks.covering import Place, clears, compared, covered
from walkback.checks.finding import known
from walkback.records import NullRecord
from walkback.report.case import Case
from walkback.report.page.drawing import ACROSS, ENDS, HEIGHT, UP, Figure, dots, listing, shifts, ticks, why
from walkback.report.page.markup import plain, tag
from walkback.report.page.svg import Axis, Chart, Style, Track, drawable, line, mark, strip

WHAT: Mapping[Place, tuple[str, str]] = {
    "input": ("credit", "cos(a_l, g_l)"), "output": ("credit", "cos(a_l, g_{l+1})"),
    "update": ("update", "cos(update, gradient)"),
}  # fmt: skip


def cosines(check: Check, finding: Finding, case: Case, style: Style, thresholds: Thresholds) -> list[Figure]:
    """The share of the blocks that clear their null, and the cosines of all."""
    evidence, band = case.evidence, thresholds[BAND]
    layers = _by_block(check, case, style, band)
    if finding.low is None or finding.high is None:
        reason = why(evidence, "the cosine of every block, or its null, is not known")
        return [Figure(None, f"No share can be drawn: {reason}."), layers]
    shares = check.by_seed(evidence, thresholds)
    seeds = [(name, None if share is None else 100 * share) for name, share in shares.items()]
    low, high = 100 * finding.low, 100 * finding.high
    told = plain(f"{low:.0f} %" if low == high else f"{low:.0f} to {high:.0f} %")
    value = None if finding.value is None else 100 * finding.value
    limit = 100 * finding.threshold
    row = Track("blocks that clear their null", told, value, low, high, seeds, style)
    axis = Axis(-4, 104, *ENDS)
    said = f"Share of blocks whose cosine clears its null: {told}. More than {limit:g} % is required."
    svg = strip([row], axis, "per cent of the blocks", said, limit=(limit, f"more than {limit:g} % required"),
                words=lambda v: f"{v:.0f} %")  # fmt: skip
    return [Figure(svg, dots(check.judged, evidence)), layers]


def _by_block(check: Check, case: Case, style: Style, band: float) -> Figure:
    """Cosines by block with the band of their null behind them, and Γ beside the last block."""
    evidence = case.evidence
    columns: list[tuple[str, list[tuple[float, float | None, NullRecord | None, bool | None, str]]]] = []
    for name, moment in case.by_seed:
        held = compared(moment, evidence.residual)
        nulls = held.nulls or [None] * len(held.values or [])
        cells = [
            (float(block), c.value if c is not None and c.status == "ok" else None, null, covered(c, null, band),
             f"block {block}")
            for block, (c, null) in enumerate(zip(held.values or [], nulls, strict=False))
        ]  # fmt: skip
        blocks = len(cells) or evidence.blocks or 1
        cells.append((blocks + 0.3, held.mean, held.null_mean, clears(held.mean, held.null_mean, band), "Γ"))
        columns.append((name, cells))
    values = [v for _, cells in columns for _, v, _, _, what in cells if what != "Γ" and v is not None and drawable(v)]
    if not values:
        return Figure(None, f"Cosines by block cannot be drawn: {why(evidence, 'they are not known')}.")
    ends = [
        end for _, cells in columns for _, _, null, _, _ in cells
        if null is not None and known(null.mean) and known(null.std)
        for end in (null.mean - band * null.std, null.mean + band * null.std)
    ]  # fmt: skip
    gammas = [cells[-1][1] for _, cells in columns]
    y = Axis.over([0.0, *values, *gammas, *ends], *UP)
    count = max(len(cells) - 1 for _, cells in columns)
    x = Axis(-0.6, count + 0.9, *ACROSS)
    places = {compared(moment, evidence.residual).place for _, moment in case.by_seed}
    of, title = next((WHAT[place] for place in ("update", "output") if place in places), WHAT["input"])
    chart = Chart(x, y, HEIGHT, "block, and Γ", title)
    chart.x_ticks([*ticks(count), (count + 0.3, "Γ")])
    chart.add(line(x.at(count - 0.35), y.start, x.at(count - 0.35), y.end, "grid"))
    if y.low < 0 < y.high:
        chart.add(line(x.start, y.at(0), x.end, y.at(0), "zero"))
    half = max(1.2, min(4.0, 0.3 * (x.at(1) - x.at(0)) / len(columns)))
    marks: list[Markup] = []
    for shift, (name, cells) in zip(shifts(len(columns)), columns, strict=True):
        for place, value, null, clear, what in cells:
            at = x.at(place + shift)
            if null is not None and known(null.mean) and known(null.std):
                low, high = y.at(null.mean - band * null.std), y.at(null.mean + band * null.std)
                chart.add(tag("rect", class_="null", x=at - half, y=high, width=2 * half, height=max(0.5, low - high)))
            if value is None or not y.holds(value):
                continue
            side = {True: "above its null", False: "not above its null", None: "its null is not known"}[clear]
            marks.append(mark(style.shape, at, y.at(value), f"seed {name}, {what}: {value:+.3f}, {side}",
                              "m" if clear else "m open"))  # fmt: skip
    chart.add(tag("g", *marks, class_=style.class_))
    by_place = {what: [c[1] for _, cells in columns for c in cells if c[4] == what and known(c[1])]
                for what in [f"block {b}" for b in range(count)] + ["Γ"]}  # fmt: skip
    said = f"Cosine of {of} and true gradient by block. {listing(by_place, lambda v: f'{v:+.2f}')}"
    caption = check.layers.format(band=f"{band:g}", of=of, title=title)
    if not ends:
        caption = f"The cosine of {of} and true gradient, {title}, with Γ, their average, on the right. Hollow: "
        caption += "their null is not known."
    return Figure(chart.svg(said), caption)
