"""The log of a watched training as evidence. Oracles: the watch itself, and what a true log cannot hold."""

import json

import pytest

import walkback as wb
from walkback.cli import app
from walkback.errors import RecordError
from walkback.records import read_foreign, read_watched
from watched_loops import PROBE, Net, train, watched


@pytest.fixture(scope="module")
def log(tmp_path_factory):
    """A log of three looks, and its evidence."""
    file = tmp_path_factory.mktemp("watched") / "run.jsonl"
    return file, watched(Net(), steps=4, every=2, log=file, seed=7, name="mine").evidence


def test_round_trip_the_log_is_the_evidence(log):
    file, evidence = log
    (found,) = read_foreign(file)
    assert found.model_dump_json() == evidence.model_dump_json()
    assert [moment.epoch for moment in found.seeds[0].moments] == [0, 2, 4]
    assert found.seeds[0].seed == 7
    assert found.seeds[0].ended == "finished"


def test_the_commands_take_it(log, tmp_path, capsys):
    file, _ = log
    assert not app(["judge", str(file)], result_action="return_value")
    assert "mine" in capsys.readouterr().out
    assert not app(["report", str(file), "--to", str(tmp_path / "page.html")], result_action="return_value")
    assert "mine" in (tmp_path / "page.html").read_text()
    (subject,) = wb.judge_paths(file).subjects
    outcomes = {finding.check: finding.outcome for finding in subject.findings}
    assert outcomes["scale"] == outcomes["reference"] == "passes"
    assert (subject.verdict, subject.verdicts.gamma) == ("open", "open"), "one training, without baselines"


@pytest.mark.parametrize("cut", [3, 200])
def test_a_torn_last_line_is_left_out_with_a_note(log, cut):
    whole = log[0].read_bytes().splitlines(keepends=True)
    torn = b"".join(whole[:3]) + whole[3][:-cut]
    found = read_watched(torn, "run.jsonl")
    assert len(found.looks) == 2
    assert found.evidence().seeds[0].ended is None
    assert any("incomplete" in note for note in found.evidence().notes)


def changed(lines, number, path, value):
    raw = json.loads(lines[number])
    place = raw
    for key in path[:-1]:
        place = place[key]
    place[path[-1]] = value
    return "\n".join([*lines[:number], json.dumps(raw), *lines[number + 1 :], ""]).encode()


@pytest.mark.parametrize(
    ("number", "path", "value", "words"),
    [
        (0, ["schema"], "walkback.watch/9", "upgrade"),
        (0, ["blocks"], ["a", "b"], r"\[blocks\]"),
        (0, ["surprise"], 1, "surprise"),
        (2, ["step"], 0, r"\[log-epochs\]"),
        (2, ["step"], -1, r"\[count\]"),
        (4, ["steps"], 1, r"\[log-epochs\]"),
        (2, ["moment", "accuracy"], 61.5, r"\[share\]"),
        (2, ["moment", "loss"], 0.0, r"\[wrong-samples\]"),
        (2, ["moment", "hidden_norms", 1], -3.0, r"\[size\]"),
        (2, ["moment", "gamma"], 0.2, r"\[gamma\]"),
        (2, ["moment", "measured", "update on the probe", 0, "value"], 1.5, r"\[cosine\]"),
        (2, ["halves", 0], -7.0, r"\[cosine\]"),
        (2, ["arrived", 0], -1.0, r"\[size\]"),
        (2, ["crosses"], ["crosses"], r"\[blocks\]"),
        (2, ["crosses", 0], "maybe", "crosses"),
    ],
)
def test_planted_what_cannot_be_true_is_refused(log, number, path, value, words):
    lines = log[0].read_text().splitlines()
    with pytest.raises(RecordError, match=words):
        read_watched(changed(lines, number, path, value), "run.jsonl")


def test_lines_in_the_middle_must_be_whole(log):
    lines = log[0].read_bytes().splitlines(keepends=True)
    with pytest.raises(RecordError, match="line 2"):
        read_watched(b"".join([lines[0], lines[1][:50] + b"\n", *lines[2:]]), "run.jsonl")
    with pytest.raises(RecordError, match="follows the end"):
        read_watched(b"".join([*lines, lines[1]]), "run.jsonl")
    with pytest.raises(RecordError, match="cut off in its first line"):
        read_watched(lines[0][:-1], "run.jsonl")


def test_two_seeds_are_joined_and_a_copy_cannot_hold(log, tmp_path):
    other = tmp_path / "other.jsonl"
    watched(Net(seed=1), steps=4, every=2, log=other, seed=8, name="mine")
    (subject,) = wb.judge_paths(log[0], other).subjects
    assert subject.accuracy.n == 2
    copied = tmp_path / "copy.jsonl"
    lines = log[0].read_text().splitlines()
    copied.write_bytes(changed(lines, 0, ["seed"], 9))
    (subject,) = wb.judge_paths(log[0], copied).subjects
    assert "same-records" in subject.says + "".join(subject.notes)


def test_an_earlier_log_is_set_aside_and_another_file_is_not_touched(tmp_path):
    file = tmp_path / "run.jsonl"
    for _ in range(2):
        watched(Net(), log=file)
    assert sorted(p.name for p in tmp_path.iterdir()) == ["run.jsonl", "run.jsonl.old1"]
    assert len(read_foreign(file)[0].seeds[0].moments) == 2
    letter = tmp_path / "letter.txt"
    letter.write_text("dear all")
    for place in (letter, tmp_path, tmp_path / "absent" / "run.jsonl"):
        with pytest.raises(RecordError, match="name"):
            wb.watch(Net(), "blocks.*", probe=PROBE, log=place)
    assert letter.read_text() == "dear all"


def test_a_killed_training_leaves_whole_lines(tmp_path):
    """Every look is on the disk when step() returns."""
    file, model = tmp_path / "run.jsonl", Net()
    watch = wb.watch(model, "blocks.*", probe=PROBE, log=file, every=1, show=False)
    train(model, watch, 2)
    (found,) = read_foreign(file)
    assert len(found.seeds[0].moments) == 2
    assert found.seeds[0].ended is None
