"""Evidence whose truth is known by construction, and the answers on it: accuracy, lower half and Γ.

The makers are used by the other tests of the checks too. Every case of the protocol's section 8 that is about judging
is here; each of them was answered wrongly by the second version.
"""

import math
import random
from functools import cache
from typing import Any

import pytest

from walkback.checks import judge
from walkback.records import Baseline, Cosine, Evidence, Moment, Null, Precision, Training
from walkback.records.evidence import Effort
from walkback.records.schema import Reading

NAN, INF = math.nan, math.inf
SEEDS = (42, 123, 456, 789, 1001, 1002, 1003, 1004, 1005, 1006, 1007, 1008)
L, IMAGES = 4, 1000
JITTER = (0.0, 0.002, -0.002, 0.001, -0.001, 0.0015, -0.0015, 0.0005, -0.0005, 0.001, -0.001, 0.0)
BEGUN = {"frozen": 0.350, "frozen_bp": 0.384, "bp": 0.615, "shallow": 0.340, "half": 0.570, "half_bp": 0.580}


def ok(value: float) -> Cosine:
    return Cosine(value=value, alive=256, total=256, status="ok")


def dead(status: str) -> Cosine:
    return Cosine(value=NAN, alive=0, total=256, status=status)


def null(mean: float = 0.0, std: float = 0.01, n: int = 20) -> Null:
    return Null(mean=mean, std=std, n=n, kind="rotation")


def sizes(*values: float) -> list[Reading]:
    return [Reading(value=value, status="ok") for value in values]


def precise(chord: float = 1e-6, clamped: float = 1e-6, status: str = "ok", samples: int = 256) -> Precision:
    return Precision(chord=chord, clamped=clamped, samples=samples, status=status)


def moment(blocks: int = L, **changes: Any) -> Moment:
    """A healthy net at its end, but for the changes."""
    fields: dict[str, Any] = {
        "epoch": 100, "accuracy": 0.6, "loss": 1.1, "reference_batch": 128,
        "hidden_norms": [9.0 + layer for layer in range(blocks + 1)], "gradient_norms": [4e-4] * (blocks + 1),
        "cosine": [ok(0.9)] * blocks, "cosine_out": [ok(0.9)] * blocks, "gamma": 0.9,
        "precision": precise(), "reference": precise(),
        "null": [null()] * blocks, "null_out": [null()] * blocks, "null_gamma": null(std=0.005),
        "rotated": [null()] * blocks, "rotated_gamma": null(std=0.005), "frobenius": sizes(*[0.9] * blocks),
        "drift": 0.1, "rho": [0.99] * blocks, "nudging": [-0.1] * blocks,
    }  # fmt: skip
    if "precision" in changes:  # both measure one thing, unless a test says otherwise
        fields["reference"] = changes["precision"]
    return Moment(**fields | changes)


@cache
def hits(accuracy: float | None, seed: int) -> bytes | None:
    """Predictions of that accuracy: mostly right on the same images, as nets are."""
    if accuracy is None or not 0 <= accuracy <= 1:
        return None
    dice = random.Random(seed)
    order = sorted(range(IMAGES), key=lambda image: image + dice.gauss(0, 60))
    right = set(order[: round(accuracy * IMAGES)])
    return bytes(image in right for image in range(IMAGES))


def by_seed(*accuracy: float | None, predicted: bool = True) -> Baseline:
    known = dict(zip(map(str, SEEDS), accuracy, strict=False))
    shown = {seed: hits(a, place) for place, (seed, a) in enumerate(known.items())} if predicted else {}
    return Baseline(accuracy=known, hits=shown)


def around(mean: float, seeds: int = 5, **more: Any) -> Baseline:
    return by_seed(*(mean + jitter for jitter in JITTER[-seeds:]), **more)


