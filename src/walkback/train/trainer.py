"""A net, its rule, its optimizer and its data at one step of a run: what is trained, measured, saved and restored.

All randomness is a function of (seed, purpose, counter), so the counters of a checkpoint are enough to go on bit for
bit. The optimizer is one fused AdamW for the whole net, without the bookkeeping of torch.optim that costs a third of
the update. It is bit-equal to `torch.optim.AdamW(fused=True)`, which a test shows; its state is two tensors per
parameter and one count, so a checkpoint is simple.
"""

import math
from collections.abc import Callable, Mapping

import torch
from torch import Tensor, nn

from walkback.data import Dataset, Split
from walkback.data.batches import TrainBatches, eval_batches, held_out
from walkback.errors import RecordError
from walkback.nets import Net, OncePerStep, make_net
from walkback.probes import (
    REFERENCE_BATCH,
    Observation,
    View,
    accuracy_and_loss,
    observe,
    quantities,
    readings,
    undisturbed,
)  # fmt: skip
from walkback.records import Reading, RunConfig, Snapshot
from walkback.records.predictions import MOST_CLASSES, packed
from walkback.records.record import FRESH
from walkback.rules import Batch, Clock, Rule, make_rule
from walkback.train.streams import global_stream, stream

EVAL_BATCH = 1000


