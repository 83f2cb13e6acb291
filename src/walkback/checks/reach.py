"""reach: does training the lower half of the blocks bring anything? The answer on the lower half.

A rule can gain all that it gains in the blocks next to the output, while the lower ones might as well stay at their
random init. The net is compared with the one whose upper half of blocks alone is trained. It never changes the answer
on accuracy.
"""

from collections.abc import Mapping

from walkback.checks.base import Check, Gain, register
from walkback.checks.depth import CONFIDENCE
from walkback.checks.finding import Finding, Limits, Outcome, Protocol, gain_words, least_words, typed_words
from walkback.checks.paired_gain import FEWEST, Compared, compare, gain_finding, stopped
from walkback.checks.thresholds import OURS, Limit, Thresholds
from walkback.records.evidence import Evidence, half

NAME = "reach.margin"
SAYS = {
    "missing": "The accuracy of the same net with only the upper half of its blocks trained is not known. Train it "
    "with {rung}, or give half= of your own model.",
    "no accuracy": "The accuracy of a seed, or of its net trained with {rung}, is missing.",
    "hidden": "{gain} Predictions were recorded, and some of them are not here: restore predictions.npy.",
    "fires": "{gain} {least}. {bp}",
    "harm": "{gain} That is harm. {bp}",
    "not asked": "{gain} {bp} {least}, so the lower half cannot be asked about on this task.",
    "passes": "{gain} {least}. {bp}",
    "unfinished": "{gain} Not every training finished, so this is open.",
    "few of bp": "{gain} {least}. Train bp in full and with {rung} on as many seeds as the subject, or give bp= and "
    "half_bp=.",
    "no predictions": "{gain} {least}, but no predictions were recorded, so the noise of the test split is not known.",
    "too few": "{gain} {least}. Fewer than three seeds cannot settle it.",
    "bp is not clear": "{gain} {least}. It is less, but bp's lower half is not shown to gain as much, so this is open. "
    "{bp}",
    "open": "{gain} {least}: the interval contains it, so this is open. {bp}",
}


def outcome_of(found: Compared, at: float) -> Outcome:
    """Passes: trained. Fires: not trained, or shown harm. Not asked where bp is shown to gain nothing by it."""
    if found.fires(at):
        return "fires"
    # With its own gain left out, harm could not be shown: then it must not be answered otherwise.
    if found.own.high is not None and found.needs_no_depth(at):
        return "not asked"
    # Without bp it is not known whether there is anything to ask: leaving it out must not answer.
    asked = found.gain.n >= FEWEST and found.bp_seeds and found.bp.high is not None
    return "passes" if asked and found.own.above(at) and found.gain.image is not None else "open"


def _nothing(evidence: Evidence) -> str:
    """Why the net has no lower half to ask about; empty if it has one."""
    if evidence.blocks == 1:
        return "The net has one block, and so no lower half."
    if evidence.trained is not None and evidence.trained != evidence.blocks:
        return f"Only {evidence.trained} of {evidence.blocks or 'the'} blocks train, so their halves are not compared."
    return ""


def _find(evidence: Evidence, thresholds: Thresholds) -> Finding:
    """Whether training the lower half gains what is required over training the upper half alone."""
    at, confidence = thresholds[NAME], thresholds[CONFIDENCE]
    (found,) = compare(evidence, {"half": "half_bp"}, confidence)
    nothing, unfinished = _nothing(evidence), bool(stopped(evidence))

    def outcome(at: Limits) -> Outcome:
        return "not asked" if nothing else "open" if unfinished else outcome_of(found, at[NAME])

    now = outcome(thresholds)
    return gain_finding(
        "reach", NAME, thresholds, [found], outcome, basis="exact" if nothing else None,
        wants_seeds=now == "open" and not unfinished and found.wants_seeds(at),
        says=nothing or _says(evidence, found, now, at, confidence),
    )  # fmt: skip


def _says(evidence: Evidence, found: Compared, outcome: Outcome, at: float, confidence: float) -> str:
    """What training the lower half too gains, what bp's gains, and what is missing."""
    gain, bp = ("" if i.value is None else gain_words(i, at, confidence) for i in (found.own, found.bp))
    words = SAYS[_case(evidence, found, outcome, at)].format(
        gain=f"Training the lower half too {gain} over training the upper half alone.", least=least_words(at),
        rung=f"--train-last {half(evidence.blocks) if evidence.blocks else '⌈L/2⌉'}",
        bp=f"bp's lower half {bp}." if bp else "",
    ).strip()  # fmt: skip
    return " ".join([words, *(typed_words(evidence, ("half", "half_bp")) if gain else [])])


def _case(evidence: Evidence, found: Compared, outcome: Outcome, at: float) -> str:
    """What decided, or keeps it open."""
    if found.own.value is None:
        return "no accuracy" if found.gain.lacking else "missing"
    if found.gain.hidden:
        return "hidden"
    if outcome != "open":
        return "harm" if outcome == "fires" and found.own.below(0) else outcome
    if stopped(evidence):
        return "unfinished"
    if found.gain.n < FEWEST:
        return "too few"
    if not found.bp_seeds:
        return "few of bp"
    if found.own.above(at) and found.gain.image is None:
        return "no predictions"
    return "bp is not clear" if found.own.below(at) else "open"


class Reach(Check):
    """The accuracy gained by training the lower half of the blocks as well."""

    name = "reach"
    place = 2
    answer = "lower half"
    asks = "Does training the lower half of the blocks help, over training the upper half alone?"
    raised = "it is shown to gain less than 0.5 points, and bp's lower half more"
    heading = "points"
    form = "points"
    spread = "mean"
    quantity: Mapping[Protocol, str] = {"ours": "accuracy over training the upper half alone, in points"}
    undated = "the nets it is compared with are known at the end only"
    limits: Mapping[str, Limit] = {
        NAME: Limit(
            0.005, OURS,
            "bp's recorded ladders on CIFAR-10 alone: its lower half gains +2.0 points (+1.3 to +2.6; d = 256, L = 4, "
            "three seeds) and +5.2 (d = 512, L = 2, one seed); 0.5 points is one standard error of an accuracy near .6 "
            "on 10,000 test images, so less cannot be distinguished from the noise of the test split",
            same_answer=(0, 0.0133), allowed=(0, 1), form="points",
        ),
    }  # fmt: skip
    figure = Gain(
        over="half", over_words="over training the upper half alone",
        absent="no net with its lower half frozen is known",
        task=("bp", "half_bp"), task_words="the same in bp",
    )  # fmt: skip
    caption = (
        "The accuracy gained over training the upper half alone, seed by seed; the bar is the {confidence} interval of "
        "the mean. The first row judges."
    )
    means: Mapping[Outcome, str] = {
        "fires": "The rule gains only in the upper blocks; the lower ones could stay at random init.",
        "passes": "The lower half of the blocks learns something that the upper half does not make up for.",
        "open": "It is not settled whether training the lower half helps.",
        "not asked": "There is no lower half to compare, or bp itself gains nothing by it on this task.",
    }
    do: Mapping[Outcome, str] = {
        "fires": "Report the accuracy with only the upper half trained as well, and claim no deep credit assignment.",
        "open": "Train what is missing, or more seeds.",
        "not asked": "Choose a task on which depth helps bp, or a deeper net.",
    }

    find = staticmethod(_find)


reach = register(Reach())
