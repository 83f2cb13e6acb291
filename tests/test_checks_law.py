"""The law: a finding from part of the evidence never contradicts the finding from all of it.

Full evidence is drawn at random, nasty values among it; fields, entries of lists, values of baselines and facts about
the net are then dropped at random, and both are judged. Whole seeds and whole moments are not dropped: other seeds are
another sample, and an earlier end is another net.
"""

import math
import random
from collections import Counter
from typing import Any

import hypothesis.strategies as st
import pytest
from hypothesis import HealthCheck, given, settings

from test_checks_planted import dead, moment, ok, precise
from walkback.checks import DEFAULT, LIMITS, judge
from walkback.checks.finding import Finding
from walkback.records import Baseline, Evidence, NullRecord, SeedEvidence
from walkback.records.schema import ReadingRecord

NASTY = [math.nan, math.inf, 0.0]
HALF_BP = [0.5, 0.5, 0.93, 0.955, 0.957]  # against bp's 0.96
QUICK = settings(max_examples=100, deadline=None, suppress_health_check=list(HealthCheck), database=None)
FACTS = ("rule", "depth", "residual", "classes")
MEASURED = (
    "epoch", "accuracy", "loss", "hidden_norms", "gradient_norms", "reference_batch", "cosine", "cosine_out", "gamma",
    "precision", "null", "null_out", "null_gamma", "drift", "rho", "nudging",
)  # fmt: skip


def drawn_moment(dice: random.Random, blocks: int, accuracy: float, mood: dict[str, Any], epoch: int) -> Any:
    def sometimes(value: float) -> float:
        return dice.choice(NASTY) if dice.random() < mood["nasty"] else value

    norms = [sometimes(9.0)]
    for _ in range(blocks):
        factor = dice.choice(mood["growth"])
        norms.append(sometimes((norms[-1] or 1.0) * factor))
    if mood["credit"] == "no credit":
        cosines = outs = [dead("no credit")] * blocks
    else:
        cosines, outs = drawn_cosines(dice, blocks, mood), drawn_cosines(dice, blocks, mood)
        if mood["credit"] == "other width":
            cosines[dice.randrange(blocks)] = dead("other width")
    nulls = [NullRecord(mean=0.0, std=sometimes(0.01), n=dice.choice([20, 20, 1]), kind="k") for _ in range(blocks)]
    updates = [
        ReadingRecord(
            value=sometimes(dice.choice(mood["cosine"])), status=dice.choice(["ok"] * 9 + ["not finite"]), null=null
        )
        for null in nulls
    ]
    own = {} if not mood["between"] else {"growth": [sometimes(dice.choice(mood["growth"])) for _ in range(blocks)]}
    return moment(
        blocks,
        **own,
        epoch=epoch,
        accuracy=accuracy,
        loss=sometimes(dice.choice([0.01, 1.0])),
        hidden_norms=norms,
        gradient_norms=[sometimes(dice.choice([4e-4, 1e-8])) for _ in norms],
        reference_batch=dice.choice([16, 128, 2048]),
        cosine=cosines,
        cosine_out=outs,
        gamma=sometimes(dice.choice(mood["gamma"])),
        precision=precise(
            sometimes(dice.choice(mood["chord"])), sometimes(0.1), dice.choice(["ok"] * 5 + ["not finite"])
        ),
        null=nulls,
        null_out=nulls[::-1],
        measured={"update": updates},
    )


def drawn_cosines(dice: random.Random, blocks: int, mood: dict[str, Any]) -> list[Any]:
    def sometimes(value: float) -> float:
        return dice.choice(NASTY) if dice.random() < mood["nasty"] else value

    return [
        dead(dice.choice(["zero credit", "zero gradient", "below precision", "not available", "not finite"]))
        if dice.random() < mood["nasty"]
        else ok(sometimes(dice.choice(mood["cosine"])))
        for _ in range(blocks)
    ]


