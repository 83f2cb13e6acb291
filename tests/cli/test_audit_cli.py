"""`walkback audit` and `walkback judge` as a user meets them: real processes, what they print, how they exit."""

import json
import os
import re
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from commands import walkback as command
from walkback.audits.records import subjects_at
from walkback.checks import Audit, judge
from walkback.cli import app

MAIN = [sys.executable, "-c", "from walkback.cli import main; main()"]
NET = ["--width", "32", "--depth", "2", "--lr", "6e-3", "--jobs", "1"]
RUN = ["audit", "--data", "mnist1d", "--epochs", "5", "--seeds", "5", "--no-cards", *NET]


class Done(NamedTuple):
    status: int
    said: str

    @property
    def words(self) -> str:
        """What was said, on one line."""
        return " ".join(self.said.split())


def environment() -> dict[str, str]:
    return {**os.environ, "COLUMNS": "120", "OMP_NUM_THREADS": "1"}


def walkback(*words: str, cwd: Path) -> Done:
    done = command(*words, timeout=240, cwd=cwd, **environment())
    assert "Traceback" not in done.stdout + done.stderr, done.stderr
    return Done(done.returncode, done.stdout + done.stderr)


def commands(cwd: Path, *lines: list[str]) -> list[Done]:
    return [walkback(*words, cwd=cwd) for words in lines]


def strictly(text: str) -> Any:
    """JSON as the standard has it: no NaN."""

    def refuse(word: str) -> None:
        raise AssertionError(f"{word} is no JSON")

    return json.loads(text, parse_constant=refuse)


# --- walkback audit -------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def audited(tmp_path_factory):
    folder = tmp_path_factory.mktemp("audit")
    return folder, walkback(*RUN, "--rules", "dfa", cwd=folder)


def test_audit_prints_a_table_its_reasons_and_its_controls(audited):
    _, done = audited
    assert done.status == 0, done.said
    assert re.search(r"subject +accuracy +mean ± sd +n +depth f / s +lower +Γ +stands for", done.said)
    assert re.search(r"\ndfa +(✗ walked back|\? open) +\.\d{3} ±\.\d{3} +5 +[+-]\d", done.said)
    for words in (
        "✓ passes ✗ fires ? open – not asked", "(limit 50×)", "control bp: expected gains by depth, Γ even",
        "control random: expected neither holds nor even", "control a net at init: expected measurable",
        "rates: one rate for all", "thresholds: walkback-3", "Written to runs/audit.json", "45 of 45 runs done",
    ):  # fmt: skip
        assert words in done.words
    assert "\x1b" not in done.said


def test_audit_json_is_strict_json_that_reads_back_the_same(audited):
    folder, _ = audited
    text = (folder / "runs/audit.json").read_text()
    raw = strictly(text)
    assert raw.keys() >= {"schema", "valid", "says", "controls", "subjects", "thresholds"}
    assert "settings" not in raw, "one setting is written as before there were several"
    (subject,) = raw["subjects"]
    assert subject.keys() >= {"name", "verdict", "accuracy", "findings", "first_fired"}
    assert subject["verdicts"].keys() == {"accuracy", "lower_half", "gamma"}
    assert [f["check"] for f in subject["findings"]] == [
        "depth", "reach", "chance", "spread", "size", "reference", "scale"
    ]  # fmt: skip
    assert Audit.read(folder / "runs").write(folder / "rewritten").read_text() == text


def test_audit_writes_its_page_and_report_writes_one_of_its_folder(audited):
    """The page of the audit itself has its controls; a page of the folder, made later, shows bp as a subject too."""
    folder, done = audited
    assert "Page in runs/report.html" in done.words
    (again,) = commands(folder, ["report", "runs", "--to", "again.html"])
    assert again.status == 0, again.said
    for page in ("runs/report.html", "again.html"):
        assert "neither holds nor even" in (folder / page).read_text()


