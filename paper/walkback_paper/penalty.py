"""penalty: what does λ‖f_l‖² rescue, and what not? DFA and bp over five λ, beside their frozen nets.

A penalty on the branches holds the stream, and with it the gradient that cosines are taken against. Whether the trained
blocks then do anything is another question, and depth asks it: every net is held against the frozen net of its own
rule. A frozen net has no block that a penalty could act on, so one of λ = 0 serves every λ.
"""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D

from walkback.checks import DEFAULT, Judgement, judge
from walkback.records import BaselineName, Evidence, Run
from walkback.report import GLYPHS, Cell, Table
from walkback_paper.base import Arm, Collected, Extent, Study, register
from walkback_paper.drawing import BANDS, scaled
from walkback_paper.figures import INKS, PAGE, Ink, curve, draw_curve, draw_steps, figure, handle, legend, level
from walkback_paper.figures import whole_epochs as epochs_axis
from walkback_paper.judged import finding, known_of
from walkback_paper.quantities import ACCURACY, DEEP_COSINE, DEEP_RHO, GRADIENT, GROWTH, STREAM, Quantity, rhos

RULES = ("dfa", "bp")
PENALTIES = (0.0, 1e-4, 1e-3, 1e-2, 1e-1)
ORDER = (0.0, 1e-2, 1e-3, 1e-1, 1e-4)  # trained in this order: the ends and the published λ show most
EPOCHS = 30
# From light to dark with λ; markers and lines tell them apart in grey.
SHADES = {
    0.0: Ink("DFA, λ = 0", "#f4a688", "o", "-"),
    1e-4: Ink("DFA, λ = $10^{-4}$", "#e57a5f", "s", "--"),
    1e-3: Ink("DFA, λ = $10^{-3}$", "#cb3e3c", "^", "-."),
    1e-2: Ink("DFA, λ = $10^{-2}$", "#93152b", "D", ":"),
    1e-1: Ink("DFA, λ = $10^{-1}$", "#420611", "v", "-"),
}
FROZEN = {rule: {"color": INKS[rule].colour, "linewidth": 1.0, "linestyle": line} for rule, line in
          (("dfa", (0, (1, 1.2))), ("bp", (0, (1, 1.2, 4, 1.2))))}  # fmt: skip
BESIDE: Mapping[str, tuple[str, Mapping[str, Any]]] = {  # arm and look of what stands beside DFA's curves
    "BP, λ = 0": ("bp λ=0", {"color": INKS["bp"].colour, "linewidth": 1.0, "linestyle": (0, (7, 2))}),
    "DFA, frozen": ("dfa frozen", FROZEN["dfa"]),
}
WIDTHS = (3.4, 3.0, 2.4, 1.7, 0.9)  # a wide line below a narrow one is still seen
TICKS = {each: "0" if each == 0 else ink.name.removeprefix("DFA, λ = ") for each, ink in SHADES.items()}
PLACES = (0.0, 1.6, 2.6, 3.6, 4.6)  # λ = 0 stands apart: it is not one step of ten below 1e-4


def name(rule: str, penalty: float) -> str:
    """The arm of one rule and λ."""
    return f"{rule} λ={penalty:g}"


def frozen(rule: str) -> str:
    """The arm of a rule's frozen net."""
    return f"{rule} frozen"


SUBJECTS = tuple(name(rule, each) for rule in RULES for each in PENALTIES)


def arms(extent: Extent) -> list[Arm]:
    """Both rules with every λ, and their frozen nets."""
    full = [extent.arm(name(rule, each), rule, epochs=EPOCHS, penalty=each) for each in ORDER for rule in RULES]
    return full + [extent.arm(frozen(rule), rule, epochs=EPOCHS, train_last=0) for rule in RULES]


def rule_of(subject: str) -> str:
    """The rule that an arm's name begins with."""
    return subject.partition(" ")[0]


def baseline_arms(subject: str) -> dict[BaselineName, str]:
    """Which arms are a subject's baselines. What the task has to give is what bp gains without a penalty."""
    return {"frozen": frozen(rule_of(subject)), "frozen_bp": frozen("bp"), "bp": name("bp", 0)}


def evidence(g: Collected, subject: str) -> Evidence | None:
    """All that is known of one arm, with its baselines; None if it has no run."""
    return known_of(g, subject, baseline_arms(subject))


def baselines(g: Collected, subject: str) -> dict[BaselineName, Sequence[Run]]:
    """The baselines of a subject of which a run ended."""
    return {key: g.ended(arm) for key, arm in baseline_arms(subject).items() if g.ended(arm)}


