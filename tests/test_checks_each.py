"""Each check at its boundaries, and every sentence that it can say."""

import json
import math
import random
from pathlib import Path
from typing import Any

import pytest
from scipy import stats

from test_checks_planted import (
    BASELINES,
    EASY,
    FLAT,
    INF,
    LOW,
    NAN,
    by_seed,
    dead,
    moment,
    null,
    ok,
    plain,
    precise,
    subject,
    updates,
)  # fmt: skip
from walkback.checks import DEFAULT, LIMITS, coverage, depth, fires_at, first_fired, judge, reach, reference, scale
from walkback.checks.covering import clears, compared, covered, points_away
from walkback.checks.finding import Finding, agreed, stable_range
from walkback.checks.margin import margin
from walkback.checks.reference import cause, chord, norm
from walkback.checks.scale import growth, growth_over_init
from walkback.checks.student import central, mean_interval, two_sided
from walkback.checks.verdict import not_finite
from walkback.records.evidence import Baseline, Evidence, Moment, SeedEvidence
from walkback.records.schema import ReadingRecord

UP, DOWN = math.inf, -math.inf


def next_to(value: float, way: float) -> float:
    return math.nextafter(value, way)


def told(finding: Finding) -> tuple[str, str]:
    return finding.outcome, finding.says


# --- Student's t ----------------------------------------------------------------------------------------------------


