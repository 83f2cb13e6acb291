"""slurm: a job array that calls `walkback work PLAN --index N`, submitted, and waited for if wanted.

The script is plain bash and stays next to the plan: any scheduler with arrays, or a loop, can run it. Slurm is asked
only whether a task is still in its queue; what was trained, and how far, is in the run folders.
"""

import os
import re
import shlex
import shutil
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Annotated

from msgspec import Meta

from walkback.errors import BadValue
from walkback.records import RunConfig
from walkback.records.plan_file import (
    Submission,
    beside,
    find_plans,
    now,
    read_job,
    read_plan,
    write_job,
)
from walkback.train.executors.base import EXECUTORS, Executor, Note, refuse_registered
from walkback.train.task import ENDS, Event, Settings, train_one
from walkback.train.work import Folders, end_of, hand_over, outcome_of, set_aside

ASK_EVERY = 5.0  # seconds between two questions to the scheduler
ASK_SECONDS = 60  # for an answer
Word = Annotated[str, Meta(pattern=r"^[\w.,:/@%+=\[\]-]+\Z")]  # one word, as a line of #SBATCH takes it

ENDED = (*ENDS, "failed", "busy")  # a task is finished with a config that has one of these outcomes
Task = tuple[Path, int, int, str | None]  # a plan, the number of a config in it, its task, and the job that has it

SCRIPT = """\
#!/bin/bash
{directives}
# Trains one task of a plan. Another scheduler: hand it the task's number as $1. The same script resumes.
task=${{SLURM_ARRAY_TASK_ID:-${{1:?give the number of the task, 0 to {last}}}}}
exec >>{logs}/"$task".log 2>&1
echo "$(date -u +%FT%TZ) task $task on $(hostname)"
# After a lost node its lock on a shared file system may stay for a while.
if [ "${{SLURM_RESTART_COUNT:-0}}" -gt 0 ]; then patience=120; else patience=0; fi
# SIGTERM (pre-emption, scancel): stop with a checkpoint; Slurm knows whether to requeue. SIGUSR1 (time is nearly up):
# the same, and requeue, since Slurm would not.
again= worker=
trap 'signalled=yes; [ -z "$worker" ] || kill -TERM "$worker"' TERM INT
trap 'signalled=yes; again=yes; [ -z "$worker" ] || kill -TERM "$worker"' USR1
{python} -m walkback work {plan} --index "$task" --patience $patience &
worker=$!
while :; do
  signalled=
  wait $worker
  status=$?
  [ -n "$signalled" ] || break
done
# 75: stopped with a checkpoint; 143: before there was anything to keep.
if [ -n "$again" ] && [ -n "$SLURM_ARRAY_JOB_ID" ] && {{ [ $status = 75 ] || [ $status = 143 ]; }}; then
  exec scontrol requeue "${{SLURM_ARRAY_JOB_ID}}_$task"
fi
exit $status
"""


