"""Tables that an author can paste: as committed records give them, and whatever strangers put into names."""

import csv
import doctest
import importlib
import io
import json
import os
import pkgutil
import re
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from rich.console import Console

import walkback.report
from fake_runs import write_run
from latex_sound import compiles, sound
from report_material import config, demo_audit, write_runs
from report_material import write_run as write_config
from walkback.audits import audits_of, judge_paths
from walkback.checks import DEFAULT, Audit, Control
from walkback.cli import app
from walkback.errors import WalkbackError
from walkback.report import latex
from walkback.report.audit_tables import audit_tables
from walkback.report.audit_words import print_audit
from walkback.report.tables import SUFFIXES, Stat, Table, table_text
from walkback.report.writing import for_markdown
from walkback.train import plan
from walkback.version import own_version

ROOT = Path(__file__).parents[2]
GOLDEN = Path(__file__).parents[1] / "golden"
DEMO = demo_audit()
HOSTILE = [
    "</script><script>alert(1)</script>", r"\input{/etc/passwd}", "$", "$x$ & 100% #1 ~ ^", "|", "a|b\\|c",
    "two\nlines", "=cmd()", "+1+cmd|' /C calc'!A0", "-2+3", "@SUM(A1)", "\t=1+1", "`rm -rf`", "[click](http://x)",
    "*[option]", r"\\[5cm]", "{", "}", r"\end{table}", "%", "--input", "_x_", "<!--", "\x1b[31m", "\u202eRTL", "漢字",
    "\ud800", "Nøkland é ĝ ı", "", " ", '"', "&amp; &#60;", "‖h_L‖ Γ λ ρ ∂ ± − – × ✓ ✗ a_{l+1} W1ˢᵀ ² → ≤",
]  # fmt: skip


@pytest.fixture(scope="module")
def demo() -> Audit:
    return Audit.read(DEMO)


def renamed(audit: Audit, names: list[str]) -> Audit:
    """The audit with strangers' names in every place that holds one."""
    one = audit.subjects[2]
    subjects = [one.changed(name=name) for name in names]
    controls = [Control(name=name, expected=name, got=name, ok=False) for name in names]
    return audit.changed(valid=False, subjects=subjects, controls=controls, says=" ".join(names))


def golden(name: str, made: str) -> None:
    """Held against a committed file; WALKBACK_GOLDEN=write writes it anew."""
    made = made.replace(f"made by walkback {own_version()}", "made by walkback VERSION")
    if os.environ.get("WALKBACK_GOLDEN") == "write":
        (GOLDEN / name).write_text(made)
    assert made == (GOLDEN / name).read_text()


# --- as committed ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("form", ["markdown", "csv", "latex"])
def test_golden_the_tables_of_the_committed_demo(demo, form):
    golden(f"demo.{SUFFIXES[form]}", "\n".join(table_text(table, form) for table in audit_tables(demo)))


def test_the_tables_hold_what_the_audit_holds(demo):
    verdicts, findings, intervals, controls, measured = audit_tables(demo)
    rows = {row["subject"]: row for row in csv.DictReader(io.StringIO(verdicts.csv()))}
    for subject in demo.subjects:
        assert float(rows[subject.name]["test accuracy"]) == subject.accuracy.mean
        assert float(rows[subject.name]["test accuracy std"]) == subject.accuracy.std
        assert rows[subject.name]["accuracy"] == subject.answer
        assert rows[subject.name]["lower half"] == subject.verdicts.lower_half
        assert rows[subject.name]["Γ"] == subject.verdicts.gamma
        assert float(rows[subject.name]["median block"]) == subject.median_cosine
        assert rows[subject.name]["rates"] == subject.rates
        gains = [f for f in subject.findings if f.check in ("depth", "reach")]
        parts = {name: part for f in gains for name, part in f.parts.items()}
        for name in ("frozen", "shallow", "half"):
            assert float(rows[subject.name][f"over {name}"]) == parts[name].value
        listed = {row[2]: row[3:] for row in intervals.rows if row[0] == subject.name}
        assert listed == {name: [100 * part.value, 100 * part.low, 100 * part.high] for name, part in parts.items()}
        assert rows[subject.name]["n"] == str(subject.accuracy.n)
    found = list(csv.DictReader(io.StringIO(findings.csv())))
    listed = [(s.name, f) for s in demo.subjects for f in s.findings]
    assert len(found) == len(listed) == 21
    for row in csv.DictReader(io.StringIO(measured.csv())):
        if row["probe"].startswith("update") and row["subject"] == "bp":
            assert re.fullmatch(r"0\.9\d\d ± 0\.00\d", row["value"])
    for row, (name, finding) in zip(found, listed, strict=True):
        factor = 100 if finding.check in ("depth", "reach") else 1
        assert (row["subject"], row["check"], row["outcome"]) == (name, finding.check, finding.outcome)
        assert [float(row[k]) if row[k] else None for k in ("value", "low", "high")] == [
            None if v is None else factor * v for v in (finding.value, finding.low, finding.high)
        ]
        assert float(row["threshold"]) == factor * finding.threshold
    assert [row[0] for row in controls.rows] == [c.name for c in demo.controls]
    assert all(
        DEFAULT.version in table.notes[-1] and "ours" in table.notes[-1] for table in (verdicts, findings, controls)
    )


