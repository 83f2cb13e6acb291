"""hero: the whole story in four panels, all from the same runs and the same N.

A diagram of the net with each rule's credits; accuracy against Γ, the two numbers that are usually reported; the
cosine and the gradient that they average away.
"""

from itertools import pairwise
from typing import Any

from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.patches import FancyArrowPatch, FancyBboxPatch

from walkback.checks import DEFAULT, Judgement, judge, listed
from walkback.records import Evidence
from walkback.report import KEY, LEGEND, Cell, Table
from walkback_paper.base import CHANCE, Arm, Collected, Extent, Study, answer_cells, register
from walkback_paper.figures import GREY, INKS, LEVEL, PAGE, draw_steps, figure, handle, level, scaled
from walkback_paper.quantities import ACCURACY, GAMMA, cosine_at, gradient_at, hidden_at

RULES = ("bp", "fa", "dfa")


def arms(extent: Extent) -> list[Arm]:
    """The main audit: the rules, their frozen nets, those of which the upper half trains, and the shallow net."""
    found = [extent.arm(rule, rule) for rule in RULES]
    found += [extent.arm(f"{rule} half", rule, train_last=2) for rule in RULES]
    found += [extent.arm(f"{rule} frozen", rule, train_last=0) for rule in RULES]
    return [*found, extent.arm("shallow", "bp", net_options={"depth": 0}, train_last=0)]


def subjects(g: Collected) -> dict[str, tuple[Evidence, Judgement]]:
    """By rule the evidence and what is judged of it; rules without a run that ended are left out."""
    found = {rule: g.evidence(rule) for rule in RULES}
    return {rule: (evidence, judge(evidence)) for rule, evidence in found.items() if evidence is not None}


def draw(g: Collected) -> Figure:
    """Four panels, each with its legend."""
    answers = [f"{INKS[rule].name} {judgement.answer}" for rule, (_, judgement) in subjects(g).items()]
    words = f" Answers on accuracy: {listed(answers)}." if answers else ""
    fig = figure(PAGE, 4.9, g.note(f"Gradients at N = 128. Means ± std over seeds.{words}"))
    panels = {
        "The credit of each block": _diagram,
        "A  Two numbers: accuracy and Γ": _two_numbers,
        "B  Credit and gradient at each block's output": _cosines,
        "C  True gradient ‖g$_l$‖, by layer": _gradients,
    }
    for axes, (title, draw_panel) in zip(fig.subplots(2, 2).flatten(), panels.items(), strict=True):
        draw_panel(g, axes)
        axes.set_title(title)
    return fig


def _legend(axes: Axes, place: Any) -> None:
    """The rules, and whatever else is drawn, in the panel itself."""
    levels = [line for line in axes.lines if line.get_gid() == LEVEL]
    axes.legend(handles=[*(handle(INKS[rule]) for rule in RULES), *levels], loc=place, fontsize=6.5)


# --- the panels -----------------------------------------------------------------------------------------------------


CREDITS = {  # by rule where its row lies, and the way of its credit
    "bp": (4.9, "the gradient itself, through the blocks"),
    "fa": (3.0, "∂ℓ/∂h$_L$ at the top, then down through fixed random B$_l$"),
    "dfa": (1.0, "the output error, straight to each block through B$_l$"),
}


def _diagram(_: Collected, axes: Axes) -> None:
    """embed → blocks → readout, and under it the way that each rule's credit takes."""
    axes.set_xlim(0, 10)
    axes.set_ylim(-0.3, 8)
    axes.set_axis_off()
    places = (0.9, 2.9, 4.9, 6.9, 8.9)
    for x, name in zip(places, ("embed", "block 0", "block 1", "…", "readout"), strict=True):
        axes.add_patch(FancyBboxPatch((x - 0.72, 6.4), 1.44, 1.0, boxstyle="round,pad=0.02,rounding_size=0.15",
                                      facecolor="#eef1f4", edgecolor="#555555", linewidth=0.7))  # fmt: skip
        axes.text(x, 6.9, name, ha="center", va="center", fontsize=6.8)
    for (a, b), state in zip(pairwise(places), ("h$_0$", "h$_1$", "h$_2$", "h$_L$"), strict=True):
        _arrow(axes, (a + 0.75, 6.9), (b - 0.75, 6.9), "#333333")
        axes.text((a + b) / 2, 7.3, state, ha="center", fontsize=7)
    for rule, (y, words) in CREDITS.items():
        colour = INKS[rule].colour
        axes.text(0.0, y + 0.62, INKS[rule].name, color=colour, fontsize=7.5, fontweight="bold", ha="left")
        axes.text(1.15, y + 0.62, words, color="#333333", fontsize=6.5, ha="left")
        for x in places[:4]:
            axes.plot([x], [y], marker=INKS[rule].marker, color=colour, markersize=5)
        if rule == "dfa":
            for x in places[:4]:
                _arrow(axes, (places[4], y), (x, y), colour, bend=0.16, shrink=5)
        else:
            for a, b in pairwise(places[::-1]):
                _arrow(axes, (a, y), (b, y), colour, line="-" if rule == "bp" or a == places[-1] else "--", shrink=5)
        axes.plot([places[4]], [y], marker="$e$", color="#333333", markersize=5)


