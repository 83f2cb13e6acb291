"""processes: one process per core on this machine, one thread each; the process that trains a run writes it."""

import multiprocessing as mp
import signal
import sys
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from multiprocessing.connection import Connection, wait
from typing import Any

from walkback.errors import BadValue
from walkback.records import RunConfig
from walkback.train.bring import NEVER_SENT, Brought, bring, brought
from walkback.train.executors.base import EXECUTORS, Executor, Note
from walkback.train.executors.serial import Serial
from walkback.train.task import Event, Settings, cores, train_one


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
    context = mp.get_context("spawn")
    waiting = list(enumerate(configs))[::-1]
    workers: dict[Connection, tuple[Any, int]] = {}  # pipe → (process, the run it has, or -1)
    stopping = False
    lost = ""  # how a worker without a run ended

    def start() -> None:
        ours, theirs = context.Pipe()
        process = context.Process(target=_worker, args=(theirs, settings, brought()), daemon=True)
        try:
            with sigint_ignored():
                process.start()
        except Exception as error:
            raise BadValue(
                f"a rule, net or data set of yours could not be sent to another process: {error}",
                NEVER_SENT,
            ) from error
        theirs.close()
        workers[ours] = (process, -1)

    def give(pipe: Connection) -> None:
        process, _ = workers[pipe]
        task = waiting.pop() if waiting and not interrupted() else None
        workers[pipe] = (process, -1 if task is None else task[0])
        try:
            pipe.send(task)
        except OSError:  # it is dead, which the pipe will show; another worker gets the run
            workers[pipe] = (process, -1)
            waiting.extend([] if task is None else [task])

    for _ in range(jobs):
        start()
    while workers:
        for pipe in wait(list(workers), timeout=0.2):
            assert isinstance(pipe, Connection)
            try:
                message = pipe.recv()
            except (EOFError, OSError):
                process, index = workers.pop(pipe)
                process.join()
                if index >= 0:
                    note(Event(index, "failed", says=f"{ended(process.exitcode)}; the same command resumes the run"))
                    if waiting and not interrupted():
                        start()
                elif waiting:
                    lost = ended(process.exitcode)  # it is not replaced: another would end the same way
                continue
            if message == "ready":
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


def ended(code: int | None) -> str:
    """How a process ended unexpectedly, and what to do.

    >>> ended(-9)
    'its process was killed (SIGKILL), as the system does when memory runs out: try fewer --jobs'
    >>> ended(1)
    'its process ended by itself (exit 1), with the reason printed above'
    """
    if code is None or code >= 0:
        return f"its process ended by itself (exit {code}), with the reason printed above"
    try:
        name = signal.Signals(-code).name
    except ValueError:
        name = f"signal {-code}"
    if -code in (signal.SIGKILL, signal.SIGBUS):
        return f"its process was killed ({name}), as the system does when memory runs out: try fewer --jobs"
    return f"its process was ended by {name}"


def _worker(pipe: Connection, settings: Settings, things: Brought) -> None:
    """The loop of one process: get a run, train it, report; until there are no more, or the parent is gone."""
    die_with_parent()
    bring(things)
    stop = threading.Event()
    signal.signal(signal.SIGTERM, lambda *_: stop.set())
    try:
        pipe.send("ready")
        while (task := pipe.recv()) is not None:
            index, config = task
            train_one(index, config, settings, pipe.send, stop.is_set)
    except (EOFError, ConnectionError):
        return


@contextmanager
def sigint_ignored() -> Iterator[None]:
    """A process started inside always ignores Ctrl-C: the terminal sends it to all, and the parent handles it."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    before = signal.signal(signal.SIGINT, signal.SIG_IGN)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)


def die_with_parent() -> None:
    """On Linux, ask to be killed when the parent dies, so that no orphan keeps a run locked."""
    if sys.platform == "linux":
        import ctypes

        ctypes.CDLL(None).prctl(1, signal.SIGKILL)


EXECUTORS.add("processes", Processes)
