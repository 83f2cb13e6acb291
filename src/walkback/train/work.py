"""Runs that other processes or machines train: the plan that is handed over, a worker's part of it, and the progress.

A worker writes the outcome of each config (a file next to the plan), which says why a run is unfinished; the run's own
folder says how far it is, and that it is done.
"""

import contextlib
import os
import platform
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path

from walkback.errors import BadValue, RecordError, WalkbackError
from walkback.own import in_file
from walkback.records import RunConfig, RunFolder, Snapshot
from walkback.records.plan_file import (
    PlanFile,
    TaskOutcome,
    asked_to_stop,
    new_name,
    now,
    read_outcome,
    read_plan,
    runs_of,
    write_outcome,
    write_plan,
)
from walkback.records.record import parse
from walkback.train.loop import Progress
from walkback.train.task import ENDS, Event, Settings, check_device, train_one

STOPPED = 75  # exit status: stopped with a checkpoint, to be resumed (EX_TEMPFAIL)
LOOK_EVERY = 0.2  # seconds between two checks for a request to stop, which may be on a slow file system
TAIL = 1 << 20  # bytes read from the end of a log: a snapshot of 1,000 layers has less


# --- handing over -----------------------------------------------------------------------------------------------------


def hand_over(executor: str, configs: Sequence[RunConfig], settings: Settings, per_task: int = 1) -> Path:
    """Write the plan of these configs next to their runs. Returns its file."""
    data = None if settings.data_folder is None else str(settings.data_folder.expanduser().absolute())
    plan = PlanFile(
        name=new_name(executor), made=now(), executor=executor, folder=str(Path.cwd()), data_folder=data,
        device=settings.device, checkpoint_every=settings.checkpoint_every, per_task=per_task, configs=list(configs),
    )  # fmt: skip
    return write_plan(settings.out.absolute(), plan)


def set_aside(configs: Sequence[RunConfig], settings: Settings) -> Settings:
    """Start runs again if asked: here and only once, because a restarted worker must resume."""
    if settings.fresh:
        for config in configs:
            with RunFolder(settings.out, config, fresh=True):
                pass
    return replace(settings, fresh=False)


class Folders:
    """Follows the snapshots of runs. `look` returns what is new since the last call."""

    def __init__(self, configs: Sequence[RunConfig], out: Path):
        self.configs = configs
        self._files = [out / config.folder() / "snapshots.jsonl" for config in configs]
        self._seen: dict[int, tuple[int, int]] = {}  # size and time of the file
        self._began: dict[int, tuple[float, int]] = {}  # when we first saw it, and at which epoch

    def look(self, indices: Iterable[int]) -> Iterator[Event]:
        """Progress of those among `indices` that have a new snapshot."""
        for index in indices:
            try:
                found = self._files[index].stat()
            except OSError:  # not started
                continue
            if self._seen.get(index) != (found.st_size, found.st_mtime_ns):
                self._seen[index] = (found.st_size, found.st_mtime_ns)
                snapshot = _last_snapshot(self._files[index])
                if snapshot is not None:
                    time_now, epochs = time.monotonic(), self.configs[index].epochs
                    then, first = self._began.setdefault(index, (time_now, snapshot.epoch))
                    done = snapshot.epoch - first
                    left = (time_now - then) / done * (epochs - snapshot.epoch) if done > 0 else None
                    yield Event(index, "progress", Progress(snapshot, epochs, left))


def _last_snapshot(file: Path) -> Snapshot | None:
    """The last whole line; None if there is none, or while it is being written."""
    try:
        with file.open("rb") as opened:
            opened.seek(0, 2)
            opened.seek(max(0, opened.tell() - TAIL))
            *lines, _ = opened.read().split(b"\n")
        return parse(Snapshot, lines[-1], str(file)) if lines else None
    except (OSError, RecordError):
        return None


# --- a worker ---------------------------------------------------------------------------------------------------------


def host() -> str:
    """The name of this machine."""
    return platform.node() or "an unnamed host"


def end_of(index: int, outcome: TaskOutcome) -> Event:
    """The outcome of a config as an event; the message of a failure names the machine."""
    assert outcome.kind != "running"
    says = f"on {outcome.host}: {outcome.says}" if outcome.kind in ("failed", "busy") else outcome.says
    return Event(index, outcome.kind, says=says)


