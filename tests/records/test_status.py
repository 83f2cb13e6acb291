"""walkback status: told from the folders and the plans beside them, without reading what it need not."""

import csv
import io
import json
import shutil
from pathlib import Path

import pytest
from filelock import FileLock
from rich.console import Console

from fake_runs import write_run
from walkback.cli import app
from walkback.errors import BadValue, RecordError
from walkback.records import RunFolder, folder
from walkback.records import status as room
from walkback.records.plan_file import (
    PlanFile,
    Submission,
    TaskOutcome,
    now,
    write_job,
    write_outcome,
    write_plan,
)
from walkback.records.status import RunStatus, counted, statuses
from walkback.report.terminal import print_status, status_text
from walkback.train import plan

CONFIGS = plan(
    data="mnist1d", rules=["dfa"], seeds=[1, 2, 3, 4, 5, 6, 7], epochs=3, net_options={"width": 16, "depth": 2}
)


def states(*places) -> dict[int | None, tuple[str, str]]:
    return {each.seed: (each.state, each.says) for each in statuses(*places)}


def handed_over(out: Path, name: str = "20260101-000000-slurm-a", configs=CONFIGS) -> Path:
    made = PlanFile(name=name, made=now(), executor="slurm", folder=str(out), configs=configs)
    path = write_plan(out, made)
    write_job(path, Submission(scheduler="slurm", id="17", submitted=now()))
    return path


def leave_word(path: Path, index: int, kind: str, says: str = "", host: str = "node3") -> None:
    run = CONFIGS[index].folder()
    write_outcome(path, TaskOutcome(index=index, run=run, kind=kind, says=says, host=host, pid=1, at=now()))


def test_folders_alone_tell_done_stopped_running_and_unreadable(out) -> None:
    write_run(out, CONFIGS[0], accuracy=0.4)
    write_run(out, CONFIGS[1], status="diverged", until=1)
    write_run(out, CONFIGS[2], status=None, until=2)
    broken = write_run(out, CONFIGS[3])
    (broken / "result.json").write_text("{")
    with RunFolder(out, CONFIGS[4]):
        found = {each.seed: each for each in statuses(out)}
    assert {seed: each.state for seed, each in found.items()} == {
        1: "done", 2: "done", 3: "stopped", 5: "running", None: "unreadable"
    }  # fmt: skip
    assert (found[1].epochs, found[1].of, found[1].accuracy) == (3, 3, 0.4)
    assert "diverged" in found[2].says
    assert (found[3].epochs, found[3].accuracy) == (2, None)
    assert "result.json is not valid JSON" in found[None].says
    assert states(out)[5][0] == "stopped", "the lock is free again"
    assert counted(statuses(out)) == {"done": 2, "stopped": 2, "unreadable": 1}


def test_where_the_system_does_not_list_its_locks_the_lock_itself_is_asked(out, monkeypatch) -> None:
    write_run(out, CONFIGS[0], status=None, until=1)
    (out / f".{CONFIGS[0].folder()}.lock").touch()
    assert states(out)[1][0] == "stopped", "a lock file that nobody holds is no sign of a process"
    monkeypatch.setattr(room, "LOCKS", out / "nothing")
    with FileLock(out / f".{CONFIGS[0].folder()}.lock"):
        assert states(out)[1][0] == "running"
    assert states(out)[1][0] == "stopped"


def test_plans_tell_who_waits_and_who_failed_and_why(out) -> None:
    path = handed_over(out)
    write_run(out, CONFIGS[0])
    leave_word(path, 0, "failed", "an old word")  # the folder's result is what counts
    leave_word(path, 1, "failed", "no data set cifar10 here")
    leave_word(path, 2, "running")
    write_run(out, CONFIGS[3], status=None, until=1)
    leave_word(path, 3, "stopped")
    leave_word(path, 4, "finished")  # and no folder: it was deleted
    with RunFolder(out, CONFIGS[5]):
        leave_word(path, 5, "running", host="node1")
        found = states(out)
    assert found == {
        1: ("done", "finished 3 epochs"),
        2: ("failed", "no data set cifar10 here (on node3)"),
        3: ("failed", "its process ended without a message on node3; the same command resumes it"),
        4: ("waiting", "slurm job 17, stopped on node3 with a checkpoint"),
        5: ("failed", "its plan says finished, but its folder has no result; the same command trains it again"),
        6: ("running", "on node1"),
        7: ("waiting", "slurm job 17"),
    }


