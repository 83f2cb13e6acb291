"""Entries of a training log, one per epoch: read as moments, by the names that such logs use.

{epoch, hidden_norms, bp_grad_norms_per_sample_med, acc_eval, gamma_bp}    norms as lists
{epoch, h_L_norm, g_2_norm, acc_eval}                                      or one by one
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
from walkback.records.readers.log_values import (
    BATCH,
    CLASSES,
    DEPTH,
    EPOCHS,
    Config,
    as_object,
    epoch_of,
    first_of,
    number_of,
    numbers_of,
    seed_of,
    short,
)
from walkback.records.record import Fault
from walkback.records.training import Training

HIDDEN = ("hidden_norms_cls", "hidden_norms")  # the cls token is where a transformer's norms are taken
GRADIENTS = ("bp_grad_norms_per_sample_med", "bp_grad_per_sample_l2_med")
STREAM = (
    "the log does not say whether its net has a residual stream; logs of this shape come from such nets, so this is "
    "assumed"
)
SINGLE = re.compile(r"([hg])_(\d{1,4}|L)_norm")  # one norm by the name of its layer
NAMED = 6  # of the keys that are not read
CELLS = 10_000_000  # of the table that single norms are spread out in


def moments_of_entries(
    entries: Sequence[Any], method: str | None, config: Config, notes: list[str], where: str
) -> list[Moment]:
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
    fields, names = _lists(entry, gammas, batch, here)
    for kind, known in _singles(entry, depth, here).items():
        if not known:
            continue
        if name := names[f"{kind}_norms"]:
            _same(fields[f"{kind}_norms"], known, name, kind, here)
            continue
        if depth is not None:
            fields[f"{kind}_norms"] = [known.get(layer) for layer in range(depth + 1)]
        else:
            fields[f"deepest_{kind}"] = known.pop("L", None)
            fields[f"{kind}_at"] = known
        if kind == "gradient":
            fields["reference_batch"] = batch
    with placed(here, {"accuracy": "acc_eval", **names}):
        return Moment(
            epoch=epoch_of(entry, here), accuracy=number_of(entry, "acc_eval", here), loss=_loss(entry, here), **fields
        )


def _singles(entry: Mapping[str, Any], depth: int | None, here: str) -> dict[str, dict[int | str, float]]:
    """The norms that an entry has by the names of their layers; L is a name where its number is not known."""
    norms: dict[str, dict[int | str, float]] = {"hidden": {}, "gradient": {}}
    for key in entry:
        if match := SINGLE.fullmatch(key):
            value = number_of(entry, key, here)
            layer = match[2] if match[2] == "L" else int(match[2])
            if depth is not None and layer != "L" and int(layer) > depth:
                raise RecordError(f"{here}: {key} is beyond the deepest state, h_{depth}", "correct log or config")
            if value is not None:
                kind = "hidden" if match[1] == "h" else "gradient"
                norms[kind][depth if layer == "L" and depth is not None else layer] = value
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


def _lists(
    entry: Mapping[str, Any], gammas: Sequence[str], batch: int | None, here: str
) -> tuple[dict[str, Any], dict[str, str | None]]:
    """The norms that an entry has as lists, one number per state, and its Γ; and what the entry calls each."""
    hidden, gradients, gamma = first_of(entry, HIDDEN), first_of(entry, GRADIENTS), first_of(entry, gammas)
    fields = {
        "hidden_norms": numbers_of(entry, hidden, here) if hidden else None,
        "gradient_norms": numbers_of(entry, gradients, here) if gradients else None,
        "reference_batch": batch if gradients else None,
        "gamma": number_of(entry, gamma, here) if gamma else None,
    }
    return fields, {"hidden_norms": hidden, "gradient_norms": gradients, "gamma": gamma}


def evidence_of_entries(
    name: str,
    rule: str | None,
    config: Config,
    raw: Mapping[str, Any],
    trainings: Mapping[int | None, list[Moment]],
    notes: list[str],
    where: str,
) -> Evidence:
    """The trainings of a log, with what its config states."""
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
        seeds=[Training(seed=seed if own is None else own, moments=moments) for own, moments in trainings.items()],
        notes=[*notes, *config.notes],
    )


def trainings_by_seed(
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


@contextlib.contextmanager
def placed(where: str, names: Mapping[str, str | None]) -> Iterator[None]:
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
