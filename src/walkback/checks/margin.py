"""Margins: how much more accurate one side is than another, paired by seed, with a Student-t interval of the mean."""

import statistics
from collections.abc import Mapping, Sequence
from typing import NamedTuple

from walkback.checks.finding import Outcome, known, listed, points
from walkback.checks.student import mean_interval
from walkback.records.evidence import Baseline, BaselineName, Evidence

DIGITS = 12  # accuracies are counts over counts; rounding there keeps .30 − .28 from being less than .02


class Margin(NamedTuple):
    """The mean gain of one side over the other; without an interval nothing can be shown by it."""

    mean: float | None
    low: float | None
    high: float | None
    pairs: int
    lacking: list[str]  # whose accuracy is not known, by seed

    def against(self, required: float) -> Outcome:
        """Passes if the whole interval is above what is required, fires if it is below."""
        if self.low is not None and self.low > required:
            return "passes"
        return "fires" if self.high is not None and self.high < required else "inconclusive"

    def too_few(self) -> str:
        """What is said where it has no interval."""
        return f"Too few seeds: {self.pairs} gives no interval. At least 2 are needed."


def margin(side: Mapping[str, float | None] | float, other: Baseline, confidence: float) -> Margin:
    """The gain over a baseline, seed by seed. A number alone, on either side, stands for every seed of the other.

    Every seed must have its partner: with some left out, the interval would be of other seeds than were trained.

    >>> margin({"1": 0.5, "2": 0.6}, Baseline.by_seed({1: 0.4, 2: 0.3}), 0.95).mean
    0.2
    >>> margin({"1": 0.5, "2": 0.6}, Baseline.by_seed({1: 0.4}), 0.95).lacking
    ['2']
    """
    number = next(iter(other.accuracy.values())) if other.alone else None
    if isinstance(side, float):
        sides: Mapping[str, float | None] = dict.fromkeys(other.accuracy, side)
    else:
        sides = side
    pairs = {seed: (mine, number if other.alone else other.accuracy.get(seed)) for seed, mine in sides.items()}
    gains = [round(a - b, DIGITS) for a, b in pairs.values() if known(a) and known(b)]
    lacking = [seed for seed, (a, b) in pairs.items() if not (known(a) and known(b))]
    if lacking or not gains:
        return Margin(None, None, None, len(gains), lacking)
    mean = round(statistics.fmean(gains), DIGITS)
    exact = isinstance(side, float) and other.alone  # two numbers typed in: what they say, without a spread
    interval = (mean, mean) if exact else mean_interval(gains, confidence)
    if interval is None:
        return Margin(mean, None, None, len(gains), [])
    low, high = (round(end, DIGITS) for end in interval)
    return Margin(mean, low, high, len(gains), [])


def accuracies(evidence: Evidence) -> dict[str, float | None]:
    """The final accuracy of every seed."""
    return {label: seed.final.accuracy for label, seed in evidence.labelled()}


def margin_over(side: Mapping[str, float | None] | float, other: Baseline | None, confidence: float) -> Margin | None:
    """The margin over a baseline; None if there is no such baseline, or nothing to hold against it."""
    return margin(side, other, confidence) if other is not None and side != {} else None


def margin_of(side: BaselineName, over: BaselineName, evidence: Evidence, confidence: float) -> Margin | None:
    """The margin of one baseline over another: of bp, what the task has to give."""
    mine, other = evidence.baselines.get(side), evidence.baselines.get(over)
    if mine is None or other is None:
        return None
    if not mine.alone:
        return margin(mine.accuracy, other, confidence)
    number = next(iter(mine.accuracy.values()))
    return margin(number, other, confidence) if known(number) else None


def margin_said(m: Margin, required: float, confidence: float) -> str:
    """A margin as a verb with its interval.

    >>> margin_said(Margin(-0.0443, -0.065, -0.0236, 3, []), 0.02, 0.95)
    'costs 4.4 points (95 % interval -6.5 to -2.4)'
    >>> margin_said(Margin(0.0199, 0.0199, 0.0199, 1, []), 0.02, 0.95)
    'gains 1.99 points'
    """
    assert m.mean is not None
    verb = "costs" if m.mean < 0 else "gains"
    size = _digits(m.mean, required).lstrip("+-")
    return f"{verb} {size} {'point' if size == '1.0' else 'points'}{interval_said(m, required, confidence)}"


def interval_said(m: Margin, required: float, confidence: float) -> str:
    """The interval in brackets; nothing where the margin has none."""
    if m.low is None or m.high is None or m.low == m.high:
        return ""
    ends = f"{_digits(m.low, required)} to {_digits(m.high, required)}"
    return f" ({100 * confidence:.4g} % interval {ends})"


def _digits(share: float, required: float) -> str:
    """In points with one digit, or with as many as it takes to see on which side of the required ones it lies."""
    for digits in range(1, 6):
        text = f"{100 * share:+.{digits}f}"
        if share == required or float(text) != float(f"{100 * required:.{digits}f}"):
            break
    return text


def least_said(required: float) -> str:
    """What is required, as the beginning of a sentence."""
    return f"At least {points(required)} is required"


def typed_said(evidence: Evidence, names: Sequence[BaselineName]) -> list[str]:
    """Which of these baselines were typed in, a sentence each."""
    typed = sorted(name for name in names if name in evidence.baselines and evidence.baselines[name].typed)
    alone = [name for name in typed if evidence.baselines[name].alone]
    by_seed = [name for name in typed if name not in alone]
    said = [f"Typed in, not measured here, and so without a spread: {listed(alone)}."] if alone else []
    return said + ([f"Given by seed, not measured here: {listed(by_seed)}."] if by_seed else [])


def same_margins(own: Margin | None) -> list[str]:
    """A warning where seeds cannot be told apart."""
    if own is not None and own.pairs > 1 and own.low is not None and own.low == own.high:
        return ["every seed has the same margin; are they different trainings?"]
    return []
