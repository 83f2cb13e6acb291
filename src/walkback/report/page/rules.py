"""The cards of the rules: what each audited rule uses and costs, measured when the audit was made."""

import json
import shlex
from collections.abc import Sequence
from typing import NamedTuple

from walkback.records import RunConfig
from walkback.records.card import Card
from walkback.report.cards import NOTES, cards_table
from walkback.report.case import Case
from walkback.report.page.markup import clip


class CardsView(NamedTuple):
    """A row for each rule with a card; and how to have the cards that were not measured.

    refused   notes on rules that could not be measured
    lacking   the rules without a card
    """

    title: str
    heads: Sequence[str]
    rows: Sequence[tuple[str, Sequence[str]]]
    refused: Sequence[str]
    lacking: Sequence[str]
    command: str


def cards_view(cards: Sequence[Card], cases: Sequence[Case]) -> CardsView | None:
    """None where there is nothing to say: cards are for rules that walkback trained, not for strangers' models."""
    runs = [case.runs[0] for case in cases if case.runs]
    if not runs:
        return None
    configs = {_key(run.config): run.config for run in runs}
    known = {key: card for card in cards if (key := _key(card)) in configs}
    lacking = [clip(config.rule) for key, config in configs.items() if key not in known]
    shown = list(known.values())
    table = cards_table(shown)
    rows = [(_name(card, shown), [str(cell) for cell in row[1:]]) for card, row in zip(shown, table.rows, strict=True)]
    refused = [note for note in table.notes if note not in NOTES]
    command = f"walkback card --to {shlex.quote(str(runs[0].path.parent))}"
    return CardsView(table.title, table.headings, rows, refused, list(dict.fromkeys(lacking)), command)


def _key(of: Card | RunConfig) -> str:
    return json.dumps([of.rule, of.rule_options, of.rule_source], sort_keys=True, default=str)


def _name(card: Card, cards: Sequence[Card]) -> str:
    """The rule; with its options where it is there twice."""
    twice = sum(other.rule == card.rule for other in cards) > 1
    options = ", ".join(f"{key} {value}" for key, value in card.rule_options.items())
    return clip(f"{card.rule} · {options}" if twice and options else card.rule)
