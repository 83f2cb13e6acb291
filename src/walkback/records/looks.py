"""What an audit knows that no run of its folder records: at how many seeds it looked, and the net at init. looks.json.

Seeds that are added after a look widen every interval (checks/sequential.py), so the looks must stay known.
"""

from collections.abc import Iterable
from functools import reduce
from pathlib import Path
from typing import Literal

from msgspec import field

from walkback.records.moment import Moment
from walkback.records.record import Record, read_record, write_record
from walkback.records.schema import Whole

FILE = "looks.json"
REMEDY = "undo the edit; without the file the intervals would claim too much"


class Looks(Record, kw_only=True):
    """The numbers of seeds at which an audit looks, or looked, at the runs; by setting, the net at init."""

    schema: Literal["walkback.looks/1"] = "walkback.looks/1"
    looks: list[Whole] = field(default_factory=list)
    inits: dict[str, Moment] = field(default_factory=dict)

    def joined(self, other: "Looks") -> "Looks":
        """The looks of both, and every net at init that either knows."""
        return Looks(looks=sorted({*self.looks, *other.looks}), inits=self.inits | other.inits)


def read_looks(*folders: Path | str) -> Looks:
    """What these folders' looks.json say, together."""
    found = [read_record(Looks, Path(folder) / FILE, REMEDY) for folder in folders]
    return reduce(Looks.joined, filter(None, found), Looks())


def write_looks(folder: Path | str, looks: Looks) -> Path:
    """Write looks.json into a folder."""
    return write_record(Path(folder) / FILE, looks, b"\n")


def all_looks(before: Iterable[int], planned: Iterable[int], fixed: int) -> list[int]:
    """Every number of seeds at which these runs are looked at. A fixed number is a look where others came before.

    >>> all_looks([], [3, 5], 0), all_looks([], [], 4), all_looks([3, 5], [], 4)
    ([3, 5], [], [3, 4, 5])
    """
    earlier, now = {*before}, {*planned}
    return sorted(earlier | (now or ({fixed} if earlier else set())))
