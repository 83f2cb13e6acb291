"""The page: one HTML file that somebody reads who never installed the tool. Drawn from records alone.

It asks nothing of a network and is readable without a script. What a stranger wrote is text in it, and nothing else.
The same records give the same bytes. view.py makes plain data of an audit, the templates beside this file the page.

Every value that a template writes is escaped, and loses what is not seen before; only `Markup` passes as it is, and
that is made by `markup.tag` alone, and here of our own style and script, which a policy allows and nothing else.
"""

import base64
import hashlib
import math
from functools import cache
from importlib.metadata import PackageNotFoundError, version
from importlib.resources import files
from pathlib import Path
from typing import Any

from jinja2 import Environment, PackageLoader, StrictUndefined
from markupsafe import Markup

from walkback.checks import LIMITS, Audit
from walkback.checks.finding import listed
from walkback.files import make_folder, write_whole
from walkback.report.answers import GLYPHS, SEVERITY, answer_words, value_words
from walkback.report.audit_tables import KEYS, accuracy
from walkback.report.audit_words import SHOWN, rows
from walkback.report.cards import NOTES
from walkback.report.case import distinct
from walkback.report.compare import Comparison
from walkback.report.page.chart import key
from walkback.report.page.glance import MANY
from walkback.report.page.markup import free, num, plain, prose
from walkback.report.page.reproduce import units
from walkback.report.page.view import audit_view
from walkback.report.tables import text, with_n
from walkback.report.writing import clean, clip, duration

__all__ = ["comparison_page", "in_notebook", "page", "write_page"]


def page(audit: Audit) -> str:
    """The whole page."""
    return document("audit.html.j2", **audit_view(audit))


def write_page(audit: Audit, to: Path | str) -> Path:
    """Write the page to a file, whole or not at all."""
    return _write(page(audit), to)


def comparison_page(found: Comparison) -> str:
    """The page of two audits side by side: what differs, subject by subject, and why."""
    pairs = list(zip(distinct([pair.name for pair in found.pairs]), found.pairs, strict=True))
    pairs.sort(key=lambda one: (not one[1].turned, one[1].same))
    return document("comparison.html.j2", title="Two audits side by side", found=found, pairs=pairs)


def write_comparison(found: Comparison, to: Path | str) -> Path:
    """Write it to a file."""
    return _write(comparison_page(found), to)


def in_notebook(audit: Audit) -> str:
    """The answers, the findings, and the table per block of a live model. A notebook has a style of its own."""
    return piece("notebook.html.j2", audit=audit, rows=rows(audit), answer_words=answer_words, SHOWN=SHOWN)


def _write(text: str, to: Path | str) -> Path:
    path = Path(to)
    make_folder(path.parent)
    write_whole(path, text.encode())
    return path


def document(template: str, /, **view: Any) -> str:
    """A page: its template, with the style and the script that all pages share, and the policy that allows these."""
    css, js = (files(__package__).joinpath(name).read_text(encoding="utf-8") for name in ("page.css", "page.js"))
    hashes = (base64.b64encode(hashlib.sha256(each.encode()).digest()).decode() for each in (css, js))
    policy = "default-src 'none'; style-src 'sha256-{}'; script-src 'sha256-{}'; img-src data:; base-uri 'none'; "
    policy = f"{policy.format(*hashes)}form-action 'none'"
    try:
        by = f"walkback {version('walkback')}"
    except PackageNotFoundError:
        by = "walkback"
    return piece(template, css=Markup(css), js=Markup(js), policy=policy, by=by, **view)


def piece(template: str, /, **view: Any) -> str:
    """What a template makes of plain data."""
    return only_seen(_environment().get_template(template).render(**view))


def only_seen(text: str) -> str:
    """Without what is not seen: what a template joined to other text was escaped there, and not cleaned."""
    for character in set(text) - {"\n"}:
        if clean(character) != character:
            text = text.replace(character, clean(character))
    return text


@cache
def _environment() -> Environment:
    made = Environment(
        loader=PackageLoader("walkback.report", "page"), autoescape=True, undefined=StrictUndefined, finalize=_seen,
        trim_blocks=True, lstrip_blocks=True, extensions=["jinja2.ext.do"],
    )  # fmt: skip
    made.filters |= {each.__name__: each for each in (clip, duration, key, listed, num, plain, prose, free, text)}
    made.filters |= {
        "finite": math.isfinite, "dashed": lambda words: words.replace(" ", "-"),
        "share": lambda found: with_n(accuracy(found)),
    }  # fmt: skip
    made.globals |= {
        "GLYPHS": GLYPHS, "KEYS": KEYS, "LIMITS": LIMITS, "SEVERITY": SEVERITY,
        "NOTES": NOTES, "MANY": MANY, "value_words": value_words, "units": units,
    }  # fmt: skip
    return made


def _seen(value: Any) -> Any:
    """What a template is about to write: nothing for None, and of a text only what is seen."""
    return value if isinstance(value, Markup) else "" if value is None else clean(str(value))
