"""An audit in the terminal: a table that can be read without the manual, then the reasons."""

from collections.abc import Sequence

from rich.console import Console
from rich.table import Table
from rich.text import Text

from walkback.checks import Audit, Finding, Judgement, check_named
from walkback.checks.depth import CONFIDENCE, TASK
from walkback.checks.sequential import seeds_advice, seeds_needed
from walkback.plain import seen
from walkback.report.case import Case
from walkback.report.fitting import print_whole, print_words
from walkback.report.numbers import number
from walkback.report.summary import SEVERITY, finding_of, most_serious_first, waits_for_seeds

GLYPHS = {
    "passes": "✓", "fires": "✗", "open": "?", "not asked": "–", "inconclusive": "?", "not applicable": "–",
}  # fmt: skip
VERDICT_GLYPHS = {"holds": "✓", "walked back": "✗", "open": "?", "inconclusive": "?", "not applicable": "–"}
LOWER_GLYPHS = {"trained": "✓", "not trained": "✗", "open": "?", "not asked": "–"}
GAMMA_GLYPHS = {
    "even": "✓", "carried by few": "✗", "chance": "✗", "not measurable": "–", "open": "?", "not reported": "–",
}  # fmt: skip
KEYS = {
    "ours": "✓ passes, ✗ fires, ? open, – not asked",
    "published": "✓ passes, ✗ fires, ? inconclusive, – not applicable",
}
KEY = KEYS["ours"]
MARK = " *"  # of an answer that is not controlled, where others are
MOST = 40  # subjects that are named, where no number is given; more are not read
STYLES = {"holds": "green", "walked back": "red", "open": "yellow", "inconclusive": "yellow", "not applicable": "dim"}
LEGEND = (
    "depth f / s: points over its own frozen net / over the shallow net. Lower half: points over training the upper "
    "half alone. Stands for: of how many blocks Γ speaks."
)


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


def accuracy_cell(subject: Judgement) -> str:
    """Mean and standard deviation over the seeds, short.

    A mean of one keeps its leading digit.
    """
    a = subject.accuracy
    if a.mean is None:
        return "–"
    return _share(a.mean) + (f" ±{_share(a.std)}" if a.std is not None else "")


def _share(value: float) -> str:
    return f"{value:.3f}".removeprefix("0") if 0 <= value < 1 else f"{value:.3f}"


def depth_cell(subject: Judgement) -> str:
    """The gains over the frozen and over the shallow net; a dash where one is not known."""
    finding = finding_of(subject, "depth")
    parts = {} if finding is None else finding.parts
    values = [None if name not in parts else parts[name].value for name in TASK]
    return " ".join("–" if value is None else f"{100 * value:+.1f}" for value in values)


def lower_cell(subject: Judgement) -> str:
    """The answer on the lower half, with its points."""
    if subject.verdicts is None:
        return ""
    finding, word = finding_of(subject, "reach"), subject.verdicts.lower_half
    points = "" if finding is None or finding.value is None else f" {100 * finding.value:+.1f}"
    return f"{LOWER_GLYPHS[word]}{points}"


def gamma_cells(subject: Judgement) -> tuple[str, str]:
    """Γ, and of how many blocks it speaks with what that amounts to."""
    if subject.verdicts is None:
        return "", ""
    chance, spread, word = finding_of(subject, "chance"), finding_of(subject, "spread"), subject.verdicts.gamma
    if chance is None or chance.value is None or spread is None or spread.value is None:
        return "–", word
    blocks = blocks_of(spread.threshold)
    return f"{chance.value:.2f}", f"{spread.value:.1f}/{blocks} {word}"


def blocks_of(bar: float) -> int:
    """The number of blocks, from the bar (L + 1) / 2.

    >>> blocks_of(2.5)
    4
    """
    return round(2 * bar - 1)


def answer_text(case: Case, mark: str) -> Text:
    """The answer on accuracy; struck through where it does not count, and marked where it is not controlled."""
    words = f"{VERDICT_GLYPHS[case.judgement.verdict]} {case.judgement.answer}"
    if not case.counts:
        return Text(f"({words})", "dim strike")
    return Text(words if case.controlled else f"{words}{mark}", STYLES[case.judgement.verdict])


def _table(audit: Audit, cases: Sequence[Case], mark: str) -> Table:
    subjects = [case.judgement for case in cases]
    if audit.protocol == "published":
        return _published_table(cases, mark)
    table = Table(box=None, padding=(0, 1, 0, 0))
    longest = max((len(subject.name) for subject in subjects), default=0)
    table.add_column("subject", overflow="fold", min_width=min(max(longest, 7), 12), max_width=18)
    table.add_column("accuracy", min_width=13)
    for heading in ("mean ± sd", "n", "depth f / s"):
        table.add_column(heading, justify="right", no_wrap=True)
    table.add_column("lower", no_wrap=True)
    table.add_column("Γ", justify="right", no_wrap=True)
    table.add_column("stands for", min_width=13)
    for case, subject in zip(cases, subjects, strict=True):
        gamma, stands = gamma_cells(subject)
        table.add_row(
            _plain(subject.name), answer_text(case, mark), accuracy_cell(subject), str(subject.accuracy.n),
            depth_cell(subject), lower_cell(subject), gamma, stands,
        )  # fmt: skip
    return table


