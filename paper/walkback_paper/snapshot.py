"""snapshot: the stream and the gradient through training, and when each check first fires.

The ResMLP with and without terminal norm (bp, fa, dfa) and the ViT-Mini (bp, dfa), whose norms are taken at the cls
token. Under fixed random feedback the stream grows; behind a terminal norm the true gradient then sinks.
"""

from collections.abc import Mapping
from typing import Any

from matplotlib.figure import Figure

from walkback.checks import DEFAULT, FirstFired, first_fired
from walkback.records import subjects_of_runs
from walkback.report import Cell, Stat, Table
from walkback_paper.base import Arm, Collected, Extent, Study, register
from walkback_paper.figures import INKS, PAGE, Ink, through_training
from walkback_paper.quantities import ACCURACY, GRADIENT, STREAM, first_stop, gradient_at

BARE = "ResMLP without terminal norm"
NETS: Mapping[str, tuple[tuple[str, ...], Mapping[str, Any]]] = {  # rules, and how they are trained
    "ResMLP": (("bp", "fa", "dfa"), {}),
    BARE: (("dfa", "bp", "fa"), {"net_options": {"terminal_norm": False}}),
    "ViT-Mini": (("dfa", "bp"), {"net": "vit-mini", "epochs": 4, "rank": 8}),
    "SmallCNN": (("bp", "dfa", "ep", "sb", "cb"), {"net": "small-cnn", "epochs": 5, "rank": 7, "seeds": 1}),
    "SmallResNet": (("bp", "fa", "dfa"), {"net": "small-resnet", "epochs": 5, "rank": 7, "seeds": 1}),
    "Student": (("bp", "fa", "dfa"), {"net": "student", "data": "teacher", "epochs": 30}),
}
AT_2 = gradient_at(2)  # the published figure shows the gradient at h_2


def _name(net: str, rule: str) -> str:
    return f"{rule} in {net}"


def arms(extent: Extent) -> list[Arm]:
    """Every rule in every net; transformer and convolutions for few epochs, in which the effect shows."""
    late: dict[str, Any] = {"rank": 6}  # FA without terminal norm
    return [
        extent.arm(_name(net, rule), rule, **settings, **(late if (net, rule) == (BARE, "fa") else {}))
        for net, (rules, settings) in NETS.items()
        for rule in rules
    ]


def _lines(net: str) -> dict[str, Ink]:
    return {_name(net, rule): INKS[rule] for rule in sorted(NETS[net][0], key=list(INKS).index)}


def draw(g: Collected) -> Figure:
    """2×2: rows with and without terminal norm, columns ‖h_L‖ and the gradient at h_2."""
    rows = {"with terminal norm": _lines("ResMLP"), "without terminal norm": _lines(BARE)}
    return through_training(g, rows, (STREAM, AT_2), height=1.95, share=True)


def draw_vit(g: Collected) -> Figure:
    """1×2: the transformer at its cls token."""
    return through_training(g, {"": _lines("ViT-Mini")}, (STREAM, AT_2), "Norms at the cls token.",
                            width=PAGE * 0.75, height=2.1)  # fmt: skip


def draw_architectures(g: Collected) -> Figure:
    """Rows architectures, columns ‖h_L‖, ‖g_L‖ and accuracy."""
    return through_training(g, {net: _lines(net) for net in NETS}, (STREAM, GRADIENT, ACCURACY))


def tables(g: Collected) -> list[Table]:
    """First firings by check, what stopping there would have cost, and where each run ended."""
    fired: list[list[Cell]] = []
    stopped: list[list[Cell]] = []
    ended: list[list[Cell]] = []
    for net in NETS:
        for name, ink in _lines(net).items():
            who, runs = [net, ink.name], g[name]
            ended.append([*who, *g.cells(name, ACCURACY, STREAM, AT_2, GRADIENT), g.seeds(name)])
            first = first_fired(subjects_of_runs(runs)[0].evidence) if runs else {}
            fired.append([*who, *(_epochs(first[check]) if first else "–" for check in FIRED), g.seeds(name)])
            stops = [
                (1 - stop.epoch / run.config.epochs, stop.accuracy, run.snapshots[-1].accuracy)
                for run in runs
                if (stop := first_stop(run)) is not None
            ]
            means = [Stat(each) for each in zip(*stops, strict=True)] if stops else [None] * 3
            stopped.append([*who, *means, f"{len(stops)} of {len(runs)}"])
    note = (
        f"Epochs by seed, in the order of the seeds. scale: one block's growth above {DEFAULT['scale.growth']:g}; "
        f"floor: ‖g_L‖ at N = 128 below {DEFAULT['reference.floor']:g}, the published reference check; precision is "
        "measured once, at the end. scale and floor are symptoms: they decide nothing."
    )
    saved = ["epochs saved", "accuracy there", "at the end", "seeds in which it fired"]
    symbols = [quantity.symbol for quantity in (ACCURACY, STREAM, AT_2, GRADIENT)]
    sizes = "Sizes: geometric mean (smallest–largest); gradients at N = 128."
    return [
        Table("first-fired", "The first epoch at which each check fired", ["net", "rule", *FIRED.values(), "seeds"],
              fired, g.notes(note)),
        Table("stopping", "If training had stopped when scale or floor first fired", ["net", "rule", *saved],
              stopped),
        Table("snapshot", "Where training ended", ["net", "rule", *symbols, "seeds"], ended, [sizes]),
    ]  # fmt: skip


FIRED = {"scale": "scale", "reference floor": "floor", "reference": "precision"}


def _epochs(first: FirstFired) -> str:
    """By seed, as the field writes it: 8 / 11 / 8."""
    if first.fired is None:
        return "not measured"
    epochs = ["never" if epoch is None else str(epoch) for epoch in first.epochs.values()]
    return "never" if set(epochs) == {"never"} else " / ".join(epochs)


register(Study(
    "snapshot", "How do the stream and the gradient change in training?",
    arms, tables, {"snapshot": draw, "snapshot-vit": draw_vit, "architectures": draw_architectures}, place=10,
))  # fmt: skip
