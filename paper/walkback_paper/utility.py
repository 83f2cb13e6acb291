"""utility: which claims does each way of deciding walk back, and how do the answers move with each threshold?

Accuracy above chance, a Γ above 0 with it, each of our three answers, and the published protocol are put to the same
records. Then each threshold is moved while the others stay, and every subject is judged again. Nothing is measured
here: an answer is a pure function of the evidence and the thresholds.
"""

import statistics
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from itertools import pairwise
from typing import Any, Literal, NamedTuple

from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.patches import Patch, Rectangle

from walkback.checks import DEFAULT, DIGITS, Verdicts, known, listed
from walkback.records import BaselineName, Evidence
from walkback.report import Cell, Table
from walkback_paper import published
from walkback_paper.base import Arm, Collected, Extent, Study, register
from walkback_paper.drawing import matrix
from walkback_paper.figures import GREY, INKS, PAGE, figure
from walkback_paper.judged import BothVerdicts, both, known_of
from walkback_paper.quantities import ACCURACY, GAMMA
from walkback_paper.sweep import Stretch, Swept, by_verdict, moves_table, stretches, thresholds_table

PENALTY = 0.01
NO_NORM = {"terminal_norm": False}

Decision = Literal["walked back", "not", "open", "not asked"]


@dataclass(frozen=True, eq=False)
class Contender:
    """An arm that is judged, what it is called, its baselines by arm, and, for a control, what must not come out.

    A control is right wherever that does not come out: that something could not be asked is no blame.
    """

    arm: str
    name: str
    baselines: Mapping[BaselineName, str]
    wrong: Literal["walked back", "not"] | None = None


def _baselines(rule: str) -> dict[BaselineName, str]:
    found: dict[BaselineName, str] = {
        "frozen": f"{rule} frozen", "frozen_bp": "bp frozen", "bp": "bp", "shallow": "shallow", "half_bp": "bp half",
    }  # fmt: skip
    return found if rule == "random" else {**found, "half": f"{rule} half"}


def _without_norm(rule: str) -> dict[BaselineName, str]:
    return {"frozen": f"{rule} no norm frozen", "frozen_bp": "bp no norm frozen", "bp": "bp no norm"}


PENALISED = f"dfa λ={PENALTY:g}"
SUBJECTS = (
    Contender("bp", "BP", _baselines("bp"), wrong="walked back"),
    Contender("fa", "FA", _baselines("fa")),
    Contender("dfa", "DFA", _baselines("dfa")),
    # Held against nets of its own budget. The penalty acts on blocks that train: a frozen net is the same without it.
    Contender(PENALISED, f"DFA λ={PENALTY:g}",
              {"frozen": "dfa frozen short", "frozen_bp": "bp frozen short", "bp": "bp short"}),
    Contender("bp no norm", "BP without norm", _without_norm("bp"), wrong="walked back"),
    Contender("dfa no norm", "DFA without norm", _without_norm("dfa")),
    Contender("random", INKS["random"].name, _baselines("random"), wrong="not"),
)  # fmt: skip
CLAIMS = tuple(subject for subject in SUBJECTS if subject.wrong is None)
CONTROLS = tuple(subject for subject in SUBJECTS if subject.wrong is not None)


def arms(extent: Extent) -> list[Arm]:
    """The subjects, their frozen nets and upper halves, the shallow net; with a penalty; without norm; the control."""
    return [
        *(extent.arm(rule, rule) for rule in ("bp", "fa", "dfa")),
        *(extent.arm(f"{rule} frozen", rule, train_last=0) for rule in ("bp", "fa", "dfa")),
        *(extent.arm(f"{rule} half", rule, train_last=2) for rule in ("bp", "fa", "dfa")),
        extent.arm("shallow", "bp", net_options={"depth": 0}, train_last=0),
        extent.arm(PENALISED, "dfa", epochs=30, penalty=PENALTY),
        extent.arm("dfa frozen short", "dfa", epochs=30, train_last=0),
        extent.arm("bp short", "bp", epochs=30),
        extent.arm("bp frozen short", "bp", epochs=30, train_last=0),
        *(extent.arm(f"{rule} no norm", rule, net_options=NO_NORM) for rule in ("bp", "dfa")),
        *(extent.arm(f"{rule} no norm frozen", rule, net_options=NO_NORM, train_last=0) for rule in ("bp", "dfa")),
        extent.arm("random", "random", rank=1),
        extent.arm("random frozen", "random", train_last=0, rank=1),
    ]


