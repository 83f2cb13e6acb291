"""snapshot: the stream and the gradient through training, and when each check first fires.

The ResMLP with and without terminal norm (bp, fa, dfa) and the ViT-Mini (bp, dfa), whose norms are taken at the cls
token. Under fixed random feedback the stream grows; behind a terminal norm the true gradient then sinks.
"""

from collections.abc import Callable, Sequence

from matplotlib.axes import Axes
from matplotlib.figure import Figure

from walkback.audits import evidence_by_subject
from walkback.checks import DEFAULT, FirstFired, first_fired
from walkback.records import Run, Snapshot
from walkback.report.figures import (
    INKS,
    PAGE,
    curve,
    draw_curve,
    figure,
    legend,
    level,
    log_scale,
    say_empty,
    whole_epochs,
)
from walkback.report.tables import Cell, Stat, Table
from walkback.studies.base import STUDIES, Arm, Extent, Gathered, Study, setting

BARE = "ResMLP without terminal norm"
NETS = {
    "ResMLP": ("bp", "fa", "dfa"),
    BARE: ("bp", "fa", "dfa"),
    "ViT-Mini": ("bp", "dfa"),
    "SmallCNN": ("bp", "dfa", "ep", "sb", "cb"),
    "SmallResNet": ("bp", "fa", "dfa"),
    "Student": ("bp", "fa", "dfa"),
}
LAYER = 2  # the published figure shows the gradient at h_2
FLOOR, GROWTH = DEFAULT["reference.floor"], DEFAULT["scale.growth"]


def _name(net: str, rule: str) -> str:
    return f"{rule} in {net}"


def arms(extent: Extent) -> list[Arm]:
    """Every rule in every net; transformer and convolutions for few epochs, in which the effect shows."""
    found = [extent.arm(_name("ResMLP", rule), rule) for rule in NETS["ResMLP"]]
    bare = {"terminal_norm": False}
    found += [
        extent.arm(_name(BARE, rule), rule, net_options=bare, rank=6 if rule == "fa" else 0)
        for rule in ("dfa", "bp", "fa")
    ]
    found += [extent.arm(_name("ViT-Mini", rule), rule, net="vit-mini", epochs=4, rank=8) for rule in ("dfa", "bp")]
    for net, name in (("small-cnn", "SmallCNN"), ("small-resnet", "SmallResNet")):
        found += [extent.arm(_name(name, rule), rule, net=net, epochs=5, rank=7, seeds=1) for rule in NETS[name]]
    for rule in NETS["Student"]:
        found.append(extent.arm(_name("Student", rule), rule, net="student", data="teacher", epochs=30))
    return found


def _stream(snapshot: Snapshot) -> float:
    return snapshot.hidden_norms[-1]


def _gradient(layer: int) -> Callable[[Snapshot], float]:
    return lambda snapshot: snapshot.gradient_norms[layer]


def _curves(g: Gathered, axes: Axes, net: str, pick: Callable[[Snapshot], float], log: bool = True) -> None:
    for rule in NETS[net]:
        draw_curve(axes, curve(g[_name(net, rule)], pick, log=log), INKS[rule])
    if log:
        log_scale(axes)
    whole_epochs(axes)
    if not any(g[_name(net, rule)] for rule in NETS[net]):
        say_empty(axes)


def _gradients(g: Gathered, axes: Axes, net: str, layer: int) -> None:
    _curves(g, axes, net, _gradient(layer))
    ends = [_gradient(layer)(run.snapshots[-1]) for rule in NETS[net] for run in g[_name(net, rule)]]
    below = any(FLOOR <= end < 10 * FLOOR for end in ends)  # a curve runs where the name would stand
    if below:
        axes.set_ylim(bottom=min(axes.get_ylim()[0], FLOOR / 10))
    if ends:
        level(axes, FLOOR, "published floor", below)


def _names(*nets: str) -> list[str]:
    return [_name(net, rule) for net in nets for rule in NETS[net]]


BANDS = "Lines: mean over seeds; bands: ± one standard deviation (of the logarithm, where the scale is logarithmic)."


def draw(g: Gathered) -> Figure:
    """2×2: rows with and without terminal norm, columns ‖h_L‖ and the gradient at h_2."""
    nets = ("ResMLP", BARE)
    names = _names(*nets)
    fig = figure(PAGE, 4.3, g.note(f"{setting(g, names)} Gradient norms at N = 128. {BANDS}", names))
    panels = fig.subplots(2, 2, sharex=True, sharey="col")
    for row, (net, words) in enumerate(zip(nets, ("with terminal norm", "without terminal norm"), strict=True)):
        _curves(g, panels[row][0], net, _stream)
        _gradients(g, panels[row][1], net, LAYER)
        for axes in panels[row]:
            axes.set_title(words)
            axes.set_xlabel("epoch" if row else "")
        panels[row][0].set_ylabel("‖h$_L$‖")
        panels[row][1].set_ylabel(f"gradient norm at h$_{LAYER}$")
    legend(fig, [INKS[rule] for rule in NETS["ResMLP"]])
    return fig


