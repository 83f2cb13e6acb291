"""The evidence: for each subject its verdict, and check by check what it rests on, drawn and told."""

from collections.abc import Callable, Sequence

from walkback.checks import LIMITS, Finding, Outcome, Threshold, check_named
from walkback.records import Moment, NullRecord
from walkback.report import measured
from walkback.report.page.drawing import finals, gain, share_said, states, times
from walkback.report.page.figures import figures
from walkback.report.page.markup import Child, Html, clean, clip, join, num, plain, prose, tag
from walkback.report.page.material import MANY, Material, Style, Subject
from walkback.report.page.overview import why
from walkback.report.page.pieces import (
    LONG,
    anchor,
    figure,
    gamma_said,
    key,
    name_of,
    outcome,
    region,
    said,
    section,
    seeds_of,
    setting,
    shared_setting,
    told_in_part,
    value_of,
    verdict,
)
from walkback.report.page.words import BASES
from walkback.report.summary import followed, most_serious_first, remedy


def evidence(material: Material, styles: Sequence[Style]) -> Html:
    """One part for each subject, most serious first: its verdict, then check by check what it rests on."""
    order = most_serious_first([subject.judgement for subject in material.subjects])
    many = len(order) > MANY
    captions: set[str] = set()
    parts = [
        _folded(material, place, styles[place]) if many else _subject(material, place, styles[place], captions)
        for place in order
    ]
    lead = None
    if many:
        drawn = "Figures are drawn of the checks that fire or are not settled"
        if len(order) > DRAWN:
            drawn = f"Figures of {len(order)} subjects would be too many: write the page of some of them for those"
        lead = tag("p", f"Open a subject for its checks. {drawn}; the table above shows every check against its limit.",
                   class_="quiet")  # fmt: skip
    return section("evidence", "The evidence", lead, *parts)


def _subject(material: Material, place: int, style: Style, captions: set[str]) -> Html:
    subject = material.subjects[place]
    heading = tag("h3", key(style), " ", name_of(subject), " ", verdict(subject), id=anchor(place))
    findings = sorted(subject.judgement.findings, key=_rank)
    checks = [_finding(finding, subject, style, material, captions) for finding in findings]
    return tag(
        "article", heading, *_about(subject, material), *checks, _numbers(subject), class_="subject",
        aria_labelledby=anchor(place),
    )  # fmt: skip


def _folded(material: Material, place: int, style: Style) -> Html:
    """One of many: its sentence, and the rest behind it."""
    subject = material.subjects[place]
    few = len(material.subjects) <= DRAWN
    heading = tag("h3", key(style), " ", name_of(subject), " ", verdict(subject))
    summary = tag("summary", heading, " ", tag("span", why(subject, material), class_="why"))
    checks = [
        _finding(finding, subject, style, material, set()) if _is_open(finding) and few else _line(finding)
        for finding in sorted(subject.judgement.findings, key=_rank)
    ]
    inner = tag("article", *_about(subject, material), *checks, _numbers(subject), id=anchor(place),
                aria_label=subject.name)  # fmt: skip
    return tag(
        "details", summary, inner, class_="subject", data_place=str(place), data_verdict=subject.judgement.verdict
    )


def _about(subject: Subject, material: Material) -> list[Html | None]:
    """What is said above the checks: the name in full where it was cut, the sentence, and what is usually reported."""
    judgement, found = subject.judgement, subject.judgement.accuracy
    whole = clean(judgement.name)
    full = tag("p", "In full: ", tag("bdi", clip(whole, LONG)), class_="quiet") if whole != subject.name else None
    reported = f"Reported: accuracy {share_said(found.mean, found.std, found.n)}; Γ {gamma_said(subject)}."
    shared = shared_setting(material)
    told = [seeds_of(subject)] if shared else [setting(subject), seeds_of(subject)]
    about = "".join(f" {words}." for words in told if words)
    if len(material.subjects) > MANY:
        return [full, tag("p", reported, about, class_="quiet")]
    small = tag("span", f" {reported}", about, class_="quiet")
    return [full, tag("p", why(subject, material), small, class_="lead")]


DRAWN = 60  # of more subjects than that no figures are drawn in their parts
OPEN: Sequence[Outcome] = ("fires", "inconclusive")


def _is_open(finding: Finding) -> bool:
    return finding.outcome in OPEN


