"""reproduction: our figures beside the published ones, as a Markdown page written from records alone.

Runs are found by their config, never by the name of their folder; what is not there is named as missing, and nothing
is guessed. The published figures are in `published.toml`, the page's words in `reproduction.md.jinja`.
"""

import math
import re
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from jinja2 import Environment, FileSystemLoader, StrictUndefined

from walkback.checks import DEFAULT, Judgement, first_fired, judge
from walkback.records import Baseline, IdentityRecord, Run, RunConfig, evidence_of_runs, subject_of
from walkback.report import INKS, Stat
from walkback.train import SEEDS, plan
from walkback_paper.published import (
    BATCH,
    CITATION,
    DATA,
    PUBLISHED,
    VERDICTS,
    Apart,
    PublishedCell,
    compare,
)
from walkback_paper.quantities import (
    ACCURACY,
    GRADIENT,
    GROWTH,
    QUANTITIES,
    STREAM,
    Quantity,
    cosine_at,
    gradient_at,
    hidden_at,
)

LISTS: Mapping[str, tuple[Callable[[int], Quantity], int]] = {  # by layer: one more than there are blocks
    "streams": (hidden_at, 1), "gradients": (gradient_at, 1), "cosines": (cosine_at, 0),
}  # fmt: skip
Row = tuple[PublishedCell, str, int, Apart]  # a cell, ours in words, how many seeds, and the comparison


class OurRuns:
    """Our finished runs, by their config but for the seed."""

    def __init__(self, runs: Sequence[Run]):
        self.left_out: list[str] = []
        self._runs: dict[str, dict[int, Run]] = {}
        self._used: set[str] = set()
        for run in runs:
            if run.ended != "finished" or run.result is None or not run.snapshots:
                why = "unfinished" if run.result is None else run.result.says
                self.left_out.append(
                    f"{run.config.label()}, {run.config.epochs} epochs, seed {run.config.seed} ({why})"
                )
                continue
            same = self._runs.setdefault(subject_of(run.config), {})
            other = same.get(run.config.seed)  # a copy may lack what was measured later
            if other is None or _measured(run) > _measured(other):
                same[run.config.seed] = run

    def of(self, rule: str, settings: Mapping[str, Any], epochs: int) -> list[Run]:
        """The runs of one setting, the published seeds first."""
        if ".py:" in rule:  # a rule of a file, which need not be here: like fa but for its options
            options, plain = settings["rule_options"], _config("fa", {}, epochs)
            for same in self._runs.values():
                config = next(iter(same.values())).config
                given = config.rule_options
                if Path(config.rule).name == Path(rule).name and options.items() <= given.items():
                    rest = {name: value for name, value in given.items() if name not in options}
                    fa = {"rule": "fa", "rule_options": rest, "rule_source": plain.rule_source}
                    if subject_of(config.changed(**fa)) == subject_of(plain):
                        return list(same.values())
            return []
        key = subject_of(_config(rule, settings, epochs))
        self._used.add(key)
        order = {seed: place for place, seed in enumerate(SEEDS)}
        same = self._runs.get(key, {})
        return [same[seed] for seed in sorted(same, key=lambda seed: (order.get(seed, len(order)), seed))]

    def every(self) -> list[Run]:
        """All of them."""
        return [run for same in self._runs.values() for run in same.values()]


def _measured(run: Run) -> int:
    return (run.probes is not None) + (run.identity is not None)


def _config(rule: str, settings: Mapping[str, Any], epochs: int) -> RunConfig:
    given = {"data": "cifar10", "epochs": epochs, "net_options": {}, **settings}
    return plan(rules=[rule], seeds=[0], **given)[0]


# --- what of ours is held against a cell ----------------------------------------------------------------------------


def _at_init(name: str, pick: Callable[[IdentityRecord], float]) -> Quantity:
    return Quantity(name, name, "share", lambda _: math.nan, partly=True,
                    at_end=lambda run: math.nan if run.identity is None else pick(run.identity))  # fmt: skip


def first_epoch(run: Run, check: str, batch: int = BATCH) -> float:
    """The first epoch at which a check fired, with ‖g_L‖ stated at that N; infinite where it never did."""
    dates = first_fired(evidence_of_runs(run.config.rule, [run]), DEFAULT.but("reference.batch", batch))
    epoch = dates[check].epochs[str(run.config.seed)]
    return math.inf if epoch is None else epoch


