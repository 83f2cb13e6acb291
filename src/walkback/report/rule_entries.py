"""What every rule says of itself in its docstring: formula, needs, normalisation, embedding, readout, differences."""

import inspect
import re
import textwrap
from pathlib import Path

from walkback.errors import BadValue
from walkback.report.harmless import for_markdown, write_between
from walkback.rules import RULES

BEGIN, END = "<!-- rules: written by `walkback card --into` -->", "<!-- end of rules -->"
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


def write_entries(page: Path, rules: list[str]) -> None:
    """Put them between the two marks of a Markdown page, where it has them."""
    if not write_between(page, BEGIN, END, entries(rules)) and BEGIN in page.read_text(encoding="utf-8"):
        raise BadValue(f"{page} has a line that begins the rules but none that ends them", f"put a line there: {END}")
