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
from walkback.studies.reproduced.found import NAMES, Found, Group, alive, largest_growth
from walkback.studies.reproduced.words import DASH, NO_RULE, Ledger, bullets, seeds_counted, size, spanned, stat, table

NOISE = "DFA's gradient at h_L is numerical noise"


def _layers(
    found: Found, ledger: Ledger, symbol: str, pick: Callable[[Snapshot], Sequence[float]],
    lists: Mapping[str, Sequence[float]], tops: Mapping[str, theirs.Between],
) -> str:  # fmt: skip
    """A published row and ours for every net, with the factor between them at h_L and over all layers."""
    rows: list[list[Cell]] = []
    count = found.group("bp").config.blocks + 1
    for name, rule, group in found.variants():
        if name in NAMES.values():
            claim = [size(v) for v in lists[rule]] if rule in lists else [DASH] * (count - 1) + [tops[rule].words]
            rows.append([f"{name}, published", *claim, ""])
            if symbol == "h" and rule in theirs.EARLIER_HIDDEN:
                rows.append([f"{name}, earlier re-run", *map(size, theirs.EARLIER_HIDDEN[rule]), ""])
        every = [pick(run.snapshots[-1]) for run in group.runs]
        layers = [tuple(values[layer] for values in every) for layer in range(count)]
        told = of_size(tops[rule], layers[-1])
        words = ledger.add(f"{name} ‖{symbol}_L‖", told)
        if group.n and rule in lists:
            ratios = [ratio_to(float(claim), ours) for claim, ours in zip(lists[rule], layers, strict=True)]
            words = f"at L {words}; ratios over all layers {number(min(ratios), 2)} to {number(max(ratios), 2)}"
        rows.append([f"{name}, ours (n = {group.n})", *(stat(values, "size") for values in layers), words])
    for rule, top in tops.items():
        if rule not in ("bp", "fa", "dfa"):
            rows.append([f"{NAMES[rule]}, published", *[DASH] * (count - 1), top.words, f"missing: {NO_RULE}"])
    return table(["", *(f"l = {layer}" for layer in range(count)), "ours to published"], rows)


def stream(found: Found, ledger: Ledger) -> list[str]:
    """‖h_l‖ by layer, DFA's through time, and the largest growth over one block."""
    layers = _layers(found, ledger, "h", lambda s: s.hidden_norms, theirs.HIDDEN, theirs.LAST_HIDDEN)
    rows: list[list[Cell]] = []
    grown: list[list[Cell]] = []
    for name, rule, group in found.variants():
        ours = group.last(largest_growth)
        if rule == "dfa":
            rows += _through_time(name, group, ledger)
            most = theirs.FAILED_GROWTH
            label, claim = f"growth of {name} is at least {most:g}", f"failed nets: ≥ {most:g}"
            holds = all(v >= most for v in ours)
        elif rule == "bp":
            most = theirs.HEALTHY_GROWTH
            label, claim = f"growth of {name} is at most {most:g}", f"healthy nets: ≤ {most:g}"
            holds = all(v <= most for v in ours)
        else:
            grown.append([name, DASH, stat(ours, "size"), str(len(ours)), DASH])
            continue
        told = of_fact(holds, f"{spanned(ours)}, {seeds_counted(len(ours))}") if ours else MISSING
        grown.append([name, claim, stat(ours, "size"), str(len(ours)), ledger.add(label, told, len(ours))])
    return [
        layers,
        "DFA's stream in time, ‖h_L‖ after so many epochs:",
        table(["", "epochs", "published", "ours", "n", "ours to published"], rows),
        "The largest growth over one block at the end, max ‖h_{l+1}‖ / ‖h_l‖ (D1 fires above "
        f"{DEFAULT['scale.growth']:g}):",
        table(["", "published", "ours", "n", "as published?"], grown),
    ]


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
    """‖g_l‖ by layer."""
    return [_layers(found, ledger, "g", lambda s: s.gradient_norms, theirs.GRADIENTS, theirs.LAST_GRADIENT)]


def cosines(found: Found, ledger: Ledger) -> list[str]:
    """Cosines by block at both placings, Γ, and in which blocks the credit clears its null."""
    rows: list[list[Cell]] = []
    blocks = found.group("bp").config.blocks
    for name, rule, group in found.variants():
        plain, n = name in NAMES.values(), f"(n = {group.n})"
        gammas = alive([run.snapshots[-1].gamma for run in group.runs])
        gamma = of_number(theirs.GAMMA[rule], gammas, "cosine")
        ledger.add(f"{name} Γ", gamma)
        if plain:
            note = " (d = 512)" if rule == "dfa" else ""
            claim = [f"{v:+.3f}" for v in theirs.COSINES[rule]]
            rows.append([f"{name}, published, one seed{note}", *claim, f"{theirs.GAMMA[rule]:+.3f}"])
        if not group.n:
            rows.append([f"{name}, ours", *["missing"] * (blocks + 1)])
            continue
        inputs = _by_block(group, "cosine")
        rows.append([f"{name}, ours, cos(a_l, g_l) {n}", *_cells(group, "cosine"), stat(gammas, "cosine")])
        if plain:
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


def _by_block(group: Group, name: str) -> list[tuple[float, ...]]:
    """The cosines by block, over the seeds in which they have a value."""
    lists = [getattr(run.snapshots[-1], name) for run in group.runs]
    return [tuple(c.value for c in block if c.status == "ok") for block in zip(*lists, strict=True)]


def _cells(group: Group, name: str) -> list[Cell]:
    """The same for a table; where there is none, why."""
    lists = [getattr(run.snapshots[-1], name) for run in group.runs]
    why = [", ".join(sorted({c.status for c in block})) for block in zip(*lists, strict=True)]
    return [Stat(v, "cosine") if v else words for v, words in zip(_by_block(group, name), why, strict=True)]


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
    inner, outer = (
        [statistics.fmean(v) for v in _by_block(group, name)[:-1] if v] for name in ("cosine", "cosine_out")
    )
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
    for name, rule, group in found.variants():
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
            if rule == "dfa":
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
