"""The command line as a user meets it: real processes, what they print, how they exit."""

import subprocess
import sys

import pytest

from commands import walkback as command


def walkback(*words, cwd=None, **environment):
    return command(*words, timeout=240, cwd=cwd, **{"COLUMNS": "120", **environment})


def said_by(code):
    """What some code prints in a process of its own."""
    done = subprocess.run([sys.executable, "-c", code], text=True, capture_output=True, timeout=60)
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_commands_import_no_more_than_they_need():
    """torch takes seconds to import, its compiler as long again. One after the other: each needs more than the last."""
    code = """
import sys
from walkback.cli import main
def run(status, heavy, *words):
    sys.argv = ["walkback", *words]
    try:
        main()
    except SystemExit as end:
        assert end.code == status, (words, end.code)
    assert not heavy & set(sys.modules), (words, heavy & set(sys.modules))
torch = {"torch", "sklearn", "matplotlib"}
for words in (["--help"], ["train", "--help"]):
    run(0, torch | {"numpy", "msgspec"}, *words)
run(0, torch, "list")
run(2, torch, "show", "nowhere")
run(2, torch, "status", "nowhere")
run(2, {"torch._dynamo"}, "train", "--rules", "nope")
assert "torch" in sys.modules
"""
    assert "train" in said_by(code)


def test_the_list_without_torch_is_what_the_registries_hold():
    """It reads the files of the rooms; the registries come from running them."""
    from walkback.nets import NETS
    from walkback.own import is_ours
    from walkback.probes import PROBES
    from walkback.report.catalogue import registered
    from walkback.rules import RULES

    for room, registry in {"rules": RULES, "nets": NETS, "probes": PROBES}.items():
        ours = [name for name in registry.names() if is_ours(registry.get(name))]
        said = {name: (registry.get(name).__doc__ or "").strip().partition("\n")[0] for name in ours}
        assert registered(room) == said


def test_import_walkback_costs_nothing_and_offers_its_names():
    code = (
        "import sys, walkback as wb\nassert 'torch' not in sys.modules\nassert 'Rule' in dir(wb)\n"
        "wb.Rule, wb.plan, wb.train_all, wb.load_data\n"
        "try:\n    wb.nothing\nexcept AttributeError as e:\n    print(e)"
    )
    assert "register_rule" in said_by(code)


@pytest.fixture(scope="module")
def trained(tmp_path_factory):
    folder = tmp_path_factory.mktemp("cli")
    done = walkback("train", "--rules", "bp,dfa", "--epochs", "2", "--width", "16", "--depth", "2", cwd=folder)
    assert done.returncode == 0, done.stderr
    return folder, done.stdout


def test_train_prints_plain_lines_and_a_table(trained):
    folder, said = trained
    assert "✓ bp seed 42 epoch 2/2" in said
    for word in ("accuracy", "‖h_L‖", "‖g_L‖", "Γ", "walkback show runs/"):
        assert word in said
    assert "\x1b" not in said  # no terminal, no colours
    again = walkback("train", "--rules", "bp,dfa", "--epochs", "2", "--width", "16", "--depth", "2", cwd=folder)
    assert again.returncode == 0
    assert again.stdout.count("finished 2 epochs") == 2
    assert "epoch 1/2" not in again.stdout  # reused, not trained


def test_show_prints_a_run_and_a_folder(trained):
    folder, _ = trained
    table = walkback("show", cwd=folder)
    assert table.returncode == 0
    assert "bp" in table.stdout
    assert "dfa" in table.stdout
    one = walkback("show", next(str(p) for p in (folder / "runs").glob("mnist1d-*dfa*")), cwd=folder)
    for word in ("finished 2 epochs", "layers at epoch 2", "through training", "cos(a_l, g_l+1)", "normalize=sample"):
        assert word in one.stdout, one.stdout + one.stderr


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        (["train", "--rules", "dfaa"], "did you mean dfa"),
        (["train", "--data", "cifar"], "did you mean cifar10"),
        (["train", "--epochs", "0"], "--epochs"),
        (["train", "--train-last", "9"], "--train-last 0 … 4"),
        (["train", "--seeds", "x"], "--seeds"),
        (["train", "--seed", "1", "--seeds", "2"], "one of them"),
        (["train", "--rule-option", "gain"], "name=value"),
        (["train", "--jobs", "0"], "--jobs"),
        (["train", "--rules", "nothing.py:Rule"], "rule file nothing.py does not exist"),
        (["train", "--net", "vit-mini", "--epochs", "1"], "patches"),
        (["show", "nowhere"], "the folder nowhere does not exist"),
        (["data", "fetch", "mnits"], "did you mean mnist"),
    ],
)
def test_error_is_told_without_a_traceback(words, expected, tmp_path):
    done = walkback(*words, cwd=tmp_path)
    assert done.returncode != 0
    assert expected in done.stdout + done.stderr
    assert "Traceback" not in done.stdout + done.stderr
    assert not list(tmp_path.glob("runs/*/snapshots.jsonl"))


def test_ctrl_c_ends_with_a_sentence(tmp_path):
    (tmp_path / "mine.py").write_text("raise KeyboardInterrupt")
    done = walkback("audit", "mine.py", cwd=tmp_path)
    assert (done.returncode, done.stdout) == (130, "")
    assert done.stderr == "walkback: interrupted; the same command continues from what is finished\n"
    # As numpy does where Ctrl-C falls into its import: what is raised then is not what it was.
    text = "import os, signal\ntry:\n    os.kill(os.getpid(), signal.SIGINT)\n"
    (tmp_path / "mine.py").write_text(text + "except KeyboardInterrupt:\n    raise ImportError")
    assert walkback("audit", "mine.py", cwd=tmp_path).returncode == 130


def test_lists_with_wildcards():
    said = walkback("list", "*fa").stdout
    assert "dfa" in said
    assert "resmlp" not in said
    everything = walkback("list").stdout
    assert all(name in everything for name in ("random", "vit-mini", "fashion-mnist"))
    assert "walkback data fetch NAME" in walkback("data", "list").stdout


def test_the_time_left_counts_the_runs_that_wait(tmp_path, monkeypatch):
    """Two runs of 10 epochs at a second an epoch, one at a time: after 2 epochs of the first 8 + 10 s are left."""
    from types import SimpleNamespace

    from rich.console import Console

    from conftest import small_plan
    from walkback.report import terminal
    from walkback.train import Event

    clock = iter([0.0, 2.0])
    monkeypatch.setattr(terminal.time, "monotonic", lambda: next(clock))
    live = terminal.LiveTable(
        small_plan(seeds=2, epochs=10), Console(force_terminal=True, file=(tmp_path / "o").open("w"))
    )
    assert live.seconds_left() is None
    for epoch in (0, 2):
        snapshot = SimpleNamespace(epoch=epoch)
        live.tell(Event(0, "progress", SimpleNamespace(snapshot=snapshot, note=None)))
    assert live.seconds_left() == 18
    assert live.summary() == "0 of 2 runs done, about 18 s left"
    live.tell(Event(0, "finished"))
    assert live.seconds_left() == 10
