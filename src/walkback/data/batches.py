"""Batches out of a data set: gather, crop, flip and normalise, vectorised, from uint8 images kept in memory."""

import math
from dataclasses import replace

import numpy as np
import torch
from torch import Tensor

from walkback.data.base import Dataset, Split
from walkback.errors import BadValue

PAD = 4
HELD_OUT_SEED = 20200202  # one shuffle for all runs: rules, seeds and learning rates are compared on the same samples


def held_out(dataset: Dataset, share: float) -> Dataset:
    """The data set with `share` of its training samples as its test split, and the rest to train on.

    For choosing settings: the test split is not used, and not returned. The choice depends only on the number of
    samples.
    """
    count = len(dataset.train.labels)
    held = round(share * count)
    if not 0 < held < count:
        raise BadValue(
            f"{share:g} of {count} training samples cannot be held out", "give --validation 0.1, or more data"
        )
    order = torch.randperm(count, generator=torch.Generator().manual_seed(HELD_OUT_SEED))
    test, train = (
        Split(dataset.train.inputs[index], dataset.train.labels[index]) for index in (order[:held], order[held:])
    )
    return replace(dataset, train=train, test=test)


def normalized(inputs: Tensor, dataset: Dataset) -> Tensor:
    """uint8 images → float32, (pixel/255 − mean)/std per channel; floats → (x − mean)/std, per channel or feature."""
    per_channel = (-1, *[1] * (len(dataset.shape) - 1))
    mean = torch.tensor(dataset.mean, dtype=torch.float32).view(per_channel)
    std = torch.tensor(dataset.std, dtype=torch.float32).view(per_channel)
    if inputs.dtype == torch.uint8:
        scale, shift = 1 / (255 * std), -mean / std
        return inputs.float().mul_(scale).add_(shift)
    return (inputs - mean) / std


class TrainBatches:
    """The training split as a source of batches.

    With `augment`, every image is cropped from its version padded by 4 black pixels and flipped with probability ½,
    independently. The padded images are held as bytes; a crop's rows are runs of bytes, and one indexed copy of such
    runs makes the whole batch.
    """

    def __init__(self, dataset: Dataset, augment: bool, device: torch.device | str = "cpu"):
        self.dataset = dataset
        self.augment = augment
        self.device = torch.device(device)
        self.labels = dataset.train.labels
        inputs = dataset.train.inputs
        if augment:
            self._padded = torch.nn.functional.pad(inputs, (PAD, PAD, PAD, PAD))
            flat, width = self._padded.view(-1).numpy(), inputs.shape[-1]
            # Every run of `width` bytes, at every offset, as one item: an array of overlapping rows.
            self._runs = np.ndarray(flat.size - width + 1, dtype=f"V{width}", buffer=flat.data, strides=(1,))
        else:
            self._plain = inputs if inputs.dtype == torch.uint8 else normalized(inputs, dataset)

    def __len__(self) -> int:
        return len(self.labels)

    def batch(self, index: Tensor, generator: torch.Generator) -> tuple[Tensor, Tensor]:
        """The inputs and labels at `index`; crops and flips are drawn from `generator`."""
        if self.augment:
            inputs = normalized(self._crop(index, generator), self.dataset)
        else:
            inputs = self._plain[index]
            inputs = normalized(inputs, self.dataset) if inputs.dtype == torch.uint8 else inputs
        return inputs.to(self.device), self.labels[index].to(self.device)

    def _crop(self, index: Tensor, generator: torch.Generator) -> Tensor:
        count, (channels, height, width) = len(index), self.dataset.shape
        stride = width + 2 * PAD
        draws = torch.randint(0, 2 * (2 * PAD + 1) ** 2, (count,), generator=generator).numpy()
        flip, corner = draws % 2 == 1, draws // 2
        top, left = corner // (2 * PAD + 1), corner % (2 * PAD + 1)
        image = index.numpy()[:, None] * channels + np.arange(channels)
        first = image * ((height + 2 * PAD) * stride) + (top * stride + left)[:, None]
        starts = first[:, :, None] + np.arange(height) * stride
        pixels = self._runs[starts.reshape(-1)].view(np.uint8).reshape(count, channels, height, width)
        pixels[flip] = pixels[flip, :, :, ::-1]
        return torch.from_numpy(pixels)


def eval_batches(
    split: Split, dataset: Dataset, size: int, device: torch.device | str = "cpu"
) -> list[tuple[Tensor, Tensor]]:
    """The whole split in order, normalised, without augmentation, in batches of `size`."""
    count = math.ceil(len(split.labels) / size)
    cuts = [slice(i * size, (i + 1) * size) for i in range(count)]
    return [(normalized(split.inputs[c], dataset).to(device), split.labels[c].to(device)) for c in cuts]
