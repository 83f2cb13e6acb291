"""The executors without a cluster: names and options, plans, one task of an array, its script, and crowds of processes.

Oracle: the same runs trained serially, bit for bit.
"""

import json
import multiprocessing as mp
import os
import pickle
import signal
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from types import SimpleNamespace

import pytest

from executed import assert_none_twice, begun, files, serially, sittings, small, wait_until
from walkback.data.base import Split
from walkback.data.cache import Embedded
from walkback.errors import BadValue, RecordError, UnknownName
from walkback.records import RunFolder, find_runs
from walkback.records.plan_file import (
    Submission,
    ask_to_stop,
    beside,
    find_plans,
    read_job,
    read_outcome,
    read_plan,
    write_job,
)
from walkback.rules import RULES
from walkback.train import Event, train_all
from walkback.train.executors import EXECUTORS, make_executor
from walkback.train.executors.processes import one_crew
from walkback.train.task import Settings
from walkback.train.work import STOPPED, Folders, hand_over, set_aside, work

ROOT = Path(__file__).parents[2]


@pytest.fixture(scope="module")
def serial(tmp_path_factory):
    """Four short runs and two longer ones."""
    out = tmp_path_factory.mktemp("serial")
    return serially([*small(seeds=2, epochs=1), *small(rules=["dfa"], seeds=2, epochs=10)], out)


def same(serial: dict[str, bytes], out: Path) -> bool:
    found = files(out)
    return bool(found) and all(serial[name] == content for name, content in found.items())


def known(*events: Event) -> list[str]:
    return [event.kind for event in events if event.kind != "progress"]


# --- names and options ------------------------------------------------------------------------------------------------


def test_names_that_nobody_knows():
    assert {"serial", "processes", "ray", "slurm"} <= set(EXECUTORS.names())
    with pytest.raises(UnknownName, match="did you mean"):
        make_executor("proceses", None, {})


@pytest.mark.parametrize(
    ("name", "options", "words"),
    [
        ("ray", {"retrys": 1}, "retries"), ("processes", {"address": "auto"}, "has no option"),
        ("ray", {"retries": -1}, "retries=-1"), ("ray", {"retries": "often"}, "retries=often"),
        ("ray", {"object_store_mb": 1}, "object_store_mb"), ("ray", {"address": ["a"]}, "address"),
        ("slurm", {"per_task": 0}, "per_task"), ("slurm", {"per_task": 1.5}, "per_task"),
        ("slurm", {"requeue": "perhaps"}, "requeue"), ("slurm", {"partition": "a b"}, "partition"),
        ("slurm", {"partition": "a\n#SBATCH --uid=0"}, "partition"), ("slurm", {"partition": "a\n"}, "partition"),
        ("slurm", {"time": ""}, "time"), ("slurm", {"sbatch": "rm -rf"}, "sbatch"),
        ("slurm", {"sbatch": "'--comment=a\nrm'"}, "sbatch"), ("slurm", {"wait": True, "submit": False}, "wait"),
    ],
)  # fmt: skip
def test_error_values_that_an_option_cannot_take(name, options, words):
    with pytest.raises(BadValue, match=words) as error:
        make_executor(name, None, options)
    assert error.value.remedy


def test_a_number_is_fine_for_a_word():
    assert "--time=30" in make_executor("slurm", None, {"time": 30, "mem": "2G"}).asked


@pytest.mark.parametrize(
    ("name", "jobs", "words"),
    [
        *((name, 0, "--jobs 1") for name in ("serial", "processes", "ray", "slurm")), ("processes", -1, "--jobs 1"),
        ("serial", 2, "one run at a time"), ("ray", None, r"pip install 'walkback\[ray\]'"),
        ("slurm", None, "submit=false"),
    ],
)  # fmt: skip
def test_error_what_cannot_be_done_is_refused_before_anything_starts(name, jobs, words, out, monkeypatch):
    """No jobs, too many, Ray that is not installed, Slurm that is not here."""
    monkeypatch.setitem(sys.modules, "ray", None)
    monkeypatch.setenv("PATH", "")
    with pytest.raises(BadValue, match=words):
        train_all(small(epochs=1), out, executor=name, jobs=jobs)
    assert not out.exists()


