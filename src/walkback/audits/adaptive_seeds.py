"""Seeds that are added until an audit is settled: who gets more, how many, and what each look found, in words."""

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from walkback.checks import Audit, Finding, Thresholds
from walkback.checks.depth import CONFIDENCE
from walkback.checks.finding import listed
from walkback.checks.sequential import margin_words, seeds_advice, seeds_needed, wanting, with_looks
from walkback.records import Moment
from walkback.records.looks import Looks, all_looks, read_looks, write_looks

TOO_MANY = (
    "that is more than --max-seeds {most}, so it will probably stay open; train longer (--epochs), test on more "
    "images, or raise --max-seeds"
)


def settle(
    judged: Callable[[Mapping[str, int]], tuple[Audit, Mapping[str, str]]], counts: Mapping[str, int],
    looks: Sequence[int], say: Callable[[str], object],
) -> Audit:  # fmt: skip
    """Add seeds until every answer is settled, or there are as many as the last look allows.

    judged  trains so many seeds of each key, and judges: the audit, and by key the names of the subjects that may get
            more seeds; bp gets as many as any of them
    counts  the numbers of seeds to begin with
    looks   the numbers of seeds at which an audit looks; none: one look, at `counts`
    """
    counts = dict(counts)
    while True:
        audit, names = judged(counts)
        if not looks:
            return audit
        waiting = undecided(audit, looks[-1])
        for line in look_words(audit, waiting, looks):
            say(line)
        more = {
            key: next(look for look in looks if look > counts[key])
            for key, name in names.items() if name in waiting and counts[key] < looks[-1]
        }  # fmt: skip
        if more and "bp" in counts:
            more["bp"] = max(counts["bp"], *more.values())
        if all(counts[key] == count for key, count in more.items()):
            return audit
        counts |= more


def planned(
    folder: Path, looks: Sequence[int], fixed: int, thresholds: Thresholds, inits: Mapping[str, Moment]
) -> Thresholds:
    """Note in a folder's looks.json at how many seeds it will be looked at; thresholds that allow for all of them."""
    before = read_looks(folder)
    every = all_looks(before.looks, looks, fixed)
    now = before.joined(Looks(looks=every, inits=dict(inits)))
    if now != before:
        write_looks(folder, now)
    return with_looks(thresholds, every) if every else thresholds


def undecided(audit: Audit, most: int) -> dict[str, list[Finding]]:
    """Which subjects are to get more seeds, with the findings that are open.

    Those of which an interval that more seeds would narrow leaves accuracy open; or the lower half, where `most` seeds
    may settle it. The control of noise gets none: it must only not hold. bp gets as many as any subject.
    """
    found = {}
    for judgement in audit.subjects:
        n, confidence = judgement.accuracy.n, audit.thresholds[CONFIDENCE]
        needs = [(finding, seeds_needed(finding, n, confidence)) for finding in wanting(judgement)]
        found[judgement.name] = [f for f, seeds in needs if f.check == "depth" or (seeds is not None and seeds <= most)]
    return {name: findings for name, findings in found.items() if findings}


def look_words(audit: Audit, waiting: Mapping[str, Sequence[Finding]], looks: Sequence[int]) -> list[str]:
    """What a look found, in lines: who is settled, and what each of the others would take."""
    most, confidence = looks[-1], audit.thresholds[CONFIDENCE]
    shown = {judgement.name: judgement for judgement in audit.subjects}
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
            need = seeds_needed(finding, n, confidence)
            line = f"{name}, {n} seeds: {margin_words(finding)}: {seeds_advice(need)}"
            if n >= most:
                line += f"; the limit of {most} seeds is reached"
            elif need is None or need > most:
                line += f"; {TOO_MANY.format(most=most)}"
            lines.append(f"{line}.")
    return lines
