"""The true gradient without autograd, by central differences in float64: at a state, and in a block's parameters.

At a state, ⟨a, g⟩ is the loss's derivative along a, and random directions give ‖g‖. For a unit credit â the slope
x = ⟨â, g⟩ is one central difference. The credits turned by random rotations, v_k = R_k â, are random directions: their
slopes are draws of the null, and what of them is not along â tells the rest of ‖g‖:

    r_k = (⟨v_k, g⟩ − ⟨v_k, â⟩ x) / √(1 − ⟨v_k, â⟩²)        ‖g‖² ≈ x² + (d − 1) · mean_k r_k²

so a cosine x / ‖g‖ is at most 1, and exactly 1 for a credit that is the gradient. Where h has few dimensions, one
difference along each of them gives g itself.

In the parameters, what a loop left there is compared with the true gradient of a probe batch:

    cos(u_l, ∇_l),   u_l = what a loop left in .grad,   ∇_l = ∂(mean probe loss)/∂θ_l

The two are of different batches, so that backprop itself does not give 1. How far two batches agree is measured beside
it: cos of the gradients of the probe's two halves. ∇ is proved by finite differences of the loss: along Σ_l ± ∇_l/‖∇_l‖
for all blocks at once, then block by block where that disagrees. Where autograd's gradient is not the derivative, as
in feedback alignment, differences along u_l and along random directions take its place, by the formula above.

Only parameters that are trained count: what is frozen has no update.
"""

import math
from collections.abc import Iterable, Sequence
from itertools import combinations
from typing import NamedTuple

import torch
from torch import Tensor, nn

from walkback.nets.reduction import lift
from walkback.probes.at_output import turns
from walkback.probes.inputs import on_tensors
from walkback.probes.null import TURNED, summary
from walkback.probes.outputs import call, per_sample_losses
from walkback.probes.perturb import Worker
from walkback.probes.proof import differences, step_of, steps
from walkback.probes.reading import Reading, missing

FEW = 64  # dimensions


def slope(worker: Worker, layer: int, value: Tensor, rows: Tensor, how: str, step: int = 0) -> Tensor:
    """⟨g_i, rows_i⟩ for each sample by central differences; zero where it is not above the rounding.

    step   which of the worker's step sizes is taken
    """
    move = lift(rows.to(value.device, torch.float64), value.double(), how)
    over = [1] * (value.dim() - 1)
    length: Tensor = torch.linalg.vector_norm(move.flatten(1), dim=1)
    eps = step_of(value, steps(worker)[step])
    unit = move / torch.where(length > 0, length, 1.0).view(-1, *over)
    central, _, rounding = differences(worker, {layer: unit * eps.view(-1, *over)}, eps.cpu())
    return torch.where(central.abs() > rounding, central, 0.0) * length.cpu()


def whole_gradient(worker: Worker, layer: int, value: Tensor, width: int, how: str, step: int = 0) -> Tensor:
    """Each sample's gradient, (N, d), by one central difference along every dimension."""
    units = torch.eye(width, dtype=torch.float64)
    return torch.stack([slope(worker, layer, value, unit.expand(len(value), -1), how, step) for unit in units], 1)


def along_credit(
    worker: Worker, layer: int, value: Tensor, credit: Tensor, how: str, generator: torch.Generator
) -> tuple[Tensor, Reading]:
    """Each sample's ‖g‖ at one state, and its mean cosine with a credit (N, d), with the null of that."""
    a = credit.double().cpu()
    size = torch.linalg.vector_norm(a, dim=1)
    lives = size.isfinite() & (size > 0)
    unit = torch.where(lives[:, None], a / torch.where(lives, size, 1.0)[:, None], 0.0)
    x = slope(worker, layer, value, unit, how)
    width = a.shape[1]
    rest, drawn = torch.zeros(len(a), dtype=torch.float64), []
    for v in turns(unit, DRAWS, generator):
        s, c = slope(worker, layer, value, v, how), (v * unit).sum(1)
        drawn.append(s)
        rest += ((s - c * x) ** 2 / (1 - c**2).clamp_min(1e-12)) / DRAWS
    norms = (x**2 + (width - 1) * rest).sqrt()
    if not lives.all():  # a sample without a credit has no direction of its own to turn
        norms = torch.where(lives, norms, any_size(worker, layer, value, width, how, generator))
    alive = lives & norms.isfinite() & (norms > 0)
    if not alive.any():
        status = "zero credit" if not lives.any() else "zero gradient" if norms.isfinite().any() else "not finite"
        return norms, missing(status, len(a))._replace(null=summary([], TURNED))
    cosines = [(s / norms)[alive] for s in (x, *drawn)]
    means = [float(c.mean()) for c in cosines]
    return norms, Reading(means[0], "ok", summary(means[1:], TURNED), int(alive.sum()), len(a))


