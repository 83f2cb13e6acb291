"""Which form of a rule a name stands for is said below every table and figure that lists it, and of no other rule."""

import io

import pytest
from rich.console import Console

import walkback as wb
from conftest import small_plan
from report_material import write_runs
from walkback.audits import report_paths
from walkback.checks import Audit
from walkback.cli import app
from walkback.cli.app import show_audit
from walkback.report.audit_tables import audit_tables
from walkback.report.case import VARIANTS, variant, variant_words
from walkback.report.catalogue import catalogue
from walkback.rules import RULES, rule_words

WORDS = "dfa: normalised per sample; fa: a chain by blocks with the exact top."


@pytest.mark.parametrize("rule", VARIANTS)
def test_the_first_sentence_of_the_rule_says_it_in_the_same_words(rule):
    assert VARIANTS[rule] in rule_words(rule)["summary"]
    console = Console(file=io.StringIO(), width=120)
    console.print(catalogue(rule))
    assert VARIANTS[rule] in " ".join(console.file.getvalue().split())


def test_the_words_on_normalisation_are_what_the_rules_do():
    assert {rule: RULES.get(rule).default_normalize for rule in VARIANTS} == {
        "dfa": "sample", "dfa-plain": "none", "fa": "none", "fa-layer": "none"
    }  # fmt: skip


def test_closed_form_options_that_change_the_form_change_the_words():
    plain = small_plan(rules=["dfa"])
    (other,) = small_plan(rules=["dfa"], rule_options={"normalize": "none"})
    assert variant_words(plain) == "dfa: normalised per sample."
    assert variant_words([*plain, other]) == "dfa: normalised per sample or not normalised."
    assert variant_words([*small_plan(rules=["fa", "bp"]), *plain, *plain]) == WORDS
    assert variant("fa", {"normalize": "sample"}) == "a chain by blocks with the exact top, normalised per sample"
    assert variant("dfa-plain", {"normalize": "batch"}) == "Nøkland's, normalised over the batch"
    assert variant_words(small_plan(rules=["bp", "usf"])) == variant_words([]) == ""


def test_it_stands_below_the_terminals_table_and_in_the_footnotes(tmp_path, capsys, monkeypatch):
    monkeypatch.setenv("COLUMNS", "80")
    write_runs(tmp_path)
    app(["judge", str(tmp_path)], result_action="return_value")
    output = capsys.readouterr().out
    assert WORDS in " ".join(output.split())
    assert max(map(len, output.splitlines()[:12])) <= 80
    assert all(WORDS in " ".join(table.notes) for table in audit_tables(report_paths(tmp_path)))


def test_planted_a_strangers_subject_named_dfa_is_not_said_to_be_ours(tmp_path, capsys):
    """What a name stands for is known of our own runs alone, not of an audit.json or a log."""
    wb.judge_paths(write_runs(tmp_path / "runs")).write(tmp_path)
    audit = Audit.read(tmp_path)
    show_audit(audit, None, strict=False)
    assert "normalised" not in capsys.readouterr().out
    assert not any("normalised" in note for table in audit_tables(audit) for note in table.notes)
