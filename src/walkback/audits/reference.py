"""The true gradient at a stranger's blocks: autograd's where it is proved, else that of a copy, or of differences."""

import math
from collections.abc import Sequence
from typing import Any, Literal, NamedTuple

import torch
from torch import Tensor, nn

from walkback.nets.reduction import has_cls_token, reduction_of
from walkback.probes import Look, Precision, Proof, finite_differences, look, precision
from walkback.probes.copy_model import dtype_of
from walkback.probes.forward_switches import WithoutDetach
from walkback.probes.look import CreditFunction
from walkback.probes.null import Redraw
from walkback.probes.outputs import PerSampleLoss
from walkback.probes.perturb import Picked, Worker, double_worker, spread
from walkback.probes.precision import against_double, in_single, reference_of_rows
from walkback.probes.proof import in_batches, prove

PROOF_SAMPLES, DOUBLE_SAMPLES = 64, 128
DOUBLE_ENOUGH = 1e-12  # float64's epsilon is below it, float32's is not
IMPRECISE = 1e-4  # a direction in float32 is far more precise
STEPS_AGREE = 0.01  # two step sizes disagree by more: then it is not known how precise the gradient is
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


class TrueGradient(NamedTuple):
    """The true gradient at h_0 … h_L, as far as it is known.

    rows     as rows of samples; None where only slopes along directions tell it, or nothing does
    which    the samples that these rows are of, by state; None: all of them
    picked   the samples of the proof
    acting   how precise the gradient at h_L is in the format that the model is in, and its credits with it
    worker   what takes finite differences, in float64; None if nothing does
    values   the whole features of the worker's samples
    """

    proofs: list[Proof]
    rows: list[Tensor | None]
    which: list[Tensor | None]
    picked: Picked
    precision: Precision
    acting: Precision
    worker: Worker | None
    values: list[Tensor | None]
    remark: str  # about the float64 copy, or the model's own precision
    dtype: str  # what the deepest gradient was computed in


def reference_of(
    model: nn.Module, seen: Look, asked: Asked, known: Sequence[Proof] | None, training: bool
) -> TrueGradient:
    """Prove autograd's gradient on a few samples, and take the place of it where it is not the gradient."""
    states = len(seen.gradients)
    double, why = None, ""
    values: list[Tensor | None] = [None] * states
    picked = spread(asked.batches, PROOF_SAMPLES)
    try:
        own = Worker(model, picked.inputs, picked.labels, asked.blocks, asked.loss, training)
        # With proofs at hand the losses of the look save a pass.
        losses = own.still.losses if known is None else seen.losses[picked.rows.to(seen.losses.device)].cpu()
        double, why = double_worker(own, asked.blocks, losses)
        if known is not None:
            proofs = list(known)
        else:
            ways = [row.reduction for row in (seen.start, *seen.layers)]
            proofs = prove(own, double, torch.Generator().manual_seed(0))
            proofs = in_batches(proofs, own, seen.gradients, picked.rows, ways)
    except Exception as error:  # whatever a stranger's model raises when it is run again
        reason = f"finite differences could not be taken ({type(error).__name__})"
        proofs = [Proof("not verified", reason)] * states
    if double is None:
        proofs = [p._replace(why=p.why or why) if p.standing in ("wrong", "not verified") else p for p in proofs]
    precise, doubles = against_double(
        seen, None if double is None else double.model, asked.batches, asked.blocks, samples=DOUBLE_SAMPLES,
        reduction=asked.reduction, loss=asked.loss if double is None else double.loss, why=why, training=training,
    )  # fmt: skip
    rows = [_rows(p, own_g, double_g) for p, own_g, double_g in zip(proofs, seen.gradients, doubles, strict=True)]
    which = [
        torch.arange(len(g)) if p.standing == "float64" and g is not None else None
        for p, g in zip(proofs, rows, strict=True)
    ]
    last, dtype = precise[-1], str(dtype_of(model)).removeprefix("torch.")
    single = in_single(
        model, asked.batches, asked.blocks, samples=DOUBLE_SAMPLES, reduction=asked.reduction, loss=asked.loss,
        imprecise=last.status == "ok" and last.chord > IMPRECISE,
    )  # fmt: skip
    if single is not None and last.status == "ok" and single.gradients[-1] is not None and doubles[-1] is not None:
        half = dtype != "float32"
        why = (
            f"{dtype if half else 'autocast'} itself changes the direction of the deepest gradient by "
            f"{last.chord:.3g}, so a cosine taken in it can be off by that much"
        )
        last = precision(single.gradients[-1][: len(doubles[-1])], doubles[-1])
        dtype = f"a float32 copy of the {dtype} weights" if half else "float32 without autocast"
    acting = precise[-1]
    if seen.gradients[-1] is not None and doubles[-1] is not None:
        acting = reference_of_rows(seen.gradients[-1][: len(doubles[-1])], doubles[-1])
    if proofs[-1].standing in ("wrong", "not verified") and last.status == "ok":
        says = (
            "is not the derivative of the loss" if proofs[-1].standing == "wrong" else f"not verified: {proofs[-1].why}"
        )
        last = acting = Precision(math.nan, math.nan, 0, last.total, f"the deepest gradient {says}")
    if double is not None and any(p.standing == "wrong" for p in proofs):
        values = list(double.states().values)
        cls = has_cls_token(model)
        for layer, (proof, value, hidden) in enumerate(zip(proofs, values, seen.hidden, strict=True)):
            if (
                proof.standing == "wrong"
                and value is not None
                and hidden is not None
                and hidden.shape[1] <= finite_differences.FEW
            ):
                how = reduction_of(value.dim(), asked.reduction, cls)
                measured = finite_differences.whole_gradient(double, layer, value, hidden.shape[1], how)
                rows[layer], which[layer] = measured, picked.rows
                if layer == states - 1 and double.epsilon < DOUBLE_ENOUGH:
                    # The reference is this gradient, not one of a backward pass: how far is it off by its own step?
                    again = precision(
                        finite_differences.whole_gradient(double, layer, value, hidden.shape[1], how, -1), measured
                    )
                    last = again if again.status == "ok" and again.chord <= STEPS_AGREE else last
                    acting = last
    return TrueGradient(proofs, rows, which, picked, last, acting, double, values, "" if double is None else why, dtype)


def uncut(model: nn.Module, asked: Asked) -> tuple[Look, TrueGradient] | None:
    """The look and the reference of the model without its cuts, where that proves the gradient at every state."""
    whole = WithoutDetach(model)
    try:
        one = spread(asked.batches, 1)
        Worker(whole, one.inputs, one.labels, asked.blocks, asked.loss).run()
        if not whole.cuts:
            return None
        seen = look(whole, asked.batches, asked.blocks, reduction=asked.reduction, loss=asked.loss)
        reference = reference_of(whole, seen, asked, None, False)
    except Exception:  # whatever a stranger's model raises when a cut is not there
        return None
    proved = all(proof.standing in ("proved", "float64") for proof in reference.proofs)
    return (seen, reference) if proved else None


def _rows(proof: Proof, own: Tensor | None, double: Tensor | None) -> Tensor | None:
    if proof.standing == "float64":
        return double
    return own if proof.standing in ("proved", "not verified") else None
