"""Records as they are: run folders, and logs that others left. Nothing is trained or measured."""

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import Path

from walkback.audits.trained import runs_by_subject
from walkback.checks import DEFAULT, Audit, Protocol, Thresholds, fires_at, in_order, judge
from walkback.checks.finding import listed
from walkback.checks.looks import looks_of
from walkback.errors import BadValue
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
from walkback.report.page import Material, Subject

Gathered = list[tuple[Evidence, list[Run]]]


def judge_paths(
    *paths: Path | str,
    baselines: Mapping[str, Baseline] | None = None,
    thresholds: Thresholds | None = None,
    protocol: Protocol = "ours",
) -> Audit:
    """Judge run folders, and logs that others left, however incomplete; nothing is trained or measured.

    `baselines` (frozen, frozen_bp, bp, shallow) are taken for every subject that does not bring its own.
    """
    gathered, _ = gather(paths, baselines)
    return judged([evidence for evidence, _ in gathered], thresholds or _thresholds_beside(_audits(paths)), protocol)


def _audits(paths: Sequence[Path | str]) -> dict[Path, Audit]:
    """Every audit.json that lies with runs, by its path."""
    folders = [Path(p) for p in paths if Path(p).is_dir()]
    return {folder / "audit.json": audit for folder in folders if (audit := Audit.read(folder)) is not None}


def _thresholds_beside(audits: Mapping[Path, Audit]) -> Thresholds:
    """What records are judged by where nothing is given: the default.

    But if seeds were added to them after looking at them, as an audit.json beside them tells, the thresholds of the
    audit with the most looks: whether it vouches for these judgements or not, the intervals must allow for the looks.
    """
    return max((DEFAULT, *(audit.thresholds for audit in audits.values())), key=lambda t: len(looks_of(t)))


def report_paths(
    *paths: Path | str,
    baselines: Mapping[str, Baseline] | None = None,
    thresholds: Thresholds | None = None,
    protocol: Protocol | None = None,
    source: Sequence[str] = (),
) -> Material:
    """The same with the records beside the judgements: what a page is drawn from.

    Controls are told where an audit.json lies with the runs and vouches for them. A folder with an audit.json and no
    runs is shown as it was judged. `source`: the command, as words.
    """
    folders, audits = [Path(p) for p in paths if Path(p).is_dir()], _audits(paths)
    if len(paths) == len(audits) == 1 and not find_runs(*folders):
        if baselines or thresholds is not None or protocol is not None:
            raise nothing_to_judge(folders[0])
        return Material.alone(next(iter(audits.values())), source)
    gathered, runs = gather(paths, baselines)
    shown, here = vouched([evidence for evidence, _ in gathered], audits, thresholds, protocol)
    return _material(shown, here, gathered, runs, source)


def vouched(
    evidences: Sequence[Evidence],
    audits: Mapping[Path, Audit],
    thresholds: Thresholds | None,
    protocol: Protocol | None,
) -> tuple[Audit, Audit]:
    """The audit that is told, and the judgements made here: those are one and the same unless controls vouch for them.

    `audits` lie with the runs, by their path. What is not given is taken from an audit that judges the same subjects,
    and judges them so; else from what is usual, and it is said why none of them vouches.
    """
    doubts = ""
    for path, beside in audits.items():
        here = judged(evidences, thresholds or beside.thresholds, protocol or beside.protocol)
        if here == beside:
            return here, here
        why = differs(beside, here) if beside.controls else "it has no controls either"
        if why is None:
            return beside, here
        doubts += f" The controls of {path} do not vouch for this: {why}."
    here = judged(evidences, thresholds or _thresholds_beside(audits), protocol or "ours")
    here = here.model_copy(update={"says": f"{here.says}{doubts}"})
    return here, here


def nothing_to_judge(path: Path) -> BadValue:
    """What is said to one who would have an audit judged otherwise of which no run is there."""
    return BadValue(
        f"{path} {'holds' if path.is_dir() else 'is'} an audit.json and no runs: there is nothing to judge again",
        "leave --protocol, --thresholds and --frozen out, or name the runs",
    )


def report_audit(audit: Audit, runs: Sequence[Run], source: Sequence[str] = ()) -> Material:
    """What a page of an audit is drawn from: the runs that it was judged by."""
    gathered = runs_by_subject(runs)
    again = judged([evidence for evidence, _ in gathered], audit.thresholds, audit.protocol)
    return _material(audit, again, gathered, runs, source)


