"""Evidence whose truth is known by construction: every case judged right, and each check seen to fire and to pass.

The makers here are used by the other tests of the checks too.
"""

import math
from typing import Any

import pytest

from walkback.checks import judge
from walkback.records import Baseline, CosineRecord, Evidence, Moment, NullRecord, PrecisionRecord, SeedEvidence
from walkback.records.schema import ReadingRecord

NAN, INF = math.nan, math.inf
SEEDS = (42, 123, 456)
LOSSES = (1.1, 1.11, 1.12, 1.13, 1.14, 1.15)  # no two seeds have the same numbers
L = 4


def ok(value: float) -> CosineRecord:
    return CosineRecord(value=value, alive=256, total=256, status="ok")


def dead(status: str) -> CosineRecord:
    return CosineRecord(value=NAN, alive=0, total=256, status=status)


def null(mean: float = 0.0, std: float = 0.01, n: int = 20) -> NullRecord:
    return NullRecord(mean=mean, std=std, n=n, kind="fresh feedback")


def precise(chord: float = 1e-6, clamped: float = 1e-6, status: str = "ok", samples: int = 256) -> PrecisionRecord:
    return PrecisionRecord(chord=chord, clamped=clamped, samples=samples, status=status)


def moment(blocks: int = L, **changes: Any) -> Moment:
    """A healthy net at its end, but for the changes."""
    fields: dict[str, Any] = {
        "epoch": 100, "accuracy": 0.6, "loss": 1.1, "reference_batch": 128,
        "hidden_norms": [9.0 + layer for layer in range(blocks + 1)], "gradient_norms": [4e-4] * (blocks + 1),
        "cosine": [ok(0.9)] * blocks, "cosine_out": [ok(0.9)] * blocks, "gamma": 0.9, "precision": precise(),
        "null": [null()] * blocks, "null_out": [null()] * blocks, "null_gamma": null(std=0.005),
        "drift": 0.1, "rho": [0.99] * blocks, "nudging": [-0.1] * blocks,
    }  # fmt: skip
    return Moment(**fields | changes)


def by_seed(*accuracy: float | None) -> Baseline:
    return Baseline.by_seed(dict(zip(SEEDS, accuracy, strict=False)))


BASELINES: dict[str, Baseline] = {
    "frozen": by_seed(0.350, 0.352, 0.348),
    "frozen_bp": by_seed(0.384, 0.386, 0.382),
    "bp": by_seed(0.615, 0.611, 0.618),
    "shallow": by_seed(0.340, 0.342, 0.338),
    "half": by_seed(0.570, 0.573, 0.569),
    "half_bp": by_seed(0.595, 0.592, 0.597),
}


def subject(
    *changes: dict[str, Any], blocks: int = L, accuracy: tuple[Any, ...] = (0.600, 0.604, 0.598),
    ended: Any = "finished", baselines: dict[str, Any] | None = None, **fields: Any,
) -> Evidence:  # fmt: skip
    """A healthy subject of three seeds. One dict of changes is for every seed; several are one a seed."""
    each = changes * len(accuracy) if len(changes) == 1 else changes or ({},) * len(accuracy)
    seeds = [
        SeedEvidence(seed=seed, ended=ended, moments=[moment(blocks, **{"accuracy": a, "loss": loss} | change)])
        for seed, a, loss, change in zip(SEEDS, accuracy, LOSSES, each, strict=False)
    ]
    known: dict[str, Any] = {"name": "planted", "rule": "fa", "depth": blocks, "residual": True, "classes": 10}
    kept = {name: b for name, b in (BASELINES | (baselines or {})).items() if b is not None}
    kept = {name: b for name, b in kept.items() if blocks > 1 or not name.startswith("half")}
    return Evidence(**known | {"seeds": seeds, "baselines": kept} | fields)


