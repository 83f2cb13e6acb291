"""Filling in the form: every section from the records of one case, with blanks where they are silent."""

from collections.abc import Mapping, Sequence
from typing import Any

from walkback.checks import Audit, check_named
from walkback.checks.depth import CONFIDENCE
from walkback.checks.finding import known
from walkback.checks.paired_gain import gain_over
from walkback.checks.reference import BATCH
from walkback.data import DATASETS
from walkback.errors import WalkbackError
from walkback.nets import NETS
from walkback.records import BaselineName, CosineRecord, NullRecord
from walkback.report import measured
from walkback.report.answers import answers, effort_words, gains_words, stands_words
from walkback.report.audit_tables import accuracy, controls_table, finding_row, footnote, quantities, trained_with
from walkback.report.case import Case, gammas_of
from walkback.report.form.pitfalls import pitfalls
from walkback.report.form.shapes import Entry, Form, Section
from walkback.report.sizes import net_sizes
from walkback.report.tables import Cell, Stat, Summarised, Table
from walkback.rules import RuleWords, rule_words

BLANK = "____"
BASELINES: Mapping[BaselineName, str] = {
    "frozen": "own frozen net", "frozen_bp": "frozen net trained by bp", "bp": "bp", "shallow": "shallow net",
    "half": "own net, lower half frozen", "half_bp": "bp, lower half frozen",
}  # fmt: skip
AGGREGATED = (
    "mean over the blocks of the mean over samples of cos(a_l, {1}), with the gradient at the block's {0}; dead "
    "samples are left out"
)
SCHEDULES = {"cosine": "cosine over the epochs", "constant": "constant"}
FEEDBACK = {
    True: "drawn once from their own random stream, derived from the run's seed; saved with the run",
    False: "none: fresh feedback changes no block's credit",
}


def fill(case: Case, audit: Audit) -> Form:
    """The form of one subject."""
    sections = [
        _method(case), _net(case), _data(case), _recipe(case), _seeds(case), _accuracy(case), _alignment(case, audit),
        _baselines(case, audit), _checks(case, audit), _controls(audit), Section("Pitfalls", pitfalls(case, audit)),
        *_notes(case),
    ]  # fmt: skip
    made = footnote(audit)
    return Form(case.judgement.name, sections, made if case.counts else f"{audit.void_words} {made}")


def _method(case: Case) -> Section:
    config = case.config
    rule = case.evidence.rule
    if config is None:
        blanks = [Entry(label, None, case.silent) for label in ("In words", "Credit of block l", "Credits normalised")]
        return Section("Method", [Entry("Rule", rule, case.silent), *blanks])
    words, why = RuleWords("", "", {}), ""
    try:
        words = rule_words(config.rule, config.rule_source)
    except WalkbackError as error:
        why = error.what
    options = dict(config.rule_options)
    normalised = _said(options.pop("normalize", None)) or words.parts.get("normalize")
    rows = [
        Entry("Rule", config.rule.rpartition("/")[2]),
        Entry("In words", words.summary or None, why),
        Entry("Credit of block l", words.parts.get("credit") or words.text or None, why),
        Entry("Credits normalised", normalised, why or "the rule does not say"),
        *(Entry(f"{part.capitalize()} learns from", words.parts[part]) for part in ("embedding", "readout")
          if part in words.parts),
        *([Entry("Further options", _options(options))] if options else []),
    ]  # fmt: skip
    return Section("Method", rows)


def _net(case: Case) -> Section:
    config = case.config
    blocks = config.blocks if config else case.evidence.blocks
    residual = config.residual if config else case.evidence.residual
    rows = [
        Entry("Net", _about(config.net, NETS) if config else None, case.silent),
        Entry("Sizes", net_sizes(config) if config else None, case.silent),
        Entry("Blocks L", _said(blocks), case.silent),
        Entry("Skip connections", _said(residual), case.silent),
        Entry("Options of the net", _options(config.net_options) or "none" if config else None, case.silent),
    ]
    if config is None:
        trained = None
    elif config.train_last == blocks:
        trained = f"all {blocks}"
    else:
        trained = f"the last {config.train_last} of {blocks}; the others stay at their random init"
    return Section("Net", [*rows, Entry("Blocks that train", trained, case.silent)])


