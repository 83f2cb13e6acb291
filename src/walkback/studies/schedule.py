"""schedule: do a constant rate, or another credit for FA's embedding, explain what differs from the published figures?

DFA and FA with the learning rate decayed by a cosine (ours) and constant; FA's embedding told by one more step down
the chain (ours) or by block 0's credit, as DFA's is. 100 epochs.
"""

from collections.abc import Callable, Mapping
from typing import Any, Literal

from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D

from walkback.records import Snapshot
from walkback.report import published
from walkback.report.figures import INKS, PAGE, curve, draw_curve, figure, log_scale, say_empty, whole_epochs
from walkback.report.tables import Cell, Table
from walkback.studies.base import STUDIES, Arm, Extent, Gathered, Study, setting

CONSTANT = {"schedule": "constant"}
BLOCK = {"rule_options": {"embed": "block"}}
VARIANTS: Mapping[str, tuple[str, Mapping[str, Any], Literal["-", "--", "-.", ":"]]] = {  # rule, settings, line
    "dfa": ("dfa", {}, "-"),
    "dfa, constant rate": ("dfa", CONSTANT, "--"),
    "fa": ("fa", {}, "-"),
    "fa, constant rate": ("fa", CONSTANT, "--"),
    "fa, embedding as block 0": ("fa", BLOCK, "-."),
    "fa, embedding as block 0, constant rate": ("fa", BLOCK | CONSTANT, ":"),
}


def arms(extent: Extent) -> list[Arm]:
    """Every variant and its frozen net."""
    found = []
    for name, (rule, settings, _) in VARIANTS.items():
        rank = 4 if settings else 0
        found.append(extent.arm(name, rule, rank=rank, **settings))
        found.append(extent.arm(f"{name}, frozen", rule, train_last=0, rank=rank, **settings))
    return found


def tables(g: Gathered) -> list[Table]:
    """Where each variant ended, beside the published figures."""
    rows: list[list[Cell]] = []
    for rule in ("dfa", "fa"):
        claim, hidden, norm = published.ACCURACY[rule], published.LAST_HIDDEN[rule], published.LAST_GRADIENT[rule]
        cosines = " ".join(f"{c:+.2f}" for c in published.COSINES[rule])
        spread = f"{claim.mean:.3f} ± {claim.std:.3f}"
        rows.append([f"{INKS[rule].name}, published", spread, None, hidden.words, norm.words, cosines, "3"])
        for name, (of, _, _) in VARIANTS.items():
            if of == rule:
                rows.append([
                    name, g.last(name, lambda s: s.accuracy), g.last(f"{name}, frozen", lambda s: s.accuracy),
                    g.last(name, lambda s: s.hidden_norms[-1], "size"),
                    g.last(name, lambda s: s.gradient_norms[-1], "size"), _cosines(g, name), g.seeds(name),
                ])  # fmt: skip
    words = (
        "Gradients at N = 128; the published ‖g_L‖ of FA is from a log that is most likely at N = 1024, so 8 times "
        "larger at 128. DFA's published cosines are for d = 512. Cosines: mean over the seeds, by block, at the input."
    )
    headings = ["variant", "accuracy", "frozen", "‖h_L‖", "‖g_L‖", "cosines by block", "seeds"]
    return [Table("schedule", "Another schedule, another embedding", headings, rows, g.notes(words))]


def _cosines(g: Gathered, name: str) -> str:
    snapshots = [run.snapshots[-1] for run in g[name]]
    if not snapshots:
        return "–"
    blocks = range(len(snapshots[0].cosine))
    return " ".join(f"{sum(s.cosine[b].value for s in snapshots) / len(snapshots):+.2f}" for b in blocks)


def draw(g: Gathered) -> Figure:
    """Accuracy, ‖h_L‖ and ‖g_L‖ through training, one row per rule."""
    fig = figure(PAGE, 4.4, g.note(f"{setting(g, VARIANTS)} Gradient norms at N = 128.", VARIANTS))
    panels = fig.subplots(2, 3, sharex=True)
    columns: list[tuple[str, Callable[[Snapshot], float], bool]] = [
        ("test accuracy", lambda s: s.accuracy, False),
        ("‖h$_L$‖", lambda s: s.hidden_norms[-1], True),
        ("‖g$_L$‖", lambda s: s.gradient_norms[-1], True),
    ]
    for row, rule in enumerate(("dfa", "fa")):
        for column, (words, pick, log) in enumerate(columns):
            axes = panels[row][column]
            _curves(g, axes, rule, pick, log)
            axes.set_ylabel(words)
            axes.set_title(INKS[rule].name if column == 0 else "")
            axes.set_xlabel("epoch" if row else "")
    handles = [Line2D([], [], color=INKS[rule].colour, linestyle=line, label=name)
               for name, (rule, _, line) in VARIANTS.items()]  # fmt: skip
    fig.legend(handles=handles, loc="outside upper center", ncols=3, fontsize=6.5)
    return fig


def _curves(g: Gathered, axes: Axes, rule: str, pick: Callable[[Snapshot], float], log: bool) -> None:
    mine = {name: line for name, (of, _, line) in VARIANTS.items() if of == rule}
    for name, line in mine.items():
        draw_curve(axes, curve(g[name], pick, log=log), INKS[rule], linestyle=line, marker="")
    if log:
        log_scale(axes)
    whole_epochs(axes)
    if not any(g[name] for name in mine):
        say_empty(axes)


STUDIES.add(
    "schedule",
    Study(
        "schedule", "Do schedule and embedding explain what differs from the published?", arms, tables,
        {"schedule": draw}, place=65,
    ),
)  # fmt: skip
