"""The published protocol on the published numbers (Hao, Wan, Zhai, arXiv:2606.21126) gives the published verdicts."""

import math
from typing import Any

import pytest

from test_checks_planted import moment, ok, subject
from walkback.checks import depth, first_fired, judge, reference, scale
from walkback.records import Baseline, Evidence, Moment, Training

FROZEN = Baseline.number(0.349)


def row(accuracy: float, *, frozen: Baseline | None = FROZEN, **known: Any) -> Evidence:
    """One line of a table: means, as if of one training whose seed is not told."""
    known = {"reference_batch": 128} | known if "gradient_norms" in known else known
    return Evidence(
        name="row", residual=True, baselines={} if frozen is None else {"frozen": frozen},
        seeds=[Training(moments=[Moment(accuracy=accuracy, **known)])],
    )  # fmt: skip


def fired(evidence: Evidence) -> tuple[str, list[str]]:
    found = judge(evidence, protocol="published")
    return found.verdict, [f.check for f in found.findings if f.outcome == "fires"]


BP = row(
    0.615, hidden_norms=[255, 226, 211, 205, 203], gradient_norms=[4.4e-4, 4.7e-4, 4.8e-4, 4.5e-4, 3.7e-4]
)  # fmt: skip
FA = row(
    0.401, hidden_norms=[None] * 4 + [1e5], gradient_norms=[1.8e-5, 1.2e-6, 8.9e-7, 8.9e-7, 8.9e-7]
)  # fmt: skip
DFA = row(
    0.306, hidden_norms=[8.7, None, None, None, 4.5e8], gradient_norms=[4.4e-7, 4.2e-9, 4.2e-9, 4.2e-9, 4.2e-9]
)  # fmt: skip
EP = row(0.316, frozen=None, hidden_norms=[None] * 4 + [8e3], gradient_norms=[None] * 4 + [1e-4])


def test_bp_holds() -> None:
    assert fired(BP) == ("holds", [])
    assert [f.outcome for f in judge(BP, protocol="published").findings] == ["passes"] * 3


def test_fa_is_not_walked_back_and_its_floor_does_not_fire() -> None:
    assert fired(FA) == ("holds", [])
    assert reference(FA, protocol="published").outcome == "passes"


def test_dfa_is_walked_back_by_all_three() -> None:
    assert fired(DFA) == ("walked back", ["scale", "reference", "depth"])


@pytest.mark.parametrize("accuracy", [0.289, 0.205])  # credit bridge, state bridge: no norms are published
def test_the_bridges_are_walked_back(accuracy: float) -> None:
    assert fired(row(accuracy)) == ("walked back", ["depth"])


def test_ep_holds_as_its_authors_say_because_no_frozen_net_of_its_own_is_published() -> None:
    assert fired(EP) == ("holds", [])


def test_ep_held_against_the_frozen_net_of_dfa_would_be_walked_back() -> None:
    """The rule as printed, .316 against .349, contradicts the verdict as printed; we do not hide it."""
    against = EP.changed(baselines={"frozen": FROZEN})
    assert fired(against) == ("walked back", ["depth"])


@pytest.mark.parametrize("accuracy", [0.360, 0.363])  # 30 and 100 epochs
def test_the_penalty_repairs_scale_and_reference_and_leaves_depth(accuracy: float) -> None:
    penalty = row(
        accuracy, hidden_norms=[9, None, None, None, 4e4], gradient_norms=[None] * 4 + [9e-7], reference_batch=2048
    )  # fmt: skip
    assert fired(penalty) == ("walked back", ["depth"])
    found = scale(penalty, protocol="published")
    assert (found.outcome, found.basis) == ("passes", "proxy")
    assert found.warnings == [
        "a geometric mean within the limit does not rule out a block above it; our protocol would not pass this",
    ]
    assert found.says == "Mean growth: 8.16×, by the geometric mean of what is known (published limit 50×)."
    assert reference(penalty, protocol="published").value == pytest.approx(9e-7 * 16)


def test_of_the_five_methods_three_are_walked_back() -> None:
    methods = [FA, EP, DFA, row(0.289), row(0.205)]
    assert [fired(m)[0] for m in methods].count("walked back") == 3


def test_a_net_at_random_init_fires_neither_scale_nor_reference() -> None:
    init = row(0.1, hidden_norms=[8.7] * 5, gradient_norms=[8e-3] * 5)
    assert fired(init)[1] == ["depth"]


def test_the_temporal_replay_is_dated_seed_by_seed() -> None:
    """Scale first fires at epochs 8, 11 and 8, the floor at 4, 4 and 3; bp never."""

    def training(seed: int, scale_from: int, floor_from: int) -> Training:
        moments = [
            moment(
                epoch=epoch,
                hidden_norms=[9, 9, 9, 9, 9 * (51 if epoch >= scale_from else 49)],
                gradient_norms=[1e-4] * 4 + [9e-8 if epoch >= floor_from else 1.1e-7],
            )
            for epoch in range(15)
        ]
        return Training(seed=seed, moments=moments)

    dfa = Evidence(name="dfa", residual=True, seeds=[training(42, 8, 4), training(123, 11, 4), training(456, 8, 3)])
    found = first_fired(dfa)
    assert found["scale"].epochs == {"42": 8, "123": 11, "456": 8}
    assert found["reference floor"].epochs == {"42": 4, "123": 4, "456": 3}
    assert found["reference"].epochs == {"42": None, "123": None, "456": None}
    assert found["scale"].says == "known at 45 of 45 moments"
    assert found["reference"].says == "known at 45 of 45 moments; it never fired"
    assert found["depth"].says == "cannot be dated: the baselines are known at the end only"
    assert found["depth"].epochs == {"42": None, "123": None, "456": None}
    bp = Evidence(name="bp", residual=True, seeds=[training(42, 99, 99)])
    assert first_fired(bp)["scale"].epochs == {"42": None}


