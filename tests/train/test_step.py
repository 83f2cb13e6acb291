"""The one backward call, against plain per-block implementations, finite differences and closed forms."""

import copy

import pytest
import torch
from torch.nn import functional as F

from walkback.nets import make_net
from walkback.rules import Batch, Credits, Rule, make_rule
from walkback.train.trainer import AdamW

SHAPE, CLASSES, WIDTH, DEPTH = (3, 8, 8), 5, 12, 3


def build(net="resmlp", rule="dfa", seed=0, rule_options=None, **options):
    torch.manual_seed(seed)
    options = {"width": WIDTH, "depth": DEPTH} | ({"heads": 2, "ratio": 2} if net == "vit-mini" else {}) | options
    made = make_net(net, SHAPE, CLASSES, options)
    return made, make_rule(rule, made, torch.Generator().manual_seed(seed + 1), rule_options or {})


def batch(seed, count=16):
    generator = torch.Generator().manual_seed(seed)
    return torch.randn(count, *SHAPE, generator=generator), torch.randint(0, CLASSES, (count,), generator=generator)


def draws(step):
    return torch.Generator().manual_seed(1000 + step)


def normal(a, how):
    """A second, dumber normalisation: row by row."""
    if how == "sample":
        return torch.stack([row / (row.square().mean().sqrt() + 1e-6) for row in a])
    if how == "batch":
        return a / (a.square().mean().sqrt() + 1e-6)
    return a


def plain_credits(net, rule, kind, error, top, step, how):
    """The formulas of the rules' docstrings, written out."""
    if kind == "dfa":
        blocks = [torch.stack([B @ e for e in error]) for B in rule.B]
        embed = blocks[0]
    elif kind == "fa":
        blocks = [top]
        for layer in range(DEPTH - 2, -1, -1):
            blocks.insert(0, torch.stack([rule.B[layer + 1] @ a for a in blocks[0]]))
        embed = torch.stack([rule.B[0] @ a for a in blocks[0]])
    else:
        noise = torch.randn(DEPTH + 1, len(error), WIDTH, generator=draws(step)).to(error)
        embed, *blocks = noise
    return [normal(a, how) for a in blocks], normal(embed, how)


def train_plainly(net, rule, kind, steps, *, penalty, last, how):
    """The recipe as published: one optimizer per block, a second forward for each local loss."""
    settings = {"lr": 1e-3, "weight_decay": 0.01}
    embed_optimizer = torch.optim.AdamW(net.embed.parameters(), **settings)
    readout_optimizer = torch.optim.AdamW(net.readout.parameters(), **settings)
    optimizers = [torch.optim.AdamW(block.parameters(), **settings) for block in net.blocks]
    for step in range(steps):
        x, y = batch(step)
        x = x.double()
        with torch.no_grad():
            states = [net.embed(x)]
            for block in net.blocks:
                states.append(states[-1] + block(states[-1]))
        top = states[-1].clone().requires_grad_()
        logits = net.readout(top)
        error = torch.softmax(logits.detach(), 1) - F.one_hot(y, CLASSES)
        readout_optimizer.zero_grad()
        F.cross_entropy(logits, y).backward()
        at_top = net.gradient_rows(top.grad) * len(y)
        blocks, embed = plain_credits(net, rule, kind, error, at_top, step, how)
        readout_optimizer.step()
        for layer, (block, optimizer) in enumerate(zip(net.blocks, optimizers, strict=True)):
            if layer < DEPTH - last:
                continue
            optimizer.zero_grad()
            f = net.rows(block(states[layer]))
            ((f * blocks[layer]).sum(1) + penalty * f.square().sum(1)).mean().backward()
            optimizer.step()
        embed_optimizer.zero_grad()
        (net.embed_rows(net.embed(x)) * embed).sum(1).mean().backward()
        embed_optimizer.step()


def train_ours(net, rule, steps, *, penalty, last):
    for block in net.blocks[: net.depth - last]:
        block.requires_grad_(False)
    optimizer = AdamW({k: p for k, p in net.named_parameters() if p.requires_grad}, weight_decay=0.01)
    for step in range(steps):
        x, y = batch(step)
        optimizer.zero_grad()
        rule.backward(net, Batch(x.double(), y, draws(step), penalty=penalty))
        optimizer.step(1e-3)


@pytest.mark.parametrize(
    ("family", "kind", "how", "penalty", "last"),
    [
        ("resmlp", "dfa", "sample", 0.0, DEPTH), ("resmlp", "dfa", "none", 0.03, 2), ("resmlp", "fa", "none", 0.0, 1),
        ("resmlp", "fa", "batch", 0.03, DEPTH), ("resmlp", "random", "none", 0.0, 0),
        ("vit-mini", "dfa", "sample", 0.03, 1), ("vit-mini", "dfa", "none", 0.0, 0),
        ("vit-mini", "fa", "none", 0.03, DEPTH), ("vit-mini", "fa", "batch", 0.0, 2),
        ("vit-mini", "random", "none", 0.0, DEPTH),
    ],
)  # fmt: skip
def test_second_implementation_one_optimizer_per_block(family, kind, how, penalty, last):
    """Same weights after 50 steps as one optimizer, one forward and one backward per block."""
    ours, rule = build(family, kind, rule_options={"normalize": how})
    # In float64: a key's bias has no gradient but rounding, which Adam would blow up into a difference of steps.
    ours, rule = ours.double(), rule.double()
    plain = copy.deepcopy(ours)
    start = copy.deepcopy(ours.state_dict())
    steps = 50 if family == "resmlp" else 8
    train_ours(ours, rule, steps, penalty=penalty, last=last)
    train_plainly(plain, rule, kind, steps, penalty=penalty, last=last, how=how)
    ours_now, plain_now = ours.state_dict(), plain.state_dict()
    assert any(not torch.equal(ours_now[k], start[k]) for k in start)  # alive
    for name in start:
        torch.testing.assert_close(ours_now[name], plain_now[name], rtol=1e-7, atol=1e-8)
        if name.startswith("blocks.") and int(name.split(".")[1]) < DEPTH - last:
            assert torch.equal(ours_now[name], start[name]), f"{name} is frozen and moved"