def draw_vit(g: Gathered) -> Figure:
    """1×2: the transformer at its cls token."""
    names = _names("ViT-Mini")
    words = f"{setting(g, names)} Norms at the cls token; gradients at N = 128. {BANDS}"
    fig = figure(PAGE * 0.75, 2.4, g.note(words, names))
    left, right = fig.subplots(1, 2)
    _curves(g, left, "ViT-Mini", _stream)
    _gradients(g, right, "ViT-Mini", LAYER)
    left.set_ylabel("‖h$_L$‖ at the cls token")
    right.set_ylabel(f"gradient norm at h$_{LAYER}$")
    legend(fig, [INKS[rule] for rule in NETS["ViT-Mini"]])
    return fig


def draw_architectures(g: Gathered) -> Figure:
    """Rows architectures, columns ‖h_L‖, ‖g_L‖ and accuracy."""
    fig = figure(PAGE, 1.75 * len(NETS), g.note(f"{setting(g)} Gradient norms at N = 128. {BANDS}"))
    panels = fig.subplots(len(NETS), 3)
    for row, net in enumerate(NETS):
        left, middle, right = panels[row]
        _curves(g, left, net, _stream)
        _gradients(g, middle, net, -1)
        _curves(g, right, net, lambda s: s.accuracy, log=False)
        right.set_ylim(0, None)
        left.set_title(net)
        for axes, words in zip((left, middle, right), ("‖h$_L$‖", "‖g$_L$‖", "test accuracy"), strict=True):
            axes.set_ylabel(words)
            axes.set_xlabel("epoch" if row == len(NETS) - 1 else "")
    legend(fig, [INKS[rule] for rule in dict.fromkeys(rule for rules in NETS.values() for rule in rules)])
    return fig


def tables(g: Gathered) -> list[Table]:
    """First firings by check, what stopping there would have cost, and where each run ended."""
    fired: list[list[Cell]] = []
    stopped: list[list[Cell]] = []
    ended: list[list[Cell]] = []
    for net, rules in NETS.items():
        for rule in rules:
            name, who = _name(net, rule), [net, INKS[rule].name]
            ended.append([
                *who, g.last(name, lambda s: s.accuracy), g.last(name, _stream, "size"),
                g.last(name, _gradient(LAYER), "size"), g.last(name, _gradient(-1), "size"), g.seeds(name),
            ])  # fmt: skip
            first = first_fired(evidence_by_subject(g[name])[0]) if g[name] else {}
            fired.append([*who, *(_epochs(first[check]) if first else "–" for check in FIRED), g.seeds(name)])
            stops = _stops(g[name], first)
            there = [Stat(each) for each in zip(*stops, strict=True)] if stops else [None] * 3
            stopped.append([*who, *there, f"{len(stops)} of {len(g[name])}"])
    note = (
        f"Epochs by seed, in the order of the seeds. scale: one block's growth above {GROWTH:g}; floor: ‖g_L‖ at "
        f"N = 128 below {FLOOR:g}, the published reference check; precision and coverage are measured once, at the end."
    )
    return [
        Table(
            "first-fired", "The first epoch at which each check fired", ["net", "rule", *FIRED.values(), "seeds"],
            fired, g.notes(note),
        ),
        Table(
            "stopping", "Had training been stopped when scale or floor first fired",
            ["net", "rule", "epochs saved", "accuracy there", "at the end", "seeds in which it fired"], stopped,
        ),
        Table(
            "snapshot", "Where training ended",
            ["net", "rule", "accuracy", "‖h_L‖", f"‖g_{LAYER}‖", "‖g_L‖", "seeds"], ended,
            ["Sizes: geometric mean (smallest–largest); gradients at N = 128."],
        ),
    ]  # fmt: skip


FIRED = {"scale": "scale", "reference floor": "floor", "reference": "precision", "coverage": "coverage"}


def _epochs(first: FirstFired) -> str:
    """By seed, as the field writes it: 8 / 11 / 8."""
    if first.says.startswith("no moment"):
        return "not measured"
    if all(epoch is None for epoch in first.epochs.values()):
        return "never"
    return " / ".join("never" if epoch is None else str(epoch) for epoch in first.epochs.values())


def _stops(runs: Sequence[Run], first: dict[str, FirstFired]) -> list[tuple[float, float, float]]:
    """For each seed in which scale or floor fired: the share of epochs saved, the accuracy there and at the end."""
    found = []
    for run in runs if first else []:
        seed = str(run.config.seed)
        epochs = [e for check in ("scale", "reference floor") if (e := first[check].epochs[seed]) is not None]
        if epochs:
            there = next(s for s in run.snapshots if s.epoch == min(epochs))
            found.append((1 - min(epochs) / run.config.epochs, there.accuracy, run.snapshots[-1].accuracy))
    return found


STUDIES.add(
    "snapshot",
    Study(
        "snapshot", "How do the stream and the gradient go through training?",
        arms, tables, {"snapshot": draw, "snapshot-vit": draw_vit, "architectures": draw_architectures}, place=10,
    ),
)  # fmt: skip
