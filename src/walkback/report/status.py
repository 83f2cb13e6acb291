"""How many runs stand, in the terminal: the counts, then what a person can read of each state; the rest as data."""

import json
import math
from collections.abc import Sequence
from operator import attrgetter

from rich.cells import cell_len
from rich.console import Console
from rich.padding import Padding

from walkback.records.status import RunStatus, State, counted, reasons
from walkback.report.fitting import print_whole, words
from walkback.report.tables import Column, brief, csv_lines, terminal_table

GLYPHS: dict[State, str] = {
    "done": "✓", "running": "·", "waiting": " ", "stopped": "◦", "failed": "✗", "unreadable": "✗"
}  # fmt: skip
FIELDS = ("state", "label", "seed", "data", "net", "epochs", "of", "accuracy", "says")
COLUMNS = [Column("run", attrgetter("name")), *(Column(name, attrgetter(name)) for name in FIELDS)]
RUNNING = brief({
    "running": lambda s: f"{s.data} {s.net} {s.label}", "seed": lambda s: str(s.seed),
    "epoch": lambda s: f"{s.epochs}/{s.of}", "": lambda s: s.says,
}, "running", "")  # fmt: skip


def print_status(found: Sequence[RunStatus], console: Console, rows: int, where: str) -> None:
    """The counts; the runs that are trained now; and for the others each reason with its number of runs.

    rows    how many lines each part has at most
    where   the folders, as words for the command that gives all of it
    """
    counts = counted(found)
    listed = ", ".join(f"{count:,} {state}" for state, count in counts.items())
    console.print(words(f"{len(found):,} run{'s' * (len(found) != 1)}: {listed}" if found else "no runs", "bold"))
    running = [status for status in found if status.state == "running"]
    hidden = max(0, len(running) - rows)
    if running:
        print_whole(terminal_table(RUNNING, running[:rows]), console)
    for state in ("done", "waiting", "stopped", "failed", "unreadable"):
        why = [*reasons(found, state)]
        for says, group in why[:rows]:
            names = f"{group[0].name}{f' and {len(group) - 1:,} more' if len(group) > 1 else ''}"
            console.print(words(f"{GLYPHS[state]} {len(group):,} {state}: {says}"), soft_wrap=True)
            if state in ("failed", "unreadable", "stopped"):
                console.print(Padding(words(names, "dim"), (0, 0, 0, 2)), soft_wrap=True)
        hidden += max(0, len(why) - rows)
    if hidden:
        console.print(words(f"… and {hidden:,} lines more"))
    if len(found) > 1:
        lead, command = "Each run in a row:", f"walkback status {where} --format csv"
        lines = [f"{lead} {command}"] if len(lead) + 1 + cell_len(command) <= console.width else [lead, command]
        for line in lines:
            console.print(words(line, "dim"), soft_wrap=True)  # a command stays whole, so that it can be copied


def status_text(found: Sequence[RunStatus], form: str) -> str:
    """Every run in a row, as CSV or JSON."""
    if form != "json":
        return "".join(csv_lines(COLUMNS, found))
    rows = [{column.heading: column.take(status) for column in COLUMNS} for status in found]
    # A number that is not finite is no JSON: it is written as a word, as in the records.
    plain = [
        {n: str(v) if isinstance(v, float) and not math.isfinite(v) else v for n, v in row.items()} for row in rows
    ]
    return json.dumps(plain, indent=1) + "\n"
