"""Many runs: grouped and judged as few are, by work that grows with their number and no faster."""

import csv
import errno
import io
import os
import shutil
import subprocess
import sys
from collections import Counter
from pathlib import Path

import pytest
from rich.console import Console

from fake_runs import write_run
from walkback.audits import judge_paths, spine
from walkback.checks import DEFAULT
from walkback.cli import app
from walkback.errors import BadValue, RecordError
from walkback.records import (
    Baseline,
    RunConfig,
    baselines,
    config_names,
    find_runs,
    folder,
    half,
    read_run,
    subjects_of_runs,
)
from walkback.records.config_names import setting_of, subject_of
from walkback.report.audit_words import print_audit
from walkback.report.tables import Table, table_text
from walkback.train import plan

ROOT = Path(__file__).parents[2]
sys.path.insert(0, str(ROOT / "bench"))


def setting(**changes) -> list[RunConfig]:
    """What an audit of dfa trains with its controls, in a net of two blocks."""
    shared = {"data": "mnist1d", "seeds": 2, "epochs": 2, "net_options": {"width": 16, "depth": 2}} | changes
    every = {rule: plan(rules=[rule], **shared) for rule in ("bp", "dfa", "random")}
    configs = [config for those in every.values() for config in those]
    for rule, last in (("bp", 0), ("bp", 1), ("dfa", 0), ("dfa", 1), ("random", 0)):
        configs += plan(rules=[rule], train_last=last, **shared)
    shallow = {**shared, "net_options": {**shared["net_options"], "depth": 0}, "penalty": 0.0}
    return configs + plan(rules=["bp"], **shallow)


def write_crowd(out: Path, settings: int) -> list[Path]:
    """So many settings, told apart by λ or the weight decay, as run folders; one run of each is not finished."""
    paths = []
    for number in range(settings):
        changes = {"penalty": 0.01 * number} if number % 2 else {"weight_decay": 0.01 + 0.001 * number}
        for place, config in enumerate(setting(**changes)):
            accuracy = {"bp": 0.6, "dfa": 0.5, "random": 0.2}[config.rule] * (0.5 + 0.25 * config.train_last)
            unfinished = {"status": None, "until": 1} if place == 3 else {}
            path = out / config.folder()
            if not path.exists():
                stream = 2000.0 if config.rule == "dfa" and not number else 20.0  # which the check of scale notices
                how = {"accuracy": accuracy + config.seed / 1e5, "stream": stream, **unfinished}
                paths.append(write_run(out, config, **how))
    return paths


@pytest.fixture(scope="module")
def crowd(tmp_path_factory) -> Path:
    """Three settings, which nobody changes."""
    place = tmp_path_factory.mktemp("crowd") / "runs"
    write_crowd(place, 3)
    return place


@pytest.fixture
def runs(crowd, tmp_path) -> Path:
    """A copy of them."""
    return Path(shutil.copytree(crowd, tmp_path / "runs"))


# --- grouping, against every run held against every other -------------------------------------------------------------


def dumb_names(configs):
    """Every config held against every other of its label."""
    flat = [config_names._flat(config) for config in configs]
    usual = config_names._usual(flat)

    def differs(key, own, alike):
        source = "net" if key.startswith("net:") else config_names.IMPLIED.get(key)
        held_against = [other for other in alike if source is None or other.get(source) == own.get(source)]
        return any(other.get(key) != own[key] for other in held_against) and usual.get(key) != repr(own[key])

    names = []
    for config, own in zip(configs, flat, strict=True):
        alike = [other for c, other in zip(configs, flat, strict=True) if c.label() == config.label()]
        traits = [config_names._words(key, value) for key, value in own.items() if differs(key, own, alike)]
        names.append(config_names.BETWEEN.join([config.label(), *traits]))
    return [n if names.count(n) == 1 else config_names._whole(n, c) for n, c in zip(names, configs, strict=True)]


def alike(one, other, **anything):
    """Whether two configs are equal but for some fields."""
    return one.changed(**anything) == other.changed(**anything)


