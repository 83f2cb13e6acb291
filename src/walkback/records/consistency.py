"""A run's files held against each other: config, snapshots, result, probes, sittings and checkpoint are of one run.

`check_run` is called for every folder that is read, so that no reader has to wonder. What it refuses is named by file
and field; the properties themselves are in invariants.py.
"""

import math
import re
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any

from walkback.data import DATASETS
from walkback.errors import RecordError
from walkback.records.checkpoint import CHECKPOINTS, parsed_header
from walkback.records.invariants import broken
from walkback.records.predictions import PREDICTIONS, flaws
from walkback.records.record import Record
from walkback.records.schema import (
    Cosine,
    DeepProbes,
    Environment,
    Null,
    Precision,
    Result,
    RunConfig,
    Snapshot,
    Valued,
)

if TYPE_CHECKING:
    from walkback.records.folder import Contents, Run

Flaw = tuple[str, str, str]  # file and field; the invariant; what was found
REMEDY = "restore the folder from where it came from, or train the run again with --fresh (the old folder is kept)"
BLOCK = re.compile(r"adam\.m\.net\.blocks\.(\d{1,6})\.")


def check_run(run: "Run", contents: "Contents", files: Mapping[str, bytes]) -> None:
    """Refuse a folder whose files do not fit each other.

    files   by their names the predictions, and the headers of the checkpoints, that are there
    """
    for where, name, words in _flaws(run, contents, files):
        raise RecordError(f"{run.path / where}: {broken(name, words)}", REMEDY)


