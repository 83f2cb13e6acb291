"""Update alignment and exact zeros, against second implementations and on planted rules."""

import math

import pytest
import torch
from torch.nn import functional as F

from walkback.nets import make_net
from walkback.probes import PROBES, observe
from walkback.probes.base import View, readings
from walkback.probes.update import alignment, rule_updates, true_gradients, update_null
from walkback.rules import START, Batch, Credits, Rule, make_rule

SHAPE, CLASSES, DEPTH = (6,), 4, 3


def stream(purpose):
    return torch.Generator().manual_seed(sum(map(ord, purpose)))


def subject(rule="dfa", seed=0, count=40, net_options=None, name="resmlp"):
    torch.manual_seed(seed)
    net = make_net(name, SHAPE, CLASSES, {"width": 10, "depth": DEPTH} | (net_options or {}))
    with torch.no_grad():
        for block in net.blocks:
            block.down.weight.normal_(std=0.3)  # as if trained: blocks that matter
    made = rule(net, torch.Generator()) if isinstance(rule, type) else make_rule(rule, net, stream("feedback"), {})
    return net, made, torch.randn(count, *SHAPE), torch.randint(CLASSES, (count,))


def view(net, rule, x, y, final=True, fresh=None):
    def draw(n):
        return make_rule("dfa", net, torch.Generator().manual_seed(100 + n), {}) if fresh is None else fresh(n)

    return View(net, rule, x, y, START, observe(net, rule, x, y, stream("probe")), draw, stream, final)


def dumb_update(net, credits, x, count):
    """Block by block, sample by sample: ∂/∂θ mean_i ⟨f_l(h_l,i), a_l,i⟩."""
    states, _ = net.unroll(net.embed(x).detach())
    found = []
    for layer, block in enumerate(net.blocks):
        parameters = list(block.parameters())
        total = [torch.zeros_like(p) for p in parameters]
        for i in range(count):
            f = block(states[layer][i : i + 1].detach())
            grads = torch.autograd.grad((f * credits[layer][i : i + 1]).sum(), parameters)
            total = [t + g / count for t, g in zip(total, grads, strict=True)]
        found.append(torch.cat([t.flatten() for t in total]))
    return found


@pytest.mark.parametrize("rule", ["dfa", "fa", "random"])
@pytest.mark.parametrize("options", [{}, {"skip": False}, {"gains": True}])
def test_second_implementation_updates_sample_by_sample(rule, options):
    net, made, x, y = subject(rule, net_options=options)
    looked = observe(net, made, x, y, stream("update"))
    ours = rule_updates(net, made, Batch(x, y, stream("update")))
    for mine, plain in zip(ours, dumb_update(net, looked.credits.blocks, x, len(y)), strict=True):
        assert plain.abs().max() > 0
        torch.testing.assert_close(mine, plain, rtol=1e-4, atol=1e-6)


def test_second_implementation_the_true_gradient_is_autograds_and_signs_are_per_sample():
    net, _, x, y = subject()
    signs = torch.randint(0, 2, (len(y),)) * 2.0 - 1
    for given in (None, signs):
        ours = true_gradients(net, Batch(x, y, stream("update")), given)
        net.zero_grad()
        weights = torch.ones(len(y)) if given is None else given
        sum(w * F.cross_entropy(net(x[i : i + 1]), y[i : i + 1]) for i, w in enumerate(weights)).backward()
        for mine, block in zip(ours, net.blocks, strict=True):
            plain = torch.cat([p.grad.flatten() for p in block.parameters()]) / len(y)
            assert plain.abs().max() > 0
            torch.testing.assert_close(mine, plain, rtol=1e-4, atol=1e-6)


@pytest.mark.parametrize(("net", "options"), [("resmlp", {}), ("resmlp", {"skip": False}), ("resmlp", {"gains": True})])
def test_closed_form_bp_is_aligned_with_itself(net, options):
    made, rule, x, y = subject("bp", net_options=options, name=net)
    for block in made.blocks[:2]:
        block.requires_grad_(False)  # what a frozen block would learn is measured, too
    found = readings(view(made, rule, x, y, fresh=lambda n: make_rule("bp", made, stream("x"), {})))["update"]
    assert [r.status for r in found] == ["ok"] * DEPTH
    assert [r.value for r in found] == pytest.approx([1.0] * DEPTH, abs=1e-6)
    assert {r.null.kind for r in found} == {"random signs"}
    assert all(abs(r.null.mean) < 0.5 < r.value for r in found)
    assert not any(p.requires_grad for block in made.blocks[:2] for p in block.parameters())


