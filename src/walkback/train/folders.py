"""The progress of runs, read from their folders: for runs that other machines train."""

import time
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path

from walkback.errors import RecordError
from walkback.records import RunConfig, Snapshot
from walkback.records.record import parse
from walkback.train.loop import Progress
from walkback.train.task import Event

TAIL = 1 << 20  # bytes read from the end of a log: a snapshot of 1,000 layers has less


class Folders:
    """Follows the snapshots of runs. `look` returns what is new since the last call."""

    def __init__(self, configs: Sequence[RunConfig], out: Path):
        self.configs = configs
        self._files = [out / config.folder() / "snapshots.jsonl" for config in configs]
        self._seen: dict[int, tuple[int, int]] = {}  # size and time of the file
        self._began: dict[int, tuple[float, int]] = {}  # when we first saw it, and at which epoch

    def look(self, indices: Iterable[int]) -> Iterator[Event]:
        """Progress of those among `indices` that have a new snapshot."""
        for index in indices:
            try:
                found = self._files[index].stat()
            except OSError:  # not started
                continue
            if self._seen.get(index) != (found.st_size, found.st_mtime_ns):
                self._seen[index] = (found.st_size, found.st_mtime_ns)
                snapshot = last_snapshot(self._files[index])
                if snapshot is not None:
                    yield Event(index, "progress", self._progress(index, snapshot))

    def _progress(self, index: int, snapshot: Snapshot) -> Progress:
        now, epochs = time.monotonic(), self.configs[index].epochs
        then, first = self._began.setdefault(index, (now, snapshot.epoch))
        done = snapshot.epoch - first
        return Progress(snapshot, epochs, (now - then) / done * (epochs - snapshot.epoch) if done > 0 else None)


def last_snapshot(file: Path) -> Snapshot | None:
    """The last whole line; None if there is none, or while it is being written."""
    try:
        with file.open("rb") as opened:
            opened.seek(0, 2)
            opened.seek(max(0, opened.tell() - TAIL))
            *lines, _ = opened.read().split(b"\n")
        return parse(Snapshot, lines[-1], str(file)) if lines else None
    except (OSError, RecordError):
        return None
