"""What a page is drawn from: the judgements, and the records behind them as far as they are there."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import cycle
from typing import NamedTuple

from walkback.checks import Audit, Judgement
from walkback.records import Evidence, Run


@dataclass(frozen=True)
class Subject:
    """A judgement with what it rests on. Evidence without seeds: the records are not here."""

    judgement: Judgement
    evidence: Evidence
    runs: Sequence[Run] = ()
    counts: bool = True  # False: the audit is invalid, and so is this verdict


@dataclass(frozen=True)
class Material:
    """An audit and the records behind it.

    subjects   one for each of the audit's, in its order
    controls   judged too, and there only to show that the audit can tell good from bad
    others     runs that are baselines
    source     what the page was asked for, as words of a command line; none if that is not known
    """

    audit: Audit
    subjects: Sequence[Subject]
    controls: Sequence[Subject] = ()
    others: Sequence[Run] = ()
    source: Sequence[str] = field(default=())

    @classmethod
    def alone(cls, audit: Audit, source: Sequence[str] = ()) -> "Material":
        """An audit whose records are not here."""
        bare = [Subject(j, Evidence(name=j.name, notes=j.notes)) for j in audit.subjects]
        return cls(audit, bare, source=source)


class Style(NamedTuple):
    """How a subject is drawn everywhere: a colour's class and a mark, so that colour is never alone."""

    class_: str
    shape: str


HOUSE = {"bp": Style("c-bp", "circle"), "fa": Style("c-fa", "triangle"), "dfa": Style("c-dfa", "square")}
MORE = (
    Style("c-1", "diamond"), Style("c-2", "down"), Style("c-3", "plus"), Style("c-4", "circle"),
    Style("c-1", "triangle"), Style("c-2", "square"), Style("c-3", "diamond"), Style("c-4", "down"),
)  # fmt: skip


def styles(subjects: Sequence[Subject]) -> list[Style]:
    """The first bp, fa and dfa have the house's colours; all others take turns."""
    left, turns = dict(HOUSE), cycle(MORE)
    rules = [(subject.evidence.rule or subject.judgement.name).lower() for subject in subjects]
    return [left.pop(rule) if rule in left else next(turns) for rule in rules]