def dumb_baselines(config, runs):
    """Every run held against the subject: the second implementation."""
    any_net = {"seed": 0, "train_last": 0, "penalty": 0.0}
    any_rule = {**any_net, "rule": "bp", "rule_options": {}, "rule_source": None}
    any_blocks = {**any_rule, "net_options": {}, "blocks": 0}
    own = [run for run in runs if alike(run.config, config, **any_net)]
    bp = [run for run in runs if run.config.rule == "bp" and alike(run.config, config, **any_rule)]
    options = config.net_options.items()
    found = {
        "frozen": [run for run in own if not run.config.train_last],
        "frozen_bp": [run for run in bp if not run.config.train_last],
        "bp": [run for run in bp if run.config.train_last == config.blocks],
        "shallow": [
            run for run in runs
            if run.config.rule == "bp" and not run.config.blocks and alike(run.config, config, **any_blocks)
            and sum(run.config.net_options[name] != value for name, value in options) == 1
        ],
    }  # fmt: skip
    found["bp"] = [run for run in found["bp"] if run.config.penalty in (0.0, config.penalty)]
    if not config.train_last:
        del found["frozen"]
    if half(config.blocks) < config.blocks == config.train_last:
        found["half"] = [
            run for run in own
            if run.config.train_last == half(config.blocks) and run.config.penalty == config.penalty
        ]  # fmt: skip
        full = {run.config.penalty for run in baselines.fittest(found["bp"])} if found["bp"] else set()
        found["half_bp"] = [
            run for run in bp if run.config.train_last == half(config.blocks) and run.config.penalty in full
        ]
    return {name: baselines.fittest(those) for name, those in found.items() if those}


def dumb_subjects(runs):
    """Names, runs and baselines of all subjects, by every run held against every other."""
    groups = {}
    for each in sorted(runs, key=lambda each: each.config.seed):
        groups.setdefault(each.config.changed(seed=0).hash(), []).append(each)
    nets = [group[0].config for group in groups.values()]

    def is_half(config):
        whole = config.changed(train_last=config.blocks, seed=0)
        return half(config.blocks) == config.train_last < config.blocks and any(alike(n, whole, seed=0) for n in nets)

    full = [g for g in groups.values() if g[0].config.train_last > 0 and not is_half(g[0].config)]
    chosen = full or [g for g in groups.values() if g[0].config.blocks]
    names = dumb_names([g[0].config for g in chosen])
    return [(name, group, dumb_baselines(group[0].config, runs)) for name, group in zip(names, chosen, strict=True)]


def as_found(runs):
    return [(subject.name, list(subject.runs), subject.baselines) for subject in subjects_of_runs(runs)]


@pytest.mark.parametrize("part", ["all", "frozen alone", "no bp", "halves alone"])
def test_subjects_and_baselines_are_those_of_holding_every_run_against_every_other(tmp_path, part) -> None:
    every = [read_run(path) for path in sorted(write_crowd(tmp_path, 4))]
    keep = {
        "all": lambda c: True, "frozen alone": lambda c: not c.train_last, "no bp": lambda c: c.rule != "bp",
        "halves alone": lambda c: c.train_last == 1,
    }[part]  # fmt: skip
    runs = [each for each in every if keep(each.config)]
    assert len(runs) > 5
    assert as_found(runs) == dumb_subjects(runs)


def test_the_recorded_runs_are_grouped_as_by_holding_every_one_against_every_other() -> None:
    runs = [read_run(path) for path in find_runs(ROOT / "results", ROOT / "results/mnist1d-bridges")]
    found = as_found(runs)
    assert len(found) > 20
    assert found == dumb_subjects(runs)


def test_what_runs_share_has_the_hash_of_the_changed_config() -> None:
    """Second implementation: the config itself, changed and hashed."""
    one = setting()[0]
    odd = [one.changed(**{"rule_options": {"a": value}}) for value in (1, 1.0, True, "1", None, [1], "nan")]
    any_rule = {"seed": 0, "rule": "", "rule_options": {}, "rule_source": None, "train_last": 0}
    for config in [*setting(), *odd, *odd]:
        assert subject_of(config) == config.changed(seed=0).hash()
        assert setting_of(config) == config.changed(**any_rule).hash()
    assert len({subject_of(config) for config in odd}) == len(odd)


def test_a_folder_that_cannot_be_looked_into_is_no_folder_without_a_run(runs, monkeypatch) -> None:
    (runs / "a file").touch()
    (runs / "b" / "c").mkdir(parents=True)
    assert find_runs(runs) == sorted(path.parent for path in runs.glob("*/config.json"))
    real = os.stat

    def denied(path, *args, **named):
        if "config.json" in str(path):
            raise PermissionError(errno.EACCES, "denied", str(path))
        return real(path, *args, **named)

    monkeypatch.setattr(os, "stat", denied)
    with pytest.raises(PermissionError):
        find_runs(runs)


