"""reproduction: our figures beside the published ones, as a Markdown page written from records alone.

Runs are found by their config, never by the name of their folder; what is not there is named as missing, and nothing
is guessed. The published figures are in `published.toml`, the page's words in `reproduction.md.jinja`.
"""

import math
import re
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

from jinja2 import Environment, FileSystemLoader, StrictUndefined

from walkback.checks import judge
from walkback.records import Baseline, Run, RunConfig, Snapshot, evidence_of_runs, subject_of
from walkback.report import INKS, Form, Stat
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
    compare_layers,
)
from walkback_paper.quantities import (
    ACCURACY,
    GRADIENT,
    GROWTH,
    QUANTITIES,
    STREAM,
    Quantity,
    cosine_at,
    first_epoch,
    first_stop,
    gradient_at,
    hidden_at,
)

MISSING = Apart("", "missing")


class Row(NamedTuple):
    """A published cell, ours in words, of how many seeds, and the comparison."""

    cell: PublishedCell
    ours: str
    n: int
    found: Apart

    @property
    def form(self) -> Form:
        """The form in which the published figure is printed."""
        if self.cell.of == "verdict":
            return "share"
        return "points" if self.cell.over else _quantities(self.cell, 1)[0].form


class OurRuns:
    """Our finished runs, by their config but for the seed."""

    def __init__(self, runs: Sequence[Run]):
        self.left_out: list[str] = []
        self._runs: dict[str, dict[int, Run]] = {}
        for run in runs:
            if run.ended != "finished" or run.result is None or not run.snapshots:
                why = "unfinished" if run.result is None else run.result.says
                config = run.config
                self.left_out.append(f"{config.label()}, {config.epochs} epochs, seed {config.seed} ({why})")
                continue
            same = self._runs.setdefault(subject_of(run.config), {})
            other = same.get(run.config.seed)  # a copy may lack what was measured later
            if other is None or _measured(run) > _measured(other):
                same[run.config.seed] = run

    def of(self, rule: str, settings: Mapping[str, Any], epochs: int) -> list[Run]:
        """The runs of one setting, the published seeds first."""
        if ".py:" in rule:
            return self._of_file(rule, settings["rule_options"], epochs)
        same = self._runs.get(subject_of(_config(rule, settings, epochs)), {})
        order = {seed: place for place, seed in enumerate(SEEDS)}
        return [same[seed] for seed in sorted(same, key=lambda seed: (order.get(seed, len(order)), seed))]

    def _of_file(self, rule: str, options: Mapping[str, Any], epochs: int) -> list[Run]:
        """The runs of a rule in a file, which need not be here: like fa but for these options."""
        plain = _config("fa", {}, epochs)
        for same in self._runs.values():
            config = next(iter(same.values())).config
            if Path(config.rule).name == Path(rule).name and options.items() <= config.rule_options.items():
                rest = {name: value for name, value in config.rule_options.items() if name not in options}
                fa = config.changed(rule="fa", rule_options=rest, rule_source=plain.rule_source)
                if subject_of(fa) == subject_of(plain):
                    return list(same.values())
        return []

    def of_cell(self, cell: PublishedCell) -> tuple[list[Run], str]:
        """The runs of a cell, at the budget that stands in where there is none of its own; and that budget in words."""
        runs = self.of(cell.rule, cell.set, cell.epochs)
        if not runs and cell.instead is not None:
            runs = self.of(cell.rule, cell.set, cell.instead)
            return runs, f" ({cell.instead} epochs)" if runs else ""
        return runs, ""

    def every(self) -> list[Run]:
        """All of them."""
        return [run for same in self._runs.values() for run in same.values()]


def _measured(run: Run) -> int:
    return (run.probes is not None) + (run.identity is not None)


def _config(rule: str, settings: Mapping[str, Any], epochs: int) -> RunConfig:
    given = {"data": "cifar10", "epochs": epochs, "net_options": {}, **settings}
    return plan(rules=[rule], seeds=[0], **given)[0]


# --- what of ours is held against a cell ----------------------------------------------------------------------------


def _lost(run: Run, stop: Snapshot | None) -> float:
    return math.nan if stop is None else stop.accuracy - run.snapshots[-1].accuracy


def _saved(run: Run, stop: Snapshot | None) -> float:
    return math.nan if stop is None else 1 - stop.epoch / run.config.epochs


def _chord(run: Run) -> float:
    top = None if run.probes is None else run.probes.precision[-1]
    return math.nan if top is None or top.chord is None else top.chord


def _at_init(run: Run, name: str, block: int | None = None) -> float:
    if run.identity is None:
        return math.nan
    found = getattr(run.identity, name)
    return float(found if block is None else found[block])


