"""What is measured of a stranger's model: every number of its moment, and the notes that say how far to trust it.

The reference is proved first. Where autograd's gradient is the derivative of the loss it is the reference; where it is
right in float64 only, that of the float64 copy is; where it is wrong, the gradient is measured by finite differences.
"""

import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any, Literal, NamedTuple

import torch
from torch import Tensor, nn

from walkback.errors import BadValue
from walkback.loops.true_gradient import (
    Asked,
    TrueGradient,
    dead_notes,
    proof_notes,
    reference_of,
    seen_notes,
    uncut,
)
from walkback.nets.reduction import has_cls_token, reduction_of
from walkback.probes import (
    Look,
    Proof,
    credit_cosine,
    finite_differences,
    gradient_norm,
    replay_module,
)
from walkback.probes.at_output import mean_of, null_of, turned_at_output
from walkback.probes.base import readings_of_rows
from walkback.probes.cosine import OTHER_WIDTH, frobenius, gamma, gamma_at_output, middle_drift, of_own_samples
from walkback.probes.detect_task import Metric, Task, score
from walkback.probes.inputs import on_tensors
from walkback.probes.look import delivered
from walkback.probes.norms import REFERENCE_BATCH, median
from walkback.probes.null import redrawn_null
from walkback.probes.observe import stable_losses
from walkback.probes.outputs import Logits
from walkback.probes.perturb import Picked, Worker, spread
from walkback.probes.precision import IMPRECISE
from walkback.probes.preserve import undisturbed
from walkback.probes.reading import no_cosine
from walkback.probes.replay import moved_along
from walkback.probes.user_errors import blamed, in_a_line
from walkback.records import Cosine, Moment, Null

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
        "precision": reference.precision.changed(differences=by_differences),
        "dtype": reference.dtype,
        "reference": reference.acting.changed(differences=by_differences),
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
        given, why = delivered(
            seen, lambda first: asked.look(model, asked.batches[:1] if first else None, training=True)
        )
        notes += [why] if why else []
        nothing: list[Tensor | None] = [None] * len(seen.layers)
        credits = (nothing, nothing) if given is None else (list(given[:-1]), list(given[1:]))
    elif seen.credits is not None:
        credits = list(seen.credits), list(seen.credits)
    at_blocks = _AtBlocks(model, asked, seen, reference)
    if credits is not None:
        outward, directed = at_blocks.directions(credits)
        fields |= directed
        if callable(asked.credits) and all(c.status == "ok" and c.value > THE_GRADIENT for c in fields["cosine_out"]):
            notes.append("the credits given equal the gradient in every block, so the model is judged as trained by "
                         "backprop. If it was not, check credits=: these are not its credits")  # fmt: skip
        along = [c.value for c in fields["cosine_out"] if c.status == "ok"]
        if callable(asked.credits) and sum(along) > SOME * len(along):  # else chance tells
            doubts += _doubts(credits[1], reference)
        if asked.describe:
            fields |= _described(model, credits, outward, asked)
    fields["gradient_norms"] = at_blocks.gradient_norms()
    fields["measured"] = readings_of_rows(
        seen.hidden, reference.rows, [None] * len(seen.layers) if credits is None else credits[1]
    )
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
        of_own_samples(known, g)
        for a, g, which in states
        if (known := _of(a, which)) is not None and g is not None and known.shape[1] == g.shape[1]
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
    seen = asked.look(model, credits=function)
    if not seen.failed:
        return seen, False, []
    fails = f"in evaluation mode the backward pass fails ({seen.failed})"
    try:
        other = asked.look(model, credits=function, training=True)
    except Exception as error:  # a stranger's forward pass may ask for more when it trains
        return seen, False, [f"{fails}, in training mode the forward pass ({in_a_line(error)})"]
    same = bool(((other.losses - seen.losses).abs() <= 1e-4 * (1 + seen.losses.abs())).all())
    if other.failed or not same:
        why = "it does too" if other.failed else "the loss is another"
        return seen, False, [f"{fails}, and in training mode {why}"]
    return other, True, [f"{fails}; in training mode it does not, and that is what was looked at"]


def at_init(model: nn.Module, asked: Asked) -> Moment:
    """What scale asks of the same net at its random init: how large its states are, and how much its blocks grow."""
    return Moment(epoch=0, **_sizes(asked.look(model)))


