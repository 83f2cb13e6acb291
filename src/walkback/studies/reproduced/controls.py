"""Controls: what must go wrong, or right, when one thing is taken away; and the nets of which nothing is published."""

from collections.abc import Mapping, Sequence
from typing import Any

from walkback.audits.settling import found_out
from walkback.checks import DEFAULT, judge
from walkback.report import published as theirs
from walkback.report.agreement import MISSING, of_fact
from walkback.report.tables import Cell, text
from walkback.studies.base import CHANCE
from walkback.studies.quantities import accuracy, largest_growth
from walkback.studies.reproduced.found import (
    NAMES,
    RULES,
    Found,
    Group,
    Method,
    alive,
    last_gradient,
    last_hidden,
    paired,
)
from walkback.studies.reproduced.main_audit import CODES, as_they_judge, judged
from walkback.studies.reproduced.words import DASH, Ledger, bullets, margin, percent, seeds_counted, stat, table

SHORT, LONG = 30, 100
BARE = {"net_options": {"terminal_norm": False}}
WITHOUT: Sequence[tuple[str, int, Mapping[str, Any]]] = (  # name, epochs and settings
    ("random labels", SHORT, {"labels": "random"}),
    ("no residual", SHORT, {"net_options": {"skip": False, "down_std": theirs.PLAIN_DOWN_STD}}),
    ("no terminal norm", SHORT, BARE),
    ("no terminal norm", LONG, BARE),
)
RANDOM = Method("Random credit", "random")
OTHER_NETS = ("student", "small-cnn", "small-resnet")  # described in the paper; no figure of them is typed in


def controls(found: Found, ledger: Ledger) -> list[str]:
    """Every control beside its twin, random credit, and a net at init."""
    rows: list[list[Cell]] = []
    labels: dict[str, Group] = {}
    for name, epochs, settings in WITHOUT:
        for rule in RULES:
            group, twin = found.group(rule, epochs=epochs, **settings), found.group(rule, epochs=epochs)
            rows.append([name, NAMES[rule], str(epochs), *_cells(group, twin)])
            if name == "random labels":
                labels[NAMES[rule]] = group
    rows.append(["random credit", DASH, str(LONG), *_cells(found.of(RANDOM))])
    headings = [
        "control", "rule", "epochs", "accuracy", "over its twin, points", "‖h_L‖", "growth", "‖g_L‖", "Γ", "n",
    ]  # fmt: skip
    return [
        "Published with the methods: random labels, drawn anew for every minibatch; no residual connection, with W2 at "
        f"std {theirs.PLAIN_DOWN_STD:g}; no terminal norm; a net at random init. Figures are typed in of the last two "
        "alone: without terminal norm DFA's D1 fires later and its D2 never (*First firings*); a net at init is below "
        "and in *A net at init*. The rest stands here without a published figure. Twin: the same rule, seed and budget "
        "as usual. Without a residual connection Γ is taken at the blocks' outputs.",
        table(headings, rows),
        bullets([*_chance(labels), *_random(found), *_init(found, ledger)]),
    ]


def _cells(group: Group, twin: Group | None = None) -> list[Cell]:
    over = DASH if twin is None else margin([*paired(group, twin).values()])
    return [
        stat(group.last(accuracy)), over, stat(group.last(last_hidden), "size"),
        stat(group.last(largest_growth), "size"), stat(group.last(last_gradient), "size"),
        stat(alive(group.last(lambda s: s.gamma)), "cosine"), str(group.n),
    ]  # fmt: skip


def _chance(labels: Mapping[str, Group]) -> list[str]:
    """Whether nothing was learned from labels that tell nothing."""
    there = {name: group for name, group in labels.items() if group.n}
    if not there:
        return ["Random labels tell nothing, so accuracy must stay at chance. Ours: missing."]
    margin_ = DEFAULT["depth.margin"]
    above = {name: max(group.last(accuracy)) - CHANCE for name, group in there.items()}
    far = [f"{name} ({100 * over:+.1f} points)" for name, over in above.items() if over > margin_]
    verdict = f"**No**: {', '.join(far)}" if far else f"Yes, {', '.join(there)}"
    return [
        f"Random labels tell nothing, so accuracy must stay at chance, {percent(CHANCE)}. No seed more than "
        f"{100 * margin_:g} points above it? {verdict}."
    ]


def _random(found: Found) -> list[str]:
    """What both protocols say of random credit, which must be found out."""
    evidence = found.evidence(RANDOM)
    if evidence is None:
        return ["Random credit, a fresh direction at every step, must be found out. Ours: missing."]
    by_paper, by_us = as_they_judge(found, evidence), judge(evidence)
    over = margin([*paired(found.of(RANDOM), found.of(RANDOM, k=0)).values()])
    back = [found_out(protocol) for protocol in (by_paper, by_us)]
    holds = "holds" in (by_paper.verdict, by_us.verdict)
    good = "It is, by both protocols" if all(back) else "**One lets it hold**" if holds else "It is not by both"
    return [
        f"Random credit, a fresh direction at every step, must be found out. {good}: published protocol "
        f"{judged(by_paper, CODES)}; ours {judged(by_us)}. Over its own frozen net, points: {text(over)}."
    ]


def _init(found: Found, ledger: Ledger) -> list[str]:
    """A net at init: published as at chance, with no check firing."""
    starts = [run.snapshots[0] for run in found.group("bp", k=0).runs if run.snapshots[0].epoch == 0]
    label = "at random init neither D1 nor D2 fires"
    told = MISSING
    if starts:
        most, least = DEFAULT["scale.growth"], DEFAULT["reference.floor"]
        quiet = all(largest_growth(start) <= most and last_gradient(start) >= least for start in starts)
        told = of_fact(quiet, seeds_counted(len(starts)))
    near = ""
    if starts:
        near = f" Accuracy there, published as chance: {text(stat([s.accuracy for s in starts]))}."
    return [f"Published: {label}. Ours: {ledger.add(label, told, len(starts))}.{near}"]


def other_nets(found: Found, _: Ledger) -> list[str]:
    """The other nets of the paper: what was trained, and no claim."""
    lines = []
    for net in OTHER_NETS:
        groups = [group for group in found.of_net(net) if group.n]
        runs = "; ".join(
            f"{g.config.label()} on {g.config.data}, {g.config.epochs} epochs, {seeds_counted(g.n)}: "
            f"{text(stat(g.last(accuracy)))}"
            for g in groups
        )
        lines.append(f"`{net}`: {runs or 'no run'}.")
    return [
        "StudentNet, SmallCNN and SmallResNet are described in the paper; of the figures typed in here none is of "
        "them, so nothing is compared. Runs of ours, with their accuracy:",
        bullets(lines),
    ]
