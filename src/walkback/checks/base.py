"""A check as an object: one file that asks a question of the evidence and carries everything a report needs for it.

A file in this folder derives a class from `Check` and ends with `register(MyCheck())`; nothing else has to know it.
Reports ask the check, or its finding, and never compare names. At the end all checks are asked moment by moment, for
the epoch at which each first fired.
"""

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from typing import Literal, NamedTuple, TypeVar

from walkback.checks.finding import Finding, Outcome, Protocol
from walkback.checks.thresholds import LIMITS, Limit, Thresholds, default_thresholds
from walkback.records.evidence import BaselineName, Evidence
from walkback.records.moment import Moment
from walkback.records.record import Record
from walkback.records.schema import Count
from walkback.registry import Registry

Form = Literal["number", "size", "times", "points", "share"]
Curve = Literal["hidden", "gradient", "gamma"]
Answer = Literal["accuracy", "lower half", "gamma", "symptom"]


class Gain(NamedTuple):
    """A figure of accuracies paired by seed: the subject's gain over one baseline, beside what bp gains."""

    over: BaselineName
    over_words: str  # "over its own frozen net"
    absent: str  # the words where that baseline is missing
    task: tuple[BaselineName, BaselineName]  # bp, and what it is held against
    task_words: str
    beside: Mapping[BaselineName, str] = {}  # further baselines that do not judge


Figure = Literal["hidden norms", "gradient norms", "cosines"] | Gain


class Date(NamedTuple):
    """Something that can fire at one moment of one training."""

    key: str  # its name in `first_fired`
    name: str  # in tables
    curve: Curve | None = None  # on which of the curves through training it is marked, and what it is called there
    marked: str = ""
    before: str = ""  # the words before its epochs
    stops: str | None = None  # why a run that stops when a check fires stops here; None: it does not


class Check(ABC):
    """One question put to the evidence.

    find        the answer. A pure function: nothing is measured, trained or drawn. `find_published`: by the paper's
                protocol (published_protocol.py)
    form        how its numbers are written: a growth (168×), points (+30.6), a share (75%), a size (3e-07), a number
    spread      what low and high of a finding are: over the seeds, or the interval of a mean
    figure      what kind of figure its evidence is; None: the value against the threshold
    dates       what a single moment can tell; none of them: `undated` says why
    """

    name: str
    place: float  # its place among the columns
    asks: str  # the question
    raised: str  # when it fires, in a few words
    quantity: Mapping[Protocol, str]  # what its value is, by each protocol that asks it
    heading: str = ""  # what its column holds, in a word
    limits: Mapping[str, Limit] = {}  # its thresholds by name

    form: Form = "number"
    spread: Literal["seeds", "mean"] = "seeds"
    means: Mapping[Outcome, str] = {}
    do: Mapping[Outcome, str] = {}
    caption: str = ""  # below its figure
    figure: Figure | None = None

    answer: Answer = "symptom"  # what it is about; a symptom explains and never decides
    dates: Sequence[Date] = ()
    undated: str = "no single moment shows it"
    at_init: bool = False  # whether a net at its random init must pass it

    @abstractmethod
    def find(self, evidence: Evidence, thresholds: Thresholds) -> Finding:
        """The answer by our protocol."""

    def find_published(self, evidence: Evidence, thresholds: Thresholds) -> Finding:
        """The answer by the published protocol, of a check that has a quantity there."""
        raise NotImplementedError(f"the published protocol does not ask {self.name}")

    def __call__(
        self, evidence: Evidence, thresholds: Thresholds | None = None, protocol: Protocol = "ours"
    ) -> Finding:
        """The answer, by the default thresholds where none are given."""
        find = self.find_published if protocol == "published" else self.find
        return find(evidence, thresholds or default_thresholds())

    def fires_at(
        self, moment: Moment, thresholds: Thresholds, residual: bool | None, start: Moment | None
    ) -> Mapping[str, bool | None]:
        """For each of its dates what one moment shows: True fires, False does not, None cannot be known.

        start   the same training at its random init, if that was recorded
        """
        del moment, thresholds, residual, start
        return {}

    def by_seed(self, evidence: Evidence) -> Mapping[str, float | None]:
        """Its value of each seed, for the figure; nothing if a seed has none of its own."""
        del evidence
        return {}

    def caption_of(self, finding: Finding) -> str:
        """Below the figure of a finding."""
        del finding
        return self.caption

    def noun(self, finding: Finding) -> str:
        """What stands before its value where the form alone does not tell what it is."""
        del finding
        return ""

    def meaning(self, finding: Finding) -> str:
        """What the outcome means; what is inconclusive by the published protocol is open by ours."""
        outcome: Outcome = "open" if finding.outcome == "inconclusive" else finding.outcome
        return self.means.get(outcome, GENERIC[outcome])

    def phrase(self, finding: Finding) -> str:
        """The finding as a clause of the one sentence about a subject: "one block grows the stream 168×"."""
        return f"{finding.check} {finding.outcome}"

    def advice(self, finding: Finding) -> str:
        """What to do about this finding; empty where there is nothing to do."""
        if finding.outcome == "open" and finding.basis == "exact" and self.spread == "seeds":
            return DISAGREE
        return self.do.get("open" if finding.outcome == "inconclusive" else finding.outcome, "")


