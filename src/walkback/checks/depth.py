"""depth: does training the blocks help? The answer on accuracy.

The gain, paired by seed, over both baselines that a net can have: its own frozen net (blocks at init, the rest trained
by the rule) and the shallow net (no blocks, trained by plain gradient). It passes if over both the interval is above
the margin and so are nearly all seeds. It fires if over one of them the interval is below the margin and bp's is above.
"""

import math
import operator
from collections.abc import Mapping, Sequence
from functools import cache

from walkback.checks.base import Check, Gain, register
from walkback.checks.finding import (
    Finding,
    Limits,
    Outcome,
    Protocol,
    digits,
    gain_words,
    known,
    least_words,
    listed,
    seeds_words,
    typed_words,
)
from walkback.checks.paired_gain import FEWEST, Compared, compare, gain_finding, gain_over, stopped
from walkback.checks.published_protocol import published_depth
from walkback.checks.thresholds import OURS, PAPER, Limit, Thresholds
from walkback.records.evidence import BaselineName, Evidence

NAME, CONFIDENCE = "depth.margin", "depth.confidence"
TO_HOLD = 5  # seeds
SHOWN: Sequence[BaselineName] = ("frozen", "frozen_bp", "bp", "shallow")
WORDS: Mapping[BaselineName, str] = {"frozen": "its own frozen net", "shallow": "the shallow net"}
TASK: Mapping[BaselineName, BaselineName] = {"frozen": "frozen_bp", "shallow": "shallow"}  # what bp is compared with
TRAIN: Mapping[BaselineName, str] = {
    "frozen": "train the subject with --train-last 0",
    "shallow": "`walkback audit` trains it",
    "bp": "train bp with all blocks",
    "frozen_bp": "train bp with --train-last 0",
}
# The words after the gains, by what decided. {over}: the baseline, {high}: the most that is gained over it, {bp}:
# what bp gains over it or its counterpart.
SAYS = {
    "passes": "{least}: the typical seed gains more ({counts} seeds), and so does bp.",
    "fires": "{least}; over {over} it is {high} at most, where bp {bp}.",
    "harm": "Over {over} training the blocks does harm ({high} at most).",
    "unfinished": "{seeds} did not finish, so this is open.",
    "bp is harmed": "bp itself {bp} over {over}: bp is worse than no depth. Little data, a weak bp or a bad learning "
    "rate.",
    "needless": "bp itself {bp} over {over}: the task does not need this depth. Choose a harder task.",
    "no accuracy": "{least}. The accuracy of the subject is not known.",
    "missing": "{least}. Not here: {names} ({ways}).",
    "lacking": "{least}. The accuracy of {seeds} of {who} or of the {name} net is missing.",
    "hidden": "{least}. Predictions were recorded, and some of them are not here: restore predictions.npy.",
    "too few": "{least}. {n} cannot settle it: three can walk it back, five can show that it holds.",
    "few of bp": "{least}. bp has {n}; it needs as many as the subject, at least {fewest}.",
    "alone": "{least}. One typed-in number is no baseline by seed: nothing can be shown to hold by it.",
    "bp is not clear": "{least}. bp is not shown to clear it: it {bp} over {over}.",
    "too few to hold": "{least}. {n} can walk it back; five are needed to show that it holds.",
    "not typical": "{least}. Only {worst} of {n} gain more; {wanted} must, to speak of the typical seed.",
    "open": "{least}. The interval contains it, so this is open.",
}


@cache
def required_seeds(n: int) -> int | None:
    """On how many of n seeds the gain must be above the margin: a sign test. None: so few can never show it.

    5 of 5, 8 of 8 and 11 of 12: where the typical seed lies at the margin, all looks together pass 3.3 % of audits,
    whatever the law of the gains.

    >>> [required_seeds(n) for n in (3, 5, 6, 8, 10, 12, 18)]
    [None, 5, 6, 8, 10, 11, 15]
    """
    if n < TO_HOLD:
        return None
    tail, wanted = 0.0, n
    for k in range(n, 0, -1):
        tail += math.comb(n, k) / 2**n
        if tail > 0.004:
            break
        wanted = k
    return wanted


