"""An audit as tables that an author can paste: the verdicts, the findings behind them, the controls."""

from collections.abc import Sequence

from walkback.checks import Accuracy, Audit, Check, Finding, Judgement, Protocol, check_named, in_order
from walkback.checks.finding import listed
from walkback.records.run import Known, sittings_of
from walkback.report.measured import measured_table
from walkback.report.tables import Cell, Summarised, Table
from walkback.report.variants import variants
from walkback.report.verdicts import KEYS, asked, blocks_of, finding_cells
from walkback.version import own_version


def quantities(checks: Sequence[Check], protocol: Protocol) -> str:
    """What the values of the checks are, for the notes below a table."""
    checks = checks or in_order(protocol)
    told = [(check.name, check.quantity.get(protocol, "")) for check in checks]
    if protocol == "published":
        return f"By the published protocol, means alone: {'; '.join(', '.join(each) for each in told)}."
    means = [check.name for check in checks if check.spread == "mean"]
    ends = "Low and high: over the seeds"
    ends += f"; for {listed(means)} the interval of the mean by Student's t." if means else "."
    return " ".join([*(f"{name}: {words}." for name, words in told), ends])


def audit_tables(audit: Audit, runs: Sequence[Known] = (), name: str = "audit") -> list[Table]:
    """The verdicts, the findings and, where there are any, the controls. `runs`: whose versions the footnote names."""
    made = footnote(audit, runs)
    checks = asked(audit.subjects)
    words = quantities([check_named(check) for check in checks], audit.protocol)
    title = "What the audit says" if audit.valid else f"What the audit says. {audit.void_words}"
    answers = [] if audit.protocol == "published" else [*ANSWERS]
    verdicts = Table(
        name, title, ["subject", *(answers or ["verdict"]), "accuracy mean" if answers else "accuracy", "n", *checks],
        [_verdict(subject, checks, audit.counts(subject.name)) for subject in audit.subjects],
        [f"{KEYS[audit.protocol]}.", words, audit.says, made],
    )  # fmt: skip
    findings = Table(
        f"{name}-findings", "What each check found",
        ["subject", "check", "outcome", "value", "low", "high", "threshold", "basis"],
        [[s.name, *finding_row(f)] for s in audit.subjects for f in s.findings], [words, made],
    )  # fmt: skip
    measured = measured_table(audit.subjects, f"{name}-measured", made)
    controls = controls_table(audit, f"{name}-controls", made) if audit.controls else None
    return [table for table in (verdicts, findings, controls, measured) if table is not None]


def controls_table(audit: Audit, name: str, *notes: str) -> Table:
    """The controls: what each must be, and what it is."""
    rows = [[c.name, c.expected, c.got, "yes" if c.ok else "no"] for c in audit.controls]
    return Table(name, "The controls", ["control", "must be", "is", "as it must"], rows, [audit.says, *notes])


def accuracy(known: Accuracy) -> Summarised:
    """Mean, standard deviation and n as a judgement tells them."""
    return Summarised(told=(known.mean, known.std, known.n))


ANSWERS = ("accuracy", "lower half", "Γ", "median cosine", "blocks of Γ", "rates", "trials")


def _verdict(subject: Judgement, checks: Sequence[str], counts: bool) -> list[Cell]:
    known, answers = subject.accuracy, subject.verdicts
    verdict = subject.answer if counts else f"does not count ({subject.answer})"
    row: list[Cell] = [subject.name, verdict]
    if answers is not None:
        spread = next((f for f in subject.findings if f.check == "spread" and f.value is not None), None)
        blocks = "–" if spread is None else f"{spread.value:.1f} of {blocks_of(spread.threshold)}"
        trials = max(subject.trials.values(), default=None)
        row += [answers.lower_half, answers.gamma, subject.median_cosine, blocks, subject.rates, trials]
    return [*row, accuracy(known), known.n, *finding_cells(subject, checks)]


def finding_row(finding: Finding) -> list[Cell]:
    """Check, outcome, value, low, high, threshold, basis; a gain in points."""
    factor = 100 if check_named(finding.check).form == "points" else 1
    numbers = [None if v is None else factor * v for v in (finding.value, finding.low, finding.high)]
    return [finding.check, finding.outcome, *numbers, f"{factor * finding.threshold:g}", finding.basis]


def footnote(audit: Audit, runs: Sequence[Known] = ()) -> str:
    """By what it was judged, with what the runs were trained, and which form of a rule a name stands for."""
    said = f"Protocol: {audit.protocol}; thresholds: {audit.thresholds.version}; made by walkback {own_version()}."
    versions = trained_with(runs)
    said = f"{said} Trained with {versions}." if versions else said
    return f"{said} {forms}" if (forms := variants(run.config for run in runs)) else said


def trained_with(runs: Sequence[Known]) -> str:
    """The versions that the runs were trained with, each once."""
    sittings = sittings_of(*runs)
    told = {
        "walkback": [f"{s.walkback} ({s.commit})" if s.commit else s.walkback for s in sittings],
        "torch": [s.torch for s in sittings],
        "Python": [s.python for s in sittings],
    }
    return ", ".join(f"{what} {' and '.join(dict.fromkeys(those))}" for what, those in told.items() if those)
