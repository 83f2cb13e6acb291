"""The reporting form: what a paper on training without backprop should disclose, filled in from its records.

`fill` makes it as data, `render` writes it as Markdown with GitHub's check boxes, or as a piece of LaTeX to put in a
paper. What no record tells is a blank to fill in by hand, with a word why.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

from walkback.checks import Audit
from walkback.checks.finding import known
from walkback.data import DATASETS
from walkback.errors import WalkbackError
from walkback.files import make_folder, write_whole
from walkback.nets import NETS
from walkback.records import RunConfig
from walkback.report import latex
from walkback.report.answers import answers, effort_words, gains_words, stands_words
from walkback.report.audit_tables import (
    FINDING_COLUMNS,
    accuracy,
    controls_table,
    footnote,
    quantities,
    trained_with,
)
from walkback.report.case import Case, gammas_of, net_sizes
from walkback.report.form_tables import BLANK, baselines, layers, mean_null
from walkback.report.harmless import for_markdown
from walkback.report.pitfalls import pitfalls
from walkback.report.tables import Stat, Table
from walkback.rules import RuleWords, rule_words

HOW = "Filled in from records; a line is a blank to fill in by hand."
AGGREGATED = (
    "mean over the blocks of the mean over samples of cos(a_l, {1}), with the gradient at the block's {0}; dead "
    "samples are left out"
)
SCHEDULES = {"cosine": "cosine over the epochs", "constant": "constant"}
FEEDBACK = {
    True: "drawn once from their own random stream, derived from the run's seed; saved with the run",
    False: "none: fresh feedback changes no block's credit",
}
NET: Mapping[str, Callable[[RunConfig], str]] = {
    "Net": lambda c: _about(c.net, NETS),
    "Sizes": net_sizes,
    "Blocks L": lambda c: str(c.blocks),
    "Skip connections": lambda c: _shown(c.residual) or "",
    "Options of the net": lambda c: _options(c.net_options) or "none",
    "Blocks that train": lambda c: (
        f"all {c.blocks}" if c.train_last == c.blocks
        else f"the last {c.train_last} of {c.blocks}; the others stay at their random init"
    ),
}  # fmt: skip
RECIPE: Mapping[str, Callable[[RunConfig], str]] = {
    "Epochs": lambda c: f"{c.epochs}{', fewer where a check fires' if c.stop_when_fired else ''}",
    "Batch size": lambda c: str(c.batch_size),
    "Optimiser": lambda _: "AdamW",
    "Learning rate": lambda c: f"{c.lr:g}, {SCHEDULES[c.schedule]}",
    "Weight decay": lambda c: f"{c.weight_decay:g}",
    "Penalty λ‖f_l‖²": lambda c: f"λ = {c.penalty:g}" if c.penalty else "none",
}


class Entry(NamedTuple):
    """One thing to disclose. `value` None is a blank to be filled in by hand, and `why` says why it is one.

    Of a pitfall: a question whose answer is yes as it should be, no, or not known (None), and the reason.
    """

    label: str
    value: str | None
    why: str = ""


@dataclass(frozen=True)
class Section:
    """A part of the form. Tables come after its rows; `asks`: the rows are questions."""

    title: str
    rows: Sequence[Entry] = ()
    tables: Sequence[Table] = ()
    asks: bool = False


@dataclass(frozen=True)
class Form:
    """A subject's whole form; `made` says by what it was judged and filled in."""

    subject: str
    sections: Sequence[Section]
    made: str


def fill(case: Case, audit: Audit) -> Form:
    """The form of one subject."""
    notes = [Entry(f"Note {place}", note) for place, note in enumerate(case.judgement.notes, 1)]
    controls = controls_table(audit, "controls")
    questions = [Entry(*each) for each in pitfalls(case, audit)]
    sections = [
        Section("Method", _filled(case, _method(case))),
        Section("Net", _filled(case, _net(case))),
        Section("Data", _filled(case, _data(case))),
        Section("Recipe", _filled(case, _recipe(case))),
        Section("Seeds", _filled(case, _seeds(case))),
        Section("Accuracy", _filled(case, _accuracy(case))),
        Section("Alignment", _filled(case, _alignment(case)), layers(case, audit)),
        Section("Baselines", tables=[baselines(case, audit)]),
        Section("Checks", _checks(case, audit), [_findings(case)]),
        Section("Controls", tables=[controls]) if controls.rows
        else Section("Controls", [Entry("Controls", None, audit.says)]),
        Section("Pitfalls", questions, asks=True),
        *([Section("Notes on the records", notes)] if notes else []),
    ]  # fmt: skip
    made = footnote(audit)
    return Form(case.judgement.name, sections, made if case.counts else f"{audit.void_words} {made}")


def _filled(case: Case, rows: Iterable[Entry]) -> list[Entry]:
    """A blank without a reason of its own has that of the records."""
    return [row if row.why else row._replace(why=case.silent) for row in rows]


