"""Predictive coding and difference target propagation: backprop where they are that, their formulas elsewhere."""

import math

import pytest
import torch
from torch import nn
from torch.nn import functional as F

from plain_net import ByHand, Layers, assert_same, case, norm, rule_of, step
from walkback.errors import BadValue
from walkback.nets import make_net
from walkback.probes import observe
from walkback.probes.base import View, readings
from walkback.rules import START, Batch, make_rule

ONE = {"form": "error", "steps": 1}
NETS = {
    "resmlp": ((6,), {"width": 10, "depth": 3, "down_std": 0.3}),
    "mlp": ((6,), {"width": 10, "depth": 3}),
    "small-cnn": ((3, 8, 8), {"channels": 2, "hidden": 6}),
    "vit-mini": ((3, 8, 8), {"width": 8, "depth": 2}),
    "small-resnet": ((3, 8, 8), {"channels": 3}),
}
both = pytest.mark.parametrize("residual", [True, False])


def built(name, count=12, classes=4):
    torch.manual_seed(0)
    shape, options = NETS[name]
    return make_net(name, shape, classes, options), torch.randn(count, *shape), torch.arange(count) % classes


def flat(parameters):
    return torch.cat([p.grad.flatten() for p in parameters])


@pytest.mark.parametrize(("name", "eta"), zip(NETS, (0.01, 0.1, 1.0, 0.01, 0.1), strict=True))
def test_closed_form_one_step_of_the_error_form_is_backprop_scaled(name, eta):
    """In every block, in the embedding too, on every net; with batch statistics where there are some."""
    net, inputs, labels = built(name)
    rule = rule_of("pc", net, eta=eta, **ONE).float()
    rule.backward(net, Batch(inputs, labels, torch.Generator()))
    parts = [part for part in (net.embed, *net.blocks) if any(True for _ in part.parameters())]
    ours, readout = [flat(part.parameters()) for part in parts], flat(net.readout.parameters())
    net.zero_grad()
    F.cross_entropy(net(inputs), labels).backward()
    for mine, part in zip(ours, parts, strict=True):
        true = flat(part.parameters())
        assert true.norm() > 1e-4
        assert F.cosine_similarity(mine.double(), true.double(), dim=0) > 1 - 1e-6
        assert float(mine.norm() / true.norm()) == pytest.approx(eta, rel=1e-4)
    torch.testing.assert_close(readout, flat(net.readout.parameters()), rtol=1e-4, atol=1e-6)


@pytest.mark.parametrize("name", NETS)
def test_property_the_probes_say_that_it_is_backprop(name):
    net, inputs, labels = built(name)
    rule = make_rule("pc", net, torch.Generator(), ONE)

    def stream(purpose):
        return torch.Generator().manual_seed(sum(map(ord, purpose)))

    seen = observe(net, rule, inputs, labels, stream("probe"))
    view = View(net, rule, inputs, labels, START, seen, lambda n: rule_of("pc", net, n, **ONE).float(), stream, True)
    found = readings(view)["update"]
    assert [r.status for r in found] == ["ok"] * net.depth
    assert min(r.value for r in found) > 1 - 1e-6
    assert {r.null.kind for r in found} == {"random signs"}  # there is no feedback to draw anew
    for credit, gradient in zip(seen.credits.blocks, seen.gradients[1:], strict=True):
        assert F.cosine_similarity(credit.double(), gradient.double()).min() > 1 - 1e-6


def test_property_the_state_form_is_not_backprop_and_the_probe_says_that_too():
    net, inputs, labels = built("resmlp")
    rule = make_rule("pc", net, torch.Generator(), {})
    seen = observe(net, rule, inputs, labels, torch.Generator())
    for credit, gradient in zip(seen.credits.blocks[:-1], seen.gradients[1:], strict=False):
        cosine = F.cosine_similarity(credit.double(), gradient.double()).mean()
        assert 0.3 < cosine < 1 - 1e-4


@both
@pytest.mark.parametrize("steps", [1, 4, 9])
def test_second_implementation_pc_relaxes_as_written_out(residual, steps):
    net, inputs, labels = case(residual)
    rule, hand = rule_of("pc", net, eta=0.2, steps=steps), ByHand(net)
    seen = observe(net, rule, inputs, labels, torch.Generator())
    share = 1 / len(labels)
    for i, (x, y) in enumerate(zip(inputs, labels, strict=True)):
        states, errors = relax_by_hand(hand, x, y, 0.2, steps)
        for layer in range(3):
            hand.teach_block(layer, states[layer], -errors[layer + 1], share)
            torch.testing.assert_close(seen.credits.blocks[layer][i], -errors[layer + 1], rtol=1e-6, atol=1e-12)
            assert bool(errors[layer + 1].abs().max() > 0) == (layer >= 3 - steps)  # one block per step hears of it
        hand.teach_embed(x, -errors[0], share)
        hand.teach_readout(hand.states(x)[0][-1], y, share)
    found = step(net, rule, inputs, labels)
    if steps == 9:
        assert_same(found, hand.sums)
    else:
        for name, value in hand.sums.items():
            torch.testing.assert_close(found[name], value, rtol=1e-6, atol=1e-12, msg=name)


