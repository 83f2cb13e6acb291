"""Precision: is the reference gradient small, or is it noise? And how far off is a clamped cosine?"""

import copy
from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from walkback.nets import Net
from walkback.probes.forward_switches import without_autocast
from walkback.probes.look import Look, look
from walkback.probes.norms import REFERENCE_BATCH
from walkback.probes.observe import CHUNK, one_pass, stable_losses
from walkback.probes.outputs import PerSampleLoss
from walkback.probes.preserve import undisturbed
from walkback.probes.reading import no_precision
from walkback.probes.unwrap import cast, copy_of_model, dtype_of
from walkback.probes.user_errors import in_a_line
from walkback.records import Precision

# A direction in float32 is far more precise: beyond this the softmax cancels, or the format is too short.
IMPRECISE = 1e-4


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
    return _over_samples([_each_sample(single, double)])


def _each_sample(single: Tensor, double: Tensor) -> tuple[Tensor, ...]:
    """Of each sample, (N,): whether its gradients in float64 and as computed are finite, whether it lives, its chord
    and clamped; those two count where it lives."""
    size = torch.linalg.vector_norm(double.double(), dim=1)
    rounded = single.double()
    norm = torch.linalg.vector_norm(rounded, dim=1, keepdim=True)
    lost = ~(norm.isfinite() & (norm > 0)).squeeze(1)
    chord = torch.linalg.vector_norm(rounded / norm - double.double() / size[:, None], dim=1)
    chord[lost] = 1.0
    at_batch = (single / REFERENCE_BATCH).float()
    clamped = (F.cosine_similarity(at_batch, at_batch, dim=1).double() - 1).abs()
    clamped[~clamped.isfinite()] = 1.0
    finite, finite_single = double.isfinite().all(1), single.isfinite().all(1)
    return finite, finite_single, size.isfinite() & (size > 0), chord, clamped


def _over_samples(parts: Sequence[Sequence[Tensor]]) -> Precision:
    """The medians over the living samples of all parts."""
    finite, finite_single, living, chord, clamped = (torch.cat(each) for each in zip(*parts, strict=True))
    alive = int(living.sum())
    if not alive or not finite_single[living].any():
        return no_precision("zero gradient" if finite.any() and not alive else "not finite")
    return Precision(float(chord[living].quantile(0.5)), float(clamped[living].quantile(0.5)), alive, "ok")


def net_precision(net: Net, inputs: Tensor, labels: Tensor, gradients: Sequence[Tensor]) -> list[Precision]:
    """`precision` of g_0 … g_L of one of our nets; chunk by chunk, since feature maps in float64 are large.

    gradients   g_0 … g_L of the same images, as the net computes them (`Observation.gradients`)
    """
    twin = copy.deepcopy(net).double()
    chunks = []
    for chunk, (some, answers) in enumerate(zip(torch.split(inputs, CHUNK), torch.split(labels, CHUNK), strict=True)):
        with undisturbed(twin), torch.enable_grad():
            doubles = one_pass(twin, some.double(), answers).gradients
        singles = [torch.split(g, CHUNK)[chunk] for g in gradients]
        chunks.append([_each_sample(single, double) for single, double in zip(singles, doubles, strict=True)])
    return [_over_samples(layer) for layer in zip(*chunks, strict=True)]


def net_reference(net: Net, inputs: Tensor, labels: Tensor) -> Precision:
    """`precision` of the gradient at h_L, by `stable_losses` of the net as it is and of a float64 copy.

    What is left is what the net's own number format does: to its forward pass, and to the way back from the logits.
    """
    twin = copy.deepcopy(net).double()
    return reference_of_rows(_top_gradients(net, inputs, labels), _top_gradients(twin, inputs.double(), labels))


def _top_gradients(net: Net, inputs: Tensor, labels: Tensor) -> Tensor:
    """∂ℓ_i/∂h_L as rows, of each sample's own `stable_losses`."""
    found = []
    for some, answers in zip(torch.split(inputs, CHUNK), torch.split(labels, CHUNK), strict=True):
        with undisturbed(net), torch.enable_grad():
            top = net.unroll(net.embed(some))[0][-1].detach().requires_grad_()
            (gradient,) = torch.autograd.grad(stable_losses(net.readout(top), answers).sum(), top)
        found.append(net.gradient_rows(gradient))
    return torch.cat(found)


def reference_of_rows(single: Tensor, double: Tensor) -> Precision:
    """`precision`; a gradient of nothing but zeros is called that, and is not one that is off by its own length."""
    found = precision(single, double)
    if found.status == "ok" and not bool((single != 0).any()):
        return no_precision("zero gradient")
    return found


def in_single(
    model: nn.Module,
    batches: Sequence[tuple[Any, Tensor]],
    blocks: str | Sequence[str],
    *,
    samples: int,
    reduction: str,
    loss: PerSampleLoss | None,
    imprecise: bool = False,
) -> Look | None:
    """What a float32 copy without autocast shows of a model in half precision; None for other models, and without one.

    imprecise   the gradient of the model itself is not precise, which half precision inside its forward may explain

    The limit of a usable direction was set for float32. Half precision turns every direction by more (bfloat16 has
    three digits), whatever trained the net, so a model is not judged by the format that its weights are stored in.
    """
    half = dtype_of(model) in (torch.bfloat16, torch.float16)
    if not half and not imprecise:
        return None
    few = first_batches(batches, samples, torch.float32)
    try:
        with undisturbed(model, whole=True):
            twin = copy_of_model(model).float()
        with without_autocast() as cast:
            found = look(twin, few, blocks, reduction=reduction, loss=loss)
        return found if half or cast else None
    except Exception:  # whatever a stranger's model raises in another precision
        return None


def first_batches(batches: Sequence[tuple[Any, Tensor]], samples: int, dtype: torch.dtype) -> list[tuple[Any, Tensor]]:
    """The first batches that hold `samples` samples, their tensors cast."""
    few, count = [], 0
    for inputs, labels in batches:
        if count < samples:
            few.append((cast(inputs, dtype), labels))
            count += len(labels)
    return few


def against_double(
    seen: Look,
    twin: nn.Module | None,
    batches: Sequence[tuple[Any, Tensor]],
    blocks: str | Sequence[str],
    *,
    samples: int,
    reduction: str,
    loss: PerSampleLoss | None,
    why: str = "",
    training: bool = False,
) -> tuple[list[Precision], list[Tensor | None]]:
    """`precision` at h_0 … h_L of what was seen against a float64 `twin`, and the twin's gradients g_0 … g_L.

    On the first batches that hold `samples` samples. `why`: why there is no twin. `training`: as `look` takes it.
    """
    rows = [seen.start, *seen.layers]
    second: Look | None = None
    if twin is not None:
        few = first_batches(batches, samples, torch.float64)
        try:
            second = look(twin, few, blocks, reduction=reduction, loss=loss, training=training)
        except Exception as error:
            why = in_a_line(error)
    if second is None:
        none = [no_precision(f"not available: {why}") for _ in rows]
        return none, [None] * len(rows)
    found = []
    for row, single, double in zip(rows, seen.gradients, second.gradients, strict=True):
        if single is None or double is None:
            status = row.status if single is None else "not available: no gradient in float64"
            found.append(no_precision(status))
        else:
            found.append(precision(single[: len(double)], double))
    return found, list(second.gradients)
