"""What every figure shares: the style, one ink a rule, curves over seeds, the note below, how it is saved; and
quantities through training, which several studies draw.

Nothing is measured here: a figure is drawn from records. What is not there is a gap, and the note says so.
"""

import io
import math
import statistics
import textwrap
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import matplotlib.style
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D

from walkback.files import make_folder, write_whole
from walkback.records import Run, Snapshot
from walkback.report import INKS as INKS
from walkback.report import Ink as Ink
from walkback.report import Stat
from walkback_paper.base import Collected
from walkback_paper.quantities import Quantity

STYLE = Path(__file__).with_name("walkback.mplstyle")
PAGE = 7.0  # inches; a column is half of it
GREY = "#555555"


@contextmanager
def style() -> Iterator[None]:
    """Inside, figures are made and saved in our style, whatever the user's own is."""
    with matplotlib.style.context(["default", str(STYLE)]):
        yield


def save(figure: Figure, folder: Path, name: str) -> list[Path]:
    """Write PDF and PNG, each whole or not at all. The same records give the same bytes: no date is kept."""
    make_folder(folder)
    written = []
    for kind, metadata in (("pdf", {"CreationDate": None}), ("png", {})):
        file = io.BytesIO()
        figure.savefig(file, format=kind, metadata=metadata)
        path = folder / f"{name}.{kind}"
        write_whole(path, file.getvalue())
        written.append(path)
    return written


def figure(width: float, height: float, note: str = "") -> Figure:
    """An empty figure of so many inches with a note below, for which it grows."""
    lines = textwrap.wrap(note, int(width * 19.5)) if note else []
    below = 0.135 * len(lines) + (0.06 if lines else 0)
    made = Figure(figsize=(width, height + below), layout="constrained")
    engine = made.get_layout_engine()
    assert engine is not None
    share = below / (height + below)
    engine.set(rect=(0, share, 1, 1 - share), w_pad=0.06, h_pad=0.05)  # type: ignore[call-arg]
    if lines:
        made.text(0.06 / width, 0.04 / (height + below), "\n".join(lines), fontsize=6.5, color=GREY, va="bottom",
                  linespacing=1.25)  # fmt: skip
    return made


@dataclass(frozen=True)
class SeedCurve:
    """A quantity through training: its middle over the seeds, and one standard deviation to either side."""

    epochs: list[int]
    middle: list[float]
    low: list[float]
    high: list[float]
    n: int


def curve(runs: Sequence[Run], pick: Callable[[Snapshot], float], *, log: bool) -> SeedCurve:
    """Over the seeds, epoch by epoch; for a log scale mean and standard deviation are those of the logarithm.

    An epoch at which a seed has no finite value (or, for a log scale, no positive one) is a gap.
    """
    by_epoch: dict[int, list[float]] = {}
    for run in runs:
        for snapshot in run.snapshots:
            by_epoch.setdefault(snapshot.epoch, []).append(pick(snapshot))
    epochs = sorted(epoch for epoch, values in by_epoch.items() if len(values) == len(runs))
    found = SeedCurve(epochs, [], [], [], len(runs))
    for epoch in epochs:
        values = by_epoch[epoch]
        mean = spread = math.nan
        if all(math.isfinite(v) and (v > 0 or not log) for v in values):
            scaled = [math.log10(v) if log else v for v in values]
            mean, spread = statistics.fmean(scaled), statistics.stdev(scaled) if len(scaled) > 1 else 0.0
        for ends, end in ((found.middle, mean), (found.low, mean - spread), (found.high, mean + spread)):
            ends.append(10**end if log else end)
    return found


