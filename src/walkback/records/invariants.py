"""What cannot be evidence: every property that true records always have, written down once, with a name and a sentence.

A record that breaks one of them was not measured: it is damaged, edited or made up. The schema's validators
(schema.py), the check across a folder's files (consistency.py), the readers of logs (readers/) and the doubts about a
subject's evidence (evidence.py) refer to them by name, and every refusal ends with that name in brackets.

A run that diverged may hold NaN and infinity: a number that is not finite is not known, which is another matter.
"""

import math
from collections.abc import Collection, Iterable
from typing import Literal, NamedTuple

Answer = Literal["refused", "cannot hold"]

ROUNDING = 1e-6  # how far beyond its bounds a cosine, a share or a mean may be, by float32 rounding


class Invariant(NamedTuple):
    """What always holds of true records.

    name    as a refusal cites it
    of      what it is a property of
    says    the property, in a sentence
    answer  refused: nothing is read; cannot hold: it is read and judged, and the verdict is never *holds*
    """

    name: str
    of: str
    says: str
    answer: Answer = "refused"


_ALL = [
    Invariant("share", "a number", "An accuracy, or any other share, lies between 0 and 1."),
    Invariant("size", "a number", "A norm, a distance or a spread is not negative."),
    Invariant("count", "a number", "A count, an epoch and a step are not negative."),
    Invariant("cosine", "a number", "A cosine, a correlation and Γ lie between −1 and 1; two of them, or two "
              "directions, are at most 2 apart."),
    Invariant("cross-entropy", "a number", "A cross-entropy is not negative."),
    Invariant("measured", "a run", 'A measurement with status "ok" has a finite value. A mean and a spread are of at '
              "least two draws."),
    Invariant("alive", "a measurement", 'A measurement with status "ok" covers at least one sample and at most all '
              "of them."),
    Invariant("null", "a null", "A null is the mean and the standard deviation of cosines: its mean lies between −1 "
              "and 1, and its spread is possible for numbers between −1 and 1."),
    Invariant("wrong-samples", "a snapshot", "A misclassified sample has a cross-entropy of at least ln 2, so the loss "
              "is at least (1 − accuracy) ln 2."),
    Invariant("gamma", "a snapshot", 'Γ is the mean of the cosines with status "ok", over as many blocks as it says.'),
    Invariant("blocks", "a run", "Every list has the length that the config's number of blocks L asks for: L + 1 for "
              "states, L for blocks; and no more than L blocks train."),
    Invariant("epochs", "a run", "Snapshots are of the epochs 0, 1, 2, … in that order, each once, and of no more than "
              "the config has."),
    Invariant("steps", "a run", "Every epoch has the same number of steps: training samples / batch size, rounded up, "
              "where the data set is known."),
    Invariant("learning-rate", "a run", "A snapshot's learning rate is the one that the config's schedule gives."),
    Invariant("test-size", "a run", "An accuracy is a whole number of test samples, where the data set is known, and "
              "the probes see the config's number of them, or all."),
    Invariant("samples", "a run", "Every layer of a snapshot is measured on the same samples."),
    Invariant("result", "a run", "The result is the last snapshot: its epoch, step, accuracy and loss; a finished run "
              "has all of its epochs."),
    Invariant("probes", "a run", "The probes are measured at the last snapshot, on the same samples."),
    Invariant("predictions", "a run", "The predictions are those whose hash the result names: one class and one label "
              "of the data set for each test sample, as many of them right as its accuracy says."),
    Invariant("sittings", "a run", "The sittings begin at step 0, none after the run's end; the last ends with it."),
    Invariant("folder", "a run", "A run's folder is named after the hash of its config."),
    Invariant("checkpoint", "a run", "A checkpoint has the seed, the config and the step of its run, and keeps no "
              "optimizer state of a block that is frozen."),
    Invariant("log-epochs", "a log", "A log's entries have different epochs, none beyond the config's number."),
    Invariant("valid", "an audit", "An audit is valid if, and only if, every subject has controls and every control "
              "behaves as expected."),
    Invariant("verdict", "an audit", "Each answer is one that its checks give: accuracy holds only where depth passes, "
              "and is walked back only where it fires. By the published protocol a subject is walked back if, and only "
              "if, a check fires."),
    Invariant("same-records", "a subject", "Runs with different seeds have different numbers, and not only in the "
              "fifth digit.", "cannot hold"),
    Invariant("same-data", "a subject", "All runs of a subject and its baselines are trained on the same data.",
              "cannot hold"),
    Invariant("all-zero", "a subject", "Not every hidden norm, and not every gradient norm, of a net is zero.",
              "cannot hold"),
    Invariant("null-spread", "a subject", "The draws of a null differ: its spread is not zero.", "cannot hold"),
]  # fmt: skip
INVARIANTS = {invariant.name: invariant for invariant in _ALL}


