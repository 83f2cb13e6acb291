"""Feedback in place of transposes: with B = W every rule is backprop; what cannot be replaced for sure is refused."""

import doctest
import math
import subprocess
import sys
import time
from pathlib import Path

import pytest
import torch
from torch import nn
from torch.nn import functional as F
from torch.utils.checkpoint import checkpoint

from conftest import small_plan
from test_nets_each import SMALL, batch, build, every_net
from walkback.errors import BadValue
from walkback.nets import Net, make_net
from walkback.probes import observe
from walkback.probes.update import rule_updates, true_gradients
from walkback.rules import Batch, make_rule
from walkback.train import plan, train
from walkback.train.trainer import AdamW, Trainer

FAMILY = ["fa-layer", "usf", "frsf", "brsf", "kp", "mirror"]
each_rule = pytest.mark.parametrize("kind", FAMILY)


def seeded(seed=1):
    return torch.Generator().manual_seed(seed)


def made(kind, net, seed=1, **options):
    return make_rule(kind, net, seeded(seed), options)


def as_backprop(rule):
    """The same rule with its feedback set to the weights."""
    rule.stand_ins = lambda net, generator: rule.weights(net)
    return rule


def gradients(net):
    found = {key: p.grad.clone() for key, p in net.named_parameters() if p.grad is not None}
    net.zero_grad()
    return found


def autograd(net, here):
    F.cross_entropy(net(here.inputs), here.labels).backward()
    return gradients(net)


# B = W.


@pytest.mark.parametrize(
    ("name", "kind"), [*((name, "fa-layer") for name in SMALL), *(("resmlp", kind) for kind in FAMILY[1:])]
)
def test_second_implementation_with_the_weights_as_feedback_every_rule_is_backprop(name, kind):
    """Rules differ in their feedback alone, which is replaced here: every net by one of them, every rule on one net."""
    net, here = build(name, dtype=torch.float64), batch(name, dtype=torch.float64)
    rule = made(kind, net)
    rule.backward(net, here)
    own = gradients(net)
    truth = autograd(net, here)
    lowest = next(key for key, p in net.named_parameters() if p.dim() > 1 and key not in rule.fed)
    assert not torch.allclose(own[lowest], truth[lowest], rtol=1e-3, atol=0), "with its own feedback it is not"
    as_backprop(rule).backward(net, here)
    for key, gradient in gradients(net).items():
        assert truth[key].abs().max() > 0
        torch.testing.assert_close(gradient, truth[key], rtol=1e-6, atol=1e-12)


@every_net
def test_second_implementation_its_credits_are_then_the_true_gradients_and_the_readout_may_be_exact(name):
    net, here = build(name), batch(name)
    for options in ({}, {"readout": "exact"}):
        rule = made("fa-layer", net, **options)
        heads = [key for key in rule.fed if key.startswith("readout")]
        assert len(heads) == (0 if options else 1)
        seen = observe(net, rule, here.inputs, here.labels, seeded())
        top = torch.cosine_similarity(seen.credits.blocks[-1], seen.gradients[-1])
        assert (bool((top > 0.9999).all())) == bool(options)
        seen = observe(net, as_backprop(rule), here.inputs, here.labels, seeded())
        for credit, gradient in zip(seen.credits.blocks, seen.gradients[1:], strict=True):
            torch.testing.assert_close(credit, gradient, rtol=1e-5, atol=1e-8)


def test_the_lowest_weights_and_no_others_have_no_feedback():
    expected = {"resmlp": "embed.1.weight", "mlp": "blocks.0.0.weight", "small-resnet": "embed.weight"}
    for name, lowest in expected.items():
        net = build(name)
        matrices = {key for key, p in net.named_parameters() if p.dim() > 1}
        assert matrices - set(made("usf", net).fed) == {lowest}


# The closed form.


