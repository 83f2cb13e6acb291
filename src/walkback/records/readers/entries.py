"""Logs of entries, one per epoch: read as moments, by the names that such logs use.

{"bp_log": [{epoch, hidden_norms, …}, …], "dfa_log": […]}                     a list of entries per method
{"config": {…}, "log": [{epoch, h_L_norm, …}, …], "final_test_acc": …}        the entries of one method

An entry has norms as lists, {epoch, hidden_norms, bp_grad_norms_per_sample_med, acc_eval, gamma_bp}, or one by one,
{epoch, h_L_norm, g_2_norm, acc_eval}.
"""

import contextlib
import math
import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from walkback.errors import RecordError
from walkback.records import invariants
from walkback.records.evidence import Evidence
from walkback.records.moment import Moment, Training
from walkback.records.readers.base import (
    BATCH,
    CLASSES,
    CORRECT,
    DEPTH,
    EPOCHS,
    READERS,
    Config,
    Item,
    LogFile,
    method_name,
    short,
)
from walkback.records.record import Fault

END = "final_test_acc"
METHOD = ("method", "rule", "algorithm")
HIDDEN = ("hidden_norms_cls", "hidden_norms")  # the cls token is where a transformer's norms are taken
GRADIENTS = ("bp_grad_norms_per_sample_med", "bp_grad_per_sample_l2_med")
STREAM = (
    "the log does not say whether its net has a residual stream; logs of this shape come from such nets, so this is "
    "assumed"
)
SINGLE = re.compile(r"([hg])_(\d{1,4}|L)_norm")  # one norm by the name of its layer
NAMED = 6  # of the keys that are not read
CELLS = 10_000_000  # of the table that single norms are spread out in


def read(file: LogFile) -> list[Evidence] | None:
    """One subject per method that has a list of entries; else that of a log of one method."""
    if (log := file.table) is None:
        return None
    if methods := [key for key in log.value if key.endswith("_log") and len(key) > 4]:
        names = [method_name(key[:-4], file.where) for key in methods]
        return [
            _evidence(name, name, log.of(key), Item(log.value, f"{file.where}: {key}"))
            for name, key in zip(names, methods, strict=True)
        ]
    if "log" not in log.value:
        return None
    config = Config(log)
    method = config.table.get(config.item.first(METHOD) or "")
    rule = method_name(method, file.where) if isinstance(method, str) else None
    return [_evidence(rule or file.name, rule, log.of("log"), log, END)]


def _evidence(name: str, rule: str | None, entries: Item, log: Item, end: str = "") -> Evidence:
    """The trainings of one method, with what the log's config states.

    end   the key of an accuracy that counts instead of the last entry's
    """
    notes: list[str] = []
    config = Config(log)
    trainings = _trainings(entries, rule, config, notes)
    final = log.of(end).number() if end else None
    if final is not None:
        if len(trainings) > 1:
            words = f": {end} is one number, and the entries are of {len(trainings)} seeds"
            raise RecordError(f"{log.where}{words}", "give one log per seed")
        (moments,) = trainings.values()
        last = moments.pop() if moments else Moment()
        if last.accuracy is not None and last.accuracy != final:
            notes.append(f"the accuracy is {end}, {final:g}; the last entry has acc_eval {last.accuracy:g}")
        with _placed(log.where, {"accuracy": end}):
            moments.append(last.changed(accuracy=final))
    residual, stated = config.residual()
    norms = any(m.hidden_norms or m.hidden_at or m.deepest_hidden is not None for ms in trainings.values() for m in ms)
    if not stated and norms:
        residual, notes = True, [*notes, STREAM]
    seed = log.of("seed").seed()
    seed = config.item.of("seed").seed() if seed is None else seed
    return Evidence(
        name=name, rule=rule, depth=config.whole(DEPTH), residual=residual, classes=config.whole(CLASSES),
        seeds=[Training(seed=seed if own is None else own, moments=moments) for own, moments in trainings.items()],
        notes=[*notes, *config.notes],
    )  # fmt: skip


def _trainings(entries: Item, method: str | None, config: Config, notes: list[str]) -> dict[int | None, list[Moment]]:
    """The moments of each training in their order. Most logs are of one; where entries state seeds, of one per seed.

    A note names the keys that nothing is read from: one may be a norm under another name.
    """
    depth, batch, every = config.whole(DEPTH), config.whole(BATCH), entries.entries()
    if depth is not None and depth * len(every) > CELLS:
        raise RecordError(
            f"{entries.where}: {len(every)} entries of a net of {depth} blocks are too many to read",
            "keep fewer entries: the first, the last, and some between",
        )
    gammas = (f"gamma_{method}", "gamma")
    known = {*HIDDEN, *GRADIENTS, *gammas, "epoch", "seed", "acc_eval", "loss"}
    own: dict[int | None, list[tuple[Item, Moment]]] = {}
    unread: dict[str, None] = {}
    for entry in every:
        moment = _moment(entry, depth, batch, gammas)
        own.setdefault(entry.of("seed").seed(), []).append((entry, moment))
        stated = [key for key, value in entry.value.items() if value is not None]
        unread |= dict.fromkeys(key for key in stated if not (key in known or SINGLE.fullmatch(key)))
    if None in own and len(own) > 1:
        silent, _ = own[None][0]
        raise silent.refused("states no seed, and others do", "state the seed of every entry, or of none")
    if unread:
        first, more = [short(key) for key in unread][:NAMED], len(unread) - NAMED
        named = ", ".join(first) + (f" and {more} more" if more > 0 else "")
        notes.append(f"nothing is read from {named} in its entries; docs/judge-a-log.md lists the names that are read")
    trainings = {seed: _in_order(found, config, notes) for seed, found in own.items()} or {None: []}
    if len(trainings) > 1:
        notes.append(f"its entries are of {len(trainings)} seeds, and each is a training of its own")
    return trainings


