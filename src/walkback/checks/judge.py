"""The judgement: every check put to the evidence, the verdict, and what is only described."""

import statistics
from collections.abc import Sequence
from functools import partial
from typing import Any, Literal

from msgspec import field, msgpack

from walkback.checks.base import Check, in_order
from walkback.checks.finding import Finding, Protocol, known
from walkback.checks.thresholds import Thresholds, default_thresholds
from walkback.checks.verdict import VerdictName, Verdicts, median_cosine, symptoms_of, verdict
from walkback.records.duplicates import doubts_of
from walkback.records.evidence import Evidence
from walkback.records.invariants import Broken
from walkback.records.moment import Moment
from walkback.records.record import Record
from walkback.records.schema import Count, Readings

UNDATED = "it cannot be dated"  # what is said of a check that no moment of the training tells
NEVER = "; it never fired"


class Accuracy(Record):
    """Over the seeds whose final accuracy is known; std with ddof = 1, None for fewer than two."""

    mean: float | None
    std: float | None
    n: int


class FirstFired(Record):
    """By seed the first epoch at which something fired (None: never, or not known; `fired` tells which).

    moments    how many moments of the training there are, over all seeds
    known_at   at how many of them it is known whether it fired
    fired      whether it fired at any of these; None if there are none
    """

    epochs: dict[str, int | None]
    says: str
    moments: Count = 0
    known_at: Count = 0
    fired: bool | None = None

    @property
    def followed(self) -> bool:
        """Whether it was measured through training, and not at the end alone: only then has it a first epoch."""
        return self.known_at > len(self.epochs)

    @property
    def in_part(self) -> bool:
        """Whether it is known at some moments and not at others."""
        return 0 < self.known_at < self.moments


class Described(Record):
    """What is told and not judged, of the final moments by seed."""

    drift: dict[str, float | None] = field(default_factory=dict)
    rho: dict[str, list[float | None] | None] = field(default_factory=dict)
    nudging: dict[str, list[float | None] | None] = field(default_factory=dict)
    measured: dict[str, Readings] = field(default_factory=dict)  # by the probes that are one file each


Rates = Literal["tuned", "one rate"]


class Judgement(Record, kw_only=True):
    """All that is known and answered of one subject.

    verdict        the one word where one is needed: accuracy's; by the published protocol its own
    verdicts       the three answers; None by the published protocol
    rates          whether every arm had its own learning rate; None: the subject has no baselines
    trials         by arm, how many rates were tried
    budget         what was trained, in a few words, and whether the best baseline still rises
    symptoms       what explains the answers and never decides them, a sentence each
    median_cosine  of the blocks, beside Γ
    """

    name: str
    verdict: VerdictName
    verdicts: Verdicts | None = None
    rates: Rates | None = None
    trials: dict[str, int] = field(default_factory=dict)
    budget: str = ""
    decided_by: list[str]
    says: str
    symptoms: list[str] = field(default_factory=list)
    median_cosine: float | None = None
    accuracy: Accuracy
    findings: list[Finding]
    described: Described
    first_fired: dict[str, FirstFired]
    thresholds_version: str
    protocol: Protocol
    notes: list[str]

    def __reduce__(self) -> tuple[Any, ...]:
        """In one piece: thousands are sent from process to process."""
        return read_judgement, (msgpack.encode(self),)

    def possible(self) -> None:
        """The answers are those that the checks give."""
        if (self.verdicts is None) != (self.protocol == "published"):
            raise Broken("verdict", f"{self.name} has {'no' if self.verdicts is None else 'three'} answers")
        if self.verdicts is not None:
            self._answers(self.verdicts)
            return
        fires = any(finding.outcome == "fires" for finding in self.findings)
        if (self.verdict == "walked back") != fires:
            raise Broken("verdict", f"{self.name} is {self.verdict}, and {'a' if fires else 'no'} check fires")

    def _answers(self, answers: Verdicts) -> None:
        """Refuse unless each answer is one that its check can have given."""
        if self.verdict != answers.accuracy:
            raise Broken("verdict", f"{self.name} is {self.verdict}, and its accuracy is {answers.accuracy}")
        needed = {"holds": "passes", "walked back": "fires", "trained": "passes", "not trained": "fires"}
        outcomes = {finding.check: finding.outcome for finding in self.findings}
        for check, answer in (("depth", answers.accuracy), ("reach", answers.lower_half)):
            if answer in needed and outcomes.get(check) != needed[answer]:
                raise Broken("verdict", f"{self.name}: {answer}, and {check} is {outcomes.get(check, 'not there')}")
        if answers.gamma == "even" and any(outcomes.get(c) != "passes" for c in ("chance", "spread", "size")):
            raise Broken("verdict", f"{self.name}: Γ is even, and not every check of it passes")

    @property
    def answer(self) -> str:
        """The one word as it is printed: what holds without tuned rates holds at one rate."""
        return "holds at one rate" if self.verdict == "holds" and self.rates == "one rate" else self.verdict


