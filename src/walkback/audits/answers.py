"""What controls must answer, and whether they did: told by their judgements and nulls alone, without torch."""

from collections.abc import Iterable, Sequence
from typing import NamedTuple

from walkback.audits.settling import found_out
from walkback.checks import Control, Judgement
from walkback.records import DeepProbes, NullRecord, Run, RunConfig

CONTROLS = ("bp", "random")
FOUND_OUT = "found out"
NULL = "null of random"


def control_bp(judgement: Judgement, name: str = "bp") -> Control:
    """Backprop, which must hold."""
    return Control(name=name, expected="holds", got=judgement.verdict, ok=judgement.verdict == "holds")


def control_random(judgement: Judgement, name: str = "random") -> Control:
    """Noise for credit, which must be found out: walked back, or seen to reach no block beyond chance.

    The second is for budgets at which noise gains about as much as is required: it makes the blocks larger, and larger
    random features are better ones. No number of seeds would then settle depth, and credit tells noise all the same.
    """
    how = judgement.verdict if judgement.verdict == "walked back" else "its credit explains nothing"
    ok = found_out(judgement)
    return Control(name=name, expected=FOUND_OUT, got=f"{FOUND_OUT} ({how})" if ok else judgement.verdict, ok=ok)


class Probed(NamedTuple):
    """What the control of the nulls takes of a run."""

    config: RunConfig
    probes: DeepProbes | None


def _control_null(runs: Iterable[Run | Probed]) -> Control:
    """Random credit knows nothing of the net: the cosines of its null must lie about zero, within their own spread.

    The random control's own nulls alone. A rule under audit may have feedback that is aligned however it is drawn; that
    is a property of the rule, and coverage counts from its null. It says nothing against the measurement.

    The mean of 20 draws strays from zero by std/√20; a mean beyond 1.5 std is 6.7 times that, which chance does not
    bring about in thousands of audits.
    """
    nulls = [
        (f"{run.config.label()} seed {run.config.seed}", block, null)
        for run in runs
        if run.config.rule == "random" and run.probes is not None
        for block, null in enumerate(run.probes.null)
    ]
    return null_control(nulls)


def null_control(nulls: Sequence[tuple[str, int, NullRecord]]) -> Control:
    """The same of nulls with whose they are: a name and a block."""
    name, expected = NULL, "centres on zero"
    if not nulls:
        return Control(name=name, expected=expected, got="not measured: no run of random has probes", ok=True)
    off = [(who, b, n) for who, b, n in nulls if not abs(n.mean) <= 1.5 * n.std]
    if off:
        who, block, null = max(off, key=lambda each: abs(each[2].mean))
        where = f"{who} block {block}"
        return Control(name=name, expected=expected, got=f"{null.mean:+.3f} ± {null.std:.3f} in {where}", ok=False)
    largest = max(abs(n.mean) for _, _, n in nulls)
    got = f"centres on zero (largest mean {largest:.3f} of {len(nulls)})"
    return Control(name=name, expected=expected, got=got, ok=True)


def validity(failed: Sequence[Control]) -> str:
    """Whether an audit counts, in a sentence, with what to do about every control that did not behave as expected."""
    if not failed:
        return "Every control behaved as expected."
    remedies = {
        "bp": "Nothing can be judged unless backprop is shown to hold. Train longer, or with more seeds.",
        "random": "If noise is not found out, no failing rule would be. Train longer, or with more seeds.",
        "a net at init": "Measurements from such an init mean nothing. Check the net.",
        NULL: "The zero of the cosine's scale is not where it should be. Probe more images.",
    }
    absent = {
        "bp": "Without a bp reference, depth and reach cannot be judged. Give train_bp, or train_batches for a plain "
        "loop of walkback.",
        "random": "Give the same call again: it trains what is missing.",
        "a net at init": "Give the same call again: it measures what is missing.",
    }
    words = [(c, absent if c.got.startswith("not ") else remedies) for c in failed]
    said = [f"{c.name}: expected {c.expected}, got {c.got}. {those[c.name]}" for c, those in words]
    return "This audit is invalid: " + " ".join(said)
