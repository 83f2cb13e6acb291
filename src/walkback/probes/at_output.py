"""The null of given credits: what their cosine would be if the feedback that made them were another.

Feedback is one matrix for all samples, so a null that draws a direction for each sample is far too narrow. Fresh
feedback is the given credits after one random rotation R of the units, the same for all samples: that is exact for a
Gaussian matrix, whose distribution no rotation changes. With unit vectors â, ĝ and M = mean_i ĝ_i â_iᵀ the mean cosine
after R is ⟨R, M⟩. Over all rotations of d units E R_ab R_cd = δ_ac δ_bd / d, so its mean is 0 and its variance exactly

    ‖M‖² / d = Σ_ij ⟨â_i, â_j⟩ ⟨ĝ_i, ĝ_j⟩ / (N² d)

and nothing has to be drawn. Three things widen or bound it:
- Credits behind a mask (a ReLU) are zero at units that are off: d is then the number of units that are on, and
  ⟨â_i, â_j⟩ is divided by the share of units that two samples have on in common.
- In a feature map feedback may be a kernel, the same at all positions: the channels alone are rotated too, and the
  larger variance of the two counts.
- Of few units a cosine is bounded long before three standard deviations. The standard deviation is that of the normal
  distribution whose 3 σ is the same quantile of a unit vector's coordinate in as many dimensions as R leaves free.
"""

import math
from collections.abc import Sequence

import torch
from torch import Tensor

from walkback.probes.norms import row_norms
from walkback.probes.null import TURNED
from walkback.records import Null

MOST = 512  # samples; a wide feature map has fewer
MOST_NUMBERS = 1 << 21
MOST_ROWS = 4096  # of all blocks that share a matrix
FEW_UNITS = 64
ABOVE_THREE_SIGMA = 0.00135
NOTHING = Null(math.nan, math.nan, 0, TURNED)


