"""On this machine: `serial`, one run after the other in this process; `processes`, one process per core.

Each process has one thread, and the process that trains a run writes it.
"""

import signal
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager

from walkback.errors import BadValue
from walkback.records import RunConfig
from walkback.train.crew import Crew, Lost, cores
from walkback.train.executors.base import EXECUTORS, Brought, Executor, Note, bring, brought, sending
from walkback.train.task import Event, Settings, train_one

Task = tuple[int, RunConfig, Settings]


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

        with ExitStack() as stack:
            crew = _kept[-1] if _kept else stack.enter_context(_new_crew())
            crew.jobs, crew.interrupted = jobs, interrupted
            for (index, *_), message in crew.do([(index, config, settings) for index, config in enumerate(configs)]):
                if isinstance(message, Lost):
                    then = "; the same command resumes the run"
                    early = ", before this run could begin; then give the same command"
                    message = Event(index, "failed", says=message.how + (then if message.begun else early))
                note(message)


_kept: list[Crew] = []


@contextmanager
def one_crew() -> Iterator[None]:
    """Inside, and in a function that it decorates, processes wait for the next call of `train_all`: their start takes
    seconds."""
    with _new_crew() as crew:
        _kept.append(crew)
        try:
            yield
        finally:
            _kept.remove(crew)


def _new_crew() -> Crew:
    return Crew(_begin, brought(), jobs=1, around=lambda: sending(", or use one job (--jobs 1)"))


def _begin(tell: Note, things: Brought) -> Callable[[Task], Event]:
    """What trains a run in a process of its own, and returns its end. On SIGTERM it stops after its current step."""
    bring(things)
    stop = threading.Event()
    signal.signal(signal.SIGTERM, lambda *_: stop.set())

    def train(task: Task) -> Event:
        ends: list[Event] = []
        train_one(*task, lambda e: tell(e) if e.kind == "progress" else ends.append(e), stop.is_set)
        return ends[0]

    return train


EXECUTORS.add("serial", Serial)
EXECUTORS.add("processes", Processes)
