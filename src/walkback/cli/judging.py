"""The commands that judge and show what is there: `judge`, `report`, `compare`, `table`, `form`. Nothing is trained."""

from pathlib import Path
from typing import Annotated, Literal

from cyclopts import Parameter

from walkback.cli.app import app
from walkback.cli.options import JUDGE, STRICT, WHERE, Judging, check_rows, option
from walkback.cli.shown import give_page, give_table, make_console, open_page, progress, show_audit
from walkback.errors import BadValue


@app.command
def judge(
    *paths: Annotated[Path, Parameter(json_list=False)],
    frozen: Annotated[float | None, option(JUDGE, "Accuracy of the rule's own frozen net, if known.")] = None,
    protocol: Annotated[
        Literal["ours", "published"] | None, option(JUDGE, "Whose protocol to judge by (ours).")
    ] = None,
    thresholds: Annotated[Path | None, option(JUDGE, "A file with your own thresholds.")] = None,
    strict: Annotated[bool, STRICT] = False,
    out: Annotated[Path | None, option(JUDGE, "Folder to write audit.json to (default: none is written).")] = None,
    rows: Annotated[int | None, option(WHERE, "Subjects that are named at most (40).")] = None,
) -> int:
    """Judge run folders, or logs that others left, however incomplete. Nothing is trained.

    Parameters
    ----------
    paths
        Run folders, folders that hold runs, or log files.
    """
    from walkback.audits import judge_crowd
    from walkback.audits.workers import usual_count

    given = Judging(frozen, protocol, thresholds).given()
    check_rows(rows)
    with progress() as note:
        found, _ = judge_crowd(*paths, **given, note=note, processes=usual_count())
    return show_audit(found, out, strict, rows)


@app.command
def report(
    *paths: Annotated[Path, Parameter(json_list=False)],
    to: Annotated[Path, option(WHERE, "The file to write.")] = Path("report.html"),
    open: Annotated[bool, option(WHERE, "Open the page in your browser.", negative="")] = False,
    judging: Judging = Judging(),
) -> int:
    """Write one HTML page of run folders or logs: what was claimed, what is found, the evidence. Nothing is trained.

    Parameters
    ----------
    paths
        Run folders, folders that hold runs, or log files.
    """
    from walkback.audits import report_paths

    material = report_paths(*paths, **judging.given(), source=[*map(str, paths), *judging.words()])
    give_page(material, to)
    if open:
        open_page(to)
    return judging.exit_status(material.audit)


@app.command
def compare(
    before: Path,
    after: Path,
    *,
    to: Annotated[Path | None, option(WHERE, "A page to write (none is written without it).")] = None,
    open: Annotated[bool, option(WHERE, "Open the page in your browser (with --to).", negative="")] = False,
) -> int:
    """Compare two audits: which verdicts, findings and settings differ, and why. Nothing is trained.

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
    from walkback.report.page.comparison import write_comparison

    if open and to is None:
        raise BadValue("there is no page to open", "name one with --to compare.html")
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
    *paths: Annotated[Path, Parameter(json_list=False)],
    format: Annotated[Literal["text", "markdown", "csv", "latex"], option(WHERE, "Output format.")] = "text",
    to: Annotated[Path | None, option(WHERE, "Folder to write to, one file per table (default: print).")] = None,
    judging: Judging = Judging(),
) -> int:
    """Print an audit as tables: the verdicts, what each check found, the controls. Nothing is trained.

    Parameters
    ----------
    paths
        An audit.json, run folders, folders that hold runs, or log files.
    """
    from walkback.audits import told_by
    from walkback.audits.workers import usual_count
    from walkback.report.audit_tables import audit_tables

    with progress() as note:
        all_told = told_by(*paths, **judging.given(), cases=False, note=note, processes=usual_count())
    for number, told in enumerate(all_told, 1):
        for each in audit_tables(told.audit, told.runs, "audit" if number == 1 else f"audit-{number}"):
            give_table(each, format, to)
    return judging.exit_status(*(told.audit for told in all_told))


@app.command
def form(
    *paths: Annotated[Path, Parameter(json_list=False)],
    format: Annotated[Literal["markdown", "latex"], option(WHERE, "Output format.")] = "markdown",
    to: Annotated[Path | None, option(WHERE, "File to write (default: print).")] = None,
    judging: Judging = Judging(),
) -> int:
    """Fill in the reporting form of a paper from its records; what they do not say stays blank.

    Parameters
    ----------
    paths
        Run folders, folders that hold runs, log files, or an audit.json.
    """
    from walkback.audits import told_by
    from walkback.report.form import fill, render, write_form
    from walkback.report.numbers import relative

    all_told = told_by(*paths, **judging.given())
    forms = [fill(case) for told in all_told for case in told.cases]
    print(render(forms, format) if to is None else relative(write_form(forms, format, to)))
    return judging.exit_status(*(told.audit for told in all_told))
