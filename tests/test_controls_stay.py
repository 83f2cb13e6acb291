"""A folder's audit stays its audit: controls that misbehaved are not forgotten, whatever is done to audit.json."""

import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from report_material import config, write_run
from walkback.audits import judge_paths, report_paths, told_by
from walkback.checks import DEFAULT, Audit
from walkback.cli import app
from walkback.errors import WalkbackError
from walkback.records import find_runs
from walkback.report.page import page

BAD, GOOD = "bad", "good"


def write_audit(out: Path, bp: float) -> Path:
    """bp reaches `bp` beside a frozen net at 0.40. Where that is little, the task is too easy to catch random."""
    told = {"bp": (bp, 0.45, [0.95] * 3), "fa": (0.60, 0.55, [0.9] * 3), "random": (0.30, None, [0.0] * 3)}
    for rule, (reaches, half, cosines) in told.items():
        for seed in (1, 2, 3):
            write_run(out, config(rule, seed), 1.2, reaches, cosines)
            write_run(out, config(rule, seed, train_last=0), 1.0, 0.40, cosines)
            if half is not None:
                write_run(out, config(rule, seed, train_last=2), 1.1, half, cosines)
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
    assert [c.ok for c in good.controls] == [True] * 4
    assert [c.name for c in bad.controls if not c.ok] == ["random"]
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
    raw |= {"valid": True, "says": "Every control behaved as it must."}
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
    "the random control's runs removed": remove("-random"),
    "a control's frozen net removed": remove("-random_k_0-"),
    "runs added": added,
}


@pytest.mark.parametrize("how", FOOLING)
def test_planted_an_invalid_audit_stays_invalid(folder: Path, both: Path, how: str) -> None:
    FOOLING[how](folder, both)
    found = judge_paths(folder)
    (told,) = told_by(folder)
    assert not found.valid
    assert found.exit_status() == 4
    assert found == report_paths(folder).audit == told.audit
    assert "random: expected found out, got inconclusive" in found.says
    one_by_one = judge_paths(*find_runs(folder))
    assert one_by_one.model_copy(update={"says": found.says}) == found


def test_planted_a_valid_flag_that_contradicts_its_controls_is_refused(folder: Path) -> None:
    raw = json.loads((folder / "audit.json").read_text())
    (folder / "audit.json").write_text(json.dumps(raw | {"valid": True}))
    with pytest.raises(WalkbackError, match=r"valid is True, and random is not as it must be \[valid\]"):
        judge_paths(folder)


def test_planted_thresholds_of_the_command_line_are_those_of_the_controls(both: Path) -> None:
    """A margin that nobody reaches, bp included; and the repair, the audit's own."""
    found = judge_paths(both / GOOD, thresholds=DEFAULT.but("depth.margin", 0.5))
    assert not found.valid
    assert judge_paths(both / GOOD, thresholds=DEFAULT).valid


def test_some_of_the_runs_of_an_invalid_audit_are_not_valid_by_themselves(folder: Path) -> None:
    found = judge_paths(*[run for run in find_runs(folder) if "-fa" in run.name])
    assert not found.valid
    assert "its controls are not among these runs" in found.says


def test_controls_that_are_not_there_are_not_made_up(both: Path, tmp_path: Path) -> None:
    """The good folder without its random runs: its audit.json is taken at its word, and says so; without it, none."""
    folder = Path(shutil.copytree(both / GOOD, tmp_path / "runs"))
    remove("-random")(folder, both)
    stated = judge_paths(folder)
    assert stated.valid
    assert "its controls are not among these runs" in stated.says
    (folder / "audit.json").unlink()
    assert judge_paths(folder).controls == []


def test_an_invalid_audit_says_so_above_its_verdicts(folder: Path, tmp_path: Path, capsys: Any) -> None:
    void = "This audit is invalid: its verdicts do not count."
    to = tmp_path / "page.html"
    lines = {"judge": [], "table": [], "form": [], "report": ["--to", str(to)]}
    for verb, more in lines.items():
        for strict, status in (([], 0), (["--strict"], 4)):
            try:
                code = app([verb, str(folder), *more, *strict], exit_on_error=False)
            except SystemExit as end:
                code = end.code
            assert (code or 0) == status, verb
        said = " ".join(capsys.readouterr().out.split())
        if verb != "report":
            assert 0 <= said.index(void) < said.index("Verdict" if verb == "form" else "bp "), verb
            assert ("does not count" in said) == (verb != "table")  # there the cell is folded
    text = to.read_text()
    assert text.index("This audit is invalid") < text.index('class="lead"')
    assert 'class="verdict v-holds"' not in text
    assert "does not count" in page(report_paths(folder))


def test_planted_other_words_are_not_other_judgements(both: Path, tmp_path: Path) -> None:
    """The audit.json of another version, whose sentences differ, vouches for its runs; and ours are shown.

    So a sentence that somebody edited is not shown either.
    """
    folder = Path(shutil.copytree(both / GOOD, tmp_path / "runs"))
    before = judge_paths(folder)
    raw: dict[str, Any] = json.loads((folder / "audit.json").read_text())
    for subject in raw["subjects"]:
        subject |= {"says": "Worded by somebody else.", "notes": ["and noted"]}
        for finding in subject["findings"]:
            finding["says"] = "Worded by somebody else."
    (folder / "audit.json").write_text(json.dumps(raw))
    assert judge_paths(folder) == before
    raw["subjects"][0]["findings"][0]["value"] = 3.0  # a fact
    (folder / "audit.json").write_text(json.dumps(raw))
    assert "differently, so its runs were different ones" in judge_paths(folder).says


def test_an_older_audit_with_the_null_of_every_rule_still_vouches(both: Path, tmp_path: Path) -> None:
    """Written by walkback 0.1, whose null control was of all rules and had another name."""
    folder = Path(shutil.copytree(both / GOOD, tmp_path / "runs"))
    raw: dict[str, Any] = json.loads((folder / "audit.json").read_text())
    raw["controls"][-1] |= {"name": "fresh-feedback null", "got": "centres on zero (largest mean 0.022 of 87)"}
    (folder / "audit.json").write_text(json.dumps(raw))
    found = judge_paths(folder)
    assert found.valid
    assert found.controls[-1].name == "null of random"
    assert "states other controls" not in found.says
