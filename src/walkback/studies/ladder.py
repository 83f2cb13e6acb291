"""ladder: what does each further trained block bring? Accuracy against k, the last k blocks trained.

Two nets: d = 256, L = 4 for 100 epochs, and d = 512, L = 2 for 30. k = 0 is the frozen net, k = L the full one. Beside
it *identity*: how near the untrained blocks are to doing nothing, which is why a frozen net is no strawman.
"""

from collections.abc import Sequence
from itertools import pairwise
from pathlib import Path
from typing import Literal

from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D

from walkback.checks.finding import listed
from walkback.data import load
from walkback.files import write_whole
from walkback.nets import find_net
from walkback.report.figures import GREY, INKS, PAGE, draw_steps, figure, legend, level, say_empty
from walkback.report.tables import Stat, Table, gain
from walkback.studies.base import CHANCE, STUDIES, Arm, Extent, Gathered, Study, setting
from walkback.train import Trainer, arithmetic, identity_now

RULES = ("bp", "fa", "dfa")
NETS = {"d256": (256, 4, 100), "d512": (512, 2, 30)}  # width, depth, epochs
MOMENTS: tuple[tuple[int, Literal["-", ":"]], ...] = ((0, "-"), (-1, ":"))  # at init and at the end


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


def _rungs(g: Gathered, net: str, rule: str) -> list[Stat | None]:
    found = [g.last(_key(net, rule, k), lambda s: s.accuracy) for k in range(NETS[net][1] + 1)]
    return [stat if stat.n else None for stat in found]


def _gains(g: Gathered, net: str, rule: str) -> list[Stat | None]:
    """What block k adds over k − 1, seed by seed, with the interval of the mean."""
    found = []
    for below, above in pairwise(range(NETS[net][1] + 1)):
        added = gain(*g.paired(_key(net, rule, above), _key(net, rule, below)))
        found.append(added if added.n else None)
    return found


def _title(g: Gathered, net: str) -> str:
    config = g.arms[_key(net, "bp", 0)].configs[0]
    return f"{find_net(config.net).sizes(config.net_options)}, {config.epochs} epochs"


def draw(g: Gathered) -> Figure:
    """Two rows: accuracy against k, and what each block adds; one column a net."""
    note = g.note(
        f"{setting(g)} Above: mean ± std (ddof = 1). Below: gain over k − 1 by seed, 95 % interval of the mean "
        "(Student's t; none for one seed)."
    )
    fig = figure(PAGE, 4.4, note)
    rows = fig.subplots(2, 2, width_ratios=[5, 3], sharey="row")
    for column, net in enumerate(NETS):
        top, bottom = rows[0][column], rows[1][column]
        _accuracy(g, top, net)
        _added(g, bottom, net)
        top.set_title(_title(g, net))
    rows[0][0].set_ylim(bottom=0)  # shared by the row, so only once both are drawn
    rows[0][0].set_ylabel("test accuracy")
    rows[1][0].set_ylabel("gain of block k (points)")
    legend(fig, [INKS[rule] for rule in RULES])
    return fig


def _accuracy(g: Gathered, axes: Axes, net: str) -> None:
    depth = NETS[net][1]
    for rule in RULES:
        draw_steps(axes, range(depth + 1), _rungs(g, net, rule), INKS[rule])
    level(axes, CHANCE, "chance")
    axes.set_xticks(range(depth + 1))
    axes.set_xlim(-0.25, depth + 0.25)
    axes.set_xlabel("trained blocks k")
    if not any(stat for rule in RULES for stat in _rungs(g, net, rule)):
        say_empty(axes)


def _added(g: Gathered, axes: Axes, net: str) -> None:
    depth = NETS[net][1]
    axes.axhline(0, color=GREY, linewidth=0.8)
    for place, rule in enumerate(RULES):
        ink = INKS[rule]
        for k, stat in enumerate(_gains(g, net, rule), 1):
            if stat is None or stat.mean is None:
                continue
            low, high = stat.interval or (stat.mean, stat.mean)
            bar = [[100 * (stat.mean - low)], [100 * (high - stat.mean)]]
            axes.errorbar([k + 0.18 * (place - 1)], [100 * stat.mean], yerr=bar if stat.interval else None,
                          color=ink.colour, marker=ink.marker, linestyle="none", elinewidth=0.9)  # fmt: skip
    axes.set_xticks(range(1, depth + 1))
    axes.set_xlim(0.5, depth + 0.5)
    axes.set_xlabel("block k")
    if not any(stat for rule in RULES for stat in _gains(g, net, rule)):
        say_empty(axes, "no two neighbouring k of one seed")


