"""A run is a folder: config, environment, snapshots, checkpoint, probes, predictions and result, a file each.

One writer at a time, held by a lock that dies with its process. Small files and checkpoints are written beside and
renamed, so they are whole or absent; snapshots are appended, and only a torn last line can be lost. Nothing is
unpickled, and reading needs no torch. What was measured of a run epoch by epoch is read when it is asked for, and only
that of the last few hundred runs is kept.
"""

import os
from collections.abc import Mapping, Sequence
from functools import cached_property, lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

from filelock import FileLock, Timeout

from walkback.errors import Busy, RecordError
from walkback.files import append, flush, keep_old, make_folder, read_bytes, sweep, write_whole, writing
from walkback.records.checkpoint import CHECKPOINTS, Damaged, checkpoint_bytes, header_bytes, load_tensors
from walkback.records.consistency import check_run
from walkback.records.invariants import broken
from walkback.records.moment import Ended, Moment, Standing, Training, moment_of_snapshot
from walkback.records.predictions import PREDICTIONS, Predictions, unpacked
from walkback.records.record import FRESH, Record, each_line, parse, refused
from walkback.records.schema import (
    CostRecord,
    DeepProbes,
    Environment,
    IdentityRecord,
    Result,
    RunConfig,
    Sitting,
    Snapshot,
)

if TYPE_CHECKING:
    from torch import Tensor

R = TypeVar("R", bound=Record)
HEAD = ("config.json", "environment.json", "result.json")
RECORDS = (*HEAD, "snapshots.jsonl", "probes.json", "identity.json", "cost.json", PREDICTIONS)
CHECKPOINT, PREVIOUS = CHECKPOINTS
Files = Mapping[str, bytes]  # by their names the records of a folder that are there, and its checkpoints' headers
KEPT = 512  # runs whose epochs are kept in memory
# The rules that have the backward of all, by which the credits that are compared train the blocks. Records are read
# without torch, and so without the classes; tests/probes/test_standing.py holds these against them.
BY_CREDITS = ("cb", "dfa", "dfa-plain", "dkp", "drtp", "dtp", "ep", "fa", "fg", "random", "sb", "sdfa")


class Contents:
    """What the files of a run folder hold beside its config, environment and result."""

    def __init__(
        self, snapshots: Sequence[Snapshot], probes: DeepProbes | None = None, notes: Sequence[str] = (),
        identity: IdentityRecord | None = None, cost: CostRecord | None = None, predictions: Predictions | None = None,
    ):  # fmt: skip
        self.snapshots, self.probes, self.notes = snapshots, probes, notes
        self.identity, self.cost, self.predictions = identity, cost, predictions

    @cached_property
    def moments(self) -> list[Moment]:
        """The snapshots as moments; the last one with what was measured at the end, if it was."""
        if not self.snapshots:
            return []
        *earlier, last = self.snapshots
        probes = self.probes if self.probes is not None and self.probes.step == last.step else None
        return [*map(moment_of_snapshot, earlier), moment_of_snapshot(last, probes)]


def _of_contents(name: str) -> Any:
    """A property of a run that is read from its folder when it is asked for."""
    return property(lambda run: getattr(run.contents, name))


class Run(Training):
    """A training by walkback, as its folder has it.

    result     how it ended; None while it is not finished
    snapshots  one per epoch, beginning at init
    probes     measured once, at the end
    notes      what is odd about the folder, in words
    identity, cost   of the net at init and of a step, if a study measured them
    predictions      the final ones, if they are here
    """

    snapshots: Sequence[Snapshot] = _of_contents("snapshots")
    probes: DeepProbes | None = _of_contents("probes")
    notes: Sequence[str] = _of_contents("notes")
    identity: IdentityRecord | None = _of_contents("identity")
    cost: CostRecord | None = _of_contents("cost")
    predictions: Predictions | None = _of_contents("predictions")

    def __init__(
        self, path: Path, config: RunConfig, environment: Environment | None = None, result: Result | None = None,
        contents: Contents | None = None,
    ):  # fmt: skip
        # A run that was ended because a check fired did not come to its end.
        ended: Ended = "stopped" if result is None or result.status == "fired" else result.status
        standing, why = standing_of(config.rule, config.rule_source)
        predicted = result is not None and result.predictions is not None
        super().__init__(seed=config.seed, ended=ended, predicted=predicted, standing=standing, standing_why=why)
        self.path, self.config, self.environment, self.result = path, config, environment, result
        self._given = contents

    @property
    def contents(self) -> Contents:
        """All of its records; refused if the folder cannot be true."""
        return _contents(self) if self._given is None else self._given

    @property
    def moments(self) -> list[Moment]:
        """Its snapshots and probes."""
        with refused(self.path / "snapshots.jsonl", FRESH):
            return self.contents.moments

    @property
    def hits(self) -> bytes | None:
        """Which test images its final prediction is right on."""
        return None if self.predictions is None else self.predictions.hits

    @property
    def blocks(self) -> int | None:
        """The number of its blocks."""
        return self.config.blocks or None


