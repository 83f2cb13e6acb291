"""Work on a plan: what a worker does with the configs of its task, and the outcome that it writes.

The outcome (a file next to the plan) says why a run is unfinished; the run's own folder says that it is done.
"""

import contextlib
import os
import platform
import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path

from walkback.errors import BadValue, WalkbackError
from walkback.own import in_file
from walkback.records import RunConfig, RunFolder, Snapshot
from walkback.records.plan_file import (
    OutcomeKind,
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
from walkback.train.task import ENDS, Event, Settings, check_device, train_one

STOPPED = 75  # exit status: stopped with a checkpoint, to be resumed (EX_TEMPFAIL)
LOOK_EVERY = 0.2  # seconds between two checks for a request to stop, which may be on a slow file system


def host() -> str:
    """The name of this machine."""
    return platform.node() or "an unnamed host"


def with_host(kind: str, says: str, name: str) -> str:
    """The message about an end; for a failure, with the machine."""
    return f"on {name}: {says}" if kind in ("failed", "busy") else says


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


def settings_of(plan: PlanFile, out: Path, fired: Callable[[Snapshot], str | None] | None) -> Settings:
    """The settings of a plan."""
    data = None if plan.data_folder is None else Path(plan.data_folder)
    return Settings(out, plan.checkpoint_every, data, plan.device, fresh=False, fired=fired)


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


def work_on(
    plan: Path,
    index: int,
    config: RunConfig,
    settings: Settings,
    stop: Callable[[], bool],
    *,
    patience: float = 0.0,
    task: str | None = None,
    tell: Callable[[Event], object] = lambda _: None,
) -> Event:
    """Train config number `index` of a plan here and write its outcome, which is returned.

    patience   seconds to wait for another process that has the run: a lost one may hold its lock for a while
    """
    before = _earlier(plan, index)
    attempt = 1 if before is None else before.attempt + 1
    notes: list[str] = []
    ends: list[Event] = []

    def note(event: Event) -> None:
        if event.kind == "progress":
            if event.progress is not None and event.progress.note:
                notes.append(event.progress.note)
            tell(event)
        else:
            ends.append(event)

    def leave(kind: OutcomeKind, says: str = "") -> None:
        outcome = TaskOutcome(
            index=index, run=config.folder(), kind=kind, says=says, host=host(), pid=os.getpid(), task=task,
            attempt=attempt, at=now(), note="; ".join(notes) or None,
        )  # fmt: skip
        with contextlib.suppress(WalkbackError):  # an outcome that cannot be written must not stop the run
            write_outcome(plan, outcome)

    leave("running")
    deadline = time.monotonic() + patience
    try:
        check_device(settings.device)
        train_one(index, config, settings, note, stop)
        while ends[-1].kind == "busy" and time.monotonic() < deadline and not stop():
            time.sleep(LOOK_EVERY)
            train_one(index, config, settings, note, stop)
        end = ends[-1]
    except BadValue as error:
        end = Event(index, "failed", says=str(error))
    assert end.kind not in ("progress", "submitted")
    leave(end.kind, end.says)  # type: ignore[arg-type]
    return Event(index, end.kind, says=with_host(end.kind, end.says, host()))


def _earlier(plan: Path, index: int) -> TaskOutcome | None:
    try:
        return read_outcome(plan, index)
    except WalkbackError:  # damaged: the folder decides
        return None


def work(
    plan: Path,
    task: int,
    *,
    fired: Callable[[Snapshot], str | None] | None = None,
    interrupted: Callable[[], bool] = lambda: False,
    patience: float = 0.0,
    tell: Callable[[Event], object] = lambda _: None,
) -> int:
    """Do one task of a plan: 0 if all its runs are done, 75 if it was stopped, 1 if one is not done."""
    plan = plan.absolute()
    wanted = read_plan(plan)
    if not 0 <= task < wanted.tasks:
        raise BadValue(f"{plan.name} has no task {task}", f"give --index 0 … {wanted.tasks - 1}")
    go_to(wanted.folder, wanted.configs)
    settings = settings_of(wanted, runs_of(plan), fired)
    stop = wish_to_stop(plan, interrupted)
    kinds = []
    for index in wanted.configs_of(task):
        if stop():
            return STOPPED
        end = work_on(
            plan, index, wanted.configs[index], settings, stop, patience=patience, task=_scheduled_as(), tell=tell
        )
        tell(end)
        kinds.append(end.kind)
    return STOPPED if "stopped" in kinds else 0 if all(kind in ENDS for kind in kinds) else 1


def _scheduled_as() -> str | None:
    """The scheduler's name of this task, if any."""
    job, task = os.environ.get("SLURM_ARRAY_JOB_ID"), os.environ.get("SLURM_ARRAY_TASK_ID")
    return f"{job}_{task}" if job and task else None
