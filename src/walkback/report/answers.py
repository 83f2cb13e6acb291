"""The three answers of one judgement in words: for page, form, notebook and comparison. Nothing is judged here."""

import re
from typing import NamedTuple

from walkback.checks import Interval, Judgement
from walkback.checks.depth import TASK, WORDS
from walkback.report.summary import finding_of
from walkback.report.verdicts import GAMMA_GLYPHS, LOWER_GLYPHS, VERDICT_GLYPHS, blocks_of, rates_words

FAILING = re.compile(r"Seeds that gain nothing: (\d+) of (\d+); their share is at most (\d+) %")


class Answer(NamedTuple):
    """One answer: what it is about, its word as it is printed, its sign, and what stands beside it.

    kind    the word that it is coloured by
    beside  one phrase each
    """

    about: str
    word: str
    sign: str
    kind: str
    beside: list[str]


def answers(judgement: Judgement) -> list[Answer]:
    """Accuracy, lower half and Γ; by the published protocol its one verdict."""
    given = judgement.verdicts
    sign = VERDICT_GLYPHS[judgement.verdict]
    if given is None:
        return [Answer("verdict", judgement.verdict, sign, judgement.verdict, [])]
    reach = finding_of(judgement, "reach")
    half = [] if reach is None or "half" not in reach.parts else [_gain(reach.parts["half"])]
    return [
        Answer("accuracy", judgement.answer, sign, judgement.verdict, [*filter(None, [failing_words(judgement)])]),
        Answer("lower half", given.lower_half, LOWER_GLYPHS[given.lower_half], given.lower_half, half),
        Answer("Γ", given.gamma, GAMMA_GLYPHS[given.gamma], given.gamma, gamma_words(judgement)),
    ]


def answer_words(judgement: Judgement) -> str:
    """All answers in a line: "accuracy holds, lower half trained, Γ even"."""
    return ", ".join(f"{each.about} {each.word}" for each in answers(judgement))


def gains_words(judgement: Judgement) -> list[str]:
    """What training the blocks gains over each of the two baselines, with the interval that judged."""
    depth = finding_of(judgement, "depth")
    if depth is None or judgement.verdicts is None:
        return []
    words = []
    for name in TASK:
        part = depth.parts.get(name)
        words.append(f"{WORDS[name]}: {'not known' if part is None else _gain(part)}")
    return words


def gamma_words(judgement: Judgement) -> list[str]:
    """Γ, of how many blocks it speaks, and the median block's cosine."""
    chance, stands = finding_of(judgement, "chance"), stands_words(judgement)
    gamma = "" if chance is None or chance.value is None else f"{chance.value:.2f}"
    median = judgement.median_cosine
    words = [", ".join(filter(None, [gamma, stands and f"stands for {stands}"]))]
    return [*filter(None, words), *([] if median is None else [f"median block {median:.2f}"])]


def stands_words(judgement: Judgement) -> str:
    """Of how many blocks Γ speaks; empty where that is not known."""
    spread = finding_of(judgement, "spread")
    if spread is None or spread.value is None:
        return ""
    return f"{spread.value:.1f} of {blocks_of(spread.threshold)} blocks"


def effort_words(judgement: Judgement) -> str:
    """How the learning rates were chosen; empty where nothing is compared."""
    return "" if judgement.rates is None else rates_words(judgement).removeprefix("rates: ")


def failing_words(judgement: Judgement) -> str:
    """On how many seeds the blocks gain nothing, and the bound of their share, as depth says it."""
    depth = finding_of(judgement, "depth")
    found = None if depth is None else FAILING.search(depth.says)
    return "" if found is None else "{} of {} seeds gain nothing; at most {} % do (95 %)".format(*found.groups())


def _gain(part: Interval) -> str:
    """A gain in points with its interval.

    >>> _gain(Interval(value=0.306, low=0.3, high=0.312)), _gain(Interval(value=-0.01))
    ('+30.6 points (+30.0 to +31.2)', '-1.0 points')
    """
    if part.value is None:
        return "not known"
    ends = "" if part.low is None or part.high is None else f" ({100 * part.low:+.1f} to {100 * part.high:+.1f})"
    return f"{100 * part.value:+.1f} points{ends}"
