"""A part of the training data held out: what is measured on it, and that the test split is not looked at."""

import dataclasses

import pytest
import torch

from conftest import image_data, small_plan
from walkback.data import Split, load
from walkback.data.batches import held_out
from walkback.errors import BadValue
from walkback.probes import accuracy_and_loss
from walkback.records import RunConfig, read_run, subjects_of_runs
from walkback.train import Trainer, train


def test_property_held_out_and_the_rest_are_the_training_split_and_nothing_else():
    data = image_data(count=50)
    split = held_out(data, 0.2)
    assert (len(split.test.labels), len(split.train.labels)) == (10, 40)

    def rows(*splits):
        return sorted((*x.flatten().tolist(), int(y)) for s in splits for x, y in zip(s.inputs, s.labels, strict=True))

    assert rows(split.train, split.test) == rows(data.train)
    assert split.fingerprint == data.fingerprint
    again = held_out(data, 0.2)
    assert torch.equal(again.test.inputs, split.test.inputs)  # the same for every run


def test_planted_a_test_split_that_must_not_be_read_is_not_read():
    """Other test data, the same run to the bit; and the accuracy is that on the held-out samples."""
    data = load("digits")
    spoilt = dataclasses.replace(data, test=Split(data.test.inputs * 0, data.test.labels * 0))
    (config,) = small_plan(data="digits", rules=["dfa"], epochs=1, validation=0.25)
    trainers = [Trainer(config, each) for each in (data, spoilt)]
    for trainer in trainers:
        trainer.one_epoch(lambda: None)
    one, other = (trainer.snapshot() for trainer in trainers)
    assert one.text() == other.text()
    held = held_out(data, 0.25)
    assert sum(len(labels) for _, labels in trainers[0].test) == len(held.test.labels)
    assert len(trainers[0].batches) == len(held.train.labels)
    assert one.accuracy == accuracy_and_loss(trainers[0].net, trainers[0].test)[0]
    plain = Trainer(small_plan(data="digits", rules=["dfa"], epochs=1)[0], spoilt)
    plain.one_epoch(lambda: None)
    assert plain.snapshot().accuracy != one.accuracy  # without the option the test split is what counts


def test_property_the_option_renames_no_run_and_names_its_own():
    (before,) = small_plan(data="digits")
    raw = before.as_dict()
    del raw["validation"]  # as recorded before there was the option
    assert RunConfig.from_plain(raw).hash() == before.hash()
    (with_it,) = small_plan(data="digits", validation=0.1)
    assert with_it.hash() != before.hash()
    assert "validation 0.1" in with_it.label()


def test_property_runs_with_and_without_are_never_one_subject_nor_each_others_baseline(tmp_path):
    plans = [
        small_plan(data="digits", rules=["dfa"], epochs=1, train_last=last, validation=share)
        for last, share in ((None, 0.0), (None, 0.2), (0, 0.2))
    ]
    runs = [read_run(train(config, tmp_path).path) for (config,) in plans]
    plain, validated = (subject.evidence for subject in subjects_of_runs(runs))
    assert (plain.name, validated.name) == ("dfa", "dfa validation 0.2")
    assert len(plain.seeds) == len(validated.seeds) == 1
    assert "frozen" not in plain.baselines
    assert "frozen" in validated.baselines


@pytest.mark.parametrize("share", [1.0, -0.1, float("nan")])
def test_error_shares_that_cannot_be_meant(share):
    with pytest.raises(BadValue, match="--validation"):
        small_plan(data="digits", validation=share)


@pytest.mark.parametrize("share", [1e-9, 0.9999])
def test_error_nothing_held_out_or_nothing_left(share):
    with pytest.raises(BadValue, match="cannot be held out"):
        held_out(image_data(count=50), share)
