"""What every check says of planted evidence, for tests/golden/checks: one file per check, each sentence once.

`make golden` writes the files anew; their diff is read before it lands.
"""

import math
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any

import conftest  # noqa: F401 — it finds the tests of each room
import test_checks_planted as planted
from test_checks_planted import CASES, INF, NAN, around, but, by_seed, credits, moment, precise
from walkback.checks import CHECKS, DEFAULT, Check, Finding, FirstFired, Interval, Protocol, in_order, judge
from walkback.records import Baseline, Evidence, Moment, Training
from walkback.records.evidence import Effort

FOLDER = Path(__file__).parent / "golden" / "checks"
subject, plain = partial(planted.subject, seeds=3), partial(planted.plain, seeds=3)
LOUD = {"hidden_norms": [9.0, 10.0, 11e3, 12e3, 13e3]}
BELOW = {"gradient_norms": [1e-4] * 4 + [math.nextafter(1e-7, 0)], "precision": precise(3e-7, 0.25)}
SMALL = {"gradient_norms": [1e-4] * 4 + [5e-8]}
FROZEN = Baseline.number(0.349)
UNSEEN = planted.subject().changed(seeds=[seed.changed(hits=None) for seed in planted.subject().seeds])


def stream(*norms: Any, **more: Any) -> dict[str, Any]:
    return {"hidden_norms": list(norms), **more}


def at(top: float) -> dict[str, Any]:
    """A stream that one block makes so many times larger."""
    return stream(1.0, top, top, top, top)


def gaining(share: float) -> Evidence:
    """A gain over a frozen net that was given by seed, about the required one."""
    typed = {"frozen": Baseline.by_seed(dict.fromkeys((42, 123, 456), 0.5))}
    return subject(accuracy=(0.5 + share + 0.0001, 0.5 + share, 0.5 + share - 0.0001), baselines=typed)


def row(accuracy: float, frozen: Baseline | None = FROZEN, **known: Any) -> Evidence:
    """One line of a published table: means, as if of one training without a seed."""
    return Evidence(
        name="row", residual=True, baselines={} if frozen is None else {"frozen": frozen},
        seeds=[Training(moments=[Moment(accuracy=accuracy, **known)])],
    )  # fmt: skip


