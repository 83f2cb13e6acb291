"""The log of a watched training: JSON lines, a header first, then one line per look. Read as evidence like any other.

    {"schema": "walkback.watch/1", "blocks": [...], ...}     the header
    {"step": 50, "moment": {...}, "arrived": [...], ...}     one look
    {"ended": "finished", "steps": 200, ...}                 the end; a training that was killed has none

A line that was cut off at the end is left out, with a note. Anything else that cannot be true is refused.
"""

import json
import math
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Any, Literal

from msgspec import Meta

from walkback.errors import RecordError
from walkback.files import is_folder, keep_old, parse_json, read_bytes
from walkback.records import invariants
from walkback.records.evidence import Evidence
from walkback.records.moment import Ended, Moment, Standing, Training, check_gamma, credited
from walkback.records.readers.base import READERS, LogFile
from walkback.records.record import Record, each_line, from_json
from walkback.records.schema import BLOCKS, CosineValue, Count, Size
from walkback.records.schema import UPDATE as UPDATE

FRESH = "undo the edit, or watch the training again"
LOOKS = 100_000
Name = Annotated[str, Meta(max_length=200)]
Crossing = Literal["crosses", "carried by hand", "direct feedback", "does not cross", "not seen"]
Loss = Literal["cross-entropy", "cross-entropy per place", "your own"]


class WatchHeader(Record, kw_only=True):
    """What is watched."""

    schema: Literal["walkback.watch/1"] = "walkback.watch/1"
    name: Name
    blocks: Annotated[list[Name], Meta(min_length=1, max_length=BLOCKS)]
    residual: bool | None  # whether the blocks add to a stream; None: not stated
    seed: Annotated[int, Meta(ge=-(2**63), le=2**63 - 1)] | None
    local: bool  # whether no gradient is meant to cross from block to block
    every: Annotated[int, Meta(ge=1)]
    samples: Annotated[int, Meta(ge=1)]  # of the probe
    loss: Loss  # by which the probe is measured
    at_init: bool  # whether the first look is at the random init
    notes: list[str]


class WatchLook(Record):
    """One look, after the backward pass of a step and before its update."""

    step: Count
    moment: Moment  # on the probe batch, as `wb.audit` measures it
    arrived: list[Size | None]  # by block, in the loop's own backward: ‖∂loss/∂output‖ in the scale of its own loss
    crosses: list[Crossing]  # by boundary: did the gradient cross from a later block into block l?
    halves: list[CosineValue | None]  # by block: how far the gradients of the probe's two halves agree
    proved_at: Count | None  # the step at which finite differences last confirmed the true gradient
    fired: list[str]
    notes: list[str]
    standing: Standing | None = None  # so far: whether the credits that are compared are what trains the blocks
    standing_why: str = ""

    def possible(self) -> None:
        """Its lists are of one net."""
        counts = {len(self.arrived), len(self.crosses) + 1, len(self.halves), *self.moment.block_counts().values()}
        if len(counts) > 1:
            raise invariants.Broken("blocks", f"its lists mean {' and '.join(map(str, sorted(counts)))} blocks")
        check_gamma(self.moment)


class WatchEnd(Record):
    """How the training ended, and what watching it cost."""

    ended: Ended
    steps: Count
    seconds: Size
    looking: Size  # seconds of them
    standing: Standing | None = None  # at the end
    standing_why: str = ""


UNKNOWN = "the log does not tell whether, to its end, the backward pass that was measured trained the net"


def is_watched(content: bytes) -> bool:
    """Whether a file begins as the log of a watched training does."""
    first = content[:100_000].split(b"\n", 1)[0]
    try:
        raw = json.loads(first)
    except (ValueError, RecursionError):
        return False
    schema = raw.get("schema") if isinstance(raw, dict) else None
    return isinstance(schema, str) and schema.startswith("walkback.watch/")