def subject(
    *changes: dict[str, Any], blocks: int = L, accuracy: tuple[Any, ...] | float = 0.6, seeds: int = 5,
    ended: Any = "finished", baselines: dict[str, Any] | None = None, predicted: bool = True, **fields: Any,
) -> Evidence:  # fmt: skip
    """A healthy subject. One dict of changes is for every seed; several are one a seed."""
    values = accuracy if isinstance(accuracy, tuple) else tuple(accuracy + jitter for jitter in JITTER[:seeds])
    each = changes * len(values) if len(changes) == 1 else changes or ({},) * len(values)
    made = [
        Training(
            seed=seed, ended=ended, moments=[moment(blocks, **{"accuracy": a, "loss": 1.1 + place / 100} | change)],
            hits=hits(a, place + 100) if predicted else None, predicted=predicted, standing="seen",
        )
        for place, (seed, a, change) in enumerate(zip(SEEDS, values, each, strict=False))
    ]  # fmt: skip
    given = {name: around(mean, len(values), predicted=predicted) for name, mean in BEGUN.items()} | (baselines or {})
    kept = {n: b for n, b in given.items() if b is not None and (blocks > 1 or not n.startswith("half"))}
    known: dict[str, Any] = {
        "name": "planted", "rule": "fa", "depth": blocks, "residual": True, "classes": 10, "width": 256,
        "effort": Effort(tuned=True, trials={"subject": 5, "frozen": 5, "shallow": 5, "bp": 5, "frozen_bp": 5}),
    }  # fmt: skip
    return Evidence(**known | {"seeds": made, "baselines": kept} | fields)


def credits(*cosines: float | Cosine, **more: Any) -> dict[str, Any]:
    """Cosines at the blocks' output, with Frobenius cosines alike and a Γ that is their mean."""
    records = [c if isinstance(c, Cosine) else ok(c) for c in cosines]
    values = [c.value if c.status == "ok" else 0.0 for c in records]
    return {
        "cosine_out": records, "cosine": records, "gamma": sum(values) / len(values), "frobenius": sizes(*values),
    } | more  # fmt: skip


def updates(*cosines: float) -> dict[str, Any]:
    """A rule without credits: its updates' cosines, each with a null."""
    none = [dead("no credit")] * len(cosines)
    readings = [Reading(value=value, status="ok", null=null()) for value in cosines]
    return {
        "cosine": none, "cosine_out": none, "gamma": None, "null": None, "null_out": None, "null_gamma": None,
        "rotated": None, "rotated_gamma": None, "frobenius": None, "measured": {"update": readings},
    }  # fmt: skip


def plain(*changes: dict[str, Any], start: dict[str, Any] | None = None, **fields: Any) -> Evidence:
    """A healthy subject without a stream; `start` changes its net at init, as may the key "start" of a change."""
    found = subject(*({k: v for k, v in c.items() if k != "start"} for c in changes), **{"residual": False} | fields)
    own = changes[0].get("start", {}) if changes else {}
    blocks = found.depth or L
    begun = moment(blocks, **{"epoch": 0, "accuracy": 0.1} | own | (start or {}))
    seeds = [s.changed(moments=[begun, *s.moments]) for s in found.seeds]
    return found.changed(seeds=seeds)


def answers(evidence: Evidence, **options: Any) -> tuple[str, str, str]:
    found = judge(evidence, **options).verdicts
    assert found is not None
    return found.accuracy, found.lower_half, found.gamma


def outcomes(evidence: Evidence, **options: Any) -> dict[str, str]:
    return {f.check: f.outcome for f in judge(evidence, **options).findings}


def but(baselines: dict[str, Any] | None = None, accuracy: Any = 0.6, **more: Any) -> Evidence:
    return subject(baselines=baselines, accuracy=accuracy, **more)


HOLDS, BACK, OPEN = "holds", "walked back", "open"
YES, NO, ASIDE = "trained", "not trained", "not asked"
EVEN, FEW, CHANCE, LOST, NONE = "even", "carried by few", "chance", "not measurable", "not reported"
FINE = (HOLDS, YES, EVEN)
# A net fitted to a loss of 1e-7: the label's term of the softmax is rounded away in the older measure alone.
FITTED = [{"loss": n * 1e-8, "precision": precise(0.154), "reference": precise(1.2e-7)} for n in range(8, 13)]

