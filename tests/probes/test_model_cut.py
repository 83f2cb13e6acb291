"""Strangers whose graph is cut between blocks, as in local learning: the true gradient is found all the same.

Oracle: the same net without its cuts.
"""

import pytest
import torch
from torch import Tensor, nn

import walkback as wb
from strangers import with_backward
from walkback.probes.forward_switches import WithoutDetach

X = torch.randn(96, 8, generator=torch.Generator().manual_seed(0))
Y = (X[:, 0] * X[:, 1] > 0).long()


class Block(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.inner = nn.Sequential(nn.LayerNorm(16), nn.Linear(16, 16), nn.GELU())

    def forward(self, h: Tensor) -> Tensor:
        return h + self.inner(h)


class Net(nn.Module):
    """`cut` is applied to what each block takes, and to what the head takes."""

    def __init__(self, cut=lambda h: h, block=Block) -> None:
        super().__init__()
        torch.manual_seed(3)
        self.embed, self.head = nn.Linear(8, 16), nn.Linear(16, 2)
        self.blocks = nn.ModuleList(block() for _ in range(3))
        self.cut = cut

    def forward(self, x: Tensor) -> Tensor:
        h = self.embed(x)
        for block in self.blocks:
            h = block(self.cut(h))
        return self.head(self.cut(h))


class Silent(Block):
    def forward(self, h: Tensor) -> Tensor:
        with torch.no_grad():
            return super().forward(h)


CUTS = {
    "detach": lambda: Net(lambda h: h.detach()),
    "data": lambda: Net(lambda h: h.data),
    "no_grad": lambda: Net(block=Silent),
}


def numbers(model: nn.Module, **more):
    (subject,) = (audit := wb.audit(model, [(X, Y)], "blocks.*", residual=True, describe=False, **more)).subjects
    moment = audit.evidence.seeds[0].moments[-1]
    return subject, moment, audit.evidence.notes


@pytest.mark.parametrize("kind", CUTS)
def test_the_gradient_behind_a_cut_is_that_of_the_net_without_cuts(kind):
    _, whole, _ = numbers(Net())
    subject, cut, notes = numbers(CUTS[kind]())
    assert min(whole.gradient_norms) > 1e-6
    assert cut.gradient_norms == pytest.approx(whole.gradient_norms, rel=1e-5)
    assert cut.precision is not None
    assert cut.precision.status == "ok"
    assert {f.check: f.outcome for f in subject.findings}["reference"] == "passes"
    assert any("does not deliver the derivative of the loss" in note and "detach()" in note for note in notes)
    assert any("3 of 3 blocks seen" in note for note in notes)


def truth(_model, x, y):
    """The gradient at the blocks' outputs, in a net without cuts."""
    whole = Net()
    states = [whole.embed(x)]
    for block in whole.blocks:
        states.append(block(states[-1]))
    loss = nn.functional.cross_entropy(whole.head(states[-1]), y, reduction="sum")
    return list(torch.autograd.grad(loss, states[1:]))


def test_credits_of_a_cut_net_are_compared_with_the_true_gradient():
    for sign in (1, -1):
        _, moment, _ = numbers(CUTS["detach"](), credits=lambda *given, sign=sign: [sign * a for a in truth(*given)])
        assert [c.value for c in moment.cosine_out] == pytest.approx([sign] * 3, abs=1e-5)


def test_an_overridden_backward_without_cuts_stays_measured_by_differences():
    _, whole, _ = numbers(Net())
    _, moment, notes = numbers(Net(with_backward(torch.neg)))
    assert any("measured by finite differences" in note for note in notes)
    assert moment.gradient_norms == pytest.approx(whole.gradient_norms, rel=0.1)


def test_a_cut_and_an_overridden_backward_together_are_not_called_proved():
    double = with_backward(lambda g: 2 * g)
    _, whole, _ = numbers(Net())
    _, moment, notes = numbers(Net(lambda h: double(h.detach())))
    assert not any("detach()" in note for note in notes)
    assert moment.gradient_norms == pytest.approx(whole.gradient_norms, rel=0.1)


def test_without_its_cuts_a_model_computes_the_same_and_gradients_stay_as_they_were():
    model = CUTS["detach"]()
    whole = WithoutDetach(model)
    assert torch.equal(whole(X), model(X))
    assert whole.cuts == 4
    assert torch.is_grad_enabled()
    assert all(p.grad is None for p in model.parameters())
    with torch.no_grad():
        whole(X)
        assert not torch.is_grad_enabled()


# --- other things a stranger's model may do -------------------------------------------------------------------------


def test_probabilities_are_scored_as_probabilities():
    class Softmax(Net):
        def forward(self, x: Tensor) -> Tensor:
            return super().forward(x).softmax(1)

    _, logits, _ = numbers(Net())
    _, shares, notes = numbers(Softmax())
    assert any("probabilities" in note for note in notes)
    assert shares.loss == pytest.approx(logits.loss, rel=1e-5)
    assert shares.gradient_norms == pytest.approx(logits.gradient_norms, rel=1e-4)
    _, _, notes = numbers(type("Squashed", (Net,), {"forward": lambda self, x: Net.forward(self, x).sigmoid()})())
    assert any("between 0 and 1" in note for note in notes)


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
def test_half_precision_alone_walks_nobody_back(dtype):
    model = Net()
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-2)
    for _ in range(60):
        optimizer.zero_grad()
        nn.functional.cross_entropy(model(X), Y).backward()
        optimizer.step()
    audit = wb.audit(model.to(dtype), [(X.to(dtype), Y)], "blocks.*", residual=True)
    (reference,) = (f for f in audit.subjects[0].findings if f.check == "reference")
    assert reference.outcome == "passes"
    name = str(dtype).removeprefix("torch.")
    assert f"a float32 copy of the {name} weights" in reference.says
    assert any(
        f"{name} itself changes the direction of the deepest gradient by" in note for note in audit.evidence.notes
    )


def test_a_block_inside_a_block_is_refused():
    with pytest.raises(wb.WalkbackError, match=r"blocks\.0\.inner is inside block blocks\.0") as caught:
        wb.audit(Net(), [(X, Y)], ["blocks.0", "blocks.0.inner", "blocks.1"])
    assert "Remedy" in str(caught.value)


def test_credits_that_are_the_gradient_are_called_so():
    _, _, notes = numbers(Net(), credits=truth)
    assert any("equal the gradient in every block" in note for note in notes)
    _, _, notes = numbers(Net(), credits=lambda *given: [torch.randn_like(a) for a in truth(*given)])
    assert not any("equal the gradient" in note for note in notes)


def test_nothing_is_called_proved_where_nothing_was_tested():
    net = Net()
    net.blocks = nn.ModuleList([net.blocks[0]] * 3)
    _, _, notes = numbers(net)
    assert not any("agrees with finite differences" in note for note in notes)
