"""Logs that others left: known by their content, read as evidence, and nothing invented.

Three shapes are known:

    {"bp_log": [{epoch, hidden_norms, bp_grad_norms_per_sample_med, acc_eval, gamma_bp}, …], "dfa_log": […]}
    {"config": {…}, "log": [{epoch, h_L_norm, g_2_norm, acc_eval}, …], "final_test_acc": …}
    {"results": {method: {"0": {seed: {"final_acc": …}}, …, "4": {…}}}}

Each gives one `Evidence` a method. What a log does not say is None, a NaN stays NaN, and anything else than these
shapes is an error that tells where and what was found.
"""

import math
import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from pydantic import ValidationError

from walkback.errors import RecordError
from walkback.files import parse_json, read_bytes
from walkback.records import invariants
from walkback.records.evidence import Baseline, BaselineName, Evidence, Moment, SeedEvidence, half
from walkback.records.schema import PYDANTICS, first_fault
from walkback.records.stated import BATCH, CLASSES, DEPTH, EPOCHS, MOST, Config, kind_of, seed_of
from walkback.records.watched import is_watched, read_watched

HIDDEN = ("hidden_norms_cls", "hidden_norms")  # the cls token is where a transformer's norms are taken
GRADIENTS = ("bp_grad_norms_per_sample_med", "bp_grad_per_sample_l2_med")
METHOD = ("method", "rule", "algorithm")
SHAPES = (
    'a log is {"<method>_log": [...]}, {"config": {...}, "log": [...]} or {"results": {method: {k: {seed: {...}}}}}; '
    "see docs/checks.md"
)
STREAM = (
    "the log does not say whether its net has a residual stream; it is of a kind kept of such nets, so it is taken to"
)
NAME = 200  # characters of a method's name
CELLS = 10_000_000  # of the table that single norms are spread out in
NOT_FINITE = {"nan", "inf", "+inf", "-inf", "infinity", "+infinity", "-infinity"}


def read_foreign(path: Path | str) -> list[Evidence]:
    """The subjects of a log, one for each method in it."""
    path = Path(path)
    try:
        content = read_bytes(path)
    except FileNotFoundError as error:
        raise RecordError(f"cannot read {path}: {error.strerror}", "name a file that is there") from error
    if is_watched(content):
        return [read_watched(content, path).evidence()]
    raw = parse_json(content, str(path), "get the file again; it may be cut off")
    return evidence_of_log(raw, str(path), path.stem)


def evidence_of_log(raw: Any, where: str = "the log", name: str = "log") -> list[Evidence]:
    """The same for JSON that is read already; `name` is used where the log names no method."""
    if not isinstance(raw, dict):
        raise RecordError(f"{where} is {kind_of(raw)}, not an object", SHAPES)
    try:
        logs = {key: value for key, value in raw.items() if key.endswith("_log") and len(key) > 4}
        if logs:
            return [_of_method(_name(k[:-4], where), log, raw, f"{where}: {k}") for k, log in logs.items()]
        if "log" in raw:
            return [_of_single(raw, where, name)]
        if "results" in raw:
            return _of_ladder(raw, f"{where}: results")
    except ValidationError as error:
        raise RecordError(f"{where}: {first_fault(error)}", "correct the log") from error
    found = ", ".join(sorted(key[:40] for key in raw)[:20]) or "nothing"
    raise RecordError(f"{where} is not a log format that walkback knows: at its top level it has {found}", SHAPES)


# --- {"bp_log": [...], "dfa_log": [...]} ----------------------------------------------------------------------------