def _not_measured(g: Collected) -> list[str]:
    """What the deep cosine and ρ lack, in words: each reason once, with its arms."""
    gaps: dict[str, list[str]] = {}
    for arm in SUBJECTS:
        for run in g[arm]:
            for block, c in enumerate(run.snapshots[-1].cosine):
                if block and c.status != "ok":
                    gaps.setdefault(f"no deep cosine ({c.status} in block {block})", []).append(arm)
            for block, r in enumerate(rhos(run)):
                if block and r.status != "ok":
                    gaps.setdefault(f"ρ without block {block} ({r.status})", []).append(arm)
            if not rhos(run):
                gaps.setdefault("no ρ (not probed)", []).append(arm)
    return [f"{what}: {', '.join(dict.fromkeys(arms))}" for what, arms in gaps.items()]


# --- figures --------------------------------------------------------------------------------------------------------


def draw(g: Collected) -> Figure:
    """Through training: the stream, the gradient, the accuracy, and the accuracy of DFA alone; one line a λ."""
    drawn = [*(name("dfa", each) for each in PENALTIES), *(arm for arm, _ in BESIDE.values())]
    words = (
        f"{BANDS} Where lines lie on each other, the smaller λ is the wider line below; marks of different λ stand at "
        "different epochs. (d): (c) without BP and from epoch 1 on; the bars at its right are ± one standard deviation."
    )
    fig = figure(PAGE, 4.6, g.note(words, drawn))
    panels = fig.subplots(2, 2).flatten()
    titles = ("(a) size of the stream", "(b) true gradient at N = 128", "(c) accuracy", "(d) accuracy of DFA, closer")
    for axes, title, quantity in zip(panels, titles, (STREAM, GRADIENT, ACCURACY, ACCURACY), strict=True):
        _lines(g, axes, quantity, alone=axes is panels[3])
        axes.set_title(title)
    inks = [handle(ink, linestyle="-", linewidth=w) for ink, w in zip(SHADES.values(), WIDTHS, strict=True)]
    legend(fig, [], [*inks, *(Line2D([], [], label=words, **look) for words, (_, look) in BESIDE.items())])
    return fig