def _published_table(cases: Sequence[Case], mark: str) -> Table:
    """The published protocol has one verdict, and a column for each of its checks."""
    subjects = [case.judgement for case in cases]
    checks = asked(subjects)
    table = Table(box=None, padding=(0, 2, 0, 0))
    longest = max((len(subject.name) for subject in subjects), default=0)
    table.add_column("\nsubject", overflow="fold", min_width=min(max(longest, 7), 12), max_width=18)
    table.add_column("\nverdict", no_wrap=True, min_width=14)
    table.add_column("\naccuracy", justify="right", no_wrap=True)
    for check in checks:
        table.add_column(_plain(check).append(f"\n{check_named(check).heading}"), no_wrap=True)
    for case, subject in zip(cases, subjects, strict=True):
        cells = finding_cells(subject, checks)
        table.add_row(_plain(subject.name), answer_text(case, mark), accuracy_cell(subject), *map(_plain, cells))
    return table


def _counted(audit: Audit, shown: int) -> str:
    """How many subjects have each verdict, and where those are that are not named."""
    verdicts = [subject.verdict for subject in audit.subjects]
    counts = ", ".join(f"{verdicts.count(name):,} {name}" for name in SEVERITY if name in verdicts)
    return (
        f"These are {shown} of {len(verdicts):,} subjects ({counts}). All of them: walkback table … --format csv, or "
        "--out FOLDER for audit.json; more here: --rows."
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
        console.print(_plain(audit.void_words), style="bold red")
        console.print(_plain(audit.says.removeprefix("This audit is invalid: ")))
        console.print()
    print_whole(_table(audit, cases, mark), console)
    console.print(Text(KEYS[audit.protocol].replace(", ", "  "), "dim"))
    if audit.protocol == "ours":
        print_words(console, LEGEND, 0, "dim")
    if in_part:
        print_words(console, f"{MARK.strip()} not controlled: no controls were trained in its setting.", 0, "dim")
    if below:
        print_words(console, below, 0, "dim")
    if len(cases) < len(audit.subjects):
        console.print(_plain(_counted(audit, len(cases))))
    for case in cases:
        _print_reasons(audit, case, console)
    console.print()
    for control in controls:
        sign = Text("✓", "green") if control.ok else Text("✗", "red")
        console.print(sign, _plain(f"control {control.name}: expected {control.expected}; got {control.got}"))
    if len(controls) < len(audit.controls):
        wrong = sum(not control.ok for control in audit.controls)
        print_words(
            console, f"These are {len(controls)} of {len(audit.controls):,} controls. In all, {wrong:,} failed."
        )
    void = audit.valid is False
    console.print(_plain(audit.void_words if void else audit.says), style="bold red" if void else "")
    print_words(console, intervals_words(audit), 0, "dim")


def intervals_words(audit: Audit) -> str:
    """By what was judged, and how many intervals the audit has: each is right in 95 % of audits, not all at once."""
    words = f"Protocol: {audit.protocol}; thresholds: {audit.thresholds.version}."
    if audit.protocol == "published":
        return words
    count = sum(part.low is not None for s in audit.subjects for f in s.findings for part in f.parts.values())
    if not count:
        return f"{words} No interval of a gain is known."
    many = f"{count} intervals of gains; each contains" if count > 1 else "1 interval of a gain; it contains"
    return f"{words} {many} its true value in at least 95 % of audits."


def _print_reasons(audit: Audit, case: Case, console: Console) -> None:
    """Why the answers are what they are, what explains them, and when a symptom first fired."""
    subject = case.judgement
    console.print()
    before = "" if case.counts else " (does not count)"
    console.print(_plain(subject.name, "bold"), _plain(f"{before} {subject.says}"))
    for finding in subject.findings:
        if finding.says in subject.symptoms:  # it stands below
            continue
        words = f"{GLYPHS[finding.outcome]} {finding.check}: {finding.says}"
        if finding.basis != "exact":
            words += f" (basis: {finding.basis})"
        print_words(console, words, 2)
        if waits_for_seeds(finding, subject.accuracy.n):
            need = seeds_needed(finding, subject.accuracy.n, audit.thresholds[CONFIDENCE])
            print_words(console, f"{seeds_advice(need)}; there are {subject.accuracy.n}", 4)
        for warning in finding.warnings:
            print_words(console, f"! {warning}", 4, "yellow")
    for symptom in subject.symptoms:
        print_words(console, f"symptom: {symptom}", 2, "yellow")
    if subject.rates is not None:
        print_words(console, f"{rates_words(subject)}. Budget: {subject.budget or 'not known'}.", 2, "dim")
    for name, first in subject.first_fired.items():
        epochs = [str(epoch) for epoch in first.epochs.values() if epoch is not None]
        if epochs and first.followed:
            print_words(console, f"{name} first fired at epoch {' / '.join(epochs)}", 2, "dim")
    for note in subject.notes:
        print_words(console, f"note: {note}", 2, "dim")


def rates_words(subject: Judgement) -> str:
    """How the learning rates were chosen, and by how many trials."""
    if subject.rates != "tuned":
        return "rates: tried, and not tuned" if subject.trials else "rates: one rate for all"
    counts = sorted(set(subject.trials.values()))
    each = f"{counts[0]}" if len(counts) == 1 else f"{counts[0]} to {counts[-1]}"
    return f"rates: tuned, {each} trials for each of {len(subject.trials)} nets"
