"""Two audits by their folders or files, ready to be compared."""

from pathlib import Path

from walkback.audits.records import audits_of
from walkback.report.compare import Comparison, Side, compare


def compare_paths(before: Path | str, after: Path | str) -> Comparison:
    """Compare two audits: folders of runs, audit.json files, or logs. Nothing is trained."""
    return compare(_side(before), _side(after))


def _side(path: Path | str) -> Side:
    (audit,) = audits_of(path)
    return Side(str(path), audit)
