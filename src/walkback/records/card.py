"""A rule's card: what it was found to use and to cost, by intervention on a small net."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any, Literal

from msgspec import field

from walkback.files import is_folder, make_folder, write_whole
from walkback.records.record import Record, read_record

Transport = Literal["none", "learned", "init", "taken", "signs", "full"]


class Card(Record, kw_only=True):
    """One rule.

    inside, blocks, readout   whether a block's credit depends on the weights of its own later layers, of the blocks
                              above, and of the readout, with all hidden states, the error and the labels held
    labels                    whether it changes with the labels while the error is the same (zero)
    alignment                 cosine of each block's update with the true gradient, by a new rule and a trained one
    in_training               the same at training batches of 128, the median over some; none in a card made before this
                              was measured, whose "learned" may be "taken" too
    by_rule, by_gradient, untrained   the net's parameters: trained by the rule, by the true gradient, not at all
    learned, fixed            numbers that the rule itself learns, and keeps
    products, time, memory    of a step, relative to backprop's
    """

    schema: Literal["walkback.card/1"] = "walkback.card/1"
    rule: str
    rule_options: dict[str, Any] = field(default_factory=dict)
    rule_source: str | None = None
    net: str
    refused: str | None = None
    inside: Transport = "none"
    blocks: Transport = "none"
    readout: Transport = "none"
    labels: bool = False
    repeatable: bool = True
    alignment: dict[str, list[float]] = field(default_factory=dict)
    in_training: dict[str, list[float]] = field(default_factory=dict)
    by_rule: int = 0
    by_gradient: int = 0
    untrained: int = 0
    learned: int = 0
    fixed: int = 0
    products: float | None = None
    time: float | None = None
    memory: float | None = None

    @property
    def is_backprop(self) -> bool:
        """Update cosine above 0.999 in every block, at one of the moments and for one of the batches."""
        return any(v and min(v) > 0.999 for found in (self.alignment, self.in_training) for v in found.values())

    @property
    def nearness(self) -> float | None:
        """The update's cosine with bp's at a training batch, of the least aligned block; the nearer of the moments."""
        return max((min(values) for values in self.in_training.values() if values), default=None)

    @property
    def parameters(self) -> int:
        """Of the net that the card was made on."""
        return self.by_rule + self.by_gradient + self.untrained


class Cards(Record, kw_only=True):
    """The cards of an audit's rules, as they lie beside its runs: cards.json."""

    schema: Literal["walkback.cards/1"] = "walkback.cards/1"
    cards: list[Card]


def write_cards(folder: Path | str, cards: Sequence[Card]) -> Path:
    """Write cards.json into a folder."""
    path = Path(folder) / "cards.json"
    make_folder(path.parent)
    write_whole(path, Cards(cards=list(cards)).indented() + b"\n")
    return path


def read_cards(folder: Path | str) -> list[Card] | None:
    """The cards.json of a folder; None if there is none."""
    found = read_record(Cards, Path(folder) / "cards.json", f"measure them again: walkback card --to {folder}")
    return None if found is None else found.cards


def cards_beside(paths: Sequence[Path | str]) -> list[Card] | None:
    """The cards that lie with the runs: in a folder that is named, or in the one around a run; None: there are none."""
    places = [path.parent if (path / "config.json").exists() else path for path in map(Path, paths) if is_folder(path)]
    found = [cards for place in dict.fromkeys(places) if (cards := read_cards(place)) is not None]
    return [card for cards in found for card in cards] if found else None