def _flaws(run: "Run", contents: "Contents", files: Mapping[str, bytes]) -> Iterator[Flaw]:
    config, snapshots, result = run.config, contents.snapshots, run.result
    train, test, classes = _counts(config)
    # Where the data set is not known, the first epoch shows how many steps one has.
    first = max(1, snapshots[1].step) if snapshots[1:] else None
    steps = first if train is None else -(-train // config.batch_size)
    last = snapshots[-1] if snapshots else None
    if config.train_last > config.blocks:
        yield "config.json: train_last", "blocks", f"{config.train_last} blocks train, and the net has {config.blocks}"
    for place, snapshot in enumerate(snapshots):
        for field, name, words in _of_snapshot(place, snapshot, config, steps, test):
            yield f"snapshots.jsonl line {place + 1}: {field}", name, words
    if contents.identity is not None and (branches := len(contents.identity.branch)) != config.blocks:
        yield "identity.json: branch", "blocks", f"it has {branches} entries, and the net has {config.blocks} blocks"
    if result is not None:
        for field, name, words in _of_result(result, config, last, steps):
            yield f"result.json: {field}", name, words
    if contents.probes is not None:
        for field, name, words in _of_probes(contents.probes, config, last, result):
            yield f"probes.json: {field}", name, words
    if run.environment is not None:
        for field, name, words in _of_sittings(run.environment, result):
            yield f"environment.json: {field}", name, words
    for words in flaws(files.get(PREDICTIONS), result, test, classes):
        yield PREDICTIONS, "predictions", words
    yield from _of_checkpoints(files, config, result)


def _counts(config: RunConfig) -> tuple[int | None, int | None, int | None]:
    """The samples that train, those that accuracies are taken on, and the classes; None where that is not known."""
    source = DATASETS.get(config.data) if config.data in DATASETS else None
    if source is None or source.counts is None:
        return None, None, None if source is None else source.classes
    train, test = source.counts
    if config.validation:  # a part of the training samples stands in for the test split
        test = round(config.validation * train)
        train -= test
    return train, test, source.classes


def scheduled(config: RunConfig, epoch: int) -> float | None:
    """The learning rate that the epoch before a snapshot was trained with: lr (1 + cos(π (e − 1) / epochs)) / 2."""
    if epoch == 0 or config.schedule == "constant":
        return config.lr if epoch else None
    return config.lr * (1 + math.cos(math.pi * (epoch - 1) / config.epochs)) / 2


def _of_snapshot(
    place: int, snapshot: Snapshot, config: RunConfig, steps: int | None, test: int | None
) -> Iterator[Flaw]:
    if snapshot.epoch != place:
        yield "epoch", "epochs", f"it is {snapshot.epoch}, and the line is that of epoch {place}"
    if snapshot.epoch > config.epochs:
        yield "epoch", "epochs", f"it is {snapshot.epoch}, and the config has {config.epochs} epochs"
    wanted = 0 if place == 0 else None if steps is None else place * steps
    if wanted is not None and snapshot.step != wanted:
        yield "step", "steps", f"it is {snapshot.step}, and after {place} epochs there are {wanted} steps"
    found, lr = snapshot.lr, scheduled(config, place)
    if not (found is lr if found is None or lr is None else abs(found - lr) <= 1e-9 * abs(lr) + 1e-15):
        yield "lr", "learning-rate", f"it is {found}, and the config gives {lr}"
    if (snapshot.train_loss is None) != (place == 0):
        yield "train_loss", "epochs", "only the snapshot at init has none"
    right = math.nan if test is None else snapshot.accuracy * test
    if math.isfinite(right) and abs(right - round(right)) > 1e-6:
        yield "accuracy", "test-size", f"{snapshot.accuracy!r} of {test} test samples is {right:.3f} samples"
    images, blocks = snapshot.probe_images, config.blocks
    seen = config.probe_images if test is None else min(config.probe_images, test)
    if images != seen and (test is not None or images > seen):
        yield "probe_images", "test-size", f"it is {images}, and the probes see {seen}"
    if len(snapshot.cosine) != blocks:  # all its lists are of one net
        yield from _of_lengths(snapshot, blocks)
    for name in ("update", "zero credits"):
        if len(snapshot.measured.get(name, [()] * blocks)) != blocks:
            yield f"measured.{name}", "blocks", _entries(len(snapshot.measured[name]), blocks, blocks)
    cosines = [*snapshot.cosine, *snapshot.cosine_out, snapshot.cosine_embed]
    measured: list[Cosine | Valued] = [*cosines, *(r for found in snapshot.measured.values() for r in found)]
    known = sum([each.value for each in measured if each.status == "ok"])
    if not math.isfinite(known) or {cosine.total for cosine in cosines} != {images}:  # most are surely fine
        yield from flaws_of_values(snapshot, images, "the snapshot is")


def _of_lengths(record: Record, blocks: int, before: str = "") -> Iterator[Flaw]:
    """Every list that is not of so many blocks."""
    for field, count in record.block_counts().items():
        if count != blocks:
            longer = len(getattr(record, field)) - count
            yield f"{before}{field}", "blocks", _entries(count + longer, blocks + longer, blocks)


def _entries(found: int, wanted: int, blocks: int) -> str:
    return f"it has {found} entries, and a net of {blocks} blocks has {wanted}"


def measurements_in(value: Any, place: str = "") -> Iterator[tuple[str, Any]]:
    """Every measurement that a record holds, with its place, such as cosine.0."""
    if isinstance(value, Valued | Cosine | Precision | Null):
        yield place, value
        return
    if isinstance(value, Record):
        parts: Any = ((name, getattr(value, name)) for name in value.__struct_fields__)
    else:
        parts = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for key, part in parts:
        yield from measurements_in(part, f"{place}.{key}" if place else f"{key}")


def flaws_of_values(record: Record, images: int | None = None, whose: str = "") -> Iterator[Flaw]:
    """Every measurement that says "ok" of what is not finite. `images`: what it must be of, where that is known."""
    for place, each in measurements_in(record):
        if isinstance(each, Null):
            if images is not None and each.n < 2 and not (math.isnan(each.mean) and math.isnan(each.std)):
                yield f"{place}.n", "measured", f"a mean and a spread of {each.n} draws: at least two are needed"
            continue
        name = "chord" if isinstance(each, Precision) else "value"
        if each.status == "ok" and not math.isfinite(getattr(each, name)):
            yield f"{place}.{name}", "measured", 'the status is "ok", and the value is not finite'
        if images is None:
            continue
        if isinstance(each, Cosine) and each.total != images:
            yield f"{place}.total", "samples", f"of {each.total} samples, and {whose} of {images}"
        if isinstance(each, Precision) and (each.samples > images or (each.status == "ok" and each.samples < 1)):
            yield f"{place}.samples", "alive", f"it speaks for {each.samples} of {images} samples"


def _of_result(result: Result, config: RunConfig, last: Snapshot | None, per_epoch: int | None) -> Iterator[Flaw]:
    if last is None:
        yield "epochs", "result", "there is a result, and no snapshot"
        return
    if result.epochs != last.epoch:
        yield "epochs", "result", f"it is {result.epochs}, and the last snapshot is of epoch {last.epoch}"
    if result.status == "finished" and result.epochs != config.epochs:
        yield "epochs", "result", f"it finished {result.epochs} epochs, and the config has {config.epochs}"
    if result.status == "fired" and not config.stop_when_fired:
        yield "status", "result", "it ended because a check fired, and the config does not ask for that"
    most = last.step + (per_epoch or result.steps) if result.status == "diverged" else last.step
    if not last.step <= result.steps <= most:
        yield "steps", "result", f"it is {result.steps}, and the last snapshot is of step {last.step}"
    for field in ("accuracy", "loss"):
        ended, seen = getattr(result, field), getattr(last, field)
        if ended != seen and not (math.isnan(ended) and math.isnan(seen)):
            yield field, "result", f"it is {ended!r}, and the last snapshot has {seen!r}"


def _of_probes(probes: DeepProbes, config: RunConfig, last: Snapshot | None, result: Result | None) -> Iterator[Flaw]:
    if last is None or (result is not None and probes.step != last.step):
        yield "step", "probes", f"it is {probes.step}, and the last snapshot is of {last.step if last else 'no'} step"
    elif probes.images != last.probe_images:
        yield "images", "probes", f"it is {probes.images}, and the snapshots are of {last.probe_images}"
    yield from _of_lengths(probes, config.blocks)
    if probes.output is not None:
        yield from _of_lengths(probes.output, config.blocks, "output.")
    yield from flaws_of_values(probes, probes.images, "the probes are")


def _of_sittings(environment: Environment, result: Result | None) -> Iterator[Flaw]:
    sittings = environment.sittings
    if not sittings or sittings[0].from_step != 0:
        yield "sittings", "sittings", "the first does not begin at step 0" if sittings else "none is listed"
        return
    if result is not None:
        for number, begun in enumerate(sitting.from_step for sitting in sittings):
            if begun > result.steps:
                yield f"sittings.{number}.from_step", "sittings", f"it is {begun}, and the run ended at {result.steps}"
        if sittings[-1].to_step not in (None, result.steps):
            ended = sittings[-1].to_step
            yield f"sittings.{len(sittings) - 1}.to_step", "sittings", f"it is {ended}, the run ended at {result.steps}"


def _of_checkpoints(headers: Mapping[str, bytes], config: RunConfig, result: Result | None) -> Iterator[Flaw]:
    ended = result is not None and result.status != "diverged"
    for name in CHECKPOINTS:
        found = parsed_header(headers.get(name))
        if found is None:
            continue
        tensors, state = found
        if state.get("seed") not in (None, config.seed):
            yield f"{name}: seed", "checkpoint", f"it is of seed {state['seed']!r}, and the run is of {config.seed}"
        if state.get("config") not in (None, config.hash()):
            yield f"{name}: config", "checkpoint", f"it is {state['config']!r}, and the run's is {config.hash()}"
        step = state.get("step")
        if ended and result is not None and name == "checkpoint.safetensors" and step not in (None, result.steps):
            yield f"{name}: step", "checkpoint", f"it is of step {step!r}, and the run ended at {result.steps}"
        trained = {int(match[1]) for tensor in tensors if (match := BLOCK.match(tensor))}
        frozen = sorted(block for block in trained if block < config.blocks - config.train_last)
        if frozen:
            words = f"block {frozen[0]} was trained, and the config trains the last {config.train_last} only"
            yield f"{name}: tensors", "checkpoint", words
