"""Layer by layer: the size of the stream and of the gradient, the cosines, and whether a small gradient is noise."""

import statistics
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from walkback.checks import DEFAULT, reference
from walkback.checks.coverage import BAND, covered
from walkback.checks.finding import listed
from walkback.checks.reference import CHORD, FLOOR
from walkback.records import Snapshot, evidence_of_runs
from walkback.report import published as theirs
from walkback.report.agreement import MISSING, Told, of_fact, of_number, of_size, ratio_to
from walkback.report.numbers import number
from walkback.report.tables import Cell, Stat
from walkback.studies.quantities import largest_growth
from walkback.studies.reproduced.found import NAMES, Found, Group, Pick, alive, last_gradient
from walkback.studies.reproduced.words import DASH, Ledger, bullets, seeds_counted, size, spanned, stat, table

SIDES = (
    "Published as healthy or failed: the methods whose published verdict is that they hold, or that all checks fire."
)
NOISE = "DFA's gradient at h_L is numerical noise"


def _layers(
    found: Found, ledger: Ledger, symbol: str, pick: Callable[[Snapshot], Sequence[float]],
    lists: Mapping[str, Sequence[float]], tops: Mapping[str, theirs.Between],
) -> str:  # fmt: skip
    """A published row and ours for every net, with the factor between them at h_L and over all layers."""
    rows: list[list[Cell]] = []
    count = found.group("bp").config.blocks + 1
    for method, group in found.variants():
        name, rule = method.name, method.rule
        if method.plain:
            top = tops[rule].words if rule in tops else DASH
            claim = [size(v) for v in lists[rule]] if rule in lists else [DASH] * (count - 1) + [top]
            rows.append([f"{name}, published", *claim, ""])
            if symbol == "h" and rule in theirs.EARLIER_HIDDEN:
                rows.append([f"{name}, earlier re-run", *map(size, theirs.EARLIER_HIDDEN[rule]), ""])
        every = [pick(run.snapshots[-1]) for run in group.runs]
        layers = [tuple(values[layer] for values in every) for layer in range(count)]
        words = ledger.add(f"{name} ‖{symbol}_L‖", of_size(tops[rule], layers[-1])) if rule in tops else DASH
        if group.n and rule in lists:
            ratios = [ratio_to(float(claim), ours) for claim, ours in zip(lists[rule], layers, strict=True)]
            words = f"at L {words}; ratios over all layers {number(min(ratios), 2)} to {number(max(ratios), 2)}"
        rows.append([f"{name}, ours (n = {group.n})", *(stat(values, "size") for values in layers), words])
    return table(["", *(f"l = {layer}" for layer in range(count)), "ours to published"], rows)


def stream(found: Found, ledger: Ledger) -> list[str]:
    """‖h_l‖ by layer, DFA's through time, and the largest growth over one block."""
    layers = _layers(found, ledger, "h", lambda s: s.hidden_norms, theirs.HIDDEN, theirs.LAST_HIDDEN)
    rows = [
        row
        for method, group in found.variants()
        if method.rule == "dfa"
        for row in _through_time(method.name, group, ledger)
    ]
    grown = _calibrated(found, ledger, "growth", largest_growth, theirs.HEALTHY_GROWTH, theirs.FAILED_GROWTH)
    return [
        layers,
        "DFA's stream in time, ‖h_L‖ after so many epochs:",
        table(["", "epochs", "published", "ours", "n", "ours to published"], rows),
        "The largest growth over one block at the end, max ‖h_{l+1}‖ / ‖h_l‖ (D1 fires above "
        f"{DEFAULT['scale.growth']:g}). {SIDES}",
        grown,
    ]


def _calibrated(found: Found, ledger: Ledger, what: str, pick: Pick, healthy: float, failed: float) -> str:
    """What the published thresholds were calibrated on, of the methods that are published as healthy or as failed."""
    rows: list[list[Cell]] = []
    for method, group in found.variants():
        ours, verdict = group.last(pick), theirs.VERDICTS[method.rule]
        shown = [stat(ours, "size"), str(len(ours))]
        if verdict not in ("holds", "D1, D2, D3 fire"):
            rows.append([method.name, DASH, *shown, DASH])
            continue
        kind, bound = ("healthy", healthy) if verdict == "holds" else ("failed", failed)
        above = bound == max(healthy, failed)
        sign, words = ("≥", "at least") if above else ("≤", "at most")
        fact = all(v >= bound if above else v <= bound for v in ours)
        told = of_fact(fact, f"{spanned(ours)}, {seeds_counted(len(ours))}") if ours else MISSING
        told_words = ledger.add(f"{what} of {method.name} is {words} {bound:g}", told, len(ours))
        rows.append([method.name, f"{kind} nets: {sign} {bound:g}", *shown, told_words])
    return table(["", "published", "ours", "n", "as published?"], rows)


