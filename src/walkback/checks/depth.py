"""depth: does training the blocks help? The answer on accuracy.

The gain, paired by seed, over both baselines that a net can have: its own frozen net (blocks at init, the rest trained
by the rule) and the shallow net (no blocks, trained by plain gradient). It passes if over both the interval is above
the margin and so are nearly all seeds. It fires if over one of them the interval is below the margin and bp's is above.
"""

import math
import statistics
from collections.abc import Mapping, Sequence
from typing import NamedTuple

from walkback.checks.base import Check, Gain, register
from walkback.checks.finding import (
    Finding,
    Interval,
    Outcome,
    Protocol,
    known,
    listed,
    points,
    seeds_words,
    stable_range,
)
from walkback.checks.paired_gain import (
    DIGITS,
    PairedGain,
    PairedSide,
    baseline_side,
    digits,
    gain_words,
    least_words,
    paired,
    same_gains,
    subject_side,
    typed_words,
)
from walkback.checks.thresholds import OURS, PAPER, Limit, Thresholds
from walkback.records.evidence import BaselineName, Evidence

NAME, CONFIDENCE = "depth.margin", "depth.confidence"
FEWEST, TO_HOLD = 3, 5  # seeds: to walk back, and to hold
SHOWN: Sequence[BaselineName] = ("frozen", "frozen_bp", "bp", "shallow")
WORDS: Mapping[BaselineName, str] = {"frozen": "its own frozen net", "shallow": "the shallow net"}
TASK: Mapping[BaselineName, BaselineName] = {"frozen": "frozen_bp", "shallow": "shallow"}  # what bp is compared with
TRAIN: Mapping[BaselineName, str] = {
    "frozen": "train the subject with --train-last 0",
    "shallow": "`walkback audit` trains it",
    "bp": "train bp with all blocks",
    "frozen_bp": "train bp with --train-last 0",
}


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


class Compared(NamedTuple):
    """The subject and bp over one baseline. `own` and `wide` are intervals of one gain, at two confidences.

    wide   for firing: by Bonferroni over two baselines, also where only one is there
    """

    name: BaselineName
    gain: PairedGain | None
    task: PairedGain | None
    own: Interval
    wide: Interval
    bp: Interval
    bp_seeds: bool  # bp has as many seeds as the subject, at least three

    def fires(self, at: float) -> bool:
        """Shown to gain less where bp is shown to gain more; or shown to do harm, unless bp does too."""
        if self.gain is None or self.gain.n < FEWEST or self.wide.high is None or not self.bp_seeds:
            return False
        if self.bp.low is None or self.bp.high is None:
            return False
        return (self.wide.high < at < self.bp.low) or (self.wide.high < 0 <= self.bp.high)

    def needs_no_depth(self, at: float) -> bool:
        """bp is shown to gain less than the margin."""
        return self.bp_seeds and self.bp.high is not None and self.bp.high < at

    def passes(self, at: float, sign_test: bool = True) -> bool:
        """The interval and nearly every seed lie above the margin, and bp's interval does."""
        if self.gain is None or self.gain.alone or self.own.low is None or self.own.low <= at:
            return False
        wanted = required_seeds(self.gain.n) if sign_test else 0
        clear = wanted is not None and self.gain.above(at) >= wanted
        return clear and self.bp_seeds and self.bp.low is not None and self.bp.low > at

    def wants_seeds(self, at: float) -> bool:
        """Whether more seeds could settle this baseline: an interval of the subject or of bp contains the margin."""
        if self.gain is None or self.gain.alone or self.own.low is None or self.wide.high is None:
            return False
        if self.own.low <= at <= self.wide.high:
            return True
        return self.bp.low is not None and self.bp.high is not None and self.bp.low <= at <= self.bp.high


def bonferroni(confidence: float, tests: int = 2) -> float:
    """The confidence of one interval such that several of them together have at least that."""
    return round(1 - (1 - confidence) / tests, 12)


def compared(evidence: Evidence, name: BaselineName, over: BaselineName, confidence: float) -> Compared:
    """The subject over the baseline `name`, and bp over the baseline `over`."""
    subject, bp = subject_side(evidence), baseline_side(evidence.baselines.get("bp"))
    gain = paired(subject, baseline_side(evidence.baselines.get(name)))
    task = paired(bp, baseline_side(evidence.baselines.get(over)))
    none = Interval()
    enough = task is not None and not (task.alone or task.lacking) and task.n >= max(FEWEST, len(evidence.seeds))
    return Compared(
        name, gain, task, none if gain is None else gain.interval(confidence),
        none if gain is None else gain.interval(bonferroni(confidence)),
        none if task is None else task.interval(confidence), enough,
    )  # fmt: skip


def over_bp(evidence: Evidence, confidence: float) -> Interval:
    """What the subject gains over bp itself: a bp that is shown to lie below it is no reference."""
    gain = paired(subject_side(evidence), baseline_side(evidence.baselines.get("bp")))
    return Interval() if gain is None else gain.interval(confidence)


def stopped(evidence: Evidence) -> list[str]:
    """The seeds whose training did not come to its end."""
    return [label for label, seed in evidence.labelled() if seed.ended == "stopped"]


