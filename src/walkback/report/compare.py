"""Two audits side by side: what changed between them, and why, as far as the records tell."""

from collections.abc import Sequence
from functools import partial
from typing import NamedTuple

from rich.console import Console

from walkback.checks import Audit, Finding, Judgement, Thresholds, check_named
from walkback.report.answers import STYLES, Answer, answer_words, answers, asked, finding_cell, finding_of
from walkback.report.case import settings
from walkback.report.writing import literal, print_words

ARROW = " → "


class Side(NamedTuple):
    """One of the two: what it is called, and what it says."""

    label: str
    audit: Audit

    @property
    def settings(self) -> dict[str, dict[str, str]]:
        """The settings of its subjects, where its runs are at hand."""
        return {case.judgement.name: settings(case.config) for case in self.audit.cases if case.config is not None}


class Change(NamedTuple):
    """One check of one subject, whose outcome differs (`turned`) or whose value does; in words, and why."""

    check: str
    words: str
    why: Sequence[str]
    turned: bool


class Pair(NamedTuple):
    """A subject that both audits judge: each answer before and after, and what else differs."""

    name: str
    after: Judgement
    answers: Sequence[tuple[str, Answer, Answer]]
    accuracy: str
    settings: Sequence[str]
    changes: Sequence[Change]

    @property
    def turned(self) -> bool:
        """Whether an answer is another one."""
        return any(old.word != new.word for _, old, new in self.answers)

    @property
    def same(self) -> bool:
        """Whether nothing differs at all."""
        return not (self.turned or self.changes or self.settings or ARROW in self.accuracy)


class Comparison(NamedTuple):
    """All that differs between two audits."""

    before: Side
    after: Side
    audit: Sequence[str]  # what differs between the audits themselves
    pairs: Sequence[Pair]
    only_before: Sequence[Judgement]
    only_after: Sequence[Judgement]

    def says(self) -> str:
        """The difference in one sentence."""
        turned = sum(pair.turned for pair in self.pairs)
        if not self.pairs:
            return "The two audits have no subject in common."
        verdicts = "No answer differs" if not turned else f"{turned} of {len(self.pairs)} subjects have another answer"
        alone = len(self.only_before) + len(self.only_after)
        more = f"; {alone} subject{'s are' if alone > 1 else ' is'} in one of them only" if alone else ""
        return f"{verdicts}{more}."


def compare(before: Side, after: Side) -> Comparison:
    """Match the subjects by name, and say of each what differs and why."""
    one, two = ({judged.name: judged for judged in side.audit.subjects} for side in (before, after))
    thresholds, trained = (before.audit.thresholds, after.audit.thresholds), (before.settings, after.settings)
    pairs = []
    for name, a in one.items():
        if name in two:
            old, new = (side.get(name, {}) for side in trained)
            pairs.append(_pair(a, two[name], thresholds, _settings(old, new)))
    only_before = [judged for name, judged in one.items() if name not in two]
    only_after = [judged for name, judged in two.items() if name not in one]
    return Comparison(before, after, _of_audits(before.audit, after.audit), pairs, only_before, only_after)


def differs(what: str, old: object, new: object) -> list[str]:
    """A thing before and after, in words; nothing where it is the same."""
    return [] if old == new else [f"{what} {old}{ARROW}{new}"]


def _of_audits(a: Audit, b: Audit) -> list[str]:
    """What differs in the audits themselves: validity, protocol, thresholds, controls."""
    valid = {None: "not controlled", True: "valid", False: "invalid"}
    one, two = ({control.name: control.got for control in audit.controls} for audit in (a, b))
    found = differs("validity:", valid[a.valid], valid[b.valid]) + differs("protocol:", a.protocol, b.protocol)
    found += _thresholds(a.thresholds, b.thresholds, [*a.thresholds.table, *b.thresholds.table])
    for name in dict.fromkeys([*one, *two]):
        found += differs(f"control {name}:", one.get(name, "not there"), two.get(name, "not there"))
    return found


def _thresholds(a: Thresholds, b: Thresholds, names: Sequence[str]) -> list[str]:
    found = []
    for name in dict.fromkeys(names):
        ends = [f"{side.table[name].value:g}" if name in side.table else "none" for side in (a, b)]
        found += differs(f"threshold {name}", *ends)
    return found