def _rank(finding: Finding) -> int:
    return OPEN.index(finding.outcome) if finding.outcome in OPEN else len(OPEN)


def _finding(finding: Finding, subject: Subject, style: Style, material: Material, captions: set[str]) -> Html:
    """A check: open where there is something to see, folded where it passes or does not apply.

    captions   those that stand under open figures already: each is read once
    """
    check, thresholds = check_named(finding.check), material.audit.thresholds
    advice = remedy(finding, subject.judgement, thresholds) if _is_open(finding) else ""
    facts: list[tuple[str, Child]] = [
        ("Means", prose(check.meaning(finding))),
        ("Found", plain(_found(finding))),
        ("Threshold", _threshold(finding, material)),
        ("Same outcome", plain(_stable(finding))),
    ]  # fmt: skip
    open_facts: list[tuple[str, Child]] = [("What to do", prose(advice))] if advice else []
    open_facts += [("First fired", first)] if (first := _first(finding, subject)) else []
    if finding.basis != "exact":
        open_facts.append(("Basis", f"{finding.basis}: {BASES[finding.basis]}"))
    warnings = [tag("li", said(warning)) for warning in finding.warnings]
    found = figures(finding, subject, style, thresholds)
    if _is_open(finding):
        known = set(captions)
        captions |= {f.caption for f in found}
        found = [f._replace(caption="") if f.svg is not None and f.caption in known else f for f in found]
    drawn = [figure(f) for f in found]
    heading = tag("h4", outcome(finding), tag("span", f" {clip(finding.check)}: {check.asks}"))
    more = tag("details", tag("summary", "Meaning and threshold"), tag("dl", *_pairs(facts)), class_="more")
    text = tag(
        "div", tag("p", said(finding.says), class_="says"),
        tag("dl", *_pairs(open_facts)) if open_facts else None,
        tag("ul", *warnings, class_="warnings") if warnings else None, more, class_="text",
    )  # fmt: skip
    body = tag("div", text, tag("div", *drawn, class_="figures"), class_="body")
    if _is_open(finding):
        return tag("div", heading, body, class_="check")
    return tag("details", tag("summary", heading, " ", _brief(finding)), body, class_="check")


def _brief(finding: Finding) -> Html:
    return tag("span", value_of(finding), class_="value")


def _line(finding: Finding) -> Html:
    """A check that passes, of one of many subjects."""
    return tag("p", outcome(finding), f" {clip(finding.check)}: ", said(finding.says), class_="line")


def _pairs(facts: Sequence[tuple[str, Child]]) -> list[Html]:
    return [part for term, fact in facts for part in (tag("dt", term), tag("dd", fact))]


def _found(finding: Finding) -> str:
    """The number, its interval, and what the interval is of."""
    value, low, high, form = finding.value, finding.low, finding.high, check_named(finding.check).form
    if form == "points":
        if value is None:
            return "no number"
        if low is None or high is None:
            return f"{gain(value)} points, without an interval"
        return f"{gain(value)} points; interval of the mean {gain(low)} to {gain(high)}"
    if form == "share":
        return "no number" if low is None or high is None else value_of(finding)
    if value is None:
        return "no number" if low is None else f"at least {num(low)}"
    words = times if form == "times" else num
    before = "at least " if finding.basis == "bound" else ""
    if low is None or high is None or words(low) == words(high):
        return f"{before}{words(value)}"
    return f"{before}{words(value)}, the median; over the seeds {words(low)} to {words(high)}"


def _threshold(finding: Finding, material: Material) -> Html:
    """The thresholds that the check uses, with who set them."""
    told = []
    for name in finding.ranges:
        one = material.audit.thresholds.table.get(name)
        about = ", which is not in the table" if one is None else f" {_value(name, one)}, set by {clip(one.who, 90)}"
        told.append(join([tag("code", clip(name)), about]))
    return join(told, "; ")


def _value(name: str, one: Threshold) -> str:
    form = LIMITS[name].form if name in LIMITS else "number"
    if form == "points":
        return plain(f"{100 * one.value:+g} points")
    return plain(f"{100 * one.value:g}%" if form == "percent" else f"{one.value:g}")


