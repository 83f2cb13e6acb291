"""processes: one process per core on this machine, one thread each; the process that trains a run writes it."""

import signal
import threading
from collections.abc import Callable, Sequence
from multiprocessing.connection import Connection

from walkback.errors import BadValue
from walkback.records import RunConfig
from walkback.train.bring import NEVER_SENT, Brought, bring, brought
from walkback.train.executors.base import EXECUTORS, Executor, Note
from walkback.train.executors.serial import Serial
from walkback.train.task import Event, Settings, cores, train_one
from walkback.train.workers import AtWork, Lost, received, start_worker


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
    """A pool that survives the death of its workers: each has its own pipe, and a lost one costs only its run."""
    waiting = list(enumerate(configs))[::-1]
    workers: AtWork[int] = {}
    stopping = False
    lost = ""  # how a worker without a run ended

    def start() -> None:
        try:
            ours, process = start_worker(_worker, settings, brought())
        except Exception as error:
            raise BadValue(
                f"a rule, net or data set of yours could not be sent to another process: {error}",
                NEVER_SENT,
            ) from error
        workers[ours] = (process, None)

    def give(pipe: Connection) -> None:
        process, _ = workers[pipe]
        task = waiting.pop() if waiting and not interrupted() else None
        workers[pipe] = (process, None if task is None else task[0])
        try:
            pipe.send(task)
        except OSError:  # it is dead, which the pipe will show; another worker gets the run
            workers[pipe] = (process, None)
            waiting.extend([] if task is None else [task])

    for _ in range(jobs):
        start()
    while workers:
        for pipe, message in received(workers):
            if isinstance(message, Lost):
                if message.task is not None:
                    note(Event(message.task, "failed", says=f"{message.how}; the same command resumes the run"))
                    if waiting and not interrupted():
                        start()
                elif waiting:
                    lost = message.how  # it is not replaced: another would end the same way
            elif message == "ready":
                give(pipe)
            else:
                note(message)
                if message.kind != "progress":
                    give(pipe)
        if interrupted() and not stopping:
            stopping = True
            for process, _ in workers.values():
                process.terminate()  # on SIGTERM a worker stops after its current step
    if lost and not interrupted():
        for index, _ in reversed(waiting):
            note(Event(index, "failed", says=f"{lost}, before this run could begin; then give the same command"))


def _worker(pipe: Connection, settings: Settings, things: Brought) -> None:
    """Ask for a run, train it, tell; until there is none."""
    bring(things)
    stop = threading.Event()
    signal.signal(signal.SIGTERM, lambda *_: stop.set())
    pipe.send("ready")
    while (task := pipe.recv()) is not None:
        index, config = task
        train_one(index, config, settings, pipe.send, stop.is_set)


EXECUTORS.add("processes", Processes)
