"""The view of an audit: the plain data that the templates make the page of. The words of the page are theirs."""

import json
import shlex
import statistics
from base64 import b64encode
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

from walkback.checks import Audit, Finding, Outcome, Thresholds, check_named, in_order
from walkback.checks.words import listed, seeds_words
from walkback.records import Moment, Null, RunConfig, Subject
from walkback.records.card import Card
from walkback.records.schema import Cosine, Reading
from walkback.records.training import sittings_of
from walkback.report import measured
from walkback.report.answers import answers, effort_words, gains_words
from walkback.report.audit_tables import audit_tables
from walkback.report.cards import NOTES, cards_table
from walkback.report.case import Case, distinct, gammas_of
from walkback.report.harmless import clean, clip
from walkback.report.page.check_figures import figures, states
from walkback.report.page.curves import Curves, SubjectCurve, first_firings, history, subject_curves
from walkback.report.page.gain_figures import BASELINES, MANY, added, heat_map, reported
from walkback.report.page.markup import LONG, gain, num, plain, times
from walkback.report.page.reproduce import commands, configuration, runs_behind, versions
from walkback.report.summary import most_serious_first, remedy, sentence

SHOWN = 100  # subjects of a page; more are not read
DRAWN = 60  # of more subjects than that no figures are drawn in their parts
OPEN: Sequence[Outcome] = ("fires", "open", "inconclusive")
Remark = tuple[str, str, str]  # what, its status, and why
View = dict[str, Any]


def audit_view(audit: Audit) -> View:
    """What the page says, of at most `SHOWN` subjects, the most serious; it offers all of them as data."""
    kept = sorted(most_serious_first(audit.subjects)[:SHOWN])
    names = distinct([audit.subjects[place].name for place in kept])
    whole = [replace(audit.cases[place], short=name) for place, name in zip(kept, names, strict=True)]
    found = [subject_curves(case, audit.thresholds) for case in whole]
    cases = [_ends(case) for case in whole]
    controls = audit.control_cases[:SHOWN]
    order, many = most_serious_first([case.judgement for case in cases]), len(cases) > MANY
    checks, cells = heat_map(cases)
    runs = runs_behind(audit, cases, controls)
    lines, without_option = commands(audit, cases, runs)
    settings, few = {case.setting for case in cases}, 0 < len(names) == len(audit.subjects) <= 4
    counts = sorted({len(case.runs) for case in cases}) or [0]
    seeds = " to ".join(str(n) for n in dict.fromkeys((counts[0], counts[-1])))
    drawn, captions = len(cases) <= DRAWN, set[str]()
    views = [_subject(cases[place], audit.thresholds, many, drawn, captions) | {"place": place} for place in order]
    marks: dict[str, Case] = {}  # what they stand for: the rules, each once
    for case in cases:
        marks.setdefault(clip(case.evidence.rule or case.name), case)
    return View(
        audit=audit, cases=cases, controls=controls, order=order, many=many, everyone=_everyone(audit, len(cases)),
        title=f"Audit of {listed(names) if few and sum(map(len, names)) <= 120 else f'{len(audit.subjects)} subjects'}",
        setting=clip(settings.pop(), 200) if len(settings) == 1 else "", seeds=f"{seeds} seed{'s' * (seeds != '1')}",
        checks=checks, cells=cells, glance=[reported(cases), added([cases[place] for place in order])], views=views,
        marks=list(marks.items())[:24], curves=Curves(cases, found, audit.thresholds), first=first_firings(cases),
        histories=[] if many else [(c.name, rows) for c, f in zip(cases, found, strict=True) if (rows := history(f))],
        rules=_cards(audit.cards or (), cases), gaps=_gaps(cases, found),
        lines=lines, without_option=without_option, configuration=configuration(cases), runs=runs,
        versions=versions(runs), unknown=sum(not sittings_of(run) for run in runs),
        prints=sorted({(run.config.data, run.environment.data_fingerprint) for run in runs if run.environment}),
    )  # fmt: skip


def _ends(case: Case) -> Case:
    """A case with what is asked for again and again: of each training the first and the last moment, in memory."""
    seeds = []
    for seed in case.evidence.seeds:
        last = len(seed.moments) - 1
        seeds.append(seed.changed(moments=[m for n, m in enumerate(seed.moments) if n in (0, last) or m.epoch == 0]))
    subject, evidence = case.subject, case.evidence.changed(seeds=seeds)
    return replace(case, subject=Subject(subject.name, evidence, runs=subject.runs, baselines=subject.baselines))


def _everyone(audit: Audit, shown: int) -> str:
    """All subjects as a table, which the page offers to save where it does not show them all."""
    if shown == len(audit.subjects):
        return ""
    return f"data:text/csv;charset=utf-8;base64,{b64encode(audit_tables(audit)[0].csv().encode()).decode()}"


# --- one subject, check by check --------------------------------------------------------------------------------------


