"""Sizes: of hidden states, branches and credits, and of gradients at a stated reference batch."""

import torch
from torch import Tensor

REFERENCE_BATCH = 128


def median(values: Tensor) -> float:
    """The median over samples, (N,): the mean of the middle two where N is even. NaN or ∞ if it falls on one.

    >>> median(torch.tensor([1.0, 3.0])), median(torch.tensor([1.0, 2.0, float("inf")]))
    (2.0, 2.0)
    """
    # A quantile between a number and ∞ is no number, so of such values it is the lower one in the middle.
    return float(values.quantile(0.5)) if values.isfinite().all() else float(values.median())


def median_norm(rows: Tensor) -> float:
    """The median over samples of the L2 norm of each row, in float64.

    >>> median_norm(torch.tensor([[3.0, 4.0], [0.0, 1.0], [6.0, 8.0]]))
    5.0
    """
    return median(torch.linalg.vector_norm(rows.flatten(1), dim=1, dtype=torch.float64))


def gradient_norm(per_sample: Tensor, reference_batch: int = REFERENCE_BATCH) -> float:
    """‖g‖ of the gradient of a batch-*mean* loss, as it would be in a batch of `reference_batch`.

    `per_sample` holds ∂ℓ_i/∂h_i, one row per sample, of each sample's own loss. In a mean over N samples each row is
    divided by N, so a norm without its N means nothing: ours is always median_i ‖∂ℓ_i/∂h_i‖ / reference_batch,
    whatever batch it was measured on.

    >>> gradient_norm(torch.tensor([[0.0, 128.0]]))
    1.0
    """
    return median_norm(per_sample) / reference_batch
