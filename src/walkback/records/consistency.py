"""A run's files held against each other: config, snapshots, result, probes, sittings and checkpoint are of one run.

`check_run` is called for every folder that is read, so that no reader has to wonder. What it refuses is named by file
and field; the properties themselves are in invariants.py.
"""

import json
import math
import re
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

from walkback.data import DATASETS
from walkback.errors import RecordError
from walkback.files import check_regular
from walkback.records.invariants import broken, is_there
from walkback.records.predictions import PREDICTIONS, flaws
from walkback.records.schema import (
    CosineRecord,
    DeepProbes,
    Environment,
    PrecisionRecord,
    ReadingRecord,
    Result,
    RunConfig,
    Snapshot,
    Valued,
)

if TYPE_CHECKING:
    from walkback.records.training import Contents, Run

Flaw = tuple[str, str, str]  # file and field; the invariant; what was found
REMEDY = "restore the folder from where it came from, or train the run again with --fresh (the old folder is kept)"
CHECKPOINTS = ("checkpoint.safetensors", "checkpoint.previous.safetensors")
LARGEST_HEADER = 1 << 24
BLOCK = re.compile(r"adam\.m\.net\.blocks\.(\d{1,6})\.")


class Expected(NamedTuple):
    """What every snapshot of a run must have.

    per_epoch   steps; None while that is not known
    test        samples that accuracies are taken on; None where the data set is not known
    classes     likewise
    """

    config: RunConfig
    blocks: int
    per_epoch: int | None
    test: int | None
    classes: int | None = None

    @classmethod
    def of(cls, config: RunConfig, steps: list[int]) -> "Expected":
        """By the config; `steps`: those of the first snapshots, which tell an epoch's where the data set does not."""
        source = DATASETS.get(config.data) if config.data in DATASETS else None
        counts = None if source is None else source.counts
        if counts is not None and config.validation:  # a part of the training samples stands in for the test split
            held = round(config.validation * counts[0])
            counts = (counts[0] - held, held)
        per_epoch = math.ceil(counts[0] / config.batch_size) if counts else None
        if per_epoch is None and len(steps) > 1:
            per_epoch = max(1, steps[1])
        return cls(config, config.blocks, per_epoch, counts[1] if counts else None,
                   None if source is None else source.classes)  # fmt: skip

    def step(self, place: int) -> int | None:
        """After so many epochs; None where that is not known."""
        return 0 if place == 0 else None if self.per_epoch is None else place * self.per_epoch

    def samples(self, accuracy: float) -> float:
        """How many test samples an accuracy is; NaN where that is not known."""
        return math.nan if self.test is None else accuracy * self.test

    @property
    def seen(self) -> int:
        """How many samples the probes see, at most; exactly, where the data set is known."""
        return self.config.probe_images if self.test is None else min(self.config.probe_images, self.test)

    def sees(self, images: int) -> bool:
        """Whether the probes can have seen so many samples."""
        return images == self.seen or (self.test is None and images < self.seen)


def scheduled(config: RunConfig, epoch: int) -> float | None:
    """The learning rate that the epoch before a snapshot was trained with: lr (1 + cos(π (e − 1) / epochs)) / 2."""
    return rate_at(config.lr, config.schedule, config.epochs, epoch)


def rate_at(lr: float, schedule: Literal["cosine", "constant"], epochs: int, epoch: int) -> float | None:
    """The learning rate of a schedule over so many epochs."""
    if epoch == 0 or schedule == "constant":
        return lr if epoch else None
    return lr * (1 + math.cos(math.pi * (epoch - 1) / epochs)) / 2


def is_scheduled(found: float | None, wanted: float | None) -> bool:
    """Whether a learning rate is the one that the schedule gives."""
    if found is None or wanted is None:
        return found is wanted
    return abs(found - wanted) <= 1e-9 * abs(wanted) + 1e-15


def is_whole(samples: float) -> bool:
    """Whether a number of samples is a whole one, or not known."""
    return not math.isfinite(samples) or abs(samples - round(samples)) <= 1e-6


def check_run(run: "Run", contents: "Contents", files: Mapping[str, bytes]) -> None:
    """Refuse a folder whose files do not fit each other.

    files   by their names the predictions, and the headers of the checkpoints, that are there
    """
    for where, name, words in _flaws(run, contents, files):
        raise RecordError(f"{run.path / where}: {broken(name, words)}", REMEDY)