def plain(*changes: dict[str, Any], start: dict[str, Any] | None = None, **fields: Any) -> Evidence:
    """A healthy subject without a stream; `start` changes its net at init, as may the key "start" of a change."""
    found = subject(*({k: v for k, v in c.items() if k != "start"} for c in changes), **{"residual": False} | fields)
    own = changes[0].get("start", {}) if changes else {}
    blocks = found.depth or L
    begun = moment(blocks, **{"epoch": 0, "accuracy": 0.1} | own | (start or {}))
    seeds = [s.model_copy(update={"moments": [begun, *s.moments]}) for s in found.seeds]
    return found.model_copy(update={"seeds": seeds})


def scaled(*norms: float, by: float = 1.0) -> dict[str, Any]:
    """Norms that jump about as widths do, at init and, times `by`, at the end."""
    return {"hidden_norms": [by * norm for norm in norms], "start": {"hidden_norms": list(norms)}}


def updates(*cosines: float) -> dict[str, Any]:
    """A rule without credits: its updates' cosines, each with a null."""
    none = [dead("no credit")] * L
    readings = [ReadingRecord(value=value, status="ok", null=null()) for value in cosines]
    return {
        "cosine": none, "cosine_out": none, "gamma": None, "null": None, "null_out": None, "null_gamma": None,
        "measured": {"update": readings},
    }  # fmt: skip


def outcomes(evidence: Evidence, **options: Any) -> dict[str, str]:
    return {f.check: f.outcome for f in judge(evidence, **options).findings}


FIRES, PASSES, OPEN, ASIDE = "fires", "passes", "inconclusive", "not applicable"
EASY = {"frozen": by_seed(0.970, 0.971, 0.969), "frozen_bp": by_seed(0.970, 0.972, 0.971),
        "bp": by_seed(0.985, 0.986, 0.984), "shallow": None}  # fmt: skip
LOW = (0.306, 0.300, 0.310)  # below the frozen net
LOWER = {"half": by_seed(0.280, 0.274, 0.284)}  # what reaches LOW, with its lower half frozen
FLAT = {"half_bp": by_seed(0.613, 0.612, 0.618)}  # a task on which bp's own lower half brings nothing
ONE_END = [ok(0.4), ok(0.001), ok(-0.0004), ok(-0.002)]
DYING = [ok(0.9), dead("zero credit"), dead("zero gradient"), dead("below precision")]
ALL = ("scale", "reference", "depth", "reach", "coverage")