class Oracle(Rule):
    """A local rule that is handed the true gradients g_{l+1}."""

    def credits(self, signal):
        h0 = signal.hidden[0].clone().requires_grad_()
        stream, _ = signal.net.unroll(h0)
        g = torch.autograd.grad(F.cross_entropy(signal.net.readout(stream[-1]), signal.labels, reduction="sum"), stream)
        return Credits(blocks=g[1:], embed=g[0])


@pytest.mark.parametrize(("family", "penalty"), [("resmlp", 0.05), ("resmlp", None), ("vit-mini", 0.0)])
def test_second_implementation_bp_and_exact_credits_are_autograd(family, penalty):
    """To the last parameter. No penalty: the credits are exact, and the rule is local."""
    net, rule = build(family, "bp")
    rule, penalty = (Oracle(net, torch.Generator()), 0.0) if penalty is None else (rule, penalty)
    x, y = batch(0)
    rule.backward(net, Batch(x, y, draws(0), penalty=penalty))
    ours = {k: p.grad.clone() for k, p in net.named_parameters()}
    net.zero_grad()
    loss = F.cross_entropy(net(x), y)
    _, branches = net.unroll(net.embed(x))
    loss = loss + penalty * sum(net.rows(f).square().sum(1).mean() for f in branches)
    loss.backward()
    for name, parameter in net.named_parameters():
        assert parameter.grad.abs().max() > 0, name
        torch.testing.assert_close(ours[name], parameter.grad, rtol=1e-4, atol=1e-7)


def test_finite_difference_of_a_local_objective():
    """Block 1's gradient is that of mean ⟨f, a⟩ + λ‖f‖², by central differences in float64."""
    net, rule = build()
    net, rule = net.double(), rule.double()
    x, y = batch(5)
    x, penalty = x.double(), 0.07
    caught = {}
    rule.register_forward_hook(lambda module, args, result: caught.update(credits=result))
    rule.backward(net, Batch(x, y, draws(0), penalty=penalty))
    weight = net.blocks[1].down.weight
    credit = caught["credits"].blocks[1]
    with torch.no_grad():
        state = net.unroll(net.embed(x))[0][1]

        def objective():
            f = net.blocks[1](state)
            return float(((f * credit).sum(1) + penalty * f.square().sum(1)).mean())

        for i, j in [(0, 0), (3, 7), (11, 2)]:
            kept = float(weight[i, j])
            weight[i, j] = kept + 1e-5
            above = objective()
            weight[i, j] = kept - 1e-5
            below = objective()
            weight[i, j] = kept
            assert abs(float(weight.grad[i, j])) > 1e-6
            assert float(weight.grad[i, j]) == pytest.approx((above - below) / 2e-5, rel=1e-5)


@pytest.mark.parametrize("steps", [1, 30])
def test_second_implementation_adamw_is_torchs(steps):
    """Bit for bit, with a parameter that has no gradient in some steps."""
    torch.manual_seed(0)
    ours = [torch.nn.Parameter(torch.randn(7, 5)), torch.nn.Parameter(torch.randn(4))]
    theirs = [torch.nn.Parameter(p.detach().clone()) for p in ours]
    optimizer = AdamW({"a": ours[0], "b": ours[1]}, weight_decay=0.01)
    reference = torch.optim.AdamW(theirs, lr=1e-3, weight_decay=0.01, fused=True)
    for step in range(steps):
        lr = 1e-3 / (1 + step)
        for group in reference.param_groups:
            group["lr"] = lr
        optimizer.zero_grad()
        reference.zero_grad()
        for mine, other in zip(ours, theirs, strict=True):
            if mine.ndim == 1 and step % 3 == 1:
                continue
            mine.grad = torch.randn_like(mine)
            other.grad = mine.grad.clone()
        optimizer.step(lr)
        reference.step()
    for mine, other in zip(ours, theirs, strict=True):
        assert torch.equal(mine, other)


def test_property_a_rule_that_learns_joins_the_one_backward_call():
    """A rule's own parameters learn from the loss that it hands over, in the same optimizer."""

    class Learner(Rule):
        def __init__(self, net, generator, *, normalize=None):
            super().__init__(net, generator, normalize=normalize)
            self.V = torch.nn.Parameter(torch.zeros(net.classes, net.width))

        def credits(self, signal):
            own = (signal.error @ self.V - signal.hidden[-1]).square().mean()
            credit = (signal.error @ self.V).detach()
            return Credits([credit] * signal.net.depth, embed=credit, loss=own)

    net, _ = build()
    rule = Learner(net, torch.Generator())
    x, y = batch(0)
    rule.backward(net, Batch(x, y, draws(0)))
    assert rule.V.grad.abs().max() > 0
    assert net.blocks[0].up.weight.grad.abs().max() == 0  # V is zero: no credit yet
