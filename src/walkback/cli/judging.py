"""The commands that judge and show records: `judge`, `report`, `compare`, `table`, `form`. Nothing is trained."""

import sys
from collections.abc import Callable
from pathlib import Path
from typing import Annotated, Any, Literal

from walkback.cli.app import app
from walkback.cli.options import JUDGE, WHERE, Judging, Paths, TableFolder, TableFormat, check_rows, option
from walkback.cli.shown import give_page, give_table, make_console, open_page, progress, show_audit
from walkback.errors import BadValue


def _read(by: Callable[..., Any], paths: tuple[Path, ...], judging: Judging, **more: Any) -> Any:
    """What a reader of the rooms makes of these folders and files, on all cores."""
    from walkback.train.crew import usual_count

    given = judging.given()
    with progress() as note:
        return by(*paths, **given, note=note, processes=usual_count(), **more)


@app.command
def judge(
    *paths: Paths,
    judging: Judging = Judging(),
    out: Annotated[Path | None, option(JUDGE, "Folder for audit.json (default: not written).")] = None,
    rows: Annotated[int | None, option(WHERE, "Largest number of subjects to name (40).")] = None,
) -> int:
    """Judge run folders, or logs of others, even incomplete ones. Nothing is trained.

    Parameters
    ----------
    paths
        Run folders, folders of runs, or log files.
    """
    from walkback.audits import judge_paths

    check_rows(rows)
    audit = _read(judge_paths, paths, judging)
    return show_audit(audit, out, judging.strict, rows)


@app.command
def report(
    *paths: Paths,
    to: Annotated[Path, option(WHERE, "The file to write.")] = Path("report.html"),
    open: Annotated[bool, option(WHERE, "Open the page in your browser.", negative="")] = False,
    judging: Judging = Judging(),
) -> int:
    """Write one HTML page about run folders or logs: claims, findings, evidence. Nothing is trained.

    Parameters
    ----------
    paths
        Run folders, folders of runs, or log files.
    """
    from walkback.audits import report_paths

    audit = _read(report_paths, paths, judging, source=[*map(str, paths), *judging.words()])
    give_page(audit, to)
    if open:
        open_page(to)
    return judging.exit_status(audit)


@app.command
def compare(
    before: Path,
    after: Path,
    *,
    to: Annotated[Path | None, option(WHERE, "HTML page to write (default: none).")] = None,
    open: Annotated[bool, option(WHERE, "Open the page in your browser (with --to).", negative="")] = False,
) -> int:
    """Compare two audits: which answers, findings and settings differ, and why. Nothing is trained.

    Parameters
    ----------
    before
        An audit.json, a folder of runs, or a log.
    after
        The other one.
    """
    from walkback.audits import compare_paths
    from walkback.report.compare import print_comparison
    from walkback.report.numbers import relative
    from walkback.report.page import write_comparison

    if open and to is None:
        raise BadValue("--open needs a page", "name one with --to compare.html")
    found = compare_paths(before, after)
    console = make_console()
    print_comparison(found, console)
    if to is not None:
        console.print(f"Page in {relative(write_comparison(found, to))}", style="dim", soft_wrap=True)
        if open:
            open_page(to)
    return 0


@app.command
def table(
    *paths: Paths,
    format: TableFormat = "text",
    to: TableFolder = None,
    judging: Judging = Judging(),
) -> int:
    """Print an audit as tables: the answers, what each check found, the controls. Nothing is trained.

    Parameters
    ----------
    paths
        An audit.json, run folders, folders of runs, or log files.
    """
    from walkback.audits import audits_of
    from walkback.report.audit_tables import audit_tables

    audits = _read(audits_of, paths, judging)
    for number, audit in enumerate(audits, 1):
        for each in audit_tables(audit, "audit" if number == 1 else f"audit-{number}"):
            give_table(each, format, to)
    return judging.exit_status(*audits)


@app.command
def form(
    *paths: Paths,
    format: Annotated[Literal["markdown", "latex"], option(WHERE, "Output format.")] = "markdown",
    to: Annotated[Path | None, option(WHERE, "File to write (default: print).")] = None,
    judging: Judging = Judging(),
) -> int:
    """Fill in the reporting form of a paper from its records. What they do not say stays blank.

    Parameters
    ----------
    paths
        Run folders, folders of runs, log files, or an audit.json.
    """
    from walkback.audits import audits_of
    from walkback.report.form import fill, rendered, write_form
    from walkback.report.numbers import relative

    audits = _read(audits_of, paths, judging)
    forms = (fill(case, audit) for audit in audits for case in audit.cases)
    if to is None:
        sys.stdout.writelines(rendered(forms, format))
    print("" if to is None else relative(write_form(forms, format, to)))
    return judging.exit_status(*audits)