class Linear2(Net):
    """y = W2 W1 W0 x."""

    residual = False

    def __init__(self, shape, classes):
        super().__init__(shape, classes)
        self.embed = nn.Linear(shape[0], 5, bias=False)
        self.blocks = nn.ModuleList([nn.Linear(5, 6, bias=False)])
        self.readout = nn.Linear(6, classes, bias=False)


@pytest.mark.parametrize("kind", ["fa-layer", "usf", "frsf", "kp"])
def test_closed_form_linear_net(kind):
    """∂W2 = eᵀh1, ∂W1 = (e B2)ᵀ h0, ∂W0 = (e B2 B1)ᵀ x, over N."""
    torch.manual_seed(0)
    net = Linear2((4,), 3).double()
    here = Batch(torch.randn(7, 4).double(), torch.randint(3, (7,)), seeded())
    rule = made(kind, net)
    w1, w2 = net.blocks[0].weight.detach(), net.readout.weight.detach()
    if kind == "usf":
        b1, b2 = w1.sign() / math.sqrt(5), w2.sign() / math.sqrt(6)
    elif kind == "frsf":
        b1, b2 = (w.sign() * rule.M[n] for w, n in ((w1, "blocks.0.weight"), (w2, "readout.weight")))
        assert all((rule.M[n] > 0).all() for n in rule.fed)
    else:
        b1, b2 = rule.B["blocks.0.weight"].detach(), rule.B["readout.weight"].detach()
        assert float(b1.std()) == pytest.approx(float(w1.std()), rel=0.5)
    rule.backward(net, here)
    with torch.no_grad():
        h0 = here.inputs @ net.embed.weight.T
        h1 = h0 @ w1.T
        e = ((h1 @ w2.T).softmax(1) - F.one_hot(here.labels, 3)) / 7
        for weight, expected in (
            (net.readout.weight, e.T @ h1),
            (net.blocks[0].weight, (e @ b2).T @ h0),
            (net.embed.weight, (e @ b2 @ b1).T @ here.inputs),
        ):
            assert expected.abs().max() > 0
            torch.testing.assert_close(weight.grad, expected, rtol=1e-9, atol=1e-12)


def test_property_brsf_is_fresh_for_every_batch_and_fresh_feedback_is_another():
    net, here = build("resmlp"), batch("resmlp")
    rule, other = made("brsf", net, 1), made("brsf", net, 2)
    one, again, next_one = (rule.stand_ins(net, seeded(s))["blocks.1.up.weight"] for s in (4, 4, 5))
    assert torch.equal(one, again)
    assert not torch.equal(one.abs(), next_one.abs())
    assert torch.equal(one.sign(), net.blocks[1].up.weight.sign())
    assert float(one.square().mean()) == pytest.approx(1 / 12, rel=0.3)
    assert not torch.equal(rule_updates(net, rule, here)[0], rule_updates(net, other, batch("resmlp"))[0])


# Learned feedback.


def gap(net, rule):
    weights = dict(net.named_parameters())
    return math.sqrt(sum(float((weights[n] - rule.B[n]).detach().square().sum()) for n in rule.fed))


@pytest.mark.parametrize("decay", [0.0, 2.0])
@pytest.mark.parametrize("optimizer", ["sgd", "ours"])
def test_closed_form_kp_the_gap_shrinks_by_the_decay_alone(decay, optimizer):
    """‖W − B‖ after t steps is (1 − lr·λ)^t of what it was, by plain SGD and by our AdamW; without decay all of it."""
    net, here = build("resmlp", dtype=torch.float64), batch("resmlp", dtype=torch.float64)
    rule = made("kp", net)
    before, lr, steps = gap(net, rule), 5e-2, 40
    start = net.blocks[1].up.weight.detach().clone()
    both = {**dict(net.named_parameters()), **{f"rule.{k}": p for k, p in rule.named_parameters()}}
    ours = AdamW(both, decay)
    for _ in range(steps):
        ours.zero_grad()
        rule.backward(net, here)
        if optimizer == "ours":
            ours.step(lr)
        else:
            with torch.no_grad():
                for p in both.values():
                    p -= lr * (p.grad + decay * p)
    assert gap(net, rule) / before == pytest.approx((1 - lr * decay) ** steps, rel=1e-6)
    assert float((net.blocks[1].up.weight.detach() - start).norm() / start.norm()) > 0.01


