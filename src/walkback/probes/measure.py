"""What one look at a net and its rule says, layer by layer."""

import math
from typing import NamedTuple

from walkback.probes.cosine import Cosine, compared
from walkback.probes.layers import directions
from walkback.probes.norms import gradient_norm, median_norm
from walkback.probes.observe import Observation


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