def _of_method(method: str, entries: Any, raw: Mapping[str, Any], where: str) -> Evidence:
    config = _config(raw, where)
    batch = config.whole(BATCH)
    moments: list[Moment] = []
    notes: list[str] = []
    for number, entry in enumerate(_list(entries, where)):
        here = f"{where}[{number}]"
        entry = _object(entry, here)
        hidden, gradients = _first(entry, HIDDEN), _first(entry, GRADIENTS)
        gamma = _first(entry, (f"gamma_{method}", "gamma"))
        moments.append(
            _moment(
                here,
                {"accuracy": "acc_eval", "hidden_norms": hidden, "gradient_norms": gradients, "gamma": gamma},
                epoch=_epoch(entry, here),
                accuracy=_number(entry, "acc_eval", here),
                loss=_loss(entry, here),
                hidden_norms=_numbers(entry, hidden, here) if hidden else None,
                gradient_norms=_numbers(entry, gradients, here) if gradients else None,
                reference_batch=batch if gradients else None,
                gamma=_number(entry, gamma, here) if gamma else None,
            )
        )
    trainings = _by_seed(_list(entries, where), moments, config, notes, where)
    return _evidence(method, method, config, raw, trainings, notes, where)


# --- {"config", "log": [{"epoch", "h_L_norm", "g_2_norm", "acc_eval"}], "final_test_acc"} ---------------------------


def _of_single(raw: Mapping[str, Any], where: str, name: str) -> Evidence:
    config = _config(raw, where)
    depth, batch = config.whole(DEPTH), config.whole(BATCH)
    moments: list[Moment] = []
    notes: list[str] = []
    entries = _list(raw["log"], f"{where}: log")
    if depth is not None and depth * len(entries) > CELLS:
        raise RecordError(
            f"{where}: {len(entries)} entries of a net of {depth} blocks are more than can be spread out",
            "keep fewer entries: the first, the last, and some between",
        )
    for number, entry in enumerate(entries):
        here = f"{where}: log[{number}]"
        moments.append(_sparse_moment(_object(entry, here), depth, batch, here))
    trainings = _by_seed(entries, moments, config, notes, f"{where}: log")
    final = _number(raw, "final_test_acc", where)
    if final is not None:
        if len(trainings) > 1:
            raise RecordError(f"{where}: final_test_acc is one number, and the entries are of {len(trainings)} seeds",
                              "give one log per seed")  # fmt: skip
        (moments,) = trainings.values()
        last = moments.pop() if moments else Moment()
        if last.accuracy is not None and last.accuracy != final:
            notes.append(f"the accuracy is final_test_acc, {final:g}; the last entry has acc_eval {last.accuracy:g}")
        moments.append(_moment(where, {"accuracy": "final_test_acc"}, **(dict(last) | {"accuracy": final})))
    method = config.table.get(_first(config.table, METHOD) or "")
    rule = _name(method, where) if isinstance(method, str) else None
    return _evidence(rule or name, rule, config, raw, trainings, notes, where)


def _sparse_moment(entry: Mapping[str, Any], depth: int | None, batch: int | None, here: str) -> Moment:
    """An entry with single norms by name: h_0_norm, h_L_norm, g_2_norm, … L itself may not be known."""
    norms: dict[str, dict[int | str, float]] = {"h": {}, "g": {}}
    for key in entry:
        if match := re.fullmatch(r"([hg])_(\d{1,4}|L)_norm", key):
            value = _number(entry, key, here)
            layer = match[2] if match[2] == "L" else int(match[2])
            if depth is not None and layer != "L" and int(layer) > depth:
                raise RecordError(f"{here}: {key} is beyond the deepest state, h_{depth}", "correct log or config")
            if value is not None:
                norms[match[1]][depth if layer == "L" and depth is not None else layer] = value
    hidden, gradients = norms["h"], norms["g"]
    stated_at = batch if gradients else None
    told: dict[str, Any] = {}
    if depth is not None:
        told["hidden_norms"] = [hidden.get(layer) for layer in range(depth + 1)] if hidden else None
        told["gradient_norms"] = [gradients.get(layer) for layer in range(depth + 1)] if gradients else None
    else:
        for kind, known in (("hidden", hidden), ("gradient", gradients)):
            told[f"deepest_{kind}"] = known.pop("L", None)
            told[f"{kind}_at"] = known
    return _moment(
        here,
        {"accuracy": "acc_eval"},
        epoch=_epoch(entry, here),
        accuracy=_number(entry, "acc_eval", here),
        loss=_loss(entry, here),
        reference_batch=stated_at,
        **told,
    )


