"""How far runs are, from their folders: done, running, waiting, stopped, failed and why. Nothing is judged.

A folder's result.json tells that a run ended, its lock that a process is training it, its snapshots how far it came.
Plans beside the runs (plan_file.py) add what was meant to be trained and has no folder yet, and why a run has no end;
they never overrule a folder. A config and a result are refused like anywhere else if they cannot be read; what lies
between them is for the judgement.
"""

import os
import re
import socket
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from walkback.errors import RecordError
from walkback.files import read_bytes
from walkback.records.folder import config_of, find_runs, optional, read_files
from walkback.records.plan_file import find_plans, read_job, read_outcome, read_plan
from walkback.records.schema import Result, RunConfig

State = Literal["done", "running", "waiting", "stopped", "failed", "unreadable"]
STATES: tuple[State, ...] = ("done", "running", "waiting", "stopped", "failed", "unreadable")
LOCKS = Path("/proc/locks")
LOCK = re.compile(r"^\d+: (?!->).* ([0-9a-f]+):([0-9a-f]+):(\d+) ", re.M)  # 1: FLOCK  ADVISORY  WRITE 7 fe:00:123 0 EOF
Note = Callable[[int, int], object]


@dataclass(frozen=True, slots=True)
class RunStatus:
    """One run: what it is, how it stands, how far it came, and in words why, where there is something to say."""

    path: Path
    state: State
    says: str
    label: str = ""
    data: str = ""
    net: str = ""
    seed: int | None = None
    epochs: int = 0  # done
    of: int = 0  # wanted
    accuracy: float | None = None  # of a run that ended

    @property
    def name(self) -> str:
        """The name of its folder."""
        return self.path.name


# A plan's file, a config's number in it, the config, and who was asked to run it.
Planned = tuple[Path, int, RunConfig, str]


def statuses(*places: Path | str, note: Note = lambda *_: None) -> list[RunStatus]:
    """How every run stands that is in these folders or in a plan beside them, in the order of their names."""
    paths, held = find_runs(*places), held_locks()
    planned: dict[Path, Planned] = {}  # of several plans that name a run the newest counts
    for place in map(Path, places):
        for file in find_plans(place):
            plan, job = read_plan(file), read_job(file)
            asked = f"{plan.executor}, plan {plan.name}" if job is None else f"{job.scheduler} job {job.id}"
            for index, config in enumerate(plan.configs):
                planned[place / config.folder()] = (file, index, config, asked)
    found = []
    for number, path in enumerate(paths):
        note(number, len(paths))
        status = _of_folder(path, planned.pop(path, None), held)
        if status is not None:
            found.append(status)
    note(len(paths), len(paths))
    found += [_of_plan(path, each[2], each, held) for path, each in planned.items()]
    return sorted(found, key=lambda status: str(status.path))


def _of_folder(path: Path, planned: Planned | None, held: set[tuple[int, int]] | None) -> RunStatus | None:
    """How the run in a folder stands; None if the folder is gone meanwhile."""
    try:
        files = read_files(path, ("config.json", "result.json"))
        config, result = config_of(path, files["config.json"]), optional(Result, path, files)
    except RecordError as error:
        return RunStatus(path, "unreadable", error.what) if (path / "config.json").exists() else None
    if result is not None:
        return _status(path, config, "done", result.says, result.epochs, result.accuracy)
    try:  # the whole lines of the snapshots, without the one at init; they are counted, not read
        epochs = max(0, read_bytes(path / "snapshots.jsonl").count(b"\n") - 1)
    except (FileNotFoundError, RecordError):
        epochs = 0
    return _of_plan(path, config, planned, held, epochs, begun=True)


def _of_plan(
    path: Path, config: RunConfig, planned: Planned | None, held: set[tuple[int, int]] | None, epochs: int = 0,
    begun: bool = False,
) -> RunStatus:  # fmt: skip
    """How a run without an end stands; `begun`: it has a folder."""
    try:
        outcome = None if planned is None else read_outcome(*planned[:2])
    except RecordError as error:
        return RunStatus(path, "unreadable", error.what)
    host = outcome.host if outcome is not None and outcome.kind == "running" else ""
    if _is_held(path, held, look=host not in ("", socket.gethostname())):
        return _status(path, config, "running", f"on {host}" if host else "", epochs)
    if planned is None:
        return _status(path, config, "stopped", "no process trains it; the command that started it resumes it", epochs)
    if outcome is None:
        return _status(path, config, "waiting", f"{planned[3]}{', begun before' if begun else ''}", epochs)
    if outcome.kind == "stopped":
        words = f"{planned[3]}, stopped on {outcome.host} with a checkpoint"
        return _status(path, config, "waiting", words, epochs)
    if outcome.kind in ("failed", "busy"):
        words = f"{outcome.says} (on {outcome.host})"
    elif outcome.kind == "running":
        words = f"its process ended without a message on {outcome.host}; the same command resumes it"
    else:
        words = f"its plan says {outcome.kind}, but its folder has no result; the same command trains it again"
    return _status(path, config, "failed", words, epochs)


def _status(
    path: Path, config: RunConfig, state: State, says: str, epochs: int, accuracy: float | None = None
) -> RunStatus:
    return RunStatus(
        path, state, says, config.label(), config.data, config.net, config.seed, epochs, config.epochs, accuracy
    )


def held_locks() -> set[tuple[int, int]] | None:
    """The files that processes of this machine hold locks on, by device and inode; None where it does not tell."""
    try:
        found = LOCK.findall(LOCKS.read_text())
    except OSError:
        return None
    return {(os.makedev(int(major, 16), int(minor, 16)), int(inode)) for major, minor, inode in found}


def _is_held(path: Path, held: set[tuple[int, int]] | None, *, look: bool) -> bool:
    """Whether a process has the run. By the list of locks, which disturbs nobody.

    look   ask the lock itself as well, for a machine that may not be this one: it is taken for a moment
    """
    lock = path.parent / f".{path.name}.lock"
    try:
        found = lock.stat()
        if held is not None and ((found.st_dev, found.st_ino) in held or not look):
            return (found.st_dev, found.st_ino) in held
        import fcntl

        with lock.open("rb") as file:
            fcntl.flock(file, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    except (OSError, ImportError):  # no lock, or no such locks here
        return False
    return False


def counted(found: Sequence[RunStatus]) -> Mapping[State, int]:
    """How many are in each state, in the order of the states; states without a run are left out."""
    counts = {state: sum(status.state == state for status in found) for state in STATES}
    return {state: count for state, count in counts.items() if count}


def reasons(found: Sequence[RunStatus], state: State) -> Iterator[tuple[str, list[RunStatus]]]:
    """Why the runs of one state are in it: each reason once, the most frequent first, with the runs that it is of."""
    by_reason: dict[str, list[RunStatus]] = {}
    for status in found:
        if status.state == state:
            by_reason.setdefault(status.says, []).append(status)
    yield from sorted(by_reason.items(), key=lambda each: -len(each[1]))