def test_the_newest_plan_that_names_a_run_counts(out) -> None:
    leave_word(handed_over(out), 1, "failed", "full disk")
    later = write_plan(
        out, PlanFile(name="20260102-000000-ray-b", made=now(), executor="ray", folder="/", configs=CONFIGS[:2])
    )  # fmt: skip
    assert later == out / "plans/20260102-000000-ray-b.json"
    assert states(out)[2] == ("waiting", "ray, plan 20260102-000000-ray-b")


def test_a_damaged_outcome_is_told_of_its_run_and_a_damaged_plan_is_refused(out) -> None:
    path = handed_over(out)
    (path.with_suffix("") / "0.json").write_text("{")
    found = statuses(out)
    assert [each.name for each in found if each.state == "unreadable"] == [CONFIGS[0].folder()]
    path.write_text("{")
    with pytest.raises(RecordError, match=r"not valid JSON"):
        statuses(out)


def test_a_folder_that_vanishes_while_it_is_read_is_left_out(out, monkeypatch) -> None:
    gone, stays = write_run(out, CONFIGS[0]), write_run(out, CONFIGS[1])
    real = folder.read_bytes

    def vanishing(path: str, *more: int) -> bytes:
        if gone in Path(path).parents:
            shutil.rmtree(gone, ignore_errors=True)
        return real(path, *more)

    monkeypatch.setattr(folder, "read_bytes", vanishing)
    assert [each.path for each in statuses(out)] == [stays]


def test_of_a_run_that_is_done_two_files_are_read(out, monkeypatch) -> None:
    for config in CONFIGS:
        write_run(out, config)
    opened: list[str] = []
    real = folder.read_bytes
    monkeypatch.setattr(folder, "read_bytes", lambda path, *more: opened.append(Path(path).name) or real(path, *more))
    told: list[tuple[int, int]] = []
    statuses(out, note=lambda done, of: told.append((done, of)))
    assert sorted(opened) == ["config.json"] * 7 + ["result.json"] * 7
    assert told[0] == (0, 7)
    assert told[-1] == (7, 7)


def many(count: int) -> list[RunStatus]:
    return [
        RunStatus(Path(f"r{n}"), "failed" if n % 2 else "running", f"reason {n % 40}" if n % 2 else "", "dfa", seed=n)
        for n in range(count)
    ]


def test_the_terminal_names_what_a_person_can_read_and_says_where_the_rest_is() -> None:
    console = Console(file=io.StringIO(), width=80)
    print_status(many(1000), console, 5, "runs")
    lines = console.file.getvalue().splitlines()
    assert lines[0] == "1,000 runs: 500 running, 500 failed"
    assert len(lines) < 25
    assert "… and 510 lines more" in lines
    assert lines[-1] == "Each run in a row: walkback status runs --format csv"


def test_every_run_is_in_the_data(out, capsys, tmp_path) -> None:
    found = many(1000)
    rows = list(csv.DictReader(io.StringIO(status_text(found, "csv"))))
    assert [row["run"] for row in rows] == [each.name for each in found]
    assert [row["state"] for row in json.loads(status_text(found, "json"))] == [each.state for each in found]
    odd = RunStatus(Path("x"), "done", "=cmd()", accuracy=float("nan"))
    assert json.loads(status_text([odd], "json"))[0]["accuracy"] == "nan"
    assert "'=cmd()" in status_text([odd], "csv")
    write_run(out, CONFIGS[0])
    app(["status", str(out), "--format", "csv", "--to", str(tmp_path / "s.csv")], result_action="return_value")
    assert len((tmp_path / "s.csv").read_text().splitlines()) == 2
    app(["status", str(out)], result_action="return_value")
    assert "1 run: 1 done" in capsys.readouterr().out


def test_what_makes_no_sense_is_refused(out) -> None:
    for words in (["--rows", "0"], ["--to", "x"]):
        with pytest.raises(BadValue):
            app(["status", str(out), *words], result_action="return_value")
    with pytest.raises(RecordError, match=r"the folder .* does not exist"):
        statuses(out / "nothing")