def drawn_evidence(dice: random.Random) -> Evidence:
    """Full evidence: everything is there, though not everything need be finite. A mood for the whole subject makes
    its seeds agree often enough for every outcome to occur."""
    mood = {
        "nasty": dice.choice([0.0, 0.0, 0.02, 0.2]),
        "growth": dice.choice([[1.0, 1.1], [0.02, 1.0, 50.0], [60.0, 1.0, 2500.0], [50.0], [0.01, 100.0]]),
        "cosine": dice.choice([[0.9], [0.9, 0.0, 0.0], [0.0], [-0.5], [0.03, 0.030001]]),
        "gamma": dice.choice([[0.3], [0.0], [-0.1, 0.3]]),
        "chord": dice.choice([[1e-6], [0.3], [0.01], [1e-6, 0.3]]),
        "between": dice.random() < 0.3,  # something lies between the blocks, so their own growth is recorded
        "credit": dice.choice(["credit", "credit", "other width", "no credit"]),
    }
    begins = {"growth": dice.choice([mood["growth"], [1.0], [0.5, 3.0]])}  # of the net at init
    blocks, seeds = dice.choice([1, 2, 3, 4, 5]), list(range(dice.choice([1, 2, 3, 3, 4])))
    spread = dice.choice([0.0, 0.001, 0.03])

    def accuracy(around: float) -> float:
        return dice.choice(NASTY[:2]) if dice.random() < mood["nasty"] / 2 else around + dice.uniform(-1, 1) * spread

    def baseline(around: float) -> Baseline:
        if dice.random() < 0.2:
            return Baseline.number(accuracy(around))
        return Baseline.by_seed({seed: accuracy(around) for seed in seeds})

    own, frozen_bp = dice.choice([0.3, 0.36, 0.5]), dice.choice([0.35, 0.95])
    return Evidence(
        name="drawn", rule="fa", depth=blocks, residual=dice.choice([True, False]),
        classes=dice.choice([10, 10, 1]),
        seeds=[
            SeedEvidence(
                seed=seed,
                ended=dice.choice(["finished", "finished", "finished", "diverged", "stopped"]),
                moments=[
                    drawn_moment(dice, blocks, accuracy(own), mood | calm, epoch)
                    for epoch, calm in dice.choice([[(0, begins), (100, {})], [(0, begins), (100, {})], [(100, {})]])
                ],
            )
            for seed in seeds
        ],
        baselines={
            "frozen": baseline(0.34), "frozen_bp": baseline(frozen_bp), "bp": baseline(0.96),
            "shallow": baseline(dice.choice([0.3, 0.49])),
            **({"half": baseline(dice.choice([own - 0.03, own, own + 0.05])), "half_bp": baseline(dice.choice(HALF_BP))}
               if blocks > 1 else {}),
        },
    )  # fmt: skip


def tells_width(value: Any) -> bool:
    """That the widths of a net differ is a fact about the net and not a measurement; see the docs."""
    return isinstance(value, dict) and value.get("status") == "other width"


def part_of(full: Evidence, dice: random.Random, share: float) -> Evidence:
    """The same with a share of everything dropped, each thing by its own throw."""

    def gone() -> bool:
        return dice.random() < share

    raw = full.model_dump()
    for fact in FACTS:
        raw[fact] = None if gone() else raw[fact]
    for seed in raw["seeds"]:
        seed["seed"] = None if gone() and dice.random() < 0.3 else seed["seed"]
        if seed["ended"] != "stopped":  # that a training did not finish is not dropped: see the docs
            seed["ended"] = None if gone() else seed["ended"]
        for one in seed["moments"]:
            for field in MEASURED:
                if gone() and not (field == "cosine" and any(map(tells_width, one[field]))):
                    one[field] = None
                elif isinstance(one[field], list):
                    one[field] = [None if gone() and not tells_width(value) else value for value in one[field]]
            if (
                one["growth"] is not None
            ):  # that something lies between the blocks is a fact about the net: see the docs
                one["growth"] = [None if gone() else value for value in one["growth"]]
            if gone():
                one["measured"] = {}
            for reading in one["measured"].get("update", []):
                reading["null"] = None if gone() else reading["null"]
    for name in list(raw["baselines"]):
        if gone():
            del raw["baselines"][name]
        else:
            accuracy = raw["baselines"][name]["accuracy"]
            raw["baselines"][name]["accuracy"] = {k: None if gone() else v for k, v in accuracy.items()}
    return Evidence.model_validate(raw)


MAY_BECOME = {
    "fires": {"fires"},
    "passes": {"passes", "not applicable"},
    "not applicable": {"not applicable"},
    "inconclusive": {"fires", "passes", "not applicable", "inconclusive"},
}


def check_law(full: Evidence, part: Evidence) -> None:
    whole, some = judge(full), judge(part)
    for of_all, of_part in zip(whole.findings, some.findings, strict=True):
        assert of_all.outcome in MAY_BECOME[of_part.outcome], (of_part, of_all)
    assert some.verdict != "walked back" or whole.verdict == "walked back"
    assert some.verdict != "holds" or whole.verdict != "walked back"


@QUICK
@given(st.integers(0, 2**32), st.sampled_from([0.02, 0.1, 0.3, 0.7]))
def test_a_part_never_contradicts_the_whole(number: int, share: float) -> None:
    dice = random.Random(number)
    full = drawn_evidence(dice)
    check_law(full, part_of(full, dice, share))


def test_the_drawn_evidence_reaches_every_outcome_of_every_check_in_whole_and_in_part() -> None:
    """The law would be empty if everything were inconclusive."""
    dice = random.Random(7)
    seen: Counter[tuple[str, str]] = Counter()
    in_part: Counter[tuple[str, str]] = Counter()
    kinds: Counter[tuple[bool | None, str]] = Counter()
    for _ in range(300):
        full = drawn_evidence(dice)
        part = part_of(full, dice, 0.03)
        check_law(full, part)
        seen.update((f.check, f.outcome) for f in judge(full).findings)
        kinds.update((full.residual, f.outcome) for f in judge(full).findings if f.check == "scale")
        in_part.update((f.check, f.outcome) for f in judge(part).findings if f.basis == "bound")
    wanted = {(c, o) for c in ("depth", "reach", "coverage") for o in MAY_BECOME}
    wanted |= {(c, o) for c in ("scale", "reference") for o in ("fires", "passes", "inconclusive")}
    assert wanted <= set(seen)
    assert {(kind, o) for kind in (True, False) for o in ("fires", "passes", "inconclusive")} <= set(kinds)
    assert {("scale", "fires"), ("coverage", "fires"), ("coverage", "passes")} <= set(in_part)


