"""When each check first fired, the numbers through training, and all that was not measured."""

from collections.abc import Mapping, Sequence

from markupsafe import Markup

from walkback.checks import in_order
from walkback.checks.finding import listed, seeds_words
from walkback.report.case import Case
from walkback.report.page.curves import QUANTITIES, Curves, chosen_epochs
from walkback.report.page.drawing import BASELINES, MANY
from walkback.report.page.markup import free, num, prose

Remark = tuple[str, str, str]  # what, its status, and why


def first_firings(cases: Sequence[Case]) -> tuple[list[str], list[tuple[Case, list[str]]], str]:
    """Headings and rows: seed by seed the first epoch of each check that was followed and fired. And a note."""
    names = {date.key: date.name for check in in_order() for date in check.dates}
    found = [case for case in cases if any(_epochs(case, name) for name in case.judgement.first_fired)]
    kept = [name for name in names if any(_epochs(case, name) for case in found)]
    never = "Never, in the others. " if len(found) < len(cases) else ""
    note = never if found else "No check that was followed through training fired. "
    note += " ".join(f"{c.name.capitalize()} cannot be dated: {c.undated}." for c in in_order() if not c.dates)
    note += " What was measured at the end alone has no first epoch."
    return [names[name] for name in kept], [(case, [_first(case, name) for name in kept]) for case in found], note


def _epochs(case: Case, name: str) -> Mapping[str, int | None]:
    """By seed the first epoch; nothing where it never fired, or was not followed."""
    fired = case.judgement.first_fired.get(name)
    if fired is None or not fired.followed or all(epoch is None for epoch in fired.epochs.values()):
        return {}
    return fired.epochs


def _first(case: Case, name: str) -> str:
    fired = case.judgement.first_fired.get(name)
    if fired is None:
        return "not known"
    if not fired.followed:
        return "measured at the end only" if fired.known_at else free(fired.says)
    partly = f" (known at {fired.known_at} of {fired.moments} moments)" if fired.in_part else ""
    epochs = _epochs(case, name)
    if not epochs:
        return f"never{partly}" if fired.fired is False else free(fired.says)
    if len(set(epochs.values())) == 1:
        every = "" if len(epochs) == 1 else " (every seed)"
        return f"{next(iter(epochs.values()))}{every}{partly}"
    return ", ".join(f"{'never' if e is None else e} (seed {s})" for s, e in epochs.items()) + partly


def histories(cases: Sequence[Case], curves: Curves) -> list[tuple[str, list[list[str]]]]:
    """For each subject of few the mean over seeds at some epochs."""
    found = []
    for case, drawn in zip(cases, curves.found, strict=True) if len(cases) <= MANY else ():
        epochs = chosen_epochs(drawn)
        rows = [[str(e), *("–" if (v := c.mean.get(e)) is None else num(v) for c in drawn)] for e in epochs]
        found += [(case.name, rows)] if rows else []
    return found


def headings() -> list[Markup]:
    """What is followed through training."""
    return [prose(quantity.name) for quantity in QUANTITIES]


def gaps(cases: Sequence[Case], curves: Curves) -> list[tuple[Remark, list[Case]]]:
    """All that is missing, bounded, stood in for, typed in or odd, with the reason; the same remark once."""
    same: dict[Remark, list[Case]] = {}
    for place, case in enumerate(cases):
        for remark in [*_gaps(case), *_curve_gaps(curves, place)]:
            same.setdefault(remark, []).append(case)
    return list(same.items())


def _gaps(case: Case) -> list[Remark]:
    judgement, known_of = case.judgement, case.evidence
    rows: list[Remark] = []
    if not known_of.seeds:
        rows.append(("records", "missing", "Only the judgement is here, not the runs or the log that it rests on."))
    for finding in judgement.findings:
        if finding.basis != "exact":
            rows.append((finding.check, finding.basis, finding.says))
        rows += [(finding.check, "warning", warning) for warning in finding.warnings]
    asked = {check.name for check in in_order(judgement.protocol)}
    rows += [(check.name, "not asked", check.not_asked) for check in in_order() if check.name not in asked]
    given = known_of.baselines
    absent = [words for name, words in BASELINES.items() if name not in given]
    typed = [words for name, words in BASELINES.items() if name in given and given[name].alone]
    by_seed = [w for name, w in BASELINES.items() if name in given and given[name].typed and not given[name].alone]
    if absent and known_of.seeds:
        rows.append(("baselines", "missing", f"No run and no number is among the records for {listed(absent)}."))
    if typed:
        rows.append(("baselines", "typed in", f"Not measured here, and without a spread: {listed(typed)}."))
    if by_seed:
        rows.append(("baselines", "given", f"Given by seed and not measured here: {listed(by_seed)}."))
    for name, values in (("drift", judgement.described.drift), ("ρ", judgement.described.rho),
                         ("nudging", judgement.described.nudging)):  # fmt: skip
        lacking = [seed for seed, value in values.items() if value is None]
        if lacking:
            why = f"Not measured on {seeds_words(lacking)}. It is described only, and judges nothing."
            rows.append((name, "missing", why))
    return rows + [("note", "noted", note) for note in judgement.notes]


def _curve_gaps(curves: Curves, place: int) -> list[Remark]:
    rows = []
    for q, c in zip(QUANTITIES, curves.found[place], strict=True):
        what = f"curve of {q.name}"
        if c.moments and not c.numbers:
            unstated = q.name == "‖g_L‖" and c.unstated
            why = "The batch of its norms is not known." if unstated else "No moment has it."
            rows.append((what, "missing", why))
        elif c.numbers < c.moments:
            rows.append((what, "in part", f"Known at {c.numbers} of {c.moments} moments."))
        if c.undrawn:
            reason = "not finite, or not above zero," if q.log else "not finite"
            rows.append((what, "not drawn", f"{c.undrawn} of {c.numbers} values are {reason} and leave a gap."))
        if c.unplaced:
            rows.append((what, "not drawn", f"{c.unplaced} of {c.numbers} values have no epoch."))
    return rows