class Trainer:
    """A net, its rule, its optimizer and its data, at one step of a run."""

    def __init__(self, config: RunConfig, dataset: Dataset, device: torch.device | str = "cpu"):
        self.config = config
        self.device = torch.device(device)
        if config.validation:
            dataset = held_out(dataset, config.validation)
        with global_stream(config.seed, "init"):
            self.net: Net = make_net(config.net, dataset.shape, dataset.classes, config.net_options).to(self.device)
        self.rule = self.make_rule("feedback")
        self.statistics = OncePerStep(self.net)
        for block in self.net.blocks[: self.net.depth - config.train_last]:
            block.requires_grad_(False)
        named = {f"net.{k}": p for k, p in self.net.named_parameters() if p.requires_grad}
        named |= {f"rule.{k}": p for k, p in self.rule.named_parameters() if p.requires_grad}
        self.optimizer = AdamW(named, config.weight_decay)
        self.batches = TrainBatches(dataset, config.augment, self.device)
        self.test = eval_batches(dataset.test, dataset, EVAL_BATCH, self.device)
        few = Split(dataset.test.inputs[: config.probe_images], dataset.test.labels[: config.probe_images])
        ((self.probe_inputs, self.probe_labels),) = eval_batches(few, dataset, config.probe_images, self.device)
        self.steps_per_epoch = math.ceil(len(self.batches) / config.batch_size)
        self.total_steps = self.steps_per_epoch * config.epochs
        self.step = 0
        self.loss_sum, self.loss_count = 0.0, 0  # of the epoch under way
        self.latest: tuple[int, Observation] | None = None  # the last snapshot's step, and what it looked at

    def make_rule(self, purpose: str, counter: int = 0) -> Rule:
        """The config's rule with feedback drawn from a stream of that purpose."""
        draws = stream(self.config.seed, purpose, counter)
        return make_rule(self.config.rule, self.net, draws, self.config.rule_options).to(self.device)

    def fresh_rule(self, draw: int) -> Rule:
        """The run's rule with fresh feedback, for a null."""
        rule = self.make_rule("null", draw)
        rule.beside(self.rule)
        return rule

    @property
    def epoch(self) -> int:
        """Epochs completed."""
        return self.step // self.steps_per_epoch

    @property
    def clock(self) -> Clock:
        """Where the training is."""
        return Clock(self.step, self.total_steps, self.epoch, self.config.epochs)

    def lr(self, epoch: int) -> float:
        """Cosine over the epochs: lr (1 + cos(π epoch / epochs)) / 2; or constant."""
        if self.config.schedule == "constant":
            return self.config.lr
        return self.config.lr * (1 + math.cos(math.pi * epoch / self.config.epochs)) / 2

    def one_epoch(self, between: Callable[[], None]) -> None:
        """From wherever the run is to the end of its epoch, calling `between` after each step."""
        config, epoch = self.config, self.epoch
        self.latest = None
        order = torch.randperm(len(self.batches), generator=stream(config.seed, "order", epoch))
        lr = self.lr(epoch)
        for position in range(self.step % self.steps_per_epoch, self.steps_per_epoch):
            index = order[position * config.batch_size : (position + 1) * config.batch_size]
            inputs, labels = self.batches.batch(index, stream(config.seed, "augment", self.step))
            if config.labels == "random":
                draws = stream(config.seed, "labels", self.step)
                labels = torch.randint(self.net.classes, labels.shape, generator=draws).to(labels.device)
            self.optimizer.zero_grad()
            self.statistics.begin()
            batch = Batch(inputs, labels, stream(config.seed, "rule", self.step), self.clock, config.penalty)
            loss = self.rule.backward(self.net, batch)
            self.optimizer.step(lr)
            self.rule.after_step(self.net)
            self.step += 1
            value = float(loss)
            if not math.isfinite(value):
                raise FloatingPointError(f"the loss became {value}")
            self.loss_sum += value * len(labels)
            self.loss_count += len(labels)
            between()

    def check_finite(self) -> None:
        """Raise if a weight is not a number."""
        for name, parameter in self.net.named_parameters():
            if not parameter.isfinite().all():
                raise FloatingPointError(f"the weights {name} are no longer finite")

    def observe(self, place: int | None = None, stable: bool = False) -> Observation:
        """One look at the probe images, by the clock of now (None), or of one of the 2 L steps 0, 1, … that end here.

        stable   the true gradients by `stable_losses`
        """
        step, clock = self.step, self.clock
        if place is not None:
            first = max(0, self.step - 2 * self.net.depth)
            step = min(first + place, self.total_steps - 1)
            clock = Clock(step, self.total_steps, step // self.steps_per_epoch, self.config.epochs)
        draws = stream(self.config.seed, "probe", step)
        return observe(self.net, self.rule, self.probe_inputs, self.probe_labels, draws, clock, stable=stable)

    def observation(self) -> Observation:
        """What the snapshot of this step looked at; where there was none, a look of its own, which sees the same."""
        return self.latest[1] if self.latest is not None and self.latest[0] == self.step else self.observe()

    def readings(self, seen: Observation, final: bool = False) -> dict[str, list[Reading]]:
        """What the probes that are one file each read now."""
        view = View(
            self.net, self.rule, self.probe_inputs, self.probe_labels, self.clock, seen, final=final,
            fresh=self.fresh_rule, draws=lambda p: stream(self.config.seed, p, self.step),
        )  # fmt: skip
        return readings(view)

    def snapshot(self) -> Snapshot:
        """Measure everything now, and begin the next epoch's running loss."""
        accuracy, loss = accuracy_and_loss(self.net, self.test)
        looked = self.observe()
        begun = self.loss_count > 0
        measured = Snapshot(
            epoch=self.epoch, step=self.step,
            lr=self.lr(self.epoch - 1) if begun else None,
            train_loss=self.loss_sum / self.loss_count if begun else None,
            accuracy=accuracy, loss=loss, probe_images=len(self.probe_labels), reference_batch=REFERENCE_BATCH,
            measured=self.readings(looked), **quantities(looked),
        )  # fmt: skip
        self.loss_sum, self.loss_count = 0.0, 0
        self.latest = self.step, looked
        return measured

    def predictions(self, accuracy: float) -> bytes | None:
        """What predictions.npy holds now; None where a class fits no byte, or where the net gives no class to an image.

        accuracy   at the last snapshot. A device whose sums come out otherwise each time may disagree with it; then
                   nothing is kept, since a record must not contradict itself
        """
        if self.net.classes > MOST_CLASSES:
            return None
        classes, labels = [], []
        with undisturbed(self.net), torch.inference_mode():
            for inputs, answers in self.test:
                logits = self.net(inputs)
                if not logits.isfinite().all():
                    return None
                classes += logits.argmax(1).tolist()
                labels += answers.tolist()
        right = sum(map(int.__eq__, classes, labels)) / len(labels)
        return packed(classes, labels) if right == accuracy else None

    def tensors(self) -> dict[str, Tensor]:
        """Everything that a checkpoint keeps, by name."""
        named = {f"net.{k}": v for k, v in self.net.state_dict().items()}
        named |= {f"rule.{k}": v for k, v in self.rule.state_dict().items()}
        return named | {f"adam.{k}": v for k, v in self.optimizer.state().items()}

    def state(self) -> dict[str, object]:
        """The rest: counters, of which every random stream is a function, and the running loss."""
        return {
            "seed": self.config.seed, "config": self.config.hash(), "step": self.step, "epoch": self.epoch,
            "loss_sum": self.loss_sum.hex(), "loss_count": self.loss_count,
        }  # fmt: skip

    def restore(self, tensors: dict[str, Tensor], state: dict[str, object]) -> None:
        """Go back to a checkpoint. Values are copied into our own memory, whose alignment the arithmetic depends on."""
        own = self.tensors()
        odd = sorted(own.keys() ^ tensors.keys())
        odd = odd or [k for k in own if (own[k].shape, own[k].dtype) != (tensors[k].shape, tensors[k].dtype)]
        if odd:
            raise RecordError(f"the checkpoint does not fit this net and rule (first difference: {odd[0]})", FRESH)
        step, loss_sum, loss_count = self._counters(state)
        with torch.no_grad():
            for name, tensor in own.items():
                tensor.copy_(tensors[name])
        self.step, self.loss_sum, self.loss_count = step, loss_sum, loss_count
        self.latest = None

    def _counters(self, state: dict[str, object]) -> tuple[int, float, int]:
        """Step, running loss and how many it is of, refused unless a training of this config can have been there."""
        step, loss, count = state.get("step"), state.get("loss_sum"), state.get("loss_count")
        try:
            loss_sum = float.fromhex(loss) if isinstance(loss, str) else math.nan
        except (ValueError, OverflowError):
            loss_sum = math.nan
        if type(step) is int and 0 <= step <= self.total_steps and math.isfinite(loss_sum):
            seen = min(step % self.steps_per_epoch * self.config.batch_size, len(self.batches))
            if type(count) is int and count == seen:
                return step, loss_sum, count
        raise RecordError(f"the checkpoint's counters cannot be of this run: {str(state)[:200]}", FRESH)


# --- the optimizer ----------------------------------------------------------------------------------------------------


BETA1, BETA2, EPS = 0.9, 0.999, 1e-8


class AdamW:
    """m ← β1 m + (1−β1) g;  v ← β2 v + (1−β2) g²;  w ← w − lr (wd w + m̂ / (√v̂ + ε)), with Adam's bias corrections.

    A parameter without a gradient in a step does not change, and its count does not advance.
    """

    def __init__(self, parameters: Mapping[str, nn.Parameter], weight_decay: float):
        self.names = list(parameters)
        self.parameters = list(parameters.values())
        self.weight_decay = weight_decay
        self.m = [torch.zeros_like(p) for p in self.parameters]
        self.v = [torch.zeros_like(p) for p in self.parameters]
        self.counts = [torch.zeros((), dtype=torch.float32, device=p.device) for p in self.parameters]

    def zero_grad(self) -> None:
        """Forget the gradients."""
        for parameter in self.parameters:
            parameter.grad = None

    @torch.no_grad()
    def step(self, lr: float) -> None:
        """Update every parameter that has a gradient."""
        live = [i for i, p in enumerate(self.parameters) if p.grad is not None]
        counts = [self.counts[i] for i in live]
        torch._foreach_add_(counts, 1)
        torch._fused_adamw_(
            [self.parameters[i] for i in live],
            [self.parameters[i].grad for i in live],  # type: ignore[misc]
            [self.m[i] for i in live], [self.v[i] for i in live], [], counts,
            lr=lr, beta1=BETA1, beta2=BETA2, weight_decay=self.weight_decay, eps=EPS, amsgrad=False, maximize=False,
        )  # fmt: skip

    def state(self) -> dict[str, Tensor]:
        """The state by name, for a checkpoint."""
        named: dict[str, Tensor] = {}
        for i, name in enumerate(self.names):
            named |= {f"m.{name}": self.m[i], f"v.{name}": self.v[i], f"count.{name}": self.counts[i]}
        return named
