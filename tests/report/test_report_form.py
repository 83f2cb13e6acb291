"""The reporting form: filled in from records, blank where they are silent, and each answer seen to flip."""

import gc
import hashlib
import json
import re
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from fake_runs import write_run
from latex_sound import compiles, sound
from report_material import config as few
from report_material import write_run as write_few
from test_checks_planted import BEGUN, around, by_seed, dead, ok, precise, subject
from test_report_tables import DEMO, HOSTILE, ROOT, command, renamed
from walkback.audits import audits_of
from walkback.checks import DEFAULT, Audit, Control, judge
from walkback.errors import RecordError
from walkback.records import Baseline, Evidence, Moment, Run, Subject, Training, read_run
from walkback.records.evidence import Effort
from walkback.records.subjects import KEPT
from walkback.report.case import Case
from walkback.report.form import Form, fill, rendered, write_form
from walkback.rules import rule_words
from walkback.train import plan

RULES = Path(__file__).parents[2] / "docs/write-a-rule.md"
CIFAR = [ROOT / f"results/cifar10-resmlp-{name}" for name in (
    "dfa-s42-7ed32e6e40", "dfa_k_0-s42-aebaf31b2a", "bp-s42-14eb38d48d", "bp_k_0-s42-245979d1be")]  # fmt: skip


def render(forms: list[Form], form: str) -> str:
    return "".join(rendered(forms, form))


def forms(*paths: Path) -> list[Form]:
    return [fill(case, audit) for audit in audits_of(*paths) for case in audit.cases]


def rows(form: Form, section: str) -> dict[str, str | None]:
    (found,) = [s for s in form.sections if s.title == section]
    return {label: value for label, value, _ in found.rows}


def why(form: Form, section: str, label: str) -> str:
    (found,) = [s for s in form.sections if s.title == section]
    return next(why for name, _, why in found.rows if name == label)


class Answered(NamedTuple):
    """How a pitfall's question is answered, and why."""

    answer: str
    says: str


def answers(form: Form) -> dict[str, Answered]:
    """By a word of the question."""
    words = {"reference batch": "batch", "frozen baseline": "frozen", "either frozen": "either", "growth": "growth",
             "clamp": "clamp", "precision": "precision", "feedback weights": "feedback", "left out": "dead",
             "Student": "interval", "values of its blocks": "gamma", "without its blocks": "shallow",
             "own learning rate": "rates", "symptoms": "symptoms"}  # fmt: skip
    (found,) = [s for s in form.sections if s.title == "Pitfalls"]
    keys = [next(key for word, key in words.items() if word in label) for label, *_ in found.rows]
    assert len(set(keys)) == len(found.rows)
    return {key: Answered(value or "not known", why) for key, (_, value, why) in zip(keys, found.rows, strict=True)}


# --- from committed records -----------------------------------------------------------------------------------------


@pytest.mark.parametrize(("option", "says"), [("sample", "sample"), (False, "no"), (1e300, "1e+300"), (7, "7")])
def test_the_form_prints_a_strange_option_as_the_config_has_it(tmp_path, option, says):
    (config,) = plan(rules=["dfa"], seeds=[42], epochs=2)
    folder = write_run(tmp_path, config.changed(rule_options={"normalize": option}))
    found = forms(folder)
    assert rows(found[0], "Method")["Credits normalised"] == says
    assert says in render(found, "markdown")
    assert render(found, "latex")


def test_the_numbers_of_the_layers_are_those_of_the_last_snapshot():
    dfa, _ = forms(*CIFAR)
    last = read_run(CIFAR[0]).snapshots[-1]
    table = next(s.table for s in dfa.sections if s.title == "Alignment")
    for layer, row in enumerate(table.rows):
        assert row[1].mean == pytest.approx(last.hidden_norms[layer])
        assert row[2].mean == pytest.approx(last.gradient_norms[layer])
        if layer < 4:
            assert row[3].mean == last.cosine[layer].value
            assert row[4].mean == last.cosine_out[layer].value
    at_output = sum(cosine.value for cosine in last.cosine_out) / 4  # where our protocol judges it
    assert rows(dfa, "Alignment")["Γ, mean ± std"] == f"{at_output:+.3f} (n = 1)"


