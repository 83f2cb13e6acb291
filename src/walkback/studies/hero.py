"""hero: the whole story in four panels, all from the same runs and the same N.

A diagram of the net with each rule's credits; accuracy against Γ, the two numbers that are usually reported; the
cosine and the gradient that they average away. The sentences below are computed from the findings.
"""

import math
import statistics
from collections.abc import Mapping, Sequence
from itertools import pairwise
from typing import Any

from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.patches import FancyArrowPatch, FancyBboxPatch

from walkback.audits import evidence_by_subject
from walkback.checks import DEFAULT, Finding, Judgement, in_order, judge
from walkback.checks.coverage import cover
from walkback.checks.finding import listed
from walkback.records import Evidence
from walkback.report.figures import GREY, INKS, PAGE, draw_steps, figure, log_scale, say_empty
from walkback.report.numbers import number
from walkback.report.tables import Stat, Table
from walkback.report.verdicts import GLYPHS
from walkback.studies.base import CHANCE, STUDIES, Arm, Extent, Gathered, Study, setting

RULES = ("bp", "fa", "dfa")
FLOOR = DEFAULT["reference.floor"]
DASHED: Mapping[str, Any] = {"color": GREY, "linewidth": 0.9, "linestyle": (0, (4, 2)), "zorder": 1.5}


def arms(extent: Extent) -> list[Arm]:
    """The main audit: the rules, their frozen nets, those of which the upper half trains, and the shallow net."""
    found = [extent.arm(rule, rule) for rule in RULES]
    found += [extent.arm(f"{rule} half", rule, train_last=2) for rule in RULES]
    found += [extent.arm(f"{rule} frozen", rule, train_last=0) for rule in RULES]
    return [*found, extent.arm("shallow", "bp", net_options={"depth": 0}, train_last=0)]


def subjects(g: Gathered) -> dict[str, tuple[Evidence, Judgement]]:
    """By rule the evidence and what is judged of it; rules without a run that ended are left out."""
    runs = [run for arm in g.arms for run in g.ended(arm)]
    found = evidence_by_subject(runs) if any(g.ended(rule) for rule in RULES) else []
    return {str(e.rule): (e, judge(e)) for e in found}


def draw(g: Gathered) -> Figure:
    """Four panels, each with its legend; what the findings say of them stands below."""
    told = subjects(g)
    said = captions(told)
    sentences = " ".join(f"{letter}: {words}" for letter, words in zip(("", "A", "B", "C"), said.values(), strict=True))
    note = g.note(f"{setting(g, RULES)} Gradients at N = 128. Means ± std over seeds. {sentences.removeprefix(': ')}")
    fig = figure(PAGE, 4.9, note)
    panels = fig.subplots(2, 2).flatten()
    _diagram(panels[0])
    _two_numbers(g, panels[1])
    _cosines(g, panels[2], told)
    _gradients(g, panels[3])
    for axes, title in zip(panels, said, strict=True):
        axes.set_title(title)
    return fig


def _legend(axes: Axes, place: Any, *more: Line2D) -> None:
    """The rules, and whatever else is drawn, in the panel itself."""
    inks = [INKS[rule] for rule in RULES]
    handles = [Line2D([], [], color=i.colour, marker=i.marker, linestyle=i.line, label=i.name) for i in inks]
    axes.legend(handles=[*handles, *more], loc=place, fontsize=6.5)


# --- the sentences --------------------------------------------------------------------------------------------------


def captions(told: Mapping[str, tuple[Evidence, Judgement]]) -> dict[str, str]:
    """Panel by panel what the findings say; nothing is said of a rule without runs."""
    if not told:
        return dict.fromkeys(TITLES, "No run of the main audit is there.")
    sentences = (_verdicts(told), _by_two_numbers(told), _covered(told), _reference(told))
    return dict(zip(TITLES, sentences, strict=True))


TITLES = (
    "What each block is told",
    "A  Two numbers: accuracy and Γ",
    "B  Cosine of credit and gradient, by block",
    "C  True gradient ‖g$_l$‖, by layer",
)


