"""The main audit: accuracy, the frozen net that decides FA's depth, the verdicts and what evidence they take."""

import statistics
from collections.abc import Mapping, Sequence

from walkback.checks import DEFAULT, Finding, Judgement, Outcome, depth, judge
from walkback.checks.finding import listed
from walkback.records import Baseline, BaselineName, Evidence, Moment, SeedEvidence
from walkback.report import published as theirs
from walkback.report.agreement import CONFIDENCE, MISSING, Told, of_direction, of_fact, of_spread
from walkback.report.tables import Cell
from walkback.studies.base import CHANCE
from walkback.studies.reproduced.found import NAMES, RULES, Found, Group, accuracy, alive, paired
from walkback.studies.reproduced.words import (
    DASH,
    NO_RULE,
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

    for name, rule, group in found.variants():
        row(name, rule, group, earlier=name in NAMES.values())
    for rule in RULES:
        row(f"{NAMES[rule]} k = 0", f"{rule} k=0", found.group(rule, k=0))
    row("BP, shallow (no blocks)", "", found.shallow())
    for rule, claim in theirs.ACCURACY.items():
        if rule in theirs.VERDICTS and rule not in RULES:
            ledger.add(f"all of {NAMES[rule]}", MISSING)
            rows.append([NAMES[rule], claimed(claim), DASH, "missing", "0", NO_RULE])
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
    fa, evidence, mine = found.group("fa"), found.evidence("fa"), theirs.ACCURACY["fa"].mean
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


def verdicts(found: Found, ledger: Ledger) -> list[str]:
    """Our runs judged by both protocols, and how many are walked back on how much evidence."""
    rows: list[list[Cell]] = []
    walked: dict[str, list[str]] = {name: [] for name in theirs.UTILITY}
    here = []
    for rule, claim in theirs.VERDICTS.items():
        evidence, name, label = found.evidence(rule), NAMES[rule], f"verdict on {NAMES[rule]}"
        if evidence is None:
            if rule in RULES:
                ledger.add(label, MISSING)
            rows.append([name, claim, "missing", "missing", "0", "missing" if rule in RULES else NO_RULE])
            continue
        n = len(evidence.seeds)
        by_paper, by_us = judge(evidence, protocol="published"), judge(evidence)
        words = ledger.add(label, _as_published(rule, by_paper), n)
        codes = {"scale": "D1", "reference": "D2", "depth": "D3"}
        rows.append([name, claim, _said(by_paper, codes), _said(by_us, {}), str(n), words])
        if rule != "bp":  # the published count is of the methods beside it
            here.append(name)
            group = found.group(rule)
            low, gamma = statistics.fmean(group.last(accuracy)) <= CHANCE, alive(group.last(lambda s: s.gamma))
            flat = bool(gamma) and statistics.fmean(gamma) <= 0
            back = (low, low or flat, by_paper.verdict == "walked back")
            for known, is_back in zip(walked, back, strict=True):
                walked[known] += [name] if is_back else []
    methods = len(theirs.VERDICTS) - 1
    utility: list[list[Cell]] = [
        [known, f"{count} of {methods}", f"{len(walked[known])} of {len(here)}" if here else "missing",
         listed(walked[known]) if walked[known] else "nobody" if here else DASH]
        for known, count in theirs.UTILITY.items()
    ]  # fmt: skip
    those = f"the {len(here)} of them that are here ({listed(here)})" if here else "those of them that are here"
    return [
        "Our runs, judged by the published protocol and by ours. *Open*: inconclusive.",
        table(["", "published", "ours, published protocol", "ours, our protocol", "n", "as published?"], rows),
        f"Decision utility: how many of the {methods} methods beside BP, and of {those}, are walked back by one who "
        f"knows so much. Our reading: accuracy walks back who is not above chance ({percent(CHANCE)}) in the mean; Γ "
        "besides whose mean Γ is not above 0; the full protocol on whom a published check fires.",
        table(["known", "published", "ours", "walked back"], utility),
    ]


def _said(judgement: Judgement, codes: Mapping[str, str]) -> str:
    def those(outcome: Outcome) -> Sequence[str]:
        return [codes.get(f.check, f.check) for f in judgement.findings if f.outcome == outcome]

    fires, opens = those("fires"), those("inconclusive")
    told = [f"{listed(fires)} {'fires' if len(fires) == 1 else 'fire'}"] if fires else []
    told += [f"{listed(opens)} open"] if opens else []
    return judgement.verdict + (f" ({'; '.join(told)})" if told else "")


def _as_published(rule: str, judged: Judgement) -> Told:
    """The published verdict of a rule, against that of the published protocol on our runs."""
    n, outcomes = seeds_counted(judged.accuracy.n), {f.check: f.outcome for f in judged.findings}
    if rule == "bp":
        return of_fact(None if judged.verdict == "inconclusive" else judged.verdict == "holds", n)
    if rule == "fa":
        outcome = outcomes["reference"]
        return of_fact(None if outcome == "inconclusive" else outcome != "fires", f"D2 {is_(outcome)}, {n}")
    fires = [outcome for outcome in outcomes.values() if outcome == "fires"]
    denied = [outcome for outcome in outcomes.values() if outcome not in ("fires", "inconclusive")]
    holds = False if denied else True if len(fires) == len(outcomes) else None
    return of_fact(holds, f"{len(fires)} of {len(outcomes)} fire, {n}")
