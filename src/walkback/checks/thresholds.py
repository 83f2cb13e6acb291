"""The thresholds: data with their provenance, under one version that every output carries. Each check has its own."""

import math
from typing import Literal, NamedTuple

from walkback.errors import BadValue, UnknownName
from walkback.records.record import Record
from walkback.registry import nearest

VERSION = "walkback-3"
PAPER = "Hao, Wan, Zhai, arXiv:2606.21126"
OURS = "walkback"
Range = tuple[float | None, float | None]


class Threshold(Record):
    """One number, who set it, on what, and the range that gives the same answers there (None: open, or not known)."""

    value: float
    who: str
    calibrated: str
    same_answer: Range | None = None


class Thresholds(Record):
    """All of them. `thresholds["scale.growth"]` is the number."""

    version: str
    table: dict[str, Threshold]

    def __getitem__(self, name: str) -> float:
        if name not in self.table:
            raise UnknownName(f"no threshold is named {name!r}", nearest(name, self.table))
        return self.table[name].value

    def but(self, name: str, value: float) -> "Thresholds":
        """The same with one number changed, and a version that says so."""
        self[name]
        changed = Threshold(value=allowed(name, value), who="changed by hand", calibrated="not stated")
        return Thresholds(version=f"{self.version}, {name}={value:.17g}", table=self.table | {name: changed})


class Limit(NamedTuple):
    """A threshold as its check brings it."""

    value: float
    who: str
    calibrated: str
    same_answer: Range | None = None
    allowed: tuple[float, float] = (0, math.inf)  # strictly between
    form: Literal["number", "points", "percent"] = "number"  # how it is written

    def threshold(self) -> Threshold:
        """As a record."""
        low, high = self.same_answer or (None, None)
        same = (
            None
            if self.same_answer is None
            else (None if low is None else float(low), None if high is None else float(high))
        )
        return Threshold(value=self.value, who=self.who, calibrated=self.calibrated, same_answer=same)


LIMITS: dict[str, Limit] = {}  # of every check, by the threshold's name; `register` fills it


def allowed(name: str, value: float) -> float:
    """The value, if that threshold may have it."""
    low, high = LIMITS[name].allowed if name in LIMITS else (-math.inf, math.inf)
    if not low < value < high:
        raise BadValue(f"the threshold {name} cannot be {value:g}", f"it lies between {low:g} and {high:g}")
    return value
