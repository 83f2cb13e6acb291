"""One training of somebody's own loop as a folder: training.json, model.safetensors, predictions.npy. No torch is read.

An audit of a loop keeps one such folder per training: the subject, its frozen twin and its upper half, the same by
backprop, the net without its blocks, the control of noise, and the net at init. The record is written last, each file
whole or absent, so a folder without a record was not finished. Nothing is unpickled.
"""

import hashlib
import json
import math
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

from msgspec import Meta

from walkback.errors import RecordError
from walkback.files import children_with, each_once, make_folder, read_bytes, sweep, write_whole
from walkback.records import invariants
from walkback.records.consistency import checkpoint_header, flaws_of_values
from walkback.records.folder import _digest
from walkback.records.invariants import broken
from walkback.records.moment import Moment, Standing, check_gamma
from walkback.records.predictions import PREDICTIONS, Predictions, flaws, unpacked
from walkback.records.rates import TRIALS
from walkback.records.record import Record, parse
from walkback.records.schema import BLOCKS, Share, Size, Whole

if TYPE_CHECKING:
    from torch import Tensor

RECORD, WEIGHTS = "training.json", "model.safetensors"
AGAIN = "undo the edit, or move the folder away and give the same call again: it trains what is missing"
Who = Literal["subject", "bp", "random", "init"]
Part = Literal["all", "half", "frozen", "none"]  # the blocks that train: all, the upper half, none; or there are none
Name = Annotated[str, Meta(min_length=1, max_length=200)]
Status = Literal["finished", "diverged", "not frozen", "failed"]


class LoopSetting(Record):
    """What all trainings of one audit share. Another setting is another folder."""

    name: Name
    blocks: Annotated[list[Name], Meta(min_length=1, max_length=BLOCKS)]
    residual: bool | None  # whether the blocks add to a stream; None: not stated
    sources: dict[str, str]  # by argument, a hash of its source and of what that refers to in the same file
    parameters: str  # a hash of the names and shapes of all parameters and buffers
    bp: Literal["your own loop", "a plain loop of ours"] | None  # None: there is no reference
    recipe: str  # of the plain loop
    test: str  # a hash of the test samples
    samples: Whole  # of the test
    probed: Whole  # the first so many of them, on which norms, gradients and cosines are taken
    loss: Literal["cross-entropy", "cross-entropy per place", "your own"]
    metric: str | None
    credits: Literal["your function", "backward"] | None
    doubts: list[str]  # what keeps the subject from holding: samples that are in test and in train_batches
    lr: float | None = None  # one learning rate that every training was given
    validation: str | None = None  # a hash of the samples by which learning rates are chosen

    def hash(self) -> str:
        """Ten hex digits that name this setting."""
        later = {name for name in ("lr", "validation") if getattr(self, name) is None}  # they rename no earlier one
        words = json.dumps({n: v for n, v in self.as_dict().items() if n not in later}, sort_keys=True)
        return hashlib.sha256(words.encode()).hexdigest()[:10]


