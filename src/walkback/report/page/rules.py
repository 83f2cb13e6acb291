"""The section of cards: what each audited rule uses and costs, measured when the audit was made."""

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
    audited = dict.fromkeys(subject.runs[0].config.rule for subject in material.subjects if subject.runs)
    known = {card.rule: card for card in material.cards or ()}
    lacking = [rule for rule in audited if rule not in known]
    parts: list[Child] = []
    if known:
        table = cards_table([card for rule, card in known.items() if rule in audited])
        heads = ["Rule", *table.headings[1:]]
        rows: list[tuple[Child, list[list[Child]]]] = [
            (tag("bdi", clip(str(row[0]))), [[clip(str(cell)) for cell in row[1:]]]) for row in table.rows
        ]
        legend = tag("details", tag("summary", "What the columns mean"), *(tag("p", prose(note)) for note in NOTES))
        refused = [tag("p", said(note), class_="quiet") for note in table.notes if note not in NOTES]
        lead = "Found by intervention on a small net, not read from a docstring: whether what a block is told changes "
        lead += "with the weights above it, or with the labels, and what a step costs in steps of bp."
        parts += [tag("p", lead), cards(clip(table.title, 120), heads, rows), legend, *refused]
    if lacking:
        words = "The cards" if not known else f"The cards of {', '.join(map(clip, lacking))}"
        folder = material.source[0] if material.source else "runs"
        parts.append(
            tag("p", f"{words} were not measured for this page. In seconds per rule, into the folder of runs:")
        )
        command = " ".join(["walkback card", *lacking, "--to", folder])
        parts.append(tag("pre", tag("code", clip(command, 400))))
    return section("rules", title, *parts)
