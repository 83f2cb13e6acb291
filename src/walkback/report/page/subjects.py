"""The evidence: for each subject its verdict, and check by check what it rests on, drawn and in words."""

import statistics
from collections.abc import Callable, Mapping, Sequence
from typing import NamedTuple

from walkback.checks import LIMITS, Basis, Check, Finding, Outcome, Protocol, Threshold, Thresholds, check_named
from walkback.records import Moment, NullRecord
from walkback.records.schema import ReadingRecord
from walkback.report import measured
from walkback.report.answers import Answer, answers, effort_words, gains_words
from walkback.report.case import Case, gammas_of
from walkback.report.page.drawing import Figure, gain, states, times
from walkback.report.page.figures import figures
from walkback.report.page.markup import LONG, clean, clip, num, plain
from walkback.report.page.svg import Style
from walkback.report.summary import remedy, sentence

BASES: Mapping[Basis, str] = {
    "exact": "everything that the check asks for is known",
    "bound": "not everything is known; what is known settles the outcome, or narrows it",
    "proxy": "something else was measured instead",
    "missing": "nothing is known",
}
DRAWN = 60  # of more subjects than that no figures are drawn in their parts
OPEN: Sequence[Outcome] = ("fires", "open", "inconclusive")


class CheckView(NamedTuple):
    """A check: open where there is something to see, folded where it passes, does not apply or decides nothing.

    facts    what is seen at once; more: what is behind a fold
    symptom  it explains and decides nothing
    limits   the thresholds that the check uses, with their value and who set them
    figures  none: the check is one line
    """

    finding: Finding
    check: Check
    open: bool
    symptom: bool
    facts: Sequence[tuple[str, str]]
    more: Mapping[str, str]
    limits: Sequence[tuple[str, str]]
    figures: Sequence[Figure] | None


class Numbers(NamedTuple):
    """The numbers behind the figures, for readers who do not see them or want them exactly."""

    seeds: Sequence[str]
    titles: Sequence[str]
    rows: Sequence[Sequence[str]]
    drift: str


class SubjectView(NamedTuple):
    """One subject; `full` is its name where that was cut.

    answers  accuracy, lower half and Γ; gains: over frozen and shallow; effort: how the rates were chosen
    """

    place: int
    case: Case
    style: Style
    full: str
    why: str
    gamma: str
    answers: Sequence[Answer]
    gains: Sequence[str]
    effort: str
    checks: Sequence[CheckView]
    numbers: Numbers | None


def why(case: Case, thresholds: Thresholds) -> str:
    """The one sentence; of bp, which the others are held against, it says so."""
    is_reference = (case.evidence.rule or "").lower() == "bp" and case.judgement.verdict == "holds"
    return ("Reference. " if is_reference else "") + sentence(case.judgement, thresholds)


def subject_views(
    cases: Sequence[Case], styles: Sequence[Style], order: Sequence[int], thresholds: Thresholds, many: bool
) -> list[SubjectView]:
    """One for each subject, most serious first. Of few subjects a caption under open figures is read once."""
    captions: set[str] = set()
    found = []
    for place in order:
        case, style = cases[place], styles[place]
        checks = []
        for finding in sorted(case.judgement.findings, key=lambda f: _rank(f, case.judgement.protocol)):
            drawn = not many or (finding.outcome in OPEN and len(cases) <= DRAWN)
            made = figures(finding, case, style, thresholds) if drawn else None
            if made is not None and finding.outcome in OPEN and not many:
                known, captions = captions, captions | {figure.caption for figure in made}
                made = [f._replace(caption="") if f.svg is not None and f.caption in known else f for f in made]
            checks.append(_check(finding, case, thresholds, made))
        full = clip(case.judgement.name, LONG) if clean(case.judgement.name) != case.name else ""
        judged = case.judgement
        beside = (answers(judged), gains_words(judged), effort_words(judged))
        about = (full, why(case, thresholds), _gamma(case), *beside)
        found.append(SubjectView(place, case, style, *about, checks, _numbers(case)))
    return found


