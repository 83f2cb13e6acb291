"""Every net: its forward written out a second time, and with every rule and probe what all nets must satisfy."""

import copy
import math
import sys

import pytest
import torch
from torch.nn import functional as F

from commands import walkback
from conftest import image_data
from walkback.errors import BadValue
from walkback.nets import OncePerStep, make_net
from walkback.probes import (
    PROBES,
    View,
    feedback_null,
    net_precision,
    nudging,
    observe,
    perturbation,
    quantities,
    readings,
    replay_net,
)
from walkback.records import read_run
from walkback.rules import RULES, START, Batch, Credits, Rule, make_rule
from walkback.train import Stopped, plan, train
from walkback.train.deep import deep_probes
from walkback.train.trainer import Trainer

CLASSES = 5
SMALL = {
    "mlp": ("mlp", (3, 4, 4), {"width": 12, "depth": 3}),
    "mlp-widths": ("mlp", (20,), {"widths": [14, 9], "activation": "tanh"}),
    "student": ("student", (16,), {"width": 12, "depth": 3, "alpha": 0.5}),
    "small-cnn": ("small-cnn", (3, 8, 8), {"channels": 2, "hidden": 6}),
    "small-resnet": ("small-resnet", (3, 9, 8), {"channels": 3}),
    "resmlp": ("resmlp", (20,), {"width": 12, "depth": 3}),
    "resmlp-plain": ("resmlp", (20,), {"width": 12, "depth": 3, "skip": False, "down_std": 0.5}),
    "vit-mini": ("vit-mini", (3, 8, 8), {"width": 8, "depth": 2}),
}
NEW = ("mlp", "mlp-widths", "student", "small-cnn", "small-resnet")
every_net = pytest.mark.parametrize("name", SMALL)
REFUSED = {
    ("sb", "small-resnet"): "more than one row",  # it predicts the rows of h_L, and this readout needs the whole map
    ("dtp", "small-resnet"): "only a part",  # it inverts blocks, and these rows are not their whole output
    ("dtp", "vit-mini"): "only a part",
}


def build(name, seed=0, dtype=torch.float32):
    torch.manual_seed(seed)
    net, shape, options = SMALL[name]
    made = make_net(net, shape, CLASSES, options).to(dtype)
    for norm in made.modules():  # statistics and gains as after some training: no slip hides behind 0 and 1
        if isinstance(norm, torch.nn.BatchNorm2d):
            norm.running_mean.normal_()
            norm.running_var.uniform_(0.5, 2)
            torch.nn.init.uniform_(norm.weight, 0.5, 2)
            torch.nn.init.normal_(norm.bias)
    return made


def batch(name, count=16, dtype=torch.float32):
    generator = torch.Generator().manual_seed(9)
    inputs = torch.randn(count, *SMALL[name][1], generator=generator).to(dtype)
    labels = torch.randint(0, CLASSES, (count,), generator=generator)
    return Batch(inputs, labels, torch.Generator().manual_seed(4))


def rule_for(name, net, seed=1):
    return make_rule(name, net, torch.Generator().manual_seed(seed), {})


# The forward pass, written out.


def plain_mlp(w, x, act):
    h = x.flatten(1)
    for layer in range(sum(k.startswith("blocks") and k.endswith("weight") for k in w)):
        h = act(h @ w[f"blocks.{layer}.0.weight"].T + w[f"blocks.{layer}.0.bias"])
    return h @ w["readout.weight"].T + w["readout.bias"]


def plain_student(w, x, alpha):
    h = x.flatten(1)
    for layer in range(3):
        z = h @ w[f"blocks.{layer}.linear.weight"].T + w[f"blocks.{layer}.linear.bias"]
        h = (1 - alpha) * z + alpha * torch.tanh(z)
    return h @ w["readout.weight"].T + w["readout.bias"]


def plain_cnn(w, x):
    h = x
    for layer in range(3):
        h = F.relu(F.conv2d(h, w[f"blocks.{layer}.0.weight"], w[f"blocks.{layer}.0.bias"], padding=1))
        h = F.max_pool2d(h, 2) if layer else h
    h = F.relu(F.linear(h.flatten(1), w["blocks.3.1.weight"], w["blocks.3.1.bias"]))
    return F.linear(h, w["readout.1.weight"], w["readout.1.bias"])