DISAGREE = "The seeds disagree. More seeds would show how often each outcome occurs."
GENERIC: Mapping[Outcome, str] = {
    "fires": "The value is on the wrong side of the threshold.",
    "passes": "The value is on the right side of the threshold.",
    "open": "What is known does not settle it.",
    **dict.fromkeys(("not asked", "not applicable"), "This question does not apply to this subject."),
}


class Unknown(Check):
    """A check that somebody else's audit has and that is not known here: shown, in general words."""

    place = float("inf")
    asks = "This version does not know this check."
    raised = "not known here"

    def __init__(self, name: str):
        self.name = name
        self.quantity = dict.fromkeys(("ours", "published"), "a check that is not known here")

    def find(self, evidence: Evidence, thresholds: Thresholds) -> Finding:
        """It cannot be asked here."""
        raise NotImplementedError(f"the check {self.name} is not known here")


CHECKS: Registry[Check] = Registry("check")
C = TypeVar("C", bound=Check)


def register(check: C) -> C:
    """Make a check known, with its thresholds."""
    CHECKS.add(check.name, check)
    every = {name: limit for each in in_order() for name, limit in each.limits.items()}
    LIMITS.clear()
    LIMITS.update(every)
    return check


def check_named(name: str) -> Check:
    """The check of that name; one that is not known here is still something that can be shown."""
    return CHECKS.get(name) if name in CHECKS else Unknown(name)


def in_order(protocol: Protocol | None = None) -> list[Check]:
    """The checks by their places: all, or the ones that a protocol asks. The published one asks in reverse: scale,
    reference, depth."""
    way = -1 if protocol == "published" else 1
    checks = sorted(map(CHECKS.get, CHECKS.names()), key=lambda check: (way * check.place, check.name))
    return [check for check in checks if protocol is None or protocol in check.quantity]


# --- through training: when each check first fired --------------------------------------------------------------------


class FirstFired(Record):
    """By seed the first epoch at which something fired (None: never, or not known; `fired` tells which).

    moments    how many moments of the training there are, over all seeds
    known_at   at how many of them it is known whether it fired
    fired      whether it fired at any of these; None if there are none
    """

    epochs: dict[str, int | None]
    says: str
    moments: Count = 0
    known_at: Count = 0
    fired: bool | None = None

    @property
    def followed(self) -> bool:
        """Whether it was measured through training, and not at the end alone: only then has it a first epoch."""
        return self.known_at > len(self.epochs)

    @property
    def in_part(self) -> bool:
        """Whether it is known at some moments and not at others."""
        return 0 < self.known_at < self.moments


def fires_at(
    moment: Moment, thresholds: Thresholds | None = None, residual: bool | None = True, start: Moment | None = None
) -> dict[str, bool | None]:
    """What one moment of one training shows by itself: True fires, False does not, None cannot be known.

    "reference" is by precision, "reference floor" by the published floor. A check that takes several seeds and their
    baselines is not here. `start`: the same training at its random init.
    """
    given = thresholds or default_thresholds()
    return {key: fired for c in in_order() for key, fired in c.fires_at(moment, given, residual, start).items()}


def first_fired(evidence: Evidence, thresholds: Thresholds | None = None) -> dict[str, FirstFired]:
    """For every check the first epoch at which it fired, seed by seed."""
    given = thresholds or default_thresholds()
    found: dict[str, FirstFired] = {}
    undated: dict[str, FirstFired] = {}
    for check in in_order():
        if not check.dates:
            epochs = dict.fromkeys(evidence.labels())
            undated[check.name] = FirstFired(epochs=epochs, says=f"cannot be dated: {check.undated}")
            continue
        at = {
            label: [(m.epoch, check.fires_at(m, given, evidence.residual, seed.init)) for m in seed.moments]
            for label, seed in evidence.labelled()
        }
        for date in check.dates:
            found[date.key] = _first({
                label: [(epoch, fired[date.key]) for epoch, fired in moments] for label, moments in at.items()
            })  # fmt: skip
    return found | undated


def _first(fired: Mapping[str, Sequence[tuple[int | None, bool | None]]]) -> FirstFired:
    """Of what is known by seed and moment: the first epochs, and how much is known."""
    epochs = {label: next((epoch for epoch, fires in at if fires), None) for label, at in fired.items()}
    answers = [fires for at in fired.values() for _, fires in at]
    known_at, ever = sum(answer is not None for answer in answers), True in answers
    says = f"known at {known_at} of {len(answers)} moments" if known_at else "it cannot be dated"
    if ever and all(epoch is None for epoch in epochs.values()):
        says += "; it fired, at an epoch that is not recorded"
    elif known_at and not ever:
        says += "; it never fired"
    return FirstFired(
        epochs=epochs, says=says, moments=len(answers), known_at=known_at, fired=ever if known_at else None
    )  # fmt: skip
