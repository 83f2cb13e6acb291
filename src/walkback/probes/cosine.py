"""Directions: how near a credit is to the true gradient, sample by sample; and how near batches are to each other."""

import math
from collections.abc import Sequence

import torch
from torch import Tensor

from walkback.probes.norms import REFERENCE_BATCH, row_norms
from walkback.probes.reading import missing, no_cosine
from walkback.records import Cosine, Reading

NO_CREDIT, OTHER_WIDTH = "no credit", "other width"


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
        return no_cosine(status, total)
    cosines = (a * g).sum(1)[living] / (size_a * size_g)[living]
    value = float(cosines.mean())
    return Cosine(value, alive, total, "ok" if math.isfinite(value) else "not finite")  # 0 / 0 at float64's end


def compared(credit: Tensor | None, gradient: Tensor) -> Cosine:
    """`credit_cosine` where there may be no credit, or one that belongs to a state of another width."""
    if credit is None:
        return no_cosine(NO_CREDIT, len(gradient))
    if credit.shape != gradient.shape:
        return no_cosine(OTHER_WIDTH, len(gradient))
    return credit_cosine(credit, gradient)


def gamma(cosines: Sequence[Cosine]) -> tuple[float, int]:
    """Γ, the mean of the blocks' cosines, and the number of blocks it is over: those with status "ok".

    >>> gamma([Cosine(0.5, 9, 9, "ok"), no_cosine("zero credit", 9), Cosine(0.1, 9, 9, "ok")])
    (0.3, 2)
    """
    values = [c.value for c in cosines if c.status == "ok"]
    return (sum(values) / len(values) if values else float("nan")), len(values)


def frobenius(credit: Tensor | None, gradient: Tensor | None) -> Reading:
    """⟨A, G⟩ / (‖A‖ ‖G‖) of all samples' credits and gradients as two matrices: it weighs each sample by its size.

    >>> east = torch.tensor([[1.0, 0.0], [1.0, 0.0]])
    >>> round(frobenius(east * torch.tensor([[1.0], [-10.0]]), east).value, 3)  # a mean of cosines would be 0
    -0.633
    >>> frobenius(0 * east, east).status
    'zero credit'
    """
    if credit is None or gradient is None or credit.shape != gradient.shape:
        return missing(NO_CREDIT if credit is None else "not available")
    known = credit.isfinite().all(1) & gradient.isfinite().all(1)
    a, g = credit[known].double(), gradient[known].double()
    if not known.any():
        return missing("not finite")
    sizes = [float(t.abs().max()) if t.numel() else 0.0 for t in (a, g)]
    for size, what in zip(sizes, ("credit", "gradient"), strict=True):
        if not size:
            return missing(f"zero {what}")
    a, g = a / sizes[0], g / sizes[1]  # whose squares neither vanish nor overflow
    return Reading(float((a * g).sum() / (torch.linalg.vector_norm(a) * torch.linalg.vector_norm(g))), "ok")


def gamma_at_output(at_input: Sequence[Cosine], residual: bool | None) -> bool:
    """Whether Γ is the mean of the cosines at the blocks' outputs: in plain nets, and where widths differ.

    at_input   the cosines of the blocks' credits with the gradient at their inputs
    residual   whether there is a stream of one width; None: not known, then the credits' widths tell
    """
    return residual is False or any(cosine.status == OTHER_WIDTH for cosine in at_input)


ORDERS, BAND, FEWEST = 20, 3.0, 8


def of_own_samples(credit: Tensor, gradient: Tensor) -> bool | None:
    """Whether credits (N, d) are closer to their own sample's gradient than to those of others, beyond chance.

    The mean cosine is held against that of the same credits in random orders. None: too few samples have both.

    >>> g = torch.randn(64, 16, generator=torch.Generator().manual_seed(0))
    >>> of_own_samples(g, g), of_own_samples(g.roll(1, 0), g + 1), of_own_samples(g[:4], g[:4])
    (True, False, None)
    """
    a, g = credit.double().cpu(), gradient.double().cpu()
    sizes = row_norms(a), row_norms(g)
    living = sizes[0].isfinite() & sizes[1].isfinite()
    count = int(living.sum())
    if count < FEWEST:
        return None
    a, g = (t[living] / size[living, None] for t, size in zip((a, g), sizes, strict=True))
    draw = torch.Generator().manual_seed(0)
    others = torch.stack([(a[torch.randperm(count, generator=draw)] * g).sum(1).mean() for _ in range(ORDERS)])
    return bool((a * g).sum(1).mean() > others.mean() + BAND * others.std() + 1e-9)


def drift(per_sample: Tensor, batch: int = REFERENCE_BATCH) -> Cosine:
    """Do different batches agree on the direction of the gradient? It is described, not judged; published with ≥ 8.

    The mean over pairs b ≠ c of cos(m_b, m_c), where m_b is the mean of the b-th `batch` rows of (N, d).

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
        return no_cosine(f"fewer than 2 whole batches of {batch}", count)
    means = per_sample[: count * batch].double().reshape(count, batch, -1).mean(1)
    sizes = torch.linalg.vector_norm(means, dim=1, keepdim=True)
    if not sizes.isfinite().all():
        return no_cosine("not finite", count)
    if not (sizes > 0).all():
        return no_cosine("zero gradient", count)
    together = float((means / sizes).sum(0).square().sum())
    return Cosine((together - count) / (count * (count - 1)), count, count, "ok")


def middle_drift(gradients: Sequence[Tensor | None]) -> Cosine | None:
    """The drift of the gradient in the middle of the net, g_⌊L/2⌋; None where it is not known."""
    middle = gradients[(len(gradients) - 1) // 2]
    return None if middle is None else drift(middle)
