"""The main audit: accuracy, the frozen net that decides FA's depth, the verdicts and what evidence they take."""

import statistics
from collections.abc import Mapping, Sequence

from walkback.checks import DEFAULT, Judgement, Outcome, depth, judge, listed
from walkback.records import Baseline, Evidence, Moment, Training
from walkback.report import Cell
from walkback_paper import published as paper
from walkback_paper.agreement import CONFIDENCE
from walkback_paper.base import CHANCE
from walkback_paper.quantities import ACCURACY, GAMMA, GRADIENT, STREAM
from walkback_paper.reproduced.claims import ACCURACIES, CLEARS, VERDICTS
from walkback_paper.reproduced.found import BP, DFA, EP, EP32, FA, METHODS, SHALLOW, Ours, paired
from walkback_paper.reproduced.statements import OPEN, as_they_judge, depth_against, is_
from walkback_paper.reproduced.words import DASH, MISSING, Writer, bullets, margin, percent, stat, table

CODES = {"scale": "D1", "reference": "D2", "depth": "D3"}
FIVE = len(paper.VERDICTS) - 1  # the published methods beside BP
OWN = "its own, FA-trained frozen net"
BASES = {
    OWN: FA.but(k=0),
    "the DFA-trained frozen net": DFA.but(k=0),
    "the BP-trained frozen net": BP.but(k=0),
    "the shallow net": SHALLOW,
}


def accuracies(page: Writer) -> list[str]:
    """Accuracy of every net of the main audit beside the published one."""
    return [page.table(ACCURACIES, f"{percent(CONFIDENCE)} intervals")]


def frozen_nets(page: Writer) -> list[str]:
    """FA's margin over every net without trained blocks, and what the check says with each."""
    fa, evidence, accuracy = page.of(FA), page.found.evidence(FA), paper.ACCURACY["fa"].mean
    rows: list[list[Cell]] = []
    of_paper: dict[str, Outcome] = {}
    for name, base in (
        ("the DFA-trained frozen net", paper.ACCURACY["dfa k=0"].mean),
        ("the BP-trained one of the earlier re-run", paper.EARLIER_ACCURACY["bp k=0"]),
    ):
        typed_in = Evidence(name="published", seeds=[Training(moments=[Moment(accuracy=accuracy)])],
                            baselines={"frozen": Baseline.number(base)})  # fmt: skip
        of_paper[name] = depth(typed_in, protocol="published").outcome
        rows.append(
            [f"published FA, {name}", f"{base:.3f}", f"{100 * (accuracy - base):+.1f}", DASH, of_paper[name], DASH]
        )
    by_paper: dict[str, Outcome] = {}
    by_us: dict[str, Outcome] = {}
    for name, ours in BASES.items():
        group = page.of(ours)
        margins = paired(fa, group)
        if evidence is not None and margins:
            us, published = depth_against(evidence, group.accuracy())
            by_paper[name], by_us[name] = published.outcome, us.outcome
        rows.append([
            f"ours, {name}", stat(group.last(ACCURACY)), margin([*margins.values()]), str(len(margins)),
            by_paper.get(name, DASH), by_us.get(name, DASH),
        ])  # fmt: skip
    page.held(CLEARS)
    sentences = [decides("The published protocol, published accuracy of FA", of_paper)]
    if by_us:
        sentences += [decides("The published protocol, our runs", by_paper), decides("Our protocol, our runs", by_us)]
        sentences += [f"By our protocol FA's own frozen net judges: depth {is_(by_us[OWN])}."] if OWN in by_us else []
    else:
        sentences.append("Our runs: missing. It takes FA and at least one such net of the same seed.")
    sentences.append(
        "*Opinion:* a margin should name the net it is taken over; the rule's own frozen net differs from the subject "
        "only in that its blocks do not train."
    )
    return [
        "How far FA stands above a net without trained blocks depends on which one. The published check takes one "
        "number for every rule, of the frozen net whose rest DFA trained; ours takes the rule's own. Margins are "
        f"paired by seed, with the {percent(CONFIDENCE)} interval of their mean; {100 * DEFAULT['depth.margin']:g} "
        "points are required. The last two columns: what `depth` says with that net in the frozen net's place.",
        table(["FA against", "its accuracy", "margin, points", "n", "published protocol", "our protocol"], rows),
        bullets(sentences),
    ]


def decides(who: str, outcomes: Mapping[str, Outcome]) -> str:
    """Whether the choice of the net that a rule is held against decides its outcome.

    >>> decides("Here", {"one": "passes", "other": "fires"})
    'Here: passes against one; fires against other. **The choice decides.**'
    """
    by_outcome: dict[Outcome, list[str]] = {}
    for name, outcome in outcomes.items():
        by_outcome.setdefault(outcome, []).append(name)
    if len(by_outcome) > 1:
        parts = "; ".join(f"{outcome} against {listed(names)}" for outcome, names in by_outcome.items())
        return f"{who}: {parts}. **The choice decides.**"
    (outcome,) = by_outcome
    if len(outcomes) == 1:
        return f"{who}: {outcome} against {next(iter(outcomes))}, the only one there."
    end = "Nothing is settled by any." if outcome in OPEN else "The choice does not decide."
    return f"{who}: {outcome} against each of the {len(outcomes)} that are there. {end}"


