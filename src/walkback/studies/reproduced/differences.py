"""What differs, what was tried against it, and what we think; an opinion is called one."""

import math
import statistics
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from walkback.checks.finding import listed, seeds_said
from walkback.report import published as theirs
from walkback.report.agreement import NEAR, of_size, of_spread
from walkback.report.tables import Cell, Stat, text
from walkback.studies.quantities import accuracy
from walkback.studies.reproduced.firings import CLAIMS, D1, D2_LOG, first
from walkback.studies.reproduced.found import (
    BY_RULE,
    NAMES,
    SCALED,
    Found,
    Group,
    Pick,
    last_gradient,
    last_hidden,
    paired,
)
from walkback.studies.reproduced.layers import NOISE
from walkback.studies.reproduced.main_audit import bases, decides, depth_against
from walkback.studies.reproduced.schedule import off, tried_settings
from walkback.studies.reproduced.words import DASH, Ledger, bullets, seeds_counted, size, stat, table


@dataclass(frozen=True)
class Trial:
    """One quantity of ours without and with trained gains, and what is published of it."""

    name: str
    claim: theirs.Between
    without: float
    trained: float
    log: bool = False

    def lies(self) -> str:
        """Where the published figure lies.

        >>> Trial("x", theirs.Between(2, 3, "2–3"), 1.0, 4.0).lies()
        'between ours'
        """
        low, high = sorted((self.without, self.trained))
        if low <= self.claim.low and self.claim.high <= high:
            return "between ours"
        without, trained = self._off(self.without), self._off(self.trained)
        if without == trained:
            return "as far from both"
        return f"nearer to ours {'without' if without < trained else 'with'} gains"

    def _off(self, value: float) -> float:
        nearest = min(max(value, self.claim.low), self.claim.high)
        if not math.isfinite(value) or (self.log and value <= 0):
            return math.inf
        return abs(math.log(value / nearest)) if self.log else abs(value - nearest)

    def shown(self, value: float) -> str:
        """One of ours in a cell."""
        if not math.isfinite(value):
            return "never" if self.name.startswith("first") else "not finite"
        return size(value) if self.log else f"{value:.1f}" if self.name.startswith("first") else f"{value:.3f}"


def trials(found: Found, rule: str) -> tuple[list[str], list[Trial]]:
    """Both settings on the seeds that both have; nothing if there is no such seed."""
    plain, gains = found.group(rule), found.gains(rule)
    seeds = [seed for seed in plain.seeds if seed in gains.seeds]
    if not seeds:
        return [], []
    pair = plain.only(seeds), gains.only(seeds)

    def trial(name: str, claim: theirs.Between, pick: Pick, log: bool) -> Trial:
        without, trained = (Stat(group.last(pick), "size" if log else "share").mean for group in pair)
        return Trial(
            name, claim, math.nan if without is None else without, math.nan if trained is None else trained, log
        )  # fmt: skip

    def alone(value: float) -> theirs.Between:
        return theirs.Between(value, value, f"{value:.3f}")

    found_ = [
        trial("accuracy", alone(theirs.ACCURACY[rule].mean), accuracy, False),
        trial("‖h_L‖", theirs.LAST_HIDDEN[rule], last_hidden, True),
        trial("‖g_L‖", theirs.LAST_GRADIENT[rule], last_gradient, True),
        trial("Γ", alone(theirs.GAMMA[rule]), lambda s: s.gamma, False),
    ]
    for code in (D1, D2_LOG):  # the published dates of D2 are at the N of the logs
        if CLAIMS[code].get(rule):
            dates = CLAIMS[code][rule]
            claim = theirs.Between(min(dates), max(dates), " / ".join(map(str, dates)))
            without, trained = (
                statistics.fmean(math.inf if d is None else d for d in first(group)[code].values()) for group in pair
            )
            found_.append(Trial(f"first {code}", claim, without, trained))
    return [str(seed) for seed in seeds], found_


def differences(found: Found, ledger: Ledger) -> list[str]:
    """The section."""
    parts = [*_tried(found, "fa"), *_scaled(found), *_tried(found, "dfa")]
    said = [*_fa(found), *_dfa(found), *_frozen(found), *_floor(ledger)]
    return [*parts, bullets(said) if said else "Nothing can be said without the runs."]


