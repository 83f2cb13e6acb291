"""Looks: seeds are added and looked at several times, and the intervals allow for that."""

import math

import numpy as np
import pytest
from scipy import stats

from walkback.checks import DEFAULT, Finding
from walkback.checks.sequential import (
    FAR,
    LOOKS,
    each_look,
    looks_of,
    looks_up_to,
    margin_words,
    seeds_advice,
    seeds_needed,
    with_looks,
)
from walkback.errors import BadValue
from walkback.records.record import parse

AUTO = with_looks(DEFAULT, looks_up_to(12))


def finding(check="depth", outcome="open", value=0.0, low=-0.05, high=0.05, threshold=0.02) -> Finding:
    return Finding(
        check=check, outcome=outcome, basis="exact", value=value, low=low, high=high, threshold=threshold,
        stable_range=(None, None), ranges={}, says="",
    )  # fmt: skip


@pytest.mark.parametrize(
    ("most", "looks"),
    [(3, (3,)), (4, (3, 4)), (5, (3, 5)), (6, (3, 5, 6)), (12, (3, 5, 8, 12)), (13, (3, 5, 8, 12, 13)), (40, LOOKS)],
)
def test_closed_form_the_last_look_is_the_limit(most, looks):
    assert looks_up_to(most) == looks


@pytest.mark.parametrize("most", [-1, 0, 2, 41])
def test_error_a_limit_that_cannot_be(most):
    with pytest.raises(BadValue, match=f"at most {most}") as caught:
        looks_up_to(most)
    assert f"give --max-seeds 3 … 40, or a fixed number of seeds (--seeds {most})" in str(caught.value)


def test_closed_form_the_confidence_of_each_look():
    """Four looks are paid for by what one interval has; more of them share what it leaves out."""
    assert [each_look(0.9875, k) for k in (1, 2, 4, 5, 6)] == [0.9875, 0.9875, 0.9875, 0.99, round(1 - 0.05 / 6, 12)]
    assert each_look(0.95, 8) == 0.975


@pytest.mark.parametrize("most", [3, 5, 7, 12, 40])
def test_oracle_all_looks_together_keep_the_confidence(most):
    """Drawn anew, with scipy's t: the true margin is outside some interval in at most 5 % of audits."""
    looks = looks_up_to(most)
    confidence = with_looks(DEFAULT, looks)["depth.confidence"]
    margins = np.random.default_rng(most).normal(0.7, 2.0, (20_000, most))
    outside = np.zeros(len(margins), dtype=bool)
    for n in looks:
        part = margins[:, :n]
        half = stats.t.ppf((1 + confidence) / 2, n - 1) * part.std(axis=1, ddof=1) / math.sqrt(n)
        outside |= abs(part.mean(axis=1) - 0.7) > half
    error = 3 * math.sqrt(0.05 * 0.95 / len(margins))
    assert 0.005 < outside.mean() < 0.05 + error  # and is not so wide that it never errs


def test_a_naive_interval_at_every_look_would_not():
    """The planted defect: 95 % at each of the four looks errs in more than 5 % of audits."""
    margins = np.random.default_rng(5).normal(0.0, 1.0, (20_000, 12))
    outside = np.zeros(len(margins), dtype=bool)
    for n in looks_up_to(12):
        part = margins[:, :n]
        half = stats.t.ppf(0.975, n - 1) * part.std(axis=1, ddof=1) / math.sqrt(n)
        outside |= abs(part.mean(axis=1)) > half
    assert outside.mean() > 0.1


def test_a_confidence_of_ones_own_is_that_of_all_looks_together():
    own = with_looks(DEFAULT.but("depth.confidence", 0.975), (3, 5, 8, 12, 18))
    assert own["depth.confidence"] == 0.98
    assert "3, 5, 8, 12, 18 seeds: 0.9 over all" in own.table["depth.confidence"].calibrated


def test_four_looks_are_paid_for_so_that_a_limit_can_be_raised():
    assert {with_looks(DEFAULT, looks_up_to(most))["depth.confidence"] for most in range(3, 13)} == {0.9875}
    assert [with_looks(DEFAULT, looks_up_to(most))["depth.confidence"] for most in (13, 18, 19)] == [
        0.99, 0.99, round(1 - 0.05 / 6, 12),
    ]  # fmt: skip


def test_the_design_is_recorded_with_the_thresholds_and_survives_json():
    assert AUTO.version == f"{DEFAULT.version}, seeds auto up to 12"
    changed = AUTO.table["depth.confidence"]
    assert (changed.who, AUTO.table | {"depth.confidence": None}) == (
        "walkback", DEFAULT.table | {"depth.confidence": None}
    )  # fmt: skip
    assert changed.calibrated == (
        "seeds are added at looks with 3, 5, 8, 12 seeds: 0.95 over all of them together, by Bonferroni; repeated "
        "confidence intervals (Jennison and Turnbull 1984)"
    )
    assert looks_of(parse(type(AUTO), AUTO.text().encode(), "it")) == (3, 5, 8, 12)
    assert (looks_of(DEFAULT), looks_of(with_looks(DEFAULT, (3,)))) == ((), (3,))


def interval(gains, confidence):
    return stats.t.interval(confidence, len(gains) - 1, loc=np.mean(gains), scale=stats.sem(gains))


@pytest.mark.parametrize("confidence", [0.95, 0.9875])
@pytest.mark.parametrize("spread", [0.005, 0.015, 0.03])
@pytest.mark.parametrize("seeds", [2, 3, 8])
def test_oracle_the_seeds_needed_by_trying_every_number(confidence, spread, seeds):
    gains = np.random.default_rng(seeds).normal(0.0, spread, seeds)
    gains += 0.005 - gains.mean()
    low, high = interval(gains, confidence)
    need = seeds_needed(finding(value=0.005, low=low, high=high), seeds, confidence)
    std = gains.std(ddof=1)
    fits = [n for n in range(seeds + 1, FAR + 1) if stats.t.ppf((1 + confidence) / 2, n - 1) * std / n**0.5 < 0.015]
    assert need == fits[0]


def test_a_margin_at_what_is_required_needs_more_than_anybody_trains():
    at_it = finding(value=0.02, low=0.01, high=0.03)
    assert seeds_needed(at_it, 3, 0.95) is None
    assert margin_words(at_it) == "depth is +2 points (+1 to +3), +2 required"
    assert seeds_advice(None) == "at this spread more than 1000 seeds would be needed"
    assert seeds_advice(9) == "at this spread about 9 seeds would settle it"


def test_the_largest_number_that_is_still_told():
    """Just before and just beyond: with FAR seeds the half width is t · std/√FAR."""
    t, far = stats.t.ppf(0.975, FAR - 1), math.sqrt(FAR)
    half = 0.1
    std = half * math.sqrt(3) / stats.t.ppf(0.975, 2)
    for factor, expected in ((1.0001, FAR), (0.9999, None)):
        distance = t * std / far * factor
        at = finding(value=0.02 + distance, low=0.02 + distance - half, high=0.02 + distance + half)
        assert seeds_needed(at, 3, 0.95) == expected
