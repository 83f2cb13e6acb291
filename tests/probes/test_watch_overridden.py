"""Backward passes as libraries of feedback alignment override them, in small modules of our own with the same hazards.

Oracles: finite differences taken here by hand, and the same training without the watch.
"""

import math
import warnings

import pytest
import torch
from torch import nn
from torch.nn import functional as F

import walkback as wb
from strangers import Feedback
from walkback.audits.alarms import WatchWarning
from walkback.probes.update import REPLACED
from walkback.records.readers.watch_log import UPDATE
from watched_loops import PROBE, Net, X, Y, train

WIDTH, CLASSES = 10, 3


class Aligned(nn.Module):
    """A linear layer with feedback weights: fixed, or drawn anew in every forward pass and put into the module."""

    def __init__(self, inputs, outputs, redrawn=False):
        super().__init__()
        self.weight = nn.Parameter(torch.randn(outputs, inputs) / inputs**0.5)
        self.feedback = nn.Parameter(torch.randn(outputs, inputs) / inputs**0.5, requires_grad=False)
        self.redrawn = redrawn

    def forward(self, x):
        if self.redrawn:
            fresh = torch.rand_like(self.weight).abs() * self.weight.detach().sign()
            self.feedback = nn.Parameter(fresh, requires_grad=False)
        return Feedback.apply(x, self.weight, self.feedback)


class Direct(nn.Linear):
    """What leaves it in the backward pass is replaced by a hook: the output's error through a fixed matrix."""

    def __init__(self, inputs, outputs):
        super().__init__(inputs, outputs)
        self.error, self.matrix = None, nn.Parameter(torch.randn(CLASSES, inputs), requires_grad=False)
        self.register_full_backward_hook(self.instead)

    @staticmethod
    def instead(module, given, arrived):
        return (module.error.mm(module.matrix),) if given[0] is not None else None


class DirectNet(nn.Module):
    """Prepares the error in its forward pass, and only when it trains; then it needs the targets."""

    def __init__(self):
        super().__init__()
        sizes = [(6, WIDTH), (WIDTH, WIDTH), (WIDTH, WIDTH)]
        self.inside = nn.Sequential(*(nn.Sequential(Direct(a, b), nn.Tanh()) for a, b in sizes), Direct(WIDTH, CLASSES))

    def forward(self, x, targets=None, loss_function=None):
        output = self.inside(x)
        if self.inside.training:
            if targets is None:
                raise ValueError("targets are missing")
            (error,) = torch.autograd.grad(loss_function(output, targets), output, retain_graph=True)
            for layer in self.inside.modules():
                layer.error = error
        return output


def feedback_net(redrawn=False):
    torch.manual_seed(0)
    sizes = [(6, WIDTH), (WIDTH, WIDTH), (WIDTH, WIDTH)]
    blocks = [nn.Sequential(Aligned(a, b, redrawn), nn.Tanh()) for a, b in sizes]
    return nn.Sequential(*blocks, Aligned(WIDTH, CLASSES, redrawn))


def direct_net():
    torch.manual_seed(0)
    return DirectNet()


BLOCKS = ["0", "1", "2"]
DIRECT = ["inside.0", "inside.1", "inside.2"]
WITH_TARGETS = ({"x": PROBE[0], "targets": PROBE[1], "loss_function": F.cross_entropy}, PROBE[1])


def loss_of(model, x, y):
    return F.cross_entropy(model(x, y, F.cross_entropy) if isinstance(model, DirectNet) else model(x), y)


def run(model, blocks, probe, watching=True, steps=3, batch=16, **options):
    """A plain loop; the watch, and the weights and random numbers at the end."""
    torch.manual_seed(4)
    watch = wb.watch(model, blocks, probe=probe, every=1, show=False, residual=False, **options) if watching else None
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", WatchWarning)
        train(model, watch, steps, loss_of, batch)
    return watch, [*(p.detach().clone() for p in model.parameters()), torch.rand(2)]


def slopes(losses, moves):
    """∂ℓ_i/∂t along each of these moves of a number t, by central differences, (N, moves); `losses` of a number."""
    with torch.no_grad():
        return torch.stack([(losses(move, 1e-6) - losses(move, -1e-6)) / 2e-6 for move in moves], 1)


def true_gradient(model, block, probe):
    """∂(each sample's loss)/∂(output of a block), by central differences in float64, one dimension at a time."""
    twin = model.double().eval()
    by = []

    def losses(unit, size):
        by[:] = [size * unit]
        return F.cross_entropy(twin(probe[0].double()), probe[1], reduction="none")

    part = dict(twin.named_modules())[block]
    part.register_forward_hook(lambda block, given, output: output + by[0])
    return slopes(losses, torch.eye(WIDTH, dtype=torch.float64))


KINDS = {"fixed": (feedback_net, BLOCKS, PROBE), "direct": (direct_net, DIRECT, WITH_TARGETS)}


