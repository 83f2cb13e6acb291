"""What is done with a study once its runs are there: measure what needs no training, print its tables, draw."""

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from rich.console import Console

from walkback.checks import DEFAULT
from walkback.report.numbers import relative
from walkback.report.tables import Table, print_table
from walkback.studies.base import Extent, Gathered, Study, gather


def carry_out(
    study: Study, extent: Extent, runs: Path, figures: Path, console: Console, data_folder: Path | None = None
) -> None:
    """Measure, print and draw one study from the runs in a folder."""
    gathered = gather(study, extent, runs)
    if study.measure is not None:
        study.measure(gathered, data_folder)
        gathered = gather(study, extent, runs)
    for table in tables(study, gathered):
        print_table(table, console)
    console.print()
    for path in draw(study, gathered, figures):
        console.print(f"Written to {relative(path)}", style="dim", soft_wrap=True)


def tables(study: Study, gathered: Gathered) -> list[Table]:
    """The tables of a study, each with a footnote that names the thresholds and what the runs were trained with."""
    sittings = [s for run in gathered.every() if run.environment is not None for s in run.environment.sittings]
    versions = {f"walkback {s.walkback}, torch {s.torch}" for s in sittings}
    trained = f"; trained with {' and '.join(sorted(versions))}" if versions else ""
    footnote = f"Thresholds {DEFAULT.version}{trained}."
    return [replace(table, notes=[*table.notes, footnote]) for table in study.tables(gathered)]


def draw(study: Study, gathered: Gathered, folder: Path) -> list[Path]:
    """Write the figures of a study."""
    from walkback.report.figures import save, style

    written = []
    for name, make in study.figures.items():
        with style():
            written += save(make(gathered), folder, name)
    return written


def catalogue(studies: Sequence[Study], extent: Extent, *places: Path) -> Table:
    """Every study with its question, and how many of its runs are there."""
    rows = []
    for study in studies:
        there = gather(study, extent, *places)
        rows.append([
            study.name, study.asks, f"{len(there.every())} of {len(study.configs(extent))}", ", ".join(study.figures)
        ])  # fmt: skip
    return Table("studies", "Studies", ["study", "asks", "runs there", "figures"], rows)
