"""An audit as tables: the answers, the findings behind them, the controls. A column is added here, for every format."""

from collections.abc import Callable, Sequence
from functools import partial
from operator import attrgetter
from typing import TypeVar

from rich.text import Text

from walkback.checks import Accuracy, Audit, Finding, Interval, Judgement, Protocol, check_named, in_order
from walkback.checks.finding import listed
from walkback.plain import one_line
from walkback.records import BaselineName, Run, sittings_of
from walkback.report.answers import (
    GLYPHS,
    STYLES,
    accuracy_cell,
    asked,
    depth_cell,
    finding_cell,
    finding_of,
    gamma_cells,
    lower_cell,
    stands_words,
    value_of,
)
from walkback.report.case import Case, variant_words
from walkback.report.layers import gain_cell, measured_table
from walkback.report.tables import Cell, Column, Stat, Table
from walkback.report.writing import literal
from walkback.version import own_version

T = TypeVar("T")
KEYS = {
    "ours": "✓ passes, ✗ fires, ? open, – not asked",
    "published": "✓ passes, ✗ fires, ? inconclusive, – not applicable",
}
KEY = KEYS["ours"]
INTERVALS = (
    "Gains in points, paired by seed. Over frozen: its own net with the blocks left at their random init; over "
    "shallow: the net without blocks; over half: the net whose upper half of blocks alone is trained. Stands for: of "
    "how many blocks Γ speaks."
)
LEFT = {"justify": "left"}


def answer_columns(protocol: Protocol, subjects: Sequence[Judgement], mark: str = "") -> list[Column]:
    """Of a case: its three answers, each beside the numbers that it rests on; or its one published verdict.

    mark   in a terminal, behind an answer that is not controlled
    """
    longest = max((len(subject.name) for subject in subjects), default=0)
    name = {**LEFT, "no_wrap": False, "overflow": "fold", "min_width": min(max(longest, 7), 12), "max_width": 18}
    words = {**LEFT, "no_wrap": False, "min_width": 13}
    answer = partial(answer_text, mark=mark)
    scored, n = of(lambda judged: accuracy(judged.accuracy)), of(lambda judged: judged.accuracy.n)
    if protocol == "published":
        return [
            Column("subject", subject_name, "\nsubject", shown_name, name),
            Column("verdict", lambda case: _marked(case, case.judgement.verdict), "\nverdict", answer,
                   {**LEFT, "min_width": 14}),
            Column("accuracy", scored, "\naccuracy", of(accuracy_cell)),
            Column("n", n),
            *(Column(check, of(partial(_found, check)), f"{one_line(check)}\n{check_named(check).heading}", looks=LEFT)
              for check in asked(subjects)),
        ]  # fmt: skip
    return [
        Column("subject", subject_name, "subject", shown_name, name),
        Column("accuracy", lambda case: _marked(case, case.judgement.answer), "accuracy", answer, words),
        Column("test accuracy", scored, "mean ± sd", of(accuracy_cell)),
        Column("n", n, "n"),
        Column("over frozen", of(partial(_gain, "frozen"))),
        Column("over shallow", of(partial(_gain, "shallow"))),
        Column("", subject_name, "depth f / s", of(depth_cell)),
        Column("lower half", partial(_answer, "lower_half"), "lower", of(lower_cell), LEFT),
        Column("over half", of(partial(_gain, "half"))),
        Column("Γ", partial(_answer, "gamma")),
        Column("mean cosine", of(lambda judged: value_of(judged, "chance")), "Γ", of(lambda j: gamma_cells(j)[0])),
        Column("median block", of(lambda judged: judged.median_cosine)),
        Column(
            "stands for", of(lambda j: stands_words(j) or "–"), "stands for", of(lambda j: gamma_cells(j)[1]), words
        ),
        Column("rates", of(lambda judged: judged.rates)),
        Column("trials", of(lambda judged: max(judged.trials.values(), default=None))),
    ]


def of(take: Callable[[Judgement], T]) -> Callable[[Case], T]:
    """What a column takes of the judgement of a case."""
    return lambda case: take(case.judgement)


subject_name = of(lambda judged: judged.name)
shown_name = of(lambda judged: literal(judged.name))


def answer_text(case: Case, mark: str) -> Text:
    """The answer on accuracy; struck through where it does not count, and marked where it is not controlled."""
    words = f"{GLYPHS[case.judgement.verdict]} {case.judgement.answer}"
    if not case.counts:
        return Text(f"({words})", "dim strike")
    return Text(words if case.controlled else f"{words}{mark}", STYLES[case.judgement.verdict])


def _marked(case: Case, answer: str) -> str:
    """An answer, with words before it where its controls misbehaved, or there are none."""
    if not case.counts:
        return f"does not count ({answer})"
    return answer if case.controlled else f"not controlled ({answer})"


def _answer(about: str, case: Case) -> str:
    return _marked(case, "–" if case.judgement.verdicts is None else getattr(case.judgement.verdicts, about))


