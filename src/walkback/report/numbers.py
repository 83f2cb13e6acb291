"""Numbers and names as people read them in a terminal."""

import math
from pathlib import Path

from walkback.plain import seen


def number(value: float | None, digits: int = 3) -> str:
    """A plain number where that is readable, a power of ten where it is not.

    >>> [number(v) for v in (0.12345, 203.4, 4.2e-9, 5e8, float("nan"), None, 0.0)]
    ['0.123', '203', '4.2e-09', '5.0e+08', 'NaN', '–', '0']
    """
    if value is None:
        return "–"
    if math.isnan(value):
        return "NaN"
    if value == 0 or not math.isfinite(value):
        return f"{value:g}"
    if 1e-3 <= abs(value) < 1e5:
        return f"{value:.{max(0, digits - 1 - max(-1, math.floor(math.log10(abs(value)))))}f}"
    return f"{value:.1e}"


def duration(seconds: float | None) -> str:
    """Seconds, minutes or hours.

    >>> [duration(s) for s in (4.2, 75, 3700, None)]
    ['4 s', '1 min 15 s', '1 h 01 min', '–']
    """
    if seconds is None or not math.isfinite(seconds):
        return "–"
    if seconds < 60:
        return f"{seconds:.0f} s"
    if seconds < 3600:
        return f"{int(seconds // 60)} min {int(seconds % 60):02d} s".replace(" 00 s", "")
    return f"{int(seconds // 3600)} h {int(seconds % 3600 // 60):02d} min"


def relative(path: Path) -> str:
    """A path as the user would type it from here, fit to be printed."""
    try:
        return seen(str(path.resolve().relative_to(Path.cwd())))
    except (ValueError, OSError, RuntimeError):
        return seen(str(path))
