"""Two audits by their folders or files, ready to be compared."""

from pathlib import Path

from walkback.audits.told import told_by
from walkback.report.case import settings
from walkback.report.compare import Comparison, Side, compare


def compare_paths(before: Path | str, after: Path | str) -> Comparison:
    """Compare two audits: folders of runs, audit.json files, or logs. Nothing is trained."""
    return compare(_side(before), _side(after))


def _side(path: Path | str) -> Side:
    (material,) = told_by(path)
    own = {case.judgement.name: settings(case.runs[0].config) for case in material.subjects if case.runs}
    return Side(str(path), material.audit, own)
