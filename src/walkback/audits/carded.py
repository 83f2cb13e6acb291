"""The cards of an audit: measured for each rule that was audited, and kept beside its runs as cards.json."""

import json
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path

from walkback.audits.card import make_card
from walkback.errors import BadValue, RecordError
from walkback.files import is_folder
from walkback.records import RunConfig, find_runs, read_run
from walkback.records.card import Card, read_cards, write_cards


def card_key(rule: str, options: object, source: str | None) -> str:
    """What a card is of: a rule, its options, and the code of one that is not ours."""
    return json.dumps([rule, options, source], sort_keys=True, default=str)


def measure_cards(
    configs: Iterable[RunConfig], folder: Path | str, *, say: Callable[[str], object] = lambda _: None
) -> list[Card]:
    """Measure a card for each rule of these configs that has none in the folder yet, and write all to cards.json."""
    wanted = {card_key(c.rule, c.rule_options, c.rule_source): c for c in configs}
    known = {card_key(card.rule, card.rule_options, card.rule_source): card for card in _kept(folder)}
    lacking = [key for key in wanted if key not in known]
    for place, key in enumerate(lacking, 1):
        config = wanted[key]
        say(f"card {place} of {len(lacking)}: what {config.rule} uses and costs")
        known[key] = make_card(config.rule, config.rule_options)
    if lacking:
        write_cards(folder, list(known.values()))
    return [known[key] for key in wanted]


def _kept(folder: Path | str) -> list[Card]:
    """The cards that are there; a file that cannot be read is measured again and replaced."""
    try:
        return read_cards(folder) or []
    except RecordError:
        return []


def cards_of_folder(
    folder: Path, rules: Sequence[str] = (), *, say: Callable[[str], object] = lambda _: None
) -> list[Card]:
    """Measure the cards of the rules whose runs are in a folder; of some of them, if they are named."""
    if not is_folder(folder):
        raise BadValue(f"{folder} is not a folder", "name a folder that holds runs")
    configs = [read_run(path).config for path in find_runs(folder)]
    if not configs:
        raise BadValue(f"no runs in {folder}", "give a folder that `walkback train` or `walkback audit` made")
    missing = [rule for rule in rules if rule not in {config.rule for config in configs}]
    if missing:
        raise BadValue(f"no run in {folder} was trained by {missing[0]}", "leave the rules out to measure all of them")
    return measure_cards([c for c in configs if not rules or c.rule in rules], folder, say=say)
