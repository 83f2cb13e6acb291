"""The records: what a training leaves behind, and how it is read again. Plain files, one writer, no pickle."""

from walkback.records.card import Card, Transport
from walkback.records.checkpoint import load_tensors
from walkback.records.config_names import subject_of
from walkback.records.evidence import Baseline, BaselineName, Effort, Evidence, doubts_of, half
from walkback.records.folder import Run, RunFolder, export_run, find_runs, read_head, read_run, sittings_of
from walkback.records.invariants import INVARIANTS
from walkback.records.moment import Moment, Training, moment_of_snapshot
from walkback.records.rates import Choice, choose
from walkback.records.readers import evidence_of_log, join_seeds, read_log
from walkback.records.record import Record
from walkback.records.schema import (
    Cosine,
    CostRecord,
    DeepProbes,
    Environment,
    IdentityRecord,
    Null,
    Precision,
    Reading,
    Result,
    RunConfig,
    Sitting,
    Snapshot,
    Valued,
)
from walkback.records.subjects import Subject, evidence_of_runs, subjects_of_runs

__all__ = [
    "INVARIANTS", "Baseline", "BaselineName", "Card", "Choice", "Cosine", "CostRecord", "DeepProbes", "Effort",
    "Environment", "Evidence", "IdentityRecord", "Moment", "Null", "Precision", "Reading", "Record", "Result",
    "Run", "RunConfig", "RunFolder", "Sitting", "Snapshot", "Subject", "Training", "Transport", "Valued", "choose",
    "doubts_of", "evidence_of_log", "evidence_of_runs", "export_run", "find_runs", "half", "join_seeds",
    "load_tensors", "moment_of_snapshot", "read_head", "read_log", "read_run", "sittings_of", "subject_of",
    "subjects_of_runs",
]  # fmt: skip
