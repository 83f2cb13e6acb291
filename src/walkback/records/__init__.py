"""The records: what a run leaves behind, and how it is read again. Plain files, one writer, no pickle."""

from walkback.records.run import Run, RunFolder, find_runs, load_tensors, read_run
from walkback.records.schema import CosineRecord, Environment, Result, RunConfig, Sitting, Snapshot

__all__ = [
    "CosineRecord",
    "Environment",
    "Result",
    "Run",
    "RunConfig",
    "RunFolder",
    "Sitting",
    "Snapshot",
    "find_runs",
    "load_tensors",
    "read_run",
]
