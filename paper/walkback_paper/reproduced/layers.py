"""Layer by layer: the size of the stream and of the gradient, the cosines, and whether a small gradient is noise."""

import statistics
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from walkback.checks import DEFAULT, listed, reference
from walkback.records import evidence_of_runs
from walkback.report import Cell, Stat, number
from walkback_paper import published as paper
from walkback_paper.agreement import of_number, of_size, ratio_to
from walkback_paper.quantities import GAMMA, GRADIENT, GROWTH, STREAM, Quantity, cosine_at, gradient_at, hidden_at
from walkback_paper.reproduced.claims import AS_LOG, CALIBRATED, FROM_A_LOG, GAMMAS, IN_TIME, NOISE, PATTERNS, TOPS
from walkback_paper.reproduced.found import BP, FA, VARIANTS, Trained
from walkback_paper.reproduced.statements import BAND, BATCH, LOG, chord, clear
from walkback_paper.reproduced.words import DASH, MISSING, Writer, bullets, size, stat, table

SIDES = (
    "Published as healthy or failed: the methods whose published verdict is that they hold, or that all checks fire."
)


def _layers(page: Writer, top: Quantity, layers: Sequence[Quantity], lists: Mapping[str, Sequence[float]]) -> str:
    """A published row and ours for every net, with the factor between them at h_L and over all layers."""
    rows: list[list[Cell]] = []
    for method in VARIANTS:
        name, rule, group, claim = method.name, method.rule, page.of(method), TOPS[top].get(method)
        if method.plain:
            at_top = [DASH] * (len(layers) - 1) + [DASH if claim is None else str(claim.published)]
            rows.append([f"{name}, published", *([size(v) for v in lists[rule]] if rule in lists else at_top), ""])
            if top is STREAM and rule in paper.EARLIER_HIDDEN:
                rows.append([f"{name}, earlier re-run", *map(size, paper.EARLIER_HIDDEN[rule]), ""])
        words = DASH if claim is None else page.held(claim)
        if group.n and rule in lists:
            ratios = [ratio_to(float(v), group.last(at)) for v, at in zip(lists[rule], layers, strict=True)]
            words = f"at L {words}; ratios over all layers {number(min(ratios), 2)} to {number(max(ratios), 2)}"
        rows.append([f"{name}, ours (n = {group.n})", *page.cells(group, *layers), words])
    return table(["", *(f"l = {layer}" for layer in range(len(layers))), "ours to published"], rows)


def stream(page: Writer) -> list[str]:
    """‖h_l‖ by layer, DFA's through time, and the largest growth over one block."""
    layers = [hidden_at(layer) for layer in range(page.of(BP).config.blocks + 1)]
    return [
        _layers(page, STREAM, layers, paper.HIDDEN),
        "DFA's stream in time, ‖h_L‖ after so many epochs:",
        page.table(IN_TIME),
        "The largest growth over one block at the end, max ‖h_{l+1}‖ / ‖h_l‖ (D1 fires above "
        f"{DEFAULT['scale.growth']:g}). {SIDES}",
        page.table(CALIBRATED[GROWTH], "as published?"),
    ]


def gradient(page: Writer) -> list[str]:
    """‖g_l‖ by layer, what the floor was calibrated on, and FA's if it is of another N."""
    layers = [gradient_at(layer) for layer in range(page.of(BP).config.blocks + 1)]
    claim = paper.LAST_GRADIENT["fa"]
    parts = [
        _layers(page, GRADIENT, layers, paper.GRADIENTS),
        f"‖g_L‖ at the end (D2 fires below {DEFAULT['reference.floor']:g}). {SIDES}",
        page.table(CALIBRATED[GRADIENT], "as published?"),
    ]
    sentences = [
        f"{each.ours.name}, ours to {AS_LOG:.1e}: {page.held(each)}; to {claim}: "
        f"{of_size(claim, page.values(each)).words}"
        for each in FROM_A_LOG
    ]
    return [
        *parts,
        f"FA's published {claim} stands in a table at N = {BATCH}, but may come from a log, and the sizes in "
        f"the logs fit N = {LOG} (see *First firings*). Then it would be {AS_LOG:.1e} at N = {BATCH}. An inference, "
        f"not a proof. {'. '.join(sentences)}.",
    ]


