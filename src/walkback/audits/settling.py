"""What is left to settle after a look: who needs more seeds, how many, and what is said about it before they train."""

from collections.abc import Collection, Mapping, Sequence
from pathlib import Path

from walkback.checks import Audit, Finding, Judgement, Thresholds, check_named
from walkback.checks.depth import CONFIDENCE
from walkback.checks.finding import listed
from walkback.checks.looks import is_open, looks_of, needed
from walkback.errors import RecordError

NOISE = "random"
TOO_MANY = (
    "that is more than --max-seeds {most}, so it will probably stay inconclusive; train longer (--epochs), test on "
    "more images, or raise --max-seeds"
)
CHOSEN_LATER = (
    "An audit with --seeds auto already looked at some of these runs, in another way than here. If the number of "
    "seeds was chosen after that, these intervals claim too much confidence."
)
LOOKED_BEFORE = "An audit with --seeds auto "  # how the warning begins, in audits of older versions too


def found_out(judgement: Judgement) -> bool:
    """Whether a subject is walked back, or its credit explains nothing while what it gains is measured and open.

    Where the task does not ask (bp itself gains nothing by its blocks), or where it is shown to gain what is required,
    a credit that explains nothing does not find it out: the audit could not tell noise from learning.
    """
    if judgement.verdict != "inconclusive":
        return judgement.verdict == "walked back"
    tests = [finding for finding in judgement.findings if check_named(finding.check).tests_claim]
    nothing = [finding for finding in tests if check_named(finding.check).contradicts(finding)]
    others = [(finding.outcome, finding.basis) for finding in tests if finding not in nothing]
    return bool(nothing) and bool(others) and set(others) == {("inconclusive", "exact")}


def undecided(judged: Mapping[str, Judgement], subjects: Collection[str]) -> dict[str, list[Finding]]:
    """Who is to get more seeds, with the findings that are open. The control of noise needs only be found out.

    Whose verdict is inconclusive while an interval of its own contains what is required. And bp, as long as its own
    interval leaves open whether a question can be asked at all (its lower half, for reach) and somebody waits for that.
    A verdict that is inconclusive for another reason, such as seeds that disagree, gets none: they would not help.
    """
    found = {
        name: [f for f in j.findings if f.outcome == "inconclusive" and is_open(f)]
        for name, j in judged.items()
        if j.verdict == "inconclusive" and not (name == NOISE and name not in subjects and found_out(j))
    }
    if "bp" in judged and any(judged[name].verdict != "walked back" for name in subjects):
        unasked = [f for f in judged["bp"].findings if f.outcome == "not applicable" and is_open(f)]
        found["bp"] = [*found.get("bp", []), *unasked]
    return {name: findings for name, findings in found.items() if findings}


def said_at_look(
    audit: Audit, judged: Mapping[str, Judgement], waiting: Mapping[str, Sequence[Finding]], looks: Sequence[int]
) -> list[str]:
    """What a look found, in lines: who is settled, and what each of the others would take."""
    most, confidence = looks[-1], audit.thresholds[CONFIDENCE]
    given_away = [name for name, j in judged.items() if name == NOISE and name not in waiting and found_out(j)]
    stuck = [
        name for name, j in judged.items()
        if j.verdict == "inconclusive" and name not in waiting and name not in given_away
    ]  # fmt: skip
    settled = [name for name in judged if name not in waiting and name not in stuck]
    lines = [f"Settled: {listed(_counted(judged, settled))}."] if settled else []
    for name in stuck:
        open_ = [f.check for f in judged[name].findings if f.outcome == "inconclusive"]
        lines.append(
            f"{name}: {listed(open_) if open_ else 'its evidence'} cannot be settled by more seeds: either the seeds "
            "disagree, or something was not measured."
        )
    for name, findings in waiting.items():
        n = judged[name].accuracy.n
        for finding in findings:
            need = needed(finding, n, confidence)
            line = f"{name}, {n} seeds: {need.says()}"
            if n >= most:
                line += f"; the limit of {most} seeds is reached"
            elif need.seeds is None or need.seeds > most:
                line += f"; {TOO_MANY.format(most=most)}"
            lines.append(f"{line}.")
    return lines


def _counted(judged: Mapping[str, Judgement], names: Sequence[str]) -> list[str]:
    words = {n: "found out" if n == NOISE and judged[n].verdict == "inconclusive" else judged[n].verdict for n in names}
    return [f"{name} ({words[name]}, {judged[name].accuracy.n} seeds)" for name in names]


def unfinished(audit: Audit, waiting: Collection[str]) -> Audit:
    """An audit as it stands between two looks: it is no valid audit, and whoever reads its file is told so."""
    says = f"This audit is not finished: {listed(list(waiting))} get more seeds. The same command resumes it."
    return audit.model_copy(update={"valid": False, "finished": False, "says": says})


def looked_before(out: Path, thresholds: Thresholds) -> bool:
    """Whether an audit with looks that these thresholds do not allow for left its audit.json here before."""
    try:
        before = Audit.read(out)
    except RecordError:
        return False
    if before is None:
        return False
    looks, allowed = set(looks_of(before.thresholds)), set(looks_of(thresholds))
    other = before.thresholds[CONFIDENCE] != thresholds[CONFIDENCE]
    return (bool(looks) and (other or not looks <= allowed)) or LOOKED_BEFORE in before.says


def noted(audit: Audit, chosen_later: bool) -> Audit:
    """The audit, with the warning if it needs one."""
    return audit.model_copy(update={"says": f"{audit.says} {CHOSEN_LATER}"}) if chosen_later else audit
