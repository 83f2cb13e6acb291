"""A log of one method: {"config": {…}, "log": [{epoch, h_L_norm, g_2_norm, acc_eval}, …], "final_test_acc": …}."""

from walkback.errors import RecordError
from walkback.records.evidence import Evidence
from walkback.records.moment import Moment
from walkback.records.readers.base import READERS, LogFile, Reader
from walkback.records.readers.entries import (
    evidence_of_entries,
    moments_of_entries,
    placed,
    trainings_by_seed,
)
from walkback.records.readers.log_values import as_list, config_of, first_of, method_name, number_of

METHOD = ("method", "rule", "algorithm")


def read(file: LogFile) -> list[Evidence]:
    """One subject."""
    raw, where, name = file.raw, file.where, file.name
    config = config_of(raw, where)
    method = config.table.get(first_of(config.table, METHOD) or "")
    rule = method_name(method, where) if isinstance(method, str) else None
    notes: list[str] = []
    entries = as_list(raw["log"], f"{where}: log")
    moments = moments_of_entries(entries, rule, config, notes, f"{where}: log")
    trainings = trainings_by_seed(entries, moments, config, notes, f"{where}: log")
    final = number_of(raw, "final_test_acc", where)
    if final is not None:
        if len(trainings) > 1:
            raise RecordError(f"{where}: final_test_acc is one number, and the entries are of {len(trainings)} seeds",
                              "give one log per seed")  # fmt: skip
        (moments,) = trainings.values()
        last = moments.pop() if moments else Moment()
        if last.accuracy is not None and last.accuracy != final:
            notes.append(f"the accuracy is final_test_acc, {final:g}; the last entry has acc_eval {last.accuracy:g}")
        with placed(where, {"accuracy": "final_test_acc"}):
            moments.append(last.changed(accuracy=final))
    return [evidence_of_entries(rule or name, rule, config, raw, trainings, notes, where)]


READERS.add("single", Reader(lambda file: "log" in file.table, read))
