"""panel: every rule of the field under one recipe, each at a learning rate of its own, judged by every check.

Two stages. First every rule, bp and the floors too, is tried at four learning rates on a tenth of the training data
that is held out: ten epochs, one seed. The rate follows from those records alone (rates.py); then come the rule at that
rate, its own frozen net and its upper half: 30 epochs, three seeds, measured on the test split for the first time.

Floors: `shallow` is the net without blocks, trained by bp: embedding, LayerNorm, head. It is not quite linear, because
LayerNorm divides each sample by the spread of its own embedding. `linear` is the same without the norm: Linear(n, d),
then Linear(d, 10). That is a linear map of the raw input and, as d ≥ 10, any linear map: what pixels alone give.
"""

import functools
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from walkback.audits import control_bp, control_random, step_cost
from walkback.checks import Judgement, VerdictName, judge, listed
from walkback.data import load
from walkback.files import write_whole
from walkback.records import BaselineName, Choice, CostRecord, Run, choose
from walkback.report import GLYPHS, KEY, Cell, Stat, Table, asked
from walkback.train import arithmetic
from walkback_paper.base import CLASSES, Arm, Collected, Extent, Study, finding, register
from walkback_paper.quantities import ACCURACY

ALWAYS = ("bp", "mono-forward", "random")  # what every rule is held against, and the control that must fail
FIELD = (
    *ALWAYS, "fa", "dfa", "dfa-plain", "drtp", "sdfa", "dkp", "fa-layer", "usf", "frsf", "brsf", "kp", "mirror",
    "predsim", "pepita", "ff", "dtp", "sb", "cb", "ep", "pc", "fg",
)  # fmt: skip
FLOORS: Mapping[str, Mapping[str, Any]] = {"shallow": {"depth": 0}, "linear": {"depth": 0, "terminal_norm": False}}
RATES = (1e-4, 3e-4, 1e-3, 3e-3)
HELD_OUT = 0.1
SEEDS_FOR_A_VERDICT = 5
RANK, LATER = 5, 7  # the upper halves come later: they are for one check alone


def rules(extent: Extent) -> list[str]:
    """The rules of the panel: all, or those that were asked for, beside what they are held against."""
    return list(dict.fromkeys([*ALWAYS, *extent.rules])) if extent.rules else list(FIELD)


def subjects(extent: Extent) -> list[str]:
    """All that has a learning rate: the rules and the floors."""
    return [*rules(extent), *FLOORS]


def _rule(subject: str) -> dict[str, Any]:
    return {"rule": "bp", "net_options": FLOORS[subject]} if subject in FLOORS else {"rule": subject}


def trial(subject: str, rate: float) -> str:
    """The name of a trial's arm."""
    return f"{subject} at {rate:g}"


def frozen(subject: str) -> str:
    """The name of the arm of a rule's frozen net."""
    return f"{subject} frozen"


def half(subject: str) -> str:
    """The name of the arm that trains the upper half of the blocks alone."""
    return f"{subject} upper half"


def arms(extent: Extent) -> list[Arm]:
    """The trials, cheaply watched: of them the accuracy on the held-out samples counts and nothing else."""
    settings: dict[str, Any] = {"validation": HELD_OUT, "probe_images": 128, "seeds": 1, "rank": RANK}
    return [
        extent.arm(trial(subject, rate), **_rule(subject), epochs=10, quick_epochs=4, lr=rate, **settings)
        for subject in subjects(extent)
        for rate in RATES
    ]


def following(extent: Extent, subject: str, rate: float) -> list[Arm]:
    """What is trained of a subject once its rate is known. Quick: two seeds, and only bp has its upper half trained."""
    settings: dict[str, Any] = {"lr": rate, "epochs": 30, "quick_epochs": 8, "seeds": 2 if extent.quick else None}
    settings |= {"probe_images": 256} if extent.quick else {}
    found = [extent.arm(subject, **_rule(subject), rank=RANK, **settings)]
    if subject not in FLOORS:
        found.append(extent.arm(frozen(subject), subject, train_last=0, rank=RANK, **settings))
        if subject == "bp" or not extent.quick:
            rank = RANK if subject == "bp" else LATER
            found.append(extent.arm(half(subject), subject, train_last=2, rank=rank, **settings))
    return found


