"""Logs that others left: read as they are, refused in words where they cannot be, and nothing invented."""

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


# --- logs of several methods ----------------------------------------------------------------------------------------


def test_one_subject_for_each_method() -> None:
    bp, dfa = evidence_of_log(METHODS)
    assert (bp.name, bp.rule, dfa.name, dfa.rule) == ("bp", "bp", "dfa", "dfa")
    assert (bp.classes, bp.blocks, bp.depth, bp.residual, bp.notes) == (10, 2, None, True, [STREAM])
    assert [m.epoch for m in bp.seeds[0].moments] == [0, 5]
    assert bp.seeds[0].seed == 42
    assert bp.seeds[0].ended is None
    final = bp.seeds[0].final
    assert (final.accuracy, final.loss, final.gamma, final.reference_batch) == (0.6, None, None, 128)
    assert (final.hidden_norms, final.gradient_norms) == ([255, 226, 211], [4e-4, 4e-4, 3e-4])
    assert (final.cosine, final.null, final.precision, final.drift) == (None, None, None, None)
    final = dfa.seeds[0].final
    assert (final.hidden_norms, final.gradient_norms) == ([9.0, 900.0, 9e5], [4e-7, 4e-9, 4e-9])
    assert (final.gamma, final.loss, final.epoch) == (0.1, 2.0, 5)
    assert (bp.baselines, dfa.baselines) == ({}, {})


def test_what_such_a_log_comes_to() -> None:
    bp, dfa = (judge(e) for e in evidence_of_log(METHODS))
    assert (bp.verdict, dfa.verdict, dfa.decided_by) == ("open", "open", ["depth"])
    assert (bp.symptoms, [words.partition(" grows")[0] for words in dfa.symptoms]) == ([], ["One block"])
    assert judge(evidence_of_log(METHODS)[1], protocol="published").decided_by == ["scale", "reference"]


def test_what_is_not_said_is_not_known() -> None:
    found = one({"x_log": [{}]})
    assert found.seeds[0].final == Moment()
    assert (found.depth, found.residual, found.classes, found.seeds[0].seed) == (None, None, None, None)
    assert one({"x_log": []}).seeds[0].moments == []
    assert one({"x_log": [], "": 0.3, "final_test_acc": 0.3}).seeds[0].moments == []  # of which method?
    silent = one({"x_log": [{"bp_grad_per_sample_l2_med": [1, 2]}], "config": {"batch_size": 128}})
    assert silent.seeds[0].final.reference_batch is None
    assert one({"x_log": [{"gamma_y": 0.3}]}).seeds[0].final.gamma is None
    assert one({"x_log": [{"gamma": 0.3}], "seed": 7, "config": None}).seeds[0].final.gamma == 0.3


@pytest.mark.parametrize("key", ["eval_batch", "eval_batch_size", "n_eval", "probe_batch", "audit_batch"])
def test_the_batch_of_the_gradient_if_the_log_states_it(key: str) -> None:
    log = {"x_log": [{"bp_grad_per_sample_l2_med": [1, 2]}], "config": {key: 256}}
    assert one(log).seeds[0].final.reference_batch == 256


def test_a_net_without_a_stream_is_believed() -> None:
    log = {"x_log": [{"hidden_norms": [1, 2]}], "config": {"residual": False}}
    assert (one(log).residual, one(log).notes) == (False, [])
    assert one(log | {"config": {"skip": True}}).notes == []


def test_not_a_number_stays_so_in_every_spelling() -> None:
    text = '{"x_log": [{"hidden_norms": [NaN, Infinity, "NaN", "-inf", null], "acc_eval": "nan"}]}'
    with pytest.raises(RecordError, match="a size cannot be negative"):
        evidence_of_log(json.loads(text))
    final = one(json.loads(text.replace('"-inf"', '"inf"'))).seeds[0].final
    assert final.hidden_norms is not None
    a, b, c, d, e = final.hidden_norms
    assert math.isnan(a or 0)
    assert b == d == math.inf
    assert math.isnan(c or 0)
    assert e is None
    assert math.isnan(final.accuracy or 0)


