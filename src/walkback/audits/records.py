"""Records as they are: run folders, trainings of loops, and logs that others left. Nothing is trained or measured."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any

from walkback.audits.spine import Note, audit_subjects
from walkback.checks import DEFAULT, Audit, Protocol, Thresholds, fires_at, in_order
from walkback.checks.sequential import looks_of, with_looks
from walkback.errors import BadValue, RecordError
from walkback.files import is_folder, parse_json, read_bytes
from walkback.records import (
    Baseline,
    BaselineName,
    Run,
    RunConfig,
    Snapshot,
    Subject,
    Training,
    find_runs,
    join_seeds,
    moment_of_snapshot,
    read_head,
    read_log,
    read_run,
    subjects_of_runs,
)
from walkback.records.card import cards_beside
from walkback.records.looks import Looks, read_looks
from walkback.records.loop_training import RECORD, find_loop_trainings, read_loops
from walkback.records.rates import ChosenRates, find_trials
from walkback.report.compare import Comparison, Side, compare


def judge_paths(
    *paths: Path | str,
    baselines: Mapping[BaselineName, Baseline] | None = None,
    thresholds: Thresholds | None = None,
    protocol: Protocol | None = None,
    note: Note = lambda *_: None,
    processes: int | None = 0,
) -> Audit:
    """Judge run folders, trainings of loops, and logs, however incomplete; nothing is trained or measured.

    `baselines` (frozen, frozen_bp, bp, shallow) are taken for every subject that does not bring its own. Controls that
    are among the runs are judged too: an audit whose controls misbehave is invalid. `note` and `processes` as for
    `audit_subjects`.
    """
    places = places_of(paths)
    looks = read_looks(*places)
    subjects, runs = subjects_at(paths, baselines, looks, note)
    thresholds = thresholds or DEFAULT
    if looks.looks and not looks_of(thresholds):
        thresholds = with_looks(thresholds, looks.looks)
    audit = audit_subjects(subjects, thresholds, protocol or "ours", runs=runs, note=note, processes=processes)
    return audit.with_records(cards=cards_beside(paths) if places else None)


def audits_of(*paths: Path | str, **given: Any) -> list[Audit]:
    """Every audit.json that has no runs beside it, as it is; then all run folders and logs together, judged.

    `given` as for `judge_paths`.
    """
    if not paths:
        raise BadValue("no path is given", "give an audit.json, run folders, or log files")
    alone = {path: audit for path in map(Path, paths) if (audit := _alone(path)) is not None}
    if alone and any(given.get(name) for name in ("baselines", "thresholds", "protocol")):
        path = next(iter(alone))
        raise BadValue(
            f"{path} {'holds' if is_folder(path) else 'is'} an audit.json without runs, so it cannot be judged again",
            "leave --protocol, --thresholds and --frozen out, or name the runs",
        )
    records = [path for path in map(Path, paths) if path not in alone]
    return [*alone.values(), *([judge_paths(*records, **given)] if records else [])]


def report_paths(*paths: Path | str, source: Sequence[str] = (), **given: Any) -> Audit:
    """The one audit that a page is about. `source`: the command, as words; `given` as for `judge_paths`."""
    found = audits_of(*paths, **given)
    if len(found) > 1:
        raise BadValue("a page is about one audit, and several are named", "name runs, or one audit.json")
    return found[0].with_records(source=source)


def compare_paths(before: Path | str, after: Path | str) -> Comparison:
    """Compare two audits: folders of runs, audit.json files, or logs. Nothing is trained."""
    one, other = (Side(str(path), audit) for path in (before, after) for audit in audits_of(path))
    return compare(one, other)


def subjects_at(
    paths: Sequence[Path | str], baselines: Mapping[BaselineName, Baseline] | None = None, looks: Looks | None = None,
    note: Note = lambda *_: None,
) -> tuple[list[Subject], list[Run]]:  # fmt: skip
    """The subjects of everything that is recorded at some paths, and all run folders."""
    if not paths:
        raise BadValue("no path is given", "give run folders, or log files")
    folders = [path for path in map(Path, paths) if is_folder(path)]
    logs = [path for path in map(Path, paths) if not is_folder(path)]
    found = find_runs(*folders) if folders else []
    loops = read_loops(find_loop_trainings(*folders)) if folders else []
    if folders and not found and not loops:
        what = f"no runs in {', '.join(map(str, folders))}"
        raise BadValue(what, "give a folder that `walkback train` made; name log files one by one")
    runs = []
    for number, path in enumerate(found, 1):
        runs.append(read_head(path))
        note("read", number, len(found))
    subjects = subjects_of_runs(runs, ChosenRates(map(read_run, find_trials(*folders)))) if runs else []
    alone = len(loops) == 1 and not subjects and not logs
    subjects += [subject for loop in loops for subject in loop.subjects(alone)]
    subjects += [Subject(each.name, each) for each in join_seeds([one for path in logs for one in read_log(path)])]
    if not subjects:
        raise BadValue("the runs named are baselines without a subject", "name the runs that they are baselines of")
    for subject in subjects:
        subject.given = dict(baselines or {})
    return with_inits(subjects, looks or Looks()), runs


def with_inits(subjects: list[Subject], looks: Looks) -> list[Subject]:
    """Subjects with the nets at init of their settings, where an audit measured these."""
    for subject in subjects:
        if subject.runs and subject.setting in looks.inits:
            subject.inits = [Training(moments=[looks.inits[subject.setting]])]
    return subjects


def places_of(paths: Iterable[Path | str]) -> list[Path]:
    """The folders that hold what is named: a folder of runs itself, of one run or training the folder around it."""
    folders = [path for path in map(Path, paths) if is_folder(path)]
    ones = [path for path in folders if (path / "config.json").exists() or (path / RECORD).exists()]
    return list(dict.fromkeys(path.parent if path in ones else path for path in folders))


def _alone(path: Path) -> Audit | None:
    """The audit of a file, or of a folder that holds no runs."""
    if is_folder(path):
        return None if find_runs(path) or find_loop_trainings(path) else Audit.read(path)
    return Audit.read(path) if path.name == "audit.json" or _is_audit(path) else None


def _is_audit(file: Path) -> bool:
    """Whether a file of another name says that it is an audit."""
    try:
        raw = parse_json(read_bytes(file), str(file), "")
    except (FileNotFoundError, RecordError):
        return False
    return isinstance(raw, dict) and str(raw.get("schema")).startswith("walkback.audit/")


def stopping(configs: Sequence[RunConfig]) -> Callable[[Snapshot], str | None]:
    """What tells a training of these configs, which are of one net, that a check fires and it should stop."""
    return partial(fired_by, residual=configs[0].residual)


def fired_by(snapshot: Snapshot, residual: bool | None = True) -> str | None:
    """Why a run that is to stop when a check fires should stop here: the stream, or the published floor.

    A plain net is held against itself at init, which a single snapshot does not know: there the floor alone stops it.
    """
    fires = fires_at(moment_of_snapshot(snapshot), residual=residual)
    dates = [date for check in reversed(in_order()) for date in check.dates]
    return " and ".join(date.stops for date in dates if date.stops and fires[date.key]) or None
