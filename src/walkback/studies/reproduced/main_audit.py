"""The main audit: accuracy, the frozen net that decides FA's depth, the verdicts and what evidence they take."""

import statistics
from collections.abc import Mapping, Sequence
from typing import Any

from walkback.checks import DEFAULT, Finding, Judgement, Outcome, depth, judge
from walkback.checks.finding import listed
from walkback.records import Baseline, BaselineName, Evidence, Moment, SeedEvidence
from walkback.report import published as theirs
from walkback.report.agreement import CONFIDENCE, MISSING, Told, of_direction, of_fact, of_spread
from walkback.report.tables import Cell
from walkback.studies.base import CHANCE
from walkback.studies.quantities import accuracy
from walkback.studies.reproduced.found import BY_RULE, FLOAT32, METHODS, Found, Group, Method, alive, paired
from walkback.studies.reproduced.words import (
    DASH,
    Ledger,
    bullets,
    claimed,
    is_,
    margin,
    percent,
    seeds_counted,
    stat,
    table,
)

CODES = {"scale": "D1", "reference": "D2", "depth": "D3"}
FIVE = len(theirs.VERDICTS) - 1  # the published methods beside BP
OWN = "its own, FA-trained frozen net"


def accuracies(found: Found, ledger: Ledger) -> list[str]:
    """Accuracy of every net of the main audit beside the published one."""
    rows: list[list[Cell]] = []

    def row(name: str, key: str, group: Group, earlier: bool = True) -> None:
        claim, before = theirs.ACCURACY.get(key), theirs.EARLIER_ACCURACY.get(key) if earlier else None
        ours = group.last(accuracy)
        words = DASH if claim is None else ledger.add(f"{name} accuracy", of_spread(claim, ours))
        published, once = DASH if claim is None else claimed(claim), DASH if before is None else f"{before:.3f}"
        rows.append([name, published, once, stat(ours), str(group.n), words])

    for method, group in found.variants():
        row(method.name, method.rule, group, earlier=method.plain)
    for method in METHODS:
        key = f"{method.rule} k=0" if method.plain else ""
        row(f"{method.name} k = 0", key, found.of(method, k=0))
    row("BP, shallow (no blocks)", "", found.shallow())
    interval = f"{percent(CONFIDENCE)} intervals"
    return [table(["", f"published (n = {theirs.SEEDS})", "earlier re-run", "ours", "n", interval], rows)]


def bases(found: Found) -> dict[str, Group]:
    """The nets without trained blocks that FA can be held against."""
    return {
        OWN: found.group("fa", k=0),
        "the DFA-trained frozen net": found.group("dfa", k=0),
        "the BP-trained frozen net": found.group("bp", k=0),
        "the shallow net": found.shallow(),
    }


def depth_against(evidence: Evidence, base: Mapping[int, float]) -> tuple[Finding, Finding]:
    """What `depth` says by our protocol and by the published one with `base` as the frozen net, on common seeds."""
    seeds = [s for s in evidence.seeds if s.seed in base]
    baselines: dict[BaselineName, Baseline] = {k: b for k, b in evidence.baselines.items() if k == "shallow"}
    bp, frozen_bp = evidence.baselines.get("bp"), evidence.baselines.get("frozen_bp")
    if bp is not None and frozen_bp is not None:
        both = [seed for seed in bp.accuracy if seed in frozen_bp.accuracy]
        if both:
            baselines["bp"] = Baseline(accuracy={seed: bp.accuracy[seed] for seed in both})
            baselines["frozen_bp"] = Baseline(accuracy={seed: frozen_bp.accuracy[seed] for seed in both})
    if seeds:
        baselines["frozen"] = Baseline.by_seed({s.seed: base[s.seed] for s in seeds if s.seed is not None})
    replaced = evidence.model_copy(update={"seeds": seeds, "baselines": baselines})
    return depth(replaced), depth(replaced, protocol="published")


def _typed_in(mine: float, frozen: float) -> Outcome:
    """What the published check says of two numbers."""
    row = Evidence(
        name="published", seeds=[SeedEvidence(moments=[Moment(accuracy=mine)])],
        baselines={"frozen": Baseline.number(frozen)},
    )  # fmt: skip
    return depth(row, protocol="published").outcome


