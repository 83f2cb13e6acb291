"""What a rule and a net promise to the trainer: saved feedback, options that rename nothing, controls, devices."""

import json

import pytest
import torch
from torch import nn
from torch.nn import functional as F

import walkback as wb
from conftest import small_plan
from fake_runs import snapshot
from report_material import config
from walkback.audits import fired_by, stopping
from walkback.cli.options import read_seconds
from walkback.data import load
from walkback.errors import BadValue
from walkback.nets import make_net, recorded
from walkback.records import RunConfig, read_run
from walkback.rules import Batch, Credits, Rule, make_rule
from walkback.train import Trainer, train_all
from walkback.train.streams import stream
from walkback_paper import Arm, Extent, in_order, left, next_up, studies


def net(**options):
    return make_net("resmlp", (5,), 3, {"width": 6, "depth": 2} | options)


# --- feedback is saved, or the rule is refused ----------------------------------------------------------------------


SAVE_IT = r"would not be saved[\s\S]*self\.feedback"


@pytest.mark.parametrize(
    ("keep", "words"),
    [
        (lambda rule, _: setattr(rule, "Bs", [torch.zeros(2)]), SAVE_IT),
        (lambda rule, _: setattr(rule, "_hidden", {"a": (torch.zeros(2),)}), SAVE_IT),
        (lambda rule, _: setattr(rule, "heads", [nn.Linear(2, 2)]), SAVE_IT),
        (lambda rule, net: setattr(rule, "net", net), "keeps the net"),
    ],
    ids=["list", "nested", "modules", "the net"],
)
def test_planted_what_a_rule_keeps_in_a_plain_attribute_is_refused_with_the_remedy(keep, words):
    class Forgetful(Rule):
        def __init__(self, net, generator):
            super().__init__(net, generator)
            keep(self, net)

    wb.register_rule("forgetful", Forgetful)
    with pytest.raises(BadValue, match=words):
        make_rule("forgetful", net(), torch.Generator(), {})


def test_property_feedbacks_of_several_sizes_are_in_the_checkpoint():
    plain = make_net("mlp", (5,), 3, {"widths": [7, 4]})
    rule = make_rule("dfa", plain, stream(1, "feedback"), {})
    assert {k: tuple(v.shape) for k, v in rule.state_dict().items()} == {"B.0": (7, 3), "B.1": (4, 3)}
    assert [tuple(b.shape) for b in (rule.B[0], rule.B[-1])] == [(7, 3), (4, 3)]


@pytest.mark.parametrize(
    ("blocks", "word"),
    [
        (lambda s: [s.hidden[1]], "1 credits for 2 blocks"),
        (lambda s: [torch.zeros(len(s.labels), 3), s.hidden[2]], "block 0 a credit of shape"),
    ],
    ids=["count", "width"],
)
def test_error_credits_that_fit_no_block_say_so(blocks, word):
    class Misfit(Rule):
        def credits(self, signal):
            return Credits(blocks(signal), embed=signal.hidden[0])

    made = net()
    batch = Batch(torch.randn(8, 5), torch.randint(3, (8,)), torch.Generator())
    with pytest.raises(BadValue, match=word):
        Misfit(made, torch.Generator()).backward(made, batch)


# --- options and hashes ---------------------------------------------------------------------------------------------


def test_property_an_option_that_came_later_renames_no_run():
    (plain,) = small_plan(rules=["fa"])
    (said,) = small_plan(rules=["fa"], rule_options={"embed": "chain"}, net_options={"down_std": 0.01})
    (other,) = small_plan(rules=["fa"], rule_options={"embed": "block"})
    (wide,) = small_plan(rules=["fa"], net_options={"down_std": 0.5})
    assert plain == said
    assert "embed" not in plain.rule_options
    assert "down_std" not in plain.net_options
    assert len({plain.hash(), other.hash(), wide.hash()}) == 3
    assert other.rule_options["embed"] == "block"
    assert recorded({"a": 1, "b": 2}, {"b": 3}) == {"a": 1, "b": 2}


def test_property_what_a_config_says_of_its_net_cannot_be_edited_unseen():
    (config,) = small_plan(rules=["bp"], net="mlp")
    raw = json.loads(config.text())
    for change in ({"residual": True}, {"blocks": 2}):
        assert RunConfig.from_plain(raw | change).hash() != config.hash()
    (first,) = small_plan(rules=["bp"])
    edited = RunConfig.from_plain(json.loads(first.text()) | {"residual": False, "blocks": 1})
    assert edited == first  # of the first two nets, the options tell


