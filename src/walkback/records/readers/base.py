"""The registry of log formats, and logs of one method put together: one subject, several seeds, no copy twice."""

from collections.abc import Callable, Sequence
from functools import cached_property
from pathlib import Path
from typing import Any, NamedTuple

from walkback.errors import RecordError
from walkback.files import parse_json, read_bytes
from walkback.records.duplicates import same_measurements
from walkback.records.evidence import Evidence
from walkback.records.invariants import broken
from walkback.records.readers.log_values import SHAPES, kind_of
from walkback.records.record import refused
from walkback.registry import Registry


class LogFile:
    """A log: where it is, the name of a method that states none, its bytes, and what they hold as JSON."""

    def __init__(self, where: str, name: str, content: bytes = b"", raw: Any = None):
        self.where, self.name, self.content = where, name, content
        if not content:
            self.raw = raw

    @cached_property
    def raw(self) -> Any:
        """Its content as one JSON value, refused if it is none."""
        return parse_json(self.content, self.where, "get the file again; it may be cut off")

    @property
    def table(self) -> dict[str, Any]:
        """Its content, if it is a JSON object."""
        try:
            return self.raw if isinstance(self.raw, dict) else {}
        except RecordError:
            return {}


class Reader(NamedTuple):
    """A format: whether a file has it, and the subjects in such a file."""

    knows: Callable[[LogFile], bool]
    read: Callable[[LogFile], list[Evidence]]


READERS: Registry[Reader] = Registry("log format")


def read_log(path: Path | str) -> list[Evidence]:
    """The subjects of a log, one for each method in it."""
    path = Path(path)
    try:
        content = read_bytes(path)
    except FileNotFoundError as error:
        raise RecordError(f"cannot read {path}: {error.strerror}", "name a file that exists") from error
    return _read(LogFile(str(path), path.stem, content or b" "))


def evidence_of_log(raw: Any, where: str = "the log", name: str = "log") -> list[Evidence]:
    """The subjects of a log that is JSON values already; `name` is used where the log names no method."""
    return _read(LogFile(where, name, raw=raw))


def _read(file: LogFile) -> list[Evidence]:
    for reader in map(READERS.get, READERS.names()):
        if reader.knows(file):
            with refused(file.where, "correct the log"):
                return reader.read(file)
    if not isinstance(file.raw, dict):
        raise RecordError(f"{file.where} is {kind_of(file.raw)}, not an object", SHAPES)
    found = ", ".join(sorted(key[:40] for key in file.raw)[:20]) or "nothing"
    raise RecordError(f"{file.where} is not a log format that walkback knows: at its top level it has {found}", SHAPES)


def join_seeds(evidences: Sequence[Evidence]) -> list[Evidence]:
    """Evidence of the same name from several logs put together, where each states its seed and they agree otherwise.

    A log that does not state its seed stays apart: it may be a copy, and a copy would feign certainty.
    """
    joined: list[Evidence] = []
    shared = ("name", "rule", "trained", "residual", "classes", "baselines", "blocks")
    for one in evidences:
        for place, other in enumerate(joined):
            seeds = [seed.seed for seed in (*other.seeds, *one.seeds)]
            same = all(getattr(one, field) == getattr(other, field) for field in shared)
            if same and None not in seeds and len(set(seeds)) == len(seeds):
                copies = [(a.seed, b.seed) for a in other.seeds for b in one.seeds if same_measurements(a, b)]
                joined[place] = other.changed(
                    depth=one.blocks, seeds=[*other.seeds, *one.seeds],
                    doubts=[*other.doubts, *one.doubts, *map(_copied, copies)],
                    notes=list(dict.fromkeys([*other.notes, *one.notes])),
                )  # fmt: skip
                break
        else:
            joined.append(one)
    return joined


def _copied(seeds: tuple[int | None, int | None]) -> str:
    return broken("same-records", f"the logs of seeds {seeds[0]} and {seeds[1]} end with the same norms")
