"""Every sentence of the checks is as it was: an intended change is written by `make golden`, and its diff is read."""

import difflib
from pathlib import Path

import pytest

import checks_golden
from walkback.checks import CHECKS, in_order

LISTED = [check.name for check in in_order()]


@pytest.fixture(scope="module")
def made() -> dict[str, tuple[Path, str]]:
    return {path.stem: (path, text) for path, text in checks_golden.files()}


@pytest.mark.parametrize("name", [*LISTED, "verdict"])
def test_golden_what_is_found_and_said(name: str, made: dict[str, tuple[Path, str]]) -> None:
    path, now = made[name]
    before = path.read_text(encoding="utf-8")
    found = [*difflib.unified_diff(before.splitlines(), now.splitlines(), "committed", "now", lineterm="", n=1)]
    assert not found, "\n".join([*found[:40], f"{len(found)} lines; if they are meant: make golden"])


def test_every_check_has_its_file() -> None:
    assert {file.stem for file in checks_golden.FOLDER.iterdir()} == {*LISTED, "verdict"}


def test_planted_another_word_is_a_difference(monkeypatch: pytest.MonkeyPatch) -> None:
    check = CHECKS.get("size")
    before = checks_golden.text_of(check)
    monkeypatch.setattr(check, "do", {**check.do, "open": "Do nothing."})
    assert checks_golden.text_of(check) != before