def most_failing(failed: int, n: int) -> float:
    """The 95 % upper bound (Clopper and Pearson) of the share of seeds that fail.

    >>> round(most_failing(0, 5), 2), round(most_failing(0, 12), 2), most_failing(5, 5)
    (0.45, 0.22, 1.0)
    """
    from scipy.special import betaincinv

    return 1.0 if failed >= n else float(betaincinv(failed + 1, n - failed, 0.95))


def passes(each: Compared, at: float) -> bool:
    """The interval and nearly every seed lie above the margin, and bp's interval does."""
    wanted = required_seeds(each.gain.n)
    typical = wanted is not None and each.gain.above(at) >= wanted
    return typical and not each.gain.alone and each.own.above(at) and each.bp_seeds and each.bp.above(at)


def outcome_of(both: Sequence[Compared], at: float, unfinished: bool) -> Outcome:
    """The answer if so much were required. Firing comes first: a baseline that is left out must not make it fire."""
    if unfinished:
        return "open"
    if any(each.fires(at) for each in both):
        return "fires"
    if any(each.needs_no_depth(at) for each in both):
        return "open"
    return "passes" if all(passes(each, at) for each in both) else "open"


def _find(evidence: Evidence, thresholds: Thresholds) -> Finding:
    """Passes if the gain is shown over both baselines, fires if it is shown to be missing over one."""
    at, confidence, unfinished = thresholds[NAME], thresholds[CONFIDENCE], bool(stopped(evidence))
    both = compare(evidence, TASK, confidence)

    def outcome(at: Limits) -> Outcome:
        return outcome_of(both, at[NAME], unfinished)

    found = outcome(thresholds)
    settled = unfinished or found != "open" or any(each.needs_no_depth(at) for each in both)
    few = all(each.own.above(at) for each in both)  # too few, or too few that gain enough
    return gain_finding(
        "depth", NAME, thresholds, both, outcome,
        # A bp that is shown to lie below the subject is no reference.
        parts={name: gain_over(evidence, name).interval(confidence) for name in ("frozen_bp", "bp")},
        wants_seeds=not settled and (few or any(each.wants_seeds(at) for each in both)),
        says=" ".join([*_says(evidence, both, found, at, confidence), *typed_words(evidence, SHOWN)]),
    )  # fmt: skip


def _says(evidence: Evidence, both: Sequence[Compared], found: Outcome, at: float, confidence: float) -> list[str]:
    """What the typical seed gains over each baseline, what bp gains, and what is missing."""
    words = [
        f"Training the blocks {gain_words(each.own, at, confidence)} over {WORDS[each.name]}."
        for each in both if each.own.value is not None
    ]  # fmt: skip
    case, each, values = _case(evidence, both, found, at)
    if each is not None:
        bp, high = gain_words(each.bp, at, confidence), digits(each.wide.high or 0.0, at)
        values = {"over": WORDS[each.name], "high": high, "bp": bp}
    words.append(SAYS[case].format(least=least_words(at), **values))
    gains = [each.gain for each in both if each.gain.n >= FEWEST and not each.gain.lacking]
    if gains:
        n, failed = max(((gain.n, gain.n - gain.above(0)) for gain in gains), key=operator.itemgetter(1))
        share = 100 * most_failing(failed, n)
        words.append(f"Seeds that gain nothing: {failed} of {n}; their share is at most {share:.0f} % (95 %).")
    if any(each.gain.image is None and each.gain.n > 1 for each in both):
        words.append("Test noise is not included: no predictions were recorded.")
    return words