def any_size(worker: Worker, layer: int, value: Tensor, width: int, how: str, generator: torch.Generator) -> Tensor:
    """Each sample's ‖g‖ from random directions: ‖g‖² = d · E⟨v, g⟩²."""
    squares = torch.zeros(len(value), dtype=torch.float64)
    for _ in range(DRAWS):
        v = torch.randn(len(value), width, generator=generator, dtype=torch.float64)
        squares += slope(worker, layer, value, v / torch.linalg.vector_norm(v, dim=1, keepdim=True), how) ** 2 / DRAWS
    return (width * squares).sqrt()


SAMPLES = 32
CLOSE = 1e-3
DRAWS = 32
NOT_PROVED = "not proved"
REPLACED = "its forward pass replaces its parameters"


class Aligned(NamedTuple):
    """By block: the cosine of the update with the probe's gradient, and of the gradients of the probe's halves."""

    update: list[Reading]
    halves: list[Reading]
    notes: list[str]


Parts = list[Tensor]  # what belongs to a block's parameters, one tensor each


def left_in(blocks: Iterable[nn.Module]) -> list[Parts | None]:
    """What lies in .grad of each block's parameters; a parameter without any counts 0."""
    return [_parts(ps, [p.grad for p in ps]) for ps in (list(block.parameters()) for block in blocks)]


def _parts(parameters: Sequence[Tensor], gradients: Sequence[Tensor | None]) -> Parts | None:
    if all(g is None for g in gradients):
        return None
    found = [torch.zeros_like(p) if g is None else g.detach() for p, g in zip(parameters, gradients, strict=True)]
    return [g.to_dense() if g.is_sparse else g for g in found]


def against_probe(
    updates: Sequence[Parts | None],
    worker: Worker,
    *,
    prove: bool = True,
    differences: bool = True,
    samples: int = SAMPLES,
) -> Aligned:
    """The alignment of every block's update; `worker` runs a copy of the model that nobody else uses.

    differences   whether finite differences are taken along the updates where autograd's gradient is wrong; they need
                  66 forward passes per block
    """
    few = worker.first(samples)
    first, second, replaced, why = _halves(few)
    wrong = _not_proved(few, [_mean(a, b) for a, b in zip(first, second, strict=True)]) if prove else set()
    found, halves, measured = [], [], False
    for place, (u, a, b) in enumerate(zip(updates, first, second, strict=True)):
        if place in replaced:
            found.append(missing(REPLACED))
            halves.append(missing(REPLACED))
            continue
        if place in wrong or why:
            halves.append(missing(NOT_PROVED))
            if u is None:
                found.append(missing("no update"))
            else:
                found.append(_by_differences(few, place, u) if differences else missing(NOT_PROVED))
                measured = measured or found[-1].status == "ok"
            continue
        if a is None or b is None:
            found.append(missing("no gradient"))
            halves.append(missing("no gradient"))
            continue
        aa, ab, bb = _dot(a, a), _dot(a, b), _dot(b, b)
        halves.append(_cosine(ab, aa, bb, "zero gradient"))
        if u is None:
            found.append(missing("no update"))
        else:
            along, size = _dot(u, a) + _dot(u, b), _dot(u, u)
            found.append(_cosine(along, size, aa + 2 * ab + bb, "zero gradient" if size else "zero update"))
    notes = [f"the backward pass fails on the probe ({why})"] if why else []
    if measured:
        notes.append("update: the backward pass does not deliver the derivative, so the cosine is measured by finite "
                     f"differences; ‖∇‖ from {DRAWS} random directions, off by about 12%")  # fmt: skip
    return Aligned(found, halves, notes)


def _mean(a: Parts | None, b: Parts | None) -> Parts | None:
    return None if a is None or b is None else [(x + y) / 2 for x, y in zip(a, b, strict=True)]


def _dot(a: Parts, b: Parts) -> float:
    """⟨a, b⟩ in float64, without one long vector."""
    pairs = zip(a, b, strict=True)
    return sum(float(torch.dot(x.flatten().double(), y.flatten().to(x.device).double())) for x, y in pairs)


def _cosine(product: float, one: float, other: float, nothing: str) -> Reading:
    """⟨a, b⟩ / (‖a‖ ‖b‖) from the three products."""
    if not all(map(math.isfinite, (product, one, other))):
        return missing("not finite")
    if one <= 0 or other <= 0:
        return missing(nothing)
    return Reading(max(-1.0, min(1.0, product / math.sqrt(one) / math.sqrt(other))))