def cosines(page: Writer) -> list[str]:
    """Cosines by block at both placings, Γ, and in which blocks the credit clears its null."""
    rows: list[list[Cell]] = []
    blocks = page.of(BP).config.blocks
    for method in VARIANTS:
        name, rule, group, claim = method.name, method.rule, page.of(method), GAMMAS.get(method)
        gamma = DASH if claim is None else page.held(claim)
        published = paper.COSINES.get(rule, ()) if method.plain else ()
        if published:
            note = " (d = 512)" if rule == "dfa" else ""
            values = [f"{v:+.3f}" for v in (*published, paper.GAMMA[rule])]
            rows.append([f"{name}, published, one seed{note}", *values])
        if not group.n:
            rows.append([f"{name}, ours", *[MISSING] * (blocks + 1)])
            continue
        n, inside = f"(n = {group.n})", [group.last(cosine_at(block)) for block in range(blocks)]
        rows.append([f"{name}, ours, cos(a_l, g_l) {n}", *_cells(group, "cosine"), stat(group.last(GAMMA), "cosine")])
        if published:
            off = [of_number(c, v, "cosine").words for c, v in zip(published, inside, strict=True)]
            rows.append([f"{name}, ours − published", *off, gamma])
        rows.append([f"{name}, ours, cos(a_l, g_{{l+1}}) {n}", *_cells(group, "cosine_out"), DASH])
        for where, cosine, null in (("input", "cosine", "null"), ("output", "cosine_out", "null_out")):
            if rule != "bp":
                counts = [f"{c} of {m}" for c, m in clear(group, cosine, null)]
                rows.append([f"{name}, clears its null at the {where}", *counts, DASH])
    by_size = [
        page.sentence(claim).replace("Published:", "Published, by the size of the cosines:") for claim in PATTERNS
    ]
    return [
        "cos(a_l, g_l) takes the gradient at the block's input, as published; cos(a_l, g_{l+1}) at its output, where "
        "the credit acts. Γ is the mean of the former. *Clears its null*: in so many seeds the cosine is above the "
        f"mean of its fresh-feedback null by more than {BAND} standard deviations. DFA's cosines are "
        "published for d = 512; ours are of d = 256.",
        table(["", *(f"l = {block}" for block in range(blocks)), "Γ"], rows),
        bullets([*by_size, *_placing(page.of(FA))]),
    ]


def _cells(group: Trained, name: str) -> list[Cell]:
    """The cosines by block, over the seeds in which they have a value; where there is none, why."""
    found: list[Cell] = []
    for block in range(group.config.blocks):
        why = {getattr(run.snapshots[-1], name)[block].status for run in group.runs}
        values = group.last(cosine_at(block, name))
        found.append(Stat(values, "cosine") if values else ", ".join(sorted(why)))
    return found


def _placing(group: Trained) -> list[str]:
    below = range(group.config.blocks - 1)
    inner, outer = (
        [statistics.fmean(v) for block in below if (v := group.last(cosine_at(block, name)))]
        for name in ("cosine", "cosine_out")
    )
    if not inner or not outer:
        return []
    at, out = statistics.fmean(inner), statistics.fmean(outer)
    return [
        f"FA below its last block: mean cosine {at:+.3f} at the blocks' inputs, {out:+.3f} at their outputs. Its "
        f"credit is {'better' if out > at else 'no better'} aligned where it acts than the published placing shows."
    ]


@dataclass(frozen=True)
class Small:
    """A run of DFA that ends below the floor: its name, and its precision if that was measured."""

    name: str
    chord: float | None
    clamped: float | None


