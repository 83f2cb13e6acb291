"""What is measured of a stranger's model: every number of its moment, and the notes that say how far to trust it.

The reference is proved first. Where autograd's gradient is the derivative of the loss it is the reference; where it is
right in float64 only, that of the float64 copy is; where it is wrong, the gradient is measured by finite differences.
"""

import math
from collections.abc import Sequence
from typing import Any, Literal, NamedTuple

import torch
from torch import Tensor, nn

from walkback.audits.notes import dead_notes, proof_notes, seen_notes
from walkback.nets.reduction import has_cls_token, reduction_of
from walkback.probes import (
    Cosine,
    Look,
    Null,
    Precision,
    Proof,
    credit_cosine,
    drift,
    gamma,
    gradient_norm,
    look,
    nudging,
    perturbation,
    precision,
    replay_module,
    slopes,
)
from walkback.probes.backward import at_places, delivered
from walkback.probes.modules import CreditFunction, PerSampleLoss
from walkback.probes.norms import REFERENCE_BATCH
from walkback.probes.precision import against_double, dtype_of, in_single
from walkback.probes.proof import prove
from walkback.probes.redrawn import Redraw, redrawn_null
from walkback.probes.rotated import mean_of, null_of
from walkback.probes.uncut import Uncut
from walkback.probes.worker import Worker, double_worker, gathered
from walkback.records import CosineRecord, Moment, NullRecord, PrecisionRecord

PROOF_SAMPLES, DOUBLE_SAMPLES, DESCRIBED_SAMPLES = 64, 128, 32
DOUBLE_ENOUGH = 1e-12  # float64's epsilon is below it, float32's is not
STEPS_AGREE = 0.01  # two step sizes disagree by more: then nothing is said of how precise the gradient is
THE_GRADIENT = 0.999  # mean cosine with the gradient from which on a credit is the gradient
BACKWARD: Literal["backward"] = "backward"
Batches = Sequence[tuple[Any, Tensor]]


class Asked(NamedTuple):
    """What the user asked for, as `wb.audit` takes it."""

    batches: Batches
    blocks: str | Sequence[str]
    credits: CreditFunction | Literal["backward"] | None
    redraw: Redraw | None
    reduction: str
    loss: PerSampleLoss | None
    describe: bool
    residual: bool | None


class Reference(NamedTuple):
    """The true gradient at h_0 … h_L, as far as it is known.

    rows     as rows of samples, the first so many; None where only slopes along directions tell it, or nothing does
    worker   what takes finite differences, in float64; None if nothing does
    values   the whole features of the worker's samples
    """

    proofs: list[Proof]
    rows: list[Tensor | None]
    precision: Precision
    worker: Worker | None
    values: list[Tensor | None]
    remark: str  # about the float64 copy, or the model's own precision
    dtype: str  # what the deepest gradient was computed in


class Judged(NamedTuple):
    """One model: its moment, what the hooks saw of it, and notes."""

    moment: Moment
    seen: Look
    notes: list[str]
    reference: Reference


