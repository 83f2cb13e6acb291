"""The study utility: who walks back what, and how far a threshold can move.

Oracles: planted subjects, a dumb second implementation of every decider, brute force, and the findings' own ranges.
"""

import math
import random
from itertools import pairwise

import numpy as np
import pytest
from scipy import stats

import made_up
from test_checks_planted import CASES, by_seed, moment, null, ok, precise, subject
from walkback.audits import audit_plan
from walkback.checks import DEFAULT, judge
from walkback_paper import sweep, utility
from walkback_paper.base import STUDIES, Collected, Extent, Gap
from walkback_paper.sweep import by_verdict, first_change, stretches

STUDY = STUDIES.get("utility")
EXTENT = Extent(quick=True)
L = 4
WALKED, NOT, OPEN, ASIDE = "walked back", "not", "open", "not asked"


# Planted records


def made_run(config, accuracy, *, gamma=0.9, cosines=(0.9,) * L, hidden=(9.0, 10.0, 11.0, 12.0, 13.0)):
    """A finished run of two snapshots: healthy at first, and at its end what is asked for."""

    def snapshot(epoch, accuracy, gamma, cosines, hidden):
        return made_up.snapshot(
            epoch, accuracy, hidden, [4e-4] * len(hidden), cosines, images=128, gamma=gamma, loss=1 + config.seed / 1e4
        )

    if config.net_options["depth"] == 0:
        cosines, hidden = (), (9.0,)
    first = snapshot(0, 0.1, 0.5, (0.5,) * len(cosines), [9.0] * len(hidden))
    last = snapshot(config.epochs, accuracy, gamma, cosines, hidden)
    return made_up.run(config, [first, last], made_up.probes(last) if cosines else None)


FROZEN = (0.350, 0.352, 0.348)
HALF = (0.570, 0.573, 0.569)  # below GOOD by 3 points
GOOD = (0.600, 0.604, 0.598)
SHORT = {"dfa frozen short", "bp frozen short"}
PLANTED = {  # arm: accuracies, and what else is wrong with it
    "bp": (GOOD, {}),
    "fa": ((0.098, 0.099, 0.097), {}),  # at chance
    "dfa": (GOOD, {"hidden": (9.0, 600.0, 4e4, 3e6, 2e8)}),  # its stream explodes
    "dfa λ=0.01": (GOOD, {}),  # good
    "random": ((0.300, 0.304, 0.298), {"gamma": -0.1, "cosines": (-0.1,) * L}),  # Γ is negative
    "bp short": (GOOD, {}),
    "bp half": (HALF, {}),
    "fa half": ((0.098, 0.099, 0.097), {}),  # its lower half brings nothing
    "dfa half": (HALF, {}),
    **{name: (FROZEN, {}) for name in ("bp frozen", "fa frozen", "dfa frozen", "random frozen", "shallow", *SHORT)},
}
EXPECTED = {  # by decider, in their order; three seeds can show that nothing holds
    "BP": [NOT, NOT, OPEN, OPEN, OPEN, NOT],
    "FA": [WALKED, WALKED, WALKED, WALKED, OPEN, WALKED],
    "DFA": [NOT, NOT, OPEN, OPEN, OPEN, WALKED],
    "DFA λ=0.01": [NOT, NOT, OPEN, OPEN, OPEN, NOT],
    "random credit": [NOT, WALKED, WALKED, OPEN, WALKED, WALKED],
}


def gathered(planted, extent=EXTENT):
    arms = {arm.name: arm for arm in STUDY.arms(extent)}
    runs, gaps = {}, []
    for name, arm in arms.items():
        accuracies, changes = planted.get(name, ((), {}))
        there = list(zip(arm.configs, accuracies, strict=False))
        runs[name] = [made_run(config, accuracy, **changes) for config, accuracy in there]
        gaps += [Gap(name, config.seed, "not trained") for config in arm.configs[len(there) :]]
    return Collected("utility", extent, arms, runs, gaps)


@pytest.fixture(scope="module")
def planted():
    return gathered(PLANTED)


@pytest.fixture(scope="module")
def tables(planted):
    return {table.name: table for table in STUDY.tables(planted)}


