"""The section of curves, and the section of what was not measured."""

from collections.abc import Sequence

from walkback.checks import in_order
from walkback.checks.finding import listed, seeds_said
from walkback.report.page.curves import QUANTITIES, Curves, chosen_epochs
from walkback.report.page.markup import Child, Html, join, num, prose, tag
from walkback.report.page.material import MANY, Material, Style, Subject
from walkback.report.page.pieces import cards, dense, figure, key, name_of, said, section, told_in_part
from walkback.report.page.words import BASELINES
from walkback.report.summary import followed, most_serious_first


def training(material: Material, styles: Sequence[Style], curves: Curves) -> Html:
    """The curves, when each check first fired, and the numbers."""
    words = (
        "Test accuracy, the size of the last hidden state ‖h_L‖, the size of the true gradient there ‖g_L‖ and Γ, "
        "after every epoch that was recorded. "
    )
    if not curves.together():
        beside = " Dashed: bp." if curves.bp is not None else ""
        words += f"The mean over the seeds; a column shares its axes, and the number is the last.{beside}"
        drawn = [_sparks(material, styles, curves)]
    else:
        rings = " A ring: a check first fires on a seed." if _fired(material) else ""
        words += f"Thick: the mean over seeds (of logarithms, on a log scale). Faint: each seed.{rings}"
        legend = [tag("li", key(style), " ", name_of(s)) for s, style in zip(material.subjects, styles, strict=True)]
        drawn = [
            tag("ul", *legend, class_="legend", aria_label="Marks"),
            tag("div", *(figure(f) for f in curves.figures()), class_="four"),
        ]
    parts: list[Child] = [tag("p", prose(words)), *drawn, _first_table(material)]
    if len(material.subjects) <= MANY:
        tables = [made for place in range(len(material.subjects)) if (made := _history(material, curves, place))]
        parts.append(tag("details", tag("summary", "The numbers through training"), *tables) if tables else None)
    return section("training", "Through training", *parts)


def _sparks(material: Material, styles: Sequence[Style], curves: Curves) -> Html:
    """Small multiples: one row per subject, one column per quantity."""
    order = most_serious_first([subject.judgement for subject in material.subjects])
    rows = []
    for place in order:
        subject = material.subjects[place]
        cells = [tag("th", key(styles[place]), " ", name_of(subject), scope="row", data_value=subject.name)]
        for number in range(len(QUANTITIES)):
            known = curves.found[place][number].known()
            last = known[max(known)] if known else None
            words = "–" if last is None else num(last)
            value = None if last is None else f"{last:.6g}"
            cells.append(tag("td", curves.spark(place, number), tag("span", words, class_="value"), data_value=value))
        verdict_name = subject.judgement.verdict
        rows.append(tag("tr", *cells, data_place=str(place), data_verdict=verdict_name))
    heads = [tag("th", "Subject", scope="col"), *(tag("th", prose(q.title), scope="col") for q in QUANTITIES)]
    caption = "Through training, by subject"
    table = tag(
        "table", tag("caption", caption), tag("thead", tag("tr", *heads)), tag("tbody", *rows), class_="sparks",
        data_sort="yes",
    )  # fmt: skip
    return tag("div", table, class_="scroll", role="group", aria_label=caption, tabindex="0")


def _fired(material: Material) -> bool:
    """Whether any check that was followed through training fired."""
    every = [fired for subject in material.subjects for fired in subject.judgement.first_fired.values()]
    return any(followed(fired) and any(e is not None for e in fired.epochs.values()) for fired in every)


