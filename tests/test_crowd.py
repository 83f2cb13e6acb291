"""Many runs: grouped, judged and indexed as few are, by work that grows with their number and no faster."""

import csv
import errno
import io
import json
import multiprocessing
import os
import pickle
import shutil
import subprocess
import sys
from collections import Counter
from pathlib import Path

import pytest
from rich.console import Console

from fake_runs import write_run
from walkback.audits import crowd, index, judge_crowd, many, subjects, titles, workers
from walkback.audits import judge_paths as judge_in_memory
from walkback.checks import DEFAULT, Audit
from walkback.cli import app
from walkback.errors import BadValue, RecordError
from walkback.records import Baseline, RunConfig, evidence_of_runs, find_runs, read_run, run
from walkback.records.baselines import depth_of, is_half_of
from walkback.records.outline import digest_of, read_outline
from walkback.records.run import RECORDS, read_files
from walkback.records.sharing import setting_of, subject_of
from walkback.report.tables import Table, table_text
from walkback.report.verdicts import print_audit
from walkback.train import plan

ROOT = Path(__file__).parent.parent
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


@pytest.fixture
def runs(tmp_path, monkeypatch) -> Path:
    """Three settings, with an index however few they are."""
    monkeypatch.setattr(index, "FEW", 0)
    monkeypatch.setenv("WALKBACK_CACHE", str(tmp_path / "cache"))
    write_crowd(tmp_path / "runs", 3)
    return tmp_path / "runs"


def judge_paths(*places: Path | str, **how) -> Audit:
    """The audit of a crowd."""
    return judge_crowd(*places, **how)[0]


def in_memory(place: Path, **how) -> str:
    """The audit of all runs, read at once: what there was before crowds."""
    return judge_in_memory(place, **how).text()


# --- grouping, against every run held against every other -------------------------------------------------------------


def dumb_titles(configs):
    """Every config held against every other of its label."""
    flat = [titles._flat(config) for config in configs]
    usual = titles._usual(flat)

    def differs(key, own, alike):
        source = "net" if key.startswith("net:") else titles.IMPLIED.get(key)
        held_against = [other for other in alike if source is None or other.get(source) == own.get(source)]
        return any(other.get(key) != own[key] for other in held_against) and usual.get(key) != repr(own[key])

    names = []
    for config, own in zip(configs, flat, strict=True):
        alike = [other for c, other in zip(configs, flat, strict=True) if c.label() == config.label()]
        traits = [titles._words(key, value) for key, value in own.items() if differs(key, own, alike)]
        names.append(titles.BETWEEN.join([config.label(), *traits]))
    return [n if names.count(n) == 1 else titles._whole(n, c) for n, c in zip(names, configs, strict=True)]


def dumb_shallow(other, subject):
    if other.rule != "bp" or other.blocks or other.net_options.keys() != subject.net_options.keys():
        return False
    same = {
        "seed": 0, "rule": "", "rule_options": {}, "rule_source": None, "penalty": 0.0, "train_last": 0,
        "net_options": {}, "blocks": 0,
    }  # fmt: skip
    differ = [name for name, value in subject.net_options.items() if other.net_options[name] != value]
    return len(differ) == 1 and other.model_copy(update=same) == subject.model_copy(update=same)


def dumb_subjects(runs):
    """Every run held against every other: the second implementation."""
    groups = {}
    for each in sorted(runs, key=lambda each: each.config.seed):
        groups.setdefault(each.config.model_copy(update={"seed": 0}).hash(), []).append(each)
    full = [g for g in groups.values() if g[0].config.train_last > 0]
    full = [g for g in full if not any(is_half_of(g[0].config, o[0].config, depth_of(o)) for o in full)]
    chosen = full or [g for g in groups.values() if g[0].config.blocks]
    found = []
    for group, title in zip(chosen, dumb_titles([g[0].config for g in chosen]), strict=True):
        shallow = [each for each in runs if dumb_shallow(each.config, group[0].config)]
        given = {"shallow": shallow} if shallow else {}
        found.append((evidence_of_runs(title, group, runs, baselines=given), group))
    return found


