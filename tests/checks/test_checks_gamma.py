"""Γ: chance, spread, size, and whether what was compared is what trained."""

import math

import numpy as np
import pytest
from scipy import stats

from test_checks_planted import L, answers, credits, dead, null, ok, precise, sizes, subject, updates
from walkback.checks import DEFAULT, chance, judge, reference, size, spread
from walkback.checks.gamma import gamma_of, standing_of
from walkback.checks.spread import bar, effective, others_needed, spread_interval
from walkback.records import Evidence

T5 = stats.t.ppf((1 + 0.9875) / 2, 4)


def table(*rows: tuple[float, ...]) -> Evidence:
    return subject(*(credits(*row) for row in rows))


# --- chance ---------------------------------------------------------------------------------------------------------


def test_second_implementation_gamma_against_its_null() -> None:
    gammas, nulls = [0.03, 0.02, 0.04, 0.035, 0.025], [0.001, -0.002, 0.003, 0.0, 0.002]
    each = [credits(*[g] * L, rotated_gamma=null(n, 0.004)) for g, n in zip(gammas, nulls, strict=True)]
    found = chance(subject(*each))
    over = np.array(gammas) - np.array(nulls)
    low = over.mean() - T5 * over.std(ddof=1) / math.sqrt(5)
    assert low > 0
    assert over.mean() > 3 * math.sqrt(5 * 0.004**2) / 5
    assert found.outcome == "passes"
    assert "It is small: below 0.05." in found.says
    wide = [credits(*[g] * L, rotated_gamma=null(n, 0.03)) for g, n in zip(gammas, nulls, strict=True)]
    assert over.mean() < 3 * math.sqrt(5 * 0.03**2) / 5
    assert chance(subject(*wide)).outcome == "fires"  # not above, and shown to be below .05


def test_three_seeds_can_fire_and_two_cannot() -> None:
    for seeds, outcome in ((2, "open"), (3, "fires")):
        assert chance(subject(credits(0.0, 0.0, 0.0, 0.0), seeds=seeds)).outcome == outcome


def test_property_without_its_null_gamma_passes_only_where_it_would_with_any() -> None:
    """Every null that a rotation can give, within ± 1/√d and of a spread up to 1/√d."""
    dice = np.random.default_rng(3)
    bound, passed = 1 / 16, 0
    for _ in range(300):
        middle = dice.uniform(0, 0.6)
        rows = [credits(*[float(np.clip(middle + dice.normal(0, 0.03), -1, 1))] * L) for _ in range(5)]
        without = subject(*(row | {"rotated_gamma": None} for row in rows))
        if chance(without).outcome != "passes":
            continue
        passed += 1
        corner = dice.choice([-bound, bound], 5)
        assert chance(subject(*(
            row | {"rotated_gamma": null(float(mean), bound)} for row, mean in zip(rows, corner, strict=True)
        ))).outcome == "passes"  # fmt: skip
    assert passed > 30


# --- spread ---------------------------------------------------------------------------------------------------------


def test_closed_form_of_the_effective_number() -> None:
    assert effective([1.0] * 12) == pytest.approx(12)
    assert effective([1.0, 0.0]) == 1
    assert effective([0.9, 0.9, 0.9, -0.9]) == pytest.approx(1.0)
    assert effective([-0.9] * 4) == 0
    assert effective([]) == 0


def test_second_implementation_the_jackknife() -> None:
    rows = np.random.default_rng(2).normal(0.4, 0.2, (6, 4))
    whole = rows.mean(0).sum() ** 2 / (rows.mean(0) ** 2).sum()
    parts = np.array([(m := np.delete(rows, k, 0).mean(0)).sum() ** 2 / (m**2).sum() for k in range(6)])
    half = stats.t.ppf(0.99, 5) * math.sqrt(5 / 6 * ((parts - parts.mean()) ** 2).sum())
    found = spread_interval(rows.tolist(), 0.98)
    assert (found.value, found.low, found.high) == (
        pytest.approx(whole), pytest.approx(whole - half), pytest.approx(whole + half)
    )  # fmt: skip


def test_published_figures_of_what_the_bar_asks() -> None:
    """With one block at 1 the bar asks .27 of the other (L = 2), .24 of the others (4), .18 (12)."""
    assert [round(others_needed(blocks), 2) for blocks in (2, 4, 12)] == [0.27, 0.24, 0.18]
    assert [bar(blocks, 0.5) for blocks in (1, 2, 4, 12)] == [1, 1.5, 2.5, 6.5]
    assert effective([1.0, 0.18] + [0.18] * 10) > bar(12, 0.5)


