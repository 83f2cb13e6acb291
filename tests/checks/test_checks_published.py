"""The published protocol on the published numbers (Hao, Wan, Zhai, arXiv:2606.21126) gives the published verdicts."""

import math
from typing import Any

import pytest

from test_checks_planted import moment, ok, subject
from walkback.checks import depth, first_fired, judge, reference, scale
from walkback.records import Baseline, Evidence, Moment, Training

FROZEN = Baseline.number(0.349)
NORMS = [1.0] * 4


def row(accuracy: float, *, frozen: Baseline | None = FROZEN, **known: Any) -> Evidence:
    """One line of a table: means, as if of one training whose seed is not told."""
    known = {"reference_batch": 128} | known if "gradient_norms" in known else known
    return Evidence(
        name="row", residual=True, baselines={} if frozen is None else {"frozen": frozen},
        seeds=[Training(moments=[Moment(accuracy=accuracy, **known)])],
    )  # fmt: skip


def penalty(accuracy: float) -> Evidence:
    ends = [9, None, None, None, 4e4]
    return row(accuracy, hidden_norms=ends, gradient_norms=[None] * 4 + [9e-7], reference_batch=2048)


ALL = ["scale", "reference", "depth"]
DFA = row(0.306, hidden_norms=[8.7, None, None, None, 4.5e8], gradient_norms=[4.4e-7] + [4.2e-9] * 4)
EP = row(0.316, frozen=None, hidden_norms=[None] * 4 + [8e3], gradient_norms=[None] * 4 + [1e-4])
PUBLISHED: dict[str, tuple[Evidence, list[str]]] = {  # and the checks that fire
    "bp": (row(0.615, hidden_norms=[255, 226, 211, 205, 203],
               gradient_norms=[4.4e-4, 4.7e-4, 4.8e-4, 4.5e-4, 3.7e-4]), []),
    "fa": (row(0.401, hidden_norms=[None] * 4 + [1e5], gradient_norms=[1.8e-5, 1.2e-6, 8.9e-7, 8.9e-7, 8.9e-7]), []),
    "dfa": (DFA, ALL),
    "credit bridge, without norms": (row(0.289), ["depth"]), "state bridge": (row(0.205), ["depth"]),
    # No frozen net of its own is published. Held against that of DFA the rule as printed, .316 against .349,
    # contradicts the verdict as printed; we do not hide it.
    "ep": (EP, []), "ep against the frozen net of dfa": (EP.changed(baselines={"frozen": FROZEN}), ["depth"]),
    "the penalty, 30 epochs": (penalty(0.360), ["depth"]), "100 epochs": (penalty(0.363), ["depth"]),
    "a net at random init": (row(0.1, hidden_norms=[8.7] * 5, gradient_norms=[8e-3] * 5), ["depth"]),
}  # fmt: skip


@pytest.mark.parametrize("name", PUBLISHED)
def test_published_numbers_give_the_published_verdict(name: str) -> None:
    """Of the five methods (fa, ep, dfa and the bridges) three are walked back."""
    evidence, fired = PUBLISHED[name]
    found = judge(evidence, protocol="published")
    assert [f.check for f in found.findings if f.outcome == "fires"] == fired
    assert found.verdict == ("walked back" if fired else "holds")
    assert (found.verdicts, found.rates, found.symptoms) == (None, None, [])


def test_the_penalty_repairs_scale_by_a_proxy() -> None:
    found = scale(penalty(0.36), protocol="published")
    assert (found.outcome, found.basis) == ("passes", "proxy")
    assert "does not rule out a block above it" in found.warnings[0]
    assert reference(penalty(0.36), protocol="published").value == pytest.approx(9e-7 * 16)


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
    assert found["reference"].epochs == found["depth"].epochs == {"42": None, "123": None, "456": None}
    assert found["scale"].says == "known at 45 of 45 moments"
    assert found["reference"].says == "known at 45 of 45 moments; it never fired"
    assert found["depth"].says == "cannot be dated: the baselines are known at the end only"
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
    assert scale(mixed).outcome == "open"
    assert depth(subject(accuracy=(0.6, 0.604, 0.598)), protocol="published").value == pytest.approx(1.802 / 3 - 0.35)


@pytest.mark.parametrize(
    ("check", "name", "evidence", "value", "outcome"),
    [
        (reference, "reference.floor", row(0.5, gradient_norms=[*NORMS, 1e-7]), 1e-7, "passes"),
        (reference, "reference.floor", row(0.5, gradient_norms=[*NORMS, math.nextafter(1e-7, 0)]), 1e-7, "fires"),
        (scale, "scale.growth", row(0.5, hidden_norms=[1.0, 50.0]), 50, "passes"),
        (scale, "scale.growth", row(0.5, hidden_norms=[1.0, math.nextafter(50, 99)]), 50, "fires"),
        (depth, "depth.margin", row(0.30, frozen=Baseline.number(0.28)), 0.02, "passes"),  # .30 − .28 < .02 in floats
        (depth, "depth.margin", row(0.369), 0.02, "passes"),
        (depth, "depth.margin", row(0.3689), 0.0199, "fires"),
    ],
)  # fmt: skip
def test_each_threshold_is_strict(check: Any, name: str, evidence: Evidence, value: float, outcome: str) -> None:
    found = check(evidence, protocol="published")
    assert (found.outcome, found.basis, found.check) == (outcome, "exact", check.name)
    assert found.value == pytest.approx(value)
    up_to_it = (outcome == "fires") == (check is scale)  # scale fires above its threshold, the others below
    assert found.stable_range == ((None, found.value) if up_to_it else (found.value, None))
    assert found.ranges == {name: found.stable_range}


def test_missing_parts_are_inconclusive_and_named() -> None:
    found = judge(row(0.5, frozen=None), protocol="published")
    assert [(f.check, f.outcome, f.basis) for f in found.findings] == [(n, "inconclusive", "missing") for n in ALL]
    assert all(f.value is None and f.warnings == [] and f.stable_range == (None, None) for f in found.findings)
    assert (found.verdict, found.decided_by) == ("inconclusive", ALL)


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
    assert scale(DFA.changed(residual=False), protocol="published").outcome == "not applicable"
    assert judge(Evidence(name="x", residual=False), protocol="published").verdict == "inconclusive"
    assert scale(DFA.changed(residual=None), protocol="published").outcome == "fires"


def test_what_is_ours_is_no_part_of_it() -> None:
    collapse = [ok(0.9), ok(0.0), ok(0.0), ok(0.0)]
    collapsed = subject({"cosine": collapse, "cosine_out": collapse})
    found = judge(collapsed, protocol="published")
    assert [f.check for f in found.findings] == ALL
    assert (found.verdict, found.verdicts) == ("holds", None)
    assert judge(collapsed).verdicts.gamma == "carried by few"