LISTS: Mapping[str, tuple[Callable[[int], Quantity], int]] = {  # by layer: one more than there are blocks
    "streams": (hidden_at, 1), "gradients": (gradient_at, 1), "cosines": (cosine_at, 0),
    "branches at init": (lambda block: _end("share", partial(_at_init, name="branch", block=block)), 0),
}  # fmt: skip
AT_END: Mapping[str, tuple[Form, Callable[[Run, int], float]]] = {  # of a run, at the N of the cell
    "first D1": ("share", lambda run, _: first_epoch(run, "scale")),
    "first D2": ("share", lambda run, batch: first_epoch(run, "reference floor", batch)),
    "stopped": ("points", lambda run, batch: _lost(run, first_stop(run, batch))),
    "saved": ("share", lambda run, batch: _saved(run, first_stop(run, batch))),
    "largest growth": ("size", lambda run, _: max(map(GROWTH.pick, run.snapshots))),
    "chord": ("size", lambda run, _: _chord(run)),
    "moved at init": ("share", lambda run, _: _at_init(run, "moved")),
    "cosine at init": ("share", lambda run, _: _at_init(run, "cosine")),
}


def _end(form: Form, pick: Callable[[Run], float]) -> Quantity:
    """A quantity that only this page shows: measured once in a run."""
    return Quantity("", "", form, lambda _: math.nan, at_end=pick)


def _quantities(cell: PublishedCell, blocks: int) -> list[Quantity]:
    """The quantity that a cell names; of a list one for each layer or block."""
    if cell.of in LISTS:
        make, more = LISTS[cell.of]
        return [make(layer) for layer in range(blocks + more)]
    if cell.of in AT_END:
        form, pick = AT_END[cell.of]
        return [_end(form, lambda run: pick(run, cell.batch))]
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
    runs, budget = records.of_cell(cell)
    over = dict(cell.over)
    base = records.of(over.pop("rule"), over, over.pop("epochs", cell.epochs)) if over else []
    quantities = _quantities(cell, runs[0].config.blocks if runs else 0)
    form: Form = "points" if cell.over else quantities[0].form if quantities else "share"
    lists = [_values(cell, quantity, runs, base) for quantity in quantities]
    if cell.of in LISTS:
        means = [str(Stat(tuple(each), form)).partition(" ")[0] for each in lists]
        return Row(cell, (" ".join(means) or "missing") + budget, len(runs), compare_layers(cell, form, lists))
    (values,) = lists
    ours = str(Stat(tuple(values), form)) if values else "missing"
    if cell.of.startswith("first ") and values:
        dates = ["never" if value == math.inf else f"{value:g}" for value in values]
        ours = "never" if set(dates) == {"never"} else " / ".join(dates)
    return Row(cell, ours + budget, len(values), compare(cell, form, values))


# --- the page -------------------------------------------------------------------------------------------------------


def largest(rows: Sequence[Row]) -> list[Row]:
    """The two accuracies and the three sizes of the main audit that differ most, each quantity of a method once."""
    ordered = sorted((r for r in rows if r.found.far > 0), key=lambda r: -r.found.far)
    accuracies = [r for r in ordered if r.cell.of == "accuracy"]
    return accuracies[:2] + [r for r in ordered if r.cell.of in ("stream", "gradient")][:3]


def _beside(records: OurRuns, cell: PublishedCell) -> str:
    """The quantity of ours that a difference is to be read with."""
    quantity = QUANTITIES.get(cell.beside)
    return f"its {quantity.symbol} cosine with the true gradient is {quantity.over(records.of_cell(cell)[0])}"


def verdicts(records: OurRuns) -> list[Row]:
    """By method the published verdict, beside that of the published protocol on our runs.

    That protocol takes one frozen net for every rule: the one whose rest DFA trained.
    """
    found = []
    for rule, published in VERDICTS.items():
        claim = PublishedCell(f"{INKS[rule].name}, verdict", rule, "verdict", words=published, instead=30)
        runs, budget = records.of_cell(claim)
        if not runs:
            found.append(Row(claim, "missing", 0, MISSING))
            continue
        evidence = evidence_of_runs(INKS[rule].name, runs, records.every())
        frozen = records.of("dfa", {"train_last": 0}, runs[0].config.epochs)
        if frozen:
            ends = Baseline.by_seed({run.config.seed: ACCURACY.last(run) for run in frozen})
            evidence = evidence.changed(baselines={**evidence.baselines, "frozen": ends})
        judged = judge(evidence, protocol="published")
        codes = {"scale": "D1", "reference": "D2", "depth": "D3"}
        fired = sorted(codes[f.check] for f in judged.findings if f.outcome == "fires" and f.check in codes)
        ours = f"{', '.join(fired)} fire{'s' * (len(fired) == 1)}" if fired else judged.verdict
        right = "D2" not in ours if published == "D2 does not fire" else ours == published
        found.append(Row(claim, ours + budget, len(runs), Apart("", "as published" if right else "not as published")))
    return found


def tried(records: OurRuns) -> list[list[str]]:
    """What was tried to explain FA and DFA: ours by setting."""
    found = []
    for entry in DATA["tried"]:
        runs = records.of(entry["rule"], entry["set"], 100)
        cosines = [cosine_at(block).over(runs).mean for block in range(4)] if runs else []
        numbers = [str(q.over(runs)) if runs else "missing" for q in (ACCURACY, STREAM, GRADIENT)]
        found.append([entry["name"], *numbers, " ".join(f"{c or 0:+.2f}" for c in cosines) or "–"])
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
        left_out=records.left_out, count=len(records.every()), beside=lambda cell: _beside(records, cell),
    )  # fmt: skip
    return re.sub(r"\n{3,}", "\n\n", text).strip()
