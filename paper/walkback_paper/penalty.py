"""penalty: what does λ‖f_l‖² rescue, and what not? DFA and bp over five λ, beside their frozen nets.

A penalty on the branches holds the stream, and with it the gradient that cosines are taken against. Whether the trained
blocks then do anything is another question, and depth asks it: every net is held against the frozen net of its own
rule. A frozen net has no block that a penalty could act on, so one of λ = 0 serves every λ.
"""

from dataclasses import replace

from matplotlib.figure import Figure

from walkback.checks import DEFAULT, Judgement, judge
from walkback.report import GLYPHS, Cell, Table
from walkback_paper.base import Arm, Collected, Extent, Study, finding, register
from walkback_paper.figures import INKS, Ink, through_training
from walkback_paper.quantities import ACCURACY, DEEP_COSINE, DEEP_RHO, GRADIENT, STREAM, Quantity, rhos

RULES = ("dfa", "bp")
PENALTIES = (0.0, 1e-4, 1e-3, 1e-2, 1e-1)
ORDER = (0.0, 1e-2, 1e-3, 1e-1, 1e-4)  # trained in this order: the ends and the published λ show most
EPOCHS = 30
# From light to dark with λ; markers and lines tell them apart in grey.
SHADES = {
    0.0: Ink("DFA, λ = 0", "#f4a688", "o", "-"),
    1e-4: Ink("DFA, λ = $10^{-4}$", "#e57a5f", "s", "--"),
    1e-3: Ink("DFA, λ = $10^{-3}$", "#cb3e3c", "^", "-."),
    1e-2: Ink("DFA, λ = $10^{-2}$", "#93152b", "D", ":"),
    1e-1: Ink("DFA, λ = $10^{-1}$", "#420611", "v", "-"),
}


def name(rule: str, penalty: float) -> str:
    """The arm of one rule and λ."""
    return f"{rule} λ={penalty:g}"


def frozen(rule: str) -> str:
    """The arm of a rule's frozen net."""
    return f"{rule} frozen"


SUBJECTS = tuple(name(rule, each) for rule in RULES for each in PENALTIES)


def arms(extent: Extent) -> list[Arm]:
    """Both rules with every λ, and their frozen nets."""
    full = [extent.arm(name(rule, each), rule, epochs=EPOCHS, penalty=each) for each in ORDER for rule in RULES]
    return full + [extent.arm(frozen(rule), rule, epochs=EPOCHS, train_last=0) for rule in RULES]


def _not_measured(g: Collected) -> list[str]:
    """What the deep cosine and ρ lack, in words: each reason once, with its arms."""
    gaps: dict[str, list[str]] = {}
    for arm in SUBJECTS:
        for run in g[arm]:
            for block, c in enumerate(run.snapshots[-1].cosine):
                if block and c.status != "ok":
                    gaps.setdefault(f"no deep cosine ({c.status} in block {block})", []).append(arm)
            for block, r in enumerate(rhos(run)):
                if block and r.status != "ok":
                    gaps.setdefault(f"ρ without block {block} ({r.status})", []).append(arm)
            if not rhos(run):
                gaps.setdefault("no ρ (not probed)", []).append(arm)
    return [f"{what}: {', '.join(dict.fromkeys(arms))}" for what, arms in gaps.items()]


def draw(g: Collected) -> Figure:
    """Through training: the stream, the gradient and the accuracy of DFA by λ, beside BP and the frozen net."""
    lines = {name("dfa", each): ink for each, ink in SHADES.items()}
    lines |= {"bp λ=0": replace(INKS["bp"], name="BP, λ = 0"), "dfa frozen": Ink("DFA, frozen", "#555555", "", ":")}
    return through_training(g, {"": lines}, (STREAM, GRADIENT, ACCURACY), height=2.4)


def tables(g: Collected) -> list[Table]:
    """The quantities with what scale and depth say, and their sentences."""
    known = {arm: g.evidence(arm) for arm in SUBJECTS}
    judged = {arm: None if found is None else judge(found) for arm, found in known.items()}
    rows: list[list[Cell]] = []
    for rule in RULES:
        for each in PENALTIES:
            arm = name(rule, each)
            gained = g.gain(arm, frozen(rule))
            rows.append([
                INKS[rule].name, f"{each:g}", g.last(arm, ACCURACY), gained if gained.n else None,
                *g.cells(arm, STREAM, GRADIENT), _or_why(g, arm, DEEP_COSINE), _or_why(g, arm, DEEP_RHO),
                _outcome(judged[arm], "scale"), _outcome(judged[arm], "depth"), g.seeds(arm),
            ])  # fmt: skip
        arm = frozen(rule)
        sizes = g.cells(arm, STREAM, GRADIENT)
        rows.append(
            [INKS[rule].name, "frozen", g.last(arm, ACCURACY), None, *sizes, None, None, "–", "–", g.seeds(arm)]
        )
    gaps = _not_measured(g)
    words = (
        "Gain: over the frozen net of the same rule, for the seeds that both have, in points, with the 95 % interval "
        "of its mean (none for one seed). ‖h_L‖ and ‖g_L‖ (N = 128): geometric mean (smallest–largest). Deep cosine "
        "and ρ: over the blocks l ≥ 1; ρ over those in which it could be measured.",
        *([f"Gaps: {'; '.join(gaps)}."] if gaps else []),
    )
    shown = [q.symbol for q in (STREAM, GRADIENT, DEEP_COSINE, DEEP_RHO)]
    headings = ["rule", "λ", "accuracy", "gain over frozen", *shown, "scale", "depth", "seeds"]
    why: list[list[Cell]] = [
        [arm, check, _outcome(each, check), f.says if (f := finding(each, check)) else "No run is there."]
        for arm, each in judged.items() for check in ("scale", "depth")
    ]  # fmt: skip
    by = f"By our protocol, thresholds {DEFAULT.version}. The task's margin is that of bp without a penalty."
    return [
        Table("penalty", "What a penalty λ‖f_l‖² changes", headings, rows, g.notes(*words)),
        Table(
            "penalty-findings", "What scale and depth say of each λ", ["subject", "check", "outcome", "why"], why, [by]
        ),
    ]


def _outcome(judged: Judgement | None, check: str) -> str:
    found = finding(judged, check)
    return "no run" if found is None else f"{GLYPHS[found.outcome]} {found.outcome}"


def _or_why(g: Collected, arm: str, quantity: Quantity) -> Cell:
    """A quantity, or why there is none."""
    found = g.last(arm, quantity)
    if not found.n or found.mean is not None:
        return found
    deep = [c.status for run in g[arm] for c in run.snapshots[-1].cosine[1:] if c.status != "ok"]
    return ", ".join(dict.fromkeys(deep)) if quantity is DEEP_COSINE else "not measured"


register(Study(
    "penalty", "What does a penalty on the blocks' outputs repair, and what not?",
    arms, tables, {"penalty": draw}, place=20,
))  # fmt: skip
