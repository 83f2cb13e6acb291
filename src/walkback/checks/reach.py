"""reach: does training the lower half of the blocks bring anything? All blocks against the upper half of them.

A rule can gain all that it gains in the blocks next to the output, while those below might as well stay at random init.
"""

from collections.abc import Mapping
from typing import TypeGuard

from walkback.checks.base import Gain, register
from walkback.checks.by_seed import seeds_said
from walkback.checks.depth import CONFIDENCE
from walkback.checks.finding import Outcome, Protocol
from walkback.checks.gain import GainCheck, Gains, caption
from walkback.checks.margin import Margin, least_said
from walkback.checks.thresholds import OURS, Limit
from walkback.records.evidence import Evidence, half

NAME = "reach.margin"


def _has_interval(m: Margin | None) -> TypeGuard[Margin]:
    return m is not None and m.low is not None


class Reach(GainCheck):
    """The accuracy gained by training the lower half of the blocks as well."""

    name = "reach"
    place = 3.5
    asks = "Does training the lower half of the blocks help?"
    raised = "it gains less than 0.5 points with 95 % confidence, and bp's lower half is shown to gain more"
    quantity: Mapping[Protocol, str] = {
        "ours": "accuracy over the same with the lower half of the blocks frozen, in points"
    }
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
        over="half", over_words="lower half trained over frozen", absent="no net with its lower half frozen is known",
        task=("bp", "half_bp"), task_words="the same in bp", shown=("half", "bp", "half_bp"),
    )  # fmt: skip
    judged = caption("the lower half of its blocks")
    means: Mapping[Outcome, str] = {
        "fires": "The rule gains only in the upper blocks; the lower ones could stay at random init.",
        "passes": "The lower half of the blocks learns something that the upper half does not make up for.",
        "inconclusive": "It is not settled whether training the lower half helps.",
        "not applicable": "There is no lower half to compare, or bp itself does not show that training it helps on "
        "this task.",
    }
    do: Mapping[Outcome, str] = {
        "fires": "Report the accuracy with only the upper half trained as well, and claim no deep credit assignment.",
        "not applicable": "Choose a task on which depth helps bp, or a deeper net.",
    }

    needed = NAME, CONFIDENCE
    trained, against = "training the lower half of its blocks", "leaving it at random init"
    unasked = "reach cannot be judged on this task and net"
    unknown = "the accuracy with its lower half frozen"
    bp_missing = "Supply bp with only the upper half of its blocks trained (`--train-last`)."

    def nothing(self, evidence: Evidence) -> str:
        """Why there is no lower half to ask about."""
        blocks, trained = evidence.blocks, evidence.trained
        if blocks == 1:
            return "The net has one block, and so no lower half."
        if trained is not None and trained != blocks:
            return f"Only {trained} of {blocks or 'the'} blocks train, so their halves are not compared."
        return ""

    def outcome(self, gains: Gains, at: float) -> Outcome:
        """Not asked where bp is not shown to gain as much; nothing is settled while a seed is not finished."""
        own, task = gains.own, gains.task
        if gains.nothing or (_has_interval(task) and task.against(at) != "passes"):
            return "not applicable"
        found = own.against(at) if own is not None else "inconclusive"
        if gains.stopped or (found == "fires" and not _has_interval(task)):
            return "inconclusive"
        return found

    def says(self, evidence: Evidence, gains: Gains, outcome: Outcome) -> str:
        """What training the lower half too gains, and what is missing to settle it."""
        own, task, least = gains.own, gains.task, least_said(gains.required)
        rung = f"--train-last {half(evidence.blocks) if evidence.blocks else '⌈L/2⌉'}"
        if outcome == "not applicable" and task is not None:
            return (
                "Even bp does not show that its lower half is needed here: training it too "
                f"{gains.said(task)}. {least}."
            )
        if own is None:
            return (
                "The accuracy of the subject, or of the same net with only the upper half of its blocks trained, is "
                f"not known. Train it with {rung}, or give half= of your own model."
            )
        if own.lacking:
            return (
                f"The accuracy of {seeds_said(own.lacking)}, or of the same net with only the upper half of its blocks "
                f"trained, is not known. Train what is missing with {rung}, or give half= of your own model."
            )
        if own.mean is None or own.low is None:
            return own.too_few()
        gain = f"Training the lower half of the blocks too {gains.said(own)}."
        if gains.stopped:
            return f"{gain} But {seeds_said(gains.stopped)} did not finish."
        if settled := gains.settled_said(own, gain, outcome, "bp's lower half"):
            return settled
        if task is None or task.mean is None:
            lacking = f" of {seeds_said(task.lacking)}" if task is not None and task.lacking else ""
            why = (
                f"what bp's own lower half gains is not known. Train bp{lacking} in full and with {rung}, or give bp= "
                "and half_bp= of your own"
            )
        else:
            why = f"bp has too few seeds to show that its lower half clears it (it {gains.said(task)})"
        return f"{gain} {least}, but {why}."


reach = register(Reach())
