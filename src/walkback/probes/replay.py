"""The loss after a hidden state was moved: the basis of perturbation and nudging.

Everything is in float64, on a copy: with ‖h‖ = 1e8 a move of 1e-3 is below float32's last digit.
"""

import copy
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from walkback.errors import BadValue
from walkback.nets import Net
from walkback.nets.reduction import has_cls_token, lift, reduction_of
from walkback.probes.blocks import find_blocks
from walkback.probes.hooks import moving
from walkback.probes.modules import (
    PerSampleLoss,
    call,
    look,
    on_tensors,
    per_sample_losses,
)
from walkback.probes.undisturbed import undisturbed

LossFrom = Callable[[int, Tensor], Tensor]


class Replay(NamedTuple):
    """h_0 … h_L as rows of samples in float64, and `loss_from(l, h)`: each sample's loss if h_l were h."""

    hidden: Sequence[Tensor]
    loss_from: LossFrom

    def from_layer(self, first: int) -> "Replay":
        """The same with h_first … h_L in the places of h_0 …"""
        return Replay(self.hidden[first:], lambda layer, h: self.loss_from(layer + first, h))


def to_double(inputs: Any) -> Any:
    """A batch's floating-point tensors in float64; integers stay."""
    return on_tensors(inputs, lambda t: t.double() if t.is_floating_point() else t)


def replay_net(net: Net, inputs: Tensor, labels: Tensor) -> Replay:
    """For one of our nets: the remaining blocks and the readout. At a cls token only that token is moved."""
    twin = copy.deepcopy(net).double().eval()  # ours alone, and drawing nothing: there is nothing to put back
    with torch.no_grad():
        stream, _ = twin.unroll(twin.embed(to_double(inputs)))

    def loss_from(layer: int, h: Tensor) -> Tensor:
        with torch.no_grad():
            state = stream[layer] + twin.lift(h.double() - twin.rows(stream[layer]), stream[layer])
            for place in range(layer, twin.depth):
                state = twin.join(place, state, twin.blocks[place](state))
            return F.cross_entropy(twin.readout(state), labels, reduction="none")

    return Replay([twin.rows(h) for h in stream], loss_from)


def replay_module(
    model: nn.Module,
    inputs: Any,
    labels: Tensor,
    blocks: str | Sequence[str],
    *,
    reduction: str = "auto",
    loss: PerSampleLoss | None = None,
) -> Replay:
    """For any module: runs it again with the first block's input (l = 0) or block l−1's output put in by a hook.

    Every layer must be measurable (`look` says "ok"); under "mean" every token moves alike. If blocks are branches and
    a skip passes them outside, moving h_0 moves the branch's input alone.
    """
    twin = copy.deepcopy(model).double()
    doubles = to_double(inputs)
    seen = look(twin, [(doubles, labels)], blocks, reduction=reduction, loss=loss)
    modules, cls = list(find_blocks(twin, blocks).values()), has_cls_token(twin)
    hidden = [h for h in seen.hidden if h is not None]
    if len(hidden) != len(seen.hidden):
        raise BadValue(f"these layers cannot be replayed: {'; '.join(seen.not_seen)}", "name other blocks")

    def loss_from(layer: int, h: Tensor) -> Tensor:
        delta = h.double() - hidden[layer]

        def moved(t: Tensor) -> Tensor:
            return t + lift(delta, t, reduction_of(t.dim(), reduction, cls))

        with undisturbed(twin), torch.no_grad(), moving(modules, {layer: moved}):
            output = call(twin, on_tensors(doubles, Tensor.clone))
            return per_sample_losses(output, labels, loss)

    return Replay(hidden, loss_from)
