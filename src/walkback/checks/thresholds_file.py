"""Thresholds from elsewhere: a file of somebody's own, or an audit that was written before there were so many."""

import re
import tomllib
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from msgspec import ValidationError

from walkback.checks.base import default_thresholds
from walkback.checks.thresholds import LIMITS, Threshold, Thresholds, allowed
from walkback.errors import BadValue, RecordError, UnknownName
from walkback.files import decoded, parse_json, read_bytes
from walkback.records.record import fault_of
from walkback.registry import nearest

LARGEST = 10**300  # beyond it a whole number need not fit a float
EXAMPLE = "see docs/checks.md for an example"


def completed(thresholds: Thresholds) -> Thresholds:
    """The same with the defaults for names that it lacks, such as those of checks that came later."""
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
