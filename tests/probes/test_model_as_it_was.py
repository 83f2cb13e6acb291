"""A model is as it was, whatever its forward pass or its owner's credits do. Oracle: a copy of everything before."""

import copy
import random
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional as F
from torch.utils.data import DataLoader, TensorDataset

import walkback as wb
from conftest import alike
from strangers import CLASSES, INPUTS, WIDTH, Net, Tokens, data
from walkback.probes import look
from walkback.probes.preserve import Memory, same_bits

X, Y = data()


class Restless(Net):
    """A forward pass that changes whatever it can reach."""

    def __init__(self, seed: int = 0) -> None:
        super().__init__(seed=seed)
        self.norm = nn.BatchNorm1d(WIDTH)
        self.register_buffer("calls", torch.zeros(()))
        self.count, self.history, self.table, self.names = 0, [torch.zeros(2)], {"last": torch.zeros(2)}, {"a"}
        self.last: Tensor | None = None
        self.array, self.dice = np.zeros(3), torch.Generator().manual_seed(1)
        self.outside = [nn.Linear(2, 2)]

    def forward(self, x: Tensor) -> Tensor:
        self.norm.train()  # forced: its statistics move
        h = self.norm(self.embed(x))
        self.calls += 1
        self.count += 1
        self.history.append(h[0].detach())
        self.history[0] += 1
        self.table["last"] = h[0]
        self.table["more"] = 1
        self.names.add("b")
        self.last = h
        self.array += 1
        torch.rand(2, generator=self.dice)
        with torch.no_grad():
            self.outside[0].weight.mul_(0.5)
            self.head.bias.add_(0.25)
        if not hasattr(self, "late"):
            self.late = nn.Parameter(torch.ones(1))
            self.register_buffer("cache", torch.ones(1))
            self.extra = nn.Linear(1, 1)
        for layer in self.layers:
            h = layer(h)
        return self.head(h)


def described(model: nn.Module) -> dict[str, Any]:
    """Everything there is, in values that do not change with the model."""
    return {
        "state": copy.deepcopy(dict(model.state_dict())),
        "no buffers": [k for part in model.modules() for k, b in part._buffers.items() if b is None],
        "order": [name for name, _ in model.named_modules()],
        "grads": [(id(p.grad), None if p.grad is None else p.grad.clone()) for p in model.parameters()],
        "objects": [id(t) for t in (*model.parameters(), *model.buffers())],
        "flags": [p.requires_grad for p in model.parameters()],
        "modes": [part.training for part in model.modules()],
        "hooks": [len(part._forward_hooks) + len(part._forward_pre_hooks) + len(part._backward_hooks)
                  for part in model.modules()],
        "all hooks": len(nn.modules.module._global_forward_hooks),
        "tensor hooks": [len(p._backward_hooks or {}) for p in model.parameters()],
        "keys": [sorted(vars(part)) for part in model.modules()],
        "torch": (torch.get_rng_state(), torch.get_default_dtype(), torch.get_num_threads(), torch.is_grad_enabled(),
                  torch.are_deterministic_algorithms_enabled(), torch.get_float32_matmul_precision(),
                  torch.is_anomaly_enabled(), str(torch.get_default_device()),
                  torch.backends.mha.get_fastpath_enabled()),
        "others": (random.getstate(), np.random.get_state()[1].tolist()),
    }  # fmt: skip


def notes_of(model: nn.Module, batches: Any = None, **options: Any) -> str:
    before = described(model)
    audit = wb.audit(model, [(X[:12], Y[:12]), (X[12:], Y[12:])] if batches is None else batches, "layers.*", **options)
    after = described(model)
    for key in before:
        assert alike(before[key], after[key]), key
    return " ".join(audit.subjects[0].notes)


def test_a_forward_pass_that_changes_its_model() -> None:
    model = Restless()
    F.cross_entropy(model.head(model.embed(X)), Y).backward()
    held = copy.deepcopy([model.count, model.history, model.table, model.names, model.last, model.array.tolist()])
    dice, outside = model.dice.get_state(), model.outside[0].weight.clone()
    lists = [model.history, model.table, model.names, model.array, model.history[0]]
    notes = notes_of(model)
    assert "the forward pass changes the weights of head.bias, outside.0.weight; they were put back" in notes
    now = [model.count, model.history, model.table, model.names, model.last, model.array.tolist()]
    assert alike(held, now)
    assert all(a is b for a, b in zip(lists, [model.history, model.table, model.names, model.array, model.history[0]],
                                      strict=True))  # fmt: skip
    assert torch.equal(model.dice.get_state(), dice)
    assert torch.equal(model.outside[0].weight, outside)
    assert not hasattr(model, "late")


def test_a_net_that_changes_nothing_has_no_such_note() -> None:
    """Its batches are drawn by a loader that shuffles."""
    assert "put back" not in notes_of(Net(), DataLoader(TensorDataset(X, Y), batch_size=8, shuffle=True))


def test_an_embedding_with_max_norm() -> None:
    model = Tokens(embedding={"max_norm": 0.5})
    ids = torch.arange(24).view(8, 3) % 7
    assert model.embed.weight.norm(dim=1).max() > 0.5
    notes = notes_of(model, [(ids, ids.roll(1, 1))])
    assert "the forward pass changes the weights of embed.weight; they were put back" in notes


def test_spectral_norm_in_training_mode() -> None:
    model = Net()
    nn.utils.parametrizations.spectral_norm(model.layers[0].linear)
    notes_of(model.train())


