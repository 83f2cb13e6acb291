"""Which runs are baselines of which: the same net with no block trained, with its upper half trained, and by bp."""

from collections.abc import Collection, Sequence
from typing import Literal, Protocol

from walkback.records.run import Known
from walkback.records.schema import RunConfig

ANY_RUN = frozenset({"seed", "train_last", "lr"})  # what rate it may have is asked apart
ANY_PENALTY = ANY_RUN | {"penalty"}
ANY_RULE = ANY_PENALTY | {"rule", "rule_options", "rule_source"}  # bp's options are its own
BaselineName = Literal["frozen", "frozen_bp", "bp", "shallow", "half", "half_bp"]
Ended = Literal["finished", "diverged", "stopped"]


class Paired(Protocol):
    """Which rates go together: those that trials chose (rates.py)."""

    def pair(self, other: RunConfig, subject: RunConfig) -> bool:
        """Whether the rate of `other` is one that a baseline of `subject` may have."""


def half(blocks: int) -> int:
    """How many blocks, from the top, are the upper half of a net: ⌈L/2⌉.

    >>> [half(blocks) for blocks in (1, 2, 3, 4)]
    [1, 1, 2, 2]
    """
    return -(-blocks // 2)


def ended(run: Known) -> Ended:
    """A run that was ended because a check fired did not come to its end."""
    if run.result is None or run.result.status == "fired":
        return "stopped"
    return run.result.status


def alike(one: RunConfig, other: RunConfig, but: Collection[str]) -> bool:
    """Whether two configs are equal but for some fields. Asked many times of thousands of runs."""
    theirs = other.__dict__
    return all(value == theirs[name] for name, value in one.__dict__.items() if name not in but)


def roles(other: RunConfig, subject: RunConfig, depth: int | None, rates: Paired | None = None) -> list[BaselineName]:
    """What baselines of `subject` a run of `other` is. A net with no block trained is not its own baseline.

    `rates` are those that trials chose: then each arm has its own. Without them all have the subject's.

    The penalty is asked of blocks that train, so a frozen net is the same net whatever its λ says, and the λ of a
    frozen net is not looked at. bp is here for what the task has to give, so it is the bp without a penalty: a λ that
    cripples bp would make any task look too easy to judge depth by. Where there is none, bp with the subject's own λ
    stands in, as in an audit that trains everything with one λ.
    """
    found: list[BaselineName] = []
    if not rates and other.lr != subject.lr:
        return found
    if other.train_last == 0 < subject.train_last and alike(other, subject, ANY_PENALTY):
        found.append("frozen")
    if other.rule == "bp" and alike(other, subject, ANY_RULE):
        if other.train_last == 0:
            found.append("frozen_bp")
        elif other.train_last == depth and other.penalty in (0.0, subject.penalty):
            found.append("bp")
        elif _is_rung(other, subject, depth) and other.penalty in (0.0, subject.penalty):
            found.append("half_bp")
    if is_half_of(other, subject, depth):
        found.append("half")
    return found if not rates or (found and rates.pair(other, subject)) else []


def _is_rung(other: RunConfig, subject: RunConfig, depth: int | None) -> bool:
    """Whether the upper half of the blocks trains in one and all of them in the other."""
    return depth is not None and other.train_last == half(depth) < depth == subject.train_last


def is_half_of(other: RunConfig, subject: RunConfig, depth: int | None) -> bool:
    """Whether `other` is `subject` but for its seed and rate, with only the upper half of its blocks trained."""
    return _is_rung(other, subject, depth) and alike(other, subject, ANY_RUN)


def fittest(runs: Sequence[Known]) -> list[Known]:
    """Of the runs that could be one baseline those of one net, one a seed; two λ are two nets, unless both are frozen.

    Those with the smallest λ, which is 0 where there is such a run; but not if they have fewer than two finished
    seeds, of which no interval can be had, and others have more.
    """
    nets: dict[float, dict[int, Known]] = {}
    for run in runs:
        by_seed = nets.setdefault(run.config.penalty if run.config.train_last else 0.0, {})
        if run.config.seed not in by_seed or ended(run) == "finished":
            by_seed[run.config.seed] = run

    def rank(penalty: float) -> tuple[int, float]:
        finished = sum(ended(run) == "finished" for run in nets[penalty].values())
        return -min(finished, 2), penalty

    return [*nets[min(nets, key=rank)].values()]


def depth_of(runs: Sequence[Known]) -> int | None:
    """The number of blocks; None for a net without any."""
    return runs[0].config.blocks or None
