"""State Bridge and Credit Bridge: their credits by hand, what learns and when; and what they and `ep` promise."""

import pytest
import torch
from torch import nn
from torch.nn import functional as F

from conftest import small_plan
from walkback.data import load
from walkback.errors import BadValue
from walkback.nets import Net, make_net
from walkback.probes import observe
from walkback.probes.observe import one_pass
from walkback.rules import Batch, Clock, make_rule, output_error, probe_signal
from walkback.rules.cb import mismatch, softmin
from walkback.train import Trainer

LATE = Clock(90, 100, 9, 10)
NEW = ["ep", "sb", "cb"]


def case(net="resmlp", shape=(6,), count=5, **options):
    torch.manual_seed(4)
    made = make_net(net, shape, 3, {"width": 8, "depth": 3} | options)
    return made, torch.randn(count, *shape), torch.arange(count) % 3


def rule_of(name, net, seed=1, **options):
    return make_rule(name, net, torch.Generator().manual_seed(seed), options)


def look(net, rule, inputs, labels, clock=LATE):
    return observe(net, rule, inputs, labels, torch.Generator().manual_seed(0), clock)


def one_signal(net, inputs, labels, clock=LATE):
    """What a rule sees of a batch."""
    seen = one_pass(net, inputs, labels)
    batch = Batch(inputs, labels, torch.Generator().manual_seed(0), clock)
    return probe_signal(net, batch, seen.logits, seen.states, seen.gradients)


def by_hand(auxiliary, h, t, error):
    """The auxiliary net on one row of one state, from its weights alone."""
    centred = (h - h.mean()) / torch.sqrt(((h - h.mean()) ** 2).mean() + 1e-5)
    waves = torch.stack([f(torch.tensor(torch.pi / 2 * 2**k * t)) for k in range(8) for f in (torch.sin, torch.cos)])
    x = torch.cat([centred, waves.float(), error])
    weights = [*auxiliary.inlets[str(len(h))].parameters(), *auxiliary.trunk.parameters()]
    for place in range(0, 6, 2):
        x = weights[place] @ x + weights[place + 1]
        x = F.gelu(x) if place < 4 else x
    return x


@pytest.mark.parametrize("skip", [True, False])
@pytest.mark.parametrize("name", ["sb", "cb"])
def test_second_implementation_credits_one_sample_and_one_state_at_a_time(name, skip):
    net, inputs, labels = case(skip=skip, down_std=0.3)
    rule = rule_of(name, net, hidden=16, normalize="none")
    seen = look(net, rule, inputs, labels)
    shift = 0 if skip else 1  # a plain net's credits are taken at the blocks' outputs
    places = {block: block + shift for block in range(3)} | ({} if skip else {"embed": 0})
    for sample in range(len(labels)):
        states = [h[sample] for h in seen.hidden]
        error = output_error(net.readout(seen.hidden[-1]), labels)[sample]
        for where, layer in places.items():
            h = states[layer].clone().requires_grad_()
            if name == "sb":
                logits = net.readout(by_hand(rule.G, h, layer / 3, error))
                value = -torch.log_softmax(logits, -1)[labels[sample]]
            else:
                value = by_hand(rule.V, h, layer / 3, error)[0]
            (expected,) = torch.autograd.grad(value, h)
            found = seen.embed_credit if where == "embed" else seen.credits.blocks[where]
            assert expected.abs().max() > 1e-5
            torch.testing.assert_close(found[sample], expected, rtol=1e-3, atol=1e-6)


def test_planted_predictor_that_is_exact_gives_the_gradient_of_the_last_state():
    """A net whose blocks add nothing, and a G that gives back h_L: then SB's credit is the loss's own gradient."""
    net, inputs, labels = case(width=8)
    with torch.no_grad():
        for block in net.blocks:
            block.down.weight.zero_()

    class Exact(nn.Module):
        def forward(self, rows, times, condition):
            return torch.stack(list(rows))

    rule = rule_of("sb", net, normalize="none")
    rule.G = Exact()
    seen = look(net, rule, inputs, labels)
    for credit, gradient in zip(seen.credits.blocks, seen.gradients, strict=False):
        assert gradient.abs().max() > 1e-3
        torch.testing.assert_close(credit, gradient)


