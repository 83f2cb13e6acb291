"""Names, sentences and remarks: what a reader of an audit sees first. Oracles: by hand, and what the records say."""

from io import StringIO

import pytest
from rich.console import Console

from report_material import config, write_many, write_run, write_runs
from walkback.audits import compare_paths, judge_paths, report_paths
from walkback.audits.rule_cards import cards_of_folder, measure_cards
from walkback.checks import DEFAULT, Control, judge
from walkback.cli import main
from walkback.errors import WalkbackError
from walkback.records import Baseline, Cosine, Evidence, Moment, Null, Precision, Training
from walkback.records.card import Card, cards_beside, read_cards, write_cards
from walkback.records.config_names import subject_names
from walkback.report.answers import answers, remedy, sentence
from walkback.report.case import distinct
from walkback.report.compare import print_comparison
from walkback.report.page import comparison_page, page


def options(**changes):
    return {"net_options": {"width": 128, "depth": 3, "terminal_norm": True, "gains": False, "skip": True} | changes}


def test_names_say_what_differs_and_nothing_else():
    configs = [config("bp"), config("dfa"), config("dfa", **options(terminal_norm=False)), config("dfa", epochs=30)]
    assert subject_names(configs) == ["bp", "dfa", "dfa · no terminal norm", "dfa · 30 epochs"]


def test_names_that_would_read_alike_are_told_apart():
    same = [config("dfa", rule_options={"gain": value}) for value in (1, 1.0, "1")]
    found = subject_names(same)
    assert len(set(found)) == len({c.hash() for c in same})


def test_shortened_names_never_become_equal():
    long = [f"{'x' * 80}{n}{'y' * 80}" for n in range(30)]
    short = distinct(long)
    assert len(set(short)) == 30
    assert max(map(len, short)) < 70


def margins(gains, bp=0.3, shallow=0.2):
    """A subject whose seeds gain that over its frozen net, and more over the shallow one; bp clears the margin."""
    seeds = [Training(seed=n, moments=[Moment(epoch=1, accuracy=0.4 + g)]) for n, g in enumerate(gains)]
    every = range(len(gains))
    baselines = {
        "frozen": Baseline.by_seed(dict.fromkeys(every, 0.4)), "frozen_bp": Baseline.by_seed(dict.fromkeys(every, 0.3)),
        "bp": Baseline.by_seed({n: 0.3 + bp + 0.001 * n for n in every}),
        "shallow": Baseline.by_seed(dict.fromkeys(every, shallow)),
    }  # fmt: skip
    return Evidence(name="x", residual=True, seeds=seeds, baselines=baselines)


def finding(evidence, check):
    judgement = judge(evidence, DEFAULT, "ours")
    return judgement, next(f for f in judgement.findings if f.check == check)


def test_the_sentence_names_the_gain_over_each_baseline():
    judgement, found = finding(margins([-0.024, -0.025, -0.023]), "depth")
    assert found.outcome == "fires"
    assert sentence(judgement) == (
        "Training its blocks costs 2.4 points over its own frozen net and gains 17.6 points over the shallow net."
    )
    judgement, found = finding(margins([0.004, 0.005, 0.006], shallow=0.403), "depth")
    assert found.value == pytest.approx(0.002)  # the lesser of the two
    words = "0.5 points over its own frozen net and gains 0.2 points over the shallow net"
    assert words in sentence(judgement)


def test_an_interval_that_straddles_asks_for_seeds_and_for_nothing_else():
    judgement, found = finding(margins([-0.01, 0.04, 0.09]), "depth")
    assert found.outcome == "open"
    advice = remedy(found, judgement, DEFAULT)
    assert advice.startswith("More seeds: at this spread")
    assert "there are 3" in advice


def test_where_a_baseline_is_missing_seeds_are_not_said_to_settle_it():
    """With any number of seeds a gain that is large enough stays open while the shallow net is not there."""
    evidence = margins([0.1, 0.102, 0.098])
    baselines = {name: each for name, each in evidence.baselines.items() if name != "shallow"}
    lacking = evidence.changed(baselines=baselines)
    judgement, found = finding(lacking, "depth")
    assert (found.outcome, found.basis) == ("open", "bound")
    assert remedy(found, judgement, DEFAULT) == "Train what is missing, or more seeds."


def cosines(*seeds):
    null = Null(mean=0.0, std=0.01, n=20, kind="turned credits")
    precise = Precision(chord=1e-6, clamped=1e-7, samples=8, status="ok")
    moments = []
    for values in seeds:
        records = [Cosine(value=v, alive=8, total=8, status="ok") for v in values]
        nulls = {"rotated": [null] * len(values), "rotated_gamma": null}
        moments.append(Moment(epoch=1, cosine_out=records, reference=precise, **nulls))
    return Evidence(
        name="x", residual=True, seeds=[Training(seed=n, moments=[m]) for n, m in enumerate(moments)]
    )  # fmt: skip