def plain_resnet(w, x, training):
    def norm(h, name):
        if training:
            mean, var = h.mean((0, 2, 3)), h.var((0, 2, 3), correction=0)
        else:
            mean, var = w[f"{name}.running_mean"], w[f"{name}.running_var"]
        h = (h - mean[:, None, None]) / (var + 1e-5).sqrt()[:, None, None]
        return h * w[f"{name}.weight"][:, None, None] + w[f"{name}.bias"][:, None, None]

    h = F.conv2d(x, w["embed.weight"], padding=1)
    for block, stride in enumerate((1, 2, 2, 1)):
        name = f"blocks.{block}"
        f = F.conv2d(F.relu(norm(h, f"{name}.norm1")), w[f"{name}.conv1.weight"], stride=stride, padding=1)
        f = F.conv2d(F.relu(norm(f, f"{name}.norm2")), w[f"{name}.conv2.weight"], padding=1)
        shortcut = torch.zeros_like(f)
        shortcut[:, : h.shape[1]] = h[:, :, ::stride, ::stride]
        h = shortcut + f
    return F.linear(F.relu(norm(h, "readout.0")).mean((2, 3)), w["readout.4.weight"], w["readout.4.bias"])


@pytest.mark.parametrize("training", [False, True])
@pytest.mark.parametrize("name", NEW)
def test_second_implementation_of_the_forward_pass(name, training):
    net = build(name, dtype=torch.float64).train(training)
    x = batch(name, dtype=torch.float64).inputs
    weights = {k: v.clone() for k, v in net.state_dict().items()}
    plain = {
        "mlp": lambda: plain_mlp(weights, x, F.relu),
        "mlp-widths": lambda: plain_mlp(weights, x, torch.tanh),
        "student": lambda: plain_student(weights, x, 0.5),
        "small-cnn": lambda: plain_cnn(weights, x),
        "small-resnet": lambda: plain_resnet(weights, x, training),
    }[name]()
    assert plain.std() > 0.01  # alive
    torch.testing.assert_close(net(x), plain, rtol=1e-9, atol=1e-9)


@pytest.mark.parametrize(
    ("name", "shape", "options", "widths"),
    [
        ("mlp", (1, 28, 28), {}, (784, 256, 256, 256, 256)),
        ("mlp", (40,), {"widths": [500, 300]}, (40, 500, 300)),
        ("mlp", (40,), {"depth": 0}, (40,)),
        ("student", (128,), {"depth": 12}, (128,) * 13),
        ("small-cnn", (3, 32, 32), {}, (3072, 32768, 16384, 8192, 256)),
        ("small-cnn", (1, 28, 28), {}, (784, 25088, 12544, 6272, 256)),
        ("small-cnn", (1, 8, 8), {}, (64, 2048, 1024, 512, 256)),
        ("small-cnn", (1, 8, 8), {"depth": 2}, (64, 2048, 1024)),
        ("small-cnn", (1, 8, 8), {"depth": 0}, (64,)),
        ("small-resnet", (3, 32, 32), {}, (16, 16, 32, 64, 64)),
        ("small-resnet", (1, 9, 11), {"depth": 6}, (16, 16, 32, 64, 64, 64, 64)),
        ("small-resnet", (1, 8, 8), {"depth": 0}, (16,)),
    ],
)
def test_closed_form_widths(name, shape, options, widths):
    net = make_net(name, shape, CLASSES, options)
    assert net.widths == widths
    assert net(torch.randn(2, *shape)).shape == (2, CLASSES)


@pytest.mark.parametrize("alpha", [0.0, 1.0])
def test_property_twelve_layers_of_the_student_are_alive(alpha):
    """The stated init: a linear net keeps the size of its state and gradient; tanh shrinks them by a small factor."""
    torch.manual_seed(0)
    net = make_net("student", (128,), 10, {"depth": 12, "alpha": alpha})
    x = torch.randn(256, 128)
    stream, _ = net.unroll(x.requires_grad_())
    g0, g12 = torch.autograd.grad(
        F.cross_entropy(net.readout(stream[-1]), torch.arange(256) % 10), (stream[0], stream[-1])
    )
    kept = float((stream[-1].norm() / stream[0].norm()).detach()), float(g0.norm() / g12.norm())
    assert all(0.6 < k < 1.6 for k in kept) if alpha == 0 else all(0.05 < k < 1 for k in kept), kept


