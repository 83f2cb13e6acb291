"""What the blocks bring: the penalty, the ladder, the net at init; and the transformer."""

import statistics
from collections.abc import Mapping, Sequence

from walkback.checks import DEFAULT, reference, scale
from walkback.checks.finding import listed
from walkback.checks.reference import FLOOR
from walkback.records import Baseline, BaselineName, evidence_of_runs
from walkback.report import published as theirs
from walkback.report.agreement import (
    MISSING,
    Told,
    of_direction,
    of_fact,
    of_number,
    of_range,
    of_size,
    of_spread,
    ratio_to,
    together,
)
from walkback.report.numbers import number
from walkback.report.tables import Cell, Form, text
from walkback.studies.quantities import accuracy, deep_cosine, largest_growth
from walkback.studies.reproduced.firings import D1, D2, D2_LOG, LOG, by_seed, first
from walkback.studies.reproduced.found import NAMES, RULES, Found, Group, alive, last_gradient, last_hidden, paired
from walkback.studies.reproduced.main_audit import depth_against
from walkback.studies.reproduced.words import (
    DASH,
    Ledger,
    bullets,
    claimed,
    is_,
    margin,
    seeds_counted,
    size,
    stat,
    table,
)

LADDERS = ((256, 4, 100), (512, 2, 30))  # width, blocks, epochs
PENALTIES = (0.0, 1e-4, 1e-3, 1e-2, 1e-1)
UNPUBLISHED = ("cb", "sb")  # tried with the same penalty, of which nothing is published
LAMBDA, SHORT, LONG = theirs.PENALTY, theirs.PENALTY_EPOCHS, 100


def penalised(found: Found, rule: str, strength: float, epochs: int = SHORT) -> Group:
    """The runs of one rule with that λ."""
    return found.group(rule, penalty=strength, epochs=epochs)


def penalty(found: Found, ledger: Ledger) -> list[str]:
    """λ‖f_l‖² beside the published figures, what the checks say of it, and the whole grid."""
    rows: list[list[Cell]] = []

    def row(name: str, claim: str, ours: Sequence[float], form: Form, told: Told) -> None:
        rows.append([name, claim, stat(ours, form), str(len(ours)), ledger.add(name, told)])

    for rule in ("dfa", "bp"):
        for strength, claims in ((0.0, theirs.PENALTY_WITHOUT), (LAMBDA, theirs.PENALTY_WITH)):
            ours = penalised(found, rule, strength).last(accuracy)
            name = f"{NAMES[rule]} accuracy, λ = {strength:g}, {SHORT} epochs"
            row(name, claimed(claims[rule]), ours, "share", of_spread(claims[rule], ours))
    dfa, batch, floor = penalised(found, "dfa", LAMBDA), DEFAULT["reference.batch"], DEFAULT[FLOOR]
    at, h = theirs.PENALTY_GRADIENT.at(batch), theirs.PENALTY_HIDDEN
    hidden, gradient, cosine = dfa.last(last_hidden), dfa.last(last_gradient), alive(dfa.last(deep_cosine))
    row(f"DFA ‖h_L‖, λ = {LAMBDA:g}", h.words, hidden, "size", of_size(h, hidden))
    row(f"DFA ‖g_L‖, λ = {LAMBDA:g}", f"{at:.1e}", gradient, "size", of_size(at, gradient))
    told = of_number(theirs.PENALTY_DEEP_COSINE, cosine, "cosine")
    row(f"DFA deep cosine, λ = {LAMBDA:g}", f"{theirs.PENALTY_DEEP_COSINE:+.2f}", cosine, "cosine", told)
    long = penalised(found, "dfa", LAMBDA, LONG).last(accuracy)
    told = of_spread(theirs.PENALTY_LONG, long)
    row(f"DFA accuracy, λ = {LAMBDA:g}, {LONG} epochs", claimed(theirs.PENALTY_LONG), long, "share", told)
    for rule in UNPUBLISHED:
        for strength in (0.0, LAMBDA):
            ours = penalised(found, rule, strength).last(accuracy)
            name = f"{NAMES[rule]} accuracy, λ = {strength:g}, {SHORT} epochs"
            rows.append([name, DASH, stat(ours), str(len(ours)), DASH])
    raw = theirs.PENALTY_GRADIENT
    return [
        f"λ‖f_l‖² on every block. ‖g_L‖ is published as {raw.norm:.0e} at N = {raw.batch}. ‖g‖ goes with 1/N, so at N "
        f"= {batch:g} it is {at:.1e}: {number(at / floor, 3)} times the floor of {floor:g}, which is stated for N = "
        f"{batch:g}, and not {number(raw.norm / floor, 2)} times. Deep cosine: the mean over the blocks l ≥ 1.",
        table(["", "published", "ours", "n", "ours to published"], rows),
        bullets([*_helps(found, ledger), *_repairs(found, ledger)]),
        f"The whole grid, ours, {SHORT} epochs (n: seeds of DFA, of BP):",
        _grid(found),
    ]


