"""The thresholds: data with their provenance, under one version that every output carries."""

import json
import math
import tomllib
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from pydantic import ValidationError

from walkback.errors import BadValue, UnknownName
from walkback.records.schema import Record
from walkback.registry import nearest

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
        changed = Threshold(value=_allowed(name, value), who="changed by hand", calibrated="not stated")
        return Thresholds(version=f"{self.version}, {name}={value:.17g}", table=self.table | {name: changed})


ALLOWED: Mapping[str, tuple[float, float]] = {  # strictly between
    "scale.growth": (0, math.inf),
    "reference.chord": (0, 2),
    "reference.floor": (0, math.inf),
    "reference.batch": (0, math.inf),
    "reference.small_loss": (0, math.inf),
    "depth.margin": (0, 1),
    "depth.confidence": (0, 1),
    "coverage.band": (0, math.inf),
    "coverage.share": (0, 1),
}

DEFAULT = Thresholds(
    version="walkback-1",
    table={
        "scale.growth": Threshold(
            value=50, who=PAPER,
            calibrated="growth over one block: healthy nets at most 25 (a ViT, early), failed ones at least 694",
            same_answer=(25, 694),
        ),
        "reference.chord": Threshold(
            value=0.01, who=OURS,
            calibrated="by what it means, not on runs: no cosine against this gradient is off by more than the chord",
        ),
        "reference.floor": Threshold(
            value=1e-7, who=PAPER,
            calibrated="the norm of g_L at N = 128: DFA 4.2e-9 is to fire, FA 8.9e-7 is not",
            same_answer=(4.2e-9, 8.9e-7),
        ),
        "reference.batch": Threshold(
            value=128, who=PAPER, calibrated="the batch of the main audit; norms of other batches are converted to it"
        ),
        "reference.small_loss": Threshold(
            value=0.1, who=OURS, calibrated="not calibrated: it only words why a gradient is small, and never judges"
        ),
        "depth.margin": Threshold(
            value=0.02, who=PAPER,
            calibrated="accuracy over the frozen net's .349: DFA with a penalty, .363, is to fire, FA, .401, is not",
            same_answer=(0.014, 0.052),
        ),
        "depth.confidence": Threshold(
            value=0.95, who=OURS, calibrated="custom; Student's t covers what it says with as few as two seeds"
        ),
        "coverage.band": Threshold(
            value=3, who=OURS, calibrated="not calibrated: standard deviations of the null, custom for 'not by chance'"
        ),
        "coverage.share": Threshold(
            value=0.5, who=OURS,
            calibrated="the published cosines, one covered block of four in FA and DFA and all of them in BP",
            same_answer=(0.25, 1),
        ),
    },
)  # fmt: skip


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
        text = path.read_text(encoding="utf-8-sig")
        raw = json.loads(text) if text.lstrip().startswith("{") else tomllib.loads(text)
    except OSError as error:
        raise BadValue(f"cannot read {path}: {error.strerror or error}", "name a file that is there") from error
    except (ValueError, RecursionError) as error:
        raise BadValue(f"{path} is neither TOML nor JSON ({error})", "see docs/checks.md for an example") from error
    version = raw.pop("version", None)
    if not isinstance(version, str) or not version.strip():
        raise BadValue(f"{path} has no version", 'give it a line such as version = "our-lab-1"')
    if version == DEFAULT.version:
        raise BadValue(f"{path} calls itself {version}, the version of walkback's own", "give it another version")
    table = dict(DEFAULT.table)
    for name, value in _leaves(raw, ""):
        if name not in table:
            raise UnknownName(f"{path}: no threshold is named {name!r}", nearest(name, table))
        table[name] = _threshold(name, value, path)
    return Thresholds(version=version, table=table)


def _leaves(raw: Mapping[str, Any], before: str) -> Iterator[tuple[str, Any]]:
    """Dotted names and what they hold; `scale.growth = 60` in TOML is a table in a table."""
    for key, value in raw.items():
        name = f"{before}{key}"
        if isinstance(value, dict) and name not in DEFAULT.table:
            yield from _leaves(value, f"{name}.")
        else:
            yield name, value


def _threshold(name: str, value: Any, path: Path) -> Threshold:
    fields = value if isinstance(value, dict) else {"value": value}
    number = fields.get("value")
    if not isinstance(number, (int, float)) or isinstance(number, bool):
        raise BadValue(f"{path}: {name} is {number!r}, not a number")
    plain = {"who": path.name, "calibrated": "not stated"}
    try:
        return Threshold(**(plain | fields | {"value": _allowed(name, number)}))
    except ValidationError as error:
        first = error.errors()[0]
        place = ".".join(str(part) for part in first["loc"])
        raise BadValue(f"{path}: {name}: {place}: {first['msg']}") from error


def _allowed(name: str, value: float) -> float:
    low, high = ALLOWED[name]
    if not low < value < high:
        raise BadValue(f"the threshold {name} cannot be {value:g}", f"it lies between {low:g} and {high:g}")
    return value
