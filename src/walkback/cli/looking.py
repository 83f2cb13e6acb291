"""The commands that look things up: `list`, `card`, `show`, `export`, `reproduction`, `simulate`."""

from pathlib import Path
from typing import Annotated, Literal

from cyclopts import Parameter

from walkback.cli.app import app
from walkback.cli.options import WHAT, WHERE, check_rows, option, paper, read_options
from walkback.cli.shown import give_table, make_console, progress
from walkback.errors import BadValue, WalkbackError
from walkback.files import is_folder
from walkback.plain import lines, seen


@app.command
def card(
    *rules: Annotated[str, Parameter(json_list=False)],
    rule_option: Annotated[list[str] | None, option(WHAT, "Option of the rules, as name=value.", negative="")] = None,
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
    *places: Annotated[Path, Parameter(json_list=False)],
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
def export(*places: Annotated[Path, Parameter(json_list=False)], to: Path) -> int:
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
def reproduction(*places: Annotated[Path, Parameter(json_list=False)]) -> int:
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
    format: Annotated[Literal["text", "markdown", "csv", "latex"], option(WHERE, "Output format.")] = "text",
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