@pytest.mark.parametrize("name", EXPECTED)
def test_planted_subjects_get_what_they_must_from_each_decider(tables, name) -> None:
    row = next(row for row in tables["utility"].rows if row[0] == name)
    assert dict(zip(utility.DECIDERS, row[1:-1], strict=True)) == dict(
        zip(utility.DECIDERS, EXPECTED[name], strict=True)
    )
    assert row[-1] == "3"


def test_the_counts_are_of_what_is_there_and_the_papers_stand_beside(tables) -> None:
    rows = {row[0]: row[1:-1] for row in tables["utility"].rows}
    # Claims that are there: FA (at chance), DFA (explodes) and DFA with a penalty (good).
    assert rows["claims walked back"] == [f"{n} of 3" for n in (1, 1, 1, 1, 0, 2)]
    # Controls that are there: BP, which nobody may walk back, and random credit, which nobody may let stand.
    assert rows["controls right"] == [f"{n} of 2" for n in (1, 2, 2, 2, 2, 2)]
    assert rows["walked back in the paper"] == ["0 of 5", "0 of 5", *[None] * 3, "3 of 5"]
    assert "no repetition of ours" in " ".join(tables["utility"].notes)


def test_a_net_without_runs_is_an_empty_row_and_a_note(tables) -> None:
    row = next(row for row in tables["utility"].rows if row[0] == "DFA without norm")
    assert row[1:-1] == [None] * len(utility.DECIDERS)
    assert row[-1] == "0 of 3"
    assert "not trained: bp no norm, dfa no norm" in tables["utility"].notes[-1]
    assert "walkback study run utility --quick" in tables["utility"].notes[-1]


BARE = {"bp no norm": (GOOD, {}), "dfa no norm": ((0.330, 0.334, 0.328), {})}


def test_without_terminal_norm_a_net_is_held_against_nets_without_one() -> None:
    """The frozen nets with a norm are all better than it is here: who took them would walk it back."""
    strong = {f"{rule} frozen": ((0.7, 0.7, 0.7), {}) for rule in ("bp", "fa", "dfa")}
    frozen = {f"{rule} no norm frozen": (FROZEN, {}) for rule in ("bp", "dfa")}
    g = gathered(PLANTED | BARE | strong | frozen)
    found = {s.name: utility.decided(e) for s, e in utility.evidence(g).items()}
    assert found["BP without norm"]["accuracy"] == OPEN
    assert found["DFA without norm"]["accuracy"] == WALKED
    without = {s.name: utility.decided(e) for s, e in utility.evidence(gathered(PLANTED | BARE | strong)).items()}
    assert without["DFA without norm"]["accuracy"] == OPEN


# The deciders, again


def dumb_answers(e):
    """Every decider but Γ's, of three seeds without predictions and every other number known: arrays, and scipy's t."""
    finals = [seed.final for seed in e.seeds]
    side = {name: np.array(list(b.accuracy.values())) for name, b in e.baselines.items()}
    own = np.array([m.accuracy for m in finals])

    def ends(gain, confidence=0.9875):
        return stats.t.interval(confidence, len(gain) - 1, loc=gain.mean(), scale=stats.sem(gain))

    pairs = [
        (own - side["frozen"], side["bp"] - side["frozen_bp"]),
        (own - side["shallow"], side["bp"] - side["shallow"]),
    ]
    fires = False
    for mine, task in pairs:
        high, (low_bp, high_bp) = ends(mine, 0.99375)[1], ends(task)
        fires |= high < 0.02 < low_bp or high < 0 <= high_bp
    (_, high), (low_bp, high_bp) = ends(own - side["half"]), ends(side["bp"] - side["half_bp"])
    less = high < 0.005 < low_bp or high < 0 <= high_bp
    lower = WALKED if less else ASIDE if high_bp < 0.005 else OPEN
    by_accuracy = NOT if own.mean() > 1 / e.classes else WALKED
    gamma = np.mean([m.gamma for m in finals])
    growths = np.array([max(b / a for a, b in pairwise(m.hidden_norms)) for m in finals])
    norms = np.mean([m.gradient_norms[-1] for m in finals])
    published = growths.mean() > 50 or norms < 1e-7 or (own - side["frozen"]).mean() < 0.02
    return {
        "chance": by_accuracy, "chance + Γ": NOT if by_accuracy == NOT and gamma > 0 else WALKED,
        "accuracy": WALKED if fires else OPEN, "lower half": lower, "published": WALKED if published else NOT,
    }  # fmt: skip