def _rank(finding: Finding, protocol: Protocol) -> tuple[bool, int]:
    """What fires first, then what is open; after all that, by our protocol, what decides nothing."""
    return symptom(finding, protocol), OPEN.index(finding.outcome) if finding.outcome in OPEN else len(OPEN)


def symptom(finding: Finding, protocol: Protocol) -> bool:
    """Whether a check explains an answer and decides none: by the published protocol every check decides."""
    return protocol == "ours" and check_named(finding.check).answer == "symptom"


def _check(finding: Finding, case: Case, thresholds: Thresholds, drawn: Sequence[Figure] | None) -> CheckView:
    check, note = check_named(finding.check), symptom(finding, case.judgement.protocol)
    is_open = finding.outcome in OPEN and not note  # what a symptom says stands above the checks
    advice = remedy(finding, case.judgement, thresholds) if finding.outcome in OPEN else ""
    basis = "" if finding.basis == "exact" else f"{finding.basis}: {BASES[finding.basis]}"
    facts = [("What to do", advice), ("First fired", _first(check, case)), ("Basis", basis)]
    more = {"Means": check.meaning(finding), "Found": _found(finding), "Same outcome": _stable(finding)}
    limits = [(name, _limit(name, thresholds.table.get(name))) for name in finding.ranges]
    return CheckView(finding, check, is_open, note, [(k, v) for k, v in facts if v], more, limits, drawn)


def value_of(finding: Finding) -> str:
    """A finding's number in the words of its check."""
    value, low, high, check = finding.value, finding.low, finding.high, check_named(finding.check)
    if check.form == "share" and low is not None and high is not None:
        share = f"{100 * high:.0f}%" if low == high else f"{100 * low:.0f} to {100 * high:.0f}%"
        return plain(f"{share} {check.share_of}".rstrip())
    if value is None:
        return "no number"
    if check.form == "times":
        return times(value)
    if check.form == "points":
        return plain(f"{gain(value)} points")
    if check.form == "share":
        return plain(f"{100 * value:.0f}% {check.share_of}".rstrip())
    return f"{check.noun(finding)} {num(value, 2)}".lstrip()


def _found(finding: Finding) -> str:
    """The number, its interval, and what the interval is of."""
    value, low, high, form = finding.value, finding.low, finding.high, check_named(finding.check).form
    if form == "share":
        return value_of(finding)
    if value is None:
        return "no number" if low is None or form == "points" else f"at least {num(low)}"
    if form == "points":
        if low is None or high is None:
            return f"{gain(value)} points, without an interval"
        return f"{gain(value)} points; interval of the mean {gain(low)} to {gain(high)}"
    words = times if form == "times" else num
    mean = check_named(finding.check).spread == "mean"
    before = "at least " if finding.basis == "bound" and not mean else ""
    if low is None or high is None or words(low) == words(high):
        return f"{before}{words(value)}"
    if mean:
        return f"{words(value)}; interval of the mean {words(low)} to {words(high)}"
    return f"{before}{words(value)}, the median; over the seeds {words(low)} to {words(high)}"


def _limit(name: str, one: Threshold | None) -> str:
    if one is None:
        return ", which is not in the table"
    form = LIMITS[name].form if name in LIMITS else "number"
    value = {"points": f"{100 * one.value:+g} points", "percent": f"{100 * one.value:g}%"}.get(form, f"{one.value:g}")
    return f" {plain(value)}, set by {clip(one.who, 90)}"


def _stable(finding: Finding) -> str:
    """Which other thresholds would give the same outcome."""
    unit = {"points": " points", "share": "%"}.get(check_named(finding.check).form, "")
    low, high = (None if end is None else f"{(100 if unit else 1) * end:.3g}" for end in finding.stable_range)
    if low is None and high is None:
        return "for any threshold"
    if low is None:
        return f"for any threshold below {high}{unit}"
    return (
        f"for any threshold above {low}{unit}" if high is None else f"for any threshold between {low} and {high}{unit}"
    )