def pulls_by_hand(hand, x, y, states):
    """∂F/∂x_l at every state, and the errors."""

    def predicted(k):
        f = torch.tanh(hand.W[k] @ states[k] + hand.b[k])
        return states[k] + f if hand.residual else f

    errors = [states[0] - hand.E @ x - hand.c, *(states[k + 1] - predicted(k) for k in range(hand.depth))]
    pulls = [errors[k] - hand.down(k, states[k], errors[k + 1]) for k in range(hand.depth)]
    return [*pulls, errors[-1] + hand.R.T @ hand.error(states[-1], y)], errors


def relax_by_hand(hand, x, y, eta, steps):
    """One sample: every state at every step, by the derivative of the energy written out."""
    states, _ = hand.states(x)
    for _ in range(steps):
        pulls, _ = pulls_by_hand(hand, x, y, states)
        states = [h - eta * p for h, p in zip(states, pulls, strict=True)]
    return states, pulls_by_hand(hand, x, y, states)[1]


@both
def test_closed_form_the_error_form_comes_to_rest_where_no_state_is_pulled(residual):
    """Both forms have the same energy; the state form needs thousands of steps to get there."""
    net, inputs, labels = case(residual)
    rule, hand = rule_of("pc", net, form="error", eta=0.2, steps=150), ByHand(net)
    seen = observe(net, rule, inputs, labels, torch.Generator())
    for i, (x, y) in enumerate(zip(inputs, labels, strict=True)):
        credits = [seen.embed_credit[i], *(a[i] for a in seen.credits.blocks)]
        states = [hand.E @ x + hand.c - credits[0]]
        for layer in range(3):
            f = torch.tanh(hand.W[layer] @ states[-1] + hand.b[layer])
            states.append((states[-1] + f if residual else f) - credits[layer + 1])
        pulls, errors = pulls_by_hand(hand, x, y, states)
        assert all(error.abs().max() > 1e-4 for error in errors)
        assert all(pull.abs().max() < 1e-8 for pull in pulls)


class Chain(Layers):
    """Linear blocks, which have inverses."""

    def __init__(self, residual):
        super().__init__(residual=residual)
        self.blocks = nn.ModuleList(nn.Linear(5, 5) for _ in range(3))


@both
def test_closed_form_dtp_with_exact_inverses_is_gauss_newtons_step(residual):
    """The step of least squares for h_{l+1}: (JᵀJ)⁻¹ Jᵀ (h_L − ĥ_L), J from h_{l+1} to h_L."""
    torch.manual_seed(5)
    net = Chain(residual).double()
    inputs, labels = torch.randn(6, 4, dtype=torch.double), torch.arange(6) % 3
    rule = rule_of("dtp", net, step=0.3)
    assert len(rule.inverses) == 3
    jacobians = [b.weight.detach() + (torch.eye(5).double() if residual else 0) for b in net.blocks]
    for place, J in enumerate(jacobians):
        inverse = nn.Linear(5, 5).double()
        with torch.no_grad():
            inverse.weight.copy_(torch.linalg.inv(J))
            inverse.bias.copy_(-inverse.weight @ net.blocks[place].bias)
        rule.inverses[place] = inverse
    seen = observe(net, rule, inputs, labels, torch.Generator())
    apart = 0.3 * seen.gradients[-1]  # h_L − ĥ_L
    assert rule(signal_of(net, inputs, labels)).loss.item() < 1e-12  # they are inverses indeed
    J = torch.eye(5, dtype=torch.double)
    for layer in (2, 1, 0, -1):
        expected = apart @ (torch.linalg.inv(J.T @ J) @ J.T).T
        found = seen.embed_credit if layer < 0 else seen.credits.blocks[layer]
        assert expected.abs().max() > 1e-3
        torch.testing.assert_close(found, expected, rtol=1e-6, atol=1e-9)
        if layer < 2:  # and it is not the gradient's direction
            true = seen.gradients[layer + 1]
            assert F.cosine_similarity(found, true).mean() < 0.999
        if layer >= 0:
            J = J @ jacobians[layer]


