"""Small figures as inline SVG: scales, axes, lines, marks. Drawn with classes, so that the page's colours apply.

What is not a finite number is never drawn: `Axis.holds` says whether a value has a place, and a line has a gap where it
has none.
"""

import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from markupsafe import Markup

from walkback.report.page.markup import SUPERSCRIPT, THIN, TOKEN, Child, clean, join, num, plain, shown, tag

WIDTH = 360  # as wide as a phone shows it, so that the letters keep their size there
LEFT, RIGHT, TOP, BOTTOM = 44, 10, 24, 34


class Style(NamedTuple):
    """How a subject is drawn everywhere: a colour's class and a mark, so that colour is never alone."""

    class_: str
    shape: str


BP = Style("c-bp", "circle")


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
        least = 1.0 if log else max(least, 0.02 * max(abs(low), abs(high)), 1e-12)
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

    def ticks(self, most: int = 5) -> list[float]:
        """Round numbers along the scale, at most about so many.

        >>> Axis(1e-3, 1e3, 0, 1, log=True).ticks(4)
        [0.001, 0.1, 10.0, 1000.0]
        >>> Axis(-0.1, 0.9, 0, 1).ticks(5)
        [0.0, 0.2, 0.4, 0.6, 0.8]
        """
        if not self.log:
            step = _round_step((self.high - self.low) / most)
            first, last = math.ceil(self.low / step - 1e-9), math.floor(self.high / step + 1e-9)
            return [round(place * step, 12) for place in range(first, last + 1)]
        first, last = math.ceil(math.log10(self.low) - 1e-9), math.floor(math.log10(self.high) + 1e-9)
        if last - first < 1 and self.low >= 0.01 and self.high <= 1000:
            fine = [m * 10.0**e for e in range(first - 1, last + 1) for m in (1, 2, 5)]
            return [v for v in fine if self.low <= v <= self.high]
        every = math.ceil((last - first + 1) / most)
        return [10.0**e for e in range(first, last + 1) if (e - first) % every == 0]

    def written(self, tick: float, most: int = 5) -> str:
        """A tick's label."""
        if self.log:
            return f"{tick:g}" if 1e-2 <= tick <= 1e3 else power(tick)
        step = _round_step((self.high - self.low) / most)
        return plain(f"{tick:.{max(0, -math.floor(math.log10(step) + 1e-9))}f}".replace("-0.0", "0.0"))


def drawable(value: float, log: bool = False) -> bool:
    """Whether a number can be drawn: finite, above zero on a log scale, and not so large or small that floats end."""
    return 1e-250 < value < 1e250 if log else -1e100 < value < 1e100


def power(value: float) -> str:
    """A round number on a log scale.

    >>> power(1e4), power(2e-5)
    ('10⁴', '2\\u202f×\\u202f10⁻⁵')
    """
    mantissa, _, exponent = f"{value:.0e}".partition("e")
    raised = "10" + str(int(exponent)).translate(SUPERSCRIPT)
    return raised if mantissa == "1" else f"{mantissa}{THIN}×{THIN}{raised}"


def _round_step(rough: float) -> float:
    """The round number at or above a rough one: 1, 2 or 5 times a power of ten."""
    power = 10.0 ** math.floor(math.log10(rough))
    return next(m * power for m in (1, 2, 5, 10) if m * power >= rough * (1 - 1e-9))


def outline(shape: str, x: float, y: float, r: float) -> str:
    """The path of a mark."""
    if shape == "square":
        s = 0.86 * r
        return f"M{shown(x - s)} {shown(y - s)}h{shown(2 * s)}v{shown(2 * s)}h{shown(-2 * s)}z"
    if shape == "circle":
        half = f"a{shown(r)} {shown(r)} 0 1 0"
        return f"M{shown(x - r)} {shown(y)}{half} {shown(2 * r)} 0{half} {shown(-2 * r)} 0z"
    corners = CORNERS[shape]
    return "M" + "L".join(f"{shown(x + dx * r)} {shown(y + dy * r)}" for dx, dy in corners) + "z"


def _around(count: int, r: float = 1.2, inner: float | None = None) -> list[tuple[float, float]]:
    """The corners of a regular polygon that stands on a side; with `inner`, of a star."""
    many = count if inner is None else 2 * count
    radii = [r if inner is None or n % 2 == 0 else inner for n in range(many)]
    turns = [2 * math.pi * n / many for n in range(many)]
    return [(size * math.sin(turn), -size * math.cos(turn)) for size, turn in zip(radii, turns, strict=True)]


