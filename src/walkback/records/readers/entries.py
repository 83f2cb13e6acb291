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
from walkback.records.moment import Moment
from walkback.records.readers.base import (
    BATCH,
    CLASSES,
    DEPTH,
    EPOCHS,
    READERS,
    Config,
    LogFile,
    as_list,
    as_object,
    epoch_of,
    first_of,
    method_name,
    number_of,
    numbers_of,
    seed_of,
    short,
)
from walkback.records.record import Fault
from walkback.records.training import Training

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


def by_method(file: LogFile) -> list[Evidence] | None:
    """One subject per method, in a log with a list of entries for each."""
    found = []
    for key, entries in file.table.items():
        if key.endswith("_log") and len(key) > 4:
            method, where = method_name(key[:-4], file.where), f"{file.where}: {key}"
            found.append(_evidence(method, method, entries, file.raw, Config(file.raw, where), where))
    return found or None


def single(file: LogFile) -> list[Evidence] | None:
    """The subject of a log of one method, whose accuracy at the end may be stated apart."""
    raw, where = file.table, file.where
    if "log" not in raw:
        return None
    config = Config(raw, where)
    method = config.table.get(first_of(config.table, METHOD) or "")
    rule = method_name(method, where) if isinstance(method, str) else None
    return [_evidence(rule or file.name, rule, raw["log"], raw, config, f"{where}: log", END)]


def _evidence(
    name: str, rule: str | None, entries: Any, raw: Mapping[str, Any], config: Config, where: str, end: str = ""
) -> Evidence:
    """The trainings of one method, with what the log's config states.

    end   the key of an accuracy that counts instead of the last entry's
    """
    notes: list[str] = []
    entries = as_list(entries, where)
    moments = _moments(entries, rule, config, notes, where)
    trainings = _by_seed(entries, moments, config, notes, where)
    final = number_of(raw, end, config.where) if end else None
    if final is not None:
        if len(trainings) > 1:
            raise RecordError(f"{config.where}: {end} is one number, and the entries are of {len(trainings)} seeds",
                              "give one log per seed")  # fmt: skip
        (moments,) = trainings.values()
        last = moments.pop() if moments else Moment()
        if last.accuracy is not None and last.accuracy != final:
            notes.append(f"the accuracy is {end}, {final:g}; the last entry has acc_eval {last.accuracy:g}")
        with _placed(config.where, {"accuracy": end}):
            moments.append(last.changed(accuracy=final))
    residual, stated = config.residual()
    norms = any(m.hidden_norms or m.hidden_at or m.deepest_hidden is not None for ms in trainings.values() for m in ms)
    if not stated and norms:
        residual, notes = True, [*notes, STREAM]
    seed = seed_of(raw, config.where)
    seed = seed_of(config.table, f"{config.where}: config") if seed is None else seed
    return Evidence(
        name=name, rule=rule, depth=config.whole(DEPTH), residual=residual, classes=config.whole(CLASSES),
        seeds=[Training(seed=seed if own is None else own, moments=moments) for own, moments in trainings.items()],
        notes=[*notes, *config.notes],
    )  # fmt: skip


def _moments(entries: Sequence[Any], method: str | None, config: Config, notes: list[str], where: str) -> list[Moment]:
    """The entries in the order in which they are written, and a note on the keys that nothing is read from: one may be
    a norm under another name."""
    depth, batch = config.whole(DEPTH), config.whole(BATCH)
    if depth is not None and depth * len(entries) > CELLS:
        raise RecordError(
            f"{where}: {len(entries)} entries of a net of {depth} blocks are too many to read",
            "keep fewer entries: the first, the last, and some between",
        )
    gammas = (f"gamma_{method}", "gamma")
    known = {*HIDDEN, *GRADIENTS, *gammas, "epoch", "seed", "acc_eval", "loss"}
    unread: dict[str, None] = {}
    moments: list[Moment] = []
    for number, entry in enumerate(entries):
        here = f"{where}[{number}]"
        moments.append(_entry(as_object(entry, here), depth, batch, gammas, here))
        unread |= {
            key: None for key, value in entry.items() if not (value is None or key in known or SINGLE.fullmatch(key))
        }
    if unread:
        first, more = [short(key) for key in unread][:NAMED], len(unread) - NAMED
        named = ", ".join(first) + (f" and {more} more" if more > 0 else "")
        notes.append(f"nothing is read from {named} in its entries; docs/judge-a-log.md lists the names that are read")
    return moments


