"""Loops as strangers write them, with and without a watch."""

import random
from collections.abc import Callable
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn import functional as F
from torch.utils.data import DataLoader, TensorDataset

import walkback as wb

WIDTH, DEPTH, CLASSES = 12, 3, 3
SEED = torch.Generator().manual_seed(1)
X = torch.randn(160, 6, generator=SEED)
Y = (X[:, 0] > 0).long() + (X[:, 1] > 0).long()
PROBE = (X[128:], Y[128:])


class Block(nn.Module):
    def __init__(self, drop: float = 0.0) -> None:
        super().__init__()
        self.linear, self.drop = nn.Linear(WIDTH, WIDTH), nn.Dropout(drop)

    def forward(self, h: Tensor) -> Tensor:
        return h + self.drop(torch.tanh(self.linear(h)))


class Loud(Block):
    """With a large weight it blows the stream up."""

    def forward(self, h: Tensor) -> Tensor:
        return h + self.linear(h)


class Net(nn.Module):
    """embed → blocks → head; `between` is what happens to a state before the next block takes it."""

    def __init__(self, between: Callable[[Tensor], Tensor] = lambda h: h, drop: float = 0.0, seed: int = 0) -> None:
        super().__init__()
        torch.manual_seed(seed)
        self.embed = nn.Linear(6, WIDTH)
        self.blocks = nn.ModuleList(Block(drop) for _ in range(DEPTH))
        self.heads = nn.ModuleList(nn.Linear(WIDTH, CLASSES) for _ in range(DEPTH))
        self.head = nn.Linear(WIDTH, CLASSES)
        self.between = between

    def states(self, x: Tensor) -> list[Tensor]:
        h, found = self.embed(x), []
        for block in self.blocks:
            h = block(self.between(h))
            found.append(h)
        return found

    def forward(self, x: Tensor) -> Tensor:
        return self.head(self.states(x)[-1])


def detached(h: Tensor) -> Tensor:
    return h.detach()


def bp_loss(model: Net, x: Tensor, y: Tensor) -> Tensor:
    return F.cross_entropy(model(x), y)


def local_loss(model: Net, x: Tensor, y: Tensor) -> Tensor:
    """Every block has a head of its own."""
    return sum(F.cross_entropy(head(h), y) for head, h in zip(model.heads, model.states(x), strict=True))


def train(
    model: Any, watch: Any = None, steps: int = 5, loss: Any = bp_loss, batch: int = 32, lr: float = 0.1,
    trained: Any = None,
) -> Any:  # fmt: skip
    """A plain loop over the first samples, which trains the model or a part of it; returns the model."""
    inner = trained or getattr(model, "module", model)
    optimizer = torch.optim.SGD(inner.parameters(), lr=lr)
    for step in range(steps):
        rows = torch.arange(step * batch, (step + 1) * batch) % 128
        optimizer.zero_grad()
        loss(model, X[rows], Y[rows]).backward()
        if watch is not None:
            watch.step()
        optimizer.step()
    return model


def watched(model: Any, steps: int = 1, loss: Any = bp_loss, **options: Any) -> Any:
    """The watch of such a loop, closed."""
    given = {"probe": PROBE, "residual": True, "show": False, "every": 1} | options
    with wb.watch(model, "blocks.*", **given) as watch:
        train(model, watch, steps, loss)
    return watch


def loader() -> DataLoader:  # type: ignore[type-arg]
    """Shuffles by torch's global random numbers."""
    return DataLoader(TensorDataset(X[:128], Y[:128]), batch_size=32, shuffle=True)


def seeded() -> None:
    torch.manual_seed(3)
    np.random.seed(3)
    random.seed(3)
