"""Perturbation: does a credit predict how a small random move of the hidden state changes the loss?"""

import math
from collections.abc import Sequence
from typing import NamedTuple

import torch
from torch import Tensor

from walkback.probes.replay import LossFrom


class Correlation(NamedTuple):
    """Pearson's r over `pairs` pairs; `value` is NaN unless `status` is "ok"."""

    value: float
    pairs: int
    status: str


def pearson(x: Tensor, y: Tensor) -> Correlation:
    """r = Σ (x − x̄)(y − ȳ) / √(Σ (x − x̄)² · Σ (y − ȳ)²), in float64.

    >>> pearson(torch.tensor([1.0, 2.0, 3.0]), torch.tensor([0.0, 2.0, 4.0]))
    Correlation(value=1.0, pairs=3, status='ok')
    >>> pearson(torch.zeros(3), torch.tensor([0.0, 2.0, 4.0])).status
    'the first does not vary'
    """
    x, y = x.double().flatten(), y.double().flatten()
    if not (x.isfinite().all() and y.isfinite().all()):
        return Correlation(math.nan, len(x), "not finite")
    # Scaled by their largest, because the squares of 1e-200 are zero.
    x, y = (t - t.mean() for t in (x, y))
    for name, t in (("first", x), ("second", y)):
        if not t.abs().max() > 0:
            return Correlation(math.nan, len(x), f"the {name} does not vary")
    x, y = x / x.abs().max(), y / y.abs().max()
    r = float((x * y).sum() / (x.square().sum() * y.square().sum()).sqrt())
    return Correlation(max(-1.0, min(1.0, r)), len(x), "ok")


def perturbation(
    credits: Sequence[Tensor | None],
    hidden: Sequence[Tensor],
    loss_from: LossFrom,
    generator: torch.Generator,
    *,
    directions: int = 32,
    eps: float = 1e-3,
) -> list[Correlation]:
    """ρ_l = Pearson( ⟨a_l, εv⟩, ℓ_i(h_l + εv) − ℓ_i(h_l) ), over all samples × `directions`, in float64.

    v is a Gaussian direction of unit length, fresh for every sample. `credits` are those compared at a block's *input*
    (for bp that is g_l). `hidden` and `loss_from` come from `replay_net` or `replay_module`.

    `eps` is absolute, as published: it asks about the slope at the point. A relative one (ε‖h_l‖) would make a move of
    the same share of the stream in every net: where the stream is huge it leaves the linear neighbourhood that
    an absolute 1e-3 stays in, and it is not comparable with published figures.

    >>> h = torch.randn(4, 3, generator=torch.Generator().manual_seed(0))
    >>> (rho,) = perturbation([2 * h], [h], lambda _, moved: moved.square().sum(1), torch.Generator())
    >>> round(rho.value, 3), rho.pairs
    (1.0, 128)
    """
    found = []
    for layer, credit in enumerate(credits):
        if credit is None:
            found.append(Correlation(math.nan, 0, "not measured"))
            continue
        h, a = hidden[layer].double(), credit.double()
        before = loss_from(layer, h)
        foretold, true = [], []
        for _ in range(directions):
            v = torch.randn(h.shape, generator=generator, dtype=torch.float64).to(h)
            step = v * (eps / torch.linalg.vector_norm(v, dim=1, keepdim=True))
            foretold.append((a * step).sum(1))
            true.append(loss_from(layer, h + step) - before)
        r = pearson(torch.cat(foretold), torch.cat(true))
        names = {"the first does not vary": "zero credit", "the second does not vary": "the loss does not change"}
        found.append(r._replace(status=names.get(r.status, r.status)))
    return found
