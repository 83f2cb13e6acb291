"""Seeds in words: which they are, and what is told of each."""

from collections.abc import Callable, Iterable, Sequence

from walkback.checks.finding import listed
from walkback.records.evidence import Evidence


def seeds_said(labels: Sequence[str]) -> str:
    """Seeds in words.

    >>> seeds_said(["42"]), seeds_said(["42", "?2"])
    ('seed 42', 'seeds 42 and ?2')
    """
    return ("seed " if len(labels) == 1 else "seeds ") + listed(labels)


def by_text(told: Iterable[tuple[str, str]]) -> list[str]:
    """What is told of seeds, each thing once with all the seeds it is told of.

    >>> by_text([("42", "odd"), ("123", "odd"), ("456", "even")])
    ['seeds 42 and 123: odd', 'seed 456: even']
    """
    seeds: dict[str, list[str]] = {}
    for label, text in told:
        seeds.setdefault(text, []).append(label)
    return [f"{seeds_said(labels)}: {text}" for text, labels in seeds.items()]


def where(evidence: Evidence, holds: Callable[[int], bool]) -> list[str]:
    """The labels of the seeds, by their place, for which something is so."""
    return [label for place, label in enumerate(evidence.labels()) if holds(place)]
