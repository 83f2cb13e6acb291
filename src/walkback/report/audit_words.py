"""An audit in words: in a terminal, where its table can be read without the manual; and as Python shows it."""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from rich.console import Console
from rich.text import Text

from walkback.checks import Audit
from walkback.records import Cosine, Moment, Null
from walkback.report.answers import GLYPHS, SEVERITY, answer_words, effort_words, most_serious_first, seeds_wanted
from walkback.report.audit_tables import KEYS, answer_columns
from walkback.report.case import Case
from walkback.report.tables import terminal_table
from walkback.report.writing import clip, literal, number, print_whole, print_words

if TYPE_CHECKING:  # records are shown without torch
    from walkback.probes import Layer


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


# --- as Python shows it, and the layers of a live model as rows -------------------------------------------------------


SHOWN = 10  # subjects that are shown


def in_words(audit: Audit) -> str:
    """Three lines for each subject: its answers, the checks, and why."""
    if not audit.subjects:
        return clip(audit.says, 400)
    lines = []
    for subject in audit.subjects[:SHOWN]:
        seeds, scored = len(subject.described.drift), subject.accuracy
        spread = f" ± {scored.std:.3f}" if scored.std is not None else ""
        accuracy = "accuracy not known" if scored.mean is None else f"accuracy {scored.mean:.3f}{spread}"
        sure = "" if audit.counts(subject.name) else "invalid audit, "
        many = f"{seeds} seed{'s' if seeds != 1 else ''}"
        found = [
            f"{GLYPHS[f.outcome]} {f.check} {f.outcome}" + ("" if f.value is None else f" ({number(f.value)})")
            for f in subject.findings
        ]
        lines += [
            f"{clip(subject.name)}: {sure}{answer_words(subject)} ({many}, {accuracy})",
            " · ".join(found) or "no check was made",
            clip(f"{subject.says} {audit.says}", 400),
        ]
    more = len(audit.subjects) - SHOWN
    return "\n".join([*lines, *([f"… and {more:,} more"] if more > 0 else [])])


def rows(audit: Audit) -> list[dict[str, Any]]:
    """One row per seed and layer of a live model; None is not measured. Of any other audit there are none.

    The first row of a seed is the input of the first block (block −1). h_norm and g_norm are ‖h‖ and ‖g‖ at the
    block's output, g_norm as in a batch mean over `reference_batch` samples. cosine is cos(a_l, g_l), at the
    block's input as published; cosine_out at its output; z is how many standard deviations of the null the cosine
    is from the null's mean, z_out of the null by rotation where that was measured; update is the update's alignment
    with the true gradient.
    """
    found = []
    for each in audit.evidence.seeds if audit.layers else ():
        layers = audit.layers.get(each.seed, []) if each.seed is not None else []
        found += [_row(each.seed, place - 1, layer, each.final) for place, layer in enumerate(layers)]
    return found


def _row(seed: int | None, block: int, layer: "Layer", moment: Moment) -> dict[str, Any]:
    """One layer of one seed; block −1 is the input of the first."""
    state = block + 1
    cosine, null = _at(moment.cosine, block), _at(moment.null, block)
    cosine_out, null_out = _at(moment.cosine_out, block), _at(moment.rotated or moment.null_out, block)
    update = _at(moment.measured.get("update"), block)
    return {
        "seed": seed, "block": block, "name": layer.name, "status": layer.status, "shape": layer.shape,
        "reduction": layer.reduction, "h_norm": _at(moment.hidden_norms, state),
        "g_norm": _at(moment.gradient_norms, state), "reference_batch": moment.reference_batch,
        "cosine": _ok(cosine), "z": z_score(cosine, null), "cosine_out": _ok(cosine_out),
        "z_out": z_score(cosine_out, null_out), "update": _ok(update), "note": layer.note,
    }  # fmt: skip


def _at(values: Sequence[Any] | None, place: int) -> Any:
    return values[place] if values is not None and 0 <= place < len(values) else None


def _ok(record: Any) -> float | None:
    return None if record is None or record.status != "ok" else float(record.value)


def z_score(cosine: Cosine | None, null: Null | None) -> float | None:
    """(cos − mean of the null) / its standard deviation; None where either is not known or the null does not spread.

    >>> z_score(Cosine(value=0.5, alive=1, total=1, status="ok"), Null(mean=0.1, std=0.2, n=20, kind="x"))
    2.0
    """
    value = _ok(cosine)
    if value is None or null is None or null.n < 2 or not null.std > 0:
        return None
    return (value - null.mean) / null.std
