"""What changes under other conditions, one seed or a few: three studies of one shape, arms that differ in a setting.

controls  what must go wrong, or right, when one thing is taken away; each run beside its normal twin. Random labels:
          nothing can be learned, so accuracy must stay near chance. No residual connection, with W2 drawn at std 0.5
          as published: no stream can grow. No terminal norm: the gradient has nothing to be divided by
scan      does what is found of FA and DFA depend on depth and width? Three rules, six sizes
schedule  do a constant rate, or another credit for FA's embedding, explain what differs from the published figures?
          DFA and FA with the learning rate decayed by a cosine (ours) and constant; FA's embedding trained by one more
          step down the chain (ours) or by block 0's credit, as DFA's is
"""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from matplotlib.figure import Figure

from walkback.report import INKS, Cell, Ink, Table, net_sizes
from walkback_paper import published
from walkback_paper.base import CHANCE, Arm, Collected, Extent, Study, register
from walkback_paper.figures import through_training
from walkback_paper.quantities import ACCURACY, GAMMA, GRADIENT, GROWTH, STREAM, UPDATE, cosine_at

RULES = ("bp", "fa", "dfa")

# --- controls -------------------------------------------------------------------------------------------------------

WITHOUT: Mapping[str, Mapping[str, Any]] = {
    "as usual": {},
    "random labels": {"labels": "random"},
    "no residual": {"net_options": {"skip": False, "down_std": 0.5}},
    "no terminal norm": {"net_options": {"terminal_norm": False}},
}
ENDS = (ACCURACY, STREAM, GROWTH, GRADIENT, GAMMA, UPDATE)


def controls_arms(extent: Extent) -> list[Arm]:
    """Every rule as usual and under every control."""
    return [
        extent.arm(f"{rule}, {control}", rule, epochs=30, rank=6, seeds=1, **settings)
        for control, settings in WITHOUT.items()
        for rule in RULES
    ]


def controls_tables(g: Collected) -> list[Table]:
    """Where each run ended, beside its twin."""
    rows: list[list[Cell]] = [
        [control, INKS[rule].name, *g.cells(arm := f"{rule}, {control}", *ENDS), g.seeds(arm)]
        for control in WITHOUT
        for rule in RULES
    ]
    words = (
        f"Chance is {CHANCE:g}. Random labels: drawn again for every minibatch; accuracy is on the true test labels. "
        "No residual: h_{l+1} = f_l(h_l), W2 at std 0.5; Γ is then taken at the blocks' outputs. Gradients at N = 128."
    )
    headings = ["control", "rule", *(q.symbol for q in ENDS), "seeds"]
    return [Table("controls", "What happens when one thing is taken away", headings, rows, g.notes(words))]


register(Study("controls", "What goes wrong without true labels, the residual connection or the terminal norm?",
               controls_arms, controls_tables, place=80))  # fmt: skip

# --- scan -----------------------------------------------------------------------------------------------------------

SIZES = [(256, 2), (256, 4), (256, 8), (256, 12), (512, 2), (512, 4)]  # width, depth


def scan_arms(extent: Extent) -> list[Arm]:
    """Every rule and its frozen net in every size."""
    return [
        extent.arm(f"{rule}{part} d={width} L={depth}", rule, epochs=30, net_options={"width": width, "depth": depth},
                   rank=6, seeds=1, train_last=k)
        for width, depth in SIZES for rule in RULES for part, k in (("", None), (" frozen", 0))
    ]  # fmt: skip


def scan_tables(g: Collected) -> list[Table]:
    """Accuracy, its frozen net, and what the layers say, by size as trained: the quick story halves every width."""
    rows: list[list[Cell]] = []
    for size, rule in ((f" d={w} L={d}", rule) for w, d in SIZES for rule in RULES):
        arm, frozen, config = rule + size, f"{rule} frozen{size}", g.arms[rule + size].configs[0]
        rows.append([
            net_sizes(config), INKS[rule].name, *g.cells(arm, ACCURACY), *g.cells(frozen, ACCURACY),
            *g.cells(arm, *ENDS[1:]), g.seeds(arm, frozen),
        ])  # fmt: skip
    words = "One seed each: nothing here has a spread, and no difference is shown. Gradients at N = 128."
    headings = ["net", "rule", "accuracy", "own frozen net", *(q.symbol for q in ENDS[1:]), "seeds"]
    return [Table("scan", "Over depth and width", headings, rows, g.notes(words))]


register(Study("scan", "Do the findings depend on depth and width?", scan_arms, scan_tables, place=70))

# --- schedule -------------------------------------------------------------------------------------------------------

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


def schedule_arms(extent: Extent) -> list[Arm]:
    """Every variant and its frozen net, 100 epochs."""
    return [
        extent.arm(f"{name}{part}", name.partition(",")[0], rank=4 if settings else 0, train_last=k, **settings)
        for name, (_, settings) in VARIANTS.items()
        for part, k in (("", None), (", frozen", 0))
    ]


def _of(rule: str) -> dict[str, Ink]:
    return {name: replace(ink, name=name) for name, (ink, _) in VARIANTS.items() if name.partition(",")[0] == rule}


def schedule_tables(g: Collected) -> list[Table]:
    """Where each variant ended, beside the published figures."""
    rows: list[list[Cell]] = []
    for rule in ("dfa", "fa"):
        figures = [published.CELLS[f"{of} {rule}"].text() for of in ("accuracy", "stream", "gradient")]
        cosines = " ".join(f"{c:+.2f}" for c in published.CELLS[f"cosines {rule}"].layers)
        rows.append([f"{INKS[rule].name}, published", figures[0], None, *figures[1:], cosines, "3"])
        rows += [
            [name, *g.cells(name, ACCURACY), *g.cells(f"{name}, frozen", ACCURACY), *g.cells(name, STREAM, GRADIENT),
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


def draw_schedule(g: Collected) -> Figure:
    """Accuracy, ‖h_L‖ and ‖g_L‖ through training, one row per rule."""
    rows = {INKS[rule].name: _of(rule) for rule in ("dfa", "fa")}
    return through_training(g, rows, (ACCURACY, STREAM, GRADIENT), height=2.0)


register(Study("schedule", "Do schedule and embedding explain the difference from the published figures?",
               schedule_arms, schedule_tables, {"schedule": draw_schedule}, place=65))  # fmt: skip