MORE: dict[str, dict[str, Evidence]] = {
    "scale": {
        "above on two seeds of three": subject(at(60), at(70), {}),
        "at the limit, above and within": subject(at(50), at(60), {}),
        "the ends alone": subject(stream(1.0, None, None, None, 5e8)),
        "one seed unknown, one within, one above": subject({"hidden_norms": None}, {}, at(60)),
        "norms that are no numbers": subject(stream(9.0, 0.0, 9.0, NAN, 900.0), {}, {}),
        "another growth by seed": subject(*(stream(9.0, 9.0 * by, 9.0, 9.0, 9.0) for by in (2.0, 3.0, 4.0))),
        "just within": subject(at(49.996)),
        "a mean that one seed carries": subject({}, stream(9.0, 9000.0, 9e3, 9e3, 9e3), {}),
        "only the ends, published": row(0.36, hidden_norms=[9, None, None, None, 4e4]),
        "a net without a stream": subject(residual=False),
        "a net without a stream or norms": subject({"hidden_norms": None}, residual=False),
        "plain": plain(),
        "plain, one block loud": plain(LOUD),
        "plain, apart": plain(LOUD, {}, stream(9.0, None, 11.0, 12.0, 13.0)),
        "plain, only bounded": plain(stream(9.0, None, 11e9, 12e9, 13e9)),
        "a stream or not, loud": subject(stream(9.0, 900.0, 900.0, 900.0, 900.0), residual=None),
        "a stream or not, loud either way": plain(stream(9.0, 900.0, 900.0, 900.0, 900.0), residual=None),
        "a stream or not, quiet": subject(residual=None),
        "a stream or not, quiet either way": plain(residual=None),
        "a stream or not, shrunk at init": plain(
            stream(*[9.0] * 5, start=stream(9.0, 0.09, 0.09, 0.09, 0.09)), residual=None),
        "a stream or not, a norm missing": subject(stream(9.0, None, 9.0, 9.0, 9.0), residual=None),
        "a stream or not, only bounded": subject({"hidden_norms": None, "hidden_at": {0: 9.0, 4: 9e9}}, residual=None),
        "a stream or not, just above": subject(at(50.004), residual=None),
        "a stream or not, just within": subject(at(49.996), residual=None),
    },
    "reference": {
        "another precision by seed": subject({}, {"precision": precise(2e-6)}, {"precision": precise(5e-6)}),
        "one seed off, one not measured": subject({}, {"precision": precise(0.5)}, {"precision": None}),
        "by two step sizes": subject({"precision": precise(0.002).changed(differences=True)}),
        "in another format": subject({"dtype": "bfloat16 inside autocast"}),
        "in float64": subject({"dtype": "float64"}),
        "in two formats": subject({"dtype": "float64"}, {}, {}),
        "at the floor": subject({"gradient_norms": [1e-4] * 4 + [1e-7]}),
        "below the floor": subject(BELOW),
        "below the floor on one seed": subject(BELOW, {}, {}),
        "below the floor, the clamp not known": subject(BELOW | {"precision": precise(3e-7, NAN)}),
        "below the floor, not finite": subject(BELOW | {"precision": precise(NAN, 0.25, "not finite")}),
        "below the floor, a large stream": subject(BELOW | stream(1.0, 2.0, 3.0, 4.0, 51.0)),
        "below the floor, a stream at the limit": subject(BELOW | stream(1.0, 2.0, 3.0, 4.0, 50.0)),
        "below the floor, a small loss": subject(BELOW | {"loss": 0.05}),
        "below the floor, a loss at the limit": subject(BELOW | {"loss": 0.1}),
        "below the floor, both": subject(BELOW | stream(1.0, 2.0, 3.0, 4.0, 51.0, loss=0.05)),
        "below the floor, the loss not known": subject(BELOW | {"loss": None}),
        "below the floor, the stream begins at zero": subject(BELOW | stream(0.0, 1, 1, 1, 1)),
        "below the floor, the stream's end not known": subject(BELOW | stream(1.0, 1, 1, 1, NAN)),
        "below the floor, an embedding that grew": Evidence(
            name="x", seeds=[Training(seed=1, moments=[
                moment(epoch=0), moment(hidden_norms=[2e4] * 5, gradient_norms=[1e-9] * 5)])]),
        "below the floor, the ends alone": subject(
            BELOW | {"hidden_norms": None, "hidden_at": {0: 1.0}, "deepest_hidden": 60.0}),
        "at a small batch": subject(SMALL),
        "at a large batch": subject(SMALL | {"reference_batch": 2048}),
        "at a batch that is not known": subject(SMALL | {"reference_batch": None}),
        "a proxy at layer 2": subject({"gradient_norms": [None, None, 1e-9, None, None], "precision": None}),
        "a proxy from a log": Evidence(
            name="x", residual=True, seeds=[Training(moments=[Moment(gradient_at={1: 1.0, 2: 5e-8})])]),
        "published, not finite": row(0.5, gradient_norms=[NAN, 1e-4, 1e-4], reference_batch=128),
    },
    "depth": {
        "just above the margin": gaining(0.0204), "above the margin": gaining(0.0304), "a loss": gaining(-0.0304),
        "frozen given by seed": subject(
            baselines={"frozen": Baseline.by_seed({42: 0.350, 123: 0.352, 456: 0.348}, typed=True)}),
        "frozen given by seed, bp's as a number": subject(baselines={
            "frozen": Baseline.by_seed({42: 0.350, 123: 0.352, 456: 0.348}, typed=True),
            "frozen_bp": Baseline.number(0.384)}),
        "no frozen net of bp": but({"frozen_bp": None}),
        "bp and its frozen net have fewer seeds": but({name: around(planted.BEGUN[name], 3) for name in
                                                       ("bp", "frozen_bp")}),
        "two seeds": but(accuracy=(0.6, 0.602)),
        "one seed": but(accuracy=(0.6,)),
        "one training of bp": but({"bp": by_seed(0.615)}),
        "a seed of the shallow net missing": but({"shallow": by_seed(0.34, 0.342)}),
        "a seed of bp missing": but({"frozen_bp": by_seed(0.38, 0.382, 0.381, 0.38)}),
        "predictions not here": UNSEEN,
        "not every seed clears it": but(accuracy=(0.372, 0.45, 0.45, 0.45, 0.359)),
        "equal gains": but(accuracy=(0.4,) * 5, baselines={
            name: by_seed(*[value] * 5) for name, value in (("frozen", 0.3), ("shallow", 0.3))}, predicted=False),
        "bp not clear": but({"bp": by_seed(0.36, 0.45, 0.37, 0.42, 0.39)}),
        "two trainings stopped": planted.subject().changed(seeds=[
            seed.changed(**{"ended": "stopped"} if place < 2 else {})
            for place, seed in enumerate(planted.subject().seeds)]),
        "the means alone": row(0.5), "means without a frozen net": row(0.5, None),
        "a mean that is not finite": row(INF),
    },
    "reach": {
        "predictions not here": UNSEEN,
        "near the margin": but({"half": by_seed(0.59, 0.60, 0.595, 0.585, 0.604)}),
        "harm that bp does not do": but({"half": around(0.63)}),
        "a seed of the half net missing": but({"half": by_seed(0.57, 0.571)}),
        "bp's half has fewer seeds": but({"half_bp": around(0.58, 3)}),
        "the halves typed in": but({"half": Baseline.number(0.57), "half_bp": Baseline.number(0.58)}),
        "half of the blocks train": subject(trained=2, depth=None, baselines={"half": None, "half_bp": None}),
        "some blocks of unknown many train": Evidence(name="x", trained=2),
    },
    "chance": {
        "noise": planted.subject(*(credits(*[g] * 4) for g in (-0.3, 0.3, -0.2, 0.25, 0.0))),
        "two seeds": planted.subject(credits(0.0, 0.0, 0.0, 0.0), seeds=2),
        "one seed": planted.subject(credits(0.9, 0.9, 0.9, 0.9), seeds=1),
        "neither null nor width": planted.subject({"rotated_gamma": None}, width=None),
        "away, the null not measured": planted.subject(credits(-0.9, -0.9, -0.9, -0.9, rotated_gamma=None)),
    },
    "spread": {
        "another block by seed": planted.subject(*(
            credits(*[0.9 if block == seed % 4 else 0.0 for block in range(4)]) for seed in range(5))),
        "even, three seeds": subject(),
        "one seed": planted.subject(seeds=1),
    },
    "size": {"half of the blocks": planted.subject({"frobenius": planted.sizes(0.9, 0.9, -0.9, -0.9)})},
}  # fmt: skip


