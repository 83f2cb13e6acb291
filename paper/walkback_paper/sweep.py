"""How the verdict of one subject moves with one threshold, over the whole of its range. Pure: evidence in, answers out.

A study judges the same evidence again and again while one threshold moves and the others stay, and finds exactly where
the answers change.
"""

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Literal, NamedTuple

from walkback.checks import DEFAULT, PAPER, Judgement, Outcome, Protocol, Thresholds, judge, known
from walkback.records import Evidence
from walkback.report import Cell, Table, number
from walkback_paper.base import Collected


@dataclass(frozen=True, eq=False)
class Swept:
    """A threshold that is moved from `low` to `high`, on the scale on which it is natural, and the answer it moves."""

    name: str
    low: float
    high: float
    scale: Literal["linear", "log", "logit"]
    answer: Literal["accuracy", "lower half", "Γ", "published"]

    @property
    def protocol(self) -> Protocol:
        """Whose verdict or answer it is."""
        return "published" if self.answer == "published" else "ours"

    def of(self, judgement: Judgement) -> str:
        """That answer, of one subject."""
        answers = judgement.verdicts
        if answers is None:
            return judgement.verdict
        return {"accuracy": answers.accuracy, "lower half": answers.lower_half, "Γ": answers.gamma}[self.answer]

    def grid(self, count: int = 25) -> list[float]:
        """So many values, evenly spaced on its scale, both ends among them."""
        forth, back = _SCALES[self.scale]
        start, end = forth(self.low), forth(self.high)
        inner = [back(start + (end - start) * step / (count - 1)) for step in range(1, count - 1)]
        return [self.low, *inner, self.high]


_SCALES: Mapping[str, tuple[Callable[[float], float], Callable[[float], float]]] = {
    "linear": (float, float),
    "log": (math.log, math.exp),
    "logit": (lambda p: math.log(p / (1 - p)), lambda x: 1 / (1 + math.exp(-x))),
}


class Stretch(NamedTuple):
    """From `low` to `high`, both included, the answer is the same; at the next float beyond it is another."""

    low: float
    high: float
    verdict: str
    outcomes: tuple[Outcome, ...]


def stretches(subject: Evidence, swept: Swept, thresholds: Thresholds = DEFAULT) -> list[Stretch]:
    """The whole sweep, from low to high: judged on a grid and on either side of every end that a finding names.

    Where two neighbours differ, the place is found by halving down to neighbouring floats. That is all there is for
    depth.confidence, of which no finding says how far it could move, and for what bars a verdict beside the findings.
    """
    final = _final(subject)
    answers: dict[float, tuple[str, tuple[Outcome, ...]]] = {}

    def judged(value: float) -> Judgement:
        judgement = judge(final, thresholds.but(swept.name, value), swept.protocol)
        answers[value] = (swept.of(judgement), tuple(finding.outcome for finding in judgement.findings))
        return judgement

    todo = [*swept.grid(), thresholds[swept.name]]
    while todo:
        value = todo.pop()
        if value not in answers and swept.low <= value <= swept.high:
            for end in _ends(judged(value), swept.name):
                todo += [end, math.nextafter(end, -math.inf), math.nextafter(end, math.inf)]

    def changes(below: float, above: float) -> list[tuple[float, float]]:
        """Neighbouring floats between which the answer changes."""
        if answers[below] == answers[above]:
            return []
        middle = below / 2 + above / 2
        if not below < middle < above:
            return [(below, above)]
        judged(middle)
        return changes(below, middle) + changes(middle, above)

    cuts = [cut for below, above in pairwise(sorted(answers)) for cut in changes(below, above)]
    lows, highs = [swept.low, *(above for _, above in cuts)], [*(below for below, _ in cuts), swept.high]
    return [Stretch(low, high, *answers[low]) for low, high in zip(lows, highs, strict=True)]


def _final(subject: Evidence) -> Evidence:
    """A subject with the first moment, the net at init and the last alone, which verdicts rest on; others take time."""
    seeds = []
    for seed in subject.seeds:
        moments, init = seed.moments, seed.init
        kept = [m for place, m in enumerate(moments) if place in (0, len(moments) - 1) or m is init]
        seeds.append(seed.changed(moments=kept))
    return subject.changed(seeds=seeds)


def _ends(judgement: Judgement, name: str) -> list[float]:
    """Where the answer may change, as the findings say: what changes twice between two values would go unseen."""
    return [end for finding in judgement.findings for end in finding.ranges.get(name, ()) if known(end)]


