"""A judgement in one sentence, and what to do about a finding: the checks' own words, put together."""

from collections.abc import Sequence

from walkback.checks import Finding, Judgement, Thresholds, VerdictName, check_named
from walkback.checks.depth import CONFIDENCE
from walkback.checks.sequential import seeds_advice, seeds_needed

SEVERITY: Sequence[VerdictName] = ("walked back", "open", "inconclusive", "not applicable", "holds")


def most_serious_first(judgements: Sequence[Judgement]) -> list[int]:
    """The places of the judgements: those walked back first, those that hold last; else in their order."""
    return sorted(range(len(judgements)), key=lambda place: SEVERITY.index(judgements[place].verdict))


def finding_of(judgement: Judgement, check: str) -> Finding | None:
    """What one check found; None where it was not asked."""
    return next((finding for finding in judgement.findings if finding.check == check), None)


def sentence(judgement: Judgement, thresholds: Thresholds) -> str:
    """Why the verdict is what it is."""
    by_name = {finding.check: finding for finding in judgement.findings}
    decided = [by_name[name] for name in judgement.decided_by if name in by_name]
    if not decided or judgement.verdict == "not applicable":
        return _says(judgement)
    clauses = [check_named(finding.check).phrase(finding) for finding in decided]
    words = _capital("; ".join(clauses)) + "."
    seeds = more_seeds(judgement, thresholds) if judgement.verdict == "open" else ""
    return f"{words} {seeds}".rstrip()


def more_seeds(judgement: Judgement, thresholds: Thresholds) -> str:
    """How many seeds would settle what is open; nothing where seeds would not, or are too few to tell."""
    n = judgement.accuracy.n
    wanted = [
        seeds_needed(f, n, thresholds[CONFIDENCE])
        for f in judgement.findings if waits_for_seeds(f, n) and f.check in judgement.decided_by
    ]  # fmt: skip
    if not wanted:
        return ""
    if None in wanted:
        return "At this spread, no practical number of seeds would settle it."
    more = max(seeds for seeds in wanted if seeds is not None) - n
    return f"About {max(1, more)} more seed{'s' if more > 1 else ''} would settle it."


def waits_for_seeds(finding: Finding, n: int) -> bool:
    """Whether more seeds would settle a gain that is open, and there are enough to tell how many.

    A gain that is large enough, while another baseline is missing, stays open with any number of seeds.
    """
    gains = check_named(finding.check).form == "points" and finding.value is not None
    enough = gains and finding.wants_seeds and n > 1 and finding.low is not None and finding.high is not None
    return enough and (finding.basis == "exact" or (finding.value or 0.0) < finding.threshold)


def remedy(finding: Finding, judgement: Judgement, thresholds: Thresholds) -> str:
    """What to do about a finding, fit to the case; empty where there is nothing to do."""
    n = judgement.accuracy.n
    if waits_for_seeds(finding, n):
        advice = seeds_advice(seeds_needed(finding, n, thresholds[CONFIDENCE]))
        return f"More seeds: {advice}; there are {n}."
    return check_named(finding.check).advice(finding)


def _says(judgement: Judgement) -> str:
    before = f"{judgement.verdict}: "
    says = judgement.says
    return _capital(says[len(before) :]) if says.lower().startswith(before) else says


def _capital(words: str) -> str:
    return f"{words[:1].upper()}{words[1:]}"
