"""Processes that work for this one: each has a pipe of its own, so that a lost one costs only the task that it had.

All processes of walkback are started here: those that train runs, train a user's loop, and judge. So are the signals
that stop them.
"""

import os
import signal
import sys
import threading
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from multiprocessing import get_context, resource_tracker
from multiprocessing.connection import Connection, wait
from typing import Any, Generic, NamedTuple, TypeVar

T = TypeVar("T")
READY = "ready"  # what a worker sends first, when it can take a task


def cores() -> int:
    """The cores that this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def usual_count() -> int:
    """How many processes judge beside this one: one per core, none where there is one."""
    return count if (count := cores()) > 1 else 0


class Lost(NamedTuple):
    """What is received from a worker that is no more: the task it had, and how its process ended."""

    task: Any
    how: str


def start_worker(life: Callable[..., None], *given: Any) -> tuple[Connection, Any]:
    """A new process that does `life(pipe, *given)`: our end of its pipe, and the process. It dies with this one."""
    context = get_context("spawn")
    ours, other = context.Pipe()
    process = context.Process(target=_lives, args=(life, other, *given), daemon=True)
    try:
        with _ctrl_c_kept():
            process.start()
    finally:
        other.close()
    return ours, process


def _lives(life: Callable[..., None], pipe: Connection, *given: Any) -> None:
    """The life of a worker, until there is nothing more to do, or its parent is gone."""
    _ignore_ctrl_c()
    _die_with_parent()
    try:
        life(pipe, *given)
    except (EOFError, ConnectionError):
        return


class Crew(Generic[T]):
    """Workers that are given one task after the other. It survives their death: a lost one costs only its task.

    start        starts a worker: our end of its pipe, and its process. It sends READY, and gets tasks until one is None
    tasks        in their order; `waiting` holds those that no worker has yet, the next one last
    interrupted  from then on no task is begun, and every worker is asked once, by SIGTERM, to stop
    """

    def __init__(
        self, start: Callable[[], tuple[Connection, Any]], tasks: Iterable[T], interrupted: Callable[[], bool]
    ):
        self.start, self.interrupted = start, interrupted
        self.waiting = list(tasks)[::-1]
        self.at_work: dict[Connection, tuple[Any, T | None]] = {}  # by pipe: its process, and the task that it has

    def messages(self, jobs: int) -> Iterator[tuple[Connection, Any]]:
        """What so many workers send, until none is left; `Lost` of one that ended, which is replaced if it had a task.

        One that ends without a task is not replaced: another would end the same way.
        """
        stopping = False
        for _ in range(jobs):
            try:
                self._begin()
            except OSError:  # there is no room for another process
                if not self.at_work:
                    raise
                break
        while self.at_work:
            for pipe, message in self._received():
                if message == READY:
                    self.give(pipe)
                    continue
                yield pipe, message
                if isinstance(message, Lost) and message.task is not None and self.waiting and not self.interrupted():
                    self._begin()
            if self.interrupted() and not stopping:
                stopping = True
                for process, _ in self.at_work.values():
                    process.terminate()

    def give(self, pipe: Connection) -> None:
        """The next task for the worker that is done with one; None if there is none."""
        process, _ = self.at_work[pipe]
        task = self.waiting.pop() if self.waiting and not self.interrupted() else None
        self.at_work[pipe] = (process, task)
        try:
            pipe.send(task)
        except OSError:  # it is dead, which the pipe will show; another worker gets the task
            self.at_work[pipe] = (process, None)
            self.waiting.extend([] if task is None else [task])

    def kill(self) -> None:
        """End those that are left."""
        for process, _ in self.at_work.values():
            process.kill()

    def _begin(self) -> None:
        pipe, process = self.start()
        self.at_work[pipe] = (process, None)

    def _received(self, seconds: float = 0.2) -> Iterator[tuple[Connection, Any]]:
        """What was sent, waiting so long for the first. A worker that has ended is taken out, and is `Lost`."""
        for pipe in wait(list(self.at_work), timeout=seconds):
            assert isinstance(pipe, Connection)
            try:
                message = pipe.recv()
            except (EOFError, OSError):
                process, task = self.at_work.pop(pipe)
                process.join()
                message = Lost(task, ended(process.exitcode))
            yield pipe, message


def ended(code: int | None) -> str:
    """How a process ended that should not have, and what to do.

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


@contextmanager
def interrupts() -> Iterator[Callable[[], bool]]:
    """Inside, SIGINT and SIGTERM set a flag; a second signal acts as usual."""
    flag, before = threading.Event(), handlers()

    def handle(_number: int, _frame: object) -> None:
        flag.set()
        restore(before)

    for number in before:
        signal.signal(number, handle)
    try:
        yield flag.is_set
    finally:
        restore(before)


def handlers() -> dict[signal.Signals, Any]:
    """What SIGINT and SIGTERM do now; empty in a thread, which can neither get them nor set what they do."""
    if threading.current_thread() is not threading.main_thread():
        return {}
    return {number: signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)}


def restore(before: dict[signal.Signals, Any]) -> None:
    """Let them do again what they did before."""
    for number, handler in before.items():
        signal.signal(number, handler)


@contextmanager
def _ctrl_c_kept() -> Iterator[None]:
    """Hold Ctrl-C back from a process that is started inside, and keep it for this one, which gets it afterwards.

    The terminal sends it to all, and only the parent answers.
    """
    if sys.platform == "win32":
        yield
        return
    resource_tracker.ensure_running()  # otherwise it is started inside, and lets the signal through
    before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


def _ignore_ctrl_c() -> None:
    """In a new process: ignore for life what was held back so far."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    if sys.platform != "win32":
        signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGINT})


def _die_with_parent() -> None:
    """On Linux, ask to be killed when the parent dies, so that no orphan goes on holding a run."""
    if sys.platform == "linux":
        import ctypes

        ctypes.CDLL(None).prctl(1, signal.SIGKILL)