def frozen_nets(found: Found, ledger: Ledger) -> list[str]:
    """FA's margin over every net without trained blocks, and what the check says with each."""
    fa, evidence, mine = found.group("fa"), found.evidence(BY_RULE["fa"]), theirs.ACCURACY["fa"].mean
    rows: list[list[Cell]] = []
    of_paper: dict[str, Outcome] = {}
    for name, base in (
        ("the DFA-trained frozen net", theirs.ACCURACY["dfa k=0"].mean),
        ("the BP-trained one of the earlier re-run", theirs.EARLIER_ACCURACY["bp k=0"]),
    ):
        of_paper[name] = _typed_in(mine, base)
        rows.append([f"published FA, {name}", f"{base:.3f}", f"{100 * (mine - base):+.1f}", DASH, of_paper[name], DASH])
    by_paper: dict[str, Outcome] = {}
    by_us: dict[str, Outcome] = {}
    for name, group in bases(found).items():
        margins = paired(fa, group)
        if evidence is not None and margins:
            ours, published = depth_against(evidence, group.accuracy())
            by_paper[name], by_us[name] = published.outcome, ours.outcome
        rows.append([
            f"ours, {name}", stat(group.last(accuracy)), margin([*margins.values()]), str(len(margins)),
            by_paper.get(name, DASH), by_us.get(name, DASH),
        ])  # fmt: skip
    least = DEFAULT["depth.margin"]
    label = f"FA clears the DFA-trained frozen net by {100 * least:g} points"
    ledger.add(label, of_direction([*paired(fa, found.group("dfa", k=0)).values()], 1, least))
    said = [decides("The published protocol, published accuracy of FA", of_paper)]
    if by_us:
        said.append(decides("The published protocol, our runs", by_paper))
        said.append(decides("Our protocol, our runs", by_us))
        said += [f"By our protocol FA's own frozen net judges: depth {is_(by_us[OWN])}."] if OWN in by_us else []
    else:
        said.append("Our runs: missing. It takes FA and at least one such net of the same seed.")
    return [
        "How far FA stands above a net without trained blocks depends on which one. The published check takes one "
        "number for every rule, of the frozen net whose rest DFA trained; ours takes the rule's own. Margins are "
        f"paired by seed, with the {percent(CONFIDENCE)} interval of their mean; {100 * least:g} points are required. "
        "The last two columns: what `depth` says with that net in the frozen net's place.",
        table(["FA against", "its accuracy", "margin, points", "n", "published protocol", "our protocol"], rows),
        bullets(said),
    ]


def decides(who: str, outcomes: Mapping[str, Outcome]) -> str:
    """Whether the choice of the net that a rule is held against decides what is said of it.

    >>> decides("Here", {"one": "passes", "other": "fires"})
    'Here: passes against one; fires against other. **The choice decides.**'
    """
    by_outcome: dict[Outcome, list[str]] = {}
    for name, outcome in outcomes.items():
        by_outcome.setdefault(outcome, []).append(name)
    if len(by_outcome) > 1:
        told = "; ".join(f"{outcome} against {listed(names)}" for outcome, names in by_outcome.items())
        return f"{who}: {told}. **The choice decides.**"
    (outcome,) = by_outcome
    if len(outcomes) == 1:
        return f"{who}: {outcome} against {next(iter(outcomes))}, the only one there."
    end = "Nothing is settled by any." if outcome == "inconclusive" else "The choice does not decide."
    return f"{who}: {outcome} against each of the {len(outcomes)} that are there. {end}"


def as_they_judge(found: Found, evidence: Evidence, **settings: Any) -> Judgement:
    """The published protocol, which takes one frozen net for every rule: the one whose rest DFA trained, if there."""
    frozen = found.group("dfa", k=0, **settings).accuracy()
    if frozen:
        baselines = {**evidence.baselines, "frozen": Baseline.by_seed(frozen)}
        evidence = evidence.model_copy(update={"baselines": baselines})
    return judge(evidence, protocol="published")