class StandIn:
    """What we use of Ray, in this process: the first tasks are lost with their workers."""

    cloudpickle = pickle
    exceptions = SimpleNamespace(RayError=ConnectionError, RayTaskError=ConnectionRefusedError)

    def __init__(self, lost: int):
        self.lost = lost

    def is_initialized(self):
        return True

    def put(self, thing):
        return thing

    def remote(self, **_):
        return lambda task: SimpleNamespace(remote=lambda *given: lambda: task(*given))

    def wait(self, tasks, **_):
        return tasks[:1], tasks[1:]

    def get(self, task):
        self.lost -= 1
        if self.lost >= 0:
            raise ConnectionError
        return task()

    def cluster_resources(self):
        return {"CPU": 1}


def test_lost_tasks_of_ray_are_sent_again_and_not_for_ever(out, serial, monkeypatch):
    """With a stand-in for Ray; `make test-ray` has real clusters."""
    events = []
    for lost, kinds in ((4, ["failed", "finished"]), (0, ["finished", "reused"])):
        monkeypatch.setitem(sys.modules, "ray", StandIn(lost))
        how = {"executor": "ray", "jobs": 1, "executor_options": {"retries": 3}}
        train_all(small(epochs=1, seeds=1), out, tell=events.append, **how)
        assert sorted(known(*events)) == kinds
        assert all("lost 4 times" in event.says for event in events if event.kind == "failed")
        events.clear()
    assert same(serial, out)


def test_processes_stay_for_the_next_round_and_none_is_left(out, serial):
    with one_crew():
        train_all(small(epochs=1, seeds=1), out, jobs=2)
        first = {process.pid for process in mp.active_children()}
        train_all(small(epochs=1, seeds=2), out, jobs=2)
        assert {process.pid for process in mp.active_children()} == first
        assert len(first) == 2
    assert not mp.active_children()
    assert same(serial, out)


def test_an_executor_in_a_file_of_the_user(tmp_path, out, serial):
    (tmp_path / "mine.py").write_text(
        "import walkback as wb\n"
        "from walkback.train.task import train_one\n"
        "class Backwards(wb.Executor):\n"
        "    def __init__(self, jobs=None, *, greeting: str = 'hi'):\n"
        "        super().__init__(jobs)\n"
        "        self.greeting = greeting\n"
        "    def run(self, configs, settings, note, interrupted):\n"
        "        for index in reversed(range(len(configs))):\n"
        "            train_one(index, configs[index], settings, note, interrupted)\n"
    )
    events = []
    name = f"{tmp_path}/mine.py:Backwards"
    runs = train_all(small(epochs=1, seeds=1), out, executor=name, tell=events.append)
    assert [event.index for event in events if event.kind == "finished"] == [1, 0]
    assert all(runs)
    assert same(serial, out)
    with pytest.raises(BadValue, match="greeting"):
        make_executor(name, None, {"greting": "ho"})
    (tmp_path / "empty.py").write_text("")
    with pytest.raises(UnknownName, match=r"walkback\.Executor"):
        make_executor(f"{tmp_path}/empty.py:Mine", None, {})


# --- plans ------------------------------------------------------------------------------------------------------------


