"""Logs that others left: read as they are, and nothing invented. What each comes to, and every refusal in words, is in
tests/golden/oracle/logs.txt; here is what such an answer does not show."""

import json
import math
from pathlib import Path
from typing import Any

import hypothesis.strategies as st
import pytest
from hypothesis import HealthCheck, given, settings

from made_up import values_of
from walkback.checks import judge, scale
from walkback.errors import RecordError
from walkback.records import Evidence, Moment, evidence_of_log, join_seeds, read_log
from walkback.records.readers.entries import STREAM

METHODS: dict[str, Any] = {
    "config": {"seed": 42, "n_eval": 128, "num_classes": 10, "batch_size": 64},
    "bp_log": [
        {"epoch": 0, "hidden_norms": [9, 9, 9], "bp_grad_norms_per_sample_med": [8e-3, 8e-3, 8e-3], "acc_eval": 0.1},
        {"epoch": 5, "hidden_norms": [255, 226, 211], "bp_grad_norms_per_sample_med": [4e-4, 4e-4, 3e-4],
         "acc_eval": 0.6},
    ],
    "dfa_log": [
        {"epoch": 5, "hidden_norms_cls": [9.0, 900.0, 9e5], "bp_grad_per_sample_l2_med": [4e-7, 4e-9, 4e-9],
         "acc_eval": 0.3, "gamma_dfa": 0.1, "loss": 2.0, "remark": "ignored"},
    ],
}  # fmt: skip
SINGLE: dict[str, Any] = {
    "config": {"method": "dfa", "L": 4, "eval_batch": 2048},
    "log": [{"epoch": 1, "h_L_norm": 4e4, "g_2_norm": 9e-7, "acc_eval": 0.3}],
    "final_test_acc": 0.36,
}
LADDER: dict[str, Any] = {
    "results": {
        "bp": {"0": {"42": {"final_acc": 0.38}, "123": {"final_acc": 0.39}},
               "4": {"42": {"final_acc": 0.61}, "123": {"final_acc": 0.62}}},
        "dfa": {"0": {"42": {"final_acc": 0.35}, "123": {"final_acc": 0.351}},
                "2": {"42": {"final_acc": 0.32}},
                "4": {"42": {"final_acc": 0.30}, "123": {"final_acc": 0.302}}},
    }
}  # fmt: skip


def one(raw: Any) -> Evidence:
    (found,) = evidence_of_log(raw)
    return found


def test_one_subject_for_each_method() -> None:
    bp, dfa = evidence_of_log(METHODS)
    assert (bp.name, bp.rule, dfa.name, dfa.rule) == ("bp", "bp", "dfa", "dfa")
    assert (bp.classes, bp.blocks, bp.depth, bp.residual, bp.notes) == (10, 2, None, True, [STREAM])
    (seed,) = bp.seeds
    assert (seed.seed, seed.ended, [m.epoch for m in seed.moments]) == (42, None, [0, 5])
    final = seed.final
    assert (final.accuracy, final.loss, final.gamma, final.reference_batch) == (0.6, None, None, 128)
    assert (final.hidden_norms, final.gradient_norms) == ([255, 226, 211], [4e-4, 4e-4, 3e-4])
    assert (final.cosine, final.null, final.precision, final.drift) == (None, None, None, None)
    final = dfa.seeds[0].final
    assert (final.hidden_norms, final.gradient_norms) == ([9.0, 900.0, 9e5], [4e-7, 4e-9, 4e-9])
    assert (final.gamma, final.loss, final.epoch) == (0.1, 2.0, 5)
    assert (bp.baselines, dfa.baselines) == ({}, {})


def test_what_is_not_said_is_not_known() -> None:
    found = one({"x_log": [{}]})
    assert found.seeds[0].final == Moment()
    assert (found.depth, found.residual, found.classes, found.seeds[0].seed) == (None, None, None, None)
    assert one({"x_log": [], "": 0.3, "final_test_acc": 0.3}).seeds[0].moments == []  # of which method?
    silent = one({"x_log": [{"bp_grad_per_sample_l2_med": [1, 2]}], "config": {"batch_size": 128}})
    assert silent.seeds[0].final.reference_batch is None
    assert one({"x_log": [{"gamma_y": 0.3}]}).seeds[0].final.gamma is None


def test_not_a_number_stays_so_in_every_spelling() -> None:
    text = '{"x_log": [{"hidden_norms": [NaN, Infinity, "NaN", "inf", null], "acc_eval": "nan"}]}'
    final = one(json.loads(text)).seeds[0].final
    assert final.hidden_norms is not None
    a, b, c, d, e = final.hidden_norms
    assert math.isnan(a or 0)
    assert math.isnan(c or 0)
    assert (b, d, e) == (math.inf, math.inf, None)
    assert math.isnan(final.accuracy or 0)