def _tried(found: Found, rule: str) -> list[str]:
    seeds, tried = trials(found, rule)
    if not tried:
        return [
            f"**{NAMES[rule]}, tried: trained gains in the blocks.** Missing: no seed is there both with and without."
        ]
    rows: list[list[Cell]] = [[t.name, t.shown(t.without), t.claim.words, t.shown(t.trained), t.lies()] for t in tried]
    return [
        f"**{NAMES[rule]}, tried: trained gains in the blocks**, {seeds_said(seeds)}. Whether the published blocks "
        "train theirs is not said in the figures that we have.",
        table(["", "ours without", "published", "ours with", "the published figure lies"], rows),
    ]


def sizes(options: Mapping[str, Any]) -> str:
    """Which sizes of FA were changed, in words.

    >>> sizes({"normalize": "none", "gain": 5, "top": 1 / 128}), sizes({"gain": 0, "top": 1.0})
    ('matrices × 5 and credit ÷ 128', 'matrices × 0')
    """
    factors = {"matrices": float(options["gain"]), "credit": float(options["top"])}
    said = [f"{of} ÷ {1 / x:g}" if 0 < x < 1 else f"{of} × {x:g}" for of, x in factors.items() if x != 1]
    return " and ".join(said) or "none"


def _scaled(found: Found) -> list[str]:
    """FA with other sizes beside ours and the published, on the seeds that were tried."""
    tried = [group for group in found.scaled() if group.n]
    if not tried:
        return []
    seeds = list(dict.fromkeys(str(seed) for group in tried for seed in group.seeds))
    rows: list[list[Cell]] = [[
        "published", f"{theirs.ACCURACY['fa'].mean:.3f}", theirs.LAST_HIDDEN["fa"].words,
        theirs.LAST_GRADIENT["fa"].words, f"{theirs.GAMMA['fa']:.3f}", str(theirs.SEEDS), DASH,
    ]]  # fmt: skip
    for name, group in (
        ("none", found.group("fa").only([*map(int, seeds)])),
        *((sizes(g.config.rule_options), g) for g in tried),
    ):
        rows.append([
            name, stat(group.last(accuracy)), stat(group.last(last_hidden), "size"),
            stat(group.last(last_gradient), "size"), stat(group.last(lambda s: s.gamma)), str(group.n),
            _not_as_published(group) if group.n else DASH,
        ])  # fmt: skip
    return [
        f"**FA, tried: other sizes** of its feedback matrices and of its credit (`{SCALED}`), {seeds_said(seeds)}. "
        "AdamW divides a gradient by its own size, so a factor counts only where gradients come near the 1e-8 that it "
        "adds.",
        table(["changed", "accuracy", "‖h_L‖", "‖g_L‖", "Γ", "n", "not as published"], rows),
    ]


def _figures(group: Group, rule: str) -> str:
    quantities: Sequence[tuple[str, tuple[float, ...], str]] = (
        ("accuracy", group.last(accuracy), of_spread(theirs.ACCURACY[rule], group.last(accuracy)).words),
        ("‖h_L‖", group.last(last_hidden), of_size(theirs.LAST_HIDDEN[rule], group.last(last_hidden)).words),
        ("‖g_L‖", group.last(last_gradient), of_size(theirs.LAST_GRADIENT[rule], group.last(last_gradient)).words),
    )
    forms = ("share", "size", "size")
    return "; ".join(
        f"{name} {text(stat(ours, 'size' if form == 'size' else 'share'))} ({words})"
        for (name, ours, words), form in zip(quantities, forms, strict=True)
    )


def _fa(found: Found) -> list[str]:
    plain, gains = found.group("fa"), found.gains("fa")
    if not plain.n:
        return []
    differing = off(plain, "fa")
    said = [f"**FA**, {seeds_counted(plain.n)}: {_figures(plain, 'fa')}."]
    if not differing:
        said.append("Nothing of it is left to explain.")
        return [" ".join(said)]
    others = tried_settings(found, "fa")
    scaled = {sizes(group.config.rule_options): group for group in found.scaled() if group.n}
    said.append(
        f"The earlier re-run reached {theirs.EARLIER_ACCURACY['fa']:.3f}; with its credit normalised by sample it was "
        f"at {theirs.EARLIER_FA_SAMPLE:.2f} after {theirs.EARLIER_FA_SAMPLE_EPOCH} epochs, over the batch it gave "
        f"{theirs.EARLIER_FA_BATCH:.2f}. Not tried: another {'law' if scaled else 'scale or law'} of the feedback "
        "matrices."
    )
    told = [f"with trained gains ({seeds_counted(gains.n)}) {_not_as_published(gains)}"] if gains.n else []
    told += [f"with other sizes ({len(scaled)} tried, above) {_how_many([*scaled.values()])}"] if scaled else []
    if others:
        told.append(f"with another schedule or embedding ({len(others)} tried, above) {_how_many([*others.values()])}")
    missing = "" if gains.n else " Trained gains are missing here."
    said.append(f"Not as published: {'; '.join([listed(differing), *told])}.{missing}")
    tried = {**({"trained gains": gains} if gains.n else {}), **scaled, **others}
    fits = [name for name, group in tried.items() if not off(group, "fa")]
    kinds_tried = (("trained gains", gains.n), ("other sizes", scaled), ("schedule and embedding", others))
    kinds = [name for name, there in kinds_tried if there]
    if fits:
        said.append(f"*Opinion:* {listed(fits)} may be the difference.")
    elif kinds:
        said.append(f"*Opinion:* {listed(kinds)} alone do not explain it, and we do not know what does.")
    return [" ".join(said)]


