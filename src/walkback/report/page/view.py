"""The view of an audit: the plain data that the templates make the page of. The words of the page are theirs."""

import json
import shlex
from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from walkback.checks import Audit, Finding, Outcome, Thresholds, check_named, in_order
from walkback.checks.finding import listed, seeds_words
from walkback.records import RunConfig, Subject, sittings_of
from walkback.records.card import Card
from walkback.report.answers import answers, effort_words, gains_words, most_serious_first, remedy, sentence
from walkback.report.cards import NOTES, cards_table
from walkback.report.case import Case, distinct, gammas_of
from walkback.report.layers import BASELINES, baselines_table, layers_table
from walkback.report.page.check_figures import figure
from walkback.report.page.curves import Curves, Remark, SubjectCurve, history_table, subject_curves
from walkback.report.page.glance import MANY, added, heat_map, reported
from walkback.report.page.markup import LONG, num, plain
from walkback.report.page.reproduce import commands, configuration, runs_behind, versions
from walkback.report.tables import Stat, with_n
from walkback.report.writing import clean, clip

SHOWN = 100  # subjects of a page; more are not read
OPEN: Sequence[Outcome] = ("fires", "open", "inconclusive")
View = dict[str, Any]


def audit_view(audit: Audit) -> View:
    """What the page says, of at most `SHOWN` subjects, the most serious."""
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
    captions = set[str]()
    views = [
        _subject(cases[place], audit.thresholds, many, captions)
        | {"place": place, "history": history_table(found[place])}
        for place in order
    ]
    marks: dict[str, Case] = {}  # what they stand for: the rules, each once
    for case in cases:
        marks.setdefault(clip(case.evidence.rule or case.name), case)
    return View(
        audit=audit, cases=cases, controls=controls, order=order, many=many,
        title=f"Audit of {listed(names) if few and sum(map(len, names)) <= 120 else f'{len(audit.subjects)} subjects'}",
        setting=clip(settings.pop(), 200) if len(settings) == 1 else "", seeds=f"{seeds} seed{'s' * (seeds != '1')}",
        checks=checks, cells=cells, glance=[reported(cases), added([cases[place] for place in order])], views=views,
        marks=list(marks.items())[:24], curves=Curves(cases, found, audit.thresholds),
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


# --- one subject, check by check --------------------------------------------------------------------------------------


def _subject(case: Case, thresholds: Thresholds, many: bool, captions: set[str]) -> View:
    """One subject. Of few subjects a caption under open figures is read once: `captions` are those that were."""
    judgement = case.judgement

    def rank(finding: Finding) -> tuple[bool, int]:
        """What fires first, then what is open; after all that, by our protocol, what decides nothing."""
        return _is_symptom(finding, case), (*OPEN, finding.outcome).index(finding.outcome)

    checks = []
    for finding in sorted(judgement.findings, key=rank):
        is_open, symptom = finding.outcome in OPEN, _is_symptom(finding, case)
        drawn = figure(finding, case, thresholds) if is_open or not many else None
        if drawn is not None and drawn.svg is not None and is_open and not many:
            drawn, read = drawn._replace(caption="" if drawn.caption in captions else drawn.caption), drawn.caption
            captions.add(read)
        checks.append(View(
            finding=finding, check=check_named(finding.check), symptom=symptom, figure=drawn,
            open=is_open and not symptom,  # else folded; what a symptom says stands above the checks
            advice=remedy(finding, judgement, thresholds) if is_open else "",
        ))  # fmt: skip
    return View(
        case=case, checks=checks, layers=layers_table(case, thresholds),
        baselines=baselines_table(case, thresholds), answers=answers(judgement),
        gains=gains_words(judgement), effort=effort_words(judgement), why=sentence(judgement),
        full=clip(judgement.name, LONG) if clean(judgement.name) != case.name else "",
        gamma=plain(with_n(Stat(tuple(gammas_of(case)), "cosine"))),
        drift="; ".join(f"seed {seed}: {num(value)}" for seed, value in judgement.described.drift.items()),
    )  # fmt: skip


def _is_symptom(finding: Finding, case: Case) -> bool:
    """Whether a check explains an answer and decides none: by the published protocol every check decides."""
    return case.judgement.protocol == "ours" and check_named(finding.check).answer == "symptom"


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
    typed = [words for name, words in BASELINES.items() if name in given and given[name].typed]
    if absent and seeds:
        rows.append(("baselines", "missing", f"No run and no number is among the records for {listed(absent)}."))
    if typed:
        rows.append(("baselines", "given", f"Given as numbers and not measured here: {listed(typed)}."))
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