def _helps(found: Found, ledger: Ledger) -> list[str]:
    said = []
    for rule, sign, label in (("dfa", 1, "the penalty helps DFA"), ("bp", -1, "the penalty costs BP")):
        gains = paired(penalised(found, rule, LAMBDA), penalised(found, rule, 0.0))
        words = ledger.add(label, of_direction([*gains.values()], sign))
        said.append(f"Published: {label}. Ours, λ = {LAMBDA:g} over λ = 0: {words}.")
    for rule in UNPUBLISHED:
        gains = paired(penalised(found, rule, LAMBDA), penalised(found, rule, 0.0))
        over = text(margin([*gains.values()]))
        said.append(f"{NAMES[rule]}, of which nothing is published. Ours, λ = {LAMBDA:g} over λ = 0, points: {over}.")
    return said


def _repairs(found: Found, ledger: Ledger) -> list[str]:
    """What D1 and D2 say of DFA with the penalty, and D3 for either budget."""
    said, dfa = [], penalised(found, "dfa", LAMBDA)
    evidence = evidence_of_runs("DFA", dfa.runs) if dfa.n else None
    for words, check in (("D1 does not fire", scale), ("D2 does not fire", reference)):
        label, told = f"with the penalty {words}", MISSING
        if evidence is not None:
            outcome = check(evidence, DEFAULT, "published").outcome
            told = of_fact(None if outcome == "inconclusive" else outcome != "fires", f"it {is_(outcome)}")
        said.append(f"Published: {label}, or nearly. Ours, published protocol: {ledger.add(label, told, dfa.n)}.")
    return [*said, *(_still(found, ledger, epochs) for epochs in (SHORT, LONG))]


def _still(found: Found, ledger: Ledger, epochs: int) -> str:
    """What D3 says of DFA with the penalty, after so many epochs, against the frozen net of as many."""
    dfa, frozen = penalised(found, "dfa", LAMBDA, epochs), found.group("dfa", k=0, epochs=epochs)
    bp, frozen_bp = penalised(found, "bp", 0.0, epochs), found.group("bp", k=0, epochs=epochs)
    label, margins = f"with the penalty D3 still fires, {epochs} epochs", paired(dfa, frozen)
    theirs_ = 100 * (theirs.PENALTY_LONG.mean - theirs.ACCURACY["dfa k=0"].mean)
    claim = f"{label} ({theirs_:+.1f} points over the frozen net)" if epochs == LONG else label
    if not margins:
        return f"Published: {claim}. Ours: {ledger.add(label, MISSING)}."
    given: dict[BaselineName, Baseline] = {}
    if bp.n and frozen_bp.n:
        given = {"bp": Baseline.by_seed(bp.accuracy()), "frozen_bp": Baseline.by_seed(frozen_bp.accuracy())}
    ours, published = depth_against(evidence_of_runs("DFA", dfa.runs, baselines=given), frozen.accuracy())
    told = of_fact(published.outcome == "fires", f"it {is_(published.outcome)}, {seeds_counted(len(margins))}")
    return (
        f"Published: {claim}. Ours, published protocol: {ledger.add(label, told, len(margins))}; "
        f"{text(margin([*margins.values()]))} points over the frozen net, whose rest DFA trained without penalty. By "
        f"our protocol depth {is_(ours.outcome)}."
    )


def _grid(found: Found) -> str:
    rows: list[list[Cell]] = []
    for strength in PENALTIES:
        dfa, bp = penalised(found, "dfa", strength), penalised(found, "bp", strength)
        rows.append([
            f"{strength:g}", stat(dfa.last(accuracy)), stat(bp.last(accuracy)), stat(dfa.last(last_hidden), "size"),
            stat(dfa.last(largest_growth), "size"), stat(dfa.last(last_gradient), "size"),
            stat(alive(dfa.last(deep_cosine)), "cosine"), f"{dfa.n}, {bp.n}",
        ])  # fmt: skip
    headings = ["λ", "DFA accuracy", "BP accuracy", "DFA ‖h_L‖", "DFA growth", "DFA ‖g_L‖", "DFA deep cosine", "n"]
    return table(headings, rows)


