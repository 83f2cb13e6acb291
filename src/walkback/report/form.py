"""The reporting form: what a paper on training without backprop should disclose, filled in from its records.

`fill` makes it as data, `rendered` writes it as Markdown with GitHub's check boxes, or as a piece of LaTeX to put in a
paper. What no record tells is a blank to fill in by hand, with a word why.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
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
from walkback.report.layers import baselines_table, layers_table, mean_null
from walkback.report.pitfalls import pitfalls
from walkback.report.tables import Stat, Table, with_n
from walkback.report.writing import for_markdown
from walkback.rules import rule_words

BLANK = "____"
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
SECTIONS = {
    "Method": ["Rule", "In words", "Credit of block l", "Credits normalised", "Embedding learns from",
               "Readout learns from", "Further options"],
    "Net": ["Net", "Sizes", "Blocks L", "Skip connections", "Options of the net", "Blocks that train"],
    "Data": ["Data set", "Fingerprint of the data", "Augmentation", "Classes"],
    "Recipe": ["Epochs", "Batch size", "Optimiser", "Learning rate", "Weight decay", "Penalty λ‖f_l‖²"],
    "Seeds": ["Number of seeds", "Seeds", "Feedback weights and their seed", "Trained with"],
    "Accuracy": ["Test accuracy, mean ± std", "By seed", "Measured on"],
    "Alignment": ["Γ, mean ± std", "Γ stands for", "Γ is the", "Blocks with a value", "Test images probed",
                  "Γ of credit that knows nothing, mean ± std"],
}  # fmt: skip
WHERE_KNOWN = {  # else they are left out, and are no blank
    "Embedding learns from", "Readout learns from", "Further options", "Fingerprint of the data", "Classes",
    "Γ stands for",
}  # fmt: skip
CONFIG: Mapping[str, Callable[[RunConfig], str]] = {
    "Rule": lambda c: c.rule.rpartition("/")[2],
    "Net": lambda c: _about(c.net, NETS),
    "Sizes": net_sizes,
    "Blocks L": lambda c: str(c.blocks),
    "Skip connections": lambda c: _shown(c.residual) or "",
    "Options of the net": lambda c: _options(c.net_options) or "none",
    "Blocks that train": lambda c: (
        f"all {c.blocks}" if c.train_last == c.blocks
        else f"the last {c.train_last} of {c.blocks}; the others stay at their random init"
    ),
    "Augmentation": lambda c: "random crop (pad 4) and flip" if c.augment else "none",
    "Epochs": lambda c: f"{c.epochs}{', fewer where a check fires' if c.stop_when_fired else ''}",
    "Batch size": lambda c: str(c.batch_size),
    "Optimiser": lambda _: "AdamW",
    "Learning rate": lambda c: f"{c.lr:g}, {SCHEDULES[c.schedule]}",
    "Weight decay": lambda c: f"{c.weight_decay:g}",
    "Penalty λ‖f_l‖²": lambda c: f"λ = {c.penalty:g}" if c.penalty else "none",
}  # fmt: skip
Facts = dict[str, str | None]
Row = tuple[str, str | None, str]  # what, its value, and why


class Section(NamedTuple):
    """A part of the form. Its table comes after its rows.

    rows   what is to be disclosed, its value, and why: without a value (None) it is a blank to be filled in by hand
    asks   the rows are questions, each with its answer (yes, as it should be, no, or not known: None) and the reason
    """

    title: str
    rows: Sequence[Row] = ()
    table: Table | None = None
    asks: bool = False


class Form(NamedTuple):
    """A subject's whole form; `made` says by what it was judged and filled in."""

    subject: str
    sections: Sequence[Section]
    made: str


def fill(case: Case, audit: Audit) -> Form:
    """The form of one subject."""
    facts, reasons, controls = _described(case), dict[str, str](), controls_table(audit, "controls")
    facts |= _of_runs(case, case.config, reasons) if case.config is not None else _of_log(case, reasons)
    sections = []
    for title, labels in SECTIONS.items():
        asked = [label for label in labels if label in facts or label not in WHERE_KNOWN]
        rows = [(label, facts.get(label), reasons.get(label, case.silent)) for label in asked]
        sections.append(Section(title, rows, layers_table(case, audit.thresholds) if title == "Alignment" else None))
    sections.append(Section("Baselines", table=baselines_table(case, audit.thresholds)))
    sections.append(Section("Checks", _checks(case, audit), _findings(case)))
    lacking = [] if controls.rows else [("Controls", None, audit.says)]
    sections.append(Section("Controls", lacking, controls if controls.rows else None))
    sections.append(Section("Pitfalls", pitfalls(case, audit), asks=True))
    notes: list[Row] = [(f"Note {place}", note, "") for place, note in enumerate(case.judgement.notes, 1)]
    sections += [Section("Notes on the records", notes)] if notes else []
    made = footnote(audit)
    return Form(case.judgement.name, sections, made if case.counts else f"{audit.void_words} {made}")