def _lines(g: Collected, axes: Axes, quantity: Quantity, alone: bool) -> None:
    epochs = g.arms[name("dfa", 0)].configs[0].epochs
    for place, (each, ink) in enumerate(SHADES.items()):
        found = curve(g[name("dfa", each)], quantity.pick, log=quantity.log)
        every = max(len(SHADES), len(found.epochs) // 4)
        looks = {"linewidth": WIDTHS[place], "markevery": (place * every // len(SHADES), every)}
        if alone:  # bands would hide each other: the spread stands at the right, one bar a λ
            later = epochs * (1.03 + 0.025 * place)
            draw_steps(axes, [later], [g.last(name("dfa", each), quantity)], ink, linestyle="none")
            found = replace(found, epochs=found.epochs[1:], middle=found.middle[1:], n=0)
        draw_curve(axes, found, ink, linestyle="-", zorder=2 + 0.1 * place, **looks)
    beside = {ACCURACY: ("DFA, frozen",) if alone else tuple(BESIDE), STREAM: ("BP, λ = 0",)}.get(quantity, ())
    for arm, look in (BESIDE[words] for words in beside):
        found = curve(g[arm], quantity.pick, log=quantity.log)
        found = replace(found, epochs=found.epochs[1:], middle=found.middle[1:], n=0) if alone else found
        draw_curve(axes, found, INKS[rule_of(arm)], marker=None, zorder=3, **look)
    epochs_axis(axes)
    scaled(axes, quantity)
    if alone:
        axes.autoscale(axis="y")
        axes.set_xticks([tick for tick in axes.get_xticks() if 0 <= tick <= epochs])


def draw_sweep(g: Collected) -> Figure:
    """Six quantities of the final nets against λ, for both rules; λ = 0 is not joined to the others."""
    gaps = _not_measured(g)
    note = g.note(
        "Final nets: mean ± std over seeds (ddof = 1); sizes and growth: geometric mean, smallest and "
        "largest. (e), (f): over the blocks l ≥ 1; (e) only where all of them could be measured, (f) over those in "
        "which ρ could." + (f" Gaps: {'; '.join(gaps[:2])}{' …' if len(gaps) > 2 else ''}." if gaps else "")
    )
    fig = figure(PAGE, 3.7, note)
    panels = fig.subplots(2, 3).flatten()
    for letter, axes, quantity in zip("abcdef", panels, SWEPT, strict=True):
        for rule in RULES:
            stats = [g.last(name(rule, each), quantity) for each in PENALTIES]
            draw_steps(axes, PLACES[:1], stats[:1], INKS[rule])
            draw_steps(axes, PLACES[1:], stats[1:], INKS[rule])
        scaled(axes, quantity)
        axes.set_title(f"({letter}) {quantity.axis}")
        axes.set_ylabel("")
        axes.set_xticks(PLACES, list(TICKS.values()))
        axes.set_xlim(PLACES[0] - 0.5, PLACES[-1] + 0.5)
        axes.set_xlabel("λ", labelpad=1)
        if quantity.form == "cosine":
            axes.set_ylim(min(-0.05, axes.get_ylim()[0]), 1.09)
    for rule in RULES:
        level(panels[0], g.last(frozen(rule), ACCURACY).mean, f"{INKS[rule].name}, frozen", **FROZEN[rule])
    legend(fig, [INKS[rule] for rule in RULES])
    return fig


# --- tables ---------------------------------------------------------------------------------------------------------

SWEPT = (ACCURACY, STREAM, GROWTH, GRADIENT, DEEP_COSINE, DEEP_RHO)


def tables(g: Collected) -> list[Table]:
    """The quantities with what scale and depth say, and their sentences."""
    known = {arm: evidence(g, arm) for arm in SUBJECTS}
    judged = {arm: None if found is None else judge(found) for arm, found in known.items()}
    rows: list[list[Cell]] = []
    for rule in RULES:
        for each in PENALTIES:
            arm = name(rule, each)
            gained = g.gain(arm, frozen(rule))
            rows.append([
                INKS[rule].name, f"{each:g}", g.last(arm, ACCURACY), gained if gained.n else None,
                *g.cells(arm, STREAM, GRADIENT), _or_why(g, arm, DEEP_COSINE), _or_why(g, arm, DEEP_RHO),
                _outcome(judged[arm], "scale"), _outcome(judged[arm], "depth"), g.seeds(arm),
            ])  # fmt: skip
        arm = frozen(rule)
        sizes = g.cells(arm, STREAM, GRADIENT)
        rows.append(
            [INKS[rule].name, "frozen", g.last(arm, ACCURACY), None, *sizes, None, None, "–", "–", g.seeds(arm)]
        )
    gaps = _not_measured(g)
    words = (
        "Gain: over the frozen net of the same rule, for the seeds that both have, in points, with the 95 % interval "
        "of its mean (none for one seed). ‖h_L‖ and ‖g_L‖ (N = 128): geometric mean (smallest–largest). Deep cosine "
        "and ρ: over the blocks l ≥ 1; ρ over those in which it could be measured.",
        *([f"Gaps: {'; '.join(gaps)}."] if gaps else []),
    )
    shown = [q.symbol for q in (STREAM, GRADIENT, DEEP_COSINE, DEEP_RHO)]
    headings = ["rule", "λ", "accuracy", "gain over frozen", *shown, "scale", "depth", "seeds"]
    why: list[list[Cell]] = [
        [arm, check, _outcome(each, check), f.says if (f := finding(each, check)) else "No run is there."]
        for arm, each in judged.items() for check in ("scale", "depth")
    ]  # fmt: skip
    by = f"By our protocol, thresholds {DEFAULT.version}. The task's margin is that of bp without a penalty."
    return [
        Table("penalty", "What a penalty λ‖f_l‖² changes", headings, rows, g.notes(*words)),
        Table(
            "penalty-findings", "What scale and depth say of each λ", ["subject", "check", "outcome", "why"], why, [by]
        ),
    ]


def _outcome(judged: Judgement | None, check: str) -> str:
    found = finding(judged, check)
    return "no run" if found is None else f"{GLYPHS[found.outcome]} {found.outcome}"


def _or_why(g: Collected, arm: str, quantity: Quantity) -> Cell:
    """A quantity, or why there is none."""
    found = g.last(arm, quantity)
    if not found.n or found.mean is not None:
        return found
    deep = [c.status for run in g[arm] for c in run.snapshots[-1].cosine[1:] if c.status != "ok"]
    return ", ".join(dict.fromkeys(deep)) if quantity is DEEP_COSINE else "not measured"


register(Study(
    "penalty", "What does a penalty on the blocks' outputs repair, and what not?",
    arms, tables, {"penalty": draw, "penalty-sweep": draw_sweep}, place=20,
))  # fmt: skip
