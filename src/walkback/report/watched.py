"""A watched training as it is shown while it runs: one line per look, and a small figure for notebooks."""

import sys
from collections.abc import Sequence
from typing import Any

from markupsafe import Markup

from walkback.plain import seen
from walkback.records.readers.watch_log import UPDATE, WatchLook
from walkback.report.page.chart import Axis
from walkback.report.page.markup import shown, tag
from walkback.report.writing import clip, number

WIDTH, HEIGHT, LEFT, RIGHT, TOP, BOTTOM = 360, 150, 48, 8, 18, 22
SHADES = ("#0b559f", "#2b7bba", "#539ecd", "#89bedc", "#bad6eb")  # from the first block to the last


def line_of(look: WatchLook, names: Sequence[str]) -> str:
    """One look in one line, without a character that a terminal would act on."""
    moment = look.moment
    parts = [f"step {look.step:>6}", f"loss {number(moment.loss)}"]
    if moment.accuracy is not None:
        parts.append(f"accuracy {moment.accuracy:.3f}")
    grown = [(value, name) for value, name in zip(moment.growth or [], names, strict=False) if value is not None]
    if grown:
        value, name = max(grown)
        parts.append(f"growth ≤ {number(value)}× ({name})")
    if moment.gradient_norms:
        parts.append(f"‖g_L‖ {number(moment.gradient_norms[-1])}")
    if moment.gamma is not None:
        parts.append(f"Γ {moment.gamma:.2f}")
    readings = [r.value for r in moment.measured.get(UPDATE, []) if r.status == "ok"]
    halves = [value for value in look.halves if value is not None]
    if readings:
        beside = f" (halves {sum(halves) / len(halves):.2f})" if halves else ""
        parts.append(f"update {sum(readings) / len(readings):.2f}{beside}")
    if look.crosses:
        parts.append(crossing_words(look))
    if look.fired:
        parts.append("✗ " + ", ".join(look.fired))
    return seen(" · ".join(parts))


def crossing_words(look: WatchLook) -> str:
    """At how many boundaries the gradient crosses.

    >>> from walkback.records import Moment
    >>> crosses = ["crosses", "carried by hand", "does not cross"]
    >>> look = WatchLook(step=0, moment=Moment(), arrived=[1, 1, 1, 1], crosses=crosses, halves=[None] * 4,
    ...                  proved_at=None, fired=[], notes=[])
    >>> crossing_words(look)
    'gradient crosses 2/3'
    """
    known = [c for c in look.crosses if c != "not seen"]
    crossed = sum(c in ("crosses", "carried by hand") for c in known)
    straight = known.count("direct feedback")
    beside = f", direct feedback {straight}/{len(known)}" if straight else ""
    return f"gradient crosses {crossed}/{len(known)}{beside}" if known else "backward not seen"


def figure(looks: Sequence[WatchLook], names: Sequence[str]) -> Markup:
    """‖h_l‖ after every block through the training, the cosine of its credit, and the last look in words."""
    if not looks:
        return tag("div", tag("p", "nothing was measured yet"))
    steps = [look.step for look in looks]
    depth = len(names)
    sizes = [[_at(look.moment.hidden_norms, block + 1) for look in looks] for block in range(depth)]
    cosines = [[_cosine(look, block) for look in looks] for block in range(depth)]
    parts = [_chart(steps, sizes, "‖h‖ after each block", log=True)]
    if any(value is not None for row in cosines for value in row):
        parts.append(_chart(steps, cosines, "cosine of the credit with the true gradient", log=False))
    parts.append(tag("p", clip(line_of(looks[-1], names), 400)))
    fired = {name: look.step for look in reversed(looks) for name in look.fired}
    for name, step in fired.items():
        parts.append(tag("p", tag("strong", clip(f"✗ {name} fires from step {step} on"))))
    return tag("div", *parts)


def _at(values: Sequence[float | None] | None, place: int) -> float | None:
    return values[place] if values is not None and place < len(values) else None


def _cosine(look: WatchLook, block: int) -> float | None:
    records = look.moment.cosine_out
    record = records[block] if records is not None and block < len(records) else None
    return record.value if record is not None and record.status == "ok" else None


def _chart(steps: Sequence[int], rows: Sequence[Sequence[float | None]], title: str, *, log: bool) -> Markup:
    x = Axis(steps[0], max(steps[-1], steps[0] + 1), LEFT, WIDTH - RIGHT)
    every = [value for row in rows for value in row]
    y = Axis.over(every, HEIGHT - BOTTOM, TOP, log=log) if log else Axis(-1.05, 1.05, HEIGHT - BOTTOM, TOP)
    parts = [tag("text", title, x=4, y=11, font_size=11)]
    for tick, words in y.ticks(4):
        at = y.at(tick)
        parts.append(tag("path", d=f"M{LEFT} {shown(at)}H{WIDTH - RIGHT}", stroke="#8884", fill="none"))
        parts.append(tag("text", words, x=LEFT - 4, y=at + 3, font_size=9, text_anchor="end"))
    words = f"step {steps[-1]}"
    parts.append(tag("text", words, x=WIDTH - RIGHT, y=HEIGHT - 6, font_size=9, text_anchor="end"))
    for block, row in enumerate(rows):
        shade = SHADES[block * len(SHADES) // len(rows)]
        places = [(x.at(s), y.at(v)) for s, v in zip(steps, row, strict=True) if v is not None and y.holds(v)]
        if places:
            d = "M" + "L".join(f"{shown(a)} {shown(b)}" for a, b in places)
            d = d if len(places) > 1 else f"{d}h0"
            parts.append(tag("path", d=d, stroke=shade, fill="none", stroke_width="1.5", stroke_linecap="round"))
    last = ", ".join(number(row[-1]) for row in rows[:12])
    style = f"max-width:{WIDTH}px;display:block;fill:currentColor"
    return tag("svg", *parts, viewBox=f"0 0 {WIDTH} {HEIGHT}", role="img", style=style,
               aria_label=f"{title}; at the last look: {last}")  # fmt: skip


class Live:
    """Shows something: in a notebook as HTML, in one place of the page; elsewhere as a line on standard error."""

    def __init__(self, shown: Any) -> None:
        self.shown = shown
        self._place: Any = None

    def show(self) -> None:
        """Show it as it is now."""
        display = _display()
        if display is None:
            print(repr(self.shown), file=sys.stderr)
        elif self._place is None:
            self._place = display(self.shown, display_id=True)
        else:
            self._place.update(self.shown)


def _display() -> Any:
    """IPython's `display`, inside the kernel of a notebook; None elsewhere, and IPython is not imported for it."""
    ipython = sys.modules.get("IPython")
    shell = ipython.get_ipython() if ipython is not None and hasattr(ipython, "get_ipython") else None
    if shell is None or not hasattr(shell, "kernel"):
        return None
    from importlib import import_module

    return import_module("IPython.display").display
