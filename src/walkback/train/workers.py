"""Processes that work for this one: each has a pipe of its own, so that a lost one costs only what it had in hand."""

import signal
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from multiprocessing import get_context
from multiprocessing.connection import Connection, wait
from typing import Any, NamedTuple, TypeVar

T = TypeVar("T")
AtWork = dict[Connection, tuple[Any, T | None]]
"""By our end of its pipe: the process of each worker, and the task that it has."""


class Lost(NamedTuple):
    """What is received from a worker that is no more: the task it had, and how its process ended."""

    task: Any
    how: str


def start_worker(life: Callable[..., None], *given: Any) -> tuple[Connection, Any]:
    """A new process that does `life(pipe, *given)`: our end of its pipe, and the process. It dies with this one."""
    context = get_context("spawn")
    ours, theirs = context.Pipe()
    process = context.Process(target=_lives, args=(life, theirs, *given), daemon=True)
    with sigint_ignored():
        process.start()
    theirs.close()
    return ours, process


def _lives(life: Callable[..., None], pipe: Connection, *given: Any) -> None:
    """The life of a worker, until there is nothing more to do, or nobody listens any more."""
    die_with_parent()
    try:
        life(pipe, *given)
    except (EOFError, ConnectionError):
        return


def received(workers: AtWork[T], seconds: float = 0.2) -> Iterator[tuple[Connection, Any]]:
    """What the workers have sent, waiting so long for the first. One that has ended is taken out, and is `Lost`."""
    for pipe in wait(list(workers), timeout=seconds):
        assert isinstance(pipe, Connection)
        try:
            message = pipe.recv()
        except (EOFError, OSError):
            process, task = workers.pop(pipe)
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
def sigint_ignored() -> Iterator[None]:
    """A process started inside ignores Ctrl-C for life: the terminal sends it to all, and our parent answers."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    before = signal.signal(signal.SIGINT, signal.SIG_IGN)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)


def die_with_parent() -> None:
    """On Linux, ask to be killed when the parent dies, so that no orphan goes on holding a run."""
    if sys.platform == "linux":
        import ctypes

        ctypes.CDLL(None).prctl(1, signal.SIGKILL)
