"""audit: the paper's five methods beside backprop, by our answers and the published verdict.

bp, fa, ep, dfa, cb and sb, each with its frozen net, and the net whose upper half alone is trained, which `reach` asks
for. Twice: 30 epochs, which a laptop trains in a night, and 100, as published. EP in float64, and in float32, which
rounds its displacements away.
"""

from collections.abc import Sequence
from typing import Any

from walkback.checks import judge
from walkback.report import GLYPHS, KEY, LEGEND, Cell, Table
from walkback_paper import published
from walkback_paper.base import Arm, Collected, Extent, Study, answer_cells, register
from walkback_paper.figures import INKS
from walkback_paper.quantities import ACCURACY, UPDATE

SINGLE = "ep float32"
METHODS = {m: "EP, float32" if m == SINGLE else INKS[m].name for m in ("bp", "fa", "ep", SINGLE, "dfa", "cb", "sb")}
NEW = ("ep", "cb", "sb")
BUDGETS = (30, 100)


def _name(method: str, epochs: int, part: str = "") -> str:
    return f"{method}{part}, {epochs} epochs"


def _budgets(extent: Extent) -> Sequence[int]:
    return BUDGETS[:1] if extent.quick or extent.epochs is not None else BUDGETS


def arms(extent: Extent) -> list[Arm]:
    """Every method and its baselines. New methods come first, the shorter budget before the longer."""
    found = []
    for epochs in _budgets(extent):
        rank = 2 if epochs == BUDGETS[0] else 3
        for method in METHODS:
            rule = "ep" if method == SINGLE else method
            new = method in NEW or epochs == BUDGETS[0]
            more: dict[str, Any] = {"rule_options": {"precision": "float32"}} if method == SINGLE else {}
            last = (rank if new else 0) + (2 if method == SINGLE else 0)
            for part, k in (("", None), (" frozen", 0), (" upper half", 2)):
                later = last if k != 2 else max(last, 7 if new else 0)
                name = _name(method, epochs, part)
                found.append(extent.arm(name, rule, epochs=epochs, train_last=k, rank=later, **more))
    return found


def tables(g: Collected) -> list[Table]:
    """One table per budget: our answers, the published protocol's verdict, accuracies, Γ and update alignment."""
    made = []
    words = (
        "Answer: ours, on accuracy; verdict: the published protocol's. Published accuracy: at 100 epochs. Frozen: the "
        "rule's own frozen net. Update: the mean over blocks of the cosine between the rule's update and the true "
        f"gradient; older runs do not have it. {LEGEND} {KEY}."
    )
    for epochs in _budgets(g.extent):
        rows: list[list[Cell]] = []
        for method, title in METHODS.items():
            arm, frozen, claim = _name(method, epochs), _name(method, epochs, " frozen"), f"accuracy {method}"
            known = g.evidence(arm)
            answer, *others = answer_cells(None if known is None else judge(known))
            verdict = "–" if known is None else GLYPHS[judge(known, protocol="published").verdict]
            rows.append([
                title, answer, verdict, *g.cells(arm, ACCURACY),
                published.CELLS[claim].text() if claim in published.CELLS else "–", *g.cells(frozen, ACCURACY),
                *others, *g.cells(arm, UPDATE), g.seeds(arm, frozen),
            ])  # fmt: skip
        headings = [
            "method", "answer", "verdict", "accuracy", "published", "frozen", "depth f / s", "lower half", "Γ",
            "stands for", "update", "seeds",
        ]  # fmt: skip
        name = "audit" if epochs == BUDGETS[-1] else f"audit-{epochs}"
        budget = g.extent.epochs or (16 if g.extent.quick else epochs)
        made.append(Table(name, f"The paper's methods, {budget} epochs", headings, rows, g.notes(words)))
    return made


register(Study(
    "audit", "What do the checks say about the paper's five methods, compared with backprop?", arms, tables, place=5,
))  # fmt: skip