def angle(a, b):
    return math.degrees(math.acos(float((a * b).sum() / (a.norm() * b.norm()))))


def test_property_mirror_learns_the_weights_of_a_fixed_net_and_stays_of_their_size():
    torch.manual_seed(0)
    for net in (make_net("resmlp", (20,), 4, {"width": 64, "depth": 2}), build("small-cnn")):
        rule = made("mirror", net)
        weights = rule.weights(net)
        assert all(angle(rule.B[n], w) > 60 for n, w in weights.items())
        for _ in range(150):
            rule.after_step(net)
        for name, w in weights.items():
            assert angle(rule.B[name], w) < 20, name
            assert float(rule.B[name].norm() / w.norm()) == pytest.approx(1, abs=0.1)
        fan, rate, samples = 64, 0.01, 32
        if net.residual:  # the cosine that the docstring promises
            expected = 1 / math.sqrt(1 + fan * rate / (2 * samples))
            assert math.cos(math.radians(angle(rule.B["blocks.0.up.weight"], weights["blocks.0.up.weight"]))) > (
                expected - 0.02
            )


@each_rule
def test_property_probes_move_nothing_and_a_frozen_net_is_measured(kind):
    net, here = build("resmlp"), batch("resmlp")
    rule = made(kind, net)
    net.blocks[0].requires_grad_(False)
    before = {k: v.clone() for k, v in rule.state_dict().items()}
    updates = rule_updates(net, rule, here)
    observe(net, rule, here.inputs, here.labels, seeded())
    truth = true_gradients(net, here)
    assert all(u is not None and g is not None and u.abs().max() > 0 for u, g in zip(updates, truth, strict=True))
    assert all(torch.equal(before[k], v) for k, v in rule.state_dict().items())
    rule.backward(net, here)  # through the frozen block, to the embedding, by feedback
    frozen = net.embed[1].weight.grad.clone()
    net.zero_grad()
    as_backprop(rule).backward(net, here)
    assert not torch.allclose(frozen, net.embed[1].weight.grad, rtol=1e-3)
    assert net.blocks[0].up.weight.grad is None


@each_rule
def test_fresh_feedback_is_of_the_size_that_the_trained_rules_was(kind):
    (config,) = small_plan(rules=[kind], epochs=1)
    from walkback.data import load

    trainer = Trainer(config, load("mnist1d"))
    with torch.no_grad():
        for p in trainer.net.parameters():
            p.mul_(10)
    fresh = trainer.fresh_rule(0)
    if kind in ("fa-layer", "kp", "mirror"):
        for name in trainer.rule.fed:
            assert float(fresh.B[name].std()) == pytest.approx(float(trainer.rule.B[name].std()), rel=0.35)
    else:  # with the signs of the weights, redrawn feedback would be no null
        assert all(torch.equal(v, fresh.state_dict()[k]) for k, v in trainer.rule.state_dict().items())


# A run.


EXACT = {"readout": "exact"}


