"""A training: one net, trained once with one seed. A run folder, a training of somebody's own loop, part of a log.

A training is small. What was measured of a run epoch by epoch is read from its folder when it is asked for, and only
that of the last few hundred trainings is kept.
"""

from collections.abc import Sequence
from functools import cached_property, lru_cache
from pathlib import Path
from typing import Any, Literal

from walkback.records.moment import Moment, Standing, moment_of_snapshot, with_probes
from walkback.records.predictions import Predictions, read_predictions
from walkback.records.record import FRESH, refused
from walkback.records.schema import (
    CostRecord,
    DeepProbes,
    Environment,
    IdentityRecord,
    Result,
    RunConfig,
    Sitting,
    Snapshot,
)

Ended = Literal["finished", "diverged", "stopped"]
KEPT = 512  # trainings whose epochs are kept in memory
# The rules that have the backward of all, by which the credits that are compared train the blocks. Records are read
# without torch, and so without the classes; tests/probes/test_standing.py holds these against them.
BY_CREDITS = ("cb", "dfa", "dfa-plain", "dkp", "drtp", "dtp", "ep", "fa", "fg", "random", "sb", "sdfa")


class Training:
    """One training.

    moments    in time order; the last one is judged
    ended      how; None: not known
    hits       by test image, in order: 1 where the final prediction is right, else 0; None: not recorded, or not here
    predicted  final predictions were recorded, so that `hits` may be asked for
    standing   whether the credits that were compared are what trained; None: not known
    """

    def __init__(
        self, *, seed: int | None = None, moments: Sequence[Moment] = (), ended: Ended | None = None,
        hits: bytes | None = None, predicted: bool = False, standing: Standing | None = None, standing_why: str = "",
    ):  # fmt: skip
        self.seed, self.ended, self.predicted = seed, ended, predicted
        self.standing, self.standing_why = standing, standing_why
        self._moments, self._hits = moments, hits

    @property
    def moments(self) -> Sequence[Moment]:
        """What is known of it, in time order."""
        return self._moments

    @property
    def hits(self) -> bytes | None:
        """Which test images its final prediction is right on."""
        return self._hits

    @property
    def init(self) -> Moment | None:
        """The net at its random init, if that was recorded."""
        return next((moment for moment in self.moments if moment.epoch == 0), None)

    @property
    def final(self) -> Moment:
        """The moment that is judged; if there is none, one of which nothing is known."""
        return self.moments[-1] if self.moments else Moment()

    @property
    def blocks(self) -> int | None:
        """The number of its blocks, where it states one whatever its moments hold."""
        return None

    def changed(self, **fields: Any) -> "Training":
        """A copy with other values, which no folder stands behind."""
        own = {name: getattr(self, name) for name in FIELDS}
        return Training(**own | fields)


FIELDS = ("seed", "moments", "ended", "hits", "predicted", "standing", "standing_why")


class Contents:
    """What the files of a run folder hold beside its config, environment and result."""

    def __init__(
        self, snapshots: Sequence[Snapshot], probes: DeepProbes | None = None, notes: Sequence[str] = (),
        identity: IdentityRecord | None = None, cost: CostRecord | None = None,
    ):  # fmt: skip
        self.snapshots, self.probes, self.notes, self.identity, self.cost = snapshots, probes, notes, identity, cost

    @cached_property
    def moments(self) -> list[Moment]:
        """The snapshots as moments; the last one with what was measured at the end, if it was."""
        moments = [moment_of_snapshot(snapshot) for snapshot in self.snapshots]
        if moments and self.probes is not None and self.probes.step == self.snapshots[-1].step:
            moments[-1] = with_probes(moments[-1], self.probes)
        return moments


def _of_contents(name: str) -> Any:
    """A property of a run that is read from its folder when it is asked for."""
    return property(lambda run: getattr(run.contents, name))


class Run(Training):
    """A training by walkback, as its folder has it.

    result     how it ended; None while it is not finished
    snapshots  one per epoch, beginning at init
    probes     measured once, at the end
    notes      what is odd about the folder, in words
    identity, cost   of the net at init and of a step, if a study measured them
    """

    snapshots: Sequence[Snapshot] = _of_contents("snapshots")
    probes: DeepProbes | None = _of_contents("probes")
    notes: Sequence[str] = _of_contents("notes")
    identity: IdentityRecord | None = _of_contents("identity")
    cost: CostRecord | None = _of_contents("cost")

    def __init__(
        self, path: Path, config: RunConfig, environment: Environment | None = None, result: Result | None = None,
        contents: Contents | None = None,
    ):  # fmt: skip
        standing, why = standing_of(config.rule, config.rule_source)
        predicted = result is not None and result.predictions is not None
        super().__init__(
            seed=config.seed, ended=_ended(result), predicted=predicted, standing=standing, standing_why=why
        )
        self.path, self.config, self.environment, self.result = path, config, environment, result
        self._given = contents

    def __reduce__(self) -> tuple[Any, ...]:
        """Without its contents, which another process reads itself."""
        return type(self), (self.path, self.config, self.environment, self.result, self._given)

    @property
    def contents(self) -> Contents:
        """All of its records; refused if the folder cannot be true."""
        return _contents(self) if self._given is None else self._given

    @property
    def moments(self) -> list[Moment]:
        """Its snapshots and probes."""
        with refused(self.path / "snapshots.jsonl", FRESH):
            return self.contents.moments

    @property
    def hits(self) -> bytes | None:
        """Read from its predictions, which are held against the hash that the result names."""
        found = self.predictions()
        return None if found is None else found.hits

    def predictions(self) -> Predictions | None:
        """The final predictions; None without them."""
        return _predictions(self) if self.predicted else None

    @property
    def blocks(self) -> int | None:
        """The number of its blocks."""
        return self.config.blocks or None


@lru_cache(maxsize=KEPT)
def _contents(run: Run) -> Contents:
    from walkback.records.folder import read_contents  # it makes runs

    return read_contents(run)


@lru_cache(maxsize=KEPT)
def _predictions(run: Run) -> Predictions | None:
    return read_predictions(run.path, run.result)


def _ended(result: Result | None) -> Ended:
    """A run that was ended because a check fired did not come to its end."""
    return "stopped" if result is None or result.status == "fired" else result.status


def sittings_of(*runs: Run) -> list[Sitting]:
    """All sittings of some runs; of a run that came without its environment there are none."""
    return [sitting for run in runs if run.environment is not None for sitting in run.environment.sittings]


def standing_of(rule: str, source: str | None) -> tuple[Standing, str]:
    """Whether the credits that a rule is asked for are what trains by it, and why.

    >>> standing_of("dfa", None)[0], standing_of("pc", None)[0], standing_of("my_rule.py:Mine", "5f3")[0]
    ('seen', 'declared', 'declared')
    """
    if source is not None:
        return "declared", "a rule that is not walkback's own may train by other credits than it shows to a probe"
    if rule == "bp":
        return "seen", "autograd trains the net, and its gradients are the credits"
    if rule in BY_CREDITS:
        return "seen", "the credits that are compared are those that the blocks are trained by"
    return "declared", f"{rule} trains by a backward of its own, and its credits are stated beside it"