def _flaws(run: "Run", contents: "Contents", files: Mapping[str, bytes]) -> Iterator[Flaw]:
    config, snapshots, result = run.config, contents.snapshots, run.result
    branches = None if contents.identity is None else len(contents.identity.branch)
    expected = Expected.of(config, [snapshot.step for snapshot in snapshots[:2]])
    if config.train_last > config.blocks:
        yield "config.json: train_last", "blocks", f"{config.train_last} blocks train, and the net has {config.blocks}"
    for place, snapshot in enumerate(snapshots):
        for field, name, words in _of_snapshot(place, snapshot, config, expected):
            yield f"snapshots.jsonl line {place + 1}: {field}", name, words
    if branches is not None and branches != config.blocks:
        yield "identity.json: branch", "blocks", f"it has {branches} entries, and the net has {config.blocks} blocks"
    last = snapshots[-1] if snapshots else None
    if result is not None:
        for field, name, words in _of_result(result, config, last, expected.per_epoch):
            yield f"result.json: {field}", name, words
    if contents.probes is not None:
        for field, name, words in _of_probes(contents.probes, config, last, result):
            yield f"probes.json: {field}", name, words
    if run.environment is not None:
        for field, name, words in _of_sittings(run.environment, result):
            yield f"environment.json: {field}", name, words
    for words in flaws(files.get(PREDICTIONS), result, expected.test, expected.classes):
        yield PREDICTIONS, "predictions", words
    yield from _of_checkpoints(files, config, result)


def _of_snapshot(place: int, snapshot: Snapshot, config: RunConfig, expected: Expected) -> Iterator[Flaw]:
    if snapshot.epoch != place:
        yield "epoch", "epochs", f"it is {snapshot.epoch}, and the line is that of epoch {place}"
    if snapshot.epoch > config.epochs:
        yield "epoch", "epochs", f"it is {snapshot.epoch}, and the config has {config.epochs} epochs"
    wanted = expected.step(place)
    if wanted is not None and snapshot.step != wanted:
        yield "step", "steps", f"it is {snapshot.step}, and after {place} epochs there are {wanted} steps"
    lr = scheduled(config, place)
    if not is_scheduled(snapshot.lr, lr):
        yield "lr", "learning-rate", f"it is {snapshot.lr}, and the config gives {lr}"
    if (snapshot.train_loss is None) != (place == 0):
        yield "train_loss", "epochs", "only the snapshot at init has none"
    test, right = expected.test, expected.samples(snapshot.accuracy)
    if not is_whole(right):
        yield "accuracy", "test-size", f"{snapshot.accuracy!r} of {test} test samples is {right:.3f} samples"
    if not expected.sees(snapshot.probe_images):
        seen = expected.seen
        yield "probe_images", "test-size", f"it is {snapshot.probe_images}, and the probes see {seen}"
    blocks = config.blocks
    lengths = {
        "hidden_norms": blocks + 1, "gradient_norms": blocks + 1, "branch_norms": blocks, "credit_norms": blocks,
        "cosine": blocks, "cosine_out": blocks,
    }  # fmt: skip
    for field, length in lengths.items():
        if len(getattr(snapshot, field)) != length:
            yield field, "blocks", _entries(len(getattr(snapshot, field)), length, blocks)
    for name in ("update", "zero credits"):
        if len(snapshot.measured.get(name, [()] * blocks)) != blocks:
            yield f"measured.{name}", "blocks", _entries(len(snapshot.measured[name]), blocks, blocks)
    images = snapshot.probe_images
    embed = [snapshot.cosine_embed]
    for field, cosines in (
        ("cosine.*", snapshot.cosine),
        ("cosine_out.*", snapshot.cosine_out),
        ("cosine_embed", embed),
    ):
        yield from _without_value(field, cosines)
        for number, found in enumerate(cosines):
            if found.total != images:
                samples = f"of {found.total} samples, and the snapshot is of {images}"
                yield f"{field.replace('*', str(number))}.total", "samples", samples
    for name, readings in snapshot.measured.items():
        yield from _without_value(f"measured.{name}.*", readings)


Measured = CosineRecord | ReadingRecord | Valued | PrecisionRecord


def _without_value(field: str, found: Iterable[Measured]) -> Iterator[Flaw]:
    """Every measurement that says "ok" of what is not finite. In `field`, * stands for its number."""
    for number, each in enumerate(found):
        name = "chord" if isinstance(each, PrecisionRecord) else "value"
        if not is_there(getattr(each, name), each.status):
            place = f"{field.replace('*', str(number))}.{name}"
            yield place, "measured", 'the status is "ok", and the value is not finite'


def _values_of_probes(probes: DeepProbes) -> Iterator[Flaw]:
    yield from _without_value("precision.*", probes.precision)
    yield from _without_value("drift", [probes.drift])
    yield from _without_value("rho.*", probes.rho)
    yield from _without_value("nudging.*", probes.nudging)
    for name, readings in probes.measured.items():
        yield from _without_value(f"measured.{name}.*", readings)
    if (output := probes.output) is not None:
        yield from _without_value("output.frobenius.*", output.frobenius)
        yield from _without_value("output.cosine.*", output.cosine or ())
        yield from _without_value("output.reference", [output.reference])


