"""From rows of samples to what is said of every block: one code for nets of ours, strangers' modules and watched loops.

Rows come from `observe` (a net and its rule) or from `look` (any module). What differs between the doors is handed in:
where the true gradient is not known as rows, a door compares a credit with it in another way.
"""

from collections.abc import Callable, Sequence
from typing import NamedTuple

import torch
from torch import Tensor

from walkback.probes.cosine import OTHER_WIDTH, Cosine, gamma
from walkback.probes.drift import Drift, drift
from walkback.probes.nudging import Nudge, nudging
from walkback.probes.perturbation import Correlation, perturbation
from walkback.probes.replay import Replay

Credits = Sequence[Tensor | None]  # one per block, rows of samples


class Directions(NamedTuple):
    """The cosine of every block's credit with the gradient, at the block's input (as published) and at its output.

    outward   whether those at the outputs are what Γ is the mean of: in plain nets, and where widths differ
    """

    at_input: list[Cosine]
    at_output: list[Cosine]
    outward: bool

    @property
    def held(self) -> list[Cosine]:
        """Those that Γ is the mean of."""
        return self.at_output if self.outward else self.at_input

    @property
    def gamma(self) -> tuple[float, int]:
        """Γ, and the number of blocks it is over."""
        return gamma(self.held)


def directions(
    at_input: Credits | Tensor,
    at_output: Credits | Tensor,
    compare: Callable[[int, Tensor | None], Cosine],
    *,
    residual: bool | None,
) -> Directions:
    """Hold every block's credit against g_l, at its input, and against g_{l+1}, at its output.

    compare    (layer, credit) → its cosine with the true gradient at h_layer
    residual   whether there is a stream of one width; None: not known, then the credits' widths tell

    >>> east = torch.tensor([[1.0, 0.0]])
    >>> found = directions([east], [-east], lambda layer, a: credit_cosine(a, east), residual=True)
    >>> found.at_input[0].value, found.at_output[0].value, found.gamma
    (1.0, -1.0, (1.0, 1))
    """
    inside = [compare(layer, credit) for layer, credit in enumerate(at_input)]
    outside = [compare(layer, credit) for layer, credit in enumerate(at_output, 1)]
    outward = residual is False or any(cosine.status == OTHER_WIDTH for cosine in inside)
    return Directions(inside, outside, outward)


def middle_drift(gradients: Sequence[Tensor | None]) -> Drift | None:
    """The drift of the gradient in the middle of the net, g_⌊L/2⌋; None where it is not known."""
    middle = gradients[(len(gradients) - 1) // 2]
    return None if middle is None else drift(middle)


def moved_along(
    at_input: Credits,
    at_output: Credits,
    replay: Replay,
    *,
    outward: bool,
    generator: torch.Generator,
) -> tuple[list[Correlation], list[Nudge]]:
    """Perturbation correlation and nudging of every block, at the states that its credit is held against the gradient.

    In a plain net, and where widths differ, the credit of block l speaks of h_{l+1}. Credits are of the samples that
    are replayed.
    """
    credits, states = (at_output, replay.from_layer(1)) if outward else (at_input, replay)
    return perturbation(credits, *states, generator), nudging(credits, *states)