def drawn(seed):
    """A subject drawn at random, near enough to every threshold that all answers come up."""
    draw = random.Random(seed)
    log = lambda low, high: math.exp(draw.uniform(math.log(low), math.log(high)))  # noqa: E731

    def near(middle, spread):
        return tuple(min(1.0, max(0.0, draw.gauss(middle, spread))) for _ in range(3))

    growth, chord, gradient = log(2, 600), log(1e-5, 1), log(1e-9, 1e-4)
    best, lift = draw.uniform(0.08, 0.9), draw.choice([0.0, 0.02, 0.2])
    cosine = draw.choice([-0.05, 0.02, 0.035, 0.5])
    changes = []
    for _ in range(3):
        cosines = [draw.gauss(cosine, 0.02) for _ in range(L)]
        changes.append({
            "hidden_norms": [9.0, 9.0 * growth * draw.uniform(0.8, 1.2), 9.0, 9.0, 9.0],
            "precision": precise(chord * draw.uniform(0.5, 1.5)), "gradient_norms": [gradient] * (L + 1),
            "cosine": [ok(c) for c in cosines], "cosine_out": [ok(c) for c in cosines], "gamma": sum(cosines) / L,
        })  # fmt: skip
    return subject(
        *changes, accuracy=near(best, draw.choice([0.001, 0.01])), name=f"drawn {seed}", predicted=False,
        baselines={name: by_seed(*accuracies, predicted=False) for name, accuracies in (
            ("frozen", near(best - draw.choice([-0.05, 0.02, 0.1]), 0.005)),
            ("bp", near(0.5 + lift, 0.005)), ("frozen_bp", near(0.5, 0.005)),
            ("shallow", near(best - draw.choice([-0.1, 0.1]), 0.005)),
            ("half", near(best - draw.choice([-0.05, 0.0, 0.1]), draw.choice([0.0, 0.005]))),
            ("half_bp", near(0.5 + lift - draw.choice([0.0, 0.02, 0.09]), 0.001)),
        )},
    )  # fmt: skip


def test_deciders_agree_with_a_dumb_second_implementation() -> None:
    seen = {name: set() for name in utility.DECIDERS}
    for seed in range(150):
        e = drawn(seed)
        found = utility.decided(e)
        for name, answer in dumb_answers(e).items():
            assert found[name] == answer, (e.name, name)
            seen[name].add(answer)
    both = {WALKED, NOT}
    assert {name: answers for name, answers in seen.items() if name != "Γ"} == {
        **dict.fromkeys(("chance", "chance + Γ", "published"), both),
        "accuracy": {WALKED, OPEN},
        "lower half": {WALKED, OPEN, ASIDE},
    }  # every answer that three seeds can give came up, so every one was compared


def test_every_answer_of_the_planted_cases_amounts_to_a_decision() -> None:
    few = {"carried by few": WALKED, "chance": WALKED, "even": NOT, "not reported": ASIDE}
    for name, (e, *_) in CASES.items():
        assert utility.decided(e)["Γ"] == few.get(judge(e).verdicts.gamma, OPEN), name


@pytest.mark.parametrize(
    ("accuracy", "gamma", "expected"),
    [
        ((0.1, 0.1, 0.1), 0.5, (WALKED, WALKED)),  # chance exactly is not above it
        ((0.5, 0.5, 0.5), 0.0, (NOT, WALKED)),
        ((0.5, math.nan, 0.5), 0.5, (OPEN, OPEN)),
        ((0.5, math.nan, 0.5), -0.5, (OPEN, WALKED)),
        ((0.5, 0.5, 0.5), math.nan, (NOT, OPEN)),
        ((0.05, 0.05, 0.05), None, (WALKED, WALKED)),
    ],
)
def test_what_is_not_known_is_neither_good_nor_bad(accuracy, gamma, expected) -> None:
    e = subject({"gamma": gamma}, accuracy=accuracy)
    found = utility.decided(e)
    assert (found["chance"], found["chance + Γ"]) == expected


# The thresholds


SWEPT = {swept.name: swept for swept in utility.SWEPT}
LOW = {"rotated_gamma": null(std=0.005)}


