"""What differs, what was tried against it, and what we think; an opinion is called one."""

import math
import statistics
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from walkback.checks import listed, seeds_said
from walkback.report import Cell
from walkback_paper import published as paper
from walkback_paper.agreement import NEAR, compare, of_size, ratio_to
from walkback_paper.quantities import ACCURACY, GAMMA, GRADIENT, STREAM, Quantity, cosine_at
from walkback_paper.reproduced.claims import AS_LOG, TRIED, TRIED_CLAIMS, TRIED_GAINS
from walkback_paper.reproduced.found import DFA, FA, SCALED, Ours, Trained
from walkback_paper.reproduced.statements import BATCH, D1, D2_LOG, DATES, LOG, by_seed, first
from walkback_paper.reproduced.words import DASH, DIFFERS, MISSING, Writer, bullets, table

FIGURES: Mapping[str, tuple[Any, Mapping[str, Any]]] = {  # what a setting is held against, and what is published of it
    "the accuracy": (ACCURACY, paper.ACCURACY),
    "the stream": (STREAM, paper.LAST_HIDDEN),
    "the gradient": (GRADIENT, paper.LAST_GRADIENT),
}


def off(group: Trained, rule: str) -> list[str]:
    """Which of a rule's three figures are not as published."""
    return [name for name, (what, claims) in FIGURES.items() if compare(claims[rule], group.last(what)).kind in DIFFERS]


def distance(claim: paper.SizeRange | float, ours: Sequence[float]) -> float:
    """How far our sizes are from a published one: the logarithm of the factor; infinite if there is none.

    >>> distance(1.0, [2.0]) == distance(1.0, [0.5]), distance(1.0, [0.0]), distance(paper.SizeRange(1, 3, ""), [2.0])
    (True, inf, 0.0)
    """
    ratio = ratio_to(claim, ours) if ours else math.nan
    return abs(math.log(ratio)) if math.isfinite(ratio) and ratio > 0 else math.inf


def _gap(claims: Sequence[float], ours: Sequence[Sequence[float]]) -> float:
    """The largest distance of our means from the published figures; infinite where we have none."""
    pairs = zip(claims, ours, strict=True)
    return max(abs(statistics.fmean(values) - claim) if values else math.inf for claim, values in pairs)


def cosines(group: Trained) -> list[tuple[float, ...]]:
    """cos(a_l, g_l) by block."""
    return [group.last(cosine_at(block)) for block in range(group.config.blocks)]


def nearest(groups: Mapping[str, Trained], method: Ours) -> str:
    """Which setting lies nearest to each published figure, on the seeds that all settings there have."""
    known = {name: group for name, group in groups.items() if group.n}
    seeds = [s for s in next(iter(known.values())).seeds if all(s in g.seeds for g in known.values())] if known else []
    if len(known) < 2 or not seeds:
        return ""
    rule, alike = method.rule, {name: group.only(seeds) for name, group in known.items()}
    mean, hidden, gradient = paper.ACCURACY[rule].mean, paper.LAST_HIDDEN[rule], paper.LAST_GRADIENT[rule]
    figures: dict[str, Callable[[Trained], float]] = {
        f"accuracy {mean:.3f}": lambda g: _gap([mean], [g.last(ACCURACY)]),
        f"‖h_L‖ {hidden}": lambda g: distance(hidden, g.last(STREAM)),
        f"‖g_L‖ {gradient}": lambda g: distance(gradient, g.last(GRADIENT)),
    }
    if method is FA:
        figures[f"‖g_L‖ {AS_LOG:.1e}"] = lambda g: distance(AS_LOG, g.last(GRADIENT))
    if rule in paper.COSINES:
        figures["cosines"] = lambda g: _gap(paper.COSINES[rule], cosines(g))
    best = []
    for figure, apart in figures.items():
        by_name = {name: apart(group) for name, group in alike.items()}
        names = [name for name, value in by_name.items() if value == min(by_name.values())]
        best.append(f"{figure}: {'both alike' if len(names) == len(alike) == 2 else listed(names)}")
    return f"Nearest to the published figure, {seeds_said([*map(str, seeds)])}: {'; '.join(best)}."


def sizes(options: Mapping[str, Any]) -> str:
    """Which sizes of FA were changed, in words.

    >>> sizes({"normalize": "none", "gain": 5, "top": 1 / 128}), sizes({"gain": 0, "top": 1.0})
    ('matrices × 5 and credit ÷ 128', 'matrices × 0')
    """
    factors = {"matrices": float(options["gain"]), "credit": float(options["top"])}
    changed = [f"{of} ÷ {1 / x:g}" if 0 < x < 1 else f"{of} × {x:g}" for of, x in factors.items() if x != 1]
    return " and ".join(changed) or "none"


def tried(page: Writer, method: Ours) -> dict[str, Trained]:
    """Every setting of a rule by its name, the usual one first; with trained gains or other sizes what is there."""
    every = {name: page.of(ours) for name, ours in TRIED[method].items()}
    every |= {name: group for name, ours in TRIED_GAINS[method].items() if (group := page.of(ours)).n}
    if method is FA:
        every |= {sizes(g.config.rule_options): g for g in page.found.scaled() if g.n}
    return every