# --- one method, single norms -----------------------------------------------------------------------------------------


def test_the_deepest_norm_and_a_gradient_at_layer_two() -> None:
    found = one(SINGLE)
    assert (found.name, found.rule, found.depth, found.residual) == ("dfa", "dfa", 4, True)
    final = found.seeds[0].final
    assert final.hidden_norms == [None, None, None, None, 4e4]
    assert final.gradient_norms == [None, None, 9e-7, None, None]
    assert (final.accuracy, final.epoch, final.reference_batch) == (0.36, 1, 2048)
    log = SINGLE["log"] + [{"h_0_norm": 9, "h_L_norm": 5e4, "g_2_norm": 1e-7, "g_L_norm": 2e-7}]
    (unknown,) = evidence_of_log({"log": log, "config": {}}, name="stem")
    assert (unknown.name, unknown.rule, unknown.blocks) == ("stem", None, None)
    final = unknown.seeds[0].final
    assert (final.deepest_hidden, final.hidden_at) == (5e4, {0: 9.0})
    assert (final.deepest_gradient, final.gradient_at) == (2e-7, {2: 1e-7})
    assert (final.hidden_norms, final.gradient_norms, final.reference_batch, final.accuracy) == (None, None, None, None)


def test_second_implementation_lists_and_single_norms_and_both_shapes_say_the_same() -> None:
    norms = [9.0, 12.0, 2000.0, 2100.0, 2200.0]
    entry = {"epoch": 3, "acc_eval": 0.45, "gamma": 0.2}
    lists = entry | {"hidden_norms": norms}
    single = entry | {f"h_{layer}_norm": norm for layer, norm in enumerate(norms)}
    known = one({"config": {"L": 4}, "log": [lists]})
    assert (known.seeds[0].final.hidden_norms, known.seeds[0].final.gamma) == (norms, 0.2)
    for other in (single, lists | {"h_L_norm": 2201.0, "h_0_norm": 9.0}):
        assert values_of(one({"config": {"L": 4}, "log": [other]})) == values_of(known)
    mixed = one({"config": {"L": 4}, "log": [lists | {"g_L_norm": 1e-4, "g_0_norm": 2e-4}]})
    assert mixed.seeds[0].final.gradient_norms == [2e-4, None, None, None, 1e-4]
    diverged = entry | {"hidden_norms": [9.0, None, math.nan], "h_L_norm": math.nan, "h_1_norm": 3.0}
    assert math.isnan(one({"log": [diverged]}).seeds[0].final.hidden_norms[2])
    config = {"L": 4, "eval_batch": 128}
    by_method = one({"config": config, "dfa_log": [single]})
    assert values_of(by_method) == values_of(one({"config": config | {"method": "dfa"}, "log": [single]}))


# --- ladders ----------------------------------------------------------------------------------------------------------


def test_a_ladder_gives_subject_and_baselines() -> None:
    bp, dfa = evidence_of_log(LADDER)
    assert [(s.seed, s.final.accuracy) for s in dfa.seeds] == [(42, 0.30), (123, 0.302)]
    assert {name: dfa.baselines[name].accuracy for name in ("frozen", "frozen_bp", "bp")} == {
        "frozen": {"42": 0.35, "123": 0.351}, "frozen_bp": {"42": 0.38, "123": 0.39}, "bp": {"42": 0.61, "123": 0.62},
    }  # fmt: skip
    assert (dfa.name, dfa.rule, dfa.depth, dfa.residual) == ("dfa", "dfa", None, None)
    assert bp.baselines["frozen"] == bp.baselines["frozen_bp"]
    stated = evidence_of_log(LADDER | {"config": {"L": 4}})[1]
    assert (stated.name, stated.depth, stated.notes) == ("dfa", 4, [])
    part = evidence_of_log(LADDER | {"config": {"L": 6}})[1]
    assert (part.name, part.depth) == ("dfa k=4", 6)


def test_ladders_with_gaps() -> None:
    only_frozen = one({"results": {"dfa": {"0": {"1": {"final_acc": 0.3}}}}})
    assert (only_frozen.seeds, only_frozen.baselines["frozen"].accuracy) == ([], {"1": 0.3})
    no_frozen = one({"results": {"dfa": {"2": {"1": {"final_acc": 0.3}, "2": {}}}}})
    assert (no_frozen.baselines, [s.final.accuracy for s in no_frozen.seeds]) == ({}, [0.3, None])
    uneven = evidence_of_log({"results": {"BP": {"2": {"1": {"final_acc": 0.6}}}, "fa": {"4": {"1": {}}}}})
    assert "bp" in uneven[0].baselines
    assert uneven[1].baselines == {}
    assert one({"results": {"dfa": {}}}).seeds == []