def _through_time(name: str, group: Group, ledger: Ledger) -> list[list[Cell]]:
    rows: list[list[Cell]] = []
    for epoch, claim in theirs.DFA_STREAM.items():
        ours = [s.hidden_norms[-1] for run in group.runs for s in run.snapshots if s.epoch == epoch]
        told = of_size(claim, ours)
        if epoch != group.config.epochs:  # the end is in the table above already
            ledger.add(f"{name} ‖h_L‖ after {epoch} epochs", told)
        rows.append([name, str(epoch), size(claim), stat(ours, "size"), str(len(ours)), told.words])
    return rows


def gradient(found: Found, ledger: Ledger) -> list[str]:
    """‖g_l‖ by layer, what the floor was calibrated on, and FA's if it is of another N."""
    layers = _layers(found, ledger, "g", lambda s: s.gradient_norms, theirs.GRADIENTS, theirs.LAST_GRADIENT)
    ends = _calibrated(found, ledger, "‖g_L‖", last_gradient, theirs.HEALTHY_GRADIENT, theirs.FAILED_GRADIENT)
    return [
        layers,
        f"‖g_L‖ at the end (D2 fires below {DEFAULT[FLOOR]:g}). {SIDES}",
        ends,
        *_of_another_batch(found, ledger),
    ]


def _of_another_batch(found: Found, ledger: Ledger) -> list[str]:
    """FA's published gradient if it was taken from a log."""
    claim, batch = theirs.LAST_GRADIENT["fa"], DEFAULT["reference.batch"]
    converted = theirs.AtBatch(claim.low, theirs.LOG_BATCH).at(batch)
    said = []
    for method, group in found.variants():
        if method.rule == "fa":
            ours = group.last(last_gradient)
            as_log = ledger.add(f"{method.name} ‖g_L‖ if published at N = {theirs.LOG_BATCH}", of_size(converted, ours))
            said.append(
                f"{method.name}, ours to {converted:.1e}: {as_log}; to {claim.words}: {of_size(claim, ours).words}"
            )
    return [
        f"FA's published {claim.words} stands in a table at N = {batch:g}, but may come from a log, and the sizes in "
        f"the logs fit N = {theirs.LOG_BATCH} (see *First firings*). Then it would be {converted:.1e} at N = "
        f"{batch:g}. An inference, not a proof. {'. '.join(said)}."
    ]


def cosines(found: Found, ledger: Ledger) -> list[str]:
    """Cosines by block at both placings, Γ, and in which blocks the credit clears its null."""
    rows: list[list[Cell]] = []
    blocks = found.group("bp").config.blocks
    for method, group in found.variants():
        name, rule, n = method.name, method.rule, f"(n = {group.n})"
        plain = method.plain and rule in theirs.COSINES
        gammas = alive([run.snapshots[-1].gamma for run in group.runs])
        gamma = of_number(theirs.GAMMA[rule], gammas, "cosine") if rule in theirs.GAMMA else None
        if gamma is not None:
            ledger.add(f"{name} Γ", gamma)
        if plain:
            note = " (d = 512)" if rule == "dfa" else ""
            claim = [f"{v:+.3f}" for v in theirs.COSINES[rule]]
            rows.append([f"{name}, published, one seed{note}", *claim, f"{theirs.GAMMA[rule]:+.3f}"])
        if not group.n:
            rows.append([f"{name}, ours", *["missing"] * (blocks + 1)])
            continue
        inputs = by_block(group, "cosine")
        rows.append([f"{name}, ours, cos(a_l, g_l) {n}", *_cells(group, "cosine"), stat(gammas, "cosine")])
        if plain and gamma is not None:
            off = [of_number(c, v, "cosine") for c, v in zip(theirs.COSINES[rule], inputs, strict=True)]
            rows.append([f"{name}, ours − published", *(told.words for told in off), gamma.words])
        rows.append([f"{name}, ours, cos(a_l, g_{{l+1}}) {n}", *_cells(group, "cosine_out"), DASH])
        if rule != "bp":
            for where, cosine, null in (("input", "cosine", "null"), ("output", "cosine_out", "null_out")):
                counts = _clear(group, cosine, null)
                rows.append([f"{name}, clears its null at the {where}", *(f"{c} of {m}" for c, m in counts), DASH])
    return [
        "cos(a_l, g_l) takes the gradient at the block's input, as published; cos(a_l, g_{l+1}) at its output, where "
        "the credit acts. Γ is the mean of the former. *Clears its null*: in so many seeds the cosine is above the "
        f"mean of its fresh-feedback null by more than {DEFAULT[BAND]:g} standard deviations. DFA's cosines are "
        "published for d = 512; ours are of d = 256.",
        table(["", *(f"l = {block}" for block in range(blocks)), "Γ"], rows),
        bullets([_pattern(found, ledger, "dfa", "first"), _pattern(found, ledger, "fa", "last"), *_placing(found)]),
    ]


