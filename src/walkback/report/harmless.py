"""Somebody's words made harmless: names come from strangers' files, and no format may act on what they hold."""

import csv
import io
import re
import unicodedata
from collections.abc import Iterable
from functools import lru_cache

from walkback.plain import one_line as one_line
from walkback.plain import seen

FORMULA = ("=", "+", "-", "@")  # a spreadsheet computes a text that begins so
COMMAND = r"walkback [A-Za-z0-9 ./=-]+"  # in our own notes; it can do nothing, no matter who wrote it
NUMBER = re.compile(r"[+-]?\d+(\.\d+)?([eE][+-]?\d+)?")


def clean(content: str) -> str:
    """A stranger's text without what is not seen: a space for white space, � for anything else that does not print.

    >>> clean("a\\u202eb\\nc")
    'a�b c'
    """
    # Blanks of other widths stay: our own numbers are set with them.
    return content if content.isascii() and content.isprintable() else "".join(map(_seen, content))


def _seen(character: str) -> str:
    if unicodedata.category(character) == "Zs":
        return character
    return " " if character.isspace() else seen(character)


def clip(name: str, most: int = 60) -> str:
    """A name that may be of any length, shortened.

    >>> clip("abcdef", 4)
    'abc…'
    """
    name = clean(name)
    return name if len(name) <= most else f"{name[: most - 1]}…"


def is_number(text: str) -> bool:
    """Whether it is a plain number.

    >>> is_number("-2.4"), is_number("1e-07"), is_number("1.3×")
    (True, True, False)
    """
    return NUMBER.fullmatch(text) is not None


def for_csv(text: str) -> str:
    """A cell of words: where a spreadsheet would take it for a formula, a quote goes before it.

    >>> for_csv("=cmd()"), for_csv("-2.4"), for_csv("dfa")
    ("'=cmd()", '-2.4', 'dfa')
    """
    line = one_line(text)
    return f"'{line}" if line.startswith(FORMULA) and not is_number(line) else line


def csv_line(row: Iterable[object]) -> str:
    """A line of CSV: words harmless, numbers as they are, nothing for None.

    >>> print(csv_line(["=x", 0.5, None, "a,b"]), end="")
    '=x,0.5,,"a,b"
    """
    file = io.StringIO()
    csv.writer(file, lineterminator="\n").writerow([for_csv(c) if isinstance(c, str) else c for c in row])
    return file.getvalue()


@lru_cache(maxsize=1024)  # the forms of one audit say much the same
def for_markdown(text: str) -> str:
    """Words that stay words in Markdown, also inside a table.

    >>> print(for_markdown("a|b <b>x</b> `rm` h_L _x_ [y](z)"))
    a\\|b &lt;b>x&lt;/b> \\`rm\\` h_L \\_x\\_ \\[y\\](z)
    """
    line = re.sub(r"[\\|`*\[\]$]", r"\\\g<0>", one_line(text))
    if not line.strip("_"):
        return line  # a blank to fill in
    line = re.sub(r"(?<![^\W_])_+|_+(?![^\W_])", lambda m: "\\_" * len(m[0]), line)  # h_L is no emphasis, _x_ is
    return re.sub(r"&(?=#?\w+;)", "&amp;", line).replace("<", "&lt;")


def markdown_paragraph(text: str) -> str:
    """A paragraph that stays words, whose first character must not make a heading, a list or a quotation of it.

    >>> print(markdown_paragraph("# not a heading: `walkback train` is, `rm` is not"))
    \\# not a heading: `walkback train` is, \\`rm\\` is not
    """
    line = re.sub(rf"\\`({COMMAND})\\`", r"`\1`", for_markdown(text))
    return re.sub(r"^(\d*)([>#~+.)-])", r"\1\\\2", line)