def _described(case: Case) -> Facts:
    """What is known of any subject: its seeds, its accuracy, its Γ."""
    evidence, finals, scored = case.evidence, case.finals, case.judgement.accuracy
    ends = [f"{label} ({seed.ended})" if seed.ended else label for label, seed in evidence.labelled()]
    by_seed = [f"{label}: {final.accuracy:.4f}" for label, final in case.by_seed if known(final.accuracy)]
    gammas, stands = Stat(tuple(gammas_of(case)), "cosine"), stands_words(case.judgement)
    counts = sorted({sum(c is not None and c.status == "ok" for c in m.cosine) for m in finals if m.cosine})
    published = case.judgement.protocol == "published"
    null = mean_null([moment.null_gamma if published else moment.rotated_gamma for moment in finals])
    facts: Facts = {
        "Number of seeds": str(len(ends)) if ends else None,
        "Seeds": ", ".join(ends) or None,
        "Test accuracy, mean ± std": with_n(accuracy(scored)) if scored.n else None,
        "By seed": ", ".join(by_seed) or None,
        "Γ, mean ± std": with_n(gammas) if gammas.n else None,
        "Blocks with a value": f"{_range(counts)} of {evidence.blocks}" if counts else None,
        "Γ of credit that knows nothing, mean ± std": None if null is None else str(null),
    }
    return facts if published else facts | {"Γ stands for": f"{stands} blocks" if stands else None}


def _of_log(case: Case, reasons: dict[str, str]) -> Facts:
    """What somebody's log says of its training."""
    last = max((moment.epoch for moment in case.finals if moment.epoch is not None), default=None)
    if last is not None:
        reasons["Epochs"] = f"the last one logged is {last}"
    evidence = case.evidence
    return {
        "Rule": evidence.rule, "Blocks L": _shown(evidence.blocks), "Skip connections": _shown(evidence.residual),
        "Classes": _shown(evidence.classes),
    }  # fmt: skip


def _of_runs(case: Case, config: RunConfig, reasons: dict[str, str]) -> Facts:
    """What the folders of runs say of theirs."""
    words, options = dict[str, str](), dict(config.rule_options)
    try:
        words = rule_words(config.rule, config.rule_source)
        reasons["Credits normalised"] = "the rule does not say"
    except WalkbackError as error:
        reasons |= dict.fromkeys(("In words", "Credit of block l", "Credits normalised"), error.what)
    reasons["Fingerprint of the data"] = "the runs came without their environment"
    reasons["Feedback weights and their seed"] = "the null, which would show it, was not measured"
    normalised = _shown(options.pop("normalize", None)) or words.get("normalize")
    prints = sorted({run.environment.data_fingerprint[:12] for run in case.runs if run.environment})
    summary = DATASETS.get(config.data).summary.partition(";")[0] if config.data in DATASETS else ""
    images = sorted({run.snapshots[-1].probe_images for run in case.runs if run.snapshots})
    place = ("input", "g_l") if case.judgement.protocol == "published" else ("output", "g_{l+1}")
    facts: Facts = {label: take(config) for label, take in CONFIG.items()}
    facts |= {
        "In words": words.get("summary"),
        "Credit of block l": words.get("credit") or words.get("text"),
        "Credits normalised": normalised,
        "Data set": f"{config.data}: {summary}" if summary else config.data,
        "Fingerprint of the data": ", ".join(prints) or None,
        "Feedback weights and their seed": None if case.feedback is None else FEEDBACK[case.feedback],
        "Trained with": trained_with(case.runs) or None,
        "Measured on": "the whole test split, at the last epoch and not the best",
        "Γ is the": AGGREGATED.format(*place),
        "Test images probed": _range(images) or None,
    }
    learns = {f"{part.capitalize()} learns from": words.get(part) for part in ("embedding", "readout")}
    facts |= {label: value for label, value in learns.items() if value}
    return facts | ({"Further options": _options(options)} if options else {})


def _checks(case: Case, audit: Audit) -> list[Row]:
    """The answers with what stands beside them, or the one verdict; the symptoms; and what each check says."""
    judgement, before = case.judgement, "" if case.counts else "does not count: "
    rows: list[Row] = []
    if audit.valid is False:
        rows.append(("Validity", f"{audit.void_words} {audit.says}", ""))
    if not case.controlled:
        rows.append(("Validity", "Not controlled: no controls were trained in its setting.", ""))
    if judgement.verdicts is None:
        rows.append(("Verdict", f"{before}{judgement.says}", ""))
    else:
        for each in answers(judgement):
            beside = gains_words(judgement) if each.about == "accuracy" else []
            label = f"{each.about[:1].upper()}{each.about[1:]}"
            rows.append((label, before + "; ".join([each.word, *beside, *each.beside]), ""))
        effort = effort_words(judgement) or None
        rows += [("Why", judgement.says, ""), ("Learning rates", effort, "no baseline is recorded")]
    rows += [("Symptom, which decides nothing", words, "") for words in judgement.symptoms]
    for finding in judgement.findings:
        warnings = [f"Warning: {words.rstrip('.')}." for words in finding.warnings]
        rows.append((finding.check, " ".join([finding.says, *warnings]), ""))
    return rows


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


def rendered(forms: Iterable[Form], form: str) -> Iterator[str]:
    """One document of one or more forms, in pieces: each form is written and then dropped. A LaTeX document begins with
    what its pieces need, so their text is kept until the last is there."""
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
        parts += ["\n".join(rows)] if rows else []
        parts += [section.table.markdown()] if section.table else []
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
        if section.table:
            title = rf"\par\medskip\noindent\textbf{{{latex.escape(section.table.title)}}}\par\smallskip"
            lines += [title, r"{\centering", section.table.tabular(), *latex.below(section.table.notes), r"\par}"]
        parts.append("\n".join(lines))
    return "\n\n".join(parts)
