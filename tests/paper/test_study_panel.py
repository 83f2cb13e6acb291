"""The panel: learning rates chosen by trials alone, arms that follow from them, and what is made of the runs."""

import dataclasses
from pathlib import Path

import pytest
import torch

from commands import walkback
from fake_runs import write_run
from walkback.data import Split, load
from walkback.errors import RecordError, WalkbackError
from walkback.nets import make_net
from walkback.own import is_ours
from walkback.records import read_run
from walkback.records.rates import choose
from walkback.rules import RULES
from walkback.train import plan
from walkback_paper import STUDIES, Extent, gather, in_order, left, next_up, studies, tables, train_studies
from walkback_paper import panel as panel_study
from walkback_paper.base import WAITS, Arm
from walkback_paper.panel import FIELD, FLOORS, RATES, arms, chosen, frozen, half, standings, subjects, trial

ROOT = Path(__file__).parents[2]
PANEL = STUDIES.get("panel")
SMALL = Extent(quick=True, seeds=(1, 2), epochs=1, rules=("dfa",))
WHOLE = Extent(seeds=(1, 2, 3), epochs=1, rules=("dfa",))  # three seeds can walk a rule back; quick has two
BEST = {"bp": 1e-3, "mono-forward": 3e-3, "random": 1e-4, "dfa": 3e-4, "shallow": 1e-3, "linear": 1e-3}


def write_trials(folder, extent=SMALL, best=BEST, but=()):
    """Trials of which those at the rates in `best` come out best; without those named in `but`."""
    for arm in arms(extent):
        if arm.name not in but:
            subject, _, rate = arm.name.rpartition(" at ")
            write_run(folder, arm.configs[0], accuracy=0.6 if float(rate) == best[subject] else 0.3)


def write_rest(folder, extent=SMALL, **accuracy):
    """What follows from the trials, each arm with an accuracy per seed."""
    for name, arm in gather(PANEL, extent, folder).arms.items():
        ends = accuracy.get(name.replace(" ", "_").replace("-", "_"), (0.30, 0.31, 0.305)[: len(arm.configs)])
        if not arm.configs[0].validation:
            for config, end in zip(arm.configs, ends, strict=True):
                write_run(folder, config, accuracy=end)


# --- the choice -----------------------------------------------------------------------------------------------------


def trial_run(folder, rate, accuracy=0.5, validation=0.1, **more):
    (config,) = plan(rules=["dfa"], seeds=[42], epochs=2, lr=rate, validation=validation)
    return read_run(write_run(folder, config, accuracy=accuracy, **more))


@pytest.mark.parametrize(
    ("trials", "lr", "words", "counted"),
    [
        ([0.2, 0.5, 0.5, 0.4], 3e-4, "0.0003", "4"),  # the smaller of two that tie
        ([0.6, 0.3, 0.3, 0.3], 1e-4, "0.0001 (edge)", "4"),
        ([0.3, 0.3, 0.3, 0.6], 3e-3, "0.003 (edge)", "4"),
        ([0.2, 0.21, 0.3, "diverged"], 1e-3, "0.001", "4, 1 diverged"),  # after an epoch at which it was far ahead
        (["diverged"] * 4, None, "all diverged", "4, 4 diverged"),
        ([0.5, 0.5, 0.5, None], None, "not settled", "3 of 4"),  # the missing one could be the best
        ([0.5, 0.5, 0.5, "unfinished"], None, "not settled", "3 of 4"),
    ],
    ids=str,
)
def test_the_best_finished_trial_is_chosen_once_all_have_ended(tmp_path, trials, lr, words, counted):
    odd = {"diverged": {"accuracy": 0.99, "status": "diverged", "until": 1}, "unfinished": {"status": None, "until": 1}}
    runs = [
        trial_run(tmp_path, rate, **odd.get(end, {"accuracy": end}))
        for rate, end in zip(RATES, trials, strict=True)
        if end is not None
    ]
    found = choose(runs, RATES)
    assert (found.lr, found.words(), found.trials()) == (lr, words, counted)


