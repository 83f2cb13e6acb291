"""What lies in the parameters of each block against the true gradient of a probe batch, in a float64 copy of the model.

    cos(u_l, ∇_l),   u_l = what a loop left in .grad,   ∇_l = ∂(mean probe loss)/∂θ_l

The two are of different batches, so that backprop itself does not give 1. How far two batches agree is measured beside
it: cos of the gradients of the probe's two halves. ∇ is proved by finite differences of the loss: along Σ_l ± ∇_l/‖∇_l‖
for all blocks at once, then block by block where that disagrees.
"""

import math
from collections.abc import Sequence
from typing import NamedTuple

import torch
from torch import Tensor, nn

from walkback.probes.base import Reading
from walkback.probes.modules import call, on_tensors, per_sample_losses
from walkback.probes.undisturbed import undisturbed
from walkback.probes.update import alignment
from walkback.probes.worker import Worker

SAMPLES = 32
CLOSE = 1e-3
NOT_PROVED = "not proved"


class Aligned(NamedTuple):
    """By block: the cosine of the update with the probe's gradient, and of the gradients of the probe's halves."""

    update: list[Reading]
    halves: list[Reading]


def left_in(blocks: Sequence[nn.Module]) -> list[Tensor | None]:
    """What lies in .grad of each block's parameters, flat; a parameter without any counts 0."""
    found: list[Tensor | None] = []
    for block in blocks:
        parameters = list(block.parameters())
        if all(p.grad is None for p in parameters):
            found.append(None)
        else:
            parts = [torch.zeros_like(p) if p.grad is None else p.grad.detach() for p in parameters]
            found.append(torch.cat([(t.to_dense() if t.is_sparse else t).flatten().double() for t in parts]))
    return found


def against_probe(updates: Sequence[Tensor | None], worker: Worker, *, prove: bool = True) -> Aligned:
    """The alignment of every block's update; `worker` runs a copy of the model that nobody else uses."""
    few = worker.first(SAMPLES)
    first, second = _halves(few)
    whole = [None if a is None or b is None else (a + b) / 2 for a, b in zip(first, second, strict=True)]
    wrong = _not_proved(few, whole) if prove else set()
    found, halves = [], []
    for place, (update, gradient) in enumerate(zip(updates, whole, strict=True)):
        if place in wrong:
            found.append(Reading(math.nan, NOT_PROVED))
        elif update is not None and gradient is not None and len(update) != len(gradient):
            found.append(Reading(math.nan, "other parameters"))
        else:
            found.append(alignment(update, None if gradient is None else gradient.to(update) if update is not None
                                   else gradient))  # fmt: skip
        halves.append(alignment(first[place], second[place]))
    return Aligned(found, halves)


def _halves(worker: Worker) -> tuple[list[Tensor | None], list[Tensor | None]]:
    """The gradients of the mean loss over each half of the samples, flat, by block."""
    parameters = [list(block.parameters()) for block in worker.modules]
    every = list({id(p): p for ps in parameters for p in ps}.values())
    middle = max(worker.samples // 2, 1)
    with undisturbed(worker.model), torch.inference_mode(False), torch.enable_grad():
        for parameter in every:
            parameter.requires_grad_()
        logits = call(worker.model, on_tensors(worker.inputs, Tensor.clone))
        losses = per_sample_losses(logits, worker.labels.clone(), worker.loss)
        parts = [part.mean() for part in (losses[:middle], losses[middle:]) if len(part)]
        got = [
            torch.autograd.grad(part, every, allow_unused=True, retain_graph=True)
            if every and part.requires_grad else [None] * len(every)
            for part in parts
        ]  # fmt: skip
    found = []
    for gradients in got:
        by = {id(p): g for p, g in zip(every, gradients, strict=True)}
        found.append([_flat(ps, [by[id(p)] for p in ps]) for ps in parameters])
    return found[0], found[-1]


def _flat(parameters: Sequence[Tensor], gradients: Sequence[Tensor | None]) -> Tensor | None:
    if all(g is None for g in gradients):
        return None
    parts = [torch.zeros_like(p) if g is None else g for p, g in zip(parameters, gradients, strict=True)]
    return torch.cat([part.detach().flatten() for part in parts])


def _not_proved(worker: Worker, gradients: Sequence[Tensor | None]) -> set[int]:
    """The blocks whose gradient finite differences of the loss do not confirm."""
    alive = {
        place: g for place, g in enumerate(gradients) if g is not None and bool(g.isfinite().all()) and bool(g.any())
    }
    if not alive or _confirmed(worker, alive):
        return set()
    return {place for place, g in alive.items() if not _confirmed(worker, {place: g})}


def _confirmed(worker: Worker, gradients: dict[int, Tensor]) -> bool:
    signs = torch.randint(0, 2, (len(gradients),), generator=torch.Generator().manual_seed(7)) * 2 - 1
    moves: list[tuple[Tensor, Tensor]] = []
    expected, size = 0.0, 0.0
    for sign, (place, gradient) in zip(signs.tolist(), gradients.items(), strict=True):
        length = float(torch.linalg.vector_norm(gradient))
        expected += sign * length
        start = 0
        for parameter in worker.modules[place].parameters():
            piece = gradient[start : start + parameter.numel()].view_as(parameter)
            moves.append((parameter, piece * (sign / length)))
            size += float(parameter.detach().double().square().sum())
            start += parameter.numel()
    for step in (1e-6, 1e-4, 1e-8):
        eps = step * math.sqrt(size or 1.0)
        plus, minus = _moved(worker, moves, eps), _moved(worker, moves, -eps)
        still = worker.still
        central = float((plus - minus).mean()) / (2 * eps)
        onesided = float((plus + minus - 2 * still.losses).mean()) / (2 * eps)
        rounding = 8 * worker.epsilon * float(still.size.mean()) / eps
        noise = 4 * abs(onesided) + rounding
        if abs(central - expected) <= noise + CLOSE * max(abs(central), abs(expected)):
            # Agreement within noise that would hide anything is none.
            if noise <= 0.1 * max(abs(central), abs(expected)):
                return True
        elif noise <= 0.1 * max(abs(central), abs(expected)):
            return False
    return False


def _moved(worker: Worker, moves: Sequence[tuple[Tensor, Tensor]], eps: float) -> Tensor:
    before = {id(p): (p, p.detach().clone()) for p, _ in moves}
    try:
        with torch.no_grad():
            for parameter, direction in moves:
                parameter.add_(direction.to(parameter), alpha=eps)
        return worker.run().losses
    finally:
        with torch.no_grad():
            for parameter, value in before.values():
                parameter.copy_(value)
