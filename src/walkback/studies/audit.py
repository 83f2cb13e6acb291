"""audit: the paper's five methods beside backprop, judged by every check and by both protocols; a panel per check.

bp, fa, ep, dfa, cb and sb, each with its frozen net, and the net whose upper half alone is trained, which `reach` asks
for. Twice: 30 epochs, which a laptop trains in a night, and 100, as published. EP in float64, and in float32, which
rounds its displacements away.
"""

from collections.abc import Sequence
from typing import Any

from matplotlib.axes import Axes
from matplotlib.figure import Figure

from walkback.checks import CHECKS, DEFAULT, Finding
from walkback.report import published
from walkback.report.figures import GREY, INKS, PAGE, figure, level, log_scale, say_empty
from walkback.report.tables import Cell, Stat, Table
from walkback.report.verdicts import GLYPHS
from walkback.studies.base import STUDIES, Arm, Extent, Gathered, Study, setting
from walkback.studies.judged import Judged, aligned, judged

RULES = ("bp", "fa", "ep", "dfa", "cb", "sb")
SINGLE = "ep float32"
METHODS = ("bp", "fa", "ep", SINGLE, "dfa", "cb", "sb")
NEW = ("ep", "cb", "sb")
BUDGETS = (30, 100)


def _name(method: str, epochs: int, part: str = "") -> str:
    return f"{method}{part}, {epochs} epochs"


def _budgets(extent: Extent) -> Sequence[int]:
    return BUDGETS[:1] if extent.quick or extent.epochs is not None else BUDGETS


def arms(extent: Extent) -> list[Arm]:
    """Every method and its baselines. New methods come first, the shorter budget before the longer."""
    found = []
    for epochs in _budgets(extent):
        rank = 2 if epochs == BUDGETS[0] else 3
        for method in METHODS:
            rule = "ep" if method == SINGLE else method
            first = rank if method in NEW or epochs == BUDGETS[0] else 0
            more: dict[str, Any] = {"rule_options": {"precision": "float32"}} if method == SINGLE else {}
            last = first + 2 if method == SINGLE else first
            found.append(extent.arm(_name(method, epochs), rule, epochs=epochs, rank=last, **more))
            for part, k in ((" frozen", 0), (" upper half", 2)):
                later = last if k == 0 else max(last, 7 if method in NEW or epochs == BUDGETS[0] else 0)
                name = _name(method, epochs, part)
                found.append(extent.arm(name, rule, epochs=epochs, train_last=k, rank=later, **more))
    return found


def title(method: str) -> str:
    """A method's name in a table."""
    return f"{INKS['ep'].name}, float32" if method == SINGLE else INKS[method].name


def tables(g: Gathered) -> list[Table]:
    """One table per budget: accuracy beside the published, Γ, update alignment, every check, both verdicts."""
    made = []
    for epochs in _budgets(g.extent):
        there = judged(g, [_name(method, epochs) for method in METHODS])
        checks = [finding.check for each in there.values() for finding in each.ours.findings]
        names = list(dict.fromkeys(checks))
        rows = [_row(g, method, epochs, names, there.get(_name(method, epochs))) for method in METHODS]
        headings = ["method", "verdict", "published verdict", "accuracy", "published", "frozen", "Γ", "update"]
        words = (
            "Verdict: ours, and by the published protocol. Published accuracy: at 100 epochs. Frozen: the rule's own "
            "frozen net. Update: the mean over blocks of the cosine between what the rule puts into the "
            "parameters and the true gradient there; runs recorded before it was measured have none. ✓ passes, ✗ "
            "fires, ? inconclusive, – not applicable."
        )
        name = "audit" if epochs == BUDGETS[-1] else f"audit-{epochs}"
        budget = g.extent.epochs or (16 if g.extent.quick else epochs)
        headings += [*(name[:5] for name in names), "seeds"]
        made.append(Table(name, f"The paper's methods, {budget} epochs", headings, rows, g.notes(words)))
    return made


def _row(g: Gathered, method: str, epochs: int, checks: Sequence[str], found: Judged | None) -> list[Cell]:
    arm, frozen = _name(method, epochs), _name(method, epochs, " frozen")
    claim = published.ACCURACY.get(method)
    by_name = {finding.check: finding for finding in found.ours.findings} if found else {}
    return [
        title(method),
        found.ours.verdict if found else "–",
        found.published.verdict if found else "–",
        g.last(arm, lambda s: s.accuracy),
        "–" if claim is None else f"{claim.mean:.3f} ± {claim.std:.3f}",
        g.last(frozen, lambda s: s.accuracy),
        g.last(arm, lambda s: s.gamma, "cosine"),
        aligned(g, arm),
        *(GLYPHS[by_name[check].outcome] if check in by_name else "" for check in checks),
        g.seeds(arm, frozen),
    ]