def test_entries_out_of_order_are_sorted_and_said() -> None:
    log = {"x_log": [{"epoch": 9, "acc_eval": 0.9}, {"epoch": 1, "acc_eval": 0.1}]}
    found = one(log)
    assert [m.epoch for m in found.seeds[0].moments] == [1, 9]
    assert found.notes == ["its entries were not in the order of their epochs and have been sorted"]
    undated = one({"x_log": [{"epoch": 9}, {"acc_eval": 0.1}]})
    assert undated.seeds[0].final.accuracy == 0.1


# --- one method, single norms ---------------------------------------------------------------------------------------


def test_the_deepest_norm_and_a_gradient_at_layer_two() -> None:
    found = one(SINGLE)
    assert (found.name, found.rule, found.depth, found.residual) == ("dfa", "dfa", 4, True)
    final = found.seeds[0].final
    assert final.hidden_norms == [None, None, None, None, 4e4]
    assert final.gradient_norms == [None, None, 9e-7, None, None]
    assert (final.accuracy, final.epoch, final.reference_batch) == (0.36, 1, 2048)
    assert found.notes == ["the accuracy is final_test_acc, 0.36; the last entry has acc_eval 0.3", STREAM]
    assert {f.check: f.basis for f in judge(found).findings} == {
        "depth": "missing", "reach": "missing", "chance": "missing", "spread": "missing", "size": "missing",
        "reference": "proxy", "scale": "missing",
    }  # fmt: skip


def test_the_same_without_the_number_of_blocks() -> None:
    log = SINGLE["log"] + [{"h_0_norm": 9, "h_L_norm": 5e4, "g_2_norm": 1e-7, "g_L_norm": 2e-7}]
    found = evidence_of_log({"log": log, "config": {}}, name="stem")[0]
    assert (found.name, found.rule, found.blocks) == ("stem", None, None)
    final = found.seeds[0].final
    assert (final.deepest_hidden, final.hidden_at) == (5e4, {0: 9.0})
    assert (final.deepest_gradient, final.gradient_at) == (2e-7, {2: 1e-7})
    assert (final.hidden_norms, final.gradient_norms, final.reference_batch, final.accuracy) == (None, None, None, None)


def test_ends_and_number_of_blocks_give_a_bound() -> None:
    log = {"config": {"depth": 4, "rule": "dfa"}, "log": [{"h_0_norm": 9, "h_L_norm": 5e8, "g_4_norm": 1.0}]}
    found = one(log)
    finding = scale(found)
    assert (finding.outcome, finding.basis) == ("fires", "bound")
    assert found.seeds[0].final.gradient_norms == [None, None, None, None, 1.0]


def test_final_accuracy_alone() -> None:
    assert one({"log": [], "final_test_acc": 0.4}).seeds[0].final.accuracy == 0.4
    assert one({"log": [{"acc_eval": 0.3}]}).seeds[0].final.accuracy == 0.3
    assert one({"log": [{"acc_eval": 0.4}], "final_test_acc": 0.4}).notes == []
    empty = one({"log": [{"epoch": 1, "h_L_norm": None}], "config": {"L": 3}})
    assert empty.seeds[0].final.hidden_norms is None


# --- ladders --------------------------------------------------------------------------------------------------------


def test_a_ladder_gives_subject_and_baselines() -> None:
    bp, dfa = evidence_of_log(LADDER)
    assert [(s.seed, s.final.accuracy) for s in dfa.seeds] == [(42, 0.30), (123, 0.302)]
    assert dfa.baselines["frozen"].accuracy == {"42": 0.35, "123": 0.351}
    assert dfa.baselines["frozen_bp"].accuracy == {"42": 0.38, "123": 0.39}
    assert dfa.baselines["bp"].accuracy == {"42": 0.61, "123": 0.62}
    assert (dfa.name, dfa.rule, dfa.depth, dfa.residual) == ("dfa", "dfa", None, None)
    assert dfa.notes == ["the top rung, k=4, is taken as the full net: the log does not say how many blocks it has"]
    assert bp.baselines["frozen"] == bp.baselines["frozen_bp"]
    assert judge(dfa, protocol="published").decided_by == ["depth"]
    assert judge(dfa).verdict == "open"  # of two seeds, and no shallow net