def _too_few_draws(probes: DeepProbes) -> Iterator[Flaw]:
    nulls = {f"{field}.{n}.n": null for field in ("null", "null_out") for n, null in enumerate(getattr(probes, field))}
    nulls |= {"null_gamma.n": probes.null_gamma}
    if probes.output is not None:
        nulls |= {f"output.null.{n}.n": null for n, null in enumerate(probes.output.null)}
        nulls |= {"output.null_gamma.n": probes.output.null_gamma}
    for place, null in nulls.items():
        if null.n < 2 and not (math.isnan(null.mean) and math.isnan(null.std)):
            yield place, "measured", f"a mean and a spread of {null.n} draws: at least two are needed"


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
        told, seen = getattr(result, field), getattr(last, field)
        if told != seen and not (math.isnan(told) and math.isnan(seen)):
            yield field, "result", f"it is {told!r}, and the last snapshot has {seen!r}"


def _of_probes(probes: DeepProbes, config: RunConfig, last: Snapshot | None, result: Result | None) -> Iterator[Flaw]:
    blocks = config.blocks
    lists = {field: getattr(probes, field) for field in ("precision", "null", "null_out", "rho", "nudging")}
    precise = {f"precision.{number}": found for number, found in enumerate(probes.precision)}
    if (output := probes.output) is not None:
        lists |= {"output.null": output.null, "output.frobenius": output.frobenius}
        lists |= {} if output.cosine is None else {"output.cosine": output.cosine}
        precise["output.reference"] = output.reference
    yield from _values_of_probes(probes)
    yield from _too_few_draws(probes)
    for field, found in lists.items():
        length = blocks + (field == "precision")
        if len(found) != length:
            yield field, "blocks", _entries(len(found), length, blocks)
    if last is None or (result is not None and probes.step != last.step):
        yield "step", "probes", f"it is {probes.step}, and the last snapshot is of {last.step if last else 'no'} step"
    elif probes.images != last.probe_images:
        yield "images", "probes", f"it is {probes.images}, and the snapshots are of {last.probe_images}"
    for place, each in precise.items():
        if each.samples > probes.images or (each.status == "ok" and each.samples < 1):
            yield f"{place}.samples", "alive", f"it speaks for {each.samples} of {probes.images} samples"
    for number, cosine in enumerate((output.cosine if output is not None else None) or ()):
        if cosine.total != probes.images:
            words = f"of {cosine.total} samples, and the probes are of {probes.images}"
            yield f"output.cosine.{number}.total", "samples", words


def _of_sittings(environment: Environment, result: Result | None) -> Iterator[Flaw]:
    sittings = environment.sittings
    if not sittings or sittings[0].from_step != 0:
        yield "sittings", "sittings", "the first does not begin at step 0" if sittings else "none is listed"
        return
    if result is not None:
        late = [number for number, sitting in enumerate(sittings) if sitting.from_step > result.steps]
        for number in late:
            begun = sittings[number].from_step
            yield f"sittings.{number}.from_step", "sittings", f"it is {begun}, and the run ended at {result.steps}"
        if sittings[-1].to_step not in (None, result.steps):
            ended = sittings[-1].to_step
            yield f"sittings.{len(sittings) - 1}.to_step", "sittings", f"it is {ended}, the run ended at {result.steps}"


def _of_checkpoints(headers: Mapping[str, bytes], config: RunConfig, result: Result | None) -> Iterator[Flaw]:
    ended = result is not None and result.status != "diverged"
    for name in CHECKPOINTS:
        found = told_by_header(headers.get(name))
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


def checkpoint_header(file: Path | str) -> tuple[list[str], dict[str, Any]] | None:
    """The names of a checkpoint's tensors and its state, read without torch and without the tensors.

    None if there is none, or if it cannot be read: damage is met, and told, by whoever resumes the run.
    """
    return told_by_header(header_bytes(file))


def told_by_header(content: bytes | None) -> tuple[list[str], dict[str, Any]] | None:
    """The names of the tensors, and the state, that `header_bytes` found."""
    if content is None:
        return None
    try:
        header = json.loads(content)
        state = json.loads(header["__metadata__"]["walkback"])["state"]
    except (ValueError, KeyError, TypeError, RecursionError):
        return None
    return ([*header], state) if isinstance(state, dict) else None


def header_bytes(file: Path | str) -> bytes | None:
    """What a checkpoint's file says of itself before its tensors, as it stands there; None as above."""
    try:
        check_regular(file)  # a pipe would be waited for
        with open(file, "rb") as opened:  # noqa: PTH123 - as in files.py
            length = int.from_bytes(opened.read(8), "little")
            return None if length > LARGEST_HEADER else opened.read(length)
    except (RecordError, OSError, ValueError):
        return None


def _entries(found: int, wanted: int, blocks: int) -> str:
    return f"it has {found} entries, and a net of {blocks} blocks has {wanted}"