def test_an_invalid_audit_says_so_in_every_format(demo):
    failed = [Control(name="bp", expected="holds", got="open", ok=False)]
    bad = demo.changed(valid=False, controls=failed, says="This audit is invalid: bp should be holds.")
    for form in ("text", "markdown", "latex"):
        assert "This audit is invalid" in table_text(audit_tables(bad)[0], form)
    assert [row[1].partition(" (")[0] for row in audit_tables(bad)[0].rows] == ["does not count"] * 3


@pytest.mark.parametrize("protocol", ["ours", "published"])
def test_an_answer_that_is_not_controlled_is_marked_and_no_other_is(tmp_path, protocol):
    write_runs(tmp_path, seeds=5, epochs=2, controls=True)
    write_config(tmp_path, config("dfa", 1, 3), 5.0, 0.3, [0.4] * 3)  # more epochs: a setting without controls
    audit = judge_paths(tmp_path, protocol=protocol)
    assert (audit.valid, audit.not_controlled) == (None, ["dfa · 3 epochs"])
    verdicts = audit_tables(audit)[0]
    assert verdicts.title == "What the audit says"
    columns = ("accuracy", "lower half", "Γ") if protocol == "ours" else ("verdict",)
    for row in csv.DictReader(io.StringIO(verdicts.csv())):
        for column in columns:
            assert row[column].startswith("not controlled (") == (row["subject"] == "dfa · 3 epochs"), row
    for only, marks in ((audit, 1), (judge_paths(*tmp_path.glob("*-bp-*"), protocol=protocol), 0)):
        console = Console(file=io.StringIO(), width=120)
        print_audit(only, console)
        words = console.file.getvalue()
        assert words.count(" *") == marks  # of all subjects the line about validity says it
        assert words.count("* not controlled: no controls were trained in its setting.") == marks
        assert "This audit is invalid" not in words
        assert " ".join(only.says.split()) in " ".join(words.split())


def test_the_examples_in_the_docstrings_hold():
    modules = [found.name for found in pkgutil.walk_packages(walkback.report.__path__, "walkback.report.")]
    results = {name: doctest.testmod(importlib.import_module(name)) for name in [*modules, "walkback.rules.docstrings"]}
    assert [name for name, result in results.items() if result.failed] == []
    assert sum(result.attempted for result in results.values()) > 30


# --- formats --------------------------------------------------------------------------------------------------------


def test_latex_of_every_kind_of_number():
    stats = {
        Stat((0.610, 0.618)): r"$0.614 \pm 0.006$",
        Stat((0.614,)): "$0.614$",
        Stat((4.2e-9,), "size"): r"$4.2\times10^{-9}$",
        Stat((1e-9, 1e-7), "size"): r"$1.0\times10^{-8}$ ($1.0\times10^{-9}$--$1.0\times10^{-7}$)",
        Stat((0.1, 0.3), "points", (-0.05, 0.45)): "$+20.0$ ($-5.0$ to $+45.0$)",
        Stat((-0.5, -0.7), "cosine"): r"$-0.600 \pm 0.141$",
        Stat(()): "--",
        Stat((float("nan"), 1.0)): "not finite",
        Stat(given=(0.5, 0.01, 4)): r"$0.500 \pm 0.010$",
    }
    cells = {5e8: r"$5.0\times10^{8}$", -0.25: "$-0.250$", 7: "$7$", None: "--", float("nan"): "NaN", 0.0: "$0$"}
    words = {"1e-07": "$10^{-7}$", "50%": r"50\%", "dfa λ=0.01": r"dfa $\lambda$=0.01", "3.11.7": "3.11.7",
             "‖g_L‖": r"$\| g_{L} \|$", "my_rule": r"my\_rule", "Γ": r"$\Gamma$", "x − y": "x $-$ y",
             "a_{L−1} = ∂ℓ/∂h_L": r"$a_{L-1}$ = $\partial \ell$/$\partial h_{L}$", "–": "--"}  # fmt: skip
    for cell, expected in (stats | cells | words).items():
        table = Table("t", "T", ["a"], [[cell]])
        assert f"\n{expected} \\tabularnewline" in table.latex(), cell
        sound(table.latex())