def draw_curve(axes: Axes, found: SeedCurve, ink: Ink) -> None:
    """A line with a few markers, and its band. One seed has no band and hollow markers."""
    if not found.epochs:
        return
    every = max(1, len(found.epochs) // 6)
    looks: dict[str, Any] = _looks(ink, found.n == 1) | {"markevery": every}
    axes.plot(found.epochs, found.middle, **looks)
    if found.n > 1:
        axes.fill_between(found.epochs, found.low, found.high, color=looks["color"], alpha=0.18, linewidth=0)


def _looks(ink: Ink, alone: bool) -> dict[str, Any]:
    """How a rule's line looks; `alone`: of one seed."""
    looks = {"color": ink.colour, "linestyle": ink.line, "marker": ink.marker}
    return looks | ({"markerfacecolor": "white", "linewidth": 1.0} if alone else {})


def draw_steps(axes: Axes, places: Sequence[float], stats: Sequence[Stat | None], ink: Ink, **more: Any) -> None:
    """Means with their spread at some places (layers, blocks, λ); None or no seed is a gap. One seed: hollow."""
    points = [s if s is not None and s.mean is not None else None for s in stats]
    means = [math.nan if s is None else s.mean or 0.0 for s in points]
    several = any(s is not None and s.n > 1 for s in points)
    bars: Any = [[_reach(s, side) for s in points] for side in (0, 1)] if several else None
    alone = not several and any(s is not None for s in points)
    axes.errorbar(places, means, yerr=bars, elinewidth=0.8, **_looks(ink, alone) | more)


def _reach(stat: Stat | None, side: int) -> float:
    """How far a bar goes down (0) or up (1): to its interval, else one standard deviation; of sizes to the ends."""
    if stat is None or stat.mean is None or stat.n < 2:
        return 0.0
    if stat.form == "size" or stat.interval is not None:
        low, high = stat.interval or (min(stat.values), max(stat.values))
        return stat.mean - low if side == 0 else high - stat.mean
    return stat.std or 0.0


def handle(ink: Ink) -> Line2D:
    """A rule in a legend."""
    return Line2D([], [], color=ink.colour, marker=ink.marker, linestyle=ink.line, label=ink.name)


def legend(figure: Figure, inks: Sequence[Ink]) -> None:
    """One legend above all panels, where it hides nothing: the inks, then every level that a panel shows."""
    levels = {str(line.get_label()): line for axes in figure.axes for line in axes.lines if line.get_gid() == LEVEL}
    handles = [*map(handle, inks), *levels.values()]
    lengths = [len(str(each.get_label()).replace("$", "")) for each in handles]

    width = figure.get_figwidth()

    def columns(letter: float) -> int:
        """How many fit side by side, with so many inches a letter: all, or as many as of the longest."""
        if sum(0.48 + letter * length for length in lengths) < width:
            return len(handles)
        return int(width / (0.48 + letter * max(lengths)))

    size = 7.5 if columns(0.062) >= min(len(handles), 3) else 6.5
    rows = -(-len(handles) // max(1, columns(0.062 if size > 7 else 0.054)))
    figure.legend(handles=handles, loc="outside upper center", ncols=-(-len(handles) // rows), fontsize=size)


LEVEL = "level"  # marks a line that the legend names
LEVELS = {"chance": ":", "limit of scale": (0, (3, 1.5, 1, 1.5))}  # those that are not dashed


def level(axes: Axes, value: float, words: str) -> None:
    """A horizontal line. The legend names it: curves may lie anywhere, so nothing is written beside it."""
    axes.axhline(value, label=words, color=GREY, linewidth=0.9, zorder=1.5, gid=LEVEL,
                 linestyle=LEVELS.get(words, (0, (4, 2))))  # fmt: skip


def whole_epochs(axes: Axes) -> None:
    """An axis of epochs: whole numbers, from 0."""
    from matplotlib.ticker import MaxNLocator

    axes.xaxis.set_major_locator(MaxNLocator(5, integer=True))
    axes.set_xlabel("epoch")
    axes.margins(x=0.02)


def log_scale(axes: Axes) -> None:
    """Decades alone, where there are enough of them: the ticks between them tell nothing at this size."""
    from matplotlib.ticker import FuncFormatter, LogLocator, NullLocator

    axes.set_yscale("log")
    low, high = axes.get_ylim()
    few = 0 < low < high < 30 * low
    axes.yaxis.set_major_locator(LogLocator(numticks=6, subs=(1.0, 2.0, 5.0) if few else (1.0,)))
    axes.yaxis.set_minor_locator(NullLocator())
    if few and low >= 0.01 and high < 1e4:
        axes.yaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:g}"))


def say_empty(axes: Axes, words: str = "no finished run") -> None:
    """A panel of which nothing is there says so, and shows no numbers."""
    axes.text(0.5, 0.5, words, transform=axes.transAxes, ha="center", va="center", color=GREY, fontsize=7)
    axes.tick_params(labelbottom=False, labelleft=False, length=0)


# --- what several studies draw ---

BANDS = "Lines: mean over seeds; bands: ± one standard deviation (of the logarithm, where the scale is logarithmic)."
Lines = Mapping[str, Ink]  # by arm how its line looks


def draw_curves(g: Collected, axes: Axes, lines: Lines, quantity: Quantity) -> None:
    """One quantity of some arms through training, on its own scale and with its level."""
    for arm, ink in lines.items():
        draw_curve(axes, curve(g[arm], quantity.pick, log=quantity.log), ink)
    scaled(axes, quantity, any(g[arm] for arm in lines))
    whole_epochs(axes)


def scaled(axes: Axes, quantity: Quantity, known: bool = True) -> None:
    """The axis that a quantity asks for; a panel of which nothing is there says so."""
    if known and quantity.level is not None:
        level(axes, *quantity.level)
    if quantity.log:
        log_scale(axes)
    elif quantity.form == "share":
        axes.set_ylim(bottom=0)
    if not known:
        say_empty(axes)
    axes.set_ylabel(quantity.axis)


def through_training(
    g: Collected, rows: Mapping[str, Lines], columns: Sequence[Quantity], words: str = "", *, width: float = PAGE,
    height: float = 1.75, share: bool = False,
) -> Figure:  # fmt: skip
    """A row per title and a column per quantity, with one line per arm."""
    arms = list(dict.fromkeys(arm for lines in rows.values() for arm in lines))
    bands = BANDS if any(len(g[arm]) > 1 for arm in arms) else ""
    note = g.note(" ".join(filter(None, ["Gradients at N = 128.", words, bands])), arms)
    rows = {title: lines for title, lines in rows.items() if any(g[arm] for arm in lines)} or rows
    fig = figure(width, height * len(rows) + 0.35, note)
    panels = fig.subplots(len(rows), len(columns), squeeze=False, sharex=share, sharey="col" if share else False)
    for place, (row, (title, lines)) in enumerate(zip(panels, rows.items(), strict=True), 1):
        for axes, quantity in zip(row, columns, strict=True):
            draw_curves(g, axes, lines, quantity)
            axes.set_xlabel("epoch" if place == len(rows) else "")
        row[0].set_title(title)
    inks = dict.fromkeys(ink for lines in rows.values() for ink in lines.values())
    drawn = {ink for lines in rows.values() for arm, ink in lines.items() if g[arm]}  # in one row, if not in all
    legend(fig, [ink for ink in inks if ink in drawn or not drawn])
    return fig
