"""penalty and partial: drawn from records alone, gaps and all; a log of three numbers never contradicts the whole."""

import json
import math
import random
from collections import Counter
from itertools import product
from pathlib import Path
from typing import Any

import hypothesis.strategies as st
import pytest
from hypothesis import HealthCheck, given, settings

import made_up
from walkback.checks import judge
from walkback.records import Cosine, Run, RunConfig, Valued, read_run
from walkback.records.folder import Contents
from walkback.report.tables import Table
from walkback.train import train_all
from walkback_paper import partial, penalty
from walkback_paper.base import STUDIES, Arm, Collected, Extent, gather
from walkback_paper.figures import style

ABSENT = "bp λ=0.0001"


class Small(Extent):
    """Nets that train in a moment."""

    def arm(self, name: str, rule: str, **settings: Any) -> Arm:
        return super().arm(name, rule, net_options={"width": 32}, probe_images=64, **settings)


EXTENT = Small(quick=True, seeds=(1, 2), epochs=1)


@pytest.fixture(scope="module")
def trained(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Collected]:
    """Every arm but one, two seeds of one epoch; and frozen nets with a penalty, beside them."""
    out = tmp_path_factory.mktemp("runs")
    study = STUDIES.get("penalty")
    absent = {c.hash() for arm in study.arms(EXTENT) if arm.name == ABSENT for c in arm.configs}
    configs = [c for c in study.configs(EXTENT) if c.hash() not in absent]
    configs += [c.changed(penalty=0.1) for c in configs if c.train_last == 0 and c.seed == 1]
    assert None not in train_all(configs, out, jobs=1)
    return out, gather(study, EXTENT, out)


def table(g: Collected, name: str, room: Any = penalty) -> Table:
    return next(each for each in room.tables(g) if each.name == name)


def cell(found: Table, heading: str, **where: str) -> Any:
    (row,) = [r for r in found.rows if all(r[found.headings.index(k)] == v for k, v in where.items())]
    return row[found.headings.index(heading)]


# --- gaps -----------------------------------------------------------------------------------------------------------


def test_an_arm_that_is_not_there_is_a_gap_among_the_others(trained: tuple[Path, Collected]) -> None:
    _, g = trained
    found = table(g, "penalty")
    assert cell(found, "scale", rule="BP", λ="0.0001") == "no run"
    assert str(cell(found, "accuracy", rule="BP", λ="0.0001")) == "–"
    assert cell(found, "seeds", rule="BP", λ="0.0001") == "0 of 2"
    assert cell(found, "seeds", rule="BP", λ="0.001") == "2"
    assert any(f"not trained: {ABSENT}. `walkback study run penalty --quick" in note for note in found.notes)
    absent = next(row for row in table(g, "partial", partial).rows if row[0] == ABSENT)
    assert absent[2:5] == ["no run"] * 3


def test_one_seed_has_no_interval_and_settles_nothing_about_depth(trained: tuple[Path, Collected]) -> None:
    out, _ = trained
    g = gather(STUDIES.get("penalty"), Small(quick=True, seeds=(1,), epochs=1), out)
    found = table(g, "penalty")
    gained = cell(found, "gain over frozen", rule="DFA", λ="0.01")
    assert (gained.n, gained.interval) == (1, None)
    assert cell(found, "depth", rule="DFA", λ="0.01") == "? open"
    says = cell(table(g, "penalty-findings"), "why", subject="dfa λ=0.01", check="depth")
    assert "Not here: shallow" in says


# --- figures and tables tell the runs' own numbers ------------------------------------------------------------------


def raw(g: Collected, arm: str) -> list[dict[str, Any]]:
    """The last lines of the folders, read by nothing of ours."""
    return [json.loads((run.path / "snapshots.jsonl").read_text().splitlines()[-1]) for run in g[arm]]


def test_the_curves_are_the_runs_own_and_differ_in_grey(trained: tuple[Path, Collected]) -> None:
    _, g = trained
    with style():
        stream, _, accuracy = penalty.draw(g).axes
    curves = {line.get_color(): line for line in accuracy.lines}
    assert len(curves) == 7
    assert len({(line.get_marker(), line.get_linestyle()) for line in accuracy.lines}) >= 6
    for each, ink in penalty.SHADES.items():
        runs = g[f"dfa λ={each:g}"]
        wanted = [(runs[0].snapshots[epoch].accuracy + runs[1].snapshots[epoch].accuracy) / 2 for epoch in (0, 1)]
        assert list(curves[ink.colour].get_ydata()) == pytest.approx(wanted)
    (bp,) = [line for line in stream.lines if line.get_color() == penalty.INKS["bp"].colour]
    sizes = [last["hidden_norms"][-1] for last in raw(g, "bp λ=0")]
    assert bp.get_ydata()[-1] == pytest.approx(math.sqrt(sizes[0] * sizes[1]))