# --- several processes ------------------------------------------------------------------------------------------------


@pytest.fixture
def beside(monkeypatch):
    """Judges with two other processes, however few the runs are, a few runs at a time."""
    monkeypatch.setattr(spine, "MANY", 0)
    monkeypatch.setattr(spine, "AT_ONCE", 4)
    return lambda *places, **how: judge_paths(*places, processes=2, **how)


@pytest.mark.parametrize("how", [{}, {"protocol": "published"}, {"baselines": {"frozen": Baseline.number(0.3)}}])
def test_other_processes_judge_alike(crowd, beside, how) -> None:
    expected = judge_paths(crowd, **how)
    assert expected.controls, "controls are found, so the whole way is walked"
    assert beside(crowd, **how).text() == expected.text()


def test_a_copy_is_noticed_although_no_process_saw_both(runs, beside) -> None:
    """A baseline's records given out as those of another seed."""
    frozen = [read_run(path) for path in find_runs(runs) if "-dfa_k_0-" in path.name]
    one, other = (run.path for run in frozen if run.config.weight_decay != 0.01)  # there no others stand in for them
    assert "same-records" not in judge_paths(runs).text()
    shutil.copy(one / "snapshots.jsonl", other / "snapshots.jsonl")
    shutil.copy(one / "result.json", other / "result.json")
    expected = judge_paths(runs).text()
    assert "same-records" in expected
    assert beside(runs).text() == expected


@pytest.mark.parametrize("name", ["snapshots.jsonl", "result.json", "probes.json"])
def test_the_first_by_name_is_refused_by_whichever_process_it_was_read(runs, beside, name) -> None:
    for path in (find_runs(runs)[7], find_runs(runs)[-2]):
        (path / name).write_bytes(b'{"epoch": -1}\n')
    with pytest.raises(RecordError) as alone:
        judge_paths(runs)
    with pytest.raises(RecordError) as shared:
        beside(runs)
    assert (shared.value.what, shared.value.remedy) == (alone.value.what, alone.value.remedy)
    assert find_runs(runs)[7].name in shared.value.what


def test_a_process_that_dies_costs_only_its_time(crowd, beside, monkeypatch) -> None:
    expected = judge_paths(crowd).text()
    monkeypatch.setattr(spine, "_judging", dies)
    monkeypatch.setattr(spine, "AT_ONCE", 12)  # every task costs a process, which takes a second to start
    assert beside(crowd).text() == expected


def dies(pipe) -> None:
    """Takes its first task with it."""
    pipe.send("ready")
    pipe.recv()
    os._exit(3)


# --- work that grows with the number of runs --------------------------------------------------------------------------


@pytest.fixture
def work(monkeypatch) -> Counter:
    """How often a file was read, a folder's snapshots were parsed, and one run was asked about another."""
    counts: Counter[str] = Counter()

    def counting(module, name, key):
        real = getattr(module, name)

        def wrapped(*args, **named):
            counts[key] += 1
            return real(*args, **named)

        monkeypatch.setattr(module, name, wrapped)

    counting(folder, "read_bytes", "files")
    counting(folder, "snapshots_of", "parsed")
    counting(baselines, "is_shallow", "comparisons")
    counting(spine, "judge", "judged")
    return counts


def test_twice_the_runs_are_twice_the_work(tmp_path, work) -> None:
    taken, sizes = [], []
    for settings in (4, 8):
        place = tmp_path / str(settings)
        sizes.append(len(write_crowd(place, settings)))
        work.clear()
        judge_paths(place)
        assert work["parsed"] == sizes[-1], "each run once, though some are baselines of several"
        taken.append(dict(work))
    grown = sizes[1] / sizes[0]
    for kind in ("files", "comparisons", "judged"):
        assert taken[0][kind] > 0
        # λ = 0 is a baseline of every λ, so a few comparisons more than proportional are in order; squared would be 4.
        assert taken[1][kind] <= 1.3 * grown * taken[0][kind], kind