@pytest.mark.parametrize("part", ["all", "frozen alone", "no bp", "halves alone"])
def test_subjects_and_baselines_are_those_of_holding_every_run_against_every_other(tmp_path, part) -> None:
    every = [read_run(path) for path in sorted(write_crowd(tmp_path, 4))]
    keep = {
        "all": lambda c: True, "frozen alone": lambda c: not c.train_last, "no bp": lambda c: c.rule != "bp",
        "halves alone": lambda c: c.train_last == 1,
    }[part]  # fmt: skip
    runs = [each for each in every if keep(each.config)]
    assert len(runs) > 5
    assert subjects.runs_by_subject(runs) == dumb_subjects(runs)


def test_the_recorded_runs_are_grouped_as_before() -> None:
    outlines = [read_outline(path) for path in find_runs(ROOT / "results", ROOT / "results/mnist1d-bridges")]
    groups = subjects.grouped(outlines)
    assert len(groups) > 20
    assert [group.title for group in groups] == dumb_titles([group.runs[0].config for group in groups])
    for group in groups:
        config = group.runs[0].config
        assert group.shallow == [o for o in outlines if dumb_shallow(o.config, config)]
        with_role = [o for o in outlines if crowd.roles(o.config, config, depth_of(group.runs))]
        assert [o for o in group.others if crowd.roles(o.config, config, depth_of(group.runs))] == with_role


def test_options_that_are_equal_as_numbers_are_the_same_option() -> None:
    one = setting()[0]
    other = one.model_copy(update={"net_options": {**one.net_options, "width": 16.0}})
    assert one == other
    assert subjects.same_but(one, {}) == subjects.same_but(other, {})
    assert subjects.same_but(one, {}) != subjects.same_but(one.model_copy(update={"rule_options": {"a": [1]}}), {})


def test_what_runs_share_has_the_hash_of_the_changed_config() -> None:
    """Second implementation: the config itself, changed and hashed."""
    one = setting()[0]
    odd = [one.model_copy(update={"rule_options": {"a": value}}) for value in (1, 1.0, True, "1", None, [1], "nan")]
    any_rule = {"seed": 0, "rule": "", "rule_options": {}, "rule_source": None, "train_last": 0}
    for config in [*setting(), *odd, *odd]:
        assert subject_of(config) == config.model_copy(update={"seed": 0}).hash()
        assert setting_of(config) == config.model_copy(update=any_rule).hash()
    assert len({subject_of(config) for config in odd}) == len(odd)


def test_judgements_and_outlines_go_to_another_process_whole(runs) -> None:
    def sent(thing):
        return pickle.loads(pickle.dumps(thing))  # noqa: S301 - as a pipe does

    audit = judge_crowd(runs)[0]
    assert [sent(subject).text() for subject in audit.subjects] == [subject.text() for subject in audit.subjects]
    one, other = (sent(audit.subjects[0]) for _ in range(2))
    assert one.findings[0].model_fields_set is other.findings[0].model_fields_set, "in memory once"
    assert one.findings[0].model_fields_set == audit.subjects[0].findings[0].model_fields_set
    assert "value" in one.findings[0].model_fields_set
    assert one.model_copy(update={"name": "another"}).model_fields_set is not one.model_fields_set
    for outline in map(read_outline, find_runs(runs)):
        assert sent(outline) == outline
        assert sent(outline).config.model_fields_set == outline.config.model_fields_set


def test_a_folder_that_cannot_be_looked_into_is_no_folder_without_a_run(tmp_path, monkeypatch) -> None:
    write_crowd(tmp_path, 1)
    (tmp_path / "a file").touch()
    (tmp_path / "b" / "c").mkdir(parents=True)
    assert find_runs(tmp_path) == sorted(path.parent for path in tmp_path.glob("*/config.json"))
    real = os.stat

    def denied(path, *args, **named):
        if "config.json" in str(path):
            raise PermissionError(errno.EACCES, "denied", str(path))
        return real(path, *args, **named)

    monkeypatch.setattr(os, "stat", denied)
    with pytest.raises(PermissionError):
        find_runs(tmp_path)


