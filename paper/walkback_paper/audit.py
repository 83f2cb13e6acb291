"""audit: the paper's five methods beside backprop, by our answers and the published verdict; a panel per check.

bp, fa, ep, dfa, cb and sb, each with its frozen net, and the net whose upper half alone is trained, which `reach` asks
for. Twice: 30 epochs, which a laptop trains in a night, and 100, as published. EP in float64, and in float32, which
rounds its displacements away.
"""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from matplotlib.axes import Axes
from matplotlib.figure import Figure

from walkback.checks import CHECKS, DEFAULT
from walkback.report import (
    GLYPHS,
    KEY,
    LEGEND,
    VERDICT_GLYPHS,
    Cell,
    Stat,
    Table,
    asked,
    depth_cell,
    gamma_cells,
    lower_cell,
)
from walkback_paper import published
from walkback_paper.base import Arm, Collected, Extent, Study, register
from walkback_paper.figures import GREY, INKS, PAGE, Ink, draw_steps, figure, level, log_scale, say_empty
from walkback_paper.judged import BothVerdicts, both, finding, known_of
from walkback_paper.quantities import ACCURACY, UPDATE

SINGLE = "ep float32"
METHODS: Mapping[str, Ink] = {
    method: replace(INKS["ep"], name="EP, float32") if method == SINGLE else INKS[method]
    for method in ("bp", "fa", "ep", SINGLE, "dfa", "cb", "sb")
}
SHORT = {"cb": "CB", "sb": "SB", SINGLE: "EP32"}
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


def _judged(g: Collected, epochs: int) -> dict[str, BothVerdicts]:
    found = {method: known_of(g, _name(method, epochs)) for method in METHODS}
    return {method: both(evidence) for method, evidence in found.items() if evidence is not None}


def tables(g: Collected) -> list[Table]:
    """One table per budget: our answers, the published protocol's verdict, accuracies, Γ and update alignment."""
    made = []
    words = (
        "Answer: ours, on accuracy; verdict: the published protocol's. Published accuracy: at 100 epochs. Frozen: the "
        "rule's own frozen net. Update: the mean over blocks of the cosine between the rule's update and the true "
        f"gradient; older runs do not have it. {LEGEND} {KEY}."
    )
    for epochs in _budgets(g.extent):
        judged = _judged(g, epochs)
        rows: list[list[Cell]] = []
        for method, ink in METHODS.items():
            arm, frozen, of = _name(method, epochs), _name(method, epochs, " frozen"), judged.get(method)
            claim = published.CELLS.get(f"accuracy {method}")
            answers: list[Cell] = ["–"] * 6
            if of is not None:
                answer = f"{VERDICT_GLYPHS[of.ours.verdict]} {of.ours.answer}"
                published_one = VERDICT_GLYPHS[of.published.verdict]
                answers = [answer, published_one, depth_cell(of.ours), lower_cell(of.ours), *gamma_cells(of.ours)]
            rows.append([
                ink.name, *answers[:2], g.last(arm, ACCURACY), "–" if claim is None else claim.text(),
                g.last(frozen, ACCURACY), *answers[2:], *g.cells(arm, UPDATE), g.seeds(arm, frozen),
            ])  # fmt: skip
        headings = [
            "method", "answer", "verdict", "accuracy", "published", "frozen", "depth f / s", "lower half", "Γ",
            "stands for", "update", "seeds",
        ]  # fmt: skip
        name = "audit" if epochs == BUDGETS[-1] else f"audit-{epochs}"
        budget = g.extent.epochs or (16 if g.extent.quick else epochs)
        made.append(Table(name, f"The paper's methods, {budget} epochs", headings, rows, g.notes(words)))
    return made


def draw(g: Collected) -> Figure:
    """A panel per check that has a value: what it found of every method that is there, against its threshold."""
    budgets = _budgets(g.extent)  # the longest at which one of the new methods is there; else the shortest
    epochs = next((e for e in reversed(budgets) if any(g[_name(method, e)] for method in NEW)), budgets[0])
    judged = _judged(g, epochs)
    methods = {method: ink for method, ink in METHODS.items() if method in judged}
    ours = [each.ours for each in judged.values()]
    checks = [c for c in asked(ours) if any((f := finding(j, c)) is not None and f.value is not None for j in ours)]
    note = g.note(
        "Bars: smallest to largest seed; of depth, reach, chance and spread the interval of the mean. Dashed: the "
        f"threshold ({DEFAULT.version}). {KEY}.",
        [_name(method, epochs) for method in METHODS],
    )
    rows = max(1, -(-(len(checks) + 1) // 3))
    fig = figure(PAGE, 2.3 * rows, note)
    panels = list(fig.subplots(rows, 3, squeeze=False).flat)
    for place, (method, ink) in enumerate(methods.items()):
        frozen = replace(ink, marker="_", colour=GREY)
        for part, look in (("", ink), (" frozen", frozen)):
            draw_steps(panels[0], [place], [g.last(_name(method, epochs, part), ACCURACY)], look, linestyle="none")
    panels[0].set_title("accuracy (–: own frozen net)", pad=14)
    panels[0].set_ylim(bottom=0)
    for axes, check in zip(panels[1:], checks, strict=False):
        _panel(axes, check, judged)
    for axes in panels[: 1 + len(checks)]:
        axes.set_xticks(range(len(methods)), [SHORT.get(m, ink.name) for m, ink in methods.items()], fontsize=6.5)
        axes.set_xlim(-0.6, max(1, len(methods)) - 0.4)
    for axes in panels[1 + len(checks) :]:
        axes.set_axis_off()
    if not judged:
        say_empty(panels[0])
    return fig


def _panel(axes: Axes, check: str, judged: Mapping[str, BothVerdicts]) -> None:
    about = CHECKS.get(check) if check in CHECKS else None
    form = "" if about is None else about.form
    factor = 100 if form in ("points", "share") else 1
    findings = {method: finding(each.ours, check) for method, each in judged.items()}
    for place, (method, found) in enumerate(findings.items()):
        if found is None:
            continue
        if found.value is not None:
            ends = tuple(factor * (found.value if end is None else end) for end in (found.low, found.high))
            seeds = tuple(factor * found.value for _ in judged[method].evidence.seeds)
            draw_steps(axes, [place], [Stat(seeds, interval=(ends[0], ends[1]))], METHODS[method], linestyle="none")
        axes.annotate(
            GLYPHS[found.outcome], (place, 1), xycoords=("data", "axes fraction"), xytext=(0, 2),
            textcoords="offset points", ha="center", fontsize=7.5, annotation_clip=False,
        )  # fmt: skip
    known = [f for f in findings.values() if f is not None and f.value is not None]
    axes.margins(y=0.15)
    axes.set_title(check + {"points": " (points)", "share": " (%)", "times": " (growth)"}.get(form, ""), pad=14)
    level(axes, factor * known[0].threshold, "threshold")
    if form in ("times", "size") and any(f.value for f in known):
        log_scale(axes)


register(Study(
    "audit", "What do the checks say about the paper's five methods, compared with backprop?", arms, tables,
    {"audit": draw}, place=5,
))  # fmt: skip