def _stop(run: Run, batch: int) -> tuple[float, float]:
    """Stopped when D1 or D2 first fires: the accuracy there less that at the end, and the share of epochs saved."""
    epoch = min(first_epoch(run, "scale", batch), first_epoch(run, "reference floor", batch))
    there = next((s.accuracy for s in run.snapshots if s.epoch == epoch), math.nan)
    return there - run.snapshots[-1].accuracy, 1 - epoch / run.config.epochs


def _chord(run: Run) -> float:
    top = None if run.probes is None else run.probes.precision[-1]
    return math.nan if top is None or top.chord is None else top.chord


def _quantities(cell: PublishedCell, blocks: int) -> list[Quantity]:
    """The quantity that a cell names; of a list one for each layer or block."""
    if cell.of in LISTS:
        make, more = LISTS[cell.of]
        return [make(layer) for layer in range(blocks + more)]
    if cell.of == "branches at init":
        return [_at_init(cell.of, lambda record, b=b: record.branch[b]) for b in range(blocks)]  # type: ignore[misc]
    at_end: Mapping[str, tuple[Any, Callable[[Run], float]]] = {
        "first D1": ("share", lambda run: first_epoch(run, "scale")),
        "first D2": ("share", lambda run: first_epoch(run, "reference floor", cell.batch)),
        "stopped": ("points", lambda run: _stop(run, cell.batch)[0]),
        "saved": ("share", lambda run: _stop(run, cell.batch)[1]),
        "largest growth": ("size", lambda run: max(map(GROWTH.pick, run.snapshots))),
        "chord": ("size", _chord),
    }
    if cell.of in at_end:
        form, pick = at_end[cell.of]
        return [Quantity(cell.of, cell.of, form, lambda _: math.nan, at_end=pick)]
    if cell.of in ("moved at init", "cosine at init"):
        name = cell.of.removesuffix(" at init")
        return [_at_init(cell.of, lambda record: float(getattr(record, name)))]
    return [QUANTITIES.get(cell.of)]


def _values(cell: PublishedCell, quantity: Quantity, runs: Sequence[Run], base: Sequence[Run]) -> list[float]:
    """Seed by seed, of a gain over `base`; a gradient at the N of the cell."""
    if cell.over:
        other = {run.config.seed: quantity.last(run) for run in base}
        return [quantity.last(run) - other[run.config.seed] for run in runs if run.config.seed in other]
    if cell.at is not None:
        return [quantity.pick(s) for run in runs for s in run.snapshots if s.epoch == cell.at]
    found = [quantity.last(run) for run in runs]
    if cell.of in ("gradient", "gradients"):
        found = [value * BATCH / cell.batch for value in found]
    return [value for value in found if not math.isnan(value)]


def row(records: OurRuns, cell: PublishedCell) -> Row:
    """Ours beside one published figure."""
    runs, budget = records.of(cell.rule, cell.set, cell.epochs), ""
    if not runs and cell.instead is not None:
        runs = records.of(cell.rule, cell.set, cell.instead)
        budget = f" ({cell.instead} epochs)" if runs else ""
    over = dict(cell.over)
    base = records.of(over.pop("rule"), over, over.pop("epochs", cell.epochs)) if over else []
    blocks = runs[0].config.blocks if runs else 0
    quantities = _quantities(cell, blocks)
    form = "points" if cell.over else quantities[0].form if quantities else "share"
    lists = [_values(cell, quantity, runs, base) for quantity in quantities]
    if cell.of in LISTS or cell.of.startswith("branches"):
        shape = "+.3f" if form == "cosine" else ""
        means = [Stat(tuple(each), form) for each in lists]
        ours = " ".join(
            f"{m.mean:{shape}}" if shape and m.mean is not None else str(m).partition(" ")[0] for m in means
        )
        return cell, (ours or "missing") + budget, len(runs), compare(cell, form, lists)
    (values,) = lists
    stat = Stat(tuple(values), form)
    if cell.of.startswith("first ") and values:
        dates = ["never" if value == math.inf else f"{value:g}" for value in values]
        ours = " / ".join(dates) if set(dates) != {"never"} else "never"
    else:
        ours = str(stat) if values else "missing"
    return cell, ours + budget, len(values), compare(cell, form, values)