@pytest.mark.parametrize(
    ("kind", "options", "drawn"),
    [("fa-layer", {}, True), ("fa-layer", EXACT, False), ("usf", {}, False), ("frsf", {}, False), ("brsf", {}, False),
     ("kp", {}, True), ("mirror", {}, True)],
)  # fmt: skip
def test_a_run_is_recorded_with_nulls_that_know_nothing_of_the_net(kind, options, drawn, out):
    """What the audit's control asks: fresh feedback centres on zero; where it could not, there is none."""
    (config,) = small_plan(rules=[kind], rule_options=options, epochs=1, probe_images=100)
    run = train(config, out)
    assert run.result.status == "finished"
    update = run.probes.measured["update"]
    assert all(r.status == "ok" and -1 <= r.value < 0.9999 for r in update)
    assert {r.null.kind for r in update} == {"fresh feedback" if drawn else "random signs"}
    nulls = [n for n in run.probes.null if n.kind == "fresh feedback"]
    assert len(nulls) == (3 if drawn else 0)
    assert all(abs(n.mean) <= 1.5 * n.std for n in nulls)


RESUME = """
import sys
sys.path.insert(0, sys.argv[2])
import conftest
from test_rules_layerwise import LEARNED, long_plan
from walkback.train import plan, train
for config in long_plan():
    train(config, sys.argv[1], checkpoint_every=0.0)
"""
LEARNED = ["kp", "mirror", "brsf"]


def long_plan():
    return small_plan(rules=LEARNED, epochs=2, probe_images=50, net_options={"width": 12, "depth": 2})


def test_property_killed_runs_resume_to_the_same_bits(tmp_path):
    """Killed in the middle of the second rule's run: the first is done, the third has not begun."""
    whole, parts = tmp_path / "whole", tmp_path / "parts"
    tests = str(Path(__file__).parents[1])
    process = subprocess.Popen([sys.executable, "-c", RESUME, str(parts), tests])
    for config in long_plan():
        train(config, whole)
    deadline = time.monotonic() + 120
    while not list(parts.glob("*mirror*/checkpoint.safetensors")) and time.monotonic() < deadline:
        time.sleep(0.002)
    process.kill()
    process.wait()
    assert not list(parts.glob("*mirror*/result.json")), "it ended before it could be killed"
    for config in long_plan():
        train(config, parts)
    for name in ("snapshots.jsonl", "checkpoint.safetensors", "probes.json", "result.json"):
        files = [sorted(place.glob(f"*/{name}")) for place in (whole, parts)]
        assert len(files[0]) == 3
        assert [f.read_bytes() for f in files[0]] == [f.read_bytes() for f in files[1]]


# Nets that would fool it.


class Foreign(Net):
    """A plain net whose block is handed in; x → 6 → block → classes."""

    residual = False

    def __init__(self, block, shape=(5,), classes=3):
        super().__init__(shape, classes)
        self.embed = nn.Linear(shape[0], 6)
        self.blocks = nn.ModuleList([block])
        self.readout = nn.Linear(6, classes)


class Weighted(nn.Module):
    """A block of one weight and a function of it."""

    def __init__(self, use, size=(6, 6)):
        super().__init__()
        self.weight = nn.Parameter(torch.randn(size, generator=seeded(3)))
        self.use = use

    def forward(self, h):
        return self.use(h, self.weight)


HANDLED = {
    "functional": lambda h, w: F.linear(h, w),
    "matmul": lambda h, w: torch.matmul(h, w),
    "twice": lambda h, w: F.linear(torch.relu(F.linear(h, w)), w),
    "einsum": lambda h, w: torch.einsum("nd,od->no", h, w),
    "a view": lambda h, w: F.linear(h, w.view(36).view(6, 6)),
    "halves": lambda h, w: torch.cat([F.linear(h, part) for part in w.chunk(2)], 1),
    "addmm": lambda h, w: torch.addmm(torch.zeros(6), h, w),
    "by sample": lambda h, w: torch.bmm(h[:, None], w.expand(len(h), 6, 6))[:, 0],
    "transposed": lambda h, w: (w @ h.T).T,
    "detached": lambda h, w: F.linear(h, w.detach()),
    "in place": lambda h, w: F.linear(h, w).relu_(),
}
REFUSED = {
    "masked": lambda h, w: F.linear(h, w * torch.eye(6)),
    "noisy": lambda h, w: F.linear(h, w + 0.1),
    "by hand": lambda h, w: (h[:, None, :] * w).sum(2),
    "normalised": lambda h, w: F.linear(h, F.normalize(w)),
    "product": lambda h, w: F.linear(h, w @ w),
    "mixed with a constant": lambda h, w: F.linear(h, torch.ones(6, 6) @ w),
    "copied": lambda h, w: F.linear(h, w.t().contiguous().t().clone()),
    "masked, by sample": lambda h, w: torch.bmm(h[:, None], (w + 0.0).expand(len(h), 6, 6))[:, 0],
    "detached and masked": lambda h, w: F.linear(h, (w * 2).detach()),
    "half precision": lambda h, w: F.linear(h.bfloat16(), w.bfloat16()).float(),
}