def test_a_ladder_that_says_its_depth() -> None:
    stated = evidence_of_log(LADDER | {"config": {"L": 4}})[1]
    assert (stated.name, stated.depth, stated.notes) == ("dfa", 4, [])
    part = evidence_of_log(LADDER | {"config": {"L": 6}})[1]
    assert (part.name, part.depth) == ("dfa k=4", 6)
    with pytest.raises(RecordError, match=r"results.bp: 4 blocks are trained of 3"):
        evidence_of_log(LADDER | {"config": {"L": 3}})


def test_ladders_with_gaps() -> None:
    only_frozen = one({"results": {"dfa": {"0": {"1": {"final_acc": 0.3}}}}})
    assert (only_frozen.seeds, only_frozen.baselines["frozen"].accuracy) == ([], {"1": 0.3})
    assert only_frozen.notes == [
        "the ladder has no rung with a trained block: there is no subject in it, only its frozen net"
    ]
    no_frozen = one({"results": {"dfa": {"2": {"1": {"final_acc": 0.3}, "2": {}}}}})
    assert no_frozen.baselines == {}
    assert [s.final.accuracy for s in no_frozen.seeds] == [0.3, None]
    uneven = evidence_of_log({"results": {"BP": {"2": {"1": {"final_acc": 0.6}}}, "fa": {"4": {"1": {}}}}})
    assert "bp" in uneven[0].baselines
    assert uneven[1].baselines == {}
    assert one({"results": {"dfa": {}}}).seeds == []


# --- what is stated in other ways -----------------------------------------------------------------------------------


GREW = [{"epoch": 1, "hidden_norms": [1, 100, 10000], "acc_eval": 0.5}]


@pytest.mark.parametrize(
    ("stated", "residual"), [("false", False), (0, False), ("yes", True), (1.0, True), ("?", None)]
)
def test_a_plain_net_is_not_taken_for_a_residual_one(stated: Any, residual: bool | None) -> None:
    found = one({"config": {"residual": stated}, "x_log": GREW})
    assert found.residual is residual
    assert (scale(found).outcome == "fires") == (residual is True)
    assert any("neither true nor false" in note for note in found.notes) == (residual is None)
    assert not any("so this is assumed" in note for note in found.notes)


@pytest.mark.parametrize("two", [2, 2.0, "2"])
def test_numbers_of_a_config_may_be_written_as_they_are(two: Any) -> None:
    entry = {"epoch": 1, "h_0_norm": 1, "h_L_norm": 9}
    found = one({"config": {"L": two, "seed": two, "eval_batch": two}, "log": [entry | {"g_L_norm": 1}]})
    assert (found.depth, found.seeds[0].seed, found.seeds[0].final.reference_batch) == (2, 2, 2)
    assert found.seeds[0].final.hidden_norms == [1, None, 9]


def test_a_config_that_cannot_be_read_is_told() -> None:
    found = one({"config": {"L": "four", "classes": 2.5}, "x_log": GREW})
    assert found.depth is None
    assert "config has L = 'four', which is no whole number: it counts as not stated" in found.notes
    assert "config has classes = 2.5, which is no whole number: it counts as not stated" in found.notes
    with pytest.raises(RecordError, match="seed is 'first', not a whole number"):
        one({"config": {"seed": "first"}, "x_log": GREW})


def test_entries_of_several_seeds_are_several_trainings() -> None:
    entries = [{"epoch": e, "seed": s, "acc_eval": 0.1 * s + 0.01 * e} for s in (1, 2, 3) for e in (1, 2)]
    found = one({"config": {"epochs": 2}, "x_log": entries})
    assert [(seed.seed, seed.final.accuracy) for seed in found.seeds] == [
        (1, pytest.approx(0.12)), (2, pytest.approx(0.22)), (3, pytest.approx(0.32)),
    ]  # fmt: skip
    assert "its entries are of 3 seeds, and each is a training of its own" in found.notes
    with pytest.raises(RecordError, match=r"x_log\[1\] states no seed, and others do"):
        one({"x_log": [{"epoch": 1, "seed": 1}, {"epoch": 2}]})
    with pytest.raises(RecordError, match="final_test_acc is one number, and the entries are of 3 seeds"):
        one({"log": entries, "final_test_acc": 0.5})


