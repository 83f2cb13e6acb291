"""How the page says things: tables, lists, cells, and the ledger of every comparison that it made."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from walkback.report.agreement import CONFIDENCE, NEAR, Kind, Told, ratio_to
from walkback.report.published import Between, Spread
from walkback.report.tables import Cell, Form, Stat, gain, text

DASH = "–"

HEADS: Mapping[Kind, str] = {
    "agree": "**Agree** (intervals overlap)",
    "differ": "**Differ** (intervals do not overlap)",
    "inside": "One seed of ours, **inside** what is published",
    "outside": "One seed of ours, **outside** what is published",
    "near": f"No published spread, **within a factor {NEAR:g}**",
    "apart": f"No published spread, **more than a factor {NEAR:g} apart**",
    "beside": "No published spread, the difference is given below",
    "borne out": "Statements **borne out**",
    "leaning": "Statements not shown, and the numbers lean **their way**",
    "open": "Statements left **open**",
    "against": "Statements not shown, and the numbers lean **the other way**",
    "not borne out": "Statements **not borne out**",
    "missing": "**Missing** on our side",
}


@dataclass
class Ledger:
    """Every comparison of the page, by the word it was given."""

    entries: dict[Kind, list[str]] = field(default_factory=dict)

    def add(self, label: str, told: Told, n: int | None = None) -> str:
        """Note it, and say of a statement that it rests on one seed; returns the words to print."""
        names = self.entries.setdefault(told.kind, [])
        note = "one seed" if n == 1 and told.kind != "missing" else told.note
        name = f"{label} ({note})" if note else label
        if name not in names:
            names.append(name)
        return told.words

    def says(self) -> str:
        """All of it, in short."""
        return bullets(
            [f"{head}: {'; '.join(self.entries[kind])}." for kind, head in HEADS.items() if kind in self.entries]
        )


def table(headings: Sequence[str], rows: Sequence[Sequence[Cell]]) -> str:
    """A Markdown table."""
    lines = [list(headings), ["---"] * len(headings), *([text(cell) for cell in row] for row in rows)]
    return "\n".join("| " + " | ".join(line) + " |" for line in lines)


def bullets(points: Sequence[str]) -> str:
    """A Markdown list."""
    return "\n".join(f"- {point}" for point in points)


def stat(values: Sequence[float], form: Form = "share") -> Stat | str:
    """Our seeds in a cell."""
    return Stat(tuple(values), form) if values else "missing"


def size(value: float) -> str:
    """A size in a cell.

    >>> size(4.2e-9), size(203.0)
    ('4.2e-09', '203')
    """
    return str(Stat((value,), "size"))


def spanned(values: Sequence[float]) -> str:
    """The smallest and the largest of some sizes."""
    low, high = size(min(values)), size(max(values))
    return low if low == high else f"{low} to {high}"


def margin(differences: Sequence[float]) -> Stat | str:
    """A mean of differences in points, with its interval."""
    return gain(differences, [0.0] * len(differences), CONFIDENCE) if differences else "missing"


def claimed(spread: Spread) -> str:
    """A published mean ± std.

    >>> claimed(Spread(0.615, 0.004)), claimed(Spread(0.585))
    ('0.615 ± 0.004', '0.585')
    """
    return f"{spread.mean:.3f}" + ("" if spread.std is None else f" ± {spread.std:.3f}")


def distance(claim: Between | float, ours: Sequence[float]) -> float:
    """How far our sizes are from a published one: the logarithm of the factor; infinite if there is none.

    >>> distance(1.0, [2.0]) == distance(1.0, [0.5]), distance(1.0, [0.0]), distance(Between(1, 3, ""), [2.0])
    (True, inf, 0.0)
    """
    ratio = ratio_to(claim, ours)
    return abs(math.log(ratio)) if math.isfinite(ratio) and ratio > 0 else math.inf


def seeds_counted(n: int) -> str:
    """A number of seeds in words."""
    return "1 seed" if n == 1 else f"{n} seeds"


def percent(share: float) -> str:
    """A share.

    >>> percent(0.95)
    '95 %'
    """
    return f"{100 * share:.0f} %"


def is_(outcome: str) -> str:
    """An outcome as a verb."""
    return outcome if outcome in ("passes", "fires") else f"is {outcome}"
