"""Predictive coding (Whittington & Bogacz 2017): states relax between input and label, weights follow the errors."""

from collections.abc import Callable, Sequence

import torch
from torch import Tensor
from torch.nn import functional as F

from walkback.errors import BadValue
from walkback.nets import Net
from walkback.rules.base import RULES, Credits
from walkback.rules.ep import Predict, Relaxing, fixed, relax
from walkback.rules.local import backward, branch_penalty, has_parameters, read_loss
from walkback.rules.signal import Batch, Signal

FORMS = ("state", "error")


class PC(Relaxing):
    """Predictive coding: each state settles between what the block below predicts and what the label requires.

    credit      a_l = −ε_l,  ε_l = x_{l+1} − join(x_l, f_l(x_l)), at the states x that `steps` steps of size `eta` on
                F = ½ Σ_l ‖ε_l‖² + ℓ(readout(x_L)) lead to. They start at the forward pass; the input is clamped.
                form=state: the steps move the states. form=error: they move the errors, ε ← ε − η ∂F/∂ε with
                x_{l+1} = join(x_l, f_l(x_l)) + ε_l, so that the label reaches every block at once
    needs       the blocks' weights both ways (transposed Jacobians), the label, and `steps` passes
    normalize   none: the errors, unchanged
    embedding   h_0 relaxes too, and its error h_0 − embed(x) trains it; where the embedding has no parameters, h_0 is
                the clamped input
    readout     (head and terminal norm) the gradient of the loss at the h_L of the forward pass
    defaults    form state, eta 0.1, steps 8, precision float64: chosen here, as for ep. In state form block L−1−j
                gets nothing before step j+1, and little after: about η^(j+1)·(steps choose j+1) of the gradient
    differs     the papers clamp the output to the label and take a squared error; here the label acts by the net's own
                loss. A block learns at the relaxed states, as published; in error form at those where the last ∂F/∂ε
                was taken

    One step of the error form is backprop, scaled by `eta`: at ε = 0, ∂F/∂ε_l is ∂ℓ/∂h_{l+1}. Such a net is
    trained by backprop, and its update alignment is 1. With more steps the states move, and the rule departs from it.

    source      Whittington & Bogacz 2017; error form: Goemaere et al. 2025, arXiv:2505.20137
    """

    def __init__(
        self,
        net: Net,
        generator: torch.Generator,
        *,
        form: str = "state",
        eta: float = 0.1,
        steps: int = 8,
        precision: str = "float64",
    ):
        super().__init__(net, generator, eta=eta, steps=steps, precision=precision)
        if form not in FORMS:
            raise BadValue(f"pc has no form named {form!r}", "give form=state or form=error")
        self.form = form

    def credits(self, signal: Signal) -> Credits:
        """The errors of the relaxed states, with the sign of a gradient."""
        net = signal.net
        errors, _ = self._relax(net, signal.inputs, signal.states, signal.labels)
        rows = [net.gradient_rows(-error) for error in errors]
        return Credits(rows[-net.depth :], rows[0] if len(rows) > net.depth else None)

    def backward(self, net: Net, batch: Batch) -> Tensor:
        """∂F/∂θ with the states at rest: every block by its own error."""
        with torch.no_grad():
            states, _ = net.unroll(net.embed(batch.inputs))
        own, _ = read_loss(net, states[-1], batch.labels)
        errors, sources = self._relax(net, batch.inputs, states, batch.labels)
        roots = [own]
        predicted = [net.embed(batch.inputs)] if len(errors) > net.depth else []
        for layer, (block, h) in enumerate(zip(net.blocks, sources[-net.depth :], strict=True)):
            branch = block(h)
            predicted.append(net.join(layer, h, branch))
            roots += branch_penalty(net, block, branch, batch.penalty)
        for p, error in zip(predicted, errors, strict=True):
            roots.append(-(p * error).sum() / len(batch.labels))
        backward(roots)
        return own.detach()

    def _relax(
        self, net: Net, inputs: Tensor, states: Sequence[Tensor], labels: Tensor
    ) -> tuple[list[Tensor], list[Tensor]]:
        """The errors ε at rest and the states that predict, of h_0 … h_L, or of h_1 … h_L where h_0 is the input."""
        like = states[0]
        dtype = self.dtype(like)
        calls = [self._block(net, layer, dtype) for layer in range(net.depth)]
        if has_parameters(net.embed):
            calls.insert(0, fixed(net.embed, dtype))
        start = inputs if len(calls) > net.depth else states[0]
        read = fixed(net.readout, dtype)

        def predict(place: int, x: Tensor) -> Tensor:
            return calls[place](x)

        def loss(top: Tensor) -> Tensor:
            return F.cross_entropy(read(top), labels, reduction="sum")  # each sample's own loss

        with torch.no_grad():
            free = [start.to(dtype)]
            for place in range(len(calls)):
                free.append(predict(place, free[-1]))
        if self.form == "error":
            errors, sources = relax_errors(predict, loss, free, eta=self.eta, steps=self.steps)
        else:
            moved = relax(predict, loss, free, beta=1.0, eta=self.eta, steps=self.steps)
            with torch.no_grad():
                errors = [x - predict(place, moved[place]) for place, x in enumerate(moved[1:])]
            sources = moved[:-1]
        return [e.to(like.dtype) for e in errors], [x.to(like.dtype) for x in sources]

    @staticmethod
    def _block(net: Net, layer: int, dtype: torch.dtype) -> Callable[[Tensor], Tensor]:
        call = fixed(net.blocks[layer], dtype)
        return lambda h: net.join(layer, h, call(h))


def relax_errors(
    predict: Predict, loss: Callable[[Tensor], Tensor], free: Sequence[Tensor], *, eta: float, steps: int
) -> tuple[list[Tensor], list[Tensor]]:
    """`steps` steps of gradient descent on ½ Σ ‖ε‖² + loss(x_L) over the errors, x_{k+1} = predict(k, x_k) + ε_k."""
    errors, sources = [torch.zeros_like(x) for x in free[1:]], list(free[:-1])
    for _ in range(steps):
        with torch.enable_grad():
            moving = [error.requires_grad_() for error in errors]
            states = [free[0]]
            for place, error in enumerate(moving):
                states.append(predict(place, states[-1]) + error)
            slopes = torch.autograd.grad(loss(states[-1]), moving)
        sources = [x.detach() for x in states[:-1]]
        errors = [(1 - eta) * error.detach() - eta * slope for error, slope in zip(moving, slopes, strict=True)]
    return errors, sources


RULES.add("pc", PC)
