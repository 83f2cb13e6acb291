"""Models and outputs as strangers have them, small enough to audit in a moment."""

from collections import OrderedDict
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional as F

CLASSES, INPUTS, WIDTH = 3, 6, 8


def with_backward(change: Callable[[Tensor], Tensor]) -> Any:
    """A function that returns its input, and whose backward makes `change` of the gradient."""

    class Changed(torch.autograd.Function):
        @staticmethod
        def forward(_ctx: Any, h: Tensor) -> Tensor:
            return h.clone()

        @staticmethod
        def backward(_ctx: Any, g: Tensor) -> Any:
            return change(g)

    return Changed.apply


class Feedback(torch.autograd.Function):
    """y = xWᵀ, whose backward sends the product with another matrix down, as libraries of feedback alignment do it."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, weight: Tensor, feedback: Tensor) -> Tensor:
        ctx.save_for_backward(x, feedback)
        return x @ weight.T

    @staticmethod
    def backward(ctx: Any, g: Tensor) -> Any:
        x, feedback = ctx.saved_tensors
        return g @ feedback.to(g), g.T @ x, None


class Residual(nn.Module):
    """h + f(h), of a branch f."""

    def __init__(self, branch: nn.Module) -> None:
        super().__init__()
        self.branch = branch

    def forward(self, h: Tensor) -> Tensor:
        out: Tensor = h + self.branch(h)
        return out


class Block(nn.Module):
    """h + f(h)."""

    def __init__(self, width: int = WIDTH) -> None:
        super().__init__()
        self.linear = nn.Linear(width, width)

    def forward(self, h: Tensor) -> Tensor:
        return h + torch.tanh(self.linear(h))


class Net(nn.Module):
    """embed → two blocks → head; `shape` makes of (hidden, logits) what the model returns."""

    def __init__(self, shape: Any = None, classes: int = CLASSES, seed: int = 0) -> None:
        super().__init__()
        torch.manual_seed(seed)
        self.embed = nn.Linear(INPUTS, WIDTH)
        self.layers = nn.ModuleList(Block() for _ in range(2))
        self.head = nn.Linear(WIDTH, classes)
        self.shape = shape

    def forward(self, x: Tensor) -> Any:
        h = self.embed(x)
        for layer in self.layers:
            h = layer(h)
        logits = self.head(h)
        return logits if self.shape is None else self.shape(h, logits)


class Tokens(nn.Module):
    """Token numbers in, one row of logits per token out, in the manner of a language model."""

    def __init__(self, words: int = 7, seed: int = 0, embedding: dict[str, Any] | None = None) -> None:
        super().__init__()
        torch.manual_seed(seed)
        self.embed = nn.Embedding(words, WIDTH, **(embedding or {}))
        self.layers = nn.ModuleList(Block() for _ in range(2))
        self.head = nn.Linear(WIDTH, words)

    def forward(self, input_ids: Tensor, attention_mask: Tensor | None = None, labels: Tensor | None = None) -> Any:
        h = self.embed(input_ids)
        if attention_mask is not None:
            h = h * attention_mask.unsqueeze(-1)
        for layer in self.layers:
            h = layer(h)
        logits = self.head(h)
        loss = None if labels is None else F.cross_entropy(logits.flatten(0, 1), labels.flatten())
        return ModelOutput(loss=loss, logits=logits, hidden_states=(h, h))


class ModelOutput(OrderedDict):  # type: ignore[type-arg]
    """As in transformers: an ordered table with attributes, without the entries that are None, indexed by place too."""

    def __init__(self, **parts: Any) -> None:
        super().__init__({key: value for key, value in parts.items() if value is not None})

    def __getattr__(self, name: str) -> Any:
        if name in self:
            return self[name]
        raise AttributeError(name)

    def __getitem__(self, key: Any) -> Any:
        return super().__getitem__(key) if isinstance(key, str) else tuple(self.values())[key]


def data(count: int = 24, seed: int = 5) -> tuple[Tensor, Tensor]:
    generator = torch.Generator().manual_seed(seed)
    labels = torch.arange(count) % CLASSES  # every class is there
    return torch.randn(count, INPUTS, generator=generator), labels
