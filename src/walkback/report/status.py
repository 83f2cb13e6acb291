"""How many runs stand, in the terminal: the counts, then what a person can read of each state; the rest as data."""

import json
import math
from collections.abc import Sequence

from rich.cells import cell_len
from rich.console import Console
from rich.padding import Padding

from walkback.records.status import RunStatus, State, counted, reasons
from walkback.report.fitting import plain_table, print_whole, words
from walkback.report.harmless import csv_line

GLYPHS: dict[State, str] = {
    "done": "✓", "running": "·", "waiting": " ", "stopped": "◦", "failed": "✗", "unreadable": "✗"
}  # fmt: skip
FIELDS = ("run", "state", "label", "seed", "data", "net", "epochs", "of", "accuracy", "says")


def print_status(found: Sequence[RunStatus], console: Console, rows: int, where: str) -> None:
    """The counts; the runs that are trained now; and for the others each reason with its number of runs.

    rows    how many lines each part has at most
    where   the folders, as words for the command that gives all of it
    """
    counts = counted(found)
    listed = ", ".join(f"{count:,} {state}" for state, count in counts.items())
    console.print(words(f"{len(found):,} run{'s' * (len(found) != 1)}: {listed}" if found else "no runs", "bold"))
    hidden = _running([status for status in found if status.state == "running"], console, rows)
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


def _running(found: Sequence[RunStatus], console: Console, rows: int) -> int:
    """A table of the runs that are trained now; how many were left out."""
    if not found:
        return 0
    table = plain_table("running", "seed", "epoch", "", left=("running", ""))
    for status in found[:rows]:
        name = f"{status.data} {status.net} {status.label}"
        table.add_row(words(name), str(status.seed), f"{status.epochs}/{status.of}", words(status.says))
    print_whole(table, console)
    return max(0, len(found) - rows)


def status_text(found: Sequence[RunStatus], form: str) -> str:
    """Every run in a row, as CSV or JSON."""
    rows = [
        [s.name, s.state, s.label, s.seed, s.data, s.net, s.epochs, s.of, s.accuracy, s.says] for s in found
    ]  # fmt: skip
    if form == "json":
        # A number that is not finite is no JSON: it is written as a word, as in the records.
        plain = [[str(c) if isinstance(c, float) and not math.isfinite(c) else c for c in row] for row in rows]
        return json.dumps([dict(zip(FIELDS, row, strict=True)) for row in plain], indent=1) + "\n"
    return "".join(map(csv_line, [FIELDS, *rows]))