def by_block(group: Group, name: str) -> list[tuple[float, ...]]:
    """The cosines by block, over the seeds in which they have a value."""
    lists = [getattr(run.snapshots[-1], name) for run in group.runs]
    return [tuple(c.value for c in block if c.status == "ok") for block in zip(*lists, strict=True)]


def _cells(group: Group, name: str) -> list[Cell]:
    """The same for a table; where there is none, why."""
    lists = [getattr(run.snapshots[-1], name) for run in group.runs]
    why = [", ".join(sorted({c.status for c in block})) for block in zip(*lists, strict=True)]
    return [Stat(v, "cosine") if v else words for v, words in zip(by_block(group, name), why, strict=True)]


def _clear(group: Group, cosine: str, null: str) -> list[tuple[int, int]]:
    """By block: in how many seeds the cosine clears its null, of those in which that is known."""
    counts = []
    for block in range(group.config.blocks):
        answers = [
            covered(getattr(run.snapshots[-1], cosine)[block], getattr(run.probes, null)[block], DEFAULT[BAND])
            for run in group.runs
            if run.probes is not None
        ]
        told = [answer for answer in answers if answer is not None]
        counts.append((sum(told), len(told)))
    return counts


def _pattern(found: Found, ledger: Ledger, rule: str, which: str) -> str:
    """The published pattern: one block is aligned, and the others are not."""
    group, label = found.group(rule), f"{NAMES[rule]} is aligned at its {which} block alone"
    if not group.n:
        return f"Published: {label}. Ours: {ledger.add(label, MISSING)}."
    counts = _clear(group, "cosine", "null")
    there = 0 if which == "first" else len(counts) - 1
    always = [block for block, (clear, n) in enumerate(counts) if n and clear == n]
    never = [block for block, (clear, n) in enumerate(counts) if n and not clear]
    others = [block for block in range(len(counts)) if block != there]
    holds = None
    if there in never or set(others) & set(always):
        holds = False
    elif always == [there] and never == others:
        holds = True
    words = f"block {listed([str(b) for b in always])}" if always else "no block"
    told = of_fact(holds, f"{words} in every seed that tells ({max(n for _, n in counts)})")
    return f"Published, by the size of the cosines: {label}. Ours, by the null: {ledger.add(label, told, group.n)}."


def _placing(found: Found) -> list[str]:
    group = found.group("fa")
    if not group.n:
        return []
    inner, outer = ([statistics.fmean(v) for v in by_block(group, name)[:-1] if v] for name in ("cosine", "cosine_out"))
    if not inner or not outer:
        return []
    at, out = statistics.fmean(inner), statistics.fmean(outer)
    more = "better" if out > at else "no better"
    return [
        f"FA below its last block: mean cosine {at:+.3f} at the blocks' inputs, {out:+.3f} at their outputs. Its "
        f"credit is {more} aligned where it acts than the published placing shows."
    ]


@dataclass(frozen=True)
class Small:
    """A run of DFA that ends below the floor: its name, and its precision if that was measured."""

    name: str
    chord: float | None
    clamped: float | None


