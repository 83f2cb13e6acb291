"""schedule: do a constant rate, or another credit for FA's embedding, explain what differs from the published figures?

DFA and FA with the learning rate decayed by a cosine (ours) and constant; FA's embedding trained by one more step down
the chain (ours) or by block 0's credit, as DFA's is. 100 epochs.
"""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from matplotlib.figure import Figure

from walkback.report import Cell, Table
from walkback_paper import published
from walkback_paper.base import Arm, Collected, Extent, Study, register
from walkback_paper.drawing import through_training
from walkback_paper.figures import INKS, Ink
from walkback_paper.quantities import ACCURACY, GRADIENT, STREAM, cosine_at

CONSTANT = {"schedule": "constant"}
BLOCK = {"rule_options": {"embed": "block"}}
VARIANTS: Mapping[str, tuple[Ink, Mapping[str, Any]]] = {
    "dfa": (replace(INKS["dfa"], line="-"), {}),
    "dfa, constant rate": (replace(INKS["dfa"], line="--"), CONSTANT),
    "fa": (replace(INKS["fa"], line="-"), {}),
    "fa, constant rate": (replace(INKS["fa"], line="--"), CONSTANT),
    "fa, embedding as block 0": (replace(INKS["fa"], line="-."), BLOCK),
    "fa, embedding as block 0, constant rate": (replace(INKS["fa"], line=":"), BLOCK | CONSTANT),
}


def arms(extent: Extent) -> list[Arm]:
    """Every variant and its frozen net."""
    found = []
    for name, (_, settings) in VARIANTS.items():
        rule, rank = name.partition(",")[0], 4 if settings else 0
        found.append(extent.arm(name, rule, rank=rank, **settings))
        found.append(extent.arm(f"{name}, frozen", rule, train_last=0, rank=rank, **settings))
    return found


def _of(rule: str) -> dict[str, Ink]:
    return {name: replace(ink, name=name) for name, (ink, _) in VARIANTS.items() if name.partition(",")[0] == rule}


def tables(g: Collected) -> list[Table]:
    """Where each variant ended, beside the published figures."""
    rows: list[list[Cell]] = []
    for rule in ("dfa", "fa"):
        figures = [published.CELLS[f"{of} {rule}"].text() for of in ("accuracy", "stream", "gradient")]
        cosines = " ".join(f"{c:+.2f}" for c in published.CELLS[f"cosines {rule}"].layers)
        rows.append([f"{INKS[rule].name}, published", figures[0], None, *figures[1:], cosines, "3"])
        rows += [
            [name, g.last(name, ACCURACY), g.last(f"{name}, frozen", ACCURACY), *g.cells(name, STREAM, GRADIENT),
             _cosines(g, name), g.seeds(name)]
            for name in _of(rule)
        ]  # fmt: skip
    words = (
        "Gradients at N = 128; the published ‖g_L‖ of FA is from a log that is most likely at N = 1024, so 8 times "
        "larger at 128. DFA's published cosines are for d = 512. Cosines: mean over the seeds, by block, at the input."
    )
    headings = ["variant", "accuracy", "frozen", "‖h_L‖", "‖g_L‖", "cosines by block", "seeds"]
    return [Table("schedule", "Another schedule, another embedding", headings, rows, g.notes(words))]


def _cosines(g: Collected, name: str) -> str:
    found = [g.last(name, cosine_at(block)).mean for block in range(g.arms[name].configs[0].blocks)] if g[name] else []
    return " ".join("nan" if value is None else f"{value:+.2f}" for value in found) or "–"


def draw(g: Collected) -> Figure:
    """Accuracy, ‖h_L‖ and ‖g_L‖ through training, one row per rule."""
    rows = {INKS[rule].name: _of(rule) for rule in ("dfa", "fa")}
    return through_training(g, rows, (ACCURACY, STREAM, GRADIENT), height=2.0)


register(Study(
    "schedule", "Do schedule and embedding explain the difference from the published figures?", arms, tables,
    {"schedule": draw}, place=65,
))  # fmt: skip
