"""Records as they are: run folders, and logs that others left. Nothing is trained or measured."""

from collections.abc import Mapping
from pathlib import Path

from walkback.audits.trained import evidence_by_subject
from walkback.checks import DEFAULT, Audit, Protocol, Thresholds, fires_at, judge
from walkback.errors import BadValue
from walkback.records import Baseline, Snapshot, find_runs, join_seeds, moment_of_snapshot, read_foreign, read_run


def judge_paths(
    *paths: Path | str,
    baselines: Mapping[str, Baseline] | None = None,
    thresholds: Thresholds = DEFAULT,
    protocol: Protocol = "ours",
) -> Audit:
    """Judge run folders, and logs that others left, however incomplete; nothing is trained or measured.

    `baselines` (frozen, frozen_bp, bp, shallow) are taken for every subject that does not bring its own.
    """
    if not paths:
        raise BadValue("nothing to judge is named", "give run folders, or log files")
    folders = [Path(p) for p in paths if Path(p).is_dir()]
    logs = [Path(p) for p in paths if not Path(p).is_dir()]
    runs = [read_run(path) for path in find_runs(*folders)] if folders else []
    if folders and not runs:
        raise BadValue(f"no runs in {', '.join(map(str, folders))}", "give a folder that `walkback train` made")
    evidences = evidence_by_subject(runs) + join_seeds([e for path in logs for e in read_foreign(path)])
    if not evidences:
        raise BadValue("the runs named are baselines without a subject", "name the runs that they are baselines of")
    # A log, or a file name, may hold half a character, which no JSON can be written with.
    evidences = [e.model_copy(update={"name": e.name.encode(errors="replace").decode()}) for e in evidences]
    if baselines:
        evidences = [e.model_copy(update={"baselines": {**baselines, **e.baselines}}) for e in evidences]
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
