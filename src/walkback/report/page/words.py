"""What the page says of each check and basis in general: what is asked, what an outcome means, what to do about it."""

from collections.abc import Mapping
from typing import NamedTuple

from walkback.checks import Basis, Outcome, VerdictName
from walkback.records import BaselineName

VERDICTS: Mapping[VerdictName, str] = {"holds": "✓", "walked back": "✗", "inconclusive": "?", "not applicable": "–"}


class Words(NamedTuple):
    """The page's sentences about one check."""

    asks: str
    judged: str  # what the strip shows
    layers: str  # what the figure below the strip shows
    means: Mapping[Outcome, str]
    do: Mapping[Outcome, str]


CHECKS: Mapping[str, Words] = {
    "scale": Words(
        asks="Does one block blow the stream up?",
        judged="The largest growth of the stream over one block of the final net. One dot is one seed; the bar spans "
        "them.",
        layers="The growth over each block, ‖h_{l+1}‖ / ‖h_l‖, on every seed.",
        means={
            "fires": "Nothing holds the size of that block's output. Behind a terminal LayerNorm the true gradient "
            "shrinks as the stream grows, so that cosines are soon taken against something very small.",
            "passes": "No block makes the stream much larger than it found it.",
            "inconclusive": "The seeds differ, or not every norm is known: nobody is accused, and nobody is cleared.",
            "not applicable": "In a net without a residual stream the same numbers mean nothing.",
        },
        do={
            "fires": "Look at the epoch at which it first fired. Penalise ‖f_l‖² or normalise the credit; or stop the "
            "training there.",
            "inconclusive": "Record the norm of every hidden state, and say whether the net has a residual stream; "
            "train more seeds where they differ.",
        },
    ),
    "reference": Words(
        asks="Is the true gradient fit to compare with?",
        judged="The chord between the direction of the deepest gradient in float32 and in float64. One dot is one "
        "seed; the bar spans them.",
        layers="The size of the true gradient at every state, ‖g_l‖, as in a batch-mean loss over {batch} samples. "
        "Below the floor is a warning, not a finding: small is not noise.",
        means={
            "fires": "The reference is numerical noise: a cosine against it may be off by as much as the chord.",
            "passes": "The direction of the true gradient can be trusted, however small the gradient is.",
            "inconclusive": "The seeds differ, or the precision of the gradient was not measured on all of them.",
            "not applicable": "The question cannot be put to this net.",
        },
        do={
            "fires": "Measure in float64, and with a meter that does not clamp small norms. Report no Γ for this net.",
            "inconclusive": "Measure the gradient in float32 and in float64 on every seed.",
        },
    ),
    "depth": Words(
        asks="Does training the blocks help?",
        judged="The accuracy gained over the same net with its blocks left at random init, seed by seed; the bar is "
        "the {confidence} interval of the mean. The first row judges.",
        layers="The accuracies behind it: the mean, and one dot a seed.",
        means={
            "fires": "The trained blocks are passengers, or do harm: left at random init they would serve as well.",
            "passes": "The trained blocks do something that the frozen ones do not.",
            "inconclusive": "It is not settled whether the trained blocks help.",
            "not applicable": "The task is too easy: bp itself gains too little over its frozen net. Nobody is walked "
            "back for that.",
        },
        do={
            "fires": "Report the frozen net's accuracy beside the trained one's.",
            "inconclusive": "More seeds, if the interval straddles the margin. A harder task, if bp cannot show the "
            "margin. Supply bp and its frozen net, if they are missing.",
            "not applicable": "Choose a harder task.",
        },
    ),
    "coverage": Words(
        asks="In how many blocks does credit arrive?",
        judged="The share of blocks whose cosine clears its null. One dot is one seed; the bar spans them.",
        layers="The cosine of credit and true gradient in each block, cos(a_l, g_l), on every seed. The grey bar "
        "behind a mark is its null: what credit that learned nothing gives, mean ± {band} standard deviations. Filled: "
        "above it. Hollow: not above it. Γ, on the right, is the average.",
        means={
            "fires": "Aggregation collapse: the average hides that credit reaches one end of the net.",
            "passes": "In more than the required share of the blocks, credit points where the gradient does, beyond "
            "chance.",
            "inconclusive": "The seeds differ, or a cosine or its null was not measured.",
            "not applicable": "Γ hides nothing here.",
        },
        do={
            "fires": "Report the cosine of every block instead of Γ.",
            "inconclusive": "Keep the feedback weights, measure the cosine of every block with its null, and say "
            "whether the net has a residual stream.",
        },
    ),
}  # fmt: skip

PUBLISHED_REFERENCE: Mapping[Outcome, str] = {
    "fires": "The published protocol takes a gradient below its floor for noise.",
    "passes": "The mean norm of the deepest gradient is not below the published floor.",
    "inconclusive": "The norm of the deepest gradient is not known.",
    "not applicable": "The question cannot be put to this net.",
}

BASES: Mapping[Basis, str] = {
    "exact": "everything that the check asks for is known",
    "bound": "not everything is known; what is known settles the outcome, or narrows it",
    "proxy": "something else was measured in its place",
    "missing": "there is nothing to go by",
}

BASELINES: Mapping[BaselineName, str] = {
    "frozen": "its own frozen net",
    "frozen_bp": "the frozen net that bp trained",
    "bp": "bp with every block trained",
    "shallow": "the shallow net",
}