def go_to(folder: str, configs: Sequence[RunConfig]) -> None:
    """Change to the folder where the plan was made, so that file names mean the same."""
    try:
        os.chdir(folder)
    except OSError as error:
        if not any(in_file(name) for c in configs for name in (c.rule, c.net, c.data)):
            return  # no file name needs it
        raise BadValue(
            f"{host()} cannot enter {folder}, where this plan was made: {error.strerror}",
            "have every node see the same folders, or make the plan in one that they share",
        ) from error


def wish_to_stop(plan: Path, also: Callable[[], bool] = lambda: False) -> Callable[[], bool]:
    """Whether `also` is true or a stop file lies next to the plan; cheap enough to call after every step."""
    asked, looked = False, -LOOK_EVERY

    def stop() -> bool:
        nonlocal asked, looked
        if not asked and time.monotonic() - looked >= LOOK_EVERY:
            looked = time.monotonic()
            asked = asked_to_stop(plan)
        return asked or also()

    return stop


def outcome_of(plan: Path, index: int) -> TaskOutcome | None:
    """What became of config number `index`; None if no worker has had it, or if the file is damaged."""
    try:
        return read_outcome(plan, index)
    except WalkbackError:  # the run's folder decides
        return None


def work_on(
    plan: Path, index: int, config: RunConfig, settings: Settings, stop: Callable[[], bool], *, patience: float = 0.0,
    task: str | None = None, tell: Callable[[Event], object] = lambda _: None,
) -> Event:  # fmt: skip
    """Train config number `index` of a plan here and write its outcome, which is returned.

    patience   seconds to wait for another process that has the run: a lost one may hold its lock for a while
    """
    before = outcome_of(plan, index)
    outcome = TaskOutcome(
        index=index, run=config.folder(), kind="running", host=host(), pid=os.getpid(), task=task,
        attempt=1 if before is None else before.attempt + 1, at=now(),
    )  # fmt: skip
    notes: list[str] = []
    ends: list[Event] = []

    def note(event: Event) -> None:
        if event.kind == "progress":
            if event.progress is not None and event.progress.note:
                notes.append(event.progress.note)
            tell(event)
        else:
            ends.append(event)

    _leave(plan, outcome)
    deadline = time.monotonic() + patience
    try:
        check_device(settings.device)
        train_one(index, config, settings, note, stop)
        while ends[-1].kind == "busy" and time.monotonic() < deadline and not stop():
            time.sleep(LOOK_EVERY)
            train_one(index, config, settings, note, stop)
    except BadValue as error:
        ends.append(Event(index, "failed", says=str(error)))
    outcome = outcome.changed(kind=ends[-1].kind, says=ends[-1].says, at=now(), note="; ".join(notes) or None)
    _leave(plan, outcome)
    return end_of(index, outcome)


def _leave(plan: Path, outcome: TaskOutcome) -> None:
    with contextlib.suppress(WalkbackError):  # an outcome that cannot be written must not stop the run
        write_outcome(plan, outcome)


def work(
    plan: Path, task: int, *, fired: Callable[[Snapshot], str | None] | None = None,
    interrupted: Callable[[], bool] = lambda: False, patience: float = 0.0,
    tell: Callable[[Event], object] = lambda _: None,
) -> int:  # fmt: skip
    """Do one task of a plan: 0 if all its runs are done, 75 if it was stopped, 1 if one is not done."""
    plan = plan.absolute()
    wanted = read_plan(plan)
    if not 0 <= task < wanted.tasks:
        raise BadValue(f"{plan.name} has no task {task}", f"give --index 0 … {wanted.tasks - 1}")
    go_to(wanted.folder, wanted.configs)
    data = None if wanted.data_folder is None else Path(wanted.data_folder)
    settings = Settings(runs_of(plan), wanted.checkpoint_every, data, wanted.device, fired=fired)
    stop = wish_to_stop(plan, interrupted)
    job, number = os.environ.get("SLURM_ARRAY_JOB_ID"), os.environ.get("SLURM_ARRAY_TASK_ID")
    scheduled = f"{job}_{number}" if job and number else None  # the scheduler's name of this task
    kinds = []
    for index in wanted.configs_of(task):
        if stop():
            return STOPPED
        config = wanted.configs[index]
        end = work_on(plan, index, config, settings, stop, patience=patience, task=scheduled, tell=tell)
        tell(end)
        kinds.append(end.kind)
    return STOPPED if "stopped" in kinds else 0 if all(kind in ENDS for kind in kinds) else 1
