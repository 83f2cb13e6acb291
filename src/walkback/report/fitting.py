"""Tables in a terminal, whole: one that does not fit becomes a list, and says so. No cell is ever cut."""

from rich.cells import cell_len
from rich.console import Console
from rich.padding import Padding
from rich.table import Column, Table
from rich.text import Text

from walkback.plain import one_line, seen


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