def learn(rule, losses, steps, lr=3e-3):
    optimizer = torch.optim.Adam(rule.parameters(), lr=lr)
    for _ in range(steps):
        optimizer.zero_grad()
        losses().backward()
        optimizer.step()


def test_property_sb_learns_to_predict_the_last_state():
    net, inputs, labels = case(count=40)
    rule = rule_of("sb", net, hidden=64)
    losses = []

    def loss():
        found = rule(one_signal(net, inputs, labels)).loss
        losses.append(float(found.detach()))
        return found

    learn(rule, loss, 150)
    assert losses[0] > 0.5
    assert losses[-1] < 0.05


def test_property_gradient_matching_alone_turns_the_slope_of_v_to_the_gradient():
    net, inputs, labels = case(count=40)
    rule, signal = rule_of("cb", net, hidden=64), one_signal(net, inputs, labels)

    def slope(graph):
        top = signal.hidden[-1].detach().requires_grad_()
        value = rule.V([top], [1.0], signal.error)
        return torch.autograd.grad(value.sum(), top, create_graph=graph)[0]

    before = F.cosine_similarity(slope(False), signal.top).mean()
    learn(rule.V, lambda: mismatch(slope(True), signal.top), 200)
    after = F.cosine_similarity(slope(False), signal.top).mean()
    assert before < 0.5
    assert after > 0.9


def test_closed_form_softmin_and_mismatch():
    values = torch.tensor([[1.0, 3.0], [1.0, 5.0]], dtype=torch.double)
    e = torch.exp
    expected = torch.stack([values[0, 0], -0.5 * torch.log((e(-values[0, 1] / 0.5) + e(-values[1, 1] / 0.5)) / 2)])
    torch.testing.assert_close(softmin(values, 0.5, 0), expected)
    gradient = torch.randn(4, 6) * 1e-8
    assert float(mismatch(3 * gradient, gradient)) == pytest.approx(4.0, rel=1e-5)
    assert mismatch(torch.ones(4, 6), torch.zeros(4, 6)).isfinite()


def test_second_implementation_cb_loss_by_hand():
    net, inputs, labels = case()
    rule = rule_of("cb", net, hidden=16, sigma=0.0, tau=0.3, draws=3)
    signal = one_signal(net, inputs, labels)
    with torch.no_grad():  # the average is a net of its own
        for tensor in rule.average.buffers():
            tensor.add_(0.05 * torch.randn_like(tensor))
    average = make_rule("cb", net, torch.Generator(), {"hidden": 16}).V
    average.load_state_dict(rule.average.state_dict())
    total = 0.0
    per_sample = F.cross_entropy(net.readout(signal.hidden[-1]), labels, reduction="none")
    apart, size = 0.0, 0.0
    for i in range(5):
        error = signal.error[i]
        for layer in range(3):
            v = by_hand(rule.V, signal.hidden[layer][i], layer / 3, error)[0]
            target = by_hand(average, signal.hidden[layer + 1][i], (layer + 1) / 3, error)[0]
            total += float((v - target).detach()) ** 2 / 15
        h = signal.hidden[-1][i].clone().requires_grad_()
        last = by_hand(rule.V, h, 1.0, error)[0]
        total += float((last - per_sample[i]).detach()) ** 2 / 5
        (slope,) = torch.autograd.grad(last, h)
        apart += float((slope - signal.top[i]).square().sum())
        size += float(signal.top[i].square().sum())
    assert float(rule(signal).loss) == pytest.approx(total + apart / size, rel=1e-4)


def test_property_only_the_auxiliary_loss_trains_it_and_nothing_of_it_trains_the_net():
    """The readout's gradient is the loss's own, to the bit; G's is that of its loss alone."""
    net, inputs, labels = case()
    batch = Batch(inputs, labels, torch.Generator().manual_seed(0), LATE)
    F.cross_entropy(net.readout(net.unroll(net.embed(inputs))[0][-1].detach()), labels).backward()
    own = [p.grad.clone() for p in net.readout.parameters()]
    for name in ("sb", "cb"):
        rule = rule_of(name, net, hidden=16)
        net.zero_grad(set_to_none=True)
        rule.backward(net, batch)
        found = [p.grad for p in net.readout.parameters()]
        assert all(torch.equal(a, b) for a, b in zip(found, own, strict=True)), name
        learned = [p.grad.clone() for p in rule.parameters()]
        signal = one_signal(net, inputs, labels)
        expected = torch.autograd.grad(rule(signal).loss, list(rule.parameters()), allow_unused=True)
        for a, b in zip(learned, expected, strict=True):
            assert b is not None
            torch.testing.assert_close(a, b, rtol=1e-4, atol=1e-6)


