"""What Γ is judged by. Oracles: rotations drawn one by one, closed forms, planted formats, a net fitted to 1e-7."""

import math

import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional as F

from conftest import small_plan
from test_probes_rotated import error, haar
from walkback.data import load
from walkback.nets import Net, make_net
from walkback.probes import credit_cosine, net_precision, observe
from walkback.probes.at_output import turned_at_output
from walkback.probes.cosine import frobenius
from walkback.probes.observe import one_pass, stable_losses
from walkback.probes.precision import net_reference, reference_of_rows
from walkback.rules import Credits, Rule, Signal, make_rule, register_rule
from walkback.train import Trainer, deep_probes
from walkback.train.deep import output_probes

SAMPLES = 40


def drawn_gamma(credits: list[Tensor], gradients: list[Tensor], draws: int) -> Tensor:
    """Γ with one rotation per draw for all blocks of equal width."""
    draw = torch.Generator().manual_seed(5)
    found = []
    for _ in range(draws):
        turn = {width: haar(width, draw) for width in sorted({a.shape[1] for a in credits})}
        values = [credit_cosine(a @ turn[a.shape[1]], g).value for a, g in zip(credits, gradients, strict=True)]
        found.append(sum(values) / len(values))
    return torch.tensor(found)


@pytest.mark.parametrize(
    ("widths", "shared"), [((60, 60, 60), True), ((60, 30, 60, 30), True), ((60, 60, 60), False), ((24, 60), False)]
)
def test_second_implementation_one_rotation_for_all_blocks_of_a_width(widths: tuple[int, ...], shared: bool) -> None:
    """Where the blocks' credits and gradients are alike, Γ is three times as wide as its blocks are independent."""
    e, draw = error(SAMPLES).double(), torch.Generator().manual_seed(2)
    one = {w: torch.randn(10, 2 * w, generator=draw, dtype=torch.float64) for w in set(widths)}
    both = [one[w] if shared else torch.randn(10, 2 * w, generator=draw, dtype=torch.float64) for w in widths]
    credits = [e @ b[:, :w] for b, w in zip(both, widths, strict=True)]
    gradients = [e @ b[:, w:] for b, w in zip(both, widths, strict=True)]
    credits[0][:9] = 0  # samples without a direction in one block weigh on the others no more and no less
    nulls, gamma = turned_at_output(credits, gradients, [None] * len(widths))
    drawn = drawn_gamma(credits, gradients, 400)
    assert gamma.std == pytest.approx(float(drawn.std()), rel=0.12)
    assert abs(float(drawn.mean())) < 4 * gamma.std / 20
    assert (gamma.kind, gamma.mean) == ("turned credits", 0.0)
    alone = math.sqrt(sum(n.std**2 for n in nulls)) / len(nulls)
    if shared and len(set(widths)) == 1:
        assert gamma.std > 1.5 * alone  # variances that are added as if feedback were drawn for each block


def test_property_blocks_that_cannot_be_compared_are_left_out_of_the_null() -> None:
    a, g = torch.randn(30, 50), torch.randn(30, 50)
    nulls, gamma = turned_at_output([a, None, 0 * a, a[:, :7]], [g, g, g, g], [None] * 4)
    assert [n.known for n in nulls] == [True, False, False, False]
    assert gamma.std == nulls[0].std
    nothing = turned_at_output([None, None], [g, g], [None] * 2)[1]
    assert (nothing.known, nothing.n) == (False, 0)


def test_planted_a_block_whose_first_samples_have_no_credit_keeps_a_null() -> None:
    """Of many blocks fewer rows are taken: where those say nothing, Γ's null is as wide as it can be."""
    a, g = torch.randn(500, 20), torch.randn(500, 20)
    late = a.clone()
    late[:480] = 0
    blocks = 30
    nulls, gamma = turned_at_output([late] * blocks, [g] * blocks, [None] * blocks)
    assert gamma.known
    assert gamma.std == pytest.approx(nulls[0].std)


def test_closed_form_frobenius_weighs_samples_by_their_size() -> None:
    """+g on 65 % of the samples and −10 g on the rest: the cosines' mean is .3, and the update climbs."""
    g = torch.randn(1000, 40)
    g = g / g.norm(dim=1, keepdim=True)
    sign = torch.cat([torch.ones(650), torch.full((350,), -10.0)])[:, None]
    assert credit_cosine(g * sign, g).value == pytest.approx(0.3)
    found = frobenius(g * sign, g).value
    assert found == pytest.approx((650 - 3500) / math.sqrt((650 + 35000) * 1000))
    assert frobenius(g * sign * 1e-30, g * 1e30).value == pytest.approx(found)
    assert frobenius(None, g).status == "no credit"
    assert frobenius(g, 0 * g).status == "zero gradient"
    assert frobenius(g[:, :3], g).status == "not available"
    assert frobenius(g * math.nan, g).status == "not finite"
    hurt = (g * sign).clone()
    hurt[3] = math.inf
    assert frobenius(hurt, g).value == pytest.approx(found, abs=0.01)


def test_second_implementation_the_stable_loss_is_the_cross_entropy() -> None:
    z = (4 * torch.randn(50, 7, dtype=torch.float64)).requires_grad_()
    labels = torch.randint(7, (50,))
    ours, theirs = stable_losses(z, labels), F.cross_entropy(z, labels, reduction="none")
    assert torch.allclose(ours, theirs)
    (one,) = torch.autograd.grad(ours.sum(), z)
    (other,) = torch.autograd.grad(theirs.sum(), z)
    assert torch.allclose(one, other)


