"""The log of a watched training as evidence. Oracles: the watch itself, and what a true log cannot hold."""

import json

import pytest

import walkback as wb
from walkback.cli import app
from walkback.errors import RecordError
from walkback.records import read_log
from walkback.records.moment import FIELDS
from walkback.records.readers.base import LogFile
from walkback.records.readers.watch_log import read
from watched_loops import PROBE, Net, train, watched


@pytest.fixture(scope="module")
def log(tmp_path_factory):
    """A log of three looks, and its evidence."""
    file = tmp_path_factory.mktemp("watched") / "run.jsonl"
    return file, watched(Net(), steps=4, every=2, log=file, seed=7, name="mine").evidence


def as_plain(evidence):
    """All that evidence holds, as plain values."""
    seeds = [{name: getattr(seed, name) for name in FIELDS} for seed in evidence.seeds]
    for seed in seeds:
        seed["moments"] = [moment.as_dict() for moment in seed["moments"]]
    return evidence.changed(seeds=[]).as_dict(), seeds


def test_round_trip_the_log_is_the_evidence(log):
    file, evidence = log
    (found,) = read_log(file)
    assert as_plain(found) == as_plain(evidence)
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
    (found,) = read(LogFile("run.jsonl", "run", torn))
    assert len(found.seeds[0].moments) == 2
    assert found.seeds[0].ended is None
    assert any("incomplete" in note for note in found.notes)


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
        read(LogFile("run.jsonl", "run", changed(lines, number, path, value)))


def test_lines_in_the_middle_must_be_whole(log):
    lines = log[0].read_bytes().splitlines(keepends=True)
    with pytest.raises(RecordError, match="line 2"):
        read(LogFile("run.jsonl", "run", b"".join([lines[0], lines[1][:50] + b"\n", *lines[2:]])))
    with pytest.raises(RecordError, match="follows the end"):
        read(LogFile("run.jsonl", "run", b"".join([*lines, lines[1]])))
    with pytest.raises(RecordError, match="cut off in its first line"):
        read(LogFile("run.jsonl", "run", lines[0][:-1]))


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
    assert len(read_log(file)[0].seeds[0].moments) == 2
    letter = tmp_path / "letter.txt"
    letter.write_text("dear all")
    for place in (letter, tmp_path, tmp_path / "absent" / "run.jsonl"):
        with pytest.raises(RecordError, match="name"):
            wb.watch(Net(), "blocks.*", probe=PROBE, log=place)
    assert letter.read_text() == "dear all"


@pytest.mark.parametrize(
    ("option", "value"), [("name", "x" * 300), ("seed", "a"), ("seed", 2**64), ("residual", "maybe")]
)
def test_error_what_a_log_could_not_be_read_with(option, value, tmp_path):
    with pytest.raises(RecordError, match=f"wb.watch: {option}"):
        wb.watch(Net(), "blocks.*", probe=PROBE, log=tmp_path / "run.jsonl", show=False, **{option: value})
    assert not [*tmp_path.iterdir()]


def test_a_killed_training_leaves_whole_lines(tmp_path):
    """Every look is on the disk when step() returns."""
    file, model = tmp_path / "run.jsonl", Net()
    watch = wb.watch(model, "blocks.*", probe=PROBE, log=file, every=1, show=False)
    train(model, watch, 2)
    (found,) = read_log(file)
    assert len(found.seeds[0].moments) == 2
    assert found.seeds[0].ended is None