# --- what is stated in other ways -------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("stated", "residual"), [("false", False), (0, False), ("yes", True), (1.0, True), ("?", None)]
)
def test_a_plain_net_is_not_taken_for_a_residual_one(stated: Any, residual: bool | None) -> None:
    grew = [{"epoch": 1, "hidden_norms": [1, 100, 10000], "acc_eval": 0.5}]
    found = one({"config": {"residual": stated}, "x_log": grew})
    assert found.residual is residual
    assert (scale(found).outcome == "fires") == (residual is True)
    assert any("neither true nor false" in note for note in found.notes) == (residual is None)
    assert STREAM not in found.notes


@pytest.mark.parametrize("two", [2, 2.0, "2"])
def test_numbers_of_a_config_may_be_written_as_they_are(two: Any) -> None:
    entry = {"epoch": 1, "h_0_norm": 1, "h_L_norm": 9}
    found = one({"config": {"L": two, "seed": two, "eval_batch": two}, "log": [entry | {"g_L_norm": 1}]})
    assert (found.depth, found.seeds[0].seed, found.seeds[0].final.reference_batch) == (2, 2, 2)
    assert found.seeds[0].final.hidden_norms == [1, None, 9]


def test_entries_of_several_seeds_are_several_trainings() -> None:
    entries = [{"epoch": e, "seed": s, "acc_eval": 0.1 * s + 0.01 * e} for s in (1, 2, 3) for e in (1, 2)]
    found = one({"config": {"epochs": 2}, "x_log": entries})
    assert [(seed.seed, seed.final.accuracy) for seed in found.seeds] == [
        (1, pytest.approx(0.12)), (2, pytest.approx(0.22)), (3, pytest.approx(0.32)),
    ]  # fmt: skip
    with pytest.raises(RecordError, match=r"x_log\[5\]: epoch 1 is there twice \[log-epochs\]"):
        one({"x_log": [*entries[:5], entries[4]]})


# --- files and what is in them ----------------------------------------------------------------------------------------


def test_files(tmp_path: Path) -> None:
    file = tmp_path / "anything.txt"
    file.write_text("\ufeff" + json.dumps(SINGLE), encoding="utf-8")
    assert [*map(values_of, read_log(file))] == [*map(values_of, evidence_of_log(SINGLE))]
    file.write_text(json.dumps({"log": []}))
    assert read_log(str(file))[0].name == "anything"
    for content in (b"\xff\x00", b"[" * 100_000):
        file.write_bytes(content)
        with pytest.raises(RecordError, match="is not valid JSON"):
            read_log(file)
    with pytest.raises(RecordError, match=r"cannot read .*absent.json: No such file"):
        read_log(tmp_path / "absent.json")
    with pytest.raises(RecordError, match="cannot read"):
        read_log(tmp_path)
    with pytest.raises(RecordError, match=r"hidden_norms\[1\] is too large a number"):
        one({"x_log": [{"hidden_norms": [1, 2 * 10**308]}]})


KEYS = [
    "x_log", "log", "results", "config", "epoch", "hidden_norms", "acc_eval", "h_L_norm", "g_2_norm", "L", "0", "4",
    "42", "bp", "final_acc", "seed", "gamma", "final_test_acc", "bp_grad_per_sample_l2_med",
]  # fmt: skip
JUNK = st.recursive(
    st.none() | st.booleans() | st.floats() | st.integers(-5, 300) | st.sampled_from(["x", "NaN", "1", ""]),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.sampled_from(KEYS), inner, max_size=5),
    max_leaves=25,
)
TOP = ["x_log", "log", "results", "config", "seed", "final_test_acc"]


@settings(max_examples=300, deadline=None, suppress_health_check=list(HealthCheck), database=None)
@given(st.dictionaries(st.sampled_from(TOP), JUNK) | JUNK)
def test_whatever_it_is_it_is_read_or_refused_and_what_is_read_can_be_judged(raw: Any) -> None:
    try:
        found = evidence_of_log(raw)
    except RecordError:
        return
    for evidence in found:
        assert judge(evidence).verdict != "holds"
        assert judge(evidence, protocol="published").name == evidence.name


def test_logs_of_different_seeds_are_joined() -> None:
    def log(seed: int | None, accuracy: float = 0.3) -> Evidence:
        return one({"dfa_log": [{"acc_eval": accuracy, "hidden_norms": [1, 2]}], "seed": seed})

    (joined,) = join_seeds([log(1), log(2), log(3)])
    assert [s.seed for s in joined.seeds] == [1, 2, 3]
    assert (joined.notes, joined.blocks) == ([STREAM], 1)
    longer = one({"dfa_log": [{"hidden_norms": [1, 2, 3]}], "seed": 2})
    for other in (log(1), log(None), one({"bp_log": [], "seed": 2}), longer):
        assert len(join_seeds([log(1) if other.seeds[0].seed else log(None), other])) == 2
    assert join_seeds([]) == []
