"""What docs/rules-and-nets.md says of every rule: its card, and its docstring's formula, needs and differences.

`make rules-page` measures the cards anew and writes both parts of the page.
"""

import inspect
import re
import textwrap
from pathlib import Path

from walkback.report.cards import cards_table
from walkback.report.harmless import for_markdown
from walkback.rules import RULES

PAGE = Path(__file__).parents[1] / "docs/rules-and-nets.md"
CARDS = "<!-- cards: written by `make rules-page` -->", "<!-- end of cards -->"
ENTRIES = "<!-- rules: written by `make rules-page` -->", "<!-- end of rules -->"
REQUIRED = ("needs", "normalize", "embedding", "readout", "differs", "source")
FORMULA = ("credit", "update")  # a rule states one of them, or both


def stated(rule: str) -> tuple[str, dict[str, str], list[str]]:
    """The sentence that a rule's docstring begins with, its fields by name, and the paragraphs after them."""
    text = inspect.getdoc(RULES.get(rule)) or ""
    summary, *paragraphs = re.split(r"\n\s*\n", text)
    fields: dict[str, str] = {}
    more = []
    for paragraph in paragraphs:
        if re.match(r"\w+ {2,}\S", paragraph):
            for field in re.split(r"\n(?=\w)", paragraph):
                name, words = re.split(r" {2,}", field, maxsplit=1)
                fields[name] = " ".join(words.split())
        else:
            more.append(" ".join(paragraph.split()))
    return " ".join(summary.split()), fields, more


def lacking(rule: str) -> list[str]:
    """What a rule's docstring should state and does not."""
    _, fields, _ = stated(rule)
    formula = [] if any(name in fields for name in FORMULA) else [" or ".join(FORMULA)]
    return [*formula, *(name for name in REQUIRED if not fields.get(name))]


def entries(rules: list[str]) -> str:
    """The rules one after the other, as Markdown."""
    return "\n\n".join(_entry(rule) for rule in rules)


def _entry(rule: str) -> str:
    summary, fields, more = stated(rule)
    lines = [f"#### {rule}", "", _wrapped(_sentence(summary)), ""]
    lines += [_wrapped(f"- *{name}*: {_sentence(words)}", "  ") for name, words in fields.items()]
    lines += [f"\n{_wrapped(_sentence(words))}" for words in more]
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
