"""The judgement: every check put to the evidence, and what the findings amount to, by the number that each is about.

accuracy      holds, walked back or open, by depth alone
lower half    trained, not trained, open or not asked, by reach alone
Γ             even, carried by few, chance, not measurable, open or not reported, by chance, spread, size and reference

Everything else is a symptom. It explains and never decides. The published protocol has one verdict instead.
"""

import statistics
from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any, Literal

from msgspec import field, msgpack

from walkback.checks.base import FirstFired, check_named, first_fired, in_order
from walkback.checks.finding import Finding, Outcome, Protocol, known, seeds_words
from walkback.checks.gamma import TO_BE_EVEN, disagreement, gamma_of, standing_of
from walkback.checks.paired_gain import guessing, stopped
from walkback.checks.published_protocol import published_verdict
from walkback.checks.thresholds import Thresholds, default_thresholds
from walkback.records.evidence import Evidence, doubts_of
from walkback.records.invariants import Broken
from walkback.records.record import Record
from walkback.records.schema import Readings

AccuracyWord = Literal["holds", "walked back", "open"]
LowerHalfWord = Literal["trained", "not trained", "open", "not asked"]
GammaWord = Literal["even", "carried by few", "chance", "not measurable", "open", "not reported"]
VerdictName = Literal["walked back", "holds", "open", "inconclusive", "not applicable"]
Rates = Literal["tuned", "one rate"]
LOWER_HALF: Mapping[str, LowerHalfWord] = {"passes": "trained", "fires": "not trained", "not asked": "not asked"}


class Verdicts(Record):
    """The three answers on one subject."""

    accuracy: AccuracyWord
    lower_half: LowerHalfWord
    gamma: GammaWord


class Accuracy(Record):
    """Over the seeds whose final accuracy is known; std with ddof = 1, None for fewer than two."""

    mean: float | None
    std: float | None
    n: int


class Described(Record):
    """What is shown and not judged, of the final moments by seed."""

    drift: dict[str, float | None] = field(default_factory=dict)
    rho: dict[str, list[float | None] | None] = field(default_factory=dict)
    nudging: dict[str, list[float | None] | None] = field(default_factory=dict)
    measured: dict[str, Readings] = field(default_factory=dict)  # by the probes that are one file each


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
        return partial(msgpack.decode, type=Judgement), (msgpack.encode(self),)

    def possible(self) -> None:
        """The answers follow from the checks."""
        if (self.verdicts is None) != (self.protocol == "published"):
            raise Broken("verdict", f"{self.name} has {'no' if self.verdicts is None else 'three'} answers")
        outcomes, answers = {finding.check: finding.outcome for finding in self.findings}, self.verdicts
        if answers is None:
            fires = "fires" in outcomes.values()
            if (self.verdict == "walked back") != fires:
                raise Broken("verdict", f"{self.name} is {self.verdict}, and {'a' if fires else 'no'} check fires")
            return
        if self.verdict != answers.accuracy:
            raise Broken("verdict", f"{self.name} is {self.verdict}, and its accuracy is {answers.accuracy}")
        needed = {"holds": "passes", "walked back": "fires", "trained": "passes", "not trained": "fires"}
        for check, answer in (("depth", answers.accuracy), ("reach", answers.lower_half)):
            if answer in needed and outcomes.get(check) != needed[answer]:
                raise Broken("verdict", f"{self.name}: {answer}, and {check} is {outcomes.get(check, 'not there')}")
        if answers.gamma == "even" and any(outcomes.get(c) != "passes" for c in ("chance", "spread", "size")):
            raise Broken("verdict", f"{self.name}: Γ is even, and not every check of it passes")

    @property
    def answer(self) -> str:
        """The one word as it is printed: what holds without tuned rates holds at one rate."""
        return "holds at one rate" if self.verdict == "holds" and self.rates == "one rate" else self.verdict


