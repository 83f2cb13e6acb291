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
from walkback.audits.reference import Asked, TrueGradient, reference_of, uncut
from walkback.nets.reduction import has_cls_token, reduction_of
from walkback.probes import (
    Look,
    Null,
    Proof,
    Reading,
    credit_cosine,
    finite_differences,
    gradient_norm,
    look,
    replay_module,
)
from walkback.probes.at_output import mean_of, null_of, turned_at_output
from walkback.probes.base import readings_of_rows
from walkback.probes.cosine import OTHER_WIDTH, Directions, directions, frobenius, middle_drift, of_own_samples
from walkback.probes.look import delivered
from walkback.probes.norms import REFERENCE_BATCH, median
from walkback.probes.null import redrawn_null
from walkback.probes.observe import stable_losses
from walkback.probes.perturb import Picked, Worker, spread
from walkback.probes.precision import IMPRECISE
from walkback.probes.reading import missing
from walkback.probes.replay import moved_along
from walkback.probes.user_errors import in_a_line
from walkback.records import CosineRecord, Moment, NullRecord, PrecisionRecord, ReadingRecord

DESCRIBED_SAMPLES = 32
THE_GRADIENT = 0.999  # mean cosine with the gradient from which on a credit is the gradient
CANCELS = 1e-2  # of a larger loss, p_y − 1 is known well enough
AT_OUTPUT = ("gamma", "cosine_out", "rotated", "rotated_gamma", "frobenius", "reference")
SOME = 0.05  # mean cosine from which on credits have something to do with the gradient
BACKWARD: Literal["backward"] = "backward"


class MeasuredModel(NamedTuple):
    """One model: its moment, what the hooks saw of it, and notes."""

    moment: Moment
    seen: Look
    notes: list[str]
    reference: TrueGradient
    doubts: list[str]  # why its credits cannot be those that trained it


def measured(model: nn.Module, asked: Asked, known: Sequence[Proof] | None = None) -> MeasuredModel:
    """Everything that the checks ask of one model.

    known   proofs of an earlier look at the same model, taken as they are: finite differences are not taken again
    """
    seen, training, notes = _seen(model, asked)
    reference = reference_of(model, seen, asked, known, training)
    rows, proofs = seen, reference.proofs
    mended = uncut(model, asked) if any(p.standing == "wrong" for p in proofs) else None
    if mended is not None:
        rows, reference = mended
    by_differences = reference.proofs[-1].standing == "wrong" and reference.precision.status == "ok"
    fields: dict[str, Any] = {
        "loss": seen.loss,
        **_sizes(seen),
        "reference_batch": REFERENCE_BATCH,
        "precision": PrecisionRecord.of(reference.precision).changed(differences=by_differences),
        "dtype": reference.dtype,
        "reference": PrecisionRecord.of(reference.acting).changed(differences=by_differences),
    }
    turned = middle_drift(reference.rows)
    fields["drift"] = turned.value if turned is not None and turned.status == "ok" else None
    about_proofs = proof_notes(
        seen, proofs, remark=reference.remark, differences=reference.worker is not None, uncut=mended is not None,
        backward=asked.credits == BACKWARD, precise=by_differences,
    )  # fmt: skip
    notes += [*seen_notes(rows), *dead_notes(seen, proofs), *about_proofs]
    credits: tuple[list[Tensor | None], list[Tensor | None]] | None = None
    doubts: list[str] = []
    outward = False
    if asked.credits == BACKWARD:

        def in_training(first: bool) -> Look:
            some = asked.batches[:1] if first else asked.batches
            return look(model, some, asked.blocks, reduction=asked.reduction, loss=asked.loss, training=True)

        given, why = delivered(seen, in_training)
        notes += [why] if why else []
        nothing: list[Tensor | None] = [None] * len(seen.layers)
        credits = (nothing, nothing) if given is None else (list(given[:-1]), list(given[1:]))
    elif seen.credits is not None:
        credits = list(seen.credits), list(seen.credits)
    probing = _Differences(reference, has_cls_token(model), asked.reduction)
    if credits is not None:
        held, directed = _directions(model, seen, reference, probing, credits, asked)
        fields |= directed
        outward = held.outward
        if callable(asked.credits) and all(c.status == "ok" and c.value > THE_GRADIENT for c in held.at_output):
            notes.append("the credits given equal the gradient in every block, so the model is judged as trained by "
                         "backprop. If it was not, check credits=: these are not its credits")  # fmt: skip
        along = [c.value for c in held.at_output if c.status == "ok"]
        if callable(asked.credits) and sum(along) > SOME * len(along):  # else chance tells
            doubts += _doubts(credits[1], reference)
        if asked.describe:
            fields |= _described(model, credits, held.outward, asked)
    fields["gradient_norms"] = _gradient_norms(seen, reference, probing)
    measured_rows = readings_of_rows(
        seen.hidden, reference.rows, [None] * len(seen.layers) if credits is None else credits[1]
    )
    fields["measured"] = {name: [ReadingRecord.of(each) for each in found] for name, found in measured_rows.items()}
    if asked.loss is None and _may_cancel(seen, reference):
        stable = _without_cancellation(model, asked, known)
        # Where Γ is the mean of the cosines at the outputs, it goes with them.
        fields |= stable if outward else {name: v for name, v in stable.items() if name != "gamma"}
    return MeasuredModel(Moment(**fields), seen, [*notes, *doubts], reference, doubts)


