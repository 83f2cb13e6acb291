"""Projections, local losses and forward-only rules: one step of each, against the same written out by hand."""

import math

import pytest
import torch
from torch.nn import functional as F

from plain_net import ByHand, assert_same, case, norm, norm_back, rule_of, softmax_error, step
from walkback.nets import make_net
from walkback.probes import observe
from walkback.probes.update import rule_updates
from walkback.rules import Batch
from walkback.rules.ff import unit_length, wrong_labels

both = pytest.mark.parametrize("residual", [True, False])


@both
@pytest.mark.parametrize("name", ["drtp", "sdfa", "dkp"])
def test_second_implementation_projections_one_sample_at_a_time(name, residual):
    net, inputs, labels = case(residual)
    rule, hand = rule_of(name, net), ByHand(net)
    B = [rule.B[block].detach() for block in range(3)]
    B_embed = B[0] if residual else rule.B[3].detach() if name == "dkp" else rule.B_embed
    expected = {f"rule.B.{n}": 0.0 for n in range(len(rule.B))} if name == "dkp" else {}
    share = 1 / len(labels)
    for x, y in zip(inputs, labels, strict=True):
        hidden, _ = hand.states(x)
        e = hand.error(hidden[-1], y)
        said = {"drtp": torch.zeros_like(e), "sdfa": torch.where(e > 0, 1.0, -1.0).double(), "dkp": e}[name]
        if name == "drtp":
            said[y] = -1
        for block in range(3):
            hand.teach_block(block, hidden[block], B[block] @ said, share)
            if name == "dkp":
                expected[f"rule.B.{block}"] = expected[f"rule.B.{block}"] + share * torch.outer(hidden[block + 1], e)
        if name == "dkp" and not residual:
            expected["rule.B.3"] = expected["rule.B.3"] + share * torch.outer(hidden[0], e)
        hand.teach_embed(x, B_embed @ said, share)
        hand.teach_readout(hidden[-1], y, share)
    assert_same(step(net, rule, inputs, labels), hand.sums | expected)


def test_property_drtp_never_asks_for_the_error_and_sdfa_for_its_size():
    net, inputs, labels = case()
    drtp, sdfa = rule_of("drtp", net), rule_of("sdfa", net)

    def credits(rule):
        return observe(net, rule, inputs, labels, torch.Generator()).credits.blocks

    before = {rule: credits(rule) for rule in (drtp, sdfa)}
    with torch.no_grad():
        net.readout.weight.mul_(0.3).add_(0.1)
    for rule in (drtp, sdfa):
        assert all(torch.equal(a, b) for a, b in zip(credits(rule), before[rule], strict=True))
    other = observe(net, drtp, inputs, labels.flip(0), torch.Generator()).credits.blocks
    assert not torch.equal(other[0], before[drtp][0])


def local_head(hand, rule, layer, h, y):
    """The gradient of a block's cross-entropy at its output, and at its projection."""
    M = rule.heads.M[layer].detach()
    seen = norm(h) if hand.residual else h
    e = softmax_error(M @ seen, y)
    return norm_back(h, M.T @ e) if hand.residual else M.T @ e, torch.outer(e, seen)


@both
def test_second_implementation_mono_forward_one_sample_at_a_time(residual):
    net, inputs, labels = case(residual)
    rule, hand = rule_of("mono-forward", net), ByHand(net)
    heads = {f"rule.heads.M.{layer}": torch.zeros_like(rule.heads.M[layer]) for layer in range(3)}
    share = 1 / len(labels)
    seen = observe(net, rule, inputs, labels, torch.Generator())
    for i, (x, y) in enumerate(zip(inputs, labels, strict=True)):
        hidden, _ = hand.states(x)
        for layer in range(3):
            a, dM = local_head(hand, rule, layer, hidden[layer + 1], y)
            heads[f"rule.heads.M.{layer}"] += share * dM
            hand.teach_block(layer, hidden[layer], a, share)
            torch.testing.assert_close(seen.credits.blocks[layer][i], a)  # what a probe compares is what trains
            if layer == 0:
                g = hand.down(0, hidden[0], a)
                hand.teach_embed(x, g, share)
                torch.testing.assert_close(seen.embed_credit[i], g)
        hand.teach_readout(hidden[-1], y, share)
    assert_same(step(net, rule, inputs, labels), hand.sums | heads)


def similarity_gradient(rows, wanted):
    """∂ mean over pairs of (S − T)² / ∂ each row, S the correlations; by loops over pairs."""
    count = len(rows)
    centred = [h - h.mean() for h in rows]
    unit = [c / c.norm() for c in centred]
    found = []
    for i in range(count):
        at_unit = torch.zeros_like(rows[i])
        for j in range(count):
            at_unit += 4 / count**2 * (unit[i] @ unit[j] - wanted[i][j]) * unit[j]
        at_centred = (at_unit - unit[i] * (unit[i] @ at_unit)) / centred[i].norm()
        found.append(at_centred - at_centred.mean())
    return found


