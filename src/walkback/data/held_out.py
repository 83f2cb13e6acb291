"""Hold out a part of the training split for choosing settings, so that the test split is not used."""

from dataclasses import replace

import torch

from walkback.data.base import Dataset, Split
from walkback.errors import BadValue

SEED = 20200202  # one shuffle for all runs: rules, seeds and learning rates are compared on the same samples


def held_out(dataset: Dataset, share: float) -> Dataset:
    """The data set with `share` of its training samples as its test split, and the rest to train on.

    The choice depends only on the number of samples. The real test split is not returned.
    """
    count = len(dataset.train.labels)
    held = round(share * count)
    if not 0 < held < count:
        raise BadValue(
            f"{share:g} of {count} training samples cannot be held out", "give --validation 0.1, or more data"
        )
    order = torch.randperm(count, generator=torch.Generator().manual_seed(SEED))

    def part(index: torch.Tensor) -> Split:
        return Split(dataset.train.inputs[index], dataset.train.labels[index])

    return replace(dataset, train=part(order[held:]), test=part(order[:held]))