CORNERS: dict[str, Sequence[tuple[float, float]]] = {
    "left": [(-1.15, 0), (0.85, 1.1), (0.85, -1.1)],
    "right": [(1.15, 0), (-0.85, 1.1), (-0.85, -1.1)],
    "pentagon": _around(5),
    "hexagon": _around(6),
    "star": _around(5, 1.45, 0.6),
    "thin": [(0, -1.4), (0.75, 0), (0, 1.4), (-0.75, 0)],
    "cross": [
        (-1.1, -0.6), (-0.6, -1.1), (0, -0.5), (0.6, -1.1), (1.1, -0.6), (0.5, 0), (1.1, 0.6), (0.6, 1.1), (0, 0.5),
        (-0.6, 1.1), (-1.1, 0.6), (-0.5, 0),
    ],
    "triangle": [(0, -1.15), (1.1, 0.85), (-1.1, 0.85)],
    "down": [(0, 1.15), (1.1, -0.85), (-1.1, -0.85)],
    "diamond": [(0, -1.3), (1.1, 0), (0, 1.3), (-1.1, 0)],
    "plus": [
        (-0.4, -1.2), (0.4, -1.2), (0.4, -0.4), (1.2, -0.4), (1.2, 0.4), (0.4, 0.4), (0.4, 1.2), (-0.4, 1.2),
        (-0.4, 0.4), (-1.2, 0.4), (-1.2, -0.4), (-0.4, -0.4),
    ],
}  # fmt: skip


def mark(shape: str, x: float, y: float, spoken: str | None = None, class_: str = "m", r: float = 3.6) -> Markup:
    """A mark; `spoken` is what it shows when pointed at."""
    inner = None if spoken is None else tag("title", plain(spoken))
    return tag("path", inner, class_=class_, d=outline(shape, x, y, r))


def key(style: Style) -> Markup:
    """A subject's mark, as it stands in the figures."""
    drawn = tag("g", mark(style.shape, 6, 6, class_="m", r=4.2), class_=style.class_)
    return tag("svg", drawn, class_="key", viewBox="0 0 12 12", aria_hidden="true")


def line(x1: float, y1: float, x2: float, y2: float, class_: str) -> Markup:
    """A straight line."""
    return tag("path", class_=class_, d=f"M{shown(x1)} {shown(y1)}L{shown(x2)} {shown(y2)}")


def label(x: float, y: float, words: str, class_: str | None = None, anchor: str | None = None) -> Markup:
    """Words, with indices such as those of ‖h_L‖ below the line."""
    words = clean(words)
    parts: list[Child] = []
    done, lowered = 0, False
    for match in TOKEN.finditer(words):
        if not match["letter"]:
            continue
        parts += [_raised(plain(words[done : match.start()]), lowered), match["letter"]]
        parts.append(tag("tspan", match["index"].strip("{}"), class_="sub", dy="3"))
        done, lowered = match.end(), True
    parts.append(_raised(plain(words[done:]), lowered))
    return tag("text", *parts, x=x, y=y, class_=class_, text_anchor=anchor)


def _raised(words: str, lowered: bool) -> Child:
    """Words that follow an index go back up to the line."""
    return tag("tspan", words, dy="-3") if lowered and words else words


def polyline(points: Sequence[tuple[float, float] | None], class_: str) -> Markup:
    """A line through points, in pieces where one is missing; a point alone between gaps is a dot."""
    pieces: list[list[tuple[float, float]]] = [[]]
    for point in points:
        if point is None:
            pieces.append([])
        else:
            pieces[-1].append(point)
    drawn = []
    for piece in filter(None, pieces):
        d = "M" + "L".join(f"{shown(x)} {shown(y)}" for x, y in piece)
        drawn.append(tag("path", class_=class_, d=d if len(piece) > 1 else f"{d}h0"))
    return join(drawn)


