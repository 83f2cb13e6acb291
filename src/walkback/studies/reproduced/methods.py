"""The paper's methods at a shorter budget, and EP in both precisions."""

import statistics
from collections.abc import Callable

from walkback.checks import judge
from walkback.report import published as theirs
from walkback.report.agreement import of_direction, of_fact
from walkback.report.tables import Cell
from walkback.studies.quantities import accuracy
from walkback.studies.reproduced.found import (
    BY_RULE,
    FLOAT32,
    METHODS,
    Found,
    Group,
    alive,
    last_gradient,
    last_hidden,
    paired,
)
from walkback.studies.reproduced.main_audit import CODES, as_they_judge, judged
from walkback.studies.reproduced.words import (
    DASH,
    Ledger,
    bullets,
    claimed,
    distance,
    percent,
    seeds_counted,
    stat,
    table,
)

SHORT = 30
ZEROS = "zero credits"  # the probe that counts them
PUBLISHED = 100


def short(found: Found, _: Ledger) -> list[str]:
    """All methods at the shorter budget. What is published is of the longer one, so nothing is held to agree."""
    rows: list[list[Cell]] = []
    for method in METHODS:
        group, frozen = found.of(method, epochs=SHORT), found.of(method, k=0, epochs=SHORT)
        evidence = found.evidence(method, epochs=SHORT)
        verdicts = ["missing", "missing"]
        if evidence is not None:
            verdicts = [judged(as_they_judge(found, evidence, epochs=SHORT), CODES), judged(judge(evidence))]
        rows.append([
            method.name, claimed(theirs.ACCURACY[method.rule]), stat(group.last(accuracy)),
            stat(frozen.last(accuracy)), stat(group.last(last_hidden), "size"),
            stat(group.last(last_gradient), "size"), stat(alive(group.last(lambda s: s.gamma)), "cosine"),
            theirs.VERDICTS[method.rule], *verdicts, f"{group.n}, {frozen.n}",
        ])  # fmt: skip
    headings = [
        "", f"published, {PUBLISHED} epochs", f"ours, {SHORT} epochs", "its frozen net", "‖h_L‖", "‖g_L‖", "Γ",
        f"published verdict, {PUBLISHED} epochs", "ours, published protocol", "ours, our protocol", "n",
    ]  # fmt: skip
    return [
        f"The published budget is {PUBLISHED} epochs. A third of it trains more of the methods in the same time; its "
        "figures stand beside the published ones, and are not held against them. n: seeds, of the method and of its "
        "frozen net.",
        table(headings, rows),
    ]


def precisions(found: Found, _: Ledger) -> list[str]:
    """EP in float64 and in float32 beside the published EP."""
    rows: list[list[Cell]] = []
    said = []
    for epochs in (PUBLISHED, SHORT):
        double, single = (found.of(m, epochs=epochs) for m in (BY_RULE["ep"], FLOAT32))
        for name, group in (("float64", double), ("float32", single)):
            shares = " ".join(map(percent, zeros(group))) or ("not measured" if group.n else "missing")
            rows.append([
                name, str(epochs), stat(group.last(accuracy)), stat(group.last(last_hidden), "size"),
                stat(group.last(last_gradient), "size"), stat(alive(group.last(lambda s: s.gamma)), "cosine"), shares,
                str(group.n),
            ])  # fmt: skip
        said.append(f"{epochs} epochs. {_drowned(double, single)}{_nearer(double, single, epochs)}")
    rows.append([
        "published", str(PUBLISHED), claimed(theirs.ACCURACY["ep"]), theirs.LAST_HIDDEN["ep"].words,
        theirs.LAST_GRADIENT["ep"].words, DASH, DASH, str(theirs.SEEDS),
    ])  # fmt: skip
    headings = ["EP in", "epochs", "accuracy", "‖h_L‖", "‖g_L‖", "Γ", "credits exactly 0, by block", "n"]
    return [
        "EP's credit is a difference of two states. In float32 it is rounded to the last digit of the states, and lost "
        "where the stream is large. Which precision the published EP has, its β, step and number of steps are not "
        "published. *Our inference, to be tested here:* the published EP looks like that rounding: lower in accuracy "
        "and larger in its stream than EP in float64. It is an inference, not a proof: other β or steps may do the "
        "same.",
        table(headings, rows),
        bullets(said),
    ]


def zeros(group: Group) -> list[float]:
    """By block the share of credits that are exactly zero at the end, over the seeds that tell; none: nothing."""
    readings = [run.snapshots[-1].measured.get(ZEROS, []) for run in group.runs]
    told = [[r.value for r in blocks] for blocks in readings if blocks and all(r.status == "ok" for r in blocks)]
    return [statistics.fmean(values) for values in zip(*told, strict=True)]


def _drowned(double: Group, single: Group) -> str:
    """Whether float32 loses credit, and what goes with it; on the seeds that both have."""
    seeds = [seed for seed in double.seeds if seed in single.seeds]
    if not seeds:
        return "No seed is there in both precisions: the inference cannot be tested."
    a, b = double.only(seeds), single.only(seeds)
    lost = zeros(b)
    parts = []
    if lost:
        most = max(range(len(lost)), key=lambda block: lost[block])
        order = "lower blocks first" if lost == sorted(lost, reverse=True) else "not lower blocks first"
        where = f"most in block {most} ({percent(lost[most])}), {order}" if lost[most] > 0 else "in no block"
        parts.append(f"Credits that are exactly zero in float32: {where}")
    lower = of_direction([*paired(b, a).values()], -1)
    parts.append(f"float32 is lower in accuracy: {lower.words}")
    ratios = [y / x for x, y in zip(a.last(last_hidden), b.last(last_hidden), strict=True)]
    times = ", ".join(f"{ratio:.2g}" for ratio in ratios)
    larger = of_fact(all(ratio > 1 for ratio in ratios), f"{times} times, {seeds_counted(len(seeds))}")
    parts.append(f"its stream is larger: {larger.words}")
    return "; ".join(parts) + "."


def _nearer(double: Group, single: Group, epochs: int) -> str:
    """Which of the two lies nearer to the published EP, figure by figure."""
    seeds = [seed for seed in double.seeds if seed in single.seeds]
    if not seeds:
        return ""
    names: dict[str, list[str]] = {}
    mean = theirs.ACCURACY["ep"].mean
    a, b = double.only(seeds), single.only(seeds)
    hidden, gradient = theirs.LAST_HIDDEN["ep"], theirs.LAST_GRADIENT["ep"]
    figures: dict[str, Callable[[Group], float]] = {
        "accuracy": lambda g: abs(statistics.fmean(g.last(accuracy)) - mean),
        "‖h_L‖": lambda g: distance(hidden, g.last(last_hidden)),
        "‖g_L‖": lambda g: distance(gradient, g.last(last_gradient)),
    }
    for name, apart in figures.items():
        of_double, of_single = apart(a), apart(b)
        side = "both alike" if of_double == of_single else "float64" if of_double < of_single else "float32"
        names.setdefault(side, []).append(name)
    told = "; ".join(f"{side} in {', '.join(these)}" for side, these in names.items())
    budget = "" if epochs == PUBLISHED else f" (published at {PUBLISHED} epochs)"
    return f" Nearer to the published EP{budget}: {told}."