# Every rule.

NETS_OF = [*SMALL]
PAIRS = {(kind, NETS_OF[(place + step) % len(SMALL)]) for place, kind in enumerate(RULES.names()) for step in (0, 3, 5)}
PAIRS |= REFUSED.keys()
PAIRS |= {(kind, name) for kind in ("dfa", "ep", "mono-forward", "ff", "fa-layer", "cb") for name in SMALL}


@pytest.mark.parametrize(("kind", "name"), sorted(PAIRS))
def test_property_every_rule_trains_every_parameter_and_all_that_it_learns_or_refuses(kind, name):
    """Every rule on three nets, each net with every way of training that rules share."""
    net = build(name)
    if (kind, name) in REFUSED:
        with pytest.raises(BadValue, match=REFUSED[kind, name]) as caught:
            rule_for(kind, net).backward(net, batch(name))
        assert caught.value.remedy
        return
    rule = rule_for(kind, net)
    assert rule.backward(net, batch(name)).isfinite()
    for key, parameter in net.named_parameters():
        assert parameter.grad is not None, key
        assert parameter.grad.isfinite().all(), key
        assert parameter.grad.abs().max() > 0, key
    for key, parameter in rule.named_parameters():
        assert parameter.grad is not None, key
        assert parameter.grad.isfinite().all(), key


def assert_autograd(net, rule, here, **tolerances):
    """What the rule puts into every parameter is the gradient of the loss by autograd, and alive."""
    rule.backward(net, here)
    ours = {key: p.grad.clone() for key, p in net.named_parameters()}
    net.zero_grad()
    F.cross_entropy(net(here.inputs), here.labels).backward()
    for key, parameter in net.named_parameters():
        assert parameter.grad.abs().max() > 0, key
        torch.testing.assert_close(ours[key], parameter.grad, **tolerances)


@every_net
def test_second_implementation_bp_is_autograd(name):
    net = build(name)
    here = batch(name)
    assert_autograd(net, rule_for("bp", net), here, rtol=1e-5, atol=1e-7)


class Oracle(Rule):
    """Credits that are the true gradients, as rows."""

    def credits(self, signal):
        with torch.enable_grad():
            stream, _ = signal.net.unroll(signal.states[0].clone().requires_grad_())
            loss = F.cross_entropy(signal.net.readout(stream[-1]), signal.labels, reduction="sum")
            g = [signal.net.gradient_rows(part) for part in torch.autograd.grad(loss, stream)]
        return Credits(blocks=g[1:], embed=g[0])


@pytest.mark.parametrize("name", [n for n in SMALL if n not in ("small-resnet", "vit-mini")])
def test_closed_form_exact_credits_are_backprop(name):
    """Where a row is the whole feature, a local rule that is handed g_{l+1} gives backprop's own gradients."""
    net = build(name, dtype=torch.float64)
    here = batch(name, dtype=torch.float64)
    assert_autograd(net, Oracle(net, torch.Generator()), here, rtol=1e-6, atol=1e-12)


def nudged(weight, place, size, objective):
    """(objective(w + size) − objective(w − size)) / 2 size at one entry."""
    flat = weight.data.view(-1)
    kept = float(flat[place])
    values = []
    for sign in (1, -1):
        flat[place] = kept + sign * size
        values.append(objective())
    flat[place] = kept
    return (values[0] - values[1]) / (2 * size)


def test_finite_difference_exact_credits_on_channel_means():
    """Where a row is a channel's mean, block l's gradient is that of the batch mean of ⟨f̄_l, Σ ∂ℓ/∂h_{l+1}⟩, h_l held:
    mean and sum over positions. That is the part of the true gradient that is alike at every position."""
    net = build("small-resnet", dtype=torch.float64)
    here = batch("small-resnet", dtype=torch.float64)
    Oracle(net, torch.Generator()).backward(net, here)
    with torch.no_grad():
        stream, _ = net.unroll(net.embed(here.inputs))
    for layer, block in enumerate(net.blocks):
        moved = stream[layer + 1].clone().requires_grad_()
        state = moved
        for above in range(layer + 1, net.depth):
            state = net.join(above, state, net.blocks[above](state))
        loss = F.cross_entropy(net.readout(state), here.labels, reduction="sum")
        credit = torch.autograd.grad(loss, moved)[0].sum((2, 3))

        @torch.no_grad()
        def objective(block=block, layer=layer, credit=credit):
            return float((block(stream[layer]).mean((2, 3)) * credit).sum(1).mean())

        for weight in (block.conv1.weight, block.conv2.weight, block.norm2.weight):
            place = int(weight.grad.abs().argmax())
            expected = nudged(weight, place, 1e-5, objective)
            assert abs(expected) > 1e-5
            assert float(weight.grad.view(-1)[place]) == pytest.approx(expected, rel=1e-5)


