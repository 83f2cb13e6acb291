"""What Γ is judged by, once at the end of a run: the credits at the output of their blocks, where they act."""

import copy
import math
from collections.abc import Callable, Sequence
from typing import NamedTuple

import torch
from torch import Tensor

from walkback.nets import Net
from walkback.probes.base import Reading
from walkback.probes.cosine import NO_CREDIT, Cosine, compared
from walkback.probes.null import Null
from walkback.probes.observe import CHUNK, Observation
from walkback.probes.precision import Precision, precision
from walkback.probes.rotated import turned_at_output
from walkback.probes.stable import stable_losses
from walkback.probes.undisturbed import undisturbed
from walkback.rules import Rule

IMPRECISE = (
    1e-4  # a direction in float32 is far more precise: beyond it the softmax cancels, or the format is too short
)


class AtOutput(NamedTuple):
    """By block, at its output: the null of its cosine, ⟨A, G⟩/(‖A‖‖G‖), and for the whole net the null of Γ.

    reference   how precise the gradient at h_L is
    cosine      in place of what the snapshot measured, where that is not what trains or was not precise; else None
    """

    null: list[Null]
    null_gamma: Null
    frobenius: list[Reading]
    reference: Precision
    cosine: list[Cosine] | None


def frobenius(credit: Tensor | None, gradient: Tensor | None) -> Reading:
    """⟨A, G⟩ / (‖A‖ ‖G‖) of all samples' credits and gradients as two matrices: it weighs each sample by its size.

    >>> east = torch.tensor([[1.0, 0.0], [1.0, 0.0]])
    >>> round(frobenius(east * torch.tensor([[1.0], [-10.0]]), east).value, 3)  # a mean of cosines would be 0
    -0.633
    >>> frobenius(0 * east, east).status
    'zero credit'
    """
    if credit is None or gradient is None or credit.shape != gradient.shape:
        return Reading(math.nan, NO_CREDIT if credit is None else "not available")
    known = credit.isfinite().all(1) & gradient.isfinite().all(1)
    a, g = credit[known].double(), gradient[known].double()
    if not known.any():
        return Reading(math.nan, "not finite")
    sizes = [float(t.abs().max()) if t.numel() else 0.0 for t in (a, g)]
    for size, what in zip(sizes, ("credit", "gradient"), strict=True):
        if not size:
            return Reading(math.nan, f"zero {what}")
    a, g = a / sizes[0], g / sizes[1]  # whose squares neither vanish nor overflow
    return Reading(float((a * g).sum() / (torch.linalg.vector_norm(a) * torch.linalg.vector_norm(g))))


def output_probes(
    net: Net,
    rule: Rule,
    inputs: Tensor,
    labels: Tensor,
    seen: Observation,
    plain: Precision,
    look: Callable[[int | None, bool], Observation],
) -> AtOutput:
    """The output's probes of a trained net.

    seen    the look of the last snapshot
    plain   how precise its gradient at h_L is
    look    (place, stable) → a look at one of the 2 L steps 0, 1, … of the rule's clock that end here (None: at now);
            stable: the true gradients by `stable_losses`
    """
    stable = plain.status != "ok" or plain.chord > IMPRECISE
    if stable:
        seen = look(None, True)
    credits, gradients = list(seen.credits.blocks), list(seen.gradients[1:])
    cosines = [compared(a, g) for a, g in zip(credits, gradients, strict=True)]
    sizes = [frobenius(a, g) for a, g in zip(credits, gradients, strict=True)]
    rests = type(rule).credits is not Rule.credits and any(_rests(cosine) for cosine in cosines)
    if rests:
        cosines, sizes, credits = _in_turn([look(place, stable) for place in range(2 * net.depth)], cosines, credits)
    with undisturbed(net), torch.no_grad():
        some = net.unroll(net.embed(inputs[:1]))[0][1:]
    shapes = [tuple(h.shape[1:]) if net.reduction == "flatten" and h.dim() > 2 else None for h in some]
    null, null_gamma = turned_at_output(credits, gradients, shapes)
    reference = net_reference(net, inputs, labels)
    return AtOutput(null, null_gamma, sizes, reference, cosines if stable or rests else None)


def _rests(cosine: Cosine) -> bool:
    """Whether a block had no credit, or one of nothing but zeros, which is none."""
    return cosine.status in (NO_CREDIT, "zero credit")


def _in_turn(
    looks: Sequence[Observation], cosines: list[Cosine], credits: list[Tensor | None]
) -> tuple[list[Cosine], list[Reading], list[Tensor | None]]:
    """Every block's cosine and Frobenius cosine, means over the looks at which it had credit; and its last credit."""
    sizes: list[Reading] = []
    cosines, credits = list(cosines), list(credits)
    for block in range(len(cosines)):
        pairs = [(seen.credits.blocks[block], seen.gradients[block + 1]) for seen in looks]
        found = [(a, g, cosine) for a, g in pairs if not _rests(cosine := compared(a, g))]
        counted = [cosine for _, _, cosine in found if cosine.status == "ok"]
        weighed = [each.value for each in (frobenius(a, g) for a, g, _ in found) if each.status == "ok"]
        if counted:
            mean = sum(cosine.value for cosine in counted) / len(counted)
            cosines[block] = min(counted, key=lambda cosine: cosine.alive)._replace(value=mean)
        if found:
            credits[block] = found[-1][0]
        sizes.append(
            Reading(sum(weighed) / len(weighed))
            if weighed
            else frobenius(credits[block], looks[0].gradients[block + 1])
        )
    return cosines, sizes, credits


def net_reference(net: Net, inputs: Tensor, labels: Tensor) -> Precision:
    """`precision` of the gradient at h_L, by `stable_losses` of the net as it is and of a float64 copy.

    What is left is what the net's own number format does: to its forward pass, and to the way back from the logits.
    """
    twin = copy.deepcopy(net).double()
    singles = torch.cat([top_gradient(net, *chunk) for chunk in _chunks(inputs, labels)])
    doubles = torch.cat([top_gradient(twin, some.double(), answers) for some, answers in _chunks(inputs, labels)])
    return reference_of_rows(singles, doubles)


def reference_of_rows(single: Tensor, double: Tensor) -> Precision:
    """`precision`; a gradient of nothing but zeros is called that, and is not one that is off by its own length."""
    found = precision(single, double)
    if found.status == "ok" and not bool((single != 0).any()):
        return Precision(math.nan, math.nan, 0, found.total, "zero gradient")
    return found


def _chunks(inputs: Tensor, labels: Tensor) -> list[tuple[Tensor, Tensor]]:
    return list(zip(torch.split(inputs, CHUNK), torch.split(labels, CHUNK), strict=True))


def top_gradient(net: Net, inputs: Tensor, labels: Tensor) -> Tensor:
    """∂ℓ_i/∂h_L as rows, of each sample's own `stable_losses`."""
    with undisturbed(net):
        with torch.no_grad():
            top = net.unroll(net.embed(inputs))[0][-1]
        with torch.enable_grad():
            top = top.detach().requires_grad_()
            (found,) = torch.autograd.grad(stable_losses(net.readout(top), labels).sum(), top)
    return net.gradient_rows(found)
