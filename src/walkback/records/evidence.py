"""Evidence: everything known of one subject, which is what the checks are asked of; and what keeps it from holding.

Two trainings with different seeds never have the same numbers. Where they do, one is a copy of the other, and a copy
would feign certainty.
"""

import math
from collections import Counter
from collections.abc import Iterable, Mapping
from functools import partial
from itertools import pairwise
from typing import Annotated, Literal, get_args

from msgspec import Meta, field

from walkback.records.invariants import broken
from walkback.records.moment import Moment, Training, listing
from walkback.records.record import Fault, Record
from walkback.records.schema import BLOCKS, Share

UNSEEDED = "?"
MOST_SEEDS = 1000  # of one subject: more than anybody trains, and each is held against every other
NEARLY = 1e-4  # numbers closer than this, relative to their size, are taken for one that was touched up
TELLING = 3  # so many different numbers do not agree to the bit by chance
BaselineName = Literal["frozen", "frozen_bp", "bp", "shallow", "half", "half_bp"]


def half(blocks: int) -> int:
    """How many blocks, from the top, are the upper half of a net: ⌈L/2⌉.

    >>> [half(blocks) for blocks in (1, 2, 3, 4)]
    [1, 1, 2, 2]
    """
    return -(-blocks // 2)


class Baseline(Record):
    """Final accuracies by seed ("?": a number without a seed); None: that run is there, its accuracy is not known."""

    accuracy: Annotated[dict[str, Share | None], Meta(min_length=1)]
    typed: bool = False  # somebody typed it in
    hits: dict[str, bytes | None] = field(default_factory=dict)  # by seed; None: recorded, not here

    def possible(self) -> None:
        """Seeds are whole numbers, or one number stands for all."""
        if not self.accuracy:
            raise Fault("accuracy", "it is empty")
        if UNSEEDED in self.accuracy and len(self.accuracy) > 1:
            raise Fault("accuracy", "a number without a seed cannot be combined with others")
        for key in self.accuracy:
            if key != UNSEEDED and not key.removeprefix("-").isdecimal():
                raise Fault("accuracy", f"seeds are whole numbers, and {key!r} is not")

    @classmethod
    def number(cls, accuracy: float) -> "Baseline":
        """A number that somebody typed in, without seeds or spread."""
        return cls(accuracy={UNSEEDED: accuracy}, typed=True)

    @classmethod
    def by_seed(cls, accuracy: Mapping[int, float | None], typed: bool = False) -> "Baseline":
        """One accuracy a seed."""
        return cls(accuracy={str(seed): value for seed, value in accuracy.items()}, typed=typed)

    @property
    def alone(self) -> bool:
        """Whether it is one typed-in number, to be subtracted from every seed."""
        return self.typed and UNSEEDED in self.accuracy


class Effort(Record):
    """How the learning rates of a subject and of what it is compared with were chosen.

    tuned    every arm has the rate that its own trials chose, on held-out training data and with another seed
    trials   by arm ("subject" or a baseline's name) the number of rates that were tried
    why      why the rates do not count as tuned; empty where they do
    alike    False: some arms were tried otherwise than others, or trained at a rate that no trial chose, so that the
             rates are neither tuned nor one
    rises    by how much the best baseline gains when its epochs are doubled, in one trial; None: not tried
    """

    tuned: bool
    trials: dict[str, int] = field(default_factory=dict)
    why: str = ""
    alike: bool = True
    rises: float | None = None


class Evidence(Record):
    """Everything known of one subject."""

    name: str
    rule: str | None = None
    depth: Annotated[int, Meta(ge=1, le=BLOCKS)] | None = None  # the number of blocks, L
    trained: Annotated[int, Meta(ge=0)] | None = None  # how many of them train, from the top; None: all
    residual: bool | None = None  # False: the net has no residual stream
    classes: Annotated[int, Meta(ge=1)] | None = None
    width: Annotated[int, Meta(ge=1)] | None = None  # of the narrowest block's output
    chance: Share | None = None  # the share of the most frequent class among the test labels
    effort: Effort | None = None  # None: one rate for all, or nothing is known of it
    budget: str = ""  # epochs, samples and net, in a few words
    seeds: list[Training] = field(default_factory=list)
    # frozen: the rule's own frozen net; frozen_bp: trained by bp; bp: its full net; shallow: embed and readout alone;
    # half: the rule's own net of which only the last ⌈L/2⌉ blocks train; half_bp: the same trained by bp
    baselines: dict[BaselineName, Baseline] = field(default_factory=dict)
    notes: list[str] = field(default_factory=list)
    doubts: list[str] = field(default_factory=list)  # what its reader found that keeps it from holding
    symptoms: list[str] = field(default_factory=list)  # what its reader found that explains, and never decides

    def possible(self) -> None:
        """Each seed once and not too many, one number of blocks, and an upper half only where there is one."""
        if len(self.seeds) > MOST_SEEDS:
            raise Fault("", f"{self.name} has {len(self.seeds):,} seeds, and at most {MOST_SEEDS:,} are judged")
        known = [s.seed for s in self.seeds if s.seed is not None]
        twice = sorted(seed for seed, count in Counter(known).items() if count > 1)
        if twice:
            raise Fault("", f"seed {twice[0]} is there twice; one run must not count twice")
        unknown = sorted({*self.baselines} - {*get_args(BaselineName)})
        if unknown:
            raise Fault("baselines", f"{unknown[0]} is not one of {', '.join(get_args(BaselineName))}")
        if self.depth is not None and not 1 <= self.depth <= BLOCKS:
            raise Fault("depth", f"a net cannot have {self.depth} blocks")
        counts = self._counts()
        if len(set(counts.values())) > 1:
            raise Fault("", "it disagrees about the number of blocks: " + listing(counts))
        halves = [name for name in ("half", "half_bp") if name in self.baselines]
        if halves and self.blocks == 1:
            raise Fault("", f"{halves[0]} is given, and a net of one block has no lower half")
        if halves and self.trained is not None and self.trained != self.blocks:
            raise Fault("", f"{halves[0]} is for a subject all of whose blocks train")

    def _counts(self) -> dict[str, int]:
        """Every number of blocks that it states, by where."""
        counts = {} if self.depth is None else {"depth": self.depth}
        for label, seed in self.labelled():
            if seed.blocks is not None:
                counts[f"seed {label}"] = seed.blocks  # its records were held against it
                continue
            for number, moment in enumerate(seed.moments):
                counts |= {f"{name} of seed {label}, moment {number}": n for name, n in moment.block_counts().items()}
        return counts

    @property
    def blocks(self) -> int | None:
        """The number of blocks L, stated or by the length of a list."""
        return self.depth if self.depth is not None else next(iter(self._counts().values()), None)

    def labels(self) -> list[str]:
        """A name for each seed: its number, or "?1", "?2" where it is not known."""
        return [f"?{place}" if s.seed is None else str(s.seed) for place, s in enumerate(self.seeds, 1)]

    def labelled(self) -> list[tuple[str, Training]]:
        """Every seed with its name."""
        return list(zip(self.labels(), self.seeds, strict=True))


# --- what keeps it from holding ---------------------------------------------------------------------------------------


def doubts_of(evidence: Evidence, measured: bool = True) -> list[str]:
    """Why this evidence cannot hold, a sentence each; nothing where it is sound.

    measured   with gradients that are all zero, as a net that fits its data to the last bit has: nothing against its
               accuracy
    """
    found = list(evidence.doubts)
    earlier: list[tuple[str, tuple[float, ...], list[float]]] = []
    for label, seed in evidence.labelled():
        ended_with = _measured(seed.final)
        numbers = _numbers(seed, ended_with)
        if numbers is None:
            continue
        for other, known, before in earlier:
            if how := _copied(known, numbers, before, ended_with):
                found.append(broken("same-records", f"seeds {other} and {label} {how}"))
                break
        earlier.append((label, numbers, ended_with))
    for label, seed in evidence.labelled():
        found += [f"{words}, seed {label}" for words in _of_moment(seed.final, measured)]
    return list(dict.fromkeys(found))


def _copied(numbers: tuple[float, ...], others: tuple[float, ...], measured: list[float], again: list[float]) -> str:
    """How a training is a copy of another, whatever accuracy it states; empty: it is none.

    Numbers that a rule or a net fixes, such as cosines of one, agree in honest trainings too, and so may rounded ones.
    So twice as many as usual must differ from each other; where digits were touched up, those with more digits than
    those that agree count alone.
    """
    if numbers == others:
        return "have the same numbers"
    if measured == again and len({n for n in measured if n and math.isfinite(n)}) >= 2 * TELLING:
        return "measured the same"
    if len(measured) != len(again) or not all(map(partial(math.isclose, rel_tol=NEARLY), measured, again)):
        return ""
    written = sorted(abs(n) for n in measured if float(f"{n:.5g}") != n)
    different = 1 + sum(more > less * (1 + 10 * NEARLY) for less, more in pairwise(written))
    return f"measured the same, but for changes below 1 in {round(1 / NEARLY):,}" if different >= 2 * TELLING else ""


def telling(numbers: Iterable[float]) -> tuple[float, ...] | None:
    """The numbers, if they are finite and enough of them differ that they do not come twice by chance."""
    kept = tuple(numbers)
    return kept if len({n for n in kept if n}) >= TELLING and all(map(math.isfinite, kept)) else None


def _numbers(seed: Training, measured: list[float]) -> tuple[float, ...] | None:
    """What the last moment measured; of a log of accuracies alone, all of them."""
    if measured:
        return telling([*([] if seed.final.accuracy is None else [seed.final.accuracy]), *measured])
    return telling(moment.accuracy for moment in seed.moments if moment.accuracy is not None)


def _measured(last: Moment) -> list[float]:
    """Every number of a moment but its accuracy, which is coarse."""
    measured = [last.loss, last.gamma, *(last.hidden_norms or []), *(last.gradient_norms or [])]
    measured += [last.deepest_hidden, last.deepest_gradient]
    measured += [*(last.hidden_at or {}).values(), *(last.gradient_at or {}).values()]
    measured += [c.value for c in last.cosine or [] if c is not None and c.status == "ok"]
    return [n for n in measured if n is not None]


def _of_moment(moment: Moment, measured: bool) -> list[str]:
    found = []
    for name in ("hidden_norms", "gradient_norms") if measured else ("hidden_norms",):
        values = [value for value in getattr(moment, name) or [] if value is not None]
        if values and not any(values):
            found.append(broken("all-zero", f"all {name} are zero"))
    for name in ("null", "null_out"):
        flat = [n for n, null in enumerate(getattr(moment, name) or []) if null is not None and null.std == 0]
        if flat:
            found.append(broken("null-spread", f"{name}.{flat[0]}.std: no two draws differ"))
    return found