def measured(model: nn.Module, asked: Asked, known: Sequence[Proof] | None = None) -> Judged:
    """Everything that the checks ask of one model.

    known   proofs of an earlier look at the same model, taken as they are: finite differences are not taken again
    """
    seen, training, notes = _seen(model, asked)
    reference = _reference(model, seen, asked, known, training)
    rows, proofs = seen, reference.proofs
    mended = _uncut(model, asked) if any(p.standing == "wrong" for p in proofs) else None
    if mended is not None:
        rows, reference = mended
    by_differences = reference.proofs[-1].standing == "wrong" and reference.precision.status == "ok"
    fields: dict[str, Any] = {
        "loss": seen.loss,
        "hidden_norms": [None if s is None else _median(s) for s in seen.sizes],
        "growth": [None if r is None else _finite(_median(r)) for r in seen.growth],
        "reference_batch": REFERENCE_BATCH,
        "precision": PrecisionRecord.of(reference.precision).model_copy(update={"differences": by_differences}),
        "dtype": reference.dtype,
    }
    middle = reference.rows[len(seen.layers) // 2]
    if middle is not None:
        turned = drift(middle)
        fields["drift"] = turned.value if turned.status == "ok" else None
    proofs_said = proof_notes(
        seen, proofs, remark=reference.remark, differences=reference.worker is not None, uncut=mended is not None,
        backward=asked.credits == BACKWARD, precise=by_differences,
    )  # fmt: skip
    notes += [*seen_notes(rows), *dead_notes(seen), *proofs_said]
    credits: tuple[list[Tensor | None], list[Tensor | None]] | None = None
    if asked.credits == BACKWARD:

        def in_training(first: bool) -> Look:
            some = asked.batches[:1] if first else asked.batches
            return look(model, some, asked.blocks, reduction=asked.reduction, loss=asked.loss, training=True)

        found = delivered(seen, in_training)
        notes += [found.why] if found.why else []
        nothing: list[Tensor | None] = [None] * len(seen.layers)
        credits = (nothing, nothing) if found.rows is None else at_places(found.rows)
    elif seen.credits is not None:
        credits = list(seen.credits), list(seen.credits)
    probing = _Differences(reference, has_cls_token(model), asked.reduction)
    if credits is not None:
        fields |= _directions(model, seen, reference, probing, credits, asked)
        if callable(asked.credits) and all(c.status == "ok" and c.value > THE_GRADIENT for c in fields["cosine_out"]):
            notes.append("the credits given are the gradient itself in every block, so the model is judged as trained "
                         "by backprop; if it was not, these are not its credits")  # fmt: skip
        if asked.describe:
            fields |= _described(model, credits[0], asked)
    fields["gradient_norms"] = _gradient_norms(seen, reference, probing)
    return Judged(Moment(**fields), seen, notes, reference)


def _seen(model: nn.Module, asked: Asked) -> tuple[Look, bool, list[str]]:
    """The look, in evaluation mode; in training mode if the model's backward pass works there alone.

    So it is where hooks deliver a credit that the forward pass prepares only when the model trains.
    """
    function = asked.credits if callable(asked.credits) else None

    def one(training: bool) -> Look:
        return look(model, asked.batches, asked.blocks, credits=function, reduction=asked.reduction, loss=asked.loss,
                    training=training)  # fmt: skip

    seen = one(False)
    if not seen.failed:
        return seen, False, []
    fails = f"in evaluation mode the backward pass fails ({seen.failed})"
    try:
        other = one(True)
    except Exception as error:  # a stranger's forward pass may ask for more when it trains
        words = (str(error).splitlines() or [""])[0]
        return seen, False, [f"{fails}, in training mode the forward pass ({type(error).__name__}: {words})"]
    same = bool(((other.losses - seen.losses).abs() <= 1e-4 * (1 + seen.losses.abs())).all())
    if other.failed or not same:
        return (
            seen,
            False,
            [f"{fails}, and in training mode {'it does too' if other.failed else 'the loss is another'}"],
        )
    return other, True, [f"{fails}; in training mode it does not, and that is what was looked at"]


def at_init(model: nn.Module, asked: Asked) -> Moment:
    """What scale asks of the same net at its random init: how large its states are, and how much its blocks grow."""
    seen = look(model, asked.batches, asked.blocks, reduction=asked.reduction, loss=asked.loss)
    return Moment(
        epoch=0,
        hidden_norms=[None if s is None else _median(s) for s in seen.sizes],
        growth=[None if r is None else _finite(_median(r)) for r in seen.growth],
    )


def _median(values: Tensor) -> float:
    return float(values.quantile(0.5)) if values.isfinite().all() else float(values.median())


def _finite(value: float) -> float | None:
    """A growth from nothing is no number."""
    return value if math.isfinite(value) else None


def _reference(model: nn.Module, seen: Look, asked: Asked, known: Sequence[Proof] | None, training: bool) -> Reference:
    """Prove autograd's gradient on a few samples, and take the place of it where it is not the gradient."""
    states = len(seen.gradients)
    double, why = None, ""
    values: list[Tensor | None] = [None] * states
    try:
        inputs, labels = gathered(asked.batches, PROOF_SAMPLES)
        own = Worker(model, inputs, labels, asked.blocks, asked.loss, training).first(PROOF_SAMPLES)
        # With proofs at hand the losses of the look save a pass.
        losses = own.still.losses if known is None else seen.losses[: own.samples].cpu()
        double, why = double_worker(own, asked.blocks, losses)
        proofs = list(known) if known is not None else prove(own, double, torch.Generator().manual_seed(0))
    except Exception as error:  # whatever a stranger's model raises when it is run again
        reason = f"finite differences could not be taken ({type(error).__name__})"
        proofs = [Proof("not verified", reason)] * states
    if double is None:
        proofs = [p._replace(why=p.why or why) if p.standing in ("wrong", "not verified") else p for p in proofs]
    precise, doubles = against_double(
        seen, None if double is None else double.model, asked.batches, asked.blocks, samples=DOUBLE_SAMPLES,
        reduction=asked.reduction, loss=asked.loss, why=why, training=training,
    )  # fmt: skip
    rows = [_rows(p, own_g, double_g) for p, own_g, double_g in zip(proofs, seen.gradients, doubles, strict=True)]
    last, dtype = precise[-1], str(dtype_of(model)).removeprefix("torch.")
    single = in_single(
        model, asked.batches, asked.blocks, samples=DOUBLE_SAMPLES, reduction=asked.reduction, loss=asked.loss
    )
    if single is not None and last.status == "ok" and single.gradients[-1] is not None and doubles[-1] is not None:
        why = (
            f"{dtype} itself turns the deepest gradient by {last.chord:.3g}, so a cosine taken in it can be off by that"
        )
        last = precision(single.gradients[-1][: len(doubles[-1])], doubles[-1])
        dtype = f"a float32 copy of the {dtype} weights"
    if proofs[-1].standing in ("wrong", "not verified") and last.status == "ok":
        says = (
            "is not the derivative of the loss" if proofs[-1].standing == "wrong" else f"not verified: {proofs[-1].why}"
        )
        last = Precision(math.nan, math.nan, 0, last.total, f"the deepest gradient {says}")
    if double is not None and any(p.standing == "wrong" for p in proofs):
        values = list(double.states().values)
        cls = has_cls_token(model)
        for layer, (proof, value, hidden) in enumerate(zip(proofs, values, seen.hidden, strict=True)):
            if proof.standing == "wrong" and value is not None and hidden is not None and hidden.shape[1] <= slopes.FEW:
                how = reduction_of(value.dim(), asked.reduction, cls)
                measured = slopes.whole_gradient(double, layer, value, hidden.shape[1], how)
                rows[layer] = measured
                if layer == states - 1 and double.epsilon < DOUBLE_ENOUGH:
                    # The reference is this gradient, not one of a backward pass: how far is it off by its own step?
                    again = precision(slopes.whole_gradient(double, layer, value, hidden.shape[1], how, -1), measured)
                    last = again if again.status == "ok" and again.chord <= STEPS_AGREE else last
    return Reference(proofs, rows, last, double, values, "" if double is None else why, dtype)


def _uncut(model: nn.Module, asked: Asked) -> tuple[Look, Reference] | None:
    """The look and the reference of the model without its cuts, where that proves the gradient at every state."""
    whole = Uncut(model)
    try:
        inputs, labels = gathered(asked.batches, 1)
        Worker(whole, inputs, labels, asked.blocks, asked.loss).first(1).run()
        if not whole.cuts:
            return None
        seen = look(whole, asked.batches, asked.blocks, reduction=asked.reduction, loss=asked.loss)
        reference = _reference(whole, seen, asked, None, False)
    except Exception:  # whatever a stranger's model raises when a cut is not there
        return None
    proved = all(proof.standing in ("proved", "float64") for proof in reference.proofs)
    return (seen, reference) if proved else None


def _rows(proof: Proof, own: Tensor | None, double: Tensor | None) -> Tensor | None:
    if proof.standing == "float64":
        return double
    return own if proof.standing in ("proved", "not verified") else None


class _Differences:
    """What finite differences tell where autograd is wrong: each state and credit is measured once."""

    def __init__(self, reference: Reference, cls: bool, reduction: str):
        self.reference, self.cls, self.reduction = reference, cls, reduction
        self.generator = torch.Generator().manual_seed(3)
        self.known: dict[tuple[int, int], slopes.Along] = {}

    def _at(self, layer: int) -> tuple[Worker, Tensor, str] | None:
        value, worker = self.reference.values[layer], self.reference.worker
        if self.reference.proofs[layer].standing != "wrong" or value is None or worker is None:
            return None
        return worker, value, reduction_of(value.dim(), self.reduction, self.cls)

    def along(self, layer: int, credit: Tensor) -> slopes.Along | None:
        """The gradient's size and its cosine with a credit; None where it is not measured so."""
        place, key = self._at(layer), (layer, id(credit))
        if place is not None and key not in self.known:
            worker, value, how = place
            self.known[key] = slopes.along_credit(worker, layer, value, credit[: len(value)], how, self.generator)
        return self.known.get(key)

    def norm(self, layer: int, width: int) -> float | None:
        """The median norm of the gradient at a state."""
        place = self._at(layer)
        if place is None:
            return None
        worker, value, how = place
        before = next((found.norms for (at, _), found in self.known.items() if at == layer), None)
        norms = slopes.any_size(worker, layer, value, width, how, self.generator) if before is None else before
        return _median(norms)


def _gradient_norms(seen: Look, reference: Reference, probing: _Differences) -> list[float | None]:
    found: list[float | None] = []
    for layer, (rows, hidden) in enumerate(zip(reference.rows, seen.hidden, strict=True)):
        if rows is not None:
            found.append(gradient_norm(rows))
        else:
            norm = None if hidden is None else probing.norm(layer, hidden.shape[1])
            found.append(None if norm is None else norm / REFERENCE_BATCH)
    return found


def _directions(
    model: nn.Module, seen: Look, reference: Reference, probing: _Differences,
    credits: tuple[Sequence[Tensor | None], Sequence[Tensor | None]], asked: Asked,
) -> dict[str, Any]:  # fmt: skip
    """The cosine of every block's credit at its input and its output, each with its null, and Γ."""
    shapes = [
        row.shape if row.reduction == "flatten" and row.shape and len(row.shape) > 1 else None
        for row in (seen.start, *seen.layers)
    ]
    redrawn = None
    if asked.redraw is not None:
        redrawn = redrawn_null(
            model, asked.batches[0], asked.blocks, asked.redraw, reference.rows, asked.reduction, asked.loss
        )
    places = []
    for place, rows in enumerate(credits):
        known = [_slice(a, g) for a, g in zip(rows, reference.rows[place:], strict=False)]
        if redrawn is not None:
            chance = redrawn.at_output if place else redrawn.at_input
        else:
            beside = zip(known, reference.rows[place:], shapes[place:], strict=False)
            chance = [null_of(a, g, shape) for a, g, shape in beside]
        found: list[tuple[Cosine, Null]] = []
        for block, credit in enumerate(rows):
            cosine, along = _one(seen, reference, probing, block + place, known[block], credit)
            found.append((cosine, chance[block] if along is None or redrawn is not None else along))
        places.append(found)
    at, out = places
    # Γ is the mean at the blocks' outputs in a plain net and where widths differ, as in our own nets.
    outward = asked.residual is False or any(cosine.status == "other width" for cosine, _ in at)
    average = out if outward else at
    chance_of_gamma = mean_of([null for cosine, null in average if cosine.status == "ok"])
    if redrawn is not None:
        chance_of_gamma = redrawn.gamma_out if outward else redrawn.gamma
    return {
        "cosine": [CosineRecord.of(c) for c, _ in at],
        "cosine_out": [CosineRecord.of(c) for c, _ in out],
        "gamma": gamma([c for c, _ in average])[0],
        "null": [NullRecord.of(null) for _, null in at],
        "null_out": [NullRecord.of(null) for _, null in out],
        "null_gamma": NullRecord.of(chance_of_gamma),
    }


def _slice(credit: Tensor | None, gradient: Tensor | None) -> Tensor | None:
    return credit if credit is None or gradient is None else credit[: len(gradient)]


def _one(
    seen: Look, reference: Reference, probing: _Differences, layer: int, known: Tensor | None, credit: Tensor | None
) -> tuple[Cosine, Null | None]:
    """One block's cosine at one state; with its null if that was measured by finite differences."""
    standing, rows, hidden = reference.proofs[layer].standing, reference.rows[layer], seen.hidden[layer]
    if credit is None or hidden is None or standing == "not measured":
        return Cosine(math.nan, 0, seen.samples, "not available"), None
    if credit.shape[1] != hidden.shape[1]:
        return Cosine(math.nan, 0, seen.samples, "other width"), None
    if rows is not None and known is not None and standing != "not verified":
        return credit_cosine(known, rows), None
    along = probing.along(layer, credit)
    if along is None:
        return Cosine(math.nan, 0, seen.samples, "not proved"), None
    return along.cosine, along.null


def _described(model: nn.Module, credits: Sequence[Tensor | None], asked: Asked) -> dict[str, Any]:
    """Perturbation correlation and nudging on a few samples; described, so that their failure is no failure."""
    try:
        inputs, labels = gathered(asked.batches, DESCRIBED_SAMPLES)
        few = Worker(model, inputs, labels, asked.blocks, asked.loss).first(DESCRIBED_SAMPLES)
        own = [None if a is None else a[: few.samples] for a in credits]
        replay = replay_module(
            model, few.inputs, few.labels, asked.blocks, reduction=asked.reduction, loss=asked.loss
        )  # fmt: skip
        rho = perturbation(own, replay.hidden, replay.loss_from, torch.Generator().manual_seed(1))
        moved = nudging(own, replay.hidden, replay.loss_from)
    except Exception:  # whatever a stranger's model raises in float64
        return {}
    return {
        "rho": [r.value if r.status == "ok" else None for r in rho],
        "nudging": [n.value if n.status == "ok" else None for n in moved],
    }
