"""Equilibrium propagation: its limit is backprop's, its displacements are a known sum, float32 loses them."""

from itertools import pairwise

import pytest
import torch
from torch import nn
from torch.nn import functional as F

from conftest import small_plan
from walkback.data import load
from walkback.nets import Net, make_net
from walkback.probes import observe
from walkback.rules import make_rule
from walkback.rules.ep import fixed, pull, relax
from walkback.train import Trainer

FULL = {"beta": 1e-6, "eta": 0.3, "steps": 900}  # as good as at rest, and as good as no nudge


class Chain(Net):
    """Linear blocks of any widths: everything about them can be written down."""

    def __init__(self, widths=(5, 5, 5, 5), residual=True):
        super().__init__((4,), 3)
        self.residual = residual
        self.embed = nn.Linear(4, widths[0])
        pairs = pairwise(widths)
        self.blocks = nn.ModuleList(nn.Linear(a, b, bias=False) for a, b in pairs)
        self.readout = nn.Linear(widths[-1], 3)

    def jacobian(self, layer):
        weight = self.blocks[layer].weight.detach()
        return weight + torch.eye(len(weight), dtype=weight.dtype) if self.residual else weight


def chain(**options):
    torch.manual_seed(3)
    return Chain(**options).double(), torch.randn(6, 4, dtype=torch.double), torch.tensor([0, 1, 2, 0, 1, 2])


def look(net, inputs, labels, **options):
    rule = make_rule("ep", net, torch.Generator().manual_seed(1), options)
    return observe(net, rule, inputs, labels, torch.Generator())


def alive(tensors):
    return all(float(t.abs().max()) > 1e-3 for t in tensors)


@pytest.mark.parametrize("residual", [True, False])
def test_closed_form_at_rest_the_errors_are_backprops_gradients(residual):
    net, inputs, labels = chain(residual=residual)

    def predict(layer, h):  # tanh: the limit does not depend on the blocks being linear
        return net.join(layer, h, torch.tanh(net.blocks[layer](h)))

    def loss(top):
        return F.cross_entropy(net.readout(top), labels, reduction="sum")

    stream = [net.embed(inputs).detach().requires_grad_()]
    for layer in range(3):
        stream.append(predict(layer, stream[-1]))
    true = torch.autograd.grad(loss(stream[-1]), stream)
    beta = FULL["beta"]
    nudged = relax(predict, loss, [h.detach() for h in stream], **FULL)
    assert alive(true)
    for layer in range(3):
        error = nudged[layer + 1] - predict(layer, nudged[layer]).detach()
        torch.testing.assert_close(-error / beta, true[layer + 1], rtol=1e-4, atol=1e-7)
    torch.testing.assert_close(pull(predict, nudged, 0) / beta, true[0], rtol=1e-4, atol=1e-7)


@pytest.mark.parametrize("residual", [True, False])
def test_closed_form_displacements_carry_every_gradient_below_forward(residual):
    """a_l = Σ_{k ≤ l} J_l ⋯ J_{k+1} g_{k+1} on a linear net."""
    net, inputs, labels = chain(residual=residual)
    seen = look(net, inputs, labels, **FULL)
    expected, carried = [], 0.0
    for layer in range(3):
        carried = seen.gradients[layer + 1] + (carried @ net.jacobian(layer).T if layer else 0.0)
        expected.append(carried)
    assert alive(expected)
    for found, formula in zip(seen.credits.blocks, expected, strict=True):
        torch.testing.assert_close(found, formula, rtol=1e-4, atol=1e-7)
    # The embedding: block 0's credit where all widths are one stream's, else the gradient at the clamped h_0.
    expected_embed = expected[0] if residual else seen.gradients[0]
    torch.testing.assert_close(seen.embed_credit, expected_embed, rtol=1e-4, atol=1e-7)