def evidence(g: Collected) -> dict[Contender, Evidence]:
    """What is known of every subject of which a run is there."""
    found = {subject: known_of(g, subject.arm, subject.baselines, subject.name) for subject in SUBJECTS}
    return {subject: each for subject, each in found.items() if each is not None}


# Who decides


def by_accuracy(case: BothVerdicts) -> Decision:
    """Walked back if the mean accuracy over the seeds is not above chance."""
    mean, classes = _mean(seed.final.accuracy for seed in case.evidence.seeds), case.evidence.classes
    if mean is None or classes is None:
        return "open"
    return "not" if mean > round(1 / classes, DIGITS) else "walked back"


def by_gamma(case: BothVerdicts) -> Decision:
    """Walked back by accuracy, or because the mean Γ over the seeds is not above 0."""
    accuracy, mean = by_accuracy(case), _mean(seed.final.gamma for seed in case.evidence.seeds)
    if accuracy == "walked back" or (mean is not None and mean <= 0):
        return "walked back"
    return accuracy if mean is not None else "open"


def _mean(values: Iterable[float | None]) -> float | None:
    """None if one of them is not known: a mean of the others would be of other seeds."""
    every = list(values)
    numbers = [value for value in every if known(value)]
    return round(statistics.fmean(numbers), DIGITS) if numbers and len(numbers) == len(every) else None


def _answer(pick: Callable[[Verdicts], str]) -> Callable[[BothVerdicts], Decision]:
    """What one of our three answers amounts to."""
    return lambda case: "open" if case.ours.verdicts is None else IN_SHORT[pick(case.ours.verdicts)]


IN_SHORT: Mapping[str, Decision] = {
    "walked back": "walked back", "not trained": "walked back", "carried by few": "walked back",
    "chance": "walked back", "holds": "not", "trained": "not", "even": "not", "open": "open", "inconclusive": "open",
    "not measurable": "open", "not asked": "not asked", "not applicable": "not asked", "not reported": "not asked",
}  # fmt: skip
DECIDERS: Mapping[str, Callable[[BothVerdicts], Decision]] = {
    "chance": by_accuracy,
    "chance + Γ": by_gamma,
    "accuracy": _answer(lambda answers: answers.accuracy),
    "lower half": _answer(lambda answers: answers.lower_half),
    "Γ": _answer(lambda answers: answers.gamma),
    "published": lambda case: IN_SHORT[case.published.verdict],
}


def decided(subject: Evidence) -> dict[str, Decision]:
    """What each way of deciding says of a subject."""
    case = both(subject)
    return {name: decide(case) for name, decide in DECIDERS.items()}


# What the paper counts, by the column that it stands in here.
PAPER_COUNTS = {"chance": "accuracy", "chance + Γ": "accuracy, Γ", "published": "the full protocol"}
PAPER_METHODS = tuple(method.upper() for method in published.VERDICTS if method != "bp")


def counts(found: Mapping[Contender, Mapping[str, Decision]]) -> dict[str, list[str | None]]:
    """What stands below the answers: claims walked back, controls that come out as expected, the paper's counts.

    BP and random credit claim nothing: they are controls.
    """
    claims, controls = ([each for each in group if each in found] for group in (CLAIMS, CONTROLS))

    def count(group: list[Contender], hit: Callable[[Contender, str], bool]) -> list[str | None]:
        return [f"{sum(hit(each, decider) for each in group)} of {len(group)}" for decider in DECIDERS]

    paper = {d: f"{published.UTILITY[name]} of {len(PAPER_METHODS)}" for d, name in PAPER_COUNTS.items()}
    return {
        "claims walked back": count(claims, lambda each, decider: found[each][decider] == "walked back"),
        "controls right": count(controls, lambda each, decider: found[each][decider] != each.wrong),
        "walked back in the paper": [paper.get(decider) for decider in DECIDERS],
    }