def draw(g: Gathered) -> Figure:
    """A panel per check: what it found of every method, against its threshold."""
    epochs = _shown(g)
    names = [_name(method, epochs) for method in METHODS]
    there = judged(g, names)
    checks = list(dict.fromkeys(f.check for each in there.values() for f in each.ours.findings))
    note = g.note(
        f"{setting(g, names)} Bars: smallest to largest seed; for depth and reach the 95 % interval of the mean. "
        f"Dashed: the threshold ({DEFAULT.version}). Signs as in the table.",
        names,
    )
    rows = max(1, -(-(len(checks) + 1) // 3))
    fig = figure(PAGE, 2.3 * rows, note)
    panels = list(fig.subplots(rows, 3, squeeze=False).flat)
    _accuracies(g, panels[0], epochs)
    for axes, check in zip(panels[1:], checks, strict=False):
        _panel(axes, check, [_finding(there.get(name), check) for name in names])
    for axes in panels[1 + len(checks) :]:
        axes.set_axis_off()
    if not there:
        say_empty(panels[0])
    return fig


def _shown(g: Gathered) -> int:
    """The longest budget at which one of the new methods is there; else the shortest."""
    budgets = _budgets(g.extent)
    return next((e for e in reversed(budgets) if any(g[_name(method, e)] for method in NEW)), budgets[0])


def _finding(found: Judged | None, check: str) -> Finding | None:
    return next((f for f in found.ours.findings if f.check == check), None) if found else None


def _accuracies(g: Gathered, axes: Axes, epochs: int) -> None:
    for place, method in enumerate(METHODS):
        ink = INKS["ep" if method == SINGLE else method]
        for part, marker, colour in (("", ink.marker, ink.colour), (" frozen", "_", GREY)):
            stat: Stat = g.last(_name(method, epochs, part), lambda s: s.accuracy)
            if stat.mean is not None:
                spread = [stat.std] if stat.std is not None else None
                axes.errorbar([place], [stat.mean], yerr=spread, color=colour, marker=marker, linestyle="none")
    axes.set_title("accuracy (–: own frozen net)")
    axes.set_ylim(bottom=0)
    _methods(axes)


def _panel(axes: Axes, check: str, findings: Sequence[Finding | None]) -> None:
    about = CHECKS.get(check) if check in CHECKS else None
    factor = 100 if about is not None and about.form in ("points", "share") else 1
    log = about is not None and about.form in ("times", "size")
    known = [f for f in findings if f is not None]
    for place, (method, finding) in enumerate(zip(METHODS, findings, strict=True)):
        if finding is None:
            continue
        ink = INKS["ep" if method == SINGLE else method]
        if finding.value is not None:
            low = finding.value if finding.low is None else finding.low
            high = finding.value if finding.high is None else finding.high
            bar = [[factor * (finding.value - low)], [factor * (high - finding.value)]]
            axes.errorbar(
                [place], [factor * finding.value], yerr=bar, color=ink.colour, marker=ink.marker, linestyle="none"
            )
        axes.annotate(
            GLYPHS[finding.outcome], (place, 1), xycoords=("data", "axes fraction"), xytext=(0, -8),
            textcoords="offset points", ha="center", fontsize=7.5,
        )  # fmt: skip
    if log and any(f.value for f in known):
        log_scale(axes)
    axes.margins(y=0.25)
    unit = "" if about is None else {"points": " (points)", "share": " (%)", "times": " (growth)"}.get(about.form, "")
    axes.set_title(f"{check}{unit}")
    if any(f.value is not None for f in known):
        level(axes, factor * known[0].threshold, "")
    else:
        say_empty(axes, "no value yet")
    _methods(axes)


def _methods(axes: Axes) -> None:
    axes.set_xticks(range(len(METHODS)))
    short = {"cb": "CB", "sb": "SB", SINGLE: "EP32"}
    axes.set_xticklabels([short.get(method, INKS[method].name) for method in METHODS], fontsize=6.5)
    axes.set_xlim(-0.6, len(METHODS) - 0.4)


STUDIES.add(
    "audit",
    Study(
        "audit", "What do all checks say of the paper's five methods, beside backprop?", arms, tables, {"audit": draw},
        place=5,
    ),
)  # fmt: skip