def fitted(scale: float = 1.0, dtype: torch.dtype = torch.float32) -> tuple[Net, Tensor, Tensor]:
    """A net whose loss is 1e-7 or so, in which float32 knows no p_y − 1; and its images."""
    torch.manual_seed(0)
    net = make_net("mlp", (20,), 5, {"width": 64, "depth": 3})
    x, labels = torch.randn(30, 20), torch.randint(5, (30,))
    head = net.readout
    assert isinstance(head, nn.Linear)
    with torch.no_grad():
        top = net.unroll(net.embed(x))[0][-1]
        # The head that gives the label some 16 nats more than the others, which differ: least squares, and exact.
        target = (F.one_hot(labels, 5) * 18 + torch.randn(30, 5)) * scale
        found = torch.linalg.lstsq(top.double(), target.double(), driver="gelsd").solution
        head.weight.copy_(found.T)
        head.bias.zero_()
    return net.to(dtype), x.to(dtype), labels


def test_planted_a_well_fitted_net_has_a_precise_reference() -> None:
    net, x, labels = fitted()
    loss = float(F.cross_entropy(net(x).detach().double(), labels))
    assert 1e-8 < loss < 1e-6
    assert net_precision(net, x, labels, one_pass(net, x, labels).gradients)[-1].chord > 0.01  # the softmax cancels
    found = net_reference(net, x, labels)
    assert found.status == "ok"
    assert found.chord < 1e-5


def test_planted_a_format_that_is_too_short_and_a_common_value_before_a_layer_norm_are_found() -> None:
    net, x, labels = fitted(dtype=torch.bfloat16)
    assert net_reference(net, x, labels).chord > 0.01
    torch.manual_seed(1)
    net = make_net("resmlp", (20,), 5, {"width": 32, "depth": 2})
    x, labels = torch.randn(64, 20), torch.randint(5, (64,))
    assert net_reference(net, x, labels).chord < 1e-4
    with torch.no_grad():
        next(m for m in net.embed.modules() if isinstance(m, nn.Linear)).bias.add_(1e7)
    assert net_reference(net, x, labels).chord > 0.01


def test_a_gradient_of_zeros_is_called_that() -> None:
    g = torch.randn(5, 3)
    assert reference_of_rows(0 * g, g.double()).status == "zero gradient"
    assert reference_of_rows(0 * g, 0 * g.double()).status == "zero gradient"
    net, x, labels = fitted(scale=60)  # exp(−960) is nothing even in float64
    assert net_reference(net, x, labels).status == "zero gradient"


def test_planted_backprop_of_a_well_fitted_net_is_the_gradient() -> None:
    """Its cosine is taken with the gradient that is precise, and says so; chance is measured with it too."""
    net, x, labels = fitted()
    rule = make_rule("bp", net, torch.Generator(), {})
    draws = torch.Generator().manual_seed(0)
    seen = observe(net, rule, x, labels, draws)
    precise = net_precision(net, x, labels, seen.gradients)

    def look(place: int | None, stable: bool):
        assert (place, stable) == (None, True)
        return observe(net, rule, x, labels, draws, stable=stable)

    found = output_probes(net, rule, x, labels, seen, precise[-1], look)
    assert found.cosine is not None
    assert [round(c.value, 6) for c in found.cosine] == [1.0] * 3
    assert [round(f.value, 6) for f in found.frobenius] == [1.0] * 3
    assert found.reference.chord < 1e-5


class OneBlockAStep(Rule):
    """Exact backprop of one block per step in turn; `zeros`: the others get zeros instead of nothing."""

    def __init__(self, net, generator, *, zeros: bool = False, never: bool = False, normalize: str | None = None):
        super().__init__(net, generator, normalize=normalize)
        self.zeros, self.never = zeros, never

    def credits(self, signal: Signal) -> Credits:
        depth = signal.net.depth
        place = signal.clock.step % depth
        place = max(place, 1) if self.never else place
        if signal.gradients is not None:
            exact = list(signal.gradients[1:])
        else:
            with torch.enable_grad():
                stream, _ = signal.net.unroll(signal.states[0].detach().requires_grad_())
                loss = F.cross_entropy(signal.net.readout(stream[-1]), signal.labels, reduction="sum")
                exact = list(torch.autograd.grad(loss, stream[1:]))
        rest = [torch.zeros_like(g) if self.zeros else None for g in exact]
        return Credits([g if at == place else r for at, (g, r) in enumerate(zip(exact, rest, strict=True))],
                       torch.zeros_like(signal.hidden[0]))  # fmt: skip


@pytest.mark.parametrize("options", [{}, {"zeros": True}, {"never": True}])
def test_planted_exact_backprop_of_one_block_per_step_has_a_cosine_in_every_block(options) -> None:
    """`never`: but for one that never has credit, which has none."""
    register_rule("one-block-a-step", OneBlockAStep)
    (config,) = small_plan(data="digits", rules=["one-block-a-step"], rule_options=options, epochs=2)
    trainer = Trainer(config, load("digits"))
    trainer.one_epoch(lambda: None)
    assert [c.status == "ok" for c in trainer.snapshot().cosine_out].count(True) == 1
    output = deep_probes(trainer).output
    assert output is not None
    assert output.cosine is not None
    exact, none = [("ok", 1.0)] * 3, ("no credit", math.nan)
    expected = [none, *exact[1:]] if "never" in options else exact
    for found in (output.cosine, output.frobenius):
        assert str([(each.status, round(each.value, 6)) for each in found]) == str(expected)
    assert [null.known for null in output.null] == [status == "ok" for status, _ in expected]