def test_an_audit_alone_gives_its_verdicts_and_controls_and_says_what_it_lacks():
    bp, dfa, fa = forms(DEMO)
    assert [f.subject for f in (bp, dfa, fa)] == ["bp", "dfa", "fa"]
    assert rows(dfa, "Accuracy")["Test accuracy, mean ± std"] == "0.302 ± 0.001 (n = 5)"
    assert rows(bp, "Checks")["Accuracy"].startswith("holds at one rate; its own frozen net: +19.")
    assert rows(bp, "Checks")["Lower half"].startswith("open; +5.0 points (")
    assert rows(dfa, "Checks")["Γ"] == "carried by few; 0.13, stands for 1.0 of 3 blocks; median block 0.00"
    assert rows(dfa, "Checks")["Learning rates"] == "one rate for all"
    assert "name its runs" in why(dfa, "Method", "Rule")
    assert answers(dfa)["interval"].answer == "yes"
    judged = {key: q.answer for key, q in answers(dfa).items() if q.answer != "not known"}  # by the audit alone
    assert judged == {"interval": "yes", "shallow": "yes", "rates": "no", "symptoms": "no"}
    assert "| random | neither holds nor even | walked back, Γ chance | yes |" in render([dfa], "markdown")


# --- answers flip when the evidence does ----------------------------------------------------------------------------


@pytest.fixture(scope="module")
def a_run(tmp_path_factory) -> Run:
    (config,) = plan(rules=["fa"], seeds=[42], epochs=1, net_options={"width": 8, "depth": 4})
    return read_run(write_run(tmp_path_factory.mktemp("form"), config))


def case(evidence: Evidence, runs: list[Run], **more: Any) -> tuple[Case, Audit]:
    found = judge(evidence, more.get("thresholds", DEFAULT), more.get("protocol", "ours"))
    audit = Audit(valid=True, says="Said.", protocol=found.protocol, thresholds=DEFAULT, controls=[], subjects=[found])
    return Case(found, Subject(evidence.name, evidence, runs=runs)), audit


TUNED = Effort(tuned=True, trials=dict.fromkeys(("subject", *BEGUN), 5))
UNEQUAL = Effort(tuned=True, trials={"subject": 5, "bp": 3})
GROWN = {"hidden_norms": [9.0, 600.0, 4e4, 3e6, 2e8]}
HIGH = {"frozen_bp": around(0.590)}  # by bp's frozen net it would fall short
FLIPS: dict[str, list[tuple[Evidence, str, str]]] = {
    "batch": [
        (subject({"reference_batch": None}), "not known", "1/N"),
        (subject({}, {"reference_batch": 1024}, {}), "no", "N = 128 and 1024"),
        (subject({"gradient_norms": None, "reference_batch": None}), "not known", "no gradient norm"),
    ],
    "frozen": [
        (subject(baselines={"frozen": Baseline.number(0.349)}), "no", "typed in, 0.349"),
        (subject(baselines={"frozen": by_seed(0.35, None, 0.35, 0.35, 0.35)}), "no", "lacks the accuracy of seed 123"),
        (subject(baselines={"frozen": None}), "not known", "frozen net is not recorded"),
    ],
    "either": [
        (subject(baselines=HIGH | {"bp": around(0.9)}), "no", "depth fires, walked back"),
        (subject(baselines={"frozen_bp": None}), "not known", "missing: bp's"),
    ],
    "growth": [
        (subject({"hidden_norms": [9.0, None, None, None, 4e4]}), "no", "at least"),
        (subject({"hidden_norms": None}), "not known", "not there"),
    ],
    "clamp": [(subject({"cosine": None}), "not known", "")],
    "precision": [
        (subject({"precision": None}), "no", "not on every seed"),
        (subject({}, {"precision": precise(status="zero gradient")}, {}), "no", "zero gradient"),
    ],
    "feedback": [
        (subject({"cosine": [dead("not available")] * 4}), "no", "not available"),
        (subject({"cosine": None}), "not known", ""),
    ],
    "dead": [(subject({"cosine": None}), "not known", "")],
    "interval": [
        (subject(accuracy=(0.6,)), "no", "one seed gives no interval"),
        (subject(baselines={"frozen": None}), "not known", "no gain"),
    ],
    "gamma": [
        (subject({"cosine": None}), "no", "not the values of the blocks"),
        (subject({"gamma": None}), "not known", "no Γ"),
    ],
    "shallow": [(subject(baselines={"shallow": None}), "not known", "no shallow net is recorded")],
    "rates": [
        (subject(effort=None), "no", "one rate for all"),
        (subject(effort=UNEQUAL), "no", "3 to 5 trials"),
        (subject(baselines=dict.fromkeys(BEGUN), effort=None), "not known", "nothing is compared"),
    ],
    "symptoms": [
        (subject(GROWN), "no", "One block grows the stream"),
        (subject(effort=UNEQUAL), "no", "Unequal effort"),
        (subject({"hidden_norms": None}), "not known", "not there"),
    ],
}  # fmt: skip


