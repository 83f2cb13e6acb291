"""What stands behind the answers of a subject, for form, page and tables: baselines, layers, what the probes read."""

import statistics
from collections.abc import Iterable, Mapping, Sequence
from functools import partial
from itertools import groupby
from typing import Any

from walkback.checks.depth import CONFIDENCE
from walkback.checks.finding import Interval, known
from walkback.checks.paired_gain import gain_over
from walkback.checks.reference import BATCH
from walkback.checks.thresholds import Thresholds
from walkback.checks.verdict import Judgement
from walkback.records import BaselineName, Null
from walkback.records.schema import Readings
from walkback.report.case import Case
from walkback.report.tables import Cell, Column, Stat, Table
from walkback.report.writing import number

BASELINES: Mapping[BaselineName, str] = {
    "frozen": "own frozen net", "frozen_bp": "frozen net trained by bp", "bp": "bp", "shallow": "shallow net",
    "half": "own net, lower half frozen", "half_bp": "bp, lower half frozen",
}  # fmt: skip
GAIN = (
    "Gain: of the subject over it, seed by seed, in points, with the {:.4g} % interval of the mean by Student's t. "
    "Frozen: blocks left at their random init, the rest trained. Shallow: no blocks, trained by plain gradient. These "
    "two decide on the accuracy."
)
NOTE = (
    "Sizes: geometric mean over the seeds (smallest–largest); gradients {}. Cosines and ρ: mean ± std over the seeds, "
    "cos(a_l, g_l) at the block's input and cos(a_l, g_{{l+1}}) at its output. "
    "Null: mean ± std over draws, averaged over the seeds; at the output by rotation, where that was measured. "
    "Nudging: mean change of the loss; negative is useful."
)


def gain_cell(part: Interval, n: int, mean: float | None = None) -> Stat:
    """A gain in points with its interval."""
    ends = None if part.low is None or part.high is None else (part.low, part.high)
    return Stat(form="points", interval=ends, given=(part.value if mean is None else mean, None, n))


def baselines_table(case: Case, thresholds: Thresholds) -> Table:
    """A row for every baseline that the protocol knows, recorded or not."""
    confidence, recorded = thresholds[CONFIDENCE], case.evidence.baselines

    def values(name: BaselineName) -> tuple[float, ...]:
        return tuple(v for v in recorded[name].accuracy.values() if known(v)) if name in recorded else ()

    def gain(name: BaselineName) -> Stat | None:
        """As it was judged by; where no check asks for it, by the same interval."""
        found = gain_over(case.evidence, name)
        if found.mean is None:
            return None
        parts = [finding.parts[name] for finding in case.judgement.findings if name in finding.parts]
        return gain_cell(parts[0] if parts else found.interval(confidence), found.n, found.mean)

    def how(name: BaselineName) -> str:
        return "not there" if name not in recorded else "typed in" if recorded[name].typed else "measured"

    columns = [
        Column("baseline", lambda name: BASELINES[name]),
        Column("accuracy", lambda name: Stat(values(name)) if name in recorded else None),
        Column("n", lambda name: len(values(name))),
        Column("gain of the subject", gain),
        Column("how", how),
    ]
    return Table.of("baselines", "Accuracy of the baselines", columns, BASELINES, GAIN.format(100 * confidence))


def layers_table(case: Case, thresholds: Thresholds) -> Table | None:
    """A row for every hidden state and the block that begins there, in the columns of which something is known.

    None where nothing is known of any layer.
    """
    blocks, finals = case.evidence.blocks, case.finals
    if blocks is None or not any(moment.block_counts() for moment in finals):
        return None
    batch = thresholds[BATCH]
    stated = all(m.reference_batch is not None for m in finals if m.gradient_norms)
    factors = [(m.reference_batch or batch) / batch for m in finals]
    gradients = [
        [None if norm is None else norm * factor for norm in moment.gradient_norms or ()]
        for moment, factor in zip(finals, factors, strict=True)
    ]
    readings = [moment.measured for moment in finals]
    columns = [
        Column("l", int),
        Column("‖h_l‖", partial(_sizes, [m.hidden_norms for m in finals])),
        Column("‖g_l‖", partial(_sizes, gradients)),
        Column("cos at input", partial(_cosines, [m.cosine for m in finals])),
        Column("cos at output", partial(_cosines, [m.cosine_out for m in finals])),
        Column("⟨A, G⟩ / (‖A‖ ‖G‖)", partial(_cosines, [m.frobenius for m in finals])),
        Column("null", partial(_null, [m.rotated or m.null for m in finals])),
        Column("ρ", partial(_rho, [m.rho for m in finals])),
        Column("nudging", partial(_nudging, [m.nudging for m in finals])),
        *(Column(probe, partial(over_seeds, readings, probe)) for probe in probes_of(readings)),
    ]
    layers = range(blocks + 1)
    shown = [column for column in columns if any(column.take(layer) is not None for layer in layers)]
    note = NOTE.format(f"at N = {batch:g}" if stated else "at a batch that is not known")
    return Table.of("blocks", "Layer by layer", shown, layers, note)


