"""Files written by one helper, and outside words on a terminal: planted devices, links, names, two writers at once."""

import csv
import errno
import gzip
import io
import json
import multiprocessing as mp
import os
import resource
import socket
import stat
import subprocess
import sys
from pathlib import Path

import pytest
from rich.console import Console

from commands import walkback
from conftest import small_plan
from fake_runs import write_run
from fuzz import LOGS, dirty
from walkback import cli, files, plain
from walkback.audits import audit_subjects, judge_paths
from walkback.errors import RecordError, WalkbackError
from walkback.records import RunFolder, Subject, evidence_of_log, read_run
from walkback.records.folder import Contents
from walkback.report.audit_words import print_audit
from walkback.report.tables import Table, table_text
from walkback.report.terminal import runs_table, show_run

NASTY = (
    "[/x]", "[red]x[/red]", ":smile:", "a\x1b[31mb", "a\x9b2Jb", "\u202egpj.exe", "a\u200bb", "one\ntwo  ✓ holds",
    "x\\", "\ud800", "\x00", "\x7f", "a\u2028b", "a" + "\u0301" * 50, "\u3164", "=cmd()",
)  # fmt: skip


def leftovers(folder: Path) -> list[str]:
    return [path.name for path in folder.iterdir() if path.name.endswith(".part")]


# --- what is replaced ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("link", [False, True])
@pytest.mark.parametrize("kind", ["pipe", "socket", "folder", "null", "full"])
def test_only_a_regular_file_is_replaced(tmp_path, monkeypatch, kind, link):
    monkeypatch.chdir(tmp_path)
    target = Path({"null": "/dev/null", "full": "/dev/full"}.get(kind, "target"))
    if kind == "pipe":
        os.mkfifo(target)
    elif kind == "folder":
        target.mkdir()
    elif kind == "socket":
        with socket.socket(socket.AF_UNIX) as made:
            made.bind("target")
    if not target.exists():
        pytest.skip(f"no {target} here")
    before = target.stat()
    named = Path("link") if link else target
    if link:
        named.symlink_to(target)
    with pytest.raises(RecordError, match="only a regular file is replaced") as error:
        files.write_whole(named, b"new")
    assert error.value.remedy
    assert (target.stat().st_mode, target.stat().st_ino) == (before.st_mode, before.st_ino)
    assert named.is_symlink() == link
    assert not leftovers(tmp_path)


def test_a_link_is_followed_and_stays(tmp_path):
    (tmp_path / "there").mkdir()
    file, link, dangling = tmp_path / "there" / "file", tmp_path / "link", tmp_path / "dangling"
    file.write_bytes(b"old")
    file.chmod(0o640)
    link.symlink_to(Path("there") / "file")
    files.write_whole(link, b"new")
    assert (link.is_symlink(), file.read_bytes(), stat.S_IMODE(file.stat().st_mode)) == (True, b"new", 0o640)
    dangling.symlink_to(Path("there") / "made")  # its file is not there yet: it is made
    files.write_whole(dangling, b"first")
    assert (dangling.is_symlink(), (tmp_path / "there" / "made").read_bytes()) == (True, b"first")
    loop = tmp_path / "loop"
    loop.symlink_to("loop")
    with pytest.raises(RecordError, match="leads back to itself"):
        files.write_whole(loop, b"new")


def test_in_a_run_folder_no_link_is_written_through(tmp_path):
    """A stranger's folder whose files lead elsewhere: what is there stays, and the run's files become files."""
    (config,) = small_plan(epochs=1)
    outside = tmp_path / "outside"
    outside.write_text("keep me")
    folder = tmp_path / "runs" / config.folder()
    folder.mkdir(parents=True)
    for name in ("snapshots.jsonl", "environment.json", "result.json", "checkpoint.safetensors"):
        (folder / name).symlink_to(tmp_path / "nowhere" if name == "snapshots.jsonl" else outside)
    (folder / ".result.json.1-00.part").write_text("what a killed writer left is swept away by the next")
    with RunFolder(tmp_path / "runs", config) as opened:
        assert not leftovers(folder)
        opened.keep_snapshots(-1)
        opened.write("result.json", config)
        opened.save_checkpoint({}, {})
    assert outside.read_text() == "keep me"
    assert not (tmp_path / "nowhere").exists()
    assert not any(
        (folder / name).is_symlink() for name in ("snapshots.jsonl", "result.json", "checkpoint.safetensors")
    )
    (folder / "snapshots.jsonl").unlink()
    (folder / "snapshots.jsonl").symlink_to(outside)
    with pytest.raises(RecordError, match="cannot write"):
        files.append(folder / "snapshots.jsonl", b"line\n")
    assert outside.read_text() == "keep me"