def _may_cancel(seen: Look, reference: TrueGradient) -> bool:
    """Whether the gradient is not precise and p_y − 1, which float32 knows to 6e-8, may be why."""
    off = reference.acting.status in ("ok", "zero gradient") and not reference.acting.chord <= IMPRECISE
    return off and median(seen.losses) < CANCELS


def _without_cancellation(model: nn.Module, asked: Asked, known: Sequence[Proof] | None) -> dict[str, Any]:
    """What is judged at the blocks' outputs, by the cross-entropy that float32 does not round away; nothing where that
    fails. What is stated of the model by its own loss stays."""
    try:
        again = measured(model, asked._replace(loss=stable_losses, describe=False), known)
    except Exception:  # a stranger's model may know its loss
        return {}
    return {name: getattr(again.moment, name) for name in AT_OUTPUT}


def _doubts(credits: Sequence[Tensor | None], reference: TrueGradient) -> list[str]:
    """Whether credits are of other samples than they are given for, as in a loader's other order."""
    states = zip(credits, reference.rows[1:], reference.which[1:], strict=True)
    own = [
        of_own_samples(a if which is None else a[which.to(a.device)], g)
        for a, g, which in states if a is not None and g is not None and a.shape[1] == g.shape[1]
    ]  # fmt: skip
    if not own or None in own or any(own):
        return []
    return ["the credits are no closer to the gradient of their own sample than to that of any other: are they in the "
            "order of the samples?"]  # fmt: skip


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
        return seen, False, [f"{fails}, in training mode the forward pass ({in_a_line(error)})"]
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
    return Moment(epoch=0, **_sizes(seen))


def _sizes(seen: Look) -> dict[str, Any]:
    """How large the states are, and how much larger each block makes what it takes."""
    grown = [None if r is None else median(r) for r in seen.growth]
    return {
        "hidden_norms": [None if s is None else median(s) for s in seen.sizes],
        "growth": [None if r is None or not math.isfinite(r) else r for r in grown],  # one from nothing is no number
    }


class _Differences:
    """What finite differences tell where autograd is wrong: each state and credit is measured once."""

    def __init__(self, reference: TrueGradient, cls: bool, reduction: str):
        self.reference, self.cls, self.reduction = reference, cls, reduction
        self.generator = torch.Generator().manual_seed(3)
        self.known: dict[tuple[int, int], tuple[Tensor, Reading]] = {}  # each sample's ‖g‖, and the cosine

    def _at(self, layer: int) -> tuple[Worker, Tensor, str] | None:
        value, worker = self.reference.values[layer], self.reference.worker
        if self.reference.proofs[layer].standing != "wrong" or value is None or worker is None:
            return None
        return worker, value, reduction_of(value.dim(), self.reduction, self.cls)

    def along(self, layer: int, credit: Tensor) -> Reading | None:
        """The gradient's cosine with a credit, with its null; None where it is not measured so."""
        place, key = self._at(layer), (layer, id(credit))
        if place is not None and key not in self.known:
            worker, value, how = place
            few = credit[self.reference.picked.rows.to(credit.device)]
            self.known[key] = finite_differences.along_credit(worker, layer, value, few, how, self.generator)
        return self.known[key][1] if key in self.known else None

    def norm(self, layer: int, width: int) -> float | None:
        """The median norm of the gradient at a state."""
        place = self._at(layer)
        if place is None:
            return None
        worker, value, how = place
        before = next((norms for (at, _), (norms, _) in self.known.items() if at == layer), None)
        norms = (
            finite_differences.any_size(worker, layer, value, width, how, self.generator) if before is None else before
        )
        return median(norms)


def _gradient_norms(seen: Look, reference: TrueGradient, probing: _Differences) -> list[float | None]:
    found: list[float | None] = []
    for layer, (rows, hidden) in enumerate(zip(reference.rows, seen.hidden, strict=True)):
        if rows is not None:
            found.append(gradient_norm(rows))
        else:
            norm = None if hidden is None else probing.norm(layer, hidden.shape[1])
            found.append(None if norm is None else norm / REFERENCE_BATCH)
    return found


