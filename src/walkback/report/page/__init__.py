"""The page: one HTML file that somebody reads who never installed the tool. Drawn from records alone.

It asks nothing of a network and is readable without a script. What a stranger wrote is text in it, and nothing else.
The same records give the same bytes.
"""

import base64
import hashlib
from collections import Counter
from dataclasses import replace
from importlib.metadata import PackageNotFoundError, version
from importlib.resources import files
from pathlib import Path

from walkback.checks import VerdictName
from walkback.checks.finding import listed
from walkback.files import make_folder, write_whole
from walkback.report.page.claims import claims, controls, validity
from walkback.report.page.curves import Curves
from walkback.report.page.how import reproduce
from walkback.report.page.markup import Html, clip, tag
from walkback.report.page.material import Material, Subject, styles
from walkback.report.page.pieces import anchor, name_of, reason, trained, verdict
from walkback.report.page.subjects import evidence
from walkback.report.page.training import gaps, training

__all__ = ["Material", "Subject", "page", "write_page"]

VERDICTS: tuple[VerdictName, ...] = ("walked back", "inconclusive", "not applicable", "holds")


def page(material: Material) -> str:
    """The whole page."""
    if not material.audit.valid:
        material = replace(material, subjects=[replace(subject, counts=False) for subject in material.subjects])
    css, js = (files(__package__).joinpath(name).read_text(encoding="utf-8") for name in ("page.css", "page.js"))
    drawn = styles(material.subjects)
    curves = Curves(material.subjects, drawn, material.audit.thresholds)
    title = _title(material)
    policy = f"default-src 'none'; style-src '{_hash(css)}'; script-src '{_hash(js)}'; img-src data:; base-uri 'none'; "
    head = tag(
        "head", tag("meta", charset="utf-8"),
        tag("meta", http_equiv="Content-Security-Policy", content=policy + "form-action 'none'"),
        tag("meta", name="viewport", content="width=device-width, initial-scale=1"),
        tag("meta", name="color-scheme", content="light dark"),
        tag("meta", name="referrer", content="no-referrer"),
        tag("title", f"{title} · walkback"), tag("link", rel="icon", href="data:,"), tag("style", Html(css)),
    )  # fmt: skip
    main = tag(
        "main",
        claims(material, drawn), evidence(material, drawn), controls(material),
        training(material, drawn, curves), gaps(material, curves), reproduce(material), id="main",
    )  # fmt: skip
    body = tag(
        "body", tag("a", "Skip to the claims", class_="skip", href="#main"), _header(material, title), _nav(material),
        main, _footer(), tag("script", Html(js)),
    )  # fmt: skip
    return f"<!doctype html>\n{tag('html', head, body, lang='en-GB')}\n"


def write_page(material: Material, to: Path | str) -> Path:
    """Write the page to a file, whole or not at all."""
    path = Path(to)
    content = page(material).encode()
    make_folder(path.parent)
    write_whole(path, content)
    return path


def _hash(content: str) -> str:
    return "sha256-" + base64.b64encode(hashlib.sha256(content.encode()).digest()).decode()


def _title(material: Material) -> str:
    names = [clip(subject.judgement.name, 24) for subject in material.subjects]
    return f"Audit of {listed(names) if 0 < len(names) <= 4 else f'{len(names)} subjects'}"


def _header(material: Material, title: str) -> Html:
    counts = Counter(subject.judgement.verdict for subject in material.subjects)
    said = [
        f"{counts[v]} {'hold' if counts[v] > 1 else 'holds'}" if v == "holds" else
        f"{counts[v]} {'are' if counts[v] > 1 else 'is'} {v}"
        for v in VERDICTS if counts[v]
    ]  # fmt: skip
    about = "Does a claim about training without backprop hold, or must it be walked back?"
    found = f"Of {len(material.subjects)} subjects {listed(said)}." if said else "Nobody was judged."
    lead = tag("p", found if material.audit.valid else tag("s", found), class_="lead")
    if len(material.subjects) == 1:
        lead = tag("p", verdict(material.subjects[0]), ": ", reason(material.subjects[0]), class_="lead")
    alike = {trained(subject) for subject in material.subjects}
    what = alike.pop() if len(alike) == 1 else None
    told = [lead, validity(material)] if material.audit.valid else [validity(material), lead]
    return tag(
        "header", tag("p", "walkback", class_="brand"), tag("h1", title), tag("p", about, class_="asks"),
        None if what is None else tag("p", what, class_="quiet"), *told,
    )  # fmt: skip


def _nav(material: Material) -> Html:
    places = [
        ("claims", "Claimed and found"), ("evidence", "The evidence"), ("controls", "Controls"),
        ("training", "Through training"), ("gaps", "What was not measured"), ("reproduce", "How to reproduce"),
    ]  # fmt: skip
    sections = [tag("li", tag("a", words, href=f"#{identity}")) for identity, words in places]
    subjects = [
        tag("li", tag("a", name_of(subject, 28), href=f"#{anchor(place)}"))
        for place, subject in enumerate(material.subjects)
    ]
    return tag("nav", tag("ul", *sections), tag("ul", *subjects, aria_label="Subjects"), aria_label="On this page")


def _footer() -> Html:
    words = "Nothing on this page is loaded from elsewhere. A verdict is about these nets, data and budget."
    try:
        by = f"walkback {version('walkback')}"
    except PackageNotFoundError:
        by = "walkback"
    return tag("footer", tag("p", f"Written by {by}. {words}"))
