"""scan: does what is found of FA and DFA depend on depth and width? Three rules, six sizes, 30 epochs, one seed."""

from dataclasses import replace

from matplotlib.figure import Figure

from walkback.report.case import net_sizes
from walkback.report.figures import INKS, PAGE, draw_steps, figure, legend, level
from walkback.report.tables import Cell, Stat, Table
from walkback.studies.base import Arm, Collected, Extent, Study, register
from walkback.studies.drawing import scaled
from walkback.studies.quantities import ACCURACY, GAMMA, GRADIENT, GROWTH, STREAM, UPDATE

RULES = ("bp", "fa", "dfa")
SIZES = {256: (2, 4, 8, 12), 512: (2, 4)}  # width: depths
SHOWN = (STREAM, GROWTH, GRADIENT, GAMMA, UPDATE)
GAIN = replace(ACCURACY, symbol="gain", label="gain over frozen (points)", form="points")


def _name(width: int, depth: int, rule: str, frozen: bool = False) -> str:
    return f"{rule}{' frozen' if frozen else ''} d={width} L={depth}"


def arms(extent: Extent) -> list[Arm]:
    """Every rule and its frozen net in every size."""
    return [
        extent.arm(
            _name(width, depth, rule, frozen), rule, epochs=30, net_options={"width": width, "depth": depth}, rank=6,
            seeds=1, train_last=0 if frozen else None,
        )
        for width, depths in SIZES.items() for depth in depths for rule in RULES for frozen in (False, True)
    ]  # fmt: skip


def _size(g: Collected, width: int, depth: int) -> str:
    """As trained: the quick story halves every width."""
    return net_sizes(g.arms[_name(width, depth, "bp")].configs[0])


def tables(g: Collected) -> list[Table]:
    """Accuracy, its frozen net, and what the layers say, by size."""
    rows: list[list[Cell]] = []
    for width, depth, rule in ((w, d, r) for w, depths in SIZES.items() for d in depths for r in RULES):
        arm, frozen = _name(width, depth, rule), _name(width, depth, rule, frozen=True)
        rows.append([
            _size(g, width, depth), INKS[rule].name, g.last(arm, ACCURACY), g.last(frozen, ACCURACY),
            *g.cells(arm, *SHOWN), g.seeds(arm, frozen),
        ])  # fmt: skip
    words = "One seed each: nothing here has a spread, and no difference is shown. Gradients at N = 128."
    headings = ["net", "rule", "accuracy", "own frozen net", *(q.symbol for q in SHOWN), "seeds"]
    return [Table("scan", "Over depth and width", headings, rows, g.notes(words))]


def draw(g: Collected) -> Figure | None:
    """Accuracy over its frozen net, the stream and Γ against depth; one column per width. One depth is no scan."""
    sizes = [(w, d) for w, depths in SIZES.items() for d in depths if any(g[_name(w, d, rule)] for rule in RULES)]
    if len({width for width, _ in sizes}) == len(sizes):
        return None
    note = g.note("Gain: accuracy minus that of the rule's own frozen net.")
    fig = figure(PAGE, 5.4, note)
    panels = fig.subplots(3, len(SIZES), sharex="col", sharey="row", width_ratios=[5, 3])
    for column, (width, depths) in enumerate(SIZES.items()):
        for axes, quantity in zip(panels[:, column], (GAIN, STREAM, GAMMA), strict=True):
            for rule in RULES:
                stats = [
                    Stat(tuple(100 * v for v in g.gain(arm, _name(width, depth, rule, frozen=True)).values))
                    if quantity is GAIN else quantity.over(g[arm])
                    for depth in depths for arm in [_name(width, depth, rule)]
                ]  # fmt: skip
                draw_steps(axes, depths, stats, INKS[rule])
            scaled(axes, quantity, any(g[_name(width, depth, rule)] for depth in depths for rule in RULES))
            axes.set_ylabel("" if column else quantity.axis)
            if not quantity.log:
                level(axes, 0.0, "0", linestyle="-", gid=None)
        panels[0][column].set_title(_size(g, width, depths[0]).partition(",")[0])
        panels[-1][column].set_xlabel("blocks L")
        panels[-1][column].set_xticks(depths)
    legend(fig, [INKS[rule] for rule in RULES])
    return fig


register(Study("scan", "Do the findings depend on depth and width?", arms, tables, {"scan": draw}, place=70))
