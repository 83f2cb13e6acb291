"""Controls are found among the runs each time: no audit.json, and nothing that is deleted, makes an audit valid."""

import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from report_material import config, write_run
from walkback.audits import audits_of, judge_paths, report_paths
from walkback.checks import DEFAULT, Audit
from walkback.cli import app
from walkback.errors import WalkbackError
from walkback.records import find_runs
from walkback.report.page import page

BAD, GOOD = "bad", "good"


def write_audit(out: Path, bp: float, **changes: Any) -> Path:
    """bp reaches `bp` beside a frozen net at 0.40 and a shallow one at 0.35. With little gain it is no reference."""
    rules = {"bp": (bp, 0.45, [0.95] * 3), "fa": (0.60, 0.55, [0.9] * 3), "random": (0.30, None, [0.0] * 3)}
    for rule, (reaches, half, cosines) in rules.items():
        for seed in (1, 2, 3):
            write_run(out, config(rule, seed, **changes), 1.2, reaches, cosines)
            write_run(out, config(rule, seed, train_last=0, **changes), 1.0, 0.40, cosines)
            if half is not None:
                write_run(out, config(rule, seed, train_last=2, **changes), 1.1, half, cosines)
    for seed in (1, 2, 3):
        write_run(out, config("bp", seed, depth=0, train_last=0, **changes), 1.0, 0.35, [])
    judge_paths(out).write(out)
    return out


@pytest.fixture(scope="module")
def both(tmp_path_factory: pytest.TempPathFactory) -> Path:
    place = tmp_path_factory.mktemp("audits")
    write_audit(place / BAD, 0.401)
    write_audit(place / GOOD, 0.60)
    return place


@pytest.fixture
def folder(both: Path, tmp_path: Path) -> Path:
    return Path(shutil.copytree(both / BAD, tmp_path / "runs"))


def test_the_two_folders_are_what_they_should_be(both: Path) -> None:
    bad, good = judge_paths(both / BAD), judge_paths(both / GOOD)
    assert (bad.valid, good.valid) == (False, True)
    assert [c.ok for c in good.controls] == [True] * 3
    assert [c.name for c in bad.controls if not c.ok] == ["bp"]
    assert {s.name: s.verdict for s in bad.subjects}["fa"] != "walked back"
    assert [s.name for s in good.subjects] == ["bp", "fa"]  # random is a control, and no subject
    assert good == Audit.read(both / GOOD)


def remove(*parts: str) -> Callable[[Path, Path], None]:
    def change(folder: Path, both: Path) -> None:
        for run in find_runs(folder):
            if any(part in run.name for part in parts):
                shutil.rmtree(run)

    return change


def edited(folder: Path, both: Path) -> None:
    """Somebody careful: valid, every control, and the sentence."""
    raw: dict[str, Any] = json.loads((folder / "audit.json").read_text())
    raw |= {"valid": True, "says": "Every control behaved as expected."}
    raw["controls"] = [c | {"ok": True, "got": c["expected"]} for c in raw["controls"]]
    (folder / "audit.json").write_text(json.dumps(raw))


def exchanged(folder: Path, both: Path) -> None:
    shutil.copy(both / GOOD / "audit.json", folder)


def added(folder: Path, both: Path) -> None:
    for seed in (1, 2, 3):
        write_run(folder, config("dfa", seed), 1.2, 0.6, [0.9] * 3)


FOOLING: dict[str, Callable[[Path, Path], None]] = {
    "untouched": lambda folder, both: None,
    "audit.json deleted": lambda folder, both: (folder / "audit.json").unlink(),
    "audit.json edited": edited,
    "audit.json of another folder": exchanged,
    "a subject's runs removed": remove("-fa-", "-fa_k"),
    "runs added": added,
}
NOT_CONTROLLED: dict[str, Callable[[Path, Path], None]] = {
    "the failed control's runs removed": remove("-bp-s"),
    "the random control's runs removed": remove("-random"),
    "a control's frozen net removed": remove("-random_k_0-"),
    "all but the subject's removed": remove("-bp", "-random"),
}


@pytest.mark.parametrize("how", FOOLING)
def test_planted_an_invalid_audit_stays_invalid(folder: Path, both: Path, how: str) -> None:
    FOOLING[how](folder, both)
    found = judge_paths(folder)
    assert found.valid is False
    assert found.exit_status() == 4
    assert [found] == audits_of(folder)
    assert found == report_paths(folder)
    assert "bp: expected gains by depth, Γ even, got it gains" in found.says
    assert judge_paths(*find_runs(folder)) == found


@pytest.mark.parametrize("how", NOT_CONTROLLED)
def test_planted_deleting_a_control_never_makes_an_audit_valid(folder: Path, both: Path, how: str) -> None:
    """Neither one that failed nor one of a good folder: what is left is not controlled, and says so."""
    for place in (folder, Path(shutil.copytree(both / GOOD, folder.parent / "good"))):
        NOT_CONTROLLED[how](place, both)
        found = judge_paths(place)
        assert found.valid is None
        assert found.controls == []
        assert found.not_controlled == [subject.name for subject in found.subjects]
        assert not any(case.controlled for case in found.cases)
        assert found.says.startswith("Not controlled: ")
        assert found.exit_status() == 4