OWN = {"scale": "scale.growth", "reference": "reference.chord", "depth": "depth.margin", "reach": "reach.margin",
       "chance": "chance.small", "spread": "spread.share", "size": "size.share"}  # fmt: skip


def made(check: Check, outcome: str, of: str | None = None, **fields: Any) -> Finding:
    """A finding of a check; `of`: the threshold that it went by, if it is not the check's own."""
    name = of or OWN.get(check.name, "scale.growth")
    given = {"basis": "exact", "threshold": DEFAULT[name], **fields}
    return Finding(
        check=check.name, outcome=outcome, stable_range=(None, None), ranges={name: (None, None)}, says="", **given
    )  # fmt: skip


# Findings that evidence gives seldom or never, by the words that stand beside them.
FOUND: dict[str, list[dict[str, Any]]] = {
    "scale": [
        {"outcome": "fires", "value": 168.2}, {"outcome": "passes", "value": 1.83},
        {"outcome": "inconclusive", "value": None, "basis": "missing"}, {"outcome": "inconclusive", "value": 60.0},
        {"outcome": "fires", "value": 3390.0, "of": "scale.growth_over_init"},
    ],
    "reference": [
        {"outcome": "passes", "value": 3.4e-7}, {"outcome": "fires", "value": 0.5}, {"outcome": "open", "value": 0.01},
        {"outcome": "fires", "value": 4.2e-9, "of": "reference.floor"},
        {"outcome": "passes", "value": 8.9e-7, "of": "reference.floor"},
        {"outcome": "inconclusive", "value": None, "of": "reference.floor"},
        {"outcome": "not applicable", "value": None, "of": "reference.floor"},
    ],
    "depth": [
        {"outcome": "fires", "value": -0.024,
         "parts": {"frozen": Interval(value=0.306), "shallow": Interval(value=-0.024)}},
        {"outcome": "fires", "value": 0.0, "parts": {"frozen": Interval(value=0.0)}},
        {"outcome": "passes", "value": 0.05}, {"outcome": "open"},
    ],
}  # fmt: skip


