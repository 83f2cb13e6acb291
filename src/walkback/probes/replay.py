"""The loss after a hidden state was moved: the basis of perturbation and nudging.

Everything is in float64, on a copy: with ‖h‖ = 1e8 a move of 1e-3 is below float32's last digit.
"""

import copy
import math
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from walkback.errors import BadValue
from walkback.nets import Net
from walkback.nets.reduction import has_cls_token, lift, reduction_of
from walkback.probes.look import look
from walkback.probes.outputs import PerSampleLoss
from walkback.probes.perturb import Worker
from walkback.probes.reading import missing
from walkback.probes.unwrap import cast, copy_of_model
from walkback.records import Reading

LossFrom = Callable[[int, Tensor], Tensor]


class Replay(NamedTuple):
    """h_0 … h_L as rows of samples in float64, and `loss_from(l, h)`: each sample's loss if h_l were h."""

    hidden: Sequence[Tensor]
    loss_from: LossFrom

    def from_layer(self, first: int) -> "Replay":
        """A replay with h_first … h_L in the places of h_0 …"""
        return Replay(self.hidden[first:], lambda layer, h: self.loss_from(layer + first, h))


def replay_net(net: Net, inputs: Tensor, labels: Tensor) -> Replay:
    """For one of our nets: the remaining blocks and the readout. At a cls token only that token is moved."""
    twin = copy.deepcopy(net).double().eval()  # ours alone, and drawing nothing: there is nothing to put back
    with torch.no_grad():
        stream, _ = twin.unroll(twin.embed(cast(inputs, torch.float64)))

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
    twin = copy_of_model(model).double()
    worker = Worker(twin, cast(inputs, torch.float64), labels, blocks, loss)
    seen, cls = look(twin, [(worker.inputs, labels)], blocks, reduction=reduction, loss=loss), has_cls_token(twin)
    hidden = [h for h in seen.hidden if h is not None]
    if len(hidden) != len(seen.hidden):
        raise BadValue(f"these layers cannot be replayed: {'; '.join(seen.not_seen)}", "name other blocks")

    def loss_from(layer: int, h: Tensor) -> Tensor:
        delta = h.double() - hidden[layer]
        return worker.run({layer: lambda t: t + lift(delta, t, reduction_of(t.dim(), reduction, cls))}).losses

    return Replay(hidden, loss_from)


def pearson(x: Tensor, y: Tensor) -> Reading:
    """r = Σ (x − x̄)(y − ȳ) / √(Σ (x − x̄)² · Σ (y − ȳ)²), in float64.

    >>> pearson(torch.tensor([1.0, 2.0, 3.0]), torch.tensor([0.0, 2.0, 4.0]))
    Reading(value=1.0, status='ok', null=None)
    >>> pearson(torch.zeros(3), torch.tensor([0.0, 2.0, 4.0])).status
    'the first does not vary'
    """
    x, y = x.double().flatten(), y.double().flatten()
    if not (x.isfinite().all() and y.isfinite().all()):
        return missing("not finite")
    # Scaled by their largest, because the squares of 1e-200 are zero.
    x, y = (t - t.mean() for t in (x, y))
    for name, t in (("first", x), ("second", y)):
        if not t.abs().max() > 0:
            return missing(f"the {name} does not vary")
    x, y = x / x.abs().max(), y / y.abs().max()
    r = float((x * y).sum() / (x.square().sum() * y.square().sum()).sqrt())
    return Reading(max(-1.0, min(1.0, r)), "ok")


def perturbation(
    credits: Sequence[Tensor | None],
    hidden: Sequence[Tensor],
    loss_from: LossFrom,
    generator: torch.Generator,
    *,
    directions: int = 32,
    eps: float = 1e-3,
) -> list[Reading]:
    """ρ_l = Pearson( ⟨a_l, εv⟩, ℓ_i(h_l + εv) − ℓ_i(h_l) ), over all samples × `directions`, in float64.

    v is a Gaussian direction of unit length, fresh for every sample. `credits` are those compared at a block's *input*
    (for bp that is g_l). `hidden` and `loss_from` come from `replay_net` or `replay_module`.

    `eps` is absolute, as published: it asks about the slope at the point. A relative one (ε‖h_l‖) would make a move of
    the same share of the stream in every net: where the stream is huge it leaves the linear neighbourhood that
    an absolute 1e-3 stays in, and it is not comparable with published figures.

    >>> h = torch.randn(4, 3, generator=torch.Generator().manual_seed(0))
    >>> (rho,) = perturbation([2 * h], [h], lambda _, moved: moved.square().sum(1), torch.Generator())
    >>> round(rho.value, 3)
    1.0
    """
    found = []
    for layer, credit in enumerate(credits):
        if credit is None:
            found.append(missing("not measured"))
            continue
        h, a = hidden[layer].double(), credit.double()
        before = loss_from(layer, h)
        foretold, true = [], []
        for _ in range(directions):
            v = torch.randn(h.shape, generator=generator, dtype=torch.float64).to(h)
            step = v * (eps / torch.linalg.vector_norm(v, dim=1, keepdim=True))
            foretold.append((a * step).sum(1))
            true.append(loss_from(layer, h + step) - before)
        r = pearson(torch.cat(foretold), torch.cat(true))
        names = {"the first does not vary": "zero credit", "the second does not vary": "the loss does not change"}
        found.append(r.changed(status=names.get(r.status, r.status)))
    return found


def nudging(
    credits: Sequence[Tensor | None], hidden: Sequence[Tensor], loss_from: LossFrom, *, eta: float = 0.01
) -> list[Reading]:
    """Does a small step along the credit lower the loss? mean_i [ ℓ_i(h_l − η a_l) − ℓ_i(h_l) ] by block, in float64.

    Credits keep their own size, so large credits move further: compare signs between rules, sizes within one.

    >>> import torch
    >>> h = torch.tensor([[3.0, 4.0]])
    >>> (nudge,) = nudging([2 * h], [h], lambda _, moved: moved.square().sum(1))
    >>> round(nudge.value, 6)  # 25 · (0.98² − 1)
    -0.99
    >>> nudging([0 * h], [h], lambda _, moved: moved.square().sum(1))[0].status
    'zero credit'
    """

    def of_block(layer: int, credit: Tensor | None) -> Reading:
        if credit is None:
            return missing("not measured")
        h, a = hidden[layer].double(), credit.double()
        if not a.isfinite().all() or not a.any():
            return missing("zero credit" if not a.any() else "not finite")
        change = float((loss_from(layer, h - eta * a) - loss_from(layer, h)).mean())
        return Reading(change, "ok") if math.isfinite(change) else missing("not finite")

    return [of_block(layer, credit) for layer, credit in enumerate(credits)]


def moved_along(
    credits: Sequence[Tensor | None], replay: Replay, *, outward: bool, generator: torch.Generator
) -> tuple[list[Reading], list[Reading]]:
    """Perturbation correlation and nudging of every block, at the states that its credit is held against the gradient.

    In a plain net, and where widths differ (`outward`), the credit of block l speaks of h_{l+1}. Credits are of the
    samples that are replayed.
    """
    states = replay.from_layer(1) if outward else replay
    return perturbation(credits, *states, generator), nudging(credits, *states)