@pytest.mark.parametrize("key", FLIPS)
def test_an_answer_flips_when_its_evidence_does_and_no_other_evidence_is_there_for_it(key, a_run):
    whole = answers(fill(*case(subject(effort=TUNED), [a_run])))
    assert key in whole
    assert {q.answer for q in whole.values()} == {"yes"}
    for evidence, answer, says in FLIPS[key]:
        found = answers(fill(*case(evidence, [a_run])))[key]
        assert found.answer == answer, found
        assert says in found.says


def test_answers_have_their_numbers(a_run):
    half = ok(0.9).changed(alive=200)
    evidence = subject({"cosine": [half] * 4, "precision": precise(3e-7, 0.4)})
    found = answers(fill(*case(evidence, [a_run])))
    assert found["dead"].says == "at most 56 of 256 in a block"
    assert found["clamp"].says == "F.cosine_similarity would be off by 0.4 at g_L"
    assert found["precision"].says == "its direction at g_L is off by 3e-07"
    assert found["interval"].says.startswith("98.75%, n = 5: +2")
    assert answers(fill(*case(subject(), [a_run], protocol="published")))["interval"].answer == "no"


def test_the_checks_controls_and_baselines_are_there_with_their_numbers(a_run):
    evidence = subject(GROWN, baselines={"shallow": None})
    plain, audit = case(evidence, [a_run])
    control = Control(name="bp", expected="holds", got="holds", ok=True)
    made = render([fill(plain, audit.changed(controls=[control]))], "markdown")
    assert "- **Accuracy**: open; its own frozen net: +25.0 points (+22.3 to +27.7)" in made
    assert "the shallow net: not known" in made
    assert "- **Symptom, which decides nothing**: One block grows the stream 75×" in made
    assert "| scale | fires | 75.0 | 75.0 | 75.0 | 50 | exact |" in made
    assert "| own frozen net | 0.350 ± 0.001 | 5 | +25.0 (+22.3 to +27.7) | measured |" in made
    assert "| shallow net | – | 0 | – | not there |" in made
    assert "| bp | holds | holds | yes |" in made
    made = render([fill(plain, audit)], "markdown")
    assert "- **Controls**: ____ (Said.)" in made
    assert "**Validity**" not in made
    made = render([fill(replace(plain, controlled=False), audit)], "markdown")
    assert "- **Validity**: Not controlled: no controls were trained in its setting." in made
    failed = audit.changed(valid=False, controls=[control.changed(got="open", ok=False)])
    made = render([fill(replace(plain, counts=False), failed)], "markdown")
    assert "- **Validity**: This audit is invalid: its verdicts do not count. Said." in made
    assert "- **Accuracy**: does not count: open; " in made


# --- what is not there ----------------------------------------------------------------------------------------------


def test_a_run_without_its_probes_or_environment_has_blanks_with_a_reason(a_run):
    (a_run.path / "environment.json").rename(a_run.path / "taken")
    (form,) = forms(a_run.path)
    (a_run.path / "taken").rename(a_run.path / "environment.json")
    assert rows(form, "Seeds")["Trained with"] is None
    assert rows(form, "Seeds")["Feedback weights and their seed"] is None
    assert "was not measured" in why(form, "Seeds", "Feedback weights and their seed")
    assert rows(form, "Data")["Fingerprint of the data"] is None
    assert answers(form)["precision"].answer == "no"
    assert answers(form)["gamma"].answer == "yes"
    made = render([form], "markdown")
    assert "- **Trained with**: ____ (the runs do not tell)" in made
    sound(render([form], "latex"))