def protocols(page: Writer, ours: Ours) -> tuple[Judgement, Judgement] | None:
    """Our runs judged by the published protocol, with DFA's frozen net of their budget, and by ours."""
    evidence = page.found.evidence(ours)
    budget = {"epochs": ours.settings["epochs"]} if "epochs" in ours.settings else {}
    return None if evidence is None else (as_they_judge(page.found, evidence, DFA.but(k=0, **budget)), judge(evidence))


def verdicts(page: Writer) -> list[str]:
    """Our runs judged by both protocols, and how many are walked back on how much evidence."""
    rows: list[list[Cell]] = []
    back: dict[Ours, tuple[bool, bool, bool]] = {}
    for method, claim in VERDICTS.items():
        found, n = protocols(page, method), page.of(method).n
        verdicts_of = [judged(found[0]), judged(found[1])] if found else [MISSING, MISSING]
        rows.append([method.name, paper.VERDICTS[method.rule], *verdicts_of, str(n), page.held(claim)])
        if found and method is not BP:  # the published count is of the methods beside it
            low = statistics.fmean(page.of(method).last(ACCURACY)) <= CHANCE
            gamma = page.of(method).last(GAMMA)
            flat = bool(gamma) and statistics.fmean(gamma) <= 0
            back[method] = low, low or flat, found[0].verdict == "walked back"
    here = [method for method in back if method.plain]
    utility: list[list[Cell]] = []
    for place, (known, count) in enumerate(paper.UTILITY.items()):
        names = [method.name for method in here if back[method][place]]
        who = listed(names) if names else "nobody" if here else DASH
        utility.append([known, f"{count} of {FIVE}", f"{len(names)} of {len(here)}" if here else MISSING, who])
    which = f"the {len(here)} of them that are here ({listed([m.name for m in here])})" if here else "those here"
    single = ""
    if EP in back and EP32 in back:
        same = back[EP] == back[EP32]
        single = " In float32 the counts are the same." if same else " **In float32 the counts would be others.**"
    return [
        "Our runs, judged by the published protocol (against one frozen net, the one whose rest DFA trained) and by "
        "ours (its answer on accuracy, against the rule's own and the shallow net). *Open*: not settled.",
        table(["", "published", "ours, published protocol", "ours, our protocol", "n", "as published?"], rows),
        f"Decision utility: how many of the {FIVE} methods beside BP, and of {which}, are walked back by one who "
        f"knows so much. Our reading: accuracy walks back a method whose mean is not above chance ({percent(CHANCE)}); "
        "Γ also one whose mean Γ is not above 0; the full protocol one on which a published check fires. EP counts "
        f"once, in float64.{single}",
        table(["known", "published", "ours", "walked back"], utility),
    ]


def judged(judgement: Judgement) -> str:
    """Our answers; of the published protocol its verdict with the checks that fire and those left open, by code."""

    def with_outcome(outcome: Outcome) -> Sequence[str]:
        return sorted(CODES.get(f.check, f.check) for f in judgement.findings if f.outcome == outcome)

    if judgement.verdicts is not None:
        answers = judgement.verdicts
        return f"{judgement.answer}; lower half {answers.lower_half}; Γ {answers.gamma}"
    fires, opens = with_outcome("fires"), with_outcome("inconclusive")
    parts = [f"{listed(fires)} {'fires' if len(fires) == 1 else 'fire'}"] if fires else []
    parts += [f"{listed(opens)} open"] if opens else []
    word = "open" if judgement.verdict == "inconclusive" else judgement.verdict
    return word + (f" ({'; '.join(parts)})" if parts else "")


SHORT, PUBLISHED = 30, 100


def short(page: Writer) -> list[str]:
    """All methods at the shorter budget. What is published is of the longer one, so nothing is held against it."""
    rows: list[list[Cell]] = []
    for method in METHODS:
        ours, frozen = method.but(epochs=SHORT), method.but(k=0, epochs=SHORT)
        found = protocols(page, ours)
        verdicts_of = [judged(found[0]), judged(found[1])] if found else [MISSING, MISSING]
        rows.append([
            method.name, str(paper.ACCURACY[method.rule]), *page.cells(ours, ACCURACY), *page.cells(frozen, ACCURACY),
            *page.cells(ours, STREAM, GRADIENT, GAMMA), paper.VERDICTS[method.rule], *verdicts_of,
            f"{page.of(ours).n}, {page.of(frozen).n}",
        ])  # fmt: skip
    headings = [
        "", f"published, {PUBLISHED} epochs", f"ours, {SHORT} epochs", "its frozen net", "‖h_L‖", "‖g_L‖", "Γ",
        f"published verdict, {PUBLISHED} epochs", "ours, published protocol", "ours, our protocol", "n",
    ]  # fmt: skip
    return [
        f"The budgets differ: the published one is {PUBLISHED} epochs, ours {SHORT}. A third of it trains more of the "
        "methods in the same time; its figures stand beside the published ones, and are not held against them. n: "
        "seeds, of the method and of its frozen net.",
        table(headings, rows),
    ]