def _how_many(groups: Sequence[Group]) -> str:
    """Which figures of FA are not as published, in how many of the groups."""
    names = [name for group in groups for name in off(group, "fa")]
    return listed([f"{name} in {names.count(name)}" for name in dict.fromkeys(names)]) if names else "nothing"


def _not_as_published(group: Group) -> str:
    names = off(group, "fa")
    return listed(names) if names else "nothing"


def _dfa(found: Found) -> list[str]:
    seeds, tried = trials(found, "dfa")
    if not tried:
        return []
    by: dict[str, list[str]] = {}
    for trial in tried:
        by.setdefault(trial.lies(), []).append(trial.name)
    sizes = [trial for trial in tried if trial.log]
    fits = [
        name
        for name, ours in (("without", [t.without for t in sizes]), ("with", [t.trained for t in sizes]))
        if all(of_size(t.claim, [value]).kind == "near" for t, value in zip(sizes, ours, strict=True))
    ]
    if fits:
        both = "both settings are" if len(fits) > 1 else f"ours {fits[0]} trained gains is"
        think = f"by stream and gradient {both} within a factor {NEAR:g} of the published net"
    elif all(trial.lies() == "between ours" for trial in sizes):
        think = (
            f"neither setting is within a factor {NEAR:g} of the published stream and gradient, which lie between the "
            "two; what the published net is, the figures do not tell"
        )
    else:
        think = f"neither setting is within a factor {NEAR:g} of the published stream and gradient; we do not know why"
    where = "; ".join(f"{lies}: {listed(names)}" for lies, names in by.items())
    return [
        f"**DFA**, {seeds_said(seeds)}. Where the published figures lie: {where}. *Opinion:* {think}."
        f"{_other_rates(found)}"
    ]


def _other_rates(found: Found) -> str:
    """Whether another schedule gives DFA as it was published."""
    others = tried_settings(found, "dfa")
    if not others:
        return ""
    told = [f"{name} ({seeds_counted(g.n)}): {listed(off(g, 'dfa') or ['nothing'])}" for name, g in others.items()]
    fits = [name for name, group in others.items() if not off(group, "dfa")]
    think = f" *Opinion:* {listed(fits)} may be the published recipe." if fits else ""
    return f" Not as published with another schedule: {'; '.join(told)}.{think}"


def _frozen(found: Found) -> list[str]:
    fa, evidence = found.group("fa"), found.evidence(BY_RULE["fa"])
    there = {name: group for name, group in bases(found).items() if paired(fa, group)}
    if evidence is None or len(there) < 2:
        return []
    margins = {name: 100 * statistics.fmean(paired(fa, group).values()) for name, group in there.items()}
    counts = {name: len(paired(fa, group)) for name, group in there.items()}
    low, high = min(margins, key=lambda name: margins[name]), max(margins, key=lambda name: margins[name])
    outcomes = {name: depth_against(evidence, group.accuracy())[0].outcome for name, group in there.items()}
    return [
        f"**FA's depth** is {margins[low]:+.1f} points against {low} (n = {counts[low]}), {margins[high]:+.1f} against "
        f"{high} (n = {counts[high]}). "
        f"{decides('Our protocol', outcomes)} *Opinion:* a margin should name the net it is taken over; the rule's own "
        "frozen net differs from the subject in nothing but that its blocks do not train."
    ]


def _floor(ledger: Ledger) -> list[str]:
    if not any(label.startswith(NOISE) for label in ledger.entries.get("not borne out", [])):
        return []
    return [
        "**The floor.** In none of our runs of DFA measured below it is the direction of the gradient lost. *Opinion:* "
        "precision should judge, and the floor warn: of a large stream, and of meters that clamp."
    ]
