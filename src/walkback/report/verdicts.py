"""An audit in the terminal: a table that can be read without the manual, then the reasons."""

from rich.console import Console
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from walkback.checks import Audit, Finding, Judgement
from walkback.report.numbers import number

GLYPHS = {"passes": "✓", "fires": "✗", "inconclusive": "?", "not applicable": "–"}
STYLES = {"holds": "green", "walked back": "red", "inconclusive": "yellow", "not applicable": "dim"}
HEADINGS = {
    "scale": "scale\ngrowth", "reference": "reference\nerror", "depth": "depth\npoints", "coverage": "coverage\nblocks",
}  # fmt: skip


def _plain(text: str, style: str = "") -> Text:
    """Somebody's words, printed as they are: no markup, and nothing that a terminal would act on."""
    return Text("".join(c if c.isprintable() else "�" for c in text), style)


def finding_cell(finding: Finding) -> str:
    """The outcome's sign and the number behind it, in the words of its column."""
    value = finding.value
    if value is None:
        text = ""
    elif finding.check == "scale":
        text = f" {number(value, 2)}×"
    elif finding.check == "depth":
        text = f" {100 * value:+.1f}"
    elif finding.check == "coverage" and finding.low is not None and finding.high is not None:
        low, high = f"{100 * finding.low:.0f}", f"{100 * finding.high:.0f}"
        text = f" {high}%" if low == high else f" {low}–{high}%"
    else:
        text = f" {value:.0e}"
    return GLYPHS[finding.outcome] + text


def _table(subjects: list[Judgement]) -> Table:
    table = Table(box=None, padding=(0, 2, 0, 0))
    table.add_column("\nsubject", overflow="fold", max_width=18)
    table.add_column("\nverdict", no_wrap=True, min_width=14)
    table.add_column("\naccuracy", justify="right", no_wrap=True)
    checks = [finding.check for finding in subjects[0].findings] if subjects else []
    for check in checks:
        table.add_column(HEADINGS[check], no_wrap=True)
    for subject in subjects:
        a = subject.accuracy
        accuracy = "–" if a.mean is None else f"{a.mean:.3f}" + (f" ± {a.std:.3f}" if a.std is not None else "")
        style = STYLES[subject.verdict]
        verdict = f"[{style}]{subject.verdict}[/{style}]"
        table.add_row(_plain(subject.name), verdict, accuracy, *(finding_cell(f) for f in subject.findings))
    return table


def print_audit(audit: Audit, console: Console) -> None:
    """The table, the reasons, the controls, and whether the audit is valid."""
    console.print()
    console.print(_table(audit.subjects))
    console.print("[dim]✓ passes  ✗ fires  ? inconclusive  – not applicable[/dim]")
    for subject in audit.subjects:
        console.print()
        console.print(_plain(subject.name, "bold"), _plain(f" {subject.says}"))
        for finding in subject.findings:
            words = f"{GLYPHS[finding.outcome]} {finding.check}: {finding.says}"
            if finding.basis != "exact":
                words += f" (basis: {finding.basis})"
            console.print(Padding(_plain(words), (0, 0, 0, 2)))
            for warning in finding.warnings:
                console.print(Padding(_plain(f"! {warning}"), (0, 0, 0, 4)), style="yellow")
        for name, first in subject.first_fired.items():
            epochs = [str(epoch) for epoch in first.epochs.values() if epoch is not None]
            if epochs:
                words = f"{name} first fired at epoch {' / '.join(epochs)}"
                console.print(Padding(_plain(words), (0, 0, 0, 2)), style="dim")
        for note in subject.notes:
            console.print(Padding(_plain(f"note: {note}"), (0, 0, 0, 2)), style="dim")
    console.print()
    for control in audit.controls:
        mark = "[green]✓[/green]" if control.ok else "[red]✗[/red]"
        words = f"control {control.name}: should be {control.expected}; is {control.got}"
        console.print(mark, _plain(words))
    console.print(_plain(audit.says), style="" if audit.valid else "bold red")
    console.print(_plain(f"Protocol: {audit.protocol}; thresholds: {audit.thresholds.version}."), style="dim")