def test_planted_a_trial_that_was_measured_on_the_test_split_is_refused(tmp_path):
    runs = [trial_run(tmp_path, rate) for rate in RATES[:3]]
    with pytest.raises(RecordError, match="test split"):
        choose([*runs, trial_run(tmp_path, 3e-3, accuracy=0.9, validation=0.0)])


def test_every_trial_is_held_out_and_every_subject_has_all_rates():
    for extent in (Extent(), Extent(quick=True)):
        declared = {arm.name: arm for arm in arms(extent)}
        assert set(declared) == {trial(subject, rate) for subject in subjects(extent) for rate in RATES}
        for arm in declared.values():
            (config,) = arm.configs
            assert config.validation == 0.1
            assert (config.epochs, config.data) == ((4, "mnist1d") if extent.quick else (10, "cifar10"))
            assert config.seed == 42
    assert set(FIELD) == {name for name in RULES.names() if is_ours(RULES.get(name))}, "a rule is not in the panel"


def test_planted_another_test_split_changes_no_trial_and_no_choice(tmp_path, monkeypatch):
    """Trained twice, the second time with every test label wrong and all test inputs zero: the same to the bit."""
    true = load("mnist1d")
    labels = (true.test.labels + 1) % 10
    spoilt = dataclasses.replace(true, test=Split(true.test.inputs * 0, labels))
    monkeypatch.setattr(panel_study, "RATES", RATES[2:])
    monkeypatch.setattr(panel_study, "FLOORS", {})
    monkeypatch.setattr(panel_study, "ALWAYS", ("bp",))
    extent = Extent(quick=True, seeds=(1,), epochs=1, rules=("dfa",))
    found = {}
    for name, data in (("true", true), ("spoilt", spoilt)):
        monkeypatch.setattr("walkback.train.loop.load", lambda *_, data=data: data)
        train_studies([dataclasses.replace(PANEL, then=None)], extent, tmp_path / name, jobs=1)
        there = gather(PANEL, extent, tmp_path / name)
        lines = [(run.path / "snapshots.jsonl").read_text() for arm in arms(extent) for run in there[arm.name]]
        found[name] = (lines, {rule: chosen(there, rule).lr for rule in ("bp", "dfa")})
    assert len(found["true"][0]) == 4
    assert found["true"] == found["spoilt"]
    assert None not in found["true"][1].values()


def test_planted_runs_on_the_test_split_beside_the_trials_do_not_move_the_choice(tmp_path):
    """What follows from the trials, and twins of the trials without a held-out part, all with another favourite."""
    write_trials(tmp_path)
    before = {subject: chosen(gather(PANEL, SMALL, tmp_path), subject).lr for subject in BEST}
    for subject in ("bp", "dfa"):
        for rate in RATES:
            for arm in panel_study.following(SMALL, subject, rate):
                for config in arm.configs:
                    write_run(tmp_path, config, accuracy=0.9 if rate == 3e-3 else 0.1)
            (config,) = next(arm for arm in arms(SMALL) if arm.name == trial(subject, rate)).configs
            write_run(tmp_path, config.changed(validation=0.0), accuracy=0.9 if rate == 3e-3 else 0.1)
    assert {subject: chosen(gather(PANEL, SMALL, tmp_path), subject).lr for subject in BEST} == before == BEST


# --- arms that follow -----------------------------------------------------------------------------------------------


def test_the_runs_follow_at_the_rate_that_was_chosen_and_are_left_to_train(tmp_path):
    write_trials(tmp_path)
    there = gather(PANEL, SMALL, tmp_path)
    for subject, rate in BEST.items():
        configs = there.arms[subject].configs
        assert [(config.lr, config.seed, config.validation) for config in configs] == [(rate, 1, 0.0), (rate, 2, 0.0)]
        if subject not in FLOORS:
            twins = tuple(config.changed(train_last=0) for config in configs)
            assert there.arms[frozen(subject)].configs == twins
    assert half("bp") in there.arms
    write_rest(tmp_path)
    arms_there = in_order([PANEL], SMALL, tmp_path)
    count = len({config.hash() for arm in arms_there for config in arm.configs})
    assert left(arms_there, tmp_path) == f"All {count} runs are finished."


