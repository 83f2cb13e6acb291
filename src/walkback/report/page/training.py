"""The section of curves, and the section of what was not measured."""

from collections.abc import Sequence

from walkback.checks import in_order
from walkback.checks.finding import listed, seeds_said
from walkback.report.page.curves import QUANTITIES, Curves, chosen_epochs
from walkback.report.page.markup import Child, Html, join, num, prose, tag
from walkback.report.page.material import Material, Style, Subject
from walkback.report.page.pieces import cards, dense, figure, key, name_of, said, section, told_in_part
from walkback.report.page.words import BASELINES


def training(material: Material, styles: Sequence[Style], curves: Curves) -> Html:
    """The curves, who fired when, and the numbers."""
    groups = curves.groups()
    alone = len(groups) > 1
    words = (
        "Test accuracy, the size of the last hidden state ‖h_L‖, the size of the true gradient there ‖g_L‖ and Γ, "
        "after every epoch that was recorded. Thick: the mean over seeds (of logarithms, on a log scale), where every "
        "seed has a number. Faint: each seed. A ring marks the epoch at which a check first fires on a seed."
    )
    if alone and curves.bp is not None:
        words += " Dashed: bp, for comparison."
    parts: list[Child] = [tag("p", prose(words))]
    for group in groups:
        legend = [tag("li", key(styles[i]), " ", name_of(material.subjects[i], 36)) for i in group]
        drawn = tag("div", *(figure(f) for f in curves.figures(group)), class_="four")
        if alone:
            title = tag("h3", key(styles[group[0]]), " ", name_of(material.subjects[group[0]]))
            parts.append(tag("div", title, drawn, class_="alone"))
        else:
            parts += [tag("ul", *legend, class_="legend", aria_label="Marks"), drawn]
    parts.append(_first_table(material))
    parts += [_history(material, curves, place) for place in range(len(material.subjects))]
    return section("training", "Through training", *parts)


def _first_table(material: Material) -> Html:
    """Seed by seed the first epoch of each check; where there is none, whether it never fired or could not be told."""
    names = {date.key: date.name for check in in_order() for date in check.dates}
    rows = [(name_of(subject, 36), [[_first(subject, name) for name in names]]) for subject in material.subjects]
    made = cards("The first epoch at which each check fired", ["Subject", *names.values()], rows)
    undated = [
        f"{check.name.capitalize()} cannot be dated: {check.undated}." for check in in_order() if not check.dates
    ]
    return join([made, tag("p", " ".join(undated), class_="quiet")])


def _first(subject: Subject, name: str) -> Child:
    fired = subject.judgement.first_fired.get(name)
    if fired is None:
        return "not told"
    partly = f" ({fired.says.partition(';')[0]})" if told_in_part(fired.says) else ""
    if any(epoch is not None for epoch in fired.epochs.values()):
        return ", ".join(f"{'never' if e is None else e} (seed {s})" for s, e in fired.epochs.items()) + partly
    return f"never{partly}" if fired.says.endswith("it never fired") else said(fired.says)


def _history(material: Material, curves: Curves, place: int) -> Html | None:
    found = curves.found[place]
    epochs = chosen_epochs(found)
    subject = material.subjects[place]
    if not epochs:
        return None
    rows = [[str(e), *("–" if (v := c.mean.get(e)) is None else num(v) for c in found)] for e in epochs]
    heads: list[Child] = ["Epoch", *(prose(q.name) for q in QUANTITIES)]
    caption = "Mean over seeds at some epochs (–: not known on every seed)"
    summary = tag("summary", "The numbers through training: ", name_of(subject, 36))
    return tag("details", summary, dense(caption, heads, rows))


def gaps(material: Material, curves: Curves) -> Html:
    """All that is missing, bounded, stood in for, typed in or odd, with the reason."""
    groups: list[tuple[Child, list[list[Child]]]] = []
    for place, subject in enumerate(material.subjects):
        found = [*_gaps(subject), *_curve_gaps(curves, place)]
        found = found or [("nothing", "–", "All that the checks ask for was measured.")]
        groups.append((name_of(subject, 36), [[prose(what), state, said(why)] for what, state, why in found]))
    return section(
        "gaps", "What was not measured",
        tag("p", "A finding from part of the evidence never contradicts the one from all of it. What a finding lacks, "
            "and what was noted on the way, is here."),
        cards("What is missing or odd, and why", ("Subject", "What", "Status", "Why"), groups, "gaps"),
    )  # fmt: skip


def _gaps(subject: Subject) -> list[tuple[str, str, str]]:
    judgement, known_of = subject.judgement, subject.evidence
    rows: list[tuple[str, str, str]] = []
    if not known_of.seeds:
        rows.append(("records", "missing", "Only the judgement is here, not the runs or the log that it rests on."))
    for finding in judgement.findings:
        if finding.basis != "exact":
            rows.append((finding.check, finding.basis, finding.says))
        rows += [(finding.check, "warning", warning) for warning in finding.warnings]
    asked = {check.name for check in in_order(judgement.protocol)}
    rows += [(check.name, "not asked", check.not_asked) for check in in_order() if check.name not in asked]
    there = known_of.baselines
    absent = [words for name, words in BASELINES.items() if name not in there]
    typed = [words for name, words in BASELINES.items() if name in there and there[name].alone]
    by_seed = [w for name, w in BASELINES.items() if name in there and there[name].typed and not there[name].alone]
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
            why = f"Not measured on {seeds_said(lacking)}. It is described only, and judges nothing."
            rows.append((name, "missing", why))
    return rows + [("note", "noted", note) for note in judgement.notes]


def _curve_gaps(curves: Curves, place: int) -> list[tuple[str, str, str]]:
    rows = []
    for q, c in zip(QUANTITIES, curves.found[place], strict=True):
        what = f"curve of {q.name}"
        if c.moments and not c.told:
            unstated = q.name == "‖g_L‖" and any(
                m.reference_batch is None and (m.gradient_norms or m.deepest_gradient is not None)
                for s in curves.subjects[place].evidence.seeds for m in s.moments
            )  # fmt: skip
            why = "The batch of its norms is not known." if unstated else "No moment has it."
            rows.append((what, "missing", why))
        elif c.told < c.moments:
            rows.append((what, "in part", f"Known at {c.told} of {c.moments} moments."))
        if c.undrawn:
            reason = "not finite, or not above zero," if q.log else "not finite"
            rows.append((what, "not drawn", f"{c.undrawn} of {c.told} values are {reason} and leave a gap."))
        if c.unplaced:
            rows.append((what, "not drawn", f"{c.unplaced} of {c.told} values have no epoch."))
    return rows
