"""Tables as data: made once from records, then shown in a terminal, as Markdown, as CSV or as LaTeX."""

import io
import math
import statistics
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from operator import itemgetter
from pathlib import Path
from typing import Any, Literal

from rich.console import Console
from rich.table import Table as RichTable
from rich.text import Text

from walkback.checks.paired_gain import mean_interval
from walkback.files import make_folder, write_whole
from walkback.plain import lines
from walkback.report import latex
from walkback.report.writing import csv_line, for_markdown, is_number, markdown_paragraph, number, one_line, print_whole

SUFFIXES = {"csv": "csv", "latex": "tex", "markdown": "md", "text": "txt"}
MOST_ROWS = 200  # of a table that are printed
Form = Literal["share", "points", "size", "cosine"]


@dataclass(frozen=True)
class Stat:
    """One quantity over the seeds. `interval` (low, high) is of the mean, where there is one to tell.

    A size (a norm) runs over decades, so its middle is the geometric mean and its spread the smallest and largest.
    `given`: mean, standard deviation and n of values that are not at hand: an accuracy in an audit, a null.
    """

    values: tuple[float, ...] = ()
    form: Form = "share"
    interval: tuple[float, float] | None = None
    given: tuple[float | None, float | None, int] | None = None

    @property
    def n(self) -> int:
        """How many seeds."""
        return len(self.values) if self.given is None else self.given[2]

    @property
    def mean(self) -> float | None:
        """The mean; of sizes the geometric one. None if there is nothing, or something that is no number."""
        if self.given is not None:
            return self.given[0] if self.given[0] is not None and math.isfinite(self.given[0]) else None
        if not self.values or not all(math.isfinite(v) for v in self.values):
            return None
        return geometric_mean(self.values) if self.form == "size" else statistics.fmean(self.values)

    @property
    def std(self) -> float | None:
        """With ddof = 1; None for fewer than two values."""
        if self.given is not None:
            return self.given[1]
        return statistics.stdev(self.values) if self.n > 1 and self.mean is not None else None

    def __str__(self) -> str:
        if not self.n:
            return "–"
        if self.mean is None:
            return "not finite"
        if self.form == "size":
            spread = f" ({_size(min(self.values))}–{_size(max(self.values))})" if self.n > 1 else ""
            return _size(self.mean) + spread
        shape, factor = {"share": (".3f", 1), "points": ("+.1f", 100), "cosine": ("+.3f", 1)}[self.form]
        text = f"{factor * self.mean:{shape}}"
        if self.interval is not None:
            low, high = (f"{factor * end:{shape}}" for end in self.interval)
            return f"{text} ({low} to {high})"
        return text if self.std is None else f"{text} ± {factor * self.std:{shape.lstrip('+')}}"


def geometric_mean(values: Sequence[float]) -> float:
    """The mean of the logarithms, back again; 0 as soon as one value is.

    >>> geometric_mean([1.0, 100.0])
    10.0
    """
    return 10 ** statistics.fmean(math.log10(v) for v in values) if all(v > 0 for v in values) else 0.0


def _size(value: float) -> str:
    return number(value, 2) if 0.1 <= abs(value) < 1e4 else f"{value:.1e}"


def gain(own: Sequence[float], other: Sequence[float], confidence: float = 0.95) -> Stat:
    """How far `own` lies above `other`, seed by seed, with the interval of the mean (Student's t).

    >>> str(gain([0.5, 0.6], [0.4, 0.4]))
    '+15.0 (-48.5 to +78.5)'
    """
    differences = tuple(a - b for a, b in zip(own, other, strict=True))
    return Stat(differences, "points", mean_interval(differences, confidence))


Cell = str | int | float | Stat | None


