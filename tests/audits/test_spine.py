"""The spine, attacked: neither what is left out nor how subjects are named makes an audit valid.

The records of tests/records/test_controls_stay.py are folders; here the subjects themselves are tampered with.
"""

import pytest

from report_material import write_runs
from walkback.audits import audit_subjects
from walkback.checks import Audit
from walkback.records import Evidence, Subject, Training, find_runs, read_run, subjects_of_runs


@pytest.fixture(scope="module")
def evidence(tmp_path_factory) -> dict[str, Evidence]:
    """By rule: bp and random behave, of five seeds."""
    out = write_runs(tmp_path_factory.mktemp("spine") / "runs", seeds=5, epochs=2, controls=True)
    return {s.name: s.evidence for s in subjects_of_runs([read_run(path) for path in find_runs(out)])}


def first(evidence: Evidence, seeds: int) -> Evidence:
    """With so many of its seeds; its baselines keep theirs."""
    return evidence.changed(seeds=evidence.seeds[:seeds])


def loop(evidence: dict[str, Evidence], name: str = "mine", **changed: Evidence | None) -> list[Subject]:
    """The subjects of one loop, whose rule is fa; `changed`: with another evidence, or without it."""
    inits = [Training(moments=[seed.init]) for seed in evidence["bp"].seeds[:1]]
    every = {"fa": evidence["fa"], "bp": evidence["bp"], "random": evidence["random"]} | changed
    shared = {"setting": f"{name} {id(inits)}", "setting_name": name, "inits": inits}
    return [
        Subject(name if rule == "fa" else rule, each, control="" if rule == "fa" else rule, **shared)
        for rule, each in every.items() if each is not None
    ]  # fmt: skip


def failed(audit: Audit) -> dict[str, str]:
    return {control.name: control.got for control in audit.controls if not control.ok}


def test_a_loop_with_its_controls_is_valid_and_noise_is_not_among_the_subjects(evidence):
    audit = audit_subjects(loop(evidence))
    assert (audit.valid, audit.says) == (True, "Every control behaved as expected.")
    assert [subject.name for subject in audit.subjects] == ["mine", "bp"]
    assert [case.judgement.name for case in audit.control_cases] == ["random"]
    assert audit.settings == []


@pytest.mark.parametrize(("rule", "remedy"), [("bp", "Give train_bp"), ("random", "it trains what is missing")])
def test_planted_a_loop_without_a_control_is_invalid_and_says_what_to_do(evidence, rule, remedy):
    audit = audit_subjects(loop(evidence, **{rule: None}))
    assert (audit.valid, audit.exit_status()) == (False, 4)
    assert failed(audit) == {rule: "not trained"}
    assert remedy in audit.says


def test_planted_noise_of_two_seeds_excuses_nobody(evidence):
    """Its interval is wide enough for anything. Three are what an audit begins with, however many its subject gets."""
    assert audit_subjects(loop(evidence, random=first(evidence["random"], 3))).valid
    audit = audit_subjects(loop(evidence, random=first(evidence["random"], 2)))
    assert audit.valid is False
    assert failed(audit) == {"random": "it has 2 seeds, which show nothing beside a subject of 5"}
    assert "its gain over the frozen net is not known" in failed(
        audit_subjects(loop(evidence, random=first(evidence["random"], 1)))
    )["random"]  # fmt: skip
    both = {"fa": first(evidence["fa"], 2), "bp": first(evidence["bp"], 2), "random": first(evidence["random"], 2)}
    assert audit_subjects(loop(evidence, **both)).valid, "where all have two, nothing was left out"


@pytest.mark.parametrize("seeds", [1, 2, 3, 4])
def test_law_seeds_of_bp_that_are_left_out_settle_nothing(evidence, seeds):
    """Of the few that are chosen bp may gain clearly: a subject with more seeds is open all the same."""
    whole = judge(evidence, 5)
    less = judge(evidence, seeds)
    assert whole["bp"] == "holds at one rate"
    assert whole["mine"] == "walked back"
    assert less["mine"] == "open"


def judge(evidence: dict[str, Evidence], seeds: int) -> dict[str, str]:
    """The answers on accuracy where bp, as a baseline too, has so many seeds."""
    few = evidence["fa"].baselines["bp"]
    known = dict([*few.accuracy.items()][:seeds])
    baselines = evidence["fa"].baselines | {"bp": few.changed(accuracy=known)}
    changed = {"fa": evidence["fa"].changed(baselines=baselines), "bp": first(evidence["bp"], seeds)}
    return {subject.name: subject.answer for subject in audit_subjects(loop(evidence, **changed)).subjects}


def test_planted_two_loops_of_one_name_are_told_apart(evidence):
    """One has no bp: its answers do not count, and those of the other do."""
    audit = audit_subjects([*loop(evidence), *loop(evidence, bp=None)])
    assert [subject.name for subject in audit.subjects] == ["mine", "bp", "mine · 2"]
    assert {s.name: (s.valid, s.subjects) for s in audit.settings} == {
        "mine": (True, ["mine", "bp"]), "mine · 2": (False, ["mine · 2"]),
    }  # fmt: skip
    assert failed(audit) == {"bp of mine · 2": "not trained"}
    assert audit.says == (
        "This audit is invalid: bp of mine · 2: expected gains by depth, Γ even, got not trained. Without a bp "
        "reference, accuracy cannot be judged. Give train_bp, or train_batches for a plain loop of walkback. The "
        "verdicts of mine · 2 do not count. Those of the other settings do."
    )
    assert {subject.name: audit.counts(subject.name) for subject in audit.subjects} == {
        "mine": True, "bp": True, "mine · 2": False,
    }  # fmt: skip


def test_a_control_that_is_asked_for_is_shown_and_controls_all_the_same(evidence):
    audit = audit_subjects(loop(evidence), only=["random", "mine", "random"])
    assert [subject.name for subject in audit.subjects] == ["random", "mine"]
    assert [case.judgement.name for case in audit.control_cases] == ["bp"]
    assert (audit.valid, len(audit.controls)) == (True, 3)


def test_where_there_is_nothing_but_noise_it_is_shown(evidence):
    audit = audit_subjects(loop(evidence, fa=None, bp=None))
    assert [subject.name for subject in audit.subjects] == ["random"]
    assert audit.valid is False


def test_planted_a_subject_without_a_setting_is_not_controlled(evidence):
    """A log beside a valid loop, under the name of its subject."""
    audit = audit_subjects([*loop(evidence), Subject("mine", evidence["fa"])])
    assert (audit.valid, audit.not_controlled, audit.exit_status()) == (None, ["mine · 2"], 4)
    assert "Not controlled: mine · 2; no controls were trained in their setting." in audit.says
    alone = audit_subjects([Subject("mine", evidence["fa"])], alone="Nothing was trained.")
    assert (alone.valid, alone.says, alone.controls) == (None, "Nothing was trained.", [])