class LoopTraining(Record, kw_only=True):
    """One training: what it was, how it ended, and what was measured."""

    schema: Literal["walkback.training/1"] = "walkback.training/1"
    setting: LoopSetting
    who: Who
    part: Part
    seed: Annotated[int, Meta(ge=-(2**63), le=2**63 - 1)]
    status: Status
    why: str  # of a training that failed, diverged or is no baseline
    accuracy: Share | None  # on the whole test
    loss: float | None
    moments: list[Moment]  # at init (epoch 0) and at the end; of baselines none
    init: str  # a hash of the weights and buffers at init
    weights: str  # the same at the end
    moved: list[Size | None]  # by block ‖w − w_0‖ / ‖w_0‖ over its parameters; None: not known
    elsewhere: Size | None  # the same over all other parameters
    noise: Literal["gradients", "movements"] | None  # what was replaced by noise, in the control
    source: str | None = None  # a hash of make_shallow, of a net without blocks; None: walkback took its blocks out
    notes: list[str]
    seconds: Size
    predictions: str | None = None  # the sha256 of predictions.npy; None: recorded before walkback 0.3, or no classes
    made: dict[str, str]  # versions
    lr: float | None = None  # the learning rate that it was given; None: that of the loop itself
    held_out: Whole | None = None  # of a trial of that rate: how many samples the accuracy is of, instead of the test
    standing: Standing | None = None  # whether the credits that are compared are what trained; None: not asked
    standing_why: str = ""

    def possible(self) -> None:
        """What was measured is of its net and its end."""
        blocks = len(self.setting.blocks) if self.part != "none" else 0
        if self.part == "none" and (self.who != "bp" or self.moments):
            raise invariants.Broken("blocks", "a net without blocks is a baseline by bp, of which nothing but its "
                                    "accuracy is measured")  # fmt: skip
        if self.source is not None and self.part != "none":
            raise invariants.Broken("blocks", "it names make_shallow, and its blocks are there")
        if self.status != "failed" and len(self.moved) != blocks:
            raise invariants.Broken("blocks", f"moved has {len(self.moved)} entries, and the net has {blocks} blocks")
        for place, moment in enumerate(self.moments):
            for name, count in moment.block_counts().items():
                if count != blocks:
                    raise invariants.Broken("blocks", f"{name} of moment {place} is of {count} blocks, not {blocks}")
            if any(flaws_of_values(moment)):
                raise invariants.Broken("measured", 'the status is "ok", and the value is not finite')
            check_gamma(moment)
        if self.status == "finished":
            still = blocks if self.who == "init" or self.part == "frozen" else blocks // 2 if self.part == "half" else 0
            for block, moved in enumerate(self.moved[:still]):
                if moved:
                    raise invariants.Broken("result", f"block {block} is frozen, and moved by {moved:g}")
            if any(value is not None and not math.isfinite(value) for value in (*self.moved, self.elsewhere)):
                raise invariants.Broken("result", "it finished, and its weights are not finite")
            if self.part == "none" and not self.elsewhere:
                raise invariants.Broken("result", "it has no blocks, and nothing of it was trained")
        self._check_end()

    def _check_end(self) -> None:
        if self.status == "failed" and (self.moments or self.accuracy is not None):
            raise invariants.Broken("result", "it failed, and something was measured of it")
        if self.predictions is not None and self.accuracy is None:
            raise invariants.Broken("predictions", "it names predictions, and has no accuracy")
        last = self.moments[-1] if self.moments else None
        if last is not None and not (_same(last.accuracy, self.accuracy) and _same(last.loss, self.loss)):
            raise invariants.Broken("result", "its last moment has another accuracy or loss")
        whole = self.setting.metric is None and self.setting.loss == "cross-entropy"
        if whole and self.accuracy is not None and math.isfinite(self.accuracy):
            samples = self.held_out or self.setting.samples
            right = self.accuracy * samples
            if abs(right - round(right)) > 1e-6:
                words = f"{self.accuracy!r} of {samples} test samples is {right:.3f} samples"
                raise invariants.Broken("test-size", words)
            if self.loss is not None and math.isfinite(self.loss):
                invariants.cross_entropy(self.loss)
                invariants.enough_loss(self.accuracy, self.loss)

    def hash(self) -> str:
        """Ten hex digits that name this training: its setting, who, part and seed."""
        rate = [] if self.lr is None else [self.lr, self.held_out]
        words = json.dumps([self.setting.hash(), self.who, self.part, self.seed, *rate])
        return hashlib.sha256(words.encode()).hexdigest()[:10]

    def label(self) -> str:
        """A name for tables and messages."""
        return label_of(self.who, self.part, self.seed, self.lr)

    def folder(self) -> str:
        """The folder's name: readable in front, the hash behind."""
        return f"{self.who}-{self.part}-s{self.seed}-{self.hash()}"

    def place(self, out: Path) -> Path:
        """Where it belongs among the trainings of an audit: trials lie apart."""
        return (out if self.held_out is None else out / TRIALS) / self.folder()


