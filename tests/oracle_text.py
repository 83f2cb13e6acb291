"""Answers as lines of text: what differs between two versions of the program is then a diff that people can read."""

import json
import math
import re
from collections.abc import Collection, Iterator
from html.parser import HTMLParser
from typing import Any

SHORT, FLAT = 24, 240  # characters of a word, and of a collection that stays on one line
LEFT_OUT = {"low", "high", "threshold", "thresholds_version"}  # where it must be brief
INLINE = {"a", "abbr", "b", "code", "em", "i", "small", "span", "strong", "sub", "sup"}
UNREAD = {"script", "style", "svg"}
VERSION = re.compile(r"walkback \d+\.\d+\.\d+( \(commit [0-9a-f]+(-dirty)?\))?")
DATE = re.compile(r"\d{4}-\d\d-\d\d([T ]\d\d:\d\d(:\d\d(\.\d+)?)?(Z|[+-]\d\d:\d\d)?)?")
LONG_NUMBER = re.compile(r"(?<![\w.])-?\d+\.\d{5,}(e[+-]?\d+)?")


def rounded(value: Any, digits: int = 6) -> Any:
    """The same tree with every number at so many significant digits; those below 1e-12 are rounding, and are zero."""
    if isinstance(value, dict):
        return {key: rounded(inside, digits) for key, inside in value.items()}
    if isinstance(value, list):
        return [rounded(inside, digits) for inside in value]
    if isinstance(value, float) and math.isfinite(value):
        return float(f"{value:.{digits}g}") if abs(value) >= 1e-12 else 0.0
    return value


def scrubbed(text: str, places: dict[str, str]) -> str:
    """Without what differs from machine to machine and from version to version: paths, dates, the last digits."""
    text = text.encode(errors="replace").decode().replace("\r\n", "\n")
    for path, name in places.items():
        text = text.replace(path, name)
    text = DATE.sub("<date>", VERSION.sub("walkback <version>", text))
    return LONG_NUMBER.sub(lambda found: f"{float(found[0]):.6g}", text)


def once(text: str, heading: str) -> str:
    """A text of parts that begin with the same kind of line: after the first, what the first has is left out."""
    first, *others = re.split(rf"^(?={re.escape(heading)})", text, flags=re.MULTILINE)[1:] or [text]
    seen = set(first.splitlines())
    return first + "".join(line for other in others for line in other.splitlines(True) if line.rstrip("\n") not in seen)


def is_word(value: Any) -> bool:
    """Whether it can stand among others on a line."""
    return not isinstance(value, dict | list) and len(str(value)) <= SHORT


def is_flat(value: Any) -> bool:
    """Whether it is a small collection without long texts."""
    inside = value.values() if isinstance(value, dict) else value if isinstance(value, list) else ()
    return all(is_word(each) or is_flat(each) for each in inside) and len(json.dumps(value)) <= FLAT


def written(value: Any) -> str:
    """A value as JSON, but a text as it is where that cannot be mistaken."""
    plain = isinstance(value, str) and value.isprintable() and value and " " not in value[:SHORT]
    return value if plain else json.dumps(value, ensure_ascii=False)


def lines_of(value: Any, path: str = "", brief: bool = False, without: Collection[str] = ()) -> Iterator[str]:
    """A tree as lines that begin with where they stand: the short values of a part together, long ones by themselves.

    What is None or empty is left out. `brief` leaves out whatever is not short, too, and the names of
    what is short; `without` whatever has these names.
    """
    if isinstance(value, dict):
        words = {key: inside for key, inside in value.items() if is_word(inside)}
        left = {*without, *(LEFT_OUT if brief else ())}
        shown = [key for key in words if words[key] is not None and key not in left]
        if shown:
            parts = (f"{'' if brief else f'{key}='}{written(words[key])}" for key in shown)
            yield f"  {path}{': ' if path else ''}{' '.join(parts)}"
        for key, inside in value.items():
            if key in words or key in without or inside in ({}, []) or (brief and not _has_parts(inside)):
                continue
            yield from lines_of(inside, f"{path}.{key}" if path else str(key), brief, without)
    elif isinstance(value, list) and any(isinstance(each, dict | str) for each in value) and not is_flat(value):
        for place, each in enumerate(value):
            if isinstance(each, dict):
                label = next((key for key in ("check", "name") if key in each), None)
                rest = {key: inside for key, inside in each.items() if key != label}
                yield from lines_of(rest, f"{path}.{each.get(label, place)}", brief, without)
            else:
                yield from lines_of(each, path, brief, without)
    else:
        yield f"  {path}: {written(value) if not isinstance(value, str) else ' '.join(value.split())}"


def otherwise(first: list[str], lines: list[str]) -> Iterator[str]:
    """Of some lines those that are not among the first, and the parts of the first that have no line here."""
    yield from (line for line in lines if line not in first)
    here = {head(line) for line in lines}
    lacking = [each for each in dict.fromkeys(map(head, first)) if each not in here]
    top = [each for each in lacking if not any(each.startswith(f"{other}.") for other in lacking)]
    if top:
        yield f"  (nothing of {', '.join(top)})"


def head(line: str) -> str:
    """Where a line of `lines_of` stands."""
    return line.strip().partition(": ")[0] if ": " in line else ""


def _has_parts(value: Any) -> bool:
    return isinstance(value, list) and any(isinstance(each, dict) for each in value)


class _Page(HTMLParser):
    def __init__(self) -> None:
        super().__init__()
        self.parts: list[str] = []
        self.unread = 0

    def handle_starttag(self, tag: str, attrs: Any) -> None:
        self.unread += tag in UNREAD
        self.parts.append(" " if tag in INLINE else "\n")

    def handle_endtag(self, tag: str) -> None:
        self.unread -= tag in UNREAD
        self.parts.append(" " if tag in INLINE else "\n")

    def handle_data(self, data: str) -> None:
        self.parts += [] if self.unread else [" ".join(data.split(" "))]


def text_of_page(html: str) -> str:
    """What a page says, a line per element, without tags, styles, scripts and figures; of equal lines in a row one."""
    page = _Page()
    page.feed(html)
    found: list[str] = []
    for line in "".join(page.parts).split("\n"):
        folded = " ".join(line.split())
        if folded and folded != "".join(found[-1:]):
            found.append(folded)
    return "\n".join(found) + "\n"