def test_an_accuracy_may_be_off_by_rounding() -> None:
    assert one({"x_log": [{"acc_eval": 1.0000001}]}).seeds[0].final.accuracy == 1
    with pytest.raises(RecordError, match="an accuracy is a share"):
        one({"x_log": [{"acc_eval": 1.00001}]})


# --- what cannot be read --------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("raw", "what"),
    [
        ([1], "the log is a list, not an object"),
        ("text", "the log is the text 'text', not an object"),
        (None, "the log is null, not an object"),
        (3, "the log is the number 3, not an object"),
        ({}, "the log is not a log format that walkback knows: at its top level it has nothing"),
        ({"b": 1, "a": 2}, "the log is not a log format that walkback knows: at its top level it has a, b"),
        ({"_log": []}, "the log is not a log format that walkback knows: at its top level it has _log"),
        ({"x_log": {}}, "the log: x_log is an object, not a list"),
        ({"x_log": [3]}, "the log: x_log[0] is the number 3, not an object"),
        ({"x_log": [{"acc_eval": "high"}]}, "the log: x_log[0]: acc_eval is the text 'high', not a number"),
        ({"x_log": [{"acc_eval": True}]}, "the log: x_log[0]: acc_eval is true, not a number"),
        ({"x_log": [{"acc_eval": [0.5]}]}, "the log: x_log[0]: acc_eval is a list, not a number"),
        (
            {"x_log": [{"acc_eval": 61.5}]},
            "the log: x_log[0]: acc_eval: an accuracy is a share",
        ),
        ({"x_log": [{"epoch": 1.5}]}, "the log: x_log[0]: epoch is 1.5, not a whole number"),
        ({"x_log": [{"epoch": math.nan}]}, "the log: x_log[0]: epoch is nan, not a whole number"),
        ({"x_log": [{"epoch": -1}]}, "the log: x_log[0]: epoch is -1, not a whole number"),
        ({"x_log": [{"hidden_norms": 3}]}, "the log: x_log[0]: hidden_norms is the number 3, not a list"),
        ({"x_log": [{"hidden_norms": [1, "x"]}]}, "the log: x_log[0]: hidden_norms[1] is the text 'x', not a number"),
        ({"x_log": [{"hidden_norms": [1, 2 * 10**308]}]}, "the log: x_log[0]: hidden_norms[1] is too large a number"),
        ({"x_log": [{"hidden_norms": [1, [2]]}]}, "the log: x_log[0]: hidden_norms[1] is a list, not a number"),
        (
            {"x_log": [{"hidden_norms": [1]}]},
            "the log: x_log[0]: by hidden_norms the net has no blocks",
        ),
        (
            {"x_log": [{"hidden_norms": [1, 2], "bp_grad_per_sample_l2_med": [1, 2, 3]}]},
            "the log: x_log[0]: its lists disagree about the number of blocks: hidden_norms means 1, gr",
        ),
        (
            {"x_log": [{"hidden_norms": [1, 2]}, {"hidden_norms": [1, 2, 3]}]},
            "the log: it disagrees about",
        ),
        ({"x_log": [{"hidden_norms": [1, 2]}], "config": {"L": 4}}, "the log: it disagrees about"),
        ({"x_log": [], "config": []}, "the log: x_log: config is a list, not an object"),
        ({"x_log": [], "config": {"L": 0}}, "the log: x_log: config has L = 0, which is impossible"),
        ({"log": 3}, "the log: log is the number 3, not a list"),
        ({"log": [[]]}, "the log: log[0] is a list, not an object"),
        ({"log": [], "final_test_acc": "x"}, "the log: final_test_acc is the text 'x', not a number"),
        ({"log": [{"h_9_norm": 1}], "config": {"L": 4}}, "the log: log[0]: h_9_norm is beyond the deepest state, h_4"),
        ({"results": []}, "the log: results is a list, not an object"),
        ({"results": {}}, "the log: results is empty"),
        ({"results": {"bp": []}}, "the log: results.bp is a list, not an object"),
        ({"results": {"bp": {"k": {}}}}, "the log: results.bp has the key 'k', not a number of blocks"),
        ({"results": {"bp": {"0": {"s": {}}}}}, "the log: results.bp.0 has the key 's', not a number of seed"),
        ({"results": {"bp": {"0": {"1": 0.5}}}}, "the log: results.bp.0.1 is the number 0.5, not an object"),
        (
            {"results": {"bp": {"0": {"1": {"final_acc": "x"}}}}},
            "the log: results.bp.0.1: final_acc is the text 'x', not a number",
        ),
    ],
)
def test_what_is_no_log_is_refused_in_words(raw: Any, what: str) -> None:
    with pytest.raises(RecordError) as error:
        evidence_of_log(raw)
    assert error.value.what.startswith(what)
    assert error.value.remedy