def test_nothing_follows_before_all_trials_of_a_rule_are_there(tmp_path):
    write_trials(tmp_path, but=[trial("dfa", 3e-3)])
    there = gather(PANEL, SMALL, tmp_path)
    assert there.arms["dfa"].configs == there.arms[frozen("dfa")].configs == ()
    assert len(there.arms["dfa"].waiting) == 2
    assert there.arms["bp"].configs
    assert {gap.why for gap in there.gaps if gap.arm == "dfa"} == {WAITS}
    panel, rates = tables(PANEL, there)
    row = dict(zip(panel.headings, next(row for row in panel.rows if row[0] == "dfa"), strict=True))
    assert (row["rate"], row["trials"], row["seeds"]) == ("not settled", "3 of 4", "0 of 2")
    assert next(row for row in rates.rows if row[0] == "dfa")[4] == "not there"
    assert f"{WAITS}: dfa, dfa frozen" in " ".join(panel.notes)
    assert "and 4 that follow from them are left" in left(in_order([PANEL], SMALL, tmp_path), tmp_path)


def test_nothing_follows_from_trials_that_all_diverged_and_nothing_waits(tmp_path):
    for arm in arms(SMALL):
        status, until = ("diverged", 0) if arm.name.startswith("dfa") else ("finished", None)
        write_run(tmp_path, arm.configs[0], status=status, until=until)
    there = gather(PANEL, SMALL, tmp_path)
    assert there.arms["dfa"] == Arm("dfa", (), panel_study.RANK)
    (row,) = [row for row in PANEL.tables(there)[1].rows if row[0] == "dfa"]
    assert row == ["dfa", *["diverged"] * 4, "all diverged", "4, 4 diverged"]


def test_the_panel_shares_its_runs_with_the_audit_and_has_its_place_among_the_studies(tmp_path):
    """At the usual rate bp and its frozen net are the runs that are recorded; a rate of its own is another run."""

    def places(*folders):
        order = [arm.name for arm in in_order(studies(), Extent(), *folders)]
        return [order.index(name) for name in ("fa, embedding as block 0", "bp at 0.0001", "pc", "bp, no residual")]

    assert places(tmp_path) == sorted(places(tmp_path))
    write_trials(tmp_path, Extent(), dict.fromkeys(subjects(Extent()), 1e-3))
    assert places(tmp_path) == sorted(places(tmp_path))
    there = gather(PANEL, Extent(), tmp_path)
    audit = {arm.name: arm for arm in STUDIES.get("audit").arms(Extent())}
    for rule in ("bp", "fa", "dfa", "sb", "cb", "ep"):
        assert there.arms[rule].configs == audit[f"{rule}, 30 epochs"].configs
        assert there.arms[frozen(rule)].configs == audit[f"{rule} frozen, 30 epochs"].configs
        assert there.arms[half(rule)].configs == audit[f"{rule} upper half, 30 epochs"].configs
    assert (ROOT / "results" / there.arms["bp"].configs[0].folder()).exists()


def test_what_ranks_later_does_not_overtake_what_an_arm_waits_for():
    one, two, three = plan(rules=["bp", "fa", "dfa"], epochs=1)
    first, waits, later = Arm("trials", (one,), 5), Arm("rest", (), 5, (two,)), Arm("scan", (three,), 6)
    assert next_up([first, waits, later], set()) == [one]
    ready = Arm("rest", (two,), 5)
    assert next_up([first, ready, later], {one.hash()}) == [two, three]
    # The trial failed: the rest must not wait for ever, and comes once.
    assert next_up([first, waits, later], {one.hash()}) == [three]
    assert next_up([first, waits, later], {one.hash(), three.hash()}) == []