# BatchNorm.


def statistics(net):
    return {k: v.clone() for k, v in net.state_dict().items() if "running" in k or "num_batches" in k}


class Thrice(Rule):
    """Runs the whole net three times more before it answers, on other inputs."""

    def credits(self, signal):
        for _ in range(3):
            signal.net(signal.inputs * 2 + 1)
        return Credits([torch.zeros_like(h) for h in signal.hidden[1:]], embed=torch.zeros_like(signal.hidden[0]))


@pytest.mark.parametrize(
    "kind", ["thrice", "bp", "ep", "cb", "drtp", "dkp", "mono-forward", "predsim", "pepita", "ff", "pc"]
)
def test_property_statistics_move_once_per_step(kind):
    """The same statistics after two steps as after two passes of the net, whatever the rule runs between."""
    ours = build("small-resnet")
    plain = copy.deepcopy(ours)
    once = OncePerStep(ours)
    rule = Thrice(ours, torch.Generator()) if kind == "thrice" else rule_for(kind, ours)
    here = batch("small-resnet")
    before = statistics(ours)
    for _ in range(2):
        once.begin()
        rule.backward(ours, here)
        plain(here.inputs)
    for key, value in statistics(plain).items():
        assert not torch.equal(before[key], value), key  # alive
        torch.testing.assert_close(statistics(ours)[key], value, rtol=1e-6, atol=1e-6)
    without = copy.deepcopy(plain)
    Thrice(without, torch.Generator()).backward(without, here)
    assert int(without.blocks[0].norm1.num_batches_tracked) == 2 + 4  # what would happen without it


def image_config(**more):
    options = {"data": "cifar10", "net": "small-resnet", "net_options": {"channels": 3}, "epochs": 2}
    return plan(**{**options, "rules": ["dfa"], "probe_images": 64, **more})[0]


def test_property_frozen_blocks_keep_their_weights_and_their_statistics_move():
    trainer = Trainer(image_config(train_last=0), image_data())
    before = {k: v.clone() for k, v in trainer.net.state_dict().items()}
    trainer.one_epoch(lambda: None)
    for key, value in trainer.net.state_dict().items():
        frozen = key.startswith("blocks") and not ("running" in key or "num_batches" in key)
        assert torch.equal(value, before[key]) == frozen, key
    steps = trainer.steps_per_epoch
    assert all(int(v) == steps for k, v in trainer.net.state_dict().items() if "num_batches" in k)


def test_property_probes_move_no_statistics():
    trainer = Trainer(image_config(), image_data())
    trainer.one_epoch(lambda: None)
    before = statistics(trainer.net)
    trainer.snapshot()
    deep_probes(trainer)
    assert all(torch.equal(v, before[k]) for k, v in statistics(trainer.net).items())


def test_property_stopped_and_resumed_is_the_same_bits(tmp_path):
    """BatchNorm's statistics are in the checkpoint, stopped in the middle of an epoch."""
    (config,) = plan(
        data="digits", net="small-resnet", net_options={"channels": 2, "depth": 2}, rules=["dfa"], epochs=2,
        probe_images=64,
    )  # fmt: skip
    whole = train(config, tmp_path / "whole")
    calls = iter(range(100))
    with pytest.raises(Stopped):
        train(config, tmp_path / "parts", should_stop=lambda: next(calls) == 15)
    parts = train(config, tmp_path / "parts")
    assert len(parts.environment.sittings) == 2
    for name in ("snapshots.jsonl", "checkpoint.safetensors", "probes.json", "result.json"):
        assert (parts.path / name).read_bytes() == (whole.path / name).read_bytes(), name


