"""What every figure shares: the style, one ink a rule, curves over seeds, the note below, and how it is saved.

Nothing is measured here: a figure is drawn from records. What is not there is a gap, and the note says so.
"""

import io
import math
import statistics
import textwrap
from collections.abc import Callable, Iterator, Sequence
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
from walkback.report.inks import INKS as INKS
from walkback.report.inks import Ink as Ink
from walkback.report.tables import Stat

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
class Curve:
    """A quantity through training: its middle over the seeds, and one standard deviation to either side."""

    epochs: list[int]
    middle: list[float]
    low: list[float]
    high: list[float]
    n: int


def curve(runs: Sequence[Run], pick: Callable[[Snapshot], float], *, log: bool) -> Curve:
    """Over the seeds, epoch by epoch; for a log scale mean and standard deviation are those of the logarithm.

    An epoch at which a seed has no finite value (or, for a log scale, no positive one) is a gap.
    """
    by_epoch: dict[int, list[float]] = {}
    for run in runs:
        for snapshot in run.snapshots:
            by_epoch.setdefault(snapshot.epoch, []).append(pick(snapshot))
    epochs = sorted(epoch for epoch, values in by_epoch.items() if len(values) == len(runs))
    middle, low, high = [], [], []
    for epoch in epochs:
        m, s = _middle(by_epoch[epoch], log)
        middle.append(10**m if log else m)
        low.append(10 ** (m - s) if log else m - s)
        high.append(10 ** (m + s) if log else m + s)
    return Curve(epochs, middle, low, high, len(runs))


def _middle(values: Sequence[float], log: bool) -> tuple[float, float]:
    if not all(math.isfinite(v) and (v > 0 or not log) for v in values):
        return math.nan, math.nan
    scaled = [math.log10(v) for v in values] if log else list(values)
    return statistics.fmean(scaled), statistics.stdev(scaled) if len(scaled) > 1 else 0.0


def draw_curve(axes: Axes, found: Curve, ink: Ink, **more: Any) -> None:
    """A line with a few markers, and its band."""
    if not found.epochs:
        return
    every = max(1, len(found.epochs) // 6)
    looks: dict[str, Any] = {"color": ink.colour, "linestyle": ink.line, "marker": ink.marker, "markevery": every}
    looks |= more
    axes.plot(found.epochs, found.middle, **looks)
    if found.n > 1:
        axes.fill_between(found.epochs, found.low, found.high, color=looks["color"], alpha=0.18, linewidth=0)


def draw_steps(axes: Axes, places: Sequence[float], stats: Sequence[Stat | None], ink: Ink, **more: Any) -> None:
    """Means with their spread at some places (layers, blocks, λ); None is a gap in the line."""
    there = [s if s is not None and s.mean is not None else None for s in stats]
    means = [math.nan if s is None else s.mean or 0.0 for s in there]
    looks = {"color": ink.colour, "linestyle": ink.line, "marker": ink.marker} | more
    bars: Any = None
    if any(s is not None and s.n > 1 for s in there):
        bars = [[_reach(s, side) for s in there] for side in (0, 1)]
    axes.errorbar(places, means, yerr=bars, elinewidth=0.8, **looks)


def _reach(stat: Stat | None, side: int) -> float:
    """How far a bar goes down (0) or up (1): one standard deviation; of sizes to the smallest and largest."""
    if stat is None or stat.mean is None or stat.n < 2:
        return 0.0
    if stat.form == "size":
        return stat.mean - min(stat.values) if side == 0 else max(stat.values) - stat.mean
    return stat.std or 0.0


def legend(figure: Figure, inks: Sequence[Ink], extra: Sequence[Line2D] = ()) -> None:
    """One legend above all panels, where it hides nothing."""
    handles = [Line2D([], [], color=i.colour, marker=i.marker, linestyle=i.line, label=i.name) for i in inks]
    handles += extra
    figure.legend(handles=handles, loc="outside upper center", ncols=len(handles))


def level(axes: Axes, value: float | None, words: str, below: bool = False) -> None:
    """A horizontal line with its name at the right end, on it or below it."""
    if value is None or not math.isfinite(value):
        return
    axes.axhline(value, color=GREY, linewidth=0.9, linestyle=(0, (4, 2)), zorder=1.5)
    axes.annotate(words, (1.0, value), xycoords=("axes fraction", "data"), xytext=(-1, -2.5 if below else 1.5),
                  textcoords="offset points", ha="right", va="top" if below else "bottom", fontsize=6.5,
                  color=GREY)  # fmt: skip


def whole_epochs(axes: Axes, label: str = "epoch") -> None:
    """An axis of epochs: whole numbers, from 0."""
    from matplotlib.ticker import MaxNLocator

    axes.xaxis.set_major_locator(MaxNLocator(5, integer=True))
    axes.set_xlabel(label)
    axes.margins(x=0.02)


def log_scale(axes: Axes) -> None:
    """Decades alone: the ticks between them tell nothing at this size."""
    from matplotlib.ticker import LogLocator, NullLocator

    axes.set_yscale("log")
    axes.yaxis.set_major_locator(LogLocator(numticks=6))
    axes.yaxis.set_minor_locator(NullLocator())


def say_empty(axes: Axes, words: str = "no finished run") -> None:
    """A panel of which nothing is there says so, and shows no numbers."""
    axes.text(0.5, 0.5, words, transform=axes.transAxes, ha="center", va="center", color=GREY, fontsize=7)
    axes.tick_params(labelbottom=False, labelleft=False, length=0)
