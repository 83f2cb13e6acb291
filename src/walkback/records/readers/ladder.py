"""Ladders that others left: accuracies by method, by how many blocks are trained from the top, and by seed.

{"results": {method: {"0": {seed: {"final_acc": …}}, …, "4": {…}}}}
"""

from collections.abc import Mapping
from typing import Any

from walkback.errors import RecordError
from walkback.records.evidence import Baseline, BaselineName, Evidence, half
from walkback.records.moment import Moment
from walkback.records.readers.base import (
    CLASSES,
    DEPTH,
    READERS,
    SHAPES,
    Config,
    LogFile,
    as_object,
    counted,
    method_name,
    number_of,
)
from walkback.records.training import Training


def read(file: LogFile) -> list[Evidence] | None:
    """One subject per method."""
    raw, where = file.table, f"{file.where}: results"
    if "results" not in raw or "log" in raw:
        return None
    config = Config(raw, where)
    depth = config.whole(DEPTH)
    methods = as_object(raw["results"], where)
    ladders = {method: _rungs(rungs, f"{where}.{method_name(method, where)}") for method, rungs in methods.items()}
    if not ladders:
        raise RecordError(f"{where} is empty", SHAPES)
    return [_of_rungs(method, ladders, depth, config, where) for method in ladders]


def _rungs(raw: Any, where: str) -> dict[int, dict[int, float | None]]:
    rungs: dict[int, dict[int, float | None]] = {}
    for k, by_seed in as_object(raw, where).items():
        rung = rungs.setdefault(counted(k, where, "blocks"), {})
        for seed, result in as_object(by_seed, f"{where}.{k}").items():
            here = f"{where}.{k}.{seed}"
            rung[counted(seed, f"{where}.{k}", "seed")] = number_of(as_object(result, here), "final_acc", here)
    return rungs


def _of_rungs(
    method: str,
    ladders: Mapping[str, dict[int, dict[int, float | None]]],
    depth: int | None,
    config: Config,
    where: str,
) -> Evidence:
    """The top rung is the subject, rung 0 its frozen net, the middle one its upper half; those of bp are the task's."""
    rungs = ladders[method]
    notes: list[str] = []
    top = max(rungs, default=0)
    if depth is not None and top > depth:
        raise RecordError(f"{where}.{method}: {top} blocks are trained of {depth}", "correct the log or its config")
    baselines: dict[BaselineName, Baseline] = {}
    if rungs.get(0):
        baselines["frozen"] = Baseline.by_seed(rungs[0])
    bp = next((ladder for name, ladder in ladders.items() if name.lower() == "bp"), {})
    if bp.get(0):
        baselines["frozen_bp"] = Baseline.by_seed(bp[0])
    if top > 0 and bp.get(top):
        baselines["bp"] = Baseline.by_seed(bp[top])
    rung = half(top)
    if rung < top == (depth or top):
        if rungs.get(rung):
            baselines["half"] = Baseline.by_seed(rungs[rung])
        if bp.get(rung) and "bp" in baselines:
            baselines["half_bp"] = Baseline.by_seed(bp[rung])
    if top == 0:
        notes.append("the ladder has no rung with a trained block: there is no subject in it, only its frozen net")
    elif depth is None:
        notes.append(f"the top rung, k={top}, is taken as the full net: the log does not say how many blocks it has")
    return Evidence(
        name=method if top in (0, depth) or depth is None else f"{method} k={top}",
        rule=method,
        depth=depth,
        trained=None if top in (0, depth) or depth is None else top,
        residual=config.residual()[0],
        classes=config.whole(CLASSES),
        seeds=[
            Training(seed=seed, moments=[Moment(accuracy=value)] if value is not None else [])
            for seed, value in (rungs[top].items() if top > 0 else ())
        ],
        baselines=baselines,
        notes=[*notes, *config.notes],
    )


READERS.add("ladder", read)
