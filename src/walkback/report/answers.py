"""One judgement in signs, cells and words: for terminal, tables, page, form, notebook and comparison. Nothing is judged
here."""

import re
from collections.abc import Sequence
from typing import NamedTuple

from walkback.checks import Finding, Interval, Judgement, Thresholds, VerdictName, check_named
from walkback.checks.depth import CONFIDENCE, TASK, WORDS
from walkback.checks.sequential import seeds_advice, seeds_needed
from walkback.report.writing import number

SEVERITY: Sequence[VerdictName] = ("walked back", "open", "inconclusive", "not applicable", "holds")

GLYPHS = {  # of the outcomes of checks, and of the three answers
    **dict.fromkeys(("passes", "holds", "trained", "even"), "✓"),
    **dict.fromkeys(("fires", "walked back", "not trained", "carried by few", "chance"), "✗"),
    **dict.fromkeys(("open", "inconclusive"), "?"),
    **dict.fromkeys(("not asked", "not applicable", "not measurable", "not reported"), "–"),
}
STYLES = {"holds": "green", "walked back": "red", "open": "yellow", "inconclusive": "yellow", "not applicable": "dim"}
FAILING = re.compile(r"Seeds that gain nothing: (\d+) of (\d+); their share is at most (\d+) %")


def most_serious_first(judgements: Sequence[Judgement]) -> list[int]:
    """The places of the judgements: those walked back first, those that hold last; else in their order."""
    return sorted(range(len(judgements)), key=lambda place: SEVERITY.index(judgements[place].verdict))


def finding_of(judgement: Judgement, check: str) -> Finding | None:
    """What one check found; None where it was not asked."""
    return next((finding for finding in judgement.findings if finding.check == check), None)


class Answer(NamedTuple):
    """One answer: what it is about, its word as it is printed, and what stands beside it.

    kind    the word that gives its sign and colour
    beside  one phrase each
    """

    about: str
    word: str
    kind: str
    beside: list[str]


def answers(judgement: Judgement) -> list[Answer]:
    """Accuracy, lower half and Γ; by the published protocol its one verdict."""
    given = judgement.verdicts
    if given is None:
        return [Answer("verdict", judgement.verdict, judgement.verdict, [])]
    depth, reach = finding_of(judgement, "depth"), finding_of(judgement, "reach")
    failing = None if depth is None else FAILING.search(depth.says)
    seeds = [] if failing is None else ["{} of {} seeds gain nothing; at most {} % do (95 %)".format(*failing.groups())]
    half = [] if reach is None or "half" not in reach.parts else [_gain(reach.parts["half"])]
    return [
        Answer("accuracy", judgement.answer, judgement.verdict, seeds),
        Answer("lower half", given.lower_half, given.lower_half, half),
        Answer("Γ", given.gamma, given.gamma, _gamma_words(judgement)),
    ]


def answer_words(judgement: Judgement) -> str:
    """All answers in a line: "accuracy holds, lower half trained, Γ even"."""
    return ", ".join(f"{each.about} {each.word}" for each in answers(judgement))


def gains_words(judgement: Judgement) -> list[str]:
    """What training the blocks gains over each of the two baselines, with the interval that judged."""
    depth = finding_of(judgement, "depth")
    if depth is None or judgement.verdicts is None:
        return []
    return [f"{WORDS[name]}: {_gain(depth.parts.get(name, Interval()))}" for name in TASK]


def _gamma_words(judgement: Judgement) -> list[str]:
    """Γ, of how many blocks it speaks, and the median block's cosine."""
    gamma, stands, median = value_of(judgement, "chance"), stands_words(judgement), judgement.median_cosine
    words = [*([] if gamma is None else [f"{gamma:.2f}"]), *([f"stands for {stands} blocks"] if stands else [])]
    return [*([", ".join(words)] if words else []), *([] if median is None else [f"median block {median:.2f}"])]


def stands_words(judgement: Judgement) -> str:
    """Of how many of its blocks Γ speaks; empty where that is not known."""
    spread = finding_of(judgement, "spread")
    return "" if spread is None or spread.value is None else f"{spread.value:.1f} of {blocks_of(spread.threshold)}"


def blocks_of(bar: float) -> int:
    """How many blocks have such a bar for `spread`, (L + 1) / 2.

    >>> blocks_of(2.5)
    4
    """
    return round(2 * bar - 1)


def value_of(judgement: Judgement, check: str) -> float | None:
    """The value that a check found."""
    finding = finding_of(judgement, check)
    return None if finding is None else finding.value