def test_second_implementation_of_the_tables_numbers(trained: tuple[Path, Collected]) -> None:
    """Deep cosine, ρ and the gain, which is paired by seed, from the files."""
    _, g = trained
    found = table(g, "penalty")
    for rule, each in product(penalty.RULES, penalty.PENALTIES):
        arm, where = f"{rule} λ={each:g}", {"rule": penalty.INKS[rule].name, "λ": f"{each:g}"}
        if arm == ABSENT:
            continue
        cosines = [sum(last["cosine"][block]["value"] for block in (1, 2, 3)) / 3 for last in raw(g, arm)]
        assert list(cell(found, "deep cosine", **where).values) == pytest.approx(cosines)
        rhos = [json.loads((run.path / "probes.json").read_text())["rho"] for run in g[arm]]
        wanted = [sum(r["value"] for r in rho[1:]) / 3 for rho in rhos]
        assert list(cell(found, "ρ", **where).values) == pytest.approx(wanted)
        mine, other = ([last["accuracy"] for last in raw(g, name)] for name in (arm, f"{rule} frozen"))
        shown = cell(found, "gain over frozen", **where)
        assert list(shown.values) == pytest.approx([a - b for a, b in zip(mine, other, strict=True)])
        assert shown.interval is not None


def test_a_frozen_net_does_not_know_its_penalty(trained: tuple[Path, Collected]) -> None:
    """Why one frozen net may serve every λ: with none of its blocks trained it is the same net, bit for bit."""
    out, g = trained
    for rule in penalty.RULES:
        plain = g[f"{rule} frozen"][0]
        penalised = read_run(out / plain.config.changed(penalty=0.1).folder())
        assert penalised.config.penalty == 0.1
        assert [s.text() for s in penalised.snapshots] == [s.text() for s in plain.snapshots]


# --- the log --------------------------------------------------------------------------------------------------------


def test_a_log_tells_three_numbers_and_no_more(trained: tuple[Path, Collected]) -> None:
    _, g = trained
    runs = g["dfa λ=0.01"]
    bare = partial.reduced(runs[0])
    assert set(bare) == {"config", "log", "final_test_acc"}
    assert {key for entry in bare["log"] for key in entry} == {"epoch", "h_L_norm", "g_2_norm", "acc_eval"}
    assert set(partial.reduced(runs[0], True)["log"][0]) - set(bare["log"][0]) == {"h_0_norm"}
    whole = g.evidence("dfa λ=0.01")
    assert whole is not None
    assert set(whole.baselines) == {"frozen", "frozen_bp", "bp"}
    for entry_norm in (False, True):
        found = partial.read(whole, runs, entry_norm)
        assert [s.seed for s in found.seeds] == [1, 2]
        for seed, run in zip(found.seeds, runs, strict=True):
            last = run.snapshots[-1]
            assert [m.accuracy for m in seed.moments] == [s.accuracy for s in run.snapshots]
            assert run.result is not None
            assert seed.final.accuracy == run.result.accuracy
            first = last.hidden_norms[0] if entry_norm else None
            assert seed.final.hidden_norms == [first, None, None, None, last.hidden_norms[-1]]
            assert seed.final.gradient_norms == [None, None, last.gradient_norms[2], None, None]
            assert seed.final.reference_batch == 128
            assert (seed.final.cosine, seed.final.precision, seed.final.null, seed.final.loss) == (None,) * 4
        numbers = {key: each.accuracy for key, each in whole.baselines.items()}  # a log has no predictions
        assert {key: each.accuracy for key, each in found.baselines.items()} == numbers
        assert not any(each.hits for each in found.baselines.values())


def test_how_a_part_stands_to_the_whole() -> None:
    wanted = {
        "agrees": ["fires fires", "not_asked not_asked"], "contradicts": ["fires passes", "holds walked_back"],
        "silent": ["passes open", "walked_back open"], "both open": ["open open"],
        "says more": ["open fires", "not_asked passes"],
    }  # fmt: skip
    for relation, pairs in wanted.items():
        for pair in pairs:
            full, part = (word.replace("_", " ") for word in pair.split())
            assert partial.relation(full, part) == relation, pair


