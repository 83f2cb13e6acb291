"""What a page is drawn from: the judgements, and the records behind them as far as they are there."""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from walkback.checks import Audit, Judgement
from walkback.records import Evidence, Run
from walkback.records.card import Card
from walkback.report.inks import INKS
from walkback.report.page.markup import clean

MOST = 60  # characters of a name
MANY = 12  # more subjects than that are folded


@dataclass(frozen=True)
class Subject:
    """A judgement with what it rests on. Evidence without seeds: the records are not here."""

    judgement: Judgement
    evidence: Evidence
    runs: Sequence[Run] = ()
    counts: bool = True  # False: the audit is invalid, and so is this verdict
    short: str = ""  # its name as the page shows it, told apart from the others

    @property
    def name(self) -> str:
        """The name that figures and tables show."""
        return self.short or distinct([self.judgement.name])[0]


@dataclass(frozen=True)
class Material:
    """An audit and the records behind it.

    subjects   one for each of the audit's, in its order
    controls   judged too, and there only to show that the audit can tell good from bad
    cards      what the rules use and cost, measured when the audit was made; None: they were not
    others     runs that are baselines
    source     what the page was asked for, as words of a command line; none if that is not known
    """

    audit: Audit
    subjects: Sequence[Subject]
    controls: Sequence[Subject] = ()
    others: Sequence[Run] = ()
    source: Sequence[str] = field(default=())
    cards: Sequence[Card] | None = None

    @classmethod
    def alone(cls, audit: Audit, source: Sequence[str] = ()) -> "Material":
        """An audit whose records are not here."""
        bare = [Subject(j, Evidence(name=j.name, notes=j.notes)) for j in audit.subjects]
        return cls(audit, bare, source=source)


class Style(NamedTuple):
    """How a subject is drawn everywhere: a colour's class and a mark, so that colour is never alone."""

    class_: str
    shape: str


SHAPES = {
    "o": "circle", "s": "square", "^": "triangle", "v": "down", "P": "plus", "d": "thin", "D": "diamond", "X": "cross",
    "<": "left", ">": "right", "p": "pentagon", "h": "hexagon", "*": "star",
}  # fmt: skip


CLASSES = {
    "#2166ac": "c-bp", "#e08214": "c-fa", "#b2182b": "c-dfa", "#1b7837": "c-ep", "#762a83": "c-cb", "#bf812d": "c-sb",
    "#777777": "c-random", "#4d9221": "c-1", "#80cdc1": "c-2", "#c51b7d": "c-3", "#8c510a": "c-4", "#35978f": "c-5",
}  # fmt: skip


def style_of(subject: Subject) -> Style:
    """A rule looks the same in every figure, here and on paper."""
    ink = INKS[clean(subject.evidence.rule or subject.judgement.name).lower()]
    return Style(CLASSES[ink.colour], SHAPES[ink.marker])


def styles(subjects: Sequence[Subject]) -> list[Style]:
    """How each subject is drawn."""
    return [style_of(subject) for subject in subjects]


def distinct(names: Sequence[str], most: int = MOST) -> list[str]:
    """Names of about so many characters that still differ: what is cut is the middle, and a number tells twins apart.

    >>> distinct(["a" * 30, "short"], 11)
    ['aaaaa…aaaaa', 'short']
    >>> distinct(["x" * 20 + "1" + "x" * 20, "x" * 20 + "2" + "x" * 20], 11)
    ['xxxxx…xxxxx (1)', 'xxxxx…xxxxx (2)']
    """
    half = (most - 1) // 2
    short = [name if len(name) <= most else f"{name[:half]}…{name[-half:]}" for name in map(clean, names)]
    counts: Counter[str] = Counter()
    told = []
    for name in short:
        counts[name] += 1
        told.append(name if short.count(name) == 1 else f"{name} ({counts[name]})")
    return told
