"""The promise of every probe: what it watches is afterwards as it was before."""

from collections.abc import Iterator
from contextlib import contextmanager

import torch
from torch import nn


@contextmanager
def undisturbed(*modules: nn.Module) -> Iterator[None]:
    """Evaluation mode inside; modes, gradients, buffers and random state are put back, also after an error."""
    parts = [part for module in modules for part in module.modules()]
    modes = [part.training for part in parts]
    parameters = [p for module in modules for p in module.parameters()]
    gradients = [p.grad for p in parameters]
    buffers = [(b, b.clone()) for module in modules for b in module.buffers()]
    with torch.random.fork_rng(devices=[]):
        try:
            for module in modules:
                module.eval()
            yield
        finally:
            for part, mode in zip(parts, modes, strict=True):
                part.training = mode
            for parameter, gradient in zip(parameters, gradients, strict=True):
                parameter.grad = gradient
            with torch.no_grad():
                for buffer, value in buffers:
                    buffer.copy_(value)
