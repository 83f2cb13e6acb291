"""The learning rate of a rule, chosen by trials on held-out training samples: a pure function of their records.

The test split cannot enter: a trial that was measured on it is refused, and nothing but trials is looked at.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from walkback.errors import RecordError
from walkback.records import Run

RATES = (1e-4, 3e-4, 1e-3, 3e-3)


@dataclass(frozen=True)
class Choice:
    """What the trials of one rule say.

    accuracy  of the trials that finished, on the held-out samples after the last epoch, by rate
    diverged  rates at which training diverged: tried, and never chosen
    missing   rates without a finished trial: while there are any, nothing is chosen
    """

    accuracy: Mapping[float, float]
    diverged: Sequence[float]
    missing: Sequence[float]

    @property
    def rates(self) -> list[float]:
        """All rates that are, or should be, tried, in order."""
        return sorted([*self.accuracy, *self.diverged, *self.missing])

    @property
    def lr(self) -> float | None:
        """The rate of the highest accuracy, the smaller one of two that tie; None while it is not settled."""
        if self.missing or not self.accuracy:
            return None
        return max(self.accuracy, key=lambda rate: (self.accuracy[rate], -rate))

    @property
    def edge(self) -> bool:
        """Whether it is the smallest or the largest that was tried: the best may lie outside."""
        return self.lr is not None and self.lr in (self.rates[0], self.rates[-1])

    def words(self) -> str:
        """The rate, or why there is none.

        >>> Choice({1e-4: 0.2, 1e-3: 0.3, 3e-3: 0.1}, [], []).words()
        '0.001'
        >>> Choice({1e-4: 0.2, 1e-3: 0.3}, [3e-3], []).words(), Choice({1e-4: 0.2, 1e-3: 0.3}, [], []).words()
        ('0.001', '0.001 (edge)')
        """
        if self.lr is not None:
            return f"{self.lr:g} (edge)" if self.edge else f"{self.lr:g}"
        return "not settled" if self.missing else "all diverged"

    def trials(self) -> str:
        """How many trials there were.

        >>> Choice({1e-4: 0.2}, [3e-3], [1e-3]).trials()
        '2 of 3, 1 diverged'
        """
        tried = len(self.accuracy) + len(self.diverged)
        counted = f"{tried} of {tried + len(self.missing)}" if self.missing else str(tried)
        return f"{counted}, {len(self.diverged)} diverged" if self.diverged else counted


def choose(trials: Mapping[float, Run | None]) -> Choice:
    """The choice that these trials amount to; None stands for a trial that has not ended."""
    accuracy: dict[float, float] = {}
    diverged, missing = [], []
    for rate, run in trials.items():
        if run is None or run.result is None or run.result.status == "fired":
            missing.append(rate)
            continue
        if not run.config.validation:
            raise RecordError(
                f"{run.path} was measured on the test split, by which no learning rate may be chosen",
                "train the trials on a part of the training data: validation=0.1",
            )
        if run.config.lr != rate:
            raise RecordError(
                f"{run.path} is given as a trial of the learning rate {rate:g}, and was trained with "
                f"{run.config.lr:g}", "give each trial under its own rate",
            )  # fmt: skip
        if run.result.status == "diverged":
            diverged.append(rate)
        else:
            accuracy[rate] = run.snapshots[-1].accuracy
    return Choice(accuracy, diverged, missing)