def sittings_of(*runs: Run) -> list[Sitting]:
    """All sittings of some runs; of a run that came without its environment there are none."""
    return [sitting for run in runs if run.environment is not None for sitting in run.environment.sittings]


def standing_of(rule: str, source: str | None) -> tuple[Standing, str]:
    """Whether the credits that a rule is asked for are what trains by it, and why.

    >>> standing_of("dfa", None)[0], standing_of("pc", None)[0], standing_of("my_rule.py:Mine", "5f3")[0]
    ('seen', 'declared', 'declared')
    """
    if source is not None:
        return "declared", "a rule that is not walkback's own may train by other credits than it shows to a probe"
    if rule == "bp":
        return "seen", "autograd trains the net, and its gradients are the credits"
    if rule in BY_CREDITS:
        return "seen", "the credits that are compared are those that the blocks are trained by"
    return "declared", f"{rule} trains by a backward of its own, and its credits are stated beside it"


# --- reading ----------------------------------------------------------------------------------------------------------


def read_files(path: Path, names: Sequence[str] = RECORDS) -> Files:
    """The content of a run folder's records, all or some, and with all of them the headers of its checkpoints; refused
    if there is no config."""
    files, folder = {}, f"{path}{os.sep}"
    for name in names:
        try:
            files[name] = read_bytes(folder + name)
        except FileNotFoundError:
            if name == "config.json":
                missing = "there is no such folder" if not path.exists() else "it has no config.json"
                what = f"{path} is not a run: {missing}"
                raise RecordError(what, "give a folder that `walkback train` made") from None
    for name in CHECKPOINTS if names is RECORDS else ():
        header = header_bytes(folder + name)
        if header is not None:
            files[name] = header
    return files


def config_of(path: Path, content: bytes) -> RunConfig:
    """The config that config.json holds, refused if it is not the one that the folder was made for."""
    config = parse(RunConfig, content, str(path / "config.json"))
    if not path.name.endswith(config.hash()):
        file = path / "config.json"
        words = f"{file} was edited, or its folder renamed: it hashes to {config.hash()}, the folder is {path.name}"
        raise RecordError(
            broken("folder", words),
            "undo the edit; another config is another run, to which `walkback train` gives its own folder",
        )
    return config


def read_head(path: Path | str) -> Run:
    """A run by its config, environment and result alone; its other records are read, and checked, when asked for."""
    path = Path(path)
    return _head(path, read_files(path, HEAD))


def _head(path: Path, files: Files) -> Run:
    config = config_of(path, files["config.json"])
    return Run(path, config, optional(Environment, path, files), optional(Result, path, files))


def read_run(path: Path | str) -> Run:
    """A run, finished or not; refused if anything in its folder cannot be true (see invariants.py)."""
    run = read_head(path)
    _ = run.contents
    return run


@lru_cache(maxsize=KEPT)
def _contents(run: Run) -> Contents:
    """Everything that a run's folder holds, refused if it cannot be true, or is another run than it was."""
    files = read_files(run.path)
    now = _head(run.path, files)
    snapshots, note = snapshots_of(run.path / "snapshots.jsonl", files.get("snapshots.jsonl", b""))
    contents = Contents(
        snapshots, optional(DeepProbes, run.path, files), [note] if note else [],
        optional(IdentityRecord, run.path, files), optional(CostRecord, run.path, files),
        unpacked(files.get(PREDICTIONS, b"")) if now.predicted else None,
    )  # fmt: skip
    check_run(now, contents, files)
    pairs = zip((now.config, now.environment, now.result), (run.config, run.environment, run.result), strict=True)
    for one, other in pairs:
        if one != other and (one is None or other is None or one.text() != other.text()):  # NaN differs from itself
            words = f"{run.path} changed while it was read"
            raise RecordError(words, "wait for its training to end, or for its next epoch")
    return contents


