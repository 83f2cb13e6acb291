"""What an audit says: its controls, its subjects, and whether it is valid."""

from pathlib import Path
from typing import Literal, get_args

from pydantic import Field, model_validator

from walkback.checks.finding import Protocol
from walkback.checks.judge import Judgement
from walkback.checks.thresholds import Thresholds
from walkback.checks.thresholds_file import completed
from walkback.checks.verdict import VerdictName
from walkback.errors import RecordError
from walkback.files import is_folder, make_folder, read_bytes, write_whole
from walkback.records.invariants import Broken
from walkback.records.run import FRESH, parse
from walkback.records.schema import Record

OLDER = b'"walkback.audit/1"'


class OldAudit(RecordError):
    """An audit.json that an older walkback wrote, by rules that are not those of this one."""


class Control(Record):
    """A subject whose answer is known beforehand."""

    name: str
    expected: str
    got: str
    ok: bool

    @model_validator(mode="after")
    def _possible(self) -> "Control":
        if self.expected in get_args(VerdictName) and self.ok != (self.got == self.expected):
            raise Broken("valid", f"{self.name} must be {self.expected}, is {self.got}, and ok is {self.ok}")
        return self


class SettingValidity(Record):
    """One of several settings (data, net and budget) that have controls of their own: whether its verdicts count."""

    name: str
    valid: bool
    subjects: list[str]


class Audit(Record):
    """What an audit says, all of it: audit.json."""

    schema_: Literal["walkback.audit/2"] = Field(default="walkback.audit/2", alias="schema")
    valid: bool
    finished: bool = True  # False: seeds are being added; the command that began it resumes it
    says: str
    protocol: Protocol
    thresholds: Thresholds
    controls: list[Control]
    subjects: list[Judgement]
    settings: list[SettingValidity] = Field(default_factory=list)  # none: the controls are of all subjects

    @model_validator(mode="after")
    def _possible(self) -> "Audit":
        failed = [control.name for control in self.controls if not control.ok]
        if self.valid and not self.finished:
            raise Broken("valid", "valid is True, and the audit is not finished")
        if self.finished and self.valid == bool(failed) and self.controls:
            words = f"{failed[0]} did not behave as expected" if failed else "every control behaved as expected"
            raise Broken("valid", f"valid is {self.valid}, but {words}")
        if self.settings and self.valid != all(setting.valid for setting in self.settings):
            raise Broken("valid", f"valid is {self.valid}, and its settings say otherwise")
        return self

    def counts(self, subject: str) -> bool:
        """Whether the verdict of a subject counts: the controls of its setting behaved, or it has none of its own."""
        for setting in self.settings:
            if subject in setting.subjects:
                return setting.valid
        return self.valid or bool(self.settings)

    @property
    def void_words(self) -> str:
        """What is said of an audit that is invalid, as a whole or in some of its settings."""
        if not any(setting.valid for setting in self.settings):
            return "This audit is invalid: its verdicts do not count."
        wrong = sum(not setting.valid for setting in self.settings)
        return f"This audit is invalid in {wrong} of {len(self.settings)} settings, whose verdicts do not count."

    def write(self, folder: Path | str) -> Path:
        """Write audit.json into a folder."""
        path = Path(folder) / "audit.json"
        make_folder(path.parent)
        without = None if self.settings else {"settings"}  # as every audit was written before there were several
        write_whole(path, self.model_dump_json(by_alias=True, indent=1, exclude=without).encode() + b"\n")
        return path

    @classmethod
    def read(cls, place: Path | str) -> "Audit | None":
        """The audit.json of a folder, or a file that is one by another name; None if there is none."""
        path = Path(place) / "audit.json" if is_folder(Path(place)) else Path(place)
        remedy = "give the command that wrote it again, or move the file away"
        try:
            content = read_bytes(path)
            if OLDER in content[:200]:
                raise OldAudit(
                    f"{path} is an audit of an older walkback, which answered by other rules",
                    "judge its runs again: walkback judge FOLDER --out FOLDER",
                )
            audit = parse(cls, content, str(path))
            return audit.model_copy(update={"thresholds": completed(audit.thresholds)})
        except FileNotFoundError:
            return None
        except OldAudit:
            raise
        except RecordError as error:  # what is wrong with it, without the remedy for a run's folder
            raise RecordError(error.what, remedy if error.remedy == FRESH else error.remedy) from error

    @classmethod
    def beside(cls, place: Path | str) -> "Audit | None":
        """The audit.json that lies with runs; one of an older walkback is left aside, because all is judged anew."""
        try:
            return cls.read(place)
        except OldAudit:
            return None

    def exit_status(self, strict: bool = False) -> int:
        """For scripts: 4 invalid, 1 a subject walked back, 3 one open, 0 otherwise; the first that applies.

        By accuracy alone; `strict` asks the lower half as well. Γ never changes it.
        """
        if not self.valid:  # in one setting, if not in all
            return 4
        answers: set[str] = {subject.verdict for subject in self.subjects}
        if strict:
            answers |= {subject.verdicts.lower_half for subject in self.subjects if subject.verdicts is not None}
        if answers & {"walked back", "not trained"}:
            return 1
        return 3 if answers & {"open", "inconclusive"} else 0
