"""An audit in the terminal: a table that can be read without the manual, then the reasons."""

from collections.abc import Sequence

from rich.console import Console
from rich.table import Table
from rich.text import Text

from walkback.checks import Audit, Finding, Judgement, check_named
from walkback.checks.depth import CONFIDENCE
from walkback.checks.looks import needed
from walkback.plain import seen
from walkback.report.fitting import print_whole, print_words
from walkback.report.numbers import number
from walkback.report.summary import waits_for_seeds

GLYPHS = {"passes": "✓", "fires": "✗", "inconclusive": "?", "not applicable": "–"}
VERDICT_GLYPHS = {"holds": "✓", "walked back": "✗", "inconclusive": "?", "not applicable": "–"}
KEY = ", ".join(f"{glyph} {outcome}" for outcome, glyph in GLYPHS.items())
MOST = 40  # subjects that are named, where nothing is said: more nobody reads
ORDER = ("walked back", "inconclusive", "holds", "not applicable")
STYLES = {"holds": "green", "walked back": "red", "inconclusive": "yellow", "not applicable": "dim"}


def _plain(text: str, style: str = "") -> Text:
    """Somebody's words, printed as they are: no markup, and nothing that a terminal would act on."""
    return Text(seen(text), style)


def finding_cell(finding: Finding) -> str:
    """The outcome's sign and the number behind it, in the words of its column."""
    text = _short(finding)
    return f"{GLYPHS[finding.outcome]} {text}" if text else GLYPHS[finding.outcome]


def asked(subjects: Sequence[Judgement]) -> list[str]:
    """The names of all checks that were put to the subjects, in the order of their findings."""
    return list(dict.fromkeys(finding.check for subject in subjects for finding in subject.findings))


def finding_cells(subject: Judgement, checks: Sequence[str]) -> list[str]:
    """A cell for each of the checks; empty for one that was not put to this subject."""
    by_name = {finding.check: finding_cell(finding) for finding in subject.findings}
    return [by_name.get(check, "") for check in checks]


def _short(finding: Finding) -> str:
    """The number, in the form that its check gives it."""
    value, form = finding.value, check_named(finding.check).form
    if value is None:
        return ""
    if form == "times":
        return f"{number(value, 2)}×"
    if form == "points":
        return f"{100 * value:+.1f}"
    if form == "share":
        ends = (value if end is None else end for end in (finding.low, finding.high))
        low, high = (f"{100 * end:.0f}" for end in ends)
        return f"{high}%" if low == high else f"{low}–{high}%"
    return f"{value:.0e}" if form == "size" else number(value, 2)


def _table(audit: Audit, subjects: Sequence[Judgement]) -> Table:
    checks = asked(subjects)
    table = Table(box=None, padding=(0, 2 if len(checks) < 5 else 1, 0, 0))  # five fit into 80 columns
    longest = max((len(subject.name) for subject in subjects), default=0)
    table.add_column("\nsubject", overflow="fold", min_width=min(max(longest, 7), 12), max_width=18)
    table.add_column("\nverdict", no_wrap=True, min_width=14)
    table.add_column("\naccuracy", justify="right", no_wrap=True)
    for check in checks:
        table.add_column(_plain(check).append(f"\n{check_named(check).heading}"), no_wrap=True)
    for subject in subjects:
        a = subject.accuracy
        accuracy = "–" if a.mean is None else f"{a.mean:.3f}" + (f" ± {a.std:.3f}" if a.std is not None else "")
        style = STYLES[subject.verdict]
        verdict = (
            Text(subject.verdict, style) if audit.counts(subject.name) else Text(f"({subject.verdict})", "dim strike")
        )
        table.add_row(_plain(subject.name), verdict, accuracy, *map(_plain, finding_cells(subject, checks)))
    return table


def _counted(audit: Audit, shown: int) -> str:
    """How many subjects have each verdict, and where those are that are not named."""
    verdicts = [subject.verdict for subject in audit.subjects]
    counts = ", ".join(f"{verdicts.count(name):,} {name}" for name in ORDER if name in verdicts)
    return (
        f"These are {shown} of {len(verdicts):,} subjects ({counts}). All of them: walkback table … --format csv, or "
        "--out FOLDER for audit.json; more here: --rows."
    )


def print_audit(audit: Audit, console: Console, most: int | None = None) -> None:
    """The table, the reasons, the controls, and whether the audit is valid; above all else where it is not.

    most   how many subjects and controls are named; those that fired come first, and the others are counted
    """
    most = MOST if most is None else most
    subjects, controls = audit.subjects, audit.controls
    if len(subjects) > most:
        subjects = sorted(subjects, key=lambda subject: ORDER.index(subject.verdict))[:most]
    if len(controls) > most:
        controls = sorted(controls, key=lambda control: control.ok)[:most]
    console.print()
    if not audit.valid:
        console.print(_plain(audit.void_words), style="bold red")
        console.print(_plain(audit.says.removeprefix("This audit is invalid: ")))
        console.print()
    print_whole(_table(audit, subjects), console)
    console.print(Text("✓ passes  ✗ fires  ? inconclusive  – not applicable", "dim"))
    if len(subjects) < len(audit.subjects):
        console.print(_plain(_counted(audit, len(subjects))))
    for subject in subjects:
        console.print()
        before = "" if audit.counts(subject.name) else " (does not count)"
        console.print(_plain(subject.name, "bold"), _plain(f"{before} {subject.says}"))
        for finding in subject.findings:
            words = f"{GLYPHS[finding.outcome]} {finding.check}: {finding.says}"
            if finding.basis != "exact":
                words += f" (basis: {finding.basis})"
            print_words(console, words, 2)
            if waits_for_seeds(finding, subject.accuracy.n):
                need = needed(finding, subject.accuracy.n, audit.thresholds[CONFIDENCE])
                print_words(console, f"{need.advice()}; there are {subject.accuracy.n}", 4)
            for warning in finding.warnings:
                print_words(console, f"! {warning}", 4, "yellow")
        for name, first in subject.first_fired.items():
            epochs = [str(epoch) for epoch in first.epochs.values() if epoch is not None]
            if epochs and first.followed:
                print_words(console, f"{name} first fired at epoch {' / '.join(epochs)}", 2, "dim")
        for note in subject.notes:
            print_words(console, f"note: {note}", 2, "dim")
    console.print()
    for control in controls:
        mark = Text("✓", "green") if control.ok else Text("✗", "red")
        console.print(mark, _plain(f"control {control.name}: expected {control.expected}; got {control.got}"))
    if len(controls) < len(audit.controls):
        wrong = sum(not control.ok for control in audit.controls)
        print_words(
            console, f"These are {len(controls)} of {len(audit.controls):,} controls. In all, {wrong:,} failed."
        )
    console.print(_plain(audit.says if audit.valid else audit.void_words), style="" if audit.valid else "bold red")
    console.print(_plain(f"Protocol: {audit.protocol}; thresholds: {audit.thresholds.version}."), style="dim")
