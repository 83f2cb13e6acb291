"""depth: does training the blocks help over leaving them at random init? Paired by seed, with a Student-t interval."""

import statistics
from collections.abc import Mapping, Sequence

from walkback.checks.base import Gain, register
from walkback.checks.by_seed import seeds_said
from walkback.checks.finding import Finding, Outcome, Protocol, known, points, stable_range
from walkback.checks.gain import GainCheck, Gains, caption
from walkback.checks.margin import DIGITS, accuracies, least_said, margin_over, typed_said
from walkback.checks.thresholds import OURS, PAPER, Limit, Thresholds
from walkback.records.evidence import BaselineName, Evidence

NAME, CONFIDENCE = "depth.margin", "depth.confidence"
BASELINES: Sequence[BaselineName] = ("frozen", "frozen_bp", "bp", "shallow")
BESIDE: Mapping[BaselineName, str] = {
    "frozen_bp": "the frozen net that bp trained",
    "shallow": "the shallow net",
}


def _published(evidence: Evidence, required: float) -> Finding:
    """The paper's way: the difference of two means, no interval, and no question whether the task is too easy."""
    frozen = evidence.baselines.get("frozen")
    mine = [seed.final.accuracy for seed in evidence.seeds]
    theirs: Sequence[float | None] = list(frozen.accuracy.values()) if frozen is not None else []
    sides = [[a for a in side if a is not None] for side in (mine, theirs)]
    gain = None
    if all(sides) and all(known(a) for side in sides for a in side):
        gain = round(statistics.fmean(sides[0]) - statistics.fmean(sides[1]), DIGITS)

    def outcome_at(at: float) -> Outcome:
        if gain is None:
            return "inconclusive"
        return "fires" if gain < at else "passes"

    says = "The accuracy, or that of a frozen net to compare with, is not known."
    if gain is not None:
        says = f"The means differ by {points(gain)} points. {least_said(required)}."
    stable = stable_range(outcome_at, [gain], required)
    return Finding(
        check="depth", outcome=outcome_at(required), basis="missing" if gain is None else "exact", value=gain,
        threshold=required, stable_range=stable, ranges={NAME: stable},
        says=" ".join([says, *typed_said(evidence, BASELINES)]),
    )  # fmt: skip