def _data(case: Case) -> Section:
    config, classes = case.config, case.evidence.classes
    if config is None:
        labels = ("Data set", "Augmentation")
        rows = [Entry(label, None, case.silent) for label in labels]
        return Section("Data", [*rows, Entry("Classes", _said(classes), case.silent)])
    prints = sorted({run.environment.data_fingerprint[:12] for run in case.runs if run.environment})
    summary = DATASETS.get(config.data).summary.partition(";")[0] if config.data in DATASETS else ""
    rows = [
        Entry("Data set", f"{config.data}: {summary}" if summary else config.data),
        Entry("Fingerprint of the data", ", ".join(prints) or None, "the runs came without their environment"),
        Entry("Augmentation", "random crop (pad 4) and flip" if config.augment else "none"),
    ]
    return Section("Data", rows)


def _recipe(case: Case) -> Section:
    config = case.config
    if config is None:
        labels = ("Epochs", "Batch size", "Optimiser", "Learning rate", "Weight decay", "Penalty λ‖f_l‖²")
        ends = {moment.epoch for moment in case.finals if moment.epoch is not None}
        last = f"the last one logged is {max(ends)}" if ends else case.silent
        return Section("Recipe", [Entry(label, None, last if label == "Epochs" else case.silent) for label in labels])
    rows = [
        Entry("Epochs", str(config.epochs) + (", fewer where a check fires" if config.stop_when_fired else "")),
        Entry("Batch size", str(config.batch_size)),
        Entry("Optimiser", "AdamW"),
        Entry("Learning rate", f"{config.lr:g}, {SCHEDULES[config.schedule]}"),
        Entry("Weight decay", f"{config.weight_decay:g}"),
        Entry("Penalty λ‖f_l‖²", f"λ = {config.penalty:g}" if config.penalty else "none"),
    ]
    return Section("Recipe", rows)


def _seeds(case: Case) -> Section:
    ends = [f"{label} ({seed.ended})" if seed.ended else label for label, seed in case.evidence.labelled()]
    feedback = case.feedback
    unasked = "the null, which would show it, was not measured" if case.runs else case.silent
    rows = [
        Entry("Number of seeds", str(len(ends)) if ends else None, case.silent),
        Entry("Seeds", ", ".join(ends) or None, case.silent),
        Entry("Feedback weights and their seed", None if feedback is None else FEEDBACK[feedback], unasked),
        Entry("Trained with", trained_with(case.runs) or None, case.silent),
    ]
    return Section("Seeds", rows)


def _accuracy(case: Case) -> Section:
    scored = case.judgement.accuracy
    by_seed = [f"{label}: {value:.4f}" for label, value in case.accuracies.items() if known(value)]
    rows = [
        Entry("Test accuracy, mean ± std", f"{accuracy(scored)} (n = {scored.n})" if scored.n else None, case.silent),
        Entry("By seed", ", ".join(by_seed) or None, case.silent),
        Entry("Measured on", "the whole test split, at the last epoch and not the best" if case.runs else None,
            case.silent),
    ]  # fmt: skip
    return Section("Accuracy", rows)


def _alignment(case: Case, audit: Audit) -> Section:
    gammas = tuple(gammas_of(case))
    blocks = case.evidence.blocks
    counts = sorted({sum(c is not None and c.status == "ok" for c in m.cosine) for m in case.finals if m.cosine})
    images = sorted({run.snapshots[-1].probe_images for run in case.runs if run.snapshots})
    published = case.judgement.protocol == "published"
    null = _null([moment.null_gamma if published else moment.rotated_gamma for moment in case.finals])
    means = AGGREGATED.format("input" if published else "output", "g_l" if published else "g_{l+1}")
    rows = [
        Entry("Γ, mean ± std", f"{Stat(gammas, 'cosine')} (n = {len(gammas)})" if gammas else None, case.silent),
        Entry("Γ is the", means if case.runs else None, case.silent),
        Entry("Blocks with a value", f"{_range(counts)} of {blocks}" if counts else None, case.silent),
        Entry("Test images probed", _range(images) or None, case.silent),
        Entry("Γ of credit that knows nothing, mean ± std", None if null is None else str(null), case.silent),
    ]
    if not published:
        rows[1:1] = [Entry("Γ stands for", stands_words(case.judgement) or None, case.silent)]
    table = _layers(case, audit)
    return Section("Alignment", rows, [table] if table else [])