def credits(*by_block):
    """The same cosines with every seed but for a little, each beside a measured null."""
    return [LOW | {"cosine_out": [ok(c + shift) for c in by_block]} for shift in (0.0, 0.0005, 0.001)]


SUBJECTS = {e.name: e for e in [
    subject(name="good"),
    subject(*({"hidden_norms": [9.0, 9.0 * growth, 9.0, 9.0, 9.0]} for growth in (90.0, 70.0, 2000.0)),
            name="explodes", accuracy=(0.40, 0.42, 0.41)),
    subject(name="gains little", accuracy=(0.352, 0.356, 0.354), baselines={"bp": by_seed(0.480, 0.482, 0.479)}),
    subject(name="upper half alone", baselines={"half": by_seed(0.600, 0.604, 0.599)}),
    subject(*credits(0.9, 0.01, 0.01, 0.01), name="carried", rule=None),
    subject(*credits(0.001, 0.001, 0.001, 0.001), name="chance", rule=None),
    subject({"gradient_norms": [3e-6] * 5}, name="small gradient", accuracy=(0.39, 0.40, 0.38)),
]}  # fmt: skip


@pytest.fixture(scope="module")
def sweeps():
    return {name: {s: stretches(e, swept) for s, e in SUBJECTS.items()} for name, swept in SWEPT.items()}


def verdict_at(swept, e, value):
    return swept.of(judge(e, DEFAULT.but(swept.name, value), swept.protocol))


@pytest.mark.parametrize("name", SWEPT)
def test_second_implementation_a_sweep_is_what_brute_force_halving_and_the_findings_ranges_find(
    name, sweeps, monkeypatch
) -> None:
    swept, draw = SWEPT[name], random.Random(name)
    assert any(len(by_verdict(parts)) > 1 for parts in sweeps[name].values()), "else nothing is compared"
    for who, parts in sweeps[name].items():
        e = SUBJECTS[who]
        assert (parts[0].low, parts[-1].high) == (swept.low, swept.high)
        assert all(math.nextafter(a.high, math.inf) == b.low and a[2:] != b[2:] for a, b in pairwise(parts))
        for value in [draw.uniform(swept.low, swept.high) for _ in range(4)] + swept.grid(9):
            part = next(p for p in parts if p.low <= value <= p.high)
            assert verdict_at(swept, e, value) == part.verdict, (who, value)
        if name != "depth.confidence":  # no finding says how far it could move
            ranges = [f.ranges[name] for f in judge(e, protocol=swept.protocol).findings if name in f.ranges]
            low = max([swept.low, *(low for low, _ in ranges if low is not None)])
            high = min([swept.high, *(high for _, high in ranges if high is not None)])
            part = next(p for p in parts if p.low <= DEFAULT[name] <= p.high)
            assert (part.low, part.high) == (pytest.approx(low, rel=1e-12), pytest.approx(high, rel=1e-12)), who
    monkeypatch.setattr(sweep, "_ends", lambda judgement, name: [])
    assert {who: stretches(SUBJECTS[who], swept) for who in SUBJECTS} == sweeps[name]


@pytest.mark.parametrize("name", SWEPT)
def test_no_verdict_changes_just_inside_and_the_one_named_flips_just_outside(name, sweeps) -> None:
    swept, default = SWEPT[name], DEFAULT[name]
    here = {who: verdict_at(swept, e, default) for who, e in SUBJECTS.items()}
    verdicts = {who: by_verdict(parts) for who, parts in sweeps[name].items()}
    for step, away, end in ((-1, -math.inf, swept.low), (1, math.inf, swept.high)):
        edge = first_change(verdicts, default, step)
        assert (edge.at - default) * step >= 0
        assert {who: verdict_at(swept, e, edge.at) for who, e in SUBJECTS.items()} == here
        if not edge.flips:
            assert edge.at == end
            continue
        beyond = math.nextafter(edge.at, away)
        moved = {who: verdict_at(swept, e, beyond) for who, e in SUBJECTS.items()}
        assert {who for who in moved if moved[who] != here[who]} == {who for who, _, _ in edge.flips}
        assert all(was.verdict == here[who] and then.verdict == moved[who] for who, was, then in edge.flips)


