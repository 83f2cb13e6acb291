"""The strength of bp: a bar only where somebody else's figure sets one, and a sentence only where it is for this bp."""

import math

import pytest

from conftest import small_plan
from walkback.nets import NETS
from walkback.records.baselines import BARS, weak_bp


def config(data="mnist", net="mlp", **changes):
    (made,) = small_plan(data="digits", net="mlp", net_options={}, rules=["bp"])
    return made.changed(**{"data": data, "net": net, "augment": False} | changes)


def test_every_bar_is_in_order_and_has_a_source_that_is_not_ours():
    for (_, net, _), (weak_below, strong, source) in BARS.items():
        assert 0 < weak_below < strong < 1
        assert len(source) > 10
        assert "walkback" not in source
        assert not source.lower().startswith("same")
        assert net in {*NETS.names()} - {"resmlp", "vit-mini", "small-resnet"}


def test_closed_form_the_sentence_names_both_figures_and_the_source():
    output = weak_bp(config(), 0.95)
    assert ".950" in output
    assert ".975" in output
    assert "arXiv:1901.06656" in output
    assert "without augmentation" in output
    assert weak_bp(config(), 0.975) is None
    assert weak_bp(config("cifar10", augment=True), 0.61).count(".620") == 1
    assert weak_bp(config("cifar10"), 0.61) is None
    for unknown in (None, math.nan):
        assert weak_bp(config(), unknown) is None


@pytest.mark.parametrize(
    "changes",
    [
        {"net": "resmlp"}, {"net": "vit-mini"}, {"net": "small-resnet"}, {"net": "student"}, {"net": "mine.py:Net"},
        {"data": "mnist1d"}, {"data": "digits"}, {"data": "mine.py:load"}, {"augment": True}, {"blocks": 0},
        {"data_source": "ab" * 8}, {"net_source": "ab" * 8}, {"validation": 0.1}, {"labels": "random"},
        {"train_last": 0}, {"penalty": 1e-2},
    ],
)  # fmt: skip
def test_planted_where_the_bar_is_not_for_this_bp_nothing_is_said(changes):
    assert weak_bp(config(), 0.2)
    assert weak_bp(config(**changes), 0.2) is None
