"""What `wb.audit_training` gives back: an audit that shows itself and writes its page, with what went wrong."""

from pathlib import Path

from pydantic import PrivateAttr

from walkback.audits.result import ModelAudit
from walkback.checks import Audit
from walkback.records import doubts_of
from walkback.records.training_evidence import OwnTrainings


class TrainingAudit(ModelAudit):
    """An audit of somebody's own loop. Its folder, read again by `walkback judge`, gives the same audit."""

    _problems: list[str] = PrivateAttr(default_factory=list)
    _folder: Path = PrivateAttr(default_factory=Path)

    @classmethod
    def of(cls, audit: Audit, own: OwnTrainings, folder: Path) -> "TrainingAudit":
        """The audit with what it rests on."""
        evidence = own.evidences["subject"]
        made = cls(**{name: getattr(audit, name) for name in Audit.model_fields if name != "schema_"})
        made._evidence, made._folder = evidence, folder
        made._problems = [f"{record.label()}: {record.why}" for record in own.failed]
        made._problems += [doubt for doubt in doubts_of(evidence) if doubt not in made._problems]
        return made

    @property
    def problems(self) -> list[str]:
        """Trainings that failed or are no baseline, with the reason, and what keeps the subject from holding."""
        return list(self._problems)

    @property
    def folder(self) -> Path:
        """Where the trained models and their records are."""
        return self._folder

    def to_html(self, path: Path | str) -> Path:
        """Write the page that `walkback report` writes of the folder."""
        from walkback.audits.records import report_paths

        return report_paths(self._folder, source=[str(self._folder)]).to_html(path)