def test_the_trained_runs_have_no_contradiction_by_our_protocol(trained: tuple[Path, Collected]) -> None:
    _, g = trained
    lines = [line for each in partial.compare(g, "ours").values() for line in each]
    assert len(lines) == 9 * 8
    assert all(
        line.relation(source) in ("agrees", "both open", "silent") for line in lines for source in partial.SOURCES
    )
    notes = " ".join(table(g, "partial", partial).notes)
    assert "Log: contradicts in 0 of 63 findings" in notes
    assert "Log + ‖h_0‖: contradicts in 0 of 63 findings" in notes


def test_a_planted_contradiction_is_told(trained: tuple[Path, Collected], monkeypatch: pytest.MonkeyPatch) -> None:
    _, g = trained

    def turned(evidence: Any, *options: Any) -> Any:
        """Scale fires in one subject as soon as its norms are not all known."""
        found = judge(evidence, *options)
        if evidence.name != "dfa λ=0.1" or evidence.seeds[0].final.cosine is not None:
            return found
        planted = {"outcome": "fires", "says": "Planted."}
        findings = [f.changed(**planted) if f.check == "scale" else f for f in found.findings]
        return found.changed(findings=findings)

    monkeypatch.setattr(partial, "judge", turned)
    found = table(g, "partial", partial)
    where = {"subject": "dfa λ=0.1", "check": "scale"}
    assert cell(found, "full evidence", **where).startswith("✓ exact")
    assert cell(found, "log / full", **where) == "contradicts"
    assert cell(found, "log / full", subject="dfa λ=0.01", check="scale") == "silent"
    notes = " ".join(found.notes)
    assert "Log: contradicts in 1 of 63 findings" in notes
    assert "Contradiction, dfa λ=0.1, scale, log: “Planted.” All the evidence: “Largest growth" in notes


# --- runs drawn at random -------------------------------------------------------------------------------------------

DRAWN = ("dfa λ=0.01", "bp λ=0", "dfa frozen", "bp frozen")
MAY_BECOME = {
    "fires": {"fires"},
    "passes": {"passes", "not asked"},
    "not asked": {"not asked"},
    "open": {"fires", "passes", "not asked", "open"},
}


def made(config: RunConfig, norms: list[float], gradients: list[float], accuracy: float, **more: Any) -> Run:
    """A finished run of one snapshot."""
    cosine, depth = more.get("cosine", 0.9), len(norms) - 1
    last = made_up.snapshot(
        config.epochs, accuracy, norms, gradients, [cosine] * depth, gamma=cosine, loss=1 + config.seed / 1e4,
    )  # fmt: skip
    return made_up.run(config, [last], made_up.probes(last, more.get("chord", 1e-6), each=0.5))


def synthetic(dice: random.Random, seeds: int = 3) -> Collected:
    """A penalised DFA with its baselines, everything about it drawn; nasty numbers among them."""
    nasty = dice.choice([0.0, 0.0, 0.05])
    growth = dice.choice([[1.0, 1.2], [60.0, 1.0, 0.1], [60.0, 100.0], [300.0, 0.004, 1.0], [50.0]])
    size, chord = dice.choice([1e-3, 1e-8]), dice.choice([1e-6, 0.3])
    cosine = dice.choice([0.9, 0.0])
    centre = {"dfa λ=0.01": dice.choice([0.3, 0.36, 0.5]), "bp λ=0": 0.6, "dfa frozen": 0.34, "bp frozen": 0.38}
    centre["bp λ=0"] = dice.choice([0.6, 0.39])
    spread = dice.choice([0.0, 0.002, 0.03])

    def sometimes(value: float) -> float:
        return dice.choice([math.nan, math.inf, 0.0]) if dice.random() < nasty else value

    def run(config: RunConfig, accuracy: float) -> Run:
        norms = [9.0]
        for _ in range(config.net_options["depth"]):
            norms.append(norms[-1] * dice.choice(growth))
        norms = [sometimes(norm) for norm in norms]
        gradients = [sometimes(size * dice.choice([1.0, 1.0, 30.0])) for _ in norms]
        return made(config, norms, gradients, accuracy, chord=sometimes(chord), cosine=cosine)

    arms = {arm.name: arm for arm in penalty.arms(Extent(seeds=tuple(range(seeds))))}
    runs = {
        name: [run(c, centre[name] + dice.uniform(-1, 1) * spread) for c in arm.configs] if name in DRAWN else []
        for name, arm in arms.items()
    }
    return Collected("partial", Extent(), arms, runs, [])


