"""What a run must survive: real processes, real kills, torn files, a full disk, two writers at once."""

import errno
import os
import random
import re
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from commands import walkback
from conftest import small_plan
from executed import files, files_of, wait_until
from test_crew import dies_at_once
from walkback.errors import Busy, RecordError
from walkback.records import RunFolder, read_run
from walkback.train import Stopped, plan, train, train_all

WALKBACK = [sys.executable, "-c", "from walkback.cli import main; main()"]
SMALL = ["train", "--width", "16", "--depth", "3", "--seed", "42"]


def start(out: Path, *words: str, **options) -> subprocess.Popen:
    command = [*WALKBACK, *SMALL, "--out", str(out), *words]
    return subprocess.Popen(command, text=True, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, **options)


def run(out: Path, *words: str) -> tuple[int, str]:
    """A command that nobody stops, in a process that starts in a moment."""
    done = walkback(*SMALL, "--out", str(out), *words, timeout=240)
    return done.returncode, done.stdout + done.stderr


def written(out: Path) -> int:
    """Grows whenever a checkpoint is written."""
    return sum(p.stat().st_mtime_ns for p in out.glob("*/*.safetensors"))


@pytest.mark.parametrize(
    ("jobs", "kills"), [("1", 2), *(pytest.param(jobs, 6, marks=pytest.mark.slow) for jobs in ("1", "2"))]
)
def test_sigkill_again_and_again_then_the_same_bits(tmp_path, jobs, kills):
    """Killed before anything is there, then soon after each time it went on: in a step, a snapshot, a checkpoint."""
    words = ["--rules", "dfa,random", "--epochs", str(7 * kills), "--jobs", jobs, "--checkpoint-every", "0.02"]
    whole, parts = tmp_path / "whole", tmp_path / "parts"
    code, said = run(whole, *words)
    assert code == 0, said
    chance = random.Random(int(jobs))
    for kill in range(kills):
        before = written(parts)
        process = start(parts, *words, start_new_session=True)
        if kill:
            assert wait_until(lambda before=before, process=process: written(parts) != before or process.poll() == 0)
            time.sleep(chance.uniform(0, 0.15))
        else:
            time.sleep(0.4)
        assert process.poll() is None, "it ended before it could be killed: give it more epochs"
        # With two jobs the parent alone is killed every other time: its workers must not go on as orphans.
        (os.kill if jobs == "2" and kill % 2 else os.killpg)(process.pid, signal.SIGKILL)
        process.communicate()
    code, said = run(parts, *words)
    assert code == 0, said
    assert files(parts) == files(whole)
    assert any(len(read_run(p).environment.sittings) > 1 for p in parts.glob("mnist1d-*"))


def test_sigint_stops_cleanly_and_says_how_to_go_on(tmp_path):
    words = ["--rules", "bp,dfa,fa", "--epochs", "400", "--jobs", "2", "--checkpoint-every", "1000"]
    process = start(tmp_path, *words, start_new_session=True)
    assert wait_until(lambda: len(list(tmp_path.glob("*/snapshots.jsonl"))) == 2)
    time.sleep(0.5)
    os.killpg(process.pid, signal.SIGINT)  # as a terminal does: to every process of the group
    said, _ = process.communicate(timeout=60)
    assert process.returncode == 130, said
    assert "The same command resumes them" in said
    assert "Traceback" not in said
    begun = [p for p in tmp_path.glob("mnist1d-*") if (p / "checkpoint.safetensors").exists()]
    assert len(begun) == 2
    assert all(read_run(p).environment.sittings[-1].to_step > 0 for p in begun)


def test_a_worker_that_dies_costs_only_its_own_run(tmp_path):
    """One of two workers is killed: its run fails with a word, the others end, and the same command mends it."""
    words = ["--rules", "bp,dfa,fa", "--epochs", "12", "--checkpoint-every", "0.05", "--validation", "0.1"]
    process = start(tmp_path, *words, "--jobs", "2")
    assert wait_until(lambda: len(list(tmp_path.glob("*/checkpoint.safetensors"))) == 2)
    children = Path(f"/proc/{process.pid}/task/{process.pid}/children")
    if not children.exists():
        pytest.skip("needs /proc to find the workers")
    workers = [int(c) for c in children.read_text().split() if "spawn_main" in Path(f"/proc/{c}/cmdline").read_text()]
    os.kill(workers[0], signal.SIGKILL)
    said, _ = process.communicate(timeout=120)
    assert process.returncode == 1, said
    assert "its process was killed (SIGKILL)" in said
    assert "fewer --jobs" in said
    assert len(list(tmp_path.glob("*/result.json"))) == 2
    code, said = run(tmp_path, *words, "--jobs", "1")
    assert code == 0, said
    assert [read_run(path.parent).config.validation for path in tmp_path.glob("*/result.json")] == [0.1] * 3


