"""The thresholds: data with their provenance, under one version that every output carries. Each check has its own.

They are the defaults that the checks bring, or come from a file of the user's, or from an audit of an earlier version
which had fewer.
"""

import math
import re
import tomllib
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, Literal, NamedTuple

from msgspec import ValidationError

from walkback.errors import BadValue, RecordError, UnknownName
from walkback.files import decoded, parse_json, read_bytes
from walkback.records.record import Record, fault_of
from walkback.registry import nearest

VERSION = "walkback-3"
PAPER = "Hao, Wan, Zhai, arXiv:2606.21126"
OURS = "walkback"
Range = tuple[float | None, float | None]
LARGEST = 10**300  # beyond it a whole number need not fit a float
EXAMPLE = "see docs/checks.md for an example"


class Threshold(Record):
    """One number, who set it, on what, and the range that gives the same answers on it (None: open, or not known)."""

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
        """Thresholds with one number changed, and a version that says so."""
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
        return Threshold(
            value=self.value, who=self.who, calibrated=self.calibrated, same_answer=self.same_answer
        )  # fmt: skip


LIMITS: dict[str, Limit] = {}  # of every check, in the order of the checks; `register` fills it


def default_thresholds() -> Thresholds:
    """The thresholds that the checks bring."""
    return Thresholds(version=VERSION, table={name: limit.threshold() for name, limit in LIMITS.items()})


def allowed(name: str, value: float) -> float:
    """The value, if that threshold may have it."""
    low, high = LIMITS[name].allowed if name in LIMITS else (-math.inf, math.inf)
    if not low < value < high:
        raise BadValue(f"the threshold {name} cannot be {value:g}", f"it lies between {low:g} and {high:g}")
    return value


def completed(thresholds: Thresholds) -> Thresholds:
    """Thresholds with the defaults for names that they lack, as of checks that came later."""
    lacking = {name: one for name, one in default_thresholds().table.items() if name not in thresholds.table}
    return thresholds.changed(table=thresholds.table | lacking) if lacking else thresholds


def load_thresholds(path: Path | str) -> Thresholds:
    """Thresholds from a TOML or JSON file: a `version`, and any of the names with a number or a table.

        version = "our-lab-2"
        scale.growth = 60
        [depth.margin]
        value = 0.01
        who = "our lab"
        calibrated = "twelve runs of our own"

    Names that are not in the file keep their defaults.
    """
    path = Path(path)
    try:
        content = read_bytes(path, 1 << 20)
        text = decoded(content)
        is_json = text.lstrip().startswith("{")
        raw = parse_json(content, f"{path} is neither TOML nor JSON: it", EXAMPLE) if is_json else tomllib.loads(text)
    except FileNotFoundError as error:
        raise BadValue(f"cannot read {path}: {error.strerror}", "name a file that exists") from error
    except RecordError as error:
        raise BadValue(error.what, error.remedy) from error
    except (ValueError, RecursionError) as error:
        raise BadValue(f"{path} is neither TOML nor JSON ({error})", EXAMPLE) from error
    version = raw.pop("version", None)
    if not isinstance(version, str) or not version.strip():
        raise BadValue(f"{path} has no version", 'give it a line such as version = "our-lab-1"')
    if re.fullmatch(r"walkback-\d+", version):
        raise BadValue(f"{path} uses {version}, a version of walkback's own", "give it another version")
    table = dict(default_thresholds().table)
    for name, value in _leaves(raw, ""):
        if name not in table:
            raise UnknownName(f"{path}: no threshold is named {name!r}", nearest(name, table))
        table[name] = _threshold(name, value, path)
    return Thresholds(version=version, table=table)


def _leaves(raw: Mapping[str, Any], before: str) -> Iterator[tuple[str, Any]]:
    """Dotted names and what they hold; `scale.growth = 60` in TOML is a table in a table."""
    for key, value in raw.items():
        name = f"{before}{key}"
        if isinstance(value, dict) and name not in LIMITS:
            yield from _leaves(value, f"{name}.")
        else:
            yield name, value


def _threshold(name: str, value: Any, path: Path) -> Threshold:
    fields = value if isinstance(value, dict) else {"value": value}
    number = fields.get("value")
    if not isinstance(number, (int, float)) or isinstance(number, bool):
        raise BadValue(f"{path}: {name} is {number!r:.60}, not a number", EXAMPLE)
    if isinstance(number, int) and abs(number) > LARGEST:
        raise BadValue(f"{path}: {name} is a whole number larger than {LARGEST:.0e}", EXAMPLE)
    plain = {"who": path.name, "calibrated": "not stated"}
    try:
        return Threshold.from_plain(plain | fields | {"value": allowed(name, number)})
    except ValidationError as error:
        raise BadValue(f"{path}: {name}: {fault_of(error)}", EXAMPLE) from error