def test_what_is_said_beside_gamma_is_what_was_judged():
    judgement, spread = finding(cosines(*[[0.8, 0.0, 0.01, 0.0]] * 3), "spread")
    assert spread.outcome == "fires"
    gamma = answers(judgement)[2]
    assert (gamma.about, gamma.word, gamma.kind) == ("Γ", "carried by few", "carried by few")
    assert gamma.beside == ["0.20, stands for 1.0 of 4 blocks", "median block 0.01"]
    judgement, _ = finding(cosines(*[[0.8, 0.7, 0.75, 0.8]] * 3), "spread")
    assert answers(judgement)[2].word == "open"  # three seeds do not show that it is even
    nothing, _ = finding(Evidence(name="x", residual=True, seeds=[Training(seed=1, moments=[Moment()])]), "spread")
    assert (answers(nothing)[2].word, answers(nothing)[2].beside) == ("not reported", [])


def test_the_seeds_that_fail_are_said_with_their_bound():
    judgement, _ = finding(margins([0.1, 0.12, -0.01, 0.11, 0.1]), "depth")
    assert answers(judgement)[0].beside == ["1 of 5 seeds gain nothing; at most 66 % do (95 %)"]


# --- in Python ------------------------------------------------------------------------------------------------------


def test_an_audit_is_three_lines_for_each_subject_and_many_are_cut(tmp_path):
    audit = judge_paths(write_runs(tmp_path / "few", seeds=2, epochs=2))
    lines = repr(audit).split("\n")
    assert len(lines) == 9
    assert [line.partition(":")[0] for line in lines[::3]] == ["bp", "dfa", "fa"]
    assert lines[3].startswith("dfa: accuracy open, lower half open, Γ open (2 seeds, accuracy 0.30")
    assert "scale fires" in lines[4]
    assert all(line.endswith(audit.says) for line in lines[2::3])
    shown = audit._repr_html_()
    assert all(f"<strong>{subject.name}: " in shown for subject in audit.subjects)
    assert "‖h‖" not in shown  # the table per block is of a live model
    assert audit.blocks() == []
    many = judge_paths(write_many(tmp_path / "many", 12, 1, 1))
    assert repr(many).endswith("\n… and 2 more")
    assert len(repr(many).split("\n")) == 31
    assert "… and 2 more subjects in audit.subjects" in many._repr_html_()
    failed = [Control(name="bp", expected="holds", got="open", ok=False)]
    assert repr(audit.changed(valid=False, controls=failed)).count("invalid audit, ") == 3


# --- cards ----------------------------------------------------------------------------------------------------------


def card(rule, rule_options, **facts):
    found = {"by_rule": 60, "by_gradient": 40, "inside": "full", "products": 1.0, "memory": 1.1}
    return Card(rule=rule, rule_options=rule_options, net="ResMLP d = 96, L = 3", **found | facts)


def test_the_cards_beside_the_runs_are_on_the_page_and_else_how_to_have_them(tmp_path):
    write_runs(tmp_path / "runs", seeds=2, epochs=2)
    bare = page(report_paths(tmp_path / "runs"))
    assert "The cards were not measured." in bare
    assert f"walkback card --to {tmp_path / 'runs'}" in bare
    write_cards(tmp_path / "runs", [card("dfa", {"normalize": "sample"}), card("fa", {"normalize": "other"})])
    listed = page(report_paths(tmp_path / "runs"))
    assert "What the rules use and cost, measured on ResMLP" in listed
    assert "The cards of bp, fa were not measured." in listed  # that of fa is of other options
    write_run(tmp_path / "mine", config("my.py:R", rule_source="new", rule_options={}), 1.1, 0.5, [0.5] * 3)
    write_cards(tmp_path / "mine", [card("my.py:R", {}, rule_source="old")])  # the rule was edited since
    assert "The cards were not measured." in page(report_paths(tmp_path / "mine"))
    (tmp_path / "log.json").write_text('{"dfa_log": [{"epoch": 1, "hidden_norms": [9.0, 9e3], "acc_eval": 0.3}]}')
    assert "What the rules use" not in page(report_paths(tmp_path / "log.json"))  # a stranger has no cards


def test_cards_are_measured_once_and_a_damaged_file_is_named(tmp_path, monkeypatch):
    asked = []
    monkeypatch.setattr(
        "walkback.audits.rule_cards.make_card", lambda rule, given: asked.append(rule) or card(rule, given)
    )
    write_runs(tmp_path, seeds=2, epochs=2)
    assert {c.rule for c in cards_of_folder(tmp_path)} == {"bp", "fa", "dfa"}
    cards_of_folder(tmp_path)
    assert sorted(asked) == ["bp", "dfa", "fa"]
    assert cards_beside([tmp_path]) == read_cards(tmp_path)
    (tmp_path / "cards.json").write_text('{"schema": "walkback.cards/1", "cards": [')
    with pytest.raises(WalkbackError, match=r"cards\.json is not valid JSON") as error:
        report_paths(tmp_path)
    assert "walkback card --to" in str(error.value.remedy)
    measure_cards([config("dfa")], tmp_path)
    assert [c.rule for c in read_cards(tmp_path) or []] == ["dfa"]
    with pytest.raises(WalkbackError, match=r"no run in .* was trained by ep"):
        cards_of_folder(tmp_path, ["ep"])


