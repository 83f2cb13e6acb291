"""partial: what can be judged from a log of ‖h_L‖, ‖g_2‖ and the accuracy, and is it what all the evidence says?

The runs of `penalty` are written down as such a log and read again as anybody's would be, so what is judged is what a
stranger's file gives. A second log has ‖h_0‖ too: one more number, which buys a bound on the growth. Each answer stands
beside the one from all the evidence, by our protocol, which promises that it never contradicts, and by the published
one, which cannot promise it.
"""

import json
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal, NamedTuple

from walkback.checks import DEFAULT, Finding, Judgement, Protocol, check_named, judge
from walkback.records import Baseline, Evidence, Run, evidence_of_log, join_seeds
from walkback.report import GLYPHS, KEY, Cell, Table, number
from walkback_paper import penalty
from walkback_paper.base import Collected, Study, register

LAYER = 2  # where such logs keep their one gradient
FULL, LOG, MORE = SOURCES = ("full evidence", "log", "log + ‖h_0‖")
VERDICT = "verdict"
OURS = {"inconclusive": "open", "not applicable": "not asked"}  # the published protocol's words, in ours
Relation = Literal["agrees", "both open", "silent", "contradicts", "says more"]
OPPOSITES = ({"fires", "passes"}, {"walked back", "holds"})


# --- the log --------------------------------------------------------------------------------------------------------


def reduced(run: Run, entry_norm: bool = False) -> dict[str, Any]:
    """A run as a log of the deepest norm, one gradient and the accuracy; with `entry_norm` of ‖h_0‖ too."""
    entries = []
    for s in run.snapshots:
        entry = {"epoch": s.epoch, "h_L_norm": s.hidden_norms[-1], f"g_{LAYER}_norm": s.gradient_norms[LAYER]}
        entry |= {"h_0_norm": s.hidden_norms[0]} if entry_norm else {}
        entries.append(entry | {"acc_eval": s.accuracy})
    final = run.snapshots[-1]
    config = {
        "method": run.config.rule, "penalty": run.config.penalty, "seed": run.config.seed,
        "L": len(final.hidden_norms) - 1, "eval_batch": final.reference_batch,
    }  # fmt: skip
    return {"config": config, "log": entries, "final_test_acc": final.accuracy}


def read(whole: Evidence, runs: Sequence[Run], entry_norm: bool) -> Evidence:
    """The evidence of some runs' logs, as text and back; of its baselines the final accuracies, which a log states."""
    logs = [json.loads(json.dumps(reduced(run, entry_norm))) for run in runs]
    (joined,) = join_seeds([each for log in logs for each in evidence_of_log(log, f"the log of {whole.name}")])
    stated = {role: Baseline(accuracy=each.accuracy) for role, each in whole.baselines.items()}
    return joined.changed(name=whole.name, baselines=stated)


# --- both audits ----------------------------------------------------------------------------------------------------


class Reply(NamedTuple):
    """An outcome, how a table shows it with what it rests on, and its sentence."""

    outcome: str
    shown: str
    says: str


@dataclass(frozen=True)
class Line:
    """One question put to one subject: what each source answers."""

    subject: str
    question: str
    answers: Mapping[str, Reply]

    def relation(self, source: str) -> Relation:
        """How the answer of a part stands to that of the whole."""
        return relation(self.answers[FULL].outcome, self.answers[source].outcome)


def relation(full: str, part: str) -> Relation:
    """How an outcome from part of the evidence stands to the one from all of it.

    >>> relation("fires", "open"), relation("fires", "passes"), relation("not asked", "passes")
    ('silent', 'contradicts', 'says more')
    """
    if full == part:
        return "both open" if full == "open" else "agrees"
    if part == "open":
        return "silent"
    return "contradicts" if {full, part} in OPPOSITES else "says more"