def judge(evidence: Evidence, thresholds: Thresholds | None = None, protocol: Protocol = "ours") -> Judgement:
    """Put every check of the protocol to the evidence. A pure function: nothing is measured, trained or drawn."""
    thresholds = thresholds or default_thresholds()
    findings = [check(evidence, thresholds, protocol) for check in in_order(protocol)]
    decided = published_verdict(evidence, findings) if protocol == "published" else _answers(evidence, findings)
    values = [seed.final.accuracy for seed in evidence.seeds if known(seed.final.accuracy)]
    finals = {label: seed.final for label, seed in evidence.labelled()}
    return Judgement(
        name=evidence.name, **decided,
        accuracy=Accuracy(
            mean=statistics.fmean(values) if values else None,
            std=statistics.stdev(values) if len(values) > 1 else None, n=len(values),
        ),
        findings=findings,
        described=Described(
            drift={label: moment.drift for label, moment in finals.items()},
            rho={label: moment.rho for label, moment in finals.items()},
            nudging={label: moment.nudging for label, moment in finals.items()},
            measured={label: moment.measured for label, moment in finals.items() if moment.measured},
        ),
        first_fired=first_fired(evidence, thresholds), thresholds_version=thresholds.version, protocol=protocol,
        notes=[*evidence.notes, *(doubt for doubt in doubts_of(evidence) if doubt not in decided["says"])],
    )  # fmt: skip


def _answers(evidence: Evidence, findings: Sequence[Finding]) -> dict[str, Any]:
    """The three answers by our protocol, the one word, what decided it, why, and what stands beside them."""
    outcome = {finding.check: finding.outcome for finding in findings}
    accuracy, by, why = _accuracy(evidence, outcome["depth"])
    lower_half = LOWER_HALF.get(outcome["reach"], "open")
    if lower_half in ("trained", "not trained") and _doubts(evidence):
        lower_half = "open"
    gamma, gamma_why = _gamma(evidence, outcome)
    word = accuracy if accuracy == "holds" else f"is {accuracy}"
    effort, cosines = evidence.effort, gamma_of(evidence).by_block
    return {
        "verdict": accuracy, "verdicts": Verdicts(accuracy=accuracy, lower_half=lower_half, gamma=gamma),
        "decided_by": [by],
        "says": f"Accuracy {word}{why}. Lower half {lower_half}. Γ {gamma}{gamma_why}.",
        "rates": "tuned" if _tuned(evidence) else "one rate" if evidence.baselines else None,
        "trials": {} if effort is None else effort.trials, "budget": _budget_words(evidence),
        "symptoms": symptoms_of(evidence, findings), "median_cosine": statistics.median(cosines) if cosines else None,
    }  # fmt: skip


def _accuracy(evidence: Evidence, depth: Outcome) -> tuple[AccuracyWord, str, str]:
    """depth decides. A doubt about the evidence itself leaves it open, whatever the numbers say."""
    reasons = _doubts(evidence)
    why = f": {'; '.join(reasons)}" if reasons else ""
    if depth == "passes" and not reasons:
        if evidence.effort is not None and not evidence.effort.alike:
            return "open", "evidence", f": {evidence.effort.why}, so a gain may be one of the rate"
        return "holds", "depth", "" if _tuned(evidence) else " at one rate"
    if depth == "fires" and not doubts_of(evidence, measured=False):
        return "walked back", "depth", ""
    return "open", "evidence" if depth in ("passes", "fires") else "depth", why


def _tuned(evidence: Evidence) -> bool:
    return evidence.effort is not None and evidence.effort.tuned