# --- the same verdicts ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("how", [{}, {"protocol": "published"}, {"baselines": {"frozen": Baseline.number(0.3)}}])
def test_a_crowd_is_judged_as_all_runs_at_once_with_and_without_an_index(runs, how) -> None:
    expected = in_memory(runs, **how)
    assert json.loads(expected)["controls"], "controls are found, so the whole way is walked"
    assert judge_paths(runs, **how).text() == expected
    (file,) = (runs.parent / "cache/judged").iterdir()
    written = file.stat().st_mtime_ns
    assert judge_paths(runs, **how).text() == expected
    assert file.stat().st_mtime_ns == written, "nothing new, so nothing is written"


def test_an_audit_beside_the_runs_vouches_for_a_crowd_too(runs) -> None:
    first = judge_paths(runs)
    first.write(runs)
    assert judge_paths(runs).text() == in_memory(runs) == first.text()


def test_the_recorded_runs_are_judged_alike(tmp_path, monkeypatch) -> None:
    monkeypatch.setattr(index, "FEW", 0)
    monkeypatch.setenv("WALKBACK_CACHE", str(tmp_path))
    place = ROOT / "results/mnist1d-bridges"
    expected = in_memory(place)
    assert [judge_paths(place).text() for _ in range(2)] == [expected, expected]


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

    counting(run, "read_bytes", "files")
    counting(run, "quick_snapshots", "parsed")
    counting(run, "snapshots_of", "parsed")  # of a run that is not surely fine, or of a line of one
    counting(subjects, "is_half_of", "comparisons")
    counting(subjects, "is_shallow", "comparisons")
    import walkback.records.run_evidence as evidence

    counting(evidence, "roles", "comparisons")
    return counts


def test_twice_the_runs_are_twice_the_work(tmp_path, monkeypatch, work) -> None:
    monkeypatch.setattr(index, "FEW", 0)
    monkeypatch.setenv("WALKBACK_CACHE", str(tmp_path / "cache"))
    taken, sizes = [], []
    for settings in (4, 8):
        place = tmp_path / str(settings)
        sizes.append(len(write_crowd(place, settings)))
        work.clear()
        judge_paths(place)
        taken.append(dict(work))
        work.clear()
        judge_paths(place)
        assert work["parsed"] == 2 * settings, "of what is known already, the first line of the two bp controls"
    grown = sizes[1] / sizes[0]
    for kind in ("files", "parsed", "comparisons"):
        assert taken[0][kind] > 0
        # λ = 0 is a baseline of every λ, so a few comparisons more than proportional are in order; squared would be 4.
        assert taken[1][kind] <= 1.3 * grown * taken[0][kind], kind


def test_what_was_judged_before_is_not_parsed_again(runs, work) -> None:
    for path in find_runs(runs):  # without the controls, of which some lines are read each time
        if "-random" in path.name:
            shutil.rmtree(path)
    count = len(find_runs(runs))
    work.clear()
    first = judge_paths(runs)
    assert work["parsed"] == count, "each run once, though some are baselines of several"
    work.clear()
    assert judge_paths(runs) == first
    assert work["parsed"] == 0
    assert work["files"] == len(RECORDS) * count, "every record is read to be told by its digest"


# --- an index is never trusted over the folders -----------------------------------------------------------------------


def changed_in_place(file: Path, old: bytes, new: bytes, count: int = 1) -> None:
    """Another content of the same size, with the old time stamp."""
    before = file.stat()
    content = file.read_bytes()
    assert old in content
    assert len(old) == len(new)
    file.write_bytes(content.replace(old, new, count))
    os.utime(file, ns=(before.st_atime_ns, before.st_mtime_ns))
    assert (file.stat().st_size, file.stat().st_mtime_ns) == (before.st_size, before.st_mtime_ns)