# --- the page -------------------------------------------------------------------------------------------------------


def largest(rows: Sequence[Row]) -> list[Row]:
    """The two accuracies and the three sizes of the main audit that differ most, each quantity of a method once."""
    kinds = {"accuracy": 2, "stream": 3, "gradient": 3}
    ordered = sorted((r for r in rows if r[3].far > 0 and r[0].of in kinds), key=lambda r: -r[3].far)
    accuracies = [r for r in ordered if r[0].of == "accuracy"][:2]
    return accuracies + [r for r in ordered if r[0].of != "accuracy"][:3]


def _beside(records: OurRuns, cell: PublishedCell) -> str:
    """The quantity of ours that a difference is to be read with."""
    runs = records.of(cell.rule, cell.set, cell.epochs)
    if not runs and cell.instead is not None:
        runs = records.of(cell.rule, cell.set, cell.instead)
    quantity = QUANTITIES.get(cell.beside)
    return f"its {quantity.symbol} cosine with the true gradient is {quantity.over(runs)}"


def verdicts(records: OurRuns) -> list[Row]:
    """By method the published verdict, beside that of the published protocol on our runs.

    That protocol takes one frozen net for every rule: the one whose rest DFA trained.
    """
    found = []
    for rule, published in VERDICTS.items():
        claim = PublishedCell(f"{INKS[rule].name}, verdict", rule, "verdict", words=published)
        epochs = next((e for e in (100, 30) if records.of(rule, {}, e)), 100)
        runs = records.of(rule, {}, epochs)
        if not runs:
            found.append((claim, "missing", 0, Apart("", "missing")))
            continue
        evidence = evidence_of_runs(INKS[rule].name, runs, records.every())
        frozen = {run.config.seed: ACCURACY.last(run) for run in records.of("dfa", {"train_last": 0}, epochs)}
        if frozen:
            evidence = evidence.changed(baselines={**evidence.baselines, "frozen": Baseline.by_seed(frozen)})
        ours = _fired(judge(evidence, protocol="published"))
        right = "D2" not in ours if published == "D2 does not fire" else ours == published
        budget = "" if epochs == 100 else f" ({epochs} epochs)"
        found.append((claim, ours + budget, len(runs), Apart("", "as published" if right else "not as published")))
    return found


def _fired(judged: Judgement) -> str:
    codes = {"scale": "D1", "reference": "D2", "depth": "D3"}
    fired = sorted(codes[f.check] for f in judged.findings if f.outcome == "fires" and f.check in codes)
    return f"{', '.join(fired)} fire{'s' * (len(fired) == 1)}" if fired else judged.verdict


def tried(records: OurRuns) -> list[list[str]]:
    """What was tried to explain FA and DFA: ours by setting."""
    found = []
    for entry in DATA["tried"]:
        runs = records.of(entry["rule"], entry["set"], 100)
        cosines = [cosine_at(block).over(runs).mean for block in range(4)] if runs else []
        numbers = [str(q.over(runs)) if runs else "missing" for q in (ACCURACY, STREAM, GRADIENT)]
        found.append([entry["name"], *numbers, " ".join(f"{c or 0:+.2f}" for c in cosines) or "–", str(len(runs))])
    return found


def page(runs: Sequence[Run]) -> str:
    """The whole page."""
    records = OurRuns(runs)
    tables: dict[str, list[Row]] = {}
    for cell in PUBLISHED:
        tables.setdefault(cell.title, []).append(row(records, cell))
    main = tables.pop(next(iter(tables)))
    next(iter(tables.values()))[:0] = verdicts(records)
    environment = Environment(
        loader=FileSystemLoader(Path(__file__).parent), undefined=StrictUndefined, trim_blocks=True,
        lstrip_blocks=True, autoescape=False,
    )  # fmt: skip
    text = environment.get_template("reproduction.md.jinja").render(
        citation=CITATION, main=main, tables=tables, largest=largest(main), tried=tried(records),
        left_out=records.left_out, count=len(records.every()), form=_form,
        beside=lambda cell: _beside(records, cell),
    )  # fmt: skip
    return re.sub(r"\n{3,}", "\n\n", text).strip()


def _form(cell: PublishedCell) -> str:
    """The form in which a cell's figure is printed."""
    return "share" if cell.of == "verdict" else "points" if cell.over else _quantities(cell, 1)[0].form
