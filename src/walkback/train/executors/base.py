"""Many runs at once: configs in, events out, runs back. An executor decides what trains them, and where.

The runs are the same bit for bit with any executor. The state is in the run folders, never in an executor: whatever one
leaves unfinished, any other resumes.
"""

import contextlib
import math
import time
import typing
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, ClassVar

import msgspec

from walkback.data import DATASETS
from walkback.errors import BadValue
from walkback.nets import NETS, check_options
from walkback.own import Classes, foreign, in_file
from walkback.records import Run, RunConfig, Snapshot, read_run
from walkback.registry import Registry
from walkback.rules import RULES
from walkback.train.crew import interrupts
from walkback.train.task import ENDS, Event, Settings, check_device

Note = Callable[[Event], None]
Brought = dict[str, dict[str, Any]]  # what the user's own code registered, by kind and name
REGISTRIES: dict[str, Registry[Any]] = {"rule": RULES, "net": NETS, "data set": DATASETS}


class Executor(ABC):
    """One way to train many runs. Its options are the keyword-only parameters of `__init__`, with their types.

    here   whether it trains on this machine: what is missing here is then refused before anything starts
    """

    here: ClassVar[bool] = True

    def __init__(self, jobs: int | None = None):
        if jobs is not None and jobs < 1:
            raise BadValue(f"{jobs} jobs cannot train anything", "give --jobs 1 or more")
        self.jobs = jobs

    @abstractmethod
    def run(
        self, configs: Sequence[RunConfig], settings: Settings, note: Note, interrupted: Callable[[], bool]
    ) -> None:
        """Train the configs, each by `train_one` in some process, at most `jobs` at a time; return when that is over.

        note          is given every event. One that is not progress ends a run; at most one such event per run. A run
                      without one was not started
        interrupted   is called often; once it is true, start nothing more and stop every run after its current
                      step, with a checkpoint
        """


EXECUTORS: Classes[Executor] = Classes("executor", Executor, "docs/cluster.md")


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
    done: set[int] = set()

    def note(event: Event) -> None:
        if event.kind in ENDS:
            done.add(event.index)
        tell(event)

    with interrupts() as asked:
        end = math.inf if budget is None else time.monotonic() + budget
        chosen.run(configs, settings, note, lambda: asked() or time.monotonic() > end)
    return [read_run(settings.out / config.folder()) if i in done else None for i, config in enumerate(configs)]


def make_executor(name: str, jobs: int | None, options: Mapping[str, Any]) -> Executor:
    """An executor with its options; unknown options and impossible values are refused."""
    kind = EXECUTORS.find(name)
    what = f"executor {name}"
    check_options(what, kind, options)
    hints = typing.get_type_hints(kind.__init__, include_extras=True)
    return kind(jobs, **{key: _value(what, key, hints.get(key, Any), value) for key, value in options.items()})


def _value(what: str, option: str, wanted: Any, value: Any) -> Any:
    """The value of an option as its type wants it: 30 is fine for a time, `soon` is not for a number."""

    def converted(given: Any) -> Any:
        return msgspec.convert(given, wanted, strict=False, dec_hook=lambda kind, value: kind(value))

    try:
        return converted(value)
    except msgspec.ValidationError as error:
        with contextlib.suppress(msgspec.ValidationError):
            if type(value) in (int, float):
                return converted(str(value))
        why = str(error).replace("`", "")
        raise BadValue(
            f"{what} cannot take {option}={value}: {why[:1].lower()}{why[1:]}",
            f"give --executor-option {option}=VALUE as in docs/cluster.md, or leave it out",
        ) from error


# --- what the user's own code registered, for processes that do not know it yet --------------------------------------


def brought() -> Brought:
    """What the user's own code registered in this process."""
    return {kind: foreign(registry) for kind, registry in REGISTRIES.items()}


def bring(things: Brought) -> None:
    """Register it in this process."""
    for kind, named in things.items():
        for name, thing in named.items():
            REGISTRIES[kind].add(name, thing)


@contextlib.contextmanager
def sending(remedy: str) -> Iterator[None]:
    """Inside, what was brought is sent to another process; the error says so if that fails."""
    try:
        yield
    except Exception as error:
        raise BadValue(
            f"a rule, net or data set of yours could not be sent to another process: {error}",
            f"put it in a file and name it as my_rule.py:MyRule{remedy}",
        ) from error


def refuse_registered(configs: Sequence[RunConfig], executor: str) -> None:
    """Refuse configs that only this process can train: a plan is a file, and nothing is pickled into files."""
    registered = brought()
    for config in configs:
        for kind, name in (("rule", config.rule), ("net", config.net), ("data set", config.data)):
            if name in registered[kind] and not in_file(name):
                raise BadValue(
                    f"the {kind} {name!r} was registered by this process, and executor {executor} trains elsewhere",
                    f"put it in a file that every node can read and name it as my_file.py:{name}",
                )