def test_a_tampered_folder_is_refused_although_the_index_knows_it_as_possible(runs) -> None:
    judge_paths(runs)
    victim = next(path for path in find_runs(runs) if "-dfa-" in path.name)
    changed_in_place(victim / "snapshots.jsonl", b'"gamma":0.5', b'"gamma":0.7')
    with pytest.raises(RecordError, match=r"gamma") as found:
        judge_paths(runs)
    assert victim.name in found.value.what


def test_a_baseline_and_a_run_that_no_judgement_rests_on_are_refused_as_well(runs) -> None:
    alone = write_run(runs, plan(data="digits", rules=["bp"], train_last=0, epochs=2, net_options={"depth": 2})[0])
    judge_paths(runs)
    for victim in (alone, next(path for path in find_runs(runs) if "-dfa_k_0" in path.name)):
        file = victim / "snapshots.jsonl"
        before = file.read_bytes()
        changed_in_place(file, b'"gamma":0.5', b'"gamma":0.7')
        with pytest.raises(RecordError, match=r"gamma"):
            judge_paths(runs)
        file.write_bytes(before)
    judge_paths(runs)


def test_other_numbers_that_are_possible_are_judged_anew(runs) -> None:
    before = judge_paths(runs)
    for path in find_runs(runs):
        if "-dfa-" in path.name and (path / "result.json").exists():
            changed_in_place(path / "snapshots.jsonl", b'"hidden_norms":[9.0', b'"hidden_norms":[0.1', -1)
    after = judge_paths(runs)
    assert after.text() == in_memory(runs)
    assert after != before


def test_the_first_folder_by_name_is_the_one_that_is_told(runs) -> None:
    first, second = [path for path in find_runs(runs) if (path / "result.json").exists()][:2]
    for path in (first, second):
        changed_in_place(path / "snapshots.jsonl", b'"gamma":0.5', b'"gamma":0.7')
    with pytest.raises(RecordError) as found:
        judge_paths(runs)
    assert first.name in found.value.what


@pytest.mark.parametrize("share", [0.0, 0.01, 0.3, 0.999])
def test_a_torn_index_is_made_again(runs, share) -> None:
    expected = judge_paths(runs).text()
    (file,) = (runs.parent / "cache/judged").iterdir()
    whole = file.read_bytes()
    file.write_bytes(whole[: int(share * len(whole))])
    assert judge_paths(runs).text() == expected
    assert file.read_bytes() == whole


def test_a_line_that_was_changed_is_not_believed(runs) -> None:
    expected = judge_paths(runs).text()
    (file,) = (runs.parent / "cache/judged").iterdir()
    whole = file.read_bytes()
    assert b'"open"' in whole
    file.write_bytes(whole.replace(b'"open"', b'"hold"'))
    assert judge_paths(runs).text() == expected
    file.write_bytes(b"\xff\x00 not an index\n" * 5)
    assert judge_paths(runs).text() == expected


def test_another_version_of_the_code_does_not_use_it(runs, monkeypatch, work) -> None:
    expected = judge_paths(runs).text()
    monkeypatch.setattr(index, "code_print", lambda: "another")
    work.clear()
    assert judge_paths(runs).text() == expected
    assert work["parsed"] >= len(find_runs(runs))


def test_where_no_index_can_be_written_there_is_none(runs, monkeypatch, tmp_path) -> None:
    expected = in_memory(runs)
    blocked = tmp_path / "a file"
    blocked.write_text("")
    for value in (str(blocked / "cache"), "\0" if os.name != "posix" else "/proc/nothing"):
        monkeypatch.setenv("WALKBACK_CACHE", value)
        assert judge_paths(runs).text() == expected
    monkeypatch.setenv("WALKBACK_INDEX", "no")
    monkeypatch.setenv("WALKBACK_CACHE", str(tmp_path / "unused"))
    assert judge_paths(runs).text() == expected
    assert not (tmp_path / "unused").exists()


def test_nothing_is_written_beside_the_runs(runs) -> None:
    before = sorted(runs.rglob("*"))
    judge_paths(runs)
    assert sorted(runs.rglob("*")) == before