CASES: dict[str, tuple[Evidence, tuple[str, str, str]]] = {
    "healthy": (subject(), FINE),
    "twelve seeds": (subject(seeds=12), FINE),
    # --- accuracy ---
    "three seeds cannot hold": (subject(seeds=3), (OPEN, YES, OPEN)),
    "three seeds can be walked back": (but(accuracy=0.30, seeds=3, baselines={"half": around(0.27, 3)}),
                                       (BACK, YES, OPEN)),
    "no better than the shallow net": (but({"shallow": around(0.585)}, accuracy=0.586), (BACK, YES, EVEN)),
    "worse than the shallow net, 21 points above a poor frozen net": (
        but({"shallow": around(0.923), "frozen": around(0.745), "frozen_bp": around(0.745), "bp": around(0.974),
             "half": around(0.87), "half_bp": around(0.95)}, accuracy=0.913), (BACK, YES, EVEN)),
    "no shallow net": (but({"shallow": None}), (OPEN, YES, EVEN)),
    "no shallow net, and no gain over the frozen one": (
        but({"shallow": None, "frozen": around(0.6)}), (BACK, YES, EVEN)),
    "no frozen net": (but({"frozen": None}), (OPEN, YES, EVEN)),
    "no bp": (but({"bp": None}), (OPEN, OPEN, EVEN)),
    "bp has fewer seeds": (but({"bp": by_seed(0.615, 0.617, 0.613)}), (OPEN, OPEN, EVEN)),
    "bp gains nothing over the shallow net": (
        but({"shallow": around(0.614)}, accuracy=0.66), (OPEN, YES, EVEN)),
    "bp does harm too": (but({"shallow": around(0.70)}), (OPEN, YES, EVEN)),
    "harm that bp does not do": (but({"shallow": around(0.612), "bp": around(0.62)}, accuracy=0.595),
                                 (BACK, YES, EVEN)),
    "one seed of five gains nothing": (but(accuracy=(0.6, 0.602, 0.598, 0.601, 0.35)), (OPEN, OPEN, EVEN)),
    "half of the seeds gain 1 point and half gain 10": (
        but({"half": None}, accuracy=(0.36, 0.45, 0.36, 0.45, 0.36)), (OPEN, OPEN, EVEN)),
    "one seed diverged": (
        but().changed(seeds=[
            seed.changed(**{"ended": "diverged"} if place == 2 else {})
            for place, seed in enumerate(but().seeds)]), (OPEN, OPEN, EVEN)),
    "unfinished": (subject(ended="stopped"), (OPEN, OPEN, EVEN)),
    "one class": (subject(classes=1), (OPEN, OPEN, EVEN)),
    "NaN accuracy": (but(accuracy=(0.6, 0.602, NAN, 0.601, 0.6)), (OPEN, OPEN, EVEN)),
    "NaN in the frozen net": (but({"frozen": by_seed(0.35, NAN, 0.35, 0.351, 0.349)}), (OPEN, YES, EVEN)),
    "a frozen net of one typed-in number": (but({"frozen": Baseline.number(0.35)}), (OPEN, YES, EVEN)),
    "the frozen nets typed in by seed": (
        but({"frozen": Baseline(accuracy=around(0.35).accuracy, typed=True)}, predicted=False), (HOLDS, OPEN, EVEN)),
    "a blown-up stream is a symptom": (
        subject({"hidden_norms": [9.0, 9.0, 900.0, 9e4, 9e6]}), FINE),
    # --- lower half ---
    "the lower half brings nothing": (but({"half": around(0.601)}), (HOLDS, NO, EVEN)),
    "the lower half harms": (but({"half": around(0.63)}), (HOLDS, NO, EVEN)),
    "nor does bp's": (but({"half": around(0.601), "half_bp": around(0.6155)}), (HOLDS, ASIDE, EVEN)),
    "bp's lower half is not known": (but({"half_bp": None}), (HOLDS, OPEN, EVEN)),
    "no net with its lower half frozen": (but({"half": None}), (HOLDS, OPEN, EVEN)),
    "predictions not recorded": (subject(predicted=False), (HOLDS, OPEN, EVEN)),
    "two seeds, +17.6 and −16.5 to +51.6": (
        but(accuracy=(0.55, 0.61), baselines={"half": by_seed(0.40, 0.41)}), (OPEN, OPEN, OPEN)),
    "one block": (subject({"cosine_out": [ok(0.9)], "cosine": [ok(0.9)]}, blocks=1), (HOLDS, ASIDE, EVEN)),
    # --- Γ ---
    "reference lost in the label's term alone": (subject(*FITTED), FINE),
    "gradient is noise": (subject({"reference": precise(0.3), "precision": precise(0.3)}), (HOLDS, YES, LOST)),
    "recorded before the stable reference, off by .15": (
        subject(*(each | {"reference": None} for each in FITTED)), (HOLDS, YES, OPEN)),
    "gradient is exactly zero": (
        subject({**dict.fromkeys(("reference", "precision"), precise(NAN, NAN, "zero gradient", 0)),
                 "gradient_norms": [0.0] * 5}),
        (HOLDS, YES, LOST)),
    "credit at one end": (subject(credits(0.9, 0.01, 0.0, -0.01)), (HOLDS, YES, FEW)),
    "three aligned, one opposed": (subject(credits(0.9, 0.9, 0.9, -0.9)), (HOLDS, YES, FEW)),
    "credit at one end by the input, everywhere by the output": (
        subject({"cosine": [ok(0.9), ok(0.0), ok(0.0), ok(0.0)]}), FINE),
    "forward gradient": (subject(credits(0.03, 0.03, 0.031, 0.029)), FINE),
    "at chance": (subject(credits(0.002, -0.002, 0.001, -0.001)), (HOLDS, YES, CHANCE)),
    "points away": (subject(credits(-0.9, -0.9, -0.9, -0.9)), (HOLDS, YES, CHANCE)),
    "sizes: +g on 65 %, −10 g on the rest": (
        subject(credits(0.29, 0.3, 0.29, 0.28, frobenius=sizes(-0.49, -0.5, -0.48, -0.49))), (HOLDS, YES, OPEN)),
    "sizes not measured": (subject({"frobenius": None}), (HOLDS, YES, OPEN)),
    "one seed without its cosines": (
        subject({}, {"cosine_out": None}, {}, {}, {}), (HOLDS, YES, OPEN)),
    "no seed with cosines": (subject({"cosine_out": None}), (HOLDS, YES, NONE)),
    "one block's cosine missing": (
        subject({"cosine_out": [ok(0.9), ok(0.9), ok(0.9), None]}), (HOLDS, YES, OPEN)),
    "null not measured, Γ of .9": (subject({"rotated_gamma": None}), FINE),
    "null not measured, Γ of .1": (
        subject(credits(0.1, 0.1, 0.1, 0.1, rotated_gamma=None)), (HOLDS, YES, OPEN)),
    "updates in place of credits": (subject(updates(0.9, 0.8, 0.7, 0.9)), FINE),
    "updates, one block alone": (subject(updates(0.9, 0.0, 0.0, 0.0)), (HOLDS, YES, FEW)),
    "what was compared is not what trained": (
        but().changed(seeds=[s.changed(standing="not seen") for s in but().seeds]),
        (HOLDS, YES, NONE)),
    "compared in part": (
        but().changed(seeds=[s.changed(standing="in part") for s in but().seeds]),
        (HOLDS, YES, OPEN)),
    "declared, and the updates disagree": (
        subject({"measured": updates(0.9, 0.0, 0.01, 0.02)["measured"]}).changed(seeds=[
            s.changed(standing="declared") for s in
            subject({"measured": updates(0.9, 0.0, 0.01, 0.02)["measured"]}).seeds]), (HOLDS, YES, OPEN)),
    # --- nothing ---
    "empty": (Evidence(name="empty"), (OPEN, OPEN, NONE)),
    "seeds without a moment": (
        Evidence(name="x", seeds=[Training(seed=1), Training(seed=2)]), (OPEN, OPEN, NONE)),
}  # fmt: skip