@pytest.mark.parametrize("kind", KINDS)
def test_finite_differences_the_cosines_are_with_the_true_gradient(kind):
    """The credit by the model's own backward pass in training mode; the gradient by differences taken here."""
    make, blocks, probe = KINDS[kind]
    watch, _ = run(make(), blocks, probe, steps=1)
    found = watch.looks[0].moment
    model = make()
    x, y = PROBE
    states = {}
    for name in blocks:
        part = dict(model.named_modules())[name]
        part.register_forward_hook(lambda m, given, out, name=name: states.setdefault(name, out))
    out = model(x, y, F.cross_entropy) if kind == "direct" else model(x)
    credits = torch.autograd.grad(F.cross_entropy(out, y), [states[name] for name in blocks])
    for place, credit in enumerate(credits):
        truth = true_gradient(make(), blocks[place], PROBE)
        assert credit.abs().max() > 0
        expected = F.cosine_similarity(credit.double(), truth).mean()
        assert found.cosine_out[place].value == pytest.approx(float(expected), abs=1e-4)
        assert found.gradient_norms[place + 1] == pytest.approx(float(truth.norm(dim=1).quantile(0.5)) / 128, rel=1e-3)
    assert abs(found.gamma) < 0.9  # it is no backprop


@pytest.mark.parametrize("kind", KINDS)
def test_finite_differences_the_cosine_of_the_update(kind):
    """⟨u, ∇⟩/(‖u‖ ‖∇‖) with ∇ by differences along every weight of the block; ours knows ‖∇‖ to about 12%."""
    make, blocks, probe = KINDS[kind]
    model = make()
    watch, _ = run(model, blocks, probe, steps=1)
    again = make()
    loss_of(again, X[:16], Y[:16]).backward()
    part = dict(again.named_modules())[blocks[1]]
    u = torch.cat([p.grad.flatten() for p in part.parameters() if p.requires_grad]).double()
    twin = make().double().eval()
    parameters = [p for p in dict(twin.named_modules())[blocks[1]].parameters() if p.requires_grad]
    probe_x, probe_y = PROBE[0][:32].double(), PROBE[1][:32]

    def loss(place, size):
        flat, number = place
        flat[number] += size
        found = F.cross_entropy(twin(probe_x), probe_y)[None]
        flat[number] -= size
        return found

    truth = slopes(loss, [(p.detach().view(-1), n) for p in parameters for n in range(p.numel())])[0]
    expected = float(truth @ u / truth.norm() / u.norm())
    reading = watch.looks[0].moment.measured[UPDATE][1]
    assert reading.status == "ok"
    assert u.abs().max() > 0
    assert reading.value == pytest.approx(expected, abs=0.35 * abs(expected) + 0.02)
    assert watch.looks[0].halves[1] is None


@pytest.mark.parametrize(
    "make", [feedback_net, lambda: feedback_net(True), direct_net], ids=["fixed", "redrawn", "direct"]
)
def test_second_run_the_same_bits(make):
    """Also where every forward pass draws feedback and puts a new parameter into the module."""
    blocks, probe = (DIRECT, WITH_TARGETS) if isinstance(make(), DirectNet) else (BLOCKS, PROBE)
    watch, watched_end = run(make(), blocks, probe)
    _, end = run(make(), blocks, probe, watching=False)
    assert len(watch.looks) == 3
    assert all(torch.equal(a, b) for a, b in zip(end, watched_end, strict=True))


def test_direct_feedback_is_no_leak_and_feedback_alignment_is_one():
    direct, _ = run(direct_net(), DIRECT, WITH_TARGETS, steps=2, local=True)
    assert all(look.crosses == ["direct feedback"] * 2 for look in direct.looks)
    assert "leak" not in direct.fired
    fixed, _ = run(feedback_net(), BLOCKS, PROBE, steps=1, local=True)
    assert fixed.looks[0].crosses == ["crosses"] * 2
    assert fixed.fired["leak"] == 0


class Past(DirectNet):
    """Direct feedback at block 1, backprop at block 2, and perhaps a skip from block 0 past block 1."""

    def __init__(self, skip):
        super().__init__()
        self.inside[2], self.skip = nn.Sequential(nn.Linear(WIDTH, WIDTH), nn.Tanh()), skip

    def forward(self, x, targets=None, loss_function=None):
        first = self.inside[0](x)
        second = self.inside[1](first)
        output = self.inside[3](self.inside[2](second + first if self.skip else second))
        if self.inside.training:
            (error,) = torch.autograd.grad(loss_function(output, targets), output, retain_graph=True)
            for layer in self.inside.modules():
                layer.error = error
        return output


@pytest.mark.parametrize("skip", [False, True])
def test_fooled_a_gradient_that_goes_past_the_direct_feedback_crosses(skip):
    torch.manual_seed(0)
    watch, _ = run(Past(skip), DIRECT, WITH_TARGETS, steps=1)
    assert watch.looks[0].crosses == ["crosses" if skip else "direct feedback", "crosses"]


