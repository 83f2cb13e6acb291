"""scan: does what is found of FA and DFA depend on depth and width? Three rules, six sizes, 30 epochs, one seed."""

from collections.abc import Callable, Sequence

from matplotlib.axes import Axes
from matplotlib.figure import Figure

from walkback.records import Snapshot
from walkback.report.figures import INKS, PAGE, draw_steps, figure, legend, level, log_scale, say_empty
from walkback.report.sizes import net_sizes
from walkback.report.tables import Cell, Stat, Table
from walkback.studies.base import STUDIES, Arm, Extent, Gathered, Study, setting
from walkback.studies.judged import aligned, largest_growth

RULES = ("bp", "fa", "dfa")
SIZES = {256: (2, 4, 8, 12), 512: (2, 4)}  # width: depths


def _name(width: int, depth: int, rule: str, frozen: bool = False) -> str:
    return f"{rule}{' frozen' if frozen else ''} d={width} L={depth}"


def arms(extent: Extent) -> list[Arm]:
    """Every rule and its frozen net in every size."""
    found = []
    for width, depths in SIZES.items():
        for depth in depths:
            size = {"width": width, "depth": depth}
            for rule in RULES:
                name = _name(width, depth, rule)
                found.append(extent.arm(name, rule, epochs=30, net_options=size, rank=6, seeds=1))
                name = _name(width, depth, rule, frozen=True)
                found.append(extent.arm(name, rule, epochs=30, net_options=size, train_last=0, rank=6, seeds=1))
    return found


def _size(g: Gathered, width: int, depth: int) -> str:
    """As trained: the quick story halves every width."""
    return net_sizes(g.arms[_name(width, depth, "bp")].configs[0])


def tables(g: Gathered) -> list[Table]:
    """Accuracy, its frozen net, and what the layers say, by size."""
    rows: list[list[Cell]] = []
    for width, depths in SIZES.items():
        for depth in depths:
            for rule in RULES:
                arm, frozen = _name(width, depth, rule), _name(width, depth, rule, frozen=True)
                rows.append([
                    _size(g, width, depth), INKS[rule].name,
                    g.last(arm, lambda s: s.accuracy), g.last(frozen, lambda s: s.accuracy),
                    g.last(arm, lambda s: s.hidden_norms[-1], "size"), g.last(arm, largest_growth, "size"),
                    g.last(arm, lambda s: s.gradient_norms[-1], "size"), g.last(arm, lambda s: s.gamma, "cosine"),
                    aligned(g, arm), g.seeds(arm, frozen),
                ])  # fmt: skip
    words = "One seed each: nothing here has a spread, and no difference is shown. Gradients at N = 128."
    headings = ["net", "rule", "accuracy", "own frozen net", "‖h_L‖", "growth", "‖g_L‖", "Γ", "update", "seeds"]
    return [Table("scan", "Over depth and width", headings, rows, g.notes(words))]


def draw(g: Gathered) -> Figure:
    """Accuracy over its frozen net, the stream and Γ against depth; one column per width."""
    note = g.note(f"{setting(g)} One seed each: no spread. Gain: accuracy minus that of the rule's own frozen net.")
    fig = figure(PAGE, 5.4, note)
    panels = fig.subplots(3, len(SIZES), sharex="col", sharey="row", width_ratios=[5, 3])
    for column, width in enumerate(SIZES):
        gain, stream, gamma = (panels[row][column] for row in range(3))
        _curves(g, stream, width, lambda s: s.hidden_norms[-1])
        log_scale(stream)
        _curves(g, gamma, width, lambda s: s.gamma)
        _gains(g, gain, width)
        gain.axhline(0, color="#555555", linewidth=0.8)
        gain.set_title(_size(g, width, SIZES[width][0]).partition(",")[0])
        gamma.set_xlabel("blocks L")
        gamma.set_xticks(SIZES[width])
        if not any(g[_name(width, depth, rule)] for depth in SIZES[width] for rule in RULES):
            say_empty(gain)
    for row, words in enumerate(("gain over frozen (points)", "‖h$_L$‖", "Γ")):
        panels[row][0].set_ylabel(words)
    level(panels[2][0], 0.0, "")
    legend(fig, [INKS[rule] for rule in RULES])
    return fig


def _curves(g: Gathered, axes: Axes, width: int, pick: Callable[[Snapshot], float]) -> None:
    for rule in RULES:
        stats = [g.last(_name(width, depth, rule), pick) for depth in SIZES[width]]
        draw_steps(axes, SIZES[width], _there(stats), INKS[rule])


def _gains(g: Gathered, axes: Axes, width: int) -> None:
    for rule in RULES:
        stats = []
        for depth in SIZES[width]:
            mine, other = g.paired(_name(width, depth, rule), _name(width, depth, rule, frozen=True))
            stats.append(Stat(tuple(100 * (a - b) for a, b in zip(mine, other, strict=True))))
        draw_steps(axes, SIZES[width], _there(stats), INKS[rule])


def _there(stats: Sequence[Stat]) -> list[Stat | None]:
    return [stat if stat.n else None for stat in stats]


STUDIES.add("scan", Study("scan", "Does it depend on depth and width?", arms, tables, {"scan": draw}, place=70))