def _at(lists: Sequence[Sequence[Any] | None], layer: int) -> list[Any]:
    """What the seeds have at a layer, as far as it is known."""
    found = [each[layer] for each in lists if each is not None and layer < len(each)]
    return [one for one in found if one is not None]


def _sizes(norms: Sequence[Sequence[float | None] | None], layer: int) -> Stat | None:
    values = _at(norms, layer)
    return Stat(tuple(values), "size") if values else None


def _cosines(cosines: Sequence[Sequence[Any] | None], layer: int) -> Cell:
    """Over the seeds that have one; where none has, the reason."""
    present = _at(cosines, layer)
    values = tuple(cosine.value for cosine in present if cosine.status == "ok")
    if values:
        return Stat(values, "cosine")
    return ", ".join(dict.fromkeys(cosine.status for cosine in present)) or None


def _null(nulls: Sequence[Sequence[Null | None] | None], layer: int) -> Stat | None:
    return mean_null(_at(nulls, layer))


def mean_null(found: Iterable[Null | None]) -> Stat | None:
    """The mean over the seeds of mean and std; n is the number of draws in each."""
    present = [null for null in found if null is not None and known(null.mean) and known(null.std)]
    if not present:
        return None
    mean, std = (statistics.fmean(getattr(null, name) for null in present) for name in ("mean", "std"))
    return Stat(form="cosine", given=(mean, std, min(null.n for null in present)))


def _rho(values: Sequence[Sequence[float | None] | None], layer: int) -> Stat | None:
    numbers = tuple(value for value in _at(values, layer) if known(value))
    return Stat(numbers, "cosine") if numbers else None


def _nudging(values: Sequence[Sequence[float | None] | None], layer: int) -> float | None:
    numbers = [value for value in _at(values, layer) if known(value)]
    return statistics.fmean(numbers) if numbers else None


# --- the probes that are one file each, whatever their names are ------------------------------------------------------


def probes_of(readings: Iterable[Readings]) -> list[str]:
    """Every probe that read something, in the order in which they come."""
    return list(dict.fromkeys(name for each in readings for name in each))


def written(name: str, value: float) -> str:
    """A value in the form that its probe gives it."""
    from walkback.probes import PROBES  # here: a log is reported without torch

    return PROBES.get(name).written(value) if name in PROBES else number(value, 3)


def over_seeds(readings: Sequence[Readings], name: str, place: int) -> Cell:
    """A probe's readings at one block or layer over the seeds; the reasons where none has a value; None: no reading."""
    present = _at([each.get(name) for each in readings], place)
    values = [reading.value for reading in present if reading.status == "ok" and known(reading.value)]
    if not values:
        return ", ".join(dict.fromkeys(reading.status for reading in present)) or None
    if len(values) == 1:
        return written(name, values[0])
    return f"{written(name, statistics.fmean(values))} ± {written(name, statistics.stdev(values))}"


def _null_words(readings: Mapping[str, Readings], name: str, place: int) -> str:
    """The null's mean ± std, averaged over the seeds that have one."""
    nulls = [reading.null for reading in _at([each.get(name) for each in readings.values()], place)]
    mean = mean_null(nulls)
    if mean is None:
        return "–"
    kind = next(null.kind for null in nulls if null is not None)
    return f"{written(name, mean.mean or 0.0)} ± {written(name, mean.std or 0.0)}, {kind}"


def _heading(name: str) -> str:
    """The probe's name and its formula, if the probe is known here."""
    from walkback.probes import PROBES

    return f"{name}, {PROBES.get(name).symbol}" if name in PROBES else name


def measured_table(subjects: Sequence[Judgement], name: str, *notes: str) -> Table:
    """What the probes read of the final nets: a row for each subject, probe and block; equal neighbours share one."""
    rows: list[list[Cell]] = []
    for subject in subjects:
        readings = subject.described.measured
        every = list(readings.values())
        for probe in probes_of(every):
            places = range(max(len(each.get(probe, ())) for each in every))
            cells = [(over_seeds(every, probe, place), _null_words(readings, probe, place)) for place in places]
            for alike, group in groupby(places, key=cells.__getitem__):
                first, *rest = group
                where = f"{first}–{rest[-1]}" if rest else str(first)
                rows.append([subject.name, _heading(probe), where, *alike])
    words = "Mean ± std over the seeds. l counts blocks (or layers, from h_0); the null is what chance would give."
    headings = ["subject", "probe", "l", "value", "null"]
    return Table(name, "What the probes read of the final nets", headings, rows, [words, *notes])
