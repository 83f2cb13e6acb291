"""Many runs at once: one process a core, one thread each, every run written by the one process that trains it.

`train_all` is the small interface behind which other executors can stand: configs in, events out, runs back.
"""

import math
import multiprocessing as mp
import os
import signal
import sys
import threading
import time
import traceback
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from multiprocessing.connection import Connection, wait
from pathlib import Path
from typing import Any, Literal

import torch

from walkback.data import DATASETS, is_own
from walkback.errors import BadValue, Busy, WalkbackError
from walkback.nets import NETS
from walkback.own import foreign
from walkback.records import Run, RunConfig, Snapshot, read_run
from walkback.registry import Registry
from walkback.rules import RULES
from walkback.train.loop import Progress, Stopped, train

Kind = Literal["progress", "finished", "diverged", "fired", "reused", "stopped", "busy", "failed"]


@dataclass(frozen=True)
class Event:
    """What happened to run number `index`: progress, or an end with what there is to say of it."""

    index: int
    kind: Kind
    progress: Progress | None = None
    says: str = ""


@dataclass(frozen=True)
class Settings:
    """How to train, as against what: nothing here changes a result."""

    out: Path
    checkpoint_every: float = 15.0
    data_folder: Path | None = None
    device: str = "cpu"
    fresh: bool = False
    fired: Callable[[Snapshot], str | None] | None = None


