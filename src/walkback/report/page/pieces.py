"""Small pieces that every section of the page is made of: names, signs, sentences, figures, tables."""

import re
import statistics
from collections.abc import Iterable, Sequence

from walkback.checks import Finding, VerdictName, check_named
from walkback.checks.finding import seeds_said
from walkback.report.page.drawing import Figure, finals, gain, times
from walkback.report.page.markup import Child, Html, clip, num, plain, prose, tag
from walkback.report.page.material import Material, Style, Subject
from walkback.report.page.svg import drawable, mark
from walkback.report.page.words import VERDICTS
from walkback.report.sizes import net_sizes
from walkback.report.verdicts import GLYPHS

LONG = 600  # characters of a stranger's sentence that are shown


def name_of(subject: Subject) -> Html:
    """A subject's name, kept from turning the direction of what stands beside it."""
    return tag("bdi", subject.name)


def anchor(place: int) -> str:
    """The id of a subject's part: by place, because a name may be anything."""
    return f"subject-{place + 1}"


def key(style: Style) -> Html:
    """A subject's mark, as it stands in the figures."""
    drawn = tag("g", mark(style.shape, 6, 6, class_="m", r=4.2), class_=style.class_)
    return tag("svg", drawn, class_="key", viewBox="0 0 12 12", aria_hidden="true")


def said(sentence: str, most: int = LONG) -> Html:
    """A sentence that may be a stranger's: of any length, and perhaps without a space in it."""
    return tag("span", prose(clip(sentence, most)), class_="free")


def verdict(subject: Subject) -> Html:
    """The verdict as a sign and a word; struck out where it does not count."""
    word = subject.judgement.verdict
    sign = tag("span", VERDICTS[word], aria_hidden="true")
    if not subject.counts:
        return tag("strong", tag("s", sign, f" {word}"), tag("span", " does not count"), class_="verdict v-void")
    return verdict_words(word)


def verdict_words(word: VerdictName) -> Html:
    """A verdict that counts."""
    sign = tag("span", VERDICTS[word], aria_hidden="true")
    return tag("strong", sign, f" {word}", class_=f"verdict v-{word.replace(' ', '-')}")


def outcome(finding: Finding) -> Html:
    """An outcome as a sign and a word."""
    sign = tag("span", GLYPHS[finding.outcome], aria_hidden="true")
    return tag("span", sign, f" {finding.outcome}", class_=f"outcome o-{finding.outcome.replace(' ', '-')}")


def value_of(finding: Finding) -> str:
    """A finding's number in the words of its check."""
    value, low, high, check = finding.value, finding.low, finding.high, check_named(finding.check)
    if check.form == "share" and low is not None and high is not None:
        told = f"{100 * high:.0f}%" if low == high else f"{100 * low:.0f} to {100 * high:.0f}%"
        return plain(f"{told} {check.share_of}".rstrip())
    if value is None:
        return "no number"
    if check.form == "times":
        return times(value)
    if check.form == "points":
        return plain(f"{gain(value)} points")
    if check.form == "share":
        return plain(f"{100 * value:.0f}% {check.share_of}".rstrip())
    return f"{check.noun(finding)} {num(value, 2)}".lstrip()


def gamma_said(subject: Subject) -> str:
    """Γ over the seeds."""
    values = [m.gamma for _, m in finals(subject.evidence) if m.gamma is not None and drawable(m.gamma)]
    if not values:
        return "not known"
    spread = f" ± {statistics.stdev(values):.3f}" if len(values) > 1 else ""
    return plain(f"{statistics.fmean(values):.3f}{spread} (n = {len(values)})")


def setting(subject: Subject) -> str:
    """What was trained, in a line; empty if the runs are not here."""
    if not subject.runs:
        return ""
    c = subject.runs[0].config
    return f"{clip(c.data)}, {clip(c.net)} with {net_sizes(c)}, {c.epochs} epochs"


def seeds_of(subject: Subject) -> str:
    """Its seeds, by name; empty if the runs are not here."""
    names = [str(run.config.seed) for run in subject.runs]
    return seeds_said(names).capitalize() if names else ""


def shared_setting(material: Material) -> str:
    """What all subjects were trained on, which the top of the page says once; empty if that is not one thing."""
    found = {setting(subject) for subject in material.subjects}
    return found.pop() if len(found) == 1 else ""


def told_in_part(says: str) -> bool:
    """Whether a sentence of `first_fired` says that not every moment could tell."""
    found = re.match(r"told at (\d+) of (\d+) moments", says)
    return found is not None and found[1] != found[2]


def figure(drawn: Figure) -> Html:
    """A figure with its caption; without a drawing, the sentence that says why."""
    caption = prose(drawn.caption) if drawn.caption else None
    if drawn.svg is None:
        return tag("p", caption, class_="absent")
    return tag("figure", drawn.svg, tag("figcaption", caption) if caption else None)


def section(identity: str, title: str, *children: Child) -> Html:
    """A section of the page with its heading."""
    return tag("section", tag("h2", title, id=identity), *children, aria_labelledby=identity)


def cards(
    caption: str,
    heads: Sequence[str],
    groups: Iterable[tuple[Child, Sequence[Sequence[Child]]]],
    class_: str = "",
    above: Html | None = None,
) -> Html:
    """A table that turns into cards on a narrow screen. Its roles are said, because it then is no table in CSS.

    groups   the heading of one row, or of several, and the other cells of each
    above    a row of headings above the headings
    """
    columns = tag("tr", *(tag("th", head, scope="col", role="columnheader") for head in heads), role="row")
    bodies = []
    for name, rows in groups:
        several = {"scope": "rowgroup", "rowspan": str(len(rows))} if len(rows) > 1 else {"scope": "row"}
        for place, row in enumerate(rows):
            first = tag("th", name, role="rowheader", **several) if place == 0 else None
            cells = [tag("td", tag("div", cell), role="cell", data_label=head)
                     for head, cell in zip(heads[1:], row, strict=True)]  # fmt: skip
            bodies.append(tag("tr", first, *cells, role="row"))
    parts = [tag("thead", above, columns, role="rowgroup"), tag("tbody", *bodies, role="rowgroup")]
    return tag("table", tag("caption", caption), *parts, class_=f"cards {class_}".rstrip(), role="table")


def dense(caption: str, head: Sequence[Child], rows: Iterable[Sequence[Child]]) -> Html:
    """A table of many numbers, whose first cell names its row; it scrolls by itself."""
    headings = [tag("th", cell, scope="col") for cell in head]
    body = [tag("tr", tag("th", row[0], scope="row"), *(tag("td", cell) for cell in row[1:])) for row in rows]
    return region(caption, tag("thead", tag("tr", *headings)), tag("tbody", *body))


def region(caption: str, *parts: Html) -> Html:
    """A table that may be wider than the page, in a part of it that scrolls and that a keyboard reaches.

    A group, not a landmark: there may be two for each subject, and landmarks are for finding the way.
    """
    made = tag("table", tag("caption", caption), *parts, class_="dense")
    return tag("div", made, class_="scroll", role="group", aria_label=caption, tabindex="0")
