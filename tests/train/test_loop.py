"""The loop: same config, same bits; probing changes nothing; the records say what happened."""

import copy
import json
import math
import re

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from conftest import small_plan
from executed import files_of
from walkback.data import load
from walkback.errors import WalkbackError
from walkback.records import load_tensors, read_run
from walkback.rules import Credits, Rule, register_rule
from walkback.train import Stopped, Trainer, plan, seed_list, train
from walkback.train.streams import global_stream, stream


@pytest.fixture(scope="module")
def digits():
    return load("digits")


@pytest.mark.parametrize("rule", ["bp", "random"])
def test_property_same_config_same_bits(rule, tmp_path):
    (config,) = small_plan(rules=[rule], epochs=2)
    one = train(config, tmp_path / "one")
    torch.manual_seed(99)  # whatever else the process draws
    two = train(config, tmp_path / "two")
    assert files_of(one.path) == files_of(two.path)
    assert one.result.status == "finished"
    assert [s.epoch for s in one.snapshots] == [0, 1, 2]


def test_property_all_rules_see_the_same_init_and_the_same_batches(digits):
    seen = {}
    for config in small_plan(data="digits", rules=["bp", "fa", "dfa", "random"], train_last=1):
        trainer = Trainer(config, digits)
        init = {k: v.clone() for k, v in trainer.net.state_dict().items()}
        indices = []
        inner = trainer.batches.batch
        trainer.batches.batch = lambda i, g, inner=inner, indices=indices: (indices.append(i.clone()), inner(i, g))[1]
        trainer.one_epoch(lambda: None)
        seen[config.rule] = (init, torch.cat(indices))
    for init, order in seen.values():
        assert all(torch.equal(init[k], seen["bp"][0][k]) for k in init)
        assert torch.equal(order, seen["bp"][1])
        assert order.sort().values.tolist() == list(range(len(digits.train.labels)))  # each image once an epoch


@given(st.integers(0, 2**40), st.sampled_from(["init", "order", "augment"]), st.integers(0, 10**6))
def test_property_streams_are_functions_of_their_words(seed, purpose, counter):
    def draw(*words):
        return torch.rand(4, generator=stream(*words))

    assert torch.equal(draw(seed, purpose, counter), draw(seed, purpose, counter))
    assert not torch.equal(draw(seed, purpose, counter), draw(seed + 1, purpose, counter))
    assert not torch.equal(draw(seed, purpose, counter), draw(seed, purpose, counter + 1))
    assert not torch.equal(draw(seed, purpose, counter), draw(seed, purpose + "x", counter))


def test_property_global_stream_leaves_no_trace():
    state = torch.random.get_rng_state()
    with global_stream(1, "init"):
        torch.randn(3)
    assert torch.equal(state, torch.random.get_rng_state())


def test_closed_form_schedules(digits):
    cosine, constant = (small_plan(data="digits", epochs=10, lr=0.1, schedule=how)[0] for how in ("cosine", "constant"))
    assert [Trainer(constant, digits).lr(e) for e in range(10)] == [0.1] * 10
    expected = [0.1 * (1 + math.cos(math.pi * e / 10)) / 2 for e in range(10)]
    assert [Trainer(cosine, digits).lr(e) for e in range(10)] == expected
    assert constant.label() == "dfa constant rate"


def test_second_implementation_snapshot_by_hand(digits):
    """Norms, gradients, cosines and accuracy of a trained net, one sample and one layer at a time."""
    (config,) = small_plan(data="digits", rules=["dfa"], probe_images=50)
    trainer = Trainer(config, digits)
    trainer.one_epoch(lambda: None)
    measured = trainer.snapshot()
    net, rule = trainer.net, trainer.rule
    norms, gradients, cosines, outward = [], [], [], []
    for image, label in zip(trainer.probe_inputs, trainer.probe_labels, strict=True):
        h = net.embed(image[None]).detach().requires_grad_()
        states = [h]
        for block in net.blocks:
            h = h + block(h)
            states.append(h)
        logits = net.readout(h)
        loss = -torch.log_softmax(logits, 1)[0, label]
        g = [v.flatten().double() for v in torch.autograd.grad(loss, states)]
        error = torch.softmax(logits.detach(), 1)[0].clone()
        error[label] -= 1
        a = [(B @ error).double() for B in rule.B]
        norms.append([float(v.detach().norm()) for v in states])
        gradients.append([float(v.norm()) / 128 for v in g])
        cosines.append([float(x @ y / (x.norm() * y.norm())) for x, y in zip(a, g[:-1], strict=True)])
        outward.append([float(x @ y / (x.norm() * y.norm())) for x, y in zip(a, g[1:], strict=True)])
    middle = torch.tensor(norms, dtype=torch.float64).quantile(0.5, dim=0)
    deep = torch.tensor(gradients, dtype=torch.float64).quantile(0.5, dim=0)
    assert measured.hidden_norms == pytest.approx(middle.tolist(), rel=1e-5)
    assert min(measured.gradient_norms) > 0
    assert measured.gradient_norms == pytest.approx(deep.tolist(), rel=1e-4)
    assert [c.value for c in measured.cosine] == pytest.approx(torch.tensor(cosines).mean(0).tolist(), abs=1e-5)
    assert [c.value for c in measured.cosine_out] == pytest.approx(torch.tensor(outward).mean(0).tolist(), abs=1e-5)
    assert measured.gamma == pytest.approx(sum(c.value for c in measured.cosine) / 3)
    assert {(c.status, c.alive, c.total) for c in measured.cosine} == {("ok", 50, 50)}
    right = [net(x[None]).argmax() == y for x, y in zip(*trainer.test[0], strict=True)]
    assert measured.accuracy == pytest.approx(sum(map(float, right)) / len(right))