def turned_std(pairs: Sequence[tuple[Tensor, Tensor]], channels: tuple[int, ...] | None = None) -> tuple[float, int]:
    """The standard deviation of the mean cosine over turns of the credits, and the number of samples it is over.

    Of several blocks of one width, whose credits are turned by one matrix, it is that of ⟨R, Σ M_l⟩ over their number,
    and the samples are those of the block that has fewest. All rows of all blocks are laid below each other: their
    mean is that of the blocks, weighted to count alike.

    pairs      credits and gradients, by block
    channels   the shape of a flattened feature map: (C, H, W), or (T, d) of tokens

    >>> one = torch.ones(5, 200)
    >>> round(turned_std([(one, one)])[0] * 200**0.5, 1)  # all samples alike: the coordinate of a random unit vector
    1.0
    >>> turned_std([(0 * one, one)])
    (nan, 0)
    """
    width = pairs[0][0].shape[1]
    most = max(64, min(MOST, MOST_NUMBERS // width))
    if len(pairs) > 1:  # what is computed may be quadratic in the rows
        most = max(16, min(most, MOST_ROWS // len(pairs), int(MOST_NUMBERS / width / math.sqrt(len(pairs)))))
    units = [_unit_rows(credit[:most], gradient[:most]) for credit, gradient in pairs]
    counts = [len(a) for a, _ in units]
    count = sum(counts)
    if not all(counts):
        return math.nan, 0
    a = torch.cat([a for a, _ in units])
    g = torch.cat([g * (count / (len(counts) * n)) for (_, g), n in zip(units, counts, strict=True)])
    variance, free = _over_rotations(a, g)
    if channels is not None and len(channels) > 1:
        at = channels[0] if len(channels) == 3 else channels[-1]
        a, g = ((t.view(count, at, -1) if len(channels) == 3 else t.view(count, -1, at).mT) for t in (a, g))
        shared = torch.einsum("nip,njp->ij", g, a) / count
        variance, free = max((variance, free), (float(shared.square().sum()) / at, at * _rank(shared)))
    return math.sqrt(variance) * bounded(free), min(counts)


def _unit_rows(credit: Tensor, gradient: Tensor) -> tuple[Tensor, Tensor]:
    """Both as rows of length one, of the samples that have a direction in both."""
    sizes = [row_norms(t) for t in (credit, gradient)]
    living = sizes[0].isfinite() & sizes[1].isfinite()
    a, g = ((t / size[:, None])[living].float() for t, size in zip((credit, gradient), sizes, strict=True))
    return a, g


def _over_rotations(a: Tensor, g: Tensor) -> tuple[float, float]:
    """The variance for unit rows, and the number of dimensions that R leaves free."""
    count, width = a.shape
    on = (a != 0).float()
    masked = float(on.mean()) < 0.99 and not bool((on == on[0]).all())
    units = float(on.sum(1).mean())
    if masked or count < width:  # whichever is smaller to write down
        alike = a @ a.T
        if masked:
            both = on.sum(1).sqrt()
            alike = alike / ((on @ on.T) / (both[:, None] * both)).clamp_min(1 / width)
        energy = float((alike * (g @ g.T)).sum()) / count**2
    else:
        energy = float((g.T @ a).square().sum()) / count**2
    rank = _rank(g.T @ a) if width <= FEW_UNITS else 1.0
    return max(energy, 0.0) / units, units * rank


def _rank(m: Tensor) -> float:
    """How many singular values of M matter: (Σ s²)² / Σ s⁴."""
    square = m.T @ m
    return float(square.trace()) ** 2 / max(float(square.square().sum()), 1e-300)


def bounded(dimensions: float) -> float:
    """What is left of 3 σ where a cosine is bounded: the same quantile of a unit vector's coordinate, over 3 / √D.

    A coordinate t has density ∝ (1 − t²)^((D − 3) / 2).

    >>> [round(bounded(d), 2) for d in (2, 8, 64, 1e6)]
    [0.47, 0.81, 0.98, 1.0]
    """
    if dimensions > 1e4:
        return 1.0
    t = torch.linspace(-1, 1, 20001, dtype=torch.float64)[1:-1]
    log = 0.5 * (dimensions - 3) * torch.log1p(-t.square())
    weight = (log - log.max()).exp()
    above = weight.flip(0).cumsum(0).flip(0) / weight.sum()
    quantile = float(t[int((above > ABOVE_THREE_SIGMA).sum()) - 1])
    return min(1.0, quantile * math.sqrt(dimensions) / 3)


def null_of(credit: Tensor | None, gradient: Tensor | None, shape: tuple[int, ...] | None) -> Null:
    """The null of one block's cosine at one state."""
    if credit is None or gradient is None or credit.shape != gradient.shape:
        return NOTHING
    std, count = turned_std([(credit, gradient)], shape)
    return Null(0.0, std, max(count, 2), TURNED) if count else NOTHING


def mean_of(nulls: Sequence[Null]) -> Null:
    """The null of the mean over blocks, whose feedback is independent: variances add."""
    known = [n for n in nulls if n.known]
    if not known:
        return NOTHING
    mean = sum(n.mean for n in known) / len(known)
    std = math.sqrt(sum(n.std**2 for n in known)) / len(known)
    return Null(mean, std, min(n.n for n in known), known[0].kind)


def turned_at_output(
    credits: Sequence[Tensor | None],
    gradients: Sequence[Tensor | None],
    shapes: Sequence[tuple[int, ...] | None],
) -> tuple[list[Null], Null]:
    """The null of every block's cosine at its output, and of Γ, their mean: one null for every rule.

    Blocks of equal width are turned by one and the same matrix in each draw, as credits are that share their feedback:
    the variance of the mean over n blocks is then that of ⟨R, Σ_l M_l⟩ / n, ‖Σ_l M_l‖² / (n² d). Between widths the
    matrices are independent, so their variances add.

    shapes   of the flattened features h_1 … h_L; None where they are not feature maps
    """
    nulls = [null_of(*each) for each in zip(credits, gradients, shapes, strict=True)]
    places = list(zip(nulls, credits, gradients, shapes, strict=True))
    # A null that is known has a credit and a gradient.
    known = [(null, a, g, shape) for null, a, g, shape in places if null.known and a is not None and g is not None]
    if not known:
        return nulls, NOTHING
    variance = 0.0
    for width in dict.fromkeys(a.shape[1] for _, a, _, _ in known):
        blocks = [each for each in known if each[1].shape[1] == width]
        alike = {shape for *_, shape in blocks}
        each = [null.std for null, *_ in blocks]
        std = each[0]
        if len(blocks) > 1:
            std, _ = turned_std([(a, g) for _, a, g, _ in blocks], alike.pop() if len(alike) == 1 else None)
        # Where the first rows of some block have no direction: as wide as if all blocks' cosines moved as one.
        variance += (len(blocks) / len(known) * (std if math.isfinite(std) else sum(each) / len(each))) ** 2
    return nulls, Null(0.0, math.sqrt(variance), min(null.n for null, *_ in known), TURNED)


def turns(credit: Tensor, draws: int, generator: torch.Generator) -> list[Tensor]:
    """Credits (N, d) after `draws` random rotations, each one rotation for all samples.

    Only the credits' span of r ≤ min(N, d) dimensions is turned: its image under a rotation is a random orthonormal
    frame, which is the Q of a Gaussian d × r matrix with R's diagonal made positive. That costs d r² and not d³.
    """
    a = credit.double()
    basis = torch.linalg.svd(a, full_matrices=False).Vh
    inside = a @ basis.T
    found = []
    for _ in range(draws):
        drawn = torch.randn(a.shape[1], len(basis), generator=generator, dtype=torch.float64).to(a.device)
        q, r = torch.linalg.qr(drawn)
        found.append(inside @ (q * r.diagonal().sign()).T)
    return found