def test_killed_between_the_stages_the_same_command_goes_on(tmp_path, monkeypatch):
    """Trials alone, as after an interrupt; then the rest is trained, and no trial is touched again."""
    monkeypatch.setattr(panel_study, "RATES", RATES[2:])
    monkeypatch.setattr(panel_study, "FLOORS", {})
    monkeypatch.setattr(panel_study, "ALWAYS", ("bp",))
    extent = Extent(quick=True, seeds=(1,), epochs=1, rules=("bp",))
    train_studies([dataclasses.replace(PANEL, then=None)], extent, tmp_path, jobs=1)
    before = {path: path.stat().st_mtime_ns for path in tmp_path.rglob("*.json*")}
    expected = []
    train_studies([PANEL], extent, tmp_path, jobs=1, expect=expected.append)
    assert [len(stage) for stage in expected] == [2 + 3]  # the rates are known already, so it is one stage
    there = gather(PANEL, extent, tmp_path)
    assert not there.gaps
    assert {path: path.stat().st_mtime_ns for path in before} == before
    expected.clear()
    train_studies([PANEL], extent, tmp_path / "none", [tmp_path], jobs=1, expect=expected.append)
    assert not any(expected)  # all of it is elsewhere


def test_rules_of_ones_own_stand_beside_what_they_are_held_against(tmp_path):
    mine = tmp_path / "my_rule.py"
    mine.write_text("from walkback.rules.dfa import DFA\n\n\nclass Mine(DFA):\n    pass\n")
    extent = Extent(quick=True, rules=(f"{mine}:Mine", "bp"))
    assert panel_study.rules(extent) == ["bp", "mono-forward", "random", f"{mine}:Mine"]
    assert extent.words() == f" --quick --rules {mine}:Mine,bp"
    assert trial(f"{mine}:Mine", 1e-3) in {arm.name for arm in arms(extent)}
    with pytest.raises(WalkbackError, match="dfaa"):
        arms(Extent(rules=("dfaa",)))
    done = walkback("study", "table", "panel", "--quick", "--rules", ",", cwd=tmp_path)
    assert done.returncode == 2
    assert "--rules is empty" in done.stderr


# --- what is made of the runs ---------------------------------------------------------------------------------------


def test_the_linear_floor_is_a_linear_map_of_the_input_and_the_shallow_net_is_not():
    """Closed form: f((x + y)/2) = (f(x) + f(y))/2, after the weights have been moved."""
    torch.manual_seed(0)
    x, y = torch.randn(2, 5, 40, dtype=torch.float64)
    gaps = {}
    for floor, options in FLOORS.items():
        net = make_net("resmlp", (40,), 10, {"width": 16, **options}).double()
        with torch.no_grad():
            for p in net.parameters():
                p += 0.3 * torch.randn_like(p)
            f = [net.readout(net.embed(z)) for z in (x, y, (x + y) / 2)]
        gaps[floor] = float((f[2] - (f[0] + f[1]) / 2).abs().max())
    assert gaps["linear"] < 1e-12
    assert gaps["shallow"] > 1e-2


def test_the_margin_is_over_the_rules_own_frozen_net_at_its_own_rate_and_sorts_the_rows(tmp_path):
    write_trials(tmp_path)
    write_rest(tmp_path, bp=(0.60, 0.61), bp_frozen=(0.35, 0.36), dfa=(0.28, 0.29), dfa_frozen=(0.30, 0.31),
               mono_forward=(0.5, 0.51), linear=(0.25, 0.26))  # fmt: skip
    there = gather(PANEL, SMALL, tmp_path)
    found = {each.rule: each for each in standings(there)}
    assert list(found) == ["bp", "mono-forward", "random", "dfa"]
    assert found["bp"].margin.values == pytest.approx((0.25, 0.25))
    assert found["dfa"].margin.values == pytest.approx((-0.02, -0.02))
    panel, _ = tables(PANEL, there)
    dfa = dict(zip(panel.headings, panel.rows[3], strict=True))
    assert dfa["over linear"].mean == pytest.approx(0.03)
    assert dfa["over mono-forward"].mean == pytest.approx(-0.22)
    assert (dfa["rate"], dfa["trials"], dfa["seeds"], dfa["time"]) == ("0.0003", "4", "2", "–")
    assert [row[0] for row in panel.rows[4:]] == ["shallow", "linear"]
    assert "may be better: mono-forward and random." in " ".join(panel.notes)


def outcome(judgement, check):
    return next(finding.outcome for finding in judgement.findings if finding.check == check)