# How the answers move

SWEPT = (
    # No further than BP itself gains on CIFAR-10: above that no depth can be asked for.
    Swept("depth.margin", 1e-4, 0.2, "log", "gain in points", {1e-4: ".01", 1e-3: ".1", 0.01: "1", 0.1: "10"},
          "accuracy"),
    Swept("depth.confidence", 0.5, 0.999, "logit", "confidence", {0.5: ".5", 0.9: ".9", 0.99: ".99", 0.999: ".999"},
          "accuracy"),
    Swept("reach.margin", 1e-4, 0.2, "log", "gain in points", {1e-4: ".01", 1e-3: ".1", 0.01: "1", 0.1: "10"},
          "lower half"),
    Swept("chance.small", 1e-3, 0.5, "log", "Γ", {1e-3: ".001", 1e-2: ".01", 1e-1: ".1"}, "Γ"),
    Swept("spread.share", 0.01, 0.99, "linear", "share of the blocks",
          {0: "0", 0.25: "¼", 0.5: "½", 0.75: "¾", 1: "1"}, "Γ"),
    Swept("scale.growth", 2, 1e5, "log", "growth over one block", {1e1: "10", 1e3: "10³", 1e5: "10⁵"}, "published"),
    Swept("reference.floor", 1e-12, 1e-3, "log", "‖g$_L$‖", {1e-12: "10⁻¹²", 1e-8: "10⁻⁸", 1e-4: "10⁻⁴"}, "published"),
)  # fmt: skip


# Tables


def tables(g: Collected) -> list[Table]:
    """Who walks back what; the thresholds, and how far each can move; and every verdict that moves at all."""
    subjects = evidence(g)
    sweeps = {swept: {e.name: stretches(e, swept) for e in subjects.values()} for swept in SWEPT}
    return [_utility_table(g, subjects), thresholds_table(g, sweeps), moves_table(sweeps)]


def _utility_table(g: Collected, subjects: Mapping[Contender, Evidence]) -> Table:
    found = {subject: decided(known_of) for subject, known_of in subjects.items()}
    rows: list[list[Cell]] = [
        [subject.name, *(found.get(subject, {}).get(decider) for decider in DECIDERS), g.seeds(subject.arm)]
        for subject in SUBJECTS
    ]
    rows += [[title, *row, None] for title, row in counts(found).items()]
    notes = g.notes(
        "chance: walked back if the mean accuracy is not above chance. chance + Γ: or if the mean Γ is not above 0. "
        "accuracy, lower half, Γ: our three answers; the lower half is walked back where it is not trained, Γ where it "
        "is carried by few or at chance. published: the verdict of the published protocol. not: not walked back.",
        f"Claims: {listed([s.name for s in CLAIMS])}. Controls: {listed([s.name for s in CONTROLS])}; BP must not be "
        "walked back, random credit must not stand. The paper counts other subjects "
        f"({listed(PAPER_METHODS)}): its counts are no repetition of ours.",
        _apart(g),
    )
    return Table("utility", "Which claims are walked back, and by what", ["subject", *DECIDERS, "seeds"], rows, notes)


def _apart(g: Collected) -> str:
    """What is different about some of the subjects."""
    epochs = g.arms[PENALISED].configs[0].epochs
    return (
        f"With λ: {epochs} epochs, held against nets of that budget. Without norm: no terminal norm, held against nets "
        "without one."
    )


# Figures


class Appearance(NamedTuple):
    """How an answer looks: told apart by colour, by lightness, by hatch and by glyph."""

    colour: str
    hatch: str
    glyph: str
    ink: str = "black"