def test_files(tmp_path: Path) -> None:
    file = tmp_path / "anything.txt"
    file.write_text("\ufeff" + json.dumps(SINGLE), encoding="utf-8")
    assert [*map(values_of, read_log(file))] == [*map(values_of, evidence_of_log(SINGLE))]
    file.write_text(json.dumps({"log": []}))
    assert read_log(str(file))[0].name == "anything"
    for content in (json.dumps(METHODS)[:-20].encode(), b"", b"\xff\x00", b"[" * 100_000, b"1" * 5000):
        file.write_bytes(content)
        with pytest.raises(RecordError, match="is not valid JSON"):
            read_log(file)
    with pytest.raises(RecordError, match=r"cannot read .*absent.json: No such file"):
        read_log(tmp_path / "absent.json")
    with pytest.raises(RecordError, match="cannot read"):
        read_log(tmp_path)


JUNK = st.recursive(
    st.none() | st.booleans() | st.floats() | st.integers(-5, 300) | st.sampled_from(["x", "NaN", "1", ""]),
    lambda inner: (
        st.lists(inner, max_size=4)
        | st.dictionaries(
            st.sampled_from(
                [
                    "x_log",
                    "log",
                    "results",
                    "config",
                    "epoch",
                    "hidden_norms",
                    "acc_eval",
                    "h_L_norm",
                    "g_2_norm",
                    "L",
                    "0",
                    "4",
                    "42",
                    "bp",
                    "final_acc",
                    "seed",
                    "gamma",
                    "final_test_acc",
                    "bp_grad_per_sample_l2_med",
                ]
            ),
            inner,
            max_size=5,
        )
    ),
    max_leaves=25,
)


@settings(max_examples=300, deadline=None, suppress_health_check=list(HealthCheck), database=None)
@given(st.dictionaries(st.sampled_from(["x_log", "log", "results", "config", "seed", "final_test_acc"]), JUNK) | JUNK)
def test_whatever_it_is_it_is_read_or_refused_and_what_is_read_can_be_judged(raw: Any) -> None:
    try:
        found = evidence_of_log(raw)
    except RecordError:
        return
    for evidence in found:
        assert judge(evidence).verdict != "holds"
        assert judge(evidence, protocol="published").name == evidence.name


# --- several logs ---------------------------------------------------------------------------------------------------


def test_logs_of_different_seeds_are_joined() -> None:
    def log(seed: int | None, accuracy: float = 0.3) -> Evidence:
        return one({"dfa_log": [{"acc_eval": accuracy, "hidden_norms": [1, 2]}], "seed": seed})

    (joined,) = join_seeds([log(1), log(2), log(3)])
    assert [s.seed for s in joined.seeds] == [1, 2, 3]
    assert joined.notes == [STREAM]
    assert joined.blocks == 1
    assert len(join_seeds([log(1), log(1)])) == 2
    assert len(join_seeds([log(None), log(None)])) == 2
    assert len(join_seeds([log(1), one({"bp_log": [], "seed": 2})])) == 2
    longer = one({"dfa_log": [{"hidden_norms": [1, 2, 3]}], "seed": 2})
    assert len(join_seeds([log(1), longer])) == 2
    assert join_seeds([]) == []


