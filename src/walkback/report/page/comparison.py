"""The page of two audits side by side."""

from pathlib import Path

from walkback.report.case import distinct
from walkback.report.compare import Comparison, accuracies, change_words
from walkback.report.page.render import document, write_document


def comparison_page(found: Comparison) -> str:
    """What differs, subject by subject, and why."""
    pairs = list(zip(distinct([pair.name for pair in found.pairs]), found.pairs, strict=True))
    pairs.sort(key=lambda one: (not one[1].turned, one[1].same))
    invalid = [side.label for side in (found.before, found.after) if side.audit.valid is False]
    return document(
        "comparison.html.j2", title="Two audits side by side", found=found, pairs=pairs, invalid=invalid,
        accuracies=accuracies, change_words=change_words,
    )  # fmt: skip


def write_comparison(found: Comparison, to: Path | str) -> Path:
    """Write it to a file."""
    return write_document(comparison_page(found), to)