def ladder(found: Found, ledger: Ledger) -> list[str]:
    """Accuracy against the number of trained blocks, and the published statements about it."""
    parts = ["Accuracy with the last k blocks trained. The anchors are published without a spread."]
    for width, blocks, epochs in LADDERS:
        rungs = {
            rule: [
                found.group(rule, k=k, epochs=epochs, net_options={"width": width, "depth": blocks})
                for k in range(blocks + 1)
            ]
            for rule in RULES
        }
        rows: list[list[Cell]] = [
            [NAMES[rule], *(stat(g.last(accuracy)) for g in groups), " ".join(str(g.n) for g in groups)]
            for rule, groups in rungs.items()
        ]
        main = (width, blocks, epochs) == LADDERS[0]
        where = f"d = {width}"
        said = _anchors(found, ledger) if main else []
        said += [_climb(ledger, rungs["bp"], where), _best_at_zero(ledger, rungs["dfa"], where)]
        said.append(_fa_part(ledger, rungs, where) if main else _fa_nothing(ledger, rungs["fa"], where))
        parts += [
            f"d = {width}, L = {blocks}, {epochs} epochs:",
            table(["", *(f"k = {k}" for k in range(blocks + 1)), "seeds by k"], rows),
            bullets(said),
        ]
    return parts


def _anchors(found: Found, ledger: Ledger) -> list[str]:
    told = []
    for key, claim in theirs.LADDER_ANCHORS.items():
        rule, _, frozen = key.partition(" ")
        name = NAMES[rule] + (" k = 0" if frozen else "")
        ours = found.group(rule, k=0 if frozen else None).last(accuracy)
        told.append(f"{name} {claim:.3f} ({ledger.add(f'ladder anchor {name}', of_number(claim, ours))})")
    return [f"Published anchors: {'; '.join(told)}."]


def _climb(ledger: Ledger, rungs: Sequence[Group], where: str) -> str:
    label = f"BP's climb from k = 0 to k = L at {where}"
    told = of_range(*theirs.LADDER_CLIMB, [*paired(rungs[-1], rungs[0]).values()])
    return f"{label}, in points: {ledger.add(label, told)}."


def _best_at_zero(ledger: Ledger, rungs: Sequence[Group], where: str) -> str:
    label = f"DFA is best at k = 0 at {where}"
    over = {k: [*paired(group, rungs[0]).values()] for k, group in enumerate(rungs) if k}
    parts = {k: of_direction(gains, -1) for k, gains in over.items() if gains}
    missing = [f"k = {k}" for k in over if k not in parts]
    kind = together([*parts.values()])
    # With rungs missing it cannot be shown; what is there may still deny it.
    ledger.add(label, Told("leaning" if kind == "borne out" and missing else kind, ""))
    told = [f"k = {k}: {part.words}" for k, part in parts.items()]
    lacking = f" Missing: {listed(missing)}." if missing else ""
    return f"Published: {label}, and falls once any block trains. Ours, over k = 0: {'; '.join(told) or DASH}.{lacking}"


def _fa_part(ledger: Ledger, rungs: dict[str, list[Group]], where: str) -> str:
    label = f"FA gains a part of what BP does at {where}"
    fa, bp = (paired(rungs[rule][-1], rungs[rule][0]) for rule in ("fa", "bp"))
    rises, less = (
        of_direction([*fa.values()], 1),
        of_direction([v - bp[seed] for seed, v in fa.items() if seed in bp], -1),
    )
    both = MISSING if MISSING in (rises, less) else Told(together([rises, less]), "")
    ledger.add(label, both)
    return f"Published: {label}. Ours, from k = 0 to k = L: {rises.words}; over BP's gain: {less.words}."


def _fa_nothing(ledger: Ledger, rungs: Sequence[Group], where: str) -> str:
    label, least = f"FA gains nothing at {where}", DEFAULT["depth.margin"]
    told = of_direction([*paired(rungs[-1], rungs[0]).values()], -1, least)
    return f"Published: {label}. Ours, with less than {100 * least:g} points for nothing: {ledger.add(label, told)}."


