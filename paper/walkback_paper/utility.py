"""utility: which claims does each way of deciding walk back, and how do the answers move with each threshold?

Accuracy above chance, a Γ above 0 with it, each of our three answers, and the published protocol are put to the same
records. Then each threshold is moved while the others stay, and every subject is judged again. Nothing is measured
here: an answer is a pure function of the evidence and the thresholds.
"""

import statistics
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Literal

from walkback.checks import DIGITS, Verdicts, known, listed
from walkback.records import Evidence
from walkback.report import INKS, Cell, Table
from walkback_paper import published
from walkback_paper.base import Arm, BothVerdicts, Collected, Extent, Study, both, known_of, register
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
    found = {subject: known_of(g, subject.arm, name=subject.name) for subject in SUBJECTS}
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


register(Study(
    "utility", "Which claims does each answer walk back, and how do the answers move with the thresholds?",
    arms, tables, place=60,
))  # fmt: skip