def test_few_runs_have_no_index(tmp_path, monkeypatch) -> None:
    monkeypatch.setenv("WALKBACK_CACHE", str(tmp_path / "cache"))
    write_crowd(tmp_path / "runs", 1)
    judge_paths(tmp_path / "runs")
    assert not (tmp_path / "cache").exists()


def _judge_in_turn(place: str, times: int) -> None:
    for _ in range(times):
        judge_paths(place)


def test_two_processes_at_once_leave_a_whole_index(runs) -> None:
    expected = in_memory(runs)
    fork = multiprocessing.get_context("fork")
    both = [fork.Process(target=_judge_in_turn, args=(str(runs), 2)) for _ in range(2)]
    for process in both:
        process.start()
    for process in both:
        process.join()
    assert [process.exitcode for process in both] == [0, 0]
    (file,) = (runs.parent / "cache/judged").iterdir()
    assert all(index._body(line) is not None for line in file.read_bytes().splitlines(keepends=True))
    assert judge_paths(runs).text() == expected


# --- folders that change while they are read --------------------------------------------------------------------------


def test_a_folder_that_vanishes_while_it_is_read_is_told(runs, monkeypatch) -> None:
    real = many.find_runs
    monkeypatch.setattr(many, "find_runs", lambda *places: [*real(*places), runs / "gone-0123456789"])
    with pytest.raises(RecordError, match=r"gone-0123456789 is not a run: there is no such folder"):
        judge_paths(runs)


def test_a_run_that_goes_on_meanwhile_is_not_kept_under_its_old_digest(runs, monkeypatch) -> None:
    unfinished = next(path for path in find_runs(runs) if not (path / "result.json").exists())
    file = unfinished / "snapshots.jsonl"
    whole = file.read_bytes()
    shorter = b"".join(whole.splitlines(keepends=True)[:-1])
    file.write_bytes(shorter)
    before = in_memory(runs)
    real = many.read_outlines

    def then_it_went_on(*args):
        found = real(*args)
        file.write_bytes(whole)
        return found

    monkeypatch.setattr(many, "read_outlines", then_it_went_on)
    judge_paths(runs)
    monkeypatch.undo()
    monkeypatch.setattr(index, "FEW", 0)
    monkeypatch.setenv("WALKBACK_CACHE", str(runs.parent / "cache"))
    assert judge_paths(runs).text() == in_memory(runs)
    file.write_bytes(shorter)
    assert judge_paths(runs).text() == before


def test_a_digest_is_of_every_record_and_of_the_checkpoints_header(runs) -> None:
    path = find_runs(runs)[0]
    seen = {digest_of(path, read_files(path))}
    for name in ("environment.json", "probes.json", "identity.json", "checkpoint.safetensors"):
        content = b"\x02\0\0\0\0\0\0\0{}" if name.startswith("checkpoint") else b"{}"
        (path / name).write_bytes(content)
        seen.add(digest_of(path, read_files(path)))
    assert len(seen) == 5


# --- other processes that read and judge ------------------------------------------------------------------------------


@pytest.fixture
def beside(monkeypatch):
    """Judges with two other processes, however few the runs are, a few runs at a time."""
    monkeypatch.setattr(many, "MANY", 0)
    for module in (many, crowd):
        monkeypatch.setattr(module, "AT_ONCE", 4)
    return lambda *places, **how: judge_crowd(*places, processes=2, **how)[0]


def test_other_processes_judge_alike_and_what_they_find_is_kept(runs, beside, work) -> None:
    expected = in_memory(runs)
    assert beside(runs).text() == expected
    assert beside(runs).text() == expected
    work.clear()
    assert judge_paths(runs).text() == expected
    assert work["parsed"] <= 6, "the index has what the others found"
    assert beside(runs, baselines={"frozen": Baseline.number(0.3)}).text() == in_memory(
        runs, baselines={"frozen": Baseline.number(0.3)}
    )