def test_a_plan_comes_back_as_it_was_and_is_refused_if_it_is_not_whole(out):
    configs = small(epochs=1)
    plan = hand_over("slurm", configs, Settings(out), per_task=4)
    found = read_plan(plan)
    assert found.configs == configs
    assert [found.configs_of(task) for task in range(found.tasks)] == [[0, 1, 2, 3], [4, 5]]
    assert find_plans(out) == [plan]
    assert find_runs(out) == []
    whole = plan.read_text()
    for broken in (whole[: len(whole) // 2], "", "[]", whole.replace("walkback.plan/1", "walkback.plan/2")):
        plan.write_text(broken)
        with pytest.raises(RecordError):
            read_plan(plan)
    with pytest.raises(RecordError, match="does not exist"):
        read_plan(out / "plans/other.json")
    plan.write_text(whole)
    for task in (-1, 2):
        with pytest.raises(BadValue, match=r"0 … 1"):
            work(plan, task)


def test_one_task_of_a_plan(tmp_path, out, serial, monkeypatch):
    """Done, done again, failed with a word, stopped: each leaves its word and its exit status."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "bad.py").write_text(
        "import walkback as wb\nclass Bad(wb.Rule):\n    def credits(self, signal):\n        raise KeyError('B')\n"
    )
    plan = hand_over("slurm", small(rules=["bp", "bad.py:Bad"], seeds=1, epochs=1), Settings(out))
    monkeypatch.chdir("/")  # tasks begin anywhere
    assert work(plan, 0) == 0
    left = json.loads((beside(plan) / "0.json").read_text())
    assert (left["schema"], left["run"]) == ("walkback.outcome/1", read_plan(plan).configs[0].folder())
    assert (left["kind"], left["pid"], left["host"]) == ("finished", os.getpid(), os.uname().nodename)
    assert work(plan, 0) == 0
    assert (read_outcome(plan, 0).kind, read_outcome(plan, 0).attempt) == ("reused", 2)
    assert same(serial, out)
    monkeypatch.chdir("/")
    assert work(plan, 1) == 1
    failed = read_outcome(plan, 1)
    assert failed.kind == "failed"
    assert "KeyError" in failed.says
    ask_to_stop(plan)
    assert work(plan, 1) == STOPPED


def test_a_task_waits_for_a_lost_process_to_let_go(out, serial):
    """A run that another process has is busy at once; with patience it is trained when that process is gone."""
    (config,) = small(rules=["bp"], seeds=1, epochs=1)
    plan = hand_over("slurm", [config], Settings(out))
    with RunFolder(out, config):
        assert work(plan, 0) == 1
    assert read_outcome(plan, 0).kind == "busy"
    holder = RunFolder(out, config)
    with ThreadPoolExecutor(1) as pool:
        holder.__enter__()
        waiting = pool.submit(work, plan, 0, patience=60)
        time.sleep(0.5)
        assert not waiting.done()
        holder.__exit__()
        assert waiting.result(timeout=60) == 0
    assert same(serial, out)


def test_begun_afresh_once_and_not_by_every_attempt(out):
    (config,) = small(rules=["bp"], seeds=1, epochs=1)
    train_all([config], out, executor="serial")
    settings = set_aside([config], Settings(out, fresh=True))
    assert not settings.fresh
    assert (out / f"{config.folder()}.old1" / "result.json").exists()
    assert not (out / config.folder() / "result.json").exists()


def test_progress_is_read_from_the_folders(out):
    (config,) = small(rules=["bp"], seeds=1, epochs=3)
    watch = Folders([config], out)
    assert not list(watch.look([0]))
    train_all([config], out, executor="serial")
    (event,) = watch.look([0])
    assert (event.kind, event.progress.snapshot.epoch, event.progress.epochs) == ("progress", 3, 3)
    assert not list(watch.look([0]))
    with (out / config.folder() / "snapshots.jsonl").open("a") as file:
        file.write('{"torn')
    (event,) = watch.look([0])
    assert event.progress.snapshot.epoch == 3, "a line that is being written is left out"


# --- the script of an array, without a scheduler ----------------------------------------------------------------------


def script_of(out: Path, configs, **options) -> Path:
    events = []
    given = {"submit": False, **options}
    train_all(configs, out, executor="slurm", executor_options=given, tell=events.append, checkpoint_every=0.05)
    assert set(known(*events)) == {"submitted"}
    return beside(find_plans(out)[-1]) / "array.sh"


def test_the_script_is_stopped_and_resumed_without_a_scheduler(tmp_path, serial):
    """SIGTERM, then SIGUSR1 as before a time limit: a checkpoint each, and a requeue after the second alone."""
    out = tmp_path / "some runs"  # with a space
    script = script_of(out, small(rules=["dfa"], seeds=2, epochs=10), per_task=2, time="1:00:00")
    assert "#SBATCH --time=1:00:00" in script.read_text()
    fake = tmp_path / "bin"
    fake.mkdir()
    (fake / "scontrol").write_text(f'#!/bin/sh\necho "$@" >>"{tmp_path}/asked"\n')
    (fake / "scontrol").chmod(0o755)
    path = f"{fake}{os.pathsep}{os.environ['PATH']}"
    environment = os.environ | {"SLURM_ARRAY_JOB_ID": "17", "SLURM_ARRAY_TASK_ID": "0", "PATH": path}
    for number, status in ((signal.SIGTERM, STOPPED), (signal.SIGUSR1, 0)):
        had = sum(len(each) for each in sittings(out).values())
        process = subprocess.Popen(["bash", str(script)], env=environment)
        assert wait_until(lambda had=had: begun(out) and sum(len(e) for e in sittings(out).values()) > had)
        process.send_signal(number)
        assert process.wait(120) == status
        assert (tmp_path / "asked").exists() == (number == signal.SIGUSR1)
    assert (tmp_path / "asked").read_text() == "requeue 17_0\n"
    done = subprocess.run(["bash", str(script), "0"], timeout=240, check=False)
    assert done.returncode == 0, (beside(find_plans(out)[0]) / "0.log").read_text()
    assert len(files(out)) == 10
    assert same(serial, out)
    assert_none_twice(out)


def test_what_is_done_or_in_the_queue_is_not_submitted_twice(tmp_path, out, monkeypatch):
    """sbatch and squeue as scripts: twelve configs, one done, three of an earlier job still pending."""
    fake = tmp_path / "bin"
    fake.mkdir()
    for name, body in {
        "sbatch": f'cp "$2" {tmp_path}/submitted; echo "18;there"',
        "squeue": 'case "$*" in *17*) printf "0\\n1\\n2\\n";; *) echo "Invalid job id specified" >&2; exit 1;; esac',
    }.items():
        (fake / name).write_text(f"#!/bin/sh\n{body}\n")
        (fake / name).chmod(0o755)
    monkeypatch.setenv("PATH", f"{fake}{os.pathsep}{os.environ['PATH']}")
    configs = small(seeds=6, epochs=1)
    train_all(configs[5:6], out, executor="serial")
    earlier = hand_over("slurm", configs[:4], Settings(out))
    write_job(earlier, Submission(scheduler="slurm", id="17", submitted="now"))
    events = []
    runs = train_all(configs, out, jobs=3, executor="slurm", tell=events.append)
    says = {event.index: (event.kind, event.says) for event in events}
    assert [index for index, run in enumerate(runs) if run is not None] == [5]
    assert says[5][0] == "reused"
    assert says[0] == ("submitted", "task 0 of job 17")
    assert says[3] == ("submitted", "task 0 of job 18"), "its task is no longer in the queue, and it has no end"
    assert says[11] == ("submitted", "task 7 of job 18")
    assert "#SBATCH --array=0-7%3\n" in (tmp_path / "submitted").read_text()
    newest = find_plans(out)[-1]
    assert read_job(newest).id == "18"
    assert read_plan(newest).configs == [configs[3], configs[4], *configs[6:]]


def test_a_registered_rule_is_not_put_into_a_file(out, monkeypatch):
    class Mine(RULES.get("bp")):
        """Of this test."""

    monkeypatch.setitem(RULES._things, "mine", Mine)
    with pytest.raises(BadValue, match="registered by this process"):
        train_all(small(rules=["mine"], epochs=1), out, executor="slurm", executor_options={"submit": False})
    assert not find_plans(out)


# --- data on a node ---------------------------------------------------------------------------------------------------


def test_a_data_set_is_never_made_twice_at_the_same_time(tmp_path, monkeypatch):
    import torch

    monkeypatch.setenv("WALKBACK_CACHE", str(tmp_path))
    made = []

    def make():
        made.append(time.monotonic())
        time.sleep(0.3)
        x = torch.randn(40, 3, generator=torch.Generator().manual_seed(0))
        y = torch.arange(40) % 2
        return Split(x[:30], y[:30]), Split(x[30:], y[30:])

    source = Embedded(name="slowly", summary="", make=make, libraries=("torch",))
    with ThreadPoolExecutor(6) as pool:
        sets = list(pool.map(lambda _: source.load(None, lambda _: None), range(6)))
    assert len(made) == 1
    assert len({each.fingerprint for each in sets}) == 1


# --- crowds -----------------------------------------------------------------------------------------------------------


def worker(number: int, out: str) -> None:
    configs = small(epochs=1)
    order = [(number + i) % len(configs) for i in range(len(configs))]
    train_all([configs[i] for i in order], out, executor="serial")


@pytest.mark.parametrize("count", [4, pytest.param(64, marks=pytest.mark.slow)])
def test_a_crowd_on_one_folder_trains_each_run_once(count, tmp_path, out):
    """None is trained twice and none is lost, though every process tries every run, each in another order."""
    context = mp.get_context("forkserver")
    context.set_forkserver_preload(["walkback.train.executors", "executed"])
    processes = [context.Process(target=worker, args=(number, str(out))) for number in range(count)]
    for process in processes:
        process.start()
    for process in processes:
        process.join(600)
        assert process.exitcode == 0
    worker(0, str(out))
    assert files(out) == serially(small(epochs=1), tmp_path / "serial")
    assert all(len(each) == 1 for each in sittings(out).values()), sittings(out)
