"""What paths tell, for tables and forms: an audit.json as it is, run folders and logs as they are judged."""

import json
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from walkback.audits.records import Gathered, _gathered, _judged
from walkback.checks import DEFAULT, Audit, Judgement
from walkback.errors import BadValue, RecordError
from walkback.records import Evidence, Run, find_runs
from walkback.records.run import parse
from walkback.report.form import Case

APART = "The audit.json beside the runs is of other runs, or judged otherwise: its controls do not vouch for this."


@dataclass(frozen=True)
class Told:
    """One audit, its subjects, and the runs that it rests on, as far as they are there."""

    audit: Audit
    cases: Sequence[Case]
    runs: Sequence[Run]


def told_by(*paths: Path | str) -> list[Told]:
    """Every audit.json that stands alone, then all run folders and logs together, judged here.

    Runs are judged by the thresholds and the protocol of an audit.json that lies with them. If it says the same of its
    subjects, its controls vouch for them, and it is what is told.
    """
    if not paths:
        raise BadValue("nothing is named", "give an audit.json, run folders, or log files")
    alone = {path: audit for path in map(Path, paths) if (audit := _alone(path)) is not None}
    told = [Told(a, [Case(j, Evidence(name=j.name), [], a) for j in a.subjects], []) for a in alone.values()]
    records = [path for path in map(Path, paths) if path not in alone]
    return [*told, _of_records(records)] if records else told


def _alone(path: Path) -> Audit | None:
    """The audit of a file, or of a folder that holds no runs."""
    if path.is_dir():
        return _read(path / "audit.json") if not find_runs(path) else None
    return _read(path)


def _read(file: Path) -> Audit | None:
    """An audit.json by whatever name; None if there is no such file, or if it is something else."""
    if not file.is_file():
        return None
    try:
        text = file.read_text(encoding="utf-8-sig")
        raw: Any = json.loads(text)
    except (OSError, ValueError, RecursionError) as error:
        if file.name != "audit.json":
            return None  # whoever reads logs will say what is wrong with it
        raise RecordError(f"cannot read {file}: {error}", "move it away, or write it again") from error
    if file.name != "audit.json" and not (isinstance(raw, dict) and _is_audit(raw.get("schema"))):
        return None
    try:
        return parse(Audit, text, str(file))
    except RecordError as error:  # what is wrong with it, without the remedy for a run's folder
        raise RecordError(error.what, "move it away, or write it again") from error


def _is_audit(schema: object) -> bool:
    return isinstance(schema, str) and schema.startswith("walkback.audit/")


def _of_records(paths: Sequence[Path]) -> Told:
    gathered, runs = _gathered(paths, None)
    evidences = [evidence for evidence, _ in gathered]
    beside = [audit for path in paths if path.is_dir() and (audit := _read(path / "audit.json")) is not None]
    for audit in beside:
        here = _judged(evidences, audit.thresholds, audit.protocol)
        judged = {j.name: _core(j) for j in here.subjects}
        if audit.subjects and all(judged.get(j.name) == _core(j) for j in audit.subjects):
            return Told(audit, _cases(audit, gathered), runs)
    here = _judged(evidences, DEFAULT, "ours")
    if beside:
        here = here.model_copy(update={"says": f"{here.says} {APART}"})
    return Told(here, _cases(here, gathered), runs)


def _core(j: Judgement) -> object:
    """What two judgements of the same records have in common, whatever the words."""
    return j.verdict, j.accuracy, [(f.check, f.outcome, f.value, f.low, f.high) for f in j.findings]


def _cases(audit: Audit, gathered: Gathered) -> list[Case]:
    there = {evidence.name: (evidence, runs) for evidence, runs in gathered}
    return [Case(j, *there[j.name], audit) for j in audit.subjects]
