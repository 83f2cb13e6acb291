"""The records: what a run leaves behind, and how it is read again. Plain files, one writer, no pickle."""

from walkback.records.evidence import (
    Baseline,
    Evidence,
    Moment,
    NullRecord,
    PrecisionRecord,
    SeedEvidence,
    evidence_of_runs,
)
from walkback.records.foreign import evidence_of_log, join_seeds, read_foreign
from walkback.records.run import Run, RunFolder, export_run, find_runs, load_tensors, read_run
from walkback.records.schema import CosineRecord, Environment, Result, RunConfig, Sitting, Snapshot

__all__ = [
    "Baseline",
    "CosineRecord",
    "Environment",
    "Evidence",
    "Moment",
    "NullRecord",
    "PrecisionRecord",
    "Result",
    "Run",
    "RunConfig",
    "RunFolder",
    "SeedEvidence",
    "Sitting",
    "Snapshot",
    "evidence_of_log",
    "evidence_of_runs",
    "export_run",
    "find_runs",
    "join_seeds",
    "load_tensors",
    "read_foreign",
    "read_run",
]
