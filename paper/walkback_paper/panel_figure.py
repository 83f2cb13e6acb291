"""The panel's figure, one page: every rule by its margin, its verdict by colour and glyph, its cost beside it."""

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Literal

from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.ticker import FuncFormatter, NullLocator

from walkback.checks import DEFAULT
from walkback_paper.base import Collected
from walkback_paper.figures import GREY, PAGE, figure, say_empty
from walkback_paper.quantities import ACCURACY

if TYPE_CHECKING:
    from walkback_paper.panel import Standing

LOOKS = {  # verdict: colour, glyph, marker
    "holds": ("#2166ac", "✓", "o"),
    "walked back": ("#b2182b", "✗", "X"),
    "open": ("#9a6a00", "?", "D"),
}
FLOORS: Mapping[str, Literal[":", "-.", "--"]] = {"linear": ":", "mono-forward": "-.", "bp": "--"}  # lines across


def draw(g: Collected, standings: Sequence["Standing"]) -> Figure:
    """Three panels with one row per rule: accuracy beside its frozen net, the margin, and the cost of a step."""
    names = [name for each in standings for name in (each.rule, f"{each.rule} frozen")]
    note = g.note(
        "Rules by their margin: accuracy over the rule's own frozen net. Bars: 95 % interval of the mean "
        "(Student's t); one that reaches the edge goes on beyond it. Dashed: the margin that is required. Beside "
        "each rule the learning rate that held-out training samples picked; *: at the edge of the grid. Linear: a "
        "linear map of the raw input.",
        names,
    )
    fig = figure(PAGE, 0.9 + 0.2 * len(standings), note)
    accuracy, margin, cost = fig.subplots(1, 3, sharey=True, width_ratios=[5, 5, 3])
    _accuracies(g, accuracy, standings)
    _margins(margin, standings)
    _costs(cost, standings)
    accuracy.set_ylim(len(standings) - 0.4, -0.6)
    accuracy.set_yticks(range(len(standings)), [_name(each) for each in standings])
    for label, each in zip(accuracy.get_yticklabels(), standings, strict=True):
        label.set_color(_look(each)[0])
    for axes in (accuracy, margin, cost):
        axes.tick_params(axis="y", length=0)
    handles = [
        Line2D([], [], color=colour, marker=marker, linestyle="none", label=f"{glyph} {verdict}")
        for verdict, (colour, glyph, marker) in LOOKS.items()
        if any(each.verdict == verdict for each in standings)
    ]
    handles.append(Line2D([], [], color=GREY, marker="|", linestyle="none", label="own frozen net"))
    handles += [Line2D([], [], color=GREY, linestyle=line, linewidth=1, label=name) for name, line in FLOORS.items()]
    handles += [
        Line2D([], [], color="black", marker="o", markersize=3, linestyle="none", label="time"),
        Line2D([], [], color=GREY, marker="|", markersize=5, markeredgewidth=2, linestyle="none", label="flops"),
    ]
    fig.legend(handles=handles, loc="outside upper center", ncols=len(handles), fontsize=6.5, columnspacing=1.0,
               handletextpad=0.4)  # fmt: skip
    return fig


def _look(each: "Standing") -> tuple[str, str, str]:
    return LOOKS[each.verdict] if each.verdict else (GREY, " ", ".")


def _name(each: "Standing") -> str:
    lr = each.choice.lr
    rate = "" if lr is None else f" {lr:.0e}".replace("e-0", "e-")
    return f"{each.rule}{rate}{'*' if each.choice.edge else ''} {_look(each)[1]}"


def _accuracies(g: Collected, axes: Axes, standings: Sequence["Standing"]) -> None:
    for row, each in enumerate(standings):
        colour, _, marker = _look(each)
        if each.frozen.mean is not None:
            axes.plot([each.frozen.mean], [row], color=GREY, marker="|", markersize=7, linestyle="none")
        if each.frozen.mean is not None and each.accuracy.mean is not None:
            axes.plot([each.frozen.mean, each.accuracy.mean], [row, row], color=colour, linewidth=0.8)
        for value in each.accuracy.values:
            axes.plot([value], [row], color=colour, marker=marker, markersize=3.5, linestyle="none", alpha=0.8)
    for name, line in FLOORS.items():
        level = g.last(name, ACCURACY).mean
        if level is not None:
            axes.axvline(level, color=GREY, linestyle=line, linewidth=1, zorder=1)
    axes.set_title("accuracy, each seed")
    if not any(each.accuracy.n for each in standings):  # the names of the rules stay
        axes.text(0.5, 0.5, "no finished run", transform=axes.transAxes, ha="center", color=GREY, fontsize=7)
        axes.tick_params(labelbottom=False, length=0)


def _margins(axes: Axes, standings: Sequence["Standing"]) -> None:
    means = []
    for row, each in enumerate(standings):
        if each.margin.mean is None:
            continue
        colour, _, marker = _look(each)
        mean = 100 * each.margin.mean
        low, high = (100 * end for end in each.margin.interval or (each.margin.mean, each.margin.mean))
        axes.errorbar([mean], [row], xerr=[[mean - low], [high - mean]], color=colour, marker=marker, elinewidth=0.9)
        means.append(mean)
    if means:
        axes.axvline(0, color=GREY, linewidth=0.8)
        axes.axvline(100 * DEFAULT["depth.margin"], color=GREY, linewidth=0.9, linestyle=(0, (4, 2)))
        room = 5 + 0.1 * (max(means) - min(means))
        axes.set_xlim(min(*means, 0.0) - room, max(*means, 0.0) + room)
    else:
        axes.set_xlim(-5, 10)
        say_empty(axes)
    axes.set_title("margin over own frozen net (points)")


def _costs(axes: Axes, standings: Sequence["Standing"]) -> None:
    """Each by its time and its flops."""
    known = [(row, each.cost) for row, each in enumerate(standings) if each.cost is not None]
    axes.set_title("cost (bp step = 1)")
    if not known:
        say_empty(axes, "not measured")
        return
    for row, cost in known:
        axes.plot([cost.flops, cost.time], [row, row], color=GREY, linewidth=0.6)
        axes.plot([cost.flops], [row], color=GREY, marker="|", markersize=5, markeredgewidth=2, linestyle="none")
        axes.plot([cost.time], [row], color="black", marker="o", markersize=3, linestyle="none")
    axes.set_xscale("log")
    axes.xaxis.set_minor_locator(NullLocator())
    top = max(max(cost.time, cost.flops) for _, cost in known)
    axes.set_xticks([tick for tick in (0.5, 1, 2, 5, 10, 20, 50) if tick < 2 * top])
    axes.xaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:g}"))
    axes.set_xlim(0.5, 1.4 * top)
