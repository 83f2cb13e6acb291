"""The base class of executors: an executor has configs trained somewhere, and reports what happens.

The state is in the run folders, never in an executor: whatever one leaves unfinished, any other resumes.
"""

import contextlib
import importlib
import typing
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from typing import Any, ClassVar

import msgspec

from walkback.errors import BadValue
from walkback.nets import check_options
from walkback.own import Classes
from walkback.records import RunConfig
from walkback.registry import Registry
from walkback.train.task import Event, Settings

Note = Callable[[Event], None]


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


EXECUTORS: Registry[type[Executor]] = Registry("executor")


def make_executor(name: str, jobs: int | None, options: Mapping[str, Any]) -> Executor:
    """An executor with its options; unknown options and impossible values are refused."""
    kind = Classes(EXECUTORS, Executor, "docs/cluster.md").find(name)
    what = f"executor {name}"
    check_options(what, kind, options)
    hints = typing.get_type_hints(kind.__init__, include_extras=True)
    return kind(jobs, **{key: _value(what, key, hints.get(key, Any), value) for key, value in options.items()})


def _value(what: str, option: str, wanted: Any, value: Any) -> Any:
    """The value of an option as its type wants it: 30 is fine for a time, `soon` is not for a number."""
    try:
        return _converted(value, wanted)
    except msgspec.ValidationError as error:
        with contextlib.suppress(msgspec.ValidationError):
            if type(value) in (int, float):
                return _converted(str(value), wanted)
        why = str(error).replace("`", "")
        raise BadValue(
            f"{what} cannot take {option}={value}: {why[:1].lower()}{why[1:]}",
            f"give --executor-option {option}=VALUE as in docs/cluster.md, or leave it out",
        ) from error


def _converted(value: Any, wanted: Any) -> Any:
    return msgspec.convert(value, wanted, strict=False, dec_hook=lambda kind, given: kind(given))


def needed(module: str, extra: str) -> Any:
    """Import a module of one of our extras; if it is not installed, the message says how to install it."""
    try:
        return importlib.import_module(module)
    except ImportError as error:
        raise BadValue(
            f"executor {extra} needs the package {module}, which is not installed here ({error})",
            f"pip install 'walkback[{extra}]'",
        ) from error
