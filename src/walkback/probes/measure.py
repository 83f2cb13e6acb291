"""All that is judged of a net and its rule, at one go on one set of images."""

from collections.abc import Callable
from typing import NamedTuple

import torch
from torch import Tensor

from walkback.nets import Net
from walkback.probes.cosine import Cosine, credit_cosine, gamma
from walkback.probes.feedback import feedback_null
from walkback.probes.growth import Growth, growth
from walkback.probes.norms import gradient_norm, median_norm
from walkback.probes.null import NullReport, random_null
from walkback.probes.observe import Observation, observe
from walkback.rules import Rule


class Measurement(NamedTuple):
    """Lists run over h_0 … h_L (norms) or the blocks 0 … L−1; Γ as (mean, number of blocks it is over).

    cosines      cos(a_l, g_l), at the block's input, as published;  cosines_out: cos(a_l, g_{l+1}), at its output
    observation  the tensors themselves, for a probe that needs them (drift, perturbation)
    """

    hidden_norms: list[float]
    growth: Growth
    gradient_norms: list[float]
    cosines: list[Cosine]
    cosines_out: list[Cosine]
    gamma: tuple[float, int]
    gamma_out: tuple[float, int]
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
    """Norms, growth, cosines at both places and their nulls; without `make_fresh` the nulls are random directions.

    Gradient norms are at the reference batch of 128, whatever number of images is given (1,280 in an audit).
    """
    seen = observe(net, rule, inputs, labels, generator)
    at_input = seen.credits.blocks if seen.credits.at_input is None else seen.credits.at_input
    cosines = [credit_cosine(a, g) for a, g in zip(at_input, seen.gradients[:-1], strict=True)]
    outward = [credit_cosine(a, g) for a, g in zip(seen.credits.blocks, seen.gradients[1:], strict=True)]
    norms = [median_norm(h) for h in seen.hidden]
    return Measurement(
        hidden_norms=norms,
        growth=growth(norms),
        gradient_norms=[gradient_norm(g) for g in seen.gradients],
        cosines=cosines,
        cosines_out=outward,
        gamma=gamma(cosines),
        gamma_out=gamma(outward),
        null=random_null(seen.gradients, generator)
        if make_fresh is None
        else feedback_null(net, rule, make_fresh, inputs, labels, generator),
        observation=seen,
    )