def _layers(case: Case, audit: Audit) -> Table | None:
    """A row for every hidden state and the block that begins there; None where nothing is known of any."""
    blocks = case.evidence.blocks
    finals = case.finals
    if blocks is None or not any(moment.block_counts() for moment in finals):
        return None
    batch = audit.thresholds[BATCH]
    stated = all(m.reference_batch is not None for m in finals if m.gradient_norms)

    def size(layer: int, name: str) -> Stat | None:
        values = []
        for moment in finals:
            value = _at(getattr(moment, f"{name}_norms"), layer)
            factor = (moment.reference_batch or batch) / batch if name == "gradient" else 1
            values += [] if value is None else [value * factor]
        return Stat(tuple(values), "size") if values else None

    readings = [moment.measured for moment in finals]
    probes = measured.names(readings)
    rows: list[list[Cell]] = []
    for layer in range(blocks + 1):
        row: list[Cell] = [layer, size(layer, "hidden"), size(layer, "gradient")]
        if layer < blocks:
            nudged = [v for m in finals if known(v := _at(m.nudging, layer))]
            row += [
                _cosine([_at(m.cosine, layer) for m in finals]), _cosine([_at(m.cosine_out, layer) for m in finals]),
                _null([_at(m.rotated or m.null, layer) for m in finals]),
                Stat(tuple(v for m in finals if known(v := _at(m.rho, layer))), "cosine"),
                sum(nudged) / len(nudged) if nudged else None,
            ]  # fmt: skip
        read = [measured.over_seeds(readings, probe, layer) for probe in probes]
        rows.append([*row, *[None] * (8 - len(row)), *read])
    at = f"at N = {batch:g}" if stated else "at a batch that is not known"
    notes = [
        f"Sizes: geometric mean over the seeds (smallest–largest); gradients {at}. Cosines and ρ: mean ± std over the "
        "seeds, cos(a_l, g_l) at the block's input and cos(a_l, g_{l+1}) at its output. Null: mean ± std over draws, "
        "averaged over the seeds; at the output by rotation, where that was measured. Nudging: mean change of the "
        "loss; negative is useful."
    ]
    headings = ["l", "‖h_l‖", "‖g_l‖", "cos at input", "cos at output", "null", "ρ", "nudging", *probes]
    return Table("blocks", "Layer by layer", headings, rows, notes)


def _at(values: Sequence[Any] | None, place: int) -> Any:
    return values[place] if values is not None and place < len(values) else None


def _cosine(found: Sequence[CosineRecord | None]) -> Cell:
    """Over the seeds that have one; where none has, the reason."""
    present = [cosine for cosine in found if cosine is not None]
    values = tuple(cosine.value for cosine in present if cosine.status == "ok")
    if values or not present:
        return Stat(values, "cosine") if values else None
    return ", ".join(dict.fromkeys(cosine.status for cosine in present))


def _null(found: Sequence[NullRecord | None]) -> Summarised | None:
    """The mean over the seeds of mean and std; n is the number of draws in each."""
    present = [null for null in found if null is not None and known(null.mean) and known(null.std)]
    if not present:
        return None
    means, stds = ([getattr(null, name) for null in present] for name in ("mean", "std"))
    count = len(present)
    return Summarised(form="cosine", given=(sum(means) / count, sum(stds) / count, min(n.n for n in present)))