class Flipped(Rule):
    """Block 1 is told the opposite of the truth, block 2 something orthogonal to it, block 0 the truth."""

    def backward(self, net, batch):
        loss = F.cross_entropy(net(batch.inputs), batch.labels)
        loss.backward()
        for p in net.blocks[1].parameters():
            p.grad.neg_()
        weight = net.blocks[2].up.weight
        for p in net.blocks[2].parameters():
            if p is not weight:
                p.grad.zero_()
        g = weight.grad.flatten()
        noise = torch.randn(g.shape, generator=torch.Generator().manual_seed(3))
        weight.grad.copy_((noise - (noise @ g) / (g @ g) * g).view_as(weight))
        return loss.detach()


def test_planted_a_flipped_block_reads_minus_one_an_orthogonal_one_zero():
    net, rule, x, y = subject(Flipped)
    found = readings(view(net, rule, x, y, final=False))["update"]
    assert [r.value for r in found] == pytest.approx([1.0, -1.0, 0.0], abs=1e-4)


def test_property_nothing_is_changed_and_random_state_stays():
    net, rule, x, y = subject("fa")
    F.cross_entropy(net(x), y).backward()
    net.blocks[0].requires_grad_(False)
    before = (
        {k: v.clone() for k, v in net.state_dict().items()},
        [None if p.grad is None else p.grad.clone() for p in net.parameters()],
    )
    state = torch.get_rng_state()
    readings(view(net, rule, x, y, fresh=lambda n: make_rule("fa", net, torch.Generator().manual_seed(n), {})))
    assert torch.equal(state, torch.get_rng_state())
    assert all(torch.equal(before[0][k], v) for k, v in net.state_dict().items())
    for old, p in zip(before[1], net.parameters(), strict=True):
        assert (old is None) == (p.grad is None)
        assert old is None or torch.equal(old, p.grad)
    assert not net.blocks[0].up.weight.requires_grad


def test_property_fresh_feedback_centres_on_zero_and_the_top_of_fa_hears_no_feedback():
    net, rule, x, y = subject("fa", count=200)
    looked = view(net, rule, x, y, fresh=lambda n: make_rule("fa", net, torch.Generator().manual_seed(n), {}))
    batch = looked.batch(200, "update")
    nulls = update_null(looked, rule_updates(net, rule, batch), true_gradients(net, batch))
    assert [n.kind for n in nulls] == ["fresh feedback", "fresh feedback", "random signs"]
    for null in nulls[:2]:
        assert abs(null.mean) < 3 * null.std / math.sqrt(null.n) + 0.05
        assert null.n == 20


def test_closed_form_alignment_without_direction_says_why():
    one = torch.ones(3)
    assert alignment(None, one).status == "no update"
    assert alignment(one, None).status == "no gradient"
    assert alignment(0 * one, one).status == "zero update"
    assert alignment(one, 0 * one).status == "zero gradient"
    assert alignment(one * math.inf, one).status == "not finite"
    assert alignment(one.double() * 1e-100, one.double() * 1e100).value == pytest.approx(1)


class Halved(Rule):
    """Half of the credits are exactly zero; block 2 hears nothing."""

    def credits(self, signal):
        a = torch.ones_like(signal.hidden[0])
        a[:, ::2] = 0
        return Credits([a, a + 1, None], embed=a)


def test_closed_form_zero_credits_are_counted():
    net, rule, x, y = subject(Halved)
    found = readings(view(net, rule, x, y, final=False))["zero credits"]
    assert [r.status for r in found] == ["ok", "ok", "no credit"]
    assert found[0].value == 0.5
    assert found[1].value == 0.0
    assert {"update", "zero credits"} <= set(PROBES.names())
