"""The document around a page: its head, its style and script, and a policy that allows nothing else."""

import base64
import hashlib
from importlib.metadata import PackageNotFoundError, version
from importlib.resources import files
from pathlib import Path

from walkback.files import make_folder, write_whole
from walkback.report.page.markup import Html, tag


def document(title: str, header: Html, main: Html) -> str:
    """One HTML file that loads nothing."""
    css, js = (files(__package__).joinpath(name).read_text(encoding="utf-8") for name in ("page.css", "page.js"))
    policy = f"default-src 'none'; style-src '{_hash(css)}'; script-src '{_hash(js)}'; img-src data:; base-uri 'none'; "
    head = tag(
        "head", tag("meta", charset="utf-8"),
        tag("meta", http_equiv="Content-Security-Policy", content=policy + "form-action 'none'"),
        tag("meta", name="viewport", content="width=device-width, initial-scale=1"),
        tag("meta", name="color-scheme", content="light dark"),
        tag("meta", name="referrer", content="no-referrer"),
        tag("title", f"{title} · walkback"), tag("link", rel="icon", href="data:,"), tag("style", Html(css)),
    )  # fmt: skip
    skip = tag("a", "Skip to the verdicts", class_="skip", href="#main")
    body = tag("body", skip, header, main, _footer(), tag("script", Html(js)))
    return f"<!doctype html>\n{tag('html', head, body, lang='en-GB')}\n"


def write_document(text: str, to: Path | str) -> Path:
    """Write a page to a file, whole or not at all."""
    path = Path(to)
    make_folder(path.parent)
    write_whole(path, text.encode())
    return path


def _hash(content: str) -> str:
    return "sha256-" + base64.b64encode(hashlib.sha256(content.encode()).digest()).decode()


def _footer() -> Html:
    words = "Nothing on this page is loaded from elsewhere. A verdict is about these nets, data and budget."
    try:
        by = f"walkback {version('walkback')}"
    except PackageNotFoundError:
        by = "walkback"
    return tag("footer", tag("p", f"Written by {by}. {words}"))