def closed_form(t: float, df: int) -> float:
    """P(|T| ≤ t) for a whole number of degrees of freedom, as a finite sum: a second implementation.

    With θ = atan(t/√df) it is sin θ · Σ for even df and (2/π)(θ + sin θ cos θ · Σ) for odd, where Σ is a sum in cos²θ
    whose j-th term is the one before times (2j − 1)/(2j), or 2j/(2j + 1).
    """
    theta = math.atan2(t, math.sqrt(df))
    sine, cosine = math.sin(theta), math.cos(theta)
    term = total = 1.0 if df > 1 else 0.0
    for j in range(1, df // 2):
        term *= cosine * cosine * ((2 * j) / (2 * j + 1) if df % 2 else (2 * j - 1) / (2 * j))
        total += term
    return 2 / math.pi * (theta + sine * cosine * total) if df % 2 else sine * total


@pytest.mark.parametrize("df", [1, 2, 3, 4, 5, 6, 7, 10, 29, 30, 101])
def test_student_agrees_with_its_closed_form(df: int) -> None:
    for t in (0.0, 0.3, 1.0, 2.5, 12.7, 100.0):
        assert central(t, df) == pytest.approx(closed_form(t, df), abs=1e-12)
        assert central(t, df) == pytest.approx(2 * stats.t.cdf(t, df) - 1, abs=1e-12)
    for confidence in (0.5, 0.9, 0.95, 0.99, 0.999):
        t = two_sided(confidence, df)
        assert closed_form(t, df) == pytest.approx(confidence, rel=1e-12)
        assert t == pytest.approx(_bisected(confidence, df), rel=1e-12)


def _bisected(confidence: float, df: int) -> float:
    low, high = 0.0, 2.0**60
    for _ in range(130):
        middle = (low + high) / 2
        low, high = (middle, high) if closed_form(middle, df) < confidence else (low, middle)
    return high


def test_interval_agrees_with_scipy() -> None:
    values = [0.31, 0.35, 0.29, 0.40]
    theirs = stats.t.interval(0.95, 3, loc=sum(values) / 4, scale=stats.sem(values))
    assert mean_interval(values, 0.95) == pytest.approx(theirs, rel=1e-12)
    assert mean_interval([0.3], 0.95) is None
    assert mean_interval([], 0.95) is None
    assert mean_interval([0.25, 0.25], 0.95) == (0.25, 0.25)


def test_interval_of_three_seeds_covers_what_it_says() -> None:
    dice = random.Random(0)
    half = two_sided(0.95, 2)
    hits = 0
    for _ in range(4000):
        a, b, c = (dice.gauss(0, 1) for _ in range(3))
        mean = (a + b + c) / 3
        spread = math.sqrt(((a - mean) ** 2 + (b - mean) ** 2 + (c - mean) ** 2) / 2)
        hits += abs(mean) <= half * spread / math.sqrt(3)
    assert 0.94 < hits / 4000 < 0.96


# --- what they share ------------------------------------------------------------------------------------------------


def test_agreement_needs_a_seed_and_all_of_them() -> None:
    assert agreed(["fires", "fires"]) == "fires"
    assert agreed(["fires", "passes"]) == "inconclusive"
    assert agreed([]) == "inconclusive"


def test_stable_range_stops_at_the_first_change_on_each_side() -> None:
    def steps(at: float) -> Any:
        return "fires" if 2 < at < 5 else "passes"

    assert stable_range(steps, [2, 5, 7], 3) == (2, 5)
    assert stable_range(steps, [2, 5, 7], 6) == (5, None)
    assert stable_range(steps, [2, 5, 7], 1) == (None, 2)
    assert stable_range(steps, [2, 5, 3, NAN, None, INF], 4) == (2, 5)
    assert stable_range(steps, [2, 5], 2) == (None, 2)
    assert stable_range(steps, [2, 5], 5) == (5, None)
    assert stable_range(lambda at: "fires" if at == 3 else "passes", [3.0], 3) == (3, 3)
    assert stable_range(lambda at: "passes", [1, 2], 0) == (None, None)


# --- scale ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("top", "outcome"), [(50.0, "passes"), (next_to(50, UP), "fires"), (1.0, "passes")])
def test_scale_fires_strictly_above_fifty(top: float, outcome: str) -> None:
    found = scale(subject({"hidden_norms": [1.0, 1.0, top, top, top]}))
    assert (found.check, found.outcome, found.basis, found.threshold) == ("scale", outcome, "exact", 50)
    assert found.value == found.low == found.high == top


def test_one_seed_is_enough_for_scale() -> None:
    assert scale(subject({"hidden_norms": [1.0, 99.0, 99, 99, 99]}, accuracy=(0.5,))).outcome == "fires"
    assert scale(subject(accuracy=(0.5,))).outcome == "passes"


def test_the_limit_itself_is_within_it_in_words_too() -> None:
    apart = subject({"hidden_norms": [1, 50, 50, 50, 50]}, {"hidden_norms": [1, 60, 60, 60, 60]}, {})
    assert scale(apart).says == (
        "Largest growth over one block: 1.11–60× where it is known; above the limit of 50× in seed 123, "
        "within the limit in seeds 42 and 456."
    )
    by_paper = scale(subject(residual=False), protocol="published")
    assert told(by_paper) == (
        "not applicable",
        "The net has no residual stream whose growth could be judged.",
    )


def test_growth_is_per_block_and_not_to_the_first_state() -> None:
    slow = [40.0**layer for layer in range(5)]
    assert scale(subject({"hidden_norms": slow})).outcome == "passes"


def test_growth_of_known_norms_is_the_one_that_their_bounds_give() -> None:
    """Second implementation: norms by layer, of which each may be unknown."""
    draw = random.Random(0)
    for _ in range(2000):
        odd = [None, 0.0, NAN, INF, 1e308, 5e-324]
        norms = [draw.choice(odd) if draw.random() < 0.1 else draw.uniform(0.1, 9) for _ in range(draw.randint(2, 5))]
        by_list = growth(Moment(hidden_norms=norms))
        by_layer = growth(Moment(hidden_at={layer: norm for layer, norm in enumerate(norms) if norm is not None}))
        assert by_list.low == by_layer.low
        complete = all(norm is not None and 0 < norm < INF for norm in norms)
        assert by_list.high == (by_list.low if complete else None)


def test_bounds_of_growth() -> None:
    def of(*norms: float | None) -> tuple[float | None, float | None]:
        return growth(Moment(hidden_norms=list(norms)))

    assert of(2.0, 6.0, 3.0) == (3.0, 3.0)
    low, high = of(1.0, None, 1e4)
    assert low == pytest.approx(100, rel=1e-8)
    assert low is not None
    assert low < 100
    assert high is None
    assert of(1.0, None, 1e6, 2e6)[0] == pytest.approx(1000, rel=1e-8)
    assert of(None, 2.0, 6.0) == (3.0, None)
    assert of(1.0, None, None) == (None, None)
    assert of(1.0, 0.0, 4.0) == (pytest.approx(2.0, rel=1e-8), None)
    assert of(1.0, NAN, 3.0, 9.0) == (3.0, None)
    assert of(1.0, INF) == (None, None)
    assert of(5e-324, None, 1.7e308)[0] == pytest.approx(math.exp(700), rel=1e-8)
    assert growth(Moment(hidden_at={0: 2.0, 1: 8.0}, deepest_hidden=1e9)) == (4.0, None)
    assert growth(Moment(hidden_at={3: 16.0, 1: 1.0})) == (pytest.approx(4.0, rel=1e-8), None)
    assert growth(Moment()) == (None, None)


def test_what_scale_says() -> None:
    apart = subject({"hidden_norms": [1, 60, 60, 60, 60]}, {"hidden_norms": [1, 70, 70, 70, 70]}, {})
    assert told(scale(apart)) == (
        "inconclusive",
        "Largest growth over one block: 1.11–70× where it is known; above the limit of 50× in seeds 42 and "
        "123, within the limit in seed 456.",
    )
    ends = subject({"hidden_norms": [1.0, None, None, None, 5e8]})
    found = scale(ends)
    assert told(found) == (
        "fires",
        "One block grows the stream at least 150×, on every seed (limit 50×).",
    )  # fmt: skip
    assert (found.basis, found.high) == ("bound", None)
    assert found.stable_range == (None, found.low)
    one = subject({"hidden_norms": None}, {}, {"hidden_norms": [1, 60, 60, 60, 60]})
    found = scale(one)
    assert told(found) == (
        "inconclusive",
        "Largest growth over one block: at least 1.11–60× where it is known; above the limit of 50× in seed "
        "456, within the limit in seed 123, not settled in seed 42, where not every norm is known.",
    )
    assert (found.basis, found.value, found.low, found.high) == ("bound", None, None, None)


def test_a_norm_that_is_not_a_number_is_named() -> None:
    found = scale(subject({"hidden_norms": [9.0, 0.0, 9.0, NAN, 900.0]}, {}, {}))
    assert found.warnings == [
        "seed 42: the norm of h_1 is 0, and is treated as not known",
        "seed 42: the norm of h_3 is nan, and is treated as not known",
    ]


# --- scale of a plain net -------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("top", "outcome"), [(50.0, "passes"), (50.0001, "fires"), (1.0, "passes"), (0.001, "passes")])
def test_a_plain_net_fires_strictly_above_fifty_times_its_growth_at_init(top: float, outcome: str) -> None:
    """Whatever the widths make of the norms at init."""
    norms = [3.0, 700.0, 0.02, 0.02, 5.0]
    now = [norms[0], norms[1], *(top * norm for norm in norms[2:])]
    found = scale(plain({"hidden_norms": now, "start": {"hidden_norms": norms}}))
    assert (found.outcome, found.basis, found.threshold) == (outcome, "exact", 50)
    assert found.value == pytest.approx(max(top, 1.0), rel=1e-9)
    assert list(found.ranges) == ["scale.growth_over_init"]


def test_growth_over_init_agrees_with_the_formula() -> None:
    """Second implementation: r_l(now) / r_l(init), block by block."""
    dice = random.Random(3)
    for _ in range(50):
        now, start = ([dice.uniform(0.01, 100) for _ in range(6)] for _ in range(2))
        ratios = [(now[i + 1] / now[i]) / (start[i + 1] / start[i]) for i in range(5)]
        found = growth_over_init(Moment(hidden_norms=now), Moment(hidden_norms=start))
        assert found.low == found.high == pytest.approx(max(ratios), rel=1e-9)


def test_bounds_of_growth_over_init() -> None:
    def of(now: list[float | None], start: list[float | None] | None) -> tuple[float | None, float | None]:
        return growth_over_init(Moment(hidden_norms=now), None if start is None else Moment(hidden_norms=start))

    assert of([1.0, 2.0], None) == (None, None)
    assert of([1.0, 2.0], [1.0, None]) == (None, None)
    assert of([1.0, 8.0, 8.0], [1.0, 2.0, None]) == (4.0, None)
    low, high = of([1.0, None, 900.0], [1.0, 1.0, 1.0])
    assert low == pytest.approx(30, rel=1e-8)
    assert low is not None
    assert low < 30
    assert high is None
    assert of([1.0, 1.0, 900.0], [1.0, NAN, 1.0])[0] == low
    assert of([1.0, 0.0, 900.0], [1.0, 1.0, 1.0])[0] == low
    assert of([5e-324, 1.7e308], [1.7e308, 5e-324]) == (None, None)  # q is no number there


def test_what_scale_says_of_a_plain_net() -> None:
    loud = {"hidden_norms": [9.0, 10.0, 11e3, 12e3, 13e3]}
    assert told(scale(plain(loud))) == (
        "fires",
        "One block grows its input 1,000× as much as at init, on every seed (limit 50×).",
    )  # fmt: skip
    assert told(scale(plain())) == (
        "passes",
        "Largest growth over one block, compared with init: 1× (limit 50×).",
    )  # fmt: skip
    assert told(scale(subject(residual=False))) == (
        "inconclusive",
        "The norms of the hidden states at init are not known, so growth cannot be judged.",
    )  # fmt: skip
    assert told(scale(subject({"hidden_norms": None}, residual=False))) == (
        "inconclusive",
        "The norms of the hidden states are not known, so growth cannot be judged.",
    )  # fmt: skip
    apart = plain(loud, {}, {"hidden_norms": [9.0, None, 11.0, 12.0, 13.0]})
    assert scale(apart).says == (
        "Largest growth over one block, compared with init: at least 1–1,000× where it is known; above the "
        "limit of 50× in seed 42, within the limit in seed 123, not settled in seed 456, where not every "
        "norm is known."
    )
    part = plain({"hidden_norms": [9.0, None, 11e9, 12e9, 13e9]})
    assert told(scale(part)) == (
        "fires",
        "One block grows its input at least 31,600× as much as at init, on every seed (limit 50×).",
    )  # fmt: skip
    assert scale(part).basis == "bound"


def test_where_it_is_not_known_whether_there_is_a_stream_both_ways_must_agree() -> None:
    loud = {"hidden_norms": [9.0, 900.0, 900.0, 900.0, 900.0]}
    assert told(scale(subject(loud, residual=None))) == (
        "inconclusive",
        "One block grows its input 100× (limit 50×). That fires in a residual net, but it is not known "
        "whether the net is one. Say so with residual=.",
    )
    assert scale(plain(loud, residual=None)).outcome == "fires"
    assert list(scale(plain(residual=None)).ranges) == ["scale.growth", "scale.growth_over_init"]
    assert told(scale(subject(residual=None))) == (
        "inconclusive",
        "Largest growth over one block: 1.11× (limit 50×). That passes in a residual net, but it is not "
        "known whether the net is one, and compared with init it is not known how much a block grows. Say "
        "so with residual=.",
    )
    shrinks = plain(
        {"hidden_norms": [9.0] * 5, "start": {"hidden_norms": [9.0, 0.09, 0.09, 0.09, 0.09]}}, residual=None
    )
    assert scale(shrinks).says.endswith("and compared with init one block grows too much. Say so with residual=.")
    assert scale(shrinks).outcome == "inconclusive"
    missing = subject({"hidden_norms": [9.0, None, 9.0, 9.0, 9.0]}, residual=None)
    assert scale(missing).says.endswith("; not settled in seeds 42, 123 and 456, where not every norm is known.")


# --- reference ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("value", "outcome"), [(0.01, "passes"), (next_to(0.01, UP), "fires"), (0.0, "passes")])
def test_reference_fires_strictly_above_the_chord(value: float, outcome: str) -> None:
    found = reference(subject({"precision": precise(value)}))
    assert (found.check, found.outcome, found.basis, found.threshold) == ("reference", outcome, "exact", 0.01)
    assert found.value == found.low == found.high == value


def test_reference_is_per_seed() -> None:
    found = reference(subject({}, {"precision": precise(0.5)}, {"precision": None}))
    assert told(found) == (
        "inconclusive",
        "The deepest gradient is not equally precise on every seed: rounding to float32 turns its direction "
        "by 1e-06 to 0.5; above the limit of 0.01 in seed 123 only, not measured in seed 456. Its norm at N "
        "= 128 is 0.0004, not below the published floor of 1e-07.",
    )
    assert (found.basis, found.value, found.low, found.high) == ("bound", None, None, None)
    spread = reference(subject({}, {"precision": precise(2e-6)}, {"precision": precise(5e-6)}))
    assert (spread.value, spread.low, spread.high) == (2e-6, 1e-6, 5e-6)


def test_precision_counts_only_where_it_was_measured() -> None:
    assert chord(moment()) == 1e-6
    assert chord(moment(precision=None)) is None
    assert chord(moment(precision=precise(status="zero gradient"))) is None
    assert chord(moment(precision=precise(NAN))) is None
    assert chord(moment(precision=precise(samples=0))) is None
    assert chord(moment(precision=precise(samples=1))) == 1e-6


def test_the_norm_is_of_the_deepest_state_at_the_reference_batch() -> None:
    def of(**known: Any) -> Any:
        return norm(Moment(**known), 128)

    assert of(gradient_norms=[1.0, 2.0, 3.0], reference_batch=128) == (3.0, True, None)
    assert of(gradient_norms=[1.0, 2.0, 3.0], reference_batch=1024) == (24.0, True, None)
    assert of(gradient_norms=[1.0, 2.0, 3.0]) == (3.0, False, None)
    assert of(gradient_norms=[1.0, 2.0, None]) == (2.0, False, 1)
    assert of(gradient_norms=[1.0, NAN, None]) == (1.0, False, 0)
    assert of(gradient_norms=[1.0, 2.0, NAN]) is None
    assert of(gradient_at={2: 5.0, 1: 9.0}, reference_batch=64) == (2.5, True, 2)
    assert of(gradient_at={2: 5.0}, deepest_gradient=7.0) == (7.0, False, None)
    assert of() is None


def test_the_floor_is_a_warning_and_says_why() -> None:
    at = {"gradient_norms": [1e-4] * 4 + [1e-7]}
    assert reference(subject(at)).warnings == []
    below = {"gradient_norms": [1e-4] * 4 + [next_to(1e-7, 0)], "precision": precise(3e-7, 0.25)}
    found = reference(subject(below))
    assert found.outcome == "passes"
    assert found.warnings == [
        "seeds 42, 123 and 456: below the published floor. F.cosine_similarity clamps small norms, and "
        "would be off by 0.25 here. Neither a large stream nor a small loss explains it.",
    ]
    assert found.says == (
        "The deepest gradient is precise: rounding to float32 turns its direction by 3e-07 (limit 0.01). "
        "Its norm at N = 128 is 1e-07, below the published floor of 1e-07."
    )
    some = reference(subject(below, {}, {}))
    assert some.says.endswith(
        "Its norm at N = 128 is 1e-07 to 0.0004, on some seeds below the published floor of 1e-07."
    )
    assert "clamps" not in reference(subject(below | {"precision": precise(3e-7, NAN)})).warnings[0]
    unmeasured = reference(subject(below | {"precision": precise(NAN, 0.25, "not finite")}))
    assert unmeasured.warnings == [
        "seeds 42, 123 and 456: no precision, not finite",
        "seeds 42, 123 and 456: below the published floor. Neither a large stream nor a small loss explains it.",
    ]


def test_an_embedding_that_grew_is_seen_from_the_start_of_the_training() -> None:
    first, last = moment(epoch=0), moment(hidden_norms=[2e4] * 5, gradient_norms=[1e-9] * 5)
    found = reference(Evidence(name="x", seeds=[SeedEvidence(seed=1, moments=[first, last])]))
    assert found.warnings == [
        "seed 1: below the published floor. F.cosine_similarity clamps small norms, and would be off by "
        "1e-06 here. It is small because the stream is large (at its end 2,220× its size at the start).",
    ]


def test_norms_at_another_batch_are_converted_before_the_floor() -> None:
    small = {"gradient_norms": [1e-4] * 4 + [5e-8]}
    assert len(reference(subject(small)).warnings) == 1
    assert reference(subject(small | {"reference_batch": 2048})).warnings == []
    unknown = reference(subject(small | {"reference_batch": None}))
    assert unknown.warnings == []
    assert unknown.says.endswith(
        "Its norm is 5e-08 at an unknown batch size, so it cannot be compared with the floor of 1e-07."
    )


def test_a_gradient_at_layer_two_is_a_proxy_that_never_decides() -> None:
    proxy = {"gradient_norms": [None, None, 1e-9, None, None], "precision": None}
    found = reference(subject(proxy))
    assert (found.outcome, found.basis, found.warnings) == ("inconclusive", "proxy", [])
    assert found.says == (
        "The precision of the deepest gradient was not measured. Only the gradient at layer 2 is known, a "
        "proxy: its norm at N = 128 is 1e-09, which suggests that it is below the published floor of 1e-07."
    )


def test_why_a_gradient_is_small() -> None:
    large = [1.0, 2.0, 3.0, 4.0, 51.0]
    at_limit = [1.0, 2.0, 3.0, 4.0, 50.0]
    assert (
        cause(moment(hidden_norms=large))
        == "It is small because the stream is large (at its end 51× its size at the start)."
    )
    assert cause(moment(hidden_norms=at_limit)) == "Neither a large stream nor a small loss explains it."
    assert cause(moment(loss=0.05)) == "It is small because the loss is small (0.05: the net fits its data)."
    assert cause(moment(loss=0.1)) == "Neither a large stream nor a small loss explains it."
    assert cause(moment(hidden_norms=large, loss=0.05)) == (
        "It is small because the stream is large (at its end 51× its size at the start) and the loss is "
        "small (0.05: the net fits its data)."
    )
    unknown = "It is not known whether the stream is large or the loss small."
    assert cause(Moment()) == unknown
    assert cause(moment(loss=None)) == unknown
    assert cause(moment(hidden_norms=[0.0, 1, 1, 1, 1])) == unknown
    assert cause(moment(hidden_norms=[1.0, 1, 1, 1, NAN])) == unknown
    assert cause(Moment(hidden_at={0: 1.0}, deepest_hidden=60.0)).startswith("It is small because the stream is large")
    grown = moment(hidden_norms=[2e4] * 5)
    assert (
        cause(grown, start=moment(hidden_norms=[9.0] * 5))
        == "It is small because the stream is large (at its end 2,220× its size at the start)."
    )
    assert cause(grown, start=moment(hidden_norms=None)) == "Neither a large stream nor a small loss explains it."


# --- depth ----------------------------------------------------------------------------------------------------------


def gains(*values: float) -> Evidence:
    """A subject that gains so much over its frozen net, seed by seed."""
    return subject(
        accuracy=tuple(0.4 + v for v in values),
        baselines={"frozen": by_seed(*[0.4] * len(values)), "frozen_bp": by_seed(0.4, 0.4, 0.4), "shallow": None},
    )


@pytest.mark.parametrize(
    ("gain", "outcome"), [(0.02, "inconclusive"), (0.0201, "passes"), (0.0199, "fires"), (-0.1, "fires")]
)
def test_depth_wants_the_whole_interval_on_one_side(gain: float, outcome: str) -> None:
    found = depth(gains(gain, gain, gain))
    assert (found.check, found.outcome, found.basis, found.threshold) == ("depth", outcome, "exact", 0.02)
    assert found.value == found.low == found.high == pytest.approx(gain)
    assert found.warnings == ["every seed has the same margin; are they different trainings?"]


def test_the_interval_is_students_and_paired() -> None:
    found = depth(gains(0.05, 0.07, 0.09))
    theirs = stats.t.interval(0.95, 2, loc=0.07, scale=0.02 / math.sqrt(3))
    assert (found.low, found.high) == pytest.approx(theirs)
    assert found.warnings == []
    together = subject(accuracy=(0.5, 0.6, 0.7), baselines={"frozen": by_seed(0.4, 0.5, 0.6)})
    assert depth(together).low == pytest.approx(0.1)


def test_two_seeds_can_decide_and_one_cannot() -> None:
    assert depth(gains(0.1, 0.101)).outcome == "passes"
    assert told(depth(gains(0.1))) == (
        "inconclusive",
        "Too few seeds: 1 gives no interval. At least 2 are needed.",
    )


def test_every_seed_needs_its_partner() -> None:
    assert told(depth(subject(baselines={"frozen": by_seed(0.35, 0.35), "frozen_bp": None, "shallow": None}))) == (
        "inconclusive", "The accuracy of seed 456, or of its frozen net, is not known."
    )  # fmt: skip
    spare = Baseline.by_seed({42: 0.35, 123: 0.352, 456: 0.348, 999: None})
    assert depth(subject(baselines={"frozen": spare})).outcome == "passes"
    assert (
        depth(subject(baselines={"frozen": None})).says
        == "Depth cannot be judged: the accuracy of the subject, or of its frozen net, is not known."
    )
    nameless = Evidence(
        name="x", seeds=[SeedEvidence(moments=[moment()])] * 3, baselines={"frozen": BASELINES["frozen"]}
    )  # fmt: skip
    assert depth(nameless).says == "The accuracy of seeds ?1, ?2 and ?3, or of its frozen net, is not known."


def test_a_typed_in_number_is_subtracted_and_said() -> None:
    number = {"frozen": Baseline.number(0.35)}
    found = depth(subject(baselines=number))
    assert found.outcome == "passes"
    assert found.says == (
        "Training the blocks gains 25.1 points (95 % interval +24.3 to +25.8). At least +2 is required. "
        "Typed in, not measured here, and so without a spread: frozen."
    )
    by_hand = {"frozen": Baseline.by_seed({42: 0.35, 123: 0.352, 456: 0.348}, typed=True)}
    assert depth(subject(baselines=by_hand)).low == depth(subject()).low


def test_a_bp_that_gains_nothing_where_the_subject_does_is_no_easy_task() -> None:
    broken = {name: by_seed(0.1, 0.101, 0.1) for name in ("bp", "frozen_bp", "half_bp")}
    found = depth(subject(baselines=broken))
    assert found.outcome == "not applicable"
    assert found.says.endswith("the task is not too easy, and bp is in doubt: was it trained as well as the subject?")
    judged = judge(subject(baselines=broken))
    assert judged.verdict == "inconclusive"
    assert "bp as it is given tells nothing of the task" in judged.says


def test_a_task_that_is_too_easy_is_no_question() -> None:
    found = depth(subject(accuracy=LOW, baselines=EASY | {"frozen": BASELINES["frozen"]}))
    assert told(found) == (
        "not applicable",
        "The task is too easy to judge depth: training bp's own blocks gains 1.4 points (95 % interval +1.2 "
        "to +1.6). At least +2 is required.",
    )
    assert found.basis == "exact"
    assert depth(subject(accuracy=(0.6, 0.7, 0.8), baselines=EASY)).outcome == "not applicable"
    nothing = depth(subject({"accuracy": None}, baselines=EASY | {"frozen": None}))
    assert (nothing.outcome, nothing.basis, nothing.value) == ("not applicable", "exact", None)


def task(bp: Baseline, frozen: Baseline) -> Finding:
    return depth(subject(accuracy=LOW, baselines={"bp": bp, "frozen_bp": frozen, "shallow": None}))


def test_who_falls_short_is_not_accused_unless_bp_is_shown_to_do_better() -> None:
    short = "Training the blocks costs 4.5 points (95 % interval -6.2 to -2.7). At least +2 is required, but "
    unknown = "what bp gains over its frozen net is not known. Supply both, or the task may be too easy."
    frozen = by_seed(0.384, 0.386, 0.382)
    assert task(by_seed(0.6, 0.61, 0.62), frozen).outcome == "fires"
    assert told(task(by_seed(0.6, None, 0.62), frozen)) == ("inconclusive", short + unknown)
    assert told(task(by_seed(0.6), frozen)) == (
        "inconclusive", short + "bp has too few seeds to show that it clears it (it gains 21.6 points)."
    )  # fmt: skip
    straddling = task(by_seed(0.39, 0.45, 0.42), frozen)
    assert told(straddling) == (
        "inconclusive",
        short + "bp is not shown to clear it either: it gains 3.6 points (95 % interval -3.6 to +10.8).",
    )
    assert depth(subject(accuracy=LOW, baselines={"frozen_bp": None, "shallow": None})).says == short + unknown


def test_bp_may_be_typed_in() -> None:
    number = Baseline.number
    assert task(number(0.615), number(0.384)).outcome == "fires"
    assert task(number(0.985), number(0.97)).outcome == "not applicable"
    assert task(number(0.404), number(0.384)).outcome == "inconclusive"  # exactly the margin
    assert task(number(0.615), by_seed(0.384, 0.386, 0.382)).outcome == "fires"
    assert task(by_seed(0.615, 0.611, 0.618), number(0.384)).outcome == "fires"
    assert task(by_seed(0.615), number(0.384)).outcome == "inconclusive"
    assert task(number(0.615), by_seed(0.384)).outcome == "inconclusive"
    assert task(number(NAN), by_seed(0.384, 0.386, 0.382)).outcome == "inconclusive"
    assert task(number(0.615), number(NAN)).outcome == "inconclusive"


def test_the_other_baselines_stand_beside() -> None:
    """FA clears its own frozen net by five points and the one that bp trained by less than two."""
    fa = subject(accuracy=(0.401, 0.402, 0.400), baselines={"shallow": by_seed(0.30, 0.45, 0.38)})
    found = depth(fa)
    assert found.outcome == "passes"
    assert found.says == (
        "Training the blocks gains 5.1 points (95 % interval +4.9 to +5.3). At least +2 is required. "
        "Compared with the frozen net that bp trained it gains 1.7 points (95 % interval +1.5 to +1.9), "
        "which would fall short. Compared with the shallow net it gains 2.4 points (95 % interval -16.1 to "
        "+21.0), which would not settle it."
    )
    better = subject(accuracy=LOW, baselines={"shallow": by_seed(0.10, 0.11, 0.10)})
    assert depth(better).says.endswith(
        " Compared with the shallow net it gains 20.2 points (95 % interval +17.6 to +22.8), which would pass."
    )


def test_rounding_does_not_move_a_margin() -> None:
    assert margin({"1": 0.30, "2": 0.30}, Baseline.by_seed({1: 0.28, 2: 0.28}), 0.95)[:3] == (0.02, 0.02, 0.02)
    assert margin({"1": 0.30}, Baseline.by_seed({1: 0.28}), 0.95) == (0.02, None, None, 1, [])
    assert margin(0.5, Baseline.by_seed({1: 0.25, 2: 0.25}), 0.95)[:4] == (0.25, 0.25, 0.25, 2)


def test_who_did_not_finish_is_not_accused_and_may_pass() -> None:
    assert depth(subject(accuracy=LOW, ended="stopped")).says.endswith("but not every training finished.")
    assert depth(subject(ended="stopped")).outcome == "passes"
    assert depth(subject(accuracy=LOW, ended="diverged")).outcome == "fires"
    assert depth(subject(accuracy=LOW, ended=None)).outcome == "fires"


# --- reach ----------------------------------------------------------------------------------------------------------


def rung(gain: float, spread: float = 0.0) -> dict[str, Baseline]:
    """The subject's upper half alone, below it by `gain` on the average of its seeds."""
    return {"half": by_seed(0.600 - gain - spread, 0.604 - gain, 0.598 - gain + spread)}


@pytest.mark.parametrize(
    ("gain", "outcome"),
    [(0.005, "inconclusive"), (0.0050001, "passes"), (0.0049999, "fires"), (-0.1, "fires"), (0.2, "passes")],
)
def test_reach_wants_the_whole_interval_on_one_side(gain: float, outcome: str) -> None:
    found = reach(subject(baselines=rung(gain)))
    assert (found.check, found.outcome, found.basis, found.threshold) == ("reach", outcome, "exact", 0.005)
    assert found.value == pytest.approx(gain, abs=1e-9)


def test_reach_is_students_and_paired() -> None:
    found = reach(subject(baselines=rung(0.03, 0.01)))
    theirs = stats.t.interval(0.95, 2, loc=0.03, scale=stats.sem([0.04, 0.03, 0.02]))
    assert (found.low, found.high) == pytest.approx(theirs, abs=1e-9)
    assert found.ranges == {"reach.margin": found.stable_range}
    assert found.stable_range == (None, found.low) if found.outcome == "passes" else True


def test_reach_uses_the_confidence_of_depth() -> None:
    evidence = subject(baselines=rung(0.03, 0.012))
    assert reach(evidence).outcome == "inconclusive"
    assert reach(evidence, DEFAULT.but("depth.confidence", 0.5)).outcome == "passes"


NOTHING = rung(0.001)


def test_the_recorded_ladders_of_bp_are_what_the_margin_rests_on() -> None:
    """Second implementation: the figures of the provenance, from the run folders themselves."""
    full, upper = recorded("bp", 256, 4, 4), recorded("bp", 256, 4, 2)
    gains = [full[seed] - upper[seed] for seed in sorted(full)]
    low, high = stats.t.interval(0.95, 2, loc=sum(gains) / 3, scale=stats.sem(gains))
    limit = LIMITS["reach.margin"]
    assert f"+{100 * sum(gains) / 3:.1f} points (+{100 * low:.1f} to +{100 * high:.1f}; d = 256" in limit.calibrated
    (wide,) = recorded("bp", 512, 2, 2).values()
    (narrow,) = recorded("bp", 512, 2, 1).values()
    assert f"+{100 * (wide - narrow):.1f} (d = 512, L = 2, one seed)" in limit.calibrated
    assert limit.same_answer == (0, pytest.approx(low, abs=5e-5))
    assert math.sqrt(0.6 * 0.4 / 10_000) == pytest.approx(limit.value, rel=0.03)


def recorded(rule: str, width: int, depth: int, last: int) -> dict[int, float]:
    """Final accuracies by seed of the ladder on CIFAR-10."""
    found = {}
    for file in (Path(__file__).parents[1] / "results").glob("*/config.json"):
        config = json.loads(file.read_text())
        options = config["net_options"]
        same = (config["rule"], options["width"], options["depth"], config["train_last"]) == (rule, width, depth, last)
        epochs = {256: 100, 512: 30}[width]
        if same and options["terminal_norm"] and not config["penalty"] and config["epochs"] == epochs:
            found[config["seed"]] = json.loads((file.parent / "result.json").read_text())["accuracy"]
    return found


def test_what_reach_says() -> None:
    def says(**baselines: Any) -> tuple[str, str]:
        return told(reach(subject(baselines=baselines)))

    assert says() == (
        "passes",
        "Training the lower half of the blocks too gains 3.0 points (95 % interval +2.8 to +3.2). At least "
        "+0.5 is required.",
    )
    assert says(**NOTHING) == (
        "fires",
        "Training the lower half of the blocks too gains 0.1 points. At least +0.5 is required; bp's lower "
        "half clears it.",
    )  # fmt: skip
    assert says(**rung(0.006, 0.01)) == (
        "inconclusive",
        "Training the lower half of the blocks too gains 0.6 points (95 % interval -1.9 to +3.1). At least "
        "+0.5 is required: the interval contains it, so this is not settled.",
    )
    assert says(**NOTHING, half_bp=None) == (
        "inconclusive",
        "Training the lower half of the blocks too gains 0.1 points. At least +0.5 is required, but what "
        "bp's own lower half gains is not known. Train bp in full and with --train-last 2, or give "
        "bp= and half_bp= of your own.",
    )
    assert says(**NOTHING, half_bp=by_seed(0.59, None, 0.59))[1].endswith(
        "gains is not known. Train bp of seed 123 in full and with --train-last 2, or give "
        "bp= and half_bp= of your own."
    )
    assert says(**NOTHING, **FLAT) == (
        "not applicable",
        "Even bp does not show that its lower half is needed here: training it too gains 0.0 points (95 % "
        "interval -0.3 to +0.4). At least +0.5 is required.",
    )
    assert says(half=None) == (
        "inconclusive",
        "The accuracy of the subject, or of the same net with only the upper half of its blocks trained, is "
        "not known. Train it with --train-last 2, or give half= of your own model.",
    )
    assert says(half=by_seed(0.57, 0.57)) == (
        "inconclusive",
        "The accuracy of seed 456, or of the same net with only the upper half of its blocks trained, is "
        "not known. Train what is missing with --train-last 2, or give half= of your own model.",
    )
    assert told(reach(subject(ended="stopped"))) == (
        "inconclusive",
        "Training the lower half of the blocks too gains 3.0 points (95 % interval +2.8 to +3.2). But seeds 42, 123 "
        "and 456 did not finish.",
    )
    assert told(reach(subject(blocks=1))) == ("not applicable", "The net has one block, and so no lower half.")
    some = subject(trained=3, baselines={"half": None, "half_bp": None})
    assert told(reach(some)) == (
        "not applicable",
        "Only 3 of 4 blocks train, so their halves are not compared.",
    )  # fmt: skip
    assert told(reach(subject(accuracy=(0.6,)))) == (
        "inconclusive",
        "Too few seeds: 1 gives no interval. At least 2 are needed.",
    )  # fmt: skip


def test_one_seed_of_bp_neither_accuses_nor_excuses() -> None:
    """Too few seeds is missing evidence; an interval that does not clear the margin is a task without the question."""
    one = {"bp": Baseline.by_seed({42: 0.615}), "half_bp": Baseline.by_seed({42: 0.56})}
    found = reach(subject(baselines=NOTHING | one))
    assert told(found) == (
        "inconclusive",
        "Training the lower half of the blocks too gains 0.1 points. At least +0.5 is required, but bp has "
        "too few seeds to show that its lower half clears it (it gains 5.5 points).",
    )
    assert found.warnings == ["every seed has the same margin; are they different trainings?"]
    assert reach(subject(baselines=one)).outcome == "passes"


def test_reach_of_bp_itself_passes_or_is_no_question() -> None:
    for upper in ((0.595, 0.592, 0.597), (0.613, 0.612, 0.618), (0.63, 0.63, 0.63)):
        same = {"half": by_seed(*upper), "half_bp": by_seed(*upper)}
        found = reach(subject(accuracy=(0.615, 0.611, 0.618), baselines=same))
        assert found.outcome == ("passes" if upper[0] < 0.6 else "not applicable")
        assert found.basis == "exact"


def test_reach_may_be_typed_in() -> None:
    typed = {"half": Baseline.number(0.62), "bp": Baseline.number(0.615), "half_bp": Baseline.number(0.595)}
    found = reach(subject(baselines=typed))
    assert found.outcome == "fires"
    assert found.says.endswith(" Typed in, not measured here, and so without a spread: bp, half and half_bp.")
    assert "half" not in depth(subject(baselines={"half": Baseline.number(0.6)})).says


def test_a_lower_half_must_be_there_to_be_given() -> None:
    with pytest.raises(ValueError, match="half is given, and a net of one block has no lower half"):
        Evidence(name="x", depth=1, baselines={"half": Baseline.number(0.5)})
    with pytest.raises(ValueError, match="half_bp is for a subject all of whose blocks train"):
        Evidence(name="x", depth=4, trained=3, baselines={"half_bp": Baseline.number(0.5)})


# --- coverage -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("value", "clear"), [(0.25, False), (next_to(0.25, UP), True), (NAN, None), (INF, None)])
def test_a_cosine_clears_strictly_above_three_deviations(value: float, clear: bool | None) -> None:
    assert clears(value, null(0.0625, 0.0625), 3) is clear


def test_a_null_counts_only_with_two_draws_and_numbers() -> None:
    assert clears(0.5, null(n=2), 3) is True
    assert clears(0.5, null(n=1), 3) is None
    assert clears(0.5, null(mean=NAN), 3) is None
    assert clears(0.5, null(std=NAN), 3) is None
    assert clears(0.5, None, 3) is None
    assert clears(None, null(), 3) is None


@pytest.mark.parametrize("status", ["zero credit", "zero gradient", "below precision"])
def test_a_dead_block_covers_nothing(status: str) -> None:
    assert covered(dead(status), null(), 3) is False
    assert covered(dead(status), None, 3) is False


def test_a_block_that_was_not_measured_is_unknown() -> None:
    assert covered(dead("not available: no feedback was saved"), null(), 3) is None
    assert covered(dead("not finite"), null(), 3) is None
    assert covered(None, null(), 3) is None
    assert covered(ok(0.9), null(), 3) is True
    assert covered(ok(0.9), None, 3) is None


def cosines(*values: float | str | None) -> dict[str, Any]:
    made = [dead(v) if isinstance(v, str) else None if v is None else ok(v) for v in values]
    return {"cosine": made, "cosine_out": None}


@pytest.mark.parametrize(
    ("values", "gamma", "outcome"),
    [
        ((0.9, 0.9, 0.9, 0.0), 0.7, "passes"),
        ((0.9, 0.9, 0.0, 0.0), 0.5, "fires"),
        ((0.9, 0.9, 0.0, 0.0), 0.0, "not applicable"),
        ((0.9, 0.9, 0.9, 0.0), 0.0, "passes"),
        ((0.9, 0.9, 0.9, None), 0.7, "passes"),
        ((0.9, 0.9, None, 0.0), 0.7, "inconclusive"),
        ((0.9, None, 0.0, 0.0), 0.7, "fires"),
        ((0.9, None, 0.0, 0.0), 0.0, "not applicable"),
        ((0.9, 0.9, 0.0, 0.0), None, "inconclusive"),
        ((0.9, 0.9, 0.9, 0.0), None, "passes"),
        ((0.9, 0.9, 0.0, 0.0), 0.015, "not applicable"),
        ((0.9, 0.9, 0.0, 0.0), 0.0151, "fires"),
    ],
)
def test_coverage_by_its_table(values: tuple[Any, ...], gamma: float | None, outcome: str) -> None:
    assert coverage(subject(cosines(*values) | {"gamma": gamma})).outcome == outcome


def test_coverage_accuses_nobody_by_the_input_of_a_block_without_a_skip() -> None:
    collapse = cosines(0.9, 0.0, 0.0, 0.0)
    assert coverage(subject(collapse)).outcome == "fires"
    collapse |= {"cosine_out": [ok(0.9)] * 4}
    at_output = coverage(subject(collapse, residual=False))
    assert told(at_output) == (
        "passes",
        "Credit, at the blocks' output, clears its null in more than 50% of the blocks: 4 of 4 covered (blocks 0, 1, 2 "
        "and 3).",
    )
    unsaid = coverage(subject(collapse, residual=None))
    assert told(unsaid) == (
        "inconclusive",
        "Γ is positive, and credit reaches at most 50% of the blocks: 1 of 4 covered (block 0). In a residual net "
        "that fires, but at the blocks' output the answer differs or is not settled. It is not known whether "
        "the net is residual: say so with residual=.",
    )
    quiet = coverage(subject({"cosine_out": collapse["cosine"]}, residual=None))
    assert quiet.outcome == "inconclusive"
    assert quiet.says.startswith("Credit clears its null in more than 50% of the blocks: ")
    assert "In a residual net that passes, but at the blocks' output" in quiet.says
    assert coverage(subject(collapse | {"cosine_out": collapse["cosine"]}, residual=None)).outcome == "fires"
    most = cosines(0.9, 0.9, 0.9, 0.0)
    assert coverage(subject(most | {"cosine_out": most["cosine"]}, residual=None)).outcome == "passes"
    assert coverage(subject(most | {"cosine_out": None}, residual=None)).outcome == "inconclusive"
    moment = subject(collapse).seeds[0].final
    assert [fires_at(moment, residual=r)["coverage"] for r in (True, False, None)] == [None, False, None]
    moment = subject(collapse | {"cosine_out": collapse["cosine"]}).seeds[0].final
    assert fires_at(moment, residual=True)["coverage"] is True


@pytest.mark.parametrize(
    ("out", "outcome"),
    [
        ((0.9, 0.9, 0.9, 0.0), "inconclusive"),
        ((0.9, 0.9, 0.0, 0.0), "fires"),
        ((0.9, 0.9, None, 0.0), "fires"),
        ((0.0, 0.0, 0.0, 0.0), "fires"),
    ],
)
def test_coverage_does_not_fire_where_credit_arrives_at_the_output(out: tuple[Any, ...], outcome: str) -> None:
    """Planted: the published cosine, at the blocks' input, collapses; the credit acts at their output."""
    given = cosines(0.9, 0.0, 0.0, 0.0) | {"cosine_out": cosines(*out)["cosine"]}
    found = coverage(subject(given))
    assert found.outcome == outcome
    assert ("At their output, where credit acts, it reaches more" in found.says) == (outcome == "inconclusive")
    # One seed whose output disagrees is enough, and a passing input is not questioned.
    plain = cosines(0.9, 0.0, 0.0, 0.0) | {"cosine_out": cosines(0.9, 0.0, 0.0, 0.0)["cosine"]}
    assert coverage(subject(plain, given)).outcome == outcome
    assert coverage(subject(cosines(0.9, 0.9, 0.9, 0.0) | {"cosine_out": given["cosine_out"]})).outcome == "passes"


def test_what_coverage_says() -> None:
    fires = coverage(subject(cosines(0.9, 0.0, 0.0, 0.9)))
    assert (
        fires.says
        == "The positive Γ hides that credit reaches at most 50% of the blocks: 2 of 4 covered (blocks 0 and 3)."
    )
    assert (fires.check, fires.basis, fires.value, fires.low, fires.high) == ("coverage", "exact", 0.5, 0.5, 0.5)
    assert fires.threshold == 0.5
    assert fires.warnings == []
    bound = coverage(subject(cosines(0.9, None, 0.0, 0.0)))
    assert (bound.outcome, bound.basis, bound.value, bound.low, bound.high) == ("fires", "bound", None, 0.25, 0.5)
    apart = coverage(subject(cosines(0.9, 0.0, 0.0, 0.0), cosines(0.9, 0.9, 0.9, 0.0), cosines(0.9, 0.0, 0.0, None)))
    assert apart.says == (
        "The seeds do not agree on whether credit reaches more than 50% of the blocks, or not all is known: "
        "seed 42: 1 of 4 covered (block 0); seed 123: 3 of 4 covered (blocks 0, 1 and 2); seed 456: 1 of 4 "
        "covered (block 0), block 3 not known."
    )
    assert (apart.outcome, apart.basis, apart.low, apart.high) == ("inconclusive", "missing", 0.25, 0.75)
    differ = coverage(subject(cosines(0.9, 0.0, 0.0, 0.0), cosines(0.9, 0.9, 0.9, 0.0), cosines(0.9, 0.0, 0.0, 0.0)))
    assert (differ.outcome, differ.basis, differ.value) == ("inconclusive", "exact", 0.25)
    no_gamma = coverage(subject(cosines(0.9, 0.0, 0.0, 0.0) | {"null_gamma": None}))
    assert no_gamma.says.endswith("1 of 4 covered (block 0), Γ or its null not known.")
    assert no_gamma.basis == "missing"
    assert coverage(subject(cosines(0.9, 0.9, 0.9, 0.9) | {"null_gamma": None})).basis == "exact"
    assert (
        coverage(subject({"null": None, "null_out": None})).says
        == "The cosines of the blocks are known, but not the null to compare them with."
    )
    assert coverage(subject(cosines(0.0, 0.0, 0.0, 0.0) | {"gamma": 0.0})).says == (
        "Γ is not above its own null, so credit does not explain what was learned: 0 of 4 covered."
    )
    away = coverage(subject(cosines(-0.9, -0.9, 0.0, 0.0) | {"gamma": -0.5}))
    assert told(away) == (
        "not applicable",
        "Γ is below its own null: on average credit points away from the gradient: 0 of 4 covered.",
    )
    # one seed of three points away: they agree that nothing is covered, and not on more
    mixed = coverage(
        subject(cosines(0.0, 0.0, 0.0, 0.0) | {"gamma": 0.0}, *[{"cosine": [ok(-0.9)] * 4, "gamma": -0.9}] * 2)
    )
    assert mixed.says == "Γ is not above its own null, so credit does not explain what was learned: 0 of 4 covered."
    assert points_away(-0.03, null(), 3) is False  # the band itself is within it
    assert points_away(-0.0301, null(), 3) is True
    assert points_away(0.05, null(mean=0.09), 3) is True
    assert points_away(0.9, null(), 3) is False
    assert (points_away(None, null(), 3), points_away(-0.9, None, 3), points_away(-0.9, null(n=1), 3)) == (None,) * 3
    assert points_away(NAN, null(), 3) is None
    flat = coverage(subject(updates(0.0, 0.0, 0.0, 0.0)))
    assert flat.says.endswith(
        "Their average does not clear its null, so they do not explain what was learned: 0 of 4 covered."
    )
    single = coverage(subject(blocks=1))
    assert (single.value, single.low, single.high) == (None, None, None)
    none = coverage(subject({"cosine": None}))
    assert (none.outcome, none.basis, none.value, none.low, none.high) == ("inconclusive", "missing", None, None, None)
    half = coverage(subject(cosines(0.9, 0.9, 0.9, 0.9), {"cosine": None}, {}))
    assert (half.value, half.low, half.high) == (None, None, None)


def test_updates_stand_for_credits_that_are_not_there() -> None:
    aside = "The rule has no credits, so its updates are compared with the gradient. "
    assert told(coverage(subject(updates(0.9, 0.9, 0.9, 0.0)))) == (
        "passes",
        f"{aside}They clear their null in more than 50% of the blocks: 3 of 4 covered (blocks 0, 1 and 2).",
    )
    fired = coverage(subject(updates(0.9, 0.0, 0.0, 0.03)))
    assert told(fired) == (
        "fires",
        "The rule has no credits, so its updates are compared with the gradient. Their average clears its "
        "null, and hides that they do so in at most 50% of the blocks: 1 of 4 covered (block 0).",
    )
    assert (fired.basis, fired.value) == ("exact", 0.25)
    flipped = coverage(subject(updates(-0.9, -0.9, -0.9, -0.9)))
    assert told(flipped) == (
        "not applicable",
        f"{aside}On average they point away from the gradient: 0 of 4 covered.",
    )
    assert flipped.warnings == []
    assert told(coverage(subject(updates() | {"measured": {}}))) == (
        "inconclusive", "The rule has no credits, and the updates of the blocks are not known."
    )  # fmt: skip
    bare = [ReadingRecord(value=0.9, status="ok")] * 4
    assert told(coverage(subject(updates() | {"measured": {"update": bare}}))) == (
        "inconclusive",
        "The updates of the blocks are known, but not the null to compare them with.",
    )  # fmt: skip
    some = updates(0.9, 0.0, 0.0, 0.0)
    some["measured"]["update"][3] = ReadingRecord(value=NAN, status="not finite", null=null())
    lost = coverage(subject(some))
    assert lost.outcome == "inconclusive"
    assert lost.says.startswith(f"{aside}The seeds do not agree on whether they clear their null in more than 50%")
    assert lost.warnings == ["seeds 42, 123 and 456: no cosine in block 3 (not finite)"]


def test_the_mean_of_the_updates_is_held_against_a_bound_of_its_null() -> None:
    """The std of a mean is at most the mean of the stds: 0.04 on average against 3 × 0.01."""
    assert coverage(subject(updates(0.16, 0.0, 0.0, 0.0))).outcome == "fires"
    assert coverage(subject(updates(0.12, 0.0, 0.0, 0.0))).outcome == "not applicable"
    held = compared(moment(**updates(0.1, 0.2, 0.3, 0.4)))
    assert (held.place, held.mean) == ("update", pytest.approx(0.25))
    assert held.null_mean is not None
    assert (held.null_mean.mean, held.null_mean.std, held.null_mean.n) == (0.0, pytest.approx(0.01), 20)


def test_a_rule_with_credits_in_some_blocks_is_judged_by_them() -> None:
    """Its updates would say otherwise."""
    mixed = {"cosine": [dead("no credit")] * 3 + [ok(0.9)], "measured": updates(0.9, 0.9, 0.9, 0.9)["measured"]}
    assert coverage(subject(mixed)).outcome == "inconclusive"
    unknown = updates(0.9, 0.9, 0.9, 0.9)
    unknown["cosine"] = [None, *unknown["cosine"][1:]]
    assert coverage(subject(unknown)).outcome == "inconclusive"


def test_where_credit_is_compared() -> None:
    assert compared(moment()).place == "input"
    assert compared(moment(), residual=None).place == "input"
    assert compared(moment(), residual=False).place == "output"
    assert compared(moment(cosine=[dead("other width"), *[ok(0.9)] * 3])).place == "output"
    assert compared(moment(cosine=[dead("not available")] * 4)).place == "input"
    out = compared(moment(null_out=[null(0.5)] * 4), residual=False)
    assert out.nulls is not None
    assert out.nulls[0] == null(0.5)


def test_credits_that_are_exactly_zero_are_told() -> None:
    def warned(*shares: float, status: str = "ok") -> list[str]:
        return coverage(
            subject({"measured": {"zero credits": [ReadingRecord(value=v, status=status) for v in shares]}})
        ).warnings

    assert warned(0.0, 0.01, 0.0, 0.0) == []
    assert warned(0.0, 0.0101, 0.0, 0.5) == [
        "seeds 42, 123 and 456: 1.01 % of the credits of block 1 are exactly zero; were they lost to rounding?",
        "seeds 42, 123 and 456: 50 % of the credits of block 3 are exactly zero; were they lost to rounding?",
    ]
    assert warned(0.9, status="not finite") == []
    assert warned(NAN) == []


def test_at_the_output_it_may_be_otherwise() -> None:
    at_input = {"cosine": [ok(0.9), ok(0.9), ok(0.9), dead("zero credit")]}
    found = coverage(subject(at_input | {"cosine_out": [ok(0.9), ok(0.0), ok(0.0), ok(0.0)]}))
    assert found.warnings == [
        "seeds 42, 123 and 456: no cosine in block 3 (zero credit)",
        "seeds 42, 123 and 456: at the blocks' output credit covers block 0",
    ]
    nowhere = coverage(subject({"cosine_out": [ok(0.0)] * 4}, {}, {}))
    assert nowhere.warnings == ["seed 42: at the blocks' output credit covers no block"]
    own_null = coverage(subject({"null_out": [null(0.95)] * 4}, {}, {}))
    assert own_null.warnings == ["seed 42: at the blocks' output credit covers no block"]
    borrowed = coverage(subject({"null_out": None, "cosine_out": [ok(0.0)] * 4}, {}, {}))
    assert borrowed.warnings == ["seed 42: at the blocks' output credit covers no block"]
    assert coverage(subject({"cosine_out": [ok(0.0), None, ok(0.0), ok(0.0)]})).warnings == []
    assert coverage(subject({"cosine_out": None})).warnings == []


def test_the_ranges_of_share_and_band() -> None:
    found = coverage(subject(cosines(0.4, 0.04, 0.0, 0.0) | {"gamma": 0.11}))
    assert found.outcome == "fires"
    assert found.ranges["coverage.share"] == (0.5, None) == found.stable_range
    assert found.ranges["coverage.band"] == (None, pytest.approx(22))
    passing = coverage(subject(cosines(0.4, 0.4, 0.04, 0.0)))
    assert passing.ranges["coverage.share"] == (None, 0.75)
    assert passing.ranges["coverage.band"] == (None, pytest.approx(4))
    failing = coverage(subject(cosines(0.4, 0.4, 0.02, 0.0)))
    assert failing.outcome == "fires"
    assert failing.ranges["coverage.band"] == (pytest.approx(2), pytest.approx(180))
    spiked = coverage(subject(cosines(0.4, 0.4, 0.4, 0.0) | {"null": [null(std=0.0)] * 4}))
    assert spiked.ranges["coverage.band"] == (None, None)


# --- through time, and what is said of all ---------------------------------------------------------------------------


def test_what_one_moment_tells() -> None:
    assert fires_at(moment()) == {"scale": False, "reference": False, "reference floor": False, "coverage": False}
    sick = moment(
        hidden_norms=[1, 51, 51, 51, 51], precision=precise(0.5), gradient_norms=[1e-9] * 5,
        **cosines(0.9, 0.0, 0.0, 0.0),
    )  # fmt: skip
    assert fires_at(sick) == {"scale": True, "reference": True, "reference floor": True, "coverage": True}
    assert set(fires_at(Moment()).values()) == {None}
    assert fires_at(sick, residual=None)["scale"] is None
    assert fires_at(sick, residual=False)["scale"] is None
    assert fires_at(moment(hidden_norms=[1, None, 1, 1, 1]))["scale"] is None
    assert fires_at(moment(hidden_norms=[1, 51, None, 1, 1]))["scale"] is True
    assert fires_at(moment(hidden_norms=[1, 50, 50, 50, 50]))["scale"] is False
    assert fires_at(moment(precision=precise(0.01)))["reference"] is False
    assert fires_at(moment(gradient_norms=[1e-7] * 5))["reference floor"] is False
    assert fires_at(moment(gradient_norms=[1e-9] * 5, reference_batch=None))["reference floor"] is None
    assert fires_at(moment(gradient_norms=[1e-9] * 4 + [None]))["reference floor"] is None
    assert fires_at(moment(**cosines(0.0, 0.0, 0.0, 0.0), gamma=0.0))["coverage"] is False
    assert fires_at(moment(blocks=1, cosine=[ok(0.0)]))["coverage"] is None
    assert fires_at(moment(), DEFAULT.but("scale.growth", 1.05))["scale"] is True


def test_first_fired_says_what_it_does_not_know() -> None:
    undated = SeedEvidence(seed=1, moments=[Moment(hidden_norms=[1, 99])])
    never = SeedEvidence(seed=2, moments=[Moment(epoch=3, hidden_norms=[1, 2]), Moment(epoch=4)])
    found = first_fired(Evidence(name="x", residual=True, seeds=[undated]))
    assert found["scale"].epochs == {"1": None}
    assert found["scale"].says == "known at 1 of 1 moments; it fired, at an epoch that is not recorded"
    found = first_fired(Evidence(name="x", residual=True, seeds=[never]))
    assert found["scale"].says == "known at 1 of 2 moments; it never fired"
    assert found["coverage"].says == "it cannot be dated"
    assert list(found) == ["scale", "reference", "reference floor", "coverage", "depth", "reach"]


def test_the_judgement_carries_everything() -> None:
    found = judge(subject(notes=["a note"]))
    assert found.name == "planted"
    assert (found.accuracy.mean, found.accuracy.n) == (pytest.approx(0.6006666666), 3)
    assert found.accuracy.std == pytest.approx(math.sqrt(28e-6 / 3))
    assert found.described.drift == {"42": 0.1, "123": 0.1, "456": 0.1}
    assert found.described.rho["42"] == [0.99] * 4
    assert found.described.nudging["456"] == [-0.1] * 4
    assert (found.thresholds_version, found.protocol, found.notes) == ("walkback-2", "ours", ["a note"])
    assert found.says == "Holds: scale, reference, depth, reach and coverage pass."
    assert "scale" in found.first_fired
    text = found.model_dump_json()
    assert type(found).model_validate_json(text) == found
    one = judge(subject(accuracy=(0.5,))).accuracy
    assert (one.mean, one.std, one.n) == (0.5, None, 1)
    none = judge(subject({"accuracy": None})).accuracy
    assert (none.mean, none.std, none.n) == (None, None, 0)
    assert judge(subject(accuracy=(0.5, NAN, 0.7))).accuracy.n == 2
    other = judge(subject(), DEFAULT.but("scale.growth", 1.0))
    assert other.verdict == "walked back"
    assert other.thresholds_version == "walkback-2, scale.growth=1"
    assert other.first_fired["scale"].epochs["42"] == 100


def test_why_it_does_not_hold() -> None:
    def says(evidence: Evidence) -> str:
        return judge(evidence).says

    easy = EASY | {"half_bp": by_seed(0.984, 0.985, 0.985)}
    assert says(subject(accuracy=(0.98,), baselines=easy)) == (
        "Inconclusive: one seed is not enough to show that it holds; the task is too easy to judge depth, "
        "and it is not shown that the trained blocks do no harm."
    )
    assert says(subject(ended="diverged")) == "Inconclusive: seeds 42, 123 and 456 diverged."
    assert says(subject(ended="stopped")) == "Inconclusive: reach could not be settled."
    assert says(subject(ended="stopped", baselines=FLAT)) == "Inconclusive: seeds 42, 123 and 456 did not finish."
    lost = subject({"accuracy": None}, {}, {}, accuracy=(0.98, 0.981, 0.979), baselines=easy)
    assert says(lost) == (
        "Inconclusive: the accuracy of seed 42 is not known; the task is too easy to judge depth, and it is "
        "not shown that "
        "the trained blocks do no harm."
    )
    assert says(subject({"gradient_norms": [NAN] * 5})) == (
        "Inconclusive: not finite: gradient_norms[0] of seed 42, gradient_norms[1] of seed 42, "
        "gradient_norms[2] of seed 42 "
        "and 12 more."
    )
    four = subject({"gradient_norms": [NAN] * 4 + [1.0]}, {}, {})
    assert says(four).endswith("gradient_norms[2] of seed 42 and 1 more.")
    assert judge(subject(accuracy=(0.6, 0.604))).verdict == "holds"
    assert says(subject({"loss": NAN})).startswith(
        "Inconclusive: not finite: loss of seed 42, loss of seed 123 and loss"
    )
    assert says(subject(accuracy=(0.98, 0.981, 0.979), baselines=EASY)) == (
        "Holds: scale, reference, reach and coverage pass (depth not applicable)."
    )
    assert says(subject({"cosine": [ok(-0.9)] * 4, "gamma": -0.9})) == (
        "Inconclusive: credit does not clear its null on average, nor in enough blocks to explain what is learned."
    )
    assert judge(subject({"cosine": [ok(-0.9)] * 4, "gamma": -0.9})).decided_by == ["coverage"]
    assert judge(subject({"cosine": [ok(0.9)] * 4})).verdict == "holds"
    # by the published protocol coverage is not asked, and nothing is held against such credits
    assert judge(subject({"cosine": [ok(-0.9)] * 4, "gamma": -0.9}), protocol="published").verdict == "holds"


@pytest.mark.parametrize(("loss", "verdict"), [(0.0199, "holds"), (0.02, "inconclusive"), (0.03, "inconclusive")])
def test_on_an_easy_task_the_blocks_must_be_shown_to_do_no_harm(loss: float, verdict: str) -> None:
    level = EASY | {"frozen": by_seed(0.97, 0.97, 0.97)}
    evidence = subject(accuracy=(0.97 - loss,) * 3, baselines=level)
    assert judge(evidence).verdict == verdict


def test_everything_that_is_not_finite_is_named() -> None:
    odd = subject(
        {"gamma": NAN, "hidden_norms": [1, 1, INF, 1, 1], "cosine": [ok(NAN), dead("zero credit"), ok(0.9), None],
         "cosine_out": [ok(0.9), ok(0.9), ok(0.9), ok(INF)], "null": [null(), null(NAN), null(std=INF), null()],
         "null_out": None, "null_gamma": null(NAN), "precision": precise(NAN)},
        accuracy=(NAN,), baselines={"bp": by_seed(INF)},
    )  # fmt: skip
    assert not_finite(odd) == [
        "gamma of seed 42", "accuracy of seed 42", "hidden_norms[2] of seed 42", "cosine[0] of seed 42",
        "null[2] of seed 42", "cosine_out[3] of seed 42", "null_gamma of seed 42", "precision of seed 42",
        "the baseline bp",
    ]  # fmt: skip
    assert not_finite(subject({"precision": precise(NAN, NAN, "zero gradient")})) == []
    assert not_finite(subject({"precision": None, "null_gamma": None, "loss": None})) == []


# --- what mutants taught ---------------------------------------------------------------------------------------------


def test_nothing_known_is_said_by_every_check() -> None:
    found = judge(Evidence(name="empty"))
    assert [f.says for f in found.findings] == [
        "The norms of the hidden states are not known, so growth cannot be judged.",
        "The precision of the deepest gradient was not measured. Its norm is not known.",
        "Depth cannot be judged: the accuracy of the subject, or of its frozen net, is not known.",
        "The accuracy of the subject, or of the same net with only the upper half of its blocks trained, is "
        "not known. Train it with --train-last ⌈L/2⌉, or give half= of your own model.",
        "The cosines of the blocks are not known.",
    ]
    assert [f.basis for f in found.findings] == ["missing"] * 5
    assert found.decided_by == ["scale", "reference", "depth", "reach", "coverage"]


def test_who_decided_where_no_check_did() -> None:
    def decided(evidence: Evidence) -> tuple[list[str], str]:
        found = judge(evidence)
        return found.decided_by, found.says

    assert decided(subject(classes=1)) == (["evidence"], "Not applicable: with one class there is nothing to learn.")
    assert decided(subject(blocks=1)) == (
        [
            "evidence",
        ],
        "Not applicable: with one block, credit has no depth to cross.",
    )
    assert decided(subject(ended="diverged"))[0] == ["evidence"]
    assert decided(subject(residual=False)) == (["scale"], "Inconclusive: scale could not be settled.")
    assert decided(plain())[1] == "Holds: scale, reference, depth, reach and coverage pass."
    flipped = subject(
        {"cosine": [ok(-0.9)] * 4, "gamma": -0.9}, accuracy=(0.98, 0.981, 0.979), baselines=EASY
    )  # fmt: skip
    assert decided(flipped) == (
        [
            "depth",
            "coverage",
        ],
        "Not applicable: neither depth nor coverage could be tested here.",
    )  # fmt: skip


def test_the_sentences_of_each_outcome() -> None:
    assert scale(subject()).says == "Largest growth over one block: 1.11× (limit 50×)."
    unsure = scale(subject({"hidden_norms": [1, 100, 100, 100, 100]}, residual=None))
    assert told(unsure) == (
        "inconclusive",
        "One block grows its input 100× (limit 50×). That fires in a residual net, but it is not known "
        "whether the net is one. Say so with residual=.",
    )
    noise = reference(subject({"precision": precise(0.3)}))
    assert noise.says.startswith(
        "The deepest gradient is noise: rounding to float32 turns its direction by 0.3, on every seed"
    )
    mixed = reference(subject({"precision": precise(0.3)}, {}, {}))
    assert "; above the limit of 0.01 in seed 42 only. Its norm" in mixed.says
    lacking = reference(subject({"precision": None}, {}, {}))
    assert "turns its direction by 1e-06; not measured in seed 42. Its norm" in lacking.says
    at_floor = reference(subject({"gradient_norms": [1e-7] * 5}))
    assert at_floor.says.endswith("1e-07, not below the published floor of 1e-07.")
    assert reference(subject({"precision": None})).basis == "missing"
    harm = depth(subject(accuracy=LOW))
    assert harm.says == (
        "Training the blocks costs 4.5 points (95 % interval -6.2 to -2.7). At least +2 is required; bp clears it."
    )
    straddles = depth(subject(accuracy=(0.35, 0.40, 0.38)))
    assert straddles.says.startswith(
        "Training the blocks gains 2.7 points (95 % interval -3.4 to +8.7). At least +2 is required: the interval "
        "contains it, so this is not settled."
    )
    same = depth(gains(0.1, 0.1))
    assert same.says == "Training the blocks gains 10.0 points. At least +2 is required."
    assert same.warnings == ["every seed has the same margin; are they different trainings?"]
    one = coverage(subject(blocks=1))
    assert told(one) == (
        "not applicable",
        "The net has one block, so Γ is no average and hides nothing.",
    )
    assert coverage(subject({"cosine": [ok(0.9), ok(0.9)]}, blocks=2)).says == (
        "Credit clears its null in more than 50% of the blocks: 2 of 2 covered (blocks 0 and 1)."
    )


def test_beside_an_easy_task_nothing_else_is_said() -> None:
    other = EASY | {"shallow": by_seed(0.5, 0.51, 0.5)}
    assert depth(subject(accuracy=(0.98, 0.981, 0.979), baselines=other)).says.endswith("+2 is required.")


def test_depth_is_missing_without_its_numbers() -> None:
    assert depth(subject(baselines={"frozen": None})).basis == "missing"
    assert depth(subject(accuracy=(0.6, NAN, 0.6))).basis == "missing"


def test_a_value_beside_a_status_that_is_not_ok_does_not_count() -> None:
    odd = dead("not available").model_copy(update={"value": 0.9})
    assert covered(odd, null(), 3) is None


def test_the_ends_of_the_ranges_of_coverage() -> None:
    partly = coverage(subject(cosines(0.9, None, None, None)))
    assert (partly.outcome, partly.ranges["coverage.share"]) == ("inconclusive", (0.25, None))
    two = coverage(subject(cosines(0.9, None), blocks=2))
    assert (two.outcome, two.basis) == ("inconclusive", "missing")
    off_zero = {"null": [null(0.1, 0.1)] * 4, "gamma": 0.9}
    failing = coverage(subject(cosines(0.9, 0.9, 0.15, 0.0) | off_zero))
    assert failing.outcome == "fires"
    assert failing.ranges["coverage.band"] == (pytest.approx(0.5), pytest.approx(180))
    first = cosines(0.9, 0.9, 0.04, 0.0)
    apart = coverage(subject(first, cosines(0.9, 0.9, 0.9, 0.0), cosines(0.9, 0.9, 0.9, 0.0)))
    assert apart.ranges["coverage.band"] == (None, pytest.approx(4))


def test_two_seeds_have_a_spread_and_time_knows_the_stream() -> None:
    assert judge(subject(accuracy=(0.5, 0.7))).accuracy.std == pytest.approx(math.sqrt(0.02))
    grown = Moment(epoch=1, hidden_norms=[1, 99])
    unborn = Evidence(name="x", residual=False, seeds=[SeedEvidence(seed=1, moments=[grown])])
    assert first_fired(unborn)["scale"].epochs == {"1": None}
    begun = Moment(epoch=0, hidden_norms=[1, 1])
    dated = Evidence(name="x", residual=False, seeds=[SeedEvidence(seed=1, moments=[begun, grown])])
    assert first_fired(dated)["scale"].epochs == {"1": 1}
    assert fires_at(grown, residual=False, start=Moment(hidden_norms=[1, 2]))["scale"] is False
    assert fires_at(grown, residual=None, start=begun)["scale"] is None


def test_growth_of_the_blocks_own_inputs_goes_before_the_norms() -> None:
    norms = [1.0, 2.0, 900.0]
    assert growth(Moment(hidden_norms=norms, growth=[2.0, 1.5])) == (2.0, 2.0)
    assert growth(Moment(growth=[0.5, 0.25])) == (0.5, 0.5)
    for unknown in (None, NAN, INF, 0.0):
        assert growth(Moment(hidden_norms=norms, growth=[2.0, unknown])) == (2.0, None)
    assert growth(Moment(hidden_norms=norms, growth=[None, None])) == (None, None)


def test_growth_of_the_blocks_own_inputs_over_init() -> None:
    now, begun = Moment(growth=[6.0, 3.0]), Moment(growth=[2.0, 3.0])
    assert growth_over_init(now, begun) == (3.0, 3.0)
    assert growth_over_init(now, None) == (None, None)
    assert growth_over_init(now, Moment(hidden_norms=[1.0, 1.0, 1.0])) == (None, None)
    for unknown in (None, NAN, 0.0):
        assert growth_over_init(now, Moment(growth=[unknown, 3.0])) == (1.0, None)
        assert growth_over_init(Moment(growth=[6.0, unknown]), begun) == (3.0, None)