def differences(page: Writer) -> list[str]:
    """The section: what was tried of DFA and FA, and what is left to explain."""
    for claim in TRIED_CLAIMS:
        page.held(claim)
    reasons = [f"{'; '.join(dict.fromkeys(labels))}: {reason}." for reason, labels in page.reasons.items()]
    return [
        *(["What is not as published, and why as far as we know:", bullets(reasons)] if reasons else []),
        "The published recipe has a cosine schedule; whether the optimizers of the blocks followed it is not said. Nor "
        "is it said what FA's embedding learns from: one more matrix down the chain (ours unless it says otherwise), "
        "or a_0, as DFA's does; nor whether the LayerNorms in the blocks train gains. *Matrices* and *credit*: FA with "
        f"other sizes of its feedback matrices and of its credit (`{SCALED}`); AdamW divides a gradient by its own "
        "size, so a factor counts only where gradients come near the 1e-8 that it adds. FA's published ‖g_L‖ is "
        f"{AS_LOG:.1e} at N = {BATCH} if it comes from a log at N = {LOG}. Cosines: cos(a_l, g_l), mean over the "
        "seeds. D2 is dated at the N of the published logs.",
        *(part for method in (DFA, FA) for part in _of_method(page, method)),
    ]


def _of_method(page: Writer, method: Ours) -> list[str]:
    rule, groups = method.rule, tried(page, method)
    usual, *others = groups
    dates = [" / ".join(map(str, DATES[code].get(rule, ()))) or DASH for code in (D1, D2_LOG)]
    rows: list[list[Cell]] = [[
        "published", str(paper.ACCURACY[rule]), paper.LAST_HIDDEN[rule].words, paper.LAST_GRADIENT[rule].words,
        " ".join(f"{c:+.3f}" for c in paper.COSINES[rule]), f"{paper.GAMMA[rule]:+.3f}", *dates,
        str(paper.SEEDS), DASH,
    ]]  # fmt: skip
    alone = {seed for name in others for seed in groups[name].seeds} & {*groups[usual].seeds}
    shown = [(usual, groups[usual])]
    if alone and len(alone) < groups[usual].n:
        shown.append((f"{usual}, {seeds_said([str(s) for s in sorted(alone)])} alone", groups[usual].only([*alone])))
    for name, group in (*shown, *((name, groups[name]) for name in others)):
        fired, means = first(group), [statistics.fmean(v) if v else math.nan for v in cosines(group)]
        rows.append([
            name, *page.cells(group, ACCURACY, STREAM, GRADIENT),
            " ".join(f"{c:+.3f}" for c in means) if group.n else MISSING, *page.cells(group, GAMMA),
            *(by_seed(fired[code]) if fired else MISSING for code in (D1, D2_LOG)), str(group.n),
            (listed(off(group, rule)) if off(group, rule) else "nothing") if group.n else MISSING,
        ])  # fmt: skip
    headings = [
        method.name, "accuracy", "‖h_L‖", "‖g_L‖", "cosines, l = 0 … 3", "Γ", "first D1", f"first {D2_LOG}", "n",
        "not as published",
    ]  # fmt: skip
    return [table(headings, rows), bullets(_said(method, groups))]


def _said(method: Ours, groups: Mapping[str, Trained]) -> list[str]:
    """What is nearest, what fits, and what we think of what differs."""
    rule, (usual, *_) = method.rule, groups
    known = {name: group for name, group in groups.items() if group.n}
    lacking = [name for name in groups if name not in known]
    sentences = [f"Missing: {'; '.join(lacking)}."] if lacking else []
    sentences.append(
        nearest(groups, method) or f"{method.name}: no seed is there with two settings, so nothing can be compared."
    )
    if not known:
        return sentences
    fits = [name for name, group in known.items() if not off(group, rule)]
    sentences.append(f"As published in accuracy, stream and gradient: {listed(fits) if fits else 'no setting'}.")
    if method is FA:
        near = [name for name, group in known.items() if of_size(AS_LOG, group.last(GRADIENT)).kind == "near"]
        where = listed(near) if near else "no setting"
        sentences.append(f"With the published ‖g_L‖ at N = {LOG}, within a factor {NEAR:g} of it: {where}.")
        sentences.append(
            f"The earlier re-run of FA reached {paper.EARLIER_ACCURACY['fa']:.3f}; with its credit normalised by "
            f"sample it was at {paper.EARLIER_FA_SAMPLE:.2f} after {paper.EARLIER_FA_SAMPLE_EPOCH} epochs, over the "
            f"batch it gave {paper.EARLIER_FA_BATCH:.2f}. Not tried: another law of the feedback matrices."
        )
    sentences += _between(method, groups)
    tried_here = [name for name in known if name != usual]
    if usual in known and not off(known[usual], rule):
        sentences.append(f"Nothing of {method.name} is left to explain.")
    elif fits:
        sentences.append(f"*Opinion:* {listed(fits)} may be the difference.")
    elif tried_here:
        sentences.append(f"*Opinion:* what was tried does not explain {method.name}, and we do not know what does.")
    return sentences


def _between(method: Ours, groups: Mapping[str, Trained]) -> list[str]:
    """Which published figures lie between ours without and with trained gains, on the seeds that both have."""
    usual = next(iter(groups))
    gains = groups.get(f"{usual}, trained gains")
    seeds = [s for s in groups[usual].seeds if gains is not None and s in gains.seeds]
    if gains is None or not seeds:
        return []
    rule, between = method.rule, []
    claims: dict[Quantity, Any] = {ACCURACY: paper.ACCURACY[rule].mean, STREAM: paper.LAST_HIDDEN[rule],
              GRADIENT: paper.LAST_GRADIENT[rule], GAMMA: paper.GAMMA[rule]}  # fmt: skip
    for what, claim in claims.items():
        ends = [what.over(group.only(seeds).runs).mean for group in (groups[usual], gains)]
        low, high = claim[:2] if isinstance(claim, paper.SizeRange) else (claim, claim)
        if None not in ends and min(e or 0.0 for e in ends) <= low and high <= max(e or 0.0 for e in ends):
            between.append(what.symbol)
    on, symbols = seeds_said([*map(str, seeds)]), listed(between) if between else "none"
    return [f"Published figures that lie between ours without and with trained gains, {on}: {symbols}."]