def test_a_copy_is_told_although_no_process_saw_both(runs, beside) -> None:
    """A baseline's records given out as those of another seed."""
    frozen = [read_run(path) for path in find_runs(runs) if "-dfa_k_0-" in path.name]
    one, other = (run.path for run in frozen if run.config.weight_decay != 0.01)  # there no others stand in for them
    assert "same-records" not in in_memory(runs)
    shutil.copy(one / "snapshots.jsonl", other / "snapshots.jsonl")
    shutil.copy(one / "result.json", other / "result.json")
    expected = in_memory(runs)
    assert "same-records" in expected
    assert beside(runs).text() == expected


@pytest.mark.parametrize("name", ["snapshots.jsonl", "result.json", "probes.json"])
def test_the_first_that_is_refused_is_told_whoever_read_it(runs, beside, name) -> None:
    for path in (find_runs(runs)[7], find_runs(runs)[-2]):
        (path / name).write_bytes(b'{"epoch": -1}\n')
    with pytest.raises(RecordError) as here:
        judge_paths(runs)
    with pytest.raises(RecordError) as there:
        beside(runs)
    assert (there.value.what, there.value.remedy) == (here.value.what, here.value.remedy)
    assert find_runs(runs)[7].name in there.value.what


def squared_here(number: int) -> int:
    """A function that no other process survives."""
    if multiprocessing.parent_process() is not None:
        os._exit(3)
    return number**2


def squared(number: int) -> tuple[int, int]:
    return number**2, os.getpid()


def test_a_process_that_dies_costs_only_its_time() -> None:
    with workers.Workers(2) as some:
        found = dict(some.each(squared, range(20)))
        assert {place: answer[0] for place, answer in found.items()} == {n: n * n for n in range(20)}
        assert os.getpid() not in {process for _, process in found.values()}
        assert dict(some.each(squared_here, range(20))) == {n: n * n for n in range(20)}
        assert {process for _, (_, process) in some.each(squared, range(3))} == {os.getpid()}
    with workers.Workers(0) as none:
        assert dict(none.each(squared_here, [3])) == {0: 9}


def test_batches_are_in_order_and_of_about_a_size() -> None:
    assert workers.batches([3, 3, 3, 9, 1, 1], int, 6) == [[3, 3], [3], [9], [1, 1]]
    assert workers.batches([], len, 6) == []


def test_judging_records_needs_no_torch(runs) -> None:
    code = "import sys; from walkback.cli import app; app(sys.argv[1:], result_action='return_value')"
    code += "; assert 'torch' not in sys.modules, 'it takes seconds to import'"
    for path in find_runs(runs):
        if "-random" in path.name:
            shutil.rmtree(path)
    subprocess.run([sys.executable, "-c", code, "judge", str(runs)], check=True, capture_output=True)


# --- what a person can read -------------------------------------------------------------------------------------------


def test_an_audit_of_many_subjects_names_the_walked_back_first_and_counts_the_others(runs) -> None:
    audit = judge_paths(runs)
    (first, *_) = audit.subjects
    fired = [f.model_copy(update={"outcome": "fires"}) if f.check == "depth" else f for f in first.findings]
    answers = first.verdicts.model_copy(update={"accuracy": "walked back"})
    worst = first.model_copy(update={"verdict": "walked back", "verdicts": answers, "findings": fired})
    every = [*audit.subjects * 30, *[worst] * 5]
    many = audit.model_copy(update={"subjects": every, "controls": audit.controls * 30})
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


def test_show_reads_what_it_prints_and_its_csv_has_every_run(runs, capsys, work) -> None:
    count = len(find_runs(runs))
    app(["show", str(runs), "--rows", "4"], result_action="return_value")
    assert work["parsed"] == 4
    assert f"… and {count - 4:,} more, not read" in capsys.readouterr().out
    app(["show", str(runs), "--format", "csv"], result_action="return_value")
    rows = list(csv.DictReader(io.StringIO(capsys.readouterr().out)))
    assert [row["run"] for row in rows] == [path.name for path in find_runs(runs)]
    with pytest.raises(BadValue):
        app(["show", str(runs), "--rows", "0"], result_action="return_value")


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
