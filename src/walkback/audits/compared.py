"""Two audits by their folders or files, ready to be compared."""

from pathlib import Path

from walkback.audits.told import Told, told_by
from walkback.report.compare import Comparison, Side, compare
from walkback.report.page.reproduce import settings


def compare_paths(before: Path | str, after: Path | str) -> Comparison:
    """Compare two audits: folders of runs, audit.json files, or logs. Nothing is trained."""
    return compare(_side(before), _side(after))


def _side(path: Path | str) -> Side:
    (told,) = told_by(path)
    return Side(str(path), told.audit, _settings(told))


def _settings(told: Told) -> dict[str, dict[str, str]]:
    return {case.judgement.name: settings(case.runs[0].config) for case in told.cases if case.runs}
