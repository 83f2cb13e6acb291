"""Records as they are: run folders, and logs that others left. Nothing is trained or measured."""

from collections.abc import Mapping, Sequence
from pathlib import Path

from walkback.audits.trained import runs_by_subject
from walkback.checks import DEFAULT, Audit, Protocol, Thresholds, fires_at, judge
from walkback.errors import BadValue
from walkback.records import (
    Baseline,
    Evidence,
    Run,
    Snapshot,
    find_runs,
    join_seeds,
    moment_of_snapshot,
    read_foreign,
    read_run,
)

Gathered = list[tuple[Evidence, list[Run]]]


def judge_paths(
    *paths: Path | str,
    baselines: Mapping[str, Baseline] | None = None,
    thresholds: Thresholds = DEFAULT,
    protocol: Protocol = "ours",
) -> Audit:
    """Judge run folders, and logs that others left, however incomplete; nothing is trained or measured.

    `baselines` (frozen, frozen_bp, bp, shallow) are taken for every subject that does not bring its own.
    """
    gathered, _ = _gathered(paths, baselines)
    return _judged([evidence for evidence, _ in gathered], thresholds, protocol)


def _gathered(paths: Sequence[Path | str], baselines: Mapping[str, Baseline] | None) -> tuple[Gathered, list[Run]]:
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


def _judged(evidences: Sequence[Evidence], thresholds: Thresholds, protocol: Protocol) -> Audit:
    return Audit(
        valid=True, says="Judged from records alone: no controls were trained.", protocol=protocol,
        thresholds=thresholds, controls=[], subjects=[judge(e, thresholds, protocol) for e in evidences],
    )  # fmt: skip


def fired_by(snapshot: Snapshot) -> str | None:
    """Why a run that is to stop when a check fires should stop here: the stream, or the published floor."""
    fires = fires_at(moment_of_snapshot(snapshot))
    reasons = {"scale": "one block's growth is above 50", "reference floor": "‖g_L‖ is below 1e-7"}
    told = [words for name, words in reasons.items() if fires[name]]
    return " and ".join(told) or None
