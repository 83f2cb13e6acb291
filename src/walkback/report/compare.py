"""Two audits side by side: what changed between them, and why, as far as the records tell."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property, partial

from rich.console import Console

from walkback.checks import Audit, Finding, Judgement, Thresholds, check_named
from walkback.report.answers import STYLES, Answer, answer_words, answers, asked, finding_cell
from walkback.report.case import settings
from walkback.report.fitting import literal, print_words
from walkback.report.summary import finding_of

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


def differs(what: str, old: object, new: object) -> list[str]:
    """A thing before and after, in words; nothing where it is the same."""
    return [] if old == new else [f"{what} {old}{ARROW}{new}"]


def _of_audits(a: Audit, b: Audit) -> list[str]:
    """What differs in the audits themselves: validity, protocol, thresholds, controls."""
    valid = {None: "not controlled", True: "valid", False: "invalid"}
    one, two = ({control.name: control.got for control in audit.controls} for audit in (a, b))
    return [
        *differs("validity:", valid[a.valid], valid[b.valid]),
        *differs("protocol:", a.protocol, b.protocol),
        *_thresholds(a.thresholds, b.thresholds, [*a.thresholds.table, *b.thresholds.table]),
        *(words for name in dict.fromkeys([*one, *two])
          for words in differs(f"control {name}:", one.get(name, "not there"), two.get(name, "not there"))),
    ]  # fmt: skip


def _thresholds(a: Thresholds, b: Thresholds, names: Sequence[str]) -> list[str]:
    found = []
    for name in dict.fromkeys(names):
        ends = [f"{side.table[name].value:g}" if name in side.table else "none" for side in (a, b)]
        found += differs(f"threshold {name}", *ends)
    return found


def _pair(a: Judgement, b: Judgement, before: Side, after: Side) -> Pair:
    one, two = before.settings.get(a.name, {}), after.settings.get(b.name, {})
    names = dict.fromkeys([*one, *two]) if one and two else ()
    found = [words for name in names for words in differs(name, one.get(name, "–"), two.get(name, "–"))]
    changes = []
    for check in asked([a, b]):
        old, new = finding_of(a, check), finding_of(b, check)
        if old is None or new is None or finding_cell(old) != finding_cell(new):
            why = _why(old, new, before.audit.thresholds, after.audit.thresholds) if old and new else []
            changes.append(Change(check, old, new, why))
    return Pair(a.name, a, b, [*found, *differs("seeds", a.accuracy.n, b.accuracy.n)], changes)


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
        line(f"accuracy {accuracies(pair)}", 2)
        if pair.settings:
            line(f"trained differently: {'; '.join(pair.settings)}", 2)
        for change in sorted(pair.changes, key=lambda change: not change.turned):
            line(change_words(change), 2, "" if change.turned else "dim")
    for side, alone in ((found.before, found.only_before), (found.after, found.only_after)):
        for judgement in alone:
            console.print()
            line(f"{judgement.name}  {answer_words(judgement)}, only in {side.label}")