def then(trials: Collected) -> list[Arm]:
    """The arms that follow from the trials."""
    found = []
    for subject in subjects(trials.extent):
        choice = chosen(trials, subject)
        for arm in following(trials.extent, subject, choice.lr or RATES[0]):
            if choice.lr is not None:
                found.append(arm)
            else:  # nothing follows from trials that all diverged
                found.append(Arm(arm.name, (), arm.rank, arm.configs if choice.missing else ()))
    return found


def chosen(g: Collected, subject: str) -> Choice:
    """What the trials of a subject amount to."""
    return choose([run for rate in RATES for run in g.runs[trial(subject, rate)][:1]], RATES)


@dataclass(frozen=True)
class Standing:
    """One rule of the panel: what is known of it so far."""

    rule: str
    choice: Choice
    margin: Stat
    judgement: Judgement | None

    @property
    def verdict(self) -> VerdictName | None:
        """The verdict, if there are seeds enough to show one."""
        known = self.judgement
        return known.verdict if known and known.accuracy.n >= SEEDS_FOR_A_VERDICT else None


def standings(g: Collected) -> list[Standing]:
    """Every rule, the largest margin over its own frozen net first; those without one last."""
    found = [
        Standing(rule, chosen(g, rule), g.gain(rule, frozen(rule)), _judgement(g, rule)) for rule in rules(g.extent)
    ]
    return sorted(found, key=lambda each: (each.margin.mean is None, -(each.margin.mean or 0.0)))


def _judgement(g: Collected, rule: str) -> Judgement | None:
    """By every check. bp, its frozen net and its upper half are bp's at bp's own rate, whatever the rule's is."""
    of_bp: dict[BaselineName, str] = {"bp": "bp", "frozen_bp": frozen("bp"), "half_bp": half("bp")}
    evidence = g.evidence(rule, {**of_bp, "shallow": "shallow", "frozen": frozen(rule), "half": half(rule)})
    return None if evidence is None else judge(evidence)


def tables(g: Collected) -> list[Table]:
    """The panel, and the trials behind its learning rates."""
    found = standings(g)
    checks = asked([each.judgement for each in found if each.judgement])
    budget = g.extent.epochs or (8 if g.extent.quick else 30)
    rows = [_row(g, each, checks) for each in found] + [_floor(g, floor, len(checks)) for floor in FLOORS]
    headings = [
        "rule", "verdict", "accuracy", "own frozen net", "margin", "over linear", "over mono-forward",
        "update by block", *(check[:5] for check in checks), "flops", "time", "rate", "trials", "seeds",
    ]  # fmt: skip
    panel = Table("panel", f"The field, {_count(budget)}", headings, rows, g.notes(*_words(g, found)))
    rates = [_rates(g, subject) for subject in subjects(g.extent)]
    headings = ["rule", *(f"{rate:g}" for rate in RATES), "rate", "trials"]
    title = "Accuracy on held-out training samples, by learning rate"
    return [panel, Table("panel-rates", title, headings, rates, g.notes(_how_chosen(g)))]


def _row(g: Collected, each: Standing, checks: Sequence[str]) -> list[Cell]:
    rule = each.rule
    cost = next((run.cost for run in g[rule] if run.cost is not None), None)
    outcomes = [finding(each.judgement, check) for check in checks]
    return [
        rule, each.verdict or "–", g.last(rule, ACCURACY), g.last(frozen(rule), ACCURACY), each.margin,
        _over(g, rule, "linear"), _over(g, rule, "mono-forward"), by_block(g[rule]),
        *(GLYPHS[outcome.outcome] if outcome else "" for outcome in outcomes),
        *(("–", "–") if cost is None else (f"{cost.flops:.2f}", f"{cost.time:.1f}")),
        each.choice.words(), each.choice.trials(), g.seeds(rule, frozen(rule)),
    ]  # fmt: skip


def _floor(g: Collected, floor: str, checks: int) -> list[Cell]:
    choice = chosen(g, floor)
    return [
        floor, "floor", g.last(floor, ACCURACY), None, None, _over(g, floor, "linear"),
        _over(g, floor, "mono-forward"), "–", *[""] * checks, "–", "–", choice.words(), choice.trials(), g.seeds(floor),
    ]  # fmt: skip


def _over(g: Collected, rule: str, other: str) -> Stat | None:
    """How far a rule lies above another subject, in points, seed by seed."""
    return None if rule == other else Stat(g.gain(rule, other).values, "points")


