"""Each check at its boundaries, and every sentence that it can say."""

import math
import random
from functools import partial
from typing import Any

import pytest
from scipy import stats

import test_checks_planted as planted
from test_checks_planted import INF, NAN, dead, moment, null, ok, precise
from walkback.checks import DEFAULT, fires_at, first_fired, judge, reference, scale
from walkback.checks.finding import Finding, Interval, stable_range
from walkback.checks.paired_gain import mean_interval, two_sided
from walkback.checks.published_protocol import norm, not_finite
from walkback.checks.reference import chord
from walkback.checks.stream import growth, growth_over_init
from walkback.records import Evidence, Moment, Training
from walkback.records.record import parse
from walkback.records.schema import Reading

UP, DOWN = math.inf, -math.inf
subject, plain = partial(planted.subject, seeds=3), partial(planted.plain, seeds=3)


def next_to(value: float, way: float) -> float:
    return math.nextafter(value, way)


def answered(finding: Finding) -> tuple[str, str]:
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
    for confidence in (0.5, 0.9, 0.95, 0.99, 0.999):
        t = two_sided(confidence, df)
        assert closed_form(t, df) == pytest.approx(confidence, rel=1e-12)


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


def ends(found: Interval) -> tuple[float | None, float | None]:
    return found.low, found.high


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
        return ends(growth(Moment(hidden_norms=list(norms))))

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
    assert ends(growth(Moment(hidden_at={0: 2.0, 1: 8.0}, deepest_hidden=1e9))) == (4.0, None)
    assert ends(growth(Moment(hidden_at={3: 16.0, 1: 1.0}))) == (pytest.approx(4.0, rel=1e-8), None)
    assert ends(growth(Moment())) == (None, None)


# --- scale of a plain net -------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("top", "outcome"), [(50.0, "passes"), (50.0001, "fires"), (1.0, "passes"), (0.001, "passes")])
def test_a_plain_net_fires_strictly_above_fifty_times_its_growth_at_init(top: float, outcome: str) -> None:
    """Whatever the widths make of the norms at init."""
    norms = [3.0, 700.0, 0.02, 0.02, 5.0]
    now = [norms[0], norms[1], *(top * norm for norm in norms[2:])]
    found = scale(plain({"hidden_norms": now, "start": {"hidden_norms": norms}}))
    assert (found.outcome, found.basis, found.threshold) == (outcome, "exact", 50)
    assert found.value == pytest.approx(max(top, 1.0), rel=1e-9)
    assert "scale.growth_over_init" in found.ranges


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
        return ends(growth_over_init(Moment(hidden_norms=now), None if start is None else Moment(hidden_norms=start)))

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


# --- reference ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("value", "outcome"), [(0.01, "passes"), (next_to(0.01, UP), "fires"), (0.0, "passes")])
def test_reference_fires_strictly_above_the_chord(value: float, outcome: str) -> None:
    found = reference(subject({"precision": precise(value)}))
    assert (found.check, found.outcome, found.basis, found.threshold) == ("reference", outcome, "exact", 0.01)
    assert found.value == found.low == found.high == value


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


# --- through time, and what is said of all ---------------------------------------------------------------------------


def test_what_one_moment_tells() -> None:
    assert fires_at(moment()) == {"scale": False, "reference": False, "reference floor": False}
    sick = moment(hidden_norms=[1, 51, 51, 51, 51], reference=precise(0.5), gradient_norms=[1e-9] * 5)
    assert fires_at(sick) == {"scale": True, "reference": True, "reference floor": True}
    assert set(fires_at(Moment()).values()) == {None}
    assert fires_at(sick, residual=None)["scale"] is None
    assert fires_at(sick, residual=False)["scale"] is None
    assert fires_at(moment(hidden_norms=[1, None, 1, 1, 1]))["scale"] is None
    assert fires_at(moment(hidden_norms=[1, 51, None, 1, 1]))["scale"] is True
    assert fires_at(moment(hidden_norms=[1, 50, 50, 50, 50]))["scale"] is False
    assert fires_at(moment(reference=precise(0.01)))["reference"] is False
    assert fires_at(moment(gradient_norms=[1e-7] * 5))["reference floor"] is False
    assert fires_at(moment(gradient_norms=[1e-9] * 5, reference_batch=None))["reference floor"] is None
    assert fires_at(moment(gradient_norms=[1e-9] * 4 + [None]))["reference floor"] is None
    assert fires_at(moment(), DEFAULT.but("scale.growth", 1.05))["scale"] is True


