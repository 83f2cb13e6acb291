"""Ladders that others left: accuracies by method, by how many blocks are trained from the top, and by seed.

{"results": {method: {"0": {seed: {"final_acc": …}}, …, "4": {…}}}}
"""

from walkback.errors import RecordError
from walkback.records.evidence import Baseline, BaselineName, Evidence, half
from walkback.records.moment import Moment, Training
from walkback.records.readers.base import CLASSES, DEPTH, READERS, SHAPES, Config, Item, LogFile, method_name

Rungs = dict[int, dict[int, float | None]]  # accuracies by seed, by how many blocks are trained


def read(file: LogFile) -> list[Evidence] | None:
    """One subject per method."""
    log = file.table
    if log is None or "results" not in log.value or "log" in log.value:
        return None
    results = log.of("results")
    where, config = results.where, Config(Item(log.value, results.where))
    ladders: dict[str, Rungs] = {}
    for method, raw in results.table().items():
        rungs = Item(raw, f"{where}.{method_name(method, where)}").by_number("blocks")
        ladders[method] = {
            k: {seed: each.of("final_acc").share() for seed, each in rung.by_number("seed").items()}
            for k, rung in rungs.items()
        }
    if not ladders:
        raise RecordError(f"{where} is empty", SHAPES)
    bp = next((ladder for name, ladder in ladders.items() if name.lower() == "bp"), {})
    return [_of_rungs(method, rungs, bp, config) for method, rungs in ladders.items()]


def _of_rungs(method: str, rungs: Rungs, bp: Rungs, config: Config) -> Evidence:
    """The top rung is the subject, rung 0 its frozen net, the middle one its upper half; those of bp are the task's."""
    notes: list[str] = []
    depth, top = config.whole(DEPTH), max(rungs, default=0)
    if depth is not None and top > depth:
        what = f"{config.log.where}.{method}: {top} blocks are trained of {depth}"
        raise RecordError(what, "correct the log or its config")
    if top == 0:
        notes.append("the ladder has no rung with a trained block: there is no subject in it, only its frozen net")
    elif depth is None:
        notes.append(f"the top rung, k={top}, is taken as the full net: the log does not say how many blocks it has")
    whole, middle = bp.get(top) if top else None, half(top)
    arms: dict[BaselineName, dict[int, float | None] | None]
    arms = {"frozen": rungs.get(0), "frozen_bp": bp.get(0), "bp": whole}
    if middle < top == (depth or top):
        arms |= {"half": rungs.get(middle), "half_bp": bp.get(middle) if whole else None}
    in_part = top not in (0, depth or top)
    return Evidence(
        name=f"{method} k={top}" if in_part else method, rule=method, depth=depth, trained=top if in_part else None,
        residual=config.residual()[0], classes=config.whole(CLASSES),
        seeds=[
            Training(seed=seed, moments=[] if value is None else [Moment(accuracy=value)])
            for seed, value in (rungs[top].items() if top > 0 else ())
        ],
        baselines={name: Baseline.by_seed(rung) for name, rung in arms.items() if rung},
        notes=[*notes, *config.notes],
    )  # fmt: skip


READERS.add("ladder", read)
