"""Numbers, seeds and gains in words: what the sentences of the checks are made of."""

from collections.abc import Callable, Iterable, Sequence

from walkback.checks.finding import Interval
from walkback.records.evidence import Evidence


def listed(words: Sequence[str]) -> str:
    """Words in a row.

    >>> listed(["1", "2", "3"])
    '1, 2 and 3'
    """
    return words[0] if len(words) == 1 else f"{', '.join(words[:-1])} and {words[-1]}"


def range_words(values: Sequence[float]) -> str:
    """One number, or the range of several.

    >>> range_words([3.0]), range_words([3e-9, 4.25e-9])
    ('3', '3e-09 to 4.25e-09')
    """
    low, high = f"{min(values):.3g}", f"{max(values):.3g}"
    return low if low == high else f"{low} to {high}"


def times_words(values: Sequence[float], limit: float | None = None) -> str:
    """One growth, or the range of several; with more digits where three would not tell it from the limit.

    >>> times_words([41.12, 43.8]), times_words([694.0]), times_words([0.5, 25800.0]), times_words([50.01], 50.0)
    ('41.1–43.8×', '694×', '0.5–25,800×', '50.01×')
    """
    low, high = (_plainly(value, limit) for value in (min(values), max(values)))
    return f"{low}×" if low == high else f"{low}–{high}×"


def _plainly(value: float, limit: float | None) -> str:
    """Three digits or more, and no exponent while the number is one that people read."""
    for digits in range(3, 9):
        rounded = float(f"{value:.{digits}g}")
        if limit is None or value == limit or rounded != limit:
            break
    return f"{rounded:,.0f}" if 1000 <= rounded < 1e6 else f"{rounded:.{digits}g}"


def points(share: float) -> str:
    """A difference of accuracies in percentage points.

    >>> points(0.0345), points(-0.02)
    ('+3.45', '-2')
    """
    return f"{round(share * 100, 2):+g}"


def seeds_words(labels: Sequence[str]) -> str:
    """Seeds in words.

    >>> seeds_words(["42"]), seeds_words(["42", "?2"])
    ('seed 42', 'seeds 42 and ?2')
    """
    return ("seed " if len(labels) == 1 else "seeds ") + listed(labels)


def by_text(texts: Iterable[tuple[str, str]]) -> list[str]:
    """Texts about seeds, each once with all the seeds that it is about.

    >>> by_text([("42", "odd"), ("123", "odd"), ("456", "even")])
    ['seeds 42 and 123: odd', 'seed 456: even']
    """
    seeds: dict[str, list[str]] = {}
    for label, text in texts:
        seeds.setdefault(text, []).append(label)
    return [f"{seeds_words(labels)}: {text}" for text, labels in seeds.items()]


def where(evidence: Evidence, holds: Callable[[int], bool]) -> list[str]:
    """The labels of the seeds, by their place, for which something is so."""
    return [label for place, label in enumerate(evidence.labels()) if holds(place)]


def gain_words(gain: Interval, required: float, confidence: float) -> str:
    """A gain as a verb with its interval.

    >>> gain_words(Interval(value=-0.0443, low=-0.065, high=-0.0236), 0.02, 0.9875)
    'costs 4.4 points (98.75 % interval -6.5 to -2.4)'
    """
    assert gain.value is not None
    verb = "costs" if gain.value < 0 else "gains"
    size = digits(gain.value, required).lstrip("+-")
    if gain.low is None or gain.high is None:
        return f"{verb} {size} points"
    ends = f"{digits(gain.low, required)} to {digits(gain.high, required)}"
    return f"{verb} {size} points ({100 * confidence:.4g} % interval {ends})"


def digits(share: float, required: float) -> str:
    """In points with one digit, or with as many as it takes to see on which side of the required ones it lies."""
    for count in range(1, 6):
        text = f"{100 * share:+.{count}f}"
        if share == required or float(text) != float(f"{100 * required:.{count}f}"):
            break
    return text


def least_words(required: float) -> str:
    """What is required, as the beginning of a sentence."""
    return f"At least {points(required)} is required"


def typed_words(evidence: Evidence, names: Sequence[str]) -> list[str]:
    """Which of these baselines were typed in, a sentence each."""
    typed = sorted(name for name, baseline in evidence.baselines.items() if name in names and baseline.typed)
    alone = [name for name in typed if evidence.baselines[name].alone]
    by_seed = [name for name in typed if name not in alone]
    found = [f"Typed in, not measured here, and so without a spread: {listed(alone)}."] if alone else []
    return found + ([f"Given by seed, not measured here: {listed(by_seed)}."] if by_seed else [])