def test_audit_strict_exits_by_what_it_found(audited):
    """One set of runs, held against margins that make it hold, walk back, and prove nothing; and too few of them."""
    folder, _ = audited
    subjects = [judge(subject.evidence) for subject in subjects_at([folder / "runs"])[0]]
    found = {s.name: next(f for f in s.findings if f.check == "depth") for s in subjects}
    bp, dfa, noise = (found[name] for name in ("bp", "dfa", "random"))
    low = min(bp.parts[f"bp over {name}"].low for name in ("frozen", "shallow"))
    assert low > max(dfa.high, noise.high) + 0.01, "give the runs more epochs"
    margins = {"apart": (3 * low + max(dfa.high, noise.high)) / 4, "beyond": 0.5}
    for name, margin in margins.items():  # and a lower half that nobody asks about
        (folder / f"{name}.toml").write_text(f'version = "{name}"\ndepth.margin = {margin}\nreach.margin = 0.9\n')

    def words(name: str, rules: str = "dfa", *more: str) -> list[str]:
        recipe = [*RUN[: RUN.index("--seeds")], *NET] if "--seeds" in more else RUN
        return [*recipe, "--thresholds", f"{name}.toml", "--rules", rules, *more]

    holds, walked, straddles, invalid, lenient = commands(
        folder, words("apart", "bp", "--strict"), words("apart", "dfa", "--strict"),
        words("apart", "bp", "--strict", "--seeds", "3"),
        words("beyond", "dfa", "--strict"), words("beyond", "dfa"),
    )  # fmt: skip
    assert (holds.status, walked.status, straddles.status, invalid.status, lenient.status) == (0, 1, 3, 4, 0)
    assert "Every control behaved as expected." in holds.words
    assert "thresholds: apart" in walked.words
    assert "dfa Accuracy is walked back." in walked.words
    assert "3 seeds can walk it back; five are needed to show that it holds." in straddles.words
    assert "This audit is invalid: " in invalid.words
    assert "finished 5 epochs [45 of 45 runs done]" in invalid.words
    assert "epoch 1/5" not in walked.said  # reused, not trained


def test_audit_is_stopped_cleanly_and_says_how_to_go_on(tmp_path):
    words = ["audit", "--epochs", "300", "--seeds", "1", *NET]
    process = subprocess.Popen(
        [*MAIN, *words], text=True, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, cwd=tmp_path, env=environment(),
        start_new_session=True,
    )  # fmt: skip
    deadline = time.monotonic() + 60
    while not list(tmp_path.glob("runs/*/snapshots.jsonl")) and time.monotonic() < deadline:
        time.sleep(0.05)
    os.killpg(process.pid, signal.SIGINT)
    said, _ = process.communicate(timeout=60)
    assert process.returncode not in (0, 1, 3, 4), said  # those are verdicts
    assert "Traceback" not in said
    assert "the same command resumes" in said
    assert not (tmp_path / "runs/audit.json").exists()


def test_audit_that_is_stopped_before_its_first_run_says_so_too(tmp_path, monkeypatch, capsys):
    monkeypatch.setattr("walkback.audits.rules_audit.train_all", lambda configs, *_, **__: [None] * len(configs))
    words = ["audit", "--epochs", "1", "--seeds", "1", *NET, "--out", str(tmp_path)]
    assert app(words, result_action="return_value") == 130
    assert "runs unfinished. The same command resumes them." in capsys.readouterr().out


def test_error_audit_refuses_what_cannot_be_meant(tmp_path):
    (tmp_path / "bad.toml").write_text('version = "x"\nscale.groth = 60\n')
    (tmp_path / "impossible.toml").write_text('version = "x"\ndepth.margin = -1\n')
    (tmp_path / "torn.json").write_text('{"version": "x", ')
    (tmp_path / "same.toml").write_text('version = "walkback-3"\n')
    tiny = ["audit", "--epochs", "1", "--width", "8"]
    cases = [
        ([*tiny, "--rules", ","], "no rule is given"),
        ([*tiny, "--rules", "dfaa"], "did you mean dfa"),
        ([*tiny, "--protocol", "mine"], "protocol"),
        ([*tiny, "--thresholds", "nowhere.toml"], "cannot read nowhere.toml"),
        ([*tiny, "--thresholds", "bad.toml"], "no threshold is named 'scale.groth'"),
        ([*tiny, "--thresholds", "impossible.toml"], "depth.margin cannot be -1"),
        ([*tiny, "--thresholds", "torn.json"], "neither TOML nor JSON"),
        ([*tiny, "--thresholds", "same.toml"], "give it another version"),
        ([*tiny, "--depth", "0"], "a net without blocks can only be trained by bp"),
        ([*tiny, "--seeds", "0"], "0 seeds cannot be trained"),
    ]
    for (words, expected), done in zip(cases, commands(tmp_path, *(words for words, _ in cases)), strict=True):
        assert done.status not in (0, 3, 4), words
        assert expected in done.words, (words, done.said)
    assert not (tmp_path / "runs").exists()


