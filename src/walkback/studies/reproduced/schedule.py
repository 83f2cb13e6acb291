"""What the published recipe leaves open: the schedule of the learning rate, and what FA's embedding learns from."""

import math
import statistics
from collections.abc import Callable, Mapping, Sequence
from itertools import product
from typing import Any

from walkback.checks import DEFAULT
from walkback.checks.finding import listed, seeds_said
from walkback.report import published as theirs
from walkback.report.agreement import NEAR, of_size, of_spread
from walkback.report.tables import Cell
from walkback.studies.quantities import accuracy
from walkback.studies.reproduced.firings import CLAIMS, D1, D2_LOG, by_seed, first
from walkback.studies.reproduced.found import NAMES, Found, Group, alive, last_gradient, last_hidden
from walkback.studies.reproduced.layers import by_block
from walkback.studies.reproduced.words import DASH, Ledger, bullets, claimed, distance, stat, table

COSINE, CONSTANT = "cosine decay", "constant rate"
SCHEDULES: Mapping[str, Mapping[str, Any]] = {COSINE: {}, CONSTANT: {"schedule": "constant"}}
EMBEDS: Mapping[str, Mapping[str, Any]] = {"its own matrix": {}, "a_0": {"rule_options": {"embed": "block"}}}


def settings(found: Found, rule: str) -> dict[str, Group]:
    """Every setting of a rule by its name, the usual one first; with trained gains only those that are there."""
    embeds = EMBEDS if rule == "fa" else {"": {}}
    every = {}
    for gains, (embed, of_rule), (schedule, of_rate) in product((False, True), embeds.items(), SCHEDULES.items()):
        parts = [schedule, f"embedding from {embed}" if embed else "", "trained gains" if gains else ""]
        options = {"gains": True} if gains else {}
        group = found.group(rule, wanted=not gains, net_options=options, **of_rule, **of_rate)
        every[", ".join(filter(None, parts))] = group
    return {name: group for name, group in every.items() if group.n or "trained gains" not in name}


def off(group: Group, rule: str) -> list[str]:
    """Which of a rule's three figures are not as published."""
    told = {
        "the accuracy": of_spread(theirs.ACCURACY[rule], group.last(accuracy)),
        "the stream": of_size(theirs.LAST_HIDDEN[rule], group.last(last_hidden)),
        "the gradient": of_size(theirs.LAST_GRADIENT[rule], group.last(last_gradient)),
    }
    return [name for name, t in told.items() if t.kind in ("differ", "outside", "apart")]


def tried_settings(found: Found, rule: str) -> dict[str, Group]:
    """Those that are there and are neither the usual one nor with trained gains, which are tried elsewhere."""
    _, *others = settings(found, rule).items()
    return {name: group for name, group in others if group.n and "trained gains" not in name}


def schedules(found: Found, ledger: Ledger) -> list[str]:
    """The section."""
    log = theirs.AtBatch(theirs.LAST_GRADIENT["fa"].low, theirs.LOG_BATCH).at(DEFAULT["reference.batch"])
    return [
        "The published recipe has a cosine schedule; whether the optimizers of the blocks followed it is not said. Nor "
        "is it said what FA's embedding learns from: one more matrix down the chain (ours unless it says otherwise), "
        f"or a_0, as DFA's does. FA's published ‖g_L‖ is {log:.1e} at N = {DEFAULT['reference.batch']:g} if it comes "
        f"from a log at N = {theirs.LOG_BATCH}. Cosines: cos(a_l, g_l), mean over the seeds. D2 is "
        "dated at the N of the published logs.",
        *(part for rule in ("dfa", "fa") for part in _of_rule(found, ledger, rule, log)),
    ]