def tables(g: Gathered) -> list[Table]:
    """The ladder, and the identity of the frozen stacks."""
    rows: list[Sequence[str | Stat | None]] = []
    for net, (_, depth, _) in NETS.items():
        for rule in RULES:
            rungs, added = _rungs(g, net, rule), [None, *_gains(g, net, rule)]
            for k in range(depth + 1):
                there = g.seeds(_key(net, rule, k))
                rows.append([_title(g, net), INKS[rule].name, str(k), rungs[k], added[k], there])
    gains = "Gain: over k − 1, by seed, in points, with the 95 % interval of its mean."
    notes = g.notes(" ".join([gains, *(said for net in NETS if (said := _shown(g, net)))]))
    ladder = Table(
        "ladder", "Accuracy against the number k of trained blocks",
        ["net", "rule", "k", "accuracy", "gain of block k", "seeds"], rows, notes,
    )  # fmt: skip
    return [ladder, _identity_table(g)]


def _shown(g: Gathered, net: str) -> str:
    """Which blocks are shown to help and which to harm, rule by rule; nothing where no gain has an interval."""
    told = []
    for rule in RULES:
        known = {k: stat.interval for k, stat in enumerate(_gains(g, net, rule), 1) if stat and stat.interval}
        ways = {
            "helped by": [str(k) for k, (low, _) in known.items() if low > 0],
            "harmed by": [str(k) for k, (_, high) in known.items() if high < 0],
        }
        words = [f"{way} block {listed(blocks)}" for way, blocks in ways.items() if blocks]
        told += [f"{INKS[rule].name} {', '.join(words) or 'by none'}"] if known else []
    return f"Shown by their whole interval, {_title(g, net)}: {'; '.join(told)}." if told else ""


def _identity_table(g: Gathered) -> Table:
    rows: list[Sequence[str | Stat | None]] = []
    for net, (_, depth, _) in NETS.items():
        runs = g[_key(net, "bp", 0)]
        known = [run.identity for run in runs if run.identity is not None]
        for block in range(depth):
            init = Stat(tuple(i.branch[block] for i in known))
            end = Stat(tuple(run.snapshots[-1].branch_norms[block] / run.snapshots[-1].hidden_norms[block]
                             for run in runs))  # fmt: skip
            rows.append([_title(g, net), f"‖f_{block}‖/‖h_{block}‖", init, end, str(init.n)])
        rows.append([_title(g, net), "‖h_L − h_0‖/‖h_0‖", Stat(tuple(i.moved for i in known)), None, str(len(known))])
        rows.append([_title(g, net), "cos(h_L, h_0)", Stat(tuple(i.cosine for i in known)), None, str(len(known))])
    return Table(
        "identity", "How near the untrained blocks are to the identity",
        ["net", "quantity", "at init", "frozen, after training", "seeds"], rows,
        ["At init: medians over the first 256 test images. After training the rest by bp (k = 0): the ratio of the "
         "median norms in the last snapshot."],
    )  # fmt: skip


def draw_identity(g: Gathered) -> Figure:
    """What the blocks add to the stream, at init and at the end of training the rest."""
    fig = figure(PAGE / 2, 2.2, g.note("Frozen nets (k = 0), embedding and head trained by bp. " + setting(
        g, [_key(net, "bp", 0) for net in NETS]), [_key(net, "bp", 0) for net in NETS]))  # fmt: skip
    axes = fig.subplots()
    handles = []
    for net, colour, marker in (("d256", "#333333", "o"), ("d512", "#999999", "s")):
        depth, runs = NETS[net][1], g[_key(net, "bp", 0)]
        for moment, line in MOMENTS:
            stats = [
                Stat(tuple(r.snapshots[moment].branch_norms[b] / r.snapshots[moment].hidden_norms[b] for r in runs))
                for b in range(depth)
            ]
            draw_steps(axes, range(depth), [s if s.n else None for s in stats], INKS["bp"], color=colour,
                       linestyle=line, marker=marker)  # fmt: skip
            words = f"{_title(g, net).rpartition(',')[0]}, {'at init' if moment == 0 else 'at the end'}"
            handles.append(Line2D([], [], color=colour, marker=marker, linestyle=line, label=words))
    axes.set_xticks(range(max(depth for _, depth, _ in NETS.values())))
    axes.set_xlabel("block l")
    axes.set_ylabel("‖f$_l$‖ / ‖h$_l$‖")
    axes.set_ylim(bottom=0)
    fig.legend(handles=handles, loc="outside upper center", ncols=2, fontsize=6.5)
    return fig


def measure(g: Gathered, data_folder: Path | None) -> None:
    """The identity of the frozen nets at init, kept beside their runs."""
    for net in NETS:
        for run in g[_key(net, "bp", 0)]:
            if run.identity is None:
                with arithmetic():
                    record = identity_now(Trainer(run.config, load(run.config.data, data_folder)))
                content = record.model_dump_json(by_alias=True, indent=1).encode()
                write_whole(run.path / "identity.json", content, follow=False)


STUDIES.add(
    "ladder",
    Study(
        "ladder", "What does each further trained block bring?",
        arms, tables, {"ladder": draw, "identity": draw_identity}, measure, place=50,
    ),
)  # fmt: skip