# Every probe.


def view_of(net, rule, here, final=False):
    seen = observe(net, rule, here.inputs, here.labels, torch.Generator().manual_seed(3))
    return View(
        net, rule, here.inputs, here.labels, START, seen, final=final,
        fresh=lambda n: make_rule("dfa", net, torch.Generator().manual_seed(100 + n), {}),
        draws=lambda purpose: torch.Generator().manual_seed(len(purpose)),
    )  # fmt: skip


@every_net
@pytest.mark.parametrize("kind", ["bp", "dfa"])
def test_property_probes_give_finite_values(name, kind):
    net, here = build(name), batch(name, 40)
    rule = rule_for(kind, net)
    seen = observe(net, rule, here.inputs, here.labels, torch.Generator())
    assert seen.at_output == (name not in ("resmlp", "vit-mini"))
    found = quantities(seen)
    assert [len(h[0]) for h in seen.hidden] == list(net.widths)
    assert all(c.status == "ok" for c in found["cosine_out"])
    assert found["gamma_blocks"] == net.depth
    credits = seen.credits.blocks if seen.at_output else seen.at_input
    replay = replay_net(net, here.inputs, here.labels)
    replay = replay.from_layer(1) if seen.at_output else replay
    rho = perturbation(credits, *replay, torch.Generator().manual_seed(1))
    moved = nudging(credits, *replay)
    sharp = net_precision(net, here.inputs, here.labels, seen.gradients)
    assert [r.status for r in (*rho, *moved, *sharp)] == ["ok"] * (3 * net.depth + 1)
    assert all(p.chord < 1e-3 for p in sharp)
    _, (null_out, gamma_out) = feedback_null(
        net, rule, lambda n: rule_for(kind, net, n + 50), here.inputs, here.labels, torch.Generator().manual_seed(2)
    )
    assert [n.known for n in null_out] == [True] * net.depth
    assert math.isfinite(gamma_out.mean)
    if kind == "bp":
        assert all(c.value == pytest.approx(1, abs=1e-6) for c in found["cosine_out"])
        assert all(r.value > 0.99 for r in rho)
        assert all(m.value < 0 for m in moved)
    read = readings(view_of(net, rule, here))
    assert set(read) == {n for n in PROBES.names() if PROBES.get(n).when == "snapshot"}
    assert all(r.status == "ok" for r in read["update"])
    if kind == "bp":
        assert all(r.value == pytest.approx(1, abs=1e-6) for r in read["update"])


@pytest.mark.parametrize("name", NEW)
def test_property_chunks_do_not_matter(name, monkeypatch):
    """No sample sees another when probed: rows in chunks are those of one pass, and aliased ones are of their layer."""
    net, here = build(name), batch(name, 50)
    rule = rule_for("bp", net)
    whole = observe(net, rule, here.inputs, here.labels, here.generator)
    sharp = net_precision(net, here.inputs, here.labels, whole.gradients)
    monkeypatch.setattr(sys.modules["walkback.probes.observe"], "CHUNK", 16)  # `probes.observe` is the function
    monkeypatch.setattr(sys.modules["walkback.probes.precision"], "CHUNK", 16)
    parts = observe(net, rule, here.inputs, here.labels, here.generator)
    sharp_parts = net_precision(net, here.inputs, here.labels, parts.gradients)
    for kind in ("hidden", "branches", "gradients"):
        for a, b in zip(getattr(whole, kind), getattr(parts, kind), strict=True):
            torch.testing.assert_close(a, b, rtol=1e-4, atol=1e-6)
    for a, b in zip(parts.credits.blocks, whole.gradients[1:], strict=True):
        torch.testing.assert_close(a, b, rtol=1e-4, atol=1e-6)
    assert [p.samples for p in sharp_parts] == [p.samples for p in sharp] == [50] * (net.depth + 1)
    if name == "small-cnn":  # the memory that feature maps would take twice
        assert all(f is h for f, h in zip(parts.branches, parts.hidden[1:], strict=True))
        assert all(a is g for a, g in zip(parts.credits.blocks, parts.gradients[1:], strict=True))


