"""Audits in which every net has its own learning rate, over folders whose numbers the tests choose."""

import math
import shutil
from functools import partial
from pathlib import Path

import pytest

import walkback as wb
from commands import walkback
from test_audit_settled import SHARP, World, write_exactly
from walkback.audits import audit_plan, judge_paths, report_paths, rules_audit
from walkback.audits.coming import coming
from walkback.audits.records import subjects_at
from walkback.audits.trials import at_its_rate, rates_in, trial, tune
from walkback.cli import app
from walkback.errors import BadValue, WalkbackError
from walkback.records import Effort, Evidence, Moment, RunConfig, find_runs, read_run
from walkback.records.rates import TRIAL_SEED, Choice, ChosenRates, doubled
from walkback.report.page.reproduce import commands
from walkback.train import Event, plan, train_all
from walkback.train.configs import GRID, MOST, beyond

NET = {"epochs": 2, "data": "mnist1d-10k", "net_options": {"width": 8, "depth": 4}}
BEST = {"bp": 3e-3, "bp k=0": 1e-2, "bp k=2": 3e-3, "bp shallow": 1e-2, "dfa": 1e-3, "random": 1e-3}


class Tuned(World):
    """Each arm is best at a rate of its own, and falls off by 5 points a decade. Twice the epochs bring 2 points, and
    so does having no blocks."""

    def __init__(self, best=BEST, **more):
        super().__init__(SHARP | {"fa": SHARP["dfa"]}, **more)
        self.best = best

    def accuracy(self, c: RunConfig) -> float:
        if not c.validation:
            return super().accuracy(c)
        name = c.changed(validation=0.0).label()
        off = abs(math.log10(c.lr / self.best.get(name, self.best.get(c.rule, 1e-3))))
        return (
            round((0.4 + 0.02 * (not c.blocks) - 0.05 * off + 0.02 * (c.epochs - NET["epochs"]) / NET["epochs"]) * 400)
            / 400
        )


@pytest.fixture
def audited(monkeypatch, tmp_path):
    """`audited(world, …)`: the audit and the lines that were said, trained by that world in tmp_path/runs."""
    return partial(trained_by, monkeypatch, tmp_path / "runs")


def trained_by(patch: pytest.MonkeyPatch, out: Path, world: World, rules=("dfa",), seeds=3, **options):
    patch.setattr(rules_audit, "_init", lambda *_: Moment())
    patch.setattr(rules_audit, "train_all", world.train_all)
    lines: list[str] = []
    settings = NET | {"rates": "auto"} | options
    return wb.audit_rules(list(rules), out=out, seeds=seeds, say=lines.append, **settings), lines


@pytest.fixture(scope="module")
def usual(tmp_path_factory):
    """The world in which every net has its own rate, and the audit and the folder that came of it."""
    out, world = tmp_path_factory.mktemp("usual") / "runs", Tuned()
    with pytest.MonkeyPatch.context() as patch:
        made, _ = trained_by(patch, out, world)
    return world, made, out


@pytest.fixture
def runs(usual, tmp_path) -> Path:
    """A copy of its folder."""
    return Path(shutil.copytree(usual[2], tmp_path / "runs"))


def evidence(folder: Path, name: str = "dfa") -> Evidence:
    return next(s.evidence for s in subjects_at([folder])[0] if s.name == name)


def efforts(folder: Path) -> Effort:
    found = evidence(folder).effort
    assert found is not None
    return found


# --- what is tried, and what is taken -------------------------------------------------------------------------------


def test_every_net_takes_the_rate_of_its_own_trials(usual):
    world, _, out = usual
    runs = [c for c in world.trained if not c.validation]
    assert {c.label(): c.lr for c in runs} == {
        "bp": 3e-3, "bp k=2": 3e-3, "bp k=0": 1e-2, "bp shallow": 1e-2, "random": 1e-3, "random k=0": 1e-3,
        "dfa": 1e-3, "dfa k=2": 1e-3, "dfa k=0": 1e-3,
    }  # fmt: skip
    trials = [c for c in world.trained if c.validation and c.epochs == 2]
    assert len(trials) == 9 * len(GRID)
    assert {c.seed for c in trials} == {TRIAL_SEED}
    assert {c.validation for c in trials} == {0.1}
    assert {len([c for c in trials if c.lr == rate]) for rate in GRID} == {9}
    assert not {c.seed for c in runs} & {TRIAL_SEED}
    assert len(find_runs(out / "trials")) == len(trials) + 1  # and one with twice the epochs


