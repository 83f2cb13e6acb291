"""controls: what must go wrong, or right, when one thing is taken away; each run beside its normal twin.

Random labels: nothing can be learned, so accuracy must stay near chance. No residual connection, with W2 drawn at
std 0.5 as published: no stream can grow. No terminal norm: the gradient has nothing to be divided by. 30 epochs, one
seed.
"""

from collections.abc import Mapping
from typing import Any

from matplotlib.figure import Figure

from walkback.report import Cell, Table
from walkback_paper.base import CHANCE, Arm, Collected, Extent, Study, register
from walkback_paper.drawing import through_training
from walkback_paper.figures import INKS, level
from walkback_paper.quantities import ACCURACY, GAMMA, GRADIENT, GROWTH, STREAM, UPDATE

RULES = ("bp", "fa", "dfa")
WITHOUT: Mapping[str, Mapping[str, Any]] = {
    "as usual": {},
    "random labels": {"labels": "random"},
    "no residual": {"net_options": {"skip": False, "down_std": 0.5}},
    "no terminal norm": {"net_options": {"terminal_norm": False}},
}
SHOWN = (ACCURACY, STREAM, GROWTH, GRADIENT, GAMMA, UPDATE)


def _name(control: str, rule: str) -> str:
    return f"{rule}, {control}"


def arms(extent: Extent) -> list[Arm]:
    """Every rule as usual and under every control."""
    return [
        extent.arm(_name(control, rule), rule, epochs=30, rank=6, seeds=1, **settings)
        for control, settings in WITHOUT.items()
        for rule in RULES
    ]


def tables(g: Collected) -> list[Table]:
    """Where each run ended, beside its twin."""
    rows: list[list[Cell]] = [
        [control, INKS[rule].name, *g.cells(_name(control, rule), *SHOWN), g.seeds(_name(control, rule))]
        for control in WITHOUT
        for rule in RULES
    ]
    words = (
        f"Chance is {CHANCE:g}. Random labels: drawn again for every minibatch; accuracy is on the true test labels. "
        "No residual: h_{l+1} = f_l(h_l), W2 at std 0.5; Γ is then taken at the blocks' outputs. Gradients at N = 128."
    )
    headings = ["control", "rule", *(q.symbol for q in SHOWN), "seeds"]
    return [Table("controls", "What happens when one thing is taken away", headings, rows, g.notes(words))]


def draw(g: Collected) -> Figure | None:
    """One row per control: accuracy, ‖h_L‖ and ‖g_L‖ through training; nothing while there is the usual alone."""
    if not any(g[_name(control, rule)] for control, how in WITHOUT.items() if how for rule in RULES):
        return None
    rows = {control: {_name(control, rule): INKS[rule] for rule in RULES} for control in WITHOUT}
    return through_training(
        g, rows, (ACCURACY, STREAM, GRADIENT), height=1.65,
        also=lambda axes, quantity: level(axes, CHANCE if quantity is ACCURACY else None, "chance"),
    )  # fmt: skip


register(Study(
    "controls", "What goes wrong without true labels, the residual connection or the terminal norm?", arms, tables,
    {"controls": draw}, place=80,
))  # fmt: skip