def test_seeds_that_disagree_on_which_block_carries_it_are_not_even() -> None:
    """Each seed has all its credit in another block: pooled the mean looks even, and the jackknife is wide."""
    rows = [
        (0.9, 0.0, 0.0, 0.0),
        (0.0, 0.9, 0.0, 0.0),
        (0.0, 0.0, 0.9, 0.0),
        (0.0, 0.0, 0.0, 0.9),
        (0.9, 0.0, 0.0, 0.0),
    ]
    assert answers(table(*rows))[2] == "open"


def test_published_pattern_of_fa_is_carried_by_few() -> None:
    pattern = (0.016, 0.072, -0.085, 0.997)
    near = [tuple(c + 0.01 * shift for c in pattern) for shift in (0, 0.2, -0.2)]
    found = spread(table(*[tuple(min(1.0, c) for c in row) for row in near]))
    assert found.outcome == "fires"
    assert "Γ speaks for 1.0 of 4 blocks" in found.says


def test_a_block_without_any_credit_counts_as_zero_and_one_not_measured_leaves_it_open() -> None:
    assert answers(subject(credits(0.9, dead("no credit"), dead("zero credit"), dead("zero credit"))))[2] == FEW
    assert answers(subject(credits(0.9, dead("not available"), ok(0.9), ok(0.9))))[2] == "open"


FEW = "carried by few"


def test_updates_stand_for_credits_that_are_not_there() -> None:
    assert gamma_of(subject(updates(0.9, 0.8, 0.7, 0.9))).place == "update"
    assert answers(subject(updates(0.9, 0.8, 0.7, 0.9)))[2] == "even"
    assert answers(subject(updates(0.9, 0.8, 0.7, 0.9) | {"measured": {}}))[2] == "not reported"


def test_planted_updates_of_some_blocks_do_not_stand_for_all() -> None:
    """A block whose update points away is left out: three of four would look even."""
    away = updates(0.9, 0.9, 0.9, -0.9)
    assert answers(subject(away))[2] == FEW
    less = {"update": away["measured"]["update"][:3]}
    assert answers(subject(away | {"measured": less}))[2] == "open"


# --- size and reference ---------------------------------------------------------------------------------------------


def test_size_never_accuses() -> None:
    sick = subject(credits(0.29, 0.3, 0.29, 0.28, frobenius=sizes(-0.49, -0.5, -0.48, -0.49)))
    assert size(sick).outcome == "open"
    assert "not accused" not in judge(sick).says
    assert spread(sick).value == pytest.approx(4.0, abs=0.01)
    assert size(subject({"frobenius": sizes(0.9, 0.9, 0.9, -0.9)})).outcome == "passes"
    assert size(subject({"frobenius": sizes(0.9, 0.9, -0.9, -0.9)})).outcome == "open"


def test_the_median_block_stands_beside_gamma() -> None:
    assert judge(subject(credits(0.9, 0.02, 0.0, 0.04))).median_cosine == pytest.approx(0.03)
    assert judge(subject({"cosine_out": None})).median_cosine is None


@pytest.mark.parametrize(
    ("stable", "older", "outcome"),
    [(1e-6, 1e-6, "passes"), (1.2e-7, 0.154, "passes"), (0.3, 0.3, "fires"), (None, 0.154, "open"),
     (None, 1e-6, "passes"), (0.01, 0.01, "passes"), (0.0101, 0.0101, "fires")],
)  # fmt: skip
def test_reference_by_its_table(stable: float | None, older: float, outcome: str) -> None:
    """What was recorded with the softmax's cancellation may pass, and accuses nobody."""
    found = reference(subject({"precision": precise(older), "reference": None if stable is None else precise(stable)}))
    assert found.outcome == outcome


def test_the_weakest_seed_decides_whether_it_was_seen() -> None:
    seeds = subject().seeds
    some = [seed.changed(standing=word) for seed, word in zip(seeds, ("seen", "in part", "seen", "seen",
            "declared"), strict=True)]  # fmt: skip
    assert standing_of(subject().changed(seeds=some))[0] == "in part"
    assert standing_of(Evidence(name="x"))[0] == "declared"


def test_a_confidence_of_ones_own_widens_gamma_too() -> None:
    rows = [
        (0.9, 0.5, 0.4, 0.4),
        (0.9, 0.1, 0.3, 0.5),
        (0.9, 0.3, 0.5, 0.2),
        (0.9, 0.45, 0.1, 0.4),
        (0.9, 0.2, 0.3, 0.4),
    ]
    wide, narrow = (spread(table(*rows), DEFAULT.but("depth.confidence", c)) for c in (0.9999, 0.5))
    assert (wide.low or 0) < (narrow.low or 0)
