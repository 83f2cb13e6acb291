"""An audit in the terminal: a table that can be read without the manual, then the reasons."""

from rich.console import Console
from rich.markup import escape
from rich.padding import Padding
from rich.table import Table

from walkback.checks import Audit, Finding, Judgement
from walkback.report.numbers import number

GLYPHS = {"passes": "✓", "fires": "✗", "inconclusive": "?", "not applicable": "–"}
STYLES = {"holds": "green", "walked back": "red", "inconclusive": "yellow", "not applicable": "dim"}
HEADINGS = {
    "scale": "scale\ngrowth", "reference": "reference\nerror", "depth": "depth\npoints", "coverage": "coverage\nblocks",
}  # fmt: skip


def _cell(finding: Finding) -> str:
    """The outcome's sign and the number behind it, in the words of its column."""
    value = finding.value
    if value is None:
        text = ""
    elif finding.check == "scale":
        text = f" {number(value, 2)}×"
    elif finding.check == "depth":
        text = f" {100 * value:+.1f}"
    elif finding.check == "coverage" and finding.low is not None and finding.high is not None:
        low, high = f"{finding.low:.0%}", f"{finding.high:.0%}"
        text = f" {high}" if low == high else f" {low} to {high}"
    else:
        text = f" {value:.0e}"
    return GLYPHS[finding.outcome] + text


def _table(subjects: list[Judgement]) -> Table:
    table = Table(box=None, padding=(0, 2, 0, 0))
    table.add_column("\nsubject", no_wrap=True)
    table.add_column("\naccuracy", justify="right", no_wrap=True)
    checks = [finding.check for finding in subjects[0].findings] if subjects else []
    for check in checks:
        table.add_column(HEADINGS[check], no_wrap=True)
    table.add_column("\nverdict", no_wrap=True)
    for subject in subjects:
        a = subject.accuracy
        accuracy = "–" if a.mean is None else f"{a.mean:.3f}" + (f" ± {a.std:.3f}" if a.std is not None else "")
        style = STYLES[subject.verdict]
        verdict = f"[{style}]{subject.verdict}[/{style}]"
        table.add_row(escape(subject.name), accuracy, *(_cell(f) for f in subject.findings), verdict)
    return table


def print_audit(audit: Audit, console: Console) -> None:
    """The table, the reasons, the controls, and whether the audit is valid."""
    console.print()
    console.print(_table(audit.subjects))
    console.print("[dim]✓ passes  ✗ fires  ? inconclusive  – not applicable[/dim]")
    for subject in audit.subjects:
        console.print(f"\n[bold]{escape(subject.name)}[/bold]  {escape(subject.says)}")
        for finding in subject.findings:
            words = f"{GLYPHS[finding.outcome]} {finding.check}: {finding.says}"
            if finding.basis != "exact":
                words += f" (basis: {finding.basis})"
            console.print(Padding(escape(words), (0, 0, 0, 2)))
            for warning in finding.warnings:
                console.print(Padding(escape(f"! {warning}"), (0, 0, 0, 4)), style="yellow")
        for name, first in subject.first_fired.items():
            epochs = [str(epoch) for epoch in first.epochs.values() if epoch is not None]
            if epochs:
                words = f"{name} first fired at epoch {' / '.join(epochs)}"
                console.print(Padding(escape(words), (0, 0, 0, 2)), style="dim")
        for note in subject.notes:
            console.print(Padding(escape(f"note: {note}"), (0, 0, 0, 2)), style="dim")
    console.print()
    for control in audit.controls:
        mark = "[green]✓[/green]" if control.ok else "[red]✗[/red]"
        words = f"control {control.name}: should be {control.expected}; is {control.got}"
        console.print(f"{mark} {escape(words)}")
    console.print(escape(audit.says), style="" if audit.valid else "bold red")
    console.print(f"Protocol: {audit.protocol}; thresholds: {escape(audit.thresholds.version)}.", style="dim")