def _entry(entry: Mapping[str, Any], depth: int | None, batch: int | None, gammas: Sequence[str], here: str) -> Moment:
    """An entry with lists of norms, or with single norms by name: h_0_norm, h_L_norm, g_2_norm, … L itself may not be
    known."""
    names = {"hidden_norms": first_of(entry, HIDDEN), "gradient_norms": first_of(entry, GRADIENTS)}
    fields: dict[str, Any] = {norms: numbers_of(entry, name, here) for norms, name in names.items() if name}
    if gamma := first_of(entry, gammas):
        fields["gamma"] = number_of(entry, gamma, here)
    for kind, known in _singles(entry, depth, here).items():
        if known and (name := names[f"{kind}_norms"]):
            _same(fields[f"{kind}_norms"], known, name, kind, here)
        elif known and depth is not None:
            fields[f"{kind}_norms"] = [known.get(layer) for layer in range(depth + 1)]
        elif known:
            fields |= {f"deepest_{kind}": known.pop("L", None), f"{kind}_at": known}
    if any("gradient" in name for name in fields):
        fields["reference_batch"] = batch
    with _placed(here, {"accuracy": "acc_eval", "gamma": gamma, **names}):
        return Moment(
            epoch=epoch_of(entry, here), accuracy=number_of(entry, "acc_eval", here), loss=_loss(entry, here), **fields
        )


def _singles(entry: Mapping[str, Any], depth: int | None, here: str) -> dict[str, dict[int | str, float]]:
    """The norms that an entry has by the names of their layers; L is a name where its number is not known."""
    norms: dict[str, dict[int | str, float]] = {"hidden": {}, "gradient": {}}
    for match in filter(None, map(SINGLE.fullmatch, entry)):
        value = number_of(entry, match[0], here)
        layer = (depth or "L") if match[2] == "L" else int(match[2])
        if depth is not None and int(layer) > depth:
            raise RecordError(f"{here}: {match[0]} is beyond the deepest state, h_{depth}", "correct log or config")
        if value is not None:
            norms["hidden" if match[1] == "h" else "gradient"][layer] = value
    return norms


def _same(norms: Sequence[float | None], known: Mapping[int | str, float], name: str, kind: str, here: str) -> None:
    """Refuses single norms that are not those of the list beside them; logs round, so 1 % is the same."""
    for layer, single in known.items():
        place = len(norms) - 1 if layer == "L" else int(layer)
        key = f"{kind[0]}_{layer}_norm"
        if not 0 <= place < len(norms):
            raise RecordError(f"{here}: {key} is beyond the end of {name}", "correct the log, or keep one of the two")
        listed = norms[place]
        if listed is None or math.isclose(listed, single, rel_tol=0.01) or (math.isnan(listed) and math.isnan(single)):
            continue
        raise RecordError(f"{here}: {key} is {single:g}, and {name} has {listed:g} there",
                          "correct the log, or keep one of the two")  # fmt: skip


def _by_seed(
    entries: Sequence[Mapping[str, Any]], moments: list[Moment], config: Config, notes: list[str], where: str
) -> dict[int | None, list[Moment]]:
    """The entries of each training in their order. Most logs are of one; where entries state seeds, of one per seed."""
    seeds = [seed_of(entry, f"{where}[{number}]") for number, entry in enumerate(entries)]
    if None in seeds and len(set(seeds)) > 1:
        place = f"{where}[{seeds.index(None)}]"
        raise RecordError(f"{place} states no seed, and others do", "state the seed of every entry, or of none")
    own: dict[int | None, list[Moment]] = {}
    for seed, moment in zip(seeds, moments, strict=True):
        own.setdefault(seed, []).append(moment)
    trainings = {seed: _in_order(found, config, notes, where) for seed, found in own.items()} or {None: []}
    if len(trainings) > 1:
        notes.append(f"its entries are of {len(trainings)} seeds, and each is a training of its own")
    return trainings


@contextlib.contextmanager
def _placed(where: str, names: Mapping[str, str | None]) -> Iterator[None]:
    """Refuse what cannot be inside by its place in the log and the name that it has there."""
    try:
        yield
    except ValueError as error:
        place, words = (error.place, error.words) if isinstance(error, Fault) else ("", str(error))
        field, dot, rest = place.partition(".")
        named = f"{names.get(field) or field}{dot}{rest}"
        raise RecordError(f"{where}: {named}{': ' if named else ''}{words}", "correct the log") from error


def _loss(entry: Mapping[str, Any], where: str) -> float | None:
    """The cross-entropy."""
    value = number_of(entry, "loss", where)
    try:
        return None if value is None else invariants.cross_entropy(value)
    except ValueError as error:
        raise RecordError(f"{where}: loss: {error}", "correct the log") from error


def _in_order(moments: list[Moment], config: Config, notes: list[str], where: str) -> list[Moment]:
    """By epoch, if every moment has one; the last is the one that is judged."""
    epochs = [moment.epoch for moment in moments]
    most = config.number(EPOCHS)
    for number, epoch in enumerate(epochs):
        if epoch is None:
            continue
        words = f"epoch {epoch} is there twice" if epoch in epochs[:number] else ""
        if not words and most is not None and epoch > most[1]:
            words = f"epoch is {epoch}, and config has {most[0]} = {most[1]}"
        if words:
            what = invariants.broken("log-epochs", f"{where}[{number}]: {words}")
            raise RecordError(what, "correct the log: one entry for each epoch")
    known = [epoch for epoch in epochs if epoch is not None]
    if len(known) < len(epochs) or known == sorted(known):
        return moments
    notes.append("its entries were not in the order of their epochs and have been sorted")
    return sorted(moments, key=lambda m: m.epoch or 0)


READERS.add("by method", by_method)
READERS.add("single", single)
