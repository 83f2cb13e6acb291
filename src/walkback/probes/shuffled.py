"""Are credits those of their own samples? A credit of another sample, or one for all, follows the mean alone."""

import torch
from torch import Tensor

DRAWS, BAND, FEWEST = 20, 3.0, 8


def of_own_samples(credit: Tensor, gradient: Tensor) -> bool | None:
    """Whether credits (N, d) are closer to their own sample's gradient than to those of others, beyond chance.

    The mean cosine is held against that of the same credits in random orders. None: too few samples have both.

    >>> g = torch.randn(64, 16, generator=torch.Generator().manual_seed(0))
    >>> of_own_samples(g, g), of_own_samples(g.roll(1, 0), g + 1), of_own_samples(g[:4], g[:4])
    (True, False, None)
    """
    a, g = credit.double().cpu(), gradient.double().cpu()
    sizes = torch.linalg.vector_norm(a, dim=1), torch.linalg.vector_norm(g, dim=1)
    living = sizes[0].isfinite() & sizes[1].isfinite() & (sizes[0] > 0) & (sizes[1] > 0)
    count = int(living.sum())
    if count < FEWEST:
        return None
    a, g = (t[living] / size[living, None] for t, size in zip((a, g), sizes, strict=True))
    draw = torch.Generator().manual_seed(0)
    others = torch.stack([(a[torch.randperm(count, generator=draw)] * g).sum(1).mean() for _ in range(DRAWS)])
    return bool((a * g).sum(1).mean() > others.mean() + BAND * others.std() + 1e-9)
