"""What is known by name: rules, nets, probes, data sets and checks, as tables. Nothing of torch is imported for it."""

import ast
import re
from dataclasses import replace
from fnmatch import fnmatchcase
from operator import itemgetter
from pathlib import Path

from rich.console import Group
from rich.table import Table

from walkback.checks import in_order
from walkback.data import DATASETS, is_cached, is_own
from walkback.report.tables import Column, terminal_table

ROOMS = {"rules": "RULES", "nets": "NETS", "probes": "PROBES"}  # a folder, and the registry that its files add to


def catalogue(pattern: str = "*") -> Group:
    """Rules, nets, probes, data sets and checks whose names match a wildcard."""
    tables = [
        _table(room, [[name, about] for name, about in sorted(registered(room).items()) if fnmatchcase(name, pattern)])
        for room in ROOMS
    ]
    checks = [[c.name, f"{c.asks} Fires: {c.raised}."] for c in in_order() if fnmatchcase(c.name, pattern)]
    return Group(*(table for table in [*tables, data_table(pattern), _table("checks", checks)] if table.row_count))


def data_table(pattern: str = "*") -> Table:
    """The data sets, and whether they are here."""
    rows = []
    for name in sorted(DATASETS.names(pattern), key=lambda name: not DATASETS.get(name).embedded):
        source = DATASETS.get(name)
        here = "yours" if is_own(name) else "embedded" if source.embedded else "here" if is_cached(name) else "not here"
        rows.append([name, here, source.summary])
    table = _table("data sets", rows)
    if any(row[1] == "not here" for row in rows):
        table.caption, table.caption_justify = "walkback data fetch NAME fetches one that is not here", "left"
    return table


def _table(title: str, rows: list[list[str]]) -> Table:
    """The name first; the last cell may wrap."""
    places = range(max(map(len, rows), default=0))
    columns = [Column("", str, "", itemgetter(place), {"justify": "left", "no_wrap": place != places[-1]})
               for place in places]  # fmt: skip
    columns[:1] = [replace(column, looks={**column.looks, "min_width": 13}) for column in columns[:1]]
    return terminal_table(columns, rows, title=title, show_header=False)


def registered(room: str) -> dict[str, str]:
    """What the files of a room register: each name, and the first line of what it says of itself.

    The files are read and not run: importing them takes more than a second, which is torch's.
    """
    found = {}
    for file in sorted(Path(__file__).parents[1].joinpath(room).glob("*.py")):
        text = file.read_text(encoding="utf-8")
        for name, kind in re.findall(rf"^{ROOMS[room]}\.add\(([^,]+), (\w+)", text, re.M):
            thing = next(n for n in ast.parse(text).body if isinstance(n, ast.ClassDef) and n.name == kind)
            own = [n.value for n in thing.body if isinstance(n, ast.Assign) and ast.unparse(n.targets[0]) == "name"]
            value = own[0] if name == f"{kind}.name" else ast.parse(name, mode="eval").body
            found[ast.literal_eval(value)] = (ast.get_docstring(thing) or "").partition("\n")[0]
    return found
