"""The section of cards: what each audited rule uses and costs, measured when the audit was made."""

import json
import shlex
from collections.abc import Sequence

from walkback.records import RunConfig
from walkback.records.card import Card
from walkback.report.cards import NOTES, cards_table
from walkback.report.page.markup import Child, Html, clip, prose, tag
from walkback.report.page.material import Material
from walkback.report.page.pieces import cards, said, section


def shows_rules(material: Material) -> bool:
    """Whether there is anything to say: cards are for rules that walkback trained, not for strangers' models."""
    return any(subject.runs for subject in material.subjects)


def rules(material: Material) -> Html | None:
    """A row for each rule; how to have the cards where they were not measured."""
    if not shows_rules(material):
        return None
    title = "What the rules use"
    configs = {_key(c): c for subject in material.subjects if subject.runs for c in [subject.runs[0].config]}
    known = {key: card for card in material.cards or () if (key := _key(card)) in configs}
    lacking = [config for key, config in configs.items() if key not in known]
    parts: list[Child] = []
    if known:
        table = cards_table(list(known.values()))
        heads = ["Rule", *table.headings[1:]]
        names = [_name(card, list(known.values())) for card in known.values()]
        rows: list[tuple[Child, list[list[Child]]]] = [
            (tag("bdi", name), [[clip(str(cell)) for cell in row[1:]]])
            for name, row in zip(names, table.rows, strict=True)
        ]
        legend = tag("details", tag("summary", "What the columns mean"), *(tag("p", prose(note)) for note in NOTES))
        refused = [tag("p", said(note), class_="quiet") for note in table.notes if note not in NOTES]
        lead = "Found by intervention on a small net, not read from a docstring: whether what a block is told changes "
        lead += "with the weights above it, or with the labels, and what a step costs in steps of bp."
        parts += [tag("p", lead), cards(clip(table.title, 120), heads, rows), legend, *refused]
    if lacking:
        of = "" if not known else f" of {', '.join(dict.fromkeys(clip(config.rule) for config in lacking))}"
        folder = lacking_folder(material)
        parts.append(tag("p", f"The cards{of} were not measured. This does it, in seconds per rule; then write the "
                         "page again:"))  # fmt: skip
        parts.append(tag("pre", tag("code", clip(f"walkback card --to {shlex.quote(folder)}", 400))))
    return section("rules", title, *parts)


def lacking_folder(material: Material) -> str:
    """The folder that the runs lie in."""
    return str(next(subject.runs[0].path.parent for subject in material.subjects if subject.runs))


def _key(of: Card | RunConfig) -> str:
    return json.dumps([of.rule, of.rule_options, of.rule_source], sort_keys=True, default=str)


def _name(card: Card, cards_: Sequence[Card]) -> str:
    """The rule; with its options where it is there twice."""
    twice = sum(other.rule == card.rule for other in cards_) > 1
    options = ", ".join(f"{key} {value}" for key, value in card.rule_options.items())
    return clip(f"{card.rule} · {options}" if twice and options else card.rule)
