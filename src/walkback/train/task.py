"""One run as a task of an executor: train it here, and turn whatever happens into an event."""

import os
import sys
import traceback
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

import torch

from walkback.errors import BadValue, Busy, WalkbackError
from walkback.records import RunConfig, Snapshot
from walkback.train.loop import Progress, Stopped, train

Kind = Literal["progress", "finished", "diverged", "fired", "reused", "stopped", "busy", "failed", "submitted"]
ENDS = ("finished", "diverged", "fired", "reused")  # the run is done


@dataclass(frozen=True)
class Event:
    """What happened to run number `index`: progress, or its end with a message."""

    index: int
    kind: Kind
    progress: Progress | None = None
    says: str = ""


@dataclass(frozen=True)
class Settings:
    """How to train, not what: nothing here changes a result."""

    out: Path
    checkpoint_every: float = 15.0
    data_folder: Path | None = None
    device: str = "cpu"
    fresh: bool = False
    fired: Callable[[Snapshot], str | None] | None = None


def check_device(name: str) -> str:
    """`name`, if torch knows such a device and this machine has it."""
    try:
        torch.zeros(1, device=torch.device(name))
    except (RuntimeError, AssertionError, NotImplementedError) as error:
        why = str(error).splitlines()[0]
        raise BadValue(f"this machine has no device {name}: {why}", "leave --device out to train on the cpu") from error
    return name


def train_one(
    index: int, config: RunConfig, settings: Settings, note: Callable[[Event], None], stop: Callable[[], bool]
) -> None:
    """Train one run here, and turn whatever happens into an event."""
    reported = False

    def tell(progress: Progress) -> None:
        nonlocal reported
        reported = True
        note(Event(index, "progress", progress))

    try:
        run = train(
            config, settings.out, tell=tell, should_stop=stop, checkpoint_every=settings.checkpoint_every,
            data_folder=settings.data_folder, device=settings.device, fresh=settings.fresh,
            fired=settings.fired or (lambda _: None),
        )  # fmt: skip
        assert run.result is not None
        note(Event(index, run.result.status if reported else "reused", says=run.result.says))
    except Stopped:
        note(Event(index, "stopped", says="stopped; the same command resumes it"))
    except Busy as busy:
        note(Event(index, "busy", says=str(busy)))
    except WalkbackError as error:
        note(Event(index, "failed", says=str(error)))
    except Exception as error:
        # An error in a rule, a net or walkback must not stop the other runs.
        where = traceback.extract_tb(error.__traceback__)[-1]
        place = f"{Path(where.filename).name}:{where.lineno}"
        if os.environ.get("WALKBACK_TRACEBACK"):
            traceback.print_exc(file=sys.stderr)
        note(Event(index, "failed", says=f"{type(error).__name__}: {error} ({place}; WALKBACK_TRACEBACK=1 shows all)"))
