"""How every figure of the page is drawn, as inline SVG: scales, axes, lines, marks, strips, charts.

Drawn with classes, so that the page's colours apply. What is not a finite number is never drawn: `Axis.holds` says
whether a value has a place, and a line has a gap where it has none.
"""

import math
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from markupsafe import Markup

from walkback.records import Evidence
from walkback.report.case import Case, distinct
from walkback.report.inks import INKS, Ink
from walkback.report.page.markup import Child, join, num, plain, shown, tag
from walkback.report.writing import clean

WIDTH, HEIGHT = 360, 176  # as wide as a phone shows it, so that the letters keep their size there
LEFT, RIGHT, TOP, BOTTOM = 44, 10, 24, 34
ACROSS, UP = (LEFT, WIDTH - RIGHT), (HEIGHT - BOTTOM, TOP)  # a chart's axes: from left to right, from bottom to top
ENDS = (8.0, WIDTH - 10.0)  # of a strip's axis
ROW, LETTERS = 29, 60  # of a strip: how high a row is, and how many letters fit above it


class Figure(NamedTuple):
    """A figure and its caption. Without a drawing the caption says why there is none."""

    svg: Markup | None
    caption: str


def absent(what: str, evidence: Evidence, why: str) -> Figure:
    """Why something cannot be drawn."""
    reason = why if evidence.seeds else "the records are not here, only what was judged of them"
    return Figure(None, f"{what} be drawn: {reason}.")


@dataclass(frozen=True)
class Axis:
    """A scale from numbers to places, linear or logarithmic."""

    low: float
    high: float
    start: float
    end: float
    log: bool = False

    @classmethod
    def over(
        cls, values: Iterable[float | None], start: float, end: float, *, log: bool = False, least: float = 0.0
    ) -> "Axis":
        """A scale that holds all of `values` that can be drawn, is `least` long, and has some room at both ends."""
        known = [v for v in values if v is not None and drawable(v, log)]
        seen = [math.log10(v) for v in known] if log else known
        low, high = (min(seen), max(seen)) if seen else (0.0, 1.0)
        least = 1.0 if log else max(least, 0.02 * max(abs(low), abs(high)), 1e-3)
        if high - low < least:
            low, high = (low + high - least) / 2, (low + high + least) / 2
        room = (high - low) * 0.08
        low, high = low - room, high + room
        return cls(10**low, 10**high, start, end, True) if log else cls(low, high, start, end)

    def holds(self, value: float | None) -> bool:
        """Whether a value has a place on this scale at all."""
        return value is not None and drawable(value, self.log)

    def at(self, value: float) -> float:
        """Where a value lies; beyond the ends it lies at the end."""
        if self.log:
            share = math.log(value / self.low) / math.log(self.high / self.low)
        else:
            share = (value - self.low) / (self.high - self.low)
        return self.start + min(1.0, max(0.0, share)) * (self.end - self.start)

    def ticks(self, most: int = 5) -> list[tuple[float, str]]:
        """Round numbers along the scale with their labels, at most about so many.

        >>> Axis(1e-3, 1e3, 0, 1, log=True).ticks(4)
        [(0.001, '10⁻³'), (0.1, '0.1'), (10.0, '10'), (1000.0, '1000')]
        >>> Axis(-0.06, 0.06, 0, 1).ticks(3)
        [(-0.05, '−0.05'), (0.0, '0.00'), (0.05, '0.05')]
        """
        if self.log:
            first, last = math.ceil(math.log10(self.low) - 1e-9), math.floor(math.log10(self.high) + 1e-9)
            values = [10.0**e for e in range(first, last + 1, max(1, math.ceil((last - first + 1) / most)))]
            if last - first < 1 and self.low >= 0.01 and self.high <= 1000:
                fine = [m * 10.0**e for e in range(first - 1, last + 1) for m in (1, 2, 5)]
                values = [v for v in fine if self.low <= v <= self.high]
            return [(v, f"{v:g}" if 1e-2 <= v <= 1e3 else plain(f"{v:.0e}")) for v in values]
        rough = (self.high - self.low) / most
        size = 10.0 ** math.floor(math.log10(rough))
        step = next(m * size for m in (1, 2, 5, 10) if m * size >= rough * (1 - 1e-9))
        digits = max(0, -math.floor(math.log10(step) + 1e-9))
        every = range(math.ceil(self.low / step - 1e-9), math.floor(self.high / step + 1e-9) + 1)
        values = [round(place * step, 12) for place in every]
        return [(v, plain(f"{v:.{digits}f}")) for v in values]