def test_train_stops_when_a_check_fires_and_says_what_it_saved(tmp_path):
    words = ["train", "--rules", "dfa", "--epochs", "9", "--width", "16", "--depth", "2", "--lr", "0.1", "--jobs", "1"]
    train, judged = commands(tmp_path, [*words, "--stop-when-fired"], ["judge", "runs", "--strict"])
    assert train.status == 0
    assert re.search(r"ended at epoch \d: one block's growth is above 50.*; \d of 9 epochs saved", train.words)
    assert judged.status == 4
    assert "? open" in judged.words  # scale explains, and never decides
    assert "symptom: One block grows the stream" in judged.words
    assert re.search(r"scale first fired at epoch \d", judged.words)


# --- walkback judge -------------------------------------------------------------------------------------------------


def log(hidden: list[float], accuracy: Any = 0.3, **config: Any) -> list[dict[str, Any]]:
    return [{"epoch": 9, "hidden_norms": hidden, "acc_eval": accuracy,
             "bp_grad_norms_per_sample_med": [4e-4] * len(hidden)} | config]  # fmt: skip


LOGS: dict[str, Any] = {
    "loud": {"config": {"eval_batch": 128}, "bp_log": log([9.0, 9.5, 9.9], 0.6), "dfa_log": log([9.0, 9e3, 9e6])},
    "quiet": {"config": {"eval_batch": 128}, "bp_log": log([9.0, 9.5, 9.9], 0.6)},
    "percent": {"dfa_log": log([9.0, 9.0], 61.5)},
}  # fmt: skip


@pytest.fixture
def logs(tmp_path):
    for name, content in LOGS.items():
        (tmp_path / f"{name}.json").write_text(json.dumps(content))
    (tmp_path / "torn.json").write_text(json.dumps(LOGS["loud"])[:40])
    (tmp_path / "bytes.json").write_bytes(b"\xff\xfe\x00")
    (tmp_path / "ours.toml").write_text('version = "our-lab-1"\nscale.growth = 1e7\n')
    (tmp_path / "bad.toml").write_text('version = "x"\nscale.growth = "large"\n')
    (tmp_path / "nothing").mkdir()
    return tmp_path


def test_judge_reads_logs_and_exits_as_it_is_told(logs):
    """What it says of logs is in tests/golden/oracle/logs.txt."""
    plain, strict, held, own = commands(
        logs, ["judge", "loud.json"], ["judge", "loud.json", "--strict"],
        ["judge", "quiet.json", "--protocol", "published", "--frozen", "0.349", "--strict", "--out", "said"],
        ["judge", "loud.json", "--thresholds", "ours.toml", "--strict"],
    )  # fmt: skip
    assert (plain.status, strict.status, held.status, own.status) == (0, 4, 4, 4)  # logs have no controls
    assert "One block grows the stream 1,000×" in plain.words
    assert "Not controlled: judged from records alone" in plain.words
    assert "audit.json" not in plain.words
    assert "Typed in, not measured here" in held.words
    assert "Protocol: published" in held.words
    raw = strictly((logs / "said/audit.json").read_text())
    assert (raw["valid"], raw["controls"], raw["protocol"]) == (None, [], "published")
    assert "thresholds: our-lab-1" in own.words


