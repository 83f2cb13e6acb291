"""What one process needs to train any of an audit's trainings, and what a training is."""

import hashlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import partial
from inspect import signature
from typing import Any, Literal, NamedTuple

from torch import Tensor, nn

from walkback.audits.training.plain import MakeOptimizer, adam, plain_loop
from walkback.probes.detect_task import Metric
from walkback.probes.inputs import tensors_of
from walkback.probes.look import CreditFunction
from walkback.probes.null import Redraw
from walkback.probes.outputs import Asked as Output
from walkback.probes.outputs import PerSampleLoss
from walkback.records.loop_training import LoopSetting, Part, Who, label_of

Make = Callable[[int], nn.Module]
Train = Callable[..., Any]  # of a model, a seed and, if it takes one, a learning rate
Batches = list[tuple[Any, Tensor]]


class Wanted(NamedTuple):
    """One training that is to be done."""

    who: Who
    part: Part
    seed: int
    lr: float | None = None  # None: the loop's own
    trial: bool = False  # of that rate, on the samples that are for it

    def label(self) -> str:
        """In words."""
        return label_of(self.who, self.part, self.seed, self.lr)


@dataclass(frozen=True)
class Job:
    """The user's functions and data, and the setting that they were found to be."""

    make_model: Make
    train: Train
    setting: LoopSetting
    batches: Batches  # the whole test
    probed: Batches  # the first samples of it
    make_bp_model: Make | None = None
    make_shallow: Make | None = None
    shallow_source: str | None = None  # its hash
    train_bp: Train | None = None
    train_batches: Any = None
    optimizer: MakeOptimizer | None = None
    epochs: int = 10
    credits: CreditFunction | Literal["backward"] | None = None
    redraw: Redraw | None = None
    reduction: str = "auto"
    loss: PerSampleLoss | None = None
    output: Output = None
    metric: Metric | None = None
    files: Sequence[str] = field(default=())  # to be imported before a process can take this
    validation: Batches | None = None  # samples by which learning rates are chosen

    def make(self, who: Who, part: Part, seed: int) -> nn.Module:
        """The untrained net of a training."""
        if part == "none" and self.make_shallow is not None:
            return self.make_shallow(seed)
        if who == "bp" and self.make_bp_model is not None:
            return self.make_bp_model(seed)
        return self.make_model(seed)

    def run(self, who: Who, model: nn.Module, seed: int, lr: float | None = None) -> Any:
        """The user's loop of it, or the plain one."""
        rate: dict[str, Any] = {} if lr is None else {"lr": lr}
        if who != "bp":
            return self.train(model, seed, **rate)
        if self.train_bp is not None:
            return self.train_bp(model, seed, **rate)
        make = partial(self.optimizer or adam, **rate)
        return plain_loop(model, seed, self.train_batches, make, self.epochs, self.loss, self.output)

    def takes_rate(self, who: Who) -> bool:
        """Whether the loop that trains it can be given a learning rate."""
        loop = (self.train_bp or self.optimizer or adam) if who == "bp" else self.train
        try:
            return "lr" in signature(loop).parameters
        except (TypeError, ValueError):  # some callables have none
            return False

    def frozen_blocks(self, part: Part) -> list[str]:
        """The names of the blocks that stay at init."""
        blocks = self.setting.blocks
        return {"half": blocks[: len(blocks) // 2], "frozen": list(blocks)}.get(part, [])

    def blocks(self, part: Part) -> list[str]:
        """The names of the blocks that this net has."""
        return [] if part == "none" else self.setting.blocks


def fingerprint_of(batches: Batches) -> str:
    """A hash of samples and labels."""
    digest = hashlib.sha256()
    for inputs, labels in batches:
        for name, value in (*tensors_of(inputs).items(), ("labels", labels)):
            digest.update(f"{name} {tuple(value.shape)} {value.dtype};".encode())
            digest.update(rows(value.unsqueeze(0))[0])
    return digest.hexdigest()[:16]


def rows(values: Tensor) -> list[bytes]:
    """The bytes of every sample."""
    import torch

    flat = values.detach().cpu().contiguous().reshape(len(values), -1)
    return [row.contiguous().view(torch.uint8).numpy().tobytes() for row in flat] if flat.numel() else []


def overlap(test: Batches, train: Batches) -> int:
    """How many test samples are, bit for bit, among the training samples."""
    seen = {b"|".join(parts) for inputs, _ in train for parts in _samples(inputs)}
    return sum(b"|".join(parts) in seen for inputs, _ in test for parts in _samples(inputs))


def _samples(inputs: Any) -> Any:
    return zip(*(rows(value) for value in tensors_of(inputs).values()), strict=False)
