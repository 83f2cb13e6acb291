"""The trainings of an audit: one process per core where the user's functions can be sent there, otherwise in order.

A process is started without importing the script that the user started, so that a call at the top level of a script
does not start itself again. What a loop prints in a process of its own is kept in OUT/training.log.
"""

import os
import pickle
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, redirect_stdout
from multiprocessing.connection import Connection
from pathlib import Path
from types import ModuleType
from typing import Any, NamedTuple

import torch

from walkback.audits.training.job import Job, Wanted
from walkback.audits.training.one import train_one
from walkback.errors import WalkbackError
from walkback.own import load_file
from walkback.probes.preserve import undisturbed
from walkback.records.loop_training import LoopTraining, read_loop_training
from walkback.report.numbers import duration
from walkback.train.crew import READY, Crew, Lost, start_worker

LOG = "training.log"


class TrainingEnd(NamedTuple):
    """What became of one training: its record, or why there is none."""

    wanted: Wanted
    record: LoopTraining | None
    why: str = ""


Note = Callable[[TrainingEnd], object]


def sendable(job: Job) -> tuple[bytes | None, str]:
    """The job as bytes for another process; None, with the reason, where it cannot be sent."""
    try:
        content = pickle.dumps(job)
    except Exception as error:  # a lambda, a local function, a generator
        return None, f"something of it cannot be sent to another process ({error})"
    if b"__main__" in content:
        return None, "its functions are defined in the script or notebook that was started"
    return content, ""


def train_all(job: Job, wanted: Sequence[Wanted], out: Path, jobs: int, note: Note) -> None:
    """Do all of them; `note` hears of each as it ends, and may raise to stop the rest."""
    content, _ = sendable(job) if jobs > 1 and len(wanted) > 1 else (None, "")
    if content is None:
        for each in wanted:
            note(in_order(job, each, out))
    else:
        _in_processes(job, content, wanted, out, min(jobs, len(wanted)), note)


def in_order(job: Job, wanted: Wanted, out: Path) -> TrainingEnd:
    """One training here. Random state, torch's switches and the number of threads are afterwards as before."""
    with here_as_before():
        return _one(job, wanted, out)


@contextmanager
def here_as_before() -> Iterator[None]:
    """One thread inside; random state and torch's switches are put back."""
    threads = torch.get_num_threads()
    cuda = torch.cuda.get_rng_state_all() if torch.cuda.is_available() else None
    folder = Path.cwd()
    with undisturbed(whole=True):
        torch.set_num_threads(1)
        try:
            yield
        finally:
            torch.set_num_threads(threads)
            os.chdir(folder)
            if cuda is not None:
                torch.cuda.set_rng_state_all(cuda)


def _one(job: Job, wanted: Wanted, out: Path) -> TrainingEnd:
    try:
        return TrainingEnd(wanted, train_one(job, wanted, out))
    except WalkbackError as error:
        return TrainingEnd(wanted, None, str(error))


def _in_processes(job: Job, content: bytes, wanted: Sequence[Wanted], out: Path, jobs: int, note: Note) -> None:
    def start() -> tuple[Connection, Any]:
        with _without_main():
            ours, process = start_worker(_worker, str(out))
        ours.send(list(job.files))
        ours.send_bytes(content)
        return ours, process

    crew = Crew(start, wanted, interrupted=lambda: False)
    try:
        for pipe, message in crew.messages(jobs):
            if not isinstance(message, Lost):
                task, place, why = message
                note(TrainingEnd(task, read_loop_training(place)[0] if place else None, why))
                crew.give(pipe)
            elif message.task is not None:
                note(TrainingEnd(message.task, None, message.how))
            elif not crew.at_work:  # it could not even begin: here at least it says why
                while crew.waiting:
                    note(in_order(job, crew.waiting.pop(), out))
    finally:
        crew.kill()


@contextmanager
def _without_main() -> Iterator[None]:
    """Inside, a new process does not import the user's script a second time."""
    main = sys.modules["__main__"]
    sys.modules["__main__"] = ModuleType("__main__")
    try:
        yield
    finally:
        sys.modules["__main__"] = main


def _worker(pipe: Connection, out: str) -> None:
    """Ask for a training, do it, and report; until none is left."""
    torch.set_num_threads(1)
    for file in pipe.recv():
        load_file(Path(file))
    job: Job = pickle.loads(pipe.recv_bytes())  # noqa: S301 - from the process that started this one
    pipe.send(READY)
    with (Path(out) / LOG).open("a", buffering=1, errors="replace") as log, redirect_stdout(log):
        while (task := pipe.recv()) is not None:
            done = _one(job, Wanted(*task), Path(out))
            place = None if done.record is None else str(done.record.place(Path(out)))
            pipe.send((Wanted(*task), place, done.why))


class Tally:
    """Says after each training how it ended, how many are done, and how long the rest will take."""

    def __init__(self, say: Callable[[str], object], jobs: int):
        self.say, self.jobs = say, jobs
        self.total, self.done, self.seconds = 0, 0, list[float]()

    def expect(self, count: int) -> None:
        """So many more will be trained."""
        self.total += count

    def note(self, outcome: TrainingEnd) -> None:
        """Count one."""
        self.done += 1
        record = outcome.record
        if record is None:
            words = f"✗ {outcome.why}"
        elif record.status == "finished":
            words = "✓" if record.accuracy is None else f"✓ accuracy {record.accuracy:.3f}"
        else:
            words = f"✗ {record.status}: {record.why}"
        if record is not None:
            self.seconds.append(record.seconds)
        left = self.total - self.done
        pace = sum(self.seconds) / len(self.seconds) if self.seconds else 0.0
        rest = f", about {duration(left * pace / min(self.jobs, left))} left" if left and pace else ""
        self.say(f"{outcome.wanted.label()}: {words}  [{self.done} of {self.total} trainings{rest}]")