def test_closed_form_moving_average_moves_after_a_step_and_is_not_trained():
    net, _, _ = case()
    rule = rule_of("cb", net, hidden=16, ema=0.75)
    assert not any(name.startswith("average") for name, _ in rule.named_parameters())
    start = {k: v.clone() for k, v in rule.average.state_dict().items()}
    assert all(torch.equal(v, rule.V.state_dict()[k]) for k, v in start.items())
    with torch.no_grad():
        for parameter in rule.V.parameters():
            parameter.add_(1.0)
    rule.after_step(net)
    for name, value in rule.average.state_dict().items():
        torch.testing.assert_close(value, start[name] + 0.25)


def test_property_warm_up_is_dfa_to_the_bit_and_the_snapshot_says_which(tmp_path):
    both = small_plan(data="digits", rules=["cb", "dfa"], epochs=4, rule_options={})
    digits = load("digits")
    cb, dfa = (Trainer(config, digits) for config in both)
    for trainer in (cb, dfa):
        trainer.total_steps *= 10  # one epoch of 40: well inside the warm-up
        trainer.one_epoch(lambda: None)
    assert all(torch.equal(v, dfa.net.state_dict()[k]) for k, v in cb.net.state_dict().items())
    assert not torch.equal(cb.rule.V.trunk[1].weight, Trainer(both[0], digits).rule.V.trunk[1].weight)  # V has learned
    assert cb.snapshot().credit == "dfa warm-up"
    cb.step = int(0.2 * cb.total_steps)
    assert cb.snapshot().credit == "value"
    assert dfa.snapshot().credit is None


class Funnel(Net):
    """A plain net whose widths differ."""

    def __init__(self):
        super().__init__((6,), 3)
        self.residual = False
        self.embed = nn.Flatten()
        self.blocks = nn.ModuleList([nn.Linear(6, 9), nn.Linear(9, 4)])
        self.readout = nn.Linear(4, 3)


class Maps(Net):
    """Its readout reads the whole feature map."""

    reduction = "mean"

    def __init__(self):
        super().__init__((2, 4, 4), 3)
        self.embed = nn.Conv2d(2, 3, 3, padding=1)
        self.blocks = nn.ModuleList(nn.Conv2d(3, 3, 3, padding=1) for _ in range(2))
        self.readout = nn.Sequential(nn.Flatten(), nn.Linear(48, 3))


@pytest.mark.parametrize("name", NEW)
def test_property_widths_that_differ_and_an_embedding_without_parameters(name):
    torch.manual_seed(0)
    net, inputs, labels = Funnel(), torch.randn(5, 6), torch.arange(5) % 3
    rule = rule_of(name, net, **({} if name == "ep" else {"hidden": 16}))
    seen = look(net, rule, inputs, labels)
    assert [a.shape for a in seen.credits.blocks] == [(5, 9), (5, 4)]
    rule.backward(net, Batch(inputs, labels, torch.Generator(), LATE))
    assert all(p.grad.abs().max() > 0 for p in net.parameters() if p.dim() > 1)
    if name != "ep":
        inlets = (rule.G if name == "sb" else rule.V).inlets
        assert sorted(map(int, inlets)) == ([4, 9] if name == "sb" else [4, 6, 9])


def test_error_sb_refuses_a_readout_that_needs_more_than_one_row_and_the_others_train_it():
    torch.manual_seed(0)
    net, inputs, labels = Maps(), torch.randn(5, 2, 4, 4), torch.arange(5) % 3
    with pytest.raises(BadValue, match="reads more than one row"):
        rule_of("sb", net)
    for name in ("ep", "cb"):
        rule_of(name, net).backward(net, Batch(inputs, labels, torch.Generator().manual_seed(0), LATE))
        assert all(p.grad.isfinite().all() for p in net.parameters())


@pytest.mark.parametrize("name", ["sb", "cb"])
def test_property_conditioned_on_the_gradient_instead(name):
    net, inputs, labels = case()
    seen = look(net, rule_of(name, net, condition="top"), inputs, labels)
    assert all(a.isfinite().all() and a.abs().max() > 0 for a in seen.credits.blocks)