@pytest.mark.parametrize("name", CASES)
def test_planted_case_is_answered_right(name: str) -> None:
    evidence, expected = CASES[name]
    assert answers(evidence) == expected, judge(evidence).findings


def test_there_are_cases_of_every_answer() -> None:
    for place, words in enumerate(((HOLDS, BACK, OPEN), (YES, NO, OPEN, ASIDE), (EVEN, FEW, CHANCE, LOST, OPEN, NONE))):
        assert {expected[place] for _, expected in CASES.values()} == set(words)


def test_a_seed_in_ten_that_fails_is_counted_with_a_bound_of_its_share() -> None:
    """No interval of a mean shows, with five seeds, that one in ten diverges; the line of failing seeds does."""
    says = next(f.says for f in judge(subject()).findings if f.check == "depth")
    assert "Seeds that gain nothing: 0 of 5; their share is at most 45 % (95 %)." in says
    says = next(f.says for f in judge(subject(seeds=12)).findings if f.check == "depth")
    assert "Seeds that gain nothing: 0 of 12; their share is at most 22 % (95 %)." in says


def test_one_rate_is_printed_with_the_word() -> None:
    found = judge(subject(effort=None))
    assert (found.verdict, found.rates, found.answer) == ("holds", "one rate", "holds at one rate")
    assert judge(subject()).answer == "holds"


def test_accuracy_at_chance_is_the_first_symptom() -> None:
    loud = subject({"hidden_norms": [9.0, 9.0, 9e3, 9e4, 9e6]}, accuracy=0.1, baselines={"half": None})
    first, *rest = judge(loud).symptoms
    assert first == "Accuracy is at chance (0.100; guessing gives 0.100)."
    assert any("grows the stream" in words for words in rest)