def signal_of(net, inputs, labels, seed=0):
    from walkback.probes.observe import one_pass
    from walkback.rules import probe_signal

    seen = one_pass(net, inputs, labels)
    batch = Batch(inputs, labels, torch.Generator().manual_seed(seed))
    return probe_signal(net, batch, seen.logits, seen.states, seen.gradients)


def undo(g, h):
    """A learned inverse on one row, from its weights."""
    if g.down is None:
        return g.up.weight @ h + g.up.bias
    inside = g.up.weight @ norm(h) + g.up.bias
    return h + g.down.weight @ (inside * 0.5 * (1 + torch.erf(inside / math.sqrt(2)))) + g.down.bias


@both
def test_second_implementation_dtp_targets_and_inversion_loss_by_hand(residual):
    net, inputs, labels = case(residual)
    rule, hand = rule_of("dtp", net, step=0.4, sigma=0.2), ByHand(net)
    with torch.no_grad():
        for parameter in rule.parameters():
            parameter.add_(0.2 * torch.randn_like(parameter))
    states = [hand.states(x)[0] for x in inputs]
    seen = observe(net, rule, inputs, labels, torch.Generator())
    share = 1 / len(labels)
    for i, (x, y, hidden) in enumerate(zip(inputs, labels, states, strict=True)):
        target = hidden[3] - 0.4 * hand.R.T @ hand.error(hidden[3], y)
        for layer in (2, 1, 0):
            a = hidden[layer + 1] - target
            torch.testing.assert_close(seen.credits.blocks[layer][i], a.detach(), rtol=1e-6, atol=1e-12)
            hand.teach_block(layer, hidden[layer], a.detach(), share)
            g = rule.inverses[layer]
            target = hidden[layer] + undo(g, target) - undo(g, hidden[layer + 1])
        hand.teach_embed(x, (hidden[0] - target).detach(), share)
        hand.teach_readout(hidden[-1], y, share)
    assert_same(step(net, rule, inputs, labels), hand.sums)

    draws, total = torch.Generator().manual_seed(0), 0.0
    for layer in range(3):
        h = torch.stack([hidden[layer] for hidden in states])
        noisy = h + 0.2 * torch.sqrt((h**2).mean()) * torch.randn(h.shape, generator=draws).double()
        off = size = 0.0
        for x in noisy:
            f = torch.tanh(hand.W[layer] @ x + hand.b[layer])
            off += ((undo(rule.inverses[layer], x + f if residual else f) - x) ** 2).sum()
            size += (x**2).sum()
        total += float(off.detach() / (size + 1e-6 * h.numel()))
    assert rule(signal_of(net, inputs, labels)).loss.item() == pytest.approx(total, rel=1e-6)


@both
def test_property_dtp_inverses_learn_to_invert(residual):
    net, inputs, labels = case(residual, widths=(5, 5, 5, 5), count=60)
    rule = rule_of("dtp", net)
    optimizer, losses = torch.optim.Adam(rule.parameters(), lr=1e-2), []
    for n in range(60):
        optimizer.zero_grad()
        loss = rule(signal_of(net, inputs, labels, n)).loss
        loss.backward()
        optimizer.step()
        losses.append(float(loss.detach()))
    assert losses[-1] < 0.2 * losses[0]


def test_property_dtp_has_no_inverse_where_the_embedding_learns_nothing():
    rule = make_rule("dtp", make_net("mlp", (6,), 4, {"widths": [5, 7, 3]}), torch.Generator(), {})
    assert [(g.up.in_features, g.up.out_features) for g in rule.inverses] == [(7, 5), (3, 7)]
    alone = make_net("mlp", (6,), 4, {"widths": [5]})
    rule = make_rule("dtp", alone, torch.Generator(), {})
    rule.backward(alone, Batch(torch.randn(3, 6), torch.arange(3), torch.Generator()))
    assert alone.blocks[0][0].weight.grad.abs().max() > 0


@pytest.mark.parametrize("name", ["vit-mini", "small-resnet"])
def test_error_dtp_refuses_rows_that_are_not_the_whole_state(name):
    with pytest.raises(BadValue, match="only a part") as caught:
        make_rule("dtp", built(name)[0], torch.Generator(), {})
    assert "mono-forward" in caught.value.remedy


def test_error_dtp_refuses_feature_maps_that_are_too_large():
    with pytest.raises(BadValue, match="536,870,912 entries"):
        make_rule("dtp", make_net("small-cnn", (3, 32, 32), 10, {}), torch.Generator(), {})