def test_finite_difference_bps_credit_is_the_slope_of_the_loss():
    """⟨a_l, v⟩ against central differences in float64, sample by sample: no gradient is compared with itself.

    Every block's output is moved along 48 directions, more than it has dimensions, so that the slopes determine the
    credit; the cosine of the two is one.
    """
    (config,) = small_plan(rules=["bp"], probe_images=5)
    trainer = Trainer(config, load("mnist1d"))
    for _ in range(3):
        trainer.one_epoch(lambda: None)
    credits = trainer.observe().credits.blocks
    twin = copy.deepcopy(trainer.net).double()
    inputs, labels = trainer.probe_inputs.double(), trainer.probe_labels
    draws = torch.Generator().manual_seed(0)
    with torch.no_grad():
        states, _ = twin.unroll(twin.embed(inputs))
    for layer, credit in enumerate(credits):
        assert credit.norm(dim=1).min() > 1e-6

        def loss(h, layer=layer):
            for later in range(layer + 1, twin.depth):
                h = twin.join(later, h, twin.blocks[later](h))
            return torch.nn.functional.cross_entropy(twin.readout(h), labels, reduction="none")

        directions = torch.randn(48, *credit.shape, generator=draws, dtype=torch.float64)
        with torch.no_grad():
            slopes = torch.stack(
                [(loss(states[layer + 1] + 1e-5 * v) - loss(states[layer + 1] - 1e-5 * v)) / 2e-5 for v in directions]
            )
        for sample in range(len(labels)):
            gradient = torch.linalg.lstsq(directions[:, sample], slopes[:, sample, None]).solution[:, 0]
            cosine = torch.nn.functional.cosine_similarity(gradient, credit[sample].double(), dim=0, eps=1e-30)
            assert float(cosine) == pytest.approx(1.0, abs=1e-4)


def test_published_number_init_is_healthy_and_bp_learns(tmp_path):
    (config,) = small_plan(rules=["bp"], epochs=1)
    run = train(config, tmp_path)
    for snapshot in run.snapshots:  # what bp puts into the parameters, and what autograd says of the whole loss
        assert [r.value for r in snapshot.measured["update"]] == pytest.approx([1.0] * 3, abs=1e-6)
    start = run.snapshots[0]
    assert max(b / a for a, b in zip(start.hidden_norms, start.hidden_norms[1:], strict=False)) < 2
    assert 1e-3 < start.gradient_norms[-1] < 0.1
    assert start.train_loss is None
    assert run.snapshots[1].train_loss < start.loss


def test_property_frozen_blocks_stay_at_init_and_the_rest_learns(tmp_path):
    (config,) = small_plan(train_last=1, epochs=1)
    run = train(config, tmp_path)
    trainer = Trainer(config, load("mnist1d"))
    kept, _ = load_tensors(run.path / "checkpoint.safetensors")
    for name, start in trainer.net.state_dict().items():
        layer = int(name.split(".")[1]) if name.startswith("blocks.") else None
        frozen = layer is not None and layer < 2
        assert torch.equal(start, kept[f"net.{name}"]) == frozen, name
    assert not any(name.startswith("adam.m.net.blocks.0.") for name in kept)
    assert any(name == "rule.B" for name in kept)


class Explode(Rule):
    """Credit that becomes infinite at the third step."""

    steps = 0

    def credits(self, signal):
        if signal.gradients is None:  # training, not probing
            Explode.steps += 1
        size = float("inf") if Explode.steps > 40 else 1.0
        a = torch.ones_like(signal.hidden[0]) * size
        return Credits([a] * signal.net.depth, embed=a)