def _arrow(
    axes: Axes, start: tuple[float, float], end: tuple[float, float], colour: str, *, bend: float = 0.0,
    line: str = "-", shrink: float = 0.0,
) -> None:  # fmt: skip
    axes.add_patch(FancyArrowPatch(start, end, arrowstyle="-|>", mutation_scale=6, color=colour, linewidth=0.9,
                                   linestyle=line, connectionstyle=f"arc3,rad={-bend}", shrinkA=shrink,
                                   shrinkB=shrink))  # fmt: skip


def _two_numbers(g: Collected, axes: Axes) -> None:
    """One mark a seed; the quadrants at Γ = 0 and chance."""
    for rule in RULES:
        ink = INKS[rule]
        axes.plot([GAMMA.last(run) for run in g[rule]], [ACCURACY.last(run) for run in g[rule]], linestyle="none",
                  marker=ink.marker, color=ink.colour, markersize=6, alpha=0.85)  # fmt: skip
    axes.axvline(0, color=GREY, linewidth=0.9)
    level(axes, CHANCE, "chance")
    _legend(axes, "center right")
    axes.set_xlim(-0.15, 1.1)
    axes.margins(y=0.12)
    axes.set_ylim(bottom=0)
    axes.set_xlabel("Γ, the layer-averaged cosine")
    axes.set_ylabel(ACCURACY.axis)


def _cosines(g: Collected, axes: Axes) -> None:
    depth = _depth(g)
    for place, rule in enumerate(RULES):
        stats = [cosine_at(block, "cosine_out").over(g[rule]) for block in range(depth)]
        draw_steps(axes, [b + 0.05 * (place - 1) for b in range(depth)], stats, INKS[rule])
    _legend(axes, (0.26, 0.54))
    axes.axhline(0, color=GREY, linewidth=0.8)
    axes.set_xticks(range(depth))
    axes.set_xlim(-0.3, depth - 0.7)
    axes.set_ylim(-0.25, 1.1)
    axes.set_xlabel("block l")
    axes.set_ylabel("cos(a$_l$, g$_{l+1}$)")


def _gradients(g: Collected, axes: Axes) -> None:
    layers = [gradient_at(layer) for layer in range(_depth(g) + 1)]
    for rule in RULES:
        draw_steps(axes, range(len(layers)), [layer.over(g[rule]) for layer in layers], INKS[rule])
    scaled(axes, layers[0], any(g[rule] for rule in RULES))
    axes.set_xticks(range(len(layers)))
    _legend(axes, "center right")
    axes.set_xlabel("layer l")
    axes.set_ylabel("‖g$_l$‖ at N = 128")


def _depth(g: Collected) -> int:
    return g.arms["bp"].configs[0].blocks


def tables(g: Collected) -> list[Table]:
    """The numbers behind the panels, and the three answers."""
    judged = subjects(g)
    rows: list[list[Cell]] = []
    for rule in RULES:
        numbers = [g.last(rule, ACCURACY), g.last(f"{rule} frozen", ACCURACY)]
        answer, *others = answer_cells(judged[rule][1] if rule in judged else None)
        rows.append([INKS[rule].name, answer, *numbers, *others, g.seeds(rule, f"{rule} frozen")])
    headings = ["rule", "answer", "accuracy", "frozen", "depth f / s", "lower half", "Γ", "stands for", "seeds"]
    reasons = [f"{INKS[rule].name}: {judged[rule][1].says}" for rule in RULES if rule in judged]
    shallow = g.last("shallow", ACCURACY)
    if shallow.n:
        reasons.append(f"The shallow net (no blocks, trained by bp) reaches {shallow} ({g.seeds('shallow')} seeds).")
    notes = g.notes(f"{KEY}; thresholds {DEFAULT.version}. {LEGEND}", *reasons)
    return [Table("hero", "The main audit", headings, rows, notes), _by_layer(g)]


def _by_layer(g: Collected) -> Table:
    rows: list[list[Cell]] = []
    depth = _depth(g)
    for rule in RULES:
        for layer in range(depth + 1):
            cosine = g.last(rule, cosine_at(layer)) if layer < depth else None
            shown = cosine if cosine is not None and cosine.mean is not None else None
            sizes = g.cells(rule, gradient_at(layer), hidden_at(layer))
            rows.append([INKS[rule].name, str(layer), shown, *sizes, g.seeds(rule)])
    words = (
        "The cosine is at the block's input, as published. Sizes: geometric mean (smallest–largest); gradients at "
        "N = 128."
    )
    headings = ["rule", "l", "cos(a_l, g_l)", "‖g_l‖", "‖h_l‖", "seeds"]
    return Table("layers", "Layer by layer", headings, rows, [words])


register(Study("hero", "What do accuracy and Γ miss?", arms, tables, {"hero": draw}, place=40))
