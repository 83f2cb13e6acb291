"""The first screen: is the audit valid, what is said of each subject, and every check at a glance."""

from collections.abc import Sequence

from walkback.report.page.drawing import share_said
from walkback.report.page.glance import added, reported
from walkback.report.page.heat import heat_map
from walkback.report.page.markup import Child, Html, clip, join, prose, tag
from walkback.report.page.material import MANY, Material, Style, Subject
from walkback.report.page.pieces import LONG, anchor, cards, figure, key, name_of, said, section, verdict
from walkback.report.summary import most_serious_first, sentence


def overview(material: Material, styles: Sequence[Style]) -> Html:
    """One sentence per subject, the table of checks, the controls in a line, and two small figures."""
    order = most_serious_first([subject.judgement for subject in material.subjects])
    many = len(order) > MANY
    figures = tag("div", figure(reported(material, styles)), figure(added(material, styles, order)), class_="two")
    return tag(
        "section", tag("h2", "At a glance", id="claims"),
        None if many else _verdicts(material, styles, order),
        heat_map(material, styles, order, whole=many), _rules(material, styles) if many else None, figures,
        aria_labelledby="claims", class_="opening",
    )  # fmt: skip


def _verdicts(material: Material, styles: Sequence[Style], order: Sequence[int]) -> Html:
    """The subjects, most serious first, each with its reason."""
    rows: list[tuple[Child, list[list[Child]]]] = []
    for place in order:
        subject = material.subjects[place]
        found = subject.judgement.accuracy
        accuracy = tag("span", share_said(found.mean, found.std, found.n), class_="value")
        name = tag("a", key(styles[place]), " ", name_of(subject), href=f"#{anchor(place)}")
        rows.append((name, [[verdict(subject), accuracy, why(subject, material)]]))
    heads = ("Subject", "Verdict", "Accuracy", "Why")
    return cards("Verdicts, most serious first", heads, rows, "claims")


def why(subject: Subject, material: Material) -> Html:
    """The one sentence; of bp, which the others are held against, it says so."""
    is_reference = (subject.evidence.rule or "").lower() == "bp" and subject.judgement.verdict == "holds"
    reference = "Reference. " if is_reference else ""
    return said(reference + sentence(subject.judgement, material.audit.thresholds))


def _rules(material: Material, styles: Sequence[Style]) -> Html:
    """What the marks stand for, where no list of subjects tells it."""
    seen: dict[str, Style] = {}
    for subject, style in zip(material.subjects, styles, strict=True):
        seen.setdefault(clip(subject.evidence.rule or subject.name), style)
    shown = [tag("li", key(style), " ", tag("bdi", rule)) for rule, style in list(seen.items())[:24]]
    return tag("ul", *shown, class_="legend", aria_label="Marks")


def validity(material: Material) -> Html:
    """Whether the audit is valid: one line, or what is wrong with it."""
    audit = material.audit
    if not audit.controls:
        return tag("p", tag("b", "No controls. "), said(audit.says), class_="validity none")
    if audit.valid:
        count = len(audit.controls)
        behaved = f"Valid: {'the control' if count == 1 else f'all {count} controls'} behaved. "
        names = "; ".join(f"{clip(control.name)}: {clip(control.got)}" for control in audit.controls)
        return tag("p", tag("b", behaved), names, ".", class_="validity")
    words = tag("b", "This audit is invalid: its verdicts do not count. ")
    reason = said(audit.says.removeprefix("This audit is invalid: "), 4 * LONG)
    return tag("p", words, reason, class_="validity invalid")


def controls(material: Material) -> Html:
    """What is known beforehand, and whether it was found."""
    audit = material.audit
    intro = tag(
        "p", "A control is a subject whose answer is known beforehand: bp must hold, random credit must be walked "
        "back, a net at init must pass, fresh feedback must centre on zero. If one misbehaves, the audit says so of "
        "itself, and its verdicts do not count.",
    )  # fmt: skip
    if not audit.controls:
        missing = "Whether this budget can tell a rule that fails from one that works is therefore not shown."
        return section("controls", "Controls", intro, validity(material), tag("p", missing))
    rows: list[tuple[Child, list[list[Child]]]] = []
    for control in audit.controls:
        sign, word, kind = ("✓", "as it must", "passes") if control.ok else ("✗", "otherwise", "fires")
        behaved = tag("span", tag("span", sign, aria_hidden="true"), f" {word}", class_=f"outcome o-{kind}")
        rows.append((clip(control.name), [[prose(control.expected), said(control.got), behaved]]))
    listed = []
    for subject in material.controls:
        found = subject.judgement.accuracy
        accuracy = f": accuracy {share_said(found.mean, found.std, found.n)}. "
        findings = join([said(finding.says) for finding in subject.judgement.findings], " ")
        listed.append(tag("li", tag("b", name_of(subject)), accuracy, findings))
    beside = (
        [tag("p", "Trained as controls only, and what the checks say of them:"), tag("ul", *listed)] if listed else []
    )
    made = cards("The controls", ("Control", "Must be", "Is", "Behaved"), rows)
    count = len(rows)
    summary = tag("summary", f"What the control{'s were' if count > 1 else ' was'} held to, and what was found")
    return section("controls", "Controls", tag(
        "details", summary, intro, made, *beside, open=not audit.valid
    ))  # fmt: skip
