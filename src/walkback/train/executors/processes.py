"""On this machine: `serial`, one run after the other in this process; `processes`, one process per core.

Each process has one thread, and the process that trains a run writes it.
"""

import signal
import threading
from collections.abc import Callable, Sequence
from multiprocessing.connection import Connection
from typing import Any

from walkback.errors import BadValue
from walkback.records import RunConfig
from walkback.train.crew import READY, Crew, Lost, cores, start_worker
from walkback.train.executors.base import EXECUTORS, Brought, Executor, Note, bring, brought, sending
from walkback.train.task import Event, Settings, train_one


class Serial(Executor):
    """One run after the other, in this process: what every other executor must agree with, bit for bit."""

    def __init__(self, jobs: int | None = None):
        super().__init__(jobs)
        if jobs not in (None, 1):
            raise BadValue(f"executor serial trains one run at a time, not {jobs}", "leave --jobs out, or --executor")

    def run(
        self, configs: Sequence[RunConfig], settings: Settings, note: Note, interrupted: Callable[[], bool]
    ) -> None:
        """Train the configs in their order."""
        for index, config in enumerate(configs):
            if not interrupted():
                train_one(index, config, settings, note, interrupted)


class Processes(Executor):
    """As many processes as cores (or `jobs`); with one, in this process."""

    def run(
        self, configs: Sequence[RunConfig], settings: Settings, note: Note, interrupted: Callable[[], bool]
    ) -> None:
        """Train the configs, `jobs` at a time."""
        jobs = min(len(configs), cores() if self.jobs is None else self.jobs)
        if jobs <= 1:
            Serial().run(configs, settings, note, interrupted)
            return

        def start() -> tuple[Connection, Any]:
            with sending(", or use one job (--jobs 1)"):
                return start_worker(_worker, settings, brought())

        lost = ""  # how a worker without a run ended
        crew = Crew(start, enumerate(configs), interrupted)  # on SIGTERM a worker stops after its current step
        for pipe, message in crew.messages(jobs):
            if not isinstance(message, Lost):
                note(message)
                if message.kind != "progress":
                    crew.give(pipe)
            elif message.task is not None:
                index, _ = message.task
                note(Event(index, "failed", says=f"{message.how}; the same command resumes the run"))
            elif crew.waiting:
                lost = message.how
        if lost and not interrupted():
            for index, _ in reversed(crew.waiting):
                note(Event(index, "failed", says=f"{lost}, before this run could begin; then give the same command"))


def _worker(pipe: Connection, settings: Settings, things: Brought) -> None:
    """Ask for a run, train it, tell; until there is none."""
    bring(things)
    stop = threading.Event()
    signal.signal(signal.SIGTERM, lambda *_: stop.set())
    pipe.send(READY)
    while (task := pipe.recv()) is not None:
        index, config = task
        train_one(index, config, settings, pipe.send, stop.is_set)


EXECUTORS.add("serial", Serial)
EXECUTORS.add("processes", Processes)
