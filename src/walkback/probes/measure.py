"""All that is judged of a net and its rule, at one go on one set of images."""

import math
from collections.abc import Callable
from typing import NamedTuple

import torch
from torch import Tensor

from walkback.nets import Net
from walkback.probes.cosine import Cosine, compared
from walkback.probes.feedback import feedback_null
from walkback.probes.growth import StreamGrowth, growth
from walkback.probes.layers import directions
from walkback.probes.norms import gradient_norm, median_norm
from walkback.probes.null import NullReport, random_null
from walkback.probes.observe import Observation, observe
from walkback.rules import Rule


class Quantities(NamedTuple):
    """What one observation says layer by layer. Lists run over h_0 … h_L or over the blocks 0 … L−1.

    cosines      cos(a_l, g_l), at the block's input, as published;  cosines_out: cos(a_l, g_{l+1}), at its output
    embed        the cosine of the embedding's credit with the gradient where it acts: g_0, or in a ViT the mean token's
    gamma        Γ, the mean of the cosines (of those at the outputs, where credits are compared there), and the number
                 of blocks it is over
    """

    hidden_norms: list[float]
    branch_norms: list[float]
    gradient_norms: list[float]
    credit_norms: list[float]
    cosines: list[Cosine]
    cosines_out: list[Cosine]
    embed: Cosine
    gamma: tuple[float, int]


def quantities(seen: Observation) -> Quantities:
    """Norms and cosines of an observation; gradient norms at the reference batch of 128, whatever it was made on."""
    held = directions(
        seen.at_input, seen.credits.blocks, lambda layer, credit: compared(credit, seen.gradients[layer]),
        residual=not seen.at_output,
    )  # fmt: skip
    return Quantities(
        hidden_norms=[median_norm(h) for h in seen.hidden],
        branch_norms=[median_norm(f) for f in seen.branches],
        gradient_norms=[gradient_norm(g) for g in seen.gradients],
        credit_norms=[math.nan if a is None else median_norm(a) for a in seen.credits.blocks],
        cosines=held.at_input,
        cosines_out=held.at_output,
        embed=compared(seen.embed_credit, seen.gradients[0] if seen.embed_gradient is None else seen.embed_gradient),
        gamma=held.gamma,
    )


class Measurement(NamedTuple):
    """The quantities, the largest growth, and the nulls; `observation` for a probe that needs the tensors."""

    quantities: Quantities
    growth: StreamGrowth
    null: NullReport
    observation: Observation


def measure(
    net: Net,
    rule: Rule,
    make_fresh: Callable[[int], Rule] | None,
    inputs: Tensor,
    labels: Tensor,
    generator: torch.Generator,
) -> Measurement:
    """All that is judged, on 1,280 images or so; without `make_fresh` the nulls are random directions."""
    seen = observe(net, rule, inputs, labels, generator)
    found = quantities(seen)
    null = (
        random_null(seen.gradients, generator)
        if make_fresh is None
        else feedback_null(net, rule, make_fresh, inputs, labels, generator)
    )
    return Measurement(found, growth(found.hidden_norms), null, seen)
