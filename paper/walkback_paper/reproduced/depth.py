"""What a penalty repairs, what each further trained block brings, a net before anything trains, and the transformer."""

from walkback.checks import DEFAULT, listed
from walkback.report import Cell, number, text
from walkback_paper import published as paper
from walkback_paper.agreement import ratio_to
from walkback_paper.quantities import ACCURACY, DEEP_COSINE, GRADIENT, GROWTH, STREAM
from walkback_paper.reproduced import claims
from walkback_paper.reproduced.found import BP, CB, DFA, LADDER, SB, paired
from walkback_paper.reproduced.statements import BATCH, D1, D2, D2_LOG, LOG, by_seed, fired_by, first
from walkback_paper.reproduced.words import Writer, bullets, margin, stat, table

PENALTIES = (0.0, 1e-4, 1e-3, 1e-2, 1e-1)


def _another_budget(epochs: int) -> str:
    """What must stand beside a comparison with figures of the published budget."""
    differs = (
        f" (published after {claims.LONG}: the budgets differ, so no difference from the published figures counts)"
    )
    return "" if epochs == claims.LONG else differs


def penalty(page: Writer) -> list[str]:
    """λ‖f_l‖² beside the published figures, what the checks say of it, and the whole grid."""
    raw, at, floor = paper.PENALTY_GRADIENT, paper.PENALTY_GRADIENT.at(BATCH), DEFAULT["reference.floor"]
    shown, sentences = page.table(claims.PENALTY), [page.sentence(claim) for claim in claims.PENALTY_SAYS]
    for m in (CB, SB):
        over = text(
            margin([*paired(page.of(claims.penalised(m, claims.LAMBDA)), page.of(claims.penalised(m, 0.0))).values()])
        )
        gained = 100 * (paper.PENALTY_WITH[m.rule].mean - paper.PENALTY_WITHOUT[m.rule].mean)
        sentences.append(
            f"{m.name}, λ = {claims.LAMBDA:g} over λ = 0, points: published {gained:+.1f}, the means alone; ours "
            f"{over}."
        )
    rows: list[list[Cell]] = []
    for strength in PENALTIES:
        dfa, bp = (page.of(claims.penalised(m, strength)) for m in (DFA, BP))
        cells = page.cells(dfa, STREAM, GROWTH, GRADIENT, DEEP_COSINE)
        accuracies = [*page.cells(dfa, ACCURACY), *page.cells(bp, ACCURACY)]
        rows.append([f"{strength:g}", *accuracies, *cells, f"{dfa.n}, {bp.n}"])
    headings = ["λ", "DFA accuracy", "BP accuracy", "DFA ‖h_L‖", "DFA growth", "DFA ‖g_L‖", "DFA deep cosine", "n"]
    return [
        f"λ‖f_l‖² on every block. ‖g_L‖ is published as {raw.norm:.0e} at N = {raw.batch}. ‖g‖ goes with 1/N, so at N "
        f"= {BATCH} it is {at:.1e}: {number(at / floor, 3)} times the floor of {floor:g}, which is stated for N = "
        f"{BATCH}, and not {number(raw.norm / floor, 2)} times. Deep cosine: the mean over the blocks l ≥ 1.",
        shown,
        bullets(sentences),
        f"The whole grid, ours, {claims.SHORT} epochs (n: seeds of DFA, of BP):",
        table(headings, rows),
    ]


def ladder(page: Writer) -> list[str]:
    """Accuracy against the number of trained blocks, and the published statements about it."""
    anchors = [
        f"{claim.label.removeprefix('ladder anchor ')} {claim.published} ({page.held(claim)})"
        for claim in claims.ANCHORS
    ]
    parts = ["Accuracy with the last k blocks trained. The anchors are published without a spread."]
    for width, of_width in claims.LADDERS.items():
        rungs = {m: [page.of(ours) for ours in claims.RUNGS[width, m]] for m in LADDER}
        config, count = rungs[BP][0].config, len(rungs[BP])
        rows: list[list[Cell]] = [
            [m.name, *(stat(g.last(ACCURACY)) for g in groups), " ".join(str(g.n) for g in groups)]
            for m, groups in rungs.items()
        ]
        sentences = [f"Published anchors: {'; '.join(anchors)}."] if width == 256 else []
        climb, *others = of_width
        parts += [
            f"d = {width}, L = {config.blocks}, {config.epochs} epochs{_another_budget(config.epochs)}:",
            table(["", *(f"k = {k}" for k in range(count)), "seeds by k"], rows),
            bullets([*sentences, f"{climb.label}, in points: {page.held(climb)}.", *map(page.sentence, others)]),
        ]
    return parts


def init(page: Writer) -> list[str]:
    """How near the blocks are to the identity before anything trains, and the norms then."""
    known = {run.identity.images for run in page.of(claims.INIT_SIZES[0].ours).runs if run.identity is not None}
    images = listed([str(n) for n in sorted(known)]) if known else "256"
    ratios = [
        f"{claim.row} {ratio_to(claim.published, values):.2f}"
        for claim in claims.INIT_SIZES
        if isinstance(claim.published, paper.SizeRange) and (values := page.values(claim))
    ]
    return [
        "Before anything trains: how near the blocks are to doing nothing, which is why a frozen net is no strawman. "
        f"Medians over the first {images} test images; the two norms over those of every snapshot.",
        page.table(claims.INIT_SIZES),
        *(
            [f"Ratio of ours to the published figure, or to the nearer end of its range: {'; '.join(ratios)}."]
            if ratios
            else []
        ),
    ]


def vit(page: Writer) -> list[str]:
    """The transformer, of which two figures are published."""
    most, by = paper.HEALTHY_GROWTH_VIT, paper.VIT_FIRST_FLOOR
    rows: list[list[Cell]] = []
    for m, ours in claims.VIT.items():
        group, dates = page.of(ours), first(page.of(ours))
        if group.n:
            largest = stat([max(map(GROWTH.pick, run.snapshots)) for run in group.runs], "size")
            cells = [*page.cells(group, ACCURACY, STREAM, GRADIENT), largest]
            rows.append(
                [m.name, str(claims.VIT_EPOCHS), *cells, *(by_seed(dates[c]) for c in (D1, D2, D2_LOG)), str(group.n)]
            )
    headings = ["", "epochs", "accuracy", "‖h_L‖", "‖g_L‖", "largest growth at any epoch", "first D1"]
    date, at_ours = (
        claims.VIT_DATE.label.removesuffix(f", at N = {LOG}"),
        fired_by([claims.VIT[DFA]], D2, by, page.found).words,
    )
    sentences = [
        page.sentence(claims.VIT_GROWTH),
        f"Published: {date}. Ours at N = {LOG}: {page.held(claims.VIT_DATE)}; at N = {BATCH}: {at_ours}.",
    ]
    return [
        "4 blocks, d = 128, norms at the cls token. Of the figures typed in here two are of it: over one block the "
        f"stream of a healthy ViT grows by at most {most:g}, early in training; D2 fires of DFA within the first {by} "
        "epochs, in a log like those of *First firings*.",
        *([table([*headings, f"first {D2}", f"first {D2_LOG}", "n"], rows)] if rows else []),
        bullets(sentences),
    ]