@both
@pytest.mark.parametrize("beta", [0.99, 0.4, 0.0, 1.0])
def test_second_implementation_predsim_pair_by_pair(residual, beta):
    net, inputs, labels = case(residual)
    rule, hand = rule_of("predsim", net, beta=beta), ByHand(net)
    share, count = 1 / len(labels), len(labels)
    heads = {f"rule.heads.M.{layer}": torch.zeros_like(rule.heads.M[layer]) for layer in range(3)}
    states = [hand.states(x)[0] for x in inputs]
    # Two one-hot vectors of C classes less their means: correlation 1, or −1/(C−1).
    wanted = [[1.0 if a == b else -0.5 for b in labels] for a in labels]
    for layer in range(3):
        likeness = similarity_gradient([hidden[layer + 1] for hidden in states], wanted)
        for x, y, hidden, alike in zip(inputs, labels, states, likeness, strict=True):
            a, dM = local_head(hand, rule, layer, hidden[layer + 1], y)
            a = (1 - beta) * a + beta * count * alike
            heads[f"rule.heads.M.{layer}"] += (1 - beta) * share * dM
            hand.teach_block(layer, hidden[layer], a, share)
            if layer == 0:
                hand.teach_embed(x, hand.down(0, hidden[0], a), share)
    for y, hidden in zip(labels, states, strict=True):
        hand.teach_readout(hidden[-1], y, share)
    assert_same(step(net, rule, inputs, labels), hand.sums | (heads if beta < 1 else {}))


@both
def test_second_implementation_pepita_two_passes_by_hand(residual):
    net, inputs, labels = case(residual)
    rule, hand = rule_of("pepita", net), ByHand(net)
    assert float(rule.F.abs().max()) <= 0.05 * math.sqrt(6 / 4)
    assert float(rule.F.std()) == pytest.approx(0.05 * math.sqrt(6 / 4) / math.sqrt(3), rel=0.35)
    seen = observe(net, rule, inputs, labels, torch.Generator())
    share = 1 / len(labels)
    for i, (x, y) in enumerate(zip(inputs, labels, strict=True)):
        hidden, _ = hand.states(x)
        changed = x + rule.F @ hand.error(hidden[-1], y)
        second, _ = hand.states(changed)
        for layer in range(3):
            a = hidden[layer + 1] - second[layer + 1]
            hand.teach_block(layer, second[layer], a, share)
            torch.testing.assert_close(seen.credits.blocks[layer][i], a)
        hand.teach_embed(changed, hidden[0] - second[0], share)
        hand.teach_readout(hidden[-1], y, share)
    assert_same(step(net, rule, inputs, labels), hand.sums)


@both
@pytest.mark.parametrize("goodness", ["branch", "stream"])
def test_second_implementation_ff_positive_and_negative_by_hand(residual, goodness):
    """With two classes the wrong label is the other one: nothing is left to chance."""
    net, inputs, labels = case(residual, classes=2)
    rule, hand = rule_of("ff", net, goodness=goodness, theta=0.7), ByHand(net)
    share = 1 / len(labels)

    def shorten(h):
        return h if residual else h / (torch.sqrt((h**2).mean()) + 1e-6)

    for x, y in zip(inputs, labels, strict=True):
        for label, sign in ((y, -1), (1 - y, 1)):
            labelled = x + rule.U[label]
            hidden, branches = hand.states(labelled, shorten)
            for layer in range(3):
                judged = branches[layer] if goodness == "branch" else hidden[layer + 1]
                g = (judged**2).mean()
                pull = sign / (1 + torch.exp(-sign * (g - 0.7)))  # the slope of softplus(±(g − θ))
                a = pull * 2 * judged / len(judged)
                below = hidden[layer] if layer == 0 else shorten(hidden[layer])
                hand.teach_block(layer, below, a, share)
                if layer == 0:
                    through = hand.down(0, below, a)
                    skipped = residual and goodness == "branch"  # f_0 alone is judged: nothing comes by the skip
                    hand.teach_embed(labelled, through - a if skipped else through, share)
        top = hand.states(x)[0][-1]
        hand.teach_readout(top, y, share)
    assert_same(step(net, rule, inputs, labels), hand.sums)


