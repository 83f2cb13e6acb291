"""utility: which claims does each way of deciding walk back, and how do the answers move with each threshold?

Accuracy above chance, a Γ above 0 with it, each of our three answers, and the published protocol are put to the same
records. Then each threshold is moved while the others stay, and every subject is judged again. Nothing is measured
here: an answer is a pure function of the evidence and the thresholds.
"""

import statistics
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Literal

from walkback.checks import DIGITS, judge, known, listed
from walkback.records import Evidence
from walkback.report import INKS, Cell, Table
from walkback_paper import published
from walkback_paper.base import Arm, Collected, Extent, Study, register
from walkback_paper.sweep import Swept, moves_table, stretches, thresholds_table

PENALTY = 0.01
NO_NORM = {"terminal_norm": False}

Decision = Literal["walked back", "not", "open", "not asked"]


@dataclass(frozen=True, eq=False)
class Contender:
    """An arm that is judged, what it is called, and, for a control, what must not come out.

    A control is right wherever that does not come out: that something could not be asked is no blame.
    """

    arm: str
    name: str
    wrong: Literal["walked back", "not"] | None = None


PENALISED = f"dfa λ={PENALTY:g}"
SUBJECTS = (
    Contender("bp", "BP", wrong="walked back"),
    Contender("fa", "FA"),
    Contender("dfa", "DFA"),
    Contender(PENALISED, f"DFA λ={PENALTY:g}"),
    Contender("bp no norm", "BP without norm", wrong="walked back"),
    Contender("dfa no norm", "DFA without norm"),
    Contender("random", INKS["random"].name, wrong="not"),
)
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
    found = {subject: g.evidence(subject.arm, name=subject.name) for subject in SUBJECTS}
    return {subject: each for subject, each in found.items() if each is not None}


# Who decides

DECIDERS = ("chance", "chance + Γ", "accuracy", "lower half", "Γ", "published")
IN_SHORT: Mapping[str, Decision] = {
    "walked back": "walked back", "not trained": "walked back", "carried by few": "walked back",
    "chance": "walked back", "holds": "not", "trained": "not", "even": "not", "open": "open", "inconclusive": "open",
    "not measurable": "open", "not asked": "not asked", "not applicable": "not asked", "not reported": "not asked",
}  # fmt: skip


def decided(subject: Evidence) -> dict[str, Decision]:
    """What each way of deciding says of a subject: its size above chance, our three answers, the published verdict."""
    chance = by_accuracy(subject)
    found: dict[str, Decision] = {"chance": chance, "chance + Γ": by_gamma(subject, chance)}
    answers = judge(subject).verdicts
    found |= {"accuracy": "open", "lower half": "open", "Γ": "open"}
    if answers is not None:
        ours = {"accuracy": answers.accuracy, "lower half": answers.lower_half, "Γ": answers.gamma}
        found |= {name: IN_SHORT[answer] for name, answer in ours.items()}
    return found | {"published": IN_SHORT[judge(subject, protocol="published").verdict]}


def by_accuracy(subject: Evidence) -> Decision:
    """Walked back if the mean accuracy over the seeds is not above chance."""
    mean = _mean([seed.final.accuracy for seed in subject.seeds])
    if mean is None or subject.classes is None:
        return "open"
    return "not" if mean > round(1 / subject.classes, DIGITS) else "walked back"


def by_gamma(subject: Evidence, accuracy: Decision) -> Decision:
    """Walked back by accuracy, or because the mean Γ over the seeds is not above 0."""
    mean = _mean([seed.final.gamma for seed in subject.seeds])
    if accuracy == "walked back" or (mean is not None and mean <= 0):
        return "walked back"
    return accuracy if mean is not None else "open"


def _mean(values: list[float | None]) -> float | None:
    """None if one of them is not known: a mean of the others would be of other seeds."""
    numbers = [value for value in values if known(value)]
    return round(statistics.fmean(numbers), DIGITS) if numbers and len(numbers) == len(values) else None


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
    Swept("depth.margin", 1e-4, 0.2, "log", "accuracy"),
    Swept("depth.confidence", 0.5, 0.999, "logit", "accuracy"),
    Swept("reach.margin", 1e-4, 0.2, "log", "lower half"),
    Swept("chance.small", 1e-3, 0.5, "log", "Γ"),
    Swept("spread.share", 0.01, 0.99, "linear", "Γ"),
    Swept("scale.growth", 2, 1e5, "log", "published"),
    Swept("reference.floor", 1e-12, 1e-3, "log", "published"),
)


# Tables


def tables(g: Collected) -> list[Table]:
    """Who walks back what; the thresholds, and how far each can move; and every verdict that moves at all."""
    subjects = evidence(g)
    sweeps = {swept: {e.name: stretches(e, swept) for e in subjects.values()} for swept in SWEPT}
    return [_utility_table(g, subjects), thresholds_table(g, sweeps), moves_table(sweeps)]


def _utility_table(g: Collected, subjects: Mapping[Contender, Evidence]) -> Table:
    found = {subject: decided(each) for subject, each in subjects.items()}
    rows: list[list[Cell]] = [
        [subject.name, *(found.get(subject, {}).get(decider) for decider in DECIDERS), g.seeds(subject.arm)]
        for subject in SUBJECTS
    ]
    rows += [[title, *row, None] for title, row in counts(found).items()]
    epochs = g.arms[PENALISED].configs[0].epochs
    notes = g.notes(
        "chance: walked back if the mean accuracy is not above chance. chance + Γ: or if the mean Γ is not above 0. "
        "accuracy, lower half, Γ: our three answers; the lower half is walked back where it is not trained, Γ where it "
        "is carried by few or at chance. published: the verdict of the published protocol. not: not walked back.",
        f"Claims: {listed([s.name for s in CLAIMS])}. Controls: {listed([s.name for s in CONTROLS])}; BP must not be "
        "walked back, random credit must not stand. The paper counts other subjects "
        f"({listed(PAPER_METHODS)}): its counts are no repetition of ours.",
        f"With λ: {epochs} epochs, held against nets of that budget. Without norm: no terminal norm, held against nets "
        "without one.",
    )
    return Table("utility", "Which claims are walked back, and by what", ["subject", *DECIDERS, "seeds"], rows, notes)


register(Study(
    "utility", "Which claims does each answer walk back, and how do the answers move with the thresholds?",
    arms, tables, place=60,
))  # fmt: skip