def _verdicts(told: Mapping[str, tuple[Evidence, Judgement]]) -> str:
    said = {"walked back": "is walked back", "inconclusive": "is inconclusive"}
    parts = [f"{INKS[rule].name} {said.get(j.verdict, j.verdict)}" for rule, (_, j) in told.items()]
    gains = {rule: _finding(judgement, "depth") for rule, (_, judgement) in told.items()}
    worse = [INKS[r].name for r, f in gains.items() if f.high is not None and f.high < 0]
    tail = f" Left at random init, the blocks of {listed(worse)} would do better." if worse else ""
    return f"{listed(parts)}.{tail}"


def _by_two_numbers(told: Mapping[str, tuple[Evidence, Judgement]]) -> str:
    """Who looks fine by accuracy and Γ: above chance and above zero on every seed."""
    fine: list[str] = []
    poor: list[str] = []
    for rule, (evidence, _) in told.items():
        finals = [seed.final for seed in evidence.seeds]
        above = all((m.accuracy or 0) > CHANCE and (m.gamma or 0) > 0 for m in finals)
        (fine if above else poor).append(INKS[rule].name)
    if not poor:
        return (
            f"{listed(fine)} all lie above chance and above Γ = 0: by these two numbers there is nothing to object to."
        )
    return f"Not above chance and Γ = 0 on every seed: {listed(poor)}." + (f" Above: {listed(fine)}." if fine else "")


def _covered(told: Mapping[str, tuple[Evidence, Judgement]]) -> str:
    parts = []
    for rule, (evidence, judgement) in told.items():
        counts = [cover(seed.final, DEFAULT["coverage.band"]).blocks for seed in evidence.seeds]
        always = [str(b) for b in range(evidence.blocks or 0) if all(c and c[b] for c in counts)]
        name, fires = INKS[rule].name, _finding(judgement, "coverage").outcome == "fires"
        where = "in every block" if len(always) == evidence.blocks else f"in {_blocks(always)}" if always else ""
        alone = " alone" if where.startswith("in block") else ""
        parts.append(f"{name} {where}{alone}{' (coverage fires)' if fires else ''}" if where else f"{name} nowhere")
    hidden = " Γ averages that away." if any(" alone" in part for part in parts) else ""
    return f"Credit clears its null on every seed: {'; '.join(parts)}.{hidden}"


def _blocks(names: list[str]) -> str:
    return f"block{'s' * (len(names) > 1)} {listed(names)}"


def _reference(told: Mapping[str, tuple[Evidence, Judgement]]) -> str:
    low = {}
    for rule, (evidence, judgement) in told.items():
        norms = [seed.final.gradient_norms[-1] for seed in evidence.seeds if seed.final.gradient_norms]
        known = [n for n in norms if n is not None]
        if known and max(known) < FLOOR:
            low[rule] = (max(known), _finding(judgement, "reference"))
    if not low:
        return f"No gradient at the last hidden state lies below the published floor of {FLOOR:g}."
    parts = []
    for rule, (norm, finding) in low.items():
        how = {"passes": "small, but not noise", "fires": "noise"}.get(finding.outcome, "of a precision not known")
        turned = f" (float32 turns it by at most {finding.high:.0e})" if finding.high is not None else ""
        parts.append(f"{INKS[rule].name}'s ‖g$_L$‖ is at most {number(norm)}, below the published floor: {how}{turned}")
    return "; ".join(parts) + "."


def _finding(judgement: Judgement, check: str) -> Finding:
    return next(f for f in judgement.findings if f.check == check)


# --- the panels -----------------------------------------------------------------------------------------------------