def test_workers_killed_before_their_first_run_are_said_to_be_killed(out, monkeypatch):
    """Each worker is killed while it starts: every run fails with the signal and the remedy, and nothing hangs."""
    monkeypatch.setattr("walkback.train.executors.processes._begin", dies_at_once)
    events = []
    assert train_all(small_plan(rules=["bp", "fa", "dfa"]), out, jobs=2, tell=events.append) == [None] * 3
    assert [(event.index, event.kind) for event in events] == [(0, "failed"), (1, "failed"), (2, "failed")]
    (says,) = {event.says for event in events}
    assert "its process was killed (SIGKILL)" in says
    assert "fewer --jobs, before this run could begin" in says


def test_a_run_that_another_process_has_is_busy_and_others_are_not(tmp_path):
    (config,), (other,) = small_plan(), small_plan(rules=["bp"], epochs=1)
    with RunFolder(tmp_path, config):
        assert train(other, tmp_path).result.status == "finished"
        with pytest.raises(Busy, match="another process"):
            train(config, tmp_path)
    assert train(config, tmp_path).result.status == "finished"


# --- torn files -------------------------------------------------------------------------------------------------------


def stopped(config, out, steps):
    count = iter(range(steps))
    with pytest.raises(Stopped):
        train(config, out, should_stop=lambda: next(count, None) is None)


@pytest.fixture(scope="module")
def begun(tmp_path_factory):
    """A run stopped twice in its second epoch, and the same run trained to its end at once."""
    folder = tmp_path_factory.mktemp("survival")
    (config,) = small_plan()
    stopped(config, folder / "runs", 50)
    stopped(config, folder / "runs", 5)
    return config, folder / "runs" / config.folder(), train(config, folder / "whole").path


@pytest.fixture
def half_done(begun, out):
    """That run, to be spoilt; its config, and its folder."""
    config, path, _ = begun
    shutil.copytree(path, out / path.name)
    return config, out / path.name


@pytest.fixture
def same(begun):
    """Whether a run has the bits of the one that was never stopped."""
    return lambda run: files_of(run.path) == files_of(begun[2])


