"""The page: one HTML file that somebody reads who never installed the tool. Drawn from records alone.

It asks nothing of a network and is readable without a script. What a stranger wrote is text in it, and nothing else.
The same records give the same bytes. Here plain data are made of a case; the templates beside this file make the page.
"""

from base64 import b64encode
from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from walkback.checks import Audit
from walkback.checks.finding import listed
from walkback.records import Subject
from walkback.records.training import sittings_of
from walkback.report.audit_tables import audit_tables
from walkback.report.cards import NOTES
from walkback.report.case import Case, distinct
from walkback.report.page.curves import QUANTITIES, Curves
from walkback.report.page.drawing import MANY, style_of
from walkback.report.page.glance import added, reported
from walkback.report.page.heat import heat_map, sortable
from walkback.report.page.markup import clip
from walkback.report.page.render import document, write_document
from walkback.report.page.reproduce import (
    commands,
    configuration,
    fingerprints,
    run_rows,
    runs_behind,
    units,
    versions,
)
from walkback.report.page.rules import cards_view
from walkback.report.page.subjects import DRAWN, subject_views, value_of
from walkback.report.page.svg import Style
from walkback.report.page.training import first_firings, gaps, headings, histories
from walkback.report.summary import SEVERITY, most_serious_first

__all__ = ["page", "write_page"]

SHOWN = 100  # subjects of a page; more are not read


def page(audit: Audit) -> str:
    """The whole page, of at most `SHOWN` subjects, the most serious; it offers all of them as data."""
    kept = sorted(most_serious_first(audit.subjects)[:SHOWN])
    names = distinct([audit.subjects[place].name for place in kept])
    cases = [replace(audit.cases[place], short=name) for place, name in zip(kept, names, strict=True)]
    controls = audit.control_cases[:SHOWN]
    styles = [style_of(case) for case in cases]
    order, many = most_serious_first([case.judgement for case in cases]), len(cases) > MANY
    curves = Curves(cases, styles, audit.thresholds)
    cases = [*map(_ends, cases)]
    runs = runs_behind(audit, cases, controls)
    lines = commands(audit, cases, runs)
    settings = {case.setting for case in cases}
    return document(
        "audit.html.j2", audit=audit, cases=cases, controls=controls, styles=styles, order=order, many=many,
        MANY=MANY, DRAWN=DRAWN, NOTES=NOTES, QUANTITIES=QUANTITIES, counts=_counts(audit),
        title=_title(names, len(audit.subjects)),
        setting=clip(settings.pop(), 200) if len(settings) == 1 else "", seeds=_seeds(cases),
        heat=heat_map(cases, audit.thresholds), sortable=sortable, marks=_marks(cases, styles),
        glance=[reported(cases, styles), added(cases, styles, order)],
        views=subject_views(cases, styles, order, audit.thresholds, many), value_of=value_of,
        curves=curves, first=first_firings(cases), histories=histories(cases, curves), headings=headings(),
        rules=cards_view(audit.cards or (), cases), gaps=gaps(cases, curves), lines=lines[0], unsaid=lines[1],
        units=units, configuration=configuration(cases), runs=run_rows(runs), versions=versions(runs),
        unknown=sum(not sittings_of(run) for run in runs), prints=fingerprints(runs),
        everyone=_everyone(audit) if len(cases) < len(audit.subjects) else "",
    )  # fmt: skip


def _ends(case: Case) -> Case:
    """A case with what is asked for again and again: of each training the first and the last moment, in memory."""
    subject, evidence, seeds = case.subject, case.evidence, []
    for seed in evidence.seeds:
        last = len(seed.moments) - 1
        kept = [m for place, m in enumerate(seed.moments) if place in (0, last) or m.epoch == 0]
        seeds.append(seed.changed(moments=kept))
    kept_evidence = evidence.changed(seeds=seeds)
    kept_subject = Subject(subject.name, kept_evidence, runs=subject.runs, baselines=subject.baselines)
    return replace(case, subject=kept_subject)


def write_page(audit: Audit, to: Path | str) -> Path:
    """Write the page to a file, whole or not at all."""
    return write_document(page(audit), to)


def _title(names: Sequence[str], count: int) -> str:
    few = 0 < len(names) == count <= 4 and sum(map(len, names)) <= 120
    return f"Audit of {listed(names) if few else f'{count} subjects'}"


def _everyone(audit: Audit) -> str:
    """All subjects as a table, which the page offers to save."""
    table = audit_tables(audit)[0].csv()
    return f"data:text/csv;charset=utf-8;base64,{b64encode(table.encode()).decode()}"


def _seeds(cases: Sequence[Case]) -> str:
    """How many there are of each subject."""
    counts = sorted({len(case.runs) for case in cases}) or [0]
    seeds = " to ".join(str(n) for n in dict.fromkeys((counts[0], counts[-1])))
    return f"{seeds} seed{'s' * (seeds != '1')}"


def _counts(audit: Audit) -> str:
    """How many verdicts of each kind there are."""
    if not audit.subjects:
        return "No subject was judged."
    counts = Counter(judgement.verdict for judgement in audit.subjects)
    words = listed([f"{counts[name]} {name}" for name in SEVERITY if counts[name]])
    by = "By accuracy, of" if audit.protocol == "ours" else "Of"
    return f"{by} {len(audit.subjects)} subjects: {words}."


def _marks(cases: Sequence[Case], styles: Sequence[Style]) -> list[tuple[str, Style]]:
    """What the marks stand for: the rules, each once."""
    seen: dict[str, Style] = {}
    for case, style in zip(cases, styles, strict=True):
        seen.setdefault(clip(case.evidence.rule or case.name), style)
    return list(seen.items())[:24]
