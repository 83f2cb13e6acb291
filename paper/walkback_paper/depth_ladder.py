"""ladder: what does each further trained block gain? Accuracy against k, the last k blocks trained.

Two nets: d = 256, L = 4 for 100 epochs, and d = 512, L = 2 for 30. k = 0 is the frozen net, k = L the full one. Beside
it *identity*: how near the untrained blocks are to doing nothing, which is why a frozen net is no strawman.
"""

from pathlib import Path

from matplotlib.figure import Figure

from walkback.data import load
from walkback.files import write_whole
from walkback.nets import find_net
from walkback.report import Cell, Stat, Table
from walkback.train import Trainer, arithmetic, identity_now
from walkback_paper.base import CHANCE, Arm, Collected, Extent, Study, register
from walkback_paper.figures import GREY, INKS, PAGE, draw_steps, figure, legend, level, say_empty
from walkback_paper.quantities import ACCURACY, branch_at

RULES = ("bp", "fa", "dfa")
NETS = {"d256": (256, 4, 100), "d512": (512, 2, 30)}  # width, depth, epochs


def _key(net: str, rule: str, k: int) -> str:
    return f"{net} {rule} k={k}"


def arms(extent: Extent) -> list[Arm]:
    """Every rule with every number of trained blocks, in both nets."""
    return [
        extent.arm(
            _key(net, rule, k), rule, epochs=epochs, net_options={"width": width, "depth": depth}, train_last=k,
            rank=8 if net == "d512" else 0,
        )
        for net, (width, depth, epochs) in NETS.items()
        for k in range(depth, -1, -1)
        for rule in RULES
    ]  # fmt: skip


def _rungs(g: Collected, net: str, rule: str) -> list[Stat | None]:
    found = [g.last(_key(net, rule, k), ACCURACY) for k in range(NETS[net][1] + 1)]
    return [stat if stat.n else None for stat in found]


def _gains(g: Collected, net: str, rule: str) -> list[Stat | None]:
    """What block k adds over k − 1, seed by seed, with the interval of the mean."""
    found = [g.gain(_key(net, rule, k), _key(net, rule, k - 1)) for k in range(1, NETS[net][1] + 1)]
    return [stat if stat.n else None for stat in found]


def _in_points(gain: Stat | None) -> Stat | None:
    """A gain as it is drawn: its numbers in points."""
    if gain is None:
        return None
    interval = gain.interval and (100 * gain.interval[0], 100 * gain.interval[1])
    return Stat(tuple(100 * value for value in gain.values), "share", interval)


def _title(g: Collected, net: str) -> str:
    config = g.arms[_key(net, "bp", 0)].configs[0]
    return f"{find_net(config.net).sizes(config.net_options)}, {config.epochs} epochs"


def draw(g: Collected) -> Figure:
    """Two rows: accuracy against k, and what each block adds; one column a net."""
    note = g.note(
        "Above: mean ± std (ddof = 1). Below: gain over k − 1 by seed, 95 % interval of the mean (Student's t; none "
        "for one seed)."
    )
    fig = figure(PAGE, 4.4, note)
    rows = fig.subplots(2, 2, width_ratios=[5, 3], sharey="row")
    for (top, bottom), (net, (_, depth, _)) in zip(rows.T, NETS.items(), strict=True):
        bottom.axhline(0, color=GREY, linewidth=0.8)
        level(top, CHANCE, "chance")
        for place, rule in enumerate(RULES):
            draw_steps(top, range(depth + 1), _rungs(g, net, rule), INKS[rule])
            shifted = [k + 0.18 * (place - 1) for k in range(1, depth + 1)]
            draw_steps(bottom, shifted, list(map(_in_points, _gains(g, net, rule))), INKS[rule], linestyle="none")
        for axes, low, words in ((top, 0, "trained blocks k"), (bottom, 1, "block k")):
            axes.set_xticks(range(low, depth + 1))
            axes.set_xlim(low - 0.5, depth + 0.5)
            axes.set_xlabel(words)
        top.set_title(_title(g, net))
        if not any(stat for rule in RULES for stat in _rungs(g, net, rule)):
            say_empty(top)
        if not any(stat for rule in RULES for stat in _gains(g, net, rule)):
            say_empty(bottom, "no two neighbouring k of one seed")
    rows[0][0].set_ylim(bottom=0)  # shared by the row, so only once both are drawn
    rows[0][0].set_ylabel(ACCURACY.axis)
    rows[1][0].set_ylabel("gain of block k (points)")
    legend(fig, [INKS[rule] for rule in RULES])
    return fig


def tables(g: Collected) -> list[Table]:
    """The ladder, and the identity of the frozen stacks."""
    rows: list[list[Cell]] = []
    for net, (_, depth, _) in NETS.items():
        for rule in RULES:
            rungs, added = _rungs(g, net, rule), [None, *_gains(g, net, rule)]
            for k in range(depth + 1):
                seeds = g.seeds(_key(net, rule, k))
                rows.append([_title(g, net), INKS[rule].name, str(k), rungs[k], added[k], seeds])
    notes = g.notes("Gain: over k − 1, by seed, in points, with the 95 % interval of its mean.")
    headings = ["net", "rule", "k", "accuracy", "gain of block k", "seeds"]
    ladder = Table("ladder", "Accuracy against the number k of trained blocks", headings, rows, notes)
    return [ladder, _identity_table(g)]


def _identity_table(g: Collected) -> Table:
    rows: list[list[Cell]] = []
    for net, (_, depth, _) in NETS.items():
        runs, title = g[_key(net, "bp", 0)], _title(g, net)
        known = [run.identity for run in runs if run.identity is not None]
        for block in range(depth):
            init, after = Stat(tuple(i.branch[block] for i in known)), branch_at(block)
            rows.append([title, after.symbol, init, after.over(runs), str(init.n)])
        for words, values in (
            ("‖h_L − h_0‖/‖h_0‖", [i.moved for i in known]), ("cos(h_L, h_0)", [i.cosine for i in known])
        ):  # fmt: skip
            rows.append([title, words, Stat(tuple(values)), None, str(len(known))])
    words = (
        "At init: medians over the first 256 test images. After training the rest by bp (k = 0): the ratio of the "
        "median norms in the last snapshot."
    )
    headings = ["net", "quantity", "at init", "frozen, after training", "seeds"]
    return Table("identity", "How near the untrained blocks are to the identity", headings, rows, [words])


def measure(g: Collected, data_folder: Path | None) -> None:
    """The identity of the frozen nets at init, kept beside their runs."""
    for run in (run for net in NETS for run in g[_key(net, "bp", 0)] if run.identity is None):
        with arithmetic():
            record = identity_now(Trainer(run.config, load(run.config.data, data_folder)))
        write_whole(run.path / "identity.json", record.indented(), follow=False)


register(Study(
    "ladder", "What does each further trained block gain?",
    arms, tables, {"ladder": draw}, measure, place=50,
))  # fmt: skip
