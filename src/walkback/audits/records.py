"""Records as they are: run folders, and logs that others left. Nothing is trained or measured."""

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import Path

from walkback.audits.controls import Here, judged, settled, ways
from walkback.audits.crowd import Crowd, completed
from walkback.audits.index import open_index
from walkback.audits.subjects import runs_by_subject
from walkback.checks import Audit, Protocol, Thresholds, fires_at, in_order
from walkback.errors import BadValue
from walkback.files import is_folder
from walkback.records import (
    Baseline,
    Evidence,
    Run,
    RunConfig,
    Snapshot,
    find_runs,
    join_seeds,
    moment_of_snapshot,
    read_foreign,
    read_run,
)
from walkback.records.outline import Outline, read_outlines
from walkback.report.page import Material, Subject

Note = Callable[[str, int, int], object]
Gathered = list[tuple[Evidence, list[Run]]]


def judge_paths(
    *paths: Path | str,
    baselines: Mapping[str, Baseline] | None = None,
    thresholds: Thresholds | None = None,
    protocol: Protocol | None = None,
    note: Note = lambda *_: None,
) -> Audit:
    """Judge run folders, and logs that others left, however incomplete; nothing is trained or measured.

    `baselines` (frozen, frozen_bp, bp, shallow) are taken for every subject that does not bring its own. Controls that
    are among the runs are judged too: an audit whose controls misbehave is invalid, here as where it was made.
    Thousands of runs are judged one subject at a time. `note` is told what is being done, how much of it, of how much.
    """
    return judge_crowd(paths, baselines, thresholds, protocol, note)[0]


def judge_crowd(
    paths: Sequence[Path | str],
    baselines: Mapping[str, Baseline] | None = None,
    thresholds: Thresholds | None = None,
    protocol: Protocol | None = None,
    note: Note = lambda *_: None,
) -> tuple[Audit, Sequence[Outline]]:
    """The same with the outlines of all runs beside it."""
    folders, logs = _folders_and_logs(paths)
    found = find_runs(*folders) if folders else []
    if folders and not found:
        raise _no_runs(folders)
    outlines = read_outlines(found, partial(note, "read"))
    foreign = join_seeds([evidence for path in logs for evidence in read_foreign(path)])
    crowd = Crowd(outlines, foreign, baselines, open_index(folders, len(found)), partial(note, "judged"))
    if not crowd.groups and not foreign:
        raise _no_subject()
    audits = audits_beside(paths)
    shown, _ = settled(crowd.here(ways(audits, thresholds, protocol)), audits, thresholds, protocol)
    return shown, outlines


def audits_beside(paths: Sequence[Path | str]) -> dict[Path, Audit]:
    """Every audit.json that lies with the runs: in a folder that is named, or in the one around a run that is named."""
    places: dict[Path, None] = {}
    for path in map(Path, paths):
        if is_folder(path):
            places[path.parent if (path / "config.json").exists() else path] = None
    return {place / "audit.json": audit for place in places if (audit := Audit.read(place)) is not None}


def report_paths(
    *paths: Path | str,
    baselines: Mapping[str, Baseline] | None = None,
    thresholds: Thresholds | None = None,
    protocol: Protocol | None = None,
    source: Sequence[str] = (),
) -> Material:
    """The same with the records beside the judgements: what a page is drawn from.

    Controls are those that are among the runs, or that an audit.json beside them states. A folder with an audit.json
    and no runs is shown as it was judged. `source`: the command, as words.
    """
    folders = [Path(p) for p in paths if is_folder(Path(p))]
    audits = audits_beside(paths)
    if len(paths) == len(audits) == 1 and not find_runs(*folders):
        if baselines or thresholds is not None or protocol is not None:
            raise nothing_to_judge(folders[0])
        return Material.alone(next(iter(audits.values())), source)
    gathered, runs = gather(paths, baselines)
    shown, here = settled(Here.of(gathered, runs), audits, thresholds, protocol)
    return _material(shown, here, gathered, runs, source)


def nothing_to_judge(path: Path) -> BadValue:
    """What is said to one who would have an audit judged otherwise of which no run is there."""
    return BadValue(
        f"{path} {'holds' if is_folder(path) else 'is'} an audit.json and no runs: there is nothing to judge again",
        "leave --protocol, --thresholds and --frozen out, or name the runs",
    )


def report_audit(audit: Audit, runs: Sequence[Run], source: Sequence[str] = ()) -> Material:
    """What a page of an audit is drawn from: the runs that it was judged by."""
    gathered = runs_by_subject(runs)
    again = judged([evidence for evidence, _ in gathered], audit.thresholds, audit.protocol)
    return _material(audit, again, gathered, runs, source)


def gather(paths: Sequence[Path | str], baselines: Mapping[str, Baseline] | None = None) -> tuple[Gathered, list[Run]]:
    """The subjects that the paths tell of, with their runs if they are ours; and all runs."""
    folders, logs = _folders_and_logs(paths)
    runs = [read_run(path) for path in find_runs(*folders)] if folders else []
    if folders and not runs:
        raise _no_runs(folders)
    gathered = runs_by_subject(runs)
    gathered += [(e, []) for e in join_seeds([e for path in logs for e in read_foreign(path)])]
    if not gathered:
        raise _no_subject()
    return [(completed(evidence, baselines or {}), own) for evidence, own in gathered], runs


def _folders_and_logs(paths: Sequence[Path | str]) -> tuple[list[Path], list[Path]]:
    if not paths:
        raise BadValue("nothing to judge is named", "give run folders, or log files")
    every = [Path(path) for path in paths]
    return [path for path in every if is_folder(path)], [path for path in every if not is_folder(path)]


def _no_runs(folders: Sequence[Path]) -> BadValue:
    return BadValue(f"no runs in {', '.join(map(str, folders))}", "give a folder that `walkback train` made")


def _no_subject() -> BadValue:
    return BadValue("the runs named are baselines without a subject", "name the runs that they are baselines of")


def _material(shown: Audit, here: Audit, gathered: Gathered, runs: Sequence[Run], source: Sequence[str]) -> Material:
    """The subjects of the audit that is shown, and as controls whoever else was judged here."""
    judged = {j.name: Subject(j, e, own) for j, (e, own) in zip(here.subjects, gathered, strict=True)}
    if len(shown.subjects) == len(here.subjects):
        subjects, controls = [Subject(j, e, own) for j, (e, own) in zip(here.subjects, gathered, strict=True)], []
    else:
        subjects = [judged.pop(j.name) for j in shown.subjects]
        controls = [judged[name] for name in sorted(judged)]
    own = {run.path for subject in (*subjects, *controls) for run in subject.runs}
    others = sorted((run for run in runs if run.path not in own), key=lambda run: run.path.name)
    return Material(shown, subjects, controls, others, source)


def stopping(configs: Sequence[RunConfig]) -> Callable[[Snapshot], str | None]:
    """What tells a training of these configs, which are of one net, that a check fires and it should stop."""
    net = configs[0]
    return partial(fired_by, residual=net.residual)


def fired_by(snapshot: Snapshot, residual: bool | None = True) -> str | None:
    """Why a run that is to stop when a check fires should stop here: the stream, or the published floor.

    A plain net is held against itself at init, which a single snapshot does not know: there the floor alone stops it.
    """
    fires = fires_at(moment_of_snapshot(snapshot), residual=residual)
    dates = [date for check in in_order() for date in check.dates]
    return " and ".join(date.stops for date in dates if date.stops and fires[date.key]) or None
