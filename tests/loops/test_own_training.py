"""`wb.audit_training`: a full verdict on somebody's own loop. Oracle: loops whose answer is known."""

import json
import random
import shutil
import sys
from pathlib import Path

import numpy as np
import pytest
import torch
from filelock import FileLock
from torch import nn

import own_loops as loops
import walkback as wb
from own_audits import audited, edit, finding, record
from walkback.audits import audits_of
from walkback.cli import app
from walkback.errors import Busy, RecordError, WalkbackError
from walkback.loops.fingerprints import fingerprint
from walkback.records import load_tensors
from walkback.records.looks import read_looks
from walkback.records.loop_training import WEIGHTS, find_loop_trainings, read_loop_training
from walkback.records.predictions import PREDICTIONS
from walkback.report.form import fill, rendered

WHOLE = {"seeds": 5, "reach": True, "credits": "backward"}  # five seeds, as many as it takes to hold


def switches():
    return random.getstate(), np.random.get_state()[1].tolist(), torch.get_rng_state().tolist(), torch.get_num_threads()


@pytest.fixture(scope="module")
def whole(tmp_path_factory):
    """An audit of backprop as if it were somebody's rule."""
    folder, before = tmp_path_factory.mktemp("own") / "runs", switches()
    audit = audited(folder, **WHOLE)
    assert switches() == before
    return folder, audit


@pytest.fixture
def copied(whole, tmp_path):
    shutil.copytree(whole[0], tmp_path / "runs")
    return tmp_path / "runs"


def test_known_answer_backprop_holds_and_every_control_is_as_it_must_be(whole):
    _, audit = whole
    assert audit.valid, audit.says
    assert audit.subjects[0].verdict == "holds", audit.subjects[0].says
    assert {c.name: c.ok for c in audit.controls} == {"bp": True, "random": True, "a net at init": True}
    assert audit.problems == []
    depth = finding(audit)
    assert depth.basis == "exact"
    assert {"frozen", "shallow", "bp over frozen", "bp over shallow"} <= {*depth.parts}
    assert depth.value > 0.2
    assert audit.subjects[0].answer == "holds at one rate", "no arm had a rate of its own"


def test_second_way_the_folder_read_again_gives_the_same_audit(whole, copied, tmp_path):
    folder, audit = whole
    assert wb.judge_paths(folder).text() == audit.text()
    (again,) = audits_of(folder)
    assert again.text() == audit.text()
    assert "your training" in "".join(rendered([fill(case, again) for case in again.cases], "markdown"))
    assert "your training" in audit.to_html(tmp_path / "page.html").read_text()
    assert wb.judge_paths(folder, protocol="published").protocol == "published"
    (copied / "audit.json").unlink()
    again = wb.judge_paths(copied)
    assert (again.valid, again.controls) == (True, audit.controls)
    assert [s.verdict for s in again.subjects] == [s.verdict for s in audit.subjects]


def test_the_same_call_trains_only_what_is_missing(copied, whole):
    for name in ("subject-frozen-s42", "bp-half-s456", "bp-none-s123"):
        shutil.rmtree(next(copied.glob(f"{name}-*")))
    next(copied.glob("random-all-s123-*/training.json")).unlink()  # as if it was killed between weights and record
    said = []
    audit = audited(copied, say=said, **WHOLE)
    assert len([line for line in said if "✓" in line]) == 4
    assert audit.text() == whole[1].text()


def test_the_kept_weights_are_those_of_the_trained_net(whole):
    place = next(whole[0].glob("subject-all-s42-*"))
    model = loops.make_model(42)
    model.load_state_dict(load_tensors(place / WEIGHTS)[0])
    x, y = loops.test[0]
    assert (model(x).argmax(1) == y).double().mean() == pytest.approx(read_loop_training(place)[0].accuracy)


@pytest.mark.parametrize(
    ("change", "name"),
    [
        (lambda r: r.update(accuracy=1.5), "share"),
        (lambda r: [each.update(accuracy=0.7512) for each in (r, r["moments"][-1])], "test-size"),
        (lambda r: [each.update(accuracy=0.1, loss=0.01) for each in (r, r["moments"][-1])], "wrong-samples"),
        (lambda r: r.update(accuracy=0.9), "result"),
        (lambda r: r.update(seed=43), "folder"),
        (lambda r: r["setting"].update(residual=False), "folder"),
        (lambda r: r.update(weights="0" * 16), "checkpoint"),
        (lambda r: r["moments"][-1].update(gamma=0.3), "gamma"),
        (lambda r: r["moments"][-1]["hidden_norms"].append(1.0), "number of blocks"),
        (lambda r: r.update(moved=[0.1]), "blocks"),
        (lambda r: r["moments"][-1]["cosine"][0].update(value="NaN"), "measured"),
        (lambda r: r.update(status="failed"), "result"),
    ],
)  # fmt: skip
def test_a_record_that_cannot_be_true_is_refused_by_name(copied, change, name):
    edit(next(copied.glob("subject-all-s42-*")), change)
    with pytest.raises(RecordError, match=rf"{name}[\s\S]*Remedy|\[{name}\][\s\S]*Remedy"):
        wb.judge_paths(copied)


