"""What the bridges (`sb`, `cb`) share: the auxiliary net, its options, and how its gradient becomes a credit."""

import math
from collections.abc import Mapping, Sequence
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from walkback.errors import BadValue
from walkback.nets import Net
from walkback.rules.base import Credits, Rule
from walkback.rules.signal import Signal

FREQUENCIES = 8
CONDITIONS = ("error", "top")


def time_features(t: float) -> list[float]:
    """sin and cos of (π/2)·2^k·t, k = 0..7: where in the net a state is, t from 0 (h_0) to 1 (h_L).

    >>> [round(x, 3) for x in time_features(1.0)[:4]], len(time_features(0.5))
    ([1.0, 0.0, 0.0, -1.0], 16)
    """
    angles = [math.pi / 2 * 2**k * t for k in range(FREQUENCIES)]
    return [wave(angle) for angle in angles for wave in (math.sin, math.cos)]


class Auxiliary(nn.Module):
    """An MLP on [LN(h) without gains, time, s], of two hidden layers with GELU.

    One input layer per distinct width of a state; the rest is shared. Weights are PyTorch's default, drawn
    from `generator`.
    """

    def __init__(self, widths: Sequence[int], condition: int, outputs: int, hidden: int, generator: torch.Generator):
        super().__init__()
        if not isinstance(hidden, int) or hidden < 1:
            raise BadValue(f"an auxiliary net cannot have {hidden!r} hidden units", "give hidden=256")
        seed = int(torch.randint(2**62, (), generator=generator))
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(seed)
            extra = 2 * FREQUENCIES + condition
            self.inlets = nn.ModuleDict({str(d): nn.Linear(d + extra, hidden) for d in dict.fromkeys(widths)})
            self.trunk = nn.Sequential(nn.GELU(), nn.Linear(hidden, hidden), nn.GELU(), nn.Linear(hidden, outputs))

    def forward(self, rows: Sequence[Tensor], times: Sequence[float], condition: Tensor) -> Tensor:
        """One (…, N, d) of rows per state, and the time of each → (states, …, N, outputs)."""
        first = []
        for h, t in zip(rows, times, strict=True):
            shape, width = h.shape[:-1], h.shape[-1]
            where = h.new_tensor(time_features(t)).expand(*shape, -1)
            given = torch.cat([F.layer_norm(h, (width,)), where, condition.expand(*shape, -1)], -1)
            first.append(self.inlets[str(width)](given))
        out: Tensor = self.trunk(torch.stack(first))
        return out


class Bridge(Rule):
    """A rule whose credits come from an auxiliary net of `hidden` units, given s: the output error, or ∂ℓ/∂h_L."""

    default_normalize = "sample"

    def __init__(
        self, net: Net, generator: torch.Generator, *, hidden: int = 256, condition: str = "error", **common: Any
    ):
        super().__init__(net, generator, **common)
        if condition not in CONDITIONS:
            raise BadValue(f"a bridge cannot be conditioned on {condition!r}", "give condition=error or condition=top")
        self.hidden, self.condition = hidden, condition

    def auxiliary(self, net: Net, widths: Sequence[int], outputs: int) -> Auxiliary:
        """A fresh auxiliary net for states of these widths."""
        given = net.classes if self.condition == "error" else net.widths[-1]
        return Auxiliary(widths, given, outputs, self.hidden, self.generator)

    def given(self, signal: Signal) -> Tensor:
        """s: the output error e, or the gradient at h_L."""
        return signal.error if self.condition == "error" else signal.top


def times_of(net: Net) -> list[float]:
    """t of h_0 … h_L: l/L."""
    return [layer / net.depth for layer in range(net.depth + 1)]


def credited_states(net: Net) -> range:
    """The states whose gradients become credits: the blocks' inputs in a residual net of one width, as published.

    Otherwise the blocks' outputs, where the credits act, and h_0 for an embedding that has parameters.
    """
    if net.credited_at_input:
        return range(net.depth)
    return range(0 if any(True for _ in net.embed.parameters()) else 1, net.depth + 1)


def as_credits(net: Net, gradients: Mapping[int, Tensor], loss: Tensor, kind: str | None = None) -> Credits:
    """The gradient at each of the credited states as credits; in a residual net the embedding gets a_0."""
    after = 0 if net.credited_at_input else 1
    blocks = [gradients[block + after] for block in range(net.depth)]
    return Credits(blocks, gradients.get(0) if after else None, loss=loss, kind=kind)