def test_the_counterexample_of_the_published_partial_audit() -> None:
    """h_0 = 9, h_L = 4e4, L = 4: a geometric mean of 8 per block, and yet two blocks at 64 fit."""
    whole = [9.0, 9.0 * 64, 9.0 * 64 * 64, 4e4, 4e4]
    full = Evidence(name="x", residual=True, seeds=[SeedEvidence(seed=1, moments=[moment(hidden_norms=whole)])])
    ends = [9.0, None, None, None, 4e4]
    part = Evidence(name="x", residual=True, seeds=[SeedEvidence(seed=1, moments=[moment(hidden_norms=ends)])])
    assert judge(full).findings[0].outcome == "fires"
    found = judge(part).findings[0]
    assert (found.outcome, found.basis, found.high) == ("inconclusive", "bound", None)
    assert found.low == pytest.approx((4e4 / 9) ** 0.25, rel=1e-6)


def outcome_with(evidence: Evidence, check: str, name: str, value: float) -> str:
    return next(f.outcome for f in judge(evidence, DEFAULT.but(name, value)).findings if f.check == check)


def allowed(name: str, value: float) -> bool:
    low, high = LIMITS[name].allowed
    return low < value < high


def check_range(evidence: Evidence, finding: Finding, name: str, dice: random.Random) -> None:
    low, high = finding.ranges[name]
    here = DEFAULT[name]
    assert low is None or low <= here
    assert high is None or here <= high
    for end, step in ((low, -1), (high, 1)):
        far = (
            here + step * abs(here) * dice.uniform(0, 100)
            if end is None
            else here + (end - here) * dice.uniform(0, 0.999)
        )
        if allowed(name, far):
            assert outcome_with(evidence, finding.check, name, far) == finding.outcome, (name, far, finding)
        if end is not None:
            nudge = step * max(abs(end) * 1e-6, 1e-15)
            tries = [t for t in (end, end + nudge) if allowed(name, t)]
            assert not tries or any(outcome_with(evidence, finding.check, name, t) != finding.outcome for t in tries)


@QUICK
@given(st.integers(0, 2**32))
def test_the_stable_range_is_true_when_judged_again_inside_and_outside(number: int) -> None:
    dice = random.Random(number)
    full = drawn_evidence(dice)
    evidence = part_of(full, dice, 0.05) if dice.random() < 0.5 else full
    for finding in judge(evidence).findings:
        assert finding.stable_range == next(iter(finding.ranges.values()))
        for name in finding.ranges:
            check_range(evidence, finding, name, dice)


@QUICK
@given(st.integers(0, 2**32), st.sampled_from(["nan", "inf", "one seed", "one block", "one class", "empty"]))
def test_what_is_not_finite_or_too_little_never_holds(number: int, defect: str) -> None:
    """A healthy subject with one defect, wherever it is put."""
    from test_checks_planted import CASES, EASY, subject

    dice = random.Random(number)
    easy = dice.random() < 0.5
    many = {"accuracy": (0.98, 0.981, 0.979), "baselines": EASY} if easy else {}
    healthy = subject(**many)
    assert judge(healthy).verdict == "holds"
    if defect in ("nan", "inf"):
        raw = healthy.model_dump()
        places = _numbers_judged(raw)
        table, key = dice.choice(places)
        table[key] = math.nan if defect == "nan" else math.inf
        broken = Evidence.model_validate(raw)
    elif defect == "one seed":
        broken = healthy.model_copy(update={"seeds": healthy.seeds[:1]})
    elif defect == "one block":
        broken = subject(blocks=1, **many)
    elif defect == "one class":
        broken = healthy.model_copy(update={"classes": 1})
    else:
        broken = dice.choice([CASES["empty"][0], healthy.model_copy(update={"seeds": []})])
    assert judge(broken).verdict != "holds"


def _numbers_judged(raw: dict[str, Any]) -> list[tuple[Any, Any]]:
    """Every place of a number that bears on the judgement, as (container, key)."""
    places: list[tuple[Any, Any]] = []
    for seed in raw["seeds"]:
        final = seed["moments"][-1]
        places += [(final, key) for key in ("accuracy", "loss", "gamma")] + [(final["precision"], "chord")]
        for key in ("hidden_norms", "gradient_norms"):
            places += [(final[key], n) for n in range(len(final[key]))]
        places += [(record, "value") for key in ("cosine", "cosine_out") for record in final[key]]
        places += [(record, key) for record in final["null"] for key in ("mean", "std")]
        places += [(final["null_gamma"], key) for key in ("mean", "std")]
    for baseline in raw["baselines"].values():
        places += [(baseline["accuracy"], key) for key in baseline["accuracy"]]
    return places
