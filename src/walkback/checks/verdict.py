"""The answers: what the findings of one subject amount to, by the number that each is about.

accuracy      holds, walked back or open, by depth alone
lower half    trained, not trained, open or not asked, by reach alone
Γ             even, carried by few, chance, not measurable, open or not reported, by chance, spread, size and reference

Everything else is a symptom. It explains and never decides. The published protocol has one verdict instead.
"""

import statistics
from collections.abc import Mapping, Sequence
from typing import Literal, NamedTuple

from walkback.checks.base import check_named
from walkback.checks.finding import Finding, Outcome, Protocol, known, listed, seeds_words
from walkback.checks.gamma import disagreement, gamma_of, standing_of
from walkback.checks.paired_gain import guessing
from walkback.records.duplicates import doubts_of
from walkback.records.evidence import Evidence
from walkback.records.record import Record
from walkback.records.schema import NullRecord

AccuracyWord = Literal["holds", "walked back", "open"]
LowerHalfWord = Literal["trained", "not trained", "open", "not asked"]
GammaWord = Literal["even", "carried by few", "chance", "not measurable", "open", "not reported"]
VerdictName = Literal["walked back", "holds", "open", "inconclusive", "not applicable"]
LOWER_HALF: Mapping[str, LowerHalfWord] = {"passes": "trained", "fires": "not trained", "not asked": "not asked"}


class Verdicts(Record):
    """The three answers on one subject."""

    accuracy: AccuracyWord
    lower_half: LowerHalfWord
    gamma: GammaWord


class Verdict(NamedTuple):
    """The answers (none by the published protocol), the one word, the checks that decided it, and why.

    "evidence" decides where no check does, but what they rest on.
    """

    verdicts: Verdicts | None
    verdict: VerdictName
    decided_by: list[str]
    says: str


def verdict(evidence: Evidence, findings: Sequence[Finding], protocol: Protocol = "ours") -> Verdict:
    """What the findings of one subject amount to."""
    if protocol == "published":
        return _published(evidence, findings)
    found = {finding.check: finding for finding in findings}
    accuracy, by, why = _accuracy(evidence, found)
    lower_half = _lower_half(evidence, found)
    gamma, gamma_why = _gamma(evidence, found)
    answers = Verdicts(accuracy=accuracy, lower_half=lower_half, gamma=gamma)
    says = f"Accuracy {_is(accuracy)}{why}. Lower half {lower_half}. Γ {gamma}{gamma_why}."
    return Verdict(answers, accuracy, by, says)


def _is(word: AccuracyWord) -> str:
    return {"holds": "holds", "walked back": "is walked back", "open": "is open"}[word]


def _accuracy(evidence: Evidence, found: Mapping[str, Finding]) -> tuple[AccuracyWord, list[str], str]:
    """depth decides. A doubt about the evidence itself leaves it open, whatever the numbers say."""
    depth = found.get("depth")
    if depth is None:
        return "open", ["evidence"], ": depth was not asked"
    reasons = _doubts(evidence)
    if reasons and depth.outcome == "passes":
        return "open", ["evidence"], f": {'; '.join(reasons)}"
    if depth.outcome == "passes" and evidence.effort is not None and not evidence.effort.alike:
        return "open", ["evidence"], f": {evidence.effort.why}, so a gain may be one of the rate"
    if depth.outcome == "passes":
        return "holds", ["depth"], "" if _tuned(evidence) else " at one rate"
    if depth.outcome == "fires" and not doubts_of(evidence, measured=False):
        return "walked back", ["depth"], ""
    if depth.outcome == "fires":
        return "open", ["evidence"], f": {'; '.join(reasons)}"
    return "open", ["depth"], f": {'; '.join(reasons)}" if reasons else ""


def _tuned(evidence: Evidence) -> bool:
    return evidence.effort is not None and evidence.effort.tuned


def _lower_half(evidence: Evidence, found: Mapping[str, Finding]) -> LowerHalfWord:
    reach = found.get("reach")
    word = "open" if reach is None else LOWER_HALF.get(reach.outcome, "open")
    return "open" if word in ("trained", "not trained") and _doubts(evidence) else word


def _gamma(evidence: Evidence, found: Mapping[str, Finding]) -> tuple[GammaWord, str]:
    """Definite only where the reference can be compared with, and what was compared is what trained."""
    (standing, why), gammas = standing_of(evidence), gamma_of(evidence)
    if standing == "not seen":
        return "not reported", f": {why}" if why else ""
    if not gammas.reported:
        return "not reported", ""
    outcome = {name: finding.outcome for name, finding in found.items()}
    reference: Outcome = outcome.get("reference", "open")
    if reference == "fires":
        return "not measurable", ""
    if reasons := doubts_of(evidence):
        return "open", f": {'; '.join(reasons)}"
    if standing == "in part":
        return "open", ": what was compared is only in part what trained"
    if reference != "passes" or gammas.table is None:
        return "open", ""
    if why := disagreement(evidence, gammas.by_block):
        return "open", f": {why}"
    if outcome.get("chance") == "fires":
        return "chance", ""
    if outcome.get("chance") == "passes" and outcome.get("spread") == "fires":
        return "carried by few", ""
    even = all(outcome.get(name) == "passes" for name in ("chance", "spread", "size")) and len(evidence.seeds) >= 5
    return ("even", "") if even else ("open", "")