# --- {"results": {method: {k: {seed: {"final_acc"}}}}} --------------------------------------------------------------


def _of_ladder(raw: Mapping[str, Any], where: str) -> list[Evidence]:
    config = _config(raw, where)
    depth = config.whole(DEPTH)
    methods = _object(raw["results"], where)
    ladders = {method: _rungs(rungs, f"{where}.{_name(method, where)}") for method, rungs in methods.items()}
    if not ladders:
        raise RecordError(f"{where} is empty", SHAPES)
    return [_of_rungs(method, ladders, depth, config, where) for method in ladders]


def _rungs(raw: Any, where: str) -> dict[int, dict[int, float | None]]:
    rungs: dict[int, dict[int, float | None]] = {}
    for k, by_seed in _object(raw, where).items():
        rung = rungs.setdefault(_key(k, where, "blocks"), {})
        for seed, result in _object(by_seed, f"{where}.{k}").items():
            here = f"{where}.{k}.{seed}"
            rung[_key(seed, f"{where}.{k}", "seed")] = _number(_object(result, here), "final_acc", here)
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
            SeedEvidence(seed=seed, moments=[Moment(accuracy=value)] if value is not None else [])
            for seed, value in (rungs[top].items() if top > 0 else ())
        ],
        baselines=baselines,
        notes=[*notes, *config.notes],
    )


# --- what they share ------------------------------------------------------------------------------------------------


def _evidence(
    name: str,
    rule: str | None,
    config: Config,
    raw: Mapping[str, Any],
    trainings: Mapping[int | None, list[Moment]],
    notes: list[str],
    where: str,
) -> Evidence:
    residual, stated = config.residual()
    norms = any(
        m.hidden_norms or m.hidden_at or m.deepest_hidden is not None for moments in trainings.values() for m in moments
    )
    if not stated and norms:
        residual, notes = True, [*notes, STREAM]
    seed = seed_of(raw, where)
    seed = seed_of(config.table, f"{where}: config") if seed is None else seed
    return Evidence(
        name=name,
        rule=rule,
        depth=config.whole(DEPTH),
        residual=residual,
        classes=config.whole(CLASSES),
        seeds=[SeedEvidence(seed=seed if own is None else own, moments=moments) for own, moments in trainings.items()],
        notes=[*notes, *config.notes],
    )


def _by_seed(
    entries: Sequence[Mapping[str, Any]], moments: list[Moment], config: Config, notes: list[str], where: str
) -> dict[int | None, list[Moment]]:
    """The entries of each training in their order. Most logs are of one; where entries state seeds, of one per seed."""
    seeds = [seed_of(entry, f"{where}[{number}]") for number, entry in enumerate(entries)]
    if None in seeds and len(set(seeds)) > 1:
        place = seeds.index(None)
        raise RecordError(
            f"{where}[{place}] states no seed, and others do", "state the seed of every entry, or of none"
        )
    trainings = {
        seed: _in_order([m for own, m in zip(seeds, moments, strict=True) if own == seed], config, notes, where)
        for seed in dict.fromkeys(seeds)
    } or {None: []}
    if len(trainings) > 1:
        notes.append(f"its entries are of {len(trainings)} seeds, and each is a training of its own")
    return trainings


def _moment(where: str, names: Mapping[str, str | None], **fields: Any) -> Moment:
    """An entry as a moment; what cannot be is refused by its place in the log and the name that it has there."""
    try:
        return Moment(**fields)
    except ValidationError as error:
        first = error.errors()[0]
        field, *rest = first["loc"] or ("",)
        place = ".".join(str(part) for part in (names.get(str(field)) or field, *rest))
        words = first["msg"].removeprefix(PYDANTICS)
        raise RecordError(f"{where}: {place}{': ' if place else ''}{words}", "correct the log") from error


