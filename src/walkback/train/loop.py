"""The one loop: trains one net by one rule with one seed, measures every layer, and can stop anywhere.

A checkpoint after any step is enough to go on bit for bit (trainer.py). Snapshots are written before the checkpoint
that includes them; what a killed process wrote beyond its last checkpoint is dropped and comes out the same again.
"""

import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from walkback.data import is_own, load
from walkback.errors import RecordError
from walkback.files import write_whole
from walkback.records import Result, Run, RunConfig, RunFolder, Snapshot
from walkback.records.predictions import PREDICTIONS, digest
from walkback.records.record import FRESH
from walkback.train.deep import deep_probes
from walkback.train.environment import arithmetic, begin_sitting, check_same_data, end_sitting
from walkback.train.trainer import Trainer


class Stopped(Exception):
    """The run was asked to stop; its checkpoint is written."""


@dataclass(frozen=True)
class Progress:
    """Reported after every snapshot: where the run is, and how many seconds are left at this pace."""

    snapshot: Snapshot
    epochs: int
    seconds_left: float | None
    note: str | None = None


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
        began, spent = time.monotonic(), time.process_time()
        dataset = load(config.data, data_folder)
        trainer = Trainer(config, dataset, device)
        checkpoint = folder.load_checkpoint()
        if checkpoint is not None:
            trainer.restore(checkpoint[0], checkpoint[1])
        if before.result is not None:  # ended, but without its probes: they need no training
            if checkpoint is not None:
                folder.write("probes.json", deep_probes(trainer))
            return folder.read()
        kept = folder.keep_snapshots(trainer.step if checkpoint is not None else -1)  # not those beyond the checkpoint
        if [s.epoch for s in kept] != list(range(0 if checkpoint is None else trainer.epoch + 1)):
            raise RecordError(f"{folder.path / 'snapshots.jsonl'} lacks snapshots that its checkpoint had", FRESH)
        sitting = begin_sitting(folder, before, dataset, trainer.step, device)
        if checkpoint is not None:
            tell(Progress(kept[-1], config.epochs, None, checkpoint[2]))
        loop = _Loop(trainer, folder, tell, should_stop, checkpoint_every, fired, began)
        try:
            result = loop.run(kept[-1] if kept else loop.snap())
        except Stopped:
            end_sitting(folder, sitting, trainer.step, began, spent)
            raise
        if result.status != "diverged":
            loop.save()
            folder.write("probes.json", deep_probes(trainer))
            predicted = trainer.predictions(result.accuracy)
            if predicted is not None:
                write_whole(folder.path / PREDICTIONS, predicted, follow=False)
                result = result.changed(predictions=digest(predicted))
        end_sitting(folder, sitting, trainer.step, began, spent)
        folder.write("result.json", result)
        return folder.read()


class _Loop:
    """The epochs of one sitting, with a snapshot after each, and a checkpoint whenever one is due."""

    def __init__(
        self, trainer: Trainer, folder: RunFolder, tell: Callable[[Progress], object], should_stop: Callable[[], bool],
        checkpoint_every: float, fired: Callable[[Snapshot], str | None], began: float,
    ):  # fmt: skip
        self.trainer, self.folder, self.tell, self.should_stop = trainer, folder, tell, should_stop
        self.checkpoint_every, self.fired, self.began = checkpoint_every, fired, began
        self.start = trainer.step
        self.last_saved = time.monotonic()

    def run(self, latest: Snapshot) -> Result:
        """Train until the run ends; `latest` is the snapshot where it stands."""
        trainer, epochs = self.trainer, self.trainer.config.epochs
        try:
            while trainer.step < trainer.total_steps:
                # Asked before an epoch, so that a run killed just before its result still ends at the same epoch.
                if trainer.config.stop_when_fired and latest.step == trainer.step > 0 and (why := self.fired(latest)):
                    saved = f"{epochs - latest.epoch} of {epochs} epochs saved"
                    return self.end("fired", latest, f"ended at epoch {latest.epoch}: {why}; {saved}")
                trainer.one_epoch(self.between_steps)
                trainer.check_finite()
                latest = self.snap()
                self.pause()
        except FloatingPointError as trouble:
            epoch = (trainer.step - 1) // trainer.steps_per_epoch + 1
            says = f"diverged at epoch {epoch} (step {trainer.step}): {trouble}"
            return self.end("diverged", latest, says).changed(epochs=epoch - 1)
        return self.end("finished", latest, f"finished {epochs} epochs")

    def end(self, status: Literal["finished", "diverged", "fired"], latest: Snapshot, says: str) -> Result:
        """The result of a run that ends at a snapshot."""
        return Result(
            status=status, epochs=latest.epoch, steps=self.trainer.step, accuracy=latest.accuracy, loss=latest.loss,
            says=says,
        )  # fmt: skip

    def snap(self) -> Snapshot:
        """Measure, write and tell."""
        trainer = self.trainer
        measured = trainer.snapshot()
        self.folder.append(measured)
        done, left = trainer.step - self.start, trainer.total_steps - trainer.step
        seconds_left = (time.monotonic() - self.began) / done * left if done else None
        self.tell(Progress(measured, trainer.config.epochs, seconds_left))
        return measured

    def save(self) -> None:
        """Write a checkpoint."""
        self.folder.save_checkpoint(self.trainer.tensors(), self.trainer.state())
        self.last_saved = time.monotonic()

    def pause(self) -> None:
        """Write a checkpoint if the last is long ago; or if the run is to stop, which raises `Stopped`."""
        if self.should_stop():
            self.save()
            raise Stopped
        if time.monotonic() - self.last_saved > self.checkpoint_every:
            self.save()

    def between_steps(self) -> None:
        """Pause after every step but an epoch's last: a checkpoint that is ahead of its snapshots is refused."""
        if self.trainer.step % self.trainer.steps_per_epoch:
            self.pause()
