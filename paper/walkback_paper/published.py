"""The published figures, read from `published.toml`, and the one comparison that ours are put to.

A difference is judged by Welch's 95 % interval of the difference of the two means: *told apart* where it excludes zero,
else *not told apart*, which is no agreement: of three seeds each, a true difference of three standard deviations is
missed one time in three. Where no spread is published nothing is judged: of sizes the factor is given, of others the
difference.
"""

import math
import statistics
import tomllib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple

from scipy.special import stdtrit

from walkback.checks import DEFAULT
from walkback.report import Form, Stat, geometric_mean, number

DATA: Mapping[str, Any] = tomllib.loads(Path(__file__).with_name("published.toml").read_text(encoding="utf-8"))
CITATION: str = DATA["citation"]
VERDICTS: Mapping[str, str] = DATA["verdicts"]
UTILITY: Mapping[str, int] = DATA["utility"]
BATCH = int(DEFAULT["reference.batch"])
CONFIDENCE = 0.95


@dataclass(frozen=True)
class PublishedCell:
    """One published figure, and the runs of ours that it is held against; `published.toml` explains each field."""

    cell: str
    rule: str
    of: str
    title: str = ""
    key: str = ""
    set: Mapping[str, Any] = field(default_factory=dict)
    value: float | Sequence[float] | None = None
    spread: float | None = None
    each: Sequence[float] = ()
    low: float | None = None
    high: float | None = None
    least: float | None = None
    most: float | None = None
    never: bool = False
    seeds: int = 3
    epochs: int = 100
    instead: int | None = None
    batch: int = BATCH
    over: Mapping[str, Any] = field(default_factory=dict)
    at: int | None = None
    words: str = ""
    source: str = ""
    unlike: str = ""
    why: str = ""
    beside: str = ""

    @property
    def statistics(self) -> tuple[float, float | None, int]:
        """Mean, standard deviation and number of seeds; of a single number no deviation."""
        if self.each:
            return statistics.fmean(self.each), statistics.stdev(self.each), len(self.each)
        assert isinstance(self.value, float | int)
        return float(self.value), self.spread, self.seeds

    @property
    def layers(self) -> Sequence[float]:
        """The values by layer or block; empty of one that is no list."""
        return self.value if isinstance(self.value, Sequence) else ()

    def text(self, form: Form = "share") -> str:
        """As it is printed; the form is that of its quantity.

        >>> PublishedCell("", "bp", "accuracy", value=0.615, spread=0.004).text()
        '0.615 ± 0.004'
        """
        if self.words or self.never:
            return self.words or "never"
        if self.least is not None or self.most is not None:
            return f"≥ {self.least:g}" if self.least is not None else f"≤ {self.most:g}"
        if self.layers:
            return " ".join(f"{v:+.3f}" if form == "cosine" else f"{v:.3g}" for v in self.layers)
        if self.low is not None:
            return f"{self.low:g}–{self.high:g}"
        if self.of.startswith("first "):
            return " / ".join(f"{date:g}" for date in self.each)
        mean, spread, _ = self.statistics
        shape, factor = {"points": ("+.1f", 100), "cosine": ("+.3f", 1), "size": (".3g", 1)}.get(form, (".3f", 1))
        return f"{factor * mean:{shape}}" + ("" if spread is None else f" ± {factor * spread:{shape.lstrip('+')}}")


PUBLISHED = [
    PublishedCell(**{"title": group["title"], "source": group["source"], **entry})
    for group in DATA["group"]
    for entry in group["cells"]
]
CELLS = {each.key: each for each in PUBLISHED if each.key}  # those that a study shows too


class Apart(NamedTuple):
    """The difference in words, what that amounts to, and how far it is: decades of a size, else the difference."""

    difference: str
    word: str = ""
    far: float = 0.0

    @property
    def text(self) -> str:
        """Both in one cell of a table."""
        return ": ".join(filter(None, (self.difference, self.word)))


