"""The records: what a run leaves behind, and how it is read again. Plain files, one writer, no pickle."""

from walkback.records.doubts import doubts_of
from walkback.records.evidence import (
    Baseline,
    BaselineName,
    Effort,
    Evidence,
    Moment,
    SeedEvidence,
    moment_of_snapshot,
    with_probes,
)
from walkback.records.foreign import evidence_of_log, read_foreign
from walkback.records.invariants import INVARIANTS, Invariant
from walkback.records.join import join_seeds
from walkback.records.run import Run, RunFolder, export_run, find_runs, load_tensors, read_run
from walkback.records.run_evidence import evidence_of_runs
from walkback.records.schema import (
    CosineRecord,
    CostRecord,
    DeepProbes,
    Environment,
    IdentityRecord,
    NullRecord,
    PrecisionRecord,
    ReadingRecord,
    Result,
    RunConfig,
    Sitting,
    Snapshot,
    Valued,
)
from walkback.records.watched import Watched, WatchEnd, WatchHeader, WatchLook, read_watched

__all__ = [
    "INVARIANTS",
    "Baseline",
    "BaselineName",
    "CosineRecord",
    "CostRecord",
    "DeepProbes",
    "Effort",
    "Environment",
    "Evidence",
    "IdentityRecord",
    "Invariant",
    "Moment",
    "NullRecord",
    "PrecisionRecord",
    "ReadingRecord",
    "Result",
    "Run",
    "RunConfig",
    "RunFolder",
    "SeedEvidence",
    "Sitting",
    "Snapshot",
    "Valued",
    "WatchEnd",
    "WatchHeader",
    "WatchLook",
    "Watched",
    "doubts_of",
    "evidence_of_log",
    "evidence_of_runs",
    "export_run",
    "find_runs",
    "join_seeds",
    "load_tensors",
    "moment_of_snapshot",
    "read_foreign",
    "read_run",
    "read_watched",
    "with_probes",
]
