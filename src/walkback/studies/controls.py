"""controls: what must go wrong, or right, when one thing is taken away; each run beside its normal twin.

Random labels: nothing can be learned, so accuracy must stay near chance. No residual connection, with W2 drawn at
std 0.5 as published: no stream can grow. No terminal norm: the gradient has nothing to be divided by. 30 epochs, one
seed.
"""

from collections.abc import Callable, Mapping
from typing import Any

from matplotlib.axes import Axes
from matplotlib.figure import Figure

from walkback.records import Snapshot
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
from walkback.report.tables import Cell, Table
from walkback.studies.base import CHANCE, STUDIES, Arm, Extent, Gathered, Study, setting
from walkback.studies.judged import aligned, largest_growth

RULES = ("bp", "fa", "dfa")
TWIN = "as usual"
WITHOUT: Mapping[str, Mapping[str, Any]] = {
    TWIN: {},
    "random labels": {"labels": "random"},
    "no residual": {"net_options": {"skip": False, "down_std": 0.5}},
    "no terminal norm": {"net_options": {"terminal_norm": False}},
}


def _name(control: str, rule: str) -> str:
    return f"{rule}, {control}"


def arms(extent: Extent) -> list[Arm]:
    """Every rule as usual and under every control."""
    return [
        extent.arm(_name(control, rule), rule, epochs=30, rank=6, seeds=1, **settings)
        for control, settings in WITHOUT.items()
        for rule in RULES
    ]


def tables(g: Gathered) -> list[Table]:
    """Where each run ended, beside its twin."""
    rows: list[list[Cell]] = []
    for control in WITHOUT:
        for rule in RULES:
            arm = _name(control, rule)
            rows.append([
                control, INKS[rule].name, g.last(arm, lambda s: s.accuracy),
                g.last(arm, lambda s: s.hidden_norms[-1], "size"), g.last(arm, largest_growth, "size"),
                g.last(arm, lambda s: s.gradient_norms[-1], "size"), g.last(arm, lambda s: s.gamma, "cosine"),
                aligned(g, arm), g.seeds(arm),
            ])  # fmt: skip
    words = (
        f"Chance is {CHANCE:g}. Random labels: drawn anew for every minibatch; accuracy is on the true test labels. No "
        "residual: h_{l+1} = f_l(h_l), W2 at std 0.5; Γ is then taken at the blocks' outputs. Gradients at N = 128."
    )
    headings = ["control", "rule", "accuracy", "‖h_L‖", "growth", "‖g_L‖", "Γ", "update", "seeds"]
    return [Table("controls", "What happens when one thing is taken away", headings, rows, g.notes(words))]


def draw(g: Gathered) -> Figure:
    """One row per control: accuracy, ‖h_L‖ and ‖g_L‖ through training."""
    fig = figure(PAGE, 1.65 * len(WITHOUT) + 0.4, g.note(f"{setting(g)} Gradient norms at N = 128."))
    panels = fig.subplots(len(WITHOUT), 3, sharex=True)
    columns: list[tuple[str, Callable[[Snapshot], float], bool]] = [
        ("test accuracy", lambda s: s.accuracy, False),
        ("‖h$_L$‖", lambda s: s.hidden_norms[-1], True),
        ("‖g$_L$‖", lambda s: s.gradient_norms[-1], True),
    ]
    for row, control in enumerate(WITHOUT):
        for column, (words, pick, log) in enumerate(columns):
            axes = panels[row][column]
            _curves(g, axes, control, pick, log)
            axes.set_ylabel(words)
            axes.set_title(control if column == 0 else "")
            axes.set_xlabel("epoch" if row == len(WITHOUT) - 1 else "")
        panels[row][0].set_ylim(0, None)
        level(panels[row][0], CHANCE, "chance")
    legend(fig, [INKS[rule] for rule in RULES])
    return fig


def _curves(g: Gathered, axes: Axes, control: str, pick: Callable[[Snapshot], float], log: bool) -> None:
    for rule in RULES:
        draw_curve(axes, curve(g[_name(control, rule)], pick, log=log), INKS[rule])
    if log:
        log_scale(axes)
    whole_epochs(axes)
    if not any(g[_name(control, rule)] for rule in RULES):
        say_empty(axes)


STUDIES.add(
    "controls",
    Study("controls", "What goes wrong when one thing is taken away?", arms, tables, {"controls": draw}, place=80),
)
