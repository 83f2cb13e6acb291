"""Processes that read run folders beside this one. Each has a pipe of its own, and ends with it.

They get a function and things to do it with, one at a time, and send back what it returns. Whatever goes wrong with a
process costs nothing but its time: what it had is done here. So a function must give the same answer anywhere: it sees
no rule, net, data set or check that somebody registered in this process, and is not for callers that have any.
"""

import gc
import multiprocessing as mp
import os
import signal
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from multiprocessing.connection import Connection, wait
from multiprocessing.process import BaseProcess
from typing import Any, TypeVar

T = TypeVar("T")
R = TypeVar("R")


class Workers:
    """Some processes. Use as a context; `Workers(0)` does everything here."""

    def __init__(self, count: int):
        self.count = count
        self._processes: dict[Connection, BaseProcess] = {}

    def __enter__(self) -> "Workers":
        context = mp.get_context("spawn")  # a fork would copy whatever threads of this process hold
        for _ in range(self.count):
            ours, theirs = context.Pipe()
            process = context.Process(target=_serve, args=(theirs,), daemon=True)
            try:
                process.start()
            except OSError:  # no room for another process
                ours.close()
            else:
                self._processes[ours] = process
            theirs.close()
        return self

    def __exit__(self, *exception: object) -> None:
        for pipe in [*self._processes]:
            self._lose(pipe)

    def _lose(self, pipe: Connection) -> None:
        process = self._processes.pop(pipe)
        pipe.close()
        process.terminate()  # it only reads
        process.join()

    def each(self, function: Callable[[T], R], things: Sequence[T]) -> Iterator[tuple[int, R]]:
        """What the function returns for each thing, with its place, as soon as it is there."""
        waiting, has = [*range(len(things))][::-1], dict[Connection, int]()

        def give(pipe: Connection) -> None:
            if not waiting:
                return
            has[pipe] = waiting.pop()
            try:
                pipe.send((function, things[has[pipe]]))
            except OSError:
                lost(pipe)

        def lost(pipe: Connection) -> None:
            waiting.append(has.pop(pipe))
            self._lose(pipe)

        for pipe in [*self._processes]:
            give(pipe)
        while waiting or has:
            if not has:  # nobody is left
                place = waiting.pop()
                yield place, function(things[place])
            for ready in wait([*has]) if has else []:
                assert isinstance(ready, Connection)
                try:
                    found: Any = ready.recv()
                except (EOFError, OSError):
                    lost(ready)
                    continue
                place = has.pop(ready)
                give(ready)
                yield place, found


def _serve(pipe: Connection) -> None:
    gc.freeze()  # what was imported stays
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # it goes to the whole terminal, and who started this one ends it
    with few_collections():
        while True:
            try:
                function, thing = pipe.recv()
                pipe.send(function(thing))
            except (EOFError, OSError):
                return


@contextmanager
def few_collections() -> Iterator[None]:
    """Look for cycles of garbage less often: records are made and dropped by the thousand, and hold none."""
    usual = gc.get_threshold()
    gc.set_threshold(50_000, 20, 100)
    try:
        yield
    finally:
        gc.set_threshold(*usual)


def usual_count() -> int:
    """As many as this process may use cores; none where there is one."""
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    return cores if cores > 1 else 0


def batches(things: Sequence[T], size: Callable[[T], int], most: int) -> list[list[T]]:
    """The things in order, some at a time: of about `most` together, each at least one."""
    found: list[list[T]] = []
    room = 0
    for thing in things:
        if room < size(thing) or not found:
            found.append([])
            room = most
        found[-1].append(thing)
        room -= size(thing)
    return found
