"""The true gradient at a stranger's blocks: autograd's where it is proved, else that of a copy, or of differences.

The notes that stand beside the findings are here too: what was seen of a model, what is dead, what was proved.
"""

import math
from collections.abc import Callable, Sequence
from typing import Any, Literal, NamedTuple

import torch
from torch import Tensor, nn

from walkback.nets.reduction import has_cls_token, reduction_of
from walkback.probes import Look, Proof, finite_differences, look, precision
from walkback.probes.forward_switches import WithoutDetach
from walkback.probes.look import CreditFunction
from walkback.probes.null import Redraw
from walkback.probes.outputs import PerSampleLoss
from walkback.probes.perturb import Picked, Worker, double_worker, spread
from walkback.probes.precision import against_double, in_single, reference_of_rows
from walkback.probes.proof import IN_BATCHES, in_batches, prove
from walkback.probes.reading import no_precision
from walkback.probes.unwrap import dtype_of
from walkback.records import Precision

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

    def look(self, model: nn.Module, batches: Batches | None = None, **more: Any) -> Look:
        """Look at a model on these batches, or some of them; `more` as `probes.look` takes it."""
        given = self.batches if batches is None else batches
        return look(model, given, self.blocks, reduction=self.reduction, loss=self.loss, **more)


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
        last = acting = no_precision(f"the deepest gradient {says}")
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
        seen = asked.look(whole)
        reference = reference_of(whole, seen, asked, None, False)
    except Exception:  # whatever a stranger's model raises when a cut is not there
        return None
    proved = all(proof.standing in ("proved", "float64") for proof in reference.proofs)
    return (seen, reference) if proved else None


def _rows(proof: Proof, own: Tensor | None, double: Tensor | None) -> Tensor | None:
    if proof.standing == "float64":
        return double
    return own if proof.standing in ("proved", "not verified") else None


# --- in words --------------------------------------------------------------------------------------------------------


def seen_notes(seen: Look) -> list[str]:
    """Which blocks were seen, how, and what happens between them."""
    rows = [seen.start, *seen.layers]
    odd = _by_reason([(row.name, row.status + (f" ({row.note})" if row.note else "")) for row in rows
                      if row.status != "ok"])  # fmt: skip
    remarks = [f"{row.name}: {row.note}" for row in rows if row.status == "ok" and row.note]
    between = [
        f"between {before} and {after} by a factor of {factor:.3g}"
        for before, after, factor in seen.between
        if math.isfinite(factor)
    ]
    ways = sorted({row.reduction for row in seen.layers if row.reduction})
    return [
        *([f"layers not seen: {'; '.join(odd)}"] if odd else []),
        f"{len(seen.seen)} of {len(seen.layers)} blocks seen; features taken by: {', '.join(ways) or 'nothing'}",
        *remarks,
        *([f"the size changes {_listed(between)}; this is counted for no block"] if between else []),
        *seen.notes,
    ]


def _by_reason(layers: Sequence[tuple[str, str]]) -> list[str]:
    """Layers and why they were not seen; a reason that several have is given once."""
    reasons: dict[str, list[str]] = {}
    for name, why in layers:
        reasons.setdefault(why, []).append(name)
    return [f"{', '.join(names)}: {why}" for why, names in reasons.items()]


def dead_notes(seen: Look, proofs: Sequence[Proof]) -> list[str]:
    """Blocks that give or receive nothing, by name."""
    notes = []
    for block, row in enumerate(seen.layers):
        before, after, gradient = seen.hidden[block], seen.hidden[block + 1], seen.gradients[block + 1]
        if gradient is not None:
            dead = float((gradient == 0).all(1).double().mean())
            if dead:
                what = "what the backward pass delivers" if proofs[block + 1].standing == "wrong" else "its gradient"
                notes.append(f"{row.name}: {what} is exactly zero for {dead:.0%} of the samples")
        if after is None or len(after) < 2:
            continue
        if not after.any():
            notes.append(f"{row.name} is dead: its output is zero for every sample")
        elif bool((after == after[0]).all()):
            notes.append(f"{row.name} is dead: it gives every sample the same output")
        elif before is not None and before.shape == after.shape and torch.equal(before, after):
            notes.append(f"{row.name} is dead: it returns its input unchanged")
    return notes


def proof_notes(
    seen: Look, proofs: Sequence[Proof], *, remark: str, differences: bool, uncut: bool, backward: bool, precise: bool
) -> list[str]:
    """What finite differences say about autograd's gradient, state by state.

    precise   whether they also say how precise the deepest gradient is
    """
    names = [f"the {seen.start.name}", *(f"the output of {row.name}" for row in seen.layers)]

    def which(chosen: Callable[[Proof], bool]) -> str:
        return _listed([name for name, proof in zip(names, proofs, strict=True) if chosen(proof)])

    notes = [remark] if remark else []
    wrong = [p for p in proofs if p.standing == "wrong"]
    tested = sum(p.tested for p in proofs)
    if tested and all(p.standing in ("proved", "not measured") for p in proofs):
        notes.append(
            f"autograd's gradient agrees with finite differences of the loss ({tested} directional derivatives)"
        )
    if wrong:
        factors = {f"{p.factor:.3g}" for p in wrong}
        by = f": it is {factors.pop()} times that" if len(factors) == 1 and not math.isnan(wrong[0].factor) else ""
        if uncut:
            took = "there the gradient is taken from a pass that ignores detach() and no_grad, and proved"
        else:
            took = "there the gradient is measured by finite differences" if differences else "there it is not known"
        ask = "" if backward else '; credits="backward" judges the model\'s own backward pass'
        notes.append(
            f"the backward pass does not deliver the derivative of the loss at {which(lambda p: p.standing == 'wrong')}"
            f"{by}; {took}{ask}"
        )
        if any(p.why == IN_BATCHES for p in wrong):
            notes.append(f"at {which(lambda p: p.standing == 'wrong' and p.why == IN_BATCHES)} {IN_BATCHES}: it "
                         "depends on the other samples of a batch, on their number or on their place")  # fmt: skip
    if precise:
        notes.append("how precise the deepest gradient is: by two step sizes of finite differences in float64")
    if any(p.standing == "float64" for p in proofs):
        notes.append(
            f"in the model's own precision the gradient is not the derivative of the loss at "
            f"{which(lambda p: p.standing == 'float64')}; there it is taken from a float64 copy"
        )
    for reason in dict.fromkeys(p.why for p in proofs if p.standing == "not verified"):
        places = which(lambda p, why=reason: p.standing == "not verified" and p.why == why)  # type: ignore[misc]
        notes.append(f"the gradient could not be verified at {places}: {reason}")
    return notes


def _listed(words: Sequence[str]) -> str:
    return words[0] if len(words) == 1 else f"{', '.join(words[:-1])} and {words[-1]}"
