"""Finite differences: what a loss does along a direction, without autograd. One engine, central and in float64.

For a direction v and a step ε, at a state or in the parameters,

    D = (ℓ(h + εv) − ℓ(h − εv)) / 2ε        what the loss does along v
    S = (ℓ(h + εv) + ℓ(h − εv) − 2ℓ(h)) / 2ε    how far the two one-sided slopes are from it

Directions tell the true gradient g where no backward pass does. For a unit credit â the slope x = ⟨â, g⟩ is one D. The
credits turned by random rotations, v_k = R_k â, are random directions: their slopes are draws of the null, and what of
them is not along â tells the rest of ‖g‖:

    r_k = (⟨v_k, g⟩ − ⟨v_k, â⟩ x) / √(1 − ⟨v_k, â⟩²)        ‖g‖² ≈ x² + (d − 1) · mean_k r_k²

so a cosine x / ‖g‖ is at most 1, and exactly 1 for a credit that is the gradient. Where h has few dimensions, one
difference along each of them gives g itself.
"""

from collections.abc import Callable, Iterable

import torch
from torch import Tensor

from walkback.nets.reduction import lift
from walkback.probes.at_output import turns
from walkback.probes.hooks import Move
from walkback.probes.null import TURNED, summary
from walkback.probes.perturb import Pass, Worker
from walkback.probes.reading import no_cosine
from walkback.records import Cosine, Null

STEPS, COARSE_STEPS = (1e-5, 1e-3, 1e-7), (1e-2, 1e-3)  # relative to ‖h‖, tried in turn; for less than float64
FEW = 64  # dimensions
DRAWS = 32


def central(worker: Worker, shift: Callable[[int], Pass], eps: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """D, S and the rounding in them, sample by sample; shift(±1) is the pass in which something is moved by ± ε."""
    plus, minus, still = shift(1), shift(-1), worker.still
    slopes = (plus.losses - minus.losses) / (2 * eps)
    onesided = (plus.losses + minus.losses - 2 * still.losses) / (2 * eps)
    return slopes, onesided, 8 * worker.epsilon * still.size / eps


def differences(
    worker: Worker, moves: dict[int, Tensor], eps: Tensor, *, inside: bool = False
) -> tuple[Tensor, Tensor, Tensor]:
    """`central` for moves of states by ± moves, each of length ε at the sample's layer; `inside`: in place."""

    def move(delta: Tensor) -> Move:
        def add(t: Tensor) -> Tensor:
            if inside:
                t.data.add_(delta.to(t))
                return t
            return t + delta.to(t)

        return add

    def shift(sign: int) -> Pass:
        return worker.run({layer: move(sign * delta) for layer, delta in moves.items()})

    return central(worker, shift, eps)


def step_of(value: Tensor, step: float) -> Tensor:
    """ε for each sample: a share of ‖h‖, or of 1 where h is zero."""
    norms: Tensor = torch.linalg.vector_norm(value.flatten(1), dim=1, dtype=torch.float64)
    return step * torch.where(norms > 0, norms, 1.0)


def steps(worker: Worker) -> tuple[float, ...]:
    """The steps that suit the precision that the worker computes in."""
    return STEPS if worker.epsilon < 1e-12 else COARSE_STEPS


def size_from(x: Tensor, width: int, others: Iterable[tuple[Tensor, Tensor]]) -> Tensor:
    """‖g‖ from the slope x along a unit vector, and of other directions the slope and the product with that vector."""
    beside = torch.zeros_like(x)
    for slope, along in others:
        beside += ((slope - along * x) ** 2 / (1 - along**2).clamp_min(1e-12)) / DRAWS
    return (x**2 + (width - 1) * beside).sqrt()


def slope(worker: Worker, layer: int, value: Tensor, rows: Tensor, how: str, step: int = 0) -> Tensor:
    """⟨g_i, rows_i⟩ for each sample by central differences; zero where it is not above the rounding.

    step   which of the worker's step sizes is taken
    """
    move = lift(rows.to(value.device, torch.float64), value.double(), how)
    over = [1] * (value.dim() - 1)
    length: Tensor = torch.linalg.vector_norm(move.flatten(1), dim=1)
    eps = step_of(value, steps(worker)[step])
    unit = move / torch.where(length > 0, length, 1.0).view(-1, *over)
    slopes, _, rounding = differences(worker, {layer: unit * eps.view(-1, *over)}, eps.cpu())
    return torch.where(slopes.abs() > rounding, slopes, 0.0) * length.cpu()


def whole_gradient(worker: Worker, layer: int, value: Tensor, width: int, how: str, step: int = 0) -> Tensor:
    """Each sample's gradient, (N, d), by one central difference along every dimension."""
    units = torch.eye(width, dtype=torch.float64)
    return torch.stack([slope(worker, layer, value, unit.expand(len(value), -1), how, step) for unit in units], 1)


def along_credit(
    worker: Worker, layer: int, value: Tensor, credit: Tensor, how: str, generator: torch.Generator
) -> tuple[Tensor, Cosine, Null]:
    """Each sample's ‖g‖ at one state, its mean cosine with a credit (N, d), and the null of that."""
    a = credit.double().cpu()
    size = torch.linalg.vector_norm(a, dim=1)
    lives = size.isfinite() & (size > 0)
    unit = torch.where(lives[:, None], a / torch.where(lives, size, 1.0)[:, None], 0.0)
    x = slope(worker, layer, value, unit, how)
    width = a.shape[1]
    turned = turns(unit, DRAWS, generator)
    drawn = [slope(worker, layer, value, v, how) for v in turned]
    norms = size_from(x, width, [(s, (v * unit).sum(1)) for s, v in zip(drawn, turned, strict=True)])
    if not lives.all():  # a sample without a credit has no direction of its own to turn
        norms = torch.where(lives, norms, any_size(worker, layer, value, width, how, generator))
    alive = lives & norms.isfinite() & (norms > 0)
    if not alive.any():
        status = "zero credit" if not lives.any() else "zero gradient" if norms.isfinite().any() else "not finite"
        return norms, no_cosine(status, len(a)), summary([], TURNED)
    cosines = [(s / norms)[alive] for s in (x, *drawn)]
    means = [float(c.mean()) for c in cosines]
    return norms, Cosine(means[0], int(alive.sum()), len(a), "ok"), summary(means[1:], TURNED)


def any_size(worker: Worker, layer: int, value: Tensor, width: int, how: str, generator: torch.Generator) -> Tensor:
    """Each sample's ‖g‖ from random directions: ‖g‖² = d · E⟨v, g⟩²."""
    squares = torch.zeros(len(value), dtype=torch.float64)
    for _ in range(DRAWS):
        v = torch.randn(len(value), width, generator=generator, dtype=torch.float64)
        squares += slope(worker, layer, value, v / torch.linalg.vector_norm(v, dim=1, keepdim=True), how) ** 2 / DRAWS
    return (width * squares).sqrt()
