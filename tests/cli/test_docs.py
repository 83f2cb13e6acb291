"""The documents: their examples are run as they stand, their links lead somewhere."""

import json
import re
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from conftest import STUDIED

ROOT = Path(__file__).parents[2]
PAGES = sorted([ROOT / "README.md", *(ROOT / "docs").glob("*.md")])


def blocks(page: Path, language: str) -> list[str]:
    return re.findall(rf"```{language}\n(.*?)```", page.read_text(), re.S)


def write_files(page: Path, folder: Path) -> list[str]:
    """Put the blocks that begin with the name of a file (# my_data.py) there; the other Python blocks."""
    scripts = []
    for block in blocks(page, "python"):
        name = re.match(r"# (\w+\.py)\n", block)
        if name:
            (folder / name[1]).write_text(block)
        else:
            scripts.append(block)
    return scripts


def test_the_rule_of_write_a_rule_trains(tmp_path):
    """The page's first block is a file of under 40 lines; its second block uses it."""
    rule, script, _ = blocks(ROOT / "docs/write-a-rule.md", "python")
    assert len(rule.splitlines()) < 40
    (tmp_path / "sign_symmetry.py").write_text(rule)
    assert script.count("epochs=5") == 1
    (tmp_path / "script.py").write_text(script.replace("epochs=5", 'epochs=5, net_options={"width": 64}'))
    done = subprocess.run([sys.executable, "script.py"], cwd=tmp_path, text=True, capture_output=True, timeout=240)
    assert done.returncode == 0, done.stderr
    bp, ours = eval(done.stdout)
    assert bp > 0.3
    assert ours > 0.25, "it should learn: it has the skip connection's part of the gradient"


@pytest.mark.parametrize("page", PAGES, ids=lambda p: p.name)
def test_links_lead_somewhere(page):
    for target in re.findall(r"\]\(([^)#]+)(?:#[^)]*)?\)", page.read_text()):
        if not target.startswith(("http://", "https://")):
            assert (page.parent / target).exists(), f"{page.name}: {target}"


@pytest.mark.parametrize("page", PAGES, ids=lambda p: p.name)
def test_commands_in_the_documents_are_known(page):
    """Every walkback command shown parses: its words exist."""
    from walkback.cli import app

    for block in blocks(page, "console"):
        for line in block.splitlines():
            if line.startswith("walkback "):
                words = line.split("#")[0].split()[1:]
                command, *_ = app.parse_args(words, exit_on_error=False, print_error=False)
                assert command is not None, line


def shrunk(words: list[str]) -> list[str]:
    """The same command in a budget that a test has: embedded data, one epoch, the seed that is trained already."""
    words = ["mnist1d" if word == "cifar10" else word for word in words if word != "--quick"]
    study = words[0] == "study"
    one = [] if "--executor" in words else ["--jobs", "1"]  # to start others takes longer than what they would do
    for option in (
        "--seeds",
        "--max-seeds",
        "--seed",
        "--epochs",
        "--width",
        "--jobs",
        *(["--rules"] if study else []),
    ):
        if option in words:
            del words[words.index(option) : words.index(option) + 2]
    if study:
        words = [each for word in words for each in (STUDIED if word == "all" else [word])]
        return [
            *words,
            "--quick",
            "--epochs",
            "1",
            "--seeds",
            "42,",
            "--rules",
            "dfa",
            *(one if "run" in words else []),
        ]
    if words[0] == "audit" and any(word.endswith(".py") for word in words):
        return [*words, "--seeds", "42,", *one]  # what else is trained stands in the file
    if words[0] in ("train", "audit"):
        # Only the default net is sure to have an option `width`.
        cards = ["--no-cards"] if words[0] == "audit" else []  # seconds for each rule, and tested elsewhere
        cards += ["--rates", "one"] if cards and "--lr" not in words and "--rates" not in words else []  # likewise
        own_net = "--net" in words and "resmlp" not in words
        return [*words, "--epochs", "1", "--seeds", "42,", *one, *cards, *([] if own_net else ["--width", "32"])]
    return words


LONG = ("studies.md", "reproduction.md")  # minutes: many studies are run, drawn and printed


def pages(names: list[str]) -> list[Any]:
    """What is run of each page, by how long it takes: the README with every change, the others by `make test-docs`."""
    marks = {name: pytest.mark.slow if name in LONG else pytest.mark.documents for name in names if name != "README.md"}
    return [pytest.param(name, id=name, marks=marks.get(name, ())) for name in names]


def place(name: str) -> Path:
    return ROOT / name if name == "README.md" else ROOT / "docs" / name


