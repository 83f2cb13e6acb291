"""What a run must survive: real processes, real kills, torn files, a full disk, two writers at once."""

import errno
import json
import os
import random
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
import torch

from conftest import small_plan
from executed import DETERMINISTIC, files, wait_until
from walkback.errors import Busy, RecordError
from walkback.records import RunFolder, read_run
from walkback.train import Stopped, plan, train, train_all

WALKBACK = [sys.executable, "-c", "from walkback.cli import main; main()"]
SMALL = ["train", "--width", "16", "--depth", "3", "--seed", "42"]


def start(out: Path, *words: str, **options) -> subprocess.Popen:
    return subprocess.Popen(
        [*WALKBACK, *SMALL, "--out", str(out), *words],
        text=True,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        **options,
    )


def run(out: Path, *words: str) -> tuple[int, str]:
    process = start(out, *words)
    said, _ = process.communicate(timeout=240)
    return process.returncode, said


def written(out: Path) -> int:
    """Bytes of snapshots and writes of checkpoints so far: grows whenever a run does something."""
    return sum(p.stat().st_mtime_ns for p in out.glob("*/*.safetensors"))


@pytest.mark.parametrize(
    ("jobs", "kills"), [("1", 3), *(pytest.param(jobs, 6, marks=pytest.mark.slow) for jobs in ("1", "2"))]
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
    words = ["--rules", "bp,dfa,fa", "--epochs", "20", "--checkpoint-every", "0.05"]
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
    assert len(list(tmp_path.glob("*/result.json"))) == 3


def test_workers_killed_before_their_first_run_are_said_to_be_killed(tmp_path):
    """Each worker is killed while it starts: every run fails with the signal and the remedy, and nothing hangs."""
    script = tmp_path / "script.py"
    script.write_text(
        "import multiprocessing.process as mp, os, signal, sys\n"
        "from walkback.train import plan, train_all\n"
        "started = mp.BaseProcess.start\n"
        "def start(process):\n"
        "    started(process)\n"
        "    os.kill(process.pid, signal.SIGKILL)\n"
        "if __name__ == '__main__':\n"
        "    mp.BaseProcess.start = start\n"
        "    events = []\n"
        "    configs = plan(rules=['bp', 'fa', 'dfa'], epochs=1, net_options={'width': 8, 'depth': 2})\n"
        "    runs = train_all(configs, 'runs', jobs=2, tell=events.append)\n"
        "    print(runs, [e.index for e in events], {e.kind for e in events}, {e.says for e in events})\n"
    )
    done = subprocess.run([sys.executable, str(script)], cwd=tmp_path, text=True, capture_output=True, timeout=120)
    assert "[None, None, None] [0, 1, 2] {'failed'}" in done.stdout, done
    assert "its process was killed (SIGKILL)" in done.stdout
    assert "before this run could begin" in done.stdout
    assert "fewer --jobs" in done.stdout


def test_two_processes_on_one_run_one_works_and_the_other_leaves(tmp_path):
    (config,) = small_plan()
    with RunFolder(tmp_path, config):
        code, _ = run(tmp_path, "--rules", "dfa", "--epochs", "3")
        assert code == 0  # another config: nobody has that one
        with pytest.raises(Busy, match="another process"):
            train(config, tmp_path)
    assert train(config, tmp_path).result.status == "finished"


def test_two_commands_at_once_share_the_work(tmp_path):
    words = ["--rules", "dfa", "--epochs", "60", "--jobs", "1"]
    one, two = start(tmp_path, *words), start(tmp_path, *words)
    (said_one, _), (said_two, _) = one.communicate(timeout=120), two.communicate(timeout=120)
    assert sorted([one.returncode, two.returncode]) in ([0, 1], [0, 0]), said_one + said_two
    assert "Traceback" not in said_one + said_two
    (path,) = tmp_path.glob("mnist1d-*")
    assert [s.epoch for s in read_run(path).snapshots] == list(range(61))


def half_done(out, **changes):
    """A run stopped in its second epoch, with the steps of its checkpoint."""
    (config,) = small_plan(**changes)
    count = iter(range(50))
    with pytest.raises(Stopped):
        train(config, out, should_stop=lambda: next(count, None) is None)
    return config, out / config.folder()


def whole(tmp_path, config):
    return train(config, tmp_path / "whole").path


def same(a, b):
    return all((a / n).read_bytes() == (b / n).read_bytes() for n in DETERMINISTIC)


def test_torn_last_line_is_left_out_and_comes_again(tmp_path, out):
    config, path = half_done(out)
    lines = (path / "snapshots.jsonl").read_bytes()
    (path / "snapshots.jsonl").write_bytes(lines + lines[: len(lines) // 3])
    run_now = read_run(path)
    assert len(run_now.snapshots) == 2
    assert "is incomplete and was left out" in run_now.notes[0]
    assert same(train(config, out).path, whole(tmp_path, config))


@pytest.mark.parametrize("how", ["truncated", "flipped", "emptied"])
def test_half_written_checkpoint_is_set_aside_and_the_one_before_goes_on(tmp_path, out, how):
    config, path = half_done(out)
    again = iter(range(5))
    with pytest.raises(Stopped):
        train(config, out, should_stop=lambda: next(again, None) is None)
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
    assert same(run_now.path, whole(tmp_path, config))


def test_no_whole_checkpoint_left_is_refused_and_fresh_begins_again(tmp_path, out):
    config, path = half_done(out)
    (path / "checkpoint.safetensors").write_bytes(b"torn")
    kept = (path / "snapshots.jsonl").read_bytes()
    with pytest.raises(RecordError, match="--fresh"):
        train(config, out)
    assert (path / "snapshots.jsonl").read_bytes() == kept
    run_now = train(config, out, fresh=True)
    assert same(run_now.path, whole(tmp_path, config))
    assert (out / f"{path.name}.old1" / "snapshots.jsonl").read_bytes() == kept


def test_edited_config_is_refused(out):
    config, path = half_done(out)
    text = json.loads((path / "config.json").read_text())
    (path / "config.json").write_text(json.dumps(text | {"lr": 0.5}))
    with pytest.raises(RecordError, match="edited"):
        train(config, out)
    (path / "config.json").write_text("{")
    with pytest.raises(RecordError, match="not valid JSON"):
        read_run(path)
    (path / "config.json").write_text(json.dumps(text | {"colour": "red"}))
    with pytest.raises(RecordError, match="colour"):
        read_run(path)


def test_newer_schema_asks_for_an_upgrade(out):
    config, path = half_done(out)
    text = json.loads((path / "config.json").read_text())
    (path / "config.json").write_text(json.dumps(text | {"schema": "walkback.run/2"}))
    with pytest.raises(RecordError, match="upgrade walkback"):
        train(config, out)


def test_damage_in_the_middle_is_named_by_its_line(out):
    _, path = half_done(out)
    lines = (path / "snapshots.jsonl").read_text().splitlines()
    (path / "snapshots.jsonl").write_text("\n".join(["{torn", *lines[1:]]) + "\n")
    with pytest.raises(RecordError, match="line 1"):
        read_run(path)


def test_snapshots_missing_behind_a_checkpoint_are_noticed(out):
    config, path = half_done(out)
    (path / "snapshots.jsonl").write_text("")
    with pytest.raises(RecordError, match="lacks snapshots"):
        train(config, out)


def test_full_disk_names_the_remedy_and_loses_nothing(tmp_path, out, monkeypatch):
    """The disk is full when the result is to be written: what was there stays, and the same call ends the run."""
    config, path = half_done(out)
    kept = (path / "snapshots.jsonl").read_bytes()
    checkpoint = (path / "checkpoint.safetensors").read_bytes()
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
    assert checkpoint in (
        (path / n).read_bytes() for n in ("checkpoint.safetensors", "checkpoint.previous.safetensors")
    )
    monkeypatch.undo()
    assert same(train(config, out).path, whole(tmp_path, config))


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
    code, said = run(tmp_path / "file", "--rules", "dfa", "--epochs", "1")
    assert code == 1
    assert "--out" in said
    assert "Traceback" not in said


def test_other_data_than_it_began_with_are_refused(out):
    config, path = half_done(out)
    text = json.loads((path / "environment.json").read_text())
    (path / "environment.json").write_text(json.dumps(text | {"data_fingerprint": "0" * 64}))
    with pytest.raises(RecordError, match="other mnist1d data"):
        train(config, out)


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


def test_one_thread_each(tmp_path):
    before = torch.get_num_threads()
    runs = train_all(small_plan(epochs=1), tmp_path, jobs=1)
    assert runs[0].environment.sittings[0].threads == 1
    assert torch.get_num_threads() == before
