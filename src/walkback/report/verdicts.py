"""An audit in the terminal: a table that can be read without the manual, then the reasons."""

from rich.console import Console
from rich.text import Text

from walkback.checks import Audit
from walkback.report.answers import GLYPHS, SEVERITY, effort_words, most_serious_first, seeds_wanted
from walkback.report.audit_tables import KEYS, answer_columns
from walkback.report.case import Case
from walkback.report.fitting import literal, print_whole, print_words
from walkback.report.tables import terminal_table

MARK = " *"  # of an answer that is not controlled, where others are
MOST = 40  # subjects that are named, where no number is given; more are not read
LEGEND = (
    "depth f / s: points over its own frozen net / over the shallow net. Lower half: points over training the upper "
    "half alone. Stands for: of how many blocks Γ speaks."
)


def print_audit(audit: Audit, console: Console, most: int | None = None, below: str = "") -> None:
    """The table, the reasons, the controls, and whether the audit is valid; above all else where it is not.

    most   how many subjects and controls are named; those that fired come first, and the others are counted
    below  what a reader of the table must know, in a line below it
    """
    most = MOST if most is None else most
    cases, controls = audit.cases, audit.controls
    in_part = {case.controlled for case in cases} == {True, False}  # of all of them the line about validity says it
    mark = MARK if in_part else ""
    if len(cases) > most:
        cases = [cases[place] for place in most_serious_first(audit.subjects)[:most]]
    if len(controls) > most:
        controls = sorted(controls, key=lambda control: control.ok)[:most]
    console.print()
    if audit.valid is False:
        console.print(literal(audit.void_words), style="bold red")
        console.print(literal(audit.says.removeprefix("This audit is invalid: ")))
        console.print()
    columns = answer_columns(audit.protocol, [case.judgement for case in cases], mark)
    padding = (0, 1 if audit.protocol == "ours" else 2, 0, 0)
    print_whole(terminal_table(columns, cases, padding=padding), console)
    console.print(Text(KEYS[audit.protocol].replace(", ", "  "), "dim"))
    if audit.protocol == "ours":
        print_words(console, LEGEND, 0, "dim")
    if in_part:
        print_words(console, f"{MARK.strip()} not controlled: no controls were trained in its setting.", 0, "dim")
    if below:
        print_words(console, below, 0, "dim")
    if len(cases) < len(audit.subjects):
        verdicts = [subject.verdict for subject in audit.subjects]
        counts = ", ".join(f"{verdicts.count(name):,} {name}" for name in SEVERITY if name in verdicts)
        words = (
            f"These are {len(cases)} of {len(verdicts):,} subjects ({counts}). All of them: walkback table … --format "
        )
        console.print(literal(f"{words}csv, or --out FOLDER for audit.json; more here: --rows."))
    for case in cases:
        _print_reasons(audit, case, console)
    console.print()
    for control in controls:
        sign = Text("✓", "green") if control.ok else Text("✗", "red")
        console.print(sign, literal(f"control {control.name}: expected {control.expected}; got {control.got}"))
    if len(controls) < len(audit.controls):
        wrong = sum(not control.ok for control in audit.controls)
        counted = f"These are {len(controls)} of {len(audit.controls):,} controls. In all, {wrong:,} failed."
        print_words(console, counted)
    void = audit.valid is False
    console.print(literal(audit.void_words if void else audit.says), style="bold red" if void else "")
    print_words(console, intervals_words(audit), 0, "dim")


def intervals_words(audit: Audit) -> str:
    """By what was judged, and how many intervals the audit has: each is right in 95 % of audits, not all at once."""
    basis = f"Protocol: {audit.protocol}; thresholds: {audit.thresholds.version}."
    if audit.protocol == "published":
        return basis
    count = sum(part.low is not None for s in audit.subjects for f in s.findings for part in f.parts.values())
    if not count:
        return f"{basis} No interval of a gain is known."
    many = f"{count} intervals of gains; each contains" if count > 1 else "1 interval of a gain; it contains"
    return f"{basis} {many} its true value in at least 95 % of audits."


def _print_reasons(audit: Audit, case: Case, console: Console) -> None:
    """Why the answers are what they are, what explains them, and when a symptom first fired."""
    subject = case.judgement
    console.print()
    before = "" if case.counts else " (does not count)"
    console.print(literal(subject.name, "bold"), literal(f"{before} {subject.says}"))
    for finding in subject.findings:
        if finding.says in subject.symptoms:  # it stands below
            continue
        basis = f" (basis: {finding.basis})" if finding.basis != "exact" else ""
        print_words(console, f"{GLYPHS[finding.outcome]} {finding.check}: {finding.says}{basis}", 2)
        if wanted := seeds_wanted(finding, subject.accuracy.n, audit.thresholds):
            print_words(console, wanted, 4)
        for warning in finding.warnings:
            print_words(console, f"! {warning}", 4, "yellow")
    for symptom in subject.symptoms:
        print_words(console, f"symptom: {symptom}", 2, "yellow")
    if subject.rates is not None:
        print_words(console, f"rates: {effort_words(subject)}. Budget: {subject.budget or 'not known'}.", 2, "dim")
    for name, first in subject.first_fired.items():
        epochs = [str(epoch) for epoch in first.epochs.values() if epoch is not None]
        if epochs and first.followed:
            print_words(console, f"{name} first fired at epoch {' / '.join(epochs)}", 2, "dim")
    for note in subject.notes:
        print_words(console, f"note: {note}", 2, "dim")