def test_planted_a_second_random_that_behaves_does_not_excuse_the_first(both: Path, tmp_path: Path) -> None:
    """Noise under other options is in the same setting; whichever comes first, each must behave."""
    for place, options in enumerate(({"a": 0}, {"zzz": 0})):
        folder = Path(shutil.copytree(both / GOOD, tmp_path / str(place)))
        assert judge_paths(folder).valid
        for seed in (1, 2, 3):
            write_run(folder, config("random", seed, rule_options=options), 1.2, 0.60, [0.9] * 3)
            write_run(folder, config("random", seed, rule_options=options, train_last=0), 1.0, 0.40, [0.9] * 3)
        found = judge_paths(folder)
        assert found.valid is False
        assert [control.name for control in found.controls if not control.ok] == ["random"]


def test_planted_a_name_that_two_subjects_have_is_not_that_of_either_control(both: Path, tmp_path: Path) -> None:
    """A log is not controlled, and a run of that name is: neither has the other's mark."""
    log = tmp_path / "log.json"
    log.write_text('{"fa_log": [{"epoch": 0, "acc_eval": 0.1, "hidden_norms": [9, 9, 9]}]}')
    found = judge_paths(both / GOOD, log)
    assert [subject.name for subject in found.subjects] == ["bp", "fa", "fa · 2"]
    assert found.not_controlled == ["fa · 2"]
    assert [case.controlled for case in found.cases] == [True, True, False]


def test_planted_an_audit_json_alone_that_contradicts_its_controls_is_refused(folder: Path, tmp_path: Path) -> None:
    raw = json.loads((folder / "audit.json").read_text())
    for valid in (True, None):
        (tmp_path / "audit.json").write_text(json.dumps(raw | {"valid": valid}))
        with pytest.raises(WalkbackError, match=r"but bp did not behave as expected \[valid\]"):
            audits_of(tmp_path / "audit.json")


def test_planted_thresholds_of_the_command_line_are_those_of_the_controls(both: Path) -> None:
    """A margin that nobody reaches, bp included; and the repair, the audit's own."""
    found = judge_paths(both / GOOD, thresholds=DEFAULT.but("depth.margin", 0.5))
    assert not found.valid
    assert judge_paths(both / GOOD, thresholds=DEFAULT).valid


def test_an_audit_of_an_older_version_counts_for_nothing_beside_its_runs(both: Path, tmp_path: Path) -> None:
    """Its answers were by other rules: all is judged anew. Alone it is refused, with what to do."""
    folder = Path(shutil.copytree(both / GOOD, tmp_path / "runs"))
    text = (folder / "audit.json").read_text().replace("walkback.audit/3", "walkback.audit/2", 1)
    (folder / "audit.json").write_text(text)
    assert judge_paths(folder) == judge_paths(both / GOOD)
    with pytest.raises(WalkbackError, match="judge its runs again"):
        audits_of(folder / "audit.json")


# --- several settings in one folder: each goes by its own controls ---------------------------------------------------


