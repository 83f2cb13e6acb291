"""Dates: through training, at which epoch each check first fired, seed by seed."""

from collections.abc import Mapping, Sequence

from walkback.checks.base import in_order
from walkback.checks.thresholds import Thresholds, default_thresholds
from walkback.records.evidence import Evidence
from walkback.records.moment import Moment
from walkback.records.record import Record
from walkback.records.schema import Count


class FirstFired(Record):
    """By seed the first epoch at which something fired (None: never, or not known; `fired` tells which).

    moments    how many moments of the training there are, over all seeds
    known_at   at how many of them it is known whether it fired
    fired      whether it fired at any of these; None if there are none
    """

    epochs: dict[str, int | None]
    says: str
    moments: Count = 0
    known_at: Count = 0
    fired: bool | None = None

    @property
    def followed(self) -> bool:
        """Whether it was measured through training, and not at the end alone: only then has it a first epoch."""
        return self.known_at > len(self.epochs)

    @property
    def in_part(self) -> bool:
        """Whether it is known at some moments and not at others."""
        return 0 < self.known_at < self.moments


def fires_at(
    moment: Moment, thresholds: Thresholds | None = None, residual: bool | None = True, start: Moment | None = None
) -> dict[str, bool | None]:
    """What one moment of one training shows by itself: True fires, False does not, None cannot be known.

    "reference" is by precision, "reference floor" by the published floor. A check that takes several seeds and their
    baselines is not here. `start`: the same training at its random init.
    """
    given = thresholds or default_thresholds()
    return {key: fired for c in in_order() for key, fired in c.fires_at(moment, given, residual, start).items()}


def first_fired(evidence: Evidence, thresholds: Thresholds | None = None) -> dict[str, FirstFired]:
    """For every check the first epoch at which it fired, seed by seed."""
    given = thresholds or default_thresholds()
    found: dict[str, FirstFired] = {}
    undated: dict[str, FirstFired] = {}
    for check in in_order():
        if not check.dates:
            epochs = dict.fromkeys(evidence.labels())
            undated[check.name] = FirstFired(epochs=epochs, says=f"cannot be dated: {check.undated}")
            continue
        at = {
            label: [(m.epoch, check.fires_at(m, given, evidence.residual, seed.init)) for m in seed.moments]
            for label, seed in evidence.labelled()
        }
        for date in check.dates:
            found[date.key] = _first({
                label: [(epoch, fired[date.key]) for epoch, fired in moments] for label, moments in at.items()
            })  # fmt: skip
    return found | undated


def _first(fired: Mapping[str, Sequence[tuple[int | None, bool | None]]]) -> FirstFired:
    """Of what is known by seed and moment: the first epochs, and how much is known."""
    epochs = {label: next((epoch for epoch, fires in at if fires), None) for label, at in fired.items()}
    answers = [fires for at in fired.values() for _, fires in at]
    known_at, ever = sum(answer is not None for answer in answers), True in answers
    says = f"known at {known_at} of {len(answers)} moments" if known_at else "it cannot be dated"
    if ever and all(epoch is None for epoch in epochs.values()):
        says += "; it fired, at an epoch that is not recorded"
    elif known_at and not ever:
        says += "; it never fired"
    return FirstFired(
        epochs=epochs, says=says, moments=len(answers), known_at=known_at, fired=ever if known_at else None
    )  # fmt: skip