@pytest.mark.parametrize("use", HANDLED.values(), ids=HANDLED)
def test_planted_uses_of_a_weight_that_are_replaced(use):
    net = Foreign(Weighted(use))
    here = Batch(torch.randn(4, 5, generator=seeded()), torch.tensor([0, 1, 2, 0]), seeded())
    truth = autograd(net, here)
    zero = made("usf", net)
    zero.stand_ins = lambda net, generator: {n: torch.zeros_like(w) for n, w in zero.weights(net).items()}
    zero.backward(net, here)
    assert truth["embed.weight"].abs().max() > 0
    assert net.embed.weight.grad.abs().max() == 0, "with feedback of zero nothing may reach the embedding"
    net.zero_grad()
    as_backprop(made("usf", net)).backward(net, here)
    torch.testing.assert_close(net.embed.weight.grad, truth["embed.weight"], rtol=1e-5, atol=1e-8)


@pytest.mark.parametrize("use", REFUSED.values(), ids=REFUSED)
def test_planted_uses_of_a_weight_that_are_refused(use):
    with pytest.raises(BadValue) as caught:
        made("fa-layer", Foreign(Weighted(use)))
    assert caught.value.remedy


class Doubled(torch.autograd.Function):
    """A product with a backward pass of its own, which keeps W where nobody sees it."""

    @staticmethod
    def forward(ctx, x, w):
        ctx.w, ctx.x = w, x
        return x @ w.T

    @staticmethod
    def backward(ctx, g):
        return g @ ctx.w, g.T @ ctx.x


def test_planted_a_backward_pass_of_its_own_is_refused():
    with pytest.raises(BadValue, match="Doubled"):
        made("usf", Foreign(Weighted(lambda h, w: Doubled.apply(h, w))))


class OnlyInTraining(nn.Module):
    """In evaluation F.linear(h, w); in training something else."""

    def __init__(self, use):
        super().__init__()
        self.weight = nn.Parameter(torch.randn(6, 6, generator=seeded(3)))
        self.use = use

    def forward(self, h):
        return self.use(h, self.weight) if self.training else F.linear(h, self.weight)


@pytest.mark.parametrize(
    "use",
    [
        lambda h, w: F.linear(h, w * 1.0),
        lambda h, w: F.linear(h.detach(), w),
        lambda h, w: checkpoint(F.linear, h, w, use_reentrant=False),
        lambda h, w: F.linear(F.linear(h, w), w),
    ],
    ids=["derived", "detached", "checkpointed", "twice"],
)
def test_planted_a_net_that_goes_another_way_in_training_is_found_out_in_the_step(use):
    net = Foreign(OnlyInTraining(use))
    rule = made("usf", net)
    here = Batch(torch.randn(4, 5, generator=seeded()), torch.tensor([0, 1, 2, 0]), seeded())
    with pytest.raises(BadValue) as caught:
        rule.backward(net.train(), here)
    assert caught.value.remedy