def number(value: float | None) -> str:
    return "–" if value is None else f"{value:.6g}"


def beside(check: Check, finding: Finding, protocol: Protocol) -> list[str]:
    """What a check says beside its finding; a clause where it can decide."""
    words = {"clause": check.phrase(finding)} if protocol == "published" or check.answer == "accuracy" else {}
    words |= {"noun": check.noun(finding), "means": check.meaning(finding), "do": check.advice(finding)}
    return [f"  {name}: {text}" for name, text in words.items() if text]


def block(check: Check, evidence: Evidence, protocol: Protocol) -> str:
    """All that a check finds and says."""
    f = check(evidence, protocol=protocol)
    ranges = [f"{name} {number(low)} … {number(high)}" for name, (low, high) in f.ranges.items()]
    parts = [f"{name} {number(i.value)} ({number(i.low)} to {number(i.high)})" for name, i in f.parts.items()]
    lines = [
        f"{f.check} {f.outcome}, {f.basis}: {number(f.value)} ({number(f.low)} to {number(f.high)}), threshold "
        f"{number(f.threshold)}, {'; '.join(ranges)}{', wants seeds' if f.wants_seeds else ''}",
        *([f"  parts: {', '.join(parts)}"] if parts else []), f"  {f.says}", *(f"  ! {text}" for text in f.warnings),
        *beside(check, f, protocol),
    ]  # fmt: skip
    return "\n".join(lines)


def text_of(check: Check) -> str:
    """The golden file of one check: every different answer once, under the names of the cases that get it."""
    cases = {name: evidence for name, (evidence, _) in CASES.items()} | MORE.get(check.name, {})
    names: dict[str, list[str]] = {}
    for protocol in check.quantity:
        for name, evidence in cases.items():
            where = "" if protocol == "ours" else " (published)"
            names.setdefault(block(check, evidence, protocol), []).append(f"{name}{where}")
    blocks = [f"# {' | '.join(each)}\n{text}\n" for text, each in names.items()]
    for fields in FOUND.get(check.name, []):
        finding = made(check, **fields)
        protocol: Protocol = "published" if finding.ranges.keys() & {"scale.growth", "reference.floor"} else "ours"
        shown = " ".join(f"{name}={value}" for name, value in fields.items() if name != "parts")
        blocks.append("\n".join([f"# made: {shown}", *beside(check, finding, protocol), ""]))
    return "\n".join(blocks)


def tried(**fields: Any) -> Evidence:
    """A healthy subject whose learning rates were chosen otherwise."""
    return planted.subject(effort=Effort(**{"tuned": True, "trials": {"subject": 5, "bp": 5}} | fields))


def with_seeds(*changes: dict[str, Any], **fields: Any) -> Evidence:
    """A healthy subject, of which the first seeds are changed."""
    seeds = planted.subject(**fields).seeds
    changed = [seed.changed(**change) for seed, change in zip(seeds, changes, strict=False)]
    return planted.subject(**fields).changed(seeds=[*changed, *seeds[len(changed) :]])