def test_latex_has_caption_label_notes_and_aligned_columns():
    cells = [["dfa", 3, 0.5, "50"], ["fa", 1, None, "–"]]
    table = Table("My Table!", "Title of λ", ["rule", "n", "value", "limit"], cells, ["First note.", "Second."])
    made = table.latex()
    sound(made)
    for piece in (
        r"% In the preamble: \usepackage{booktabs,graphicx}", r"\caption{Title of $\lambda$}", r"\label{tab:my-table}",
        r"\begin{tabular}{lrrr}", "First note.\\par\nSecond.}\n\\end{table}",
    ):  # fmt: skip
        assert piece in made
    sound(Table("empty", "No rows", ["a", "b"], []).latex())
    made = Table("t", "T", ["name", "why", "n"], [["w" * 8, "w " * 30, 3]]).latex()
    sound(made)
    assert f"{latex.WIDE}\n\\begin{{tabular}}{{lp{{0." in made  # the lines of long words are broken
    assert "\\raggedright w w" in made


# --- strangers' names -----------------------------------------------------------------------------------------------


def test_hostile_names_do_nothing_as_csv(demo):
    for table in audit_tables(renamed(demo, HOSTILE)):
        rows = list(csv.reader(io.StringIO(table.csv(), newline="")))
        assert {len(row) for row in rows} == {len(rows[0])}
        for row in rows:
            for cell in row:
                assert cell.isprintable()
                assert not cell.startswith(("=", "+", "@", "-")) or re.fullmatch(r"-?\d+(\.\d+)?", cell)
    table = Table("t", "T", ["=heading"], [["=cmd()"], ["-2.4"], ["+1"], [-2.4], ['say "x", y']])
    assert table.csv().splitlines() == ["'=heading", "'=cmd()", "-2.4", "+1", "-2.4", '"say ""x"", y"']


def test_hostile_names_do_nothing_as_text_and_markdown(demo):
    tables = audit_tables(renamed(demo, HOSTILE))
    assert all(c.isprintable() or c == "\n" for table in tables for c in table_text(table, "text"))
    made = "\n\n".join(table.markdown() for table in tables)
    assert "<" not in made
    assert not re.search(r"(?<!\\)(?:\\\\)*[`\[\]$*](?!\*)(?<!\*\*)", made.replace("**", ""))
    lines = [line for line in made.splitlines() if line.startswith("|")]
    counts = [len(re.findall(r"(?<!\\)\|", line)) for line in lines]
    assert set(counts) == {len(table.headings) + 1 for table in tables}
    assert len(lines) == sum(2 + len(table.rows) for table in tables)
    assert all(c.isprintable() or c == "\n" for c in made)
    assert for_markdown("h_L my_rule") == "h_L my_rule"


def test_hostile_names_do_nothing_as_latex(demo):
    for table in audit_tables(renamed(demo, HOSTILE)):
        sound(table.latex())
        assert "\\input{" not in table.latex()
        assert "U+6F22U+5B57" in table.latex()
    assert latex.escape(r"\input{/etc/passwd}") == r"\textbackslash{}input\{/etc/passwd\}"
    assert latex.escape("`walkback study run` `rm`") == r"\texttt{walkback study run} {`}rm{`}"
    assert latex.escape("--frozen") == "-{}-frozen"
    assert latex.escape("Nøkland é") == r"N\o{}kland \'{e}"


@settings(max_examples=150, deadline=None)
@given(
    st.lists(
        st.text(st.characters() | st.sampled_from("\\{}$&#%_^~<>|[]*-`'\"±−e1.‖Γ"), max_size=12), min_size=2, max_size=2
    )
)
def test_property_any_text_gives_sound_latex_csv_and_markdown(cells):
    table = Table(cells[0], cells[1], ["a", cells[0]], [cells, cells], cells)
    sound(table.latex())
    assert {len(row) for row in csv.reader(io.StringIO(table.csv(), newline=""))} == {2}
    lines = table.markdown().splitlines()
    assert sum(line.startswith("| ") for line in lines) >= 3


