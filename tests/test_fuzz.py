"""Property: whatever a file holds, each door takes it or refuses it with an error of ours, in clean text and in time.

WALKBACK_FUZZ is the number of mutated files per door; `make fuzz` asks for 10,000.
"""

import json
import os
import random
import time
from pathlib import Path

import pytest

from fuzz import DOORS, LOGS, Doors, dirty, fuzz
from mutate import as_json, as_safetensors, places
from walkback import files
from walkback.errors import RecordError
from walkback.plain import error_words
from walkback.records import load_tensors, read_log

COUNT = int(os.environ.get("WALKBACK_FUZZ", "300"))


@pytest.mark.parametrize("door", DOORS)
def test_only_our_own_errors_come_out_of(door):
    outcome = fuzz(door, range(COUNT))
    print(outcome)
    assert outcome.cases == COUNT
    assert not outcome.faults, outcome
    assert outcome.accepted > COUNT // 20, "a mutator that breaks everything tests only the first line of a reader"
    assert outcome.refused > COUNT // 20


@pytest.mark.parametrize(
    ("planted", "fault"),
    [
        (lambda: 1 / 0, "ZeroDivisionError"),
        (lambda: print("\x1b[2J"), "said U+001B"),
        (lambda: time.sleep(60), "hung"),
        (lambda: bytearray(b"x") * (90 << 20), "took more than"),
        (lambda: Path("made").write_text("outside"), "wrote outside"),
    ],
    ids=["a raw error", "an escape sequence", "a hang", "memory", "a file elsewhere"],
)
def test_the_fuzzer_notices(monkeypatch, planted, fault):
    def planted_door(self: Doors, case: Path, _: object) -> object:
        monkeypatch.chdir(self.room)
        return planted

    peak = Path("/proc/self/clear_refs")
    if fault == "took more than" and not peak.exists():
        pytest.skip("needs /proc to begin with a peak of its own")
    monkeypatch.setattr("fuzz.SECONDS", 0.3)
    monkeypatch.setattr("fuzz.MEMORY", 50 << 20)
    monkeypatch.setattr(Doors, "judge", planted_door)
    here = Path.cwd()
    if peak.exists():
        peak.write_text("5")
    outcome = fuzz("judge", range(1))
    monkeypatch.chdir(here)
    assert any(what.startswith(fault) for what in outcome.faults), outcome


def test_the_same_number_is_the_same_case():
    one, two = (as_json(json.dumps(LOGS["norms"]).encode(), random.Random("7")) for _ in range(2))
    assert one == two
    assert len({as_json(json.dumps(LOGS["norms"]).encode(), random.Random(str(n))) for n in range(100)}) > 90


@pytest.mark.parametrize(
    ("changed", "why"),
    [
        ({"config": {"L": 10**9}}, "L = 1000000000"),
        ({"config": {"depth": 10**9}, "log": [{"h_L_norm": 3.0}]}, "depth = 1000000000"),
        ({"log": [{"epoch": 1e308, "acc_eval": 0.5}]}, "epoch is 1e\\+308"),
        ({"log": [{"epoch": -1, "acc_eval": 0.5}]}, "epoch is -1"),
        ({"config": {"seed": 2**70}, "log": []}, "seed is 11805"),
        ({"n" * 5000 + "_log": []}, "a name of 5000 characters"),
        ({"config": {"method": "n" * 5000}, "log": []}, "a name of 5000 characters"),
        ({"results": {"n" * 5000: {}}}, "a name of 5000 characters"),
        ({"results": {"dfa": {"0": {"1": {"final_acc": 0.3}, "01": {"final_acc": 0.4}}}}}, "'01'"),
        ({"config": {"depth": 90_000}, "log": [{"h_L_norm": 1.0}] * 200}, "too many to read"),
    ],
)
def test_every_number_of_a_log_is_bounded(tmp_path, changed, why):
    (tmp_path / "log.json").write_text(json.dumps(changed if set(changed) - {"config"} else LOGS["sparse"] | changed))
    with pytest.raises(RecordError, match=why) as error:
        read_log(tmp_path / "log.json")
    assert error.value.remedy


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("9" * 400, "400 digits"), ("[" * 100_000 + "]" * 100_000, "nested more than"), ('{"a": 1, "a": 2}', "twice"),
        ("[" * 65 + "]" * 65, "nested more than"), ("", "Expecting value"), ('{"a": tru', "Expecting value"),
    ],
)  # fmt: skip
def test_json_that_cannot_be_meant_is_refused(text, why):
    with pytest.raises(RecordError, match=why):
        files.parse_json(text.encode(), "it", "get it again")
    deep = "[" * 64 + "]" * 64
    assert files.parse_json(deep.encode(), "it", "") == json.loads(deep)
    assert files.parse_json(b"\xef\xbb\xbf" + b"9" * 309, "it", "") == int("9" * 309)
    with pytest.raises(RecordError, match="byte 1 is not UTF-8"):
        files.parse_json(b'"\xff"', "it", "")


@pytest.mark.parametrize("make", [os.mkfifo, os.mkdir, lambda p: p.symlink_to(p), lambda p: p.symlink_to("/dev/zero")])
def test_what_is_no_file_is_not_waited_for(tmp_path, make):
    make(tmp_path / "log.json")
    with pytest.raises(RecordError, match="cannot read") as error:
        files.read_bytes(tmp_path / "log.json")
    assert error.value.remedy
    with pytest.raises(RecordError):
        load_tensors(tmp_path / "log.json")


def test_a_huge_file_is_refused_before_it_is_read(tmp_path):
    with (tmp_path / "log.json").open("wb") as file:
        file.truncate(1 << 40)
    with pytest.raises(RecordError, match="1,048,576 MB, and at most 64 MB"):
        read_log(tmp_path / "log.json")


def test_mutated_headers_of_a_checkpoint_are_damage(tmp_path):
    from safetensors.torch import save
    from torch import ones

    whole = save({"net.w": ones(3, 2)}, {"walkback": json.dumps({"schema": "walkback.checkpoint/1", "state": {}})})
    chance = random.Random("headers")
    for number in range(300):  # it has no checksum, so none is whole
        (tmp_path / f"{number}").write_bytes(as_safetensors(whole, chance))
        with pytest.raises(RecordError) as error:
            load_tensors(tmp_path / f"{number}")
        assert not dirty(error_words(error.value))


def test_places_finds_every_value():
    assert sorted(map(str, places({"a": [1, {"b": 2}]}))) == ["('a', 0)", "('a', 1)", "('a', 1, 'b')", "('a',)"]
