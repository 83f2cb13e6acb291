"""The tables of the reporting form: layer by layer, and the baselines."""

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any

from walkback.checks import Audit
from walkback.checks.depth import CONFIDENCE
from walkback.checks.finding import known
from walkback.checks.paired_gain import gain_over
from walkback.checks.reference import BATCH
from walkback.records import BaselineName, Cosine, Null
from walkback.report import measured
from walkback.report.audit_tables import gain_cell
from walkback.report.case import Case
from walkback.report.tables import Cell, Column, Stat, Table

BLANK = "____"
BASELINES: Mapping[BaselineName, str] = {
    "frozen": "own frozen net", "frozen_bp": "frozen net trained by bp", "bp": "bp", "shallow": "shallow net",
    "half": "own net, lower half frozen", "half_bp": "bp, lower half frozen",
}  # fmt: skip
LAYERS = (
    "Sizes: geometric mean over the seeds (smallest–largest); gradients {}. Cosines and ρ: mean ± std over the seeds, "
    "cos(a_l, g_l) at the block's input and cos(a_l, g_{{l+1}}) at its output. Null: mean ± std over draws, averaged "
    "over the seeds; at the output by rotation, where that was measured. Nudging: mean change of the loss; negative is "
    "useful."
)
GAIN = (
    "Gain: of the subject over it, seed by seed, in points, with the {:.4g} % interval of the mean by Student's t. "
    "Frozen: blocks left at their random init, the rest trained. Shallow: no blocks, trained by plain gradient. These "
    "two decide on the accuracy."
)


def layers(case: Case, audit: Audit) -> list[Table]:
    """A row for every hidden state and the block that begins there; no table where nothing is known of any."""
    blocks, finals = case.evidence.blocks, case.finals
    if blocks is None or not any(moment.block_counts() for moment in finals):
        return []
    batch = audit.thresholds[BATCH]
    stated = all(m.reference_batch is not None for m in finals if m.gradient_norms)
    readings = [moment.measured for moment in finals]

    def over_seeds(name: str, layer: int) -> list[Any]:
        """What each seed has there."""
        return [None if (found := getattr(m, name)) is None or layer >= len(found) else found[layer] for m in finals]

    def size(name: str, layer: int) -> Stat | None:
        factors = [(m.reference_batch or batch) / batch if name == "gradient_norms" else 1 for m in finals]
        values = [v * f for v, f in zip(over_seeds(name, layer), factors, strict=True) if v is not None]
        return Stat(tuple(values), "size") if values else None

    def nudging(layer: int) -> float | None:
        nudged = [v for v in over_seeds("nudging", layer) if known(v)]
        return sum(nudged) / len(nudged) if nudged else None

    def null(layer: int) -> Stat | None:
        pairs = zip(finals, over_seeds("rotated", layer), over_seeds("null", layer), strict=True)
        return mean_null([rotated if moment.rotated else plain for moment, rotated, plain in pairs])

    def of_block(take: Callable[[int], Cell]) -> Callable[[int], Cell]:
        return lambda layer: take(layer) if layer < blocks else None

    columns = [
        Column("l", int),
        Column("‖h_l‖", lambda layer: size("hidden_norms", layer)),
        Column("‖g_l‖", lambda layer: size("gradient_norms", layer)),
        Column("cos at input", of_block(lambda layer: _cosine(over_seeds("cosine", layer)))),
        Column("cos at output", of_block(lambda layer: _cosine(over_seeds("cosine_out", layer)))),
        Column("null", of_block(null)),
        Column("ρ", of_block(lambda layer: Stat(tuple(v for v in over_seeds("rho", layer) if known(v)), "cosine"))),
        Column("nudging", of_block(nudging)),
        *(Column(probe, partial(measured.over_seeds, readings, probe))
          for probe in measured.names(readings)),
    ]  # fmt: skip
    note = LAYERS.format(f"at N = {batch:g}" if stated else "at a batch that is not known")
    return [Table.of("blocks", "Layer by layer", columns, range(blocks + 1), note)]


def _cosine(found: Sequence[Cosine | None]) -> Cell:
    """Over the seeds that have one; where none has, the reason."""
    present = [cosine for cosine in found if cosine is not None]
    values = tuple(cosine.value for cosine in present if cosine.status == "ok")
    if values or not present:
        return Stat(values, "cosine") if values else None
    return ", ".join(dict.fromkeys(cosine.status for cosine in present))


def mean_null(found: Sequence[Null | None]) -> Stat | None:
    """The mean over the seeds of mean and std; n is the number of draws in each."""
    present = [null for null in found if null is not None and known(null.mean) and known(null.std)]
    if not present:
        return None
    mean, std = (sum(getattr(null, name) for null in present) / len(present) for name in ("mean", "std"))
    return Stat(form="cosine", given=(mean, std, min(null.n for null in present)))


def baselines(case: Case, audit: Audit) -> Table:
    """A row for every baseline that the protocol knows, recorded or not."""
    confidence, recorded = audit.thresholds[CONFIDENCE], case.evidence.baselines

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
        Column("accuracy", lambda name: Stat(values(name)) if name in recorded else BLANK),
        Column("n", lambda name: len(values(name))),
        Column("gain of the subject", gain),
        Column("how", how),
    ]
    return Table.of("baselines", "Accuracy of the baselines", columns, BASELINES, GAIN.format(100 * confidence))
