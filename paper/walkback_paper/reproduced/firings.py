"""Through time: when each check first fires, at our N and at that of the published logs, and what stopping costs."""

import statistics

from walkback.checks import DEFAULT
from walkback.report import Cell
from walkback_paper import published as paper
from walkback_paper.agreement import compare
from walkback_paper.reproduced.claims import FIRST, LOG_SIZES, STOPPING
from walkback_paper.reproduced.statements import BATCH, D2, D2_LOG, LOG, by_seed, first, stops
from walkback_paper.reproduced.words import DASH, MISSING, Writer, bullets, percent, stat, table


def firings(page: Writer) -> list[str]:
    """First firings by seed, and stopping at them."""
    intro = (
        f"The first epoch after which one block's growth exceeds {DEFAULT['scale.growth']:g} (D1), and after which "
        f"‖g_L‖ is below {DEFAULT['reference.floor']:g} (D2). The dates of the three published "
        f"seeds are taken as a mean ± std. "
        f"‖g‖ goes with 1/N, so the date of D2 depends on the N that it is stated at."
    )
    rows: list[list[Cell]] = []
    for (ours, code), claim in FIRST.items():
        dates = first(page.of(ours)).get(code)
        rows.append([ours.name, code, claim.row, MISSING if dates is None else by_seed(dates), page.held(claim)])
    dated = table(["", "check", "published", "ours, by seed", "ours to published"], rows)
    return [intro, *_which_batch(page), dated, *_stopping(page)]


def _which_batch(page: Writer) -> list[str]:
    """The N of the published logs, by the sizes that they hold, against ours at either."""
    rows: list[list[Cell]] = []
    fits: dict[int, list[bool]] = {BATCH: [], LOG: []}
    for claim in LOG_SIZES:
        assert claim.published is not None
        ours = page.values(claim)
        cells: list[Cell] = []
        for n in fits:
            scaled = [value * BATCH / n for value in ours]
            found = compare(claim.published, scaled)
            fits[n] += [found.kind == "near"] if ours else []
            cells += [stat(scaled, "size"), page.ledger.add(claim.label, found) if n == LOG else found.words]
        rows.append([f"‖g_L‖, {claim.row}", str(claim.published), *cells])
    at_ours, at_theirs = all(fits[BATCH]), all(fits[LOG])
    words = "Ours do not tell which N the logs are at."
    if not fits[LOG]:
        words = "Ours are missing, so nothing can be said of it here."
    elif at_ours != at_theirs:
        n, other = (BATCH, LOG) if at_ours else (LOG, BATCH)
        words = f"Ours have these sizes at N = {n} and not at N = {other}: D2 is to be compared at N = {n}."
    headings = ["", "in the published logs", f"ours at N = {BATCH}", "to the logs", f"ours at N = {LOG}", "to the logs"]
    intro = "The published dates come from logs that do not say their N. Two sizes in them tell it:"
    return [intro, table(headings, rows), words]


def _stopping(page: Writer) -> list[str]:
    rows: list[list[Cell]] = []
    sentences = []
    for (ours, n), claim in STOPPING.items():
        group = page.of(ours)
        if not group.n and n == BATCH:
            rows.append([ours.name, *[MISSING] * 7])
        saved = []
        for seed, stop in stops(group, D2 if n == BATCH else D2_LOG).items():
            if stop is None:
                rows.append([ours.name, str(n), str(seed), "never", *[DASH] * 4])
                continue
            epoch, then, end = stop
            saved.append(1 - epoch / group.config.epochs)
            rows.append([
                ours.name, str(n), str(seed), str(epoch), percent(saved[-1]), f"{then:.3f}", f"{end:.3f}",
                f"{100 * round(then - end, 12):+.1f}",
            ])  # fmt: skip
        words = page.held(claim)
        if saved:
            mean = statistics.fmean(saved)
            sentences.append(
                f"{ours.name}, N = {n}: {percent(mean)} saved, {100 * (mean - paper.SAVED):+.0f} points from "
                f"the published {percent(paper.SAVED)}. At no loss: {words}."
            )
    return [
        f"Stopping DFA at its first firing, D1 or D2. Published: {percent(paper.SAVED)} of the epochs saved at no "
        "loss of accuracy. Ours: the accuracy of the training at that epoch, less that at its end.",
        table(["", "N", "seed", "first firing", "saved", "accuracy then", "at the end", "then − end, points"], rows),
        *([bullets(sentences)] if sentences else []),
    ]