def test_planted_divergence_ends_the_run_and_keeps_its_records(tmp_path):
    register_rule("explode", Explode)
    Explode.steps = 0
    (config,) = small_plan(rules=["explode"], epochs=5)
    run = train(config, tmp_path)
    assert run.result.status == "diverged"
    assert "diverged at epoch 2" in run.result.says
    assert [s.epoch for s in run.snapshots] == [0, 1]
    assert run.result.accuracy == run.snapshots[-1].accuracy
    again = train(config, tmp_path, tell=lambda p: pytest.fail("trained again"))
    assert again.result == run.result


def test_property_stop_anywhere_and_go_on_bit_for_bit(tmp_path):
    (config,) = small_plan(rules=["random"], epochs=2)
    whole = train(config, tmp_path / "whole")
    for attempt in range(40):
        left = iter(range(3 + 2 * attempt))

        def stop(left=left):
            return next(left, None) is None

        try:
            parts = train(config, tmp_path / "parts", should_stop=stop)
            break
        except Stopped:
            continue
    assert attempt > 3
    assert files_of(parts.path) == files_of(whole.path)
    assert len(parts.environment.sittings) == attempt + 1
    assert [s.to_step for s in parts.environment.sittings[:-1]] == [s.from_step for s in parts.environment.sittings[1:]]


@pytest.mark.parametrize(
    ("asked", "word"),
    [
        ({"train_last": 4}, "0 … 3"), ({"train_last": -1}, "0 … 3"), ({"penalty": -1.0}, "penalty"),
        ({"penalty": math.nan}, "penalty"), ({"epochs": 0}, "epochs"), ({"batch_size": 0}, "batch-size"),
        ({"lr": 0.0}, "lr"), ({"lr": math.inf}, "lr"), ({"seeds": 0}, "seeds"), ({"seeds": [-1]}, "seed"),
        ({"rules": ["dfaa"]}, "dfa"), ({"data": "cifar"}, "cifar10"), ({"net": "resnet"}, "resmlp"),
        ({"net_options": {"width": 0}}, "width"), ({"net_options": {"depth": -1}}, "depth"), ({"rules": []}, "rule"),
        ({"augment": True}, "augment"), ({"normalize": "sampel"}, "sample"),
        ({"rule_options": {"beta": 1}}, "beta"), ({"probe_images": 0}, "probe"),
        ({"schedule": "linear"}, "'cosine' or 'constant'"), ({"epochs": 2.5}, "int"), ({"lr": object()}, "recorded"),
    ],
)  # fmt: skip
def test_error_impossible_values_are_refused_before_anything_starts(asked, word):
    with pytest.raises(WalkbackError, match=re.escape(word)):
        small_plan(**asked)


def test_plan_resolves_every_default_and_names_runs_by_what_they_are():
    full, same, frozen = (small_plan(**k)[0] for k in ({}, {"train_last": 3}, {"train_last": 0}))
    assert full == same
    assert full.hash() != frozen.hash()
    assert full.net_options == {"width": 16, "depth": 3, "terminal_norm": True, "gains": False, "skip": True}
    assert full.rule_options == {"normalize": "sample"}
    assert plan(rules=["bp"])[0].rule_options == {}
    assert frozen.label() == "dfa k=0"
    assert small_plan(penalty=0.01)[0].label() == "dfa λ=0.01"
    assert full.folder().endswith(full.hash())
    assert seed_list(5) == [42, 123, 456, 1001, 1002]
    assert [c.seed for c in small_plan(seeds=[5, 5, 6])] == [5, 6]
    of_numpy = {"lr": np.float64(1e-3), "epochs": np.int64(3), "weight_decay": np.float32(0.5), "seeds": [np.int64(42)]}
    assert small_plan(**of_numpy)[0].hash() == small_plan(weight_decay=0.5)[0].hash()


def test_records_are_plain_json_and_read_again_as_they_were(tmp_path):
    run = train(small_plan(epochs=1)[0], tmp_path)
    lines = (run.path / "snapshots.jsonl").read_text().splitlines()
    for text in (*((run.path / n).read_text() for n in ("config.json", "environment.json", "result.json")), *lines):
        json.loads(text, parse_constant=pytest.fail)
    again = read_run(run.path)
    assert again.snapshots == run.snapshots
    assert again.probes.text() == run.probes.text()  # by text: a NaN is not equal to itself
    assert run.environment.sittings[0].threads == 1