# --- two audits side by side ----------------------------------------------------------------------------------------


def test_a_verdict_that_turned_is_traced_to_its_check_its_threshold_or_its_protocol(tmp_path):
    runs = write_runs(tmp_path / "runs", seeds=3, epochs=2)
    judge_paths(runs).write(tmp_path / "ours")
    judge_paths(runs, protocol="published").write(tmp_path / "published")
    same = compare_paths(tmp_path / "ours", tmp_path / "ours")
    assert (same.says(), same.audit, {pair.same for pair in same.pairs}) == ("No answer differs.", [], {True})
    judge_paths(runs, thresholds=DEFAULT.but("scale.growth", 900)).write(tmp_path / "lax")
    found = compare_paths(tmp_path / "ours", tmp_path / "published")
    assert "protocol: ours → published" in found.audit
    fa = next(pair for pair in found.pairs if pair.name == "fa")
    ((about, old, new),) = fa.answers  # one of the two has no more than a verdict
    assert (about, old.word, new.word) == ("verdict", "walked back", "holds")
    spread = next(change for change in fa.changes if change.check == "spread")
    assert spread.words == "spread: ✗ 1.0 → not asked"
    assert spread.turned
    lax = compare_paths(tmp_path / "ours", tmp_path / "lax")
    dfa = next(pair for pair in lax.pairs if pair.name == "dfa")
    assert not dfa.turned  # depth fires all the same
    scale = next(change for change in dfa.changes if change.check == "scale")
    assert scale.why[0] == "threshold scale.growth 50 → 900"


def test_each_answer_that_turned_is_shown_by_itself(tmp_path):
    runs = write_runs(tmp_path / "runs", seeds=5, epochs=2)
    judge_paths(runs).write(tmp_path / "ours")
    lax = DEFAULT.but("spread.share", 1e-3)
    judge_paths(runs, thresholds=lax).write(tmp_path / "lax")
    found = compare_paths(tmp_path / "ours", tmp_path / "lax")
    fa = next(pair for pair in found.pairs if pair.name == "fa")
    listed = {about: (before.word, after.word) for about, before, after in fa.answers}
    assert listed["accuracy"] == ("walked back", "walked back")
    assert listed["Γ"] == ("carried by few", "open")
    assert fa.turned  # though its accuracy is judged as before
    assert "2 of 3 subjects have another answer" in found.says()
    shown = StringIO()
    print_comparison(found, Console(file=shown, width=60))
    listed = " ".join(shown.getvalue().split())
    assert "fa Γ carried by few → open; accuracy walked back, lower half open, as before" in listed
    assert "bp accuracy holds at one rate, lower half open, Γ even, as before" in listed
    assert "carried by few" in comparison_page(found)


def test_other_settings_and_subjects_of_one_side_are_told(tmp_path):
    for seed in (1, 2):
        write_run(tmp_path / "a", config("dfa", seed, 2), 200.0, 0.3, [0.4, 0.0, 0.0])
        write_run(tmp_path / "b", config("dfa", seed, 4), 2.0, 0.3, [0.4, 0.0, 0.0])
        write_run(tmp_path / "b", config("fa", seed, 4), 2.0, 0.3, [0.4, 0.0, 0.0])
    found = compare_paths(tmp_path / "a", tmp_path / "b")
    assert [j.name for j in found.only_after] == ["fa"]
    (dfa,) = found.pairs
    assert "epochs 2 → 4" in dfa.settings
    assert next(c for c in dfa.changes if c.check == "scale").turned
    assert "1 subject is in one of them only" in found.says()


def run(monkeypatch, capsys, *words):
    monkeypatch.setattr("sys.argv", ["walkback", *words])
    with pytest.raises(SystemExit) as end:
        main()
    output = capsys.readouterr()
    return int(end.value.code or 0), output.out + output.err


@pytest.mark.filterwarnings("ignore:Cyclopts application invoked without tokens")
def test_the_commands_compare_and_open(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COLUMNS", "60")
    write_runs(tmp_path / "runs", seeds=2, epochs=2)
    judge_paths("runs", protocol="published").write("published")
    opened = []
    monkeypatch.setattr("webbrowser.open", lambda url: opened.append(url) or True)
    status, output = run(monkeypatch, capsys, "compare", "runs", "published", "--to", "both.html", "--open")
    assert status == 0, output
    assert "verdict open → holds" in output
    assert all(len(line) <= 60 for line in output.splitlines())
    assert "Page in both.html" in output
    assert "Two audits side by side" in (tmp_path / "both.html").read_text()
    status, output = run(monkeypatch, capsys, "report", "runs", "--open")
    assert (status, opened) == (0, [(tmp_path / name).as_uri() for name in ("both.html", "report.html")])
    status, output = run(monkeypatch, capsys, "compare", "runs", "published", "--open")
    assert status == 2
    assert "--open needs a page" in output
