"""Controls: what must go wrong, or right, when one thing is taken away; and EP in both precisions."""

import statistics
from collections.abc import Mapping
from typing import Any

from walkback.checks import DEFAULT
from walkback.report import Cell, text
from walkback_paper import published as paper
from walkback_paper.agreement import of_direction, of_fact, seeds_counted
from walkback_paper.base import CHANCE
from walkback_paper.quantities import ACCURACY, GAMMA, GRADIENT, GROWTH, STREAM
from walkback_paper.reproduced.claims import INIT
from walkback_paper.reproduced.found import EP, EP32, LADDER, RANDOM, Trained, paired
from walkback_paper.reproduced.main_audit import PUBLISHED, SHORT, judged, protocols
from walkback_paper.reproduced.tried import nearest
from walkback_paper.reproduced.words import DASH, MISSING, Writer, bullets, margin, percent, stat, table

BARE = {"net_options": {"terminal_norm": False}}
WITHOUT: tuple[tuple[str, int, Mapping[str, Any]], ...] = (  # name, epochs and settings
    ("random labels", SHORT, {"labels": "random"}),
    ("no residual", SHORT, {"net_options": {"skip": False, "down_std": paper.PLAIN_DOWN_STD}}),
    ("no terminal norm", SHORT, BARE),
    ("no terminal norm", PUBLISHED, BARE),
)
ZEROS = "zero credits"  # the probe that counts them
MUST = "Random credit, a fresh direction at every step, must neither hold nor have an even Γ."


def controls(page: Writer) -> list[str]:
    """Every control beside its twin, random credit, and a net at init."""
    rows: list[list[Cell]] = []
    labels: dict[str, Trained] = {}
    for name, epochs, settings in WITHOUT:
        for m in LADDER:
            group, twin = page.of(m.but(epochs=epochs, **settings)), page.of(m.but(epochs=epochs))
            rows.append([name, m.name, str(epochs), *_cells(page, group, margin([*paired(group, twin).values()]))])
            if name == "random labels" and group.n:
                labels[m.name] = group
    rows.append(["random credit", DASH, str(PUBLISHED), *_cells(page, page.of(RANDOM), DASH)])
    headings = ["control", "rule", "epochs", "accuracy", "over its twin, points"]
    return [
        "Published with the methods: random labels, drawn again for every minibatch; no residual connection, with W2 "
        f"at std {paper.PLAIN_DOWN_STD:g}; no terminal norm; a net at random init. Figures are typed in of the last "
        "two alone: without terminal norm DFA's D1 fires later and its D2 never (*First firings*); a net at init is "
        "below and in *A net at init*. The rest stands here without a published figure. Twin: the same rule, seed "
        "and budget as usual. Without a residual connection Γ is taken at the blocks' outputs.",
        table([*headings, *(q.symbol for q in (STREAM, GROWTH, GRADIENT, GAMMA)), "n"], rows),
        bullets([_chance(labels), _random(page), _init(page)]),
        "StudentNet, SmallCNN and SmallResNet are described in the paper; of the figures typed in here none is of "
        "them. Where our runs of them ended: [snapshot](tables/snapshot.md).",
    ]


def _cells(page: Writer, group: Trained, over: Cell) -> list[Cell]:
    return [*page.cells(group, ACCURACY), over, *page.cells(group, STREAM, GROWTH, GRADIENT, GAMMA), str(group.n)]


def _chance(labels: Mapping[str, Trained]) -> str:
    """Whether nothing was learned from labels that tell nothing."""
    if not labels:
        return "Random labels tell nothing, so accuracy must stay at chance. Ours: missing."
    room = DEFAULT["depth.margin"]
    above = {name: max(group.last(ACCURACY)) - CHANCE for name, group in labels.items()}
    far = [f"{name} ({100 * over:+.1f} points)" for name, over in above.items() if over > room]
    answer = f"**No**: {', '.join(far)}" if far else f"Yes, {', '.join(labels)}"
    return (
        f"Random labels tell nothing, so accuracy must stay at chance, {percent(CHANCE)}. No seed more than "
        f"{100 * room:g} points above it? {answer}."
    )