def label_of(who: Who, part: Part, seed: int, lr: float | None = None) -> str:
    """What a training is, in words.

    >>> label_of("subject", "frozen", 42)
    'subject with its blocks frozen, seed 42'
    """
    parts = {"all": "", "half": " with the lower half of its blocks frozen", "frozen": " with its blocks frozen",
             "none": " without its blocks"}  # fmt: skip
    rate = "" if lr is None else f", rate {lr:g}"
    return f"{'net at init' if who == 'init' else who}{parts[part]}, seed {seed}{rate}"


def _same(one: float | None, other: float | None) -> bool:
    if one is None or other is None:
        return one is other
    return one == other or (math.isnan(one) and math.isnan(other))


def find_loop_trainings(*places: Path | str) -> list[Path]:
    """The folders of such trainings among `places` and directly inside them, in order of their names."""
    found: list[Path] = []
    for place in map(Path, places):
        if (place / RECORD).exists():
            found.append(place)
        elif place.is_dir():
            found += children_with(place, RECORD)
    return each_once(found)


def read_loop_training(path: Path | str) -> tuple[LoopTraining, Predictions | None]:
    """A training's record and final predictions; refused if they cannot be true (see invariants.py)."""
    path = Path(path)
    file = path / RECORD
    try:
        record = parse(LoopTraining, read_bytes(file), str(file))
    except FileNotFoundError as error:
        raise RecordError(f"{path} is not a training: it has no {RECORD}", "give a folder of such trainings") from error
    except RecordError as error:
        raise RecordError(error.what, error.remedy if "upgrade" in (error.remedy or "") else AGAIN) from error
    if path.name != record.folder():
        words = f"{file} was edited, or its folder renamed: it belongs in {record.folder()}"
        raise RecordError(broken("folder", words), AGAIN)
    header = checkpoint_header(path / WEIGHTS)
    if header is not None:
        _, state = header
        stated = {"training": record.hash(), "weights": record.weights}
        for name, value in stated.items():
            if state.get(name) != value:
                words = f"{path / WEIGHTS}: {name} is {state.get(name)!r}, and the record's is {value!r}"
                raise RecordError(broken("checkpoint", words), AGAIN)
    return record, _predicted(path / PREDICTIONS, record)


def _predicted(file: Path, record: LoopTraining) -> Predictions | None:
    content = read_bytes(file) if file.exists() else None
    for words in flaws(content, record, record.setting.samples, None):
        raise RecordError(f"{file}: {broken('predictions', words)}", AGAIN)
    return None if content is None else unpacked(content)


def write_training(
    out: Path, record: LoopTraining, tensors: Mapping[str, "Tensor"] | None, predicted: bytes | None = None
) -> Path:
    """Keep a training: weights and predictions first, the record last."""
    path = record.place(out)
    make_folder(path)
    sweep(path)
    for name in (RECORD, WEIGHTS, PREDICTIONS):  # of an earlier one; a record never lies beside other weights
        (path / name).unlink(missing_ok=True)
    if predicted is not None:
        write_whole(path / PREDICTIONS, predicted, follow=False)
    if tensors is not None:
        from safetensors.torch import save

        named = {name: tensor.detach().cpu().contiguous() for name, tensor in tensors.items()}
        state = {"training": record.hash(), "weights": record.weights}
        about = {"schema": "walkback.checkpoint/1", "state": state, "sha256": _digest(named)}
        write_whole(path / WEIGHTS, save(named, {"walkback": json.dumps(about)}), follow=False)
    write_whole(path / RECORD, record.indented() + b"\n", follow=False)
    return path


def digest_of(tensors: Mapping[str, "Tensor"]) -> str:
    """A hash of weights, by name, shape and bits."""
    return _digest({name: tensor.detach().cpu().contiguous() for name, tensor in tensors.items()})[:16]