def test_a_frozen_twin_that_moved_cannot_be_claimed_frozen(copied):
    edit(next(copied.glob("subject-frozen-s42-*")), lambda r: r.update(moved=[0.0, 0.2]))
    with pytest.raises(RecordError, match="frozen"):
        wb.judge_paths(copied)


def test_a_copied_seed_never_holds(copied):
    first, other = (next(copied.glob(f"subject-all-s{seed}-*")) for seed in (42, 123))
    one = json.loads((first / "training.json").read_text())
    (other / WEIGHTS).unlink()
    shutil.copy(first / PREDICTIONS, other / PREDICTIONS)
    same = ("weights", "moments", "accuracy", "loss", "predictions")
    edit(other, lambda r: r.update({k: one[k] for k in same}))
    again = wb.judge_paths(copied)
    assert again.subjects[0].verdict == "open"
    assert "same weights" in again.subjects[0].says


def test_a_folder_of_another_loop_or_with_another_writer_is_refused(whole):
    with pytest.raises(RecordError, match=r"the code of train differ[\s\S]*out="):
        audited(whole[0], loops.by_hand, **WHOLE)
    with pytest.raises(RecordError, match="test samples"):
        audited(whole[0], test=[loops.samples(200, 3)], **WHOLE)
    with FileLock(whole[0] / ".audit_training.lock"), pytest.raises(Busy):
        audited(whole[0], **WHOLE)


def test_fingerprint_follows_helpers_and_constants():
    table = {"__name__": "own_loops"}
    source = "RATE = {}\ndef helper():\n    return {}\ndef train():\n    return helper() * RATE\n"
    prints = []
    for rate, inner in ((1, 2), (1, 2), (3, 2), (1, 4)):
        exec(source.format(rate, inner), table)
        prints.append(fingerprint(table["train"]))
    assert prints[0] == prints[1]
    assert len(set(prints)) == 3


def test_seeds_are_added_only_where_an_interval_is_open(tmp_path):
    """Three seeds, then a look: what is missing is not settled by more of them. Its intervals allow for all looks."""
    said = []
    audit = audited(tmp_path, seeds="auto", max_seeds=5, train_bp=None, say=said)
    assert audit.thresholds.version.endswith("seeds auto up to 5")
    assert audit.subjects[0].accuracy.n == 3
    assert any("more seeds would not settle it" in line and "Not here: shallow, bp" in line for line in said), said
    assert wb.judge_paths(tmp_path).text() == audit.text()
    assert read_looks(tmp_path).looks == [3, 5]
    again = audited(tmp_path, seeds=3, train_bp=None)
    assert again.thresholds == audit.thresholds, "a number that is fixed after a look earns no narrower intervals"


# --- what is missing, and what is wrong -------------------------------------------------------------------------------


def test_without_a_reference_it_says_what_that_leaves_open(tmp_path):
    said = []
    audit = audited(tmp_path, train_bp=None, say=said, seeds=1, reach=True, credits="backward")
    assert any("No bp reference can be trained" in line for line in said)
    assert not audit.valid
    assert next(c for c in audit.controls if c.name == "bp").got == "not trained"
    assert "Give train_bp, or train_batches" in audit.says
    outcomes = {f.check: f.outcome for f in audit.subjects[0].findings}
    assert outcomes["scale"] == outcomes["reference"] == "passes"
    assert (outcomes["depth"], outcomes["reach"]) == ("open", "open")
    assert audit.subjects[0].verdict == "open"


def test_the_plain_loop_is_backprop_and_test_samples_that_it_trains_on_are_noticed(tmp_path):
    batches = [(loops.X[n : n + 64], loops.Y[n : n + 64]) for n in range(0, 1600, 64)]
    options = {"train_bp": None, "epochs": 2, "optimizer": lambda p: torch.optim.Adam(p, lr=2e-2), "seeds": 1}
    audit = audited(tmp_path, train_batches=iter([loops.test[0], *batches]), **options)
    bp, frozen = (record(tmp_path, f"bp-{part}") for part in ("all", "frozen"))
    assert bp.accuracy > 0.65 > 0.62 > frozen.accuracy
    assert bp.setting.bp == "a plain loop of ours"
    assert frozen.moved == [0, 0]
    assert not audit.valid  # one seed shows nothing
    assert any("200 of 200 test samples are also in train_batches" in problem for problem in audit.problems)
    assert audit.subjects[0].verdict != "holds"


def test_a_bp_that_does_not_learn_makes_the_audit_invalid(tmp_path):
    audit = audited(tmp_path, train_bp=loops.head_only)
    assert not audit.valid
    assert not next(c for c in audit.controls if c.name == "bp").ok


