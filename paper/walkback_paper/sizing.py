"""What studies would take on so many cores: from the measured seconds of runs that are there, and of an executor.

A run that is there counts with the seconds that its processes noted. One that is not takes, per epoch, as long as the
median of the runs of its data, net and rule, else of its data and net; one of which nothing is known is named.
"""

import heapq
import json
import statistics
from collections.abc import Sequence
from pathlib import Path

from walkback.errors import BadValue, RecordError
from walkback.records import Run, RunConfig, find_runs, read_run, sittings_of
from walkback.report import Table, duration
from walkback_paper.base import Arm, distinct


class Paces:
    """How long runs take, by the finished runs in some folders."""

    def __init__(self, configs: Sequence[RunConfig], places: Sequence[Path]):
        here = {path.name: path for place in places if place.is_dir() for path in find_runs(place)}
        self.done = {c.folder(): run for c in configs if (run := _finished(here.get(c.folder()))) is not None}
        self._paces: dict[tuple[str, ...], list[float]] = {}
        for run in self.done.values():
            if (spent := seconds_of(run)) and run.result is not None and run.result.epochs:
                for kind in _kinds(run.config):
                    self._paces.setdefault(kind, []).append(spent / run.result.epochs)

    def of(self, config: RunConfig) -> float | None:
        """About how many seconds it takes, by the nearest runs of which that is known."""
        pace = next((self._paces[kind] for kind in _kinds(config) if kind in self._paces), None)
        return None if pace is None else config.epochs * statistics.median(pace)


def _finished(path: Path | None) -> Run | None:
    """A run that ended, of a folder that can be read."""
    try:
        run = None if path is None else read_run(path)
    except RecordError:
        return None
    return run if run is not None and run.result is not None else None


def _kinds(config: RunConfig) -> list[tuple[str, ...]]:
    """What a run's pace is known by, the nearest first."""
    sizes = json.dumps(config.net_options, sort_keys=True)
    return [(config.data, config.net, sizes, config.rule), (config.data, config.net, sizes), (config.data, config.net)]


def seconds_of(run: Run) -> float | None:
    """Seconds of all its sittings, of the processor where they are recorded: a clock on the wall also counts what else
    the machine did. None if one of them was killed and left no word."""
    each = [s.seconds if s.cpu_seconds is None else s.cpu_seconds for s in sittings_of(run)]
    return sum(s for s in each if s is not None) if each and None not in each else None


def sizing(configs: Sequence[RunConfig], places: Sequence[Path], cores: Sequence[int], overhead: float) -> Table:
    """A row per number of cores: how long, how busy the cores are, and what bounds it."""
    paces = Paces(configs, places)
    own = {name: seconds for name, run in paces.done.items() if (seconds := seconds_of(run)) is not None}
    known = {c.folder(): seconds for c in configs if (seconds := own.get(c.folder(), paces.of(c))) is not None}
    unknown = [config for config in configs if config.folder() not in known]
    if not known:
        raise BadValue(
            f"no run like these {len(configs)} is finished, so their time is not known",
            "train a few first, or name a folder that holds some with --from",
        )
    each = [seconds + overhead for seconds in known.values()]
    rows = []
    for count in cores:
        if count < 1:
            raise BadValue(f"{count} cores train nothing", "give --cores 2,32,512")
        wall = makespan(each, count)
        longest = makespan(sorted(each, reverse=True), count)
        busy = sum(known.values()) / (wall * count)
        rows.append([str(count), duration(wall), duration(longest), f"{busy:.0%}"])
    notes = [
        f"{len(each)} runs, {sum(known.values()) / 3600:.1f} core hours; {len(own)} of them measured, the others "
        f"estimated from similar runs; the longest takes {duration(max(known.values()))}. "
        f"Overhead {overhead:g} s per run.",
    ]
    if unknown:
        names = ", ".join(dict.fromkeys(f"{c.net} {c.label()} on {c.data}" for c in unknown[:20]))
        notes.append(f"Left out, because their time is not known: {len(unknown)} runs ({names}).")
    headings = ["cores", "in the studies' order", "longest first", "cores at work"]
    return Table("time", "How long the studies take", headings, rows, notes=notes)


def left(arms: Sequence[Arm], *places: Path) -> str:
    """Which runs are not there yet, in words, and about how long they take on one core, by those that are."""
    configs = distinct(arms)
    waiting = [config for arm in arms for config in arm.waiting]
    paces = Paces(configs, places)
    missing = [config for config in configs if config.folder() not in paces.done]
    if not missing and not waiting:
        return f"All {len(configs)} runs are finished."
    each = [paces.of(config) for config in [*missing, *waiting]]
    seconds, unknown = sum(s for s in each if s is not None), each.count(None)
    about = f"about {duration(seconds)} on one core" if seconds else "their time is not known yet"
    more = f" and {unknown} of unknown length" if unknown and seconds else ""
    names = ", ".join(dict.fromkeys(f"{c.net} {c.label()} ({c.epochs} epochs)" for c in missing[:40]))
    follow = f" and {len(waiting)} that follow from them" if waiting else ""
    then = f". Next: {names}" if missing else ""
    return f"{len(missing)} of {len(configs)} runs{follow} are left, {about}{more}{then}"


def makespan(seconds: Sequence[float], cores: int) -> float:
    """When the last of these runs ends, if every free core takes the next in order.

    >>> makespan([3, 3, 3, 3], 2)
    6.0
    >>> makespan([1, 1, 5], 2), makespan([5, 1, 1], 2)
    (6.0, 5.0)
    """
    free = [0.0] * max(1, min(cores, len(seconds)))
    for each in seconds:
        heapq.heapreplace(free, free[0] + each)
    return max(free)
