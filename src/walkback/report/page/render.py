"""Templates into documents: one HTML file that loads nothing, with a policy that allows its own style and script only.

Every value that a template writes is escaped, and loses what is not seen before; only `Markup` passes as it is, and
that is made by `markup.tag` alone, and here of our own style and script.
"""

import base64
import hashlib
from functools import cache
from importlib.metadata import PackageNotFoundError, version
from importlib.resources import files
from pathlib import Path
from typing import Any

from jinja2 import Environment, PackageLoader, StrictUndefined
from markupsafe import Markup

from walkback.files import make_folder, write_whole
from walkback.report.page.drawing import share_said
from walkback.report.page.markup import clean, clip, free, num, plain, prose
from walkback.report.page.svg import key
from walkback.report.verdicts import GLYPHS, KEYS, VERDICT_GLYPHS


def document(template: str, /, **view: Any) -> str:
    """A page: its template, with the style and the script that all pages share."""
    css, js = (files(__package__).joinpath(name).read_text(encoding="utf-8") for name in ("page.css", "page.js"))
    policy = f"default-src 'none'; style-src '{_hash(css)}'; script-src '{_hash(js)}'; img-src data:; base-uri 'none'; "
    try:
        by = f"walkback {version('walkback')}"
    except PackageNotFoundError:
        by = "walkback"
    return piece(
        template, css=Markup(css), js=Markup(js), policy=f"{policy}form-action 'none'", by=by, **view
    )  # fmt: skip


def piece(template: str, /, **view: Any) -> str:
    """What a template makes of plain data."""
    return only_seen(_environment().get_template(template).render(**view))


def only_seen(text: str) -> str:
    """Without what is not seen: what a template joined to other text was escaped there, and not cleaned."""
    for character in set(text) - {"\n"}:
        if clean(character) != character:
            text = text.replace(character, clean(character))
    return text


def write_document(text: str, to: Path | str) -> Path:
    """Write a page to a file, whole or not at all."""
    path = Path(to)
    make_folder(path.parent)
    write_whole(path, text.encode())
    return path


@cache
def _environment() -> Environment:
    made = Environment(
        loader=PackageLoader("walkback.report", "page"), autoescape=True, undefined=StrictUndefined, finalize=_seen,
        trim_blocks=True, lstrip_blocks=True, extensions=["jinja2.ext.do"],
    )  # fmt: skip
    made.filters |= {
        "clip": clip, "key": key, "num": num, "plain": plain, "prose": prose, "free": free,
        "dashed": lambda words: words.replace(" ", "-"), "share": lambda a: share_said(a.mean, a.std, a.n),
    }  # fmt: skip
    made.globals |= {"GLYPHS": GLYPHS, "VERDICTS": VERDICT_GLYPHS, "KEYS": KEYS}
    return made


def _seen(value: Any) -> Any:
    """What a template is about to write: nothing for None, and of a text only what is seen."""
    return value if isinstance(value, Markup) else "" if value is None else clean(str(value))


def _hash(content: str) -> str:
    return "sha256-" + base64.b64encode(hashlib.sha256(content.encode()).digest()).decode()