def _loss(entry: Mapping[str, Any], where: str) -> float | None:
    """The cross-entropy."""
    value = _number(entry, "loss", where)
    try:
        return None if value is None else invariants.cross_entropy(value)
    except ValueError as error:
        raise RecordError(f"{where}: loss: {error}", "correct the log") from error


def _in_order(moments: list[Moment], config: Config, notes: list[str], where: str) -> list[Moment]:
    """By epoch, if every moment has one; the last is the one that is judged."""
    epochs = [m.epoch for m in moments if m.epoch is not None]
    most = config.number(EPOCHS)
    for number, moment in enumerate(moments):
        if moment.epoch is None:
            continue
        words = ""
        if moment.epoch in [m.epoch for m in moments[:number]]:
            words = f"epoch {moment.epoch} is there twice"
        elif most is not None and moment.epoch > most[1]:
            words = f"epoch is {moment.epoch}, and config has {most[0]} = {most[1]}"
        if words:
            said = invariants.broken("log-epochs", f"{where}[{number}]: {words}")
            raise RecordError(said, "correct the log: one entry for each epoch")
    if len(epochs) < len(moments) or epochs == sorted(epochs):
        return moments
    notes.append("its entries were not in the order of their epochs and have been sorted")
    return sorted(moments, key=lambda m: m.epoch or 0)


def _config(raw: Mapping[str, Any], where: str) -> Config:
    config = raw.get("config")
    return Config({} if config is None else _object(config, f"{where}: config"), where)


def _first(table: Mapping[str, Any], names: Sequence[str]) -> str | None:
    """The first of some names that the table has with a value."""
    return next((name for name in names if table.get(name) is not None), None)


def _epoch(entry: Mapping[str, Any], where: str) -> int | None:
    value = _number(entry, "epoch", where)
    if value is None:
        return None
    if not (math.isfinite(value) and 0 <= value <= MOST and value == int(value)):
        raise RecordError(f"{where}: epoch is {value:g}, not a whole number up to {MOST:g}", "correct the log")
    return int(value)


def _number(table: Mapping[str, Any], key: str, where: str) -> float | None:
    return _as_number(table.get(key), f"{where}: {key}")


def _numbers(table: Mapping[str, Any], key: str, where: str) -> list[float | None]:
    values = _list(table[key], f"{where}: {key}")
    return [_as_number(value, f"{where}: {key}[{place}]") for place, value in enumerate(values)]


def _as_number(value: Any, where: str) -> float | None:
    if value is None:
        return None
    if isinstance(value, (int, float)) and not isinstance(value, bool):
        try:
            return float(value)
        except OverflowError:
            raise RecordError(f"{where} is too large a number", "correct the log") from None
    if isinstance(value, str) and value.strip().lower() in NOT_FINITE:
        return float(value)  # the way strict JSON writes NaN
    raise RecordError(f"{where} is {kind_of(value)}, not a number", "correct the log")


def _key(key: str, where: str, what: str) -> int:
    if not re.fullmatch(r"0|[1-9][0-9]{0,17}", key):  # 01 would be a second 1
        raise RecordError(f"{where} has the key {key[:40]!r}, not a number of {what}", SHAPES)
    return int(key)


def _object(value: Any, where: str) -> Mapping[str, Any]:
    if not isinstance(value, dict):
        raise RecordError(f"{where} is {kind_of(value)}, not an object", SHAPES)
    return value


def _list(value: Any, where: str) -> list[Any]:
    if not isinstance(value, list):
        raise RecordError(f"{where} is {kind_of(value)}, not a list", SHAPES)
    return value


def _name(method: str, where: str) -> str:
    if len(method) > NAME:
        raise RecordError(
            f"{where[:200]}: a method has a name of {len(method)} characters, {method[:20]!r}…",
            f"give it a name of at most {NAME} characters",
        )
    return method