@pytest.mark.parametrize("name", pages([page.name for page in PAGES]))
def test_the_commands_of_the_documents_run(name, request, tmp_path):
    """Every walkback line, in the order of the page, where what the page speaks of is; only the budget is cut."""
    page = place(name)
    root, _ = request.getfixturevalue("all_carried_out" if name in LONG else "carried_out")
    lines = [line for block in blocks(page, "console") for line in block.splitlines() if line.startswith("walkback ")]
    for name in ("runs", "results"):
        shutil.copytree(root / name, tmp_path / name, ignore=shutil.ignore_patterns("*.safetensors"))
    log = {"config": {"L": 4}, "log": [{"epoch": 1, "h_L_norm": 4e4, "g_2_norm": 9e-7, "acc_eval": 0.36}]}
    (tmp_path / "their_log.json").write_text(json.dumps(log))
    shutil.copy(ROOT / "tests/golden/run.jsonl", tmp_path / "run.jsonl")
    shutil.copytree(ROOT / "docs/tried", tmp_path / "docs/tried")
    write_files(page, tmp_path)
    told = [(line, shrunk(line.split("#")[0].split()[1:])) for line in lines]
    done = subprocess.run(
        [sys.executable, "-c", RUN_ALL],
        input=json.dumps(told),
        cwd=tmp_path,
        text=True,
        capture_output=True,
        timeout=600,
    )
    assert done.returncode == 0, done.stdout + done.stderr


RUN_ALL = """
import json, sys
from walkback.cli import app
for line, words in json.load(sys.stdin):
    status = app(words, result_action="return_value")  # without it, cyclopts ends the process after the first
    assert not status, f"{line}: exit {status}"
"""  # one process a page: torch is imported once


PYTHON = [
    "README.md", "audit-your-model.md", "your-training.md", "studies.md", "bring-your-data.md",
    "bring-your-net.md", "cluster.md",
]  # fmt: skip


def test_every_page_with_python_is_run():
    own = {"write-a-rule.md", "CONTRIBUTING.md"}  # run by tests of their own
    assert {page.name for page in PAGES if blocks(page, "python")} - own == set(PYTHON)


@pytest.mark.parametrize("page", pages(PYTHON))
def test_the_python_of_the_documents_runs(page, tmp_path):
    for number, block in enumerate(write_files(place(page), tmp_path)):
        (tmp_path / "block.py").write_text(block)
        done = subprocess.run([sys.executable, "block.py"], cwd=tmp_path, text=True, capture_output=True, timeout=240)
        assert done.returncode == 0, f"{page}, block {number}: {done.stderr}"
        assert done.stdout


def test_golden_the_reproduction_page_is_what_its_command_prints():
    from walkback.records import find_runs, read_run
    from walkback_paper.reproduction import page

    written = (ROOT / "docs/reproduction.md").read_text()
    assert written == page([read_run(path) for path in find_runs(ROOT / "results")]) + "\n"


def test_golden_the_readmes_table_is_what_its_audit_prints():
    """The audit behind the README's table is kept in results/; printed on 80 columns it is the table."""
    import io

    from rich.console import Console

    from walkback.checks import Audit
    from walkback.report.audit_words import print_audit

    audit = Audit.read(ROOT / "results/mnist1d-demo")
    printed = io.StringIO()
    print_audit(audit, Console(file=printed, width=80))
    lines = [line.rstrip() for line in printed.getvalue().splitlines()[1:]]
    table = lines[: next(place for place, line in enumerate(lines) if line.startswith("✓ passes"))]
    assert [line.split()[0] for line in table] == ["subject", "bp", "mono-forward", "fa", "by", "dfa"]
    for page in ("README.md", "docs/checks.md"):
        assert "\n".join(table) in (ROOT / page).read_text(), page


def test_property_the_committed_demo_is_judged_from_its_runs_as_it_was():
    """From the records beside it, its trials among them: rates, answers and sentences are those of its audit.json."""
    from walkback.audits import judge_paths
    from walkback.checks import Audit

    written, judged = Audit.read(ROOT / "results/mnist1d-demo"), judge_paths(ROOT / "results/mnist1d-demo")
    order = [subject.name for subject in written.subjects]  # as they were asked for; judged they are in folder order
    judged = judged.changed(subjects=sorted(judged.subjects, key=lambda subject: order.index(subject.name)))
    assert judged.text() == written.text()


def test_the_documents_build_as_a_site(tmp_path):
    """Strictly: a page that is not in the order, or a link that leads nowhere, is an error; the README comes first."""
    # Not with --quiet: it hides warnings from --strict too.
    words = [sys.executable, "-m", "mkdocs", "build", "--strict", "--site-dir", str(tmp_path / "site")]
    done = subprocess.run(words, cwd=ROOT, text=True, capture_output=True, timeout=240)
    assert done.returncode == 0, done.stderr
    first = (tmp_path / "site/index.html").read_text()
    assert "Which command" in first
    assert "figures/hero.png" in first
    pages = {page.stem for page in PAGES} - {"README"}
    assert pages <= {page.stem for page in (tmp_path / "site").glob("*.html")}
    assert "https://fonts" not in first