def _first_table(material: Material) -> Html | None:
    """Seed by seed the first epoch of each check that was followed through training, of whom one fired."""
    names = {date.key: date.name for check in in_order() for date in check.dates}
    those = [subject for subject in material.subjects if _dated(subject)]
    kept = [name for name in names if any(_epochs(subject, name) for subject in those)]
    undated = [
        f"{check.name.capitalize()} cannot be dated: {check.undated}." for check in in_order() if not check.dates
    ]
    words = "Never, in the others. " if len(those) < len(material.subjects) else ""
    note = f"{words if those else 'No check that was followed through training fired. '}{' '.join(undated)} "
    note += "What was measured at the end alone has no first epoch."
    aside = tag("p", note, class_="quiet")
    if not those:
        return aside
    rows = [(name_of(subject), [[_first(subject, name) for name in kept]]) for subject in those]
    made = cards("The first epoch at which each check fired", ["Subject", *(names[name] for name in kept)], rows)
    if len(those) <= MANY:
        return join([made, aside])
    return tag("details", tag("summary", f"When the checks first fired: {len(those)} subjects"), made, aside)


def _dated(subject: Subject) -> bool:
    return any(_epochs(subject, name) for name in subject.judgement.first_fired)


def _epochs(subject: Subject, name: str) -> dict[str, int | None]:
    """By seed the first epoch; nothing where it never fired, or was not followed."""
    fired = subject.judgement.first_fired.get(name)
    if fired is None or not followed(fired) or all(epoch is None for epoch in fired.epochs.values()):
        return {}
    return dict(fired.epochs)


def _first(subject: Subject, name: str) -> Child:
    fired = subject.judgement.first_fired.get(name)
    if fired is None:
        return "not known"
    if not followed(fired):
        return "measured at the end only" if fired.says.startswith("told at") else said(fired.says)
    partly = f" ({fired.says.partition(';')[0]})" if told_in_part(fired.says) else ""
    epochs = _epochs(subject, name)
    if not epochs:
        return f"never{partly}" if fired.says.endswith("it never fired") else said(fired.says)
    if len(set(epochs.values())) == 1:
        every = "" if len(epochs) == 1 else " (every seed)"
        return f"{next(iter(epochs.values()))}{every}{partly}"
    return ", ".join(f"{'never' if e is None else e} (seed {s})" for s, e in epochs.items()) + partly


def _history(material: Material, curves: Curves, place: int) -> Html | None:
    found = curves.found[place]
    epochs = chosen_epochs(found)
    subject = material.subjects[place]
    if not epochs:
        return None
    rows = [[str(e), *("–" if (v := c.mean.get(e)) is None else num(v) for c in found)] for e in epochs]
    heads: list[Child] = ["Epoch", *(prose(q.name) for q in QUANTITIES)]
    return dense(f"{subject.name}: mean over seeds at some epochs (–: not known on every seed)", heads, rows)


def gaps(material: Material, curves: Curves) -> Html:
    """All that is missing, bounded, stood in for, typed in or odd, with the reason; the same remark once."""
    same: dict[tuple[str, str, str], list[int]] = {}
    for place, subject in enumerate(material.subjects):
        for remark in [*_gaps(subject), *_curve_gaps(curves, place)]:
            same.setdefault(remark, []).append(place)
    intro = tag(
        "p", "A finding from part of the evidence never contradicts the one from all of it. What a finding lacks, "
        "and what was noted on the way, is here."
    )  # fmt: skip
    if not same:
        words = "All that the checks ask for was measured."
        return section("gaps", "What was not measured", tag("p", words))
    groups: list[tuple[Child, list[list[Child]]]] = [
        (prose(what), [[state, said(why), _whose(places, material)]]) for (what, state, why), places in same.items()
    ]
    made = cards("What is missing or odd, and why", ("What", "Status", "Why", "Subjects"), groups, "gaps")
    count = f"{len(same)} remark{'s' * (len(same) > 1)}"
    folded = tag("details", tag("summary", f"{count} on what is missing or odd"), intro, made)
    return section("gaps", "What was not measured", folded)


def _whose(places: Sequence[int], material: Material) -> Child:
    """Of whom a remark is made."""
    if len(places) == len(material.subjects) > 1:
        return "all"
    names = [name_of(material.subjects[place]) for place in places[:MANY]]
    more = f" and {len(places) - MANY} more" if len(places) > MANY else None
    return join([join(names, ", "), more])


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