def test_a_probe_without_what_the_model_needs_in_training_is_answered():
    watch, _ = run(direct_net(), DIRECT, PROBE, steps=1)
    assert any("targets are missing" in note for note in watch.looks[0].notes)
    assert all(look.moment.gamma is None or math.isnan(look.moment.gamma) for look in watch.looks)
    audit = wb.audit(direct_net().eval(), PROBE, DIRECT, credits="backward", residual=False)
    assert any("targets are missing" in note for note in audit.evidence.notes)
    assert audit.subjects[0].verdicts.gamma in ("open", "not reported")


def test_a_stale_signal_of_the_training_is_not_taken_for_the_credit():
    """The training batch is as large as the probe, so that in evaluation mode its error would pass unnoticed."""
    model = direct_net()
    watch, _ = run(model, DIRECT, WITH_TARGETS, steps=1, batch=32)
    fresh, _ = run(direct_net(), DIRECT, WITH_TARGETS, steps=1, batch=16)
    mine, theirs = ([c.value for c in w.looks[0].moment.cosine_out] for w in (watch, fresh))
    assert mine == pytest.approx(theirs, abs=1e-6)


class Constrained(nn.Linear):
    """Keeps the norm of its weight, by a new parameter in every forward pass."""

    def forward(self, x):
        with torch.no_grad():
            self.weight = nn.Parameter(self.weight / self.weight.norm())
        return super().forward(x)


def test_planted_an_optimizer_that_trains_orphans_is_found():
    torch.manual_seed(0)
    model = nn.Sequential(
        nn.Linear(6, WIDTH), Constrained(WIDTH, WIDTH, bias=False), nn.Tanh(), nn.Linear(WIDTH, CLASSES)
    )
    with warnings.catch_warnings(record=True) as said:
        warnings.simplefilter("always")
        with wb.watch(model, ["1"], probe=PROBE, every=4, show=False, residual=False) as watch:
            train(model, watch, 14)
    assert sum("1.weight was replaced by another tensor" in str(w.message) for w in said) == 1
    assert watch.looks[0].moment.measured[UPDATE][0].status == REPLACED
    assert any("no trainable weight of the blocks changed since step" in str(w.message) for w in said)


def test_weights_that_nobody_steps_are_found_and_those_that_move_are_not():
    for stepped in (False, True):
        model = Net()
        with warnings.catch_warnings(record=True) as said:
            warnings.simplefilter("always")
            with wb.watch(model, "blocks.*", probe=PROBE, every=4, show=False, residual=True) as watch:
                train(model, watch, 20, trained=model.blocks if stepped else model.head)
        assert any("no trainable weight" in str(w.message) for w in said) != stepped


def test_a_partly_frozen_block_is_compared_on_what_it_trains():
    """Backprop on the probe itself, with a frozen bias: the update is the gradient of what is trained."""
    model = Net()
    for block in model.blocks:
        block.linear.bias.requires_grad_(False)
    with wb.watch(model, "blocks.*", probe=PROBE, residual=True, show=False) as watch:
        F.cross_entropy(model(PROBE[0]), PROBE[1]).backward()
        watch.step()
    assert [r.value for r in watch.looks[0].moment.measured[UPDATE]] == pytest.approx([1.0] * 3)


def test_dropout_by_function_is_off_on_the_probe_and_on_in_the_training():
    class Attends(nn.Module):
        def __init__(self):
            super().__init__()
            self.linear = nn.Linear(12, 12)

        def forward(self, h):
            q = self.linear(h).view(len(h), 1, 3, 4)
            mixed = F.scaled_dot_product_attention(q, q, q, dropout_p=0.3 if self.training else 0.0)
            return h + F.dropout(mixed.reshape(len(h), 12), 0.3, self.training)

    ends = []
    for watching in (False, True):
        model = Net()
        model.blocks[1] = Attends()
        watch, end = run(model, "blocks.*", PROBE, watching=watching)
        ends.append(end)
    assert all(torch.equal(a, b) for a, b in zip(*ends, strict=True))
    assert watch.looks[0].moment.gamma == pytest.approx(1)
    drawn = F.dropout(torch.ones(1000), 0.5)
    assert 0 < int((drawn == 0).sum()) < 1000  # torch's own function is back


def test_a_forward_replaced_in_the_object_has_no_float64_copy():
    """A copy would call the original's method, and so other weights."""
    model = Net()
    plain = model.blocks[1].forward
    model.blocks[1].forward = lambda h: plain(h)
    audit = wb.audit(model, PROBE, "blocks.*", residual=True, credits="backward", describe=False)
    assert "forward of blocks.1 was replaced in the object" in audit.evidence.seeds[0].final.precision.status
