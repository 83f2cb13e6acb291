"""Two audits side by side: what changed between them, and why, as far as the records tell."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property, partial

from rich.console import Console
from rich.text import Text

from walkback.checks import Audit, Finding, Judgement, Thresholds, check_named
from walkback.plain import seen
from walkback.report.answers import STYLES, Answer, answer_words, answers, finding_cell
from walkback.report.case import settings
from walkback.report.fitting import print_words

ARROW = " → "


@dataclass(frozen=True)
class Side:
    """One of the two: what it is called, and what it says."""

    label: str
    audit: Audit

    @cached_property
    def settings(self) -> Mapping[str, Mapping[str, str]]:
        """The settings of its subjects, where its runs are at hand."""
        return {case.judgement.name: settings(case.config) for case in self.audit.cases if case.config is not None}


@dataclass(frozen=True)
class Change:
    """One check of one subject, whose outcome differs or whose value does; None: that audit did not ask it."""

    check: str
    before: Finding | None
    after: Finding | None
    why: Sequence[str]

    @property
    def turned(self) -> bool:
        """Whether the outcome is another one, or was asked for once only."""
        return self.before is None or self.after is None or self.before.outcome != self.after.outcome


@dataclass(frozen=True)
class Pair:
    """A subject that both audits judge."""

    name: str
    before: Judgement
    after: Judgement
    settings: Sequence[str]
    changes: Sequence[Change]

    @property
    def answers(self) -> list[tuple[str, Answer, Answer]]:
        """Each answer before and after; only the one word where one of the two has a single verdict."""
        before, after = answers(self.before), answers(self.after)
        about = "verdict" if len(before) != len(after) else ""
        return [(about or old.about, old, new) for old, new in zip(before, after, strict=False)]

    @property
    def turned(self) -> bool:
        """Whether an answer is another one."""
        return any(old.word != new.word for _, old, new in self.answers)

    @property
    def same(self) -> bool:
        """Whether nothing differs at all."""
        return not (self.turned or self.changes or self.settings or accuracy_of(self.before) != accuracy_of(self.after))


@dataclass(frozen=True)
class Comparison:
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
    one, two = ({j.name: j for j in side.audit.subjects} for side in (before, after))
    pairs = [_pair(j, two[name], before, after) for name, j in one.items() if name in two]
    return Comparison(
        before, after, _of_audits(before.audit, after.audit), pairs,
        [j for name, j in one.items() if name not in two], [j for name, j in two.items() if name not in one],
    )  # fmt: skip


def _of_audits(a: Audit, b: Audit) -> list[str]:
    """What differs in the audits themselves: validity, protocol, thresholds, controls."""
    found = []
    if a.valid != b.valid:
        found.append(f"validity: {_valid(a)}{ARROW}{_valid(b)}")
    if a.protocol != b.protocol:
        found.append(f"protocol: {a.protocol}{ARROW}{b.protocol}")
    found += [f"threshold {words}" for words in _thresholds(a.thresholds, b.thresholds)]
    one, two = ({c.name: c for c in audit.controls} for audit in (a, b))
    for name in dict.fromkeys([*one, *two]):
        ends = [side[name].got if name in side else "not there" for side in (one, two)]
        if ends[0] != ends[1]:
            found.append(f"control {name}: {ends[0]}{ARROW}{ends[1]}")
    return found


def _valid(audit: Audit) -> str:
    return "not controlled" if audit.valid is None else "valid" if audit.valid else "invalid"


def _thresholds(a: Thresholds, b: Thresholds, names: Sequence[str] | None = None) -> list[str]:
    every = dict.fromkeys([*a.table, *b.table]) if names is None else names
    ends = [
        (name, *(f"{side.table[name].value:g}" if name in side.table else "none" for side in (a, b))) for name in every
    ]
    return [f"{name} {old}{ARROW}{new}" for name, old, new in ends if old != new]


def _pair(a: Judgement, b: Judgement, before: Side, after: Side) -> Pair:
    one, two = before.settings.get(a.name, {}), after.settings.get(b.name, {})
    settings = []
    if one and two:
        names = dict.fromkeys([*one, *two])
        settings = [f"{n} {one.get(n, '–')}{ARROW}{two.get(n, '–')}" for n in names if one.get(n) != two.get(n)]
    if a.accuracy.n != b.accuracy.n:
        settings.append(f"seeds {a.accuracy.n}{ARROW}{b.accuracy.n}")
    by_name = [{finding.check: finding for finding in judgement.findings} for judgement in (a, b)]
    changes = []
    for check in dict.fromkeys([*by_name[0], *by_name[1]]):
        old, new = (found.get(check) for found in by_name)
        if old is None or new is None or finding_cell(old) != finding_cell(new):
            why = _why(old, new, before.audit.thresholds, after.audit.thresholds) if old and new else []
            changes.append(Change(check, old, new, why))
    return Pair(a.name, a, b, settings, changes)


def _why(a: Finding, b: Finding, old: Thresholds, new: Thresholds) -> list[str]:
    """Why one finding differs: its thresholds, what is known, its value, or what it is held against."""
    why = [f"threshold {words}" for words in _thresholds(old, new, list(dict.fromkeys([*a.ranges, *b.ranges])))]
    if a.basis != b.basis:
        why.append(f"basis {a.basis}{ARROW}{b.basis}")
    if a.outcome == b.outcome:
        return why
    sides = [_side(finding) for finding in (a, b)]
    if None not in sides and sides[0] != sides[1]:
        why.append(f"its value {sides[0]}{ARROW}{sides[1]} the limit")
    elif (a.low, a.high) != (b.low, b.high):
        why.append(f"interval {_interval(a)}{ARROW}{_interval(b)}")
    elif not why:
        why.append("its value is the same; what it is compared with differs")
    return why


def _side(finding: Finding) -> str | None:
    """On which side of the limit the value lies."""
    if finding.value is None:
        return None
    return "above" if finding.value > finding.threshold else "not above"


def _interval(finding: Finding) -> str:
    """What a finding's value comes from: the interval of its mean, or its range over the seeds."""
    if finding.low is None or finding.high is None:
        return "none"
    form = check_named(finding.check).form
    factor, digits = (100, ".1f") if form in ("points", "share") else (1, ".3g")
    return f"{factor * finding.low:{digits}} to {factor * finding.high:{digits}}"


