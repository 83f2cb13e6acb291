"""What docs/rules-and-nets.md shows of every rule: its card, and its docstring's formula and source.

`make rules-page` measures the cards anew and writes both parts of the page.
"""

import re
import textwrap
from pathlib import Path

from walkback.report.cards import cards_table
from walkback.report.writing import for_markdown
from walkback.rules import RULES
from walkback.rules.docstrings import split

PAGE = Path(__file__).parents[1] / "docs/rules-and-nets.md"
CARDS = "<!-- cards: written by `make rules-page` -->", "<!-- end of cards -->"
ENTRIES = "<!-- rules: written by `make rules-page` -->", "<!-- end of rules -->"
REQUIRED = ("needs", "normalize", "embedding", "readout", "differs", "source")
FORMULA = ("credit", "update")  # a rule states one of them, or both


def stated(rule: str) -> dict[str, str]:
    """The docstring of a rule in parts."""
    return split(RULES.get(rule).__doc__ or "")


def lacking(rule: str) -> list[str]:
    """What a rule's docstring should state and does not."""
    parts = stated(rule)
    formula = [] if any(name in parts for name in FORMULA) else [" or ".join(FORMULA)]
    return [*formula, *(name for name in REQUIRED if not parts.get(name))]


def entries(rules: list[str]) -> str:
    """The rules one after the other, as Markdown."""
    return "\n\n".join(_entry(rule) for rule in rules)


def _entry(rule: str) -> str:
    """Its formula is the update where it states one: a credit is then only for probes."""
    words = stated(rule)
    formula = "update" if "update" in words else "credit"
    lines = [f"#### {rule}", "", _wrapped(_sentence(words["summary"])), ""]
    shown = [part for part in (formula, "learns", "source") if part in words]
    lines += [_wrapped(f"- *{part}*: {_sentence(words[part])}", "  ") for part in shown]
    return "\n".join(lines)


def _sentence(words: str) -> str:
    """Markdown of a docstring's words: its `code` stays code, and nothing else acts."""
    parts = re.split(r"(`[^`]+`)", words)
    return "".join(part if part.startswith("`") else _spaced(part) for part in parts if part)


def _spaced(part: str) -> str:
    """Made harmless, with the spaces at its ends."""
    before, after = (" " if part[end].isspace() else "" for end in (0, -1))
    return f"{before}{for_markdown(part.strip())}{after}"


def _wrapped(text: str, indent: str = "") -> str:
    return textwrap.fill(text, 120, subsequent_indent=indent, break_long_words=False, break_on_hyphens=False)


def between(text: str, marks: tuple[str, str]) -> str:
    """What a page has between two marks."""
    return text.partition(marks[0])[2].partition(marks[1])[0]


def replaced(text: str, marks: tuple[str, str], words: str) -> str:
    """The page with other words between two marks."""
    begin, end = marks
    return f"{text.partition(begin)[0]}{begin}\n{words}\n{end}{text.partition(end)[2]}"


if __name__ == "__main__":
    from walkback.audits import make_card

    text = replaced(PAGE.read_text(), CARDS, cards_table([make_card(rule) for rule in RULES.names()]).markdown())
    PAGE.write_text(replaced(text, ENTRIES, entries(RULES.names())))