def test_baselines_at_their_own_rates_are_found_and_the_effort_is_told(runs):
    found = evidence(runs)
    assert {name: len(base.accuracy) for name, base in found.baselines.items()} == dict.fromkeys(
        ("frozen", "frozen_bp", "bp", "shallow", "half", "half_bp"), 3
    )
    trials = dict.fromkeys(["subject", *found.baselines], 5)
    assert found.effort == Effort(tuned=True, trials=trials, why="", rises=found.effort.rises)
    assert found.effort.rises == pytest.approx(0.02)


def test_judged_again_from_the_folder_it_is_the_same_and_trials_are_no_subjects(usual):
    _, made, runs = usual
    again = judge_paths(runs)
    assert [s.name for s in again.subjects] == ["bp", "dfa"]
    assert {s.name: s for s in again.subjects}["dfa"] == made.subjects[0]
    assert again.controls[:2] == made.controls[:2]
    assert again.valid
    found = report_paths(runs)
    (line,), _ = commands(found, found.cases, found.runs)
    assert "--lr" not in line
    assert line[line.index("--rates") + 1] == "auto"
    one_by_one = judge_paths(*find_runs(runs))
    assert one_by_one.subjects == again.subjects


def test_while_a_best_rate_is_at_an_edge_the_grid_grows_for_all(audited, tmp_path):
    world = Tuned(BEST | {"bp shallow": 0.1, "random": 1e-4})
    _, lines = audited(world)
    trials = [c for c in world.trained if c.validation and c.epochs == 2]
    assert {c.lr for c in trials} == {3e-5, 1e-4, *GRID, 0.1, 0.3}
    assert len(trials) == 9 * 9
    assert efforts(tmp_path / "runs").tuned
    assert len(lines) == 1
    assert lines[0].startswith("Learning rates, each the best of 9 from 3e-05 to 0.3. 0.0001: random, random k=0; ")


def test_at_most_nine_rates_are_tried_and_a_best_one_at_the_edge_is_told(audited, tmp_path):
    world = Tuned(BEST | {"bp shallow": 1e3})
    _, lines = audited(world)
    rates = {c.lr for c in world.trained if c.validation and c.epochs == 2}
    assert len(rates) == MOST
    assert lines[-1] == "At the edge of 9 rates, which is as many as are tried: bp shallow."
    found = efforts(tmp_path / "runs")
    assert (found.tuned, found.why) == (
        False, "the best rate of the shallow net, 3, is at the edge of those tried"
    )  # fmt: skip


def test_what_always_diverges_is_tried_at_smaller_rates():
    assert beyond(GRID, [Choice({}, GRID, [])]) == [1e-4]
    assert beyond(GRID, [Choice(dict.fromkeys(GRID, 0.1), [], [])]) == [1e-4]  # a tie goes to the smaller
    assert beyond(GRID, [None, Choice({1e-3: 0.3}, [3e-4, 3e-3], [])]) == []


# --- stopped, repeated, shared --------------------------------------------------------------------------------------


@pytest.mark.parametrize("after", [3, 44, 50])
def test_stopped_and_called_again_it_trains_the_rest(audited, tmp_path, after):
    whole = Tuned(BEST | {"dfa": 3e-4})
    audited(whole)
    expected = judge_paths(tmp_path / "runs").text()
    shutil.rmtree(tmp_path / "runs")
    first = Tuned(BEST | {"dfa": 3e-4}, stops_after=after)
    with pytest.raises(WalkbackError, match="runs did not finish"):
        audited(first)
    second = Tuned(BEST | {"dfa": 3e-4})
    audited(second)
    assert len(first.trained) == after
    assert {c.hash() for c in [*first.trained, *second.trained]} == {c.hash() for c in whole.trained}
    assert len(first.trained) + len(second.trained) == len(whole.trained)
    assert judge_paths(tmp_path / "runs").text() == expected


def test_audits_share_trials_and_what_was_tried_for_one_is_tried_for_all(audited, tmp_path):
    """fa makes the grid grow. Then dfa is behind, until its own audit is called again."""
    audited(Tuned())
    second = Tuned(BEST | {"fa": 3e-2})
    audited(second, ["fa"])
    assert {c.lr for c in second.trained if c.validation and c.rule == "bp"} == {0.1}  # the others were there
    behind = efforts(tmp_path / "runs")
    assert (behind.tuned, behind.trials["subject"], behind.trials["bp"]) == (False, 5, 6)
    assert behind.why == "the subject and bp were not tried alike (5 and 6 rates)"
    third = Tuned()
    audited(third)
    assert {(c.rule, c.lr) for c in third.trained} == {("dfa", 0.1)}
    assert efforts(tmp_path / "runs").tuned


