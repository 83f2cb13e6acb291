"""What of a moment the check of coverage compares: every block's cosine, and Γ, with its null.

A moment is read once, into `Held`; then it tells at any width of the band what is covered.
"""

import statistics
from collections.abc import Sequence
from typing import Literal, NamedTuple

from walkback.checks.finding import Outcome, known
from walkback.records.evidence import Moment
from walkback.records.schema import CosineRecord, NullRecord, ReadingRecord

MEASURED_AND_DEAD = ("zero credit", "zero gradient", "below precision")
OTHER_WIDTH, NO_CREDIT = "other width", "no credit"
UPDATE = "update"  # a probe of one file
Place = Literal["input", "output", "update"]
Pair = tuple[float, float, float]  # a cosine, and the mean and the standard deviation of its null
State = Pair | bool | None  # of a block: what decides, or the answer at any width


class Cover(NamedTuple):
    """One seed: for every block whether it is covered (None: not known), and whether Γ is above its null, or below."""

    blocks: list[bool | None]
    positive: bool | None
    away: bool | None = None

    @property
    def sure(self) -> float:
        """The share of blocks that are covered for certain."""
        return self.blocks.count(True) / len(self.blocks)

    @property
    def possible(self) -> float:
        """The share that may be covered."""
        return (len(self.blocks) - self.blocks.count(False)) / len(self.blocks)

    def outcome(self, share: float) -> Outcome:
        """Passes if more than that share is covered; else fires if Γ hides it, and is no question if it does not."""
        if not self.blocks:
            return "inconclusive"
        if self.sure > share:
            return "passes"
        if self.possible > share or self.positive is None:
            return "inconclusive"
        return "fires" if self.positive else "not applicable"


def clears(value: float | None, null: NullRecord | None, band: float) -> bool | None:
    """Whether a cosine is above its null's mean by more than `band` standard deviations; None: not known.

    >>> clears(0.4, NullRecord(mean=0.1, std=0.05, n=20, kind="fresh feedback"), 3)
    True
    """
    return _above(_pair(value, null), band)


def points_away(value: float | None, null: NullRecord | None, band: float) -> bool | None:
    """Whether a cosine is below its null's mean by more than `band` standard deviations; None: not known.

    >>> points_away(-0.4, NullRecord(mean=0.1, std=0.05, n=20, kind="fresh feedback"), 3)
    True
    """
    return _below(_pair(value, null), band)


def covered(cosine: CosineRecord | ReadingRecord | None, null: NullRecord | None, band: float) -> bool | None:
    """The same for a block. A credit or gradient that is dead covers nothing; one that was not measured is unknown."""
    return _above(_state(cosine, null), band)


def _pair(value: float | None, null: NullRecord | None) -> Pair | None:
    """A cosine beside its null, if both are known and the null has a spread to compare with."""
    if null is None or not known(value) or null.n < 2 or not known(null.mean) or not known(null.std):
        return None
    return value, null.mean, null.std


def _state(cosine: CosineRecord | ReadingRecord | None, null: NullRecord | None) -> State:
    if cosine is None:
        return None
    if cosine.status in MEASURED_AND_DEAD:
        return False
    return _pair(cosine.value, null) if cosine.status == "ok" else None


def _above(state: State, band: float) -> bool | None:
    return state[0] > state[1] + band * state[2] if isinstance(state, tuple) else state


def _below(pair: Pair | None, band: float) -> bool | None:
    return None if pair is None else -pair[0] > -pair[1] + band * pair[2]


class Compared(NamedTuple):
    """What of one moment is held against its null: block by block, and on average."""

    place: Place
    values: Sequence[CosineRecord | ReadingRecord | None] | None
    nulls: Sequence[NullRecord | None] | None
    mean: float | None  # Γ
    null_mean: NullRecord | None


def compared(moment: Moment, residual: bool | None = True) -> Compared:
    """Credits at the blocks' input, as published; at their output, where they act, if the net is plain or its widths
    differ; updates, if the rule has no credits at all."""
    out = residual is False or any(c is not None and c.status == OTHER_WIDTH for c in moment.cosine or [])
    cosines, nulls = (moment.cosine_out, moment.null_out) if out else (moment.cosine, moment.null)
    if cosines and all(c is not None and c.status == NO_CREDIT for c in cosines):
        updates = moment.measured.get(UPDATE)
        return Compared("update", updates, [u.null for u in updates or []], *_mean_update(updates or []))
    return Compared("output" if out else "input", cosines, nulls, moment.gamma, moment.null_gamma)


def _mean_update(updates: Sequence[ReadingRecord]) -> tuple[float | None, NullRecord | None]:
    """The mean of the updates' cosines and a null of it.

    The standard deviation of a mean is at most the mean of the standard deviations, however the blocks hang together:
    nobody is accused by the bound who would not be by the null itself.
    """
    nulls = [u.null for u in updates if u.null is not None]
    if not updates or len(nulls) < len(updates) or any(u.status != "ok" for u in updates):
        return None, None
    mean, std = (statistics.fmean(values) for values in ([n.mean for n in nulls], [n.std for n in nulls]))
    null = NullRecord(mean=mean, std=std, n=min(n.n for n in nulls), kind="mean over the blocks")
    return statistics.fmean(u.value for u in updates), null


class Held(NamedTuple):
    """One moment: what decides in each block, what at its output if that is another question, and what for Γ."""

    blocks: list[State]
    outside: list[State]
    mean: Pair | None

    def cover(self, band: float) -> Cover:
        """What is covered with a band of that width."""
        return Cover([_above(state, band) for state in self.blocks], _above(self.mean, band), _below(self.mean, band))

    def outcome(self, share: float, band: float) -> Outcome:
        """What one seed says. It does not fire at the blocks' input, where Γ is taken, if credit arrives at their
        output."""
        found = self.cover(band).outcome(share)
        return "inconclusive" if found == "fires" and self.arrives(share, band) else found

    def arrives(self, share: float, band: float) -> bool:
        """Whether cosines are held at the blocks' input, and credit covers more than the share at their output.

        A block's credit acts at its output. Where it clears its null there in more than the share of the blocks, the
        published cosines alone do not show that it does not arrive.
        """
        covers = [_above(state, band) for state in self.outside]
        return bool(covers) and covers.count(True) / len(covers) > share


def held(moment: Moment, residual: bool | None = True) -> Held:
    """What the check compares of a moment, whatever the band."""
    found = compared(moment, residual)
    outside = _states(moment.cosine_out, moment.null_out) if found.place == "input" else []
    return Held(_states(found.values, found.nulls), outside, _pair(found.mean, found.null_mean))


def cover(moment: Moment, band: float, residual: bool | None = True) -> Cover:
    """Block by block whether it clears its null, and whether Γ does."""
    return held(moment, residual).cover(band)


def clear_blocks(
    values: Sequence[CosineRecord | ReadingRecord | None] | None, nulls: Sequence[NullRecord | None] | None, band: float
) -> list[bool | None]:
    """Block by block whether these cosines clear these nulls; nothing where there is no cosine."""
    return [_above(state, band) for state in _states(values, nulls)]


def _states(
    values: Sequence[CosineRecord | ReadingRecord | None] | None, nulls: Sequence[NullRecord | None] | None
) -> list[State]:
    if values is None:
        return []
    return [_state(c, null) for c, null in zip(values, nulls or [None] * len(values), strict=True)]