def cores() -> int:
    """The cores that this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def check_device(name: str) -> str:
    """`name`, if torch knows such a device and it is here."""
    try:
        torch.zeros(1, device=torch.device(name))
    except (RuntimeError, AssertionError, NotImplementedError) as error:
        why = str(error).splitlines()[0]
        raise BadValue(f"there is no device {name} here: {why}", "leave --device out to train on the cpu") from error
    return name


def train_all(
    configs: Sequence[RunConfig],
    out: Path | str = "runs",
    *,
    jobs: int | None = None,
    tell: Callable[[Event], object] = lambda _: None,
    checkpoint_every: float = 15.0,
    data_folder: Path | None = None,
    device: str = "cpu",
    fresh: bool = False,
    fired: Callable[[Snapshot], str | None] | None = None,
    budget: float | None = None,
) -> list[Run | None]:
    """Train every config, `jobs` at a time (default: one per core); the runs in order, None for those with no end.

    An interrupt (SIGINT or SIGTERM) stops every run after its current step, with a checkpoint; so does the end of the
    `budget`, in seconds. The same call goes on.
    """
    settings = Settings(Path(out), checkpoint_every, data_folder, check_device(device), fresh, fired)
    jobs = min(len(configs), cores() if jobs is None else jobs)
    if jobs < 1 and configs:
        raise BadValue(f"{jobs} jobs cannot train anything", "give --jobs 1 or more")
    ends: dict[int, Event] = {}

    def note(event: Event) -> None:
        if event.kind != "progress":
            ends[event.index] = event
        tell(event)

    with interrupts() as asked:
        end = math.inf if budget is None else time.monotonic() + budget

        def interrupted() -> bool:
            return asked() or time.monotonic() > end

        if jobs <= 1:
            for index, config in enumerate(configs):
                if not interrupted():
                    _one(index, config, settings, note, interrupted)
        else:
            _in_processes(configs, settings, jobs, note, interrupted)
    return [_read_end(configs[i], settings, ends.get(i)) for i in range(len(configs))]


def _read_end(config: RunConfig, settings: Settings, end: Event | None) -> Run | None:
    if end is None or end.kind not in ("finished", "diverged", "fired", "reused"):
        return None
    return read_run(settings.out / config.folder())


def _one(
    index: int, config: RunConfig, settings: Settings, note: Callable[[Event], None], stop: Callable[[], bool]
) -> None:
    """Train one run here, and turn whatever happens into an event."""
    told = False

    def tell(progress: Progress) -> None:
        nonlocal told
        told = True
        note(Event(index, "progress", progress))

    try:
        run = train(
            config, settings.out, tell=tell, should_stop=stop, checkpoint_every=settings.checkpoint_every,
            data_folder=settings.data_folder, device=settings.device, fresh=settings.fresh,
            fired=settings.fired or (lambda _: None),
        )  # fmt: skip
        assert run.result is not None
        note(Event(index, run.result.status if told else "reused", says=run.result.says))
    except Stopped:
        note(Event(index, "stopped", says="stopped; the same command goes on"))
    except Busy as busy:
        note(Event(index, "busy", says=str(busy)))
    except WalkbackError as error:
        note(Event(index, "failed", says=str(error)))
    except Exception as error:
        # A fault of a rule, a net or ours: it must not take the other runs with it.
        where = traceback.extract_tb(error.__traceback__)[-1]
        place = f"{Path(where.filename).name}:{where.lineno}"
        if os.environ.get("WALKBACK_TRACEBACK"):
            traceback.print_exc(file=sys.stderr)
        note(Event(index, "failed", says=f"{type(error).__name__}: {error} ({place}; WALKBACK_TRACEBACK=1 shows all)"))


@contextmanager
def interrupts() -> Iterator[Callable[[], bool]]:
    """SIGINT and SIGTERM set a flag inside; a second one acts as it always does."""
    flag = threading.Event()
    if threading.current_thread() is not threading.main_thread():
        yield flag.is_set
        return
    before = {number: signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)}

    def restore() -> None:
        for number, handler in before.items():
            signal.signal(number, handler)

    def handle(_number: int, _frame: object) -> None:
        flag.set()
        restore()

    for number in before:
        signal.signal(number, handle)
    try:
        yield flag.is_set
    finally:
        restore()


def _in_processes(
    configs: Sequence[RunConfig],
    settings: Settings,
    jobs: int,
    note: Callable[[Event], None],
    interrupted: Callable[[], bool],
) -> None:
    """A pool that survives the death of its workers: each has a pipe of its own, and a lost one costs only its run."""
    context = mp.get_context("spawn")
    waiting = list(enumerate(configs))[::-1]
    workers: dict[Connection, tuple[Any, int]] = {}  # pipe → (process, the run it has, or -1)
    stopping = False
    lost = ""  # how a worker ended that had no run yet

    def start() -> None:
        ours, theirs = context.Pipe()
        process = context.Process(target=_worker, args=(theirs, settings, _brought()), daemon=True)
        try:
            with _sigint_ignored():
                process.start()
        except Exception as error:
            raise BadValue(
                f"a rule, net or data set of yours could not be sent to another process: {error}",
                "put it in a file and name it as my_rule.py:MyRule, or use one job (--jobs 1)",
            ) from error
        theirs.close()
        workers[ours] = (process, -1)

    def give(pipe: Connection) -> None:
        process, _ = workers[pipe]
        task = waiting.pop() if waiting and not interrupted() else None
        workers[pipe] = (process, -1 if task is None else task[0])
        try:
            pipe.send(task)
        except OSError:  # it is dead, which its end of the pipe will say; the run is another's
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
                    lost = ended(process.exitcode)  # no other is started in its place: it would end the same way
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
                process.terminate()  # a worker takes SIGTERM as the wish to stop after its current step
    if lost and not interrupted():
        for index, _ in reversed(waiting):
            note(Event(index, "failed", says=f"{lost}, before this run could begin; then give the same command"))


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


REGISTRIES: dict[str, Registry[Any]] = {"rule": RULES, "net": NETS, "data set": DATASETS}


def _brought() -> dict[str, dict[str, Any]]:
    """What the user's own code registered, which a new process does not know yet."""
    data = {name: DATASETS.get(name) for name in DATASETS.names() if is_own(name)}
    return {"rule": foreign(RULES), "net": foreign(NETS), "data set": data}


def _worker(pipe: Connection, settings: Settings, brought: dict[str, dict[str, Any]]) -> None:
    """The life of one process: ask for a run, train it, tell; until there is none, or nobody listens any more."""
    _die_with_parent()
    for kind, things in brought.items():
        for name, thing in things.items():
            REGISTRIES[kind].add(name, thing)
    stop = threading.Event()
    signal.signal(signal.SIGTERM, lambda *_: stop.set())
    try:
        pipe.send("ready")
        while (task := pipe.recv()) is not None:
            index, config = task
            _one(index, config, settings, pipe.send, stop.is_set)
    except (EOFError, ConnectionError):
        return


@contextmanager
def _sigint_ignored() -> Iterator[None]:
    """A process started inside ignores Ctrl-C for life: the terminal sends it to all, and our parent answers."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    before = signal.signal(signal.SIGINT, signal.SIG_IGN)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)


def _die_with_parent() -> None:
    """On Linux, ask to be killed when the parent dies, so that no orphan goes on holding a run."""
    if sys.platform == "linux":
        import ctypes

        ctypes.CDLL(None).prctl(1, signal.SIGKILL)
