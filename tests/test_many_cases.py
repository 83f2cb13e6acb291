"""Pages and forms of many runs: the same as if all had been read at once, with one subject in memory at a time."""

import base64
import csv
import gc
import io
import re
import shutil
import weakref
from pathlib import Path

import pytest

from report_material import config, write_run
from test_crowd import write_crowd
from walkback.audits import many_cases, records
from walkback.audits.many import Many, judge_many
from walkback.audits.many_cases import LazyCases, are_many, material_to_show, material_to_tell
from walkback.audits.records import judged_material, report_paths
from walkback.audits.told import told_by
from walkback.errors import RecordError
from walkback.records import find_runs
from walkback.report.form import Form, fill, render, rendered, write_form
from walkback.report.page import page

ROOT = Path(__file__).parent.parent
USUAL = (None, None, None)  # baselines, thresholds, protocol
DATA = re.compile(r'href="data:text/csv;charset=utf-8;base64,([^"]*)"')


@pytest.fixture(scope="module")
def runs(tmp_path_factory) -> Path:
    out = tmp_path_factory.mktemp("many") / "runs"
    write_crowd(out, 3)
    for seed in (1, 2, 3):  # one that does harm, where bp does not
        for rule, reaches in (("dfa", 0.30), ("bp", 0.60)):
            write_run(out, config(rule, seed, epochs=3), 1.1, reaches, [0.9] * 3)
            write_run(out, config(rule, seed, epochs=3, train_last=0), 1.0, 0.40, [0.9] * 3)
    return out


def many(paths) -> Many:
    return judge_many(paths, *USUAL, lambda *_: None, 0)


@pytest.mark.parametrize("recorded", [False, True])
def test_a_page_of_thin_cases_is_the_page_of_all_that_there_is(runs, recorded) -> None:
    paths = find_runs(ROOT / "results/mnist1d-bridges")[::3] if recorded else [runs]
    thin = page(material_to_show(many(paths)))
    assert thin == page(judged_material(paths, *USUAL))
    assert not DATA.search(thin)


@pytest.mark.parametrize("form", ["markdown", "latex"])
def test_forms_that_are_filled_in_one_by_one_are_the_same(runs, form) -> None:
    lazy, whole = material_to_tell(many([runs])), judged_material([runs], *USUAL)
    words = [render((fill(case, m.audit) for case in m.subjects), form) for m in (lazy, whole)]
    assert words[0] == words[1]
    assert len(lazy.subjects) == len(whole.subjects) > 3


def test_a_page_names_the_most_serious_and_offers_all_as_data(runs, monkeypatch) -> None:
    monkeypatch.setattr(many_cases, "SHOWN", 2)
    whole, shown = judged_material([runs], *USUAL), material_to_show(many([runs]))
    assert shown.audit.text() == whole.audit.text()
    assert len(shown.subjects) == 2
    assert len(shown.left_out) == len(whole.subjects) - 2
    verdicts = [case.judgement.verdict for case in shown.subjects]
    every = [case.judgement.verdict for case in whole.subjects]
    assert verdicts.count("walked back") == min(2, every.count("walked back")) > 0
    text = page(shown)
    rows = [*csv.reader(io.StringIO(base64.b64decode(DATA.search(text)[1]).decode()))]
    assert [row[0] for row in rows[1:]] == [case.judgement.name for case in whole.subjects]
    assert f"Audit of {len(whole.subjects)} subjects" in text
    assert f"By accuracy, of {len(whole.subjects)} subjects: {every.count('walked back')} walked back" in text
    behind = {run.path for run in shown.runs}
    assert {run.path for case in shown.subjects for run in case.runs} <= behind < {run.path for run in whole.runs}


def test_a_case_is_kept_by_nobody(runs) -> None:
    cases = LazyCases(many([runs]), [0, 1])
    case = cases[0]
    seen = weakref.ref(case.runs[0])
    assert [each.judgement.name for each in cases[:1]] == [case.judgement.name]
    del case
    gc.collect()
    assert seen() is None


def test_a_form_keeps_no_case_and_is_written_piece_by_piece(runs, tmp_path) -> None:
    told, kept = material_to_tell(many([runs])), []

    def forms():
        for case in told.subjects:
            gc.collect()
            assert sum(seen() is not None for seen in kept) <= 1, "the case before is dropped"
            kept.append(weakref.ref(case.runs[0]))
            assert not [m for seed in case.evidence.seeds for m in seed.moments[1:-1] if m.cosine is not None]
            yield fill(case, told.audit)

    assert len([*rendered(forms(), "markdown")]) == len(told.subjects) + 1
    kept.clear()
    text = write_form(forms(), "markdown", tmp_path / "form.md").read_text()
    assert text == render((fill(case, told.audit) for case in told.subjects), "markdown")


def test_a_form_that_cannot_be_finished_leaves_the_file_as_it_was(tmp_path) -> None:
    file = tmp_path / "form.md"
    file.write_text("old")

    def forms():
        yield Form("one", [], "")
        raise RecordError("the second cannot be read", "")

    with pytest.raises(RecordError, match="second"):
        write_form(forms(), "markdown", file)
    assert file.read_text() == "old"
    assert [*tmp_path.iterdir()] == [file]


def test_copies_are_looked_for_again_where_they_were_found(tmp_path) -> None:
    for path in write_crowd(tmp_path, 1):
        if "shallow" in path.name:  # which are copies of each other here
            shutil.rmtree(path)
    one, other = [path for path in find_runs(tmp_path) if "-dfa_k_0-" in path.name][:2]
    for name in ("snapshots.jsonl", "result.json"):
        shutil.copy(one / name, other / name)
    lazy, whole = material_to_tell(many([tmp_path])), judged_material([tmp_path], *USUAL)
    doubts = [[case.evidence.doubts for case in m.subjects] for m in (lazy, whole)]
    assert doubts[0] == doubts[1]
    assert any("same-records" in words for those in doubts[0] for words in those)
    assert not all(doubts[0])
    words = [render((fill(case, m.audit) for case in m.subjects), "markdown") for m in (lazy, whole)]
    assert words[0] == words[1]


def test_what_is_kept_for_a_page_is_the_last_snapshot(runs) -> None:
    for case in material_to_show(many([runs])).subjects:
        assert all(len(run.snapshots) == 1 and run.probes is None for run in case.runs)
        between = [moment for seed in case.evidence.seeds for moment in seed.moments[1:-1]]
        assert all(moment.hidden_norms is None and moment.cosine is None for moment in between)


def test_many_runs_take_this_way_and_few_do_not(runs, monkeypatch) -> None:
    assert not are_many([runs])
    assert not report_paths(runs).left_out
    monkeypatch.setattr(many_cases, "MANY", 10)
    assert are_many([runs])
    assert isinstance(told_by(runs)[0].subjects, LazyCases)
    monkeypatch.setattr(records, "judged_material", None)  # never called
    assert page(report_paths(runs))