def test_closed_form_wrong_labels_are_drawn_from_the_wrong_ones_by_their_probability():
    logits = torch.tensor([[9.0, 1.0, 0.0, 2.0]]).expand(20000, 4)
    drawn = wrong_labels(logits, torch.zeros(20000, dtype=torch.long), torch.Generator().manual_seed(0))
    shares = torch.bincount(drawn, minlength=4) / 20000
    weights = torch.tensor([0.0, math.e, 1.0, math.e**2])
    torch.testing.assert_close(shares, weights / weights.sum(), rtol=0, atol=0.015)
    sure = wrong_labels(torch.tensor([[1e4, 0.0, -1e4]]), torch.tensor([0]), torch.Generator())
    assert sure.tolist() == [1]  # a readout that is certain leaves a label to draw


def test_closed_form_unit_length():
    h = torch.tensor([[3.0, 4.0], [0.0, 0.0]])
    torch.testing.assert_close(unit_length(h)[0], h[0] / math.sqrt(12.5), rtol=1e-5, atol=1e-6)
    assert unit_length(h)[1].tolist() == [0, 0]
    maps = torch.randn(2, 3, 4, 4)
    torch.testing.assert_close(unit_length(maps).square().mean((1, 2, 3)), torch.ones(2), rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("name", ["drtp", "sdfa", "dkp", "mono-forward", "predsim"])
def test_property_a_credit_that_is_compared_is_the_credit_that_trains(name):
    """Block by block, ∂/∂θ mean ⟨f_l(h_l), a_l⟩ with the credits of a probe is the update of the rule."""
    torch.manual_seed(0)
    net = make_net("resmlp", (6,), 4, {"width": 10, "depth": 3})
    inputs, labels = torch.randn(12, 6), torch.arange(12) % 4
    rule = rule_of(name, net).float()
    credits = observe(net, rule, inputs, labels, torch.Generator()).credits.blocks
    states = [h.detach() for h in net.unroll(net.embed(inputs))[0]]
    updates = rule_updates(net, rule, Batch(inputs, labels, torch.Generator()))
    for layer, block in enumerate(net.blocks):
        told = (block(states[layer]) * credits[layer]).sum(1).mean()
        expected = torch.cat([g.flatten() for g in torch.autograd.grad(told, list(block.parameters()))])
        assert expected.abs().max() > 1e-4
        torch.testing.assert_close(updates[layer], expected, rtol=1e-4, atol=1e-6)


@pytest.mark.parametrize("name", ["mono-forward", "predsim", "ff"])
def test_property_nothing_above_a_block_reaches_it(name):
    """The purity that these rules claim: other weights above, other readout, the same update below."""
    torch.manual_seed(0)
    net = make_net("resmlp", (6,), 2, {"width": 10, "depth": 3})
    inputs, labels = torch.randn(12, 6), torch.arange(12) % 2  # two classes: ff's wrong label does not ask the readout
    rule = rule_of(name, net).float()

    def first_two():
        return rule_updates(net, rule, Batch(inputs, labels, torch.Generator().manual_seed(0)))[:2]

    before = first_two()
    with torch.no_grad():
        for parameter in [*net.blocks[2].parameters(), *net.readout.parameters()]:
            parameter.add_(torch.randn_like(parameter))
    for a, b in zip(first_two(), before, strict=True):
        assert a.abs().max() > 0
        assert torch.equal(a, b)


@pytest.mark.parametrize("name", ["mono-forward", "predsim", "ff", "pepita", "pc"])
def test_second_implementation_penalty_adds_its_gradient(name):
    """λ‖f_l‖² of the blocks that train, at the states where the rule trains them; a frozen block gets nothing."""
    net, inputs, labels = case(classes=2)
    rule = rule_of(name, net)
    net.blocks[1].requires_grad_(False)
    plain, penalized = step(net, rule, inputs, labels), step(net, rule, inputs, labels, penalty=0.3)
    assert not any("blocks.1" in key for key in penalized)
    difference = penalized["net.blocks.2.linear.weight"] - plain["net.blocks.2.linear.weight"]
    if name in ("mono-forward", "predsim"):
        hidden = [h.detach() for h in net.unroll(net.embed(inputs))[0]]
        energy = 0.3 * net.blocks[2](hidden[2]).square().sum(1).mean()
        (expected,) = torch.autograd.grad(energy, net.blocks[2].linear.weight)
        torch.testing.assert_close(difference, expected, rtol=1e-6, atol=1e-9)
    assert difference.abs().max() > 1e-3
    assert torch.equal(penalized["net.readout.weight"], plain["net.readout.weight"])


def test_planted_a_flat_row_leaves_predsim_finite():
    """A dead layer gives rows without any direction: their similarity is 0, and its slope is finite."""
    net, inputs, labels = case(residual=False)
    with torch.no_grad():
        net.blocks[0].linear.weight.zero_()
        net.blocks[0].linear.bias.fill_(0.3)
    found = step(net, rule_of("predsim", net), inputs, labels)
    assert all(value.isfinite().all() for value in found.values())
    assert F.cross_entropy(net(inputs), labels).isfinite()
