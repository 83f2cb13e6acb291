"""Arms as subjects: each with its evidence, its baselines found among all runs of the study, and both judgements."""

from collections.abc import Iterable
from dataclasses import dataclass
from itertools import pairwise

from walkback.checks import Judgement, judge
from walkback.records import Evidence, Snapshot, evidence_of_runs
from walkback.report.tables import Stat
from walkback.studies.base import CLASSES, Gathered


@dataclass(frozen=True)
class Judged:
    """One arm: what is known of it, and what either protocol makes of that."""

    evidence: Evidence
    ours: Judgement
    published: Judgement


def judged(g: Gathered, arms: Iterable[str]) -> dict[str, Judged]:
    """Every arm of which a run ended."""
    runs = [run for arm in g.arms for run in g.ended(arm)]
    found = {}
    for arm in arms:
        if g.ended(arm):
            evidence = evidence_of_runs(arm, g.ended(arm), runs, classes=CLASSES)
            found[arm] = Judged(evidence, judge(evidence), judge(evidence, protocol="published"))
    return found


def largest_growth(snapshot: Snapshot) -> float:
    """The largest ‖h_{l+1}‖ / ‖h_l‖."""
    return max(after / before for before, after in pairwise(snapshot.hidden_norms))


def update_alignment(snapshot: Snapshot) -> float:
    """The mean over the blocks of the update alignment; not a number where it was not measured."""
    values = [r.value for r in snapshot.measured.get("update", []) if r.status == "ok"]
    return sum(values) / len(values) if values else float("nan")


def aligned(g: Gathered, arm: str) -> Stat | None:
    """The same over the seeds in which it was measured; None if in none."""
    values = [update_alignment(run.snapshots[-1]) for run in g[arm]]
    there = tuple(v for v in values if v == v)
    return Stat(there, "cosine") if there else None