def drawable(value: float, log: bool = False) -> bool:
    """Whether a number can be drawn: finite, above zero on a log scale, and not so large or small that floats end."""
    return 1e-250 < value < 1e250 if log else -1e100 < value < 1e100


# --- marks: how a rule looks, here and on paper, in every figure ------------------------------------------------------


def ink_of(case: Case) -> Ink:
    """The ink of its rule; of a subject without one, an ink that goes with its name."""
    return INKS[clean(case.evidence.rule or case.judgement.name).lower()]


def inked(ink: Ink | None, *parts: Child) -> Markup:
    """Parts in the colour of an ink, by the class that the style sheet has for it."""
    return tag("g", *parts, class_=None if ink is None else f"c-{ink.colour[1:]}")


def outline(marker: str, x: float, y: float, r: float) -> str:
    """The path of a mark, by the name that matplotlib has for it."""
    if marker == "s":
        s = 0.86 * r
        return f"M{shown(x - s)} {shown(y - s)}h{shown(2 * s)}v{shown(2 * s)}h{shown(-2 * s)}z"
    if marker == "o":
        half = f"a{shown(r)} {shown(r)} 0 1 0"
        return f"M{shown(x - r)} {shown(y)}{half} {shown(2 * r)} 0{half} {shown(-2 * r)} 0z"
    return "M" + "L".join(f"{shown(x + dx * r)} {shown(y + dy * r)}" for dx, dy in CORNERS[marker]) + "z"


def _around(*radii: float) -> list[tuple[float, float]]:
    """Corners at these distances, evenly around: of a regular polygon that stands on a side, or of a star."""
    turns = [2 * math.pi * n / len(radii) for n in range(len(radii))]
    return [(size * math.sin(turn), -size * math.cos(turn)) for size, turn in zip(radii, turns, strict=True)]


CORNERS: Mapping[str, Sequence[tuple[float, float]]] = {
    "^": [(0, -1.15), (1.1, 0.85), (-1.1, 0.85)],
    "v": [(0, 1.15), (1.1, -0.85), (-1.1, -0.85)],
    "<": [(-1.15, 0), (0.85, 1.1), (0.85, -1.1)],
    ">": [(1.15, 0), (-0.85, 1.1), (-0.85, -1.1)],
    "D": [(0, -1.3), (1.1, 0), (0, 1.3), (-1.1, 0)],
    "d": [(0, -1.4), (0.75, 0), (0, 1.4), (-0.75, 0)],
    "p": _around(*[1.2] * 5),
    "h": _around(*[1.2] * 6),
    "*": _around(*[1.45, 0.6] * 5),
    "P": [
        (-0.4, -1.2), (0.4, -1.2), (0.4, -0.4), (1.2, -0.4), (1.2, 0.4), (0.4, 0.4), (0.4, 1.2), (-0.4, 1.2),
        (-0.4, 0.4), (-1.2, 0.4), (-1.2, -0.4), (-0.4, -0.4),
    ],
    "X": [
        (-1.1, -0.6), (-0.6, -1.1), (0, -0.5), (0.6, -1.1), (1.1, -0.6), (0.5, 0), (1.1, 0.6), (0.6, 1.1), (0, 0.5),
        (-0.6, 1.1), (-1.1, 0.6), (-0.5, 0),
    ],
}  # fmt: skip


def mark(marker: str, x: float, y: float, spoken: str | None = None, class_: str = "m", r: float = 3.6) -> Markup:
    """A mark; `spoken` is what it shows when pointed at."""
    return tag("path", spoken and tag("title", plain(spoken)), class_=class_, d=outline(marker, x, y, r))


def key(case: Case) -> Markup:
    """A subject's mark, as it stands in the figures."""
    drawn = inked(ink_of(case), mark(ink_of(case).marker, 6, 6, class_="m", r=4.2))
    return tag("svg", drawn, class_="key", viewBox="0 0 12 12", aria_hidden="true")


# --- lines and words --------------------------------------------------------------------------------------------------