def test_judge_reads_folders_and_mixes_them_with_logs(audited, logs):
    folder, _ = audited
    runs = str(folder / "runs")
    one = str(next((folder / "runs").glob("mnist1d-resmlp-dfa-s42-*")))
    every, single, mixed = commands(logs, ["judge", runs], ["judge", one], ["judge", runs, "loud.json"])
    assert every.status == single.status == mixed.status == 0
    assert "control random: expected neither holds nor even" in every.words  # as the audit had it
    assert re.search(r"\ndfa +\(?(✗ walked back|\? open)", every.said)
    assert not re.search(r"\nrandom +\(?(✗|\?|✓) ", every.said)
    assert "cannot settle it" in single.words or "is not known" in single.words
    assert "bp · 2" in mixed.words


def test_error_judge_says_what_it_cannot_read(logs):
    cases = [
        (["judge"], "no path is given"),
        (["judge", "nowhere.json"], "cannot read nowhere.json"),
        (["judge", "nothing"], "no runs in nothing"),
        (["judge", "torn.json"], "is not valid JSON"),
        (["judge", "bytes.json"], "is text in UTF-16, not JSON"),
        (["judge", "percent.json"], "a percentage? divide by 100"),
        (["judge", "quiet.json", "--frozen", "34.9"], "divide a percentage by 100"),
        (["judge", "quiet.json", "--frozen", "nan"], "not an accuracy between 0 and 1"),
        (["judge", "quiet.json", "--frozen", "much"], "much"),
        (["judge", "quiet.json", "--thresholds", "bad.toml"], "not a number"),
        (["judge", "quiet.json", "--thresholds", "nowhere.toml"], "cannot read nowhere.toml"),
        (["judge", "quiet.json", "--protocol", "mine"], "protocol"),
        (["judge", "quiet.json", "--out", "torn.json"], "a file is where a folder should be"),
    ]
    for (words, expected), done in zip(cases, commands(logs, *(words for words, _ in cases)), strict=True):
        assert done.status not in (0, 3, 4), words
        assert expected in done.words, (words, done.said)


HOSTILE = ["[red]x[/red]", "[/bold]", "[bold", "x\\", "\\[x]", ":bomb:", "[link=x]y[/]", "{0} %s"]


def test_property_hostile_names_are_printed_as_they_are(tmp_path):
    """Markup in a method's name, in a config's word or in a file's name: neither obeyed nor a crash."""
    lines = []
    for number, name in enumerate(HOSTILE):
        (tmp_path / f"method{number}.json").write_text(json.dumps({f"{name}_log": log([1.0, 2.0])}))
        safe = name.replace("/", "_")
        (tmp_path / f"{safe}.json").write_text(json.dumps({"log": [{"epoch": 1, "h_L_norm": 2.0, "acc_eval": 0.5}]}))
        lines += [["judge", f"method{number}.json"], ["judge", f"{safe}.json"], ["judge", f"{safe}.nowhere"]]
    found = commands(tmp_path, *lines)
    for number, name in enumerate(HOSTILE):
        method, file, nowhere = found[3 * number : 3 * number + 3]
        assert method.status == file.status == 0, (name, method.said, file.said)
        assert method.said.count(name) == 2, (name, method.said)  # in the table, and above the reasons
        safe = name.replace("/", "_")
        assert file.said.count(safe) == 2, (name, file.said)
        assert nowhere.status == 2
        assert f"cannot read {safe}.nowhere" in nowhere.said


def test_property_names_cannot_act_on_the_terminal(tmp_path):
    (tmp_path / "odd.json").write_text(
        json.dumps({"a\x1b[2Jb_log": log([1.0, 2.0]), "c\nd\re_log": log([1.0, 2.0]), "\ud800_log": log([1.0, 2.0])})
    )
    done = walkback("judge", "odd.json", "--out", "said", cwd=tmp_path)
    assert done.status == 0
    assert "\x1b" not in done.said
    assert "a�[2Jb" in done.said
    assert "c�d�e" in done.said
    assert len(strictly((tmp_path / "said/audit.json").read_text())["subjects"]) == 3