def test_torn_last_line_is_left_out_and_comes_again(half_done, out, same):
    config, path = half_done
    lines = (path / "snapshots.jsonl").read_bytes()
    (path / "snapshots.jsonl").write_bytes(lines + lines[: len(lines) // 3])
    run_now = read_run(path)
    assert len(run_now.snapshots) == 2
    assert "is incomplete and was left out" in run_now.notes[0]
    assert same(train(config, out))


@pytest.mark.parametrize("how", ["truncated", "flipped", "emptied"])
def test_half_written_checkpoint_is_set_aside_and_the_one_before_goes_on(half_done, out, same, how):
    config, path = half_done
    file = path / "checkpoint.safetensors"
    content = bytearray(file.read_bytes())
    assert (path / "checkpoint.previous.safetensors").exists()
    if how == "flipped":
        content[-5] ^= 1
    file.write_bytes(content[: {"truncated": len(content) // 2, "flipped": len(content), "emptied": 0}[how]])
    notes = []
    run_now = train(config, out, tell=lambda p: notes.append(p.note))
    assert any(note and "damaged" in note for note in notes)
    assert (path / "checkpoint.safetensors.damaged").exists()
    assert same(run_now)


def test_no_whole_checkpoint_left_is_refused_and_fresh_begins_again(half_done, out, same):
    config, path = half_done
    for name in ("checkpoint.safetensors", "checkpoint.previous.safetensors"):
        (path / name).write_bytes(b"torn")
    kept = (path / "snapshots.jsonl").read_bytes()
    with pytest.raises(RecordError, match="--fresh"):
        train(config, out)
    assert (path / "snapshots.jsonl").read_bytes() == kept
    assert same(train(config, out, fresh=True))
    assert (out / f"{path.name}.old1" / "snapshots.jsonl").read_bytes() == kept


@pytest.mark.parametrize(
    ("name", "change", "words"),
    [
        ("config.json", lambda text: text.replace('"lr": 0.001', '"lr": 0.5'), "edited"),
        ("config.json", lambda _: "{", "not valid JSON"),
        ("config.json", lambda text: text.replace('"lr"', '"colour"'), "colour"),
        ("config.json", lambda text: text.replace("walkback.run/1", "walkback.run/2"), "upgrade walkback"),
        ("snapshots.jsonl", lambda text: text.replace("{", "{torn", 1), "line 1"),
        ("snapshots.jsonl", lambda _: "", "lacks snapshots"),
        ("environment.json", lambda text: re.sub(r'(fingerprint": ")\w+', rf"\g<1>{'0' * 64}", text), "other mnist1d"),
    ],
)
def test_error_records_that_were_edited_or_torn_are_refused_by_name(half_done, out, name, change, words):
    config, path = half_done
    before = (path / name).read_text()
    (path / name).write_text(change(before))
    assert change(before) != before
    with pytest.raises(RecordError, match=words):
        train(config, out)


def test_full_disk_names_the_remedy_and_loses_nothing(half_done, out, same, monkeypatch):
    """The disk is full when the result is to be written: what was there stays, and the same call ends the run."""
    config, path = half_done
    kept, checkpoint = ((path / name).read_bytes() for name in ("snapshots.jsonl", "checkpoint.safetensors"))
    synced = os.fsync

    def full(descriptor):
        if ".result.json." in str(Path(f"/proc/self/fd/{descriptor}").readlink()):
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        synced(descriptor)

    monkeypatch.setattr("walkback.files.os.fsync", full)
    events = []
    train_all([config], out, jobs=1, tell=events.append)
    assert events[-1].kind == "failed"
    assert "No space left" in events[-1].says
    assert "free some space" in events[-1].says
    assert not list(path.glob(".*"))
    assert (path / "snapshots.jsonl").read_bytes().startswith(kept)
    assert checkpoint in (file.read_bytes() for file in path.glob("checkpoint*"))
    monkeypatch.undo()
    assert same(train(config, out))


def test_no_write_permission_names_the_remedy(tmp_path):
    (tmp_path / "file").write_text("")
    (config,) = small_plan()
    with pytest.raises(RecordError, match="--out"):
        train(config, tmp_path / "file")
    if os.geteuid() != 0:
        locked = tmp_path / "locked"
        locked.mkdir(mode=0o500)
        with pytest.raises(RecordError, match="--out"):
            train(config, locked / "runs")


def test_a_rule_that_breaks_fails_alone(tmp_path):
    (tmp_path / "bad.py").write_text(
        "import walkback as wb\nclass Bad(wb.Rule):\n    def credits(self, signal):\n        raise KeyError('B')\n"
    )
    configs = plan(rules=[f"{tmp_path}/bad.py:Bad", "dfa"], epochs=1, net_options={"width": 16, "depth": 2})
    events = []
    runs = train_all(configs, tmp_path / "runs", jobs=1, tell=events.append)
    assert runs[0] is None
    assert runs[1].result.status == "finished"
    failed = next(e for e in events if e.kind == "failed")
    assert "KeyError" in failed.says
    assert "bad.py:4" in failed.says


def test_registered_rules_reach_the_workers(tmp_path):
    """A rule registered in a script of the user's trains in other processes too."""
    script = tmp_path / "script.py"
    script.write_text(
        "import walkback as wb, torch\n"
        "class Zero(wb.Rule):\n"
        "    def credits(self, signal):\n"
        "        z = torch.zeros_like(signal.hidden[0])\n"
        "        return wb.Credits([z] * signal.net.depth, embed=z)\n"
        "wb.register_rule('zero', Zero)\n"
        "if __name__ == '__main__':\n"
        "    runs = wb.train_all(wb.plan(rules=['zero', 'dfa'], epochs=1, net_options={'width': 16}), 'runs', jobs=2)\n"
        "    print([r.result.status for r in runs], [c.status for c in runs[0].snapshots[-1].cosine])\n"
    )
    done = subprocess.run([sys.executable, str(script)], cwd=tmp_path, text=True, capture_output=True, timeout=120)
    assert (
        done.stdout.strip() == "['finished', 'finished'] ['zero credit', 'zero credit', 'zero credit', 'zero credit']"
    ), done
