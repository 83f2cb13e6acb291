"""The page of two audits side by side."""

from collections.abc import Sequence
from pathlib import Path

from walkback.checks import Judgement
from walkback.report.compare import Comparison, Pair, accuracies, change_words
from walkback.report.page.document import document, write_document
from walkback.report.page.markup import Child, Html, clip, join, tag
from walkback.report.page.material import distinct
from walkback.report.page.pieces import cards, said, section, verdict_words

TITLE = "Two audits side by side"


def comparison_page(found: Comparison) -> str:
    """What differs, subject by subject, and why."""
    sides = [tag("li", words, ": ", tag("code", clip(side.label, 200)))
             for words, side in (("before", found.before), ("after", found.after))]  # fmt: skip
    brand = tag("p", tag("b", "walkback"), " compare", class_="brand")
    invalid = [side.label for side in (found.before, found.after) if not side.audit.valid]
    warning = None
    if invalid:
        words = f"Invalid, so its verdicts do not count: {', '.join(clip(label, 200) for label in invalid)}."
        warning = tag("p", tag("b", words), class_="validity invalid")
    lead = tag("p", found.says(), class_="lead")
    header = tag("header", brand, tag("h1", TITLE), warning, tag("ul", *sides, class_="legend"), lead)
    parts = [_audits(found.audit), _pairs(found.pairs), _alone(found)]
    return document(TITLE, header, tag("main", *parts, id="main"))


def write_comparison(found: Comparison, to: Path | str) -> Path:
    """Write it to a file."""
    return write_document(comparison_page(found), to)


def _audits(differences: Sequence[str]) -> Html:
    words = [tag("li", said(each)) for each in differences]
    body = tag("ul", *words) if words else tag("p", "Protocol, thresholds, controls and validity are the same.")
    return section("audits", "The audits", body)


def _pairs(pairs: Sequence[Pair]) -> Html:
    if not pairs:
        return section("subjects", "Subjects in both", tag("p", "No subject is in both, by its name."))
    names = distinct([pair.name for pair in pairs])
    order = sorted(range(len(pairs)), key=lambda place: (not pairs[place].turned, pairs[place].same))
    rows: list[tuple[Child, list[list[Child]]]] = []
    for place in order:
        pair = pairs[place]
        arrow = " → " if pair.turned else " = "
        verdicts = join([verdict_words(pair.before.verdict), arrow, verdict_words(pair.after.verdict)])
        rows.append((tag("bdi", names[place]), [[verdicts, accuracies(pair), _what(pair)]]))
    heads = ("Subject", "Verdict", "Accuracy", "What changed, and why")
    return section("subjects", "Subjects in both", cards("Subjects in both audits", heads, rows, "compared"))


def _what(pair: Pair) -> Html:
    if pair.same:
        return tag("span", "nothing differs", class_="quiet")
    trained = [tag("p", said(f"Trained otherwise: {'; '.join(pair.settings)}."))] if pair.settings else []
    changes = sorted(pair.changes, key=lambda change: not change.turned)
    return join([
        *trained, *(tag("p", said(change_words(c)), class_=None if c.turned else "quiet") for c in changes),
    ])  # fmt: skip


def _alone(found: Comparison) -> Html | None:
    sides: list[tuple[str, Sequence[Judgement]]] = [("before", found.only_before), ("after", found.only_after)]
    rows: list[tuple[Child, list[list[Child]]]] = [
        (tag("bdi", clip(judgement.name)), [[verdict_words(judgement.verdict), f"only {words}"]])
        for words, alone in sides for judgement in alone
    ]  # fmt: skip
    if not rows:
        return None
    return section("alone", "Subjects in one only", cards("Subjects in one audit", ("Subject", "Verdict", "In"), rows))
