"""The command that shows the state of runs: `status`."""

from pathlib import Path
from typing import Annotated, Literal

from cyclopts import Parameter

from walkback.cli.app import app
from walkback.cli.options import WHERE, check_rows, option
from walkback.cli.shown import make_console, progress
from walkback.errors import BadValue


@app.command
def status(
    *places: Annotated[Path, Parameter(json_list=False)],
    rows: Annotated[int, option(WHERE, "Largest number of lines per part.")] = 12,
    format: Annotated[Literal["text", "csv", "json"], option(WHERE, "csv and json: one row per run.")] = "text",
    to: Annotated[Path | None, option(WHERE, "File to write (default: print).")] = None,
) -> int:
    """Show which runs are done, running, waiting, stopped or failed, and why. Nothing is judged or changed.

    It reads the run folders, and the plans that `--executor ray` and
    `--executor slurm` write next to them.

    Parameters
    ----------
    places
        Run folders, or folders of runs (runs).
    """
    from walkback.files import write_whole
    from walkback.records.status import statuses
    from walkback.report.numbers import relative
    from walkback.report.status import print_status, status_text

    check_rows(rows)
    if to is not None and format == "text":
        raise BadValue("--to needs csv or json", "give --format csv or --format json with --to")
    named = places or (Path("runs"),)
    with progress() as note:
        found = statuses(*named, note=lambda done, of: note("read", done, of))
    if format == "text":
        print_status(found, make_console(), rows, " ".join(map(relative, named)))
    elif to is None:
        print(status_text(found, format), end="")
    else:
        write_whole(to, status_text(found, format).encode())
        print(relative(to))
    return 0