LOOKS: Mapping[Decision, Appearance] = {
    "walked back": Appearance("#8e2a35", "", "✗", "white"), "not": Appearance("#b5d4ea", "", "✓"),
    "open": Appearance("#f1f1f1", "//////", "?"), "not asked": Appearance("#ffffff", "....", "–"),
}  # fmt: skip
HATCH = "#b8b8b8"


def _glyph(axes: Axes, x: float, y: float, look: Appearance, size: float) -> None:
    """A glyph in the middle of its place, on a ground of its own where a hatch would run through it."""
    ground = {"boxstyle": "round,pad=0.12", "facecolor": look.colour, "edgecolor": "none"} if look.hatch else None
    axes.text(x, y, look.glyph, color=look.ink, ha="center", va="center_baseline", bbox=ground,
              fontsize=size if len(look.glyph) == 1 else 0.75 * size)  # fmt: skip


def _legend() -> list[Patch]:
    return [
        Patch(facecolor=look.colour, edgecolor=HATCH, hatch=look.hatch,
              label=f"{look.glyph}  {'not walked back' if name == 'not' else name}")
        for name, look in LOOKS.items()
    ]  # fmt: skip


ACCURACY_AT, GAMMA_AT, LEFT = 0.6, 1.85, 2.6  # in cells: the two numbers, and where the matrix begins


def draw(g: Collected) -> Figure:
    """Subjects down, deciders across; to the left the two numbers that are usually reported, below the counts."""
    found = {subject: decided(known_of) for subject, known_of in evidence(g).items()}
    note = g.note(f"Claims: all but BP and random credit, which are controls. The paper counts "
                  f"{listed(PAPER_METHODS)}: its counts are no repetition of ours. {_apart(g)}")  # fmt: skip
    fig = figure(PAGE, 3.3, note)
    axes = fig.subplots()
    rows, columns = len(SUBJECTS), len(DECIDERS)
    for row, subject in enumerate(SUBJECTS):
        for x, quantity, shape in ((ACCURACY_AT, ACCURACY, ".3f"), (GAMMA_AT, GAMMA, "+.3f")):
            stat = g.last(subject.arm, quantity)
            words = "no run" if not stat.n else "not finite" if stat.mean is None else f"{stat.mean:{shape}}"
            axes.text(x, row + 0.5, words.replace("-", "−"), ha="center", va="center_baseline", fontsize=7,
                      color="black" if stat.n else GREY)  # fmt: skip
        for column, decider in enumerate(DECIDERS):
            look = LOOKS[found[subject][decider]] if subject in found else Appearance("white", "", "")
            axes.add_patch(Rectangle((LEFT + column + 0.03, row + 0.04), 0.94, 0.92, linewidth=0.6,
                                     facecolor=look.colour, edgecolor=HATCH, hatch=look.hatch))  # fmt: skip
            if look.glyph:
                _glyph(axes, LEFT + column + 0.5, row + 0.5, look, 9)
    small: dict[str, Any] = {"va": "center_baseline", "color": GREY, "fontsize": 7}
    for place, (title, row_of) in enumerate(counts(found).items()):
        y = rows + 0.75 + 0.72 * place
        axes.text(LEFT - 0.15, y, title, ha="right", **small)
        for column, count in enumerate(row_of):
            axes.text(LEFT + column + 0.5, y, count or "–", ha="center", **small)
    heads = {ACCURACY_AT: "accuracy", GAMMA_AT: "Γ"} | {LEFT + n + 0.5: name for n, name in enumerate(DECIDERS)}
    for x, words in heads.items():
        axes.text(x, -0.2, words.replace(" + ", "\n+ "), ha="center", va="bottom", fontsize=7.5)
    for x, words in (((ACCURACY_AT + GAMMA_AT) / 2, "reported"), (LEFT + columns / 2, "walked back by")):
        axes.text(x, -1.35, words, ha="center", va="baseline", fontsize=8, color=GREY)
    matrix(axes, [subject.name for subject in SUBJECTS])
    axes.set(xlim=(0, LEFT + columns), ylim=(rows + 2.6, -1.9))
    fig.legend(handles=_legend(), loc="outside upper center", ncols=4)
    return fig