def test_a_single_log_with_lists_of_norms_is_read_like_one_with_single_norms() -> None:
    norms = [9.0, 12.0, 2000.0, 2100.0, 2200.0]
    entry = {"epoch": 3, "acc_eval": 0.45}
    lists = entry | {"hidden_norms": norms, "gamma": 0.2}
    single = entry | {f"h_{layer}_norm": norm for layer, norm in enumerate(norms)} | {"gamma": 0.2}
    (one,), (other,) = (evidence_of_log({"config": {"L": 4}, "log": [each]}) for each in (lists, single))
    assert values_of(one) == values_of(other)
    assert one.seeds[0].final.hidden_norms == norms
    assert one.seeds[0].final.gamma == 0.2
    with pytest.raises(RecordError, match="gamma"):
        evidence_of_log({"config": {"L": 4}, "log": [entry | {"gamma": 1.7}]})
    (mixed,) = evidence_of_log({"config": {"L": 4}, "log": [lists | {"g_L_norm": 1e-4, "g_0_norm": 2e-4}]})
    assert mixed.seeds[0].final.hidden_norms == norms
    assert mixed.seeds[0].final.gradient_norms == [2e-4, None, None, None, 1e-4]
    (twice,) = evidence_of_log({"config": {"L": 4}, "log": [lists | {"h_L_norm": 2201.0, "h_0_norm": 9.0}]})
    assert values_of(twice) == values_of(one)
    for other_norm in (3.0, math.nan):
        with pytest.raises(RecordError, match=f"h_4_norm is {other_norm:g}, and hidden_norms has 2200 there"):
            evidence_of_log({"config": {"L": 4}, "log": [lists | {"h_L_norm": other_norm}]})
    with pytest.raises(RecordError, match="h_7_norm is beyond the end of hidden_norms"):
        evidence_of_log({"config": {}, "log": [lists | {"h_7_norm": 3.0}]})
    diverged = entry | {"hidden_norms": [9.0, None, math.nan], "h_L_norm": math.nan, "h_1_norm": 3.0}
    assert math.isnan(evidence_of_log({"log": [diverged]})[0].seeds[0].final.hidden_norms[2])
    (named,) = evidence_of_log({"config": {"method": "dfa"}, "log": [entry | {"gamma_dfa": 0.2}]})
    assert named.seeds[0].final.gamma == 0.2


def test_a_log_by_method_with_single_norms_is_read_too() -> None:
    single = {"epoch": 3, "acc_eval": 0.45, "h_0_norm": 9.0, "h_L_norm": 2200.0, "g_L_norm": 1e-4}
    (by_method,) = evidence_of_log({"config": {"L": 2, "eval_batch": 128}, "dfa_log": [single]})
    (alone,) = evidence_of_log({"config": {"L": 2, "eval_batch": 128, "method": "dfa"}, "log": [single]})
    assert values_of(by_method) == values_of(alone)
    assert alone.seeds[0].final.hidden_norms == [9.0, None, 2200.0]
    assert alone.seeds[0].final.reference_batch == 128


def test_keys_that_nothing_is_read_from_are_named() -> None:
    entry = {"epoch": 3, "acc_eval": 0.45, "hidden_norm": [9.0, 12.0, 2000.0], "lr": 0.1, "note": None}
    for log in ({"dfa_log": [entry]}, {"config": {"method": "dfa"}, "log": [entry]}):
        (evidence,) = evidence_of_log(log)
        assert evidence.notes[0].startswith("nothing is read from 'hidden_norm', 'lr' in its entries; docs/judge-a-log")
    (many,) = evidence_of_log({"dfa_log": [{f"key_{number}": 1 for number in range(9)}]})
    assert "'key_5' and 3 more in its entries" in many.notes[0]
    (all_read,) = evidence_of_log(
        {"dfa_log": [{"epoch": 1, "seed": 2, "acc_eval": 0.4, "loss": 1.0, "gamma_dfa": 0.1}]}
    )
    assert all_read.notes == []