def test_weights_of_trials_are_not_kept_and_finished_ones_are_taken_as_they_are(tmp_path):
    """By real training, of one net."""
    (arm,) = plan(rules=["bp"], data="digits", seeds=[TRIAL_SEED], epochs=1, net_options={"width": 8, "depth": 1})
    events: list[Event] = []
    train = partial(train_all, jobs=1, executor="serial", tell=events.append)
    rates = tune([arm], tmp_path, train, lambda line: None)
    assert rates.of(arm).lr in rates.of(arm).rates
    assert len(find_runs(tmp_path / "trials")) == len(rates.of(arm).rates) >= len(GRID)
    assert not list(tmp_path.glob("trials/*/*.safetensors"))
    events.clear()
    assert vars(tune([arm], tmp_path, train, lambda line: None)) == vars(rates)
    assert {event.kind for event in events} == {"reused"}


def test_exported_runs_take_their_trials_with_them(runs, tmp_path):
    app(("export", str(runs), "--to", str(tmp_path / "sent")), result_action="return_value")
    assert efforts(tmp_path / "sent") == efforts(runs)


# --- strangers ------------------------------------------------------------------------------------------------------


def plant(folder: Path, arm: RunConfig, rates, accuracy=0.3, **changes) -> None:
    for rate in rates:
        config = trial(arm, rate).changed(**changes)
        write_exactly(folder / "trials", config, accuracy, [0.0] * config.blocks)


def arms(**more) -> dict[str, RunConfig]:
    return {c.label(): c for c in audit_plan(["dfa"], seeds=[42], **NET, **more)}


def test_planted_more_trials_for_the_subject_than_for_its_baselines(runs):
    """Ten rates for the subject, five for each baseline: the best of more draws is better for nothing."""
    plant(runs, arms()["dfa"], (1e-4, 2e-4, 2e-3, 6e-3, 0.1))
    found = efforts(runs)
    assert (found.tuned, found.trials["subject"]) == (False, 10)
    assert "were not tried alike" in found.why


def test_planted_trials_of_another_seed_count_as_other_trials(runs):
    plant(runs, arms()["dfa"], GRID, 0.9, seed=1)
    assert efforts(runs).why == "the trials of the subject differ in more than their rate"


def test_planted_trials_on_the_test_split_choose_nothing(runs):
    before = vars(rates_in(runs))
    plant(runs, arms()["dfa"], [0.03], 0.9, validation=0.0)
    assert vars(rates_in(runs)) == before


def test_planted_a_subject_that_was_not_trained_at_its_rate(runs):
    """Nor may it have baselines at rates of theirs, among which it could look for a weak one."""
    for config in audit_plan(["dfa"], seeds=3, **NET, lr=0.02):
        if config.label() == "dfa":
            write_exactly(runs, config, 0.9, [0.9] * 4)
    found = evidence(runs, "dfa · lr 0.02")
    assert found.baselines == {}
    assert (found.effort.tuned, found.effort.trials) == (False, {"subject": 5})


@pytest.mark.parametrize(("arm", "why"), [
    ("dfa k=0", "no rate was tried for the frozen net"), ("bp", "no rate was tried for bp"),
    ("bp k=0", "no rate was tried for bp's frozen net"), ("bp shallow", "no rate was tried for the shallow net"),
])  # fmt: skip
def test_law_trials_that_are_left_out_never_make_it_tuned(runs, arm, why):
    full = evidence(runs)
    for path in find_runs(runs / "trials"):
        if read_run(path).config.changed(validation=0.0).label() == arm:
            shutil.rmtree(path)
    found = evidence(runs)
    assert not found.effort.tuned
    same_rate = found.baselines.keys() == full.baselines.keys()  # then it may be the baseline still
    assert found.effort.why == (why if same_rate else f"{why.removeprefix('no rate was tried for ')} is not there")


def test_law_a_trial_that_is_left_out_never_makes_it_tuned(runs):
    """Without the trial at which the frozen net was best, its runs have another rate than its trials choose."""
    for path in find_runs(runs / "trials"):
        config = read_run(path).config
        if (config.rule, config.train_last, config.lr) == ("dfa", 0, 1e-3) and config.epochs == 2:
            shutil.rmtree(path)
    found = evidence(runs)
    assert "frozen" not in found.baselines
    assert not found.effort.tuned