def _subject(case: Case, thresholds: Thresholds, many: bool, drawn: bool, captions: set[str]) -> View:
    """One subject. Of few subjects a caption under open figures is read once: `captions` are those that were."""
    judgement, gammas = case.judgement, gammas_of(case)

    def rank(finding: Finding) -> tuple[bool, int]:
        """What fires first, then what is open; after all that, by our protocol, what decides nothing."""
        return _is_symptom(finding, case), (*OPEN, finding.outcome).index(finding.outcome)

    checks = []
    for finding in sorted(judgement.findings, key=rank):
        is_open, symptom = finding.outcome in OPEN, _is_symptom(finding, case)
        made = figures(finding, case, thresholds) if not many or (is_open and drawn) else None
        if made is not None and is_open and not many:
            read = {figure.caption for figure in made}
            made = [f._replace(caption="") if f.svg is not None and f.caption in captions else f for f in made]
            captions |= read
        checks.append(View(
            finding=finding, check=check_named(finding.check), symptom=symptom, figures=made, found=_found(finding),
            open=is_open and not symptom,  # else folded; what a symptom says stands above the checks
            advice=remedy(finding, judgement, thresholds) if is_open else "",
        ))  # fmt: skip
    reference = (case.evidence.rule or "").lower() == "bp" and judgement.verdict == "holds"
    spread = f" ± {statistics.stdev(gammas):.3f}" if len(gammas) > 1 else ""
    return View(
        case=case, checks=checks, numbers=_numbers(case), answers=answers(judgement), gains=gains_words(judgement),
        effort=effort_words(judgement), full=clip(judgement.name, LONG) if clean(judgement.name) != case.name else "",
        why=("Reference. " if reference else "") + sentence(judgement, thresholds),
        gamma=plain(f"{statistics.fmean(gammas):.3f}{spread} (n = {len(gammas)})") if gammas else "not known",
    )  # fmt: skip


def _is_symptom(finding: Finding, case: Case) -> bool:
    """Whether a check explains an answer and decides none: by the published protocol every check decides."""
    return case.judgement.protocol == "ours" and check_named(finding.check).answer == "symptom"


def value_of(finding: Finding) -> str:
    """A finding's number in the words of its check."""
    value, low, high, check = finding.value, finding.low, finding.high, check_named(finding.check)
    if check.form == "share" and (value is not None or (low is not None and high is not None)):
        ends = (low, high) if low is not None and high is not None else (value, value)
        first, last = (f"{100 * (end or 0.0):.0f}" for end in ends)
        return plain(f"{last if ends[0] == ends[1] else f'{first} to {last}'}% of {check.heading}")
    if value is None:
        return "no number"
    if check.form == "points":
        return plain(f"{gain(100 * value)} points")
    return times(value) if check.form == "times" else f"{check.noun(finding)} {num(value, 2)}".lstrip()


def _found(finding: Finding) -> str:
    """The number, its interval, and what the interval is of."""
    value, low, high, check = finding.value, finding.low, finding.high, check_named(finding.check)
    if check.form == "share":
        return value_of(finding)
    if value is None:
        return "no number" if low is None or check.form == "points" else f"at least {num(low)}"
    mean = check.spread == "mean"
    before = "at least " if finding.basis == "bound" and not mean else ""
    words: Callable[[float], str] = {"times": times, "points": lambda v: gain(100 * v)}.get(check.form, num)
    if check.form == "points":
        interval = low is not None and high is not None and f"; interval of the mean {words(low)} to {words(high)}"
        return f"{words(value)} points{interval or ', without an interval'}"
    if low is None or high is None or words(low) == words(high):
        return f"{before}{words(value)}"
    middle = "; interval of the mean" if mean else ", the median; over the seeds"
    return f"{before}{words(value)}{middle} {words(low)} to {words(high)}"


# --- the numbers behind the figures, layer by layer -------------------------------------------------------------------


def _numbers(case: Case) -> View | None:
    """For readers who do not see the figures or want the numbers exactly; None where no number by layer is known."""
    columns: list[tuple[str, Callable[[Moment], Any], Callable[[Any], str]]] = [
        ("‖h_l‖", lambda m: states(m, "hidden"), num),
        ("‖g_l‖", lambda m: states(m, "gradient"), num),
        ("cos(a_l, g_l)", lambda m: m.cosine, _reading),
        ("cos(a_l, g_{l+1})", lambda m: m.cosine_out, _reading),
        ("null of cos(a_l, g_{l+1})", lambda m: m.rotated, _null),
        ("⟨A, G⟩ / (‖A‖ ‖G‖)", lambda m: m.frobenius, _reading),
        ("null of cos(a_l, g_l)", lambda m: m.null, _null),
        ("ρ_l", lambda m: m.rho, num),
        ("nudging", lambda m: m.nudging, num),
    ]
    probes = measured.names([m.measured for m in case.finals])
    columns += [(measured.heading(name), *_of_probe(name)) for name in probes]
    kept = []
    for title, values_of, words in columns:
        found = [values_of(moment) or {} for moment in case.finals]
        by_layer = [{n: words(v) for n, v in (v.items() if isinstance(v, dict) else enumerate(v))} for v in found]
        kept += [(title, by_layer)] if any(by_layer) else []
    if not kept:
        return None
    cells = [one for _, by_layer in kept for one in by_layer]
    layers = range(max(max(one, default=-1) for one in cells) + 1)
    rows = [[str(n), *(one.get(n, "–") for one in cells)] for n in layers]
    drift = "; ".join(f"seed {s}: {num(v)}" for s, v in case.judgement.described.drift.items())
    return View(seeds=case.evidence.labels(), titles=[title for title, _ in kept], rows=rows, drift=drift)


