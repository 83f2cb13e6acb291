"""The page: one HTML file that somebody reads who never installed the tool. Drawn from records alone.

It asks nothing of a network and is readable without a script. What a stranger wrote is text in it, and nothing else.
The same records give the same bytes. Here plain data are made of a case; the templates beside this file make the page.
"""

from base64 import b64encode
from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from walkback.checks.finding import listed
from walkback.records.run import sittings_of
from walkback.report.audit_tables import audit_tables
from walkback.report.cards import NOTES
from walkback.report.case import Case, Material, distinct
from walkback.report.page.curves import QUANTITIES, Curves
from walkback.report.page.drawing import MANY, style_of
from walkback.report.page.glance import added, reported
from walkback.report.page.heat import heat_map, sortable
from walkback.report.page.markup import clip
from walkback.report.page.render import document, write_document
from walkback.report.page.reproduce import commands, configuration, fingerprints, run_rows, units, versions
from walkback.report.page.rules import cards_view
from walkback.report.page.subjects import DRAWN, subject_views, value_of
from walkback.report.page.svg import Style
from walkback.report.page.training import first_firings, gaps, headings, histories
from walkback.report.summary import SEVERITY, most_serious_first

__all__ = ["page", "write_page"]


def page(material: Material) -> str:
    """The whole page."""
    audit, names = material.audit, distinct([case.judgement.name for case in material.subjects])
    cases = [
        replace(case, short=name, counts=case.counts and audit.counts(case.judgement.name))
        for case, name in zip(material.subjects, names, strict=True)
    ]
    material = replace(material, subjects=cases)
    styles = [style_of(case) for case in cases]
    order, many = most_serious_first([case.judgement for case in cases]), len(cases) > MANY
    curves, lines = Curves(cases, styles, audit.thresholds), commands(material)
    settings = {case.setting for case in cases}
    return document(
        "audit.html.j2", material=material, audit=audit, cases=cases, styles=styles, order=order, many=many,
        MANY=MANY, DRAWN=DRAWN, NOTES=NOTES, QUANTITIES=QUANTITIES, counts=_counts(material),
        title=_title(names, len(material.left_out)),
        setting=clip(settings.pop(), 200) if len(settings) == 1 else "", seeds=_seeds(cases),
        heat=heat_map(cases, audit.thresholds), sortable=sortable, marks=_marks(cases, styles),
        glance=[reported(cases, styles), added(cases, styles, order)],
        views=subject_views(cases, styles, order, audit.thresholds, many), value_of=value_of,
        curves=curves, first=first_firings(cases), histories=histories(cases, curves), headings=headings(),
        rules=cards_view(material), gaps=gaps(cases, curves), lines=lines[0], unsaid=lines[1], units=units,
        configuration=configuration(material), runs=run_rows(material.runs), versions=versions(material.runs),
        unknown=sum(not sittings_of(run) for run in material.runs),
        prints=fingerprints(material.runs), everyone=_everyone(material),
    )  # fmt: skip


def write_page(material: Material, to: Path | str) -> Path:
    """Write the page to a file, whole or not at all."""
    return write_document(page(material), to)


def _title(names: Sequence[str], more: int) -> str:
    few = 0 < len(names) <= 4 and sum(map(len, names)) <= 120 and not more
    return f"Audit of {listed(names) if few else f'{len(names) + more} subjects'}"


def _everyone(material: Material) -> str:
    """Where not all subjects are shown: all of them as a table, which the page offers to save."""
    if not material.left_out:
        return ""
    table = audit_tables(material.audit)[0].csv()
    return f"data:text/csv;charset=utf-8;base64,{b64encode(table.encode()).decode()}"


def _seeds(cases: Sequence[Case]) -> str:
    """How many there are of each subject."""
    counts = sorted({len(case.runs) for case in cases}) or [0]
    seeds = " to ".join(str(n) for n in dict.fromkeys((counts[0], counts[-1])))
    return f"{seeds} seed{'s' * (seeds != '1')}"


def _counts(material: Material) -> str:
    """How many verdicts of each kind there are."""
    if not material.subjects:
        return "No subject was judged."
    judgements = [*(case.judgement for case in material.subjects), *material.left_out]
    counts = Counter(judgement.verdict for judgement in judgements)
    words = listed([f"{counts[name]} {name}" for name in SEVERITY if counts[name]])
    by = "By accuracy, of" if material.audit.protocol == "ours" else "Of"
    return f"{by} {len(judgements)} subjects: {words}."


def _marks(cases: Sequence[Case], styles: Sequence[Style]) -> list[tuple[str, Style]]:
    """What the marks stand for: the rules, each once."""
    seen: dict[str, Style] = {}
    for case, style in zip(cases, styles, strict=True):
        seen.setdefault(clip(case.evidence.rule or case.name), style)
    return list(seen.items())[:24]