def _case(
    evidence: Evidence, both: Sequence[Compared], found: Outcome, at: float
) -> tuple[str, Compared | None, dict[str, object]]:
    """What decided, or keeps it open: the key of `SAYS`, the baseline by which, and what else is to be stated."""
    if found == "passes":
        counts = sorted({f"{each.gain.above(at)} of {each.gain.n}" for each in both})
        return "passes", None, {"counts": listed(counts)}
    if found == "fires":
        fired = next(each for each in both if each.fires(at))
        return "fires" if fired.bp.above(at) else "harm", fired, {}
    if unfinished := stopped(evidence):
        return "unfinished", None, {"seeds": seeds_words(unfinished).capitalize()}
    if idle := next((each for each in both if each.needs_no_depth(at)), None):
        return "bp is harmed" if idle.bp.below(0) else "needless", idle, {}
    if not any(known(seed.final.accuracy) for seed in evidence.seeds):
        return "no accuracy", None, {}
    names: tuple[BaselineName, ...] = ("frozen", "shallow", "bp", "frozen_bp")
    if absent := [name for name in names if name not in evidence.baselines]:
        ways = "; ".join(dict.fromkeys(TRAIN[name] for name in absent))
        return "missing", None, {"names": listed([name.replace("_", " of ") for name in absent]), "ways": ways}
    for each in both:
        for gain, who in ((each.gain, "the subject"), (each.task, "bp")):
            if gain.lacking:
                return "lacking", None, {"seeds": seeds_words(gain.lacking), "who": who, "name": each.name}
            if gain.hidden:
                return "hidden", None, {}
    n = min(each.gain.n for each in both)
    if n < FEWEST:
        return "too few", None, {"n": _counted(n)}
    if few := next((each for each in both if not each.bp_seeds), None):
        return "few of bp", None, {"n": _counted(few.task.n), "fewest": FEWEST}
    if any(each.gain.alone for each in both):
        return "alone", None, {}
    if unsure := next((each for each in both if not each.bp.above(at)), None):
        return "bp is not clear", unsure, {}
    if all(each.own.above(at) for each in both):
        worst, wanted = min(each.gain.above(at) for each in both), required_seeds(n)
        case = "too few to hold" if wanted is None else "not typical"
        return case, None, {"n": _counted(n), "worst": worst, "wanted": wanted}
    return "open", None, {}


def _counted(seeds: int) -> str:
    return f"{seeds} seed{'s' if seeds != 1 else ''}"


class Depth(Check):
    """The accuracy gained over the frozen and the shallow net."""

    name = "depth"
    place = 1
    answer = "accuracy"
    asks = "Does training the blocks help?"
    raised = "the gain over the frozen or the shallow net is shown to be below 2 points, and bp's above"
    heading = "points"
    form = "points"
    spread = "mean"
    quantity: Mapping[Protocol, str] = {
        "ours": "accuracy over the frozen and over the shallow net, in points",
        "published": "accuracy over the rule's own frozen net, in points",
    }
    undated = "the baselines are known at the end only"
    limits: Mapping[str, Limit] = {
        NAME: Limit(
            0.02, PAPER,
            "accuracy over the frozen net's .349: DFA with a penalty (.363) should fire, FA (.401) should not",
            same_answer=(0.014, 0.052), allowed=(0, 1), form="points",
        ),
        CONFIDENCE: Limit(
            0.9875, OURS, "95 % over looks with 3, 5, 8 and 12 seeds together, by Bonferroni; also where the number of "
            "seeds is fixed", allowed=(0, 1), form="percent",
        ),
    }  # fmt: skip
    figure = Gain(
        over="frozen", over_words="over its own frozen net", absent="no frozen net is known",
        task=("bp", "frozen_bp"), task_words="bp over its own frozen net",
        beside={"shallow": "over the shallow net", "frozen_bp": "over bp's frozen net (not decisive)"},
    )  # fmt: skip
    caption = (
        "The accuracy gained over the frozen net and over the shallow net, seed by seed; the bar is the {confidence} "
        "interval of the mean. Both judge."
    )
    means: Mapping[Outcome, str] = {
        "fires": "Training the blocks does not help, or does harm: without them the net would do as well.",
        "passes": "On the typical seed the trained blocks do something that neither frozen blocks nor no blocks do.",
        "open": "It is not settled whether training the blocks helps.",
    }
    do: Mapping[Outcome, str] = {
        "fires": "Report the accuracy of the frozen and of the shallow net next to that of the trained one.",
        "open": "Train what is missing, or more seeds.",
    }

    find = staticmethod(_find)
    find_published = staticmethod(published_depth)

    def phrase(self, finding: Finding) -> str:
        """What training the blocks gains over each baseline."""
        gains = [(WORDS[name], finding.parts[name].value or 0.0) for name in WORDS if name in finding.parts]
        if not finding.parts and finding.value is not None:  # by the published protocol
            gains = [(WORDS["frozen"], finding.value)]
        if not gains:
            return "what training its blocks gains is not known"
        clauses = [f"{'costs' if v < 0 else 'gains'} {100 * abs(v):.1f} points over {name}" for name, v in gains]
        return f"training its blocks {' and '.join(clauses)}"


depth = register(Depth())
