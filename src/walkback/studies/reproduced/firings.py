"""Through time: when each check first fires, with and without the terminal norm, and what stopping there would cost."""

import statistics
from collections.abc import Mapping, Sequence

from walkback.checks import DEFAULT, first_fired
from walkback.checks.finding import seeds_said
from walkback.checks.reference import FLOOR
from walkback.records import evidence_of_runs
from walkback.report import published as theirs
from walkback.report.agreement import MISSING, Told, of_direction, of_fact, of_spread
from walkback.report.tables import Cell
from walkback.studies.reproduced.found import NAMES, Found, Group
from walkback.studies.reproduced.words import DASH, Ledger, bullets, percent, seeds_counted, table

Dates = Mapping[int, int | None]  # by seed the first epoch; None: never
CLAIMS: Mapping[str, Mapping[str, Sequence[int]]] = {"D1": theirs.FIRST_GROWTH, "D2": theirs.FIRST_FLOOR}


def first(group: Group) -> dict[str, Dates]:
    """When D1 and D2 first fired; nothing of a group without runs."""
    if not group.n:
        return {}
    found = first_fired(evidence_of_runs(group.config.rule, group.runs))
    return {
        code: {int(seed): epoch for seed, epoch in found[name].epochs.items()}
        for code, name in (("D1", "scale"), ("D2", "reference floor"))
    }


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

    for name, rule, group in found.variants():
        for code, claims in CLAIMS.items():
            ours, claim = first(group).get(code), claims.get(rule)
            if claim is None:
                row(name, code, DASH, ours, DASH)
                continue
            told = MISSING if ours is None else of_dates(claim, ours)
            words = ledger.add(f"{name} first {code}" + ("" if claim else ": never"), told, None if claim else group.n)
            row(name, code, " / ".join(map(str, claim)) or "never", ours, words)
    for rule in ("bp", "fa", "dfa"):
        group, name = found.group(rule, net_options={"terminal_norm": False}), f"{NAMES[rule]}, no terminal norm"
        for code in CLAIMS:
            ours = first(group).get(code)
            if rule != "dfa":
                row(name, code, DASH, ours, DASH)
                continue
            claimed, label = ("fires, later", "D1 fires later") if code == "D1" else ("never", "D2 never fires")
            told = MISSING
            if ours is not None:
                told = of_dates((), ours) if code == "D2" else _later(ours, first(found.group("dfa")).get("D1", {}))
            row(name, code, claimed, ours, ledger.add(f"DFA without terminal norm: {label}", told, group.n))
    return [
        f"The first epoch after which one block's growth exceeds {DEFAULT['scale.growth']:g} (D1), and after which "
        f"‖g_L‖ is below {DEFAULT[FLOOR]:g} (D2). The dates of the three published seeds are taken as a mean ± std.",
        table(["", "check", "published", "ours, by seed", "ours to published"], rows),
        *_stopping(found, ledger),
    ]


def _stopping(found: Found, ledger: Ledger) -> list[str]:
    rows: list[list[Cell]] = []
    said = []
    for name, rule, group in found.variants():
        if rule != "dfa":
            continue
        label = f"stopping {name} at its first firing costs no accuracy"
        saved, kept = [], []
        if not group.n:
            rows.append([name, *["missing"] * 6])
        for run in group.runs:
            dates = [by[run.config.seed] for by in first(group).values()]
            epoch = min((date for date in dates if date is not None), default=None)
            if epoch is None:
                rows.append([name, str(run.config.seed), "never", *[DASH] * 4])
                continue
            then, end = next(s for s in run.snapshots if s.epoch == epoch), run.snapshots[-1]
            saved.append(1 - epoch / run.config.epochs)
            kept.append(round(then.accuracy - end.accuracy, 12))
            rows.append([
                name, str(run.config.seed), str(epoch), percent(saved[-1]), f"{then.accuracy:.3f}",
                f"{end.accuracy:.3f}", f"{100 * kept[-1]:+.1f}",
            ])  # fmt: skip
        told = of_direction(kept, 1)
        words = ledger.add(label, told)
        if saved:
            mean = statistics.fmean(saved)
            said.append(f"{name}: {percent(mean)} saved, {100 * (mean - theirs.SAVED):+.0f} points from the published "
                        f"{percent(theirs.SAVED)}. At no loss: {words}.")  # fmt: skip
    return [
        f"Stopping DFA at its first firing, D1 or D2. Published: {percent(theirs.SAVED)} of the epochs saved at no "
        "loss of accuracy. Ours: the accuracy of the training at that epoch, less that at its end.",
        table(["", "seed", "first firing", "saved", "accuracy then", "at the end", "then − end, points"], rows),
        *([bullets(said)] if said else []),
    ]
