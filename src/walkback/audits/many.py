"""Many runs, or logs, judged one subject at a time: what `judge` and `table` call. Without pages, and without torch."""

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import NamedTuple

from walkback.audits.controls import Here, settled, ways
from walkback.audits.crowd import AT_ONCE, Crowd
from walkback.audits.grouped import outlines_of
from walkback.audits.index import open_index
from walkback.audits.workers import Workers, batches, few_collections
from walkback.checks import Audit, Protocol, Thresholds
from walkback.errors import BadValue
from walkback.files import is_folder
from walkback.records import Baseline, find_runs, join_seeds, read_foreign, read_run
from walkback.records.outline import Outline, read_outlines
from walkback.records.rates import ChosenRates, find_trials
from walkback.records.run import Known
from walkback.records.training import RECORD, find_trainings

Note = Callable[[str, int, int], object]
MANY = 500  # runs: fewer are read by this process before others have started


def judge_crowd(
    *paths: Path | str,
    baselines: Mapping[str, Baseline] | None = None,
    thresholds: Thresholds | None = None,
    protocol: Protocol | None = None,
    note: Note = lambda *_: None,
    processes: int = 0,
) -> tuple[Audit, Sequence[Known]]:
    """The same audit, without what a page would need, of thousands of runs: one subject is judged at a time.

    The outlines of all runs are beside it. `note` is told what is being done, how much of it, and of how much.
    Trainings of somebody's own loop are read all at once. With `processes`, so many read and judge where runs are many;
    what was registered in this process they do not know.
    """
    folders, _ = folders_and_logs(paths)
    if folders and find_trainings(*folders):
        from walkback.audits.records import gather  # here: it brings what pages are drawn with, and torch

        gathered, runs, own, rates = gather(paths, baselines)
        return settled(Here.of(gathered, runs, own, rates), audits_beside(paths), thresholds, protocol)[0], runs
    many = judge_many(paths, baselines, thresholds, protocol, note, processes)
    return many.audit, many.crowd.outlines


class Many(NamedTuple):
    """Run folders and logs, judged: the audit that is shown, every judgement in the order of the crowd, the crowd."""

    audit: Audit
    every: Audit
    crowd: Crowd


def judge_many(
    paths: Sequence[Path | str], baselines: Mapping[str, Baseline] | None, thresholds: Thresholds | None,
    protocol: Protocol | None, note: Note, processes: int,
) -> Many:  # fmt: skip
    """`judge_crowd` of run folders and logs, with all that was found on the way."""
    folders, logs = folders_and_logs(paths)
    audits = audits_beside(paths)
    found = find_runs(*folders) if folders else []
    if folders and not found:
        raise no_runs(folders)
    with few_collections(), Workers(processes if len(found) >= MANY else 0) as workers:
        index = open_index(folders, len(found))
        outlines = _outlines(found, partial(note, "read"), workers, index.knows_any)
        foreign = join_seeds([evidence for path in logs for evidence in read_foreign(path)])
        rates = ChosenRates(read_run(path) for path in find_trials(*folders))
        crowd = Crowd(
            outlines, foreign, baselines, index, partial(note, "judged"), workers if workers.count else None, rates
        )
        if not crowd.groups and not foreign:
            raise no_subject()
        here = crowd.here(ways(audits, thresholds, protocol))
    return Many(*settled(here, audits, thresholds, protocol), crowd)


def _outlines(
    paths: Sequence[Path], note: Callable[[int, int], object], workers: Workers, whole: bool
) -> list[Outline]:
    """The outlines of some folders, in their order; if one is refused, the first of them. `whole`: with digests."""
    if not workers.count:
        return read_outlines(paths, note, whole)
    parts = batches(paths, lambda _: 1, AT_ONCE)
    found: dict[int, list[Outline]] = {}
    done = 0
    for place, outlines in workers.each(partial(outlines_of, whole=whole), parts):
        if outlines is None:
            return read_outlines(paths, note, whole)
        found[place] = outlines
        note(done := done + len(outlines), len(paths))
    return [outline for _, outlines in sorted(found.items()) for outline in outlines]


def audits_beside(paths: Sequence[Path | str]) -> dict[Path, Audit]:
    """Every audit.json that lies with the runs: in a folder that is named, or in the one around a run that is named."""
    places: dict[Path, None] = {}
    for path in map(Path, paths):
        if is_folder(path):
            one = (path / "config.json").exists() or (path / RECORD).exists()
            places[path.parent if one else path] = None
    return {place / "audit.json": audit for place in places if (audit := Audit.beside(place)) is not None}


def folders_and_logs(paths: Sequence[Path | str]) -> tuple[list[Path], list[Path]]:
    """Which of the paths are folders, and which are log files."""
    if not paths:
        raise BadValue("no path is given", "give run folders, or log files")
    every = [Path(path) for path in paths]
    return [path for path in every if is_folder(path)], [path for path in every if not is_folder(path)]


def no_runs(folders: Sequence[Path]) -> BadValue:
    """What is said where no run is."""
    return BadValue(f"no runs in {', '.join(map(str, folders))}", "give a folder that `walkback train` made")


def no_subject() -> BadValue:
    """What is said where there is nothing but baselines."""
    return BadValue("the runs named are baselines without a subject", "name the runs that they are baselines of")


def nothing_to_judge(path: Path) -> BadValue:
    """What is said to one who would have an audit judged otherwise of which no run is there."""
    return BadValue(
        f"{path} {'holds' if is_folder(path) else 'is'} an audit.json without runs, so it cannot be judged again",
        "leave --protocol, --thresholds and --frozen out, or name the runs",
    )
