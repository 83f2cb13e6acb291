"""The plain loop: backprop where the user has no loop of it."""

from collections.abc import Callable, Iterable, Iterator
from typing import Any

import torch
from torch import Tensor, nn

from walkback.errors import BadValue
from walkback.probes.detect_task import settle
from walkback.probes.inputs import gather, on_tensors
from walkback.probes.outputs import Asked as Output
from walkback.probes.outputs import Logits, PerSampleLoss, call, per_sample_losses

MakeOptimizer = Callable[..., torch.optim.Optimizer]  # of parameters and, if it takes one, a learning rate
RATE = 1e-3


def adam(parameters: list[nn.Parameter], lr: float = RATE) -> torch.optim.Optimizer:
    """What is taken where no optimizer is given."""
    return torch.optim.Adam(parameters, lr=lr)


def repeatable(train_batches: Any) -> Any:
    """Batches that can be gone through once per epoch: an iterator, which gives them once, is made a list."""
    if isinstance(train_batches, Iterator):
        return list(train_batches)
    return train_batches


def epoch_of(train_batches: Any, seed: int) -> Any:
    """The batches of one epoch."""
    return train_batches(seed) if callable(train_batches) and not isinstance(train_batches, Iterable) else train_batches


def plain_loop(
    model: nn.Module,
    seed: int,
    train_batches: Any,
    optimizer: MakeOptimizer | None = None,
    epochs: int = 10,
    loss: PerSampleLoss | None = None,
    output: Output = None,
) -> None:
    """Backprop end to end: the mean loss of each batch, one step per batch."""
    trained = [p for p in model.parameters() if p.requires_grad]
    stepper = (optimizer or adam)(trained)
    if not isinstance(stepper, torch.optim.Optimizer):
        raise BadValue(f"optimizer gives a {type(stepper).__name__}", "give a function of a list of parameters that "
                       "returns an optimizer, such as lambda p: torch.optim.SGD(p, lr=0.1)")  # fmt: skip
    for _ in range(epochs):
        pairs = gather(epoch_of(train_batches, seed), model, None, own_loss=loss is not None).batches
        task = settle(model, pairs, output, loss)
        reading = Logits(model, task.take)
        model.train()
        for inputs, labels in task.batches:
            stepper.zero_grad()
            logits = call(reading, on_tensors(inputs, Tensor.clone))
            per_sample_losses(logits, labels, task.loss).mean().backward()  # type: ignore[no-untyped-call]
            stepper.step()