# --- the protocol itself --------------------------------------------------------------------------------------------


def test_means_only() -> None:
    """One seed of three explodes, and its mean carries the rest along: published fires, ours does not."""
    mixed = subject({}, {"hidden_norms": [9.0, 9000.0, 9e3, 9e3, 9e3]}, {})
    found = scale(mixed, protocol="published")
    assert (found.outcome, found.low, found.high) == ("fires", None, None)
    assert found.value == pytest.approx((1000 + 2 * 10 / 9) / 3)
    assert found.stable_range == (None, found.value)
    assert found.says == "Mean growth: 334× (published limit 50×)."
    assert scale(mixed).outcome == "open"


@pytest.mark.parametrize(("value", "outcome"), [(1e-7, "passes"), (math.nextafter(1e-7, 0), "fires")])
def test_the_floor_fires_strictly_below(value: float, outcome: str) -> None:
    found = reference(row(0.5, gradient_norms=[1.0] * 4 + [value]), protocol="published")
    assert (found.outcome, found.threshold, found.basis, found.check) == (outcome, 1e-7, "exact", "reference")
    assert found.says == "The mean norm of the deepest gradient is 1e-07; the published floor is 1e-07."
    assert found.stable_range == ((None, value) if outcome == "passes" else (value, None))
    assert found.ranges == {"reference.floor": found.stable_range}


@pytest.mark.parametrize(("value", "outcome"), [(50.0, "passes"), (math.nextafter(50, 99), "fires")])
def test_the_growth_fires_strictly_above(value: float, outcome: str) -> None:
    found = scale(row(0.5, hidden_norms=[1.0, value]), protocol="published")
    assert (found.outcome, found.basis, found.check, found.threshold) == (outcome, "exact", "scale", 50)
    assert found.ranges == {"scale.growth": found.stable_range}
    assert found.stable_range == ((value, None) if outcome == "passes" else (None, value))


@pytest.mark.parametrize(
    ("accuracy", "frozen", "outcome"), [(0.30, 0.28, "passes"), (0.369, 0.349, "passes"), (0.3689, 0.349, "fires")]
)
def test_the_margin_fires_strictly_below_and_rounding_does_not_move_it(
    accuracy: float, frozen: float, outcome: str
) -> None:
    found = depth(row(accuracy, frozen=Baseline.number(frozen)), protocol="published")
    assert (found.outcome, found.basis, found.check, found.threshold) == (outcome, "exact", "depth", 0.02)
    assert found.value == pytest.approx(accuracy - frozen)
    assert found.stable_range == ((None, found.value) if outcome == "passes" else (found.value, None))
    assert found.ranges == {"depth.margin": found.stable_range}


def test_margin_of_means_over_seeds() -> None:
    found = depth(subject(accuracy=(0.6, 0.604, 0.598)), protocol="published")
    assert found.value == pytest.approx((0.6 + 0.604 + 0.598) / 3 - 0.35)


def test_missing_parts_are_inconclusive_and_named() -> None:
    bare = row(0.5, frozen=None)
    found = judge(bare, protocol="published")
    assert [(f.check, f.outcome, f.basis) for f in found.findings] == [
        ("scale", "inconclusive", "missing"),
        ("reference", "inconclusive", "missing"),
        ("depth", "inconclusive", "missing"),
    ]
    assert all(f.value is None and f.warnings == [] and f.stable_range == (None, None) for f in found.findings)
    assert (found.verdict, found.decided_by) == ("inconclusive", ["scale", "reference", "depth"])
    assert found.protocol == "published"


@pytest.mark.parametrize("bad", [math.nan, math.inf])
def test_what_is_not_finite_neither_passes_nor_holds(bad: float) -> None:
    norms = row(0.5, hidden_norms=[9, bad, 9], gradient_norms=[bad, 1e-4, 1e-4])
    found = judge(norms, protocol="published")
    assert [f.outcome for f in found.findings] == ["inconclusive", "inconclusive", "passes"]
    assert (found.verdict, found.decided_by) == ("inconclusive", ["evidence"])
    assert found.says == "Inconclusive: not finite: hidden_norms[1] of seed ?1 and gradient_norms[0] of seed ?1."
    assert depth(row(bad), protocol="published").outcome == "inconclusive"
    assert depth(row(0.5, frozen=Baseline.number(bad)), protocol="published").outcome == "inconclusive"


def test_without_a_residual_stream_scale_is_not_asked() -> None:
    flat = DFA.changed(residual=False)
    found = scale(flat, protocol="published")
    assert found.outcome == "not applicable"
    assert found.says == "The net has no residual stream whose growth could be judged."
    only = Evidence(name="x", residual=False)
    assert judge(only, protocol="published").verdict == "inconclusive"
    assert scale(DFA.changed(residual=None), protocol="published").outcome == "fires"


def test_what_is_ours_is_no_part_of_it() -> None:
    collapse = [ok(0.9), ok(0.0), ok(0.0), ok(0.0)]
    collapsed = subject({"cosine": collapse, "cosine_out": collapse})
    found = judge(collapsed, protocol="published")
    assert [f.check for f in found.findings] == ["scale", "reference", "depth"]
    assert (found.verdict, found.verdicts) == ("holds", None)
    assert judge(collapsed).verdicts.gamma == "carried by few"