def _moment(entry: Item, depth: int | None, batch: int | None, gammas: Sequence[str]) -> Moment:
    """An entry with lists of norms, or with single norms by name: h_0_norm, h_L_norm, g_2_norm, … L itself may not be
    known."""
    names = {"hidden_norms": entry.first(HIDDEN), "gradient_norms": entry.first(GRADIENTS)}
    fields: dict[str, Any] = {norms: entry.of(name).numbers() for norms, name in names.items() if name}
    if gamma := entry.first(gammas):
        fields["gamma"] = entry.of(gamma).number()
    for kind, known in _singles(entry, depth).items():
        if known and (name := names[f"{kind}_norms"]):
            _check_same(entry, fields[f"{kind}_norms"], known, name, kind)
        elif known and depth is not None:
            fields[f"{kind}_norms"] = [known.get(layer) for layer in range(depth + 1)]
        elif known:
            fields |= {f"deepest_{kind}": known.pop("L", None), f"{kind}_at": known}
    if any("gradient" in name for name in fields):
        fields["reference_batch"] = batch
    fields |= {
        "epoch": entry.of("epoch").epoch(), "accuracy": entry.of("acc_eval").number(), "loss": entry.of("loss").number()
    }  # fmt: skip
    if fields["loss"] is not None:
        with _placed(f"{entry.where}: loss", {}):
            invariants.cross_entropy(fields["loss"])
    with _placed(entry.where, {"accuracy": "acc_eval", "gamma": gamma, **names}):
        return Moment(**fields)


def _singles(entry: Item, depth: int | None) -> dict[str, dict[int | str, float]]:
    """The norms that an entry has by the names of their layers; L is a name where its number is not known."""
    norms: dict[str, dict[int | str, float]] = {"hidden": {}, "gradient": {}}
    for match in filter(None, map(SINGLE.fullmatch, entry.value)):
        value = entry.of(match[0]).number()
        layer = (depth or "L") if match[2] == "L" else int(match[2])
        if depth is not None and int(layer) > depth:
            what = f"{entry.where}: {match[0]} is beyond the deepest state, h_{depth}"
            raise RecordError(what, "correct log or config")
        if value is not None:
            norms["hidden" if match[1] == "h" else "gradient"][layer] = value
    return norms


def _check_same(
    entry: Item, norms: Sequence[float | None], known: Mapping[int | str, float], name: str, kind: str
) -> None:
    """Refuse single norms that are not those of the list beside them; logs round, so 1 % is the same."""
    remedy = "correct the log, or keep one of the two"
    for layer, single in known.items():
        place = len(norms) - 1 if layer == "L" else int(layer)
        item = entry.of(f"{kind[0]}_{layer}_norm")
        if not 0 <= place < len(norms):
            raise item.refused(f"is beyond the end of {name}", remedy)
        listed = norms[place]
        if listed is None or math.isclose(listed, single, rel_tol=0.01) or (math.isnan(listed) and math.isnan(single)):
            continue
        raise item.refused(f"is {single:g}, and {name} has {listed:g} there", remedy)


def _in_order(found: Sequence[tuple[Item, Moment]], config: Config, notes: list[str]) -> list[Moment]:
    """By epoch, if every moment has one; the last is the one that is judged."""
    moments, epochs = [moment for _, moment in found], dict[int, None]()
    most = config.number(EPOCHS)
    for entry, moment in found:
        if moment.epoch is None:
            continue
        words = f"epoch {moment.epoch} is there twice" if moment.epoch in epochs else ""
        if not words and most is not None and moment.epoch > most[1]:
            words = f"epoch is {moment.epoch}, and config has {most[0]} = {most[1]}"
        if words:
            what = invariants.broken("log-epochs", f"{entry.where}: {words}")
            raise RecordError(what, "correct the log: one entry for each epoch")
        epochs[moment.epoch] = None
    if len(epochs) < len(moments) or [*epochs] == sorted(epochs):
        return moments
    notes.append("its entries were not in the order of their epochs and have been sorted")
    return sorted(moments, key=lambda m: m.epoch or 0)


@contextlib.contextmanager
def _placed(where: str, names: Mapping[str, str | None]) -> Iterator[None]:
    """Refuse what cannot be inside by its place in the log and the name that it has there."""
    try:
        yield
    except ValueError as error:
        place, words = (error.place, error.words) if isinstance(error, Fault) else ("", str(error))
        field, dot, rest = place.partition(".")
        named = f"{names.get(field) or field}{dot}{rest}"
        raise RecordError(f"{where}: {named}{': ' if named else ''}{words}", CORRECT) from error


READERS.add("entries", read)