def welch(mean: float, spread: float, n: int, ours: Sequence[float]) -> tuple[float, float]:
    """The 95 % interval of ours minus theirs; one seed of ours is taken to spread as theirs do.

    >>> [round(end, 4) for end in welch(0.615, 0.004, 3, [0.612, 0.616, 0.618])]
    [-0.0079, 0.0085]
    """
    a = spread**2 / n
    b = statistics.variance(ours) / len(ours) if len(ours) > 1 else spread**2
    freedom = n - 1.0
    if len(ours) > 1 and a + b > 0:
        freedom = (a + b) ** 2 / (a**2 / (n - 1) + b**2 / (len(ours) - 1))
    half = float(stdtrit(freedom, (1 + CONFIDENCE) / 2)) * math.sqrt(a + b)
    middle = statistics.fmean(ours) - mean
    return middle - half, middle + half


def compare(claim: PublishedCell, form: Form, ours: Sequence[float]) -> Apart:
    """Our seeds held against a published figure."""
    if not ours or all(map(math.isnan, ours)):
        return Apart("", "missing")
    if claim.unlike:
        return Apart("", f"not comparable: {claim.unlike}")
    known = [value for value in ours if math.isfinite(value)]
    if claim.never:
        return Apart("", "not as published" if known else "as published")
    if claim.least is not None or claim.most is not None:
        low, high = claim.least, claim.most
        right = all((low is None or v >= low) and (high is None or v <= high) for v in ours)
        return Apart("", "as published" if right else "not as published")
    if len(known) < len(ours):
        return Apart("", f"not as published: not in {len(ours) - len(known)} of {len(ours)} seeds")
    if claim.low is not None and claim.high is not None:
        return _unjudged(claim, claim.low, claim.high, form, known)
    mean, spread, n = claim.statistics
    if spread is None or n < 2:
        return _unjudged(claim, mean, mean, form, known)
    low_end, high_end = welch(mean, spread, n, known)
    off = statistics.fmean(known) - mean
    difference = f"{_off(claim, form, off)} ({_off(claim, form, low_end, '')} to {_off(claim, form, high_end, '')})"
    return Apart(difference, "not told apart" if low_end <= 0 <= high_end else "told apart", abs(off))


def compare_layers(claim: PublishedCell, form: Form, ours: Sequence[Sequence[float]]) -> Apart:
    """A list by layer or block, ours one list of seeds for each: factors or differences; nothing is judged."""
    if not any(ours):
        return Apart("", "missing")
    lows, highs = (claim.layers or [end or 0.0] * len(ours) for end in (claim.low, claim.high))
    means = [Stat(tuple(each), form).mean or 0.0 for each in ours]
    near = [min(max(mean, low), high) for mean, low, high in zip(means, lows, highs, strict=True)]
    pairs = list(zip(means, near, strict=True))
    if form == "size":
        return Apart("× " + " ".join(number(mean / end, 2) for mean, end in pairs))
    return Apart(" ".join(f"{mean - end:+.3f}" for mean, end in pairs))


def _unjudged(claim: PublishedCell, low: float, high: float, form: Form, ours: Sequence[float]) -> Apart:
    """A figure without a spread: the factor or the difference, to the nearer end of a range."""
    mean = geometric_mean(ours) if form == "size" else statistics.fmean(ours)
    near = min(max(mean, low), high)
    if form != "size":
        return Apart(_off(claim, form, mean - near), far=abs(mean - near))
    if mean <= 0 or near <= 0:
        return Apart("", "zero or not a number")
    ratio = mean / near
    return Apart("inside" if ratio == 1 and low < high else _factor(ratio), far=abs(math.log10(ratio)))


def _off(claim: PublishedCell, form: Form, off: float, unit: str | None = None) -> str:
    """A difference in the unit of its quantity, which is named unless `unit` says how."""
    if claim.of.startswith("first "):
        shown, own = f"{off:+.1f}", "epochs"
    elif claim.of == "accuracy" or form == "points":
        shown, own = f"{100 * off:+.1f}", "points"
    else:
        shown, own = f"{off:+.3g}" if form == "size" else f"{off:+.3f}", ""
    return f"{shown} {own if unit is None else unit}".rstrip()


def _factor(ratio: float) -> str:
    """How far a size is from another, in words.

    >>> _factor(0.009), _factor(2.04)
    ('a factor 111 below', 'a factor 2.0 above')
    """
    factor = max(ratio, 1 / ratio)
    return f"a factor {number(factor, 3 if factor >= 100 else 2)} {'above' if ratio > 1 else 'below'}"
