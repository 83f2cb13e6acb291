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
from test_checks_planted import CASES, SEEDS, by_seed, moment, null, ok, precise, subject
from walkback.audits.trained import audit_plan
from walkback.checks import DEFAULT, judge
from walkback.report.figures import save, style
from walkback.studies import sweep, utility
from walkback.studies.base import STUDIES, Collected, Extent, Gap, gather
from walkback.studies.sweep import by_verdict, first_changes, stretches

STUDY = STUDIES.get("utility")
EXTENT = Extent(quick=True)
L = 4
WALKED, NOT, OPEN, ASIDE = "walked back", "not", "inconclusive", "not applicable"


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
EXPECTED = {  # by decider, in their order
    "BP": [NOT] * 9,
    "FA": [WALKED, WALKED, NOT, NOT, WALKED, WALKED, NOT, WALKED, WALKED],
    "DFA": [NOT, NOT, WALKED, NOT, NOT, NOT, NOT, WALKED, WALKED],
    "DFA λ=0.01": [NOT, NOT, NOT, NOT, NOT, OPEN, NOT, OPEN, NOT],  # no run of its upper half is declared
    "random credit": [NOT, WALKED, NOT, NOT, WALKED, OPEN, ASIDE, WALKED, WALKED],
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
    assert rows["claims walked back"] == [f"{n} of 3" for n in (1, 1, 1, 0, 1, 1, 0, 2, 2)]
    # Controls that are there: BP, which nobody may walk back, and random credit, which everybody should.
    assert rows["controls right"] == [f"{n} of 2" for n in (1, 2, 1, 1, 2, 1, 1, 2, 2)]
    assert rows["walked back in the paper"] == ["0 of 5", "0 of 5", *[None] * 6, "3 of 5"]
    assert "no repetition of ours" in " ".join(tables["utility"].notes)


def test_a_net_without_runs_is_an_empty_row_and_a_note(tables) -> None:
    row = next(row for row in tables["utility"].rows if row[0] == "DFA without norm")
    assert row[1:-1] == [None] * len(utility.DECIDERS)
    assert row[-1] == "0 of 3"
    assert "not trained: bp no norm, dfa no norm" in tables["utility"].notes[-1]
    assert "walkback study run utility --quick" in tables["utility"].notes[-1]


BARE = {"bp no norm": (GOOD, {}), "dfa no norm": ((0.330, 0.334, 0.328), {})}


def test_without_terminal_norm_depth_is_inconclusive_until_its_frozen_nets_are_there() -> None:
    g = gathered(PLANTED | BARE)
    found = {s.name: utility.decided(e) for s, e in utility.evidence(g).items()}
    for name in ("BP without norm", "DFA without norm"):
        assert found[name] == dict(zip(utility.DECIDERS, [NOT, NOT, NOT, NOT, OPEN, OPEN, NOT, OPEN, NOT], strict=True))


def test_without_terminal_norm_a_net_is_held_against_nets_without_one() -> None:
    """The frozen nets with a norm are all better than BP is here: who took them would walk it back."""
    strong = {f"{rule} frozen": ((0.7, 0.7, 0.7), {}) for rule in ("bp", "fa", "dfa")}
    frozen = {f"{rule} no norm frozen": (FROZEN, {}) for rule in ("bp", "dfa")}
    g = gathered(PLANTED | BARE | strong | frozen)
    found = {s.name: utility.decided(e) for s, e in utility.evidence(g).items()}
    unasked = {"reach": OPEN, "all": OPEN}  # no run of their upper halves is declared
    assert found["BP without norm"] == dict.fromkeys(utility.DECIDERS, NOT) | unasked
    walked = [NOT, NOT, NOT, NOT, WALKED, OPEN, NOT, WALKED, WALKED]
    assert found["DFA without norm"] == dict(zip(utility.DECIDERS, walked, strict=True))


# The deciders, again


def dumb_answers(e):
    """Every decider for evidence in which every number is known: arrays, and scipy's t."""
    finals = [seed.final for seed in e.seeds]
    accuracy = np.array([m.accuracy for m in finals])
    gain = {
        "own": accuracy - np.array(list(e.baselines["frozen"].accuracy.values())),
        "task": np.array(list(e.baselines["bp"].accuracy.values()))
        - np.array(list(e.baselines["frozen_bp"].accuracy.values())),
        "lower half": accuracy - np.array(list(e.baselines["half"].accuracy.values())),
        "bp's lower half": np.array(list(e.baselines["bp"].accuracy.values()))
        - np.array(list(e.baselines["half_bp"].accuracy.values())),
    }
    ends = {
        name: stats.t.interval(0.95, len(g) - 1, loc=g.mean(), scale=stats.sem(g)) for name, g in gain.items()
    }  # fmt: skip

    def both(fired):
        return WALKED if all(fired) else OPEN if any(fired) else NOT

    growths = np.array([max(b / a for a, b in pairwise(m.hidden_norms)) for m in finals])
    chords = np.array([m.precision.chord for m in finals])
    if ends["task"][1] < 0.02:
        depth = ASIDE
    elif ends["own"][0] > 0.02:
        depth = NOT
    else:
        depth = WALKED if ends["own"][1] < 0.02 and ends["task"][0] > 0.02 else OPEN
    if ends["bp's lower half"][0] <= 0.005:
        reach = ASIDE
    else:
        reach = NOT if ends["lower half"][0] > 0.005 else WALKED if ends["lower half"][1] < 0.005 else OPEN
    seeds = set()
    for m in finals:
        clear = [c.value > n.mean + 3 * n.std for c, n in zip(m.cosine, m.null, strict=True)]
        positive = m.gamma > m.null_gamma.mean + 3 * m.null_gamma.std
        seeds.add(NOT if sum(clear) / len(clear) > 0.5 else WALKED if positive else ASIDE)
    coverage = seeds.pop() if len(seeds) == 1 else OPEN
    by_accuracy = NOT if accuracy.mean() > 1 / e.classes else WALKED
    gamma = np.mean([m.gamma for m in finals])
    checks = {
        "scale": both(growths > 50), "reference": both(chords > 0.01), "depth": depth, "reach": reach,
        "coverage": coverage,
    }  # fmt: skip
    if WALKED in checks.values():
        together = WALKED
    elif OPEN in checks.values():
        together = OPEN
    elif depth == ASIDE and not -0.02 < ends["own"][0] <= 0.02:
        together = OPEN  # bp gains too little: the blocks may do harm, or they gain what bp does not
    elif depth == coverage == ASIDE:
        together = ASIDE
    else:
        explained = coverage != ASIDE  # credit that clears its null neither on average nor in half of the blocks
        together = NOT if explained else OPEN
    norms = np.mean([m.gradient_norms[-1] for m in finals])
    published = growths.mean() > 50 or norms < 1e-7 or gain["own"].mean() < 0.02
    return {
        "accuracy": by_accuracy, "accuracy + Γ": NOT if by_accuracy == NOT and gamma > 0 else WALKED, **checks,
        "all": together, "published": WALKED if published else NOT,
    }  # fmt: skip


def drawn(seed):
    """A subject drawn at random, near enough to every threshold that all answers come up."""
    draw = random.Random(seed)
    log = lambda low, high: math.exp(draw.uniform(math.log(low), math.log(high)))  # noqa: E731

    def near(middle, spread):
        return tuple(min(1.0, max(0.0, draw.gauss(middle, spread))) for _ in SEEDS)

    growth, chord, gradient = log(2, 600), log(1e-5, 1), log(1e-9, 1e-4)
    best, lift = draw.uniform(0.08, 0.9), draw.choice([0.0, 0.02, 0.1])
    cosine = draw.choice([-0.05, 0.02, 0.035, 0.5])
    changes = []
    for _ in SEEDS:
        cosines = [draw.gauss(cosine, 0.02) for _ in range(L)]
        changes.append({
            "hidden_norms": [9.0, 9.0 * growth * draw.uniform(0.8, 1.2), 9.0, 9.0, 9.0],
            "precision": precise(chord * draw.uniform(0.5, 1.5)), "gradient_norms": [gradient] * (L + 1),
            "cosine": [ok(c) for c in cosines], "cosine_out": [ok(c) for c in cosines], "gamma": sum(cosines) / L,
        })  # fmt: skip
    return subject(
        *changes, accuracy=near(best, 0.01), name=f"drawn {seed}",
        baselines={"frozen": by_seed(*near(best - draw.choice([-0.05, 0.02, 0.1]), 0.005)),
                   "bp": by_seed(*near(0.5 + lift, 0.005)), "frozen_bp": by_seed(*near(0.5, 0.005)),
                   "half": by_seed(*near(best - draw.choice([-0.05, 0.005, 0.1]), 0.005)),
                   "half_bp": by_seed(*near(0.5 + lift - draw.choice([0.0, 0.05, 0.05]), 0.005))},
    )  # fmt: skip


def test_deciders_agree_with_a_dumb_second_implementation() -> None:
    seen = {name: set() for name in utility.DECIDERS}
    for seed in range(150):
        e = drawn(seed)
        found = utility.decided(e)
        assert found == dumb_answers(e), e.name
        for name, answer in found.items():
            seen[name].add(answer)
    both = {WALKED, NOT}
    expected = dict.fromkeys(("accuracy", "accuracy + Γ", "published"), both)
    expected |= dict.fromkeys(("scale", "reference"), both | {OPEN})
    expected |= dict.fromkeys(("depth", "reach", "coverage", "all"), both | {OPEN, ASIDE})
    expected["all"] = seen["all"] | both | {OPEN}
    assert seen == expected  # every answer came up, so every one was compared


@pytest.mark.parametrize("name", CASES)
def test_deciders_say_of_every_planted_case_what_its_findings_say(name) -> None:
    e, _, verdict = CASES[name]
    words = {"fires": WALKED, "passes": NOT, "holds": NOT}
    found = utility.decided(e)
    for finding in judge(e).findings:
        assert found[finding.check] == words.get(finding.outcome, finding.outcome)
    assert found["all"] == words.get(verdict, verdict)
    published = judge(e, protocol="published").verdict
    assert found["published"] == words.get(published, published)


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
    assert (found["accuracy"], found["accuracy + Γ"]) == expected


# The thresholds


SWEPT = {swept.name: swept for swept in utility.SWEPT}
EASY = {"bp": by_seed(0.510, 0.512, 0.509), "frozen_bp": by_seed(0.500, 0.501, 0.500),
        "half_bp": by_seed(0.509, 0.512, 0.509)}  # fmt: skip
LOWER = {"half": by_seed(0.35, 0.36, 0.34)}
SUBJECTS = {e.name: e for e in [
    subject(name="good"),
    subject(*({"hidden_norms": [9.0, 9.0 * growth, 9.0, 9.0, 9.0]} for growth in (90.0, 70.0, 2000.0)),
            name="explodes", accuracy=(0.40, 0.42, 0.41), baselines=LOWER),
    subject(*({"precision": precise(chord)} for chord in (2e-3, 3e-3, 5e-4)), name="noisy"),
    subject(*({"cosine": [ok(c), ok(0.5), ok(0.02), ok(0.01)]} for c in (0.04, 0.05, 0.06)), name="covered by half"),
    subject(name="easy task, little harm", accuracy=(0.480, 0.490, 0.485),
            baselines=EASY | {"frozen": by_seed(0.490, 0.493, 0.491)}),
    subject({"gradient_norms": [3e-6] * 5}, name="small gradient", accuracy=(0.39, 0.40, 0.38), baselines=LOWER),
]}  # fmt: skip


@pytest.fixture(scope="module")
def sweeps():
    return {name: {s: stretches(e, swept) for s, e in SUBJECTS.items()} for name, swept in SWEPT.items()}


def verdict_at(swept, e, value):
    return judge(e, DEFAULT.but(swept.name, value), swept.protocol).verdict


@pytest.mark.parametrize("name", SWEPT)
def test_a_sweep_is_what_brute_force_finds(name, sweeps) -> None:
    swept, draw = SWEPT[name], random.Random(name)
    for who, parts in sweeps[name].items():
        assert parts[0].low == swept.low
        assert parts[-1].high == swept.high
        assert all(math.nextafter(a.high, math.inf) == b.low and a[2:] != b[2:] for a, b in pairwise(parts))
        for value in [draw.uniform(swept.low, swept.high) for _ in range(8)] + swept.grid(13):
            part = next(p for p in parts if p.low <= value <= p.high)
            assert verdict_at(swept, SUBJECTS[who], value) == part.verdict, (who, value)


@pytest.mark.parametrize("name", SWEPT)
def test_no_verdict_changes_just_inside_and_the_one_named_flips_just_outside(name, sweeps) -> None:
    swept, default = SWEPT[name], DEFAULT[name]
    here = {who: verdict_at(swept, e, default) for who, e in SUBJECTS.items()}
    edges = first_changes({who: by_verdict(parts) for who, parts in sweeps[name].items()}, default)
    assert edges is not None
    assert edges[0].at <= default <= edges[1].at
    for edge, away, end in zip(edges, (-math.inf, math.inf), (swept.low, swept.high), strict=True):
        assert {who: verdict_at(swept, e, edge.at) for who, e in SUBJECTS.items()} == here
        if not edge.flips:
            assert edge.at == end
            continue
        beyond = math.nextafter(edge.at, away)
        moved = {who: verdict_at(swept, e, beyond) for who, e in SUBJECTS.items()}
        assert {who for who in moved if moved[who] != here[who]} == {who for who, _, _ in edge.flips}
        assert all(was.verdict == here[who] and then.verdict == moved[who] for who, was, then in edge.flips)


def test_every_threshold_moves_somebody_and_one_of_them_twice(sweeps) -> None:
    """Else the two tests above would compare nothing."""
    for name, found in sweeps.items():
        assert any(len(by_verdict(parts)) > 1 for parts in found.values()), name
    assert any(len(by_verdict(parts)) > 2 for parts in sweeps["depth.margin"].values())


@pytest.mark.parametrize("name", [name for name in SWEPT if name != "depth.confidence"])
def test_where_findings_change_is_where_the_findings_say(name, sweeps) -> None:
    swept, default = SWEPT[name], DEFAULT[name]
    for who, e in SUBJECTS.items():
        ranges = [f.ranges[name] for f in judge(e, protocol=swept.protocol).findings if name in f.ranges]
        low = max([swept.low, *(low for low, _ in ranges if low is not None)])
        high = min([swept.high, *(high for _, high in ranges if high is not None)])
        part = next(p for p in sweeps[name][who] if p.low <= default <= p.high)
        if name == "depth.margin" and part.outcomes[2] == ASIDE:
            continue  # there a bar of the verdict's own may come first; see below
        assert (part.low, part.high) == (pytest.approx(low, rel=1e-12), pytest.approx(high, rel=1e-12)), who


@pytest.mark.parametrize("name", SWEPT)
def test_halving_alone_finds_the_same_as_with_the_findings_ranges(name, sweeps, monkeypatch) -> None:
    monkeypatch.setattr(sweep, "_ends", lambda judgement, name: [])
    for who, e in SUBJECTS.items():
        assert stretches(e, SWEPT[name]) == sweeps[name][who]


def test_the_bar_of_an_easy_task_is_found_though_no_finding_tells_it(sweeps) -> None:
    """On an easy task a subject holds only if it is shown to lose less than the margin."""
    parts = sweeps["depth.margin"]["easy task, little harm"]
    depth = judge(SUBJECTS["easy task, little harm"], DEFAULT.but("depth.margin", 0.1)).findings[2]
    assert depth.outcome == ASIDE
    edges = [b.low for a, b in pairwise(parts) if a.outcomes == b.outcomes and a.verdict != b.verdict]
    assert edges == [pytest.approx(-depth.low, rel=1e-12)]


def test_what_lies_between_two_values_of_the_grid_is_found_by_the_findings_ranges() -> None:
    """Three blocks of four are covered below 4.00 and two above, and Γ is above its null below 4.05."""
    cosines = [ok(0.5), ok(0.5), ok(0.0400), ok(0.0)]
    change = {"cosine": cosines, "cosine_out": cosines, "gamma": 0.0405, "null_gamma": null(std=0.01)}
    e = subject(change, baselines={"frozen": None})  # depth stays open, so nothing but coverage decides
    swept = SWEPT["coverage.band"]
    assert not [value for value in swept.grid() if 4.0 <= value <= 4.05]
    parts = by_verdict(stretches(e, swept))
    assert [part.verdict for part in parts] == [OPEN, WALKED, OPEN]
    assert (parts[1].low, parts[1].high) == (pytest.approx(4.0, rel=1e-12), pytest.approx(4.05, rel=1e-12))


def test_verdicts_do_not_rest_on_the_moments_between_init_and_the_last() -> None:
    wild = moment(hidden_norms=[9.0, 9e5, 9e9, 9e9, 9e9], precision=precise(0.5))
    for e, _, _ in CASES.values():
        seeds = [
            s.model_copy(update={"moments": [*s.moments[:-1], wild, wild, *s.moments[-1:]]})
            for s in e.seeds
            if s.moments
        ]
        long = e.model_copy(update={"seeds": seeds})
        short = sweep._final(long)
        assert all(len(seed.moments) <= 2 for seed in short.seeds)
        for protocol in ("ours", "published"):
            full, cut = judge(long, protocol=protocol), judge(short, protocol=protocol)
            assert (full.verdict, full.findings) == (cut.verdict, cut.findings)


def test_the_table_tells_the_ranges_as_the_sweeps_have_them(planted, tables) -> None:
    rows = {str(row[0]).partition(" ")[0]: row for row in tables["thresholds"].rows}
    assert list(rows) == list(SWEPT)
    subjects = {e.name: e for e in utility.evidence(planted).values()}
    _, default, who, low, high, below, above, steady = rows["scale.growth"]
    assert (default, who) == ("50", "published")
    # DFA's stream grows 75 times over one block; above that it holds. Below 13/12 everybody explodes, beyond the sweep.
    grown = 3e6 / 4e4
    assert judge(subjects["DFA"]).findings[0].value == grown
    assert high == pytest.approx(grown, rel=1e-9)
    assert above == "DFA: walked back → holds"
    assert (low, below) == ("≤ 2.00", "nobody")
    assert steady == "≤ 2.00 to 75.0"
    moves = [row for row in tables["moves"].rows if row[0] == "scale.growth"]
    assert moves == [["scale.growth", "50", "DFA", "walked back to 75.0, holds"]]
    assert tables["thresholds"].csv()
    assert tables["thresholds"].markdown()


# Declaration, gaps, figures


def test_runs_are_those_of_every_other_study_and_audit() -> None:
    folders = {config.folder() for config in STUDY.configs(Extent())}
    assert {"cifar10-resmlp-dfa-s42-7ed32e6e40", "cifar10-resmlp-dfa_k_0-s42-aebaf31b2a"} <= folders
    audited = audit_plan(["bp", "fa", "dfa"], data="cifar10", seeds=3, epochs=100)
    assert {config.folder() for config in audited} <= folders
    names = [arm.name for arm in STUDY.arms(Extent())]
    assert names[:3] == ["bp", "fa", "dfa"]
    assert names[-2:] == ["random", "random frozen"]
    assert {s.arm for s in utility.SUBJECTS} | {b for s in utility.SUBJECTS for b in s.baselines.values()} == set(names)


def bars(fig):
    return [[patch for patch in axes.patches if patch.get_width() > 0] for axes in fig.axes[: len(SWEPT)]]


def test_figures_show_what_the_tables_tell(planted, tables, tmp_path) -> None:
    with style():
        matrix, moving = STUDY.figures["utility"](planted), STUDY.figures["utility-thresholds"](planted)
        moving.draw_without_rendering()
        assert all(path.stat().st_size > 1000 for path in save(matrix, tmp_path, "utility"))
    said = [cell for row in tables["utility"].rows for cell in row]
    glyphs = [text.get_text() for text in matrix.axes[0].texts]
    for answer in (WALKED, NOT, ASIDE):
        assert glyphs.count(utility.LOOKS[answer].glyph) == said.count(answer)
    assert glyphs.count("no run") == 4  # two nets without runs, accuracy and Γ each
    there = len(utility.evidence(planted))
    moves = [str(row[0]).partition(" ")[0] for row in tables["moves"].rows for _ in str(row[3]).split(", ")[1:]]
    assert [len(found) for found in bars(moving)] == [there + moves.count(name) for name in SWEPT]


@pytest.mark.parametrize("seeds", [0, 1])
def test_gaps_are_gaps_and_no_failure(seeds) -> None:
    g = gathered({arm: (accuracies[:seeds], changes) for arm, (accuracies, changes) in PLANTED.items() if arm != "bp"})
    utility_table, thresholds, _ = STUDY.tables(g)
    rows = {row[0]: row for row in utility_table.rows}
    assert rows["BP"][1:-1] == [None] * len(utility.DECIDERS)
    assert rows["DFA"][-1] == f"{seeds} of 3"
    assert "Missing" in utility_table.notes[-1]
    if seeds == 0:
        assert all(row[3:] == [None] * 5 for row in thresholds.rows)
        assert rows["claims walked back"][1] == "0 of 0"
    else:
        assert rows["DFA"][8] == WALKED  # one seed is enough to see it explode
        assert rows["FA"][5] == OPEN  # bp is not there: the task may be too easy
        assert rows["DFA λ=0.01"][8] == OPEN  # and too few for anything to hold
    with style():
        for draw in STUDY.figures.values():
            draw(g).draw_without_rendering()


def test_a_baseline_that_lacks_a_seed_leaves_depth_open() -> None:
    g = gathered(PLANTED | {"dfa frozen short": (FROZEN[:2], {})})
    found = {s.name: utility.decided(e) for s, e in utility.evidence(g).items()}
    assert found["DFA λ=0.01"]["depth"] == found["DFA λ=0.01"]["all"] == OPEN


def test_an_empty_folder_is_no_failure(tmp_path) -> None:
    g = gather(STUDY, Extent(), tmp_path)
    assert len(g.gaps) == 60
    assert all(table.markdown() for table in STUDY.tables(g))


def test_a_null_without_spread_does_not_stop_a_sweep_and_never_holds() -> None:
    flat = subject({"null": [null(std=0.0)] * L, "null_gamma": null(std=0.0)}, name="flat")
    assert [part.verdict for part in stretches(flat, SWEPT["coverage.band"])] == ["inconclusive"]