# What is said of a whole subject, beside the planted cases.
SUBJECTS: dict[str, Evidence] = {
    "one rate": planted.subject(effort=None), "no baselines": planted.subject(effort=None).changed(baselines={}),
    "unequal effort": tried(tuned=False, trials={"subject": 9, "frozen": 5}, why="the subject had more trials"),
    "a rate that no trial chose": tried(alike=False, tuned=False, why="bp was trained at another rate"),
    "the best baseline rises": tried(rises=0.0123), "the best baseline does not rise": tried(rises=0.01),
    "a budget": tried(rises=-0.004).changed(budget="8 epochs of 4,000 samples"),
    "at chance": but(accuracy=0.1), "just above chance": but(accuracy=0.131), "at the share of a class": but(
        accuracy=0.5, chance=0.5), "classes not known": but(accuracy=0.1, classes=None),
    "one seed diverged": with_seeds({"ended": "diverged"}),
    "two seeds diverged": with_seeds({"ended": "diverged"}, {"ended": "diverged"}, seeds=12),
    "diverged, guessing not known": with_seeds({"ended": "diverged"}, classes=None),
    "some stopped, some not known": with_seeds({"ended": "stopped"}).changed(classes=1),
    "credits that are zero": planted.subject({"measured": {"zero credits": planted.sizes(0.0, 0.01, 0.011, 1.0)}}),
    "not seen, and why": with_seeds(*[{"standing": "not seen", "standing_why": "another backward"}] * 5),
    "standing not known": with_seeds(*[{"standing": None}] * 5),
    "declared, updates not measured": with_seeds(*[{"standing": "declared"}] * 5),
    "declared, no rule": with_seeds(*[{"standing": "declared"}] * 5, rule=None),
    "copies": subject({"loss": 1.1}, accuracy=(0.6, 0.6, 0.6)),
    "doubts, notes and symptoms of its reader": planted.subject(doubts=["a doubt"], notes=["a note"], symptoms=["odd"]),
    "even, four seeds": planted.subject(seeds=4), "an odd number of blocks": planted.subject(blocks=3),
    "without a stream": plain(), "a stream or not": plain(residual=None),
    "several numbers not finite": planted.subject(
        {"gamma": NAN, "hidden_norms": [1, 1, INF, 1, 1], "null_gamma": planted.null(NAN)}),
    "undated": Evidence(name="x", residual=True, seeds=[Training(seed=1, moments=[Moment(hidden_norms=[1, 99])])]),
    "never": Evidence(name="x", residual=True, seeds=[
        Training(seed=2, moments=[Moment(epoch=3, hidden_norms=[1, 2]), Moment(epoch=4)])]),
    "DFA as published": row(
        0.306, hidden_norms=[8.7, None, None, None, 4.5e8], gradient_norms=[4.2e-9] * 5, reference_batch=128),
    "nothing, published": row(0.5, None), "a published row": row(0.401), "a published row that fires": row(0.2),
}  # fmt: skip


def epochs_of(first: FirstFired) -> str:
    return ", ".join(f"{seed}: {epoch}" for seed, epoch in first.epochs.items() if epoch is not None) or "no epoch"


def judged(evidence: Evidence, protocol: Protocol) -> str:
    """All that is answered of a subject, without its findings."""
    found = judge(evidence, protocol=protocol)
    words = [] if found.verdicts is None else [found.verdicts.accuracy, found.verdicts.lower_half, found.verdicts.gamma]
    rates = ", ".join([found.rates or "–", *(f"{arm} {count}" for arm, count in found.trials.items())])
    lines = [
        f"{found.answer} by {', '.join(found.decided_by)}: {' / '.join(words) or '–'}; rates {rates}; median cosine "
        f"{number(found.median_cosine)}; accuracy {number(found.accuracy.mean)} ± {number(found.accuracy.std)}, n = "
        f"{found.accuracy.n}; budget: {found.budget or '–'}",
        f"  {found.says}", *(f"  symptom: {text}" for text in found.symptoms), *(f"  note: {n}" for n in found.notes),
        *(f"  {name}: {epochs_of(each)}, {each.says}, {each.fired}, {each.followed}, {each.in_part}"
          for name, each in found.first_fired.items() if each.known_at or each.moments),
    ]  # fmt: skip
    return "\n".join(lines)


def text_of_verdicts() -> str:
    """The golden file of the judgement: every case by both protocols, each answer once."""
    names: dict[str, list[str]] = {}
    protocols: tuple[Protocol, ...] = ("ours", "published")
    for name, evidence in ({name: evidence for name, (evidence, _) in CASES.items()} | SUBJECTS).items():
        for protocol in protocols:
            where = "" if protocol == "ours" else " (published)"
            names.setdefault(judged(evidence, protocol), []).append(f"{name}{where}")
    return "\n".join(f"# {' | '.join(each)}\n{text}\n" for text, each in names.items())


def files() -> Iterator[tuple[Path, str]]:
    """The file of each check, and what it must hold."""
    for check in in_order():
        yield FOLDER / f"{check.name}.txt", text_of(CHECKS.get(check.name))
    yield FOLDER / "verdict.txt", text_of_verdicts()


if __name__ == "__main__":
    FOLDER.mkdir(exist_ok=True)
    for path, text in files():
        path.write_text(text, encoding="utf-8")
        print(f"{len(text):>9,} {path.name}")
