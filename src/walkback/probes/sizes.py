"""How large a feature is, sample by sample, and how much larger a block makes it. Tokens are counted one by one."""

import torch
from torch import Tensor

from walkback.nets.reduction import reduce_hidden, reduction_of


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
