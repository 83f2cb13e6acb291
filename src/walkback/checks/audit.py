"""What an audit says: its controls, its subjects, whether it is valid. It shows itself in a notebook or as a page."""

from collections.abc import Sequence
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, Literal, Self

from msgspec import field

from walkback.checks.finding import Protocol
from walkback.checks.thresholds import Thresholds, completed
from walkback.checks.verdict import Judgement
from walkback.errors import RecordError
from walkback.files import is_folder, make_folder, read_bytes, write_whole
from walkback.records.invariants import Broken
from walkback.records.record import FRESH, Record, parse

if TYPE_CHECKING:
    from walkback.probes import Layer
    from walkback.records.card import Card
    from walkback.records.evidence import Evidence
    from walkback.records.folder import Run
    from walkback.report.case import Case


class Control(Record):
    """A subject whose answer is known beforehand."""

    name: str
    expected: str
    got: str
    ok: bool


class SettingValidity(Record):
    """One of several settings (data, net and budget) that have controls of their own: whether its verdicts count."""

    name: str
    valid: bool
    subjects: list[str]


class Audit(Record, kw_only=True, dict=True):
    """What an audit says, all of it: audit.json.

    valid           every control behaved as expected; None: some subjects have no controls at hand
    not_controlled  subjects in whose setting no controls were trained: nobody knows whether a failure would be seen
    settings        none: the controls are of all subjects

    An audit whose records are at hand knows them too (`with_records`); they are not written.

    cases           of each subject
    control_cases   what was judged to show that the audit can tell good from bad
    runs            all run folders behind it
    source          what was asked for, as words of a command line
    cards           what the rules use and cost; None: not measured
    folder          where the trained models and their records are, of an audit of a loop
    problems        trainings of a loop that failed or are no baseline, and what keeps its subject from holding
    layers          of a live model, by seed: the input of the first block, then each block
    """

    if TYPE_CHECKING:
        control_cases: ClassVar[Sequence[Case]]
        runs: ClassVar[Sequence[Run]]
        source: ClassVar[Sequence[str]]
        cards: ClassVar[Sequence[Card] | None]
        folder: ClassVar[Path | None]
        problems: ClassVar[list[str]]
        layers: ClassVar[dict[int, list[Layer]]]
    else:  # without annotations these are no fields of the record
        control_cases, runs, source, cards, folder, problems, layers = (), (), (), None, None, [], {}

    brief = frozenset({"settings", "not_controlled"})
    schema: Literal["walkback.audit/3"] = "walkback.audit/3"
    valid: bool | None
    says: str
    protocol: Protocol
    thresholds: Thresholds
    controls: list[Control]
    not_controlled: list[str] = field(default_factory=list)
    subjects: list[Judgement]
    settings: list[SettingValidity] = field(default_factory=list)

    def possible(self) -> None:
        """It is valid where every subject has controls, and every control behaved as expected."""
        failed = [control.name for control in self.controls if not control.ok]
        expected = False if failed else None if self.not_controlled else True
        if self.valid is not expected:
            why = [f"{name} did not behave as expected" for name in failed]
            why += [f"{name} has no controls" for name in self.not_controlled]
            why += ["every control behaved as expected"]
            raise Broken("valid", f"valid is {self.valid}, but {why[0]}")
        if self.settings and bool(failed) == all(setting.valid for setting in self.settings):
            raise Broken("valid", f"valid is {self.valid}, and its settings say otherwise")

    def with_records(self, **records: Any) -> Self:
        """The audit with what it rests on."""
        self.__dict__.update(records)
        return self

    @property
    def cases(self) -> "Sequence[Case]":
        """Its subjects with their records; where these are not here, with the judgements alone."""
        if "cases" not in self.__dict__:
            case = import_module("walkback.report.case").Case
            self.__dict__["cases"] = [
                case.alone(each, self.counts(each.name), each.name not in self.not_controlled) for each in self.subjects
            ]
        found: Sequence[Case] = self.__dict__["cases"]
        return found

    @property
    def evidence(self) -> "Evidence":
        """All that was measured of the first subject, and given."""
        return self.cases[0].evidence

    def blocks(self) -> list[dict[str, Any]]:
        """One row per seed and layer, as `pandas.DataFrame(audit.blocks())` takes it; see `report.audit_words`."""
        found: list[dict[str, Any]] = import_module("walkback.report.audit_words").rows(self)
        return found

    def counts(self, subject: str) -> bool:
        """Whether the verdict of a subject counts: the controls of its setting behaved, or it has none of its own."""
        for setting in self.settings:
            if subject in setting.subjects:
                return setting.valid
        return self.valid is not False or bool(self.settings)

    @property
    def void_words(self) -> str:
        """How an invalid audit is introduced: whether all of it is void, or some of its settings."""
        if not any(setting.valid for setting in self.settings):
            return "This audit is invalid: its verdicts do not count."
        wrong = sum(not setting.valid for setting in self.settings)
        return f"This audit is invalid in {wrong} of {len(self.settings)} settings, whose verdicts do not count."

    def write(self, folder: Path | str) -> Path:
        """Write audit.json into a folder."""
        path = Path(folder) / "audit.json"
        make_folder(path.parent)
        write_whole(path, self.indented() + b"\n")
        return path

    @classmethod
    def read(cls, place: Path | str) -> "Audit | None":
        """The audit.json of a folder, or a file that is one by another name; None if there is none."""
        path = Path(place) / "audit.json" if is_folder(Path(place)) else Path(place)
        remedy = "give the command that wrote it again, or move the file away"
        try:
            content = read_bytes(path)
            if any(f'"walkback.audit/{version}"'.encode() in content[:200] for version in (1, 2)):
                raise RecordError(
                    f"{path} is an audit of an older walkback, which answered by other rules",
                    "judge its runs again: walkback judge FOLDER --out FOLDER",
                )
            audit = parse(cls, content, str(path))
        except FileNotFoundError:
            return None
        except RecordError as error:  # what is wrong with it, without the remedy for a run's folder
            raise RecordError(error.what, remedy if error.remedy == FRESH else error.remedy) from error
        return audit.changed(thresholds=completed(audit.thresholds))

    def exit_status(self) -> int:
        """For scripts: 4 invalid or not controlled, 1 walked back, 3 open, 0 otherwise; the first that applies.

        By accuracy and the lower half. Γ never changes it.
        """
        if not self.valid:  # in one setting, if not in all
            return 4
        answers: set[str] = {subject.verdict for subject in self.subjects}
        answers |= {subject.verdicts.lower_half for subject in self.subjects if subject.verdicts is not None}
        if answers & {"walked back", "not trained"}:
            return 1
        return 3 if answers & {"open", "inconclusive"} else 0

    def to_html(self, path: Path | str) -> Path:
        """Write the page that `walkback report` writes: one file, nothing loaded from elsewhere."""
        written: Path = import_module("walkback.report.page").write_page(self, path)
        return written

    def __repr__(self) -> str:
        """Three lines for each subject: its answers, the checks, and why."""
        words: str = import_module("walkback.report.audit_words").in_words(self)
        return words

    __str__ = __repr__

    def _repr_html_(self) -> str:
        """For notebooks: the answers, the findings and the table per block, without a script or a style sheet."""
        page: str = import_module("walkback.report.page").in_notebook(self)
        return page
