"""processes: one process per core on this machine, one thread each; the process that trains a run writes it."""

import signal
import threading
from collections.abc import Callable, Sequence
from multiprocessing.connection import Connection
from typing import Any

from walkback.errors import BadValue
from walkback.records import RunConfig
from walkback.train.bring import NEVER_SENT, Brought, bring, brought
from walkback.train.crew import READY, Crew, Lost, cores, start_worker
from walkback.train.executors.base import EXECUTORS, Executor, Note
from walkback.train.executors.serial import Serial
from walkback.train.task import Event, Settings, train_one


class Processes(Executor):
    """As many processes as cores (or `jobs`); with one, in this process."""

    def run(
        self, configs: Sequence[RunConfig], settings: Settings, note: Note, interrupted: Callable[[], bool]
    ) -> None:
        """Train the configs, `jobs` at a time."""
        jobs = min(len(configs), cores() if self.jobs is None else self.jobs)
        if jobs > 1:
            _in_processes(configs, settings, jobs, note, interrupted)
        else:
            Serial().run(configs, settings, note, interrupted)


def _in_processes(
    configs: Sequence[RunConfig],
    settings: Settings,
    jobs: int,
    note: Callable[[Event], None],
    interrupted: Callable[[], bool],
) -> None:
    lost = ""  # how a worker without a run ended

    def start() -> tuple[Connection, Any]:
        try:
            return start_worker(_worker, settings, brought())
        except Exception as error:
            raise BadValue(
                f"a rule, net or data set of yours could not be sent to another process: {error}",
                NEVER_SENT,
            ) from error

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


EXECUTORS.add("processes", Processes)