def _directions(
    model: nn.Module, seen: Look, reference: TrueGradient, probing: _Differences,
    credits: tuple[Sequence[Tensor | None], Sequence[Tensor | None]], asked: Asked,
) -> tuple[Directions, dict[str, Any]]:  # fmt: skip
    """The cosine of every block's credit at its input and its output, each with its null, and Γ."""
    shapes = [
        row.shape if row.reduction == "flatten" and row.shape and len(row.shape) > 1 else None
        for row in (seen.start, *seen.layers)
    ]
    redrawn = None
    if asked.redraw is not None:
        first = asked.batches[0]
        batch = Picked(*first, torch.arange(len(first[1])))
        if any(proof.standing == "wrong" for proof in reference.proofs):
            batch = reference.picked  # what finite differences measured
        redrawn = redrawn_null(
            model, batch, asked.blocks, asked.redraw, reference.rows, reference.which, asked.reduction, asked.loss
        )
    held = directions(
        *credits, lambda layer, credit: _cosine(seen, reference, probing, layer, credit), residual=asked.residual
    )
    nulls: list[list[Null]] = []
    for place, rows in enumerate(credits):
        if redrawn is not None:
            nulls.append(redrawn[place][0])
        else:
            nulls.append([_null(reference, probing, block + place, a, shapes) for block, a in enumerate(rows)])
    judged = zip(held.held, nulls[1 if held.outward else 0], strict=True)
    chance = mean_of([null for cosine, null in judged if cosine.status == "ok"])
    if redrawn is not None:
        chance = redrawn[held.outward][1]
    return held, {
        "cosine": [CosineRecord.of(c) for c in held.at_input],
        "cosine_out": [CosineRecord.of(c) for c in held.at_output],
        "gamma": held.gamma[0],
        "null": [NullRecord.of(null) for null in nulls[0]],
        "null_out": [NullRecord.of(null) for null in nulls[1]],
        "null_gamma": NullRecord.of(chance),
        **_acting(reference, probing, credits[1], shapes[1:]),
    }


def _acting(
    reference: TrueGradient, probing: _Differences, credits: Sequence[Tensor | None],
    shapes: Sequence[tuple[int, ...] | None],
) -> dict[str, Any]:  # fmt: skip
    """The one null of every rule and the Frobenius cosine, at the blocks' outputs, where the gradient is proved."""
    proofs = [proof.standing not in ("not verified", "not measured") for proof in reference.proofs[1:]]
    gradients = [rows if sure else None for rows, sure in zip(reference.rows[1:], proofs, strict=True)]
    known = [_of(a, which) for a, which in zip(credits, reference.which[1:], strict=True)]
    rotated, chance = turned_at_output(known, gradients, shapes)
    for block, credit in enumerate(credits):
        along = None if credit is None else probing.known.get((block + 1, id(credit)))
        if along is not None and along[1].null is not None:  # measured by finite differences, and its null with it
            rotated[block] = along[1].null
            chance = mean_of(rotated)
    sizes = [frobenius(a, g) for a, g in zip(known, gradients, strict=True)]
    return {
        "rotated": [NullRecord.of(null) for null in rotated],
        "rotated_gamma": NullRecord.of(chance),
        "frobenius": [ReadingRecord.of(size) for size in sizes],
    }


def _of(credit: Tensor | None, which: Tensor | None) -> Tensor | None:
    """The credits of these samples."""
    return credit if credit is None or which is None else credit[which.to(credit.device)]


def _cosine(seen: Look, reference: TrueGradient, probing: _Differences, layer: int, credit: Tensor | None) -> Reading:
    """One block's cosine at one state: by rows where the gradient is known so, else by finite differences."""
    standing, rows, hidden = reference.proofs[layer].standing, reference.rows[layer], seen.hidden[layer]
    if credit is None or hidden is None or standing == "not measured":
        return missing("not available", seen.samples)
    if credit.shape[1] != hidden.shape[1]:
        return missing(OTHER_WIDTH, seen.samples)
    known = _of(credit, reference.which[layer])
    if rows is not None and known is not None and standing != "not verified":
        return credit_cosine(known, rows)
    along = probing.along(layer, credit)
    return missing("not proved", seen.samples) if along is None else along


def _null(
    reference: TrueGradient, probing: _Differences, layer: int, credit: Tensor | None,
    shapes: Sequence[tuple[int, ...] | None],
) -> Null:  # fmt: skip
    """The null of one block's cosine at one state: that of finite differences, where they measured the cosine."""
    along = None if credit is None else probing.known.get((layer, id(credit)))
    if along is not None and along[1].null is not None:
        return along[1].null
    return null_of(_of(credit, reference.which[layer]), reference.rows[layer], shapes[layer])


def _described(
    model: nn.Module, credits: tuple[Sequence[Tensor | None], Sequence[Tensor | None]], outward: bool, asked: Asked
) -> dict[str, Any]:
    """Perturbation correlation and nudging on a few samples; described, so that their failure is no failure."""
    try:
        few = spread(asked.batches, DESCRIBED_SAMPLES)
        replay = replay_module(
            model, few.inputs, few.labels, asked.blocks, reduction=asked.reduction, loss=asked.loss
        )  # fmt: skip
        known = [_of(a, few.rows) for a in credits[outward]]
        rho, moved = moved_along(known, replay, outward=outward, generator=torch.Generator().manual_seed(1))
    except Exception:  # whatever a stranger's model raises in float64
        return {}
    return {
        "rho": [r.value if r.status == "ok" else None for r in rho],
        "nudging": [n.value if n.status == "ok" else None for n in moved],
    }
