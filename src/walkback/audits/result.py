"""What `wb.audit` gives back: an audit that shows itself, writes its page, and has its table per block as data."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from pydantic import PrivateAttr

from walkback.checks import Audit, Finding, Judgement
from walkback.probes import Layer, Look
from walkback.records import CosineRecord, Evidence, Moment, NullRecord
from walkback.report.answers import answer_words
from walkback.report.case import Case, Material
from walkback.report.harmless import clip
from walkback.report.notebook import in_notebook
from walkback.report.numbers import number
from walkback.report.verdicts import GLYPHS

BlockRow = dict[str, Any]


class PagedAudit(Audit):
    """An audit that can write its page. Read back from its audit.json it is a plain `Audit`."""

    _material: Material | None = PrivateAttr(default=None)

    @classmethod
    def of(cls, audit: Audit, material: Material) -> "PagedAudit":
        """The audit with the records that its page is drawn from."""
        made = cls(**{name: getattr(audit, name) for name in Audit.model_fields if name != "schema_"})
        made._material = material
        return made

    @property
    def material(self) -> Material:
        """The records that it was judged by, as terminal, tables, form and page take them."""
        return self._material or Material.alone(self)

    def __eq__(self, other: object) -> bool:
        """Audits are equal if they say the same."""
        return isinstance(other, Audit) and self.model_dump() == other.model_dump()

    __hash__ = Audit.__hash__

    def to_html(self, path: Path | str) -> Path:
        """Write the page that `walkback report` writes: one file, nothing loaded from elsewhere."""
        return self.material.to_html(path)


class ModelAudit(Audit):
    """An audit of a live model. Read back from its audit.json it is a plain `Audit`, without the table per block."""

    _evidence: Evidence = PrivateAttr(default_factory=lambda: Evidence(name="?"))
    _layers: dict[int, list[Layer]] = PrivateAttr(default_factory=dict)

    @classmethod
    def made(cls, audit: Audit, evidence: Evidence, looks: Mapping[int, Look]) -> "ModelAudit":
        """The audit with what it rests on."""
        fields = {name: getattr(audit, name) for name in Audit.model_fields if name != "schema_"}
        made = cls(**fields)
        made._evidence = evidence
        made._layers = {seed: [seen.start, *seen.layers] for seed, seen in looks.items()}
        return made

    def __eq__(self, other: object) -> bool:
        """Audits are equal if they say the same."""
        return isinstance(other, Audit) and self.model_dump() == other.model_dump()

    __hash__ = Audit.__hash__

    @property
    def evidence(self) -> Evidence:
        """All that was measured and given, by seed."""
        return self._evidence

    def __repr__(self) -> str:
        """Three lines: the subject with its answers, the checks, and why."""
        subject = self.subjects[0]
        says = self.says if subject.says is None else f"{subject.says} {self.says}"
        return "\n".join([_headline(subject, self.valid), _findings(subject.findings), clip(says, 400)])

    __str__ = __repr__

    def blocks(self) -> list[BlockRow]:
        """One row per seed and layer, as `pandas.DataFrame(audit.blocks())` takes it; None is not measured.

        The first row of a seed is the input of the first block (block −1). h_norm and g_norm are ‖h‖ and ‖g‖ at the
        block's output, g_norm as in a batch mean over `reference_batch` samples. cosine is cos(a_l, g_l), at the
        block's input as published; cosine_out at its output; z is how many standard deviations of the null the cosine
        is from the null's mean, z_out of the null by rotation where that was measured; update is the update's alignment
        with the true gradient.
        """
        rows = []
        for each in self._evidence.seeds:
            layers = self._layers.get(each.seed, []) if each.seed is not None else []
            rows += [_row(each.seed, place - 1, layer, each.final) for place, layer in enumerate(layers)]
        return rows

    def to_html(self, path: Path | str) -> Path:
        """Write the page that `walkback report` writes: one file, nothing loaded from elsewhere."""
        cases = [Case(self.subjects[0], self._evidence), *(Case.alone(each) for each in self.subjects[1:])]
        return Material(self, cases).to_html(path)

    def _repr_html_(self) -> str:
        """For notebooks: the answers, the findings and the table per block, without a script or a style sheet."""
        return in_notebook(self, self.blocks())


def _headline(subject: Judgement, valid: bool) -> str:
    seeds = len(subject.described.drift)
    accuracy = subject.accuracy
    spread = f" ± {accuracy.std:.3f}" if accuracy.std is not None else ""
    scored = "accuracy not known" if accuracy.mean is None else f"accuracy {accuracy.mean:.3f}{spread}"
    sure = "" if valid else "invalid audit, "
    return f"{clip(subject.name)}: {sure}{answer_words(subject)} ({seeds} seed{'s' if seeds != 1 else ''}, {scored})"


def _findings(findings: Sequence[Finding]) -> str:
    """The checks in a line.

    >>> _findings([])
    'no check was made'
    """
    said = [f"{GLYPHS[f.outcome]} {f.check} {f.outcome}" + _value(f) for f in findings]
    return " · ".join(said) or "no check was made"


def _value(finding: Finding) -> str:
    return "" if finding.value is None else f" ({number(finding.value)})"


def _row(seed: int | None, block: int, layer: Layer, moment: Moment) -> BlockRow:
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


def z_score(cosine: CosineRecord | None, null: NullRecord | None) -> float | None:
    """(cos − mean of the null) / its standard deviation; None where either is not known or the null does not spread.

    >>> z_score(CosineRecord(value=0.5, alive=1, total=1, status="ok"), NullRecord(mean=0.1, std=0.2, n=20, kind="x"))
    2.0
    """
    value = _ok(cosine)
    if value is None or null is None or null.n < 2 or not null.std > 0:
        return None
    return (value - null.mean) / null.std
