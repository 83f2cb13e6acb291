"""Sequential: how an audit may add seeds until it is settled, and still be wrong no more often than it says.

A margin is looked at with 3, 5, 8 and 12 seeds, or at as many of them as a limit allows. With a 95 % interval at each
look, and a stop at the first that settles it, more than 5 % of audits would be wrong. So with K looks each takes a
wider interval, at the confidence

    c_K = 1 − (1 − 95 %) / K        (98.75 % for four looks, and for fewer)

By Bonferroni's inequality all K intervals contain the true margin in at least 95 % of audits. They are repeated
confidence intervals (Jennison and Turnbull, Controlled Clinical Trials 5, 1984, 33–45): because they hold together, it
does not matter when, or why, one stops. Four looks are paid for in any case, so that a limit of 3, 5 or 8 seeds can be
raised to 12 after the fact, and the intervals stay as they were. `walkback simulate` shows what that costs.

c_K is recorded as the threshold `depth.confidence`, with the looks that it is for, so that the records can be judged
again.
"""

import math
import re
from collections.abc import Sequence

from walkback.checks.base import check_named
from walkback.checks.depth import CONFIDENCE, TO_HOLD
from walkback.checks.finding import Finding, points
from walkback.checks.paired_gain import two_sided
from walkback.checks.thresholds import OURS, Threshold, Thresholds
from walkback.checks.verdict import Judgement
from walkback.errors import BadValue

LOOKS = (3, 5, 8, 12, 18, 27, 40)
USUAL_MOST = 12
PAID = 4  # looks, as many as up to the usual limit
FAR = 1000  # more seeds than anybody trains
LOOKED = "seeds are added at looks with {} seeds"


def looks_up_to(most: int) -> tuple[int, ...]:
    """The looks of an audit that may train up to `most` seeds: the usual ones below it, and `most` itself.

    >>> looks_up_to(12), looks_up_to(10), looks_up_to(3)
    ((3, 5, 8, 12), (3, 5, 8, 10), (3,))
    """
    if not LOOKS[0] <= most <= LOOKS[-1]:
        raise BadValue(
            f"an audit that adds seeds cannot have at most {most}",
            f"give --max-seeds {LOOKS[0]} … {LOOKS[-1]}, or a fixed number of seeds (--seeds {most})",
        )
    return (*(look for look in LOOKS if look < most), most)


def each_look(confidence: float, looks: int) -> float:
    """The confidence of one look's interval. `confidence` pays for four looks; more of them share what it leaves out.

    >>> each_look(0.9875, 4), each_look(0.9875, 1), each_look(0.9875, 5)
    (0.9875, 0.9875, 0.99)
    """
    return round(1 - PAID * (1 - confidence) / max(PAID, looks), 12)


def with_looks(thresholds: Thresholds, looks: Sequence[int]) -> Thresholds:
    """Thresholds whose intervals allow for these looks. Their version says so wherever it is shown."""
    overall = 1 - PAID * (1 - thresholds[CONFIDENCE])
    each = Threshold(
        value=each_look(thresholds[CONFIDENCE], len(looks)),
        who=OURS,
        calibrated=f"{LOOKED.format(', '.join(map(str, looks)))}: {overall:.4g} over all of them together, by "
        "Bonferroni; repeated confidence intervals (Jennison and Turnbull 1984)",
    )
    return Thresholds(
        version=f"{thresholds.version}, seeds auto up to {looks[-1]}", table=thresholds.table | {CONFIDENCE: each}
    )


def looks_of(thresholds: Thresholds) -> tuple[int, ...]:
    """The looks that these thresholds allow for; none if the number of seeds was fixed beforehand.

    >>> from walkback.checks import DEFAULT
    >>> looks_of(with_looks(DEFAULT, (3, 5, 8))), looks_of(DEFAULT)
    ((3, 5, 8), ())
    """
    found = re.match(LOOKED.format(r"(\d+(?:, \d+)*)"), thresholds.table[CONFIDENCE].calibrated)
    return tuple(map(int, found[1].split(", "))) if found else ()


def wanting(judgement: Judgement) -> list[Finding]:
    """The open findings that more seeds could settle, of the answers that seeds are added for.

    Accuracy; the lower half too, unless accuracy is walked back already. Γ is judged by the present seeds.
    """
    about = ("accuracy",) if judgement.verdict == "walked back" else ("accuracy", "lower half")
    return [f for f in judgement.findings if f.wants_seeds and check_named(f.check).answer in about]


def seeds_needed(finding: Finding, seeds: int, confidence: float) -> int | None:
    """About how many seeds would settle an open finding, at the spread of the present ones.

    The smallest n for which t(confidence, n − 1) · std/√n is less than |mean − required|, with std from the
    interval: std = half width · √seeds / t(confidence, seeds − 1). None: more than anybody trains.
    """
    value, low, high = (v or 0.0 for v in (finding.value, finding.low, finding.high))
    if seeds < 2:
        return TO_HOLD
    std = (high - low) / 2 * math.sqrt(seeds) / two_sided(confidence, seeds - 1)

    def settles(n: int) -> bool:
        return two_sided(confidence, n - 1) * std / math.sqrt(n) < abs(value - finding.threshold)

    found = next((n for n in range(seeds + 1, FAR + 1) if settles(n)), None)
    return max(found, TO_HOLD) if found is not None and value > finding.threshold else found


def seeds_advice(needed: int | None) -> str:
    """How many seeds would settle it, in words."""
    if needed is None:
        return f"at this spread more than {FAR} seeds would be needed"
    return f"at this spread about {needed} seeds would settle it"


def margin_words(finding: Finding) -> str:
    """An open margin and what is required."""
    value, low, high = (points(v or 0.0) for v in (finding.value, finding.low, finding.high))
    return f"{finding.check} is {value} points ({low} to {high}), {points(finding.threshold)} required"
