"""Where credits are measured: the embedding's at the place where it acts, and the same in whatever portions we look."""

import copy
import math

import pytest
import torch
from torch import Tensor
from torch.nn import functional as F

from walkback.nets import Net, make_net
from walkback.probes import observe, quantities
from walkback.rules import make_rule

SHAPE, CLASSES = (3, 8, 8), 4


def images(count: int) -> tuple[Tensor, Tensor]:
    draws = torch.Generator().manual_seed(1)
    return torch.randn(count, *SHAPE, generator=draws), torch.randint(CLASSES, (count,), generator=draws)


def net_of(name: str) -> Net:
    torch.manual_seed(0)
    net = make_net(name, SHAPE, CLASSES, {"width": 8, "depth": 2})
    with torch.no_grad():
        for block in net.blocks:
            for parameter in block.parameters():
                parameter.mul_(3).add_(torch.randn_like(parameter) * 0.2)
    return net


def moved_losses(net: Net, inputs: Tensor, labels: Tensor, move: Tensor) -> Tensor:
    """Each sample's loss when the rows at which the embedding's credit acts move by `move`."""
    start = net.embed(inputs)
    moved = start + (move[:, None, :] if start.dim() == 3 else move)  # every token, so that their mean moves so
    torch.testing.assert_close(net.embed_rows(moved) - net.embed_rows(start), move)
    return F.cross_entropy(net.readout(net.unroll(moved)[0][-1]), labels, reduction="none")


@pytest.mark.parametrize("name", ["vit-mini", "resmlp"])
def test_finite_difference_the_embeddings_gradient_is_taken_where_its_credit_acts(name: str) -> None:
    net, (inputs, labels) = net_of(name), images(6)
    seen = observe(net, make_rule("dfa", net, torch.Generator(), {}), inputs, labels, torch.Generator())
    assert seen.embed_gradient is not None
    assert seen.embed_gradient.abs().max() > 1e-6
    twin = copy.deepcopy(net).double()
    direction = torch.randn(6, 8, generator=torch.Generator().manual_seed(2), dtype=torch.float64)
    with torch.no_grad():
        ends = [moved_losses(twin, inputs.double(), labels, sign * 1e-5 * direction) for sign in (1, -1)]
    slope = (ends[0] - ends[1]) / 2e-5
    torch.testing.assert_close((seen.embed_gradient.double() * direction).sum(1), slope, rtol=1e-3, atol=1e-5)


@pytest.mark.parametrize("name", ["vit-mini", "resmlp"])
def test_closed_form_bps_embedding_has_cosine_one_and_dfas_has_not(name: str) -> None:
    net, (inputs, labels) = net_of(name), images(6)
    found = observe(net, make_rule("bp", net, torch.Generator(), {}), inputs, labels, torch.Generator())
    assert quantities(found).embed.value == pytest.approx(1.0)
    rule = make_rule("dfa", net, torch.Generator(), {})
    assert quantities(observe(net, rule, inputs, labels, torch.Generator())).embed.value < 0.9  # a live comparison


def test_finite_difference_the_vits_patches_learn_what_the_cosine_compares() -> None:
    """A step of the patch projection against bp's embedding credit lowers the loss; the cls token's says nothing."""
    net, (inputs, labels) = net_of("vit-mini"), images(64)
    seen = observe(net, make_rule("bp", net, torch.Generator(), {}), inputs, labels, torch.Generator())
    assert seen.embed_credit is not None
    before = F.cross_entropy(net(inputs), labels)
    (net.embed_rows(net.embed(inputs)) * seen.embed_credit).sum(1).mean().backward()
    weight = net.embed.project.weight  # type: ignore[union-attr]
    assert weight.grad.abs().max() > 0  # type: ignore[union-attr]
    with torch.no_grad():
        weight -= 1e-3 * weight.grad / weight.grad.norm()  # type: ignore[union-attr,operator]
        assert F.cross_entropy(net(inputs), labels) < before


@pytest.mark.parametrize("rule", ["fa", "dfa"])
@pytest.mark.parametrize("how", ["batch", "sample", "none"])
def test_property_probes_do_not_depend_on_how_many_samples_are_looked_at_at_once(
    rule: str, how: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Samples with large and with small errors, in portions of 7, 64 and all: the same credits, bit for bit or nearly.

    Normalised over each portion, the credit of a sample would depend on who stands beside it.
    """
    import sys

    net, (inputs, labels) = net_of("resmlp"), images(64)
    inputs[::2] *= 30  # large and small errors
    made = make_rule(rule, net, torch.Generator().manual_seed(3), {"normalize": how})
    found = []
    for chunk in (7, 64, 256):
        monkeypatch.setattr(sys.modules["walkback.probes.observe"], "CHUNK", chunk)
        seen = observe(net, made, inputs, labels, torch.Generator().manual_seed(4))
        assert seen.embed_credit is not None
        blocks = [a for a in seen.credits.blocks if a is not None]
        assert len(blocks) == 2
        found.append([*blocks, seen.embed_credit])
    for other in found[1:]:
        for ours, theirs in zip(found[0], other, strict=True):
            torch.testing.assert_close(ours, theirs, rtol=1e-4, atol=1e-7)
    if how == "batch":  # over all samples its RMS is one
        for credit in found[0]:
            assert float(credit.square().mean().sqrt()) == pytest.approx(1.0, rel=1e-4)
    assert not math.isclose(float(found[0][0][0].norm()), 0.0)