def line(x1: float, y1: float, x2: float, y2: float, class_: str) -> Markup:
    """A straight line."""
    return polyline([(x1, y1), (x2, y2)], class_)


def polyline(points: Sequence[tuple[float, float] | None], class_: str) -> Markup:
    """A line through points, in pieces where one is missing; a point alone between gaps is a dot."""
    pieces: list[list[str]] = [[]]
    for point in points:
        if point is None:
            pieces.append([])
        else:
            pieces[-1].append(f"{shown(point[0])} {shown(point[1])}")
    drawn = [f"M{'L'.join(piece)}{'' if len(piece) > 1 else 'h0'}" for piece in pieces if piece]
    return join(tag("path", class_=class_, d=d) for d in drawn)


def label(x: float, y: float, words: str, class_: str | None = None, anchor: str | None = None) -> Markup:
    """Words; an index stands on the line, as in a terminal."""
    shown = plain(re.sub(r"_\{([^{}]*)\}", r"_\1", words))
    return tag("text", shown, x=x, y=y, class_=class_, text_anchor=anchor)


def picture(parts: Sequence[Markup], height: float, spoken: str, width: float = WIDTH) -> Markup:
    """The SVG element. A role of img and a label stand for all that is in it; the page's tables have the numbers."""
    return tag("svg", *parts, viewBox=f"0 0 {shown(width)} {shown(height)}", role="img", aria_label=plain(spoken))


# --- charts: two axes -------------------------------------------------------------------------------------------------


Point = tuple[float, float, str, str]  # a place, a value, what it is, and what is said against it: then it is hollow


class Chart:
    """A figure with two axes. Things are drawn in the order they are added."""

    def __init__(
        self, x: Axis, y: Axis, x_label: str, y_label: str, x_ticks: Sequence[tuple[float, str]], *,
        width: float = WIDTH,
    ):  # fmt: skip
        self.x, self.y, self.width = x, y, width
        self.parts: list[Markup] = []
        for tick, words in y.ticks(4):
            self.across(tick, "grid")
            self.parts.append(label(x.start - 5, y.at(tick) + 3.5, words, "tick", "end"))
        self.parts.append(line(x.start, y.start, x.end, y.start, "axis"))
        self.parts.append(label(4, 12, y_label, "name"))
        self.parts.append(label(x.end, HEIGHT - 4, x_label, "name", "end"))
        self.parts += [label(x.at(at), y.start + 14, words, "tick", "middle") for at, words in x_ticks]

    def across(self, value: float, class_: str) -> None:
        """A line from left to right."""
        self.parts.append(line(self.x.start, self.y.at(value), self.x.end, self.y.at(value), class_))

    def zero(self) -> None:
        """A line at zero, where values lie on both sides of it."""
        if self.y.low < 0 < self.y.high:
            self.across(0, "zero")

    def limit(self, value: float, words: str) -> None:
        """A threshold; its name stands above the axes, so that no line runs through it."""
        self.across(value, "limit")
        self.parts.append(label(self.x.end, 12, f"┄ {words}", "limit-name", "end"))

    def by_seed(
        self, ink: Ink, seeds: Mapping[str, Sequence[Point | None]], words: Callable[[float], str], joined: bool = True
    ) -> None:
        """The points of each seed, side by side and joined by a line, which has a gap at None."""
        for shift, (name, found) in zip(shifts(len(seeds)), seeds.items(), strict=True):
            points = [p and (self.x.at(p[0] + shift), self.y.at(p[1])) for p in found]
            marks = []
            for at, point in zip(points, found, strict=True):
                if at and point:
                    _, value, what, note = point
                    spoken = f"seed {name}, {what}: {words(value)}{note and f', {note}'}"
                    marks.append(mark(ink.marker, *at, spoken, "m open" if note else "m"))
            self.parts.append(inked(ink, polyline(points, "seed-line") if joined else None, *marks))

    def svg(self, spoken: str) -> Markup:
        """The figure; `spoken` is what is read out in its place."""
        return picture(self.parts, HEIGHT, spoken, self.width)


def shifts(count: int) -> list[float]:
    """Where the marks of several seeds stand beside each other, in blocks."""
    gap = min(0.16, 0.5 / max(1, count))
    return [(place - (count - 1) / 2) * gap for place in range(count)]


