"""The page: one HTML file that somebody reads who never installed the tool. Drawn from records alone.

It asks nothing of a network and is readable without a script. What a stranger wrote is text in it, and nothing else.
The same records give the same bytes.
"""

from collections import Counter
from dataclasses import replace
from pathlib import Path

from walkback.checks.finding import listed
from walkback.report.page.curves import Curves
from walkback.report.page.document import document, write_document
from walkback.report.page.how import reproduce
from walkback.report.page.markup import Html, prose, tag
from walkback.report.page.material import MANY, Material, Subject, distinct, styles
from walkback.report.page.overview import controls, overview, validity
from walkback.report.page.pieces import shared_setting
from walkback.report.page.rules import rules, shows_rules
from walkback.report.page.subjects import evidence
from walkback.report.page.training import gaps, training
from walkback.report.summary import SEVERITY

__all__ = ["Material", "Subject", "page", "write_page"]

GLOSSARY = {
    "subject": "what is judged: a rule on a net, with its seeds",
    "stream": "the hidden state h_l that every block of a residual net adds to",
    "credit": "what a rule tells a block about the error; backprop tells it the true gradient",
    "null": "what credit that knows nothing of the net gives",
    "Γ": "the cosine of credit and true gradient, averaged over the blocks",
    "growth": "how many times larger one block makes the stream, ‖h_{l+1}‖ / ‖h_l‖",
    "chord": "how far rounding turns the direction of the true gradient",
    "frozen net": "the same net with its blocks left at random init, its readout trained",
}


def page(material: Material) -> str:
    """The whole page."""
    names = distinct([subject.judgement.name for subject in material.subjects])
    subjects = [
        replace(subject, short=name, counts=material.audit.valid and subject.counts)
        for subject, name in zip(material.subjects, names, strict=True)
    ]
    material = replace(material, subjects=subjects)
    drawn = styles(material.subjects)
    curves = Curves(material.subjects, drawn, material.audit.thresholds)
    title = _title(material)
    main = tag(
        "main",
        overview(material, drawn), evidence(material, drawn), training(material, drawn, curves), rules(material),
        controls(material), gaps(material, curves), reproduce(material), _glossary(), id="main",
    )  # fmt: skip
    return document(title, _header(material, title), main)


def write_page(material: Material, to: Path | str) -> Path:
    """Write the page to a file, whole or not at all."""
    return write_document(page(material), to)


def _title(material: Material) -> str:
    names = [subject.name for subject in material.subjects]
    few = 0 < len(names) <= 4 and sum(map(len, names)) <= 120
    return f"Audit of {listed(names) if few else f'{len(names)} subjects'}"


def _header(material: Material, title: str) -> Html:
    """What was audited, whether the audit is valid, and how many verdicts of each kind there are."""
    what = shared_setting(material)
    counts = sorted({len(subject.runs) for subject in material.subjects})
    seeds = " to ".join(str(n) for n in dict.fromkeys((counts[0], counts[-1]))) if counts else "0"
    seeds += " seed" if seeds == "1" else " seeds"
    brand = tag("p", tag("b", "walkback"), " audit", class_="brand")
    counted = None if 0 < len(material.subjects) <= MANY else tag("p", _counts(material), class_="lead")
    about = tag("p", f"{what}, {seeds}.", class_="quiet") if what else None
    heading = tag("h1", title)
    top = [heading, about, validity(material)] if material.audit.valid else [validity(material), heading, about]
    return tag("header", brand, *top, counted, _nav(material))


def _counts(material: Material) -> Html:
    if not material.subjects:
        return tag("span", "Nobody was judged.")
    counts = Counter(subject.judgement.verdict for subject in material.subjects)
    words = listed([f"{counts[name]} {name}" for name in SEVERITY if counts[name]])
    return tag("span" if material.audit.valid else "s", f"Of {len(material.subjects)} subjects: {words}.")


def _nav(material: Material) -> Html:
    places = [
        ("claims", "At a glance"), ("evidence", "Evidence"), ("training", "Training"), ("rules", "Rules"),
        ("controls", "Controls"), ("gaps", "Not measured"), ("reproduce", "Reproduce"), ("words", "Words"),
    ]  # fmt: skip
    known = [(identity, words) for identity, words in places if identity != "rules" or shows_rules(material)]
    sections = [tag("li", tag("a", words, href=f"#{identity}")) for identity, words in known]
    return tag("nav", tag("ul", *sections), aria_label="On this page")


def _glossary() -> Html:
    pairs = [part for word, meaning in GLOSSARY.items() for part in (tag("dt", word), tag("dd", prose(meaning)))]
    return tag("details", tag("summary", "What the words mean"), tag("dl", *pairs), id="words")