def verdicts(found: Found, ledger: Ledger) -> list[str]:
    """Our runs judged by both protocols, and how many are walked back on how much evidence."""
    rows: list[list[Cell]] = []
    back: dict[Method, tuple[bool, bool, bool]] = {}
    for method in METHODS:
        evidence, claim, label = found.evidence(method), theirs.VERDICTS[method.rule], f"verdict on {method.name}"
        if evidence is None:
            rows.append([method.name, claim, "missing", "missing", "0", ledger.add(label, MISSING)])
            continue
        n = len(evidence.seeds)
        by_paper, by_us = as_they_judge(found, evidence), judge(evidence)
        words = ledger.add(label, _as_published(claim, by_paper), n)
        rows.append([method.name, claim, judged(by_paper, CODES), judged(by_us), str(n), words])
        if method.rule != "bp":  # the published count is of the methods beside it
            back[method] = _walked_back(found.of(method), by_paper)
    here = [method for method in back if method.plain]
    utility: list[list[Cell]] = []
    for place, (known, count) in enumerate(theirs.UTILITY.items()):
        names = [method.name for method in here if back[method][place]]
        ours = f"{len(names)} of {len(here)}" if here else "missing"
        who = listed(names) if names else "nobody" if here else DASH
        utility.append([known, f"{count} of {FIVE}", ours, who])
    those = (
        f"the {len(here)} of them that are here ({listed([m.name for m in here])})" if here else "those that are here"
    )
    return [
        "Our runs, judged by the published protocol (against one frozen net, the one whose rest DFA trained) and by "
        "ours (against the rule's own). *Open*: inconclusive.",
        table(["", "published", "ours, published protocol", "ours, our protocol", "n", "as published?"], rows),
        f"Decision utility: how many of the {FIVE} methods beside BP, and of {those}, are walked back by one who "
        f"knows so much. Our reading: accuracy walks back who is not above chance ({percent(CHANCE)}) in the mean; Γ "
        "besides whose mean Γ is not above 0; the full protocol on whom a published check fires. EP counts once, in "
        f"float64.{_either_precision(back)}",
        table(["known", "published", "ours", "walked back"], utility),
    ]


def _walked_back(group: Group, by_paper: Judgement) -> tuple[bool, bool, bool]:
    """Whether a method is walked back by its accuracy, by accuracy and Γ, by the full protocol."""
    low, gamma = statistics.fmean(group.last(accuracy)) <= CHANCE, alive(group.last(lambda s: s.gamma))
    flat = bool(gamma) and statistics.fmean(gamma) <= 0
    return low, low or flat, by_paper.verdict == "walked back"


def _either_precision(back: Mapping[Method, tuple[bool, bool, bool]]) -> str:
    """Whether EP's precision changes the count."""
    if FLOAT32 not in back or BY_RULE["ep"] not in back:
        return ""
    same = back[FLOAT32] == back[BY_RULE["ep"]]
    return " In float32 the counts are the same." if same else " **In float32 the counts would be others.**"


def judged(judgement: Judgement, codes: Mapping[str, str] | None = None) -> str:
    """A verdict with the checks that fire and those left open, by their published codes if these are given."""

    def those(outcome: Outcome) -> Sequence[str]:
        return [(codes or {}).get(f.check, f.check) for f in judgement.findings if f.outcome == outcome]

    fires, opens = those("fires"), those("inconclusive")
    told = [f"{listed(fires)} {'fires' if len(fires) == 1 else 'fire'}"] if fires else []
    told += [f"{listed(opens)} open"] if opens else []
    return judgement.verdict + (f" ({'; '.join(told)})" if told else "")


def _as_published(claim: str, judged: Judgement) -> Told:
    """A published verdict, against that of the published protocol on our runs."""
    n, outcomes = seeds_counted(judged.accuracy.n), {f.check: f.outcome for f in judged.findings}
    if claim == "holds":
        return of_fact(None if judged.verdict == "inconclusive" else judged.verdict == "holds", n)
    if claim == "D2 does not fire":
        outcome = outcomes["reference"]
        return of_fact(None if outcome == "inconclusive" else outcome != "fires", f"D2 {is_(outcome)}, {n}")
    fires = [outcome for outcome in outcomes.values() if outcome == "fires"]
    denied = [outcome for outcome in outcomes.values() if outcome not in ("fires", "inconclusive")]
    holds = False if denied else True if len(fires) == len(outcomes) else None
    return of_fact(holds, f"{len(fires)} of {len(outcomes)} fire, {n}")