class Words(Net):
    """Tokens, an embedding that is tied to the readout, nn.MultiheadAttention."""

    reduction = "mean"

    def __init__(self, shape=(4,), classes=7, tied=True):
        super().__init__(shape, classes)

        class Tokens(nn.Module):
            def __init__(self):
                super().__init__()
                self.table = nn.Embedding(classes, 8)
                self.position = nn.Parameter(torch.randn(shape[0], 8) / 8)

            def forward(self, x):
                return self.table(x.long()) + self.position

        class Attend(nn.Module):
            def __init__(self):
                super().__init__()
                self.norm, self.attend = nn.LayerNorm(8), nn.MultiheadAttention(8, 2, batch_first=True)
                self.scale = nn.Parameter(torch.ones(8))

            def forward(self, h):
                n = self.norm(h)
                return self.attend(n, n, n)[0] * self.scale

        class Readout(nn.Module):
            def __init__(self, table):
                super().__init__()
                self.head = nn.Linear(8, classes)
                if tied:
                    self.head.weight = table.weight

            def forward(self, h):
                return self.head(h.mean(1))

        self.embed = Tokens()
        self.blocks = nn.ModuleList([Attend(), Attend()])
        self.readout = Readout(self.embed.table)


@pytest.mark.parametrize(("kind", "tied"), [*((kind, True) for kind in FAMILY), ("usf", False)])
def test_embeddings_attention_and_tied_weights(kind, tied):
    torch.manual_seed(0)
    net = Words(tied=tied)
    here = Batch(torch.randint(7, (5, 4)).float(), torch.randint(7, (5,)), seeded())
    rule = made(kind, net)
    assert {n for n in rule.fed if "attend" in n} == {
        f"blocks.{i}.attend.{w}" for i in (0, 1) for w in ("in_proj_weight", "out_proj.weight")
    }
    assert ("embed.table.weight" if tied else "readout.head.weight") in rule.fed
    truth = autograd(net, here)
    as_backprop(rule).backward(net, here)
    for key, gradient in gradients(net).items():
        torch.testing.assert_close(gradient, truth[key], rtol=1e-4, atol=1e-7)


def test_error_a_rule_for_another_net():
    small, large = (make_net("resmlp", (5,), 3, {"width": w, "depth": 2}) for w in (6, 7))
    here = Batch(torch.randn(4, 5), torch.tensor([0, 1, 2, 0]), seeded())
    with pytest.raises(BadValue, match="shape"):
        made("fa-layer", small).backward(large, here)
    with pytest.raises(BadValue, match="no weights"):
        made("fa-layer", small).backward(make_net("resmlp", (5,), 3, {"width": 6, "depth": 1}), here)


def test_examples_in_the_docstrings():
    from walkback.probes import step_cost, transport
    from walkback.rules import brsf, layerwise

    for module in (brsf, layerwise, step_cost, transport):
        found = doctest.testmod(module)
        assert found.attempted > 0
        assert found.failed == 0


# A published figure, reported and not tuned.

AKROUT = {"fa-layer": 34.9, "kp": 3.1, "mirror": 3.2}
"""Degrees between δ and backprop's at the end: 784-500-10, MNIST, 400 epochs of SGD, one seed (Akrout et al. 2019)."""


@pytest.mark.slow
def test_published_number_angles_of_delta_on_mnist(tmp_path):
    """Ten epochs of our AdamW with defaults: other figures are expected; their order is what should be the same."""
    found = {}
    for rule in AKROUT:
        (config,) = plan(data="mnist", net="mlp", rules=[rule], epochs=10, net_options={"widths": [500]})
        last = train(config, tmp_path).snapshots[-1]
        found[rule] = math.degrees(math.acos(last.cosine_out[0].value))
        print(f"{rule}: {found[rule]:.1f}° (published {AKROUT[rule]}°), accuracy {last.accuracy:.4f}")
    assert found["fa-layer"] < 80
    assert found["mirror"] < found["fa-layer"]
    assert found["kp"] < found["fa-layer"]