def test_trials_of_another_budget_choose_nothing(runs):
    rates = rates_in(runs)
    config = arms()["dfa"]
    assert rates.of(config).lr == 1e-3
    for change in ({"epochs": 3}, {"batch_size": 64}, {"weight_decay": 0.0}, {"data": "digits"}, {"penalty": 0.1}):
        assert rates.of(config.changed(**change)) is None
        assert at_its_rate(config.changed(**change), rates).lr == config.lr


def test_a_frozen_net_has_the_trials_of_any_penalty(tmp_path):
    plant(tmp_path, arms(penalty=0.1)["dfa k=0 λ=0.1"], GRID)
    rates = ChosenRates(map(read_run, find_runs(tmp_path / "trials")))
    assert rates.of(arms()["dfa k=0"]) is not None


def test_what_rises_is_the_better_of_frozen_and_shallow_net(usual, runs):
    longer = [c for c in usual[0].trained if c.epochs == 4]
    assert [(c.label(), c.validation) for c in longer] == [("bp shallow", 0.1)]
    rates = rates_in(runs)
    assert rates.rises(arms()["bp k=2"]) is None
    assert rates.of(doubled(arms()["bp shallow"])).rates == [1e-2]
    plant(runs, doubled(arms()["bp shallow"]), [1e-2], 0.9, seed=5)  # another draw of luck is no rise
    shutil.rmtree(runs / "trials" / longer[0].folder())
    assert rates_in(runs).rises(arms()["bp shallow"]) is None


# --- words ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("options", "why"), [
    ({"lr": 0.01}, "--lr 0.01 fixes one"), ({"validation": 0.2}, "--validation 0.2 does as well"),
    ({"seeds": [42, TRIAL_SEED]}, "is the seed of the trials"),
])  # fmt: skip
def test_error_options_that_do_not_go_with_trials(audited, options, why):
    with pytest.raises(BadValue, match=why):
        audited(World(SHARP), **options)


def test_one_rate_trains_no_trials(audited, tmp_path):
    world = World(SHARP)
    audited(world, rates="one", lr=0.01)
    assert {c.lr for c in world.trained} == {0.01}
    assert not (tmp_path / "runs/trials").exists()
    assert evidence(tmp_path / "runs").effort is None


# --- what is to come ------------------------------------------------------------------------------------------------


def test_what_is_to_come_is_told_to_the_training(usual, tmp_path):
    """What is told beforehand is what is then trained; what is there already is not told again."""
    world, _, out = usual
    first, widest = coming(["dfa"], out=tmp_path / "new", rates="auto", jobs=2, **NET)
    assert widest.startswith("With 9 rates, which is the most: about ")
    assert first.startswith("To train: 46 trials of learning rates and 27 runs with 3 seeds. It takes about ")
    assert not (tmp_path / "new").exists()
    trials = [c for c in world.trained if c.validation]
    assert (len(trials), len(world.trained)) == (46, 46 + 27)
    assert coming(["dfa"], out=out, rates="auto", jobs=2, **NET) == [
        "Nothing is left to train of what is sure to be needed."
    ]
    (more,) = coming(["dfa"], out=out, rates="auto", seeds=4, **NET)
    assert more.startswith("To train: 9 runs with 4 seeds. ")
    other, _ = coming(["dfa"], out=out, rates="auto", seeds=4, executor="slurm", **NET | {"batch_size": 64})
    assert "of one process" in other


def test_a_dry_run_trains_nothing_and_refuses_what_an_audit_refuses(tmp_path):
    words = ["audit", "--dry-run", "--data", "digits", "--epochs", "1", "--width", "8"]
    done = walkback(*words, cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    said = " ".join(done.stdout.split())
    assert "To train: 61 trials of learning rates and 36 runs with 3 seeds. It takes about " in said
    assert "With 9 rates, which is the most: about " in said
    for more, why in (
        (["--rates", "auto", "--lr", "0.1"], "--lr 0.1 fixes one"),
        (["--max-seeds", "5"], "--seeds auto"),
    ):
        refused = walkback(*words, *more, cwd=tmp_path)
        assert refused.returncode not in (0, 1, 3, 4)
        assert why in refused.stdout + refused.stderr
    assert list(tmp_path.iterdir()) == []


def test_minutes_are_those_of_earlier_runs(usual):
    (line,) = coming(["dfa"], out=usual[2], rates="auto", seeds=12, jobs=3, **NET)
    assert "about 5 min 27 s on 3 processes" in line  # 81 runs of 12 seconds each, as the records say
