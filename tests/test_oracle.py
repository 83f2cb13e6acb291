"""Every answer is as it was: an intended change is written by `make golden`, and its diff is read before it lands."""

import difflib

import pytest

from oracle import GOLDEN, LOGS, PARTS, Files

MOST = 40  # lines of a difference that are shown


def differences(made: Files) -> list[str]:
    """The first lines in which some files differ from the committed ones."""
    found: list[str] = []
    for name, text in made.items():
        file = GOLDEN / name
        before = file.read_bytes().decode() if file.exists() else ""
        if before != text:
            found += difflib.unified_diff(before.splitlines(), text.splitlines(), name, f"{name} now", lineterm="", n=1)
    return found


@pytest.mark.parametrize("part", PARTS)
def test_golden_the_answers_are_those_of_the_committed_files(part: str) -> None:
    made = PARTS[part]()
    found = differences(made)
    assert not found, "\n".join([*found[:MOST], f"{len(found)} lines; if they are meant: make golden"])


def test_planted_another_verdict_is_a_difference() -> None:
    name = "small.txt"
    text = (GOLDEN / name).read_text()
    assert differences({name: text}) == []
    assert 'accuracy="walked back"' in text
    assert differences({name: text.replace('accuracy="walked back"', "accuracy=open")})


def test_the_golden_files_hold_no_path_and_are_not_large() -> None:
    files = [*GOLDEN.iterdir()]
    assert GOLDEN / LOGS in files
    assert (
        sum(file.stat().st_size for file in files) < 2_600_000
    )  # seven checks and three answers, where there were five and one
    for file in files:
        assert not [word for word in ("/tmp/", "/home/", str(GOLDEN.parents[2])) if word in file.read_text()], file