def by_verdict(parts: Sequence[Stretch]) -> list[Stretch]:
    """Neighbours of one verdict joined, whatever checks it rests on; the outcomes are those of the lowest."""
    joined: list[Stretch] = []
    for part in parts:
        if joined and joined[-1].verdict == part.verdict:
            joined[-1] = joined[-1]._replace(high=part.high)
        else:
            joined.append(part)
    return joined


class Edge(NamedTuple):
    """How far a threshold moves before the first answer changes, and whose: who, as it was, and as it becomes."""

    at: float
    flips: list[tuple[str, Stretch, Stretch]]  # empty: nothing changes before the sweep's end


def first_change(sweeps: Mapping[str, Sequence[Stretch]], at: float, step: Literal[-1, 1]) -> Edge:
    """From the value `at` downwards (−1) or upwards: where the first answer changes, and whose."""
    ends = []
    for name, parts in sweeps.items():
        here = next(index for index, part in enumerate(parts) if part.low <= at <= part.high)
        then = parts[here + step] if 0 <= here + step < len(parts) else None
        ends.append((parts[here].low if step < 0 else parts[here].high, name, parts[here], then))
    nearest = max(end for end, *_ in ends) if step < 0 else min(end for end, *_ in ends)
    return Edge(nearest, [(who, was, then) for end, who, was, then in ends if end == nearest and then is not None])


Sweeps = Mapping[Swept, Mapping[str, list[Stretch]]]


def thresholds_table(g: Collected, sweeps: Sweeps) -> Table:
    """How far each threshold can move before an answer changes, and whose."""
    rows: list[list[Cell]] = []
    for swept, parts in sweeps.items():
        default = DEFAULT.table[swept.name]
        row: list[Cell] = [
            swept.name,
            swept.answer,
            f"{default.value:g}",
            "published" if default.who == PAPER else "ours",
        ]
        if not parts:
            rows.append([*row, None, None, None, None, None])
            continue
        verdicts = {subject: by_verdict(each) for subject, each in parts.items()}
        below, above = first_change(verdicts, default.value, -1), first_change(verdicts, default.value, 1)
        low, high = first_change(parts, default.value, -1), first_change(parts, default.value, 1)
        steady = f"{_end(low, '≤', shown=True)} to {_end(high, '≥', shown=True)}"
        rows.append([*row, _end(below, "≤"), _end(above, "≥"), _flips(below), _flips(above), steady])
    headings = ["threshold", "answer", "default", "set by", "same answers from", "to", "first to change below",
                "first to change above", "same findings"]  # fmt: skip
    spans = "; ".join(f"{swept.name} {swept.low:g} to {swept.high:g}" for swept in sweeps)
    notes = g.notes(
        "One threshold moves and the others stay. Ends are exact: at the next number beyond, the answer is the other. "
        f"≤ and ≥: nothing changes as far as it was moved ({spans}).",
        "answer: the one that is followed; published: that protocol's verdict. same findings: no outcome of any check "
        "changes.",
    )
    return Table("thresholds", "How far each threshold can move before an answer changes", headings, rows, notes)


def _end(edge: Edge, side: str, shown: bool = False) -> Cell:
    """An end of a range: a number, or that none was found as far as the threshold was moved."""
    at = float(f"{edge.at:.12g}")  # neighbouring floats are one number to a reader
    if not edge.flips:
        return f"{side} {number(at)}"
    return number(at) if shown else at


def _flips(edge: Edge) -> str:
    return "; ".join(f"{who}: {was.verdict} → {then.verdict}" for who, was, then in edge.flips) or "nobody"


def moves_table(sweeps: Sweeps) -> Table:
    """Every answer that moves with a threshold."""
    rows: list[list[Cell]] = []
    for swept, parts in sweeps.items():
        for name, whole in parts.items():
            joined = by_verdict(whole)
            words = [f"{part.verdict} to {number(part.high)}" for part in joined[:-1]] + [joined[-1].verdict]
            if len(joined) > 1:
                rows.append([swept.name, swept.answer, f"{DEFAULT[swept.name]:g}", name, ", ".join(words)])
    headings = ["threshold", "answer", "default", "subject", "from the lowest value to the highest"]
    note = (
        "A subject that is not named has one answer over the whole range, or no run. A margin larger than what BP "
        "gains cannot be asked for: there accuracy is open."
    )
    return Table("moves", "Every answer that moves with a threshold", headings, rows, [note])