@settings(max_examples=60, deadline=None, suppress_health_check=list(HealthCheck), database=None)
@given(st.integers(0, 2**32), st.sampled_from([1, 2, 3]))
def test_property_a_log_never_contradicts_by_our_protocol(number: int, seeds: int) -> None:
    found = partial.compare(synthetic(random.Random(number), seeds), "ours")
    for line in (line for lines in found.values() for line in lines):
        for source in (partial.LOG, partial.MORE):
            assert line.relation(source) != "contradicts", line
            if line.question != partial.VERDICT:
                assert line.answers[partial.FULL].outcome in MAY_BECOME[line.answers[source].outcome], line


def test_the_drawn_runs_would_show_it() -> None:
    """The property would be empty if the logs said nothing; by the published protocol they do contradict."""
    dice = random.Random(3)
    seen: dict[str, Counter[tuple[str, ...]]] = {"ours": Counter(), "published": Counter()}
    for _ in range(70):
        g = synthetic(dice)
        for protocol, count in seen.items():
            for line in partial.compare(g, protocol)["dfa λ=0.01"]:  # type: ignore[arg-type]
                count[(line.question, line.relation(partial.MORE), line.answers[partial.MORE].outcome)] += 1
    ours, published = seen["ours"], seen["published"]
    assert ours[("scale", "agrees", "fires")]
    assert ours[("scale", "silent", "open")]
    assert ours[("depth", "agrees", "fires")]
    assert ours[("depth", "both open", "open")]
    assert not any(relation == "contradicts" for _, relation, _ in ours)
    assert {check for check, relation, _ in published if relation == "contradicts"} == {"scale", "reference", "verdict"}


def test_the_published_counterexample_is_shown_plainly() -> None:
    """h_0 = 9 and h_L = 4e4 over four blocks: a geometric mean of 8, and yet one block at 64."""
    arms = {arm.name: arm for arm in penalty.arms(Extent())}
    norms = [9.0, 9.0 * 64, 9.0 * 64, 4e4, 4e4]
    runs: dict[str, list[Run]] = {name: [] for name in arms}
    runs["dfa λ=0.01"] = [
        made(c, [n * (1 + c.seed / 1e7) for n in norms], [1e-3] * 5, 0.36) for c in arms["dfa λ=0.01"].configs
    ]
    g = Collected("partial", Extent(), arms, runs, [])
    where = {"subject": "dfa λ=0.01", "check": "scale"}
    published = table(g, "partial-published", partial)
    assert cell(published, "full evidence", **where) == "✗ exact, 69×"
    assert cell(published, "log + ‖h_0‖", **where) == "✓ proxy, 8.2×"
    assert cell(published, "+ ‖h_0‖ / full", **where) == "contradicts"
    assert any("Contradiction, dfa λ=0.01, scale, log + ‖h_0‖" in note for note in published.notes)
    assert cell(published, "+ ‖h_0‖ / full", subject="dfa λ=0.01", check="verdict") == "contradicts"
    ours = table(g, "partial", partial)
    assert cell(ours, "log", **where) == "? missing"
    assert cell(ours, "log + ‖h_0‖", **where) == "? bound, ≥ 8.2×"


def test_a_cosine_that_was_not_measured_is_a_gap_with_its_reason() -> None:
    arms = {arm.name: arm for arm in penalty.arms(Extent())}
    runs: dict[str, list[Run]] = {name: [] for name in arms}
    for each, arm in ((0.0, "dfa λ=0"), (0.01, "dfa λ=0.01")):
        runs[arm] = [made(c, [9.0] * 5, [1e-3] * 5, 0.3) for c in arms[arm].configs]
        if each == 0:
            whole = runs[arm][0]
            dead = Cosine(value=math.nan, alive=0, total=9, status="zero gradient")
            last = whole.snapshots[0].changed(cosine=[*whole.snapshots[0].cosine[:3], dead])
            assert whole.probes is not None
            rho = [*whole.probes.rho[:1], Valued(value=math.nan, status="zero credit"), *whole.probes.rho[2:]]
            rho[3] = Valued(value=0.1, status="ok")
            probes = whole.probes.changed(rho=rho)
            runs[arm][0] = Run(whole.path, whole.config, None, whole.result, Contents([last], probes))
    g = Collected("penalty", Extent(), arms, runs, [])
    found = table(g, "penalty")
    assert cell(found, "deep cosine", rule="DFA", λ="0") == "zero gradient"
    assert cell(found, "deep cosine", rule="DFA", λ="0.01").mean == pytest.approx(0.9)
    assert list(cell(found, "ρ", rule="DFA", λ="0").values) == pytest.approx([0.3, 0.5, 0.5])  # blocks 2 and 3
    gaps = "Gaps: no deep cosine (zero gradient in block 3): dfa λ=0; ρ without block 1 (zero credit): dfa λ=0."
    assert gaps in found.notes