def _diagram(axes: Axes) -> None:
    """embed → blocks → readout, and under it the way that each rule's credit takes."""
    axes.set_xlim(0, 10)
    axes.set_ylim(-0.3, 8)
    axes.set_axis_off()
    places = (0.9, 2.9, 4.9, 6.9, 8.9)
    names = ("embed", "block 0", "block 1", "…", "readout")
    for x, name in zip(places, names, strict=True):
        _box(axes, x, 6.9, name)
    for number_, (a, b) in enumerate(pairwise(places)):
        _arrow(axes, (a + 0.75, 6.9), (b - 0.75, 6.9), "#333333")
        axes.text((a + b) / 2, 7.3, ("h$_0$", "h$_1$", "h$_2$", "h$_L$")[number_], ha="center", fontsize=7)
    rows = {"bp": 4.9, "fa": 3.0, "dfa": 1.0}
    words = {
        "bp": "the gradient itself, through the blocks",
        "fa": "∂ℓ/∂h$_L$ at the top, then down through fixed random B$_l$",
        "dfa": "the output error, straight to each block through B$_l$",
    }
    for rule, y in rows.items():
        colour = INKS[rule].colour
        axes.text(0.0, y + 0.62, INKS[rule].name, color=colour, fontsize=7.5, fontweight="bold", ha="left")
        axes.text(1.15, y + 0.62, words[rule], color="#333333", fontsize=6.5, ha="left")
        for x in places[:4]:
            axes.plot([x], [y], marker=INKS[rule].marker, color=colour, markersize=5)
        if rule == "dfa":
            for x in places[:4]:
                _arrow(axes, (places[4], y), (x, y), colour, bend=0.16, shrink=5)
        else:
            for a, b in pairwise(places[::-1]):
                _arrow(axes, (a, y), (b, y), colour, line="-" if rule == "bp" or a == places[-1] else "--", shrink=5)
        axes.plot([places[4]], [y], marker="$e$", color="#333333", markersize=5)


def _box(axes: Axes, x: float, y: float, name: str) -> None:
    axes.add_patch(FancyBboxPatch((x - 0.72, y - 0.5), 1.44, 1.0, boxstyle="round,pad=0.02,rounding_size=0.15",
                                  facecolor="#eef1f4", edgecolor="#555555", linewidth=0.7))  # fmt: skip
    axes.text(x, y, name, ha="center", va="center", fontsize=6.8)


def _arrow(
    axes: Axes, start: tuple[float, float], end: tuple[float, float], colour: str, *, bend: float = 0.0,
    line: str = "-", shrink: float = 0.0,
) -> None:  # fmt: skip
    axes.add_patch(FancyArrowPatch(start, end, arrowstyle="-|>", mutation_scale=6, color=colour, linewidth=0.9,
                                   linestyle=line, connectionstyle=f"arc3,rad={-bend}", shrinkA=shrink,
                                   shrinkB=shrink))  # fmt: skip


def _two_numbers(g: Gathered, axes: Axes) -> None:
    """One mark a seed; the quadrants at Γ = 0 and chance."""
    for rule in RULES:
        ink = INKS[rule]
        lasts = [run.snapshots[-1] for run in g[rule]]
        axes.plot([s.gamma for s in lasts], [s.accuracy for s in lasts], linestyle="none", marker=ink.marker,
                  color=ink.colour, markersize=6, alpha=0.85, label=ink.name)  # fmt: skip
    axes.axvline(0, color=GREY, linewidth=0.9)
    axes.axhline(CHANCE, **DASHED)
    _legend(axes, "center right", Line2D([], [], label="chance", **DASHED))
    axes.set_xlim(-0.15, 1.1)
    axes.margins(y=0.12)
    axes.set_ylim(bottom=0)
    axes.set_xlabel("Γ, the layer-averaged cosine")
    axes.set_ylabel("test accuracy")


def _cosines(g: Gathered, axes: Axes, told: Mapping[str, tuple[Evidence, Judgement]]) -> None:
    depth = _depth(g)
    for place, rule in enumerate(RULES):
        stats = []
        for block in range(depth):
            records = [run.snapshots[-1].cosine[block] for run in g[rule]]
            ok = bool(records) and all(c.status == "ok" for c in records)
            stats.append(Stat(tuple(c.value for c in records), "cosine") if ok else None)
        draw_steps(axes, [b + 0.05 * (place - 1) for b in range(depth)], stats, INKS[rule])
        if rule in told and rule != "bp":  # bp's credit is the gradient: its null has no spread
            for block, limit in enumerate(_limits(told[rule][0], depth)):
                axes.hlines(limit, block - 0.16, block + 0.16, color=INKS[rule].colour, linewidth=1.0, alpha=0.6)
    bar = Line2D([], [], color=GREY, linewidth=1.0, alpha=0.6, label="what it must clear")
    _legend(axes, (0.26, 0.54), bar)
    axes.axhline(0, color=GREY, linewidth=0.8)
    axes.set_xticks(range(depth))
    axes.set_xlim(-0.3, depth - 0.7)
    axes.set_ylim(-0.25, 1.1)
    axes.set_xlabel("block l")
    axes.set_ylabel("cos(a$_l$, g$_l$)")