def _halves(worker: Worker) -> tuple[list[Parts | None], list[Parts | None], set[int], str]:
    """The gradients of the mean loss over each half of the samples, by block.

    And the blocks whose forward pass puts other parameters in the place of these, and the error of the backward pass.
    """
    parameters = [list(block.parameters()) for block in worker.modules]
    trained = {id(p) for ps in parameters for p in ps if p.requires_grad}
    every = list({id(p): p for ps in parameters for p in ps}.values())
    middle, why = max(worker.samples // 2, 1), ""
    with worker.running():
        for parameter in every:
            if parameter.is_floating_point():
                parameter.requires_grad_()
        logits = call(worker.model, on_tensors(worker.inputs, Tensor.clone))
        losses = per_sample_losses(logits, worker.labels.clone(), worker.loss)
        parts = [part.mean() for part in (losses[:middle], losses[middle:]) if len(part)]
        try:
            got = [
                torch.autograd.grad(part, every, allow_unused=True, retain_graph=True)
                if every and part.requires_grad else [None] * len(every)
                for part in parts
            ]  # fmt: skip
        except Exception as error:  # a stranger's hooks run here
            why = f"{type(error).__name__}: {(str(error).splitlines() or [''])[0]}"
            got = [[None] * len(every)]
    now = [{id(p) for p in block.parameters()} for block in worker.modules]
    replaced = {
        place for place, ps in enumerate(parameters) if any(id(p) in trained and id(p) not in now[place] for p in ps)
    }
    found = []
    for gradients in got:
        by = {id(p): g for p, g in zip(every, gradients, strict=True)}
        found.append([_of_trained(ps, by, trained) if ps else None for ps in parameters])
    return found[0], found[-1], replaced, why


def _of_trained(parameters: Sequence[Tensor], by: dict[int, Tensor | None], trained: set[int]) -> Parts | None:
    """A block's gradient, zero where a parameter is frozen; if all of them are, it is whole."""
    frozen = {id(p) for p in parameters} - trained
    keep = set() if len(frozen) == len({id(p) for p in parameters}) else frozen
    return _parts(parameters, [None if id(p) in keep else by[id(p)] for p in parameters])


def _by_differences(worker: Worker, place: int, update: Parts) -> Reading:
    """cos(u, ∇) of one block without autograd."""
    parameters = list(worker.modules[place].parameters())
    size = math.sqrt(_dot(update, update))
    if not 0 < size < math.inf:
        return missing("not finite" if size else "zero update")
    unit = [u.double() / size for u in update]
    trained = [p.requires_grad for p in parameters]
    x = _slope(worker, parameters, unit)
    generator, rest = torch.Generator().manual_seed(13), 0.0
    width = sum(p.numel() for p, t in zip(parameters, trained, strict=True) if t)
    for _ in range(DRAWS if width > 1 else 0):
        drawn = [torch.randn(p.shape, generator=generator, dtype=torch.float64).to(p.device) * t
                 for p, t in zip(parameters, trained, strict=True)]  # fmt: skip
        length = math.sqrt(_dot(drawn, drawn))
        v = [part / length for part in drawn]
        c = _dot(v, unit)
        rest += (_slope(worker, parameters, v) - c * x) ** 2 / max(1 - c * c, 1e-12) / DRAWS
    norm = math.sqrt(x * x + (width - 1) * rest)
    return Reading(x / norm) if 0 < norm < math.inf else missing("zero gradient" if norm == 0 else "not finite")


def _slope(worker: Worker, parameters: Sequence[Tensor], unit: Parts) -> float:
    """The derivative of the mean loss along a unit direction of some parameters."""
    eps = 1e-6 * math.sqrt(sum(float(p.detach().double().square().sum()) for p in parameters) or 1.0)
    moves = list(zip(parameters, unit, strict=True))
    return float((_moved(worker, moves, eps) - _moved(worker, moves, -eps)).mean()) / (2 * eps)


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
    against: list[float] = []  # slopes by step sizes that disagree: one may be too long for a loss with ripples
    agreed = False
    for step in (1e-6, 1e-4, 1e-8):
        eps = step * math.sqrt(size or 1.0)
        plus, minus = _moved(worker, moves, eps), _moved(worker, moves, -eps)
        still = worker.still
        central = float((plus - minus).mean()) / (2 * eps)
        onesided = float((plus + minus - 2 * still.losses).mean()) / (2 * eps)
        rounding = 8 * worker.epsilon * float(still.size.mean()) / eps
        noise = 4 * abs(onesided) + rounding
        if noise > 0.1 * max(abs(central), abs(expected)):
            continue  # agreement within noise that would hide anything is none
        if abs(central - expected) <= noise + CLOSE * max(abs(central), abs(expected)):
            agreed = True
        else:
            against.append(central)
        if agreed and not against:
            return True
    alike = any(abs(a - b) <= 0.1 * max(abs(a), abs(b)) for a, b in combinations(against, 2))
    return agreed and not alike


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