def by_block(runs: Sequence[Run]) -> str:
    """The update alignment of each block, the mean over the seeds in which it was measured."""
    last = [run.snapshots[-1].measured.get("update", []) for run in runs]
    cells = []
    for block in range(max(map(len, last), default=0)):
        values = [seen[block].value for seen in last if len(seen) > block and seen[block].status == "ok"]
        cells.append(f"{sum(values) / len(values):+.2f}" if values else "–")
    return " ".join(cells) or "–"


def _words(g: Collected, found: Sequence[Standing]) -> list[str]:
    words = [
        "Sorted by the margin: accuracy over the rule's own frozen net in points, with its 95 % interval (Student's t, "
        "paired by seed). Linear: a linear map of the raw input, trained by bp (two matrices, nothing between them); "
        "shallow: embedding, LayerNorm and head alone. Update by block: the cosine between what the rule puts into the "
        f"parameters of blocks 0, 1, … and the true gradient there. {KEY}.",
        "Flops and time: of a step on this net, a step of bp being 1; flops of all products are counted, times "
        "are medians of steps taken in turn with bp's.",
        _how_chosen(g),
    ]
    edge = [each.rule for each in found if each.choice.edge]
    if edge:
        words.append(f"At the edge of the grid, so that a rate outside it may be better: {listed(edge)}.")
    if g.extent.quick:
        words.append(
            "Two seeds: an interval reaches nine standard deviations to either side, so depth is rarely settled. Only "
            "bp has its upper half trained. This is an example, not a result to cite."
        )
    if any(each.judgement and each.verdict is None for each in found):
        words.append(f"No verdict is shown of fewer than {SEEDS_FOR_A_VERDICT} seeds.")
    words += _controls(found)
    return words


def _how_chosen(g: Collected) -> str:
    epochs = g.extent.epochs or (4 if g.extent.quick else 10)
    return (
        f"Rate: of {', '.join(f'{rate:g}' for rate in RATES)} the one with the highest accuracy on a tenth of the "
        f"training samples, held out from each trial ({_count(epochs)}, one seed); the smaller of two that tie, never "
        "one that diverged. Trials are shorter than the runs and may favour larger rates. The test split is not "
        "used for it. Frozen nets and upper halves have their rule's rate."
    )


def _count(epochs: int) -> str:
    return "1 epoch" if epochs == 1 else f"{epochs} epochs"


def _controls(found: Sequence[Standing]) -> list[str]:
    """Whether bp and random credit come out as expected."""
    by_rule = {each.rule: each.judgement for each in found if each.judgement and each.verdict}
    controls = [control_bp(by_rule["bp"])] if "bp" in by_rule else []
    controls += [control_random(by_rule["random"])] if "random" in by_rule else []
    if not controls:
        return []
    words = "; ".join(f"{c.name}: expected {c.expected}, got {c.got}" for c in controls)
    wrong = "" if all(c.ok for c in controls) else " Until the controls behave, no verdict above counts."
    return [f"Controls. {words}.{wrong}"]


def _rates(g: Collected, subject: str) -> list[Cell]:
    choice = chosen(g, subject)
    ends: dict[float, Cell] = {rate: Stat((value,)) for rate, value in choice.accuracy.items()}
    ends |= dict.fromkeys(choice.diverged, "diverged") | dict.fromkeys(choice.missing, "not there")
    return [subject, *(ends[rate] for rate in RATES), choice.words(), choice.trials()]


def measure(g: Collected, data_folder: Path | None) -> None:
    """What a step of each rule costs on the panel's net, kept beside the first run of the rule."""
    for rule in rules(g.extent):
        if not g[rule] or any(run.cost is not None for run in g[rule]):
            continue
        run = g[rule][0]
        config = run.config
        with arithmetic():
            found = step_cost(
                config.rule, config.rule_options, config.net, sizes=config.net_options,
                shape=_shape(config.data, data_folder), classes=CLASSES, batch=config.batch_size,
            )  # fmt: skip
        record = CostRecord.from_plain({"flops": found["products"], "time": found["time"], "memory": found["memory"]})
        write_whole(run.path / "cost.json", record.indented(), follow=False)


@functools.cache
def _shape(data: str, data_folder: Path | None) -> tuple[int, ...]:
    return load(data, data_folder).shape


register(Study(
    "panel", "How do all rules compare under one recipe, each at its own learning rate?", arms, tables,
    measure=measure, place=68, then=then,
))  # fmt: skip