def _random(page: Writer) -> str:
    """What both protocols say of random credit, which must not hold."""
    found = protocols(page, RANDOM)
    if found is None:
        return f"{MUST} Ours: missing."
    over = margin([*paired(page.of(RANDOM), page.of(RANDOM.but(k=0))).values()])
    even = [each.verdicts is not None and each.verdicts.gamma == "even" for each in found]
    holds = any(even) or any(each.verdict == "holds" for each in found)
    good = "**By one it does**" if holds else "It does neither"
    return (
        f"{MUST} {good}: published protocol {judged(found[0])}; ours {judged(found[1])}. Over its own frozen "
        f"net, points: {text(over)}."
    )


def _init(page: Writer) -> str:
    """A net at init: published as at chance, with no check firing."""
    starts = [run.snapshots[0].accuracy for run in page.of(INIT.ours).runs if run.snapshots[0].epoch == 0]
    near = f" Accuracy there, published as chance: {text(stat(starts))}." if starts else ""
    return f"{page.sentence(INIT)}{near}"


def precisions(page: Writer) -> list[str]:
    """EP in float64 and in float32 beside the published EP."""
    rows: list[list[Cell]] = []
    sentences = []
    for epochs in (PUBLISHED, SHORT):
        both = {"float64": page.of(EP.but(epochs=epochs)), "float32": page.of(EP32.but(epochs=epochs))}
        for name, group in both.items():
            shares = " ".join(map(percent, zeros(group))) or ("not measured" if group.n else MISSING)
            rows.append(
                [name, str(epochs), *page.cells(group, ACCURACY, STREAM, GRADIENT, GAMMA), shares, str(group.n)]
            )
        sentences.append(f"{epochs} epochs. {_drowned(*both.values())}{nearest(both, EP)}")
    rows.append([
        "published", str(PUBLISHED), str(paper.ACCURACY["ep"]), paper.LAST_HIDDEN["ep"].words,
        paper.LAST_GRADIENT["ep"].words, DASH, DASH, str(paper.SEEDS),
    ])  # fmt: skip
    headings = ["EP in", "epochs", "accuracy", "‖h_L‖", "‖g_L‖", "Γ", "credits exactly 0, by block", "n"]
    return [
        "EP's credit is a difference of two states. In float32 it is rounded to the last digit of the states, and lost "
        "where the stream is large. Which precision the published EP has, its β, step and number of steps are not "
        "published. *Our inference, to be tested here:* the published EP looks like that rounding: lower in accuracy "
        "and larger in its stream than EP in float64. It is an inference, not a proof: other β or steps may do the "
        "same.",
        table(headings, rows),
        bullets(sentences),
    ]


def zeros(group: Trained) -> list[float]:
    """By block the share of credits that are exactly zero at the end, over the seeds in which it is known."""
    readings = [run.snapshots[-1].measured.get(ZEROS, []) for run in group.runs]
    known = [[r.value for r in blocks] for blocks in readings if blocks and all(r.status == "ok" for r in blocks)]
    return [statistics.fmean(values) for values in zip(*known, strict=True)]


def _drowned(double: Trained, single: Trained) -> str:
    """Whether float32 loses credit, and what goes with it; on the seeds that both have."""
    seeds = [seed for seed in double.seeds if seed in single.seeds]
    if not seeds:
        return "No seed is there in both precisions: the inference cannot be tested."
    a, b = double.only(seeds), single.only(seeds)
    lost, parts = zeros(b), []
    if lost:
        most = max(range(len(lost)), key=lambda block: lost[block])
        order = "lower blocks first" if lost == sorted(lost, reverse=True) else "not lower blocks first"
        where = f"most in block {most} ({percent(lost[most])}), {order}" if lost[most] > 0 else "in no block"
        parts.append(f"Credits that are exactly zero in float32: {where}")
    parts.append(f"float32 is lower in accuracy: {of_direction([*paired(b, a).values()], -1).words}")
    ratios = [y / x for x, y in zip(a.last(STREAM), b.last(STREAM), strict=True)]
    times = ", ".join(f"{ratio:.2g}" for ratio in ratios)
    larger = of_fact(all(ratio > 1 for ratio in ratios), f"{times} times, {seeds_counted(len(seeds))}")
    return "; ".join([*parts, f"its stream is larger: {larger.words}"]) + ". "