def block_ticks(count: int) -> list[tuple[float, str]]:
    """Labels of so many blocks, or of some of them."""
    return [(float(block), str(block)) for block in range(0, count, math.ceil(count / 12))]


def by_block(count: int, y: Axis, x_label: str, y_label: str) -> Chart:
    """A chart with a place for each block or state."""
    return Chart(Axis(-0.6, count - 0.4, *ACROSS), y, x_label, y_label, block_ticks(count))


# --- strips: rows of values along one axis ----------------------------------------------------------------------------


class Track(NamedTuple):
    """One row of a strip: a mean with its interval, the seeds behind it, or why there is nothing."""

    name: str
    numbers: str  # the numbers in words, or why there are none
    mean: float | None = None
    low: float | None = None
    high: float | None = None
    seeds: Sequence[tuple[str, float | None]] = ()
    ink: Ink | None = None

    def drawn(self) -> list[float | None]:
        """All that needs a place on the axis."""
        return [self.mean, self.low, self.high, *(value for _, value in self.seeds)]


def strip(
    rows: Sequence[Track], x_label: str, *, limit: tuple[float, str] | None = None,
    also: Sequence[float] = (), log: bool = False, least: float = 0.0, words: Callable[[float], str] = num,
) -> Markup:  # fmt: skip
    """Rows of values against a threshold. The axis holds them all, and the numbers in `also`."""
    every = [value for row in rows for value in row.drawn()]
    axis = Axis.over([*every, *also, *(limit or ())[:1]], *ENDS, log=log, least=least)
    top = 16 if limit else 4
    bottom = top + ROW * len(rows)
    tracks = [top + ROW * place + 20 for place in range(len(rows))]

    def behind(value: float, class_: str) -> Markup:
        """An upright line, in a piece behind each row's marks and never through the words above them."""
        x = shown(axis.at(value))
        return tag("path", class_=class_, d="".join(f"M{x} {shown(y - 6)}V{shown(y + 8)}" for y in tracks))

    parts: list[Markup] = []
    for tick, tick_words in axis.ticks():
        at = axis.at(tick)  # a label near an edge would be cut off if it stood in the middle below its tick
        anchor = "start" if at < axis.start + 8 else "end" if at > axis.end - 8 else "middle"
        parts += [behind(tick, "grid"), label(at, bottom + 13, tick_words, "tick", anchor)]
    parts.append(line(axis.start, bottom, axis.end, bottom, "axis"))
    if limit is not None and axis.low < 0 < axis.high:
        parts.append(behind(0, "zero"))
    parts.append(label(axis.end, bottom + 26, x_label, "name", "end"))
    if limit is not None:
        parts += [behind(limit[0], "limit"), label(axis.end, 11, f"┆ {limit[1]}", "limit-name", "end")]
    for row, y in zip(rows, tracks, strict=True):
        name = distinct([row.name], max(20, LETTERS - len(row.numbers)))[0]
        parts.append(label(axis.start, y - 10, name))
        parts.append(label(axis.end, y - 10, row.numbers, "numbers", "end"))
        drawn = [mark("o", axis.at(v), y, f"seed {s}: {words(v)}", "m seed", 2.6)
                 for s, v in row.seeds if v is not None and axis.holds(v)]  # fmt: skip
        if row.low is not None and row.high is not None and axis.holds(row.low) and axis.holds(row.high):
            left, right = axis.at(row.low), axis.at(row.high)
            ends = f"M{shown(left)} {shown(y - 4)}v8M{shown(right)} {shown(y - 4)}v8"
            drawn += [line(left, y, right, y, "interval"), tag("path", class_="interval-end", d=ends)]
        if row.mean is not None and axis.holds(row.mean):
            marker = row.ink.marker if row.ink else "o"
            drawn.append(mark(marker, axis.at(row.mean), y, f"{row.name}: {row.numbers}", "m", 4.4))
        parts.append(inked(row.ink, *drawn))
    spoken = "; ".join([*(f"{row.name}: {row.numbers}" for row in rows), *([limit[1]] if limit else [])])
    return picture(parts, bottom + 30, f"{x_label[:1].upper()}{x_label[1:]}. {spoken}.".removeprefix(". "))