def _gamma(evidence: Evidence, outcome: Mapping[str, Outcome]) -> tuple[GammaWord, str]:
    """Definite only where the reference can be compared with, and what was compared is what trained."""
    (standing, why), gammas = standing_of(evidence), gamma_of(evidence)
    if standing == "not seen":
        return "not reported", f": {why}" if why else ""
    if not gammas.reported:
        return "not reported", ""
    if outcome["reference"] == "fires":
        return "not measurable", ""
    if reasons := doubts_of(evidence):
        return "open", f": {'; '.join(reasons)}"
    if standing == "in part":
        return "open", ": what was compared is only in part what trained"
    if outcome["reference"] != "passes" or gammas.table is None:
        return "open", ""
    if why := disagreement(evidence, gammas.by_block):
        return "open", f": {why}"
    chance, spread, size = (outcome[name] for name in ("chance", "spread", "size"))
    if chance == "fires":
        return "chance", ""
    if chance == "passes" and spread == "fires":
        return "carried by few", ""
    even = chance == spread == size == "passes" and len(evidence.seeds) >= TO_BE_EVEN
    return ("even", "") if even else ("open", "")


def _doubts(evidence: Evidence) -> list[str]:
    """What keeps the accuracy from being believed, whatever the checks say."""
    reasons = ["with one class there is nothing to learn"] if evidence.classes == 1 else []
    if unfinished := stopped(evidence):
        reasons.append(f"{seeds_words(unfinished)} did not finish")
    if unknown := [label for label, seed in evidence.labelled() if not known(seed.final.accuracy)]:
        reasons.append(f"the accuracy of {seeds_words(unknown)} is not known")
    return reasons + doubts_of(evidence, measured=False)


def _budget_words(evidence: Evidence) -> str:
    """What was trained, and by how much the best baseline gains with twice the epochs, where that was tried."""
    rises = None if evidence.effort is None else evidence.effort.rises
    more = "" if rises is None else f"with twice the epochs the best baseline gains {100 * rises:+.1f} points"
    return "; ".join(filter(None, (evidence.budget, more)))


def symptoms_of(evidence: Evidence, findings: Sequence[Finding]) -> list[str]:
    """What explains an answer and never decides it, a sentence each; accuracy at chance first of all."""
    words = []
    accuracies = [seed.final.accuracy for seed in evidence.seeds if known(seed.final.accuracy)]
    chance = guessing(evidence)
    images = max((len(seed.hits) for seed in evidence.seeds if seed.hits), default=1000)
    if accuracies and chance is not None and chance < 1:
        noise = 3 * (chance * (1 - chance) / images) ** 0.5
        if statistics.fmean(accuracies) <= chance + noise:
            words.append(f"Accuracy is at chance ({statistics.fmean(accuracies):.3f}; guessing gives {chance:.3f}).")
    words += [finding.says for finding in findings
              if check_named(finding.check).answer == "symptom" and finding.outcome == "fires"]  # fmt: skip
    diverged = [label for label, seed in evidence.labelled() if seed.ended == "diverged"]
    if diverged:
        counted = "" if chance is None else f" and count{'s' if len(diverged) == 1 else ''} as guessing"
        words.append(f"{seeds_words(diverged).capitalize()} diverged{counted}.")
    effort = evidence.effort
    if effort is not None and len(set(effort.trials.values())) > 1:
        each = ", ".join(f"{arm} {count}" for arm, count in effort.trials.items())
        words.append(f"Unequal effort: the learning rates were chosen by different numbers of trials ({each}).")
    if effort is not None and not effort.tuned and effort.why:
        words.append(f"The learning rates do not count as tuned: {effort.why}.")
    if effort is not None and effort.rises is not None and effort.rises > 0.01:
        words.append(f"The best baseline still rises: {100 * effort.rises:+.1f} points with twice the epochs.")
    lost = [  # to rounding?
        block for seed in evidence.seeds for block, zeros in enumerate(seed.final.measured.get("zero credits", []))
        if zeros.status == "ok" and known(zeros.value) and zeros.value > 0.01
    ]  # fmt: skip
    words += evidence.symptoms
    return words + [f"More than 1 % of the credits of block {block} are exactly zero; were they lost to rounding?"
                    for block in dict.fromkeys(lost)]  # fmt: skip
