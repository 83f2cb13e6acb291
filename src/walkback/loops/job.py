"""What one process needs to train any of an audit's trainings: the user's functions, and the plain loop by backprop."""

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import partial
from inspect import Parameter, signature
from typing import Any, Literal, NamedTuple

import torch
from torch import Tensor, nn

from walkback.errors import BadValue
from walkback.loops.fingerprints import Batches
from walkback.probes.detect_task import Metric, settle
from walkback.probes.inputs import gather, on_tensors
from walkback.probes.look import CreditFunction
from walkback.probes.null import Redraw
from walkback.probes.outputs import Asked as Output
from walkback.probes.outputs import Logits, PerSampleLoss, call, per_sample_losses
from walkback.probes.user_errors import own_line
from walkback.records.loop_training import LoopSetting, Part, Who

Make = Callable[[int], nn.Module]
Train = Callable[..., Any]  # of a model, a seed and, if it takes one, a learning rate
MakeOptimizer = Callable[..., torch.optim.Optimizer]  # of parameters and, if it takes one, a learning rate
RATE = 1e-3
OPTIMIZER = (
    "give a function of a list of parameters that returns an optimizer, such as lambda p: torch.optim.SGD(p, lr=0.1)"
)


class Wanted(NamedTuple):
    """One training that is to be done."""

    who: Who
    part: Part
    seed: int
    lr: float | None = None  # None: the loop's own
    trial: bool = False  # of that rate, on the samples that are for it


@dataclass(frozen=True, kw_only=True)
class Job:
    """The user's functions and data, as `wb.audit_training` takes them, and the setting that they were found to be."""

    make_model: Make
    train: Train
    setting: LoopSetting
    batches: Batches = field(default_factory=list)  # the whole test
    probed: Batches = field(default_factory=list)  # the first samples of it
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
    files: Sequence[str] = ()  # to be imported before a process can take this
    validation: Batches | None = None  # samples by which learning rates are chosen

    def make(self, wanted: Wanted) -> tuple[str, Make]:
        """What builds the untrained net of a training: the argument's name, and the function."""
        if wanted.part == "none" and self.make_shallow is not None:
            return "make_shallow", self.make_shallow
        if wanted.who == "bp" and self.make_bp_model is not None:
            return "make_bp_model", self.make_bp_model
        return "make_model", self.make_model

    def loop(self, who: Who) -> tuple[str, Train]:
        """What trains it: the name of the argument, and the user's loop; or a plain one by backprop."""
        if who != "bp":
            return "train", self.train
        if self.train_bp is not None:
            return "train_bp", self.train_bp
        return "the plain loop", partial(plain_loop, self)

    def takes_rate(self, who: Who) -> bool:
        """Whether the loop that trains it can be given a learning rate."""
        loop = (self.train_bp or self.optimizer or adam) if who == "bp" else self.train
        try:
            return "lr" in signature(loop).parameters
        except (TypeError, ValueError):  # some callables have none
            return False

    def check_rate(self, lr: Any) -> None:
        """Refuse a rate that nobody takes, or that nobody can mean."""
        takes = self.takes_rate("subject")
        if lr is None:
            if self.validation is None and takes and signature(self.train).parameters["lr"].default is Parameter.empty:
                raise BadValue(
                    "train needs a learning rate, and none is given", "give lr, or validation to choose it by"
                )
        elif not isinstance(lr, int | float) or not 0 < lr < float("inf"):
            raise BadValue(f"lr={lr!r} is no learning rate", "give a number above 0")
        elif not takes:
            raise BadValue(f"lr={lr:g} is given, and train takes none", "let train take it: def train(model, seed, lr)")

    @property
    def can_choose(self) -> bool:
        """Whether there are samples to choose a rate by, a loop that takes it, and nobody who fixed one."""
        return self.validation is not None and self.setting.lr is None and self.takes_rate("subject")

    def frozen_blocks(self, part: Part) -> list[str]:
        """The names of the blocks that stay at init."""
        blocks = self.setting.blocks
        return {"half": blocks[: len(blocks) // 2], "frozen": list(blocks)}.get(part, [])

    def blocks(self, part: Part) -> list[str]:
        """The names of the blocks that this net has."""
        return [] if part == "none" else self.setting.blocks


def adam(parameters: list[nn.Parameter], lr: float = RATE) -> torch.optim.Optimizer:
    """What is taken where no optimizer is given."""
    return torch.optim.Adam(parameters, lr=lr)


def repeatable(train_batches: Any) -> Any:
    """Batches that can be gone through once per epoch: an iterator, which gives them once, is made a list."""
    return list(train_batches) if isinstance(train_batches, Iterator) else train_batches


def epoch_of(train_batches: Any, seed: int) -> Any:
    """The batches of one epoch."""
    return train_batches(seed) if callable(train_batches) and not isinstance(train_batches, Iterable) else train_batches


def optimizer_of(job: Job, model: nn.Module, **rate: float) -> torch.optim.Optimizer:
    """The optimizer of the plain loop; one that it cannot step is refused."""
    try:
        stepper = (job.optimizer or adam)([p for p in model.parameters() if p.requires_grad], **rate)
    except Exception as error:
        raise BadValue(f"optimizer raised {own_line(error)}", OPTIMIZER) from error
    if not isinstance(stepper, torch.optim.Optimizer):
        raise BadValue(f"optimizer gives a {type(stepper).__name__}", OPTIMIZER)
    closure = signature(stepper.step).parameters.get("closure")
    if closure is not None and closure.default is Parameter.empty:
        raise BadValue(f"{type(stepper).__name__} steps by a closure, and the plain loop has none",
                       "write the loop by backprop yourself, as train_bp")  # fmt: skip
    return stepper


def plain_loop(job: Job, model: nn.Module, seed: int, **rate: float) -> None:
    """Backprop end to end: the mean loss of each batch, one step per batch."""
    stepper = optimizer_of(job, model, **rate)
    for _ in range(job.epochs):
        pairs = gather(epoch_of(job.train_batches, seed), model, None, own_loss=job.loss is not None).batches
        task = settle(model, pairs, job.output, job.loss)
        reading = Logits(model, task.take)
        model.train()
        for inputs, labels in task.batches:
            stepper.zero_grad()
            logits = call(reading, on_tensors(inputs, Tensor.clone))
            per_sample_losses(logits, labels, task.loss).mean().backward()  # type: ignore[no-untyped-call]
            stepper.step()