# --- schedule, labels, device, budget -------------------------------------------------------------------------------


def test_property_random_labels_are_fresh_per_minibatch_and_teach_nothing():
    data = load("mnist1d")
    seen = []

    class Watcher(Rule):
        def backward(self, net, batch):
            seen.append(batch.labels.clone())
            loss = F.cross_entropy(net(batch.inputs), batch.labels)
            loss.backward()
            return loss.detach()

    wb.register_rule("watcher", Watcher)
    (config,) = small_plan(rules=["watcher"], labels="random", epochs=1)
    trainer = Trainer(config, data)
    trainer.one_epoch(lambda: None)
    counts = torch.cat(seen).bincount(minlength=10) / len(data.train.labels)
    assert counts.min() > 0.08  # uniform, whatever the classes are
    true = torch.cat([data.train.labels[i] for i in torch.randperm(
        4000, generator=stream(config.seed, "order", 0)).split(config.batch_size)])  # fmt: skip
    assert (torch.cat(seen) == true).float().mean() < 0.14
    first = list(seen)
    seen.clear()
    Trainer(config, data).one_epoch(lambda: None)
    assert all(torch.equal(a, b) for a, b in zip(first, seen, strict=True))  # a function of seed and step


def test_error_a_device_that_is_not_here(out):
    with pytest.raises(BadValue, match="no device") as caught:
        train_all(small_plan(), out, device="cuda:77")
    assert "--device" in str(caught.value)
    assert not out.exists()


def test_property_a_budget_stops_cleanly_and_the_same_call_resumes(out):
    configs = small_plan(rules=["dfa", "bp"], epochs=400)
    assert train_all(configs, out, jobs=1, budget=1.0) == [None, None]
    before = read_run(out / configs[0].folder())
    assert before.result is None
    assert (before.path / "checkpoint.safetensors").exists()
    says = left([Arm("both", tuple(configs))], out)
    assert says.startswith("2 of 2 runs are left")
    (short,) = small_plan(epochs=1)
    train_all([short], out, jobs=1, budget=600)
    assert left([Arm("short", (short,))], out) == "All 1 runs are finished."
    assert "about" in left([Arm("some", (short, *small_plan(epochs=3)))], out)


@pytest.mark.parametrize(("words", "seconds"), [("150m", 9000), ("2h", 7200), ("90s", 90), ("3", 180), (None, None)])
def test_closed_form_budgets(words, seconds):
    assert read_seconds(words) == seconds


@pytest.mark.parametrize("words", ["", "soon", "-3m", "nan", "infh", "m"])
def test_error_no_span_of_time(words):
    with pytest.raises(BadValue, match="span of time"):
        read_seconds(words)


def test_property_runs_come_by_rank_and_each_once():
    extent = Extent()
    arms = in_order(studies(), extent)
    assert [arm.rank for arm in arms] == sorted(arm.rank for arm in arms)
    configs = next_up(arms, set())
    assert len({c.hash() for c in configs}) == len(configs)
    ranks = {}
    for arm in arms:
        for c in arm.configs:
            ranks[c.hash()] = min(arm.rank, ranks.get(c.hash(), 99))
    order = [ranks[c.hash()] for c in configs]
    assert order == sorted(order)
    first = [c for c in configs if ranks[c.hash()] == 1]
    assert {c.rule for c in first} == {"random"}


# --- --stop-when-fired: what a single snapshot tells, in a net with a stream and in a plain one -----------------------


def test_a_plain_net_is_not_stopped_by_the_rule_for_streams():
    """One block makes the last state 1,000 times larger: growth of a stream, and nothing where there is none."""
    stream_net, plain_net = config(depth=4), config(depth=4, net_options={**config(depth=4).net_options, "skip": False})
    loud, faint = snapshot(stream_net, 3, 0.5, 9e3, 1e-3), snapshot(stream_net, 3, 0.5, 9.0, 1e-9)
    assert fired_by(loud) == "one block's growth is above 50"
    assert fired_by(loud, residual=False) is None
    assert fired_by(faint) == fired_by(faint, residual=False) == "‖g_L‖ is below 1e-7"
    assert fired_by(snapshot(stream_net, 3, 0.5, 9e3, 1e-9)) == "one block's growth is above 50 and ‖g_L‖ is below 1e-7"
    assert stopping([stream_net])(loud) is not None
    assert stopping([plain_net])(loud) is None