class Depth(GainCheck):
    """The accuracy gained over the same net with its blocks left at random init."""

    name = "depth"
    place = 3
    asks = "Does training the blocks help?"
    raised = "the gain over the frozen net is below 2 points with 95 % confidence, and bp's is above"
    quantity: Mapping[Protocol, str] = dict.fromkeys(
        ("ours", "published"), "accuracy over the rule's own frozen net, in points"
    )
    tests_claim = True
    undated = "the baselines are known at the end only"
    limits: Mapping[str, Limit] = {
        NAME: Limit(
            0.02, PAPER,
            "accuracy over the frozen net's .349: DFA with a penalty (.363) should fire, FA (.401) should not",
            same_answer=(0.014, 0.052), allowed=(0, 1), form="points",
        ),
        CONFIDENCE: Limit(
            0.95, OURS, "conventional; Student's t covers what it says with as few as two seeds", allowed=(0, 1),
            form="percent",
        ),
    }  # fmt: skip
    figure = Gain(
        over="frozen", over_words="over its own frozen net", absent="no frozen net is known",
        task=("bp", "frozen_bp"), task_words="bp over its own frozen net",
        beside={"frozen_bp": "over bp's frozen net", "shallow": "over the shallow net"},
        shown=BASELINES,
    )  # fmt: skip
    judged = caption("its blocks")
    means: Mapping[Outcome, str] = {
        "fires": "Training the blocks does not help, or does harm: left at random init they would serve as well.",
        "passes": "The trained blocks do something that the frozen ones do not.",
        "inconclusive": "It is not settled whether training the blocks helps.",
        "not applicable": "The task is too easy: bp itself gains too little over its frozen net. No subject is walked "
        "back for that.",
    }
    do: Mapping[Outcome, str] = {
        "fires": "Report the accuracy of the frozen net next to that of the trained one.",
        "not applicable": "Choose a harder task.",
    }

    needed = NAME, CONFIDENCE
    trained, against = "training its blocks", "random init"
    unasked = "the task is too easy to judge depth"
    unknown = "the accuracy of its frozen net"
    bp_missing = "Supply bp and its frozen net, or choose a harder task: bp must show the margin."

    def find(self, evidence: Evidence, thresholds: Thresholds, protocol: Protocol) -> Finding:
        """Passes if the margin over the rule's own frozen net is shown to be large enough; see docs/checks.md."""
        if protocol == "published":
            return _published(evidence, thresholds[NAME])
        return super().find(evidence, thresholds, protocol)

    def outcome(self, gains: Gains, at: float) -> Outcome:
        """Not asked where bp is shown not to gain as much; fires only where bp is shown to, and every seed finished."""
        own, task = gains.own, gains.task
        if task is not None and task.against(at) == "fires":
            return "not applicable"
        found = own.against(at) if own is not None else "inconclusive"
        if found == "fires" and (task is None or task.against(at) != "passes" or gains.stopped):
            return "inconclusive"
        return found

    def says(self, evidence: Evidence, gains: Gains, outcome: Outcome) -> str:
        """What training the blocks gains, and what is missing to settle it."""
        del evidence
        own, task, least = gains.own, gains.task, least_said(gains.required)
        if outcome == "not applicable" and task is not None:
            if own is not None and own.against(gains.required) == "passes":
                return (
                    f"Training the blocks {gains.said(own)}, and training bp's own blocks {gains.said(task)}. {least}. "
                    "So the task is not too easy, and bp is in doubt: was it trained as well as the subject?"
                )
            return f"The task is too easy to judge depth: training bp's own blocks {gains.said(task)}. {least}."
        if own is None:
            return "Depth cannot be judged: the accuracy of the subject, or of its frozen net, is not known."
        if own.lacking:
            return f"The accuracy of {seeds_said(own.lacking)}, or of its frozen net, is not known."
        if own.mean is None or own.low is None:
            return own.too_few()
        gain = f"Training the blocks {gains.said(own)}."
        if settled := gains.settled_said(own, gain, outcome, "bp"):
            return settled
        if gains.stopped:
            why = "not every training finished"
        elif task is None or task.mean is None:
            why = "what bp gains over its frozen net is not known. Supply both, or the task may be too easy"
        elif task.low is None:
            why = f"bp has too few seeds to show that it clears it (it {gains.said(task)})"
        else:
            why = f"bp is not shown to clear it either: it {gains.said(task)}"
        return f"{gain} {least}, but {why}."

    def beside(self, evidence: Evidence, gains: Gains) -> list[str]:
        """Where another baseline than the rule's own frozen net would give another answer."""
        own, required, accuracy, said = gains.own, gains.required, accuracies(evidence), []
        for name, words in BESIDE.items():
            other = margin_over(accuracy, evidence.baselines.get(name), gains.confidence)
            if own is None or other is None or other.low is None or other.against(required) == own.against(required):
                continue
            would = {"passes": "pass", "fires": "fall short"}.get(other.against(required), "not settle it")
            said.append(f"Compared with {words} it {gains.said(other)}, which would {would}.")
        return said

    def bars(self, finding: Finding) -> str | None:
        """On an easy task nothing else would stop a net at random init; and where the subject gains, it is not easy."""
        if finding.outcome != "not applicable":
            return None
        if finding.low is not None and finding.low > finding.threshold:
            return "bp does not gain by depth where the subject does, so bp as it is given tells nothing of the task"
        if finding.low is not None and finding.low > -finding.threshold:
            return None
        return "the task is too easy to judge depth, and it is not shown that the trained blocks do no harm"


depth = register(Depth())
