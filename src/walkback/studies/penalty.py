"""penalty: what does λ‖f_l‖² rescue, and what not? DFA and bp over five λ, beside their frozen nets.

A penalty on the branches holds the stream, and with it the gradient that cosines are taken against. Whether the trained
blocks then do anything is another question, and depth asks it: every net is held against the frozen net of its own
rule. A frozen net has no block that a penalty could act on, so one of λ = 0 serves every λ.
"""

import math
from collections.abc import Callable, Mapping, Sequence
from itertools import zip_longest
from typing import Any

from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D

from walkback.checks import DEFAULT, Finding, Judgement, judge
from walkback.records import BaselineName, Evidence, Run, Snapshot, Valued, evidence_of_runs
from walkback.report.figures import GREY, INKS, PAGE, Ink, curve, draw_curve, draw_steps, figure, legend, whole_epochs
from walkback.report.tables import Cell, Form, Stat, Table, gain
from walkback.report.verdicts import GLYPHS
from walkback.studies.base import STUDIES, Arm, Extent, Gathered, Study, setting
from walkback.studies.quantities import accuracy, deep_cosine, largest_growth

RULES = ("dfa", "bp")
PENALTIES = (0.0, 1e-4, 1e-3, 1e-2, 1e-1)
ORDER = (0.0, 1e-2, 1e-3, 1e-1, 1e-4)  # trained in this order: the ends and the published λ tell most
EPOCHS = 30
# From light to dark with λ; markers and lines tell them apart in grey.
SHADES = {
    0.0: Ink("DFA, λ = 0", "#f4a688", "o", "-"),
    1e-4: Ink("DFA, λ = $10^{-4}$", "#e57a5f", "s", "--"),
    1e-3: Ink("DFA, λ = $10^{-3}$", "#cb3e3c", "^", "-."),
    1e-2: Ink("DFA, λ = $10^{-2}$", "#93152b", "D", ":"),
    1e-1: Ink("DFA, λ = $10^{-1}$", "#420611", "v", "-"),
}
LEVELS: Mapping[str, Mapping[str, Any]] = {
    "BP, λ = 0": {"color": INKS["bp"].colour, "linewidth": 1.0, "linestyle": (0, (7, 2))},
    "DFA, frozen": {"color": INKS["dfa"].colour, "linewidth": 1.0, "linestyle": (0, (1, 1.2))},
    "BP, frozen": {"color": INKS["bp"].colour, "linewidth": 1.0, "linestyle": (0, (1, 1.2, 4, 1.2))},
    "published floor": {"color": GREY, "linewidth": 1.0, "linestyle": (0, (3, 1.5))},
    "limit of scale": {"color": GREY, "linewidth": 1.0, "linestyle": (0, (3, 1.5, 1, 1.5))},
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
    """Which arms are a subject's baselines. What the task has to give is told by bp without a penalty."""
    return {"frozen": frozen(rule_of(subject)), "frozen_bp": frozen("bp"), "bp": name("bp", 0)}


def evidence(g: Gathered, subject: str) -> Evidence | None:
    """All that the records tell of one arm, with its baselines; None if it has no run."""
    if not g.ended(subject):
        return None
    return evidence_of_runs(subject, g.ended(subject), baselines=baselines(g, subject))


def baselines(g: Gathered, subject: str) -> dict[BaselineName, Sequence[Run]]:
    """The baselines of a subject of which a run ended."""
    return {key: g.ended(arm) for key, arm in baseline_arms(subject).items() if g.ended(arm)}


# --- quantities -----------------------------------------------------------------------------------------------------


def stream(snapshot: Snapshot) -> float:
    """‖h_L‖."""
    return snapshot.hidden_norms[-1]


def gradient(snapshot: Snapshot) -> float:
    """‖g_L‖ as in a batch of `reference.batch`."""
    return snapshot.gradient_norms[-1] * snapshot.reference_batch / DEFAULT["reference.batch"]


def deep_rho(run: Run) -> float:
    """The mean of ρ_l over the blocks l ≥ 1 in which it could be measured; NaN if it was in none."""
    known = [r.value for r in _rhos(run)[1:] if r.status == "ok"]
    return math.fsum(known) / len(known) if known else math.nan


def _rhos(run: Run) -> Sequence[Valued]:
    """ρ of every block of the final net; none where it was not probed."""
    return run.probes.rho if run.probes is not None and run.probes.step == run.snapshots[-1].step else []


def _rho(g: Gathered, arm: str) -> Stat:
    return Stat(tuple(deep_rho(run) for run in g[arm]), "cosine")


def _not_measured(g: Gathered) -> list[str]:
    """What the deep cosine and ρ lack, in words: each reason once, with the arms that it is told of."""
    told: dict[str, list[str]] = {}
    for arm in SUBJECTS:
        for run in g[arm]:
            for block, c in enumerate(run.snapshots[-1].cosine):
                if block and c.status != "ok":
                    told.setdefault(f"no deep cosine ({c.status} in block {block})", []).append(arm)
            for block, r in enumerate(_rhos(run)):
                if block and r.status != "ok":
                    told.setdefault(f"ρ without block {block} ({r.status})", []).append(arm)
            if not _rhos(run):
                told.setdefault("no ρ (not probed)", []).append(arm)
    return [f"{what}: {', '.join(dict.fromkeys(arms))}" for what, arms in told.items()]


# --- through training -----------------------------------------------------------------------------------------------


def draw(g: Gathered) -> Figure:
    """Three panels through training: the stream, the gradient, the accuracy; one line a λ."""
    drawn = [*(name("dfa", each) for each in PENALTIES), name("bp", 0), frozen("dfa")]
    note = g.note(
        f"{setting(g, drawn)} Mean ± std over seeds (ddof = 1), in (a) and (b) of the logarithm. Where lines lie on "
        "each other, the smaller λ is the wider line below. Marks of different λ stand at different epochs.", drawn,
    )  # fmt: skip
    epochs = g.arms[drawn[0]].configs[0].epochs
    fig = figure(PAGE, 2.8, note)
    panels = fig.subplots(1, 3)
    titles = ("(a) size of the stream, ‖h$_L$‖", "(b) gradient, ‖g$_L$‖ at N = 128", "(c) test accuracy")
    for axes, title, pick in zip(panels, titles, (stream, gradient, accuracy), strict=True):
        log = pick is not accuracy
        for place, (each, ink) in enumerate(SHADES.items()):
            found = curve(g[name("dfa", each)], pick, log=log)
            every = max(len(SHADES), len(found.epochs) // 4)
            looks = {"linewidth": WIDTHS[place], "markevery": (place * every // len(SHADES), every)}
            draw_curve(axes, found, ink, linestyle="-", zorder=2 + 0.1 * place, **looks)
        beside = {"BP, λ = 0": name("bp", 0), "DFA, frozen": frozen("dfa")} if pick is not gradient else {}
        for words, arm in beside.items():
            if pick is accuracy or words != "DFA, frozen":
                draw_curve(
                    axes, curve(g[arm], pick, log=log), INKS[rule_of(arm)], marker=None, zorder=3, **LEVELS[words]
                )
        axes.set_title(title)
        whole_epochs(axes)
        axes.set_xlim(-0.02 * epochs, 1.02 * epochs)
        if log:
            axes.set_yscale("log")
    across(panels[1], DEFAULT["reference.floor"], "published floor")
    lines = [
        _handle(color=i.colour, marker=i.marker, linewidth=width, label=i.name)
        for i, width in zip(SHADES.values(), WIDTHS, strict=True)
    ]
    levels = [_handle(**LEVELS[words], label=words) for words in ("BP, λ = 0", "DFA, frozen", "published floor")]
    # A legend is filled column by column: every λ above, the levels below.
    handles = [handle for pair in zip_longest(lines, levels) for handle in pair if handle is not None]
    fig.legend(handles=handles, loc="outside upper center", ncols=len(lines))
    return fig


def _handle(**looks: Any) -> Line2D:
    return Line2D([], [], **looks)


def across(axes: Axes, value: float | None, words: str) -> None:
    """A level that the legend names: curves may lie anywhere, so no name is written beside it."""
    if value is not None and math.isfinite(value):
        axes.axhline(value, zorder=1.5, **LEVELS[words])


# --- against λ ------------------------------------------------------------------------------------------------------


def draw_sweep(g: Gathered) -> Figure:
    """Six quantities of the final nets against λ, for both rules."""
    gaps = _not_measured(g)
    note = g.note(
        f"{setting(g)} Final nets: mean ± std over seeds (ddof = 1); sizes and growth: geometric mean, smallest and "
        "largest. (e), (f): over the blocks l ≥ 1; (e) only where all of them could be measured, (f) over those in "
        "which ρ could." + (f" Gaps: {'; '.join(gaps[:2])}{' …' if len(gaps) > 2 else ''}." if gaps else "")
    )
    fig = figure(PAGE, 3.7, note)
    panels = fig.subplots(2, 3).flatten()

    def last(pick: Callable[[Snapshot], float], form: Form) -> Callable[[str], Stat]:
        return lambda arm: g.last(arm, pick, form)

    quantities: Mapping[str, Callable[[str], Stat]] = {
        "(a) test accuracy": last(accuracy, "share"),
        "(b) stream, ‖h$_L$‖": last(stream, "size"),
        "(c) largest growth in a block": last(largest_growth, "size"),
        "(d) gradient, ‖g$_L$‖ at N = 128": last(gradient, "size"),
        "(e) deep cosine": last(deep_cosine, "cosine"),
        "(f) deep ρ": lambda arm: _rho(g, arm),
    }
    for axes, (title, stat) in zip(panels, quantities.items(), strict=True):
        _sweep(axes, title, stat)
    across(panels[0], g.last(frozen("dfa"), accuracy).mean, "DFA, frozen")
    across(panels[0], g.last(frozen("bp"), accuracy).mean, "BP, frozen")
    across(panels[2], DEFAULT["scale.growth"], "limit of scale")
    across(panels[3], DEFAULT["reference.floor"], "published floor")
    for axes in panels[4:]:
        axes.set_ylim(min(-0.05, axes.get_ylim()[0]), 1.09)
    named = ("DFA, frozen", "BP, frozen", "limit of scale", "published floor")
    legend(fig, [INKS[rule] for rule in RULES], [_handle(**LEVELS[words], label=words) for words in named])
    return fig


def _sweep(axes: Axes, title: str, stat: Callable[[str], Stat]) -> None:
    """One quantity; λ = 0 is not joined to the others."""
    for rule in RULES:
        stats = [stat(name(rule, each)) for each in PENALTIES]
        there = [s if s.n else None for s in stats]
        draw_steps(axes, PLACES[:1], there[:1], INKS[rule])
        draw_steps(axes, PLACES[1:], there[1:], INKS[rule])
        if any(s.form == "size" for s in stats):
            axes.set_yscale("log", nonpositive="mask")
    axes.set_xticks(PLACES, list(TICKS.values()))
    axes.set_xlim(PLACES[0] - 0.5, PLACES[-1] + 0.5)
    axes.set_xlabel("λ", labelpad=1)
    axes.set_title(title)


# --- tables ---------------------------------------------------------------------------------------------------------


def tables(g: Gathered) -> list[Table]:
    """The quantities with what scale and depth say, and their sentences."""
    judged = {arm: _judged(g, arm) for arm in SUBJECTS}
    rows: list[Sequence[Cell]] = []
    for rule in RULES:
        for each in PENALTIES:
            arm = name(rule, each)
            gained = gain(*g.paired(arm, frozen(rule)))
            rows.append([
                INKS[rule].name, f"{each:g}", g.last(arm, accuracy), gained if gained.n else None,
                g.last(arm, stream, "size"), g.last(arm, gradient, "size"), _cosine_cell(g, arm), _rho_cell(g, arm),
                _outcome(judged[arm], "scale"), _outcome(judged[arm], "depth"), g.seeds(arm),
            ])  # fmt: skip
        arm = frozen(rule)
        rows.append([
            INKS[rule].name, "frozen", g.last(arm, accuracy), None, g.last(arm, stream, "size"),
            g.last(arm, gradient, "size"), None, None, "–", "–", g.seeds(arm),
        ])  # fmt: skip
    gaps = _not_measured(g)
    words = (
        "Gain: over the frozen net of the same rule, for the seeds that both have, in points, with the 95 % interval "
        "of its mean (none for one seed). ‖h_L‖ and ‖g_L‖ (N = 128): geometric mean (smallest–largest). Deep cosine "
        "and ρ: over the blocks l ≥ 1; ρ over those in which it could be measured.",
        *([f"Gaps: {'; '.join(gaps)}."] if gaps else []),
    )
    quantities = Table(
        "penalty", "What a penalty λ‖f_l‖² changes",
        ["rule", "λ", "accuracy", "gain over frozen", "‖h_L‖", "‖g_L‖", "deep cosine", "ρ", "scale", "depth", "seeds"],
        rows, g.notes(*words),
    )  # fmt: skip
    return [quantities, _sentences(judged)]


def _judged(g: Gathered, arm: str) -> Judgement | None:
    found = evidence(g, arm)
    return None if found is None else judge(found)


def _sentences(judged: Mapping[str, Judgement | None]) -> Table:
    rows: list[Sequence[Cell]] = []
    for arm, found in judged.items():
        for check in ("scale", "depth"):
            says = _finding(found, check).says if found is not None else "No run is there."
            rows.append([arm, check, _outcome(found, check), says])
    return Table(
        "penalty-findings", "What scale and depth say of each λ", ["subject", "check", "outcome", "why"], rows,
        [f"By our protocol, thresholds {DEFAULT.version}. The task's margin is that of bp without a penalty."],
    )  # fmt: skip


def _finding(found: Judgement, check: str) -> Finding:
    return next(finding for finding in found.findings if finding.check == check)


def _outcome(found: Judgement | None, check: str) -> str:
    if found is None:
        return "no run"
    outcome = _finding(found, check).outcome
    return f"{GLYPHS[outcome]} {outcome}"


def _cosine_cell(g: Gathered, arm: str) -> Cell:
    """The deep cosine, or why there is none."""
    found = g.last(arm, deep_cosine, "cosine")
    if found.n and found.mean is None:
        deep = [c.status for run in g[arm] for c in run.snapshots[-1].cosine[1:]]
        return ", ".join(dict.fromkeys(status for status in deep if status != "ok"))
    return found


def _rho_cell(g: Gathered, arm: str) -> Cell:
    found = _rho(g, arm)
    return "not measured" if found.n and found.mean is None else found


STUDIES.add(
    "penalty",
    Study(
        "penalty", "What does a penalty on the blocks' outputs rescue, and what not?",
        arms, tables, {"penalty": draw, "penalty-sweep": draw_sweep}, place=20,
    ),
)  # fmt: skip