def test_nothing_at_all_is_a_form_of_blanks():
    for evidence in (Evidence(name="x"), Evidence(name="x", seeds=[Training(seed=1, moments=[Moment()])])):
        form = fill(*case(evidence, []))
        assert {q.answer for q in answers(form).values()} == {"not known"}
        assert rows(form, "Accuracy")["Test accuracy, mean ± std"] is None
        sound(render([form], "latex"))


def entry(hidden: list[float], **more: Any) -> dict[str, Any]:
    norms = {"hidden_norms": hidden, "bp_grad_norms_per_sample_med": [4e-4] * len(hidden)}
    return {"epoch": 9, "acc_eval": 0.3, "gamma_dfa": 0.1} | norms | more


def test_a_foreign_log_fills_what_it_says_and_leaves_the_rest(tmp_path):
    log = tmp_path / "log.json"
    log.write_text(json.dumps({"config": {"seed": 7}, "dfa_log": [entry([9.0, 20.0, 30.0])]}))
    (form,) = forms(log)
    assert rows(form, "Method")["Rule"] == "dfa"
    assert rows(form, "Method")["Credit of block l"] is None
    assert why(form, "Method", "Credit of block l") == "the log does not say"
    assert rows(form, "Net")["Blocks L"] == "2"
    assert rows(form, "Seeds")["Seeds"] == "7"
    assert rows(form, "Alignment")["Γ, mean ± std"] == "+0.100 (n = 1)"
    assert rows(form, "Alignment")["Γ is the"] is None
    found = {key: q.answer for key, q in answers(form).items()}
    assert found == dict.fromkeys(found, "not known") | {"growth": "yes", "gamma": "no", "symptoms": "yes"}
    assert "batch that is not known" in render([form], "markdown")
    log.write_text(json.dumps({"config": {"seed": 7, "eval_batch": 1024}, "dfa_log": [entry([9.0, 20.0, 30.0])]}))
    (form,) = forms(log)
    assert answers(form)["batch"].says == "N = 1024"
    assert "| 0 | 9.0 | 3.2e-03 |" in render([form], "markdown")  # stated at 128
    log.write_text(json.dumps({"config": {"L": 4}, "log": [{"epoch": 1, "h_L_norm": 4e8, "h_0_norm": 9.0}]}))
    (form,) = forms(log)
    assert answers(form)["growth"].answer == "no"


# --- a rule of the user's own ---------------------------------------------------------------------------------------


@pytest.fixture
def own_rule(tmp_path, monkeypatch):
    """The rule of docs/write-a-rule.md in a file, and a run that was trained by it."""
    text = re.search(r"```python\n(.*?)```", RULES.read_text(), re.S)[1]
    monkeypatch.chdir(tmp_path)
    Path("mine.py").write_text(text)
    (config,) = plan(rules=["mine.py:SignSymmetry"], seeds=[1], epochs=1, net_options={"width": 8, "depth": 2})
    write_run(tmp_path / "runs", config)
    return Path("mine.py"), text


def test_a_users_rule_has_the_words_of_its_docstring_while_it_is_what_was_trained(own_rule):
    file, text = own_rule
    (form,) = forms(Path("runs"))
    method = rows(form, "Method")
    assert method["Rule"] == "mine.py:SignSymmetry"
    assert method["Credit of block l"].startswith("a_{L−1} = ∂ℓ/∂h_L exactly")
    assert method["Further options"] == "gain = 0.1"
    sound(render([form], "latex"))
    file.write_text(text.replace("exactly", "nearly"))
    (form,) = forms(Path("runs"))
    assert why(form, "Method", "Credit of block l") == "the rule has changed since the run"
    assert rows(form, "Method")["Credits normalised"] == "none"
    file.unlink()
    (form,) = forms(Path("runs"))
    assert why(form, "Method", "Credit of block l") == "its file mine.py is not here"


