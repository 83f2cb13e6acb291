"""depth and reach: paired gains, their intervals, the sign test, and the words for each answer."""

import math
import statistics
from typing import Any

import numpy as np
import pytest
from scipy import stats

from test_checks_planted import BEGUN, around, but, by_seed, subject
from walkback.checks import DEFAULT, depth, judge, reach
from walkback.checks.depth import most_failing, required_seeds
from walkback.checks.finding import Interval
from walkback.checks.paired_gain import PairedSide, image_variance, paired
from walkback.records import Baseline

T = {n: stats.t.ppf((1 + 0.9875) / 2, n - 1) for n in (2, 3, 5, 8, 12)}


def gained(*gains: float, over: float = 0.34, **more: Any) -> Any:
    """A subject that gains this over the shallow net by seed, without predictions."""
    values = tuple(over + gain for gain in gains)
    others = {name: Baseline(accuracy=around(mean, len(gains)).accuracy) for name, mean in BEGUN.items()}
    flat = by_seed(*[over] * len(gains), predicted=False)
    given = others | {"shallow": flat, "frozen": flat, "half": None, "half_bp": None}
    return subject(accuracy=values, predicted=False, baselines=given | more)


# --- intervals ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("n", [3, 5, 8, 12])
def test_second_implementation_the_interval_is_students_and_paired(n: int) -> None:
    gains = np.random.default_rng(n).normal(0.1, 0.02, n)
    found = depth(gained(*gains)).parts["shallow"]
    half = T[n] * gains.std(ddof=1) / math.sqrt(n)
    assert found.value == pytest.approx(gains.mean())
    assert (found.low, found.high) == (pytest.approx(gains.mean() - half), pytest.approx(gains.mean() + half))


def test_second_implementation_the_noise_of_the_test_split() -> None:
    """The two-way table by its definition: images and seeds, one entry each."""
    dice = np.random.default_rng(4)
    hard = dice.random(400)
    own = [(dice.random(400) > hard * 0.5).astype(np.int8) for _ in range(5)]
    other = [(dice.random(400) > hard * 0.8).astype(np.int8) for _ in range(5)]
    table = np.array([a - b for a, b in zip(own, other, strict=True)], dtype=float)
    n, images = table.shape
    ms_image = n * ((table.mean(0) - table.mean()) ** 2).sum() / (images - 1)
    residual = table - table.mean(0, keepdims=True) - table.mean(1, keepdims=True) + table.mean()
    ms_error = (residual**2).sum() / ((n - 1) * (images - 1))
    expected = max(0.0, ms_image - ms_error) / (n * images)
    found = image_variance([(a.tobytes(), b.tobytes()) for a, b in zip(own, other, strict=True)])
    assert found == pytest.approx(expected, rel=1e-12)


def test_property_the_interval_covers_the_gain_on_all_images() -> None:
    """Seeds and images are drawn: the gain on all images that there could be lies within in at least 95 % of trials."""
    dice, covered, trials = np.random.default_rng(9), 0, 300
    for _ in range(trials):
        easy = dice.random(300)  # of each image, how easy it is; the true gain is 10 points
        rows = []
        for _ in range(5):
            shift = dice.normal(0, 0.01)
            rows.append(((dice.random(300) < np.clip(easy * 0.6 + 0.1 + shift, 0, 1)).astype(np.int8),
                         (dice.random(300) < easy * 0.6).astype(np.int8)))  # fmt: skip
        sides = [
            PairedSide({str(s): float(r[k].mean()) for s, r in enumerate(rows)}, {str(s): r[k].tobytes() for s, r in
                 enumerate(rows)}) for k in (0, 1)
        ]  # fmt: skip
        gain = paired(*sides)
        ends = gain.interval(0.9875)
        assert ends.low is not None
        assert ends.high is not None
        covered += ends.low <= 0.1 <= ends.high
    assert covered / trials >= 0.95


def test_a_seed_without_its_partner_leaves_no_interval() -> None:
    side, other = PairedSide({"1": 0.5, "2": 0.6}, {}), PairedSide({"1": 0.4}, {})
    gain = paired(side, other)
    assert (gain.lacking, gain.mean, gain.interval(0.95)) == (["2"], None, Interval())
    for none in (paired(side, PairedSide({}, {})), paired(PairedSide({}, {}), other)):
        assert (none.n, none.mean, none.lacking, none.interval(0.95)) == (0, None, (), Interval())


# --- the sign test and the seeds that fail --------------------------------------------------------------------------


def test_closed_form_of_the_sign_test() -> None:
    """At the looks 3, 5, 8, 12 a subject whose typical seed lies at the margin passes in 3.3 % of audits at most."""
    dice = np.random.default_rng(0).random((200_000, 12)) < 0.5
    passed = np.zeros(len(dice), dtype=bool)
    for n in (3, 5, 8, 12):
        if (wanted := required_seeds(n)) is not None:
            passed |= dice[:, :n].sum(1) >= wanted
    assert [required_seeds(n) for n in (3, 4, 5, 8, 12)] == [None, None, 5, 8, 11]
    assert 0.031 < passed.mean() < 0.036


