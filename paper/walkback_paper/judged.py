"""Arms that are judged: what is known of each, and what either protocol makes of that."""

from collections.abc import Mapping
from typing import NamedTuple

from walkback.checks import Finding, Judgement, judge
from walkback.records import BaselineName, Evidence, Run, evidence_of_runs
from walkback.report import GLYPHS
from walkback.report import KEY as KEY
from walkback_paper.base import Collected


class BothVerdicts(NamedTuple):
    """What is put before everybody who decides: the evidence, and what was made of it by either protocol."""

    evidence: Evidence
    ours: Judgement
    published: Judgement


def both(evidence: Evidence) -> BothVerdicts:
    """The judgement of either protocol."""
    return BothVerdicts(evidence, judge(evidence), judge(evidence, protocol="published"))


def known_of(
    g: Collected, arm: str, baselines: Mapping[BaselineName, str] | None = None, name: str = ""
) -> Evidence | None:
    """The evidence of an arm; None if no run of it ended. Without `baselines` they are found among the study's runs."""
    if not g.ended(arm):
        return None
    if baselines is None:
        others: list[Run] = [run for each in g.arms for run in g.ended(each)]
        return evidence_of_runs(name or arm, g.ended(arm), others)
    given = {role: g.ended(other) for role, other in baselines.items() if other in g.arms and g.ended(other)}
    return evidence_of_runs(name or arm, g.ended(arm), baselines=given)


def finding(judgement: Judgement | None, check: str) -> Finding | None:
    """What one check found."""
    return next((f for f in judgement.findings if f.check == check), None) if judgement else None


def glyph(judgement: Judgement | None, check: str) -> str:
    """The sign of what it found; nothing where it was not asked."""
    found = finding(judgement, check)
    return GLYPHS[found.outcome] if found else ""