@pytest.mark.parametrize("number", [errno.ENOSPC, errno.EDQUOT, errno.EROFS, errno.EIO])
@pytest.mark.parametrize("call", ["fsync", "fdopen"])
def test_a_full_disk_leaves_the_old_file_whole(tmp_path, monkeypatch, number, call):
    file = tmp_path / "file"
    file.write_bytes(b"old")
    true = getattr(os, call)

    def fails(descriptor, *rest):
        if call == "fdopen":
            os.close(descriptor)
        raise OSError(number, os.strerror(number))

    monkeypatch.setattr(f"walkback.files.os.{call}", fails)
    with pytest.raises(RecordError, match=os.strerror(number)) as error:
        files.write_whole(file, b"new", previous=tmp_path / "previous")
    assert error.value.remedy
    assert file.read_bytes() == b"old"
    assert sorted(path.name for path in tmp_path.iterdir()) == ["file"]
    monkeypatch.setattr(f"walkback.files.os.{call}", true)
    files.write_whole(file, b"new", previous=tmp_path / "previous")
    assert (file.read_bytes(), (tmp_path / "previous").read_bytes()) == (b"new", b"old")


def test_a_write_that_the_system_cuts_short(tmp_path):
    """For real: a limit on the size of files, which ends a write in its middle."""
    file = tmp_path / "file"
    file.write_bytes(b"old")
    limit = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (1 << 20, limit[1]))
    try:
        with pytest.raises(RecordError, match="File too large"):
            files.write_whole(file, b"x" * (2 << 20))
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limit)
    assert [path.name for path in tmp_path.iterdir()] == ["file"]
    assert file.read_bytes() == b"old"


def _write_often(path: Path, letter: bytes) -> None:
    for _ in range(60):
        files.write_whole(path, letter * 200_000)


def test_two_writers_of_one_file_do_not_meet(tmp_path):
    file = tmp_path / "page.html"
    context = mp.get_context("fork")
    writers = [context.Process(target=_write_often, args=(file, letter)) for letter in (b"a", b"b")]
    for writer in writers:
        writer.start()
    seen = set()
    while any(writer.is_alive() for writer in writers):
        if file.exists():
            seen.add((len(content := file.read_bytes()), len(set(content))))
    for writer in writers:
        writer.join()
    assert [writer.exitcode for writer in writers] == [0, 0]
    assert seen <= {(200_000, 1)}
    assert [path.name for path in tmp_path.iterdir()] == ["page.html"]


def test_permissions_follow_the_umask(tmp_path):
    before = os.umask(0o027)
    try:
        files.write_whole(tmp_path / "file", b"")
    finally:
        os.umask(before)
    assert stat.S_IMODE((tmp_path / "file").stat().st_mode) == 0o640


def test_the_command_line_refuses_a_device(tmp_path):
    (tmp_path / "log.json").write_text(json.dumps(LOGS["norms"]))
    for words in (["report", "log.json", "--to", "/dev/null"], ["form", "log.json", "--to", "/dev/null"]):
        done = walkback(*words, cwd=tmp_path)
        assert done.returncode == 2, done
        assert "a device, and only a regular file is replaced" in done.stderr
        assert "Traceback" not in done.stderr
    assert stat.S_ISCHR(Path("/dev/null").stat().st_mode)


# --- what reaches a terminal -----------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", NASTY)
def test_a_name_in_a_log_is_words_on_the_terminal(name):
    """No control, no markup, no second row: the name stands there, letter by letter, or � for what is not seen."""
    evidence = {f"{name}_log": LOGS["norms"]["dfa_log"]}
    found = judge_paths_of(evidence)
    out = io.StringIO()
    print_audit(found, Console(file=out, width=200, force_terminal=False))
    assert not dirty(out.getvalue())
    shown = plain.seen(found.subjects[0].name).strip()  # half a character is ? there, as no JSON can be written with it
    assert shown in out.getvalue()
    assert sum(line.lstrip().startswith(shown or "\0") for line in out.getvalue().splitlines()) <= 2 or shown == "?"
    if name.isascii() and name.isprintable():
        assert name in out.getvalue()


def judge_paths_of(raw):
    return audit_subjects([Subject(each.name, each) for each in evidence_of_log(raw)])


