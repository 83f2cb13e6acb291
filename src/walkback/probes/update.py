"""update: does a block's update point along the true gradient? It needs no credits."""

import math
from collections.abc import Sequence

import torch
from torch import Tensor
from torch.nn import functional as F

from walkback.nets import Net
from walkback.probes.base import PROBES, Probe, View
from walkback.probes.finite_differences import left_in
from walkback.probes.null import DRAWS, FRESH, summary
from walkback.probes.preserve import undisturbed
from walkback.probes.reading import Null, Reading, missing
from walkback.rules import Batch, Rule

SAMPLES = 256
SIGNS = "random signs"


def alignment(update: Tensor | None, gradient: Tensor | None) -> Reading:
    """cos(u, ∇) of two flat vectors, in float64 and without an epsilon.

    >>> alignment(torch.tensor([3e-30, 0.0]), torch.tensor([1.0, 1.0])).value
    0.7071067811865475
    >>> alignment(torch.zeros(2), torch.ones(2)).status
    'zero update'
    """
    if update is None or gradient is None:
        return missing("no update" if update is None else "no gradient")
    u, g = update.double(), gradient.double()
    size_u, size_g = float(torch.linalg.vector_norm(u)), float(torch.linalg.vector_norm(g))
    if not (math.isfinite(size_u) and math.isfinite(size_g)):
        return missing("not finite")
    if not size_u or not size_g:
        return missing("zero gradient" if size_u else "zero update")
    return Reading(max(-1.0, min(1.0, float((u / size_u) @ (g / size_g)))))


def block_gradients(net: Net) -> list[Tensor | None]:
    """What lies in the .grad of each block's parameters, as one vector per block; a parameter without any counts 0."""
    found = left_in(net.blocks)
    return [None if parts is None else torch.cat([part.flatten() for part in parts]) for parts in found]


def rule_updates(net: Net, rule: Rule, batch: Batch) -> list[Tensor | None]:
    """What `rule` puts into every block's parameters, frozen ones among them; nothing of either is changed."""
    with undisturbed(net, rule), torch.enable_grad():
        for parameter in net.blocks.parameters():
            parameter.requires_grad_()
        rule.backward(net, batch)
        return block_gradients(net)


def true_gradients(net: Net, batch: Batch, signs: Tensor | None = None) -> list[Tensor | None]:
    """∂(mean loss)/∂θ of every block; with `signs`, of the mean of s_i ℓ_i instead."""
    with undisturbed(net), torch.enable_grad():
        for parameter in net.blocks.parameters():
            parameter.requires_grad_()
        losses = F.cross_entropy(net(batch.inputs), batch.labels, reduction="none")
        (losses if signs is None else losses * signs).mean().backward()  # type: ignore[no-untyped-call]
        return block_gradients(net)


class Update(Probe):
    """Update alignment: the cosine between what the rule puts into a block's parameters and the true gradient there.

    On the first 256 probe images, as one batch, without the penalty. bp gives 1. At the end of a run it comes with its
    null, of 20 draws: the same rule with fresh feedback. Where the feedback does not matter to a block, or a fresh draw
    is no null (`Rule.fresh_is_null`), it is the gradient of Σ s_i ℓ_i with a random sign s_i per sample, which points
    nowhere in particular among the directions that these samples can give.
    """

    name = "update"
    symbol = "cos(update, true gradient)"
    form = "share"

    def measure(self, view: View) -> Sequence[Reading]:
        """One cosine per block."""
        batch = view.batch(SAMPLES, "update")
        gradients = true_gradients(view.net, batch)
        updates = rule_updates(view.net, view.rule, batch)
        found = [alignment(u, g) for u, g in zip(updates, gradients, strict=True)]
        if not view.final:
            return found
        nulls = update_null(view, updates, gradients)
        return [reading._replace(null=null) for reading, null in zip(found, nulls, strict=True)]


def update_null(view: View, updates: Sequence[Tensor | None], gradients: Sequence[Tensor | None]) -> list[Null]:
    """The null of every block's alignment."""
    kinds = [SIGNS] * len(updates)
    draws: list[list[float]] = [[] for _ in updates]
    coins = view.draws("update signs")
    for draw in range(DRAWS):
        fresh = signed = updates
        if view.rule.fresh_is_null and (draw == 0 or FRESH in kinds):
            fresh = rule_updates(view.net, view.fresh(draw), view.batch(SAMPLES, "update"))
        if draw == 0:
            kinds = [SIGNS if _same(a, b) else FRESH for a, b in zip(fresh, updates, strict=True)]
        if SIGNS in kinds:
            batch = view.batch(SAMPLES, "update")
            signs = torch.randint(0, 2, (len(batch.labels),), generator=coins).to(batch.inputs) * 2 - 1
            signed = true_gradients(view.net, batch, signs)
        for block, kind in enumerate(kinds):
            chosen = fresh[block] if kind == FRESH else signed[block]
            draws[block].append(alignment(chosen, gradients[block]).value)
    return [summary(values, kind) for values, kind in zip(draws, kinds, strict=True)]


def _same(a: Tensor | None, b: Tensor | None) -> bool:
    return a is b if a is None or b is None else torch.equal(a, b)


PROBES.add(Update.name, Update())
