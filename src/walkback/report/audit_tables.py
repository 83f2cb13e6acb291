"""An audit as tables that an author can paste: the verdicts, the findings behind them, the controls."""

from collections.abc import Sequence

from walkback.checks import Accuracy, Audit, Check, Finding, Interval, Protocol, check_named, in_order
from walkback.checks.finding import listed
from walkback.records import Run
from walkback.records.training import sittings_of
from walkback.report.case import Case
from walkback.report.measured import measured_table
from walkback.report.tables import Cell, Summarised, Table
from walkback.report.variants import variants
from walkback.report.verdicts import KEYS, asked, blocks_of, finding_cells
from walkback.version import own_version


def quantities(checks: Sequence[Check], protocol: Protocol) -> str:
    """What the values of the checks are, for the notes below a table."""
    checks = checks or in_order(protocol)
    pairs = [(check.name, check.quantity.get(protocol, "")) for check in checks]
    if protocol == "published":
        return f"By the published protocol, means alone: {'; '.join(', '.join(each) for each in pairs)}."
    means = [check.name for check in checks if check.spread == "mean"]
    ends = "Low and high: over the seeds"
    ends += f"; for {listed(means)} the interval of the mean by Student's t." if means else "."
    return " ".join([*(f"{name}: {words}." for name, words in pairs), ends])


def audit_tables(audit: Audit, name: str = "audit") -> list[Table]:
    """The answers, the findings and, where there are any, the controls."""
    made = footnote(audit, audit.runs)
    checks = asked(audit.subjects)
    words = quantities([check_named(check) for check in checks], audit.protocol)
    title = f"What the audit says. {audit.void_words}" if audit.valid is False else "What the audit says"
    ours = audit.protocol == "ours"
    verdicts = Table(
        name, title, ["subject", *(ANSWERS if ours else ["verdict", "accuracy", "n", *checks])],
        [_answers(case) if ours else _verdict(case, checks) for case in audit.cases],
        [*([INTERVALS] if ours else [f"{KEYS['published']}.", words]), audit.says, made],
    )  # fmt: skip
    findings = Table(
        f"{name}-findings", "What each check found",
        ["subject", "check", "outcome", "value", "low", "high", "threshold", "basis"],
        [[s.name, *finding_row(f)] for s in audit.subjects for f in s.findings], [words, made],
    )  # fmt: skip
    measured = measured_table(audit.subjects, f"{name}-measured", made)
    controls = controls_table(audit, f"{name}-controls", made) if audit.controls else None
    tables = (verdicts, findings, _intervals(audit, f"{name}-intervals", made), controls, measured)
    return [table for table in tables if table is not None]


def _intervals(audit: Audit, name: str, *notes: str) -> Table | None:
    """The gains that the answers on accuracy and lower half rest on; None where there is none."""
    rows: list[list[Cell]] = [
        [subject.name, finding.check, part, *(None if v is None else 100 * v for v in (i.value, i.low, i.high))]
        for subject in audit.subjects for finding in subject.findings
        if check_named(finding.check).form == "points" for part, i in finding.parts.items()
    ]  # fmt: skip
    headings = ["subject", "check", "gain over", "points", "low", "high"]
    return Table(name, "The gains behind the answers", headings, rows, [INTERVALS, *notes]) if rows else None


def controls_table(audit: Audit, name: str, *notes: str) -> Table:
    """The controls: what each must be, and what it is."""
    rows = [[c.name, c.expected, c.got, "yes" if c.ok else "no"] for c in audit.controls]
    return Table(name, "The controls", ["control", "must be", "is", "as it must"], rows, [audit.says, *notes])


def accuracy(known: Accuracy) -> Summarised:
    """Mean, standard deviation and n as a judgement tells them."""
    return Summarised(given=(known.mean, known.std, known.n))


ANSWERS = (
    "accuracy", "test accuracy", "n", "over frozen", "over shallow", "lower half", "over half", "Γ", "mean cosine",
    "median block", "stands for", "rates", "trials",
)  # fmt: skip
INTERVALS = (
    "Gains in points, paired by seed. Over frozen: its own net with the blocks left at their random init; over "
    "shallow: the net without blocks; over half: the net whose upper half of blocks alone is trained. Stands for: of "
    "how many blocks Γ speaks."
)


def _answers(case: Case) -> list[Cell]:
    """The three answers, each beside the numbers that it rests on."""
    subject = case.judgement
    found, known, answers = {f.check: f for f in subject.findings}, subject.accuracy, subject.verdicts
    parts = {name: part for finding in subject.findings for name, part in finding.parts.items()}
    gains = [_gain(parts.get(name), known.n) for name in ("frozen", "shallow", "half")]
    chance, spread = found.get("chance"), found.get("spread")
    stands = "–" if spread is None or spread.value is None else f"{spread.value:.1f} of {blocks_of(spread.threshold)}"
    lower, gamma = ("–", "–") if answers is None else (answers.lower_half, answers.gamma)
    words = [_marked(case, word) for word in (subject.answer, lower, gamma)]
    return [
        subject.name, words[0], accuracy(known), known.n, *gains[:2], words[1], gains[2], words[2],
        None if chance is None else chance.value, subject.median_cosine, stands, subject.rates,
        max(subject.trials.values(), default=None),
    ]  # fmt: skip


def _gain(part: Interval | None, n: int) -> Cell:
    if part is None or part.value is None:
        return None
    ends = None if part.low is None or part.high is None else (part.low, part.high)
    return Summarised(form="points", interval=ends, given=(part.value, None, n))


def _marked(case: Case, answer: str) -> str:
    """An answer, with words before it where its controls misbehaved, or there are none."""
    if not case.counts:
        return f"does not count ({answer})"
    return answer if case.controlled else f"not controlled ({answer})"


def _verdict(case: Case, checks: Sequence[str]) -> list[Cell]:
    """By the published protocol: its verdict, and a cell for each check."""
    subject, scored = case.judgement, case.judgement.accuracy
    verdict = _marked(case, subject.verdict)
    return [subject.name, verdict, accuracy(scored), scored.n, *finding_cells(subject, checks)]


def finding_row(finding: Finding) -> list[Cell]:
    """Check, outcome, value, low, high, threshold, basis; a gain in points."""
    factor = 100 if check_named(finding.check).form == "points" else 1
    numbers = [None if v is None else factor * v for v in (finding.value, finding.low, finding.high)]
    return [finding.check, finding.outcome, *numbers, f"{factor * finding.threshold:g}", finding.basis]


def footnote(audit: Audit, runs: Sequence[Run] = ()) -> str:
    """By what it was judged, with what the runs were trained, and which form of a rule a name stands for."""
    words = f"Protocol: {audit.protocol}; thresholds: {audit.thresholds.version}; made by walkback {own_version()}."
    versions = trained_with(runs)
    words = f"{words} Trained with {versions}." if versions else words
    return f"{words} {forms}" if (forms := variants(run.config for run in runs)) else words


def trained_with(runs: Sequence[Run]) -> str:
    """The versions that the runs were trained with, each once."""
    sittings = sittings_of(*runs)
    found = {
        "walkback": [f"{s.walkback} ({s.commit})" if s.commit else s.walkback for s in sittings],
        "torch": [s.torch for s in sittings],
        "Python": [s.python for s in sittings],
    }
    return ", ".join(f"{what} {' and '.join(dict.fromkeys(names))}" for what, names in found.items() if names)