def test_closed_form_embedding_of_another_width_hears_the_gradient():
    net, inputs, labels = chain(widths=(7, 5, 6), residual=False)
    seen = look(net, inputs, labels, **FULL)
    assert alive(seen.gradients)
    torch.testing.assert_close(seen.embed_credit, seen.gradients[0], rtol=1e-4, atol=1e-7)


@pytest.mark.parametrize("steps", [1, 2, 3, 7])
def test_second_implementation_descent_written_out(steps):
    """Every state at every step, by the formula of the energy's gradient: ε_l − J_{l+1}ᵀ ε_{l+1}."""
    net, inputs, labels = chain()
    beta, eta = 0.3, 0.2
    states = [h.detach() for h in net.unroll(net.embed(inputs))[0]]
    free = list(states)
    for _ in range(steps):
        errors = [states[k + 1] - states[k] @ net.jacobian(k).T for k in range(3)]
        out = torch.softmax(net.readout(states[-1]), 1) - F.one_hot(labels, 3)
        pulls = [errors[0] - errors[1] @ net.jacobian(1), errors[1] - errors[2] @ net.jacobian(2)]
        pulls.append(errors[2] + beta * out.detach() @ net.readout.weight.detach())
        states = [states[0], *(h - eta * p for h, p in zip(states[1:], pulls, strict=True))]
    seen = look(net, inputs, labels, beta=beta, eta=eta, steps=steps)
    for layer, found in enumerate(seen.credits.blocks):
        expected = (free[layer + 1] - states[layer + 1]).detach() / beta
        torch.testing.assert_close(found, expected, rtol=1e-9, atol=1e-13)
        # After so many steps only so many blocks from the top have moved; the rest not at all.
        assert bool(found.abs().max() > 0) == (layer >= 3 - steps)


def test_property_each_sample_is_nudged_by_its_own_loss():
    net, inputs, labels = chain()
    together, alone = look(net, inputs, labels), look(net, inputs[:1], labels[:1])
    torch.testing.assert_close(together.credits.blocks[2][:1], alone.credits.blocks[2])


@pytest.mark.parametrize("precision", ["float32", "float64"])
def test_property_at_init_the_credit_points_along_the_gradient(precision):
    torch.manual_seed(0)
    net = make_net("resmlp", (40,), 10, {"width": 32})
    inputs, labels = torch.randn(50, 40), torch.arange(50) % 10
    seen = look(net, inputs, labels, precision=precision)
    for a, g in zip(seen.credits.blocks, seen.gradients, strict=False):
        assert a.dtype == torch.float32
        assert F.cosine_similarity(a.double(), g.double(), eps=1e-30).mean() > 0.9
    full = look(net, inputs, labels, **FULL | {"steps": 150})
    for layer, (a, g) in enumerate(zip(full.credits.blocks, full.gradients[1:], strict=True)):
        assert float(a.norm() / g.norm()) == pytest.approx(layer + 1, rel=0.15)  # one gradient from every block below


@pytest.mark.parametrize(("precision", "lost"), [("float32", True), ("float64", False)])
def test_planted_large_stream_float32_loses_the_credit_and_the_probe_counts_it(precision, lost):
    (config,) = small_plan(data="digits", rules=["ep"], rule_options={"precision": precision})
    trainer = Trainer(config, load("digits"))
    with torch.no_grad():
        trainer.net.embed[1].weight.mul_(1e3)
    zeros = [reading.value for reading in trainer.snapshot().measured["zero credits"]]
    assert all(z > 0.5 for z in zeros) if lost else all(z == 0 for z in zeros)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_planted_batch_norm_keeps_its_statistics_while_states_relax(dtype):
    norm = nn.BatchNorm1d(3)
    before = {k: v.clone() for k, v in norm.state_dict().items()}
    out = fixed(norm, dtype)(torch.randn(8, 3, dtype=dtype) + 5)
    assert out.dtype == dtype
    assert not out.requires_grad
    assert all(torch.equal(v, before[k]) for k, v in norm.state_dict().items())
