"""Precision: is the reference gradient small, or is it noise? And would a clamped meter have noticed?"""

import copy
import math
from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from walkback.nets import Net
from walkback.probes.modules import PerSampleLoss, look
from walkback.probes.norms import REFERENCE_BATCH
from walkback.probes.observe import CHUNK, one_pass
from walkback.probes.replay import to_double
from walkback.probes.undisturbed import undisturbed


class Precision(NamedTuple):
    """How far the gradient's direction is off at one layer; both values are NaN unless `status` is "ok"."""

    chord: float
    clamped: float
    alive: int
    total: int
    status: str


def precision(single: Tensor, double: Tensor) -> Precision:
    """Per-sample gradients (N, d) of each sample's own loss, as the net computes them (`single`) and in float64.

    chord    median over living samples of ‖ĝ32 − ĝ64‖, where ĝ = g/‖g‖. For any credit a
             |cos(a, g32) − cos(a, g64)| = |⟨â, ĝ32 − ĝ64⟩| ≤ ‖ĝ32 − ĝ64‖, so no cosine measured against g32 is off by
             more. A sample lives if its float64 gradient is finite and not zero. If its float32 gradient is zero or
             not finite it has no direction: it counts as noise, with chord 1, that of the zero vector to a unit one
    clamped  median over the same samples of |F.cosine_similarity(g, g) − 1| for the float32 gradient of a batch mean
             (N = 128): how wrong the usual meter, clamped at 1e-8, is about a vector and itself. A zero
             vector, whose cosine with itself it calls 0, counts as 1

    >>> tiny = torch.tensor([[3e-11 * 128, 0.0]])
    >>> found = precision(tiny, tiny.double())
    >>> found.chord, round(found.clamped, 5), found.status
    (0.0, 0.99999, 'ok')
    """
    total = len(double)
    if not double.isfinite().all(1).any():
        return Precision(math.nan, math.nan, 0, total, "not finite")
    size = torch.linalg.vector_norm(double.double(), dim=1)
    living = size.isfinite() & (size > 0)
    alive = int(living.sum())
    if not alive:
        return Precision(math.nan, math.nan, 0, total, "zero gradient")
    g, truth = single[living], double[living].double() / size[living, None]
    mine = g.double()
    norm = torch.linalg.vector_norm(mine, dim=1, keepdim=True)
    lost = ~(norm.isfinite() & (norm > 0)).squeeze(1)
    if not g.isfinite().all(1).any():
        return Precision(math.nan, math.nan, 0, total, "not finite")
    chord = torch.linalg.vector_norm(mine / norm - truth, dim=1)
    chord[lost] = 1.0
    at_batch = (g / REFERENCE_BATCH).float()
    clamped = (F.cosine_similarity(at_batch, at_batch, dim=1).double() - 1).abs()
    clamped[~clamped.isfinite()] = 1.0
    return Precision(float(chord.quantile(0.5)), float(clamped.quantile(0.5)), alive, total, "ok")


def net_precision(net: Net, inputs: Tensor, labels: Tensor) -> list[Precision]:
    """`precision` at h_0 … h_L of one of our nets."""
    twin = copy.deepcopy(net).double()
    pairs = zip(_gradients(net, inputs, labels), _gradients(twin, inputs.double(), labels), strict=True)
    return [precision(single, double) for single, double in pairs]


def _gradients(net: Net, inputs: Tensor, labels: Tensor) -> list[Tensor]:
    """g_0 … g_L of each sample's own loss, at the site."""
    parts = []
    with undisturbed(net), torch.enable_grad():
        for some, answers in zip(torch.split(inputs, CHUNK), torch.split(labels, CHUNK), strict=True):
            parts.append(one_pass(net, some, answers).gradients)
    return [torch.cat(layer) for layer in zip(*parts, strict=True)]


def module_precision(
    model: nn.Module,
    batches: Iterable[tuple[Any, Tensor]],
    blocks: str | Sequence[str],
    *,
    reduction: str = "auto",
    loss: PerSampleLoss | None = None,
) -> list[Precision]:
    """`precision` at h_0 … h_L of any module, against a float64 copy of it.

    A model that cannot be copied, or does not run in float64, gives "not available: …" in every row.
    """
    kept = list(batches)
    first = look(model, kept, blocks, reduction=reduction, loss=loss)
    rows = [first.start, *first.layers]
    try:
        with undisturbed(model):  # copying and casting may draw random numbers in odd modules
            twin = copy.deepcopy(model).double()
        doubles = ((to_double(inputs), labels) for inputs, labels in kept)
        second = look(twin, doubles, blocks, reduction=reduction, loss=loss)
    except Exception as error:
        says = f"not available: {type(error).__name__}: {str(error).splitlines()[0] if str(error) else ''}"
        return [Precision(math.nan, math.nan, 0, first.samples, says) for _ in rows]
    found = []
    for row, single, double in zip(rows, first.gradients, second.gradients, strict=True):
        if single is None or double is None:
            status = row.status if single is None else "not available: no gradient in float64"
            found.append(Precision(math.nan, math.nan, 0, first.samples, status))
        else:
            found.append(precision(single, double))
    return found
