"""Through time: when each check first fires, at our N and at that of the published logs, and what stopping costs."""

import statistics
from collections.abc import Mapping, Sequence

from walkback.checks import DEFAULT, first_fired
from walkback.checks.finding import seeds_said
from walkback.checks.reference import FLOOR
from walkback.records import Run, evidence_of_runs
from walkback.report import published as theirs
from walkback.report.agreement import MISSING, Told, of_direction, of_fact, of_size, of_spread
from walkback.report.tables import Cell
from walkback.studies.reproduced.found import NAMES, RULES, Found, Group
from walkback.studies.reproduced.words import DASH, Ledger, bullets, percent, seeds_counted, stat, table

Dates = Mapping[int, int | None]  # by seed the first epoch; None: never
BATCH, LOG = int(DEFAULT["reference.batch"]), theirs.LOG_BATCH
D1, D2, D2_LOG = "D1", f"D2, N = {BATCH}", f"D2, N = {LOG}"
CLAIMS: Mapping[str, Mapping[str, Sequence[int]]] = {
    D1: theirs.FIRST_GROWTH,
    D2: theirs.FIRST_FLOOR,
    D2_LOG: theirs.FIRST_FLOOR,
}


def first(group: Group) -> dict[str, Dates]:
    """When D1 and D2 first fired, D2 with ‖g_L‖ stated at our N and at that of the logs; nothing without runs."""
    if not group.n:
        return {}
    evidence = evidence_of_runs(group.config.rule, group.runs)
    ours, logs = first_fired(evidence), first_fired(evidence, DEFAULT.but("reference.batch", LOG))
    found = {D1: ours["scale"], D2: ours["reference floor"], D2_LOG: logs["reference floor"]}
    return {code: {int(seed): epoch for seed, epoch in dated.epochs.items()} for code, dated in found.items()}


def by_seed(dates: Dates) -> str:
    """Dates in a cell.

    >>> by_seed({42: 8, 123: None})
    '42: 8 · 123: never'
    """
    return " · ".join(f"{seed}: {'never' if epoch is None else epoch}" for seed, epoch in dates.items())


def of_dates(claim: Sequence[int], ours: Dates) -> Told:
    """Published first epochs of three seeds against ours; an empty claim says never."""
    dates = [float(epoch) for epoch in ours.values() if epoch is not None]
    never = [str(seed) for seed, epoch in ours.items() if epoch is None]
    if not claim:
        return of_fact(not dates, f"it fires at {by_seed(ours)}" if dates else f"never, {seeds_counted(len(ours))}")
    if never:
        return Told("differ" if len(ours) > 1 else "outside", f"it never fires in {seeds_said(never)}")
    return of_spread(theirs.Spread(statistics.fmean(claim), statistics.stdev(claim)), dates, ".1f")


def _later(ours: Dates, with_norm: Dates) -> Told:
    """Whether every seed fires, and later than the same seed with the terminal norm."""
    never = [str(seed) for seed, epoch in ours.items() if epoch is None]
    if never:
        return of_fact(False, f"it never fires in {seeds_said(never)}")
    pairs = [(a, with_norm[seed]) for seed, a in ours.items() if seed in with_norm]
    if not pairs:
        return of_fact(None, "it fires; with the terminal norm no such seed is there")
    later = sum(b is not None and a is not None and a > b for a, b in pairs)
    return of_fact(later == len(pairs), f"it fires, later in {later} of {len(pairs)} seeds")


def firings(found: Found, ledger: Ledger) -> list[str]:
    """First firings by seed, and stopping at them."""
    rows: list[list[Cell]] = []

    def row(name: str, code: str, claim: str, ours: Dates | None, words: str) -> None:
        rows.append([name, code, claim, "missing" if ours is None else by_seed(ours), words])

    for method, group in found.variants():
        for code, claims in CLAIMS.items():
            ours, claim = first(group).get(code), claims.get(method.rule)
            if claim is None:
                row(method.name, code, DASH, ours, DASH)
                continue
            told = MISSING if ours is None else of_dates(claim, ours)
            label = f"{method.name} first {code}" + ("" if claim else ": never")
            words = ledger.add(label, told, None if claim else group.n)
            row(method.name, code, " / ".join(map(str, claim)) or "never", ours, words)
    for rule in RULES:
        group, name = found.group(rule, net_options={"terminal_norm": False}), f"{NAMES[rule]}, no terminal norm"
        for code in CLAIMS:
            ours = first(group).get(code)
            if rule != "dfa":
                row(name, code, DASH, ours, DASH)
                continue
            claimed, label = ("fires, later", "D1 fires later") if code == D1 else ("never", f"{code}, never fires")
            told = MISSING
            if ours is not None:
                told = _later(ours, first(found.group("dfa")).get(D1, {})) if code == D1 else of_dates((), ours)
            row(name, code, claimed, ours, ledger.add(f"DFA without terminal norm: {label}", told, group.n))
    return [
        f"The first epoch after which one block's growth exceeds {DEFAULT['scale.growth']:g} (D1), and after which "
        f"‖g_L‖ is below {DEFAULT[FLOOR]:g} (D2). The dates of the three published seeds are taken as a mean ± std. "
        f"‖g‖ goes with 1/N, so the date of D2 depends on the N that it is stated at.",
        *_which_batch(found, ledger),
        table(["", "check", "published", "ours, by seed", "ours to published"], rows),
        *_stopping(found, ledger),
    ]


