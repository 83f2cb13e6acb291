"""A plan is a file beside the runs: what was handed to an executor that may outlive its command. Plain JSON.

    OUT/plans/NAME.json            the configs, and the settings that a worker needs; written once, whole
    OUT/plans/NAME/INDEX.json      what became of config number INDEX: by the worker that has or had it
    OUT/plans/NAME/job.json        who was asked to run it, and by which number that scheduler knows it
    OUT/plans/NAME/stop            if it is there, every worker stops after its current step, with a checkpoint

Whether a run is done, its own folder says and nothing else: a plan says what was meant, an outcome why a run has
no end. Both may be deleted when nothing of the plan is running; the runs stay what they are.
"""

import secrets
from datetime import UTC, datetime
from pathlib import Path
from typing import Annotated, Literal

from msgspec import Meta

from walkback.errors import RecordError
from walkback.files import make_folder, write_whole
from walkback.records.record import Record, read_record, write_record
from walkback.records.schema import RunConfig

PLANS = "plans"
REMEDY = "give the command that made it again: it makes a new plan of what is not done"

# How a task stands or ended. Only the first six are ends of the run itself, or say why it has none.
OutcomeKind = Literal["finished", "diverged", "fired", "reused", "failed", "busy", "stopped", "running"]


class PlanFile(Record, kw_only=True):
    """What is to be trained, and how.

    folder       where names of files (my_rule.py:MyRule) are looked up
    per_task     configs that one task of an array trains, one after the other: task N has N·k … N·k + k - 1
    """

    schema: Literal["walkback.plan/1"] = "walkback.plan/1"
    name: Annotated[str, Meta(pattern=r"^[A-Za-z0-9][\w.-]*\Z", max_length=100)]
    made: str
    executor: str
    folder: str
    data_folder: str | None = None
    device: str = "cpu"
    checkpoint_every: Annotated[float, Meta(ge=0)] = 15.0
    per_task: Annotated[int, Meta(ge=1)] = 1
    configs: list[RunConfig]

    @property
    def tasks(self) -> int:
        """How many tasks an array has."""
        return -(-len(self.configs) // self.per_task)

    def configs_of(self, task: int) -> list[int]:
        """The numbers of the configs that task number `task` trains."""
        return [*range(len(self.configs))][task * self.per_task : (task + 1) * self.per_task]


class TaskOutcome(Record, kw_only=True):
    """What became of one config of a plan. "running" without a process that holds the run: it died there.

    attempt   how often a worker has begun it under this plan
    note      what was odd on the way, though it went on
    """

    schema: Literal["walkback.outcome/1"] = "walkback.outcome/1"
    index: Annotated[int, Meta(ge=0)]
    run: str  # the name of its folder
    kind: OutcomeKind
    says: str = ""
    host: str
    pid: int
    task: str | None = None  # as the scheduler calls it, such as 17_3
    attempt: Annotated[int, Meta(ge=1)] = 1
    at: str
    note: str | None = None


class Submission(Record, kw_only=True):
    """Who was asked to run a plan."""

    schema: Literal["walkback.job/1"] = "walkback.job/1"
    scheduler: str
    id: str
    submitted: str


def now() -> str:
    """The time, as records keep it."""
    return datetime.now(UTC).isoformat(timespec="seconds")


def new_name(executor: str) -> str:
    """A name that no other plan has, and that sorts by time."""
    return f"{datetime.now(UTC):%Y%m%d-%H%M%S-%f}-{executor}-{secrets.token_hex(3)}"


def beside(plan: Path) -> Path:
    """The folder of a plan's outcomes."""
    return plan.with_suffix("")


def runs_of(plan: Path) -> Path:
    """The folder that holds the runs of a plan."""
    return plan.absolute().parent.parent


def write_plan(out: Path, plan: PlanFile) -> Path:
    """Write a plan, whole or not at all; its file."""
    path = out / PLANS / f"{plan.name}.json"
    make_folder(beside(path))
    return write_record(path, plan)


def read_plan(path: Path) -> PlanFile:
    """A plan, refused if it is not one or is not whole."""
    found = read_record(PlanFile, path, REMEDY)
    if found is None:
        raise RecordError(f"the plan {path} does not exist", "name a file such as runs/plans/NAME.json")
    return found


def find_plans(out: Path) -> list[Path]:
    """The plans beside the runs in a folder, the oldest first."""
    return sorted((out / PLANS).glob("*.json"))


def write_outcome(plan: Path, outcome: TaskOutcome) -> None:
    """Leave word of one config."""
    write_record(beside(plan) / f"{outcome.index}.json", outcome)


def read_outcome(plan: Path, index: int) -> TaskOutcome | None:
    """What became of config number `index`; None if no worker has had it."""
    return read_record(TaskOutcome, beside(plan) / f"{index}.json", REMEDY)


def write_job(plan: Path, job: Submission) -> None:
    """Note who was asked to run a plan."""
    write_record(beside(plan) / "job.json", job)


def read_job(plan: Path) -> Submission | None:
    """Who was asked to run a plan; None if it was not handed over yet, or needs nobody."""
    return read_record(Submission, beside(plan) / "job.json", REMEDY)


def ask_to_stop(plan: Path) -> None:
    """Have every worker on this plan stop after its current step, with a checkpoint."""
    write_whole(beside(plan) / "stop", b"")


def asked_to_stop(plan: Path) -> bool:
    """Whether that was asked."""
    return (beside(plan) / "stop").exists()