def compare(g: Collected, protocol: Protocol) -> dict[str, list[Line]]:
    """By subject every check and the verdict, from all the evidence and from both logs; empty where no run is."""
    found: dict[str, list[Line]] = {}
    for subject in penalty.SUBJECTS:
        whole = g.evidence(subject)
        if whole is None:
            found[subject] = []
            continue
        runs = g.runs[subject]
        evidences = {FULL: whole, LOG: read(whole, runs, entry_norm=False), MORE: read(whole, runs, entry_norm=True)}
        answers = {source: _answers(judge(each, DEFAULT, protocol)) for source, each in evidences.items()}
        found[subject] = [
            Line(subject, question, {source: answers[source][question] for source in SOURCES})
            for question in answers[FULL]
        ]
    return found


def _answers(judged: Judgement) -> dict[str, Reply]:
    found: dict[str, Reply] = {}
    for f in judged.findings:
        outcome = OURS.get(f.outcome, f.outcome)
        shown = f"{GLYPHS[outcome]} {', '.join(filter(None, (f.basis, _growth(f))))}"
        found[f.check] = Reply(outcome, shown, f.says)
    verdict = OURS.get(judged.verdict, judged.verdict)
    return {**found, VERDICT: Reply(verdict, verdict, judged.says)}


def _growth(finding: Finding) -> str:
    """The largest growth over one block, or what is known of it; of a bound the least of the seeds."""
    if check_named(finding.check).form != "times" or finding.value is None:
        return ""
    if finding.basis == "bound":
        return f"≥ {number(finding.low, 2)}×"
    return f"{number(finding.value, 2)}×"


# --- tables ---------------------------------------------------------------------------------------------------------


def tables(g: Collected) -> list[Table]:
    """One a protocol."""
    return [
        _table(g, "partial", "From a log of ‖h_L‖, ‖g_2‖ and accuracy, beside all the evidence: our protocol", "ours"),
        _table(g, "partial-published", "The same by the published protocol", "published"),
    ]


def _table(g: Collected, name: str, title: str, protocol: Protocol) -> Table:
    found = compare(g, protocol)
    rows: list[Sequence[Cell]] = []
    for subject, lines in found.items():
        if not lines:
            rows.append([subject, "–", *["no run"] * 3, "–", "–"])
        for line in lines:
            shown = [line.answers[source].shown for source in SOURCES]
            rows.append([subject, line.question, *shown, line.relation(LOG), line.relation(MORE)])
    headings = ["subject", "check", *SOURCES, "log / full", "+ ‖h_0‖ / full"]
    return Table(name, title, headings, rows, g.notes(*_words(found)))


def _words(found: Mapping[str, Sequence[Line]]) -> list[str]:
    """How to read it, the counts, and every contradiction in full."""
    lines = [line for each in found.values() for line in each]
    words = [
        f"{KEY}. Basis: exact, bound, proxy or missing; for scale the "
        "largest growth over one block, a bound of it, or the "
        "geometric mean instead. Silent: the log leaves open what all the evidence settles. Both open: "
        "so does all the evidence. Says more: the log settles what all the evidence leaves open or does not ask. "
        "Contradicts: one fires and the other passes, or one holds and the other is walked back.",
    ]
    for source in (LOG, MORE):
        checks = Counter(line.relation(source) for line in lines if line.question != VERDICT)
        verdicts = Counter(line.relation(source) for line in lines if line.question == VERDICT)
        words.append(
            f"{source[0].upper()}{source[1:]}: contradicts in {checks['contradicts']} of {checks.total()} findings "
            f"({_counts(checks)}) and in {verdicts['contradicts']} of {verdicts.total()} verdicts "
            f"({_counts(verdicts)})."
        )
    return words + [
        f"Contradiction, {line.subject}, {line.question}, {source}: “{line.answers[source].says}” All the evidence: "
        f"“{line.answers[FULL].says}”"
        for line in lines
        for source in (LOG, MORE)
        if line.relation(source) == "contradicts"
    ]


def _counts(relations: Mapping[Relation, int]) -> str:
    order: tuple[Relation, ...] = ("agrees", "both open", "silent", "says more")
    return ", ".join(f"{each} {relations.get(each, 0)}" for each in order)


register(Study(
    "partial", "What can be judged from a log of three numbers, and is it what all the evidence says?",
    penalty.arms, tables, place=30,
))  # fmt: skip
