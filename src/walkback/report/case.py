"""A case: one subject on its way from judgement to terminal, tables, form and page. And an audit with all its cases.

Whoever judges makes them, once; whoever shows something takes what it needs from them, and judges and reads nothing.
"""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from walkback.checks import Audit, Finding, Interval, Judgement, check_named
from walkback.checks.base import Gain
from walkback.checks.by_seed import seeds_said
from walkback.checks.finding import known
from walkback.checks.gamma import gamma_of
from walkback.records import BaselineName, Evidence, Moment, Run, RunConfig
from walkback.records.card import Card
from walkback.records.run import Known
from walkback.report.harmless import clean

MOST = 60  # characters of a name


@dataclass(frozen=True)
class Case:
    """One subject with all that is there of it. Logs of others have no runs; an audit.json alone has no evidence.

    counts   False: the controls of its setting misbehaved, so its verdict does not count
    short    its name as the page shows it, told apart from the others
    """

    judgement: Judgement
    evidence: Evidence
    runs: Sequence[Run] = ()
    counts: bool = True
    short: str = ""

    @classmethod
    def alone(cls, judgement: Judgement) -> "Case":
        """A judgement whose records are not here."""
        return cls(judgement, Evidence(name=judgement.name, notes=judgement.notes))

    @property
    def name(self) -> str:
        """The name that figures and tables show."""
        return self.short or distinct([self.judgement.name])[0]

    @property
    def config(self) -> RunConfig | None:
        """What determines the runs, but for the seed; None where they are not ours."""
        return self.runs[0].config if self.runs else None

    @property
    def setting(self) -> str:
        """What was trained, in a line; empty if the runs are not here."""
        from walkback.report.sizes import net_sizes  # here: it takes the nets, and records are judged without them

        c = self.config
        return "" if c is None else f"{c.data}, {c.net} with {net_sizes(c)}, {c.epochs} epochs"

    @property
    def seeds(self) -> str:
        """The seeds of the runs, by name; empty if they are not here."""
        return seeds_said([str(run.config.seed) for run in self.runs]).capitalize() if self.runs else ""

    @property
    def by_seed(self) -> list[tuple[str, Moment]]:
        """The moment that is judged of every seed, by the seed's label."""
        return [(name, seed.final) for name, seed in self.evidence.labelled()]

    @property
    def finals(self) -> list[Moment]:
        """The moments that are judged, one per seed."""
        return [seed.final for seed in self.evidence.seeds]

    @property
    def accuracies(self) -> dict[str, float | None]:
        """The final accuracy of every seed."""
        return {name: moment.accuracy for name, moment in self.by_seed}

    @property
    def silent(self) -> str:
        """Why something is a blank where no record speaks of it."""
        if self.runs:
            return "the runs do not tell"
        return "the log does not say" if self.evidence.seeds else "not in an audit.json: name its runs"

    @property
    def feedback(self) -> bool | None:
        """Whether any block's credit comes through feedback weights; None where it was not asked.

        The null redraws them: a block whose credit stays the same has none, and its null is of random directions. A
        null of turned credits redraws nothing.
        """
        kinds = {null.kind for moment in self.finals for null in moment.null or [] if null is not None}
        kinds -= {"turned credits"}
        return "fresh feedback" in kinds if kinds and self.runs else None

    def gain_over(self, baseline: BaselineName) -> Finding | None:
        """What the check found that asks for a gain over that baseline."""
        return gain_over(self.judgement, baseline)


