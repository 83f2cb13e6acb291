"""The forward gradient: one slope along random directions, whose mean is the gradient and whose cosine is small."""

import pytest
import torch
from torch.nn import functional as F

from walkback.nets import make_net
from walkback.probes import observe
from walkback.rules import Batch, make_rule

CASES = [
    ("resmlp", (6,), {"width": 12, "depth": 3}), ("mlp", (6,), {"width": 12, "depth": 3}),
    ("vit-mini", (3, 8, 8), {"width": 16, "depth": 2}), ("small-cnn", (1, 8, 8), {"channels": 2, "hidden": 8}),
]  # fmt: skip


def subject(name, shape, options, count=8):
    torch.manual_seed(0)
    net = make_net(name, shape, 4, options)
    x, y = torch.randn(count, *shape), torch.arange(count) % 4
    return net, make_rule("fg", net, torch.Generator(), {}), x, y


@pytest.mark.parametrize(("name", "shape", "options"), CASES)
def test_oracle_the_mean_of_many_draws_is_the_gradient(name, shape, options):
    """With cosines as they must be for so many draws, so that a factor and a wrong place are seen as well."""
    net, rule, x, y = subject(name, shape, options)
    generator, draws = torch.Generator().manual_seed(1), 600
    seen = [observe(net, rule, x, y, generator) for _ in range(draws)]
    for layer, g in enumerate(seen[0].gradients[1:]):
        a = torch.stack([look.credits.blocks[layer] for look in seen])
        mean, error = a.mean(0), a.std(0) / draws**0.5
        assert g.abs().max() > 0
        off = ((mean - g) / error.clamp_min(1e-12)).flatten()
        assert float(off.square().mean()) == pytest.approx(1, abs=0.35), layer  # as far off as chance allows, no more
        assert float((mean * g).sum() / (g * g).sum()) == pytest.approx(1, abs=0.25)


def test_second_implementation_the_slope_by_finite_differences():
    """D of each sample from two passes with every state moved by ±εv, the same v."""
    net, rule, x, y = subject(*CASES[0])
    net, rule = net.double(), rule.double()
    x = x.double()
    credits = observe(net, rule, x, y, torch.Generator().manual_seed(3)).credits.blocks
    draws = torch.Generator().manual_seed(3)
    v = [torch.randn(8, 12, generator=draws).double() for _ in range(net.depth + 1)]

    def losses(eps):
        h = net.embed(x) + eps * v[0]
        for layer, block in enumerate(net.blocks):
            h = net.join(layer, h, block(h)) + eps * v[layer + 1]
        return F.cross_entropy(net.readout(h), y, reduction="none").detach()

    slopes = (losses(1e-5) - losses(-1e-5)) / 2e-5
    for a, direction in zip(credits, v[1:], strict=True):
        torch.testing.assert_close(a, slopes[:, None] * direction, rtol=1e-6, atol=1e-9)


def test_property_the_cosine_is_above_zero_and_falls_with_the_width():
    """E cos ∝ 1/√d: small, and not chance."""
    found = []
    for width in (16, 256):
        net, rule, x, y = subject("resmlp", (6,), {"width": width, "depth": 3}, count=256)
        seen = [observe(net, rule, x, y, torch.Generator().manual_seed(s)) for s in range(20)]
        cosines = [F.cosine_similarity(look.credits.blocks[1], look.gradients[2], 1).mean() for look in seen]
        stacked = torch.stack(cosines)
        assert float(stacked.mean()) > 8 * float(stacked.std()) / 20**0.5
        found.append(float(stacked.mean()))
    assert found[0] / found[1] == pytest.approx(4, rel=0.35)


def test_property_batch_norm_and_the_net_stay_as_they_are():
    """The tangents run through copies: no running mean moves, and nothing keeps a graph."""
    net, rule, x, y = subject("small-resnet", (3, 8, 8), {})
    before = {k: v.clone() for k, v in net.state_dict().items()}
    looked = observe(net, rule, x, y, torch.Generator().manual_seed(0))
    assert all(a.isfinite().all() and not a.requires_grad for a in looked.credits.blocks)
    assert all(torch.equal(before[k], v) for k, v in net.state_dict().items())
    loss = rule.backward(net, Batch(x, y, torch.Generator().manual_seed(0)))
    assert loss.isfinite()