def _method(case: Case) -> list[Entry]:
    config = case.config
    if config is None:
        blanks = [Entry(label, None) for label in ("In words", "Credit of block l", "Credits normalised")]
        return [Entry("Rule", case.evidence.rule), *blanks]
    words, why = RuleWords("", "", {}), ""
    try:
        words = rule_words(config.rule, config.rule_source)
    except WalkbackError as error:
        why = error.what
    options = dict(config.rule_options)
    normalised = _shown(options.pop("normalize", None)) or words.parts.get("normalize")
    return [
        Entry("Rule", config.rule.rpartition("/")[2]),
        Entry("In words", words.summary or None, why),
        Entry("Credit of block l", words.parts.get("credit") or words.text or None, why),
        Entry("Credits normalised", normalised, why or "the rule does not say"),
        *(Entry(f"{part.capitalize()} learns from", words.parts[part]) for part in ("embedding", "readout")
          if part in words.parts),
        *([Entry("Further options", _options(options))] if options else []),
    ]  # fmt: skip


def _net(case: Case) -> list[Entry]:
    logged = {"Blocks L": _shown(case.evidence.blocks), "Skip connections": _shown(case.evidence.residual)}
    return [Entry(label, take(case.config) if case.config else logged.get(label)) for label, take in NET.items()]


def _data(case: Case) -> list[Entry]:
    config = case.config
    if config is None:
        return [Entry("Data set", None), Entry("Augmentation", None), Entry("Classes", _shown(case.evidence.classes))]
    prints = sorted({run.environment.data_fingerprint[:12] for run in case.runs if run.environment})
    summary = DATASETS.get(config.data).summary.partition(";")[0] if config.data in DATASETS else ""
    return [
        Entry("Data set", f"{config.data}: {summary}" if summary else config.data),
        Entry("Fingerprint of the data", ", ".join(prints) or None, "the runs came without their environment"),
        Entry("Augmentation", "random crop (pad 4) and flip" if config.augment else "none"),
    ]


def _recipe(case: Case) -> list[Entry]:
    if case.config is not None:
        return [Entry(label, take(case.config)) for label, take in RECIPE.items()]
    last = max((moment.epoch for moment in case.finals if moment.epoch is not None), default=None)
    logged = "" if last is None else f"the last one logged is {last}"
    return [Entry(label, None, logged if label == "Epochs" else "") for label in RECIPE]


def _seeds(case: Case) -> list[Entry]:
    ends = [f"{label} ({seed.ended})" if seed.ended else label for label, seed in case.evidence.labelled()]
    feedback = None if case.feedback is None else FEEDBACK[case.feedback]
    return [
        Entry("Number of seeds", str(len(ends)) if ends else None),
        Entry("Seeds", ", ".join(ends) or None),
        Entry("Feedback weights and their seed", feedback,
              "the null, which would show it, was not measured" if case.runs else ""),
        Entry("Trained with", trained_with(case.runs) or None),
    ]  # fmt: skip


def _accuracy(case: Case) -> list[Entry]:
    scored = case.judgement.accuracy
    by_seed = [f"{label}: {value:.4f}" for label, value in case.accuracies.items() if known(value)]
    return [
        Entry("Test accuracy, mean ± std", f"{accuracy(scored)} (n = {scored.n})" if scored.n else None),
        Entry("By seed", ", ".join(by_seed) or None),
        Entry("Measured on", "the whole test split, at the last epoch and not the best" if case.runs else None),
    ]


def _alignment(case: Case) -> list[Entry]:
    gammas, stands = tuple(gammas_of(case)), stands_words(case.judgement)
    counts = sorted({sum(c is not None and c.status == "ok" for c in m.cosine) for m in case.finals if m.cosine})
    images = sorted({run.snapshots[-1].probe_images for run in case.runs if run.snapshots})
    published = case.judgement.protocol == "published"
    null = mean_null([moment.null_gamma if published else moment.rotated_gamma for moment in case.finals])
    means = AGGREGATED.format("input" if published else "output", "g_l" if published else "g_{l+1}")
    return [
        Entry("Γ, mean ± std", f"{Stat(gammas, 'cosine')} (n = {len(gammas)})" if gammas else None),
        *([] if published else [Entry("Γ stands for", f"{stands} blocks" if stands else None)]),
        Entry("Γ is the", means if case.runs else None),
        Entry("Blocks with a value", f"{_range(counts)} of {case.evidence.blocks}" if counts else None),
        Entry("Test images probed", _range(images) or None),
        Entry("Γ of credit that knows nothing, mean ± std", None if null is None else str(null)),
    ]


