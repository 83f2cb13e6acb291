"""What studies would take on so many cores: from the measured seconds of runs that are there, and of an executor.

A run that is there counts with the seconds that its processes noted. One that is not takes, per epoch, as long as the
median of the runs of its data, net and rule, else of its data and net; one of which nothing is known is named.
"""

import statistics
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from walkback.errors import BadValue
from walkback.records import Run, RunConfig, find_runs
from walkback.report.numbers import duration
from walkback.report.tables import Table
from walkback.studies.carry_out import finished, kinds
from walkback.train.makespan import makespan


@dataclass(frozen=True)
class Measured:
    """Seconds of each run whose pace is known, and the runs of which nothing is."""

    seconds: list[float]
    there: int  # of these, how many were measured themselves
    unknown: list[RunConfig]


def measured(configs: Sequence[RunConfig], places: Sequence[Path]) -> Measured:
    """How long each of these runs takes on one core, as far as the runs in some folders tell."""
    here = {path.name: path for place in places for path in find_runs(place)}
    runs = {config.folder(): finished(here.get(config.folder())) for config in configs}
    paces: dict[tuple[str, ...], list[float]] = {}
    for run in runs.values():
        if run is not None and (spent := seconds_of(run)) and run.result is not None and run.result.epochs:
            for kind in kinds(run.config):
                paces.setdefault(kind, []).append(spent / run.result.epochs)
    seconds, there, unknown = [], 0, []
    for config in configs:
        run = runs[config.folder()]
        spent = None if run is None else seconds_of(run)
        pace = next((paces[kind] for kind in kinds(config) if kind in paces), None)
        if spent is not None:
            there += 1
            seconds.append(spent)
        elif pace is not None:
            seconds.append(config.epochs * statistics.median(pace))
        else:
            unknown.append(config)
    return Measured(seconds, there, unknown)


def seconds_of(run: Run) -> float | None:
    """Seconds of all its sittings; None if one of them was killed and left no word."""
    each = [sitting.seconds for sitting in run.environment.sittings] if run.environment is not None else []
    return sum(s for s in each if s is not None) if each and None not in each else None


def sizing(configs: Sequence[RunConfig], places: Sequence[Path], cores: Sequence[int], overhead: float) -> Table:
    """A row per number of cores: how long, how busy the cores are, and what bounds it."""
    found = measured(configs, places)
    if not found.seconds:
        raise BadValue(
            f"nothing is known of how long these {len(configs)} runs take: none like them is finished there",
            "train a few first, or name a folder that holds some with --from",
        )
    each = [seconds + overhead for seconds in found.seconds]
    rows = []
    for count in cores:
        if count < 1:
            raise BadValue(f"{count} cores train nothing", "give --cores 2,32,512")
        wall = makespan(each, count)
        longest = makespan(sorted(each, reverse=True), count)
        busy = sum(found.seconds) / (wall * count)
        rows.append([str(count), duration(wall), duration(longest), f"{busy:.0%}"])
    notes = [
        f"{len(each)} runs, {sum(found.seconds) / 3600:.1f} core hours; {found.there} of them measured, the others at "
        f"the pace of those like them; the longest takes {duration(max(found.seconds))}. "
        f"Overhead {overhead:g} s per run.",
    ]
    if found.unknown:
        names = ", ".join(dict.fromkeys(f"{c.net} {c.label()} on {c.data}" for c in found.unknown[:20]))
        notes.append(f"Left out, since nothing is known of their pace: {len(found.unknown)} runs ({names}).")
    headings = ["cores", "in the studies' order", "longest first", "cores at work"]
    return Table("time", "How long the studies take", headings, rows, notes=notes)