def _which_batch(found: Found, ledger: Ledger) -> list[str]:
    """The N of the published logs, by the sizes that they hold, against ours at either."""
    runs = found.group("bp").runs
    rows: list[list[Cell]] = []
    fits: dict[int, list[bool]] = {BATCH: [], LOG: []}
    for name, claim, ours in (
        ("BP at the end", theirs.LOG_GRADIENT["bp"], [run.snapshots[-1].gradient_norms[-1] for run in runs]),
        ("at init", theirs.LOG_INIT_GRADIENT, [r.snapshots[0].gradient_norms[-1] for r in runs if _from_init(r)]),
    ):
        told = {n: of_size(claim, [value * BATCH / n for value in ours]) for n in fits}
        for n in fits:
            fits[n] += [told[n].kind == "near"] if ours else []
        ledger.add(f"‖g_L‖ of the published logs, {name}, ours at N = {LOG}", told[LOG])
        cells = [cell for n in fits for cell in (stat([value * BATCH / n for value in ours], "size"), told[n].words)]
        rows.append([f"‖g_L‖, {name}", claim.words, *cells])
    told_by = (all(fits[BATCH]), all(fits[LOG]))
    said = "Ours do not tell which N the logs are at."
    if not fits[LOG]:
        said = "Ours are missing, so nothing can be said of it here."
    elif told_by == (False, True):
        said = f"Ours have these sizes at N = {LOG} and not at N = {BATCH}: D2 is to be compared at N = {LOG}."
    elif told_by == (True, False):
        said = f"Ours have these sizes at N = {BATCH} and not at N = {LOG}: D2 is to be compared at N = {BATCH}."
    headings = ["", "in the published logs", f"ours at N = {BATCH}", "to the logs", f"ours at N = {LOG}", "to the logs"]
    return [
        "The published dates come from logs that do not say their N. Two sizes in them tell it:",
        table(headings, rows),
        said,
    ]


def _from_init(run: Run) -> bool:
    return run.snapshots[0].epoch == 0


def _stopping(found: Found, ledger: Ledger) -> list[str]:
    rows: list[list[Cell]] = []
    said = []
    for method, group in found.variants():
        if method.rule != "dfa":
            continue
        if not group.n:
            rows.append([method.name, *["missing"] * 7])
        for n, code in ((BATCH, D2), (LOG, D2_LOG)):
            label = f"stopping {method.name} at its first firing (N = {n}) costs no accuracy"
            saved, kept = [], []
            for run in group.runs:
                dates = [first(group)[of][run.config.seed] for of in (D1, code)]
                epoch = min((date for date in dates if date is not None), default=None)
                if epoch is None:
                    rows.append([method.name, str(n), str(run.config.seed), "never", *[DASH] * 4])
                    continue
                then, end = next(s for s in run.snapshots if s.epoch == epoch), run.snapshots[-1]
                saved.append(1 - epoch / run.config.epochs)
                kept.append(round(then.accuracy - end.accuracy, 12))
                rows.append([
                    method.name, str(n), str(run.config.seed), str(epoch), percent(saved[-1]),
                    f"{then.accuracy:.3f}", f"{end.accuracy:.3f}", f"{100 * kept[-1]:+.1f}",
                ])  # fmt: skip
            words = ledger.add(label, of_direction(kept, 1))
            if saved:
                mean = statistics.fmean(saved)
                said.append(
                    f"{method.name}, N = {n}: {percent(mean)} saved, {100 * (mean - theirs.SAVED):+.0f} points from "
                    f"the published {percent(theirs.SAVED)}. At no loss: {words}."
                )
    return [
        f"Stopping DFA at its first firing, D1 or D2. Published: {percent(theirs.SAVED)} of the epochs saved at no "
        "loss of accuracy. Ours: the accuracy of the training at that epoch, less that at its end.",
        table(["", "N", "seed", "first firing", "saved", "accuracy then", "at the end", "then − end, points"], rows),
        *([bullets(said)] if said else []),
    ]
