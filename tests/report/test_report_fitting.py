"""Terminal tables keep every number at any width: they wrap, or become a list and say so."""

import io
import re

import pytest
from rich.console import Console

from report_material import config, write_run
from test_report_tables import DEMO
from walkback.checks import Audit
from walkback.records import read_run
from walkback.report.audit_words import print_audit
from walkback.report.tables import Stat, Table, print_table
from walkback.report.terminal import runs_table, show_run
from walkback.report.writing import print_whole

LONG = "my_rules/experiments/very_long_name.py:DirectFeedbackAlignmentWithMomentum λ=0.01 constant rate"


def printed(thing, width: int) -> str:
    """What a pipe or a terminal of that width gets."""
    file = io.StringIO()
    thing(Console(file=file, width=width, highlight=False, emoji=False, markup=False))
    return file.getvalue()


def letters(text: str) -> str:
    """Without blanks and line breaks, which wrapping moves."""
    return re.sub(r"\s+", "", text)


@pytest.fixture(scope="module")
def crowded() -> Audit:
    """Long names, nine checks (two of them not known here), and numbers that are wide."""
    audit = Audit.read(DEMO)
    subjects = []
    for number, name in enumerate((LONG, f"{LONG} validation 0.1", "bp")):
        one = audit.subjects[number]
        more = [one.findings[0].changed(check=check, says=f"It is 12345.678 by {check}.", parts={})
                for check in ("eighth-check", "ninth-check")]  # fmt: skip
        subjects.append(one.changed(name=name, findings=[*one.findings, *more]))
    return audit.changed(subjects=subjects)


@pytest.mark.parametrize("width", [40, 60, 80, 120, 300])
def test_property_an_audit_shows_every_name_number_and_answer_at_any_width(crowded, width):
    output = printed(lambda console: print_audit(crowded, console), width)
    assert "…" not in output
    assert all(len(line) <= width for line in output.splitlines())
    table = letters(output.partition("✓ passes")[0])
    for subject in crowded.subjects:
        assert letters(subject.name) in letters(output)
        assert letters(f"{subject.accuracy.mean:.3f}").removeprefix("0") in table
        assert letters(f"±{subject.accuracy.std:.3f}").replace("±0", "±") in table
        parts = {name: part for finding in subject.findings for name, part in finding.parts.items()}
        for name in ("frozen", "shallow", "half"):
            assert f"{100 * parts[name].value:+.1f}" in table
        for finding in subject.findings:
            assert finding.check in output
            assert letters(finding.says) in letters(output)
    assert output.count("12345.678") == 6  # a check that is not known here is named below the table
    assert ("each row is a list" in " ".join(output.split())) == (width < 80)


@pytest.mark.parametrize("name", ["bp", "my_training", "dfa · 100 epochs · gains"])
@pytest.mark.parametrize("width", range(60, 100, 3))
def test_property_an_audit_shows_every_heading_at_any_width(name, width):
    """A verdict is given more room than it needs only where no heading is cut for it."""
    audit = Audit.read(DEMO)
    subjects = [subject.changed(name=name) for subject in audit.subjects]
    output = printed(lambda console: print_audit(audit.changed(subjects=subjects), console), width)
    table = output.partition("✓ passes")[0].split()
    for heading in ("accuracy", "mean ± sd", "n", "depth f / s", "lower", "Γ", "stands for"):
        assert set(heading.split()) <= set(table), heading


@pytest.mark.parametrize("width", [40, 60, 80, 200])
def test_property_a_table_of_numbers_keeps_their_spread(width):
    cells = [LONG, Stat((0.601, 0.652, 0.583)), Stat((1.5e8, 2.5e8, 9e8), "size"), 4.2e-9, "a few words here"]
    table = Table("t", "Title", ["rule", "accuracy", "‖h_L‖", "‖g_L‖", "remark"], [cells, cells], ["A note."])
    output = printed(lambda console: print_table(table, console), width)
    for cell in cells:
        shown = "4.2e-09" if cell == 4.2e-9 else str(cell)
        assert letters(output).count(letters(shown)) == 2, shown
    assert "A note." in output
    assert ("each row is a list" in " ".join(output.split())) == (width < 200)


@pytest.mark.parametrize("width", [40, 60, 80, 200])
def test_property_twelve_seeds_of_a_deep_net_are_shown_whole(width, tmp_path):
    cosines = [0.9 - 0.01 * block for block in range(12)]
    runs = [read_run(write_run(tmp_path, config("dfa", seed, depth=12), 1.2, 0.5, cosines)) for seed in range(1, 13)]
    output = printed(lambda console: print_whole(runs_table(runs), console), width)
    assert "…" not in output
    assert all(len(line) <= width for line in output.splitlines())
    for run in runs:
        shown = " ".join(f"{c.value:+.2f}" for c in run.snapshots[-1].cosine)
        assert letters(shown) in letters(output)
    one = printed(lambda console: show_run(runs[0], console), width)
    for c in runs[0].snapshots[-1].cosine:
        assert f"{c.value:+.4f}" in one


def test_a_table_that_fits_is_a_table():
    table = Table("t", "Title", ["rule", "accuracy"], [["bp", Stat((0.5, 0.6))]])
    output = printed(lambda console: print_table(table, console), 80)
    assert output.split("\n")[2].split() == ["rule", "accuracy"]
    assert "listed" not in output
