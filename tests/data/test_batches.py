"""Batches: the vectorised crop, flip and normalisation against a plain loop over images."""

import pytest
import torch
from torch.nn import functional as F

from conftest import image_data
from walkback.data import Dataset, Split
from walkback.data.batches import PAD, TrainBatches, eval_batches, normalized


def candidates(image):
    """Every crop of an image padded with black, and its mirror."""
    padded, side = F.pad(image, (PAD,) * 4), image.shape[-1]
    for top in range(2 * PAD + 1):
        for left in range(2 * PAD + 1):
            crop = padded[:, top : top + side, left : left + side]
            yield crop
            yield crop.flip(2)


@pytest.mark.parametrize("side", [8, 12])
def test_second_implementation_every_image_is_one_of_its_crops(side):
    data = image_data(count=40, side=side)
    batches = TrainBatches(data, augment=True)
    index = torch.randperm(40)[:20]
    inputs, labels = batches.batch(index, torch.Generator().manual_seed(3))
    assert torch.equal(labels, data.train.labels[index])
    for row, i in zip(inputs, index, strict=True):
        assert any(torch.equal(row, normalized(c, data)) for c in candidates(data.train.inputs[i]))


def test_property_crops_and_flips_are_uniform_and_independent():
    """All 81 corners and both flips occur equally often, over many draws of one recognisable image."""
    side = 8
    image = torch.arange(3 * side * side, dtype=torch.uint8).view(1, 3, side, side) + 1
    split = Split(image, torch.zeros(1, dtype=torch.int64))
    data = Dataset("one", split, split, 2, (3, side, side), (0.0,) * 3, (1.0,) * 3, True, "f")
    batches, count = TrainBatches(data, augment=True), 162 * 60
    inputs, _ = batches.batch(torch.zeros(count, dtype=torch.int64), torch.Generator().manual_seed(0))
    known = {normalized(c, data).numpy().tobytes(): n for n, c in enumerate(candidates(image[0]))}
    assert len(known) == 162
    seen = torch.bincount(torch.tensor([known[row.numpy().tobytes()] for row in inputs]), minlength=162).double()
    chi = float(((seen - 60) ** 2 / 60).sum())
    assert chi < 161 + 5 * (2 * 161) ** 0.5, chi  # five standard deviations of χ² with 161 degrees of freedom


def test_property_same_stream_same_batch_and_the_data_stay_as_they_are():
    data = image_data()
    kept = data.train.inputs.clone()
    batches, index = TrainBatches(data, augment=True), torch.arange(64)
    one, _ = batches.batch(index, torch.Generator().manual_seed(5))
    two, _ = batches.batch(index, torch.Generator().manual_seed(5))
    other, _ = batches.batch(index, torch.Generator().manual_seed(6))
    assert torch.equal(one, two)
    assert not torch.equal(one, other)
    assert torch.equal(data.train.inputs, kept)


def test_closed_form_normalisation():
    data = image_data()
    plain = (data.test.inputs.double() / 255 - torch.tensor(data.mean).view(3, 1, 1)) / torch.tensor(data.std).view(
        3, 1, 1
    )
    torch.testing.assert_close(normalized(data.test.inputs, data).double(), plain, rtol=1e-5, atol=1e-5)
    whole = torch.cat([x for x, _ in eval_batches(data.test, data, 37)])
    assert torch.equal(whole, normalized(data.test.inputs, data))
    assert torch.equal(torch.cat([y for _, y in eval_batches(data.test, data, 37)]), data.test.labels)


def test_property_without_augmentation_the_images_come_as_they_are():
    data = image_data()
    inputs, _ = TrainBatches(data, augment=False).batch(torch.tensor([3, 1]), torch.Generator())
    assert torch.equal(inputs, normalized(data.train.inputs[[3, 1]], data))