class Slurm(Executor):
    """A job array of one core per task; `jobs` is how many of them may run at once.

    time, partition, account, qos, mem   as in sbatch
    sbatch     further options of sbatch, separated by spaces, such as --constraint=skylake
    per_task   runs that one task trains, one after the other: for short runs, or more than the cluster's MaxArraySize
    requeue    whether Slurm may restart a task after pre-emption or the loss of its node
    warn       seconds before the time limit at which a task stops with a checkpoint and queues again
    wait       wait, show progress, and return when the array is done; after Ctrl-C the array continues
    submit     false: only write the plan and the script, for another scheduler
    """

    here = False

    def __init__(
        self, jobs: int | None = None, *, time: Word | None = None, partition: Word | None = None,
        account: Word | None = None, qos: Word | None = None, mem: Word | None = None, sbatch: str | None = None,
        per_task: Annotated[int, Meta(ge=1)] = 1, requeue: bool = True,
        warn: Annotated[int, Meta(ge=1, le=65535)] = 90, wait: bool = False, submit: bool = True,
    ):  # fmt: skip
        super().__init__(jobs)
        named = {"time": time, "partition": partition, "account": account, "qos": qos, "mem": mem}
        self.asked = [f"--{name}={value}" for name, value in named.items() if value is not None]
        self.more = shlex.split(sbatch or "")
        if any("\n" in word or not word.startswith("-") for word in self.more):
            raise BadValue(f"executor slurm cannot take sbatch={sbatch}", "write options as --name=value")
        self.per_task, self.requeue, self.warn, self.wait, self.submit = per_task, requeue, warn, wait, submit
        if wait and not submit:
            raise BadValue("there is nothing to wait for if nothing is submitted", "leave out wait, or submit=false")

    def run(
        self, configs: Sequence[RunConfig], settings: Settings, note: Note, interrupted: Callable[[], bool]
    ) -> None:
        """Submit what is neither done nor queued; then return, or wait."""
        if self.submit and shutil.which("sbatch") is None:
            raise BadValue(
                "sbatch is not on this machine: executor slurm submits from a node of the cluster",
                "log in to one, or write the script for another scheduler with --executor-option submit=false",
            )
        refuse_registered(configs, "slurm")
        queue = _Queue()
        under_way: dict[str, Task] = {} if settings.fresh else self._under_way(settings.out, queue)
        todo: list[int] = []
        watched: dict[int, Task] = {}
        for index, config in enumerate(configs):
            if config.folder() in under_way:
                watched[index] = under_way[config.folder()]
            elif not settings.fresh and (settings.out / config.folder() / "result.json").exists():
                train_one(index, config, settings, note, interrupted)  # read, not trained
            else:
                todo.append(index)
        if todo:
            wanted = [configs[index] for index in todo]
            plan = hand_over("slurm", wanted, set_aside(wanted, settings), self.per_task)
            script = self._write_script(plan, -(-len(todo) // self.per_task))
            job = self._submitted(plan, script) if self.submit else None
            watched |= {index: (plan, number, number // self.per_task, job) for number, index in enumerate(todo)}
        if self.wait:
            _wait(watched, Folders(configs, settings.out), queue, note, interrupted)
            return
        for index, (plan, _, task, job) in watched.items():
            says = f"task {task} of job {job}" if job is not None else f"bash {beside(plan) / 'array.sh'} {task}"
            note(Event(index, "submitted", says=says))

    def _write_script(self, plan: Path, tasks: int) -> Path:
        limit = "" if self.jobs is None else f"%{self.jobs}"
        directives = [
            "--job-name=walkback", f"--array=0-{tasks - 1}{limit}", "--nodes=1", "--ntasks=1", "--cpus-per-task=1",
            "--output=/dev/null", f"--signal=B:USR1@{self.warn}", "--requeue" if self.requeue else "--no-requeue",
            *self.asked, *self.more,
        ]  # fmt: skip
        script = beside(plan) / "array.sh"
        text = SCRIPT.format(
            directives="\n".join(f"#SBATCH {words}" for words in directives), last=tasks - 1,
            logs=shlex.quote(str(beside(plan))), python=shlex.quote(sys.executable), plan=shlex.quote(str(plan)),
        )  # fmt: skip
        script.write_text(text)
        return script

    def _submitted(self, plan: Path, script: Path) -> str:
        environment = {name: value for name, value in os.environ.items() if not name.startswith("SBATCH_")}
        done = subprocess.run(
            ["sbatch", "--parsable", str(script)], capture_output=True, text=True, check=False, env=environment
        )
        if done.returncode:
            why = " ".join(done.stderr.split()) or f"exit {done.returncode}"
            many = "array" in why.lower()
            raise BadValue(
                f"sbatch refused the array: {why}",
                "give each task more runs with --executor-option per_task=10" if many
                else f"see `man sbatch`; the script is {script}",
            )  # fmt: skip
        job = done.stdout.strip().partition(";")[0]
        write_job(plan, Submission(scheduler="slurm", id=job, submitted=now()))
        return job

    @staticmethod
    def _under_way(out: Path, queue: "_Queue") -> dict[str, Task]:
        """The runs that a task of an earlier submission trains or will train: they are not submitted again."""
        found: dict[str, Task] = {}
        for path in find_plans(out.absolute()):
            job = read_job(path)
            if job is None or job.scheduler != "slurm" or not (tasks := queue.tasks(job.id)):
                continue
            plan = read_plan(path)
            for task in tasks:
                for number in plan.configs_of(task):
                    outcome = outcome_of(path, number)
                    if outcome is None or outcome.kind not in ENDED:
                        found[plan.configs[number].folder()] = (path, number, task, job.id)
        return found


class _Queue:
    """The state of Slurm's queue, asked now and then."""

    def __init__(self) -> None:
        self._known: dict[str, tuple[float, set[int] | None]] = {}

    def tasks(self, job: str) -> set[int] | None:
        """The tasks of a job that are pending, running or about to be requeued; None if Slurm did not answer."""
        when, known = self._known.get(job, (-ASK_EVERY, None))
        if time.monotonic() - when >= ASK_EVERY:
            known = self._ask(job)
            self._known[job] = (time.monotonic(), known)
        return known

    @staticmethod
    def _ask(job: str) -> set[int] | None:
        words = ["squeue", "--noheader", "--array", "--jobs", job, "--format", "%K"]
        try:
            done = subprocess.run(words, capture_output=True, text=True, check=False, timeout=ASK_SECONDS)
        except (OSError, subprocess.TimeoutExpired):
            return None
        if done.returncode:  # Slurm forgets jobs some minutes after their end
            return set() if "Invalid job id" in done.stderr else None
        return {int(word) for word in re.findall(r"^\s*(\d+)\s*$", done.stdout, re.M)}


def _wait(
    watched: dict[int, Task], folders: Folders, queue: _Queue, note: Note, interrupted: Callable[[], bool]
) -> None:
    """Until every run is done, or its task has left the queue: read the folders often, the queue now and then."""
    left = dict(watched)
    while left and not interrupted():
        for event in folders.look(left):
            note(event)
        for index in [*left]:
            end = _end(index, left[index], queue)
            if end is not None:
                del left[index]
                note(end)
        time.sleep(0.25)
    for index, (_, _, _, job) in left.items():
        note(Event(index, "submitted", says=f"job {job} continues; to end it: scancel {job}"))


def _end(index: int, waited_for: Task, queue: _Queue) -> Event | None:
    """The end of a run, or of its task; None while there is neither."""
    plan, number, task, job = waited_for
    assert job is not None
    in_queue = queue.tasks(job)
    gone = in_queue is not None and task not in in_queue  # asked first: its last outcome is then written
    outcome = outcome_of(plan, number)
    if outcome is not None and outcome.kind in ENDED:
        return end_of(index, outcome)
    if not gone:
        return None
    if outcome is not None and outcome.kind == "stopped":
        return Event(index, "stopped", says=f"task {job}_{task} was ended; the same command resumes it")
    how = "was ended before it started" if outcome is None else f"ended without a message on {outcome.host}"
    log = beside(plan) / f"{task}.log"
    return Event(index, "failed", says=f"task {job}_{task} {how} (log: {log}); the same command resumes the run")


EXECUTORS.add("slurm", Slurm)