@dataclass(frozen=True)
class Material:
    """An audit and the records behind it.

    subjects   a case for each of the audit's, in its order, but for those left out; none where only outlines were kept
    controls   judged too, and there only to show that the audit can tell good from bad
    others     runs that are baselines
    source     what the page was asked for, as words of a command line; none if that is not known
    cards      what the rules use and cost, measured when the audit was made; None: they were not
    outlines   of all runs, where the runs themselves were not kept
    left_out   judgements of the audit that are no case here, because they are too many to show
    """

    audit: Audit
    subjects: Sequence[Case]
    controls: Sequence[Case] = ()
    others: Sequence[Run] = ()
    source: Sequence[str] = ()
    cards: Sequence[Card] | None = None
    outlines: Sequence[Known] = ()
    left_out: Sequence[Judgement] = ()

    @classmethod
    def alone(cls, audit: Audit, source: Sequence[str] = ()) -> "Material":
        """An audit whose records are not here."""
        return cls(audit, [Case.alone(judgement) for judgement in audit.subjects], source=source)

    @classmethod
    def of(cls, audit: Audit, cases: Sequence[Case], runs: Sequence[Run], source: Sequence[str] = ()) -> "Material":
        """The subjects of the audit, as controls whoever else was judged with them, and the other runs."""
        subjects, controls = list(cases), []
        if len(audit.subjects) != len(cases):
            by_name = {case.judgement.name: case for case in cases}
            subjects = [by_name.pop(judgement.name) for judgement in audit.subjects]
            controls = [by_name[name] for name in sorted(by_name)]
        own = {run.path for case in cases for run in case.runs}
        others = sorted((run for run in runs if run.path not in own), key=lambda run: run.path.name)
        return cls(audit, subjects, controls, others, source)

    @property
    def runs(self) -> list[Run]:
        """Every run, once: the subjects', the controls', then the baselines'."""
        runs = [run for case in (*self.subjects, *self.controls) for run in case.runs]
        return list({run.path: run for run in [*runs, *self.others]}.values())

    @property
    def trained(self) -> Sequence[Known]:
        """Every run as far as it was kept."""
        return self.outlines or self.runs

    def to_html(self, path: Path | str) -> Path:
        """Write the page: one file, nothing loaded from elsewhere."""
        from walkback.report.page import write_page  # here: only who writes a page waits for it

        return write_page(self, path)


def gain_over(judgement: Judgement, baseline: BaselineName) -> Finding | None:
    """The finding that is about a gain over that baseline, with that gain as its value; None where none is.

    A check that judges by several baselines has its least gain as its value, and each in its parts.
    """
    for finding in judgement.findings:
        kind = check_named(finding.check).figure
        if not isinstance(kind, Gain) or baseline not in (kind.over, *kind.beside):
            continue
        if judgement.protocol == "published":
            return finding if kind.over == baseline else None
        found = finding.parts.get(baseline, Interval())
        return finding.model_copy(update={"value": found.value, "low": found.low, "high": found.high})
    return None


def gammas_of(case: Case) -> list[float]:
    """Γ of every seed that has one: by our protocol at the blocks' outputs; without their cosines as it was logged."""
    found = gamma_of(case.evidence)
    if case.judgement.protocol == "ours" and found.reported:
        return found.by_seed
    return [moment.gamma for moment in case.finals if known(moment.gamma)]


def settings(config: RunConfig) -> dict[str, str]:
    """All that determines a run but its seed, flat, in words."""
    plain = config.model_dump(exclude={"schema_", "seed", "net_options", "rule_options"})
    flat = {"rule": plain.pop("rule"), "data": plain.pop("data"), "net": plain.pop("net")}
    flat |= {f"net: {name}": value for name, value in config.net_options.items()}
    flat |= {f"rule: {name}": value for name, value in config.rule_options.items()}
    words = {name: f"{v:g}" if isinstance(v, float) else v for name, v in (flat | plain).items()}
    known = {True: "yes", False: "no", None: "–"}
    return {name: known[v] if isinstance(v, bool) or v is None else str(v) for name, v in words.items()}


def distinct(names: Sequence[str], most: int = MOST) -> list[str]:
    """Names of about so many characters that still differ: what is cut is the middle, and a number tells twins apart.

    >>> distinct(["a" * 30, "short"], 11)
    ['aaaaa…aaaaa', 'short']
    >>> distinct(["x" * 20 + "1" + "x" * 20, "x" * 20 + "2" + "x" * 20], 11)
    ['xxxxx…xxxxx (1)', 'xxxxx…xxxxx (2)']
    """
    half = (most - 1) // 2
    short = [name if len(name) <= most else f"{name[:half]}…{name[-half:]}" for name in map(clean, names)]
    every, so_far = Counter(short), Counter[str]()
    found = []
    for name in short:
        so_far[name] += 1
        found.append(name if every[name] == 1 else f"{name} ({so_far[name]})")
    return found
