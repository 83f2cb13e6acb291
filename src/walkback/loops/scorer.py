"""What is measured of one trained model: accuracy and loss on the whole test, and moments as `wb.audit` has them."""

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor, nn

from walkback.loops.job import Job
from walkback.loops.model_measured import at_init, guarded, measured
from walkback.loops.true_gradient import Asked
from walkback.probes.detect_task import Task, dense_hits, score, settle
from walkback.probes.forward_switches import uncompiled
from walkback.probes.inputs import on_tensors
from walkback.probes.outputs import call, per_sample_losses
from walkback.probes.perturb import Worker, double_worker, spread
from walkback.probes.preserve import undisturbed
from walkback.probes.standing import Movement
from walkback.probes.update import against_probe
from walkback.records import Moment, Reading
from walkback.records.predictions import packed
from walkback.records.readers.watch_log import UPDATE

HALVES = "halves of the probe"
COMPARED = 256  # samples of whose gradient the steps of a loop are held against
NO_CLASS = 255  # what is kept of a sample for which the net gives no number
VERIFIED = 64  # samples on which frozen blocks must compute the same


class ModelScorer:
    """Measures the models of one audit, all in the same way."""

    def __init__(self, job: Job, model: nn.Module, describe: bool = False):
        self.job = job
        self.task: Task = settle(model, job.batches, job.output, job.loss)
        self.probed = settle(model, job.probed, job.output, job.loss).batches
        setting = job.setting
        self.asked = Asked(
            self.probed, setting.blocks, None, None, job.reduction, self.task.loss, describe, setting.residual
        )  # fmt: skip

    def score(self, model: nn.Module) -> tuple[float | None, float, bytes | None]:
        """On the whole test: accuracy or your metric, the mean loss, and what predictions.npy holds.

        None where there is none: predictions are of tasks of one class of fewer than 255 per sample.
        """
        right, counted, loss, samples = 0, 0, 0.0, 0
        classes, answers = list[int](), list[int]()
        reading = self.task.reading(model)
        with undisturbed(model, whole=True), uncompiled(model), torch.no_grad():
            for inputs, labels in self.task.batches:
                logits = call(reading, on_tensors(inputs, Tensor.clone))
                loss += float(per_sample_losses(logits, labels, self.task.loss).double().sum())
                samples += len(labels)
                if self.task.dense:
                    hits, of = dense_hits(logits, labels)
                elif self.task.loss is None:
                    chosen = logits.argmax(1).masked_fill(~logits.isfinite().all(1), NO_CLASS)
                    hits, of = int((chosen == labels).sum()), len(labels)
                    classes += chosen.tolist()
                    answers += labels.tolist()
                else:
                    hits, of = 0, 0
                right, counted = right + hits, counted + of
        mean = loss / samples
        if self.job.metric is not None:
            value = score(reading, self.task, self.job.metric)
            return value if value is not None and 0 <= value <= 1 else None, mean, None
        fits = bool(answers) and self.task.classes is not None and self.task.classes <= NO_CLASS
        return right / counted if counted else None, mean, packed(classes, answers) if fits else None

    def outputs(self, model: nn.Module) -> list[Tensor]:
        """The outputs of a model for a few samples."""
        few = on_tensors(self.probed[0][0], lambda t: t[:VERIFIED])
        with undisturbed(model, whole=True), uncompiled(model), torch.no_grad():
            return [call(self.task.reading(model), on_tensors(few, Tensor.clone)).detach().clone()]

    def moment(self, model: nn.Module, credits: Any, notes: list[str]) -> Moment:
        """Everything that the checks ask of a trained model, without its accuracy and its loss."""
        own = guarded(credits, notes) if callable(credits) else credits
        given = callable(credits) and credits is self.job.credits
        redraw = guarded(self.job.redraw, notes, "redraw") if self.job.redraw is not None and given else None
        with undisturbed(model, whole=True), uncompiled(model):
            found = measured(self.task.reading(model), self.asked._replace(credits=own, redraw=redraw))
        notes += [note for note in found.notes if note not in notes]
        return found.moment

    def updates(self, model: nn.Module, steps: Sequence[Movement]) -> dict[str, list[Reading]]:
        """By block, how far the steps of a loop went down the true gradient of the probe; and how far two halves of
        the probe agree about it, which is as much as can be asked of other samples."""
        few, names = spread(self.probed, COMPARED), self.job.setting.blocks
        updates, halves = list[list[Reading]](), list[list[Reading]]()
        with undisturbed(model, whole=True), uncompiled(model):
            worker = Worker(self.task.reading(model), few.inputs, few.labels, names, self.task.loss)
            double, _ = double_worker(worker, names, worker.still.losses)
            if double is None:
                return {}
            for before, taken in steps:
                with torch.no_grad():
                    for p, value in zip(double.model.parameters(), before, strict=True):
                        p.copy_(value)
                double._still = None
                along, agreeing, _ = against_probe(taken, double, samples=COMPARED)
                updates.append(along)
                halves.append(agreeing)
        return {UPDATE: _means(updates), HALVES: _means(halves)}

    def begun(self, model: nn.Module) -> Moment:
        """What scale asks of the net at init."""
        with undisturbed(model, whole=True), uncompiled(model):
            return at_init(self.task.reading(model), self.asked)


def _means(steps: Sequence[Sequence[Reading]]) -> list[Reading]:
    """By block, the mean over the steps that have a value."""
    found = []
    for readings in zip(*steps, strict=True):
        values = [reading.value for reading in readings if reading.status == "ok"]
        found.append(Reading(sum(values) / len(values), "ok") if values else readings[-1])
    return found
