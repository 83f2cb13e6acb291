"""Cards of rules for people: one as a sheet, several as a table; in a terminal, as Markdown or as JSON."""

import json
from collections.abc import Callable, Sequence
from operator import attrgetter

from rich.console import Console
from rich.text import Text

from walkback.records.card import Card
from walkback.report.tables import Column, Table, print_table
from walkback.report.writing import one_line

MEANINGS = {
    "full": "the weights themselves",
    "signs": "the signs of the weights, not their sizes",
    "init": "the weights as they were when the rule was built",
    "taken": "what the rule has taken from the weights themselves in training",
    "learned": "what the rule has learned in training from activity and error",
    "none": "nothing",
}
LEARNED_BEFORE = (
    "what the rule has learned in training or taken from the weights (this card does not tell the two apart)"
)
NOTES = (
    "The credit of a block depends on the weights of its own later layers (inside), of the blocks above it (blocks) "
    "and of the readout by: full, the weights themselves; signs; init, a copy from when the rule was built; taken, "
    "state that follows the weights in training where neither activity nor error shows them; learned, state that the "
    "rule learned in training from activity and error; none.",
    "labels: it changes with the labels at the same error, 0. bp: the cosine of its update with backprop's at a "
    "training batch of 128, in the block where it is smallest; yes: it is backprop, above 0.999. by rule: the share of "
    "parameters whose update is not the true gradient.",
    "flops (of all products), time and memory of a step: how many times those of bp.",
)


def cards_table(cards: Sequence[Card]) -> Table:
    """One row per rule."""
    nets = ", ".join(dict.fromkeys(card.net for card in cards))
    refused = [f"{card.rule}: {card.refused}" for card in cards if card.refused is not None]
    return Table.of("cards", f"What the rules use and cost, measured on {nets}", COLUMNS, cards, *NOTES, *refused)


def _column(heading: str, take: Callable[[Card], str]) -> Column:
    return Column(heading, lambda card: "–" if card.refused is not None else take(card))


def _times(value: float | None) -> str:
    return "–" if value is None else f"{value:.2f}"


def _near(card: Card) -> str:
    """How near its update is to backprop's."""
    if card.is_backprop or card.nearness is None:
        return _yes(card.is_backprop)
    return f"{card.nearness:.2f}" if card.nearness < 0.9 else f"{card.nearness:.3f}"


def _yes(value: bool) -> str:
    return "yes" if value else "no"


COLUMNS = (
    Column("rule", attrgetter("rule")),
    *(_column(place, attrgetter(place)) for place in ("inside", "blocks", "readout")),
    _column("labels", lambda card: _yes(card.labels)),
    _column("bp", _near),
    _column("by rule", lambda card: f"{100 * card.by_rule / card.parameters:.0f}%"),
    _column("flops", lambda card: _times(card.products)),
    _column("time", lambda card: _times(card.time)),
    _column("memory", lambda card: _times(card.memory)),
)


def sheet(card: Card) -> list[tuple[str, str]]:
    """One card as pairs of a word and what is found."""
    if card.refused is not None:
        return [("refused", card.refused)]
    pairs = [("measured on", f"{card.net}, compared with backprop")]
    places = {"inside": "its own later layers", "blocks": "the blocks above", "readout": "the readout"}
    for place, words in places.items():
        found = getattr(card, place)
        meaning = MEANINGS[found] if card.in_training or found != "learned" else LEARNED_BEFORE
        pairs.append((place, f"{found}: of {words}, the credit uses {meaning}"))
    pairs.append(
        ("labels", "yes: used beside the error" if card.labels else "no: nothing changes at the same error, 0")
    )
    few, many = (
        "; ".join(f"{moment} {' '.join(f'{value:.3f}' for value in values)}" for moment, values in found.items())
        for found in (card.alignment, card.in_training)
    )
    at_a_batch = f"; at a training batch of 128, {many}" if many else ""
    pairs.append(("backprop", f"{_yes(card.is_backprop)}: update cosine per block, {few}{at_a_batch}"))
    whole = card.parameters
    shares = [f"{100 * part / whole:.0f}%" for part in (card.by_rule, card.by_gradient, card.untrained)]
    pairs.append(("parameters", f"{shares[0]} by the rule, {shares[1]} by the true gradient, {shares[2]} untrained"))
    pairs.append(("own numbers", f"{card.learned:,} learned, {card.fixed:,} kept (the net has {whole:,})"))
    costs = {"flops": card.products, "time": card.time, "memory": card.memory}
    known = [f"{value:.2f} × the {name}" for name, value in costs.items() if value is not None]
    pairs.append(("a step", f"{', '.join(known)} of backprop's"))
    if not card.repeatable:
        pairs.append(("caution", "two identical calls differ: effects smaller than that noise are not seen"))
    return pairs


def print_cards(cards: Sequence[Card], form: str, console: Console) -> None:
    """One card as a sheet, more as a table."""
    if form == "json":
        print(json.dumps([json.loads(card.text()) for card in cards], indent=1, ensure_ascii=False))
    elif form == "markdown":
        print(cards_table(cards).markdown())
    elif len(cards) == 1:
        console.print(Text(one_line(cards[0].rule), "bold"))
        for word, found in sheet(cards[0]):
            lines = Text(one_line(found)).wrap(console, max(20, console.width - 13))
            for number, line in enumerate(lines):
                console.print(Text(f"{'' if number else word:12} ", "dim").append_text(line), soft_wrap=True)
    else:
        print_table(cards_table(cards), console)