def test_a_seed_that_raises_is_named_by_its_own_line_and_the_others_are_kept(tmp_path):
    audit = audited(tmp_path, loops.raises_once, train_bp=None)
    (problem,) = [p for p in audit.problems if p.startswith("subject, seed 123")]
    assert "RuntimeError: out of luck (own_loops.py, line" in problem
    assert 'raise RuntimeError("out of luck")' in problem
    assert record(tmp_path, "subject-all-s42").status == "finished"
    assert audit.subjects[0].verdict == "open"
    assert wb.judge_paths(tmp_path).text() == audit.text()


def test_seeds_that_agree_are_one_training(tmp_path):
    audit = audited(tmp_path, loops.same_seed, train_bp=None)
    assert any("seeds 42 and 123 end with the same weights" in problem for problem in audit.problems)
    assert audit.subjects[0].accuracy.n == 1
    assert audit.subjects[0].verdict != "holds"


PLAIN = {"train_bp": None, "train_batches": [(loops.X, loops.Y)]}


def no_weights(seed):
    model = loops.Net()
    model.blocks = nn.ModuleList([nn.Tanh(), nn.Tanh()])
    return model


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"train": loops.nothing}, "trains nothing"), ({"train": loops.new_model}, "returned a new model"),
        ({"train": loops.other_net}, "changes the net"), ({"test": (batch for batch in [])}, "an exhausted iterator"),
        ({"test": lambda: 1 / 0}, "ZeroDivisionError"),
        ({"test": [loops.samples(20, 2)]}, "there are 20 different samples, so an accuracy goes in steps of 5 points"),
        ({"test": [(loops.test[0][0], 0 * loops.test[0][1])]}, "every label is class 0"),
        ({"make": lambda seed: sys.exit(1)}, "SystemExit"), ({"make": lambda seed: 3}, "gives a int"),
        ({"make": lambda seed: 1 / 0}, "ZeroDivisionError"), ({"make": no_weights}, "no parameters"),
        ({"train": 3}, "not a function"), ({"seeds": "many"}, "is not known"), ({"seeds": 0}, "cannot be trained"),
        ({"seeds": 2, "max_seeds": 5}, "no effect with a fixed number"), ({"seeds": [1.5]}, "whole numbers"),
        ({"credits": "forward"}, "credits"), ({"name": "bp"}, "names of the controls"), ({"jobs": 0}, "cannot train"),
        ({"epochs": 0}, "epochs"), ({"blocks": "layers.*"}, "matches"), ({"seeds": 2.5}, "is not known"),
        ({"seeds": None}, "is not known"), ({"blocks": ["blocks.1", "blocks.0"]}, "in another order"),
        ({"optimizer": lambda p: None} | PLAIN, "gives a NoneType"),
        ({"optimizer": torch.optim.LBFGS} | PLAIN, "LBFGS steps by a closure"),
        ({"optimizer": lambda p, lr: torch.optim.SGD(p, lr=lr)} | PLAIN, "optimizer raised TypeError"),
    ],
)  # fmt: skip
def test_error_what_cannot_be_meant_is_refused_at_once(tmp_path, changes, words):
    """Before anything trains; a loop that does not train its model, after the first training."""
    with pytest.raises(WalkbackError, match=words) as refused:
        audited(tmp_path, **changes)
    assert refused.value.remedy
    trains = (loops.nothing, loops.new_model, loops.other_net)
    assert len(find_loop_trainings(tmp_path)) == (changes.get("train") in trains)


# --- the command line -------------------------------------------------------------------------------------------------


def test_a_file_is_audited_in_processes_with_the_same_bits(whole, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    shutil.copy(Path(loops.__file__), tmp_path / "my_training.py")
    status = app(["audit", "my_training.py", "--seeds", "42,", "--jobs", "2", "--strict"], result_action="return_value")
    assert status == 4, "one seed cannot show that bp holds"
    folder = tmp_path / "runs/my_training"
    assert {"audit.json", "report.html"} <= {path.name for path in folder.iterdir()}
    for path in find_loop_trainings(folder):
        found = read_loop_training(path)[0]
        assert found.weights == record(whole[0], f"{found.who}-{found.part}-s42").weights, found.label()
    assert len(find_loop_trainings(folder)) == 9
    said = capsys.readouterr().out
    assert "[9 of 9 trainings]" in said
    assert "This audit is invalid" in said.replace("\n", " ")


@pytest.mark.parametrize(
    ("file", "text", "options", "words"),
    [
        ("mine.py", "train = 1", [], "does not define make_model, test, blocks"),
        ("mine.py", "import own_loops_that_are_not_there", [], "could not be imported"),
        ("mine.py", "exit(3)", [], r"ends the program when it is imported \(exit 3\)"),
        ("mine.py", "", ["--epochs", "3", "--rules", "fa"], "--rules, --epochs cannot be used with"),
        ("mine.py", "", ["--device", "cuda"], "--device cannot be used with"),
        ("other.py", "", [], "does not exist"),
    ],
)
def test_error_a_file_that_cannot_be_audited_says_what_it_needs(tmp_path, file, text, options, words):
    (tmp_path / "mine.py").write_text(text)
    with pytest.raises(WalkbackError, match=words) as refused:
        app(["audit", str(tmp_path / file), *options], result_action="return_value")
    assert refused.value.remedy
