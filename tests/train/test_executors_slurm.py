"""A real Slurm on this machine: cancelled, drained, requeued, resumed. `make test-slurm` brings, starts and stops it.

Oracle: the same runs trained serially, bit for bit.
"""

import os
import re
import subprocess

import pytest

from executed import assert_none_twice, begun, files, serially, sittings, small, start, train, wait_until, write_data
from walkback.records.plan_file import find_plans, read_job, read_outcome, read_plan

pytestmark = pytest.mark.slurm
EPOCHS = 40


@pytest.fixture(scope="module")
def serial(tmp_path_factory):
    return serially(small(seeds=6, epochs=EPOCHS), tmp_path_factory.mktemp("serial"))


def slurm(*words: str) -> str:
    done = subprocess.run(words, capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 0, done
    return done.stdout


def queue(job: str) -> list[str]:
    done = subprocess.run(["squeue", "-h", "-r", "-j", job, "-o", "%K %T"], capture_output=True, text=True, check=False)
    return done.stdout.splitlines()


def submitted(tmp_path, *words: str):
    """The plan and the job of a command that submits and leaves."""
    code, told = train(tmp_path, "--executor", "slurm", *words)
    assert code == 0, told
    plan = find_plans(tmp_path / "runs")[-1]
    return plan, read_job(plan).id, told


def test_twelve_runs_one_cancelled_and_the_node_drained_then_resumed(tmp_path, serial):
    words = ["--rules", "bp,dfa", "--seeds", "6", "--epochs", str(EPOCHS)]
    out = tmp_path / "runs"
    plan, job, told = submitted(tmp_path, *words)
    assert "12 runs are with the scheduler" in told
    node = os.uname().nodename.partition(".")[0]
    try:
        assert wait_until(lambda: begun(out))
        victim = next(i for i in range(12) if (out / read_plan(plan).configs[i].folder() / "config.json").exists())
        slurm("scancel", f"{job}_{victim}")
        slurm("scontrol", "update", f"nodename={node}", "state=drain", "reason=test")
        # A drained node ends what it has, and begins nothing new.
        assert wait_until(lambda: all("PENDING" in line for line in queue(job)), 300)
        waiting = len(queue(job))
        assert waiting >= 6
        done = len(list(out.glob("*/result.json")))
        # The same command, while tasks wait: it submits the cancelled run alone.
        _, second, told = submitted(tmp_path, *words)
        assert second != job
        assert len(queue(second)) == 12 - waiting - done == 1
    finally:
        slurm("scontrol", "update", f"nodename={node}", "state=resume")
    code, told = train(tmp_path, "--executor", "slurm", "--wait", *words)
    assert code == 0, told
    assert len(find_plans(out)) == 2, "waiting submits nothing that is in the queue"
    assert files(out) == serial
    assert_none_twice(out)
    assert len([each for each in sittings(out).values() if len(each) > 1]) <= 1, "only the cancelled one was resumed"


def test_pre_empted_and_out_of_time_it_queues_again_and_goes_on(tmp_path, serial):
    """SIGUSR1 as before the time limit, then requeued by the scheduler as a pre-empted task is."""
    words = ["--rules", "bp", "--seed", "42", "--epochs", str(EPOCHS)]
    out = tmp_path / "runs"
    plan, job, _ = submitted(tmp_path, *words)
    assert wait_until(lambda: begun(out))
    slurm("scancel", "--batch", "--signal=USR1", f"{job}_0")
    assert wait_until(lambda: (o := read_outcome(plan, 0)).kind == "stopped" or o.attempt > 1)
    (first,) = sittings(out).values()
    assert first[0][1], "it stopped with a checkpoint"
    # Slurm holds a requeued task back for two minutes, to let its node settle; a new begin time ends that.
    assert wait_until(lambda: [line for line in queue(job) if "PENDING" in line])
    slurm("scontrol", "update", f"jobid={job}_0", "starttime=now")
    assert wait_until(lambda: read_outcome(plan, 0).attempt > 1 and len(next(iter(sittings(out).values()))) > 1, 300)
    slurm("scontrol", "requeue", f"{job}_0")
    assert wait_until(lambda: not queue(job) or [line for line in queue(job) if "PENDING" in line])
    if queue(job):
        slurm("scontrol", "update", f"jobid={job}_0", "starttime=now")
    code, told = train(tmp_path, "--executor", "slurm", "--wait", *words)
    assert code == 0, told
    name = next(iter(sittings(out)))
    assert {key: value for key, value in serial.items() if key.startswith(name)} == files(out)
    assert_none_twice(out)
    assert len(sittings(out)[name]) >= 2


def test_what_slurm_leaves_another_executor_ends(tmp_path, serial):
    words = ["--rules", "dfa", "--seed", "42", "--epochs", str(EPOCHS)]
    out = tmp_path / "runs"
    _, job, _ = submitted(tmp_path, *words)
    assert wait_until(lambda: begun(out))
    slurm("scancel", job)
    assert wait_until(lambda: not queue(job))
    code, told = train(tmp_path, "--executor", "serial", *words)
    assert code == 0, told
    (name,) = sittings(out)
    assert {key: value for key, value in serial.items() if key.startswith(name)} == files(out)
    assert_none_twice(out)


def test_a_cancelled_task_is_told_to_whoever_waits(tmp_path):
    """And a node without the data says so by name."""
    process = start(tmp_path, "--executor", "slurm", "--wait", "--rules", "bp", "--seed", "1", "--epochs", "4000")
    out = tmp_path / "runs"
    assert wait_until(lambda: begun(out))
    slurm("scancel", read_job(find_plans(out)[0]).id)
    told, _ = process.communicate(timeout=120)
    assert process.returncode in (1, 130), told
    assert re.search(r"was ended|ended without a message|Stopped with 1 runs", told), told
    write_data(tmp_path / "my_data.py", "'SLURM_JOB_ID' in os.environ")
    words = ["--executor", "slurm", "--wait", "--data", "my_data.py:load", "--rules", "bp", "--seed", "1"]
    code, told = train(tmp_path, *words, "--epochs", "1")
    assert code == 1, told
    assert "no such disk" in told
    assert f"on {os.uname().nodename}: " in told


def test_an_array_that_the_cluster_does_not_take_says_what_to_do(tmp_path):
    code, told = train(
        tmp_path, "--executor", "slurm", "--executor-option", "partition=nowhere", "--rules", "bp", "--seed", "1"
    )
    assert code == 2, told
    assert "sbatch refused" in told
    assert "invalid partition" in told.lower()
    code, told = train(tmp_path, "--executor", "slurm", "--rules", "bp", "--seeds", "1002", "--epochs", "1")
    assert code == 2, told
    assert "per_task" in told
