"""A log with a list of entries per method: {"bp_log": [{epoch, hidden_norms, …}, …], "dfa_log": […]}."""

from collections.abc import Mapping
from typing import Any

from walkback.records.evidence import Evidence
from walkback.records.readers.base import READERS, LogFile, Reader
from walkback.records.readers.entries import evidence_of_entries, moments_of_entries, trainings_by_seed
from walkback.records.readers.log_values import as_list, config_of, method_name


def logs_in(file: LogFile) -> dict[str, Any]:
    """The lists of entries, by their keys."""
    return {key: value for key, value in file.table.items() if key.endswith("_log") and len(key) > 4}


def read(file: LogFile) -> list[Evidence]:
    """One subject per method."""
    return [
        _of_method(method_name(key[:-4], file.where), entries, file.raw, f"{file.where}: {key}")
        for key, entries in logs_in(file).items()
    ]


def _of_method(method: str, entries: Any, raw: Mapping[str, Any], where: str) -> Evidence:
    config = config_of(raw, where)
    notes: list[str] = []
    entries = as_list(entries, where)
    moments = moments_of_entries(entries, method, config, notes, where)
    trainings = trainings_by_seed(entries, moments, config, notes, where)
    return evidence_of_entries(method, method, config, raw, trainings, notes, where)


READERS.add("by method", Reader(lambda file: bool(logs_in(file)), read))
