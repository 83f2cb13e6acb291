"""A net of ours and the same net as a stranger's module, with its rule's credits, give the same moment."""

import math

import pytest
import torch
from torch import nn

from walkback.data import load
from walkback.loops.model_measured import measured
from walkback.loops.true_gradient import Asked
from walkback.probes.observe import credits_of, one_pass
from walkback.records import moment_of_snapshot
from walkback.rules import Batch
from walkback.train import Trainer, deep_probes, plan
from walkback.train.streams import stream

NETS = {
    "resmlp": {"width": 16, "depth": 3},
    "vit-mini": {"width": 16, "depth": 2},
    "mlp": {"widths": [16, 12, 12]},
    "small-cnn": {"channels": 4, "hidden": 8},
}


class Joined(nn.Module):
    """A block of ours with its join, as others write blocks."""

    def __init__(self, net, layer):
        super().__init__()
        self.block, self.layer = net.blocks[layer], layer
        self.join = net.join

    def forward(self, h):
        return self.join(self.layer, h, self.block(h))


class Stranger(nn.Module):
    def __init__(self, net):
        super().__init__()
        self.embed, self.readout = net.embed, net.readout
        self.blocks = nn.ModuleList(Joined(net, layer) for layer in range(net.depth))

    def forward(self, x):
        h = self.embed(x)
        for block in self.blocks:
            h = block(h)
        return self.readout(h)


def both(net, rule, describe=False):
    """The moment of a run's own snapshot and probes, and that of the stranger's door; 360 images are two chunks."""
    (config,) = plan(data="digits", net=net, net_options=NETS[net], rules=[rule], epochs=2, probe_images=360)
    trainer = Trainer(config, load("digits"))
    trainer.one_epoch(lambda: None)
    ours = moment_of_snapshot(trainer.snapshot(), deep_probes(trainer))

    def credits(_model, inputs, labels):
        batch = Batch(inputs, labels, stream(0, "none", 0), trainer.clock)
        return credits_of(trainer.rule, trainer.net, batch, one_pass(trainer.net, inputs, labels)).blocks

    batches = list(zip(trainer.probe_inputs.split(100), trainer.probe_labels.split(100), strict=True))
    asked = Asked(batches, "blocks.*", credits, None, trainer.net.reduction.replace("as is", "auto"), None, describe,
                  trainer.net.residual)  # fmt: skip
    return ours, measured(Stranger(trainer.net), asked).moment


def values(cosines):
    return [cosine.value for cosine in cosines]


@pytest.mark.parametrize(
    ("net", "rule"),
    [("resmlp", "bp"), ("resmlp", "fa"), ("vit-mini", "dfa"), ("mlp", "fa"), ("mlp", "dfa"), ("small-cnn", "bp"),
     ("small-cnn", "dfa")],
)  # fmt: skip
def test_second_implementation_both_doors_give_the_same_moment(net, rule):
    ours, theirs = both(net, rule)
    assert theirs.loss == pytest.approx(ours.loss, rel=1e-5)
    assert min(ours.hidden_norms + ours.gradient_norms) > 0
    assert theirs.hidden_norms == pytest.approx(ours.hidden_norms, rel=1e-5)
    assert theirs.gradient_norms == pytest.approx(ours.gradient_norms, rel=1e-3)
    assert theirs.reference_batch == ours.reference_batch
    assert values(theirs.cosine_out) == pytest.approx(values(ours.cosine_out), abs=1e-4)
    assert [c.alive for c in theirs.cosine_out] == [c.alive for c in ours.cosine_out] == [360] * len(ours.cosine_out)
    assert [c.status for c in theirs.cosine_out] == [c.status for c in ours.cosine_out]
    assert theirs.drift == pytest.approx(ours.drift, abs=1e-4)
    # As many samples are not taken into float64, so the chords are of two samples of one kind.
    assert theirs.precision.status == ours.precision.status == "ok"
    assert 0 < theirs.precision.chord < 1e-5
    assert theirs.precision.chord == pytest.approx(ours.precision.chord, rel=1)
    if rule != "bp":  # of which a net of ours knows the credit at the block's input too; a stranger gives one alone
        for mine, other in zip(ours.cosine, theirs.cosine, strict=True):
            assert other.value == pytest.approx(mine.value, abs=1e-4, nan_ok=True)
            assert other.status == mine.status
        assert theirs.gamma == pytest.approx(ours.gamma, abs=1e-4)


@pytest.mark.parametrize(("net", "rule"), [("resmlp", "dfa"), ("mlp", "bp")])
def test_second_implementation_what_is_described_is_taken_at_the_same_states(net, rule):
    """In a plain net the credit of block l speaks of h_{l+1}, whose width may be another than that of h_l."""
    ours, theirs = both(net, rule, describe=True)
    assert None not in (*ours.rho, *theirs.rho, *ours.nudging, *theirs.nudging)
    assert theirs.rho == pytest.approx(ours.rho, abs=0.2)  # 32 samples of 128
    for mine, other in zip(ours.nudging, theirs.nudging, strict=True):
        assert math.copysign(1, mine) == math.copysign(1, other)
    if rule == "bp":  # the gradient foretells everything, at the state that it is of
        assert min(*ours.rho, *theirs.rho) > 0.99


def test_closed_form_growth_of_one_row_per_sample_is_the_quotient_of_its_norms():
    """A stranger's growth is each sample's own; where all samples are alike it is the quotient of the medians."""
    ours, theirs = both("resmlp", "dfa")
    quotients = [after / before for before, after in zip(ours.hidden_norms, ours.hidden_norms[1:], strict=False)]
    assert theirs.growth == pytest.approx(quotients, rel=0.2)
    assert torch.tensor(quotients).max() > 1
