"""An audit of a model in a notebook: the verdict, the findings and the table per block."""

from collections.abc import Mapping, Sequence
from typing import Any

from walkback.checks import Audit
from walkback.report.answers import answer_words


def in_notebook(audit: Audit, rows: Sequence[Mapping[str, Any]]) -> str:
    """Without a script or a style sheet: a notebook has its own."""
    from walkback.report.page.render import piece  # here: only who shows one waits for it
    from walkback.report.page.subjects import value_of

    return piece("notebook.html.j2", audit=audit, subject=audit.subjects[0], rows=rows, value_of=value_of,
                 answers=answer_words(audit.subjects[0]))  # fmt: skip