def test_some_subject_changes_twice_and_a_null_without_spread_does_not_stop_a_sweep(sweeps) -> None:
    assert any(len(by_verdict(parts)) > 2 for parts in sweeps["depth.margin"].values())
    flat = subject(LOW | {"rotated_gamma": null(std=0.0)}, name="flat", rule=None)
    assert {part.verdict for part in stretches(flat, SWEPT["spread.share"])} == {"even"}


def test_verdicts_do_not_rest_on_the_moments_between_init_and_the_last() -> None:
    for e in (case[0] for case in CASES.values()):
        blocks = e.blocks or L
        wild = moment(blocks, hidden_norms=[9.0, 9e5, *[9e9] * blocks][: blocks + 1], precision=precise(0.5))
        seeds = [s.changed(moments=[*s.moments[:-1], wild, wild, *s.moments[-1:]]) for s in e.seeds if s.moments]
        long = e.changed(seeds=seeds)
        short = sweep._final(long)
        assert all(len(seed.moments) <= 2 for seed in short.seeds)
        for protocol in ("ours", "published"):
            full, cut = judge(long, protocol=protocol), judge(short, protocol=protocol)
            assert (full.verdict, full.findings) == (cut.verdict, cut.findings)


def test_the_table_tells_the_ranges_as_the_sweeps_have_them(planted, tables) -> None:
    rows = {row[0]: row for row in tables["thresholds"].rows}
    assert list(rows) == list(SWEPT)
    subjects = {e.name: e for e in utility.evidence(planted).values()}
    _, answer, default, who, low, high, below, above, steady = rows["scale.growth"]
    assert (answer, default, who) == ("published", "50", "published")
    # DFA's stream grows 75 times over one block; above that it holds. Below 13/12 everybody explodes, beyond the sweep.
    grown = 3e6 / 4e4
    assert {f.check: f.value for f in judge(subjects["DFA"], protocol="published").findings}["scale"] == grown
    assert high == pytest.approx(grown, rel=1e-9)
    assert above == "DFA: walked back → holds"
    assert (low, below) == ("≤ 2.00", "nobody")
    assert steady == "≤ 2.00 to 75.0"
    moves = [row for row in tables["moves"].rows if row[0] == "scale.growth"]
    assert moves == [["scale.growth", "published", "50", "DFA", "walked back to 75.0, holds"]]
    assert tables["thresholds"].csv()
    assert tables["thresholds"].markdown()


# Declaration, gaps


def test_runs_are_those_of_every_other_study_and_audit() -> None:
    folders = {config.folder() for config in STUDY.configs(Extent())}
    assert {"cifar10-resmlp-dfa-s42-7ed32e6e40", "cifar10-resmlp-dfa_k_0-s42-aebaf31b2a"} <= folders
    audited = audit_plan(["bp", "fa", "dfa"], data="cifar10", seeds=3, epochs=100)
    assert {config.folder() for config in audited} <= folders
    names = [arm.name for arm in STUDY.arms(Extent())]
    assert names[:3] == ["bp", "fa", "dfa"]
    assert names[-2:] == ["random", "random frozen"]
    assert {s.arm for s in utility.SUBJECTS} < set(names)


@pytest.mark.parametrize("seeds", [0, 1])
def test_gaps_are_gaps_and_no_failure(seeds) -> None:
    g = gathered({arm: (accuracies[:seeds], changes) for arm, (accuracies, changes) in PLANTED.items() if arm != "bp"})
    utility_table, thresholds, _ = STUDY.tables(g)
    rows = {row[0]: row for row in utility_table.rows}
    assert rows["BP"][1:-1] == [None] * len(utility.DECIDERS)
    assert rows["DFA"][-1] == f"{seeds} of 3"
    assert "Missing" in utility_table.notes[-1]
    if seeds == 0:
        assert all(row[4:] == [None] * 5 for row in thresholds.rows)
        assert rows["claims walked back"][1] == "0 of 0"
    else:
        assert rows["DFA"][6] == WALKED  # one seed is enough for the published protocol to see it explode
        assert rows["FA"][3] == OPEN  # bp is not there: the task may be too easy


def test_a_baseline_that_lacks_a_seed_leaves_depth_open() -> None:
    g = gathered(PLANTED | {"dfa frozen short": (FROZEN[:2], {})})
    found = {s.name: utility.decided(e) for s, e in utility.evidence(g).items()}
    assert found["DFA λ=0.01"]["accuracy"] == OPEN
