"""What is known by name: rules, nets, probes, data sets and checks, as tables."""

from fnmatch import fnmatchcase
from typing import Any

from rich.console import Group
from rich.table import Table

from walkback.checks import in_order
from walkback.data import DATASETS, is_cached, is_own
from walkback.registry import Registry
from walkback.report.fitting import plain_table, words


def _table(title: str) -> Table:
    table = plain_table(title=title, show_header=False)
    table.add_column(no_wrap=True, min_width=13)
    return table


def data_table(pattern: str = "*") -> Table:
    """The data sets, and whether they are here."""
    table = _table("data sets")
    table.add_column(no_wrap=True)
    for name in sorted(DATASETS.names(pattern), key=lambda name: not DATASETS.get(name).embedded):
        source = DATASETS.get(name)
        here = "yours" if is_own(name) else "embedded" if source.embedded else "here" if is_cached(name) else "not here"
        table.add_row(words(name), here, words(source.summary))
        if here == "not here":
            table.caption, table.caption_justify = "walkback data fetch NAME fetches one that is not here", "left"
    return table


def catalogue(pattern: str = "*") -> Group:
    """Rules, nets, probes, data sets and checks whose names match a wildcard."""
    from walkback.nets import NETS
    from walkback.probes import PROBES
    from walkback.rules import RULES

    tables = []
    registries: list[tuple[str, Registry[Any]]] = [("rules", RULES), ("nets", NETS), ("probes", PROBES)]
    for title, registry in registries:
        table = _table(title)
        for name in registry.names(pattern):
            about = (registry.get(name).__doc__ or "").strip().partition("\n")[0]
            table.add_row(words(name), words(about))
        tables.append(table)
    return Group(*(table for table in [*tables, data_table(pattern), checks_table(pattern)] if table.row_count))


def checks_table(pattern: str = "*") -> Table:
    """The checks: what each asks, and when it fires."""
    table = _table("checks")
    for check in in_order():
        if fnmatchcase(check.name, pattern):
            table.add_row(words(check.name), words(f"{check.asks} Fires: {check.raised}."))
    return table