def snapshots_of(file: Path, content: bytes) -> tuple[list[Snapshot], str | None]:
    """The snapshots that a snapshots.jsonl holds, and a note if a torn last line was left out.

    Damage elsewhere is an error.
    """

    def read(number: int, line: bytes) -> Snapshot:
        try:
            return parse(Snapshot, line, f"{file} line {number}")
        except RecordError as error:
            raise type(error)(f"{file} is damaged at line {number}: {error.what}", FRESH) from error

    snapshots, torn = each_line(content, read)
    return snapshots, "the last line of snapshots.jsonl is incomplete and was left out" if torn else None


FILE_OF: Mapping[type[Record], str] = {
    Environment: "environment.json", Result: "result.json", DeepProbes: "probes.json",
    IdentityRecord: "identity.json", CostRecord: "cost.json",
}  # fmt: skip


def optional(model: type[R], path: Path, files: Files) -> R | None:
    """A record that need not be there."""
    name = FILE_OF[model]
    return parse(model, files[name], str(path / name)) if name in files else None


def find_runs(*places: Path | str) -> list[Path]:
    """The run folders among `places` and directly inside them, in order of their names, each once."""
    for place in map(Path, places):
        if not place.is_dir():
            raise RecordError(f"the folder {place} does not exist", "name a run's folder, or a folder that holds runs")
    return find_folders("config.json", *map(Path, places))


def find_folders(name: str, *places: Path) -> list[Path]:
    """The folders that hold a file of some name, among these and directly inside them, each once, by whatever path."""
    found: dict[Path, Path] = {}
    for place in places:
        alone, real = (place / name).exists(), place.resolve()
        for path in [place] if alone else sorted(place.iterdir()):
            if alone or (path / name).exists():
                found.setdefault(real if alone else real / path.name, path)
    return [*found.values()]


def export_run(path: Path | str, to: Path | str) -> Path:
    """Copy a run's records, without its weights, into the folder `to`: small enough to commit or to send."""
    run = read_run(path)
    target = Path(to) / run.path.name
    make_folder(target)
    for name in RECORDS:
        if (run.path / name).exists():
            write_whole(target / name, read_bytes(run.path / name))
    return target


# --- writing ----------------------------------------------------------------------------------------------------------


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
                words = "let it finish; the same command then finds it done"
                raise Busy(f"another process is training {self.path.name}", words) from error
        try:
            self._open()
        except BaseException:
            self._lock.release()
            raise
        return self

    def _open(self) -> None:
        with writing(self.path):
            if self._fresh and self.path.exists():
                keep_old(self.path)
            self.path.mkdir(exist_ok=True)
        sweep(self.path)
        if not (self.path / "config.json").exists():
            self.write("config.json", self.config)
        config_of(self.path, read_bytes(self.path / "config.json"))

    def __exit__(self, *exception: object) -> None:
        self._lock.release()

    def read(self) -> Run:
        """What is there so far."""
        return read_run(self.path)

    def keep_snapshots(self, up_to_step: int) -> list[Snapshot]:
        """Drop the lines beyond a checkpoint, which will be written again, and a torn one; returns what is kept."""
        file = self.path / "snapshots.jsonl"
        snapshots, _ = snapshots_of(file, read_bytes(file) if file.exists() else b"")
        kept = [s for s in snapshots if s.step <= up_to_step]
        write_whole(file, "".join(s.text() + "\n" for s in kept).encode(), follow=False)
        return kept

    def append(self, snapshot: Snapshot) -> None:
        """Add one line."""
        append(self.path / "snapshots.jsonl", snapshot.text().encode() + b"\n")

    def write(self, name: str, record: Record) -> None:
        """Write environment.json, probes.json or result.json."""
        write_whole(self.path / name, record.indented(), follow=False)

    def save_checkpoint(self, tensors: Mapping[str, "Tensor"], state: Mapping[str, object]) -> None:
        """Keep `tensors` and a small JSON `state`; the checkpoint before stays as a second one until the next."""
        flush(self.path / "snapshots.jsonl")  # a checkpoint must never be ahead of its snapshots
        content = checkpoint_bytes(tensors, state)
        write_whole(self.path / CHECKPOINT, content, previous=self.path / PREVIOUS, follow=False)

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
            note = f"{name} is used instead of a damaged one, which is kept as *.damaged" if damaged else None
            return tensors, state, note
        if damaged:
            raise RecordError(f"{self.path} has no valid checkpoint; the damaged ones are kept as *.damaged", FRESH)
        return None