def _sizes(seen: Look) -> dict[str, Any]:
    """How large the states are, and how much larger each block makes what it takes."""
    grown = [None if r is None else median(r) for r in seen.growth]
    return {
        "hidden_norms": [None if s is None else median(s) for s in seen.sizes],
        "growth": [None if r is None or not math.isfinite(r) else r for r in grown],  # one from nothing is no number
    }


class _AtBlocks:
    """A model's gradient, and credits beside it. Where autograd is wrong finite differences tell, each asked once."""

    def __init__(self, model: nn.Module, asked: Asked, seen: Look, reference: TrueGradient):
        self.model, self.asked, self.seen, self.reference = model, asked, seen, reference
        self.cls = has_cls_token(model)
        self.shapes = [
            row.shape if row.reduction == "flatten" and row.shape and len(row.shape) > 1 else None
            for row in (seen.start, *seen.layers)
        ]
        self.generator = torch.Generator().manual_seed(3)
        # What they measured, by state and credit: each sample's ‖g‖, and the cosine with its null.
        self.known: dict[tuple[int, int], tuple[Tensor, Cosine, Null]] = {}

    def _place(self, layer: int) -> tuple[Worker, int, Tensor, str] | None:
        """Where finite differences are taken; None where autograd is not wrong, or nothing takes them."""
        value, worker = self.reference.values[layer], self.reference.worker
        if self.reference.proofs[layer].standing != "wrong" or value is None or worker is None:
            return None
        return worker, layer, value, reduction_of(value.dim(), self.asked.reduction, self.cls)

    def gradient_norms(self) -> list[float | None]:
        """The median norm of the gradient at every state."""
        found: list[float | None] = []
        for layer, (rows, hidden) in enumerate(zip(self.reference.rows, self.seen.hidden, strict=True)):
            place = self._place(layer)
            if rows is not None:
                found.append(gradient_norm(rows))
            elif hidden is None or place is None:
                found.append(None)
            else:
                norms = next((norms for (at, _), (norms, *_) in self.known.items() if at == layer), None)
                if norms is None:
                    norms = finite_differences.any_size(*place[:3], hidden.shape[1], place[3], self.generator)
                found.append(median(norms) / REFERENCE_BATCH)
        return found

    def directions(
        self, credits: tuple[Sequence[Tensor | None], Sequence[Tensor | None]]
    ) -> tuple[bool, dict[str, Any]]:
        """The cosine of every block's credit at its input and its output, each with its null, and Γ; and first whether
        Γ is the mean of those at the outputs."""
        asked, reference, redrawn = self.asked, self.reference, None
        if asked.redraw is not None:
            first = asked.batches[0]
            batch = Picked(*first, torch.arange(len(first[1])))
            if any(proof.standing == "wrong" for proof in reference.proofs):
                batch = reference.picked  # what finite differences measured
            redrawn = redrawn_null(
                self.model, batch, asked.blocks, asked.redraw, reference.rows, reference.which, asked.reduction,
                asked.loss,
            )  # fmt: skip
        cosines = [[self._cosine(block + place, a) for block, a in enumerate(c)] for place, c in enumerate(credits)]
        out = gamma_at_output(cosines[0], asked.residual)
        if redrawn is not None:
            nulls, chance = [redrawn[0][0], redrawn[1][0]], redrawn[out][1]
        else:
            nulls = [[self._null(block + place, a) for block, a in enumerate(c)] for place, c in enumerate(credits)]
            judged = zip(cosines[out], nulls[out], strict=True)
            chance = mean_of([null for cosine, null in judged if cosine.status == "ok"])
        return out, {
            "cosine": cosines[0],
            "cosine_out": cosines[1],
            "gamma": gamma(cosines[out])[0],
            "null": nulls[0],
            "null_out": nulls[1],
            "null_gamma": chance,
            **self._at_output(credits[1]),
        }

    def _at_output(self, credits: Sequence[Tensor | None]) -> dict[str, Any]:
        """The one null of every rule and the Frobenius cosine, at the blocks' outputs, where the gradient is proved."""
        proofs = [proof.standing not in ("not verified", "not measured") for proof in self.reference.proofs[1:]]
        gradients = [rows if sure else None for rows, sure in zip(self.reference.rows[1:], proofs, strict=True)]
        known = [_of(a, which) for a, which in zip(credits, self.reference.which[1:], strict=True)]
        rotated, chance = turned_at_output(known, gradients, self.shapes[1:])
        for block, credit in enumerate(credits):
            along = self.known.get((block + 1, id(credit)))
            if along is not None:  # measured by finite differences, and its null with it
                rotated[block] = along[2]
                chance = mean_of(rotated)
        return {
            "rotated": rotated,
            "rotated_gamma": chance,
            "frobenius": [frobenius(a, g) for a, g in zip(known, gradients, strict=True)],
        }

    def _cosine(self, layer: int, credit: Tensor | None) -> Cosine:
        """One block's cosine at one state: by rows where the gradient is known so, else by finite differences."""
        reference, samples = self.reference, self.seen.samples
        standing, rows, hidden = reference.proofs[layer].standing, reference.rows[layer], self.seen.hidden[layer]
        if credit is None or hidden is None or standing == "not measured":
            return no_cosine("not available", samples)
        if credit.shape[1] != hidden.shape[1]:
            return no_cosine(OTHER_WIDTH, samples)
        known = _of(credit, reference.which[layer])
        if rows is not None and known is not None and standing != "not verified":
            return credit_cosine(known, rows)
        place, key = self._place(layer), (layer, id(credit))
        if place is None:
            return no_cosine("not proved", samples)
        if key not in self.known:
            few = credit[reference.picked.rows.to(credit.device)]
            self.known[key] = finite_differences.along_credit(*place[:3], few, place[3], self.generator)
        return self.known[key][1]

    def _null(self, layer: int, credit: Tensor | None) -> Null:
        """The null of one block's cosine at one state: that of finite differences, where they measured the cosine."""
        along = self.known.get((layer, id(credit)))
        if along is not None:
            return along[2]
        return null_of(_of(credit, self.reference.which[layer]), self.reference.rows[layer], self.shapes[layer])


