"""The verdict: what the findings amount to, and which of them decided.

walked back     a check fires
holds           nothing is left open: every check was judged, at least two finished seeds, every number finite, and the
                claim was really tested (depth or coverage passed), and no credit that explains nothing
inconclusive    something that was needed is not known, or seeds and intervals do not settle it
not applicable  the question cannot be put to this net or task
"""

from collections.abc import Sequence
from typing import Literal, NamedTuple

from walkback.checks.base import check_named
from walkback.checks.by_seed import seeds_said
from walkback.checks.finding import Finding, Outcome, Protocol, known, listed
from walkback.records.doubts import doubts_of
from walkback.records.evidence import Evidence
from walkback.records.schema import NullRecord

VerdictName = Literal["walked back", "holds", "inconclusive", "not applicable"]


class Verdict(NamedTuple):
    """The verdict, the checks that decided it ("evidence": none of them, but what they rest on), and why."""

    verdict: VerdictName
    decided_by: list[str]
    says: str


def verdict(evidence: Evidence, findings: Sequence[Finding], protocol: Protocol = "ours") -> Verdict:
    """What the findings of one subject amount to."""
    fired = _with(findings, "fires")
    if fired:
        return Verdict("walked back", fired, f"Walked back: {listed(fired)} {'fires' if len(fired) == 1 else 'fire'}.")
    if protocol == "published":
        return _published(evidence, findings)
    if evidence.classes == 1:
        return Verdict("not applicable", ["evidence"], "Not applicable: with one class there is nothing to learn.")
    unsettled = _with(findings, "inconclusive")
    if unsettled:
        return Verdict("inconclusive", unsettled, f"Inconclusive: {listed(unsettled)} could not be settled.")
    bars = _bars(evidence, findings)
    if bars:
        return Verdict("inconclusive", ["evidence"], f"Inconclusive: {'; '.join(bars)}.")
    aside = _with(findings, "not applicable")
    if evidence.blocks == 1:
        return Verdict("not applicable", ["evidence"], "Not applicable: with one block, credit has no depth to cross.")
    tests = [finding.check for finding in findings if check_named(finding.check).tests_claim]
    if tests and set(tests) <= set(aside):
        says = f"Not applicable: neither {' nor '.join(tests)} could be tested here."
        return Verdict("not applicable", tests, says)
    against = {f.check: why for f in findings if (why := check_named(f.check).contradicts(f))}
    if against:
        return Verdict("inconclusive", list(against), f"Inconclusive: {'; '.join(against.values())}.")
    passed = _with(findings, "passes")
    besides = f" ({listed(aside)} not applicable)" if aside else ""
    return Verdict("holds", passed, f"Holds: {listed(passed)} pass{besides}.")


def _with(findings: Sequence[Finding], outcome: Outcome) -> list[str]:
    return [finding.check for finding in findings if finding.outcome == outcome]


def _bars(evidence: Evidence, findings: Sequence[Finding]) -> list[str]:
    """What keeps a subject from holding although no check is open."""
    bars = []
    if len(evidence.seeds) < 2:
        bars.append("one seed is not enough to show that it holds")
    endings = dict(evidence.labelled())
    for ended, words in (("diverged", "diverged"), ("stopped", "did not finish")):
        those = [label for label, seed in endings.items() if seed.ended == ended]
        if those:
            bars.append(f"{seeds_said(those)} {words}")
    unknown = [label for label, seed in endings.items() if not known(seed.final.accuracy)]
    if unknown:
        bars.append(f"the accuracy of {seeds_said(unknown)} is not known")
    broken = not_finite(evidence)
    if broken:
        bars.append(_broken_said(broken))
    bars += doubts_of(evidence)
    bars += [bar for finding in findings if (bar := check_named(finding.check).bars(finding))]
    return bars


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
    broken = not_finite(evidence)
    if broken:
        return Verdict("inconclusive", ["evidence"], f"Inconclusive: {_broken_said(broken)}.")
    doubts = doubts_of(evidence)
    if doubts:
        return Verdict("inconclusive", ["evidence"], f"Inconclusive: {'; '.join(doubts)}.")
    passed = _with(findings, "passes")
    if passed:
        says = f"Holds by the published protocol: nothing fires, and {listed(passed)} could be judged."
        return Verdict("holds", passed, says)
    unsettled = _with(findings, "inconclusive")
    return Verdict("inconclusive", unsettled, f"Inconclusive: {listed(unsettled)} could not be settled.")
