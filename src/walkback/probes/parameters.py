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
from walkback.probes.worker import Worker

SAMPLES = 32
CLOSE = 1e-3
NOT_PROVED = "not proved"


class Aligned(NamedTuple):
    """By block: the cosine of the update with the probe's gradient, and of the gradients of the probe's halves."""

    update: list[Reading]
    halves: list[Reading]


Parts = list[Tensor]  # what belongs to a block's parameters, one tensor each


def left_in(blocks: Sequence[nn.Module]) -> list[Parts | None]:
    """What lies in .grad of each block's parameters; a parameter without any counts 0."""
    return [_parts(ps, [p.grad for p in ps]) for ps in (list(block.parameters()) for block in blocks)]


def _parts(parameters: Sequence[Tensor], gradients: Sequence[Tensor | None]) -> Parts | None:
    if all(g is None for g in gradients):
        return None
    found = [torch.zeros_like(p) if g is None else g.detach() for p, g in zip(parameters, gradients, strict=True)]
    return [g.to_dense() if g.is_sparse else g for g in found]


def against_probe(updates: Sequence[Parts | None], worker: Worker, *, prove: bool = True) -> Aligned:
    """The alignment of every block's update; `worker` runs a copy of the model that nobody else uses."""
    few = worker.first(SAMPLES)
    first, second = _halves(few)
    wrong = _not_proved(few, [_mean(a, b) for a, b in zip(first, second, strict=True)]) if prove else set()
    found, halves = [], []
    for place, (u, a, b) in enumerate(zip(updates, first, second, strict=True)):
        if a is None or b is None:
            found.append(Reading(math.nan, "no gradient"))
            halves.append(Reading(math.nan, "no gradient"))
            continue
        aa, ab, bb = _dot(a, a), _dot(a, b), _dot(b, b)
        halves.append(_cosine(ab, aa, bb, "zero gradient"))
        if place in wrong:
            found.append(Reading(math.nan, NOT_PROVED))
        elif u is None:
            found.append(Reading(math.nan, "no update"))
        else:
            along, size = _dot(u, a) + _dot(u, b), _dot(u, u)
            found.append(_cosine(along, size, aa + 2 * ab + bb, "zero gradient" if size else "zero update"))
    return Aligned(found, halves)


def _mean(a: Parts | None, b: Parts | None) -> Parts | None:
    return None if a is None or b is None else [(x + y) / 2 for x, y in zip(a, b, strict=True)]


def _dot(a: Parts, b: Parts) -> float:
    """⟨a, b⟩ in float64, without one long vector."""
    pairs = zip(a, b, strict=True)
    return sum(float(torch.dot(x.flatten().double(), y.flatten().to(x.device).double())) for x, y in pairs)


def _cosine(product: float, one: float, other: float, nothing: str) -> Reading:
    """⟨a, b⟩ / (‖a‖ ‖b‖) from the three products."""
    if not all(map(math.isfinite, (product, one, other))):
        return Reading(math.nan, "not finite")
    if one <= 0 or other <= 0:
        return Reading(math.nan, nothing)
    return Reading(max(-1.0, min(1.0, product / math.sqrt(one) / math.sqrt(other))))


def _halves(worker: Worker) -> tuple[list[Parts | None], list[Parts | None]]:
    """The gradients of the mean loss over each half of the samples, by block."""
    parameters = [list(block.parameters()) for block in worker.modules]
    every = list({id(p): p for ps in parameters for p in ps}.values())
    middle = max(worker.samples // 2, 1)
    with worker.running():
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
        found.append([_parts(ps, [by[id(p)] for p in ps]) if ps else None for ps in parameters])
    return found[0], found[-1]


def _not_proved(worker: Worker, gradients: Sequence[Parts | None]) -> set[int]:
    """The blocks whose gradient finite differences of the loss do not confirm."""
    sizes = {place: math.sqrt(_dot(g, g)) for place, g in enumerate(gradients) if g is not None}
    alive = {place: (gradients[place] or [], size) for place, size in sizes.items() if 0 < size < math.inf}
    if not alive or _confirmed(worker, alive):
        return set()
    return {place for place, each in alive.items() if not _confirmed(worker, {place: each})}


def _confirmed(worker: Worker, gradients: dict[int, tuple[Parts, float]]) -> bool:
    signs = torch.randint(0, 2, (len(gradients),), generator=torch.Generator().manual_seed(7)) * 2 - 1
    moves: list[tuple[Tensor, Tensor]] = []
    expected, size = 0.0, 0.0
    for sign, (place, (parts, length)) in zip(signs.tolist(), gradients.items(), strict=True):
        expected += sign * length
        for parameter, part in zip(worker.modules[place].parameters(), parts, strict=True):
            moves.append((parameter, part * (sign / length)))
            size += float(parameter.detach().double().square().sum())
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