def median_cosine(evidence: Evidence) -> float | None:
    """The median over the blocks of their mean cosines; None where one is not known."""
    cosines = gamma_of(evidence).by_block
    return statistics.median(cosines) if cosines else None


def _doubts(evidence: Evidence) -> list[str]:
    """What keeps the accuracy from being believed, whatever the checks say."""
    reasons = []
    if evidence.classes == 1:
        reasons.append("with one class there is nothing to learn")
    seeds = dict(evidence.labelled())
    if unfinished := [label for label, seed in seeds.items() if seed.ended == "stopped"]:
        reasons.append(f"{seeds_words(unfinished)} did not finish")
    if unknown := [label for label, seed in seeds.items() if not known(seed.final.accuracy)]:
        reasons.append(f"the accuracy of {seeds_words(unknown)} is not known")
    return reasons + doubts_of(evidence, measured=False)


def _with(findings: Sequence[Finding], outcome: Outcome) -> list[str]:
    return [finding.check for finding in findings if finding.outcome == outcome]


def not_finite(evidence: Evidence) -> list[str]:
    """Every number of the final moments and baselines that is there and is not finite, by name.

    A cosine or a precision whose status is not "ok" has no value by its own word, and is not among them.
    """
    found = []
    for label, seed in evidence.labelled():
        moment = seed.final
        numbers: dict[str, float | None] = {"loss": moment.loss, "gamma": moment.gamma, "accuracy": moment.accuracy}
        for name in ("hidden_norms", "gradient_norms"):
            numbers |= {f"{name}[{place}]": value for place, value in enumerate(getattr(moment, name) or [])}
        for name, null in (("cosine", "null"), ("cosine_out", "null_out")):
            chances = dict(enumerate(getattr(moment, null) or []))
            for n, record in enumerate(getattr(moment, name) or []):
                if record is not None and record.status == "ok":
                    numbers[f"{name}[{n}]"] = record.value
                    numbers[f"{null}[{n}]"] = _band(chances.get(n))
        numbers["null_gamma"] = _band(moment.null_gamma)
        if moment.precision is not None and moment.precision.status == "ok":
            numbers["precision"] = moment.precision.chord
        found += [
            f"{name} of seed {label}" for name, value in numbers.items() if value is not None and not known(value)
        ]
    for name, baseline in evidence.baselines.items():
        odd = [value for value in baseline.accuracy.values() if value is not None and not known(value)]
        found += [f"the baseline {name}"] if odd else []
    return found


def _broken_said(broken: list[str]) -> str:
    return "not finite: " + listed(broken if len(broken) < 4 else [*broken[:3], f"{len(broken) - 3} more"])


def _band(null: NullRecord | None) -> float | None:
    """A number that is finite if both of a null's are."""
    return None if null is None else null.mean + null.std


def _published(evidence: Evidence, findings: Sequence[Finding]) -> Verdict:
    """The paper's way: what was not reported is not held against a method, as long as something was judged."""
    fired = _with(findings, "fires")
    if fired:
        says = f"Walked back: {listed(fired)} {'fires' if len(fired) == 1 else 'fire'}."
        return Verdict(None, "walked back", fired, says)
    broken = not_finite(evidence)
    if broken:
        return Verdict(None, "inconclusive", ["evidence"], f"Inconclusive: {_broken_said(broken)}.")
    doubts = doubts_of(evidence)
    if doubts:
        return Verdict(None, "inconclusive", ["evidence"], f"Inconclusive: {'; '.join(doubts)}.")
    passed = _with(findings, "passes")
    if passed:
        says = f"Holds by the published protocol: nothing fires, and {listed(passed)} could be judged."
        return Verdict(None, "holds", passed, says)
    unsettled = _with(findings, "inconclusive")
    return Verdict(None, "inconclusive", unsettled, f"Inconclusive: {listed(unsettled)} could not be settled.")


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
    return [*words, *evidence.symptoms, *_zeros(evidence)]


def _zeros(evidence: Evidence) -> list[str]:
    """Credits that are exactly zero: lost to rounding?"""
    found: dict[str, None] = {}
    for seed in evidence.seeds:
        for block, zeros in enumerate(seed.final.measured.get("zero credits", [])):
            if zeros.status == "ok" and known(zeros.value) and zeros.value > 0.01:
                found[
                    f"More than 1 % of the credits of block {block} are exactly zero; were they lost to rounding?"
                ] = None
    return list(found)