def test_runs_that_no_judgement_rests_on_are_checked_as_well(runs) -> None:
    alone = write_run(runs, plan(data="digits", rules=["bp"], train_last=0, epochs=2, net_options={"depth": 2})[0])
    judge_paths(runs)
    for victim in (alone, next(path for path in find_runs(runs) if "-dfa_k_0" in path.name)):
        file = victim / "snapshots.jsonl"
        before = file.read_bytes()
        file.write_bytes(before.replace(b'"gamma":0.5', b'"gamma":0.7', 1))
        with pytest.raises(RecordError, match=r"gamma") as found:
            judge_paths(runs)
        assert victim.name in found.value.what
        file.write_bytes(before)
    judge_paths(runs)


def test_nothing_is_written_beside_the_runs(crowd) -> None:
    before = {path: path.stat().st_mtime_ns for path in crowd.rglob("*")}
    judge_paths(crowd)
    assert {path: path.stat().st_mtime_ns for path in crowd.rglob("*")} == before


def test_judging_records_needs_no_torch(crowd) -> None:
    code = "import sys; from walkback.cli import app; app(sys.argv[1:], result_action='return_value')"
    code += "; assert 'torch' not in sys.modules, 'it takes seconds to import'"
    subprocess.run([sys.executable, "-c", code, "judge", str(crowd)], check=True, capture_output=True)


# --- what a person can read -------------------------------------------------------------------------------------------


def test_an_audit_of_many_subjects_names_the_walked_back_first_and_counts_the_others(crowd) -> None:
    audit = judge_paths(crowd)
    (first, *_) = audit.subjects
    fired = [f.changed(outcome="fires") if f.check == "depth" else f for f in first.findings]
    answers = first.verdicts.changed(accuracy="walked back")
    worst = first.changed(verdict="walked back", verdicts=answers, findings=fired)
    every = [*audit.subjects * 30, *[worst] * 5]
    many = audit.changed(subjects=every, controls=audit.controls * 30, not_controlled=[])
    assert {s.verdict for s in every} == {"walked back", "open"}
    console = Console(file=io.StringIO(), width=80)
    print_audit(many, console, 3)
    text = console.file.getvalue()
    flat = " ".join(text.split())
    assert f"These are 3 of {len(every):,} subjects (5 walked back" in flat
    assert f"{len(every) - 5:,} open" in flat
    table = text.partition("✓ passes")[0]
    assert table.count("✗ walked back") == 3, "three that were walked back fill the room"
    assert f"3 of {len(many.controls):,} controls" in flat
    assert len(text.splitlines()) < 140  # the reasons of three subjects, seven checks each


def test_show_reads_what_it_prints_and_its_csv_has_every_run(crowd, capsys, work) -> None:
    count = len(find_runs(crowd))
    app(["show", str(crowd), "--rows", "4"], result_action="return_value")
    assert work["parsed"] == 4
    assert f"… and {count - 4:,} more, not read" in capsys.readouterr().out
    app(["show", str(crowd), "--format", "csv"], result_action="return_value")
    rows = list(csv.DictReader(io.StringIO(capsys.readouterr().out)))
    assert [row["run"] for row in rows] == [path.name for path in find_runs(crowd)]
    with pytest.raises(BadValue):
        app(["show", str(crowd), "--rows", "0"], result_action="return_value")


def test_a_long_table_is_cut_in_the_terminal_and_whole_in_a_file() -> None:
    table = Table("t", "Many", ["n"], [[n] for n in range(1000)])
    shown = table_text(table, "text")
    assert "800 more rows" in shown
    assert len(shown.splitlines()) < 220
    assert len(table_text(table, "csv").splitlines()) == 1001


# --- the folders that the measurements are made with ------------------------------------------------------------------


def test_made_folders_keep_every_invariant(tmp_path) -> None:
    import crowd as bench

    sources = [path for path in bench.recorded() if "mnist1d" in path.parts[-2]][:12]
    made = [bench.write(s, tmp_path, c, seed, cut=c and not seed) for s in sources for c in (0, 3) for seed in (0, 1)]
    runs = [read_run(path) for path in made]
    assert len({each.config.hash() for each in runs}) == len(made) == 48
    assert sum(each.result is None for each in runs) == 12
    assert not any("same-records" in note for s in judge_paths(tmp_path).subjects for note in s.notes)
    assert judge_paths(tmp_path, thresholds=DEFAULT).subjects
