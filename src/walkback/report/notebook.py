"""An audit in a notebook: the answers, the findings, and the table per block of a live model."""

from walkback.checks import Audit
from walkback.report.answers import answer_words
from walkback.report.blocks import MOST, rows


def in_notebook(audit: Audit) -> str:
    """Without a script or a style sheet: a notebook has its own."""
    from walkback.report.page.render import piece  # here: only an audit that is shown waits for it
    from walkback.report.page.subjects import value_of

    return piece("notebook.html.j2", audit=audit, rows=rows(audit), value_of=value_of, answer_words=answer_words,
                 MOST=MOST)  # fmt: skip
