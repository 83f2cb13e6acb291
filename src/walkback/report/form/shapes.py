"""The form as data: sections of rows, questions and tables."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from walkback.report.tables import Table

Answer = Literal["yes", "no", "not known"]


@dataclass(frozen=True)
class Entry:
    """One thing to disclose. `value` None is a blank to be filled in by hand, and `why` says why it is one."""

    label: str
    value: str | None
    why: str = ""


@dataclass(frozen=True)
class Pitfall:
    """One pitfall, put so that yes is as it should be; `says` gives the reason."""

    asks: str
    answer: Answer
    says: str


@dataclass(frozen=True)
class Section:
    """A part of the form. Tables come after its rows."""

    title: str
    rows: Sequence[Entry | Pitfall] = ()
    tables: Sequence[Table] = ()


@dataclass(frozen=True)
class Form:
    """A subject's whole form; `made` says by what it was judged and filled in."""

    subject: str
    sections: Sequence[Section]
    made: str