def gather(paths: Sequence[Path | str], baselines: Mapping[str, Baseline] | None = None) -> tuple[Gathered, list[Run]]:
    """The subjects that the paths tell of, with their runs if they are ours; and all runs."""
    if not paths:
        raise BadValue("nothing to judge is named", "give run folders, or log files")
    folders = [Path(p) for p in paths if Path(p).is_dir()]
    logs = [Path(p) for p in paths if not Path(p).is_dir()]
    runs = [read_run(path) for path in find_runs(*folders)] if folders else []
    if folders and not runs:
        raise BadValue(f"no runs in {', '.join(map(str, folders))}", "give a folder that `walkback train` made")
    gathered = runs_by_subject(runs)
    gathered += [(e, []) for e in join_seeds([e for path in logs for e in read_foreign(path)])]
    if not gathered:
        raise BadValue("the runs named are baselines without a subject", "name the runs that they are baselines of")
    found: Gathered = []
    for evidence, own in gathered:
        # A log, or a file name, may hold half a character, which no JSON can be written with.
        update: dict[str, object] = {"name": evidence.name.encode(errors="replace").decode()}
        if baselines:
            update["baselines"] = {**baselines, **{str(k): v for k, v in evidence.baselines.items()}}
        found.append((evidence.model_copy(update=update), own))
    return found, runs


def judged(evidences: Sequence[Evidence], thresholds: Thresholds, protocol: Protocol) -> Audit:
    """What records alone amount to: an audit without controls."""
    return Audit(
        valid=True, says="Judged from records alone: no controls were trained.", protocol=protocol,
        thresholds=thresholds, controls=[], subjects=[judge(e, thresholds, protocol) for e in evidences],
    )  # fmt: skip


def _material(shown: Audit, here: Audit, gathered: Gathered, runs: Sequence[Run], source: Sequence[str]) -> Material:
    """The subjects of the audit that is shown, and as controls whoever else was judged here."""
    judged = {j.name: Subject(j, e, own) for j, (e, own) in zip(here.subjects, gathered, strict=True)}
    if shown is here:
        subjects, controls = [Subject(j, e, own) for j, (e, own) in zip(here.subjects, gathered, strict=True)], []
    else:
        subjects = [judged.pop(j.name) for j in shown.subjects]
        controls = [judged[name] for name in sorted(judged)]
    own = {run.path for subject in (*subjects, *controls) for run in subject.runs}
    others = sorted((run for run in runs if run.path not in own), key=lambda run: run.path.name)
    return Material(shown, subjects, controls, others, source)


def differs(beside: Audit, here: Audit) -> str | None:
    """Why an audit is not of the judgements made here; None if it is. Who was trained as its control may be more."""
    if (beside.protocol, beside.thresholds) != (here.protocol, here.thresholds):
        return f"it is by the protocol {beside.protocol} with thresholds {beside.thresholds.version}"
    checks = [{finding.check for subject in audit.subjects for finding in subject.findings} for audit in (beside, here)]
    if beside.subjects and here.subjects and checks[0] != checks[1]:
        return f"it asks {listed(sorted(checks[0]))}, and here {listed(sorted(checks[1]))} are asked"
    theirs = {subject.name: subject.text() for subject in beside.subjects}
    ours = {subject.name: subject.text() for subject in here.subjects}
    if len(theirs) < len(beside.subjects) or len(ours) < len(here.subjects):
        return "two subjects have the same name"
    absent = [name for name in theirs if name not in ours]
    if absent:
        return f"it judges {listed(absent)}, who is not here"
    more = [name for name in ours if name not in theirs and name not in {c.name for c in beside.controls}]
    if more:
        return f"it does not judge {listed(more)}"
    other = [name for name in theirs if theirs[name] != ours[name]]
    return f"it judges {listed(other)} otherwise, so its runs were others" if other else None


def stopping(configs: Sequence[RunConfig]) -> Callable[[Snapshot], str | None]:
    """What tells a training of these configs, which are of one net, that a check fires and it should stop."""
    net = configs[0]
    return partial(fired_by, residual=getattr(net, "residual", net.net_options.get("skip")))


def fired_by(snapshot: Snapshot, residual: bool | None = True) -> str | None:
    """Why a run that is to stop when a check fires should stop here: the stream, or the published floor.

    A plain net is held against itself at init, which a single snapshot does not know: there the floor alone stops it.
    """
    fires = fires_at(moment_of_snapshot(snapshot), residual=residual)
    dates = [date for check in in_order() for date in check.dates]
    return " and ".join(date.stops for date in dates if date.stops and fires[date.key]) or None
