"""Many runs at once: configs in, events out, runs back. An executor decides what trains them, and where.

The runs are the same bit for bit with any executor, and the same call resumes what another left unfinished.
"""

import math
import signal
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from walkback.records import Run, RunConfig, Snapshot, read_run
from walkback.train.executors import make_executor
from walkback.train.task import ENDS, Event, Settings, check_device


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
    executor: str | None = None,
    executor_options: Mapping[str, Any] | None = None,
) -> list[Run | None]:
    """Train every config, `jobs` at a time (default: one per core); the runs in order, None for unfinished ones.

    An interrupt (SIGINT or SIGTERM) stops every run after its current step, with a checkpoint; so does the end of the
    `budget`, in seconds. The same call resumes. `executor` is a name (processes, serial, ray, slurm; docs/cluster.md)
    or a class in your own file.
    """
    chosen = make_executor(executor or "processes", jobs, executor_options or {})
    if chosen.here:
        check_device(device)
    settings = Settings(Path(out), checkpoint_every, data_folder, device, fresh, fired)
    ends: dict[int, Event] = {}

    def note(event: Event) -> None:
        if event.kind != "progress":
            ends[event.index] = event
        tell(event)

    with interrupts() as asked:
        end = math.inf if budget is None else time.monotonic() + budget
        chosen.run(configs, settings, note, lambda: asked() or time.monotonic() > end)
    return [_read_end(configs[i], settings, ends.get(i)) for i in range(len(configs))]


def _read_end(config: RunConfig, settings: Settings, end: Event | None) -> Run | None:
    return read_run(settings.out / config.folder()) if end is not None and end.kind in ENDS else None


@contextmanager
def interrupts() -> Iterator[Callable[[], bool]]:
    """Inside, SIGINT and SIGTERM set a flag; a second signal acts as usual."""
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