def test_a_forward_pass_that_takes_gradients() -> None:
    class Energy(Net):
        def forward(self, x: Tensor) -> Tensor:
            x = x.detach().requires_grad_()
            (force,) = torch.autograd.grad(super().forward(x).square().sum(), x, create_graph=True)
            return super().forward(x - 0.1 * force)

    wb.audit(Energy(), [(X, Y)], "head", metric=lambda out, y: out.argmax(1) == y)


def rude(model: nn.Module, x: Tensor, y: Tensor) -> list[Tensor]:
    """A credit function that trains the model, turns torch's switches and hangs up hooks."""
    x.zero_()
    y.zero_()
    model.train()
    for p in model.parameters():
        p.register_hook(lambda g: g)
    model.register_forward_hook(lambda *_: None)
    nn.modules.module.register_module_forward_hook(lambda *_: None)
    model.layers[0].register_full_backward_hook(lambda *_: None)
    optimizer = torch.optim.SGD(model.parameters(), 1.0)
    F.cross_entropy(model(torch.randn_like(x)), y).backward()
    optimizer.step()
    model.head.weight.data = torch.zeros(CLASSES, WIDTH)
    model.embed.requires_grad_(False)
    model.layers.append(nn.Linear(2, 2))
    del model._modules["head"]
    model.head = nn.Linear(WIDTH, CLASSES)
    model.note = "was here"
    torch.set_grad_enabled(False)
    torch.set_default_dtype(torch.float64)
    torch.set_num_threads(torch.get_num_threads() + 1)
    torch.use_deterministic_algorithms(True)
    torch.set_float32_matmul_precision("medium")
    torch.autograd.set_detect_anomaly(True)
    torch.set_default_device("meta")
    random.seed(1), np.random.seed(1), torch.manual_seed(1)
    return [torch.ones(len(x), WIDTH, device="cpu", dtype=torch.float32)] * 2


def polite(model: nn.Module, x: Tensor, y: Tensor) -> list[Tensor]:
    return [torch.ones(len(x), WIDTH)] * 2


def test_second_implementation_credits_that_change_everything_change_no_number() -> None:
    """The second batch is measured on the model as it was, so the rude function gives what the polite one gives."""
    model = Net()
    F.cross_entropy(model(X), Y).backward()
    kept = [X.clone(), Y.clone()]
    notes = notes_of(model, credits=rude)
    assert "the function credits changes the weights of embed.weight, embed.bias" in notes
    assert "they were put back" in notes
    assert torch.equal(X, kept[0])
    assert torch.equal(Y, kept[1])
    batches = [(X[:12], Y[:12]), (X[12:], Y[12:])]
    found = [wb.audit(Net(), batches, "layers.*", credits=credits).evidence.seeds[0] for credits in (rude, polite)]
    assert found[0].moments == found[1].moments


def test_credits_that_are_part_of_the_model_are_taken_before_it_is_put_back() -> None:
    """Second implementation: the same numbers in fresh tensors."""

    def stored(model: nn.Module, x: Tensor, y: Tensor) -> list[Tensor]:
        model.credit.copy_(torch.ones(len(x), WIDTH))
        return [model.credit] * 2

    model = Net()
    model.register_buffer("credit", torch.zeros(len(X), WIDTH))
    one = wb.audit(model, [(X, Y)], "layers.*", credits=stored).evidence.seeds[0].final.cosine
    other = wb.audit(Net(), [(X, Y)], "layers.*", credits=polite).evidence.seeds[0].final.cosine
    assert one == other
    assert model.credit.abs().sum() == 0


def test_error_a_model_is_as_it_was_after_credits_fail() -> None:
    def failing(model: nn.Module, x: Tensor, y: Tensor) -> list[Tensor]:
        rude(model, x, y)
        raise KeyError("feedback")

    model = Net()
    before = described(model)
    with pytest.raises(wb.WalkbackError, match="the function credits raised KeyError: 'feedback'"):
        wb.audit(model, [(X, Y)], "layers.*", credits=failing)
    assert alike(before, described(model))


@pytest.mark.parametrize("given", [None, 3, torch.zeros(2), {"a": 1}, "ab"])
def test_error_credits_that_are_no_list(given: Any) -> None:
    with pytest.raises(wb.WalkbackError, match="credits gives a"):
        wb.audit(Net(), [(X, Y)], "layers.*", credits=lambda *_: given)


def test_what_cannot_be_put_back_is_named() -> None:
    class Stuck(Net):
        def forward(self, x: Tensor) -> Tensor:
            self.array.flags.writeable = True
            self.array[0] += 1
            self.array.flags.writeable = False
            return super().forward(x)

    model = Stuck()
    model.array = np.zeros(2)
    notes = " ".join(look(model, [(X, Y)], "layers.*").notes)
    assert "changes array, and this could not be put back: check your model" in notes


def test_property_nan_weights_are_no_change() -> None:
    model = Net()
    with torch.no_grad():
        model.head.bias[0] = torch.nan
    assert Memory(model).restore() == ([], [])
    assert same_bits(torch.tensor([torch.nan, 1.0]), torch.tensor([torch.nan, 1.0]))
    assert not same_bits(torch.tensor([torch.nan, 1.0]), torch.tensor([torch.nan, 2.0]))
    assert not same_bits(torch.zeros(2), torch.zeros(2).double())
    assert X.shape[1] == INPUTS
