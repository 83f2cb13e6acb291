"""The one loop: trains one net by one rule with one seed, measures every layer, and can stop anywhere.

All randomness is a function of (seed, purpose, counter), so a checkpoint after any step is enough to resume bit for
bit. Snapshots are written before the checkpoint that includes them; what a killed process wrote after its last
checkpoint is dropped and computed again, with the same result.
"""

import ctypes
import math
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import torch
from torch import Tensor

from walkback.data import Dataset, Split, is_own, load
from walkback.data.batches import TrainBatches, eval_batches
from walkback.data.held_out import held_out
from walkback.errors import RecordError
from walkback.nets import Net, OncePerStep, make_net
from walkback.probes import REFERENCE_BATCH, Observation, View, accuracy_and_loss, observe, quantities, readings
from walkback.records import CosineRecord, Reading, Result, Run, RunConfig, RunFolder, Snapshot
from walkback.records.run import FRESH
from walkback.rules import Batch, Clock, Rule, make_rule
from walkback.train.adamw import AdamW
from walkback.train.deep import deep_probes
from walkback.train.environment import begin_sitting, check_same_data, end_sitting
from walkback.train.streams import global_stream, stream

EVAL_BATCH = 1000


def keep_memory() -> None:
    """With glibc, keep freed memory: otherwise the embedding's gradient is freed at every step, and its pages must be
    faulted in again."""
    if sys.platform == "linux":
        libc = ctypes.CDLL(None)
        if hasattr(libc, "mallopt"):
            libc.mallopt(-3, 32 << 20)  # M_MMAP_THRESHOLD, at its largest
            libc.mallopt(-1, 1 << 30)  # M_TRIM_THRESHOLD


@contextmanager
def arithmetic() -> Iterator[None]:
    """One torch thread inside, and denormal numbers taken as zero.

    At these sizes more threads are slower, and sums depend on their number. Denormals (below 1e-38) appear when a net
    has memorised its batch; computing with them is several times slower and means nothing.
    """
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    torch.set_flush_denormal(True)
    keep_memory()
    try:
        yield
    finally:
        torch.set_flush_denormal(False)
        torch.set_num_threads(before)


class Stopped(Exception):
    """The run was asked to stop; its checkpoint is written."""


@dataclass(frozen=True)
class Progress:
    """Reported after every snapshot: where the run is, and how many seconds are left at this pace."""

    snapshot: Snapshot
    epochs: int
    seconds_left: float | None
    note: str | None = None


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
        self.loss_sum, self.loss_count = 0.0, 0  # of the current epoch

    def make_rule(self, purpose: str, counter: int = 0) -> Rule:
        """The config's rule with feedback drawn from a stream of that purpose."""
        draws = stream(self.config.seed, purpose, counter)
        return make_rule(self.config.rule, self.net, draws, self.config.rule_options).to(self.device)

    def fresh_rule(self, draw: int) -> Rule:
        """The same with fresh feedback, for a null."""
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

    def observe(self) -> Observation:
        """One look at the probe images."""
        draws = stream(self.config.seed, "probe", self.step)
        return observe(self.net, self.rule, self.probe_inputs, self.probe_labels, draws, self.clock)

    def readings(self, seen: Observation, final: bool = False) -> dict[str, list[Reading]]:
        """What the registered probes measure now."""
        view = View(
            self.net, self.rule, self.probe_inputs, self.probe_labels, self.clock, seen, final=final,
            fresh=self.fresh_rule, draws=lambda p: stream(self.config.seed, p, self.step),
        )  # fmt: skip
        return {name: [Reading.of(r) for r in found] for name, found in readings(view).items()}

    def snapshot(self) -> Snapshot:
        """Measure everything now, and start the next epoch's running loss."""
        accuracy, loss = accuracy_and_loss(self.net, self.test)
        looked = self.observe()
        seen = quantities(looked)
        begun = self.loss_count > 0
        measured = Snapshot(
            epoch=self.epoch,
            step=self.step,
            lr=self.lr(self.epoch - 1) if begun else None,
            train_loss=self.loss_sum / self.loss_count if begun else None,
            accuracy=accuracy,
            loss=loss,
            probe_images=len(self.probe_labels),
            reference_batch=REFERENCE_BATCH,
            hidden_norms=seen.hidden_norms,
            branch_norms=seen.branch_norms,
            gradient_norms=seen.gradient_norms,
            credit_norms=seen.credit_norms,
            cosine=[CosineRecord.of(c) for c in seen.cosines],
            cosine_out=[CosineRecord.of(c) for c in seen.cosines_out],
            cosine_embed=CosineRecord.of(seen.embed),
            gamma=seen.gamma[0],
            gamma_blocks=seen.gamma[1],
            credit=looked.credits.kind,
            measured=self.readings(looked),
        )
        self.loss_sum, self.loss_count = 0.0, 0
        return measured

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
        """Go back to a checkpoint. Values are copied into existing memory, because results depend on its alignment."""
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

    def _counters(self, state: dict[str, object]) -> tuple[int, float, int]:
        """Step, running loss and its count; refused if a training of this config cannot have had them."""
        step, loss, count = state.get("step"), state.get("loss_sum"), state.get("loss_count")
        try:
            loss_sum = float.fromhex(loss) if isinstance(loss, str) else math.nan
        except (ValueError, OverflowError):
            loss_sum = math.nan
        if type(step) is int and 0 <= step <= self.total_steps and math.isfinite(loss_sum):
            seen = min(step % self.steps_per_epoch * self.config.batch_size, len(self.batches))
            if type(count) is int and count == seen:
                return step, loss_sum, count
        raise RecordError(f"the checkpoint's counters do not belong to this run: {str(state)[:200]}", FRESH)


