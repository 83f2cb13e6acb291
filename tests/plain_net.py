"""A small net of tanh layers, and the same by hand: sample by sample, every derivative written out, no autograd."""

from itertools import pairwise

import torch
from torch import nn

from walkback.nets import Net
from walkback.rules import Batch, make_rule

CLASSES = 3


class Tanh(nn.Module):
    """f(h) = tanh(W h + b)."""

    def __init__(self, inside, outside):
        super().__init__()
        self.linear = nn.Linear(inside, outside)

    def forward(self, h):
        return torch.tanh(self.linear(h))


class Layers(Net):
    """embed Linear → tanh layers, residual or plain, of any widths → readout Linear."""

    def __init__(self, widths=(5, 5, 5, 5), residual=True, classes=CLASSES):
        super().__init__((4,), classes)
        self.residual = residual
        self.embed = nn.Linear(4, widths[0])
        self.blocks = nn.ModuleList(Tanh(a, b) for a, b in pairwise(widths))
        self.readout = nn.Linear(widths[-1], classes)


def case(residual=True, widths=None, classes=CLASSES, count=6, seed=3):
    """A net in float64, inputs and labels."""
    torch.manual_seed(seed)
    widths = widths or ((5, 5, 5, 5) if residual else (5, 4, 6, 3))
    net = Layers(widths, residual, classes).double()
    return net, torch.randn(count, 4, dtype=torch.double), torch.arange(count) % classes


def rule_of(name, net, seed=1, **options):
    return make_rule(name, net, torch.Generator().manual_seed(seed), options).double()


def step(net, rule, inputs, labels, seed=0, penalty=0.0):
    """What one step of the rule puts into every parameter, of the net and of the rule."""
    net.zero_grad(set_to_none=True)
    loss = rule.backward(net, Batch(inputs, labels, torch.Generator().manual_seed(seed), penalty=penalty))
    named = {f"net.{k}": p for k, p in net.named_parameters()} | {f"rule.{k}": p for k, p in rule.named_parameters()}
    return {k: p.grad.clone() for k, p in named.items() if p.grad is not None} | {"loss": loss}


class ByHand:
    """The forward pass of one sample, and what a credit at a block's output does to the parameters."""

    def __init__(self, net):
        self.residual, self.depth = net.residual, net.depth
        value = {k: v.detach().clone() for k, v in net.named_parameters()}
        self.E, self.c = value["embed.weight"], value["embed.bias"]
        self.W = [value[f"blocks.{layer}.linear.weight"] for layer in range(net.depth)]
        self.b = [value[f"blocks.{layer}.linear.bias"] for layer in range(net.depth)]
        self.R, self.r = value["readout.weight"], value["readout.bias"]
        self.sums = {f"net.{k}": torch.zeros_like(v) for k, v in value.items()}

    def states(self, x, between=lambda h: h):
        """h_0 … h_L and f_0 … f_{L−1}."""
        hidden, branches = [self.E @ x + self.c], []
        for layer in range(self.depth):
            h = hidden[-1] if layer == 0 else between(hidden[-1])
            f = torch.tanh(self.W[layer] @ h + self.b[layer])
            branches.append(f)
            hidden.append(h + f if self.residual else f)
        return hidden, branches

    def error(self, top, label):
        """softmax − onehot."""
        e = torch.exp(self.R @ top + self.r)
        e = e / e.sum()
        e[label] -= 1
        return e

    def down(self, layer, h, a):
        """Jᵀ a through block `layer` at h: its skip and its branch."""
        t = torch.tanh(self.W[layer] @ h + self.b[layer])
        back = self.W[layer].T @ ((1 - t**2) * a)
        return a + back if self.residual else back

    def teach_block(self, layer, h, a, share):
        """Block `layer` at its input h, by ⟨f, a⟩."""
        t = torch.tanh(self.W[layer] @ h + self.b[layer])
        inside = (1 - t**2) * a
        self.sums[f"net.blocks.{layer}.linear.weight"] += share * torch.outer(inside, h)
        self.sums[f"net.blocks.{layer}.linear.bias"] += share * inside

    def teach_embed(self, x, a, share):
        self.sums["net.embed.weight"] += share * torch.outer(a, x)
        self.sums["net.embed.bias"] += share * a

    def teach_readout(self, top, label, share):
        e = self.error(top, label)
        self.sums["net.readout.weight"] += share * torch.outer(e, top)
        self.sums["net.readout.bias"] += share * e


def softmax_error(logits, label):
    e = torch.exp(logits) / torch.exp(logits).sum()
    e[label] -= 1
    return e


def norm(h):
    """LN without gains."""
    return (h - h.mean()) / torch.sqrt(((h - h.mean()) ** 2).mean() + 1e-5)


def norm_back(h, a):
    """Jᵀ a of LN at h."""
    n = norm(h)
    return (a - a.mean() - n * (a * n).mean()) / torch.sqrt(((h - h.mean()) ** 2).mean() + 1e-5)


def assert_same(found, expected):
    """Every gradient, alive and to 1e-6 of its own size."""
    for name, value in expected.items():
        assert value.abs().max() > 1e-6, f"{name} is dead"
        torch.testing.assert_close(found[name], value, rtol=1e-6, atol=1e-6 * float(value.abs().max()), msg=name)
