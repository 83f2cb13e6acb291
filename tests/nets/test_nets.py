"""The nets at init against the sanity figures of the protocol, and what every net promises."""

import pytest
import torch

from walkback.errors import UnknownName
from walkback.nets import NETS, make_net
from walkback.probes import identity, median_norm


@pytest.mark.parametrize("seed", [0, 1, 2])
def test_published_number_identity_at_init(seed):
    """‖f_l‖/‖h_l‖ ≈ .096–.100 in every block, ‖h_L−h_0‖/‖h_0‖ ≈ .197, cos(h_L, h_0) ≈ .981 at d = 256, L = 4.

    The published figures are for CIFAR-10, whose ‖h_0‖ is 8.8 on average; LayerNorm makes the branches the same
    whatever that size, so the ratios go with 1/‖h_0‖, and h_0 is scaled to that size here.
    """
    torch.manual_seed(seed)
    net = make_net("resmlp", (3, 32, 32), 10, {})
    # As CIFAR-10 images after normalisation: nearly unit variance, strongly correlated between pixels.
    x = torch.nn.functional.interpolate(torch.randn(256, 3, 4, 4), size=32, mode="bilinear") * 1.4
    with torch.no_grad():
        start = net.embed(x)
        stream, branches = net.unroll(start * (8.8 / median_norm(start)))
    branch, moved, cosine = identity(stream, branches)
    assert all(0.09 < ratio < 0.105 for ratio in branch), branch
    assert moved == pytest.approx(0.197, abs=0.015)
    assert cosine == pytest.approx(0.981, abs=0.003)
    at_init = torch.nn.functional.cosine_similarity(stream[0], stream[-1]).median()  # a second implementation
    assert cosine == pytest.approx(float(at_init), abs=1e-5)


def test_property_embed_blocks_readout_make_the_net():
    for name, shape in (("resmlp", (40,)), ("resmlp", (3, 8, 8)), ("vit-mini", (3, 8, 8))):
        net = make_net(name, shape, 7, {})
        x = torch.randn(5, *shape)
        stream, branches = net.unroll(net.embed(x))
        assert len(stream) == net.depth + 1
        assert len(branches) == net.depth
        assert net(x).shape == (5, 7)
        assert net.rows(stream[0]).shape == net.embed_rows(stream[0]).shape == (5, net.width)
        torch.testing.assert_close(stream[1], stream[0] + branches[0])
        torch.testing.assert_close(net.readout(stream[-1]), net(x))


def test_property_skip_terminal_norm_and_gains_are_switches():
    assert make_net("resmlp", (4,), 2, {"terminal_norm": False}).readout.__class__ is torch.nn.Linear
    assert not list(make_net("resmlp", (4,), 2, {}).blocks[0].norm.parameters())
    assert len(list(make_net("resmlp", (4,), 2, {"gains": True}).blocks[0].norm.parameters())) == 2
    stream, branches = make_net("resmlp", (4,), 2, {"skip": False}).unroll(torch.randn(3, 256))
    assert torch.equal(stream[1], branches[0])


def test_property_vit_credit_reaches_the_patches():
    """At the cls token of h_0 nothing depends on the image; at the embedding's own site it does."""
    net = make_net("vit-mini", (3, 8, 8), 3, {})
    x = torch.randn(2, 3, 8, 8)
    start = net.embed(x)
    assert torch.equal(net.rows(start)[0], net.rows(start)[1])
    net.embed_rows(start).sum().backward()
    assert net.embed.project.weight.grad.abs().max() > 0


def test_registry_lists_and_offers():
    assert NETS.names("vit*") == ["vit-mini"]
    with pytest.raises(UnknownName, match="resmlp"):
        NETS.get("resmpl")