def outcome_of(both: Sequence[Compared], at: float, unfinished: bool) -> Outcome:
    """The answer if so much were required. Firing comes first: a baseline that is left out must not make it fire."""
    if unfinished:
        return "open"
    if any(each.fires(at) for each in both):
        return "fires"
    if any(each.needs_no_depth(at) for each in both):
        return "open"
    return "passes" if all(each.passes(at) for each in both) else "open"


def _find(evidence: Evidence, thresholds: Thresholds) -> Finding:
    at, confidence = thresholds[NAME], thresholds[CONFIDENCE]
    both = [compared(evidence, name, over, confidence) for name, over in TASK.items()]
    unfinished = stopped(evidence)
    found = outcome_of(both, at, bool(unfinished))
    cuts = [end for each in both for i in (each.own, each.wide, each.bp) for end in (i.low, i.high)]
    cuts += [gain for each in both if each.gain is not None for gain in each.gain.gains.values()]
    stable = stable_range(lambda margin: outcome_of(both, margin, bool(unfinished)), cuts, at)
    shown = [each for each in both if each.own.value is not None]
    decisive = min(shown, key=lambda each: each.own.value or 0.0, default=None)
    parts: dict[str, Interval] = {each.name: each.own for each in shown}
    parts |= {f"bp over {each.name}": each.bp for each in both if each.bp.value is not None}
    beside = paired(subject_side(evidence), baseline_side(evidence.baselines.get("frozen_bp")))
    parts |= {"frozen_bp": beside.interval(confidence)} if beside is not None and beside.mean is not None else {}
    over = over_bp(evidence, confidence)
    parts |= {"bp": over} if over.value is not None else {}
    lower = decisive.own if decisive is not None else Interval()
    few = all(each.own.low is not None and each.own.low > at for each in both)  # too few, or too few that gain enough
    needless = bool(unfinished) or any(each.needs_no_depth(at) for each in both)
    wants = found == "open" and not needless and (few or any(each.wants_seeds(at) for each in both))
    return Finding(
        check="depth", outcome=found, value=lower.value, low=lower.low, high=lower.high, threshold=at,
        basis="exact" if len(shown) == len(both) else "bound" if shown else "missing", stable_range=stable,
        ranges={NAME: stable}, parts=parts, wants_seeds=wants,
        says=" ".join([*_says(evidence, both, found, at, confidence), *typed_words(evidence, SHOWN)]),
        warnings=[warning for each in both for warning in same_gains(each.gain)],
    )  # fmt: skip


def _says(evidence: Evidence, both: Sequence[Compared], found: Outcome, at: float, confidence: float) -> list[str]:
    """What the typical seed gains over each baseline, what bp gains, and what is missing."""
    words = [
        f"Training the blocks {gain_words(each.own, at, confidence)} over {WORDS[each.name]}."
        for each in both if each.own.value is not None
    ]  # fmt: skip
    words.append(_why(evidence, both, found, at, confidence))
    if line := _failing(both):
        words.append(line)
    if any(each.gain is not None and each.gain.image is None and each.gain.n > 1 for each in both):
        words.append("Test noise is not included: no predictions were recorded.")
    return words


def _why(evidence: Evidence, both: Sequence[Compared], found: Outcome, at: float, confidence: float) -> str:
    least = least_words(at)
    if found == "passes":
        ks = [f"{each.gain.above(at)} of {each.gain.n}" for each in both if each.gain is not None]
        return f"{least}: the typical seed gains more ({listed(sorted(set(ks)))} seeds), and so does bp."
    if found == "fires":
        fired = next(each for each in both if each.fires(at))
        high = f"{digits(fired.wide.high or 0.0, at)} at most"
        if fired.bp.low is not None and fired.bp.low > at:
            return f"{least}; over {WORDS[fired.name]} it is {high}, where bp {gain_words(fired.bp, at, confidence)}."
        return f"Over {WORDS[fired.name]} training the blocks does harm ({high})."
    if unfinished := stopped(evidence):
        return f"{seeds_words(unfinished).capitalize()} did not finish, so this is open."
    if idle := next((each for each in both if each.needs_no_depth(at)), None):
        task = f"bp itself {gain_words(idle.bp, at, confidence)} over {_bp_words(idle.name)}"
        if idle.bp.high is not None and idle.bp.high < 0:
            return f"{task}: bp is worse than no depth. Little data, a weak bp or a bad learning rate."
        return f"{task}: the task does not need this depth. Choose a harder task."
    lacking = _lacking(evidence, both)
    if lacking:
        return f"{least}. {lacking}"
    return f"{least}. {_open(both, at, confidence)}"


def _bp_words(name: BaselineName) -> str:
    return "its own frozen net" if name == "frozen" else WORDS[name]