def read_judgement(content: bytes) -> Judgement:
    """A judgement that another process made."""
    return msgpack.decode(content, type=Judgement)


def judge(evidence: Evidence, thresholds: Thresholds | None = None, protocol: Protocol = "ours") -> Judgement:
    """Put every check of the protocol to the evidence. A pure function: nothing is measured, trained or drawn."""
    thresholds = thresholds or default_thresholds()
    findings = [check.find(evidence, thresholds, protocol) for check in in_order(protocol)]
    decided = verdict(evidence, findings, protocol)
    values = [seed.final.accuracy for seed in evidence.seeds if known(seed.final.accuracy)]
    finals = {label: seed.final for label, seed in evidence.labelled()}
    effort = evidence.effort
    tuned: Rates | None = "tuned" if effort is not None and effort.tuned else "one rate" if evidence.baselines else None
    ours = protocol == "ours"
    return Judgement(
        name=evidence.name, verdict=decided.verdict, verdicts=decided.verdicts, decided_by=decided.decided_by,
        rates=tuned if ours else None, trials=effort.trials if effort is not None and ours else {}, says=decided.says,
        budget=budget_words(evidence) if ours else "",
        symptoms=symptoms_of(evidence, findings) if ours else [],
        median_cosine=median_cosine(evidence) if ours else None,
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
            measured={label: moment.measured for label, moment in finals.items() if moment.measured},
        ),
        first_fired=first_fired(evidence, thresholds),
        thresholds_version=thresholds.version, protocol=protocol,
        notes=[*evidence.notes, *(doubt for doubt in doubts_of(evidence) if doubt not in decided.says)],
    )  # fmt: skip


def budget_words(evidence: Evidence) -> str:
    """What was trained, and by how much the best baseline gains with twice the epochs, where that was tried."""
    rises = None if evidence.effort is None else evidence.effort.rises
    more = [] if rises is None else [f"with twice the epochs the best baseline gains {100 * rises:+.1f} points"]
    return "; ".join([*([evidence.budget] if evidence.budget else []), *more])


def fires_at(
    moment: Moment,
    thresholds: Thresholds | None = None,
    residual: bool | None = True,
    start: Moment | None = None,
) -> dict[str, bool | None]:
    """What one moment of one training tells by itself: True fires, False does not, None cannot be told.

    "reference" is by precision, "reference floor" by the published floor. A check that takes several seeds and their
    baselines is not here. `start`: the same training at its random init.
    """
    return _fires_at(in_order(), moment, thresholds or default_thresholds(), residual, start)


def _fires_at(
    checks: Sequence[Check], moment: Moment, thresholds: Thresholds, residual: bool | None, start: Moment | None
) -> dict[str, bool | None]:
    told: dict[str, bool | None] = {}
    for check in checks:
        told |= check.fires_at(moment, thresholds, residual, start)
    return told


def first_fired(evidence: Evidence, thresholds: Thresholds | None = None) -> dict[str, FirstFired]:
    """For every check the first epoch at which it fired, seed by seed."""
    thresholds = thresholds or default_thresholds()
    checks, told = in_order(), {}
    dated = [check for check in checks if check.dates]
    for label, seed in evidence.labelled():
        at = partial(_fires_at, dated, thresholds=thresholds, residual=evidence.residual, start=seed.init)
        told[label] = [(moment.epoch, at(moment)) for moment in seed.moments]
    found = {}
    for name in [date.key for check in dated for date in check.dates]:
        epochs = {
            label: next((epoch for epoch, fired in moments if fired[name]), None) for label, moments in told.items()
        }
        answers = [at_moment[name] for moments in told.values() for _, at_moment in moments]
        known_at = sum(answer is not None for answer in answers)
        says = f"known at {known_at} of {len(answers)} moments" if known_at else UNDATED
        if True in answers:
            says += (
                "" if any(e is not None for e in epochs.values()) else "; it fired, at an epoch that is not recorded"
            )
        elif known_at:
            says += NEVER
        fired = True in answers if known_at else None
        found[name] = FirstFired(epochs=epochs, says=says, moments=len(answers), known_at=known_at, fired=fired)
    for check in checks:
        if not check.dates:
            found[check.name] = FirstFired(epochs=dict.fromkeys(told), says=f"cannot be dated: {check.undated}")
    return found