def test_the_judgement_carries_everything() -> None:
    readings = {"update": [Reading(value=0.5, status="ok", null=null())] * 4}
    found = judge(subject({"measured": readings}, accuracy=(0.600, 0.604, 0.598), notes=["a note"]))
    assert found.name == "planted"
    assert (found.accuracy.mean, found.accuracy.n) == (pytest.approx(0.6006666666), 3)
    assert found.accuracy.std == pytest.approx(math.sqrt(28e-6 / 3))
    assert found.described.drift == {"42": 0.1, "123": 0.1, "456": 0.1}
    assert found.described.rho["42"] == [0.99] * 4
    assert found.described.nudging["456"] == [-0.1] * 4
    assert found.described.measured == dict.fromkeys(("42", "123", "456"), readings)
    assert (found.thresholds_version, found.protocol, found.notes) == ("walkback-3", "ours", ["a note"])
    assert (found.median_cosine, found.rates, found.trials["bp"]) == (0.9, "tuned", 5)
    assert parse(type(found), found.text().encode(), "it") == found
    for accuracy, known in (((0.5,), (0.5, None, 1)), ((NAN,), (None, None, 0)), ((0.5, NAN, 0.5), (0.5, 0.0, 2))):
        some = judge(subject(accuracy=accuracy)).accuracy
        assert (some.mean, some.std, some.n) == known
    other = judge(subject(), DEFAULT.but("scale.growth", 1.0))
    assert other.thresholds_version == "walkback-3, scale.growth=1"
    assert other.first_fired["scale"].epochs["42"] == 100


def test_everything_that_is_not_finite_is_named() -> None:
    odd = subject(
        {"gamma": NAN, "hidden_norms": [1, 1, INF, 1, 1], "cosine": [ok(NAN), dead("zero credit"), ok(0.9), None],
         "cosine_out": [ok(0.9), ok(0.9), ok(0.9), ok(INF)], "null": [null(), null(NAN), null(std=INF), null()],
         "null_out": None, "null_gamma": null(NAN), "precision": precise(NAN)},
        accuracy=(NAN,), baselines={"bp": planted.by_seed(INF)},
    )  # fmt: skip
    assert not_finite(odd) == [
        "gamma of seed 42", "accuracy of seed 42", "hidden_norms[2] of seed 42", "cosine[0] of seed 42",
        "null[2] of seed 42", "cosine_out[3] of seed 42", "null_gamma of seed 42", "precision of seed 42",
        "the baseline bp",
    ]  # fmt: skip
    assert not_finite(subject({"precision": precise(NAN, NAN, "zero gradient")})) == []
    assert not_finite(subject({"precision": None, "null_gamma": None, "loss": None})) == []


# --- what mutants taught ---------------------------------------------------------------------------------------------


def test_a_plain_net_is_dated_against_its_init() -> None:
    grown, begun = Moment(epoch=1, hidden_norms=[1, 99]), Moment(epoch=0, hidden_norms=[1, 1])
    for moments, epoch in (([grown], None), ([begun, grown], 1)):
        dated = Evidence(name="x", residual=False, seeds=[Training(seed=1, moments=moments)])
        assert first_fired(dated)["scale"].epochs == {"1": epoch}
    assert fires_at(grown, residual=False, start=Moment(hidden_norms=[1, 2]))["scale"] is False
    assert fires_at(grown, residual=None, start=begun)["scale"] is None


def test_growth_of_the_blocks_own_inputs_goes_before_the_norms() -> None:
    norms = [1.0, 2.0, 900.0]
    assert ends(growth(Moment(hidden_norms=norms, growth=[2.0, 1.5]))) == (2.0, 2.0)
    assert ends(growth(Moment(growth=[0.5, 0.25]))) == (0.5, 0.5)
    for unknown in (None, NAN, INF, 0.0):
        assert ends(growth(Moment(hidden_norms=norms, growth=[2.0, unknown]))) == (2.0, None)
    assert ends(growth(Moment(hidden_norms=norms, growth=[None, None]))) == (None, None)


def test_growth_of_the_blocks_own_inputs_over_init() -> None:
    now, begun = Moment(growth=[6.0, 3.0]), Moment(growth=[2.0, 3.0])
    assert ends(growth_over_init(now, begun)) == (3.0, 3.0)
    assert ends(growth_over_init(now, None)) == (None, None)
    assert ends(growth_over_init(now, Moment(hidden_norms=[1.0, 1.0, 1.0]))) == (None, None)
    for unknown in (None, NAN, 0.0):
        assert ends(growth_over_init(now, Moment(growth=[unknown, 3.0]))) == (1.0, None)
        assert ends(growth_over_init(Moment(growth=[6.0, unknown]), begun)) == (3.0, None)