def test_property_few_images_are_moved_where_rows_are_wide_and_the_record_says_so():
    for side, images in ((32, 40), (36, 32)):  # 4 × 32 × 32 is 4096
        data = image_data(count=80, side=side)
        options = {"channels": 4, "hidden": 4}
        (config,) = plan(data="cifar10", net="small-cnn", net_options=options, rules=["dfa"], probe_images=40)
        found = deep_probes(Trainer(config, data))
        assert found.functional_images == images
        assert all(r.status == "ok" for r in found.rho)


# What is refused, and the command line.


@pytest.mark.parametrize(
    ("name", "shape", "options", "word"),
    [
        ("vit-mini", (40,), {}, "patches"),
        ("vit-mini", (1, 30, 30), {}, "patches"),
        ("vit-mini", (3, 8, 8), {"width": 30}, "heads"),
        ("resmlp", (4,), {"widht": 3}, "widht"),
        ("mlp", (4,), {"activation": "gelu"}, "gelu"),
        ("mlp", (4,), {"widths": "500,300"}, "500,300"),
        ("mlp", (4,), {"widths": [5, 0]}, "widths"),
        ("mlp", (4,), {"widths": [5, 2.0]}, "widths"),
        ("mlp", (4,), {"width": 0}, "width"),
        ("student", (4,), {"alpha": 1.5}, "alpha"),
        ("student", (4,), {"alpha": "tanh"}, "alpha"),
        ("small-cnn", (40,), {}, r"these inputs have shape \(40,\)"),
        ("small-cnn", (3, 30, 30), {}, "30"),
        ("small-cnn", (3, 8, 8), {"depth": 5}, "4 units"),
        ("small-cnn", (3, 8, 8), {"channels": 0}, "channels"),
        ("small-resnet", (40,), {}, "images"),
        ("small-resnet", (1, 4, 4), {}, "8×8"),
        ("small-resnet", (3, 8, 8), {"channels": -1}, "channels"),
        ("small-resnet", (3, 8, 8), {"width": 4}, "width"),
    ],
)
def test_error_says_what_to_do(name, shape, options, word):
    with pytest.raises(BadValue, match=word) as caught:
        make_net(name, shape, 3, options)
    assert caught.value.remedy


def test_error_fa_refuses_the_maps_of_small_cnn_on_cifar10():
    net = make_net("small-cnn", (3, 32, 32), 10, {})
    with pytest.raises(BadValue, match="536,870,912 entries") as caught:
        rule_for("fa", net)
    assert "dfa" in caught.value.remedy


@pytest.mark.parametrize(
    ("net", "options", "blocks", "words"),
    [
        ("mlp", {"widths": [500, 300]}, 2, "d = 500, 300; L = 2"),
        ("mlp", {}, 4, "d = 256, L = 4"),
        ("student", {"alpha": 0.25}, 4, "d = 128, L = 4, α = 0.25"),
        ("small-cnn", {}, 4, "32, 64, 128 channels, FC 256, L = 4"),
        ("small-resnet", {}, 4, "16 channels, L = 4"),
    ],
)
def test_property_options_tell_blocks_words_and_the_shallow_net(net, options, blocks, words):
    from walkback.nets import find_net

    family = find_net(net)
    (config,) = plan(net=net, net_options=options, rules=["bp"])
    assert config.blocks == blocks
    assert config.residual == (net == "small-resnet")
    assert family.sizes(config.net_options) == words
    shallow = family.shallow(config.net_options)
    assert family.blocks_in(shallow) == 0
    assert make_net(net, (1, 8, 8), 3, family.quick(config.net_options)).depth == blocks
    assert sum(shallow[key] != value for key, value in config.net_options.items()) == 1
    made = make_net(net, (1, 8, 8), 3, shallow)
    assert made.depth == 0
    assert made(torch.randn(2, 1, 8, 8)).shape == (2, 3)


def test_small_cnn_by_the_command_line(tmp_path):
    words = ["--net", "small-cnn", "--data", "digits", "--epochs", "1", "--rules", "dfa", "--net-option", "channels=2"]
    done = walkback("train", *words, cwd=tmp_path)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "other width" not in done.stdout  # the cosines shown are those at the blocks' outputs
    (run,) = (read_run(path) for path in (tmp_path / "runs").glob("digits-*"))
    assert run.config.net_options == {"channels": 2, "hidden": 256, "depth": 4}
    assert run.snapshots[-1].loss < run.snapshots[0].loss
