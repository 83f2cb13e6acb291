"""A run is a folder: config, environment, snapshots, checkpoint, probes, predictions and result, a file each.

One writer at a time, held by a lock that dies with its process. Small files and checkpoints are written beside and
renamed, so they are whole or absent; snapshots are appended, and only a torn last line can be lost. Nothing is
unpickled. `read_run` needs no torch.
"""

import hashlib
import json
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol, TypeVar

from filelock import FileLock, Timeout

from walkback.errors import Busy, RecordError
from walkback.files import (
    Torn,
    append,
    check_regular,
    children_with,
    flush,
    make_folder,
    parse_json,
    read_bytes,
    sweep,
)
from walkback.files import write_whole as write_whole
from walkback.files import writing as writing
from walkback.records.invariants import broken
from walkback.records.predictions import PREDICTIONS
from walkback.records.quick import quick_snapshots
from walkback.records.quick_files import QUICK, quick_config
from walkback.records.schema import (
    CostRecord,
    DeepProbes,
    Environment,
    IdentityRecord,
    Record,
    Result,
    RunConfig,
    Sitting,
    Snapshot,
    refused,
)
from walkback.records.whole import CHECKPOINTS, check_run, header_bytes

if TYPE_CHECKING:
    from torch import Tensor

R = TypeVar("R", bound=Record)
RECORDS = (
    "config.json", "environment.json", "snapshots.jsonl", "probes.json", "result.json", "identity.json", "cost.json",
    PREDICTIONS,
)  # fmt: skip
CHECKPOINT, PREVIOUS = CHECKPOINTS
FRESH = "restore it, or start this run again with --fresh (the old folder is renamed, not deleted)"


class Damaged(RecordError):
    """A checkpoint that is not what was saved."""


class Known(Protocol):
    """What a baseline is known by, and a subject found by: a run, or its outline (outline.py)."""

    @property
    def path(self) -> Path:
        """Its folder."""

    @property
    def config(self) -> RunConfig:
        """Its config."""

    @property
    def environment(self) -> Environment | None:
        """Where and when, if that was recorded."""

    @property
    def result(self) -> Result | None:
        """How it ended; None while it is not finished."""


@dataclass(frozen=True)
class Run:
    """A run as its folder tells it. `result` is None while it is not finished."""

    path: Path
    config: RunConfig
    environment: Environment | None
    snapshots: Sequence[Snapshot]
    result: Result | None
    probes: DeepProbes | None  # written at the end
    notes: list[str]  # what was odd about the folder, in words
    identity: IdentityRecord | None = None  # of the net at init, if a study measured it
    cost: CostRecord | None = None  # of a step, likewise


def sittings_of(*runs: Known) -> list[Sitting]:
    """All sittings of some runs; of a run that came without its environment there are none."""
    return [sitting for run in runs if run.environment is not None for sitting in run.environment.sittings]


def parse(model: type[R], content: bytes, where: str) -> R:
    """Read a record, saying what is wrong with it if anything is; a newer schema is told apart from damage."""
    raw = parse_json(content, where, FRESH, digits=19)  # what we write are 64 bits at most
    expected = model.model_fields["schema_"].default if "schema_" in model.model_fields else None
    found = raw.get("schema") if isinstance(raw, dict) else None
    if expected and found != expected:
        if isinstance(found, str) and found.partition("/")[0] == expected.partition("/")[0]:
            raise RecordError(f"{where} has schema {found}; this walkback reads {expected}", "upgrade walkback")
        raise RecordError(f"{where} is not a {expected} file: its schema is {found!r}", FRESH)
    with refused(where, FRESH):
        return model.model_validate(raw)


Files = Mapping[str, bytes]  # by their names the records of a folder that are there, and its checkpoints' headers


def read_files(path: Path, names: Sequence[str] = RECORDS) -> Files:
    """The content of a run folder's records, all or some, and with all of them the headers of its checkpoints; refused
    if there is no config."""
    files, folder = {}, f"{path}{os.sep}"
    for name in names:
        try:
            files[name] = read_bytes(folder + name)
        except FileNotFoundError:
            if name == "config.json":
                raise _no_run(path) from None
    for name in CHECKPOINTS if names is RECORDS else ():
        header = header_bytes(folder + name)
        if header is not None:
            files[name] = header
    return files


def _no_run(path: Path) -> RecordError:
    there = "there is no such folder" if not path.exists() else "it has no config.json"
    return RecordError(f"{path} is not a run: {there}", "give a folder that `walkback train` made")


def read_config(path: Path) -> RunConfig:
    """The config of a run folder, refused if it is not the one that the folder was made for."""
    try:
        content = read_bytes(path / "config.json")
    except FileNotFoundError:
        raise _no_run(path) from None
    return config_of(path, content)


