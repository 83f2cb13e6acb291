"""Working off a plan: what a worker somewhere does with the configs that are its task, and the word it leaves.

The word (an outcome beside the plan) says why a run has no end; that it has one is said by the run's own folder.
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
    Outcome,
    OutcomeKind,
    PlanFile,
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

STOPPED = 75  # exit status: stopped with a checkpoint, to be begun again (EX_TEMPFAIL)
LOOK_EVERY = 0.2  # seconds between two looks for the wish to stop, which may be on a slow file system


def host() -> str:
    """The name of this machine."""
    return platform.node() or "an unnamed host"


def told_by_host(kind: str, says: str, name: str) -> str:
    """What there is to say of an end; of a trouble, also where it was."""
    return f"on {name}: {says}" if kind in ("failed", "busy") else says


def go_to(folder: str, configs: Sequence[RunConfig]) -> None:
    """Stand where the plan was made, so that names of files mean the same."""
    try:
        os.chdir(folder)
    except OSError as error:
        if not any(in_file(name) for c in configs for name in (c.rule, c.net, c.data)):
            return  # nothing is looked up there
        raise BadValue(
            f"{host()} cannot enter {folder}, where this plan was made: {error.strerror}",
            "have every node see the same folders, or make the plan in one that they share",
        ) from error


def hand_over(executor: str, configs: Sequence[RunConfig], settings: Settings, per_task: int = 1) -> Path:
    """Write the plan of these configs beside their runs; its file."""
    data = None if settings.data_folder is None else str(settings.data_folder.expanduser().absolute())
    plan = PlanFile(
        name=new_name(executor), made=now(), executor=executor, folder=str(Path.cwd()), data_folder=data,
        device=settings.device, checkpoint_every=settings.checkpoint_every, per_task=per_task, configs=list(configs),
    )  # fmt: skip
    return write_plan(settings.out.absolute(), plan)


def set_aside(configs: Sequence[RunConfig], settings: Settings) -> Settings:
    """Begin runs again where that is wished: here and once, since a worker that is begun again must resume."""
    if settings.fresh:
        for config in configs:
            with RunFolder(settings.out, config, fresh=True):
                pass
    return replace(settings, fresh=False)


def settings_of(plan: PlanFile, out: Path, fired: Callable[[Snapshot], str | None] | None) -> Settings:
    """How a plan wants its runs trained."""
    data = None if plan.data_folder is None else Path(plan.data_folder)
    return Settings(out, plan.checkpoint_every, data, plan.device, fresh=False, fired=fired)


def wish_to_stop(plan: Path, also: Callable[[], bool] = lambda: False) -> Callable[[], bool]:
    """Whether `also` says so, or somebody left the wish beside the plan; cheap enough to ask after every step."""
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
    """Train config number `index` of a plan here and leave word of it; how it ended.

    patience   seconds to wait for another process that has the run: one that is lost may take a while to let go of it
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
        outcome = Outcome(
            index=index, run=config.folder(), kind=kind, says=says, host=host(), pid=os.getpid(), task=task,
            attempt=attempt, at=now(), note="; ".join(notes) or None,
        )  # fmt: skip
        with contextlib.suppress(WalkbackError):  # a word that cannot be left must not cost the run
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
    return Event(index, end.kind, says=told_by_host(end.kind, end.says, host()))


def _earlier(plan: Path, index: int) -> Outcome | None:
    try:
        return read_outcome(plan, index)
    except WalkbackError:  # damaged: it is only a word
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
    """Do one task of a plan: 0 if every run of it has its end, 75 if it was stopped, 1 if one has none."""
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
    """What the scheduler calls this task, if there is one."""
    job, task = os.environ.get("SLURM_ARRAY_JOB_ID"), os.environ.get("SLURM_ARRAY_TASK_ID")
    return f"{job}_{task}" if job and task else None