def _settings(old: dict[str, str], new: dict[str, str]) -> list[str]:
    """What was trained differently, where that is known of both."""
    names = dict.fromkeys([*old, *new]) if old and new else ()
    return [words for name in names for words in differs(name, old.get(name, "–"), new.get(name, "–"))]


def _pair(a: Judgement, b: Judgement, thresholds: tuple[Thresholds, Thresholds], trained: Sequence[str]) -> Pair:
    before, after = answers(a), answers(b)
    one_word = "verdict" if len(before) != len(after) else ""  # one of the two has a single verdict
    each = [(one_word or old.about, old, new) for old, new in zip(before, after, strict=False)]
    changes = []
    for check in asked([a, b]):
        old, new = finding_of(a, check), finding_of(b, check)
        cells = ["not asked" if finding is None else finding_cell(finding) for finding in (old, new)]
        if cells[0] != cells[1]:
            turned = old is None or new is None or old.outcome != new.outcome
            why = _why(old, new, *thresholds) if old and new else []
            reason = f" ({'; '.join(why)})" if why else ""
            changes.append(Change(check, f"{check}: {ARROW.join(cells)}{reason}", why, turned))
    changes.sort(key=lambda change: not change.turned)
    return Pair(a.name, b, each, _accuracy(a, b), [*trained, *differs("seeds", a.accuracy.n, b.accuracy.n)], changes)


def _why(a: Finding, b: Finding, old: Thresholds, new: Thresholds) -> list[str]:
    """Why one finding differs: its thresholds, what is known, its value, or what it is held against."""
    why = [*_thresholds(old, new, [*a.ranges, *b.ranges]), *differs("basis", a.basis, b.basis)]
    if a.outcome == b.outcome:
        return why
    above = [None if f.value is None else "above" if f.value > f.threshold else "not above" for f in (a, b)]
    if None not in above and above[0] != above[1]:
        return [*why, f"its value {ARROW.join(map(str, above))} the limit"]
    if (a.low, a.high) != (b.low, b.high):
        return [*why, f"interval {_interval(a)}{ARROW}{_interval(b)}"]
    return why or ["its value is the same; what it is compared with differs"]


def _interval(finding: Finding) -> str:
    """What a finding's value comes from: the interval of its mean, or its range over the seeds."""
    if finding.low is None or finding.high is None:
        return "none"
    form = check_named(finding.check).form
    factor, digits = (100, ".1f") if form in ("points", "share") else (1, ".3g")
    return f"{factor * finding.low:{digits}} to {factor * finding.high:{digits}}"


def _accuracy(a: Judgement, b: Judgement) -> str:
    """Both accuracies, and by how many points they differ."""
    one, two = a.accuracy.mean, b.accuracy.mean
    words = ["–" if mean is None else f"{mean:.3f}" for mean in (one, two)]
    if words[0] == words[1]:
        return f"{words[0]}, as before"
    return ARROW.join(words) + ("" if one is None or two is None else f" ({100 * (two - one):+.1f} points)")


def print_comparison(found: Comparison, console: Console) -> None:
    """Lines, not a table: they wrap, and lose nothing on a narrow terminal."""
    line = partial(print_words, console)
    line(f"before: {found.before.label}")
    line(f"after:  {found.after.label}")
    line(found.says(), style="bold")
    for words in found.audit:
        line(words, 2)
    for pair in found.pairs:
        turned = [f"{about} {old.word}{ARROW}{new.word}" for about, old, new in pair.answers if old.word != new.word]
        same = ", ".join(f"{about} {old.word}" for about, old, new in pair.answers if old.word == new.word)
        words = "; ".join([*turned, *([f"{same}, as before"] if same else [])])
        console.print()
        console.print(literal(pair.name, "bold"))
        line(words, 2, STYLES[pair.after.verdict] if pair.turned else "dim")
        if pair.same:
            line("nothing differs", 2, "dim")
            continue
        line(f"accuracy {pair.accuracy}", 2)
        if pair.settings:
            line(f"trained differently: {'; '.join(pair.settings)}", 2)
        for change in pair.changes:
            line(change.words, 2, "" if change.turned else "dim")
    for side, alone in ((found.before, found.only_before), (found.after, found.only_after)):
        for judgement in alone:
            console.print()
            line(f"{judgement.name}  {answer_words(judgement)}, only in {side.label}")