def broken(name: str, words: str) -> str:
    """Words for a record that breaks an invariant: what was found, and the invariant's name."""
    return f"{words} [{INVARIANTS[name].name}]"


class Broken(ValueError):
    """Raised by the schema's validators."""

    def __init__(self, name: str, words: str):
        super().__init__(broken(name, words))


def share(value: float) -> float:
    """A share is between 0 and 1; what is not finite is not known, and stays."""
    if not math.isfinite(value) or 0 <= value <= 1:
        return value
    if -ROUNDING <= value <= 1 + ROUNDING:  # a mean in float32
        return min(max(value, 0.0), 1.0)
    percent = " (a percentage? divide by 100)" if 1 < value <= 100 else ""
    raise Broken("share", f"an accuracy is a share between 0 and 1, and {value:g} is not{percent}")


def size(value: float) -> float:
    """A size is not negative; NaN is not known, and stays."""
    if value < 0:
        raise Broken("size", f"a size cannot be negative, and {value:g} is")
    return value


def sizes(values: list[float]) -> list[float]:
    """No size of a list is negative."""
    for place, value in enumerate(values):
        if value < 0:
            raise Broken("size", f"a size cannot be negative, and entry {place}, {value:g}, is")
    return values


def count(value: int) -> int:
    """A count is not negative."""
    if value < 0:
        raise Broken("count", f"a count cannot be negative, and {value} is")
    return value


def cosine(value: float) -> float:
    """A cosine is between −1 and 1, give or take rounding; what is not finite is not known, and stays."""
    if not math.isfinite(value) or abs(value) <= 1 + ROUNDING:
        return value
    raise Broken("cosine", f"a cosine lies between −1 and 1, and {value:g} does not")


def distance(value: float) -> float:
    """Two directions, or two cosines, are at most 2 apart; what is not finite is not known, and stays."""
    size(value)
    if 2 + ROUNDING < value < math.inf:
        raise Broken("cosine", f"two directions, or two cosines, are at most 2 apart, and {value:g} is more")
    return value


def cross_entropy(value: float) -> float:
    """A cross-entropy is not negative; NaN and infinity stay."""
    if value < -ROUNDING:
        raise Broken("cross-entropy", f"a cross-entropy cannot be negative, and {value:g} is")
    return value


def enough_loss(accuracy: float, loss: float) -> None:
    """loss ≥ (1 − accuracy) ln 2: the true class of a misclassified sample has a probability of at most 1/2."""
    least = (1 - accuracy) * math.log(2)
    if loss < least * (1 - 1e-4):
        raise Broken("wrong-samples", f"at an accuracy of {accuracy:g} the loss is at least {least:.4g}, not {loss:g}")


def mean_cosine(gamma: float, counts: Collection[int], *lists: Iterable[tuple[float, str]]) -> None:
    """Γ is the mean of one of the lists of (cosine, status), over as many with status "ok" as one of the counts."""
    known = [[value for value, status in values if status == "ok"] for values in lists]
    fitting = [values for values in known if len(values) in counts]
    if not fitting:
        raise Broken("gamma", f'it is over {min(counts)} blocks, and {len(known[0])} have a cosine with status "ok"')
    means = [sum(values) / len(values) for values in fitting if values]
    if len(means) == len(fitting) and not any(abs(mean - gamma) <= ROUNDING for mean in means):
        raise Broken("gamma", f"Γ is {gamma:g}, and the mean of its cosines is {means[0]:g}")