# name: (evidence, its repair or None, what differs from "every check passes", verdict)
CASES: dict[str, tuple[Evidence, dict[str, str], str]] = {
    "healthy": (subject(), {}, "holds"),
    "scaled stream": (
        subject({"hidden_norms": [9.0, 600.0, 4e4, 3e6, 2e8]}), {"scale": FIRES}, "walked back"),
    "one block explodes, the next shrinks": (
        subject({"hidden_norms": [9.0, 900.0, 9.0, 9.0, 9.0]}), {"scale": FIRES}, "walked back"),
    "one seed of three explodes": (
        subject({}, {"hidden_norms": [9.0, 900.0, 9e2, 9e2, 9e2]}, {}), {"scale": OPEN}, "inconclusive"),
    "gradient is noise": (subject({"precision": precise(0.3)}), {"reference": FIRES}, "walked back"),
    "gradient is tiny but precise": (
        subject({"gradient_norms": [1e-8] * 5, "precision": precise(3e-7, 0.4)}), {}, "holds"),
    "precision not measured": (subject({"precision": None}), {"reference": OPEN}, "inconclusive"),
    "gradient is exactly zero": (
        subject({"precision": precise(NAN, NAN, "zero gradient", 0), "gradient_norms": [0.0] * 5}),
        {"reference": OPEN}, "inconclusive"),
    "trained blocks harm": (subject(accuracy=LOW, baselines=LOWER), {"depth": FIRES}, "walked back"),
    "margin straddles": (
        subject(accuracy=(0.35, 0.40, 0.38), baselines={"half": by_seed(0.32, 0.37, 0.35)}), {"depth": OPEN},
        "inconclusive"),
    "harm, but bp unknown": (
        subject(accuracy=LOW, baselines=LOWER | {"bp": None}), {"depth": OPEN}, "inconclusive"),
    "harm, but not finished": (
        subject(accuracy=LOW, ended="stopped", baselines=LOWER), {"depth": OPEN, "reach": OPEN}, "inconclusive"),
    "easy task": (
        subject(accuracy=(0.98, 0.981, 0.979), baselines=EASY), {"depth": ASIDE}, "holds"),
    "easy task, harm": (subject(accuracy=(0.90, 0.91, 0.92), baselines=EASY), {"depth": ASIDE}, "inconclusive"),
    "net at init on an easy task": (
        subject(accuracy=(0.1, 0.11, 0.09), baselines=EASY | {"half": by_seed(0.08, 0.09, 0.07)}), {"depth": ASIDE},
        "inconclusive"),
    "credit at one end": (
        subject({"cosine": ONE_END, "cosine_out": ONE_END, "gamma": 0.1}), {"coverage": FIRES}, "walked back"),
    "credit at one end by the blocks' input, everywhere by their output": (
        subject({"cosine": ONE_END, "cosine_out": [ok(0.9)] * 4, "gamma": 0.1}), {"coverage": OPEN}, "inconclusive"),
    "dead layers": (subject({"cosine": DYING, "cosine_out": DYING}), {"coverage": FIRES}, "walked back"),
    "one dead layer of four": (subject({"cosine": [ok(0.9), dead("zero credit"), ok(0.9), ok(0.9)]}), {}, "holds"),
    "sign-flipped credit": (
        subject({"cosine": [ok(-0.9)] * 4, "gamma": -0.9}, accuracy=LOW, baselines=LOWER),
        {"coverage": ASIDE, "depth": FIRES}, "walked back"),
    "sign-flipped credit, easy task": (
        subject({"cosine": [ok(-0.9)] * 4, "gamma": -0.9}, accuracy=(0.98, 0.981, 0.979), baselines=EASY),
        {"coverage": ASIDE, "depth": ASIDE}, "not applicable"),
    "no feedback saved": (
        subject({"cosine": [dead("not available")] * 4, "gamma": NAN}), {"coverage": OPEN}, "inconclusive"),
    "feedback of one block saved": (
        subject({"cosine": [ok(0.9)] + [dead("not available")] * 3}), {"coverage": OPEN}, "inconclusive"),
    "blocks exactly zero": (  # the frozen net is the same net: no gain, and no credit where nothing answers
        subject({"hidden_norms": [9.0] * 5, "cosine": [dead("zero credit")] * 4, "gamma": NAN},
                accuracy=(0.350, 0.352, 0.348), baselines={"half": by_seed(0.350, 0.352, 0.348)}),
        {"depth": FIRES, "reach": FIRES, "coverage": OPEN}, "walked back"),
    "NaN in one layer": (
        subject({"hidden_norms": [9.0, 10.0, NAN, 12.0, 13.0]}), {"scale": OPEN}, "inconclusive"),
    "infinite deepest state": (
        subject({"hidden_norms": [9.0, 10.0, 11.0, 12.0, INF]}), {"scale": OPEN}, "inconclusive"),
    "zero state": (subject({"hidden_norms": [0.0, 10.0, 11.0, 12.0, 13.0]}), {"scale": OPEN}, "inconclusive"),
    "NaN gradient": (subject({"gradient_norms": [NAN] * 5}), {}, "inconclusive"),
    "NaN accuracy": (subject(accuracy=(0.6, NAN, 0.6)), {"depth": OPEN, "reach": OPEN}, "inconclusive"),
    "NaN in a frozen net": (
        subject(baselines={"frozen": by_seed(0.35, NAN, 0.35)}), {"depth": OPEN}, "inconclusive"),
    "one seed": (subject(accuracy=(0.6,)), {"depth": OPEN, "reach": OPEN}, "inconclusive"),
    "one seed, easy task": (
        subject(accuracy=(0.98,), baselines=EASY), {"depth": ASIDE, "reach": OPEN}, "inconclusive"),
    "one class": (subject(accuracy=(1.0, 1.0, 1.0), classes=1, baselines={
        name: by_seed(1.0, 1.0, 1.0) for name in BASELINES}), {"depth": ASIDE, "reach": ASIDE}, "not applicable"),
    "one block": (subject(blocks=1), {"reach": ASIDE, "coverage": ASIDE}, "not applicable"),
    "plain net": (plain(), {}, "holds"),
    "plain net, its widths differ": (plain(scaled(1, 40, 0.2, 90, 3)), {}, "holds"),
    "plain net, all of it larger": (plain(scaled(1, 40, 0.2, 90, 3, by=1e4)), {}, "holds"),
    "plain net, one layer scaled": (
        plain({"hidden_norms": [9.0, 10.0, 11e3, 12e3, 13e3]}), {"scale": FIRES}, "walked back"),
    "plain net, one layer scaled, the next undoes it": (
        plain({"hidden_norms": [9.0, 10.0, 11e3, 12.0, 13.0]}), {"scale": FIRES}, "walked back"),
    "plain net, init not known": (subject(residual=False), {"scale": OPEN}, "inconclusive"),
    "plain net, init known in part": (
        plain(start={"hidden_norms": [9.0, None, 11.0, 12.0, 13.0]}), {"scale": OPEN}, "inconclusive"),
    "plain net, credit at one end": (
        plain({"cosine_out": [ok(0.4), ok(0.001), ok(-0.0004), ok(-0.002)], "gamma": 0.1}),
        {"coverage": FIRES}, "walked back"),
    "plain net, the input does not matter": (
        plain({"cosine": [ok(0.4), ok(0.001), ok(-0.0004), ok(-0.002)]}), {}, "holds"),
    "widths differ in a stream": (
        subject({"cosine": [ok(0.0), dead("other width"), ok(0.0), ok(0.0)]}), {}, "holds"),
    "widths differ in a stream, credit at one end": (
        subject({"cosine": [ok(0.9), dead("other width"), ok(0.9), ok(0.9)],
                 "cosine_out": [ok(0.9), ok(0.0), ok(0.0), ok(0.0)]}), {"coverage": FIRES}, "walked back"),
    "no credits, updates that agree": (subject(updates(0.9, 0.8, 0.7, 0.9)), {}, "holds"),
    "no credits, one update orthogonal": (subject(updates(0.9, 0.0, 0.7, 0.9)), {}, "holds"),
    "no credits, most updates orthogonal": (
        subject(updates(0.9, 0.0, 0.0, 0.0)), {"coverage": FIRES}, "walked back"),
    "no credits, updates sign-flipped": (
        subject(updates(-0.9, -0.8, -0.9, -0.9)), {"coverage": ASIDE}, "inconclusive"),
    "no credits, updates at their null": (subject(updates(0.0, 0.02, 0.0, 0.0)), {"coverage": ASIDE}, "inconclusive"),
    "random credit beside a net that learns": (
        subject({"cosine": [ok(0.01), ok(-0.02), ok(0.0), ok(0.02)], "gamma": 0.0025}), {"coverage": ASIDE},
        "inconclusive"),
    "sign-flipped credit beside a net that learns": (
        subject({"cosine": [ok(-0.9)] * 4, "gamma": -0.9}), {"coverage": ASIDE}, "inconclusive"),
    "one block of four covered, one points away": (
        subject({"cosine": [ok(0.9), ok(0.0), ok(0.0), ok(-0.9)], "gamma": 0.0}), {"coverage": ASIDE}, "inconclusive"),
    "what lies between the blocks is no block's growth": (
        subject({"hidden_norms": [9.0, 9.0, 9e3, 9e3, 9e3], "growth": [1.0, 1.1, 1.0, 1.0]}), {}, "holds"),
    "a block grows though the next state is small": (
        subject({"hidden_norms": [9.0] * 5, "growth": [1.0, 60.0, 1.0, 1.0]}), {"scale": FIRES}, "walked back"),
    "one block's own growth is not known": (
        subject({"growth": [1.0, None, 1.0, 1.0]}), {"scale": OPEN}, "inconclusive"),
    "no credits, no updates measured": (
        subject(updates() | {"measured": {}}), {"coverage": OPEN}, "inconclusive"),
    "residual unknown, quiet": (
        plain(residual=None), {}, "holds"),
    "residual unknown, quiet, init not known": (subject(residual=None), {"scale": OPEN}, "inconclusive"),
    "residual unknown, explodes by either": (
        plain({"hidden_norms": [9.0, 900.0, 900.0, 900.0, 900.0]}, residual=None), {"scale": FIRES}, "walked back"),
    "residual unknown, explodes": (
        subject({"hidden_norms": [9.0, 900.0, 900.0, 900.0, 900.0]}, residual=None),
        {"scale": OPEN}, "inconclusive"),
    "diverged": (subject(ended="diverged"), {}, "inconclusive"),
    "unfinished": (subject(ended="stopped"), {"reach": OPEN}, "inconclusive"),
    "lower half brings nothing": (
        subject(baselines={"half": by_seed(0.601, 0.603, 0.599)}), {"reach": FIRES}, "walked back"),
    "lower half harms": (subject(baselines={"half": by_seed(0.641, 0.643, 0.639)}), {"reach": FIRES}, "walked back"),
    "lower half straddles": (
        subject(baselines={"half": by_seed(0.590, 0.603, 0.595)}), {"reach": OPEN}, "inconclusive"),
    "lower half brings nothing, nor does bp's": (
        subject(baselines={"half": by_seed(0.601, 0.603, 0.599), "half_bp": by_seed(0.613, 0.612, 0.618)}),
        {"reach": ASIDE}, "holds"),
    "lower half brings nothing, bp's not known": (
        subject(baselines={"half": by_seed(0.601, 0.603, 0.599), "half_bp": None}), {"reach": OPEN}, "inconclusive"),
    "no rung": (subject(baselines={"half": None}), {"reach": OPEN}, "inconclusive"),
    "a rung of two seeds": (subject(baselines={"half": by_seed(0.57, 0.573)}), {"reach": OPEN}, "inconclusive"),
    "part of the blocks trained": (
        subject(trained=3, baselines={"half": None, "half_bp": None}), {"reach": ASIDE}, "holds"),
    "empty": (Evidence(name="empty"), dict.fromkeys(ALL, OPEN), "inconclusive"),
    "seeds without a moment": (
        Evidence(name="x", seeds=[SeedEvidence(seed=1), SeedEvidence(seed=2)]),
        dict.fromkeys(ALL, OPEN), "inconclusive"),
}  # fmt: skip