def _stable(finding: Finding) -> str:
    """Which other thresholds would give the same outcome."""
    form = check_named(finding.check).form
    unit = {"points": " points", "share": "%"}.get(form, "")
    factor = 100 if unit else 1
    low, high = (None if end is None else f"{factor * end:.3g}" for end in finding.stable_range)
    if low is None and high is None:
        return "for any threshold"
    if low is None:
        return f"for any threshold below {high}{unit}"
    if high is None:
        return f"for any threshold above {low}{unit}"
    return f"for any threshold between {low} and {high}{unit}"


def _first(finding: Finding, subject: Subject) -> str | None:
    """The epochs of first firing, where a check was followed through training."""
    told = []
    for date in check_named(finding.check).dates:
        fired = subject.judgement.first_fired.get(date.key)
        epochs = {s: e for s, e in fired.epochs.items() if e is not None} if fired and followed(fired) else {}
        if epochs:
            partly = f" ({fired.says})" if fired and told_in_part(fired.says) else ""
            told.append(date.before + ", ".join(f"epoch {e} (seed {s})" for s, e in epochs.items()) + partly)
    return "; ".join(told) or None


def _numbers(subject: Subject) -> Html:
    """The numbers behind the figures, for those who do not see them or want them exactly."""
    seeds = finals(subject.evidence)
    if not seeds:
        return tag(
            "p", "The records behind this judgement are not here: there are no numbers by layer.", class_="absent"
        )
    columns: list[tuple[str, Callable[[Moment], dict[int, str]]]] = [
        ("‖h_l‖", lambda m: {n: num(v) for n, v in states(m, "hidden").items()}),
        ("‖g_l‖", lambda m: {n: num(v) for n, v in states(m, "gradient").items()}),
        ("cos(a_l, g_l)", lambda m: _cosine_cells(m, "cosine")),
        ("cos(a_l, g_{l+1})", lambda m: _cosine_cells(m, "cosine_out")),
        ("null of cos(a_l, g_l)", lambda m: {n: _null(v) for n, v in enumerate(m.null or [])}),
        ("ρ_l", lambda m: {n: num(v) for n, v in enumerate(m.rho or [])}),
        ("nudging", lambda m: {n: num(v) for n, v in enumerate(m.nudging or [])}),
    ]  # fmt: skip
    columns += [(measured.heading(name), _reader(name)) for name in measured.names([m.measured for _, m in seeds])]
    cells = [(title, [of(moment) for _, moment in seeds]) for title, of in columns]
    last = max((max(by_layer, default=-1) for _, those in cells for by_layer in those), default=-1)
    kept = [(title, those) for title, those in cells if any(those)]
    if not kept:
        return tag("p", "No number by layer is known.", class_="absent")
    groups = [tag("th", prose(title), colspan=str(len(seeds)), scope="colgroup") for title, _ in kept]
    names = [tag("th", f"seed {name}", scope="col") for _ in kept for name, _ in seeds]
    rows = [
        tag("tr", tag("th", str(layer), scope="row"),
            *(tag("td", by_layer.get(layer, "–")) for _, those in kept for by_layer in those))
        for layer in range(last + 1)
    ]  # fmt: skip
    caption = "The final net, layer by layer (–: there is no such number)"
    head = tag("thead", tag("tr", tag("th", "l", scope="col", rowspan="2"), *groups), tag("tr", *names))
    made = region(caption, head, tag("tbody", *rows))
    drift = "; ".join(f"seed {s}: {num(v)}" for s, v in subject.judgement.described.drift.items())
    aside = tag(
        "p", prose(f"Described, and not judged: ρ_l, nudging, and the drift of the gradient's direction ({drift}).")
    )
    summary = tag("summary", "The numbers, layer by layer: ", name_of(subject))
    return tag("details", summary, made, aside)


def _reader(name: str) -> Callable[[Moment], dict[int, str]]:
    return lambda m: {n: clip(measured.cell(name, r), 30) for n, r in enumerate(m.measured.get(name, []))}


def _cosine_cells(moment: Moment, kind: str) -> dict[int, str]:
    records = getattr(moment, kind) or []
    return {
        n: "not known" if c is None else plain(f"{c.value:+.4f}") if c.status == "ok" else clip(c.status, 30)
        for n, c in enumerate(records)
    }


def _null(null: NullRecord | None) -> str:
    return "not known" if null is None else plain(f"{round(null.mean, 3) + 0.0:.3f} ± {null.std:.3f}")