def test_closed_form_of_the_bound_of_failing_seeds() -> None:
    for failed, n in ((0, 5), (1, 5), (2, 12), (0, 3)):
        bound = most_failing(failed, n)
        assert stats.binom.cdf(failed, n, bound) == pytest.approx(0.05, abs=1e-9)
    assert most_failing(3, 3) == 1.0


# --- depth ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("gains", "outcome"),
    [
        ((0.05, 0.051, 0.049, 0.05, 0.05), "passes"),
        ((0.0201, 0.0202, 0.02015, 0.0201, 0.0202), "passes"),
        ((0.02, 0.0202, 0.0203, 0.0201, 0.0202), "open"),  # one seed is at the margin and not above it
        ((0.05, 0.051, 0.049), "open"),  # three seeds can never hold
        ((0.01, 0.011, 0.009), "fires"),
        ((-0.05, -0.051, -0.049), "fires"),
        ((0.01, 0.011), "open"),  # two can do nothing
        ((0.019, 0.0195, 0.0193, 0.0191, 0.0194), "fires"),
        ((0.01, 0.09, 0.01, 0.09, 0.01), "open"),
    ],
)  # fmt: skip
def test_depth_wants_the_interval_and_nearly_every_seed_on_one_side(gains: tuple[float, ...], outcome: str) -> None:
    assert depth(gained(*gains)).outcome == outcome


def test_firing_uses_a_wider_interval_whether_two_baselines_are_there_or_one() -> None:
    """Deleting a baseline must not narrow a test."""
    gains = (0.004, 0.01, 0.016)  # below 2 points at 98.75 %? neither there nor at 99.375 %
    t_wide = stats.t.ppf(1 - (1 - 0.9875) / 4, 2)
    for scale in (0.1, 0.2, 0.15, 0.12, 0.11):
        some = tuple(0.01 + scale * (gain - 0.01) for gain in gains)
        high = 0.01 + t_wide * statistics.stdev(some) / math.sqrt(3)
        expected = "fires" if high < 0.02 else "open"
        for absent in ({}, {"frozen": None}, {"shallow": None}):
            assert depth(gained(*some, **absent)).outcome == expected


def test_a_diverged_seed_counts_as_guessing_whatever_its_last_snapshot_shows() -> None:
    seeds = subject(seeds=12).seeds
    ended = [seed.changed(**{"ended": "diverged"} if place < 2 else {}) for place, seed in enumerate(seeds)]
    found = judge(subject(seeds=12).changed(seeds=ended))
    assert found.verdict == "open"
    assert "Seeds that gain nothing: 2 of 12" in next(f.says for f in found.findings if f.check == "depth")
    assert "Seeds 42 and 123 diverged and count as guessing." in found.symptoms


# --- reach ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("half", "half_bp", "outcome"),
    [(0.570, 0.58, "passes"), (0.601, 0.58, "fires"), (0.594, 0.58, "open"), (0.601, 0.6149, "not asked"),
     (0.63, 0.6149, "fires"), (0.63, 0.65, "not asked")],
)  # fmt: skip
def test_reach_by_its_table(half: float, half_bp: float, outcome: str) -> None:
    assert reach(but({"half": around(half), "half_bp": around(half_bp)})).outcome == outcome


def test_less_evidence_never_makes_the_lower_half_trained() -> None:
    """With bp's halves it is not asked; without them it must not be trained."""
    asked = but({"half": around(0.57), "half_bp": around(0.6149)})
    assert reach(asked).outcome == "not asked"
    for gone in ("bp", "half_bp"):
        less = {n: b for n, b in asked.baselines.items() if n != gone}
        assert reach(asked.changed(baselines=less)).outcome == "open"


def test_no_seeds_are_asked_for_where_the_half_net_is_missing() -> None:
    """More seeds narrow an interval; they do not bring a net that nobody trained."""
    unsure = by_seed(0.60, 0.62, 0.605, 0.617, 0.61)
    assert reach(but({"half": by_seed(0.59, 0.60, 0.595, 0.585, 0.604), "half_bp": unsure})).wants_seeds
    assert not reach(but({"half": None, "half_bp": unsure})).wants_seeds


def test_a_margin_of_ones_own_is_used() -> None:
    assert depth(gained(0.05, 0.051, 0.049, 0.05, 0.05), DEFAULT.but("depth.margin", 0.06)).outcome == "fires"
    assert reach(but(), DEFAULT.but("reach.margin", 0.2)).outcome in ("open", "not asked")


def test_the_lower_half_is_open_where_it_gains_less_and_bp_is_not_shown_to_gain_more() -> None:
    """The interval lies below the margin; the sentence must not say that it contains it."""
    half = by_seed(*(seed.final.accuracy - 0.001 for seed in subject().seeds))
    found = reach(but({"half": half, "half_bp": by_seed(0.60, 0.62, 0.605, 0.617, 0.61)}))
    assert found.outcome == "open"
    assert found.high < found.threshold
    assert "contains" not in found.says
    assert "bp's lower half is not shown to gain as much" in found.says
