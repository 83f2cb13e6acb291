"""What a run's config says of each of its snapshots: the step, the learning rate, the samples. Used by whole.py, which
tells what is wrong, and by quick.py, which asks whether all is right."""

import math
from typing import Literal, NamedTuple

from walkback.data import DATASETS
from walkback.records.schema import RunConfig


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
    """The same of a schedule over so many epochs."""
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