def init(found: Found, ledger: Ledger) -> list[str]:
    """How near the blocks are to the identity before anything trains, and the norms then."""
    group = found.group("bp", k=0)
    records = [run.identity for run in group.runs if run.identity is not None]
    begin = [run.snapshots[0] for run in group.runs if run.snapshots[0].epoch == 0]
    blocks = range(group.config.blocks)
    quantities: list[tuple[str, theirs.Between, list[float], str]] = [
        *((f"‖f_{b}‖/‖h_{b}‖", theirs.IDENTITY_BRANCH, [r.branch[b] for r in records], ".3f") for b in blocks),
        ("‖h_L − h_0‖/‖h_0‖", theirs.IDENTITY_MOVED, [r.moved for r in records], ".3f"),
        ("cos(h_L, h_0)", theirs.IDENTITY_COSINE, [r.cosine for r in records], ".3f"),
        ("‖h_L‖", theirs.INIT_HIDDEN, [s.hidden_norms[-1] for s in begin], ".2f"),
        ("‖g_L‖", theirs.INIT_GRADIENT, [s.gradient_norms[-1] for s in begin], ".1e"),
    ]
    rows: list[list[Cell]] = []
    for name, claim, ours, shape in quantities:
        spread = f" ({min(ours):{shape}}–{max(ours):{shape}})" if len(ours) > 1 else ""
        shown = f"{statistics.fmean(ours):{shape}}{spread}" if ours else "missing"
        told = of_size(claim, ours)
        ledger.add("identity at init" if told is MISSING and name[-2:] != "L‖" else f"{name} at init", told)
        ratio = f"{ratio_to(claim, ours):.2f}" if ours else "missing"
        rows.append([name, claim.words, shown, str(len(ours)), ratio, told.words])
    images = listed([str(n) for n in sorted({r.images for r in records})]) if records else "256"
    return [
        "Before anything trains: how near the blocks are to doing nothing, which is why a frozen net is no strawman. "
        f"Medians over the first {images} test images; the two norms over those of every snapshot. Mean, smallest and "
        "largest seed. Ratio: ours to the published figure, or to the nearer end of its range.",
        table(["", "published", "ours", "n", "ratio", "ours to published"], rows),
    ]


def vit(found: Found, ledger: Ledger) -> list[str]:
    """The transformer, of which two figures are published."""
    rows: list[list[Cell]] = []
    most, by = theirs.HEALTHY_GROWTH_VIT, theirs.VIT_FIRST_FLOOR
    grown: list[float] = []
    dfa: dict[str, dict[int, int | None]] = {D2: {}, D2_LOG: {}}
    for epochs in found.epochs_of("vit-mini"):
        for rule in RULES:
            group = found.group(rule, net="vit-mini", epochs=epochs, wanted=False)
            if not group.n:
                continue
            largest = [max(largest_growth(s) for s in run.snapshots) for run in group.runs]
            grown += largest if rule == "bp" else []
            dates = first(group)
            if rule == "dfa":
                for code, of_code in dfa.items():
                    of_code.update(dates[code])
            rows.append([
                NAMES[rule], str(epochs), stat(group.last(accuracy)), stat(group.last(last_hidden), "size"),
                stat(group.last(last_gradient), "size"), stat(largest, "size"),
                *(by_seed(dates[code]) for code in (D1, D2, D2_LOG)), str(group.n),
            ])  # fmt: skip
    label = f"growth of BP in a ViT is at most {most:g}"
    told = of_fact(max(grown) <= most, f"{size(max(grown))} at most, at any epoch") if grown else MISSING
    words = ledger.add(label, told, len(grown))
    fires = {code: _fired_by(dates, by) for code, dates in dfa.items()}
    date = f"D2 fires of DFA in a ViT within {by} epochs"
    dated = ledger.add(f"{date}, at N = {LOG}", fires[D2_LOG], len(dfa[D2_LOG]))
    headings = ["", "epochs", "accuracy", "‖h_L‖", "‖g_L‖", "largest growth at any epoch", "first D1"]
    return [
        "4 blocks, d = 128, norms at the cls token. Of the figures typed in here two are of it: over one block the "
        f"stream of a healthy ViT grows by at most {most:g}, early in training; D2 fires of DFA within the first {by} "
        "epochs, in a log like those of *First firings*.",
        *([table([*headings, f"first {D2}", f"first {D2_LOG}", "n"], rows)] if rows else []),
        bullets([
            f"Published: {label}. Ours: {words}.",
            f"Published: {date}. Ours at N = {LOG}: {dated}; at N = {DEFAULT['reference.batch']:g}: {fires[D2].words}.",
        ]),
    ]  # fmt: skip


def _fired_by(dates: Mapping[int, int | None], epoch: int) -> Told:
    if not dates:
        return MISSING
    return of_fact(all(date is not None and date <= epoch for date in dates.values()), by_seed(dates))