def draw_thresholds(g: Collected) -> Figure:
    """One panel a threshold: along it the answer on every subject, and where the default stands."""
    subjects = evidence(g)
    note = g.note("One threshold moves, the others keep their defaults; ends of bars are exact. "
                  "Above each: the answer that it moves; published: that protocol's verdict.")  # fmt: skip
    fig = figure(PAGE, 3.9, note)
    panels = list(fig.subplots(2, 4, sharey=True).flat)
    for axes, swept in zip(panels, SWEPT, strict=False):
        _panel(axes, swept, subjects)
    panels[-1].set_axis_off()
    default = Line2D([], [], color="black", linestyle=(0, (3, 1.5)), linewidth=1.2, label="default")
    panels[-1].legend(handles=[*_legend(), default], loc="center left", handlelength=2.4, labelspacing=0.9)
    return fig


def _panel(axes: Axes, swept: Swept, subjects: Mapping[Contender, Evidence]) -> None:
    default = DEFAULT[swept.name]
    axes.set_xscale(swept.scale)
    axes.set(xlim=(swept.low, swept.high), ylim=(len(SUBJECTS) - 0.45, -0.55))
    for row, subject in enumerate(SUBJECTS):
        if subject not in subjects:
            middle, _ = _room(axes, swept.low, swept.high, default)
            axes.text(middle, row, "no run", ha="center", va="center_baseline", fontsize=6.5, color=GREY)
            continue
        for part in by_verdict(stretches(subjects[subject], swept)):
            _bar(axes, row, part, default)
    axes.axvline(default, color="white", linewidth=2.6, zorder=4)  # a rim, so that it is seen on dark bars
    axes.axvline(default, color="black", linewidth=1.2, linestyle=(0, (3, 1.5)), zorder=5)
    axes.set_title(f"{swept.name}\n{swept.answer}", fontsize=8)
    axes.set_xlabel(swept.words, fontsize=7)
    axes.set_xticks(list(swept.ticks), list(swept.ticks.values()), fontsize=7)
    axes.minorticks_off()
    axes.set_yticks(range(len(SUBJECTS)), [subject.name for subject in SUBJECTS])
    axes.tick_params(axis="y", length=0)
    axes.grid(False)
    axes.spines["left"].set_visible(False)


def _bar(axes: Axes, row: int, part: Stretch, default: float) -> None:
    """One stretch of one verdict, with its glyph where there is room, beside the line of the default."""
    look = LOOKS[IN_SHORT[part.verdict]]
    axes.barh(row, part.high - part.low, 0.8, left=part.low, color=look.colour, edgecolor=HATCH, hatch=look.hatch,
              linewidth=0.6)  # fmt: skip
    middle, width = _room(axes, part.low, part.high, default)
    if width > (0.1 if len(look.glyph) == 1 else 0.2):
        _glyph(axes, middle, row, look, 7.5)


def _room(axes: Axes, low: float, high: float, default: float) -> tuple[float, float]:
    """The wider part of a stretch on either side of the default: its middle, and its width as a share of the panel."""
    to_axes = axes.transScale + axes.transLimits
    ends = [low, *([default] if low < default < high else []), high]
    places = [float(to_axes.transform((end, 0))[0]) for end in ends]
    start, end = max(pairwise(places), key=lambda room: room[1] - room[0])
    return float(to_axes.inverted().transform(((start + end) / 2, 0))[0]), end - start


register(Study(
    "utility", "Which claims does each answer walk back, and how do the answers move with the thresholds?",
    arms, tables, {"utility": draw, "utility-thresholds": draw_thresholds}, place=60,
))  # fmt: skip