@pytest.fixture(scope="module")
def longer(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The good audit with eight epochs."""
    return write_audit(tmp_path_factory.mktemp("longer") / "runs", 0.60, epochs=8)


@pytest.fixture
def mixed(both: Path, longer: Path, tmp_path: Path) -> Path:
    """Four epochs, at which bp is no reference; eight, at which it is. No audit.json."""
    return together(both / BAD, longer, tmp_path)


def together(one: Path, other: Path, place: Path) -> Path:
    for part in (one, other):
        shutil.copytree(part, place / "runs", dirs_exist_ok=True)
    (place / "runs/audit.json").unlink()
    return place / "runs"


COUNTED = {"bp · 4 epochs": False, "fa · 4 epochs": False, "bp · 8 epochs": True, "fa · 8 epochs": True}


def counted(audit: Audit) -> dict[str, bool]:
    return {subject.name: audit.counts(subject.name) for subject in audit.subjects}


def test_planted_a_bad_control_voids_its_own_setting_and_no_other(mixed: Path) -> None:
    found = judge_paths(mixed)
    assert counted(found) == COUNTED
    assert sorted((s.valid, *sorted(s.subjects)) for s in found.settings) == [
        (False, "bp · 4 epochs", "fa · 4 epochs"), (True, "bp · 8 epochs", "fa · 8 epochs")
    ]  # fmt: skip
    assert not found.valid
    assert found.exit_status() == 4
    assert found.void_words == "This audit is invalid in 1 of 2 settings, whose verdicts do not count."
    assert "Those of the other settings do." in found.says
    assert found == report_paths(mixed)
    found.write(mixed)
    assert Audit.read(mixed) == found


def test_the_repair_is_valid_in_both_settings(both: Path, longer: Path, tmp_path: Path) -> None:
    found = judge_paths(together(both / GOOD, longer, tmp_path))
    assert found.valid
    assert all(counted(found).values())
    assert [setting.valid for setting in found.settings] == [True, True]
    assert found.says == "Every control behaved as expected, in each of the settings."


def said_by(folder: Path, to: Path, capsys: Any) -> dict[str, str]:
    """What the commands print, and the page's text; their exit status is that of an invalid audit where it is asked."""
    said = {}
    lines = {"judge": [], "table": ["--format", "csv"], "form": [], "report": ["--to", str(to)]}
    for verb, more in lines.items():
        assert not app([verb, str(folder), *more], result_action="return_value"), verb
        capsys.readouterr()
        assert app([verb, str(folder), *more, "--strict"], result_action="return_value") == 4, verb
        said[verb] = capsys.readouterr().out
    return said | {"page": to.read_text()}


def test_an_invalid_audit_says_so_above_its_verdicts(folder: Path, tmp_path: Path, capsys: Any) -> None:
    said = said_by(folder, tmp_path / "page.html", capsys)
    for verb, first in (("judge", "bp "), ("form", "Accuracy")):
        words = " ".join(said[verb].split())
        assert 0 <= words.index("This audit is invalid: its verdicts do not count.") < words.index(first), verb
    assert all("does not count" in said[verb] for verb in ("judge", "form", "table"))
    text = said["page"]
    assert text.index("This audit is invalid") < text.index('class="lead"')
    assert 'class="verdict v-holds"' not in text
    assert "does not count" in text


def test_terminal_table_form_page_and_exit_status_say_which_verdicts_count(
    mixed: Path, tmp_path: Path, capsys: Any
) -> None:
    said = said_by(mixed, tmp_path / "page.html", capsys)
    words = " ".join(said["judge"].split())
    assert words.index("This audit is invalid in 1 of 2 settings") < words.index("bp · 4 epochs")
    assert "fa · 4 epochs (does not count)" in words
    assert "fa · 8 epochs (does not count)" not in words
    verdicts = [line.split(",")[:2] for line in said["table"].splitlines() if line.startswith(("bp ·", "fa ·"))][:4]
    assert {name: "does not count" not in verdict for name, verdict in verdicts} == COUNTED
    assert said["form"].count("**Accuracy**: does not count") == 2
    text = said["page"]
    assert text.count('class="verdict v-void"') == 8  # of two subjects: three answers on the first screen, and a part
    assert 'class="verdict v-open"' in text
    assert "This audit is invalid in 1 of 2 settings" in text
    assert "The settings, each with controls of its own" in text


def test_planted_taking_the_bad_controls_away_makes_nothing_valid(mixed: Path) -> None:
    for run in find_runs(mixed):
        if "-random" in run.name and json.loads((run / "config.json").read_text())["epochs"] == 4:
            shutil.rmtree(run)
    found = judge_paths(mixed)
    assert found.valid is None
    assert found.not_controlled == ["bp · 4 epochs", "fa · 4 epochs"]
    assert "Not controlled: bp · 4 epochs and fa · 4 epochs; no controls were trained in their setting." in found.says
    assert found.exit_status() == 4


def test_a_subject_whose_setting_has_no_controls_is_not_controlled(folder: Path) -> None:
    for seed in (1, 2, 3):
        write_run(folder, config("dfa", seed, epochs=8), 200.0, 0.3, [0.4, 0.0, 0.0])
    found = judge_paths(folder)
    assert counted(found) == {"bp": False, "fa": False, "dfa": True}
    assert [case.controlled for case in found.cases] == [True, False, True]
    assert "Not controlled: dfa; no controls were trained in their setting." in found.says
    for epochs in (16, 32, 64):
        write_run(folder, config("dfa", 1, epochs=epochs), 200.0, 0.3, [0.4, 0.0, 0.0])
    assert "Not controlled: 4 subjects, such as dfa · " in judge_paths(folder).says


def test_an_audit_of_one_setting_is_written_without_settings_and_a_contradiction_is_refused(
    both: Path, mixed: Path, tmp_path: Path
) -> None:
    assert "settings" not in json.loads((both / GOOD / "audit.json").read_text())
    raw = json.loads(judge_paths(mixed).write(mixed).read_text())
    for setting in raw["settings"]:
        setting["valid"] = True
    (tmp_path / "audit.json").write_text(json.dumps(raw))
    with pytest.raises(WalkbackError, match="its settings say otherwise"):
        audits_of(tmp_path / "audit.json")


def test_nothing_is_judged_or_read_twice(mixed: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Six subjects; the page, the form and the tables judge none, and read no folder again."""
    from walkback.audits import spine
    from walkback.records import folder
    from walkback.report.audit_tables import audit_tables

    asked: list[str] = []
    read: list[Path] = []
    judge, check_run = spine.judge, folder.check_run
    monkeypatch.setattr(spine, "judge", lambda e, *way: asked.append(e.name) or judge(e, *way))
    monkeypatch.setattr(folder, "check_run", lambda run, *files: read.append(run.path) or check_run(run, *files))
    audit = report_paths(mixed)
    page(audit)
    audit_tables(audit)
    assert len(asked) == len(set(asked)) == 6
    assert sorted(read) == sorted(find_runs(mixed))