def config_of(path: Path, content: bytes, *, quick: bool = True) -> RunConfig:
    """The same of what its config.json holds."""
    config = quick_config(content) if quick else None
    config = config or parse(RunConfig, content, str(path / "config.json"))
    if not path.name.endswith(config.hash()):
        file = path / "config.json"
        words = f"{file} was edited, or its folder renamed: it hashes to {config.hash()}, the folder is {path.name}"
        raise RecordError(
            broken("folder", words),
            "undo the edit; another config is another run, to which `walkback train` gives its own folder",
        )
    return config


def read_snapshots(path: Path) -> tuple[list[Snapshot], str | None]:
    """The snapshots of a folder, and a note if a torn last line was left out. Damage elsewhere is an error."""
    file = path / "snapshots.jsonl"
    try:
        return snapshots_of(file, read_bytes(file))
    except FileNotFoundError:
        return [], None


def snapshots_of(file: Path, content: bytes) -> tuple[list[Snapshot], str | None]:
    """The same of what a snapshots.jsonl holds."""
    lines = content.split(b"\n")
    torn = lines.pop()  # what follows the last newline: nothing, if the file is whole
    snapshots = []
    for number, line in enumerate(lines, 1):
        try:
            snapshots.append(parse(Snapshot, line, f"{file} line {number}"))
        except RecordError as error:
            # Only a line that was cut off is left out: a whole one that cannot be true is refused like any other.
            if isinstance(error, Torn) and number == len(lines) and not torn:
                torn = line
                break
            raise RecordError(f"{file} is damaged at line {number}: {error.what}", FRESH) from error
    return snapshots, "the last line of snapshots.jsonl is incomplete and was left out" if torn else None


def read_run(path: Path | str) -> Run:
    """Everything that a run's folder tells, finished or not; refused if it cannot be true (see invariants.py)."""
    path = Path(path)
    return run_of(path, read_files(path))


def run_of(path: Path, files: Files, known: Known | None = None, *, quick: bool = True) -> Run:
    """The run that these files, read from the folder `path`, tell of; refused if it cannot be true.

    known   what of it was read from the same bytes already
    quick   whether what is surely fine is read quickly (quick.py, quick_files.py); the run is the same without
    """
    config = known.config if known else config_of(path, files["config.json"], quick=quick)
    content = files.get("snapshots.jsonl")
    surely = quick_snapshots(content, config) if quick and content is not None else None
    snapshots: Sequence[Snapshot] = [] if surely is None else surely
    note = None
    if surely is None and content is not None:
        snapshots, note = snapshots_of(path / "snapshots.jsonl", content)
    result = known.result if known else optional(Result, path, files, "result.json", quick=quick)
    environment = known.environment if known else optional(Environment, path, files, "environment.json", quick=quick)
    probes = optional(DeepProbes, path, files, "probes.json", quick=quick)
    identity = optional(IdentityRecord, path, files, "identity.json")
    cost = optional(CostRecord, path, files, "cost.json")
    run = Run(path, config, environment, snapshots, result, probes, [note] if note else [], identity, cost)
    check_run(run, files, surely=surely is not None)
    return run


def read_first(run: Known) -> Snapshot | None:
    """The first snapshot alone, of a run whose folder was found possible."""
    file = run.path / "snapshots.jsonl"
    try:
        first, end, _ = read_bytes(file).partition(b"\n")
    except FileNotFoundError:
        return None
    return snapshots_of(file, first + end)[0][0] if end else None


def optional(model: type[R], path: Path, files: Files, name: str, *, quick: bool = True) -> R | None:
    """A record that need not be there."""
    if name not in files:
        return None
    if quick and model in QUICK:
        found = QUICK[model](files[name])
        if isinstance(found, model):
            return found
    return parse(model, files[name], str(path / name))


def find_runs(*places: Path | str) -> list[Path]:
    """The run folders among `places` and directly inside them, in order of their names."""
    found = []
    for place in map(Path, places):
        if (place / "config.json").exists():
            found.append(place)
        elif place.is_dir():
            found += children_with(place, "config.json")
        else:
            raise RecordError(f"the folder {place} does not exist", "name a run's folder, or a folder that holds runs")
    return found


def export_run(path: Path | str, to: Path | str) -> Path:
    """Copy a run's records, without its weights, into the folder `to`: small enough to commit or to send."""
    run = read_run(path)
    target = Path(to) / run.path.name
    make_folder(target)
    for name in RECORDS:
        if (run.path / name).exists():
            write_whole(target / name, read_bytes(run.path / name))
    return target