def _first(check: Check, case: Case) -> str:
    """The epochs of first firing, where a check was followed through training."""
    words = []
    for date in check.dates:
        fired = case.judgement.first_fired.get(date.key)
        epochs = {s: e for s, e in fired.epochs.items() if e is not None} if fired and fired.followed else {}
        if epochs:
            partly = f" ({fired.says})" if fired and fired.in_part else ""
            words.append(date.before + ", ".join(f"epoch {e} (seed {s})" for s, e in epochs.items()) + partly)
    return "; ".join(words)


def _gamma(case: Case) -> str:
    values = gammas_of(case)
    if not values:
        return "not known"
    spread = f" ± {statistics.stdev(values):.3f}" if len(values) > 1 else ""
    return plain(f"{statistics.fmean(values):.3f}{spread} (n = {len(values)})")


def _numbers(case: Case) -> Numbers | None:
    """None where no number by layer is known."""
    columns: list[tuple[str, Callable[[Moment], Mapping[int, str]]]] = [
        ("‖h_l‖", lambda m: {n: num(v) for n, v in states(m, "hidden").items()}),
        ("‖g_l‖", lambda m: {n: num(v) for n, v in states(m, "gradient").items()}),
        ("cos(a_l, g_l)", lambda m: _cosine_cells(m, "cosine")),
        ("cos(a_l, g_{l+1})", lambda m: _cosine_cells(m, "cosine_out")),
        ("null of cos(a_l, g_{l+1})", lambda m: {n: _null(v) for n, v in enumerate(m.rotated or [])}),
        ("⟨A, G⟩ / (‖A‖ ‖G‖)", lambda m: {n: _reading(v) for n, v in enumerate(m.frobenius or [])}),
        ("null of cos(a_l, g_l)", lambda m: {n: _null(v) for n, v in enumerate(m.null or [])}),
        ("ρ_l", lambda m: {n: num(v) for n, v in enumerate(m.rho or [])}),
        ("nudging", lambda m: {n: num(v) for n, v in enumerate(m.nudging or [])}),
    ]  # fmt: skip
    columns += [(measured.heading(name), _reader(name)) for name in measured.names([m.measured for m in case.finals])]
    cells = [(title, [of(moment) for moment in case.finals]) for title, of in columns]
    kept = [(title, by_layers) for title, by_layers in cells if any(by_layers)]
    if not kept:
        return None
    last = max(max(by_layer, default=-1) for _, by_layers in kept for by_layer in by_layers)
    rows = [
        [str(layer), *(by_layer.get(layer, "–") for _, by_layers in kept for by_layer in by_layers)]
        for layer in range(last + 1)
    ]  # fmt: skip
    drift = "; ".join(f"seed {s}: {num(v)}" for s, v in case.judgement.described.drift.items())
    return Numbers(case.evidence.labels(), [title for title, _ in kept], rows, drift)


def _reader(name: str) -> Callable[[Moment], dict[int, str]]:
    return lambda m: {n: clip(measured.cell(name, r), 30) for n, r in enumerate(m.measured.get(name, []))}


def _cosine_cells(moment: Moment, kind: str) -> dict[int, str]:
    records = getattr(moment, kind) or []
    return {
        n: "not known" if c is None else plain(f"{c.value:+.4f}") if c.status == "ok" else clip(c.status, 30)
        for n, c in enumerate(records)
    }


def _reading(reading: ReadingRecord | None) -> str:
    if reading is None:
        return "not known"
    return plain(f"{reading.value:+.4f}") if reading.status == "ok" else clip(reading.status, 30)


def _null(null: NullRecord | None) -> str:
    return "not known" if null is None else plain(f"{round(null.mean, 3) + 0.0:.3f} ± {null.std:.3f}")
