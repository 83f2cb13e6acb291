"""Evidence: everything known of one subject, which is what the checks are asked of."""

from collections import Counter
from collections.abc import Mapping
from typing import Annotated, Literal, get_args

from msgspec import Meta, field

from walkback.records.moment import listing
from walkback.records.record import Fault, Record
from walkback.records.schema import BLOCKS, Share
from walkback.records.training import Training

UNSEEDED = "?"
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
        """Each seed once, one number of blocks, and an upper half only where there is one."""
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
