"""Feedback instead of transposed weights, layer by layer: the base of fa-layer, usf, frsf, brsf, kp and mirror."""

import hashlib
from collections.abc import Mapping
from typing import ClassVar

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from walkback.errors import BadValue
from walkback.nets import Net
from walkback.rules.base import Credits, Rule
from walkback.rules.bp import branch_energy
from walkback.rules.signal import Batch, Signal
from walkback.rules.transposes import Replaced, expected, find_uses

READOUTS = ("feedback", "exact")


class Named(nn.Module):
    """Tensors by the name of the net's parameter that they belong to; saved with the run."""

    def __init__(self, tensors: Mapping[str, Tensor], learned: bool = False):
        super().__init__()
        for name, tensor in tensors.items():
            key = name.replace(".", "/")  # a module's own names have no dots
            if learned:
                self.register_parameter(key, nn.Parameter(tensor))
            else:
                self.register_buffer(key, tensor)

    def __getitem__(self, name: str) -> Tensor:
        key = name.replace(".", "/")
        tensor = self._parameters[key] if key in self._parameters else self._buffers[key]
        assert tensor is not None
        return tensor


def fan_in(weight: Tensor) -> int:
    """How many inputs one output sums: for a convolution, channels × kernel.

    >>> fan_in(torch.empty(8, 3, 5, 5))
    75
    """
    return weight[0].numel() if weight.dim() > 1 else weight.numel()


def numbered(key: Tensor, *counters: int) -> torch.Generator:
    """A random stream that is a function of a rule's key and of counters: it need not be saved."""
    digest = hashlib.sha256(" ".join(map(str, (int(key), *counters))).encode()).digest()
    return torch.Generator().manual_seed(int.from_bytes(digest[:8], "big") >> 1)


class LayerFeedback(Rule):
    """Base: the forward pass is the net's own; in the backward pass every weight is its feedback weight instead.

    For a product y = W x:  δ_x = Bᵀ δ_y in place of Wᵀ δ_y, and ∂W = δ_y xᵀ, the local product with what arrived.
    The same holds for convolutions and the projections of attention. Everything else keeps its exact backward pass:
    activations, LayerNorm and BatchNorm, the softmax of attention, skip connections. The lowest weights need no
    feedback: nothing below them learns. Any net of Linear, Conv2d, Embedding and attention works.

    A rule of this family returns B in `stand_ins`, in the shape of W.

    readout   feedback: the head has a feedback weight as well, as these rules were published. exact: its own weights,
              as in `fa`; then a net without hidden layers below the last is trained by backprop
    """

    def __init__(self, net: Net, generator: torch.Generator, *, readout: str = "feedback"):
        super().__init__(net, generator)
        if readout not in READOUTS:
            raise BadValue(f"there is no readout named {readout!r} here", "give readout=feedback or readout=exact")
        self.readout = readout
        self.uses_above, self.uses_inside = find_uses(net)
        own = {name for name, _ in net.readout.named_parameters(prefix="readout")}
        carried = [name for name, uses in self.uses_above.items() if any(uses)]
        exact = own if readout == "exact" else set()
        self.fed = tuple(name for name, _ in net.named_parameters() if name in carried and name not in exact)

    def weights(self, net: Net) -> dict[str, Tensor]:
        """The weights that have feedback, by name."""
        found = dict(net.named_parameters())
        return {name: found[name].detach() for name in self.fed if name in found}

    def drawn(self, net: Net, scale: Mapping[str, float]) -> dict[str, Tensor]:
        """Gaussian feedback with the std given for each weight, from the rule's own stream."""
        return {
            name: torch.randn(w.shape, generator=self.generator).to(w) * scale[name]
            for name, w in self.weights(net).items()
        }

    def beside(self, trained: Rule) -> None:
        """Feedback with the signs of the weights is no null, so it is not redrawn.

        The probes then get the same answer, bit for bit, and use their other null: random directions, random signs.
        """
        self.load_state_dict(trained.state_dict())

    def stand_ins(self, net: Net, generator: torch.Generator) -> Mapping[str, Tensor]:
        """The replacement of each weight in this backward pass. `generator`: the rule's stream at this step."""
        raise NotImplementedError

    def backward(self, net: Net, batch: Batch) -> Tensor:
        """One backward pass of the mean loss (and of the penalty, as in bp), with feedback in place of the weights."""
        stream, branches = net.unroll(net.embed(batch.inputs))
        loss = F.cross_entropy(net.readout(stream[-1]), batch.labels)
        total = loss + batch.penalty * branch_energy(net, branches) if batch.penalty else loss
        replaced = Replaced(net, [total], self.stand_ins(net, batch.generator))
        total.backward()  # type: ignore[no-untyped-call]
        replaced.check(expected(self.uses_above, net))
        return loss.detach()

    def credits(self, signal: Signal) -> Credits:
        """What the backward pass delivers at h_1 … h_L, the blocks' outputs, and at h_0; for probes."""
        net = signal.net
        with torch.enable_grad():
            stream, _ = net.unroll(signal.states[0].detach().requires_grad_())
            loss = F.cross_entropy(net.readout(stream[-1]), signal.labels, reduction="sum")
            replaced = Replaced(net, [loss], self.stand_ins(net, signal.generator))
            found = [net.gradient_rows(g) for g in torch.autograd.grad(loss, stream)]
        replaced.check(self.uses_inside)
        return Credits(found[1:], found[0])


class DrawnFeedback(LayerFeedback):
    """Base of the rules whose B is drawn at init, with the std that W has then (1/√fan-in if W is all one number)."""

    learned: ClassVar[bool] = False
    """Whether the run's optimizer trains B."""

    def __init__(self, net: Net, generator: torch.Generator, *, readout: str = "feedback"):
        super().__init__(net, generator, readout=readout)
        scale = {name: float(w.std(correction=0)) or fan_in(w) ** -0.5 for name, w in self.weights(net).items()}
        self.scale = Named({name: w.new_tensor(scale[name]) for name, w in self.weights(net).items()})
        self.B = Named(self.drawn(net, scale), self.learned)

    def stand_ins(self, net: Net, generator: torch.Generator) -> Mapping[str, Tensor]:
        """B."""
        del net, generator
        return {name: self.B[name] for name in self.fed}

    @torch.no_grad()
    def beside(self, trained: Rule) -> None:
        """Draw fresh feedback as the trained rule did at init: the net's weights have changed since.

        With an exact readout, skip connections carry the true gradient down whatever B is: that is no null either.
        """
        assert isinstance(trained, DrawnFeedback)
        if self.readout == "exact":
            return super().beside(trained)
        for name in self.fed:
            self.B[name].mul_(trained.scale[name] / self.scale[name])
            self.scale[name].copy_(trained.scale[name])