def accuracy_of(judgement: Judgement) -> str:
    """An accuracy as it is shown."""
    return "–" if judgement.accuracy.mean is None else f"{judgement.accuracy.mean:.3f}"


def accuracies(pair: Pair) -> str:
    """Both accuracies, and by how many points they differ."""
    words = [accuracy_of(pair.before), accuracy_of(pair.after)]
    if words[0] == words[1]:
        return f"{words[0]}, as before"
    ends = [pair.before.accuracy.mean, pair.after.accuracy.mean]
    by = "" if ends[0] is None or ends[1] is None else f" ({100 * (ends[1] - ends[0]):+.1f} points)"
    return f"{ARROW.join(words)}{by}"


def change_words(change: Change) -> str:
    """A check before and after, and why."""
    cells = ["not asked" if f is None else finding_cell(f) for f in (change.before, change.after)]
    why = f" ({'; '.join(change.why)})" if change.why else ""
    return f"{change.check}: {ARROW.join(cells)}{why}"


def answers_words(pair: Pair) -> str:
    """The answers that turned, and then those that did not."""
    turned = [f"{about} {old.word}{ARROW}{new.word}" for about, old, new in pair.answers if old.word != new.word]
    same = [f"{about} {old.word}" for about, old, new in pair.answers if old.word == new.word]
    return "; ".join([*turned, *([f"{', '.join(same)}, as before"] if same else [])])


def print_comparison(found: Comparison, console: Console) -> None:
    """Lines, not a table: they wrap, and lose nothing on a narrow terminal."""
    line = partial(print_words, console)
    line(f"before: {found.before.label}")
    line(f"after:  {found.after.label}")
    line(found.says(), style="bold")
    for words in found.audit:
        line(words, 2)
    for pair in found.pairs:
        words = answers_words(pair)
        console.print()
        console.print(Text(seen(pair.name), "bold"))
        line(words, 2, STYLES[pair.after.verdict] if pair.turned else "dim")
        if pair.same:
            line("nothing differs", 2, "dim")
            continue
        line(f"accuracy {accuracies(pair)}", 2)
        if pair.settings:
            line(f"trained differently: {'; '.join(pair.settings)}", 2)
        for change in sorted(pair.changes, key=lambda change: not change.turned):
            line(change_words(change), 2, "" if change.turned else "dim")
    for side, alone in ((found.before, found.only_before), (found.after, found.only_after)):
        for judgement in alone:
            console.print()
            line(f"{judgement.name}  {answer_words(judgement)}, only in {side.label}")