def noise(page: Writer) -> list[str]:
    """What float64 says of the numerical floor."""
    rows: list[list[Cell]] = []
    limit, floor = DEFAULT["reference.chord"], DEFAULT["reference.floor"]
    below: list[Small] = []
    above = 0
    for method in VARIANTS:
        name, group = method.name, page.of(method)
        if not group.n:
            rows.append([name, DASH, *[MISSING] * 4, DASH])
            continue
        outcome = reference(evidence_of_runs(name, group.runs)).outcome
        for run in group.runs:
            norm, turned, top = GRADIENT.last(run), chord(run), None if run.probes is None else run.probes.precision[-1]
            clamped = top.clamped if top is not None and turned is not None else None
            why = MISSING if top is None else top.status
            shown = [why if v is None else f"{v:.1e}" for v in (turned, clamped)]
            rows.append([name, str(run.config.seed), f"{norm:.1e}", "yes" if norm < floor else "no", *shown, outcome])
            if method.rule == "dfa":
                below += [Small(f"{name} seed {run.config.seed}", turned, clamped)] if norm < floor else []
                above += norm >= floor
    page.held(NOISE)
    headings = ["", "seed", "‖g_L‖", f"below {floor:g}", "chord", "clamped meter off by", "`reference`, all seeds"]
    return [
        f"Of DFA's gradient, {paper.LAST_GRADIENT['dfa']}, the paper says that Γ compares the credit with "
        f"numerical noise; its floor is {floor:g}. Noise has no direction, so we ask for the direction: the gradient "
        "at h_L in float32 against the same net in float64. *Chord*: the distance of the two unit vectors, median over "
        f"the images; no cosine against this gradient is off by more. Our check takes more than {limit:g} for noise. "
        "*Clamped meter*: how far `F.cosine_similarity`, which clamps norms at 1e-8, is off for that gradient with "
        f"itself, in a batch mean over {BATCH}.",
        table(headings, rows),
        noise_said(below, above, limit, floor),
    ]


def noise_said(below: Sequence[Small], above: int, limit: float, floor: float) -> str:
    """Whether DFA's small gradients are noise, in sentences."""
    measured = [(run.name, run.chord, run.clamped or 0.0) for run in below if run.chord is not None]
    unknown = [run.name for run in below if run.chord is None]
    noisy = [name for name, turned, _ in measured if turned > limit]
    precise = [name for name, turned, _ in measured if turned <= limit]
    every = f"In every one of its runs measured that end below {floor:g} ({len(measured)}), float32 has the direction"
    if not measured:
        sentences = [f"No run of DFA that ends below {floor:g} has its precision measured, so nothing can be said."]
    elif not noisy:
        worst = max(turned for _, turned, _ in measured)
        sentences = [f"**DFA's gradient is small, and not noise.** {every} right to {worst:.1e} or better."]
    elif not precise:
        best = min(turned for _, turned, _ in measured)
        sentences = [f"**DFA's gradient is noise.** {every} wrong by {best:.1e} or more."]
    else:
        sentences = [
            f"**It depends on the run**: noise in {listed(noisy)}; small, and not noise, in {listed(precise)}."
        ]
    blind = [f"{name} (by {clamped:.2f})" for name, turned, clamped in measured if clamped > limit >= turned]
    if blind:
        sentences.append(
            f"A meter that clamps fails all the same where the direction is precise: it is off by more than {limit:g} "
            f"in {listed(blind)}. There the meter is at fault, not the gradient."
        )
    elif precise:
        most = max(clamped for _, turned, clamped in measured if turned <= limit)
        sentences.append(f"Where the direction is precise even a meter that clamps is off by {most:.1e} at most.")
    sentences += [f"DFA runs that end above {floor:g}: {above}."] if above else []
    sentences += [f"Below it, and not measured: {listed(unknown)}."] if unknown and measured else []
    if measured and not noisy:
        sentences.append(
            "*Opinion:* precision should judge, and the floor warn: of a large stream, and of meters that clamp."
        )
    return " ".join(sentences)
