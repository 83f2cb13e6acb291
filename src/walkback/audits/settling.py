"""What is left to settle after a look: who needs more seeds, how many, and what is said about it before they train."""

from collections.abc import Collection, Mapping, Sequence
from pathlib import Path

from walkback.checks import Audit, Finding, Judgement, Thresholds
from walkback.checks.depth import CONFIDENCE
from walkback.checks.finding import listed
from walkback.checks.looks import looks_of, needed, wanting
from walkback.errors import RecordError

NOISE = "random"
TOO_MANY = (
    "that is more than --max-seeds {most}, so it will probably stay open; train longer (--epochs), test on more "
    "images, or raise --max-seeds"
)
CHOSEN_LATER = (
    "An audit with --seeds auto already looked at some of these runs, in another way than here. If the number of "
    "seeds was chosen after that, these intervals claim too much confidence."
)
LOOKED_BEFORE = "An audit with --seeds auto "  # how the warning begins, in audits of older versions too


def undecided(
    judged: Mapping[str, Judgement], subjects: Collection[str], thresholds: Thresholds, most: int
) -> dict[str, list[Finding]]:
    """Which subjects are to get more seeds, with the findings that are open.

    Those of which an interval that more seeds would narrow leaves accuracy open; or the lower half, where `most` seeds
    may settle it. The control of noise gets none: it must only not hold. bp gets as many as any subject.
    """
    found = {}
    for name, judgement in judged.items():
        if name in subjects:
            n, confidence = judgement.accuracy.n, thresholds[CONFIDENCE]
            needs = [(finding, needed(finding, n, confidence).seeds) for finding in wanting(judgement)]
            found[name] = [f for f, seeds in needs if f.check == "depth" or (seeds is not None and seeds <= most)]
    return {name: findings for name, findings in found.items() if findings}


def look_words(
    audit: Audit, judged: Mapping[str, Judgement], waiting: Mapping[str, Sequence[Finding]], looks: Sequence[int]
) -> list[str]:
    """What a look found, in lines: who is settled, and what each of the others would take."""
    most, confidence = looks[-1], audit.thresholds[CONFIDENCE]
    subjects = {subject.name for subject in audit.subjects}
    shown = {name: j for name, j in judged.items() if name in subjects}
    stuck = [name for name, j in shown.items() if j.verdict in ("open", "inconclusive") and name not in waiting]
    settled = [name for name in shown if name not in waiting and name not in stuck]
    counted = [f"{name} ({shown[name].answer}, {shown[name].accuracy.n} seeds)" for name in settled]
    lines = [f"Settled: {listed(counted)}."] if counted else []
    for name in stuck:
        why = next((f.says for f in shown[name].findings if f.check == "depth"), "")
        lines.append(f"{name} stays open, and more seeds would not settle it. {why}".rstrip())
    for name, findings in waiting.items():
        n = shown[name].accuracy.n
        for finding in findings:
            need = needed(finding, n, confidence)
            line = f"{name}, {n} seeds: {need.says()}"
            if n >= most:
                line += f"; the limit of {most} seeds is reached"
            elif need.seeds is None or need.seeds > most:
                line += f"; {TOO_MANY.format(most=most)}"
            lines.append(f"{line}.")
    return lines


def unfinished(audit: Audit, waiting: Collection[str]) -> Audit:
    """An audit as it stands between two looks: it is no valid audit, and whoever reads its file is told so."""
    says = f"This audit is not finished: {listed(list(waiting))} get more seeds. The same command resumes it."
    return audit.model_copy(update={"valid": False, "finished": False, "says": says})


def looked_before(out: Path, thresholds: Thresholds) -> bool:
    """Whether an audit with looks that these thresholds do not allow for left its audit.json here before."""
    try:
        before = Audit.beside(out)
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
