"""The commands of the paper's experiments: `study list`, `run`, `draw`, `table`, `time`."""

import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Annotated, Any

from cyclopts import App, Parameter

from walkback.cli.app import app, give_table, make_console
from walkback.cli.options import (
    WHERE,
    Executing,
    FigureFolder,
    Places,
    StudyName,
    TableFolder,
    TableFormat,
    Which,
    by_comma,
    option,
    paper,
    read_seconds,
)
from walkback.errors import BadValue
from walkback.plain import seen

study_app = App(name="study", help="The paper's experiments: run them, draw their figures, print their tables.")
app.command(study_app)


def _studies(names: tuple[str, ...]) -> list[Any]:
    studies, known = paper().studies, paper().STUDIES
    wanted = list(dict.fromkeys(names))
    if not wanted:
        raise BadValue("no study is given", f"give one or more of {', '.join(known.names())}, or all")
    return studies() if "all" in wanted else [known.get(name) for name in wanted]


def _gathered(names: tuple[str, ...], which: Which, records: list[Path] | None) -> Iterator[tuple[Any, Any]]:
    """The studies, each with what its records tell."""
    for study in _studies(names):
        yield study, paper().gather(study, which.extent(), *(records or [Path("runs")]))


@study_app.command(name="list")
def study_list(
    *, which: Which = Which(), out: Annotated[Path, Parameter(help="Folder of the runs.")] = Path("runs")
) -> int:
    """List the studies, the question of each, and how many of its runs are finished."""
    from walkback.report.tables import print_table

    catalogue, studies = paper().catalogue, paper().studies
    print_table(catalogue(studies(), which.extent(), out), make_console())
    return 0


@study_app.command(name="run")
def study_run(
    *names: StudyName,
    which: Which = Which(),
    out: Annotated[Path, option(WHERE, "Folder of the runs.")] = Path("runs"),
    to: FigureFolder = None,
    records: Annotated[
        list[Path] | None, option(WHERE, "Folders with finished runs, which are not trained again.", name="--from")
    ] = None,
    budget: Annotated[str | None, option(WHERE, "Stop after this long (150m, 2h); the same command resumes.")] = None,
    executing: Executing = Executing(),
) -> int:
    """Train the missing runs of a study, print its tables and draw its figures.

    All studies and commands share their runs. Stop it any time: the same
    command resumes. With a budget, the runs that matter most come first, and
    the rest is listed at the end.
    """
    from walkback.report.terminal import LiveTable

    of = paper()
    wanted, extent, seconds = _studies(names), which.extent(), read_seconds(budget)
    console = make_console()
    live = LiveTable([], console)
    with live as tell:
        of.train_studies(
            wanted, extent, out, records or (), tell=tell, expect=live.expect, budget=seconds, **executing.given()
        )  # fmt: skip
    places = [out, *(records or ())]
    if seconds is not None:
        for study in wanted:
            of.measure(study, extent, places, executing.data_folder)
        console.print(seen(of.left(of.in_order(wanted, extent, *places), *places)), soft_wrap=True)
        return 0
    status = live.farewell()
    if live.interrupted or live.submitted:
        return status
    for study in wanted:
        of.carry_out(study, extent, places, _figures(to, which), console, executing.data_folder)
    return status


@study_app.command(name="draw")
def study_draw(
    *names: StudyName,
    which: Which = Which(),
    records: Places = None,
    to: FigureFolder = None,
) -> int:
    """Draw the figures of a study, as PDF and PNG, from records. A note names the missing runs."""
    from walkback.report.writing import relative

    draw, nothing = paper().draw, paper().nothing
    for study, gathered in _gathered(names, which, records):
        if words := nothing(study, gathered):
            print(words)
        for path in draw(study, gathered, _figures(to, which)):
            print(relative(path))
    return 0


@study_app.command(name="table")
def study_table(
    *names: StudyName,
    which: Which = Which(),
    records: Places = None,
    format: TableFormat = "text",
    to: TableFolder = None,
) -> int:
    """Print the tables of a study from records. Missing runs are named."""
    nothing, tables = paper().nothing, paper().tables
    for study, gathered in _gathered(names, which, records):
        if words := nothing(study, gathered):
            print(words, file=sys.stderr if format != "text" and to is None else sys.stdout)
        for each in tables(study, gathered):
            give_table(each, format, to)
    return 0


@study_app.command(name="time")
def study_time(
    *names: StudyName,
    which: Which = Which(),
    cores: Annotated[str, option(WHERE, "Numbers of cores, separated by commas.")] = "2,32,512",
    overhead: Annotated[float, option(WHERE, "Overhead per run in seconds (`make bench-executors`).")] = 0.0,
    records: Places = None,
    format: TableFormat = "text",
    to: TableFolder = None,
) -> int:
    """Estimate how long studies take on a number of cores, from the measured seconds of finished runs."""
    of = paper()
    try:
        counts = [int(word) for word in by_comma(cores)]
    except ValueError:
        counts = []
    if not counts or not 0 <= overhead < float("inf"):
        given = f"--cores {cores} --overhead {overhead:g}"
        raise BadValue(f"{given} is not possible", "write --cores 2,32,512 --overhead 3")
    places = records or [Path("runs")]
    arms = of.in_order(_studies(names), which.extent(), *places)
    configs = list({config.hash(): config for arm in arms for config in arm.configs or arm.waiting}.values())
    give_table(of.sizing(configs, places, counts, overhead), format, to)
    return 0


def _figures(to: Path | None, which: Which) -> Path:
    return to if to is not None else Path("figures/quick" if which.quick else "figures")
