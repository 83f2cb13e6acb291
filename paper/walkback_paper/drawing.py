"""What the figures of several studies share: quantities through training, and rows of answers to read across."""

from collections.abc import Callable, Mapping, Sequence

from matplotlib.axes import Axes
from matplotlib.figure import Figure

from walkback_paper.base import Collected
from walkback_paper.figures import (
    PAGE,
    Ink,
    curve,
    draw_curve,
    figure,
    legend,
    level,
    log_scale,
    say_empty,
    whole_epochs,
)
from walkback_paper.quantities import Quantity

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
    height: float = 1.75, share: bool = False, also: Callable[[Axes, Quantity], None] = lambda *_: None,
) -> Figure:  # fmt: skip
    """A row per title and a column per quantity, with one line per arm; `also` draws into each panel."""
    arms = list(dict.fromkeys(arm for lines in rows.values() for arm in lines))
    bands = BANDS if any(len(g[arm]) > 1 for arm in arms) else ""
    note = g.note(" ".join(filter(None, ["Gradients at N = 128.", words, bands])), arms)
    rows = {title: lines for title, lines in rows.items() if any(g[arm] for arm in lines)} or rows
    fig = figure(width, height * len(rows) + 0.35, note)
    panels = fig.subplots(len(rows), len(columns), squeeze=False, sharex=share, sharey="col" if share else False)
    for place, (row, (title, lines)) in enumerate(zip(panels, rows.items(), strict=True), 1):
        for axes, quantity in zip(row, columns, strict=True):
            draw_curves(g, axes, lines, quantity)
            if any(g[arm] for arm in lines):
                also(axes, quantity)
            axes.set_xlabel("epoch" if place == len(rows) else "")
        row[0].set_title(title)
    inks = dict.fromkeys(ink for lines in rows.values() for ink in lines.values())
    drawn = {ink for lines in rows.values() for arm, ink in lines.items() if g[arm]}  # in one row, if not in all
    legend(fig, [ink for ink in inks if ink in drawn or not drawn])
    return fig


def matrix(axes: Axes, rows: Sequence[str]) -> None:
    """Axes for a matrix of cells: the names of its rows at the left, and nothing else around it."""
    axes.set_yticks([row + 0.5 for row in range(len(rows))], list(rows))
    axes.set_xticks([])
    axes.tick_params(length=0)
    axes.grid(False)
    axes.spines[:].set_visible(False)