def _baselines(case: Case, audit: Audit) -> Section:
    confidence = audit.thresholds[CONFIDENCE]
    rows: list[list[Cell]] = []
    for name, words in BASELINES.items():
        baseline = case.evidence.baselines.get(name)
        if baseline is None:
            rows.append([words, BLANK, 0, None, "not there"])
            continue
        values = tuple(v for v in baseline.accuracy.values() if known(v))
        rows.append([words, Stat(values), len(values), _gain(case, name, confidence),
                     "typed in" if baseline.typed else "measured"])  # fmt: skip
    notes = [
        "Gain: of the subject over it, seed by seed, in points, with the "
        f"{100 * confidence:.4g} % interval of the mean by Student's t. Frozen: blocks left at their random init, the "
        "rest trained. Shallow: no blocks, trained by plain gradient. These two decide on the accuracy."
    ]
    headings = ["baseline", "accuracy", "n", "gain of the subject", "how"]
    return Section("Baselines", tables=[Table("baselines", "Accuracy of the baselines", headings, rows, notes)])


def _gain(case: Case, name: BaselineName, confidence: float) -> Summarised | None:
    """As it was judged by; where no check asks for it, by the same interval."""
    found = gain_over(case.evidence, name)
    if found.mean is None:
        return None
    parts = [finding.parts[name] for finding in case.judgement.findings if name in finding.parts]
    judged = parts[0] if parts else found.interval(confidence)
    interval = None if judged.low is None or judged.high is None else (judged.low, judged.high)
    return Summarised(form="points", interval=interval, given=(found.mean, None, found.n))


def _checks(case: Case, audit: Audit) -> Section:
    findings = case.judgement.findings
    rows = [Entry("Validity", f"{audit.void_words} {audit.says}")] if audit.valid is False else []
    rows += [] if case.controlled else [Entry("Validity", "Not controlled: no controls were trained in its setting.")]
    before = "" if case.counts else "does not count: "
    rows += _answers(case, before)
    rows += [Entry("Symptom, which decides nothing", words) for words in case.judgement.symptoms]
    rows += [Entry(f.check, " ".join([f.says, *(f"Warning: {w.rstrip('.')}." for w in f.warnings)])) for f in findings]
    headings = ["check", "outcome", "value", "low", "high", "threshold", "basis"]
    notes = [quantities([check_named(f.check) for f in findings], case.judgement.protocol)]
    return Section(
        "Checks", rows, [Table("checks", "What each check found", headings, [finding_row(f) for f in findings], notes)]
    )


def _answers(case: Case, before: str) -> list[Entry]:
    """The answers with what stands beside them; by the published protocol its one verdict."""
    judgement = case.judgement
    if judgement.verdicts is None:
        return [Entry("Verdict", f"{before}{judgement.says}")]
    rows = []
    for each in answers(judgement):
        beside = gains_words(judgement) if each.about == "accuracy" else []
        label = f"{each.about[:1].upper()}{each.about[1:]}"
        rows.append(Entry(label, before + "; ".join([each.word, *beside, *each.beside])))
    rates = Entry("Learning rates", effort_words(judgement) or None, "no baseline is recorded")
    return [*rows, Entry("Why", judgement.says), rates]


def _controls(audit: Audit) -> Section:
    if audit.controls:
        return Section("Controls", tables=[controls_table(audit, "controls")])
    return Section("Controls", [Entry("Controls", None, audit.says)])


def _notes(case: Case) -> list[Section]:
    notes = [Entry(f"Note {place}", note) for place, note in enumerate(case.judgement.notes, 1)]
    return [Section("Notes on the records", notes)] if notes else []


def _about(name: str, registry: Any) -> str:
    """A name, and the first line of what it says of itself."""
    about = (registry.get(name).__doc__ or "").strip().partition("\n")[0] if name in registry else ""
    return f"{name}: {about}" if about else name


def _options(options: Mapping[str, Any]) -> str:
    return ", ".join(f"{name} = {_said(value)}" for name, value in options.items())


def _said(value: Any) -> str | None:
    if isinstance(value, bool):
        return "yes" if value else "no"
    return None if value is None else str(value)


def _range(values: Sequence[int]) -> str:
    """One number, or the smallest and the largest."""
    return "–".join(str(v) for v in dict.fromkeys([*values[:1], *values[-1:]]))