def noise(found: Found, ledger: Ledger) -> list[str]:
    """What float64 says of the numerical floor."""
    rows: list[list[Cell]] = []
    limit, floor = DEFAULT[CHORD], DEFAULT[FLOOR]
    below: list[Small] = []
    above = 0
    for method, group in found.variants():
        name = method.name
        if not group.n:
            rows.append([name, DASH, *["missing"] * 4, DASH])
            continue
        outcome = reference(evidence_of_runs(name, group.runs)).outcome
        for run in group.runs:
            norm, top = run.snapshots[-1].gradient_norms[-1], None if run.probes is None else run.probes.precision[-1]
            told = top is not None and top.status == "ok"
            chord, clamped = (top.chord, top.clamped) if top is not None and told else (None, None)
            why = "missing" if top is None else top.status
            shown = [why if v is None else f"{v:.1e}" for v in (chord, clamped)]
            rows.append([name, str(run.config.seed), f"{norm:.1e}", "yes" if norm < floor else "no", *shown, outcome])
            if method.rule == "dfa":
                below += [Small(f"{name} seed {run.config.seed}", chord, clamped)] if norm < floor else []
                above += norm >= floor
    told_, words = noise_said(below, above, limit, floor)
    ledger.add(NOISE, told_, len(below))
    return [
        f"Of DFA's gradient, {theirs.LAST_GRADIENT['dfa'].words}, the paper says that Γ compares the credit with "
        f"numerical noise; its floor is {floor:g}. Noise has no direction, so we ask for the direction: the gradient "
        "at h_L in float32 against the same net in float64. *Chord*: the distance of the two unit vectors, median over "
        f"the images; no cosine against this gradient is off by more. Our check takes more than {limit:g} for noise. "
        "*Clamped meter*: how far `F.cosine_similarity`, which clamps norms at 1e-8, is off for that gradient with "
        f"itself, in a batch mean over {DEFAULT['reference.batch']:g}.",
        table(
            ["", "seed", "‖g_L‖", f"below {floor:g}", "chord", "clamped meter off by", "`reference`, all seeds"], rows
        ),
        words,
    ]


def noise_said(below: Sequence[Small], above: int, limit: float, floor: float) -> tuple[Told, str]:
    """Whether DFA's small gradients are noise: the word for the statement, and the sentences."""
    measured = [(run.name, run.chord, run.clamped or 0.0) for run in below if run.chord is not None]
    unknown = [run.name for run in below if run.chord is None]
    noisy = [name for name, chord, _ in measured if chord > limit]
    precise = [name for name, chord, _ in measured if chord <= limit]
    said = []
    if not measured:
        told = Told("open", "") if below or above else MISSING
        said.append(f"No run of DFA that ends below {floor:g} has its precision measured, so nothing can be said.")
    elif not noisy:
        told = Told("not borne out", "")
        worst = max(chord for _, chord, _ in measured)
        said.append(
            f"**DFA's gradient is small, and not noise.** In every one of its runs measured that end below {floor:g} "
            f"({len(measured)}), float32 has the direction right to {worst:.1e} or better."
        )
    elif not precise:
        told = Told("borne out", "")
        best = min(chord for _, chord, _ in measured)
        said.append(
            f"**DFA's gradient is noise.** In every one of its runs measured that end below {floor:g} "
            f"({len(measured)}), float32 has the direction wrong by {best:.1e} or more."
        )
    else:
        told = Told("open", "")
        said.append(f"**It depends on the run**: noise in {listed(noisy)}; small, and not noise, in {listed(precise)}.")
    blind = [f"{name} (by {clamped:.2f})" for name, chord, clamped in measured if clamped > limit >= chord]
    if blind:
        said.append(
            f"A meter that clamps fails all the same where the direction is precise: it is off by more than {limit:g} "
            f"in {listed(blind)}. There the meter is at fault, not the gradient."
        )
    elif precise:
        most = max(clamped for _, chord, clamped in measured if chord <= limit)
        said.append(f"Where the direction is precise even a meter that clamps is off by {most:.1e} at most.")
    said += [f"DFA runs that end above {floor:g}: {above}."] if above else []
    said += [f"Below it, and not measured: {listed(unknown)}."] if unknown and measured else []
    return told, " ".join(said)
