"""The judgement: every check put to the evidence, the verdict, and what is only described."""

import statistics
from collections.abc import Callable, Mapping

from pydantic import Field

from walkback.checks.coverage import BAND, SHARE, cover, coverage
from walkback.checks.depth import depth
from walkback.checks.finding import Finding, Protocol, known
from walkback.checks.reference import CHORD, FLOOR, chord, norm, reference
from walkback.checks.scale import growth, scale
from walkback.checks.thresholds import DEFAULT, Thresholds
from walkback.checks.verdict import VerdictName, verdict
from walkback.records.evidence import Evidence, Moment
from walkback.records.schema import Record

Check = Callable[[Evidence, Thresholds, Protocol], Finding]
CHECKS: Mapping[Protocol, tuple[Check, ...]] = {
    "ours": (scale, reference, depth, coverage),
    "published": (scale, reference, depth),
}


class Accuracy(Record):
    """Over the seeds whose final accuracy is known; std with ddof = 1, None for fewer than two."""

    mean: float | None
    std: float | None
    n: int


class FirstFired(Record):
    """By seed the first epoch at which something fired (None: never, or not known; `says` tells which)."""

    epochs: dict[str, int | None]
    says: str


class Described(Record):
    """What is told and not judged, of the final moments by seed."""

    drift: dict[str, float | None] = Field(default_factory=dict)
    rho: dict[str, list[float | None] | None] = Field(default_factory=dict)
    nudging: dict[str, list[float | None] | None] = Field(default_factory=dict)


class Judgement(Record):
    """All that is said of one subject."""

    name: str
    verdict: VerdictName
    decided_by: list[str]
    says: str
    accuracy: Accuracy
    findings: list[Finding]
    described: Described
    first_fired: dict[str, FirstFired]
    thresholds_version: str
    protocol: Protocol
    notes: list[str]


def judge(evidence: Evidence, thresholds: Thresholds = DEFAULT, protocol: Protocol = "ours") -> Judgement:
    """Put every check of the protocol to the evidence. A pure function: nothing is measured, trained or drawn."""
    findings = [check(evidence, thresholds, protocol) for check in CHECKS[protocol]]
    decided = verdict(evidence, findings, protocol)
    values = [seed.final.accuracy for seed in evidence.seeds if known(seed.final.accuracy)]
    finals = {label: seed.final for label, seed in zip(evidence.labels(), evidence.seeds, strict=True)}
    return Judgement(
        name=evidence.name, verdict=decided.verdict, decided_by=decided.decided_by, says=decided.says,
        accuracy=Accuracy(
            mean=statistics.fmean(values) if values else None,
            std=statistics.stdev(values) if len(values) > 1 else None,
            n=len(values),
        ),
        findings=findings,
        described=Described(
            drift={label: moment.drift for label, moment in finals.items()},
            rho={label: moment.rho for label, moment in finals.items()},
            nudging={label: moment.nudging for label, moment in finals.items()},
        ),
        first_fired=first_fired(evidence, thresholds),
        thresholds_version=thresholds.version, protocol=protocol, notes=evidence.notes,
    )  # fmt: skip


def fires_at(moment: Moment, thresholds: Thresholds = DEFAULT, residual: bool | None = True) -> dict[str, bool | None]:
    """What one moment of one training tells by itself: True fires, False does not, None cannot be told.

    "reference" is by precision, "reference floor" by the published floor. Depth is not here: it takes several seeds
    and their baselines.
    """
    grown, off = growth(moment), chord(moment)
    size = norm(moment, thresholds["reference.batch"])
    above = grown.low is not None and grown.low > thresholds["scale.growth"]
    covering = cover(moment, thresholds[BAND]).outcome(thresholds[SHARE])
    apart = 1 in moment.block_counts().values() or residual is False or (residual is None and covering == "fires")
    return {
        "scale": above if residual and (above or grown.high is not None) else None,
        "reference": None if off is None else off > thresholds[CHORD],
        "reference floor": size.value < thresholds[FLOOR] if size and size.stated and size.layer is None else None,
        "coverage": None if apart or covering == "inconclusive" else covering == "fires",
    }


def first_fired(evidence: Evidence, thresholds: Thresholds = DEFAULT) -> dict[str, FirstFired]:
    """For every check the first epoch at which it fired, seed by seed."""
    told = {
        label: [(moment.epoch, fires_at(moment, thresholds, evidence.residual)) for moment in seed.moments]
        for label, seed in zip(evidence.labels(), evidence.seeds, strict=True)
    }
    found = {}
    for name in ("scale", "reference", "reference floor", "coverage"):
        epochs = {
            label: next((epoch for epoch, fired in moments if fired[name]), None) for label, moments in told.items()
        }
        answers = [fired[name] for moments in told.values() for _, fired in moments]
        told_at = sum(answer is not None for answer in answers)
        says = f"told at {told_at} of {len(answers)} moments" if told_at else "no moment tells it"
        if True in answers:
            says += (
                "" if any(e is not None for e in epochs.values()) else "; it fired, at an epoch that is not recorded"
            )
        elif told_at:
            says += "; it never fired"
        found[name] = FirstFired(epochs=epochs, says=says)
    never = dict.fromkeys(told, None)
    found["depth"] = FirstFired(epochs=never, says="cannot be dated: the baselines are known at the end only")
    return found