def _checks(case: Case, audit: Audit) -> list[Entry]:
    """The answers with what stands beside them, or the one verdict; the symptoms; and what each check says."""
    judgement, before = case.judgement, "" if case.counts else "does not count: "
    rows = [Entry("Validity", f"{audit.void_words} {audit.says}")] if audit.valid is False else []
    rows += [] if case.controlled else [Entry("Validity", "Not controlled: no controls were trained in its setting.")]
    if judgement.verdicts is None:
        rows.append(Entry("Verdict", f"{before}{judgement.says}"))
    else:
        for each in answers(judgement):
            beside = gains_words(judgement) if each.about == "accuracy" else []
            label = f"{each.about[:1].upper()}{each.about[1:]}"
            rows.append(Entry(label, before + "; ".join([each.word, *beside, *each.beside])))
        effort = effort_words(judgement) or None
        rows += [Entry("Why", judgement.says), Entry("Learning rates", effort, "no baseline is recorded")]
    rows += [Entry("Symptom, which decides nothing", words) for words in judgement.symptoms]
    return [*rows, *(Entry(f.check, " ".join([f.says, *(f"Warning: {w.rstrip('.')}." for w in f.warnings)]))
                     for f in judgement.findings)]  # fmt: skip


def _findings(case: Case) -> Table:
    pairs = [(case.judgement, finding) for finding in case.judgement.findings]
    note = quantities([finding.check for _, finding in pairs], case.judgement.protocol)
    return Table.of("checks", "What each check found", FINDING_COLUMNS, pairs, note)


def _about(name: str, registry: Any) -> str:
    """A name, and the first line of what it says of itself."""
    about = (registry.get(name).__doc__ or "").strip().partition("\n")[0] if name in registry else ""
    return f"{name}: {about}" if about else name


def _options(options: Mapping[str, Any]) -> str:
    return ", ".join(f"{name} = {_shown(value)}" for name, value in options.items())


def _shown(value: Any) -> str | None:
    if isinstance(value, bool):
        return "yes" if value else "no"
    return None if value is None else str(value)


def _range(values: Sequence[int]) -> str:
    """One number, or the smallest and the largest."""
    return "–".join(str(v) for v in dict.fromkeys([*values[:1], *values[-1:]]))


# --- written down ---------------------------------------------------------------------------------------------------


def render(forms: Iterable[Form], form: str) -> str:
    """One document of one or more forms."""
    return "".join(rendered(forms, form))


def rendered(forms: Iterable[Form], form: str) -> Iterator[str]:
    """That document in pieces. Each form is looked at once and then dropped; a LaTeX document begins with what its
    pieces need, so their text is kept until the last is there."""
    between = "\n\n---\n\n" if form == "markdown" else "\n\n"
    pieces: Iterable[str] = map(_markdown if form == "markdown" else _latex, forms)
    if form != "markdown":
        pieces = list(pieces)
        yield "\n".join([*latex.preamble(*pieces), "", ""])
    for number, piece in enumerate(pieces):
        yield between + piece if number else piece
    yield "\n"


def write_form(forms: Iterable[Form], form: str, to: Path) -> Path:
    """Write that document as a file."""
    make_folder(to.parent)
    write_whole(to, (piece.encode() for piece in rendered(forms, form)))
    return to


def _markdown(form: Form) -> str:
    parts = [f"# Reporting form: {for_markdown(form.subject)}", f"{HOW} {for_markdown(form.made)}"]
    for section in form.sections:
        parts.append(f"## {for_markdown(section.title)}")
        rows = []
        for label, value, why in section.rows:
            words, reason = for_markdown(label), f" ({for_markdown(why)})" if why else ""
            if section.asks:
                box, answer = "x" if value == "yes" else " ", BLANK if value is None else f"**{value}**"
                rows.append(f"- [{box}] {words} {answer}{reason}")
            else:
                rows.append(f"- **{words}**: {BLANK + reason if value is None else for_markdown(value)}")
        parts += [*(["\n".join(rows)] if rows else []), *(table.markdown() for table in section.tables)]
    return "\n\n".join(parts)


def _latex(form: Form) -> str:
    parts = [rf"\section*{{Reporting form: {latex.escape(form.subject)}}}", f"{HOW} {latex.escape(form.made)}"]
    for section in form.sections:
        lines = [rf"\subsection*{{{latex.escape(section.title)}}}"]
        if section.rows:
            lines.append(r"\begin{description}\setlength{\itemsep}{0pt}\setlength{\parskip}{0pt}")
            for label, value, why in section.rows:
                words, reason = latex.escape(label), f" ({latex.escape(why)})" if why else ""
                if section.asks:
                    lines.append(rf"\item[{value or latex.line('2em')}] {words}{reason}")
                else:
                    shown = latex.line("3cm") + reason if value is None else latex.escape(value)
                    lines.append(rf"\item[{words}] {shown}")
            lines.append(r"\end{description}")
        for table in section.tables:
            title = rf"\par\medskip\noindent\textbf{{{latex.escape(table.title)}}}\par\smallskip"
            lines += [title, r"{\centering", table.tabular(), *latex.below(table.notes), r"\par}"]
        parts.append("\n".join(lines))
    return "\n\n".join(parts)
