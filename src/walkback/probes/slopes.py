"""The true gradient without autograd: ⟨a, g⟩ is the loss's derivative along a, and random directions give ‖g‖.

For a unit credit â the slope x = ⟨â, g⟩ is one central difference. The credits turned by random rotations, v_k = R_k â,
are random directions: their slopes are draws of the null, and what of them is not along â tells the rest of ‖g‖:

    r_k = (⟨v_k, g⟩ − ⟨v_k, â⟩ x) / √(1 − ⟨v_k, â⟩²)        ‖g‖² ≈ x² + (d − 1) · mean_k r_k²

so a cosine x / ‖g‖ is at most 1, and exactly 1 for a credit that is the gradient. Where h has few dimensions, one
difference along each of them gives g itself.
"""

import math
from typing import NamedTuple

import torch
from torch import Tensor

from walkback.nets.reduction import lift
from walkback.probes.cosine import Cosine
from walkback.probes.null import TURNED, Null, summary
from walkback.probes.proof import differences, step_of, steps
from walkback.probes.rotated import turns
from walkback.probes.worker import Worker

DRAWS = 32
FEW = 64  # dimensions


class Along(NamedTuple):
    """At one state: each sample's ‖g‖, the mean cosine of a credit, and the null of that."""

    norms: Tensor
    cosine: Cosine
    null: Null


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
) -> Along:
    """The gradient's size and its cosine with a credit (N, d), at one state."""
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
        return Along(norms, Cosine(math.nan, 0, len(a), status), Null(math.nan, math.nan, 0, TURNED, math.nan, status))
    cosines = [(s / norms)[alive] for s in (x, *drawn)]
    means = [float(c.mean()) for c in cosines]
    null = summary(means[1:], [float(c.square().mean()) for c in cosines[1:]], TURNED)
    return Along(norms, Cosine(means[0], int(alive.sum()), len(a), "ok"), null)


def any_size(worker: Worker, layer: int, value: Tensor, width: int, how: str, generator: torch.Generator) -> Tensor:
    """Each sample's ‖g‖ from random directions: ‖g‖² = d · E⟨v, g⟩²."""
    squares = torch.zeros(len(value), dtype=torch.float64)
    for _ in range(DRAWS):
        v = torch.randn(len(value), width, generator=generator, dtype=torch.float64)
        squares += slope(worker, layer, value, v / torch.linalg.vector_norm(v, dim=1, keepdim=True), how) ** 2 / DRAWS
    return (width * squares).sqrt()
