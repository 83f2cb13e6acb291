"""What is done with a study once its runs are there: measure what needs no training, print its tables, draw."""

from collections.abc import Sequence
from pathlib import Path

from rich.console import Console

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
    for table in study.tables(gathered):
        print_table(table, console)
    console.print()
    for path in draw(study, gathered, figures):
        console.print(f"Written to {relative(path)}", style="dim", soft_wrap=True)


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