def _lacking(evidence: Evidence, both: Sequence[Compared]) -> str:
    """What is missing, named with how to get it; empty if nothing is."""
    if not any(known(seed.final.accuracy) for seed in evidence.seeds):
        return "The accuracy of the subject is not known."
    names: list[BaselineName] = ["frozen", "shallow", "bp", "frozen_bp"]
    absent = [name for name in names if name not in evidence.baselines]
    if absent:
        ways = "; ".join(dict.fromkeys(TRAIN[name] for name in absent))
        return f"Not here: {listed([name.replace('_', ' of ') for name in absent])} ({ways})."
    for each in both:
        for gain, who in ((each.gain, "the subject"), (each.task, "bp")):
            if gain is not None and gain.lacking:
                return (
                    f"The accuracy of {seeds_words(list(gain.lacking))} of {who} or of the {each.name} net is missing."
                )
            if gain is not None and gain.hidden:
                return "Predictions were recorded, and some of them are not here: restore predictions.npy."
    return ""


def _open(both: Sequence[Compared], at: float, confidence: float) -> str:
    n = min((each.gain.n for each in both if each.gain is not None), default=0)
    if n < FEWEST:
        return f"{n} seed{'s' if n != 1 else ''} cannot settle it: three can walk it back, five can show that it holds."
    if few := next((each for each in both if not each.bp_seeds), None):
        bp = 0 if few.task is None else few.task.n
        return f"bp has {bp} seed{'s' if bp != 1 else ''}; it needs as many as the subject, at least {FEWEST}."
    if any(each.gain is not None and each.gain.alone for each in both):
        return "One typed-in number is no baseline by seed: nothing can be shown to hold by it."
    unsure = next((each for each in both if each.bp.low is not None and each.bp.low <= at), None)
    if unsure is not None:
        return f"bp is not shown to clear it: it {gain_words(unsure.bp, at, confidence)} over {_bp_words(unsure.name)}."
    if all(each.own.low is not None and each.own.low > at for each in both):
        wanted = required_seeds(n)
        if wanted is None:
            return f"{n} seeds can walk it back; five are needed to show that it holds."
        worst = min(each.gain.above(at) for each in both if each.gain is not None)
        return f"Only {worst} of {n} seeds gain more; {wanted} must, to speak of the typical seed."
    return "The interval contains it, so this is open."


def _failing(both: Sequence[Compared]) -> str:
    """The seeds that gain nothing, and how many such seeds there may be."""
    gains = [each.gain for each in both if each.gain is not None and each.gain.n >= FEWEST and not each.gain.lacking]
    if not gains:
        return ""
    worst = max(gains, key=lambda gain: gain.failed())
    return (
        f"Seeds that gain nothing: {worst.failed()} of {worst.n}; their share is at most "
        f"{100 * most_failing(worst.failed(), worst.n):.0f} % (95 %)."
    )


def _published(evidence: Evidence, required: float) -> Finding:
    """The paper's way: the difference of two means, no interval, and no question whether the task is too easy."""
    frozen = evidence.baselines.get("frozen")
    own = [seed.final.accuracy for seed in evidence.seeds]
    others: Sequence[float | None] = list(frozen.accuracy.values()) if frozen is not None else []
    sides = [[a for a in side if a is not None] for side in (own, others)]
    gain = None
    if all(sides) and all(known(a) for side in sides for a in side):
        gain = round(statistics.fmean(sides[0]) - statistics.fmean(sides[1]), DIGITS)

    def outcome_at(at: float) -> Outcome:
        if gain is None:
            return "inconclusive"
        return "fires" if gain < at else "passes"

    says = "The accuracy, or that of a frozen net to compare with, is not known."
    if gain is not None:
        says = f"The means differ by {points(gain)} points. {least_words(required)}."
    stable = stable_range(outcome_at, [gain], required)
    return Finding(
        check="depth", outcome=outcome_at(required), basis="missing" if gain is None else "exact", value=gain,
        threshold=required, stable_range=stable, ranges={NAME: stable},
        says=" ".join([says, *typed_words(evidence, SHOWN)]),
    )  # fmt: skip


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
        shown=SHOWN,
    )  # fmt: skip
    judged = (
        "The accuracy gained over the frozen net and over the shallow net, seed by seed; the bar is the {confidence} "
        "interval of the mean. Both judge."
    )
    layers = "The accuracies behind it: the mean, and one dot per seed."
    means: Mapping[Outcome, str] = {
        "fires": "Training the blocks does not help, or does harm: without them the net would do as well.",
        "passes": "On the typical seed the trained blocks do something that neither frozen blocks nor no blocks do.",
        "open": "It is not settled whether training the blocks helps.",
        "inconclusive": "It is not settled whether training the blocks helps.",
    }
    do: Mapping[Outcome, str] = {
        "fires": "Report the accuracy of the frozen and of the shallow net next to that of the trained one.",
        "open": "Train what is missing, or more seeds.",
    }

    def find(self, evidence: Evidence, thresholds: Thresholds, protocol: Protocol) -> Finding:
        """Passes if the gain is shown over both baselines, fires if it is shown to be missing over one."""
        return _published(evidence, thresholds[NAME]) if protocol == "published" else _find(evidence, thresholds)

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

__all__ = ["CONFIDENCE", "FEWEST", "NAME", "Compared", "Depth", "PairedSide", "compared", "depth", "stopped"]