def effort_words(judgement: Judgement) -> str:
    """How the learning rates were chosen, and by how many trials; empty where nothing is compared."""
    if judgement.rates is None:
        return ""
    if judgement.rates != "tuned":
        return "tried, and not tuned" if judgement.trials else "one rate for all"
    counts = sorted(set(judgement.trials.values()))
    each = f"{counts[0]}" if len(counts) == 1 else f"{counts[0]} to {counts[-1]}"
    return f"tuned, {each} trials for each of {len(judgement.trials)} nets"


def _gain(part: Interval) -> str:
    """A gain in points with its interval.

    >>> _gain(Interval(value=0.306, low=0.3, high=0.312)), _gain(Interval(value=-0.01))
    ('+30.6 points (+30.0 to +31.2)', '-1.0 points')
    """
    if part.value is None:
        return "not known"
    ends = "" if part.low is None or part.high is None else f" ({100 * part.low:+.1f} to {100 * part.high:+.1f})"
    return f"{100 * part.value:+.1f} points{ends}"


def sentence(judgement: Judgement) -> str:
    """Why the verdict is what it is: what the checks that decided it found."""
    decided = [finding for name in judgement.decided_by if (finding := finding_of(judgement, name)) is not None]
    if not decided or judgement.verdict == "not applicable":
        return judgement.says
    words = "; ".join(check_named(finding.check).phrase(finding) for finding in decided)
    return f"{words[:1].upper()}{words[1:]}."


def seeds_wanted(finding: Finding, n: int, thresholds: Thresholds) -> str:
    """How many seeds would settle a gain that is open; empty where seeds would not, or are too few to say.

    A gain that is large enough, while another baseline is missing, stays open with any number of seeds.
    """
    gain = check_named(finding.check).form == "points" and finding.value is not None and finding.low is not None
    if not gain or not finding.wants_seeds or n < 2:
        return ""
    if finding.basis != "exact" and (finding.value or 0.0) >= finding.threshold:
        return ""
    return f"{seeds_advice(seeds_needed(finding, n, thresholds[CONFIDENCE]))}; there are {n}"


def remedy(finding: Finding, judgement: Judgement, thresholds: Thresholds) -> str:
    """What to do about a finding; empty where there is nothing to do."""
    wanted = seeds_wanted(finding, judgement.accuracy.n, thresholds)
    return f"More seeds: {wanted}." if wanted else check_named(finding.check).advice(finding)


# --- cells, where there is little room --------------------------------------------------------------------------------


def asked(subjects: Sequence[Judgement]) -> list[str]:
    """The names of all checks that were put to the subjects, in the order of their findings."""
    return list(dict.fromkeys(finding.check for subject in subjects for finding in subject.findings))


def value_words(finding: Finding) -> str:
    """The number that a check found, in its form; empty where there is none."""
    value, form = finding.value, check_named(finding.check).form
    if value is None:
        return ""
    if form == "share":
        ends = (value if end is None else end for end in (finding.low, finding.high))
        return "–".join(dict.fromkeys(f"{100 * end:.0f}" for end in ends)) + "%"
    if form == "points":
        return f"{100 * value:+.1f}"
    if form == "size":
        return f"{value:.0e}"
    return f"{number(value, 2)}{'×' if form == 'times' else ''}"


def finding_cell(finding: Finding | None) -> str:
    """The outcome's sign and the number behind it; empty where nothing was asked."""
    return "" if finding is None else f"{GLYPHS[finding.outcome]} {value_words(finding)}".rstrip()


def accuracy_cell(judgement: Judgement) -> str:
    """Mean and standard deviation over the seeds, short.

    A mean of one keeps its leading digit.
    """
    mean, std = (
        None if value is None else f"{value:.3f}".removeprefix("0" if 0 <= value < 1 else "")
        for value in (judgement.accuracy.mean, judgement.accuracy.std)
    )
    return "–" if mean is None else mean if std is None else f"{mean} ±{std}"


def depth_cell(judgement: Judgement) -> str:
    """The gains over the frozen and over the shallow net; a dash where one is not known."""
    finding = finding_of(judgement, "depth")
    parts = {} if finding is None else finding.parts
    values = [parts[name].value if name in parts else None for name in TASK]
    return " ".join("–" if value is None else f"{100 * value:+.1f}" for value in values)


def lower_cell(judgement: Judgement) -> str:
    """The answer on the lower half, with its points."""
    if judgement.verdicts is None:
        return ""
    value = value_of(judgement, "reach")
    return GLYPHS[judgement.verdicts.lower_half] + ("" if value is None else f" {100 * value:+.1f}")


def gamma_cells(judgement: Judgement) -> tuple[str, str]:
    """Γ, and of how many blocks it speaks with what that amounts to."""
    if judgement.verdicts is None:
        return "", ""
    gamma, stands, word = value_of(judgement, "chance"), stands_words(judgement), judgement.verdicts.gamma
    return ("–", word) if gamma is None or not stands else (f"{gamma:.2f}", f"{stands.replace(' of ', '/')} {word}")