def test_a_rules_file_is_read_and_never_run(tmp_path):
    file = tmp_path / "bad.py"
    file.write_text(
        f'open({str(tmp_path / "ran")!r}, "w")\nclass Bad:\n    """Words.\n\n    credit  a_l = 1\n    """\n'
    )
    digest = hashlib.sha256(file.read_bytes()).hexdigest()[:16]
    found = rule_words(f"{file}:Bad", digest)
    assert found == rule_words(str(file), digest)
    assert found == {"credit": "a_l = 1", "summary": "Words.", "text": "Words. credit a_l = 1"}
    assert not (tmp_path / "ran").exists()


@pytest.mark.parametrize("text", ["class Bad:\n    pass\n", "class Other:\n    '''x'''\n", "def (", "\x00"])
def test_error_a_rule_without_words_is_a_blank_and_no_failure(own_rule, text):
    file, _ = own_rule
    file.write_text(text)
    (form,) = forms(Path("runs"))
    assert rows(form, "Method")["Credit of block l"] is None
    assert why(form, "Method", "Credit of block l")


# --- written down ---------------------------------------------------------------------------------------------------


def hostile_forms() -> list[Form]:
    audit = renamed(Audit.read(DEMO), HOSTILE)
    evidences = [Evidence(name=judgement.name, rule=judgement.name) for judgement in audit.subjects[:4]]
    return [
        fill(Case(judgement.changed(notes=HOSTILE), Subject(evidence.name, evidence)), audit)
        for judgement, evidence in zip(audit.subjects, evidences, strict=False)
    ]


def test_hostile_names_do_nothing():
    made = hostile_forms()
    sound(render(made, "latex"))
    text = render(made, "markdown")
    assert "<script" not in text
    assert all(c.isprintable() or c == "\n" for c in text)
    boxes = [line for line in text.splitlines() if line.startswith("- [")]
    assert len(boxes) == 13 * len(made)
    for line in boxes:
        assert line.startswith("- [x] ") == ("? **yes** (" in line)
        assert any(mark in line for mark in ("**yes**", "**no**", "____"))
    assert text.count("\n---\n") == len(made) - 1


def test_forms_are_filled_in_one_after_the_other_and_their_evidence_is_not_kept(tmp_path):
    """Of more subjects than are kept in memory."""
    for number in range(KEPT + 20):
        write_few(tmp_path, few("dfa", 1, 1, penalty=number * 1e-4), 1.2, 0.3, [0.4] * 3)
    (audit,) = audits_of(tmp_path)
    alive = []

    def each() -> Iterator[Form]:
        for number, case in enumerate(audit.cases):
            yield fill(case, audit)
            if number % 10:
                continue  # to look at everything takes long
            gc.collect()
            names = {thing.name for thing in gc.get_objects() if type(thing) is Evidence}
            alive.append(sum(name.startswith("dfa λ") for name in names))

    assert write_form(each(), "markdown", tmp_path / "form.md").read_text().count("# Reporting form") == KEPT + 20
    assert max(alive) <= KEPT + 2


def test_error_a_form_that_cannot_be_finished_leaves_the_file_as_it_was(tmp_path):
    file = tmp_path / "form.md"
    file.write_text("old")

    def each() -> Iterator[Form]:
        yield Form("one", [], "")
        raise RecordError("the second cannot be read", "")

    with pytest.raises(RecordError, match="second"):
        write_form(each(), "markdown", file)
    assert file.read_text() == "old"
    assert [*tmp_path.iterdir()] == [file]


@pytest.mark.latex
def test_all_forms_compile(a_run, tmp_path):
    evidences = [subject(), subject(baselines=dict.fromkeys(BEGUN)), Evidence(name="nothing")]
    made = [fill(*case(evidence, [a_run] if evidence.seeds else [])) for evidence in evidences]
    compiles([render([*made, *forms(*CIFAR), *forms(DEMO)], "latex"), render(hostile_forms(), "latex")], tmp_path)


@pytest.mark.parametrize("form", ["markdown", "latex"])
def test_form_prints_and_writes_the_same(tmp_path, capsys, form):
    assert command("form", *CIFAR, "--format", form) == 0
    printed = capsys.readouterr().out
    file = tmp_path / "new/form.txt"
    assert command("form", *CIFAR, "--format", form, "--to", file) == 0
    assert printed == file.read_text() + "\n"
    assert printed.count("Reporting form: ") == 2
