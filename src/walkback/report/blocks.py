"""An audit in a few lines, as Python shows it, and the layers of a live model as rows of a table."""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from walkback.checks import Audit
from walkback.records import Cosine, Moment, Null
from walkback.report.answers import GLYPHS, answer_words
from walkback.report.harmless import clip
from walkback.report.numbers import number

if TYPE_CHECKING:  # records are shown without torch
    from walkback.probes import Layer

MOST = 10  # subjects that are shown


def in_words(audit: Audit) -> str:
    """Three lines for each subject: its answers, the checks, and why."""
    if not audit.subjects:
        return clip(audit.says, 400)
    lines = []
    for subject in audit.subjects[:MOST]:
        seeds, scored = len(subject.described.drift), subject.accuracy
        spread = f" ± {scored.std:.3f}" if scored.std is not None else ""
        accuracy = "accuracy not known" if scored.mean is None else f"accuracy {scored.mean:.3f}{spread}"
        sure = "" if audit.counts(subject.name) else "invalid audit, "
        many = f"{seeds} seed{'s' if seeds != 1 else ''}"
        found = [
            f"{GLYPHS[f.outcome]} {f.check} {f.outcome}" + ("" if f.value is None else f" ({number(f.value)})")
            for f in subject.findings
        ]
        lines += [
            f"{clip(subject.name)}: {sure}{answer_words(subject)} ({many}, {accuracy})",
            " · ".join(found) or "no check was made",
            clip(f"{subject.says} {audit.says}", 400),
        ]
    more = len(audit.subjects) - MOST
    return "\n".join([*lines, *([f"… and {more:,} more"] if more > 0 else [])])


def rows(audit: Audit) -> list[dict[str, Any]]:
    """One row per seed and layer of a live model; None is not measured. Of any other audit there are none.

    The first row of a seed is the input of the first block (block −1). h_norm and g_norm are ‖h‖ and ‖g‖ at the
    block's output, g_norm as in a batch mean over `reference_batch` samples. cosine is cos(a_l, g_l), at the
    block's input as published; cosine_out at its output; z is how many standard deviations of the null the cosine
    is from the null's mean, z_out of the null by rotation where that was measured; update is the update's alignment
    with the true gradient.
    """
    found = []
    for each in audit.evidence.seeds if audit.layers else ():
        layers = audit.layers.get(each.seed, []) if each.seed is not None else []
        found += [_row(each.seed, place - 1, layer, each.final) for place, layer in enumerate(layers)]
    return found


def _row(seed: int | None, block: int, layer: "Layer", moment: Moment) -> dict[str, Any]:
    """One layer of one seed; block −1 is the input of the first."""
    state = block + 1
    cosine, null = _at(moment.cosine, block), _at(moment.null, block)
    cosine_out, null_out = _at(moment.cosine_out, block), _at(moment.rotated or moment.null_out, block)
    update = _at(moment.measured.get("update"), block)
    return {
        "seed": seed, "block": block, "name": layer.name, "status": layer.status, "shape": layer.shape,
        "reduction": layer.reduction, "h_norm": _at(moment.hidden_norms, state),
        "g_norm": _at(moment.gradient_norms, state), "reference_batch": moment.reference_batch,
        "cosine": _ok(cosine), "z": z_score(cosine, null), "cosine_out": _ok(cosine_out),
        "z_out": z_score(cosine_out, null_out), "update": _ok(update), "note": layer.note,
    }  # fmt: skip


def _at(values: Sequence[Any] | None, place: int) -> Any:
    return values[place] if values is not None and 0 <= place < len(values) else None


def _ok(record: Any) -> float | None:
    return None if record is None or record.status != "ok" else float(record.value)


def z_score(cosine: Cosine | None, null: Null | None) -> float | None:
    """(cos − mean of the null) / its standard deviation; None where either is not known or the null does not spread.

    >>> z_score(Cosine(value=0.5, alive=1, total=1, status="ok"), Null(mean=0.1, std=0.2, n=20, kind="x"))
    2.0
    """
    value = _ok(cosine)
    if value is None or null is None or null.n < 2 or not null.std > 0:
        return None
    return (value - null.mean) / null.std
