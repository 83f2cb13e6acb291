"""How the page is written: claims held against our runs, tables, lists, and the ledger of every comparison made."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from walkback.report import Cell, Form, Stat, gain, text
from walkback_paper.agreement import CONFIDENCE, NEAR, Agreement, Kind, compare
from walkback_paper.quantities import Quantity
from walkback_paper.reproduced.claims import Claim
from walkback_paper.reproduced.found import Found, Ours, Trained, paired

DASH = "–"
MISSING = "missing"
DIFFERS: tuple[Kind, ...] = ("differ", "outside", "apart", "against", "not confirmed")

HEADS: Mapping[Kind, str] = {
    "not told apart": "**Not told apart** (intervals overlap)",
    "differ": "**Differ** (intervals do not overlap)",
    "inside": "One seed of ours, **inside** what is published",
    "outside": "One seed of ours, **outside** what is published",
    "near": f"No published spread, **within a factor {NEAR:g}**",
    "apart": f"No published spread, **more than a factor {NEAR:g} apart**",
    "beside": "No published spread, the difference is given below",
    "confirmed": "Statements **confirmed**",
    "leaning": "Statements not shown, and the numbers lean **their way**",
    "open": "Statements left **open**",
    "against": "Statements not shown, and the numbers lean **the other way**",
    "not confirmed": "Statements **not confirmed**",
    "missing": "**Missing** on our side",
}


@dataclass
class Ledger:
    """Every comparison of the page, by the word it was given."""

    entries: dict[Kind, list[str]] = field(default_factory=dict)

    def add(self, label: str, found: Agreement) -> str:
        """Note it; returns the words to print."""
        names = self.entries.setdefault(found.kind, [])
        name = f"{label} ({found.note})" if found.note else label
        if name not in names:
            names.append(name)
        return found.words

    def says(self) -> str:
        """All of it, in short."""
        return bullets(
            [f"{head}: {'; '.join(self.entries[kind])}." for kind, head in HEADS.items() if kind in self.entries]
        )


class Writer:
    """Writes the parts of the page: looks up our runs, holds claims against them, and notes what came out."""

    def __init__(self, found: Found):
        self.found, self.ledger = found, Ledger()
        self.reasons: dict[str, list[str]] = {}  # what we think, and the claims that differ for it

    def of(self, ours: Ours) -> Trained:
        """Our finished runs."""
        return self.found.of(ours)

    def values(self, claim: Claim) -> tuple[float, ...]:
        """What is held against a claim, seed by seed: a quantity, or of a gain the difference of two accuracies."""
        group = self.of(claim.ours)
        if claim.over is not None:
            return tuple(paired(group, self.of(claim.over)).values())
        if claim.epoch is not None:
            moments = [s for run in group.runs for s in run.snapshots if s.epoch == claim.epoch]
            return tuple(map(claim.what.pick, moments))
        return group.last(claim.what)

    def held(self, claim: Claim) -> str:
        """What our runs make of a claim, noted and in words; a dash where our reference has no figure."""
        if claim.published is None and claim.check is None:
            return DASH
        if claim.check is not None:
            found = claim.check(self.found)
        else:
            assert claim.published is not None
            found = compare(claim.published, self.values(claim))
        if claim.reason and found.kind in DIFFERS:
            self.reasons.setdefault(claim.reason, []).append(claim.label)
        return self.ledger.add(claim.label, found) if claim.counted else found.words

    def sentence(self, claim: Claim) -> str:
        """A statement and what our runs make of it, in a sentence."""
        words = self.held(claim)
        lead = "" if words == MISSING and claim.check is not None else claim.lead
        after = claim.after(self.found) if claim.after is not None else ""
        return f"Published: {claim.label}{claim.more}. Ours{lead}: {words}{after}."

    def table(self, claims: Sequence[Claim], last: str = "ours to published") -> str:
        """One row per claim: what is published, ours, and how the two stand."""
        earlier = any(claim.earlier is not None for claim in claims)
        rows: list[list[Cell]] = []
        for claim in claims:
            values = self.values(claim)
            once = [DASH if claim.earlier is None else f"{claim.earlier:.3f}"] if earlier else []
            shown = margin(values) if claim.over is not None else stat(values, claim.what.form)
            published = DASH if claim.published is None else str(claim.published)
            rows.append([claim.row or claim.label, published, *once, shown, str(len(values)), self.held(claim)])
        return table(["", "published", *(["earlier re-run"] if earlier else []), "ours", "n", last], rows)

    def cells(self, ours: Ours | Trained, *quantities: Quantity) -> list[Cell]:
        """Several quantities of some of our runs, for a row."""
        group = self.of(ours) if isinstance(ours, Ours) else ours
        return [stat(group.last(quantity), quantity.form) for quantity in quantities]


def table(headings: Sequence[str], rows: Sequence[Sequence[Cell]]) -> str:
    """A Markdown table."""
    lines = [list(headings), ["---"] * len(headings), *([text(cell) for cell in row] for row in rows)]
    return "\n".join("| " + " | ".join(line) + " |" for line in lines)


def bullets(points: Sequence[str]) -> str:
    """A Markdown list."""
    return "\n".join(f"- {point}" for point in points)


def stat(values: Sequence[float], form: Form = "share") -> Stat | str:
    """Our seeds in a cell."""
    return Stat(tuple(values), form) if values else MISSING


def size(value: float) -> str:
    """A size in a cell.

    >>> size(4.2e-9), size(203.0)
    ('4.2e-09', '203')
    """
    return str(Stat((value,), "size"))


def margin(differences: Sequence[float]) -> Stat | str:
    """A mean of differences in points, with its interval."""
    return gain(differences, [0.0] * len(differences), CONFIDENCE) if differences else MISSING


def percent(share: float) -> str:
    """A share.

    >>> percent(0.95)
    '95 %'
    """
    return f"{100 * share:.0f} %"