def test_bp_is_the_task_at_its_own_rate_and_no_verdict_is_shown_below_five_seeds(tmp_path):
    """dfa has another rate than bp. That its blocks bring nothing is shown only by a bp whose blocks bring much."""
    ends = {"bp": (0.60, 0.61, 0.605), "dfa": (0.28, 0.29, 0.285), "dfa_frozen": (0.30, 0.31, 0.305)}
    write_trials(tmp_path, WHOLE)
    write_rest(tmp_path, WHOLE, **ends, bp_frozen=(0.35, 0.36, 0.355))
    there = gather(PANEL, WHOLE, tmp_path)
    found = {each.rule: each for each in standings(there)}
    dfa = found["dfa"]
    assert dfa.choice.lr != found["bp"].choice.lr
    assert outcome(dfa.judgement, "depth") == "fires"
    assert (dfa.judgement.verdict, dfa.verdict) == ("walked back", None)
    panel, _ = tables(PANEL, there)
    assert {row[panel.headings.index("verdict")] for row in panel.rows} == {"–", "floor"}
    notes = " ".join(panel.notes)
    assert "No verdict is shown of fewer than 5 seeds." in notes
    assert "Controls" not in notes
    assert "walked back" not in notes
    for n, shown in ((4, None), (5, "walked back")):
        known = dfa.judgement.changed(accuracy=dfa.judgement.accuracy.changed(n=n))
        assert dataclasses.replace(dfa, judgement=known).verdict == shown

    flat = tmp_path / "flat"
    write_trials(flat, WHOLE)
    ends |= {"dfa": (0.301, 0.311, 0.303), "shallow": (0.20, 0.21, 0.205)}  # no harm: that would fire
    write_rest(flat, WHOLE, **ends, bp_frozen=(0.60, 0.61, 0.605))
    too_easy = {each.rule: each for each in standings(gather(PANEL, WHOLE, flat))}
    (depth,) = [found for found in too_easy["dfa"].judgement.findings if found.check == "depth"]
    assert depth.outcome == "open"
    assert "the task does not need this depth" in depth.says


def test_a_rule_that_diverged_is_judged_and_has_no_margin(tmp_path):
    write_trials(tmp_path)
    there = gather(PANEL, SMALL, tmp_path)
    for name, status, until in (("dfa", "diverged", 0), (frozen("dfa"), "finished", None)):
        for config in there.arms[name].configs:
            write_run(tmp_path, config, status=status, until=until)
    found = next(each for each in standings(gather(PANEL, SMALL, tmp_path)) if each.rule == "dfa")
    assert found.margin.mean is None
    assert found.judgement.verdict != "holds"


@pytest.mark.slow
def test_what_a_step_costs_is_measured_once_and_kept_with_the_run(all_carried_out):
    root, _ = all_carried_out
    extent = Extent(quick=True, seeds=(42,), epochs=1, rules=("dfa",))
    there = gather(PANEL, extent, root / "results")
    costs = {rule: there[rule][0].cost for rule in ("bp", "dfa", "mono-forward")}
    assert costs["bp"].flops == costs["bp"].memory == 1
    assert 0.5 < costs["dfa"].flops < 1
    assert all(cost.time > 0 for cost in costs.values())
    panel, _ = tables(PANEL, there)
    row = dict(zip(panel.headings, next(row for row in panel.rows if row[0] == "dfa"), strict=True))
    assert row["flops"] == f"{costs['dfa'].flops:.2f}"
    assert len(row["update by block"].split()) == 4


def test_golden_the_committed_quick_panel_is_what_its_records_give():
    """`walkback study table panel --quick --from results/mnist1d-panel --format markdown --to docs/tables/quick`."""
    written = {path.stem: path.read_text() for path in (ROOT / "docs/tables/quick").glob("*.md")}
    there = gather(PANEL, Extent(quick=True), ROOT / "results/mnist1d-panel")
    assert not there.gaps
    given = {table.name: table.markdown() + "\n" for table in tables(PANEL, there)}
    assert given == {name: text for name, text in written.items() if name.startswith("panel")}