def _found(check: str, judged: Judgement) -> str:
    return finding_cell(finding_of(judged, check))


def _gain(name: BaselineName, judged: Judgement) -> Cell:
    part = next((f.parts[name] for f in reversed(judged.findings) if name in f.parts), None)
    return None if part is None or part.value is None else gain_cell(part, judged.accuracy.n)


def accuracy(known: Accuracy) -> Stat:
    """Mean, standard deviation and n as a judgement has them."""
    return Stat(given=(known.mean, known.std, known.n))


def _of_finding(name: str, pair: tuple[Judgement, Finding]) -> Cell:
    """A field of a finding; a gain in points."""
    found = getattr(pair[1], name)
    if found is None or isinstance(found, str):
        return found
    scaled = found * (100 if check_named(pair[1].check).form == "points" else 1)
    return f"{scaled:g}" if name == "threshold" else scaled


def _of_part(name: str, part: tuple[Judgement, Finding, str, Interval]) -> Cell:
    end = getattr(part[3], name)
    return None if end is None else 100 * end


FOUND = ("check", "outcome", "value", "low", "high", "threshold", "basis")
FINDING_COLUMNS = [Column(name, partial(_of_finding, name)) for name in FOUND]  # of a judgement and a finding of it
NAMED = Column("subject", lambda pair: pair[0].name)
PART_COLUMNS = [  # of a judgement, a finding, a baseline's name and the gain over it
    NAMED, Column("check", lambda part: part[1].check), Column("gain over", lambda part: part[2]),
    *(Column(name, partial(_of_part, "value" if name == "points" else name)) for name in ("points", "low", "high")),
]  # fmt: skip
CONTROL_COLUMNS = [
    Column("control", attrgetter("name")), Column("must be", attrgetter("expected")), Column("is", attrgetter("got")),
    Column("as it must", lambda control: "yes" if control.ok else "no"),
]  # fmt: skip


def audit_tables(audit: Audit, name: str = "audit") -> list[Table]:
    """The answers, the findings, and where there are any, the gains, the controls and what probes measured."""
    made, words = footnote(audit, audit.runs), quantities(asked(audit.subjects), audit.protocol)
    title = f"What the audit says. {audit.void_words}" if audit.valid is False else "What the audit says"
    below = [INTERVALS] if audit.protocol == "ours" else [f"{KEYS['published']}.", words]
    found = [(subject, finding) for subject in audit.subjects for finding in subject.findings]
    parts = [(*pair, *part) for pair in found if check_named(pair[1].check).form == "points"
             for part in pair[1].parts.items()]  # fmt: skip
    tables = [
        Table.of(name, title, answer_columns(audit.protocol, audit.subjects), audit.cases, *below, audit.says, made),
        Table.of(f"{name}-findings", "What each check found", [NAMED, *FINDING_COLUMNS], found, words, made),
        Table.of(f"{name}-intervals", "The gains behind the answers", PART_COLUMNS, parts, INTERVALS, made),
        controls_table(audit, f"{name}-controls", made),
        measured_table(audit.subjects, f"{name}-measured", made),
    ]
    return [table for place, table in enumerate(tables) if place < 2 or table.rows]


def controls_table(audit: Audit, name: str, *notes: str) -> Table:
    """The controls: what each must be, and what it is."""
    return Table.of(name, "The controls", CONTROL_COLUMNS, audit.controls, audit.says, *notes)


def quantities(names: Sequence[str], protocol: Protocol) -> str:
    """What the values of the checks are, for the notes below a table."""
    checks = [check_named(name) for name in names] or in_order(protocol)
    pairs = [(check.name, check.quantity.get(protocol, "")) for check in checks]
    if protocol == "published":
        return f"By the published protocol, means alone: {'; '.join(', '.join(each) for each in pairs)}."
    means = [check.name for check in checks if check.spread == "mean"]
    ends = "Low and high: over the seeds"
    ends += f"; for {listed(means)} the interval of the mean by Student's t." if means else "."
    return " ".join([*(f"{name}: {words}." for name, words in pairs), ends])


def footnote(audit: Audit, runs: Sequence[Run] = ()) -> str:
    """By what it was judged, with what the runs were trained, and which form of a rule a name stands for."""
    versions, forms = trained_with(runs), variant_words(run.config for run in runs)
    words = f"Protocol: {audit.protocol}; thresholds: {audit.thresholds.version}; made by walkback {own_version()}."
    return " ".join([words, *([f"Trained with {versions}."] if versions else []), *([forms] if forms else [])])


def trained_with(runs: Sequence[Run]) -> str:
    """The versions that the runs were trained with, each once."""
    sittings = sittings_of(*runs)
    found = {
        "walkback": [f"{s.walkback} ({s.commit})" if s.commit else s.walkback for s in sittings],
        "torch": [s.torch for s in sittings],
        "Python": [s.python for s in sittings],
    }
    return ", ".join(f"{what} {' and '.join(dict.fromkeys(names))}" for what, names in found.items() if names)
