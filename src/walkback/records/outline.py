"""Outlines: what is kept of a run where thousands are read, and the digest of everything that its folder tells.

An outline has what tells subjects and baselines apart: the config, the end, the environment. The digest is of every
byte of the records and of the checkpoints' headers, so two folders with one digest are read alike; a time stamp that
was put back, or a file of the same size, does not deceive it. Where nothing is known by its digest yet, an outline is
read without it, and the digest is of the bytes that are then read in full.
"""

import hashlib
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from sys import intern
from typing import NamedTuple, TypeVar

from walkback.records.quick import one_set, trusted
from walkback.records.run import RECORDS, Files, Run, config_of, optional, read_files, run_of
from walkback.records.schema import Environment, Record, Result, RunConfig, Sitting
from walkback.records.whole import CHECKPOINTS

R = TypeVar("R", bound=Record)
HEAD = ("config.json", "environment.json", "result.json")  # what an outline has


@dataclass(frozen=True, slots=True)
class Outline:
    """A run in short. It is not vouched for until the folder was read in full, by `read_alike` or `read_run`.

    digest   of the whole folder; empty: it was not read yet
    head     a digest of what the outline has
    """

    path: Path
    config: RunConfig
    environment: Environment | None
    result: Result | None
    digest: bytes
    head: bytes = b""

    def __reduce__(self) -> tuple[object, ...]:
        """As plain values: thousands are sent to other processes and back."""
        parts = [_values(record) for record in (self.config, self.environment, self.result)]
        return _outline, (str(self.path), *parts, self.digest, self.head)


Values = tuple[tuple[object, ...], frozenset[str]]  # of a record: what its fields hold, and which were given


def _values(record: Record | None) -> Values | None:
    if record is None:
        return None
    given = frozenset(record.model_fields_set)
    if isinstance(record, Environment):
        return (record.schema_, record.data_fingerprint, [_values(sitting) for sitting in record.sittings]), given
    return (*record.__dict__.values(),), given


def _record(model: type[R], values: Values) -> R:
    # Machines, versions and names of thousands of runs are few: each text is kept once.
    held = [intern(value) if type(value) is str else value for value in values[0]]
    return trusted(model, dict(zip(model.model_fields, held, strict=True)), one_set(values[1]))


def _outline(
    path: str, config: Values, environment: Values | None, result: Values | None, digest: bytes, head: bytes
) -> Outline:
    place = None
    if environment is not None:
        schema, fingerprint, sittings = environment[0]
        assert isinstance(sittings, list)
        place = _record(Environment, ((schema, fingerprint, [_record(Sitting, s) for s in sittings]), environment[1]))
    ended = None if result is None else _record(Result, result)
    return Outline(Path(path), _record(RunConfig, config), place, ended, digest, head)


def read_outline(path: Path, whole: bool = True) -> Outline:
    """The outline of a run folder. What it has is refused like any other record.

    whole   whether every record is read, for the digest
    """
    files = read_files(path) if whole else read_files(path, HEAD)
    config = config_of(path, files["config.json"])
    environment = optional(Environment, path, files, "environment.json")
    result = optional(Result, path, files, "result.json")
    return Outline(path, config, environment, result, digest_of(path, files) if whole else b"", head_of(files))


def digest_of(path: Path, files: Files) -> bytes:
    """A digest of the folder's name and of all that a reader looks at: the records, and the checkpoints' headers."""
    return _digest(path.name.encode(errors="surrogatepass"), (*RECORDS, *CHECKPOINTS), files)


def head_of(files: Files) -> bytes:
    """A digest of what an outline has."""
    return _digest(b"", HEAD, files)


def _digest(name: bytes, parts: Sequence[str], files: Files) -> bytes:
    digest = hashlib.sha256(name)
    for part in parts:
        content = files.get(part)
        digest.update(f"\0{part} {'none' if content is None else len(content)}\0".encode())
        digest.update(content or b"")
    return digest.digest()


class Alike(NamedTuple):
    """A run read in full: whether its folder is as it was when its outline was read, and a digest of it as it is."""

    run: Run
    alike: bool
    digest: bytes


def read_alike(outline: Outline) -> Alike:
    """The run of an outline, read in full and refused if it cannot be true."""
    files = read_files(outline.path)
    digest = digest_of(outline.path, files)
    alike = digest == outline.digest if outline.digest else head_of(files) == outline.head
    return Alike(run_of(outline.path, files, outline if alike else None), alike, digest)


def read_outlines(
    paths: Sequence[Path], note: Callable[[int, int], object] = lambda *_: None, whole: bool = True
) -> list[Outline]:
    """The outlines of many folders; `note` is told how many are read, of how many."""
    return list(_noted(paths, note, whole))


def _noted(paths: Sequence[Path], note: Callable[[int, int], object], whole: bool) -> Iterator[Outline]:
    for number, path in enumerate(paths):
        note(number, len(paths))
        yield read_outline(path, whole)
    note(len(paths), len(paths))