@pytest.mark.parametrize("name", NASTY)
def test_a_run_is_words_on_the_terminal(tmp_path, name):
    (config,) = small_plan(epochs=1)
    run = read_run(write_run(tmp_path, config))
    odd = run.config.changed(rule=name, data=name, net_options={name: name})
    result = run.result.changed(status="diverged", says=name)
    cosine = [c.changed(status=name) for c in run.snapshots[-1].cosine]
    last = run.snapshots[-1].changed(cosine=cosine)
    run = type(run)(run.path / name, odd, None, result, Contents([last], notes=[name]))
    out = io.StringIO()
    console = Console(file=out, width=300)
    show_run(run, console)
    console.print(runs_table([run, run]))
    assert not dirty(out.getvalue())
    if name.isascii() and name.isprintable():
        assert out.getvalue().count(name) >= 6


@pytest.mark.parametrize("name", ["x[/x]", "[red]x", ":smile:", "a\x1b[31mb", "a\nb", "\udcff"])
def test_our_own_paths_are_words_too(tmp_path, monkeypatch, capsys, name):
    monkeypatch.chdir(tmp_path)
    Path("log.json").write_text(json.dumps(LOGS["norms"]))
    cli.judge(Path("log.json"), out=Path(name))
    cli.report(Path("log.json"), to=Path(name) / "page.html")
    cli.table(Path("log.json"), to=Path(name))
    said = capsys.readouterr().out
    assert not dirty(said)
    assert f"Written to {plain.seen(name)}/audit.json" in said
    assert f"Page in {plain.seen(name)}/page.html" in said
    with pytest.raises(WalkbackError) as error:
        judge_paths(Path(name) / "nothing.json")
    assert not dirty(plain.error_words(error.value))
    assert len(plain.error_words(error.value).splitlines()) == 2  # the cause and the remedy, and no third


def test_a_training_into_a_folder_with_brackets(tmp_path):
    """The live lines, the table and the hint of `train`; in a process of its own, as a user gives it."""
    words = ["train", "--rules", "dfa", "--epochs", "1", "--width", "8", "--depth", "2", "--out", "x[/x]"]
    done = walkback(*words, cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert "Records in x[/x]/" in done.stdout


def test_a_terminal_without_our_signs_is_no_error(tmp_path):
    (tmp_path / "log.json").write_text(json.dumps(LOGS["norms"]))
    command = [sys.executable, "-c", "from walkback.cli import main; main()", "judge", "log.json"]
    environment = os.environ | {"PYTHONIOENCODING": "ascii", "PYTHONUTF8": "0"}
    done = subprocess.run(command, cwd=tmp_path, env=environment, capture_output=True, timeout=100, check=False)
    assert done.returncode == 0, done.stderr
    assert b"holds" in done.stdout or b"inconclusive" in done.stdout or b"walked back" in done.stdout


def test_a_formula_is_text_in_a_spreadsheet():
    table = Table("t", "=title", ["+a", "b"], [["=cmd()|'x'!A0", "@x"], ["-2.4", "one\ntwo"], ["\t=x", "a,b"]])
    rows = list(csv.reader(io.StringIO(table_text(table, "csv"))))
    assert rows == [["'+a", "b"], ["'=cmd()|'x'!A0", "'@x"], ["-2.4", "one two"], ["'=x", "a,b"]]


@pytest.mark.parametrize("form", ["markdown", "csv", "latex", "text"])
def test_a_name_is_one_cell_of_every_table(form):
    for name in NASTY:
        assert not dirty(table_text(Table("t", name, [name, "b"], [[name, "end"]], [name]), form)), name


@pytest.mark.parametrize(
    ("content", "what"),
    [
        (gzip.compress(b"{}"), "is a gzip file, not JSON"),
        (b"PK\x03\x04rest", "is a zip archive (or .npz, .pt), not JSON"),
        ("{}".encode("utf-16"), "is text in UTF-16, not JSON"),
        (b"epoch,acc\n1,0.5\n", "is some other text (a table, a page?), not JSON"),
        (b'{"a": [1, 2', "is not valid JSON"),
    ],
    ids=["gzip", "zip", "utf-16", "csv", "torn"],
)
def test_a_file_of_another_kind_is_not_called_torn(content, what):
    with pytest.raises(RecordError) as error:
        files.parse_json(content, "their.json", "get the file again; it may be cut off")
    assert what in error.value.what
    assert ("cut off" in str(error.value)) == (what == "is not valid JSON")
