"""What the small figures of the page share: a figure with its caption, numbers in words, marks by block."""

import math
from collections.abc import Callable, Mapping, Sequence
from typing import NamedTuple

from markupsafe import Markup

from walkback.checks import Finding
from walkback.checks.finding import known
from walkback.records import BaselineName, Evidence, Moment
from walkback.report.case import Case
from walkback.report.inks import INKS
from walkback.report.page.markup import clean, num
from walkback.report.page.svg import BOTTOM, LEFT, RIGHT, TOP, WIDTH, Axis, Chart, Style

HEIGHT = 176
MANY = 12  # more subjects than that are folded
BASELINES: Mapping[BaselineName, str] = {
    "frozen": "its own frozen net", "frozen_bp": "the frozen net that bp trained", "bp": "bp with every block trained",
    "shallow": "the shallow net", "half": "its own net with the lower half frozen",
    "half_bp": "bp with the lower half frozen",
}  # fmt: skip
ENDS = (8.0, WIDTH - 10.0)  # of a strip's axis
ACROSS = (LEFT, WIDTH - RIGHT)  # of a chart's axes: from left to right, from bottom to top
UP = (HEIGHT - BOTTOM, TOP)


class Figure(NamedTuple):
    """A figure and its caption. Without a drawing the caption says why there is none."""

    svg: Markup | None
    caption: str


SHAPES = {
    "o": "circle", "s": "square", "^": "triangle", "v": "down", "P": "plus", "d": "thin", "D": "diamond", "X": "cross",
    "<": "left", ">": "right", "p": "pentagon", "h": "hexagon", "*": "star",
}  # fmt: skip
CLASSES = {
    "#2166ac": "c-bp", "#e08214": "c-fa", "#b2182b": "c-dfa", "#1b7837": "c-ep", "#762a83": "c-cb", "#bf812d": "c-sb",
    "#777777": "c-random", "#4d9221": "c-1", "#80cdc1": "c-2", "#c51b7d": "c-3", "#8c510a": "c-4", "#35978f": "c-5",
}  # fmt: skip


def style_of(case: Case) -> Style:
    """A rule looks the same in every figure, here and on paper."""
    ink = INKS[clean(case.evidence.rule or case.judgement.name).lower()]
    return Style(CLASSES[ink.colour], SHAPES[ink.marker])


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
    """A gain in points, with its sign.

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
    numbers = before + words(finding.value)
    if finding.low is not None and finding.high is not None and words(finding.low) != words(finding.high):
        numbers += f" ({words(finding.low)} to {words(finding.high)})"
    return numbers


def spread(values: Sequence[float], words: Callable[[float], str]) -> str:
    """One number, or from the least to the largest."""
    if not values:
        return "not known"
    low, high = words(min(values)), words(max(values))
    return low if low == high else f"{low} to {high}"


def listing(by_place: Mapping[str, Sequence[float | None]], words: Callable[[float], str], most: int = 16) -> str:
    """What a figure shows, place by place, for those who hear it."""
    parts = [f"{place}: {spread([v for v in values if v is not None], words)}" for place, values in by_place.items()]
    return "; ".join(parts[:most]) + (f"; and {len(parts) - most} more" if len(parts) > most else "") + "."


def dots(caption: str, evidence: Evidence) -> str:
    """A caption that speaks of dots only where there are seeds to draw."""
    return caption if evidence.seeds else caption.partition(" One dot")[0]


def why(evidence: Evidence, what: str) -> str:
    """Why something cannot be drawn."""
    return what if evidence.seeds else "the records are not here, only what was judged of them"


def shifts(count: int) -> list[float]:
    """Where the marks of several seeds stand beside each other, in blocks."""
    gap = min(0.16, 0.5 / max(1, count))
    return [(place - (count - 1) / 2) * gap for place in range(count)]


def ticks(count: int) -> list[tuple[float, str]]:
    """Labels of so many blocks, or of some of them."""
    every = math.ceil(count / 12)
    return [(float(block), str(block)) for block in range(0, count, every)]


def by_block(count: int, y: Axis, x_label: str, y_label: str) -> Chart:
    """A chart with a place for each block or state."""
    chart = Chart(Axis(-0.6, count - 0.4, *ACROSS), y, HEIGHT, x_label, y_label)
    chart.x_ticks(ticks(count))
    return chart
