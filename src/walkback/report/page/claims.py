"""The first section, what was claimed and beside it what was found; and the section of the controls."""

from collections.abc import Sequence

from walkback.report.page.drawing import share_said
from walkback.report.page.markup import Child, Html, clip, join, prose, tag
from walkback.report.page.material import Material, Style, Subject
from walkback.report.page.pieces import (
    LONG,
    anchor,
    cards,
    gamma_said,
    key,
    name_of,
    outcome,
    reason,
    said,
    section,
    value_of,
    verdict,
)
from walkback.report.verdicts import asked


def claims(material: Material, styles: Sequence[Style]) -> Html:
    """The two numbers that are usually reported, beside the verdict and what decided it; then all findings."""
    above = tag(
        "tr", tag("td"), tag("th", "What is usually reported", colspan="2", scope="colgroup", role="columnheader"),
        tag("th", "What the audit found", colspan="2", scope="colgroup", role="columnheader"), role="row",
    )  # fmt: skip
    heads = ("Subject", "Accuracy", "Γ", "Verdict", "Decided by")
    links = [tag("a", key(style), " ", name_of(subject), href=f"#{anchor(place)}")
             for place, (subject, style) in enumerate(zip(material.subjects, styles, strict=True))]  # fmt: skip
    rows = []
    for subject in material.subjects:
        found = subject.judgement.accuracy
        accuracy = tag("span", share_said(found.mean, found.std, found.n), class_="value")
        gamma = tag("span", gamma_said(subject), class_="value")
        rows.append([accuracy, gamma, verdict(subject), _decided(subject)])
    checks = asked([subject.judgement for subject in material.subjects])
    glances = [[_glance(subject, check) for check in checks] for subject in material.subjects]
    columns = ("Subject", *map(clip, checks))
    return section(
        "claims", "Claimed and found",
        tag("p", "Work on training without backprop reports two numbers: test accuracy, and Γ, the cosine between the "
            "rule's credit and the true gradient, averaged over the blocks. Both can look fine while the deep blocks "
            "learn nothing. Each is given as mean ± standard deviation over n seeds."),
        cards("Claimed and found, by subject", heads, [(n, [row]) for n, row in zip(links, rows, strict=True)],
              "claims", above),
        cards("The checks at a glance", columns, [(n, [row]) for n, row in zip(links, glances, strict=True)]),
    )  # fmt: skip


def _glance(subject: Subject, check: str) -> Html:
    """The outcome and the number of one check."""
    found = next((finding for finding in subject.judgement.findings if finding.check == check), None)
    if found is None:
        return tag("span", "not asked", class_="value")
    return join([outcome(found), tag("span", value_of(found), class_="value")])


def _decided(subject: Subject) -> Html:
    """The findings that decided, in the words of the checks."""
    judgement = subject.judgement
    by_name = {finding.check: finding for finding in judgement.findings}
    told = [by_name[name] for name in judgement.decided_by if name in by_name]
    if judgement.verdict in ("holds", "not applicable") or not told:
        return reason(subject)
    return join([tag("p", tag("b", f"{clip(finding.check)}: "), said(finding.says)) for finding in told])


def validity(material: Material) -> Html:
    """Whether the audit is valid, in one sentence that stands at the top too."""
    audit = material.audit
    if not audit.controls:
        return tag("p", tag("b", "No controls. "), said(audit.says, 2 * LONG), class_="validity")
    if audit.valid:
        return tag("p", tag("b", "Valid. "), said(audit.says), class_="validity")
    words = tag("b", "This audit is invalid: its verdicts do not count. ")
    why = said(audit.says.removeprefix("This audit is invalid: "), 4 * LONG)
    return tag("p", words, why, class_="validity invalid")


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
    told = []
    for subject in material.controls:
        found = subject.judgement.accuracy
        accuracy = f": accuracy {share_said(found.mean, found.std, found.n)}. "
        findings = join([said(finding.says) for finding in subject.judgement.findings], " ")
        told.append(tag("li", tag("b", name_of(subject)), accuracy, findings))
    beside = [tag("p", "Trained as controls only, and what the checks say of them:"), tag("ul", *told)] if told else []
    made = cards("The controls", ("Control", "Must be", "Is", "Behaved"), rows)
    return section("controls", "Controls", intro, validity(material), made, *beside)