def _limits(evidence: Evidence, depth: int) -> list[float]:
    """What a cosine must clear in each block, by the check: the null's mean and its band, averaged over the seeds."""
    limits = []
    for block in range(depth):
        nulls = [seed.final.null[block] for seed in evidence.seeds if seed.final.null]
        edges = [null.mean + DEFAULT["coverage.band"] * null.std for null in nulls if null is not None]
        limits.append(statistics.fmean(edges) if edges else math.nan)
    return limits


def _gradients(g: Gathered, axes: Axes) -> None:
    depth = _depth(g)
    for rule in RULES:
        stats = [
            Stat(tuple(run.snapshots[-1].gradient_norms[layer] for run in g[rule]), "size")
            for layer in range(depth + 1)
        ]
        draw_steps(axes, range(depth + 1), [s if s.n else None for s in stats], INKS[rule])
    log_scale(axes)
    axes.set_xticks(range(depth + 1))
    if any(g[rule] for rule in RULES):
        axes.axhline(FLOOR, **DASHED)
        _legend(axes, "center right", Line2D([], [], label="published floor", **DASHED))
    else:
        say_empty(axes)
    axes.set_xlabel("layer l")
    axes.set_ylabel("‖g$_l$‖ at N = 128")


def _depth(g: Gathered) -> int:
    return g.arms["bp"].configs[0].blocks


SHORT = {"reference": "ref.", "coverage": "cov."}


def tables(g: Gathered) -> list[Table]:
    """The numbers behind the panels, and what each check says."""
    told = subjects(g)
    checks = [check.name for check in in_order("ours")]
    rows: list[Sequence[str | Stat]] = []
    for rule in RULES:
        findings = told[rule][1].findings if rule in told else []
        rows.append([
            INKS[rule].name, told[rule][1].verdict if rule in told else "–", g.last(rule, lambda s: s.accuracy),
            g.last(f"{rule} frozen", lambda s: s.accuracy), g.last(rule, lambda s: s.gamma, "cosine"),
            *([GLYPHS[f.outcome] for f in findings] or [""] * len(checks)), g.seeds(rule, f"{rule} frozen"),
        ])  # fmt: skip
    headings = ["rule", "verdict", "accuracy", "frozen", "Γ", *(SHORT.get(c, c) for c in checks), "seeds"]
    said = [f"{INKS[rule].name}: {told[rule][1].says}" for rule in RULES if rule in told]
    shallow = g.last("shallow", lambda s: s.accuracy)
    if shallow.n:
        said.append(f"The shallow net (no blocks, trained by bp) reaches {shallow} ({g.seeds('shallow')} seeds).")
    words = f"✓ passes, ✗ fires, ? inconclusive, – not applicable, by thresholds {DEFAULT.version}."
    notes = g.notes(words, *said)
    main = Table("hero", "The main audit", headings, rows, notes)
    return [main, _by_layer(g)]


def _by_layer(g: Gathered) -> Table:
    rows: list[Sequence[str | Stat | None]] = []
    depth = _depth(g)
    for rule in RULES:
        for layer in range(depth + 1):
            cosine = None
            if layer < depth and g[rule] and all(r.snapshots[-1].cosine[layer].status == "ok" for r in g[rule]):
                cosine = g.last(rule, lambda s, at=layer: s.cosine[at].value, "cosine")  # type: ignore[misc]
            rows.append([
                INKS[rule].name, str(layer), cosine,
                Stat(tuple(run.snapshots[-1].gradient_norms[layer] for run in g[rule]), "size"),
                Stat(tuple(run.snapshots[-1].hidden_norms[layer] for run in g[rule]), "size"), g.seeds(rule),
            ])  # fmt: skip
    return Table(
        "layers", "Layer by layer", ["rule", "l", "cos(a_l, g_l)", "‖g_l‖", "‖h_l‖", "seeds"], rows,
        ["The cosine is at the block's input, as published. Sizes: geometric mean (smallest–largest); gradients at "
         "N = 128."],
    )  # fmt: skip


STUDIES.add("hero", Study("hero", "What do accuracy and Γ miss?", arms, tables, {"hero": draw}, place=40))
