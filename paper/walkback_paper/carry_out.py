"""What is done with a study: train its runs, measure what needs no training, print its tables, draw."""

import math
import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.text import Text

from walkback.checks import DEFAULT
from walkback.records import RunConfig, sittings_of
from walkback.report import Table, print_table, relative
from walkback.train import Event, train_all
from walkback_paper.base import Collected, Extent, Study, distinct, gather, in_order, next_up


def carry_out(
    study: Study, extent: Extent, places: Sequence[Path], figures: Path, console: Console,
    data_folder: Path | None = None,
) -> None:  # fmt: skip
    """Measure, print and draw one study from the runs in some folders."""
    measure(study, extent, places, data_folder)
    gathered = gather(study, extent, *places)
    if words := nothing(study, gathered):
        console.print(words, soft_wrap=True)
    for table in tables(study, gathered):
        print_table(table, console)
    console.print()
    for path in draw(study, gathered, figures):
        console.print(Text(f"Written to {relative(path)}", "dim"), soft_wrap=True)


def nothing(study: Study, gathered: Collected) -> str:
    """The one sentence of a study of which no run is finished; it has no tables and no figures."""
    command = f"walkback study run {study.name}{gathered.extent.words()}"
    return "" if gathered.every() else f"No run of {study.name} is finished: `{command}` trains them."


def measure(study: Study, extent: Extent, places: Sequence[Path], data_folder: Path | None = None) -> None:
    """What a study measures without training, for the finished runs that lack it."""
    if study.measure is not None:
        study.measure(gather(study, extent, *places), data_folder)


def tables(study: Study, gathered: Collected) -> list[Table]:
    """The tables of a study, each with a footnote that names the thresholds and what the runs were trained with."""
    if nothing(study, gathered):
        return []
    versions = {f"walkback {s.walkback}, torch {s.torch}" for s in sittings_of(*gathered.every())}
    trained = f"; trained with {' and '.join(sorted(versions))}" if versions else ""
    footnote = f"Thresholds {DEFAULT.version}{trained}."
    return [replace(table, notes=[*table.notes, footnote]) for table in study.tables(gathered)]


def train_studies(
    wanted: Sequence[Study],
    extent: Extent,
    out: Path,
    elsewhere: Sequence[Path] = (),
    *,
    tell: Callable[[Event], object] = lambda _: None,
    expect: Callable[[Sequence[RunConfig]], object] = lambda _: None,
    budget: float | None = None,
    **how: Any,
) -> None:
    """Train what the studies need and is in none of the folders; then what follows from the records of that.

    tell    hears of every event; its index counts all configs that `expect` was given so far
    budget  in seconds, for all of it; `how` as for `train_all`
    """
    finished = {path.name for place in elsewhere if place.is_dir() for path in place.iterdir()}
    end = math.inf if budget is None else time.monotonic() + budget
    tried: set[str] = set()
    given, ended = 0, 0

    def count(event: Event) -> None:
        nonlocal ended
        ended += event.kind != "progress"
        tell(replace(event, index=before + event.index))

    while stage := next_up(in_order(wanted, extent, out, *elsewhere), tried):
        tried |= {config.hash() for config in stage}
        todo = [config for config in stage if config.folder() not in finished]
        before, given = given, given + len(todo)
        expect(todo)
        seconds = None if budget is None else max(end - time.monotonic(), 1e-9)
        train_all(todo, out, tell=count, budget=seconds, **how)
        if ended < given:  # it was interrupted, or the time is up
            break


def draw(study: Study, gathered: Collected, folder: Path) -> list[Path]:
    """Write the figures of a study that show something."""
    from walkback_paper.figures import save, style

    written: list[Path] = []
    for name, make in study.figures.items() if gathered.every() else ():
        with style():
            figure = make(gathered)
            written += [] if figure is None else save(figure, folder, name)
    return written


def catalogue(studies: Sequence[Study], extent: Extent, *places: Path) -> Table:
    """Every study with its question, and how many of its runs are finished."""
    rows = []
    for study in studies:
        gathered = gather(study, extent, *places)
        arms = gathered.arms.values()
        count = len(distinct(arms)) + sum(len(arm.waiting) for arm in arms)
        rows.append([study.name, study.asks, f"{len(gathered.every())} of {count}", ", ".join(study.figures)])
    return Table("studies", "Studies", ["study", "asks", "runs there", "figures"], rows)
