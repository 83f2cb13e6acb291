"""Sizes: of hidden states, branches, credits and gradients; how much a block makes of what it takes, and how little."""

import math
from collections.abc import Sequence

import torch
from torch import Tensor

from walkback.nets.reduction import reduce_hidden, reduction_of

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


def row_norms(rows: Tensor) -> Tensor:
    """The rows' norms, (N,), in float64: the square of 1e-30 is zero in float32. NaN for a row without a direction.

    >>> row_norms(torch.tensor([[3e-30, 4e-30], [0.0, 0.0]]))
    tensor([5.0000e-30,        nan], dtype=torch.float64)
    """
    norms: Tensor = torch.linalg.vector_norm(rows, dim=1, dtype=torch.float64)
    return norms.where(norms.isfinite() & (norms > 0), math.nan)


def gradient_norm(per_sample: Tensor, reference_batch: int = REFERENCE_BATCH) -> float:
    """‖g‖ of the gradient of a batch-*mean* loss, as it would be in a batch of `reference_batch`.

    `per_sample` holds ∂ℓ_i/∂h_i, one row per sample, of each sample's own loss. In a mean over N samples each row is
    divided by N, so a norm without its N means nothing: ours is always median_i ‖∂ℓ_i/∂h_i‖ / reference_batch,
    whatever batch it was measured on.

    >>> gradient_norm(torch.tensor([[0.0, 128.0]]))
    1.0
    """
    return median_norm(per_sample) / reference_batch


def token_norms(value: Tensor, how: str) -> Tensor:
    """The norm of each token of each sample, (N, T), in float64; one column where a sample is one vector.

    >>> token_norms(torch.tensor([[[3.0, 4.0], [-3.0, -4.0]]]), "mean")  # tokens that cancel in the mean
    tensor([[5., 5.]], dtype=torch.float64)
    """
    if how == "mean" and value.dim() > 2:
        tokens = value if value.dim() == 3 else value.flatten(2).transpose(1, 2)
        each: Tensor = torch.linalg.vector_norm(tokens, dim=2, dtype=torch.float64)
        return each
    rows = reduce_hidden(value, how).flatten(1)
    norms: Tensor = torch.linalg.vector_norm(rows, dim=1, keepdim=True, dtype=torch.float64)
    return norms


def sample_sizes(value: Tensor, how: str) -> Tensor:
    """Each sample's size, (N,): its norm, or over several tokens the root of their mean square, which cannot cancel.

    >>> sample_sizes(torch.tensor([[[3.0, 4.0], [-3.0, -4.0]]]), "mean")
    tensor([5.], dtype=torch.float64)
    """
    return token_norms(value, how).square().mean(1).sqrt()


def block_growth(took: Tensor, gave: Tensor, asked: str, cls: bool) -> Tensor | None:
    """How many times larger each sample is after the block than what the block took, (N,); None: not comparable.

    Of tokens it is the largest ‖out_t‖ / max(‖in_t‖, 0.1 · median_t ‖in_t‖): one token that explodes among many is
    seen, and so are tokens that cancel in a mean. A token that was next to nothing and becomes as large as its
    neighbours is not held to have exploded. Where a block changes the number of tokens, the largest token is held
    against the largest.

    >>> quiet, loud = torch.ones(1, 100, 4), torch.ones(1, 100, 4)
    >>> loud[0, 7] *= 60
    >>> block_growth(quiet, loud, "mean", False)
    tensor([60.], dtype=torch.float64)
    """
    if not (took.is_floating_point() and gave.is_floating_point() and took.dim() and gave.dim()):
        return None
    if len(took) != len(gave):
        return None
    before, after = (token_norms(t, reduction_of(t.dim(), asked, cls)) for t in (took, gave))
    if before.shape != after.shape:
        return after.amax(1) / before.amax(1)
    ratios = after / torch.maximum(before, 0.1 * before.quantile(0.5, 1, keepdim=True))
    # Zero after zero (padding) is no number, and says nothing unless all tokens are so.
    silent = ratios.isnan() & (after == 0)
    return torch.where(silent.all(1), torch.nan, torch.where(silent, 0.0, ratios).amax(1))


def identity(hidden: Sequence[Tensor], branches: Sequence[Tensor]) -> tuple[list[float], float, float]:
    """How near a stack of blocks is to doing nothing: ‖f_l‖/‖h_l‖ by block, ‖h_L − h_0‖/‖h_0‖ and cos(h_L, h_0).

    Medians over the samples, one row each, in float64, because a cosine near 1 needs many digits.

    >>> h = torch.tensor([[3.0, 4.0]])
    >>> identity([h, 2 * h], [h])
    ([1.0], 1.0, 1.0)
    """
    states = [h.double().flatten(1) for h in hidden]
    adds = [f.double().flatten(1) for f in branches]
    first, last = states[0], states[-1]

    def ratio(a: Tensor, b: Tensor) -> float:
        return float((a.norm(dim=1) / b.norm(dim=1)).median())

    cosine = (first * last).sum(1) / (first.norm(dim=1) * last.norm(dim=1))
    branch = [ratio(f, h) for f, h in zip(adds, states[:-1], strict=True)]
    return branch, ratio(last - first, first), float(cosine.median())
