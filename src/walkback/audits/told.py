"""What paths tell, for tables and forms: an audit.json as it is, run folders and logs as they are judged."""

from collections.abc import Mapping
from pathlib import Path

from walkback.audits.many import Note, judge_crowd, judge_many, nothing_to_judge
from walkback.audits.many_cases import are_many, material_to_tell
from walkback.checks import Audit, Protocol, Thresholds
from walkback.errors import BadValue, RecordError
from walkback.files import is_folder, parse_json, read_bytes
from walkback.records import Baseline, find_runs
from walkback.records.training import find_trainings
from walkback.report.case import Material


def told_by(
    *paths: Path | str,
    baselines: Mapping[str, Baseline] | None = None,
    thresholds: Thresholds | None = None,
    protocol: Protocol | None = None,
    cases: bool = True,
    note: Note = lambda *_: None,
    processes: int = 0,
) -> list[Material]:
    """Every audit.json that stands alone, then all run folders and logs together, judged here.

    An audit.json that lies with the runs is what is told if it vouches for them. Without `cases` the evidence of the
    subjects is not kept. With them, many runs are read one subject at a time, each time its case is asked for; so
    thousands fit into memory either way. `note` and `processes` as for `judge_crowd`.
    """
    if not paths:
        raise BadValue("no path is given", "give an audit.json, run folders, or log files")
    alone = {path: audit for path in map(Path, paths) if (audit := _alone(path)) is not None}
    if alone and (baselines or thresholds is not None or protocol is not None):
        raise nothing_to_judge(next(iter(alone)))
    found = [Material.alone(audit) for audit in alone.values()]
    records = [path for path in map(Path, paths) if path not in alone]
    if records and not cases:
        audit, outlines = judge_crowd(
            *records, baselines=baselines, thresholds=thresholds, protocol=protocol, note=note, processes=processes
        )
        return [*found, Material(audit, [], outlines=outlines)]
    if records and are_many(records):
        return [*found, material_to_tell(judge_many(records, baselines, thresholds, protocol, note, processes))]
    if not records:
        return found
    from walkback.audits.records import judged_material  # here: it brings torch, and who tells tables needs none

    return [*found, judged_material(records, baselines, thresholds, protocol)]


def _alone(path: Path) -> Audit | None:
    """The audit of a file, or of a folder that holds no runs."""
    if is_folder(path):
        return None if find_runs(path) or find_trainings(path) else Audit.read(path)
    return Audit.read(path) if path.name == "audit.json" or _says_it_is_one(path) else None


def _says_it_is_one(file: Path) -> bool:
    """Whether a file of another name is an audit by its own word; what it is else, whoever reads logs will say."""
    try:
        raw = parse_json(read_bytes(file), str(file), "")
    except (FileNotFoundError, RecordError):
        return False
    return isinstance(raw, dict) and str(raw.get("schema")).startswith("walkback.audit/")
