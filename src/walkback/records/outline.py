"""Outlines: what is kept of a run where thousands are read, and the digest of everything that its folder tells.

An outline has what tells subjects and baselines apart: the config, the end, the environment. Its digest is of every
byte of the records and of the checkpoints' headers, so two folders with one digest are read alike; a time stamp that
was put back, or a file of the same size, does not deceive it.
"""

import hashlib
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from walkback.records.run import RECORDS, Files, Run, config_of, optional, read_files, run_of
from walkback.records.schema import Environment, Result, RunConfig
from walkback.records.whole import CHECKPOINTS


@dataclass(frozen=True, slots=True)
class Outline:
    """A run in short. It is not vouched for until the folder was read in full, by `read_alike` or `read_run`."""

    path: Path
    config: RunConfig
    environment: Environment | None
    result: Result | None
    digest: bytes


def read_outline(path: Path) -> Outline:
    """The outline of a run folder. Every record is read; those that an outline has are refused like any other."""
    files = read_files(path)
    config = config_of(path, files["config.json"])
    environment = optional(Environment, path, files, "environment.json")
    result = optional(Result, path, files, "result.json")
    return Outline(path, config, environment, result, digest_of(path, files))


def digest_of(path: Path, files: Files) -> bytes:
    """A digest of the folder's name and of all that a reader looks at: the records, and the checkpoints' headers."""
    digest = hashlib.sha256(path.name.encode(errors="surrogatepass"))
    for name in (*RECORDS, *CHECKPOINTS):
        content = files.get(name)
        digest.update(f"\0{name} {'none' if content is None else len(content)}\0".encode())
        digest.update(content or b"")
    return digest.digest()


def read_alike(outline: Outline) -> tuple[Run, bool]:
    """The run of an outline, read in full and refused if it cannot be true; and whether the folder is as it was."""
    files = read_files(outline.path)
    alike = digest_of(outline.path, files) == outline.digest
    return run_of(outline.path, files, outline if alike else None), alike


def read_outlines(paths: Sequence[Path], note: Callable[[int, int], object] = lambda *_: None) -> list[Outline]:
    """The outlines of many folders; `note` is told how many are read, of how many."""
    return list(_noted(paths, note))


def _noted(paths: Sequence[Path], note: Callable[[int, int], object]) -> Iterator[Outline]:
    for number, path in enumerate(paths):
        note(number, len(paths))
        yield read_outline(path)
    note(len(paths), len(paths))