@pytest.mark.parametrize("name", CASES)
def test_planted_case_is_judged_right(name: str) -> None:
    evidence, differs, verdict = CASES[name]
    assert outcomes(evidence) == dict.fromkeys(ALL, PASSES) | differs
    assert judge(evidence).verdict == verdict


@pytest.mark.parametrize("check", ALL)
def test_each_check_fires_alone_and_passes_after_the_repair(check: str) -> None:
    sick = {
        "scale": subject({"hidden_norms": [9.0, 9.0, 500.0, 500.0, 500.0]}),
        "reference": subject({"precision": precise(0.5)}),
        "depth": subject(accuracy=LOW, baselines=LOWER),
        "reach": subject(baselines={"half": by_seed(0.600, 0.604, 0.598)}),
        "coverage": subject({key: [ok(0.9), ok(0.9), ok(0.0), ok(0.0)] for key in ("cosine", "cosine_out")}),
    }[check]
    found = judge(sick)
    assert [f.check for f in found.findings if f.outcome == FIRES] == [check] == found.decided_by
    assert found.verdict == "walked back"
    assert judge(subject()).verdict == "holds"


def test_there_are_cases_enough_and_of_every_kind() -> None:
    verdicts = [verdict for _, _, verdict in CASES.values()]
    assert len(CASES) >= 12
    assert set(verdicts) == {"holds", "walked back", "inconclusive", "not applicable"}