class RunFolder:
    """A run's folder, opened by the one process that works on it. Use as a context: it holds the lock."""

    def __init__(self, out: Path | str, config: RunConfig, *, fresh: bool = False):
        self.path = Path(out) / config.folder()
        self.config = config
        self._lock = FileLock(Path(out) / f".{config.folder()}.lock")
        self._fresh = fresh

    def __enter__(self) -> "RunFolder":
        with writing(self.path):
            self.path.parent.mkdir(parents=True, exist_ok=True)
            try:
                self._lock.acquire(timeout=0)
            except Timeout as error:
                raise Busy(
                    f"another process is training {self.path.name}",
                    "let it finish; the same command then finds it done",
                ) from error
        try:
            self._open()
        except BaseException:
            self._lock.release()
            raise
        return self

    def _open(self) -> None:
        with writing(self.path):
            if self._fresh and self.path.exists():
                number = 1
                while (aside := self.path.with_name(f"{self.path.name}.old{number}")).exists():
                    number += 1
                self.path.rename(aside)
            self.path.mkdir(exist_ok=True)
        sweep(self.path)
        if not (self.path / "config.json").exists():
            self.write("config.json", self.config)
        read_config(self.path)

    def __exit__(self, *exception: object) -> None:
        self._lock.release()

    def read(self) -> Run:
        """What is there so far."""
        return read_run(self.path)

    def keep_snapshots(self, up_to_step: int) -> list[Snapshot]:
        """Drop the lines beyond a checkpoint, which will be written again, and a torn one; returns what is kept."""
        snapshots, _ = read_snapshots(self.path)
        kept = [s for s in snapshots if s.step <= up_to_step]
        write_whole(self.path / "snapshots.jsonl", "".join(s.text() + "\n" for s in kept).encode(), follow=False)
        return kept

    def append(self, snapshot: Snapshot) -> None:
        """Add one line."""
        append(self.path / "snapshots.jsonl", snapshot.text().encode() + b"\n")

    def write(self, name: str, record: Record) -> None:
        """Write environment.json, probes.json or result.json."""
        write_whole(self.path / name, record.model_dump_json(by_alias=True, indent=1).encode(), follow=False)

    def save_checkpoint(self, tensors: Mapping[str, "Tensor"], state: Mapping[str, object]) -> None:
        """Keep `tensors` and a small JSON `state`; the checkpoint before stays as a second one until the next."""
        from safetensors.torch import save

        flush(self.path / "snapshots.jsonl")  # a checkpoint must never be ahead of its snapshots
        named = {name: tensor.detach().cpu().contiguous() for name, tensor in tensors.items()}
        about = {"schema": "walkback.checkpoint/1", "state": state, "sha256": _digest(named)}
        metadata = {"walkback": json.dumps(about)}  # one entry: of several, safetensors would shuffle the order
        write_whole(self.path / CHECKPOINT, save(named, metadata), previous=self.path / PREVIOUS, follow=False)

    def load_checkpoint(self) -> tuple[dict[str, "Tensor"], dict[str, Any], str | None] | None:
        """The newest whole checkpoint as (tensors, state, note), or None if there is none; note: what was damaged."""
        damaged = []
        for name in (CHECKPOINT, PREVIOUS):
            file = self.path / name
            if not file.exists():
                continue
            try:
                tensors, state = load_tensors(file)
            except Damaged:
                damaged.append(name)
                with writing(file):
                    file.replace(file.with_name(f"{name}.damaged"))
                continue
            return (
                tensors,
                state,
                f"{name} is used instead of a damaged one, which is kept as *.damaged" if damaged else None,
            )
        if damaged:
            raise RecordError(f"{self.path} has no valid checkpoint; the damaged ones are kept as *.damaged", FRESH)
        return None


def load_tensors(file: Path) -> tuple[dict[str, "Tensor"], dict[str, Any]]:
    """A checkpoint's tensors and state, refused unless they are what was saved."""
    from safetensors import safe_open

    try:
        check_regular(file)
        with safe_open(file, framework="pt") as opened:
            words = (opened.metadata() or {}).get("walkback", "{}").encode()
            about = parse_json(words, "its metadata", FRESH, digits=19)
            tensors = {name: opened.get_tensor(name) for name in opened.keys()}  # noqa: SIM118 - not a dict
        digest = _digest(tensors)
    except Exception as error:  # there is no list of what a damaged file makes a reader raise
        why = error.what if isinstance(error, RecordError) else f"{error or type(error).__name__}"
        raise Damaged(f"{file} is not a whole checkpoint: {why}", FRESH) from error
    if not isinstance(about, dict) or not isinstance(about.get("state"), dict):
        raise Damaged(f"{file} does not say at which step it was saved", FRESH)
    if about.get("schema") != "walkback.checkpoint/1":
        raise RecordError(f"{file} has schema {about.get('schema')!r}, not walkback.checkpoint/1", "upgrade walkback")
    if about.get("sha256") != digest:
        raise Damaged(f"{file} does not match its own checksum", FRESH)
    return tensors, about["state"]


def _digest(tensors: Mapping[str, "Tensor"]) -> str:
    import torch

    digest = hashlib.sha256()
    for name, tensor in sorted(tensors.items()):
        digest.update(f"{name} {tuple(tensor.shape)} {tensor.dtype};".encode())
        digest.update(tensor.reshape(-1).view(torch.uint8).numpy().data)
    return digest.hexdigest()