@pytest.mark.latex
def test_all_tables_compile(demo, tmp_path):
    every = [*latex.WORDS, *latex.MATHS, *(chr(n) for n in range(0x20, 0x250)), *map(chr, range(0x2000, 0x2300))]
    tables = [
        *audit_tables(demo),
        *audit_tables(renamed(demo, HOSTILE)),
        *audit_tables(judge_paths(ROOT / "results/cifar10-resmlp-dfa-s42-7ed32e6e40"), "runs"),
        Table("every", "Every character", ["c"] * 5, [every[n : n + 5] for n in range(0, len(every) - 4, 60)], every),
        Table("empty", "No rows", ["a", "b"], []),
    ]
    assert "undefined" not in compiles([table.latex() for table in tables], tmp_path)
    wide = Table("wide", "Wide", [str(n) for n in range(12)], [[10.0**n for n in range(12)]])
    assert "Overfull" not in compiles([table.latex() for table in (wide, *audit_tables(demo))], tmp_path)


# --- the command ----------------------------------------------------------------------------------------------------


def command(*words: object) -> int:
    try:
        app([str(word) for word in words], exit_on_error=False, print_error=False)
    except SystemExit as end:
        return int(end.code or 0)
    return 0


@pytest.mark.parametrize("form", ["text", "markdown", "csv", "latex"])
def test_table_prints_and_writes_the_same(tmp_path, capsys, form, monkeypatch):
    monkeypatch.setenv("COLUMNS", "160")
    assert command("table", DEMO.parent, "--format", form) == 0
    printed = capsys.readouterr().out
    assert command("table", DEMO, "--format", form, "--to", tmp_path / "tables") == 0
    names = [f"audit{part}.{SUFFIXES[form]}" for part in ("", "-findings", "-intervals", "-controls", "-measured")]
    written = [(tmp_path / "tables" / name).read_text() for name in names]
    assert [line.rstrip() for line in printed.split("\n") if line] == [
        line.rstrip() for text in written for line in text.split("\n") if line
    ]


def test_table_of_several_audits_writes_each_apart(tmp_path, capsys):
    run = ROOT / "results/cifar10-resmlp-dfa-s42-7ed32e6e40"
    assert command("table", DEMO, run, "--to", tmp_path, "--format", "csv") == 0
    assert {path.name for path in tmp_path.iterdir()} == {
        "audit.csv", "audit-findings.csv", "audit-intervals.csv", "audit-controls.csv", "audit-measured.csv",
        "audit-2.csv", "audit-2-findings.csv",
    }  # fmt: skip


@pytest.fixture
def fake(tmp_path):
    """Two seeds of two rules with their frozen nets, and an audit.json that states controls beside them."""
    for last, accuracy in ((2, 0.6), (0, 0.3)):
        configs = plan(
            rules=["bp", "dfa"], seeds=[1, 2], epochs=2, net_options={"width": 8, "depth": 2}, train_last=last
        )
        for one in configs:
            write_run(tmp_path / "runs", one, accuracy=accuracy + one.seed / 100)
    audit = judge_paths(tmp_path / "runs", thresholds=DEFAULT.but("depth.margin", 0.9))
    control = Control(name="bp", expected="holds", got="holds", ok=True)
    audit.changed(valid=True, not_controlled=[], controls=[control], says="Fine.").write(tmp_path / "runs")
    return tmp_path / "runs"


def test_an_audit_beside_its_runs_is_an_output_and_the_runs_alone_are_judged(fake):
    (audit,) = audits_of(fake)
    assert audit.controls == []
    assert audit.not_controlled == ["bp", "dfa"]
    assert [table.name.removeprefix("audit") for table in audit_tables(audit)] == ["", "-findings", "-intervals"]
    assert len(audit.runs) == 8
    assert audit.thresholds == DEFAULT
    (fake / "audit.json").write_text("{")
    assert audits_of(fake) == [audit]
    (strict,) = audits_of(fake, thresholds=DEFAULT.but("depth.margin", 0.9))
    assert "depth.margin=0.9" in audit_tables(strict)[0].notes[-1]
    (published,) = audits_of(fake, protocol="published")
    assert published.protocol == "published"


def test_table_and_form_take_what_report_takes(tmp_path, capsys):
    """A log without a frozen net leaves depth open; with one typed in it does not."""
    entry = {"epoch": 1, "h_L_norm": 9.0, "g_2_norm": 1e-3, "acc_eval": 0.3}
    log = tmp_path / "log.json"
    log.write_text(json.dumps({"config": {"method": "dfa"}, "log": [entry], "final_test_acc": 0.3}))
    for verb in ("table", "form"):
        output = []
        for more in ((), ("--frozen", "0.4"), ("--frozen", "0.4", "--protocol", "published")):
            assert command(verb, log, "--format", "markdown", *more) == 0
            output.append(capsys.readouterr().out)
        assert len(set(output)) == 3, verb
        with pytest.raises(WalkbackError, match="cannot be judged again"):
            app([verb, str(DEMO), "--protocol", "published"], exit_on_error=False, print_error=False)