def _of_rule(found: Found, ledger: Ledger, rule: str, log: float) -> list[str]:
    groups = settings(found, rule)
    dates = [" / ".join(map(str, CLAIMS[code].get(rule, ()))) or DASH for code in (D1, D2_LOG)]
    rows: list[list[Cell]] = [[
        "published", claimed(theirs.ACCURACY[rule]), theirs.LAST_HIDDEN[rule].words, theirs.LAST_GRADIENT[rule].words,
        " ".join(f"{c:+.3f}" for c in theirs.COSINES[rule]), f"{theirs.GAMMA[rule]:+.3f}", *dates,
        str(theirs.SEEDS), DASH,
    ]]  # fmt: skip
    for name, group in groups.items():
        if name != next(iter(groups)) and "trained gains" not in name:  # those two are compared above already
            _compare(ledger, f"{NAMES[rule]}, {name}", rule, group)
        fired = first(group)
        cosines = [statistics.fmean(values) if values else math.nan for values in by_block(group, "cosine")]
        rows.append([
            name, stat(group.last(accuracy)), stat(group.last(last_hidden), "size"),
            stat(group.last(last_gradient), "size"), " ".join(f"{c:+.3f}" for c in cosines) or "missing",
            stat(alive(group.last(lambda s: s.gamma)), "cosine"),
            *(by_seed(fired[code]) if fired else "missing" for code in (D1, D2_LOG)), str(group.n),
            (listed(off(group, rule)) if off(group, rule) else "nothing") if group.n else "missing",
        ])  # fmt: skip
    headings = [
        NAMES[rule], "accuracy", "‖h_L‖", "‖g_L‖", "cosines, l = 0 … 3", "Γ", "first D1", f"first {D2_LOG}", "n",
        "not as published",
    ]  # fmt: skip
    return [table(headings, rows), bullets(_said(groups, rule, log))]


def _compare(ledger: Ledger, name: str, rule: str, group: Group) -> None:
    ledger.add(f"{name}: accuracy", of_spread(theirs.ACCURACY[rule], group.last(accuracy)))
    ledger.add(f"{name}: ‖h_L‖", of_size(theirs.LAST_HIDDEN[rule], group.last(last_hidden)))
    ledger.add(f"{name}: ‖g_L‖", of_size(theirs.LAST_GRADIENT[rule], group.last(last_gradient)))


def _said(groups: Mapping[str, Group], rule: str, log: float) -> list[str]:
    """Which setting lies nearest to each published figure, on the seeds that all settings have."""
    there = {name: group for name, group in groups.items() if group.n}
    lacking = [name for name in groups if name not in there]
    missing = [f"Missing: {'; '.join(lacking)}."] if lacking else []
    seeds = [s for s in next(iter(there.values())).seeds if all(s in g.seeds for g in there.values())] if there else []
    if len(there) < 2 or not seeds:
        return [*missing, f"{NAMES[rule]}: no seed is there with two settings, so nothing can be compared."]
    alike = {name: group.only(seeds) for name, group in there.items()}

    def nearest(off_by: Callable[[Group], float]) -> str:
        apart = {name: off_by(group) for name, group in alike.items()}
        return listed([name for name in apart if apart[name] == min(apart.values())])

    mean, hidden, gradient = theirs.ACCURACY[rule].mean, theirs.LAST_HIDDEN[rule], theirs.LAST_GRADIENT[rule]
    figures: dict[str, Callable[[Group], float]] = {
        f"accuracy {mean:.3f}": lambda g: _gap([mean], [g.last(accuracy)]),
        f"‖h_L‖ {hidden.words}": lambda g: distance(hidden, g.last(last_hidden)),
        f"‖g_L‖ {gradient.words}": lambda g: distance(gradient, g.last(last_gradient)),
    }
    if rule == "fa":
        figures[f"‖g_L‖ {log:.1e}"] = lambda g: distance(log, g.last(last_gradient))
    figures["cosines"] = lambda g: _gap(theirs.COSINES[rule], by_block(g, "cosine"))
    told = "; ".join(f"{figure}: {nearest(apart)}" for figure, apart in figures.items())
    fits = [name for name, group in there.items() if not off(group, rule)]
    whole = f"As published in accuracy, stream and gradient: {listed(fits) if fits else 'no setting'}."
    said = [*missing, f"Nearest to the published figure, {seeds_said([*map(str, seeds)])}: {told}.", whole]
    if rule == "fa":
        near = [name for name, group in there.items() if of_size(log, group.last(last_gradient)).kind == "near"]
        where = listed(near) if near else "no setting"
        said.append(f"With the published ‖g_L‖ at N = {theirs.LOG_BATCH}, within a factor {NEAR:g} of it: {where}.")
    return said


def _gap(claims: Sequence[float], ours: Sequence[Sequence[float]]) -> float:
    """The largest distance of our means from the published figures; infinite where we have none."""
    pairs = zip(claims, ours, strict=True)
    return max(abs(statistics.fmean(values) - claim) if values else math.inf for claim, values in pairs)
