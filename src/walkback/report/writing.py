"""Words, numbers and tables as people read them: somebody's words are harmless in every format, and no cell is cut.

Names come from strangers' files, and no format may act on what they hold.
"""

import csv
import io
import math
import re
import unicodedata
from collections.abc import Iterable
from functools import lru_cache
from pathlib import Path

from rich.cells import cell_len
from rich.console import Console
from rich.padding import Padding
from rich.table import Column, Table
from rich.text import Text

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


# --- numbers and names in a terminal ----------------------------------------------------------------------------------


def number(value: float | None, digits: int = 3) -> str:
    """A plain number where that is readable, a power of ten where it is not.

    >>> [number(v) for v in (0.12345, 203.4, 4.2e-9, 5e8, float("nan"), None, 0.0)]
    ['0.123', '203', '4.2e-09', '5.0e+08', 'NaN', '–', '0']
    """
    if value is None:
        return "–"
    if math.isnan(value):
        return "NaN"
    if value == 0 or not math.isfinite(value):
        return f"{value:g}"
    if 1e-3 <= abs(value) < 1e5:
        return f"{value:.{max(0, digits - 1 - max(-1, math.floor(math.log10(abs(value)))))}f}"
    return f"{value:.1e}"


def duration(seconds: float | None) -> str:
    """Seconds, minutes or hours.

    >>> [duration(s) for s in (4.2, 75, 3700, None)]
    ['4 s', '1 min 15 s', '1 h 01 min', '–']
    """
    if seconds is None or not math.isfinite(seconds):
        return "–"
    if seconds < 60:
        return f"{seconds:.0f} s"
    if seconds < 3600:
        return f"{int(seconds // 60)} min {int(seconds % 60):02d} s".replace(" 00 s", "")
    return f"{int(seconds // 3600)} h {int(seconds % 3600 // 60):02d} min"


def relative(path: Path) -> str:
    """A path as the user would type it from here, fit to be printed."""
    try:
        return seen(str(path.resolve().relative_to(Path.cwd())))
    except (ValueError, OSError, RuntimeError):
        return seen(str(path))


# --- tables in a terminal: one that does not fit becomes a list, and says so ------------------------------------------


def words(text: str, style: str = "") -> Text:
    """Text for a terminal that holds somebody's words: cleaned, on one line, and never markup."""
    return Text(one_line(text), style)


def literal(text: str, style: str = "") -> Text:
    """Somebody's words letter by letter, with their blanks: � for a line break and for what is not seen."""
    return Text(seen(text), style)


def print_words(console: Console, text: str, indent: int = 0, style: str = "") -> None:
    """Somebody's words in lines that wrap, so many columns from the left."""
    console.print(Padding(literal(text, style), (0, 0, 0, indent)))


def fits(table: Table, console: Console) -> bool:
    """Whether the table has room: columns that may wrap do so between words, the others are not cut."""
    _, right, _, left = table.padding
    return sum(_least(column) + left + right for column in table.columns) <= console.width


def _least(column: Column) -> int:
    """The width below which something would be cut."""
    lines = [line for cell in (column.header, *column.cells) for line in _plain(cell).split("\n")]
    if column.no_wrap:
        return max(*map(cell_len, lines), column.min_width or 0)
    words = [word for line in lines for word in line.split(" ")]
    return max(map(cell_len, words)) if column.min_width is None else column.min_width


def print_whole(table: Table, console: Console) -> None:
    """Print a table; where it is too wide with less air between and in its columns, and then as a list of its rows."""
    if not fits(table, console):
        top, right, bottom, left = table.padding
        table.padding = (top, min(right, 1), bottom, min(left, 1))
    if not fits(table, console):
        for column in table.columns:
            column.min_width = None if column.no_wrap else column.min_width
    if fits(table, console):
        console.print(table)
        return
    headings = [" ".join(_plain(column.header).split()) for column in table.columns]
    if table.title is not None:
        console.print(Text(_plain(table.title), "bold"))
    for row in zip(*(column.cells for column in table.columns), strict=True):
        cells = [_plain(cell) for cell in row]
        title = f"{headings[0]} {cells[0]}" if cells[0].isdigit() else cells[0]  # a number alone says little
        console.print(Text(title, "bold"))
        pairs = zip(headings[1:], cells[1:], strict=True)
        console.print(Padding(Text("; ".join(f"{h} {cell}".strip() for h, cell in pairs if cell)), (0, 0, 0, 2)))
    console.print(Text(f"(the table is too wide for {console.width} columns, so each row is a list)", "dim"))


def _plain(cell: object) -> str:
    return cell.plain if isinstance(cell, Text) else str(cell)