def train(
    config: RunConfig,
    out: Path | str = "runs",
    *,
    tell: Callable[[Progress], object] = lambda _: None,
    should_stop: Callable[[], bool] = lambda: False,
    checkpoint_every: float = 15.0,
    data_folder: Path | None = None,
    device: str = "cpu",
    fresh: bool = False,
    fired: Callable[[Snapshot], str | None] = lambda _: None,
) -> Run:
    """Train a run to its end, resuming from its folder; a finished one is read and returned.

    Raises `Stopped` if `should_stop` is true, after writing the checkpoint; `Busy` if another process has the run.
    Nothing is judged here: a run with `stop_when_fired` ends when `fired` gives a reason.
    """
    with RunFolder(out, config, fresh=fresh) as folder, arithmetic():
        before = folder.read()
        if before.result is not None and (before.probes is not None or before.result.status == "diverged"):
            if is_own(config.data):  # the same code may return other data today: a finished run must not count for them
                check_same_data(before, load(config.data, data_folder))
            return before
        began = time.monotonic()
        dataset = load(config.data, data_folder)
        trainer = Trainer(config, dataset, device)
        checkpoint = folder.load_checkpoint()
        if before.result is not None:  # ended, but without its probes: they need no training
            if checkpoint is not None:
                trainer.restore(checkpoint[0], checkpoint[1])
                folder.write("probes.json", deep_probes(trainer))
            return folder.read()
        note = None
        if checkpoint is not None:
            tensors, state, note = checkpoint
            trainer.restore(tensors, state)
        kept = folder.keep_snapshots(trainer.step if checkpoint is not None else -1)
        if [s.epoch for s in kept] != list(range(trainer.epoch + 1 if checkpoint is not None else 0)):
            raise RecordError(
                f"{folder.path / 'snapshots.jsonl'} lacks snapshots that its checkpoint had",
                FRESH,
            )
        start = trainer.step
        sitting = begin_sitting(folder, before, dataset, trainer.step, device)
        last_saved = time.monotonic()

        def save() -> None:
            nonlocal last_saved
            folder.save_checkpoint(trainer.tensors(), trainer.state())
            last_saved = time.monotonic()

        def stop_if_asked() -> None:
            if should_stop():
                save()
                raise Stopped

        def between() -> None:
            if trainer.step % trainer.steps_per_epoch == 0:
                return  # the epoch's snapshot comes first: a checkpoint that is ahead of its snapshots is refused
            stop_if_asked()
            if time.monotonic() - last_saved > checkpoint_every:
                save()

        def snap(note: str | None = None) -> Snapshot:
            measured = trainer.snapshot()
            folder.append(measured)
            done, left = trainer.step - start, trainer.total_steps - trainer.step
            pace = (time.monotonic() - began) / done if done else None
            tell(Progress(measured, config.epochs, pace * left if pace is not None else None, note))
            return measured

        latest = kept[-1] if kept else snap()
        if kept:
            tell(Progress(latest, config.epochs, None, note))
        result = None
        try:
            while trainer.step < trainer.total_steps:
                # Asked before an epoch, so that a run killed just before its result still ends at the same epoch.
                fresh_off = config.stop_when_fired and latest.step == trainer.step > 0
                if fresh_off and (reason := fired(latest)) is not None:
                    saved = config.epochs - latest.epoch
                    says = f"ended at epoch {latest.epoch}: {reason}; {saved} of {config.epochs} epochs saved"
                    result = _result("fired", latest.epoch, trainer.step, latest, says)
                    break
                trainer.one_epoch(between)
                trainer.check_finite()
                latest = snap()
                stop_if_asked()
                if time.monotonic() - last_saved > checkpoint_every:
                    save()
        except FloatingPointError as trouble:
            epoch = (trainer.step - 1) // trainer.steps_per_epoch + 1
            says = f"diverged at epoch {epoch} (step {trainer.step}): {trouble}"
            result = _result("diverged", epoch - 1, trainer.step, latest, says)
        except Stopped:
            end_sitting(folder, sitting, trainer.step, began)
            raise
        if result is None:
            result = _result("finished", config.epochs, trainer.step, latest, f"finished {config.epochs} epochs")
        if result.status != "diverged":
            save()
            folder.write("probes.json", deep_probes(trainer))
        end_sitting(folder, sitting, trainer.step, began)
        folder.write("result.json", result)
        return folder.read()


def _result(status: str, epochs: int, steps: int, latest: Snapshot, says: str) -> Result:
    measured = {"accuracy": latest.accuracy, "loss": latest.loss}
    return Result.model_validate({"status": status, "epochs": epochs, "steps": steps, "says": says, **measured})