def _of_probe(name: str) -> tuple[Callable[[Moment], Any], Callable[[Reading], str]]:
    """What a probe read, and how it is written."""
    return lambda m: m.measured.get(name), lambda reading: clip(measured.cell(name, reading), 30)


def _reading(reading: Reading | Cosine | None) -> str:
    if reading is None:
        return "not known"
    return plain(f"{reading.value:+.4f}") if reading.status == "ok" else clip(reading.status, 30)


def _null(null: Null | None) -> str:
    return "not known" if null is None else plain(f"{round(null.mean, 3) + 0.0:.3f} ± {null.std:.3f}")


# --- what was not measured, and what the rules use --------------------------------------------------------------------


def _gaps(cases: Sequence[Case], found: Sequence[Sequence[SubjectCurve]]) -> list[tuple[Remark, list[Case]]]:
    """All that is missing, bounded, stood in for, typed in or odd, with the reason; of equal remarks one."""
    remarks: dict[Remark, list[Case]] = {}
    for case, curves in zip(cases, found, strict=True):
        for remark in [*_remarks(case), *(gap for curve in curves for gap in curve.gaps)]:
            remarks.setdefault(remark, []).append(case)
    return list(remarks.items())


def _remarks(case: Case) -> list[Remark]:
    judgement, given, seeds = case.judgement, case.evidence.baselines, case.evidence.seeds
    rows: list[Remark] = []
    if not seeds:
        rows.append(("records", "missing", "Only the judgement is here, not the runs or the log that it rests on."))
    for finding in judgement.findings:
        rows += [(finding.check, finding.basis, finding.says)] if finding.basis != "exact" else []
        rows += [(finding.check, "warning", warning) for warning in finding.warnings]
    asked = in_order(judgement.protocol)
    silent = [check for check in in_order() if check not in asked]
    rows += [(check.name, "not asked", f"The published protocol does not ask: {check.asks}") for check in silent]
    absent = [words for name, words in BASELINES.items() if name not in given]
    typed = [words for name, words in BASELINES.items() if name in given and given[name].alone]
    by_seed = [w for name, w in BASELINES.items() if name in given and given[name].typed and not given[name].alone]
    if absent and seeds:
        rows.append(("baselines", "missing", f"No run and no number is among the records for {listed(absent)}."))
    if typed:
        rows.append(("baselines", "typed in", f"Not measured here, and without a spread: {listed(typed)}."))
    if by_seed:
        rows.append(("baselines", "given", f"Given by seed and not measured here: {listed(by_seed)}."))
    described = judgement.described
    for name, values in (("drift", described.drift), ("ρ", described.rho), ("nudging", described.nudging)):
        lacking = [seed for seed, value in values.items() if value is None]
        if lacking:
            why = f"Not measured on {seeds_words(lacking)}. It is described only, and judges nothing."
            rows.append((name, "missing", why))
    return rows + [("note", "noted", note) for note in judgement.notes]


def _cards(cards: Sequence[Card], cases: Sequence[Case]) -> View | None:
    """What each audited rule uses and costs; None where nothing was trained by walkback, of a stranger's model."""
    runs = [case.runs[0] for case in cases if case.runs]
    if not runs:
        return None
    configs = {_key(run.config): run.config for run in runs}
    shown = {key: card for card in cards if (key := _key(card)) in configs}
    table, counts = cards_table([*shown.values()]), Counter(card.rule for card in shown.values())
    names = []
    for card in shown.values():
        options = ", ".join(f"{key} {value}" for key, value in card.rule_options.items())
        names.append(clip(f"{card.rule} · {options}" if options and counts[card.rule] > 1 else card.rule))
    return View(
        title=table.title, heads=table.headings, refused=[note for note in table.notes if note not in NOTES],
        rows=[(name, [str(cell) for cell in row[1:]]) for name, row in zip(names, table.rows, strict=True)],
        lacking=list(dict.fromkeys(clip(config.rule) for key, config in configs.items() if key not in shown)),
        command=f"walkback card --to {shlex.quote(str(runs[0].path.parent))}",
    )  # fmt: skip


def _key(of: Card | RunConfig) -> str:
    return json.dumps([of.rule, of.rule_options, of.rule_source], sort_keys=True, default=str)
