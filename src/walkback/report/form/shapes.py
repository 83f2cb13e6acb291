"""The form as data: sections of rows, questions and tables; and the case that it is filled in from."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from walkback.checks import Audit, Finding, Judgement, check_named
from walkback.checks.base import Gain
from walkback.records import BaselineName, Evidence, Moment, Run, RunConfig
from walkback.report.tables import Table

Answer = Literal["yes", "no", "not known"]


@dataclass(frozen=True)
class Row:
    """One thing to disclose. `value` None is a blank to be filled in by hand, and `why` says why it is one."""

    label: str
    value: str | None
    why: str = ""


@dataclass(frozen=True)
class Question:
    """One pitfall, put so that yes is as it should be; `says` gives the reason."""

    asks: str
    answer: Answer
    says: str


@dataclass(frozen=True)
class Section:
    """A part of the form. Tables come after its rows."""

    title: str
    rows: Sequence[Row | Question] = ()
    tables: Sequence[Table] = ()


@dataclass(frozen=True)
class Form:
    """A subject's whole form; `made` says by what it was judged and filled in."""

    subject: str
    sections: Sequence[Section]
    made: str


@dataclass(frozen=True)
class Case:
    """One subject with all that is there of it. Logs of others have no runs; an audit.json alone has no evidence."""

    judgement: Judgement
    evidence: Evidence
    runs: Sequence[Run]
    audit: Audit  # that the judgement belongs to: its thresholds, and its controls where it has any

    @property
    def config(self) -> RunConfig | None:
        """What determines the runs, but for the seed; None where they are not ours."""
        return self.runs[0].config if self.runs else None

    @property
    def finals(self) -> list[Moment]:
        """The moments that are judged, one a seed."""
        return [seed.final for seed in self.evidence.seeds]

    @property
    def silent(self) -> str:
        """Why something is a blank where no record speaks of it."""
        if self.runs:
            return "the runs do not tell"
        return "the log does not say" if self.evidence.seeds else "not in an audit.json: name its runs"

    @property
    def feedback(self) -> bool | None:
        """Whether any block's credit comes through feedback weights; None where it was not asked.

        The null redraws them: a block whose credit stays the same has none, and its null is of random directions. A
        null of turned credits redraws nothing.
        """
        kinds = {null.kind for moment in self.finals for null in moment.null or [] if null is not None}
        kinds -= {"turned credits"}
        return "fresh feedback" in kinds if kinds and self.runs else None

    def gain_over(self, baseline: BaselineName) -> Finding | None:
        """What the check found that asks for a gain over that baseline."""
        return gain_over(self.judgement, baseline)


def gain_over(judgement: Judgement, baseline: BaselineName) -> Finding | None:
    """The finding that is about a gain over that baseline; None where no check of the protocol asks for one."""
    for finding in judgement.findings:
        kind = check_named(finding.check).figure
        if isinstance(kind, Gain) and kind.over == baseline:
            return finding
    return None
