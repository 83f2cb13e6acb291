"""reach: does training the lower half of the blocks bring anything? The answer on the lower half.

A rule can gain all that it gains in the blocks next to the output, while those below might as well stay at random init.
The net is compared with the one whose upper half of blocks alone is trained. It never changes the answer on accuracy.
"""

from collections.abc import Mapping

from walkback.checks.base import Check, Gain, register
from walkback.checks.depth import CONFIDENCE, FEWEST, Compared, compared, stopped
from walkback.checks.finding import Finding, Outcome, Protocol, stable_range
from walkback.checks.paired_gain import gain_words, least_words, same_gains, typed_words
from walkback.checks.thresholds import OURS, Limit, Thresholds
from walkback.records.evidence import Evidence, half

NAME = "reach.margin"


def outcome_of(found: Compared, at: float) -> Outcome:
    """Passes: trained. Fires: not trained, or shown harm. Not asked where bp is shown to gain nothing by it."""
    own, bp, n = found.own, found.bp, 0 if found.gain is None else found.gain.n
    known = found.bp_seeds and n >= FEWEST and None not in (own.high, bp.low, bp.high)
    high, bp_low, bp_high = own.high or 0.0, bp.low or 0.0, bp.high or 0.0
    if known and (high < at < bp_low or high < 0 <= bp_high):
        return "fires"
    # With its own gain left out, harm could not be shown: then it must not be answered otherwise.
    if found.bp_seeds and own.high is not None and bp.high is not None and bp.high < at:
        return "not asked"
    # Without bp it is not known whether there is anything to ask: leaving it out must not answer.
    shown = own.low is not None and own.low > at and n >= FEWEST and found.bp_seeds and bp.high is not None
    measured = found.gain is not None and found.gain.image is not None
    return "passes" if shown and measured else "open"


def _nothing(evidence: Evidence) -> str:
    """Why there is no lower half to ask about; empty if there is one."""
    if evidence.blocks == 1:
        return "The net has one block, and so no lower half."
    if evidence.trained is not None and evidence.trained != evidence.blocks:
        return f"Only {evidence.trained} of {evidence.blocks or 'the'} blocks train, so their halves are not compared."
    return ""


def _find(evidence: Evidence, thresholds: Thresholds, protocol: Protocol) -> Finding:
    """Whether training the lower half gains what is required over training the upper half alone."""
    del protocol
    at, confidence = thresholds[NAME], thresholds[CONFIDENCE]
    found, nothing, unfinished = (
        compared(evidence, "half", "half_bp", confidence),
        _nothing(evidence),
        stopped(evidence),
    )

    def outcome(margin: float) -> Outcome:
        return "not asked" if nothing else "open" if unfinished else outcome_of(found, margin)

    cuts = [end for i in (found.own, found.bp) for end in (i.low, i.high)]
    stable, now = stable_range(outcome, cuts, at), outcome(at)
    return Finding(
        check="reach", outcome=now, value=found.own.value, low=found.own.low, high=found.own.high, threshold=at,
        basis="exact" if found.own.value is not None or nothing else "missing", stable_range=stable,
        ranges={NAME: stable}, says=nothing or _says(evidence, found, now, at, confidence),
        parts={name: i for name, i in (("half", found.own), ("bp over half", found.bp)) if i.value is not None},
        wants_seeds=now == "open" and not unfinished and any(
            i.low is not None and i.high is not None and i.low <= at <= i.high for i in (found.own, found.bp)
        ), warnings=same_gains(found.gain),
    )  # fmt: skip


def _says(evidence: Evidence, found: Compared, outcome: Outcome, at: float, confidence: float) -> str:
    """What training the lower half too gains, what bp's gains, and what is missing."""
    rung = f"--train-last {half(evidence.blocks) if evidence.blocks else '⌈L/2⌉'}"
    typed = typed_words(evidence, ("half", "half_bp"))
    least = least_words(at)
    if found.gain is None:
        return (
            "The accuracy of the same net with only the upper half of its blocks trained is not known. Train it with "
            f"{rung}, or give half= of your own model."
        )
    if found.own.value is None:
        return f"The accuracy of a seed, or of its net trained with {rung}, is missing."
    gain = f"Training the lower half too {gain_words(found.own, at, confidence)} over training the upper half alone."
    bp = "" if found.bp.value is None else f"bp's lower half {gain_words(found.bp, at, confidence)}."
    if found.gain.hidden:
        why = "Predictions were recorded, and some of them are not here: restore predictions.npy."
    elif outcome == "fires":
        why = f"{least}. {bp}" if (found.own.high or 0.0) >= 0 else f"That is harm. {bp}"
    elif outcome == "not asked":
        why = f"{bp} {least}, so the lower half cannot be asked about on this task."
    elif outcome == "passes":
        why = f"{least}. {bp}".strip()
    elif stopped(evidence):
        why = "Not every training finished, so this is open."
    elif found.task is None or not found.bp_seeds:
        why = f"{least}. Train bp in full and with {rung} on as many seeds as the subject, or give bp= and half_bp=."
    elif found.own.low is not None and found.own.low > at and found.gain.image is None:
        why = f"{least}, but no predictions were recorded, so the noise of the test split is not known."
    else:
        why = f"{least}: the interval contains it, so this is open. {bp}"
    return " ".join([gain, why.strip(), *typed])


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
    not_asked = "The published protocol does not ask what the lower half of the blocks gains."
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
        task=("bp", "half_bp"), task_words="the same in bp", shown=("half", "bp", "half_bp"),
    )  # fmt: skip
    judged = (
        "The accuracy gained over training the upper half alone, seed by seed; the bar is the {confidence} interval of "
        "the mean. The first row judges."
    )
    layers = "The accuracies behind it: the mean, and one dot per seed."
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

    def phrase(self, finding: Finding) -> str:
        """What training the lower half gains or costs."""
        if finding.outcome == "not asked" or finding.value is None:
            return "the lower half is not asked about" if finding.outcome == "not asked" else "the lower half is open"
        verb = "costs" if finding.value < 0 else "gains"
        return f"its lower half {verb} {100 * abs(finding.value):.1f} points over training the upper half alone"


reach = register(Reach())