@dataclass(frozen=True)
class Column:
    """A column of a table: what it shows of each thing, in files (`heading`, `take`) and in a terminal.

    heading  in CSV, Markdown, LaTeX and on the page; empty: it is shown in a terminal alone
    short    its heading in a terminal; None: it is not shown there
    brief    what it shows in a terminal, where that is not `take`
    looks    how rich sets it there
    """

    heading: str
    take: Callable[[Any], Cell]
    short: str | None = None
    brief: Callable[[Any], str | Text] | None = None
    looks: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class Table:
    """Headings, rows, and below them what a reader must know. `name` is that of its file."""

    name: str
    title: str
    headings: Sequence[str]
    rows: Sequence[Sequence[Cell]]
    notes: Sequence[str] = ()

    @classmethod
    def of(cls, name: str, title: str, columns: Sequence[Column], things: Iterable[Any], *notes: str) -> "Table":
        """A row for each thing."""
        shown = [column for column in columns if column.heading]
        rows = [[column.take(thing) for column in shown] for thing in things]
        return cls(name, title, [column.heading for column in shown], rows, notes)

    def markdown(self) -> str:
        """A title, the table, the notes."""
        lines = [self.headings, *([text(cell) for cell in row] for row in self.rows)]
        heads, *rows = ["| " + " | ".join(map(for_markdown, line)) + " |" for line in lines]
        body = "\n".join([heads, "|" + " --- |" * len(self.headings), *rows])
        return "\n\n".join([f"**{for_markdown(self.title)}**", body, *map(markdown_paragraph, self.notes)])

    def latex(self) -> str:
        """A table environment by booktabs, with caption, label, and the notes below."""
        body = [
            r"\begin{table}[t]", r"\centering", rf"\caption{{{latex.escape(self.title)}}}",
            rf"\label{{{latex.label(self.name)}}}", self.tabular(), *latex.below(self.notes), r"\end{table}",
        ]  # fmt: skip
        return "\n".join([*latex.preamble("\n".join(body)), *body])

    def tabular(self) -> str:
        """The table alone, as LaTeX: for a piece that has words of its own around it."""
        kinds = []
        for place in range(len(self.headings)):
            cells = [row[place] for row in self.rows]
            long = any(len(text(cell)) > latex.LONG for cell in cells)
            kinds.append("r" if all(map(_is_number, cells)) else "p" if long else "l")
        return latex.tabular([*map(latex.escape, self.headings)], [[*map(_latex, row)] for row in self.rows], kinds)

    def csv(self) -> str:
        """Numbers as they are: a quantity over seeds takes columns of its own for its spread, n and interval."""
        columns = [[row[index] for row in self.rows] for index in range(len(self.headings))]
        wide: list[Sequence[str]] = []  # for each column what it takes columns for, beside the value
        for cells in columns:
            stats = [cell for cell in cells if isinstance(cell, Stat)]
            wide.append(("std", "n", "low", "high")[: 4 if any(s.interval for s in stats) else 2] if stats else ())
        lines: list[list[object]] = [
            [word for h, more in zip(self.headings, wide, strict=True) for word in (h, *(f"{h} {m}" for m in more))]
        ]
        for row in self.rows:
            line: list[object] = []
            for cell, more in zip(row, wide, strict=True):
                stat = cell if isinstance(cell, Stat) else Stat(())
                low, high = stat.interval or (None, None)
                found = {"std": stat.std, "n": stat.n, "low": low, "high": high}
                line += [stat.mean if isinstance(cell, Stat) else cell, *(found[name] for name in more)]
            lines.append(line)
        return "".join(map(csv_line, lines))

    def rich(self) -> RichTable:
        """For a terminal: columns of words may wrap, numbers do not."""
        columns = []
        for place, heading in enumerate(self.headings):
            words = all(isinstance(row[place], str) for row in self.rows)
            cells = [heading, *(text(row[place]) for row in self.rows)]
            looks = {"justify": "left" if words else "right", "no_wrap": not words, "overflow": "fold"}
            longest = max(len(word) for cell in cells for word in cell.split(" "))
            columns.append(Column("", itemgetter(place), one_line(heading), looks={**looks, "min_width": longest}))
        return terminal_table(columns, self.rows, title=Text(one_line(self.title), "bold"))


def text(cell: Cell) -> str:
    """A cell as people read it.

    >>> text(None), text(Stat((0.5, 0.6))), text(4.2e-9)
    ('–', '0.550 ± 0.071', '4.2e-09')
    """
    return number(cell) if cell is None or isinstance(cell, float) else one_line(str(cell))


def with_n(stat: Stat) -> str:
    """A quantity with its number of seeds.

    >>> with_n(Stat((0.5, 0.6))), with_n(Stat())
    ('0.550 ± 0.071 (n = 2)', 'not known')
    """
    return "not known" if stat.mean is None else f"{stat} (n = {stat.n})"


def _is_number(cell: Cell) -> bool:
    return not isinstance(cell, str) or is_number(cell) or cell in ("", "–")


def _latex(cell: Cell) -> str:
    return latex.escape(text(cell), numbers=not isinstance(cell, str) or is_number(cell))


def brief(takes: Mapping[str, Callable[[Any], Cell]], *left: str) -> list[Column]:
    """Columns for a terminal alone; those of words are named and stand at the left."""
    return [Column("", take, name, looks={"justify": "left"} if name in left else {}) for name, take in takes.items()]


def csv_lines(columns: Sequence[Column], things: Iterable[Any]) -> Iterator[str]:
    """A row for each thing as a line of CSV: one thing is in memory at a time."""
    shown = [column for column in columns if column.heading]
    yield csv_line(column.heading for column in shown)
    for thing in things:
        yield csv_line(column.take(thing) for column in shown)


def terminal_table(columns: Sequence[Column], things: Iterable[Any], **looks: Any) -> RichTable:
    """A row for each thing, in the columns that a terminal has room for."""
    shown = [column for column in columns if column.short is not None]
    table = RichTable(box=None, **{"padding": (0, 2, 0, 0), "title_justify": "left", **looks})
    for column in shown:
        looks = {"justify": "right", "no_wrap": True, **column.looks}
        table.add_column(Text(lines(column.short or "")), **looks)
    for thing in things:
        cells = [column.take(thing) if column.brief is None else column.brief(thing) for column in shown]
        table.add_row(*(cell if isinstance(cell, Text) else Text(text(cell)) for cell in cells))
    return table


def table_text(table: Table, form: str) -> str:
    """A table as a file would hold it."""
    if form == "csv":
        return table.csv()
    if form == "markdown":
        return table.markdown() + "\n"
    if form == "latex":
        return table.latex() + "\n"
    console = Console(file=io.StringIO(), width=160)
    print_table(table, console)
    assert isinstance(console.file, io.StringIO)
    return console.file.getvalue()


def print_table(table: Table, console: Console) -> None:
    """A table and its notes in a terminal. Of many rows the first are printed, and where the others are."""
    console.print()
    hidden = len(table.rows) - MOST_ROWS
    if hidden > 0:
        note = f"{hidden:,} more rows, not shown here: --format csv has all {len(table.rows):,}"
        table = replace(table, rows=table.rows[:MOST_ROWS], notes=[note, *table.notes])
    print_whole(table.rich(), console)
    for note in table.notes:
        console.print(Text(one_line(note), "dim"))


def write_table(table: Table, folder: Path, form: str) -> Path:
    """Write a table as a file of its own."""
    path = folder / f"{table.name}.{SUFFIXES[form]}"
    make_folder(folder)
    write_whole(path, table_text(table, form).encode())
    return path