def evidence_of_watch(
    header: WatchHeader, looks: Sequence[WatchLook], end: WatchEnd | None = None, notes: Sequence[str] = ()
) -> Evidence:
    """A watched training as evidence: one seed, whose epochs are steps."""
    moments = [look.moment.changed(epoch=look.step if look.step or header.at_init else None) for look in looks]
    remarks = [*notes, "watched while it was trained: what is called an epoch here is a step of the optimizer",
               f"accuracy, norms and cosines are of the probe, {header.samples} samples"]  # fmt: skip
    answers = [each for each in (*looks, end) if each is not None and each.standing is not None]
    standing, why = (answers[-1].standing, answers[-1].standing_why) if answers else ("in part", UNKNOWN)
    if standing == "seen" and (end is None or end.standing is None):
        standing, why = "in part", UNKNOWN
    moments = credited(moments, standing)
    if any(moment.cosine is not None for moment in moments):
        remarks.append("credit: what the model's own backward pass delivers on the probe")
    if not header.at_init:
        remarks.append("it was not watched from its random init on")
    remarks += [*header.notes, *(looks[-1].notes if looks else [])]
    doubts = []
    for low in range(len(header.blocks) - 1) if header.local else ():
        steps = [each.step for each in looks if each.crosses[low] in ("crosses", "carried by hand")]
        if steps:
            doubts.append(f"local=True was set, but at step {steps[0]} the gradient crossed from "
                          f"{header.blocks[low + 1]} into {header.blocks[low]}")  # fmt: skip
    training = Training(
        seed=header.seed, moments=moments, ended=end.ended if end else None, standing=standing, standing_why=why
    )
    return Evidence(
        name=header.name, depth=len(header.blocks), residual=header.residual, seeds=[training],
        notes=list(dict.fromkeys(remarks)), doubts=doubts,
    )  # fmt: skip


def read(file: LogFile) -> list[Evidence] | None:
    """The one training that was watched; refused if it cannot be true (see invariants.py)."""
    content, where = file.content, file.where
    if not is_watched(content):
        return None
    if (count := content.count(b"\n")) > LOOKS:
        raise RecordError(f"{where} has {count:,} lines, and at most {LOOKS:,} are read", "keep fewer looks")
    if not count:
        raise RecordError(f"{where} was cut off in its first line", FRESH)
    raws, torn = each_line(content, lambda number, line: parse_json(line, f"{where} line {number}", FRESH, digits=19))
    header = from_json(WatchHeader, raws[0], f"{where} line 1", FRESH)
    looks: list[WatchLook] = []
    end: WatchEnd | None = None
    for number, raw in enumerate(raws[1:], 2):
        here = f"{where} line {number}"
        if end is not None:
            raise RecordError(f"{here}: something follows the end", FRESH)
        if isinstance(raw, dict) and "ended" in raw:
            end = from_json(WatchEnd, raw, here, FRESH)
            if looks and end.steps < looks[-1].step:
                words = f"{here}: it ended after {end.steps} steps, and a look is of step {looks[-1].step}"
                raise RecordError(invariants.broken("log-epochs", words), FRESH)
        else:
            looks.append(_look(raw, here, header, looks))
    notes = ["the last line of the log is incomplete and was left out"] if torn else []
    return [evidence_of_watch(header, looks, end, notes)]


def _look(raw: Any, here: str, header: WatchHeader, before: list[WatchLook]) -> WatchLook:
    look = from_json(WatchLook, raw, here, FRESH)
    count = len(header.blocks)
    if len(look.arrived) != count:
        words = f"{here}: its lists are of {len(look.arrived)} blocks, and the header names {count}"
        raise RecordError(invariants.broken("blocks", words), FRESH)
    if before and look.step <= before[-1].step:
        words = f"{here}: step {look.step} follows step {before[-1].step}"
        raise RecordError(invariants.broken("log-epochs", words), FRESH)
    accuracy, loss = look.moment.accuracy, look.moment.loss
    if header.loss != "your own" and loss is not None:
        try:
            invariants.cross_entropy(loss)
            if header.loss == "cross-entropy" and accuracy is not None and math.isfinite(loss):
                invariants.enough_loss(accuracy, loss)
        except ValueError as error:
            raise RecordError(f"{here}: {error}", FRESH) from error
    return look


def make_room(log: Path) -> None:
    """Set the log of an earlier training aside; a file that is none is not touched."""
    if is_folder(log):
        raise RecordError(f"cannot write {log}: it is a folder", "name a file, such as run.jsonl")
    if not is_folder(log.parent):
        raise RecordError(f"cannot write {log}: the folder {log.parent} does not exist", "make it, or name another")
    try:
        content = read_bytes(log)
    except FileNotFoundError:
        return
    if not content:
        return
    if not is_watched(content):
        raise RecordError(f"{log} exists and is not a log of wb.watch", "name another file")
    keep_old(log)


READERS.add("watch", read)
