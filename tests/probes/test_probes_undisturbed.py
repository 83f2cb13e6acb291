"""What a probe watches is afterwards as it was. Oracle: a copy of everything made before, also after an error."""

import copy
import random
from collections.abc import Callable

import numpy as np
import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional as F

from conftest import alike
from test_model_as_it_was import described
from walkback.nets import make_net
from walkback.probes import (
    feedback_null,
    look,
    net_precision,
    nudging,
    observe,
    perturbation,
    replay_module,
    replay_net,
)
from walkback.rules import make_rule


class Trap(nn.Module):
    """BatchNorm, dropout, a counter that it overwrites, a buffer that it replaces; explodes if asked to."""

    def __init__(self) -> None:
        super().__init__()
        self.embed, self.norm, self.drop = nn.Linear(5, 6), nn.BatchNorm1d(6), nn.Dropout(0.5)
        self.block, self.head = nn.Linear(6, 6), nn.Linear(6, 3)
        self.register_buffer("calls", torch.zeros(()))
        self.register_buffer("last", torch.zeros(6))
        self.register_buffer("later", None)
        self.explode = False

    def forward(self, x: Tensor) -> Tensor:
        h = self.block(self.drop(self.norm(self.embed(x))))
        self.calls += 1
        self.last = h[0].detach()
        self.later = h[1].detach()
        torch.rand(3), random.random(), np.random.rand()
        if self.explode:
            raise ZeroDivisionError
        logits: Tensor = self.head(h)
        return logits


def trap() -> tuple[Trap, Tensor, Tensor]:
    torch.manual_seed(0)
    model, x, y = Trap(), torch.randn(8, 5), torch.randint(3, (8,))
    F.cross_entropy(model(x), y).backward()  # there are gradients to lose
    model.block.weight.requires_grad_(False)
    model.drop.eval()  # a mode of its own
    return model, x, y


def greedy(model: nn.Module, x: Tensor, y: Tensor) -> list[Tensor]:
    """A credit function with no manners: it trains, draws, and fills .grad."""
    model.train()
    F.cross_entropy(model(x), y).backward()
    return [torch.randn(len(x), 6)]


@pytest.mark.parametrize("explode", [False, True])
@pytest.mark.parametrize(
    "probe",
    [
        lambda m, x, y: look(m, [(x, y), (x, y)], "block"),
        lambda m, x, y: look(m, [(x, y)], "block", credits=greedy),
        lambda m, x, y: replay_module(m, x, y, "block").loss_from(1, torch.zeros(8, 6)),
    ],
    ids=["look", "greedy credits", "replay"],
)
def test_a_foreign_model_is_as_before(probe: Callable[[Trap, Tensor, Tensor], object], explode: bool) -> None:
    model, x, y = trap()
    model.explode = explode
    before, inputs = described(model), x.clone()
    if explode:
        with pytest.raises(ZeroDivisionError):
            probe(model, x, y)
    else:
        probe(model, x, y)
    assert alike(before, described(model))
    assert torch.equal(x, inputs)


@pytest.mark.parametrize("name", ["resmlp", "vit-mini"])
def test_our_nets_are_as_before(name: str) -> None:
    torch.manual_seed(0)
    net = make_net(name, (3, 8, 8), 4, {"width": 8, "depth": 2})
    rule = make_rule("fa", net, torch.Generator().manual_seed(1), {})
    x, y = torch.randn(12, 3, 8, 8), torch.randint(4, (12,))
    F.cross_entropy(net(x), y).backward()
    net.blocks[0].eval()
    draw = torch.Generator().manual_seed(5)

    def fresh(k: int) -> nn.Module:
        torch.manual_seed(k)  # a maker with no manners
        return make_rule("fa", net, torch.Generator().manual_seed(k), {})

    before = described(net), described(rule)
    seen = observe(net, rule, x, y, draw)
    feedback_null(net, rule, fresh, x, y, draw)
    net_precision(net, x, y, seen.gradients)
    replay = replay_net(net, x, y)
    perturbation(seen.credits.blocks, *replay, draw, directions=2)
    nudging(seen.credits.blocks, *replay)
    assert alike(before, (described(net), described(rule)))


def test_property_batchnorm_in_evaluation_couples_no_samples() -> None:
    model, x, y = trap()
    whole = look(model, [(x, y)], "block").gradients[0]
    apart = look(model, zip(x.split(2), y.split(2), strict=True), "block").gradients[0]
    assert torch.linalg.vector_norm(whole, dim=1).min() > 0
    assert torch.allclose(whole, apart, rtol=1e-4, atol=1e-7)


def test_a_model_in_training_goes_on_bit_for_bit() -> None:
    """Second implementation: the same five steps with and without a look between them."""
    ends = []
    for looking in (False, True):
        model, x, y = trap()
        optimizer = torch.optim.SGD(model.parameters(), 0.1, momentum=0.9)
        for _ in range(5):
            optimizer.zero_grad()
            F.cross_entropy(model(x), y).backward()
            if looking:
                look(model, [(x, y)], "block", credits=greedy)
            optimizer.step()
        ends.append(copy.deepcopy(model.state_dict()))
    assert alike(*ends)
