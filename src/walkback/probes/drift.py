"""Drift: do different batches agree on the direction of the gradient? It is described, not judged."""

import math
from typing import NamedTuple

import torch
from torch import Tensor

from walkback.probes.norms import REFERENCE_BATCH


class Drift(NamedTuple):
    """A mean pairwise cosine over `batches` batches; `value` is NaN unless `status` is "ok". Published with ≥ 8."""

    value: float
    batches: int
    status: str


def drift(per_sample: Tensor, batch: int = REFERENCE_BATCH) -> Drift:
    """The mean over pairs b ≠ c of cos(m_b, m_c), where m_b is the mean of the b-th `batch` rows of (N, d).

    With unit vectors u_b = m_b / ‖m_b‖ that is (‖Σ u_b‖² − B) / (B (B − 1)). Rows beyond the last whole batch are
    left out; a batch mean that is zero or not finite has no direction, and then neither has the answer.

    >>> east, north = torch.tensor([1.0, 0.0]), torch.tensor([0.0, 1.0])
    >>> drift(torch.stack([east, east, north]), batch=1).value  # pairs: 1, 0, 0
    0.3333333333333333
    >>> drift(torch.ones(200, 2)).status
    'fewer than 2 whole batches of 128'
    """
    count = len(per_sample) // batch
    if count < 2:
        return Drift(math.nan, count, f"fewer than 2 whole batches of {batch}")
    means = per_sample[: count * batch].double().reshape(count, batch, -1).mean(1)
    sizes = torch.linalg.vector_norm(means, dim=1, keepdim=True)
    if not sizes.isfinite().all():
        return Drift(math.nan, count, "not finite")
    if not (sizes > 0).all():
        return Drift(math.nan, count, "zero gradient")
    together = float((means / sizes).sum(0).square().sum())
    return Drift((together - count) / (count * (count - 1)), count, "ok")