class Chart:
    """A figure with two axes. Things are drawn in the order they are added."""

    def __init__(
        self, x: Axis, y: Axis, height: float, x_label: str, y_label: str, ticks: bool = True, width: float = WIDTH
    ):
        self.x, self.y = x, y
        self.height, self.width = height, width
        self.parts: list[Markup] = []
        for tick in y.ticks(4) if ticks else ():
            at = y.at(tick)
            self.parts.append(line(x.start, at, x.end, at, "grid"))
            self.parts.append(label(x.start - 5, at + 3.5, y.written(tick, 4), "tick", "end"))
        self.parts.append(line(x.start, y.start, x.end, y.start, "axis"))
        self.parts.append(label(4, 12, y_label, "name"))
        self.parts.append(label(x.end, height - 4, x_label, "name", "end"))

    def add(self, *parts: Markup) -> None:
        """Draw on top of what is there."""
        self.parts += parts

    def x_ticks(self, places: Sequence[tuple[float, str]]) -> None:
        """Labels below the axis, at places on the x scale."""
        for at, words in places:
            self.add(label(self.x.at(at), self.y.start + 14, words, "tick", "middle"))

    def limit(self, value: float, words: str) -> None:
        """A threshold across the figure; its name stands above the axes, so that no line runs through it."""
        at = self.y.at(value)
        self.add(line(self.x.start, at, self.x.end, at, "limit"))
        self.above(f"┄ {words}")

    def above(self, words: str) -> None:
        """Words above the axes, at the right."""
        self.add(label(self.x.end, 12, words, "limit-name", "end"))

    def svg(self, spoken: str) -> Markup:
        """The figure; `spoken` is what is read out in its place."""
        return picture(self.parts, self.height, spoken, self.width)


class Track(NamedTuple):
    """One line of a strip: a mean with its interval, the seeds behind it, or why there is nothing."""

    name: str
    numbers: str  # the numbers in words, or why there are none
    mean: float | None = None
    low: float | None = None
    high: float | None = None
    seeds: Sequence[tuple[str, float | None]] = ()
    style: Style = Style("", "circle")


ROW = 29


def strip(
    rows: Sequence[Track],
    axis: Axis,
    x_label: str,
    spoken: str,
    *,
    limit: tuple[float, str] | None = None,
    zero: bool = False,
    words: Callable[[float], str] = num,
) -> Markup:
    """Rows of values along one axis, against a threshold."""
    top = 16 if limit else 4
    bottom = top + ROW * len(rows)
    height = bottom + 30
    tracks = [top + ROW * place + 20 for place in range(len(rows))]
    parts: list[Markup] = []
    # Lines run behind the marks only, never through the words above them.
    for tick in axis.ticks():
        parts.append(_behind(axis.at(tick), tracks, "grid"))
        parts.append(label(axis.at(tick), bottom + 13, axis.written(tick), "tick", "middle"))
    parts.append(line(axis.start, bottom, axis.end, bottom, "axis"))
    if zero and axis.low < 0 < axis.high:
        parts.append(_behind(axis.at(0), tracks, "zero"))
    parts.append(label(axis.end, height - 4, x_label, "name", "end"))
    if limit is not None:
        parts.append(_behind(axis.at(limit[0]), tracks, "limit"))
        parts.append(label(axis.end, 11, f"┆ {limit[1]}", "limit-name", "end"))
    for row, track in zip(rows, tracks, strict=True):
        y = track - 10
        parts.append(label(axis.start, y, row.name, "row"))
        parts.append(label(axis.end, y, row.numbers, "row told", "end"))
        drawn = [mark("circle", axis.at(v), track, f"seed {s}: {words(v)}", "m seed", 2.6)
                 for s, v in row.seeds if v is not None and axis.holds(v)]  # fmt: skip
        if row.low is not None and row.high is not None and axis.holds(row.low) and axis.holds(row.high):
            left, right = axis.at(row.low), axis.at(row.high)
            ends = f"M{shown(left)} {shown(track - 4)}v8M{shown(right)} {shown(track - 4)}v8"
            drawn += [line(left, track, right, track, "interval"), tag("path", class_="interval-end", d=ends)]
        if row.mean is not None and axis.holds(row.mean):
            drawn.append(mark(row.style.shape, axis.at(row.mean), track, f"{row.name}: {row.numbers}", "m", 4.4))
        parts.append(tag("g", *drawn, class_=row.style.class_ or None))
    return picture(parts, height, spoken)


def _behind(x: float, tracks: Sequence[float], class_: str) -> Markup:
    """An upright line at x, in a piece behind each row's marks."""
    d = "".join(f"M{shown(x)} {shown(track - 6)}V{shown(track + 8)}" for track in tracks)
    return tag("path", class_=class_, d=d)


def picture(parts: Sequence[Markup], height: float, spoken: str, width: float = WIDTH) -> Markup:
    """The SVG element. A role of img and a label stand for all that is in it."""
    return tag("svg", *parts, viewBox=f"0 0 {shown(width)} {shown(height)}", role="img", aria_label=plain(spoken))