def _of(credit: Tensor | None, which: Tensor | None) -> Tensor | None:
    """The credits of these samples."""
    return credit if credit is None or which is None else credit[which.to(credit.device)]


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


def guarded(credits: Callable[..., Any], notes: list[str], name: str = "credits") -> Callable[..., list[Tensor | None]]:
    """Your function of credits, called with your model, and everything that it changes put back after every batch.

    What it returns is copied first, because it may be part of what is put back.
    """

    def safe(reading: nn.Module, inputs: Any, labels: Tensor, *draw: int) -> list[Tensor | None]:
        model = reading.model if isinstance(reading, Logits) else reading
        with undisturbed(model, whole=True) as changes:
            with blamed(name):
                given = credits(model, on_tensors(inputs, Tensor.clone), labels.clone(), *draw)
                given = list(given) if isinstance(given, Iterator) else given
            if isinstance(given, Tensor | str | Mapping) or not isinstance(given, Iterable):
                raise BadValue(f"{name} gives a {type(given).__name__}", "give a list with one credit per block")
            found = [None if a is None else _as_tensor(a, name).detach().clone() for a in given]
        notes.extend(note for note in changes.notes(f"the function {name}") if note not in notes)
        return found

    return safe


def _as_tensor(credit: Any, name: str) -> Tensor:
    """A credit as a tensor of real numbers."""
    try:
        found = credit if isinstance(credit, Tensor) else torch.as_tensor(credit)
    except (TypeError, ValueError, RuntimeError) as error:
        raise BadValue(f"{name} gives a {type(credit).__name__} as a credit", "give tensors of numbers") from error
    if found.is_complex():
        raise BadValue(f"{name} gives complex credits", "give real numbers: a loss is real, and so is its gradient")
    return found if found.is_floating_point() else found.float()


def scored(model: nn.Module, seen: Look, task: Task, metric: Metric | None) -> tuple[float | None, list[str]]:
    """A model's accuracy, or its score by your metric; None with the reason where there is none to compare."""
    if metric is None and not task.dense:
        if math.isfinite(seen.accuracy):
            return seen.accuracy, []
        return None, ["no accuracy is known: with a loss of your own, give metric= or accuracy="]
    value = score(model, task, metric)
    what = "accuracy per labelled place" if metric is None else f"metric {name_of(metric)}"
    if value is not None and 0 <= value <= 1:
        return value, [f"scored by {what}: {value:.4g}"]
    return None, [f"scored by {what}: {'nothing' if value is None else f'{value:.4g}'}. Only scores between 0 and 1, "
                  "larger is better, are compared: accuracy counts as not known, and depth is not judged"]  # fmt: skip


def name_of(function: Any) -> str:
    """The name of a user's function."""
    return str(getattr(function, "__name__", type(function).__name__))
