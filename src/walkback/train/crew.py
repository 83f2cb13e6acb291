"""Processes that work for this one: each has a pipe of its own, so that a lost one costs only the task that it had.

All processes of walkback are started here: those that train runs, train a user's loop, and judge. So are the signals
that stop them.
"""

import ctypes
import os
import signal
import sys
import threading
from collections.abc import Callable, Iterable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext, suppress
from multiprocessing import get_context, resource_tracker
from multiprocessing.connection import Connection, wait
from typing import Any, NamedTuple, TypeVar

T = TypeVar("T")
Tell = Callable[[Any], None]  # sends word of a task that is under way to the process that started this one
Begin = Callable[..., Callable[[Any], Any]]  # of Tell and what else is given: what does one task
PATIENCE = 10.0  # seconds until a process that was asked to end is killed


def cores() -> int:
    """The cores that this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def usual_count() -> int:
    """How many processes judge beside this one: one per core, none where there is one."""
    return count if (count := cores()) > 1 else 0


class Lost(NamedTuple):
    """What is known of a task that was not done: how its process ended; and whether the task was begun."""

    how: str
    begun: bool


class Crew:
    """Processes that do one task after the other. They wait for more until the crew is closed, as `with` does.

    begin        called in each process, with what tells this one how a task goes, and with `given`. What it returns
                 does one task and returns its result
    jobs         so many processes at most
    interrupted  from then on no task is begun, and every process is asked once, by SIGTERM, to stop
    around       a context in which each process is started
    """

    def __init__(
        self, begin: Begin, *given: Any, jobs: int, interrupted: Callable[[], bool] = lambda: False,
        around: Callable[[], AbstractContextManager[None]] = nullcontext,
    ):  # fmt: skip
        self.begin, self.given, self.jobs, self.interrupted, self.around = begin, given, jobs, interrupted, around
        self._processes: dict[Connection, Any] = {}  # by its pipe
        self._tasks: dict[Connection, Any] = {}  # of those that have one
        self._idle: set[Connection] = set()  # those that asked for one

    def do(self, tasks: Iterable[T]) -> Iterator[tuple[T, Any]]:
        """Reports and results of tasks, each with its task; `Lost` of one whose process ended.

        Such a process is replaced. One that ends before it has a task is not: another would end the same way. Where
        none is left, the tasks that are left are `Lost` too.
        """
        waiting, how, stopping = list(tasks)[::-1], "", False
        for pipe in [pipe for pipe, process in self._processes.items() if not process.is_alive()]:
            self._idle.discard(pipe)  # it was lost while it waited
            del self._processes[pipe]
        self._start(min(self.jobs, len(waiting)))
        while self._tasks or (waiting and self._processes and not self.interrupted()):
            while waiting and self._idle and not self.interrupted():
                pipe = self._idle.pop()
                with suppress(OSError):  # it is dead, which the pipe will show; another gets the task
                    pipe.send(waiting[-1])
                    self._tasks[pipe] = waiting.pop()
            for pipe in wait(list(self._processes), timeout=0.2):  # type: ignore[assignment]
                try:
                    done, message = pipe.recv()
                except (EOFError, OSError):
                    process = self._processes.pop(pipe)
                    process.join()
                    how = ended(process.exitcode)
                    self._idle.discard(pipe)
                    if pipe in self._tasks:
                        yield self._tasks.pop(pipe), Lost(how, begun=True)
                        self._start(len(self._processes) + bool(waiting))
                    continue
                if done:
                    self._idle.add(pipe)
                if pipe in self._tasks:  # else it has just begun
                    yield (self._tasks.pop(pipe) if done else self._tasks[pipe]), message
            if self.interrupted() and not stopping:
                stopping = True
                for pipe in self._tasks:
                    self._processes[pipe].terminate()
        if not self.interrupted():
            yield from ((task, Lost(how, begun=False)) for task in reversed(waiting))

    def _start(self, count: int) -> None:
        """Have so many processes, or as many as there is room for."""
        while len(self._processes) < count and not self.interrupted():
            try:
                with self.around():
                    pipe, process = start_worker(self.begin, *self.given)
            except OSError:
                if not self._processes:
                    raise
                return
            self._processes[pipe] = process

    def __enter__(self) -> "Crew":
        return self

    def __exit__(self, *_: object) -> None:
        """End every process: at once where it waits for a task, else by SIGTERM, and at last by force."""
        for pipe, process in self._processes.items():
            pipe.close()
            process.terminate()
        for process in self._processes.values():
            process.join(PATIENCE)
            process.kill()
            process.join()
        self._processes, self._tasks, self._idle = {}, {}, set()


def start_worker(begin: Begin, *given: Any) -> tuple[Connection, Any]:
    """A new process for `begin(tell, *given)`: our end of its pipe, and the process. It dies with this one."""
    context = get_context("spawn")
    ours, other = context.Pipe()
    process = context.Process(target=_work, args=(other, begin, *given), daemon=True)
    try:
        with _ctrl_c_kept():
            process.start()
    finally:
        other.close()
    return ours, process


def _work(pipe: Connection, begin: Begin, *given: Any) -> None:
    """The life of a process: one task after the other, until its pipe is closed or its parent is gone."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # what was held back so far is ignored for life
    if sys.platform != "win32":
        signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGINT})
    if sys.platform == "linux":  # killed when the parent dies, so that no orphan goes on holding a run
        ctypes.CDLL(None).prctl(1, signal.SIGKILL)
    try:
        do = begin(lambda message: pipe.send((False, message)), *given)
        pipe.send((True, None))
        while True:
            pipe.send((True, do(pipe.recv())))
    except (EOFError, ConnectionError):
        return


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
