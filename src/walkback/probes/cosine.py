"""Direction: the cosine of a credit with the true gradient, over the samples for which both exist."""

from collections.abc import Sequence
from typing import NamedTuple

import torch
from torch import Tensor

NO_CREDIT, OTHER_WIDTH = "no credit", "other width"


class Cosine(NamedTuple):
    """A mean cosine, with the number of samples behind it. `value` is NaN unless `status` is "ok"."""

    value: float
    alive: int
    total: int
    status: str


def credit_cosine(credit: Tensor, gradient: Tensor) -> Cosine:
    """The mean over living samples of cos(a_i, g_i) = ⟨a_i, g_i⟩ / (‖a_i‖ ‖g_i‖), in float64 and without an epsilon.

    A sample lives if both its norms are finite and not zero. If none is alive, the status says what is missing: a NaN
    or a dead layer is never a cosine of 0 or 1.

    >>> tiny = torch.tensor([[3e-11, 0.0], [0.0, 0.0]])
    >>> credit_cosine(tiny, tiny)
    Cosine(value=1.0, alive=1, total=2, status='ok')
    >>> credit_cosine(tiny * 0, tiny).status
    'zero credit'
    """
    a, g = credit.double(), gradient.double()
    size_a, size_g = torch.linalg.vector_norm(a, dim=1), torch.linalg.vector_norm(g, dim=1)
    finite = size_a.isfinite() & size_g.isfinite()
    living = finite & (size_a > 0) & (size_g > 0)
    alive, total = int(living.sum()), len(a)
    if not alive:
        if not finite.any():
            status = "not finite"
        else:
            status = "zero credit" if not (size_a[finite] > 0).any() else "zero gradient"
        return Cosine(float("nan"), 0, total, status)
    cosines = (a * g).sum(1)[living] / (size_a * size_g)[living]
    return Cosine(float(cosines.mean()), alive, total, "ok")


def compared(credit: Tensor | None, gradient: Tensor) -> Cosine:
    """The same where there may be no credit, or one that belongs to a state of another width."""
    if credit is None:
        return Cosine(float("nan"), 0, len(gradient), NO_CREDIT)
    if credit.shape != gradient.shape:
        return Cosine(float("nan"), 0, len(gradient), OTHER_WIDTH)
    return credit_cosine(credit, gradient)


def gamma(cosines: Sequence[Cosine]) -> tuple[float, int]:
    """Γ, the mean of the blocks' cosines, and the number of blocks it is over: those with status "ok".

    >>> gamma([Cosine(0.5, 9, 9, "ok"), Cosine(float("nan"), 0, 9, "zero credit"), Cosine(0.1, 9, 9, "ok")])
    (0.3, 2)
    """
    values = [c.value for c in cosines if c.status == "ok"]
    return (sum(values) / len(values) if values else float("nan")), len(values)
